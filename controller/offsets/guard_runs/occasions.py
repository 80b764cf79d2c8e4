"""When the offsets of a broker set are to be set right, and from which reading of the mirror. Pure.

The run that the mirror has read last is over, and another one has begun: another broker is master, or the same one in a
later epoch, at another address or started again. What the new run shows may be older than what was read of the former
one.

How long ago the new run began decides whether an offset that is there may be raised: later on an operator may have
reset it. So only what is certain counts: bounds of which each holds, and the smallest of them.

Source: docs/protocol/offsets.md 8.2.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from controller.offsets.entry_keys import EntryKey
from controller.offsets.guard.boundaries import CLOCK_MARGIN_MS
from controller.offsets.guard.log_facts import SavedMoment
from controller.offsets.mirror.masters import MasterRun, SetName
from controller.offsets.mirror.saved_offsets import SavedOffsets
from controller.offsets.topology.values import MasterChangeKind, SetMaster
from controller.offsets.topology.watch import FRESH_MS

#: A run that began so long ago at most is recent: nobody has reset offsets there yet.
RECENT_MS: Final = 20_000
#: In less time after it was read no broker has lost messages, started again within its epoch and been lost for good:
#: for that its machine has to start.
UNSEEN_RESTART_MS: Final = 60_000
#: A former run that was not read for so long before it was over may have had resets that nobody here has seen: some
#: readings, and the time in which controllers find that a broker has failed.
UNSEEN_RESETS_MS: Final = 30_000
#: No offset of a group without members that was read longer ago is raised: it may have been deleted since.
RAISED_MS: Final = 60_000
#: What was saved is not written any more so long after the former run was seen to be over.
OUTDATED_MS: Final = 600_000


class GuardCause(enum.StrEnum):
    """Why the offsets of a set are looked at; the values label metrics."""

    FOUND = "found"
    GAINED = "gained"
    MOVED = "moved"
    ADDRESS_CHANGED = "address_changed"
    RESTARTED = "restarted"
    #: The mirror has read a new run that no change has shown: a restart within an epoch, or one before this process.
    NEW_RUN = "new_run"


#: The changes after which another run has begun.
CAUSES: Final[Mapping[MasterChangeKind, GuardCause]] = {
    MasterChangeKind.FOUND: GuardCause.FOUND,
    MasterChangeKind.GAINED: GuardCause.GAINED,
    MasterChangeKind.MOVED: GuardCause.MOVED,
    MasterChangeKind.ADDRESS_CHANGED: GuardCause.ADDRESS_CHANGED,
    MasterChangeKind.RESTARTED: GuardCause.RESTARTED,
}

#: The value before a rewind or a deletion, by entry and queue id.
Rewinds = Mapping[tuple[EntryKey, int], int]
#: Where an operator has set a queue, by entry and queue id.
Resets = Mapping[tuple[EntryKey, int], int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GuardOccasion:
    """One new run of a broker set, and what the one before it had."""

    set_name: SetName
    cause: GuardCause
    master: SetMaster
    saved: SavedOffsets
    rewinds: Rewinds
    #: When it was noticed, monotonic and Unix ms.
    noticed_ms: int
    noticed_unix_ms: int
    #: How long before that the new run began, at most; None: unknown, or the former one was not read up to its end.
    age_ms: int | None
    #: As SavedMoment has it.
    was_restarted: bool
    #: When the master has started, Unix ms by its own clock; None: unknown.
    boot_unix_ms: int | None

    @property
    def moment(self) -> SavedMoment:
        """When and of whom the offsets were read."""
        read = self.saved.read
        return SavedMoment(
            epoch=read.run.master_epoch,
            unix_ms=read.answered_unix_ms,
            was_restarted=self.was_restarted,
            log_end=read.log_max_offset,
            boot_unix_ms=read.run.boot_unix_ms if read.run.address == self.master.address else None,
        )

    def is_recent(self, now_ms: int) -> bool:
        """Return whether the former run was read up to its end, and nobody can have reset offsets since."""
        return self.age_ms is not None and now_ms - self.noticed_ms + self.age_ms <= RECENT_MS

    def is_stale(self, now_ms: int, unix_ms: int) -> bool:
        """Return whether groups may have been deleted since the offsets were read, or the clock was set back since."""
        return not 0 <= _since_read(now_ms, unix_ms, self.saved) <= RAISED_MS

    @property
    def may_be_same_process(self) -> bool:
        """Whether the master may be the process that was read, elected again, which has all: its start shows it."""
        run = self.saved.read.run
        return self.master.master_epoch is not None and (self.master.address, self.master.master_epoch - 1) == (
            run.address,
            run.master_epoch,
        )

    def is_outdated(self, now_ms: int) -> bool:
        """Return whether what was saved is not to be written any more."""
        return now_ms - self.noticed_ms > OUTDATED_MS


def is_run_of(run: MasterRun, master: SetMaster) -> bool:
    """Return whether a run is that of this master, or a later start of it, which the mirror may read first."""
    is_same = (run.address, run.master_epoch) == (master.address, master.master_epoch)
    return is_same and (master.boot_unix_ms is None or run.boot_unix_ms >= master.boot_unix_ms)


def is_older_epoch(run: MasterRun, master: SetMaster) -> bool:
    """Return whether a run can be one before that of this master: it is of no later epoch."""
    return run.master_epoch is None or master.master_epoch is None or run.master_epoch <= master.master_epoch


def former_reading(
    master: SetMaster, saved: SavedOffsets | None, before_saved: Sequence[SavedOffsets]
) -> SavedOffsets | None:
    """Return the last reading of the run before that of a master; None if it is not known, or was dealt with.

    `before_saved` are the readings of the runs before that of `saved` which were not dealt with, the oldest first.
    """
    if saved is not None and not is_run_of(saved.read.run, master):
        return saved if is_older_epoch(saved.read.run, master) else None
    return before_saved[-1] if before_saved else None


def oldest_former_reading(
    master: SetMaster, saved: SavedOffsets | None, before_saved: Sequence[SavedOffsets]
) -> SavedOffsets | None:
    """Return the last reading of the first run that was not dealt with; None where `former_reading` has none.

    A run whose memory the next one has was no loss, nor is one whose process is master again: in a cluster without a
    controller it may be, with what it had. What readings after that run show may be older than it.
    """
    newest = former_reading(master, saved, before_saved)
    if newest is None or saved is None:
        return newest
    now = saved.read.run if is_run_of(saved.read.run, master) else None
    for each, later in pairwise((*before_saved, saved)):
        run = each.read.run
        if not later.read.run.has_memory_of(run) and (now is None or not now.has_memory_of(run)):
            return each
    return newest


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """That another run has begun was noticed."""

    cause: GuardCause
    #: Monotonic and Unix ms.
    now_ms: int
    unix_ms: int
    #: When it was known last who is master, monotonic ms; None: not since the start of this process.
    known_ms: int | None
    #: When the set was found without a master, monotonic ms; None: it was not before this master.
    lost_ms: int | None
    #: When nobody listened any more where the former master was, monotonic ms; None: that is not known.
    down_ms: int | None
    #: When the master of the new run has started, Unix ms by its own clock; None: unknown.
    boot_unix_ms: int | None


def age_at_most(notice: Notice, master: SetMaster, saved: SavedOffsets) -> int | None:
    """Return how long ago the new run began at most, in ms; None if nothing bounds it.

    It began after the former one was read, as each reading is checked, and after the start of its broker. One that
    controllers show began after their last answer that did not have it yet. NameServers show a master that has failed
    for up to two minutes, and an answer of theirs says nothing about a restart. Times of a clock that was set back
    bound nothing.

    None too where the former run was not read for UNSEEN_RESETS_MS before it was over: a reset of then is not saved. It
    was over once its set was without a master, or its process was gone: a set whose only replica in sync is gone keeps
    it as its master until there is another one.
    """
    unseen_ms = _since_read(notice.now_ms, notice.unix_ms, saved)
    over_ms = [notice.now_ms - each for each in (notice.lost_ms, notice.down_ms) if each is not None]
    if not 0 <= unseen_ms <= max(over_ms, default=0) + UNSEEN_RESETS_MS:
        return None
    bounds = [unseen_ms]
    if notice.boot_unix_ms is not None:
        bounds.append(notice.unix_ms - notice.boot_unix_ms + CLOCK_MARGIN_MS)
    if notice.known_ms is not None and notice.cause in _SEEN_TO_CHANGE and master.master_epoch is not None:
        bounds.append(notice.now_ms - notice.known_ms + FRESH_MS)
    return min(each for each in bounds if each >= 0)


def _since_read(now_ms: int, unix_ms: int, saved: SavedOffsets) -> int:
    """Return how long ago the former run was read, in ms; below 0 where the clock was set back since."""
    if saved.requested_ms is None:
        return unix_ms - saved.read.answered_unix_ms
    return now_ms - saved.requested_ms


#: Controllers did not have the new run until then.
_SEEN_TO_CHANGE: Final = frozenset({GuardCause.GAINED, GuardCause.MOVED})


def occasion_of(
    set_name: SetName, notice: Notice, master: SetMaster, saved: SavedOffsets, rewinds: Rewinds
) -> GuardOccasion:
    """Return what is to be set right at a master, given the last reading of the run before."""
    epoch = saved.read.run.master_epoch
    is_same_epoch = epoch is not None and epoch == master.master_epoch
    unseen_ms = _since_read(notice.now_ms, notice.unix_ms, saved)
    return GuardOccasion(
        set_name=set_name,
        cause=notice.cause,
        master=master,
        saved=saved,
        rewinds=rewinds,
        noticed_ms=notice.now_ms,
        noticed_unix_ms=notice.unix_ms,
        age_ms=age_at_most(notice, master, saved),
        boot_unix_ms=notice.boot_unix_ms,
        was_restarted=is_same_epoch or not 0 <= unseen_ms <= UNSEEN_RESTART_MS,
    )
