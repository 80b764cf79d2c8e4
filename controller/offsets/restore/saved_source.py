"""Which offsets of the mirror are to be restored: those of a moment, or from before the last role change. The edge."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from controller.offsets.guard.boundaries import CLOCK_MARGIN_MS
from controller.offsets.guard.candidates import shows_pop
from controller.offsets.guard_runs.saved_tables import ON_PURPOSE, set_back_since
from controller.offsets.mirror.masters import MasterRun, SetName
from controller.offsets.mirror.mirrored_offsets import MirroredOffsets
from controller.offsets.mirror.regressions import RegressionCause, SetQueue
from controller.offsets.mirror.saved_offsets import DECODED_AT_ONCE, SavedEntry, SavedOffsets
from controller.offsets.restore.requests import Former, RestoreScope, TooManyRestored
from controller.offsets.restore.values import RESTORED_MAX, WantedOffset
from controller.offsets.topology.values import SetMaster
from remoting.slices import in_slices

#: What a restore leaves: the guard has set it back for a reason, too.
_SET_BACK: Final = ON_PURPOSE | {RegressionCause.GUARD}


class MasterState(NamedTuple):
    """The master of a broker set, and since when it is one."""

    master: SetMaster
    run: MasterRun
    #: When it was elected, Unix ms by the controller; None where that is not known.
    elected_unix_ms: int | None

    @property
    def began_unix_ms(self) -> int:
        """When it was elected or started, whichever was later, as far as it is known; Unix ms by other clocks."""
        return max(self.run.boot_unix_ms, self.elected_unix_ms or 0)

    def was_master(self, unix_ms: int) -> bool:
        """Return whether it was master at a moment for certain, and has not been started since.

        Where its election is not known it may have become master since without a new start.
        """
        return self.elected_unix_ms is not None and self.began_unix_ms <= unix_ms - CLOCK_MARGIN_MS


def stored_before(state: MasterState | None, first_unix_ms: int, last_unix_ms: int) -> int:
    """Return before when messages must have been stored that groups had read in offsets of a time; Unix ms.

    Who was master then has lost nothing since. Yet a topic may have been made anew since, and its messages are later
    for certain. So the margin for clocks is for the offsets there, and against them elsewhere: the last messages that a
    group had read are as young as its offset.
    """
    if state is not None and state.was_master(first_unix_ms):
        return last_unix_ms + CLOCK_MARGIN_MS
    return first_unix_ms - CLOCK_MARGIN_MS


class _SavedReading(NamedTuple):
    #: When the newest of the offsets was read, which may be long before the moment that was requested.
    unix_ms: int
    entries: Iterable[SavedEntry | None]
    #: Where the log ended then; None: it is not kept.
    log_end: int | None = None


async def wanted_offsets(
    mirrored: MirroredOffsets,
    set_name: SetName,
    state: MasterState | None,
    moment: int | Former,
    scope: RestoreScope,
) -> list[WantedOffset]:
    """Return the offsets that a broker set is to have again; `state` is None if its master does not answer.

    Raises MomentNotKept, MirrorFileFailed and TooManyRestored.
    """
    reading = await _reading(mirrored, set_name, state, moment)
    before_ms = stored_before(state, reading.unix_ms, reading.unix_ms)
    # Who names both a group and a moment wants back what it had then, whoever has set it back since.
    is_named = scope.group is not None and moment is not Former.FORMER
    unseen = mirrored.resets.unseen(set_name, reading.unix_ms)
    set_back = set_back_since(mirrored.regressions, set_name, reading.unix_ms, unseen, _SET_BACK)
    found: list[WantedOffset] = []
    popping = set[str]()
    async for part in in_slices(reading.entries, DECODED_AT_ONCE):
        popping |= popping_in(part)
        for entry in part:
            if entry is not None and scope.has_entry(entry.key):
                found += (
                    WantedOffset(
                        SetQueue(set_name, entry.key, queue_id),
                        offset,
                        before_ms,
                        log_end=reading.log_end,
                        set_back_to=None if is_named else set_back.get((entry.key, queue_id)),
                    )
                    for queue_id, offset in sorted(entry.offsets.items())
                )
        if len(found) > RESTORED_MAX:
            raise TooManyRestored(RESTORED_MAX)
    return with_pop(found, popping)


def popping_in(entries: Iterable[SavedEntry | None]) -> set[str]:
    """Return the groups that pop for certain, as these entries show."""
    return {entry.key.group for entry in entries if entry is not None and shows_pop(entry.key)}


def with_pop(wanted: Iterable[WantedOffset], popping: AbstractSet[str]) -> list[WantedOffset]:
    """Return the same offsets with what is known of groups that pop."""
    return [each._replace(shows_pop=each.shows_pop or each.queue.key.group in popping) for each in wanted]


def _of(saved: SavedOffsets) -> _SavedReading:
    return _SavedReading(saved.read.requested_unix_ms, saved.entries(), saved.read.log_max_offset)


async def _reading(
    mirrored: MirroredOffsets, set_name: SetName, state: MasterState | None, moment: int | Former
) -> _SavedReading:
    if not isinstance(moment, Former):
        past = await mirrored.at(set_name, moment)
        return _SavedReading(past.unix_ms, past.entries())
    if state is None:
        saved = mirrored.saved(set_name)
        return _SavedReading(0, ()) if saved is None else _of(saved)
    if former := mirrored.saved_before(set_name, state.run):
        return _of(former[-1])
    # The guard has dealt with them; what they were is kept all the same.
    before_ms = state.began_unix_ms - 1
    past = await mirrored.at(set_name, before_ms)
    return _SavedReading(past.unix_ms, past.entries())
