"""Resets, seeds, clones and deletions: the remote store has them before anybody reads them, or decides on them.

They go past the journal. What begins a reset epoch wins over all that was stored before it: from the journal of a
manager that was killed it would take effect whenever that one leads again, long after clients have gone on. So the
journal has no epoch that the remote store lacks, and a change that was never acknowledged ends with its manager.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.commits.managed_offsets import ManagedOffsets
from controller.offsets.storage.formats.checks import ChangeRefused
from controller.offsets.storage.row_flusher import FLUSH_ROWS_MAX, RowNotWritable
from controller.offsets.storage.write_behind import OffsetsNotLoaded, WriteBehind
from controller.offsets.values import GroupTopic
from remoting.background_tasks import start_task
from store.store import OutcomeUnknown, StoreError

#: How long a request waits until the remote store has its changes.
CONFIRMED_S: Final = 20
#: Errors that leave the rows of a write as they were.
_NOTHING_STORED: Final = (ChangeRefused, OffsetsNotLoaded)

#: Receives the changes that the remote store has, once that is known.
Report = Callable[[Sequence[OffsetChange]], None]


async def store_confirmed(
    store: WriteBehind, table: ManagedOffsets, changes: Sequence[OffsetChange], report: Report
) -> None:
    """Stage changes that were decided just now, and return once the remote store has them and readers see them.

    Until then commits of these queues are UNKNOWN. Changes that the remote store refuses are withdrawn. Raises
    RowNotWritable for them; OutcomeUnknown after CONFIRMED_S, while they are stored all the same, and where this
    manager ceases to lead; ChangeRefused and OffsetsNotLoaded, and then nothing is stored.
    """
    table.stage(changes)
    # A caller that gives up leaves nothing half done.
    work = start_task(_store(store, table, changes, report))
    try:
        async with asyncio.timeout(CONFIRMED_S):
            error = await asyncio.shield(work)
    except TimeoutError:
        raise OutcomeUnknown(f"no answer within {CONFIRMED_S} s: {store.last_error or 'it is busy'}") from None
    if error is not None:
        raise error


async def _store(
    store: WriteBehind, table: ManagedOffsets, changes: Sequence[OffsetChange], report: Report
) -> StoreError | None:
    """Return why not all is stored, once that is known; None if it is."""
    stored: list[OffsetChange] = []
    left = list(changes)
    refused: dict[GroupTopic, str] = {}
    try:
        for part in _parts(changes):
            refused |= await store.write(part)
            written = [each for each in part if each.key.of not in refused]
            table.confirm(written)
            table.withdraw([each for each in part if each.key.of in refused])
            stored += written
            del left[: len(part)]
    except StoreError as error:
        return error if isinstance(error, _NOTHING_STORED) and not stored else OutcomeUnknown(str(error))
    finally:
        table.withdraw(left)
        if stored:
            report(stored)
    return _refusal(refused, len(changes) - len(stored), len(changes)) if refused else None


def _refusal(refused: dict[GroupTopic, str], left: int, queues: int) -> RowNotWritable:
    return RowNotWritable(f"{left} of {queues} queues were not changed: {next(iter(refused.values()))}")


def _parts(changes: Sequence[OffsetChange]) -> Iterator[Sequence[OffsetChange]]:
    """Yield changes as many rows together as one write takes; those of a row follow one another."""
    rows: set[GroupTopic] = set()
    start = 0
    for at, each in enumerate(changes):
        if each.key.of not in rows and len(rows) == FLUSH_ROWS_MAX:
            yield changes[start:at]
            start = at
            rows.clear()
        rows.add(each.key.of)
    yield changes[start:]
