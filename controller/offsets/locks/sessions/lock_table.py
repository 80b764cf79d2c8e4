"""Sessions, locks and freezes in memory, and the only place where they change.

A change is applied as soon as it is decided, so that the next decision goes on from it, and answered once it is
stored. What others are answered meanwhile keeps them away from a queue, which is no harm if it turns out not to be
stored. If storing fails, the table is loaded again from the store. Renewals are not stored: loading begins every
lease again, so after a restart, or a change of the manager's leader, hand-over is delayed by up to one ttl and never
early. What is not stored has nothing that compares the leader: a manager that was paused, and is not the leader any
more, would go on to renew the leases of queues that its successor has granted. So a lease begins again only while the
lead lasts for certain.

Tokens come from one counter for all queues, so they rise per queue, whether it was free meanwhile or not, and nothing
has to be kept of free queues. Source: docs/protocol/queue-locks.md 7.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from controller.offsets.commits.freezes import FreezeTable
from controller.offsets.locks.sessions.refusals import LeadUncertain, SessionEnded
from controller.offsets.locks.sessions.values import (
    NOBODY,
    Lead,
    LockChange,
    LockChanges,
    LockGroup,
    LockSession,
    OrderlyChange,
    QueueLock,
    SessionChange,
)
from controller.offsets.values import NO_TOKEN, QueueKey

_NO_LOCKS: Final[Mapping[QueueKey, QueueLock]] = MappingProxyType({})


class LockTable:
    """Who holds which queue."""

    def __init__(self) -> None:
        self._sessions: dict[str, LockSession] = {}
        #: Session id -> when its lease began, monotonic ms.
        self._renewed_ms: dict[str, int] = {}
        #: Session id -> its queues.
        self._queues: dict[str, set[QueueKey]] = {}
        self._of_group: dict[LockGroup, set[str]] = {}
        #: By what begins both a LockGroup and a GroupTopic: each commit looks here.
        self._locks: dict[tuple[str, str, str], dict[QueueKey, QueueLock]] = {}
        self._orderly: set[LockGroup] = set()
        self._lock_count = 0
        #: The highest token ever granted.
        self.last_token = NO_TOKEN
        #: What gets no locks.
        self.freezes: Final = FreezeTable()

    # Sessions

    @property
    def sessions(self) -> Mapping[str, LockSession]:
        """Return all sessions by their ids, also those whose lease is over."""
        return self._sessions

    def sessions_of(self, group: LockGroup) -> Collection[str]:
        """Return the ids of a group's sessions."""
        return self._of_group.get(group, ())

    def remaining_ms(self, session_id: str, now_ms: int) -> int:
        """Return for how long the lease of a session lasts; below 0: it is over, and others may have its queues."""
        session = self._sessions.get(session_id)
        if session is None:
            return -1
        return session.ttl_ms - (now_ms - self._renewed_ms[session_id])

    def living(self, session_id: str, now_ms: int) -> LockSession:
        """Return a session whose lease lasts. Raises SessionEnded."""
        if self.remaining_ms(session_id, now_ms) < 0:
            raise SessionEnded(session_id)
        return self._sessions[session_id]

    def renewed_ms(self, session_id: str) -> int:
        """Return when the lease of a session began."""
        return self._renewed_ms[session_id]

    def queues_of(self, session_id: str) -> Collection[QueueKey]:
        """Return the queues that a session holds; of NOBODY those that were taken from their holders."""
        return self._queues.get(session_id, ())

    # Locks

    @property
    def count(self) -> int:
        """Return how many locks there are, with those that were taken from their holders."""
        return self._lock_count

    def lock_of(self, key: QueueKey) -> QueueLock | None:
        """Return the lock of a queue, whether the lease of its session lasts or not."""
        return self._locks.get(key.of[:3], _NO_LOCKS).get(key)

    def locks_of(self, group: LockGroup) -> Mapping[QueueKey, QueueLock]:
        """Return the locks of a group."""
        return self._locks.get(group, _NO_LOCKS)

    def required_token(self, key: QueueKey) -> int:
        """Return the token that commits on a queue must have now, NO_TOKEN if they need none."""
        if not self._locks:
            return NO_TOKEN
        lock = self.lock_of(key)
        return NO_TOKEN if lock is None else lock.token

    # Groups

    def is_orderly(self, group: LockGroup) -> bool:
        """Return whether a group is declared orderly."""
        return group in self._orderly

    @property
    def orderly_groups(self) -> Collection[LockGroup]:
        """Return the groups that are declared orderly."""
        return self._orderly

    # Changes

    def apply(self, changes: LockChanges, now_ms: int) -> None:
        """Make a change that was decided just now, or load what is stored; leases of new sessions begin now."""
        for group in changes.groups:
            self._apply_group(group)
        # Sessions end after their locks, and begin before them.
        for session in changes.sessions:
            if session.after is not None:
                self._open(session.after, now_ms)
        for lock in changes.locks:
            self._apply_lock(lock)
        for session in changes.sessions:
            if session.after is None:
                self._close(session)
        self.last_token = max(self.last_token, changes.last_token)

    def raise_last_token(self, token: int) -> None:
        """Grant no token up to this one any more; at a start, the highest in any stored offset.

        That fences holders from before, even if the locks were restored from an older backup.
        """
        self.last_token = max(self.last_token, token)

    def renew(self, session_id: str, now_ms: int, lead: Lead) -> LockSession:
        """Begin the lease of a session again; one that is over stays over. Raises SessionEnded and LeadUncertain."""
        check_lead(lead, now_ms)
        session = self.living(session_id, now_ms)
        self._renewed_ms[session_id] = now_ms
        return session

    def begin_leases(self, paused_ms: int, now_ms: int, lead: Lead) -> None:
        """Begin leases again after a pause of this process, in which renewals could not arrive: those lasting then.

        The lead has to cover the whole pause: then nobody was granted their queues meanwhile, and they are still
        theirs. Raises LeadUncertain otherwise: read in the store whether the lead is still the same. If it is, begin
        them with its new end, `paused_ms` as before; if it was lost, load the table.
        """
        if lead.since_ms > paused_ms:
            raise LeadUncertain
        check_lead(lead, now_ms)
        for session_id in self._renewed_ms:
            if self.remaining_ms(session_id, paused_ms) >= 0:
                self._renewed_ms[session_id] = now_ms

    def _open(self, session: LockSession, now_ms: int) -> None:
        self._sessions[session.session_id] = session
        self._renewed_ms[session.session_id] = now_ms
        self._of_group.setdefault(session.group, set()).add(session.session_id)

    def _close(self, change: SessionChange) -> None:
        assert not self._queues.get(change.session_id), "a session gives its queues up before it ends"
        session = self._sessions.pop(change.session_id)
        del self._renewed_ms[change.session_id]
        of_group = self._of_group[session.group]
        of_group.discard(change.session_id)
        if not of_group:
            del self._of_group[session.group]

    def _apply_lock(self, change: LockChange) -> None:
        key, _, after = change
        group = key.of[:3]
        locks = self._locks.setdefault(group, {})
        before = locks.pop(key, None)
        assert before == change.before, f"{key} was decided on another lock"
        if before is not None:
            self._lock_count -= 1
            self._give_up(before.session_id, key)
        if after is not None:
            self._lock_count += 1
            locks[key] = after
            self._queues.setdefault(after.session_id, set()).add(key)
            self.last_token = max(self.last_token, after.token)
        if not locks:
            del self._locks[group]

    def _give_up(self, session_id: str, key: QueueKey) -> None:
        queues = self._queues.get(session_id)
        if queues is None:
            return
        queues.discard(key)
        if not queues:
            del self._queues[session_id]

    def _apply_group(self, change: OrderlyChange) -> None:
        if change.after:
            self._orderly.add(change.group)
        else:
            self._orderly.discard(change.group)


def check_lead(lead: Lead, now_ms: int) -> None:
    """Raise LeadUncertain if another manager may lead."""
    if not lead.lasts(now_ms):
        raise LeadUncertain


def load_locks(
    sessions: Iterable[LockSession],
    locks: Mapping[QueueKey, QueueLock],
    groups: Iterable[LockGroup],
    *,
    last_token: int,
    now_ms: int,
) -> LockTable:
    """Return the table of what is stored; every lease begins now.

    A lock whose session is not stored is free: its session was closed, and the store has lost a part of that.
    """
    table = LockTable()
    table.apply(
        LockChanges(
            sessions=tuple(SessionChange(each.session_id, None, each) for each in sessions),
            groups=tuple(OrderlyChange(each, before=False, after=True) for each in groups),
            last_token=max([last_token, *(each.token for each in locks.values())]),
        ),
        now_ms,
    )
    kept = {key: each for key, each in locks.items() if each.session_id in table.sessions or each.session_id == NOBODY}
    table.apply(LockChanges(locks=tuple(LockChange(key, None, each) for key, each in kept.items())), now_ms)
    return table
