"""Sessions, locks, orderly groups and the last token as rows of the store of offsets. Pure.

So one journal record has a whole change, and what is acknowledged of locks is as durable as offsets are. The rows have
cluster names with a control character, which no request may have: none of them is anybody's offsets.

| what | names of the row | the offset |
|---|---|---|
| a lock | those of the queue | the token, which is a later lock's higher one; writer: the session |
| a session | group, client id, session id | its ttl |
| an orderly group | group | 0 |
| the last token | none | the token |
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.locks.sessions.lock_table import LockTable, load_locks
from controller.offsets.locks.sessions.values import (
    LockChange,
    LockChanges,
    LockGroup,
    LockSession,
    OrderlyChange,
    QueueLock,
    SessionChange,
)
from controller.offsets.storage.remote import RemoteRow
from controller.offsets.values import LAST_ROW_MARK, GroupTopic, OffsetSource, QueueKey, StoredOffset

_LOCK: Final = "\x01"
_SESSION: Final = "\x02"
_ORDERLY: Final = "\x03"
_LAST: Final = LAST_ROW_MARK
_LAST_TOKEN: Final = QueueKey(GroupTopic(_LAST, "", "", "", ""), 0)
#: A cluster name of locks has its mark before it, and the store takes 255 characters.
CLUSTER_CHARACTERS_MAX: Final = 254


class UnreadableLocks(Exception):
    """Rows of locks cannot be read: nobody may be granted a queue that another client may hold."""


class _StoredLocks(NamedTuple):
    sessions: list[LockSession]
    locks: dict[QueueKey, QueueLock]
    groups: list[LockGroup]


def changes_of(changes: LockChanges, last_token: int, unix_ms: int) -> tuple[OffsetChange, ...]:
    """Return the rows that a change of locks changes; `last_token` is the highest until now."""
    rows = [
        *(_of_group(each) for each in changes.groups),
        *(_of_session(each) for each in changes.sessions),
        *(_of_lock(each) for each in changes.locks),
    ]
    if changes.last_token > last_token:
        before = StoredOffset(last_token) if last_token else None
        rows.append(OffsetChange(_LAST_TOKEN, before, StoredOffset(changes.last_token, unix_ms=unix_ms)))
    return tuple(rows)


def loaded_locks(rows: Mapping[GroupTopic, RemoteRow], highest_token: int, now_ms: int) -> LockTable:
    """Return the locks that are stored; tokens go on above the highest of any offset. Raises UnreadableLocks."""
    stored = _StoredLocks([], {}, [])
    last_token = highest_token
    for of, row in rows.items():
        if row.problem:
            raise UnreadableLocks(row.problem)
        mark = of.cluster[:1]
        if mark == _LOCK:
            stored.locks.update(_locks(of, row.queues))
        elif mark == _SESSION:
            stored.sessions.extend(_sessions(of, row.queues.values()))
        elif mark == _ORDERLY:
            stored.groups.append(_group(of))
        elif mark == _LAST:
            last_token = max([last_token, *(each.offset for each in row.queues.values())])
    return load_locks(stored.sessions, stored.locks, stored.groups, last_token=last_token, now_ms=now_ms)


def _of_lock(change: LockChange) -> OffsetChange:
    (of, queue_id), before, after = change
    key = QueueKey(of._replace(cluster=_LOCK + of.cluster), queue_id)
    return OffsetChange(key, _lock_value(before), _lock_value(after))


def _lock_value(lock: QueueLock | None) -> StoredOffset | None:
    if lock is None:
        return None
    return StoredOffset(lock.token, 0, OffsetSource.CLIENT, lock.session_id, lock.token, lock.since_unix_ms)


def _locks(of: GroupTopic, queues: Mapping[int, StoredOffset]) -> Iterator[tuple[QueueKey, QueueLock]]:
    row = of._replace(cluster=of.cluster[1:])
    for queue_id, each in queues.items():
        yield (
            QueueKey(row, queue_id),
            QueueLock(token=each.token, session_id=each.writer, since_unix_ms=each.unix_ms),
        )


def _of_session(change: SessionChange) -> OffsetChange:
    session = change.after or change.before
    assert session is not None, "one of them is there"
    group = session.group
    of = GroupTopic(_SESSION + group.cluster, group.namespace, group.group, session.client_id, session.session_id)
    return OffsetChange(QueueKey(of, 0), _session_value(change.before), _session_value(change.after))


def _session_value(session: LockSession | None) -> StoredOffset | None:
    return None if session is None else StoredOffset(session.ttl_ms, unix_ms=session.opened_unix_ms)


def _sessions(of: GroupTopic, stored: Iterable[StoredOffset]) -> Iterator[LockSession]:
    for each in stored:
        yield LockSession(
            session_id=of.broker_name,
            group=_group(of),
            client_id=of.topic,
            ttl_ms=each.offset,
            opened_unix_ms=each.unix_ms,
        )


def _of_group(change: OrderlyChange) -> OffsetChange:
    group = change.group
    key = QueueKey(GroupTopic(_ORDERLY + group.cluster, group.namespace, group.group, "", ""), 0)
    # Without a time: the store removes it only where it is as old as what is stored.
    declared = StoredOffset(0)
    return OffsetChange(key, declared if change.before else None, declared if change.after else None)


def _group(of: GroupTopic) -> LockGroup:
    return LockGroup(of.cluster[1:], of.namespace, of.group)
