"""Has the file of the mirror take what changes, once a second. The edge: a thread waits for the disk, the loop never.

A write that fails costs earlier moments, and never the mirror in memory: what waits is found by comparison later.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from controller.offsets.mirror.changes import MirrorChanges
from controller.offsets.mirror.kept_rewinds import KeptRewinds
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.mirrored_offsets import MirrorFileFailed, PastOffsets
from controller.offsets.mirror.regressions import REGRESSIONS_MAX, Regression, RegressionLog
from controller.offsets.mirror.saved_offsets import SavedOffsets
from controller.offsets.mirror_file.clock_leaps import ClockLeaps, ClockReading
from controller.offsets.mirror_file.mirror_file import MirrorFile, OpenedMirror, open_mirror
from controller.offsets.mirror_file.read_times import ReadTimes
from controller.offsets.mirror_file.updates import LoadedMirror, MirrorUpdate
from controller.offsets.mirror_file.waiting import Mirrors, WaitingChanges
from controller.offsets.storage.sqlite_file import FileDamaged, FileProblem, FileRemoved
from remoting.clock import Clock

#: How long changes are collected: what a kill loses, and a start reads again.
STORE_S: Final = 1.0
#: After a round that failed the next ones come after 5, 10, 20 s and so on: each compares all sets that have moved.
PAUSE_S: Final = 5.0
PAUSE_MAX_S: Final = 60.0
#: Between two attempts to open a file that cannot be opened.
OPEN_S: Final = 5.0
#: After so many attempts a start goes on without the file.
OPEN_ATTEMPTS: Final = 6
#: Each set is thinned so often, and so many sets in a second.
THIN_MS: Final = 600_000
THINNED_AT_ONCE: Final = 4
#: Where the file is too large, changes are given up so often in a round: 1/16 of those of one set each time.
GIVEN_UP_AT_ONCE: Final = 64
#: The time is stored so often: what it shows after that counts as time in which no manager ran.
CLOCK_MS: Final = 60_000
#: How often the ends of logs are stored where they moved and no offset did.
READS_MS: Final = 60_000

Result = TypeVar("Result")


class KeeperObserver(Protocol):
    """Learns how the file does, to log it."""

    def loaded(self, sets: int, entries: int, regressions: int, duration_ms: int) -> None:
        """Report what was in the file."""

    def began_without_file(self) -> None:
        """Report that the file could not be opened for long, and the mirror begins without what it has."""

    def moved_aside(self, error: str) -> None:
        """Report that the file could not be read, and the mirror begins anew."""

    def stored(self, file_bytes: int) -> None:
        """Report a write, and how much of the file is in use."""

    def clock_leapt(self, leap_ms: int) -> None:
        """Report that the clock went ahead by so much: earlier moments stay for as long as without it."""

    def clock_set_back(self, sets: int) -> None:
        """Report that moments later than now were left out of so many sets, as the clock was ahead."""

    def store_failed(self, error: str) -> None:
        """Report a write that failed, or that the file cannot be opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperParts:
    """What the keeper works with."""

    folder: Path
    #: Above it the oldest changes of the sets with the most are given up. The newest offsets are stored in any case.
    bytes_max: int
    mirrors: Mirrors
    regressions: RegressionLog
    rewinds: KeptRewinds
    #: Takes what an earlier process has stored, where the file could not be opened at the start and is open now.
    opened_late: Callable[[LoadedMirror], None]
    clock: Clock
    observer: KeeperObserver


class MirrorKeeper:
    """The file of the mirror, from `open` to `close`."""

    def __init__(self, parts: KeeperParts) -> None:
        self._parts = parts
        self._clock, self._observer = parts.clock, parts.observer
        self._file: MirrorFile | None = None
        #: Of the file that was closed for it.
        self._damage: str | None = None
        #: Nothing of the file is known yet, and masters are read.
        self._is_late = False
        self._waiting = WaitingChanges()
        self._read_times = ReadTimes()
        #: Sets that are to be thinned in this round.
        self._to_thin: deque[SetName] = deque()
        self._thinned_ms = self._reads_ms = self._clock.now_ms()
        #: By set, where its log ended at the reading that is stored.
        self._log_ends: dict[SetName, int | None] = {}
        #: When the clocks were read last, and where they have leapt.
        self._began = self._read_clock = ClockReading(self._clock.now_ms(), self._clock.unix_ms())
        self._leaps = ClockLeaps()
        #: What this process has found counts for the file that it has opened first, and all later ones.
        self._are_leaps_loaded = False
        #: When the leaps and the time were stored last, monotonic ms; None: they are to be stored.
        self._clock_stored_ms: int | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="offset-mirror")

    async def open(self) -> LoadedMirror:
        """Open the file and return what it has; nothing, if it cannot be opened for half a minute.

        It is opened later then, and `opened_late` gets what it has.
        """
        began_ms = self._clock.now_ms()
        for _ in range(OPEN_ATTEMPTS):
            if (opened := await self._opened()) is not None:
                break
            await asyncio.sleep(OPEN_S)
        else:
            self._observer.began_without_file()
            self._is_late = True
            return LoadedMirror(sets=(), regressions=())
        self._report_loaded(opened.loaded, began_ms)
        return opened.loaded

    def _report_loaded(self, loaded: LoadedMirror, began_ms: int) -> None:
        entries = sum(len(each.saved) for each in loaded.sets)
        self._observer.loaded(len(loaded.sets), entries, len(loaded.regressions), self._clock.now_ms() - began_ms)

    async def run(self) -> None:
        """Store what is new for ever."""
        pause_s = STORE_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = STORE_S if await self._round() else min(max(2 * pause_s, PAUSE_S), PAUSE_MAX_S)

    async def _round(self) -> bool:
        """Store what is new and make room; return whether nothing failed."""
        self._note_time()
        if self._file is None and not await self._open_later():
            return False
        self._note_reads()
        is_stored = await self.store()
        return await self._make_room() and is_stored

    def changed(self, changes: MirrorChanges) -> None:
        """Have changes stored; the mirror of their set has them before anything else runs."""
        self._waiting.add(changes)

    def settled(self, set_name: SetName) -> None:
        """Have it stored that the former runs of a set have changed."""
        self._waiting.add_runs(set_name)

    def went_back(self, regressions: Sequence[Regression]) -> None:
        """Have regressions stored."""
        self._waiting.add_regressions(regressions)

    def absent(self, set_name: SetName, since_ms: int | None) -> None:
        """Have it stored since when nobody shows a set; None for one that is shown again."""
        self._waiting.add_absence(set_name, since_ms)

    def age_ms(self, unix_ms: int) -> int:
        """Return how long ago a moment was, also where the clock has leapt ahead since."""
        self._note_time()
        return self._leaps.age_ms(unix_ms, self._read_clock.unix_ms)

    def drop(self, set_name: SetName) -> None:
        """Have a set removed."""
        self._log_ends.pop(set_name, None)
        self._read_times.forget(set_name)
        self._waiting.drop(set_name)

    def kept_since(self, set_name: SetName) -> int | None:
        """Return the first moment that is kept of a set, Unix ms; None if none is."""
        return None if self._file is None else self._file.kept_since(set_name)

    async def at(self, set_name: SetName, unix_ms: int) -> PastOffsets:
        """Return the offsets of a moment; raises MomentNotKept and MirrorFileFailed."""
        await self.store()
        if self._file is None:
            raise MirrorFileFailed("the file of the mirror is not open: see offset_mirror_store_failed in the log")
        try:
            past = await self._call(partial(self._file.at, set_name, unix_ms))
        except FileProblem as error:
            raise MirrorFileFailed(str(error)) from error
        read_ms = self._read_times.last_until(set_name, unix_ms, self._clock.unix_ms())
        return past if read_ms is None else replace(past, unix_ms=max(past.unix_ms, read_ms))

    async def store(self) -> bool:
        """Store what is new, and return whether it is; what fails waits again."""
        if self._file is None:
            return False
        update = replace(self._waiting.update(self._parts.mirrors), rewinds=self._parts.rewinds.take_changes())
        self._waiting = WaitingChanges()
        reads_ms = self._newest_reads()
        if update.is_empty:
            self._note_stored(reads_ms, update)
            return True
        try:
            stored = await self._call(partial(self._file.store, update))
        except FileProblem as error:
            self._put_back(update)
            await self._failed(error)
            return False
        except BaseException:
            # Also where this task is cancelled meanwhile: whether it is stored or not is found by comparison.
            self._put_back(update)
            raise
        self._observer.stored(stored.used_bytes)
        if stored.sets_set_back:
            self._observer.clock_set_back(stored.sets_set_back)
        self._log_ends |= {name: each.saved.read.log_max_offset for name, each in update.sets.items()}
        self._note_stored(reads_ms, update)
        return True

    def _put_back(self, update: MirrorUpdate) -> None:
        self._waiting.put_back(update)
        self._parts.rewinds.put_back(update.rewinds)

    def _newest_reads(self) -> dict[SetName, int]:
        """Return when each set was read last, Unix ms."""
        return {name: saved.read.answered_unix_ms for name, saved in self._saved()}

    def _saved(self) -> Iterator[tuple[SetName, SavedOffsets]]:
        """Yield the newest reading of each set that was read."""
        for name in self._parts.mirrors.set_names:
            mirror = self._parts.mirrors.mirror_of(name)
            if mirror is not None and mirror.saved is not None:
                yield name, mirror.saved

    def _note_stored(self, reads_ms: Mapping[SetName, int], update: MirrorUpdate) -> None:
        """Take that the file has all of the newest readings."""
        for name, unix_ms in reads_ms.items():
            stored = update.sets.get(name)
            is_compared = stored is not None and stored.changes is None
            self._read_times.note(name, unix_ms, is_continued=not is_compared)

    async def close(self) -> None:
        """Store what is new, and close the file."""
        if self._file is not None:
            self._note_reads(at_once=True)
            await self.store()
        if self._file is not None:
            await self._call(self._file.close)
        self._thread.shutdown(wait=False)

    async def _call(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _opened(self) -> OpenedMirror | None:
        try:
            opened = await self._call(partial(open_mirror, self._parts.folder, self._clock, self._damage))
        except FileProblem as error:
            self._observer.store_failed(str(error))
            return None
        if opened.moved_aside is not None:
            self._observer.moved_aside(opened.moved_aside)
        self._file, self._damage = opened.file, None
        self._clock_stored_ms = None
        if not self._are_leaps_loaded:
            self._take_leaps(opened.loaded)
        return opened

    def _take_leaps(self, loaded: LoadedMirror) -> None:
        """Take the leaps of earlier processes, and the time until the start of this one."""
        self._are_leaps_loaded = True
        if loaded.clock_unix_ms is None:
            return
        self._read_clock = ClockReading(self._clock.now_ms(), self._clock.unix_ms())
        earlier = loaded.leaps.passed(ClockReading(None, loaded.clock_unix_ms), self._began)
        self._leaps = earlier.passed(self._began, self._read_clock)

    async def _open_later(self) -> bool:
        """Open a file that has nothing, or what an earlier process knew, and have everything stored in it."""
        began_ms = self._clock.now_ms()
        if (opened := await self._opened()) is None:
            return False
        if self._is_late:
            self._is_late = False
            self._report_loaded(opened.loaded, began_ms)
            self._parts.opened_late(opened.loaded)
        names = self._parts.mirrors.set_names
        self._waiting.fall_behind(names)
        for name in names:
            self._waiting.add_runs(name)
        self._parts.rewinds.take_all_again()
        self._waiting.add_regressions(reversed(self._parts.regressions.last(REGRESSIONS_MAX)))
        return True

    async def _failed(self, error: FileProblem) -> None:
        """Report a failure; a file that is damaged or gone is closed, and another one is opened."""
        self._observer.store_failed(str(error))
        if isinstance(error, FileDamaged | FileRemoved) and self._file is not None:
            file, self._file = self._file, None
            if isinstance(error, FileDamaged):
                self._damage = str(error)
            with suppress(FileProblem):
                await self._call(file.close)

    def _note_reads(self, *, at_once: bool = False) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - self._reads_ms < READS_MS and not at_once:
            return
        self._reads_ms = now_ms
        for name, saved in self._saved():
            if self._log_ends.get(name) != saved.read.log_max_offset:
                self._waiting.add_read(name)

    def _note_time(self) -> None:
        """Find whether the clock has leapt ahead since the last round."""
        last, self._read_clock = self._read_clock, ClockReading(self._clock.now_ms(), self._clock.unix_ms())
        leaps = self._leaps.passed(last, self._read_clock)
        if leaps == self._leaps:
            return
        if len(leaps.leaps) > len(self._leaps.leaps):
            self._observer.clock_leapt(leaps.leaps[-1].by_ms)
        self._leaps, self._clock_stored_ms = leaps, None

    async def _make_room(self) -> bool:
        """Merge what has grown old, and give up what is too much; return whether nothing failed."""
        now_ms = self._clock.now_ms()
        if not self._to_thin and now_ms - self._thinned_ms >= THIN_MS:
            self._thinned_ms = now_ms
            self._to_thin.extend(self._parts.mirrors.set_names)
        if self._file is None:
            return False
        leaps, unix_ms = self._leaps, self._read_clock.unix_ms
        try:
            if self._clock_stored_ms is None or now_ms - self._clock_stored_ms >= CLOCK_MS:
                await self._call(partial(self._file.store_clock, leaps, unix_ms))
                self._clock_stored_ms = now_ms if leaps == self._leaps else None
            for _ in range(min(THINNED_AT_ONCE, len(self._to_thin))):
                await self._call(partial(self._file.thin, self._to_thin.popleft(), leaps, unix_ms))
            await self._give_up(self._file, leaps, unix_ms)
        except FileProblem as error:
            await self._failed(error)
            return False
        return True

    async def _give_up(self, file: MirrorFile, leaps: ClockLeaps, unix_ms: int) -> None:
        """Give up changes until the file is below its limit. Others use it in between."""
        for _ in range(GIVEN_UP_AT_ONCE):
            if await self._call(file.used_bytes) <= self._parts.bytes_max:
                return
            if not await self._call(partial(file.give_up_of_largest, leaps, unix_ms)):
                return
