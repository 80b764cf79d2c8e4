"""What the answers of the new master prove about its log, given when and where the offsets were saved. Pure.

Source: docs/protocol/offsets.md 8.2, docs/protocol/broker-admin.md 25, 32 and 33.
"""

from dataclasses import dataclass, replace
from typing import Final

from controller.offsets.guard.boundaries import (
    CLOCK_MARGIN_MS,
    Boundary,
    EpochBoundary,
    boundary_of_epochs,
    boundary_of_start,
    doubtful_from,
    is_to_come,
)
from controller.offsets.guard.rules import LogFacts, Tail
from remoting.admin.brokers import BrokerRuntime
from remoting.admin.log_epochs import LogEpochs
from remoting.admin.stored_messages import StoredMessage

#: Of releases that cannot pop, as 28 spells them.
_BEFORE_POP: Final = ("V3_", "V4_")
#: Nothing is proved: no message is on a side.
NO_BOUNDARY: Final = EpochBoundary(old_below=0, new_from=None)
#: All messages are new.
ALL_NEW: Final = EpochBoundary(old_below=0, new_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMoment:
    """When the mirror read the table that it has saved, and of which broker."""

    #: The master epoch that the broker was master in; None in a cluster without a controller.
    epoch: int | None
    #: Unix ms, when the answer had come.
    unix_ms: int
    #: That broker was started again in the same epoch later on, or nobody can exclude it. What it has stored since then
    #: may stand where messages were that the group had read.
    was_restarted: bool
    #: Where the log of that broker ended, requested (28) after the table had been read; None: not requested.
    log_end: int | None = None
    #: When that broker had started, Unix ms by its own clock; None: the new master has another address.
    boot_unix_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterLog:
    """What the new master answers about its log."""

    #: None: not requested, as the epochs prove all.
    runtime: BrokerRuntime | None
    #: None: it is not in controller mode (1007).
    epochs: LogEpochs | None
    #: The message at `decisive_place` (33); None: not requested, or not readable.
    decisive: StoredMessage | None = None
    #: No message is stored later while it is looked at, Unix ms by any clock that is right; None: unknown.
    latest_unix_ms: int | None = None


def are_epochs_enough(moment: SavedMoment, epochs: LogEpochs | None) -> bool:
    """Return whether the epochs prove where the logs part, without what the broker reports about itself.

    A broker that answers as master has all that was in its log in its queues (docs/protocol/controller.md 1.12).
    """
    if epochs is None or moment.epoch is None or not _has_later(epochs, moment.epoch):
        return False
    return doubtful_from(epochs.epochs, moment.epoch) is None


def decisive_place(moment: SavedMoment, epochs: LogEpochs | None, runtime: BrokerRuntime) -> int | None:
    """Return the place in the log of a message that decides about all of it; None if none does.

    By epochs it decides whether a part of the log is doubtful, without them whether the store was emptied.
    """
    if epochs is None or moment.epoch is None or not _has_later(epochs, moment.epoch):
        return 0 if runtime.commit_log_min_offset == 0 and runtime.commit_log_max_offset else None
    start = doubtful_from(epochs.epochs, moment.epoch)
    if start is None:
        return None
    first = max(start, runtime.commit_log_min_offset or 0)
    # What is left of the log is not doubtful.
    return first if first < epochs.epochs[_next_index(epochs, moment.epoch)].start_offset else None


def boundary_of(moment: SavedMoment, log: MasterLog) -> Boundary:
    """Return where the logs part: by epochs where there was a new one, else by the start of the broker.

    A broker that ran already when the offsets were read proves nothing: NO_BOUNDARY. In a cluster without epochs it may
    be a slave that was promoted since, and its start says nothing about when.
    """
    if log.epochs is not None and moment.epoch is not None and _has_later(log.epochs, moment.epoch):
        boundary = boundary_of_epochs(log.epochs.epochs, moment.epoch, is_doubtful=_is_doubtful(moment, log))
        limit_ms = moment.unix_ms - CLOCK_MARGIN_MS if moment.was_restarted else None
        return replace(boundary, old_stored_before_ms=limit_ms, latest_unix_ms=log.latest_unix_ms)
    if log.epochs is not None and moment.epoch is not None and not _has_epoch(log.epochs, moment.epoch):
        return NO_BOUNDARY
    boot = None if log.runtime is None else log.runtime.boot_unix_ms
    by_start = None if boot is None else boundary_of_start(moment.unix_ms, boot, moment.boot_unix_ms)
    if log.runtime is None or boot is None or by_start is None:
        return NO_BOUNDARY
    if _begins_after(moment, boot, log.runtime, log):
        return ALL_NEW
    return replace(by_start, latest_unix_ms=log.latest_unix_ms, log_end=moment.log_end)


def facts_of(moment: SavedMoment, log: MasterLog, tail: Tail, *, is_recent: bool, has_pulls: bool) -> LogFacts:
    """Return what is proved of the whole log; a tail that is proved to be lost is lost whatever `tail` says."""
    boundary = boundary_of(moment, log)
    parts_at = boundary.new_from if isinstance(boundary, EpochBoundary) else _end_of(log)
    is_lost = parts_at is not None and moment.log_end is not None and moment.log_end > parts_at
    has_saved_log = (
        isinstance(boundary, EpochBoundary)
        and not moment.was_restarted
        and moment.log_end is not None
        and moment.log_end <= boundary.old_below
    )
    return LogFacts(
        tail=Tail.LOST if is_lost else tail,
        is_recent=is_recent,
        has_pulls=has_pulls,
        has_saved_log=has_saved_log,
        is_emptied=isinstance(boundary, EpochBoundary) and boundary.new_from == 0,
    )


def can_pop(log: MasterLog) -> bool:
    """Return whether groups may pop from the broker (5.0+); also where its release was not requested."""
    version = None if log.runtime is None else log.runtime.version
    return version is None or not version.startswith(_BEFORE_POP)


def is_dispatched(runtime: BrokerRuntime, log_end: int) -> bool:
    """Return whether all messages before `log_end` are in their queues, as far as the broker reports it."""
    if runtime.commit_log_max_offset is None or runtime.dispatch_behind_bytes is None:
        return True
    return runtime.commit_log_max_offset - max(runtime.dispatch_behind_bytes, 0) >= log_end


def _end_of(log: MasterLog) -> int | None:
    """Return where the log ends; also what was stored since the start lies before that."""
    return None if log.runtime is None else log.runtime.commit_log_max_offset


def _has_later(epochs: LogEpochs, saved_epoch: int) -> bool:
    return bool(epochs.epochs) and epochs.epochs[-1].epoch > saved_epoch


def _has_epoch(epochs: LogEpochs, epoch: int) -> bool:
    """Return whether the last epoch is this one; an older log may have parted from it long before."""
    return not epochs.epochs or epochs.epochs[-1].epoch == epoch


def _next_index(epochs: LogEpochs, saved_epoch: int) -> int:
    return sum(each.epoch <= saved_epoch for each in epochs.epochs)


def _is_doubtful(moment: SavedMoment, log: MasterLog) -> bool:
    if are_epochs_enough(moment, log.epochs):
        return False
    if log.runtime is not None and decisive_place(moment, log.epochs, log.runtime) is None:
        return False
    first = log.decisive
    return first is None or first.store_unix_ms >= moment.unix_ms - CLOCK_MARGIN_MS


def _begins_after(moment: SavedMoment, boot_unix_ms: int, runtime: BrokerRuntime, log: MasterLog) -> bool:
    """Return whether the log begins after the start of the broker: its store was emptied.

    No margin is needed: the first message of a log that was kept is older than all offsets that were saved. One that is
    still to come shows a clock that was ahead.
    """
    first = log.decisive
    if runtime.commit_log_min_offset != 0:
        return False
    if first is None:
        return runtime.commit_log_max_offset == 0
    if is_to_come(first.store_unix_ms, log.latest_unix_ms):
        return False
    return first.store_unix_ms >= max(boot_unix_ms, moment.unix_ms)
