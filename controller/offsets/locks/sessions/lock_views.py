"""Who holds which queues of a group, page by page. Pure."""

from heapq import nsmallest
from typing import Final

import msgspec

from controller.offsets.locks.sessions.lock_table import LockTable
from controller.offsets.locks.sessions.values import NOBODY, LockGroup
from controller.offsets.values import QueueKey

#: Queues on a page.
PAGE_LOCKS_MAX: Final = 1_000


class LockView(msgspec.Struct, frozen=True, kw_only=True):
    """The lock of one queue."""

    key: QueueKey
    token: int
    #: Blank: taken from its holder, and not acquired since.
    session_id: str
    client_id: str
    #: Until another client may have it, in ms; below 0: it may.
    remaining_ms: int
    since_unix_ms: int


class LockPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some locks of a group, in the order of their queues."""

    locks: tuple[LockView, ...]
    #: The queue after which to go on; None: this is the last page.
    next_after: QueueKey | None = None


def read_locks(
    table: LockTable, group: LockGroup, now_ms: int, after: QueueKey | None = None, locks_max: int = PAGE_LOCKS_MAX
) -> LockPage:
    """Return locks of a group, from those of the queues after this one."""
    locks = table.locks_of(group)
    limit = min(max(locks_max, 1), PAGE_LOCKS_MAX)
    keys = nsmallest(limit + 1, (key for key in locks if after is None or key > after))
    views = tuple(_view(table, key, now_ms) for key in keys[:limit])
    return LockPage(locks=views, next_after=keys[limit - 1] if len(keys) > limit else None)


def _view(table: LockTable, key: QueueKey, now_ms: int) -> LockView:
    lock = table.lock_of(key)
    assert lock is not None, "the key is of a lock"
    session = None if lock.session_id == NOBODY else table.sessions[lock.session_id]
    return LockView(
        key=key,
        token=lock.token,
        session_id=lock.session_id,
        client_id="" if session is None else session.client_id,
        remaining_ms=table.remaining_ms(lock.session_id, now_ms),
        since_unix_ms=lock.since_unix_ms,
    )
