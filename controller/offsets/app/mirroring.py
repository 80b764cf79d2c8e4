"""The mirror of brokers' offsets as this process runs it: whom it reads, what it finds, and what it keeps.

Each manager mirrors for itself, also while another one leads: whoever leads next knows what masters had.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from controller.offsets.app.following import Following
from controller.offsets.config import OffsetManagerConfig
from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.absent_sets import AbsentSets
from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror.changes import MirrorChanges
from controller.offsets.mirror.kept_rewinds import KeptRewinds
from controller.offsets.mirror.masters import MasterRun, MirroredMaster, SetName
from controller.offsets.mirror.mirrored_offsets import PastOffsets
from controller.offsets.mirror.poller import MirrorPoller, MirrorRuntime, PollerOptions, PollReport
from controller.offsets.mirror.regressions import (
    EarlierResets,
    GuardWrites,
    KnownResets,
    KnownWrites,
    Regression,
    RegressionLog,
    Reset,
    SetQueue,
    regressions_of,
)
from controller.offsets.mirror.saved_offsets import SavedOffsets
from controller.offsets.mirror.statuses import MirrorStatus
from controller.offsets.mirror_file.keeper import KeeperParts, MirrorKeeper
from controller.offsets.mirror_file.updates import LoadedMirror
from controller.offsets.observability.mirror_event_log import MirrorEventLog
from controller.offsets.topology.values import MasterChange
from remoting.admin.client import AdminClient, AdminLimits
from remoting.background_tasks import BackgroundTasks
from remoting.client import Requester
from remoting.clock import Clock
from remoting.slices import in_slices

if TYPE_CHECKING:
    from serving.process.background_tasks import BackgroundTask

#: How often sets are looked at that nobody shows.
LOOK_S: Final = 60.0
#: Regressions that are made before others run: about a millisecond.
_SLICE_REGRESSIONS: Final = 200


class MirroringParts(NamedTuple):
    """What the mirror works with."""

    following: Following
    client: Requester
    tasks: BackgroundTasks
    clock: Clock
    event_log: MirrorEventLog
    #: Whether this manager leads: the guard of no other one writes.
    leads: Callable[[], bool]
    #: Returns what operators have set back by this manager before this process.
    earlier_resets: Callable[[], Awaitable[EarlierResets]]


class Mirroring:
    """The mirror of all broker sets, in memory and in the file."""

    def __init__(self, config: OffsetManagerConfig, parts: MirroringParts) -> None:
        self._following, client, tasks, self._clock, self._event_log = parts[:5]
        self._leads, self._earlier_resets = parts.leads, parts.earlier_resets
        self.regressions: Final = RegressionLog()
        self.resets: Final = KnownResets()
        self._guard_writes = GuardWrites()
        self._rewinds = KeptRewinds()
        self._absent = AbsentSets()
        self._loaded = asyncio.Event()
        options = PollerOptions(period_ms=config.mirror_period_ms)
        runtime = MirrorRuntime(
            admin=AdminClient(client, AdminLimits(requests_max=2 * (options.polls_max + options.failing_polls_max))),
            clock=self._clock,
            listener=self,
            masters=self._masters,
            is_fresh=self._following.is_fresh,
            tasks=tasks,
        )
        self._poller = MirrorPoller(runtime, options)
        self._keeper = MirrorKeeper(
            KeeperParts(
                folder=Path(config.store_path),
                bytes_max=config.mirror_bytes_max,
                mirrors=self._poller,
                regressions=self.regressions,
                rewinds=self._rewinds,
                opened_late=self._take_late,
                clock=self._clock,
                observer=self._event_log,
            )
        )
        self._following.listeners.append(self)

    def work(self) -> "list[BackgroundTask]":
        """Return what runs for as long as the manager serves."""
        return [self._keep_mirror, self._poll_masters, self._look_at_sets]

    async def close(self) -> None:
        """Store what is new."""
        await self._keeper.close()

    # What others use

    def saved(self, set_name: SetName) -> SavedOffsets | None:
        """Return the newest reading of a broker set; None before the first."""
        mirror = self._poller.mirror_of(set_name)
        return None if mirror is None else mirror.saved

    def saved_before(self, set_name: SetName, run: MasterRun) -> tuple[SavedOffsets, ...]:
        """Return the last readings of runs before this one that were not settled, the oldest first."""
        mirror = self._poller.mirror_of(set_name)
        return () if mirror is None else mirror.saved_before(run)

    def down_since(self, set_name: SetName) -> int | None:
        """Return since when nobody listens where the master was that was read last, monotonic ms; None: not known."""
        return self._poller.down_since(set_name)

    def settle(self, set_name: SetName, run: MasterRun) -> None:
        """Forget what earlier runs had: it was dealt with in this run."""
        mirror = self._poller.mirror_of(set_name)
        if mirror is not None and mirror.former_runs:
            mirror.settle(run)
            self._keeper.settled(set_name)

    async def at(self, set_name: SetName, unix_ms: int) -> PastOffsets:
        """Return the offsets of a moment; raises MomentNotKept and MirrorFileFailed."""
        return await self._keeper.at(set_name, unix_ms)

    def rewinds(self, set_name: SetName) -> dict[tuple[EntryKey, int], int]:
        """Return the highest offset of each queue that somebody has set back or deleted, by entry and queue id."""
        return self._rewinds.of_set(set_name)

    def unseen_resets(self, set_name: SetName, requested_unix_ms: int) -> Mapping[tuple[EntryKey, int], int]:
        """Return where operators have set queues by this manager, where a reading requested then may not show it."""
        return self.resets.unseen(set_name, requested_unix_ms)

    def is_reset_unseen(self, queue: SetQueue, requested_unix_ms: int) -> bool:
        """Return whether an operator has set a queue by this manager, and a reading requested then may not show it."""
        return self.resets.is_unseen(queue, requested_unix_ms)

    def guard_writes(self, queue: SetQueue, offset: int) -> None:
        """Remember what the guard is about to set: a reading that shows it shows nobody's rewind."""
        self._guard_writes.written.note(queue, Reset(offset, self._clock.unix_ms()))

    def statuses(self) -> list[MirrorStatus]:
        """Return how old the mirror of each set is, by name."""
        return self._poller.statuses()

    def kept_since(self, set_name: SetName) -> int | None:
        """Return the first moment whose offsets are kept, Unix ms; None if none is."""
        return self._keeper.kept_since(set_name)

    def absent_since(self, set_name: SetName) -> int | None:
        """Return since when nobody shows a set, Unix ms; None if somebody does."""
        return self._absent.since(set_name)

    # What the poller and the masters report

    def masters_changed(self, _changes: Sequence[MasterChange]) -> None:
        """Read other masters from now on."""
        self._poller.masters_changed()

    async def offsets_changed(self, changes: MirrorChanges) -> None:
        """Keep what a reading has changed, and report what went back."""
        found: list[Regression] = []
        known = KnownWrites(self.resets, self._guard_writes, is_leading=self._leads())
        async for part in in_slices(regressions_of(changes, known), _SLICE_REGRESSIONS):
            found += map(self.regressions.add, part)
        for _ in self._rewinds.slices(changes):
            await asyncio.sleep(0)
        self._guard_writes.note_run(changes)
        if found:
            self._event_log.went_back(changes.set_name, found)
            self._keeper.went_back(found)
        if changes.moved.refused:
            self._event_log.entries_refused(changes.set_name, changes.moved.refused)
        # Nothing else runs from here on until the mirror has them.
        self._keeper.changed(changes)

    def polled(self, report: PollReport) -> None:
        """Count a reading."""
        self._event_log.polled(report.master.set_name)

    def poll_failed(self, master: MirroredMaster, error: Exception) -> None:
        """Count a reading that failed."""
        self._event_log.poll_failed(master, error)

    # Background tasks

    async def _keep_mirror(self) -> None:
        if not self._loaded.is_set():
            await self._load()
        await self._keeper.run()

    async def _load(self) -> None:
        # A reading that is loaded may be older than a reset that it does not show.
        earlier = await self._earlier_resets()
        self.resets.note_earlier(earlier)
        if earlier.problems:
            self._event_log.earlier_resets_unknown(earlier.problems)
        loaded = await self._keeper.open()
        for set_name, saved, former_runs, absent_since_ms in loaded.sets:
            self._poller.restore(BrokerMirror.restored(set_name, saved, former_runs))
            if absent_since_ms is not None:
                self._absent.restore(set_name, absent_since_ms)
        for each in loaded.regressions:
            self.regressions.restore(each)
        self._restore_rewinds(loaded)
        self._loaded.set()

    def _take_late(self, loaded: LoadedMirror) -> None:
        """Take what an earlier process knew, after masters were read without it."""
        for set_name, saved, former_runs, absent_since_ms in loaded.sets:
            if (mirror := self._poller.mirror_of(set_name)) is not None:
                mirror.take_earlier(saved, former_runs)
                continue
            self._poller.restore(BrokerMirror.restored(set_name, saved, former_runs))
            if absent_since_ms is not None:
                self._absent.restore(set_name, absent_since_ms)
        self.regressions.restore_earlier(loaded.regressions)
        self._restore_rewinds(loaded)

    def _restore_rewinds(self, loaded: LoadedMirror) -> None:
        """Take the rewinds of sets that are mirrored: one that was dropped comes again with other offsets."""
        names = {each.set_name for each in loaded.sets}
        for name in names & loaded.rewinds.keys():
            self._rewinds.restore(name, loaded.rewinds[name])

    async def _poll_masters(self) -> None:
        await self._loaded.wait()
        await self._poller.run()

    async def _look_at_sets(self) -> None:
        await self._loaded.wait()
        while True:
            await asyncio.sleep(LOOK_S)
            if self._following.is_fresh():
                self._find_absent()

    def _find_absent(self) -> None:
        """Note which sets nobody shows, and drop those that nobody has shown for long."""
        shown = {SetName(each.cluster, each.broker_name) for each in self._following.sets.values()}
        now_ms = self._clock.unix_ms()
        found = self._absent.look(self._poller.set_names, shown, now_ms, self._keeper.age_ms)
        for name in found.back:
            self._keeper.absent(name, None)
        for name in found.absent:
            self._keeper.absent(name, now_ms)
        for name, since_ms in found.dropped:
            self._poller.forget(name)
            self._guard_writes.forget(name)
            self._rewinds.forget(name)
            self._keeper.drop(name)
            self._event_log.set_dropped(name, since_ms)

    def _masters(self) -> Iterator[MirroredMaster]:
        for each in self._following.masters():
            yield MirroredMaster(SetName(each.cluster, each.broker_name), each.address, each.master_epoch)
