"""Sessions: opened, renewed, closed, and ended by their leases. Pure.

A client counts its lease from before it sent the renewal, on a monotonic clock, and consumes for half a ttl without
one; here it is counted from when the renewal was received, and lasts a whole ttl. So a holder has stopped, by half a
ttl, before another client can be granted its queue. Source: docs/protocol/queue-locks.md 7.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from controller.offsets.commits.entry_checks import problem_of_name
from controller.offsets.locks.sessions.acquire import problem_of_concurrent
from controller.offsets.locks.sessions.decision import LockDecision
from controller.offsets.locks.sessions.lock_table import LockTable
from controller.offsets.locks.sessions.refusals import SessionRefused, TooManySessions
from controller.offsets.locks.sessions.values import (
    NO_CHANGES,
    QUEUES_PER_SESSION_MAX,
    SESSIONS_MAX,
    SESSIONS_PER_GROUP_MAX,
    TTL_MS_MAX,
    TTL_MS_MIN,
    LockChange,
    LockChanges,
    LockSession,
    SessionChange,
)
from controller.offsets.values import QueueKey

#: Sessions that one decision ends; those that remain are ended by the next.
ENDED_MAX: Final = 500


class SessionHeld(msgspec.Struct, frozen=True, kw_only=True):
    """A session with what its client has to keep to."""

    session_id: str
    #: Without a renewal its client stops consuming after so long, from before it sent this request: half the ttl. What
    #: is left of that, if the request did not renew the lease; 0: renew it before consuming.
    valid_ms: int
    #: How often to renew: a third of the ttl; at once if `valid_ms` is below that.
    renew_every_ms: int
    #: The queues that it holds with their tokens. One that is missing is lost: drop what is cached of it.
    queues: tuple[tuple[QueueKey, int], ...] = ()
    #: Of a new session: that its client id has others open; blank if it has none.
    note: str = ""


def decide_open(table: LockTable, session: LockSession, now_ms: int) -> LockDecision[SessionHeld]:
    """Open a session; a repeated request for the same one changes nothing, and does not renew its lease.

    The session id is one that nobody can guess. A client that has lost its session opens another one beside it: the
    queues of the first become free with its lease, as its process may still run. Raises SessionRefused and
    TooManySessions.
    """
    if problem := _problem_of(session):
        raise SessionRefused(problem)
    present = table.sessions.get(session.session_id)
    if present is not None:
        if (present.group, present.client_id, present.ttl_ms) != (session.group, session.client_id, session.ttl_ms):
            raise SessionRefused(f"session {session.session_id} is another client's: use a new id")
        table.living(session.session_id, now_ms)
        answer = held(table, present)
        passed_ms = now_ms - table.renewed_ms(session.session_id)
        return LockDecision(NO_CHANGES, replace(answer, valid_ms=max(answer.valid_ms - passed_ms, 0)))
    # Otherwise whoever may open sessions could fill the table with groups that do not exist.
    if not table.is_orderly(session.group):
        raise SessionRefused(problem_of_concurrent(session.group.group))
    if len(table.sessions) >= SESSIONS_MAX:
        raise TooManySessions(f"{SESSIONS_MAX} sessions are open, as many as allowed: close those of unused clients")
    if len(table.sessions_of(session.group)) >= SESSIONS_PER_GROUP_MAX:
        name = session.group.group
        raise TooManySessions(f"group {name} has {SESSIONS_PER_GROUP_MAX} sessions, as many as allowed: close some")
    opened = SessionChange(session.session_id, None, session)
    answer = replace(held(table, session), note=_note_of_others(table, session, now_ms))
    return LockDecision(LockChanges(sessions=(opened,)), answer)


def _note_of_others(table: LockTable, session: LockSession, now_ms: int) -> str:
    of_client = (i for i in table.sessions_of(session.group) if table.sessions[i].client_id == session.client_id)
    lasts_ms = max((table.remaining_ms(i, now_ms) for i in of_client), default=-1)
    if lasts_ms < 0:
        return ""
    return (
        f"client id {session.client_id} has an open session of this group already: its queues are free once it is "
        f"closed, or in {lasts_ms + 1} ms unless it is renewed; two processes must not share a client id"
    )


def held(table: LockTable, session: LockSession) -> SessionHeld:
    """Return the answer to a client that has opened or renewed its session just now."""
    queues = []
    for key in sorted(table.queues_of(session.session_id)):
        lock = table.lock_of(key)
        assert lock is not None, "a queue of a session is locked"
        queues.append((key, lock.token))
    return SessionHeld(
        session_id=session.session_id,
        valid_ms=session.ttl_ms // 2,
        renew_every_ms=session.ttl_ms // 3,
        queues=tuple(queues),
    )


def decide_close(table: LockTable, session_id: str) -> LockChanges:
    """Return the end of a session, with all its queues free; nothing if it has ended already.

    Offsets are committed before, or queues released with them.
    """
    return _ended(table, [session_id] if session_id in table.sessions else [])


def decide_expiry(table: LockTable, now_ms: int) -> LockChanges:
    """Return the end of sessions whose leases are over, for every second: some of them if there are many.

    Their queues can be acquired without it as well; it is for the table not to grow.
    """
    ended: list[str] = []
    queues = 0
    for session_id in table.sessions:
        if table.remaining_ms(session_id, now_ms) < 0:
            ended.append(session_id)
            queues += len(table.queues_of(session_id))
            if len(ended) == ENDED_MAX or queues >= QUEUES_PER_SESSION_MAX:
                break
    return _ended(table, ended)


def _ended(table: LockTable, session_ids: list[str]) -> LockChanges:
    keys = [key for each in session_ids for key in sorted(table.queues_of(each))]
    return LockChanges(
        sessions=tuple(SessionChange(each, table.sessions[each], None) for each in session_ids),
        locks=tuple(LockChange(key, table.lock_of(key), None) for key in keys),
    )


def _problem_of(session: LockSession) -> str:
    named = {"session id": session.session_id, "client id": session.client_id, "group": session.group.group}
    for word, name in {**named, "cluster": session.group.cluster}.items():
        if not name.strip():
            return f"the {word} is blank: name it"
    for word, name in {**named, "cluster": session.group.cluster, "namespace": session.group.namespace}.items():
        if name and (problem := problem_of_name(name)):
            return f"the {word} {problem}"
    if not TTL_MS_MIN <= session.ttl_ms <= TTL_MS_MAX:
        return f"a ttl of {session.ttl_ms} ms is not in {TTL_MS_MIN} to {TTL_MS_MAX} ms"
    return ""
