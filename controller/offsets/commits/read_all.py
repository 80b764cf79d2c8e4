"""Offsets by group, topic or broker, page by page. Pure.

A page is of one moment, that of its revision. An offset that is there from the first page to the last is on one of
them, once; others may be on none. Source: docs/protocol/offsets.md 7.
"""

from typing import Final

import msgspec

from controller.offsets.commits.managed_offsets import ManagedOffsets
from controller.offsets.commits.page_order import PageCursor
from controller.offsets.commits.refusals import RowsUnavailable, TooManyRows
from controller.offsets.commits.scopes import OffsetScope
from controller.offsets.values import GroupTopic, QueueKey, StoredOffset

#: Offsets on a page, unless its last row has more queues.
PAGE_OFFSETS_MAX: Final = 1_000
#: Rows that are looked at for one page: some 2 ms. A page of a rare topic may be empty, and not the last.
PAGE_ROWS_MAX: Final = 10_000


class OffsetPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the offsets in a scope."""

    #: With all queues of each row that is on it.
    offsets: tuple[tuple[QueueKey, StoredOffset], ...]
    #: Rows in the scope that cannot be read, with the reasons; on the last page alone.
    unavailable: tuple[tuple[GroupTopic, str], ...] = ()
    #: Where to go on; None: this is the last page.
    next: PageCursor | None = None
    #: Two pages of one revision are of the same moment. Begins anew when the process does.
    revision: int


def read_page(
    table: ManagedOffsets, scope: OffsetScope, cursor: PageCursor | None = None, offsets_max: int = PAGE_OFFSETS_MAX
) -> OffsetPage:
    """Return a page of the durable offsets in a scope.

    Raises RowsUnavailable while rows are being loaded: those that are missing would seem absent. Raises PageExpired.
    """
    if not table.is_loaded:
        raise RowsUnavailable("the offsets are being loaded: repeat in a second")
    start = table.order.start(cursor)
    found: list[tuple[QueueKey, StoredOffset]] = []
    for looked, (position, of) in enumerate(table.order.walk(scope, start)):
        if looked == PAGE_ROWS_MAX or len(found) >= min(offsets_max, PAGE_OFFSETS_MAX):
            next_page = table.order.cursor(position)
            return OffsetPage(offsets=tuple(found), next=next_page, revision=table.revision)
        if of is not None:
            queues = sorted(table.durable_queues_of(of).items())
            found += [(QueueKey(of, queue_id), stored) for queue_id, stored in queues]
    unavailable = tuple((of, why) for of, why in table.unreadable.items() if scope.covers(of))
    return OffsetPage(offsets=tuple(found), unavailable=unavailable, revision=table.revision)


def rows_in(table: ManagedOffsets, scope: OffsetScope, offsets_max: int) -> list[GroupTopic]:
    """Return the rows of a scope, for a decision on all of them.

    Raises RowsUnavailable if one cannot be read, and TooManyRows if they have more offsets than this.
    """
    if not table.is_loaded:
        raise RowsUnavailable("the offsets are being loaded: repeat in a second")
    for of, reason in table.unreadable.items():
        if scope.covers(of):
            raise RowsUnavailable(reason)
    rows, offsets = [], 0
    for of in table.order.of_scope(scope):
        rows.append(of)
        offsets += sum(not each.is_deleted for each in table.queues_of(of).values())
        if offsets > offsets_max:
            raise TooManyRows(offsets_max)
    return rows
