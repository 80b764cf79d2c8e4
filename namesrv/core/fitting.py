"""What fits into an answer that lists broker sets, of what hosts have registered for it.

Everybody gets these answers, and no peer reads more than 16 MiB. So each host has a share of one; where all together
are too long, those that add most have less. The latest that a host added is left out first, its own sets and its
members of others' sets alike. Pure.
"""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from namesrv.core.tables.broker_table import Addition, RegisteredSet
from namesrv.core.values.cooperative import CooperativeTask, in_batches

#: All that an answer lists, in bytes; JSON writes some characters as two.
ANSWER_BYTES_MAX: Final = 7 * 1024 * 1024
#: What each of the topicSetsPerHostMax sets of a host may add to a route, in bytes.
ROUTE_BYTES_PER_SET: Final = 1024
#: A host may add so much to a route, however few sets it may have.
ROUTE_HOST_BYTES_MIN: Final = 64 * 1024
Row = TypeVar("Row")


def fitting(
    rows: Sequence[Row],
    additions_of: Callable[[Row], Iterable[Addition]],
    host_max: int = sys.maxsize,
    size_max: int = 0,
) -> CooperativeTask[Sequence[Row]]:
    """Return the rows that fit of each host, sets with those of their members that do; all of them are `rows` itself.

    `size_max` is that of all, 0 for ANSWER_BYTES_MAX.
    """
    # Additions are worked out twice: to keep those of very many sets is what takes time.
    sums: Counter[str] = Counter()
    for part in in_batches(rows):
        for row in part:
            for host, _, size in additions_of(row):
                sums[host] += size
        yield
    share = min(host_max, share_of(sums.values(), size_max or ANSWER_BYTES_MAX))
    if max(sums.values(), default=0) <= share:
        return rows
    used: Counter[str] = Counter()
    fit: list[Row] = []
    for part in in_batches(rows):
        fit += [fits for row in part if (fits := _fitting(row, additions_of(row), used, share)) is not None]
        yield
    return fit


def share_of(sums: Collection[int], size_max: int) -> int:
    """Return how much a host may have so that all, which would have `sums`, have `size_max`."""
    rest = size_max
    for number, size in enumerate(sorted(sums)):
        if size * (len(sums) - number) > rest:
            return rest // (len(sums) - number)
        rest -= size
    return size_max


def _fitting(row: Row, added: Iterable[Addition], used: Counter[str], share: int) -> Row | None:
    """Return a row, a set with the members that fit beside what is `used`, which it adds to; None if it does not."""
    left_out: set[int | None] = set()
    for host, broker_id, size in added:
        if used[host] + size > share:
            left_out.add(broker_id)
        else:
            used[host] += size
    if not left_out:
        return row
    if None in left_out or not isinstance(row, RegisteredSet):
        return None
    members = {i: member for i, member in row.members.items() if i not in left_out}
    return replace(row, members=members) if members else None
