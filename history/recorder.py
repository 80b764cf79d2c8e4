"""The thread that writes the history; the event loop only hands over what happened, and never waits for it.

Two queues of limited length: what changes state has its own, so that a flood of heartbeats cannot push it out. What
finds no room, or no disk, is dropped and counted. As soon as recording goes on it says since when nothing was recorded,
and asks for a snapshot, because changes alone no longer tell how things stand.
"""

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from history.beats import NotedBeat, Summary
from history.landing import Landing, file_name, lines_of, sealed_files
from history.rows import Moment, Row, RowMaker
from history.schemas import FAMILIES, HEARTBEAT, HEARTBEAT_SUMMARY, NS_LIFECYCLE, NS_TICK, Type
from history.times import time_text, unix_us

#: How often the thread looks, and when it is woken before.
_LOOK_S: Final = 0.25
_WAKE_AT: Final = 2_000
#: So many are made into rows at a time.
_AT_ONCE: Final = 500
STATES_MAX: Final = 20_000
BEATS_MAX: Final = 100_000
#: How soon a disk that refused is tried again.
_AGAIN_S: Final = 2.0
#: How often it is looked what is old.
_TIDY_US: Final = 60_000_000
#: How far back the process before is looked for.
_FORMER_US: Final = 2 * 24 * 3_600_000_000


_encode: Final = msgspec.json.Encoder().encode
#: Family -> its columns that are times.
_TIMES: Final = {
    name: frozenset(column.name for column in family.all_columns if column.type is Type.TIMESTAMP)
    for name, family in FAMILIES.items()
}
_Item = TypeVar("_Item")


class Happening(Protocol):
    """Something that changed, handed over as values that nobody changes any more."""

    def rows(self, maker: RowMaker, moment: Moment) -> Iterable[Row]:
        """Yield its rows; called in the recorder's thread."""


class Clock(Protocol):
    """The clocks that rows are stamped with."""

    def unix_us(self) -> int:
        """Return microseconds since 1970 UTC."""

    def mono_us(self) -> int:
        """Return monotonic microseconds."""


class Observer(Protocol):
    """Who is told; calls come from the recorder's thread."""

    def recording_stopped(self, error: str) -> None:
        """Learn that nothing can be written."""

    def recording_resumed(self) -> None:
        """Learn that it is written again."""


class Identity(NamedTuple):
    """Who records."""

    ns_id: str
    #: `namesrv` or `controller`.
    source: str
    version: str
    address: str


class _Lines(NamedTuple):
    """Rows of one family as they are written."""

    family: str
    text: bytes
    rows: int
    #: When the first of them happened.
    unix_us: int


class Counts:
    """What is counted of recording; read at a scrape."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        #: What found no room: `state` or `beat`.
        self.dropped: Counter[str] = Counter()
        self.written_bytes = 0
        #: Seconds that each writing took, the last ones first out; emptied by whoever reads them.
        self.writes_s: deque[float] = deque(maxlen=10_000)
        self.is_recording = False


class Recorder:
    """Records what one server sees."""

    def __init__(self, folder: Path, identity: Identity, clock: Clock, observer: Observer) -> None:
        """Take where to write; nothing is written before `start`."""
        self.counts = Counts()
        self._folder = folder
        self._identity = identity
        self._clock = clock
        self._observer = observer
        self._began = Moment(clock.unix_us(), clock.mono_us())
        boot_ms = self._began.unix_us // 1000
        self._maker = RowMaker(file_name(identity.ns_id), boot_ms, identity.source)
        self._landing = Landing(folder, f"{identity.ns_id}-{boot_ms}")
        self._states: deque[tuple[Moment, Happening]] = deque()
        self._beats: deque[NotedBeat | Summary] = deque()
        self._awake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._tidied_us = 0
        #: Lines that are still to be written.
        self._waiting: deque[_Lines] = deque()
        #: The disk has refused something, and nothing was written since.
        self._is_refused = False
        #: How many state changes are missing, and since when.
        self._missing = 0
        self._missing_from_us = 0
        self._wants_snapshot = False

    # Called by the event loop

    def start(self) -> None:
        """Begin to record."""
        self._thread.start()

    def note(self, happening: Happening) -> None:
        """Record a change of state."""
        moment = Moment(self._clock.unix_us(), self._clock.mono_us())
        if len(self._states) >= STATES_MAX:
            self._miss(moment.unix_us)
            return
        self._states.append((moment, happening))
        if len(self._states) >= _WAKE_AT:
            self._awake.set()

    def note_beat(self, noted: NotedBeat | Summary) -> None:
        """Record a heartbeat, or the summary of a minute."""
        if len(self._beats) >= BEATS_MAX:
            self.counts.dropped["beat"] += 1
            return
        self._beats.append(noted)

    def take_wish_for_snapshot(self) -> bool:
        """Tell once that a snapshot of the whole state is needed, because changes are missing."""
        wanted, self._wants_snapshot = self._wants_snapshot, False
        return wanted

    @property
    def queued(self) -> int:
        """How many events wait to be written."""
        return len(self._states) + len(self._beats)

    @property
    def unsealed_since_us(self) -> int | None:
        """When the oldest file was begun that is not sealed; None if there is none."""
        return self._landing.opened_us

    def close(self) -> None:
        """Write what waits, seal all files, and end; blocks for as long as that takes."""
        self._closing = True
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _miss(self, unix_us: int) -> None:
        """Take note of a change that is lost; the thread says so as soon as it writes again."""
        if not self._missing:
            self._missing_from_us = unix_us
        self._missing += 1
        self.counts.dropped["state"] += 1

    # The thread

    def _run(self) -> None:
        self._attempt(lambda: self._rows_wait([self._started()]))
        self._attempt(self._landing.recover)
        while not self._closing:
            self._attempt(self._work)
            self._awake.wait(_LOOK_S if self.counts.is_recording else _AGAIN_S)
            self._awake.clear()
        self._attempt(self._work)
        self._attempt(self._landing.seal_all)

    def _attempt(self, work: Callable[[], object]) -> None:
        """Do something with the disk; what it refuses waits, as far as there is room, until it takes it again."""
        try:
            work()
        except Exception as error:  # noqa: BLE001  # a fault of ours must not end recording for good either
            if not isinstance(error, OSError):
                self._miss(self._clock.unix_us())
            if not self._is_refused:
                self._observer.recording_stopped(str(error) or repr(error))
            self._is_refused = True
            self.counts.is_recording = False
            return
        if self._is_refused:
            self._observer.recording_resumed()
        self._is_refused = False
        self.counts.is_recording = True

    def _work(self) -> None:
        self._write()
        while self._states or self._beats:
            rows = [row for moment, each in _taken(self._states, _AT_ONCE) for row in each.rows(self._maker, moment)]
            rows += [_row_of(self._maker, noted) for noted in _taken(self._beats, _AT_ONCE)]
            self._rows_wait(rows)
            self._write()
        if self._missing:
            self._rows_wait([self._resumed()])
            self._write()
        now_us = self._clock.unix_us()
        self._landing.seal_old(now_us)
        if now_us - self._tidied_us > _TIDY_US:
            self._tidied_us = now_us
            self._landing.recover()
            self._landing.forget_old(datetime.fromtimestamp(now_us // 1_000_000, UTC).date())

    def _rows_wait(self, rows: Iterable[Row]) -> None:
        """Make lines of rows, which are written once, whatever the disk refuses meanwhile."""
        by_family: dict[str, list[Row]] = {}
        for row in rows:
            by_family.setdefault(row.family.name, []).append(row)
        for family, mine in by_family.items():
            self._waiting.append(_Lines(family, b"".join(map(encoded, mine)), len(mine), mine[0].unix_us))

    def _write(self) -> None:
        while self._waiting:
            began_us = self._clock.mono_us()
            lines = self._waiting[0]
            self._landing.append(lines.family, lines.text, lines.unix_us)
            self._waiting.popleft()
            self.counts.written_bytes += len(lines.text)
            self.counts.events[lines.family] += lines.rows
            self.counts.writes_s.append((self._clock.mono_us() - began_us) / 1e6)

    def _started(self) -> Row:
        former = None
        with contextlib.suppress(OSError, msgspec.DecodeError):
            former = self._former()
        return self._maker.row(
            NS_LIFECYCLE,
            "started",
            self._began,
            reason=self._identity.source,
            version=self._identity.version,
            address=self._identity.address,
            former_boot_id=former[0] if former else None,
            unobserved_from=former[1] if former else None,
        )

    def _resumed(self) -> Row:
        moment = Moment(self._clock.unix_us(), self._clock.mono_us())
        missing, self._missing = self._missing, 0
        self._wants_snapshot = True
        return self._maker.row(
            NS_LIFECYCLE, "recording_resumed", moment, unobserved_from=self._missing_from_us, dropped=missing
        )

    def _former(self) -> tuple[str, int] | None:
        """Return the process of this server before, and when it was watching last, Unix us."""
        now_us = self._began.unix_us
        first, last = (datetime.fromtimestamp(each // 1_000_000, UTC) for each in (now_us - _FORMER_US, now_us))
        mine = self._maker.boot_id.rsplit("-", 1)[0]
        latest: tuple[int, str] | None = None
        for path in sealed_files(self._folder, NS_TICK.name, first, last):
            if not path.name.removeprefix(".").startswith(f"{mine}-"):
                continue
            for line in list(lines_of(path))[-1:]:
                tick = msgspec.json.decode(line, type=_Tick)
                seen = (unix_us(tick.event_time), tick.boot_id)
                latest = max(latest or seen, seen)
        return None if latest is None else (latest[1], latest[0])


class _Tick(msgspec.Struct):
    event_time: datetime
    boot_id: str


def encoded(row: Row) -> bytes:
    """Return a row as a line of JSON; its times become text."""
    columns = dict(row.columns)
    for name in _TIMES[row.family.name] & columns.keys():
        columns[name] = time_text(columns[name])
    return _encode(columns) + b"\n"


def _row_of(maker: RowMaker, noted: NotedBeat | Summary) -> Row:
    return _summary_row(maker, noted) if isinstance(noted, Summary) else _beat_row(maker, noted)


def _beat_row(maker: RowMaker, noted: NotedBeat) -> Row:
    beat = noted.beat
    counter, timestamp, state_version = beat.data_version or (None, None, None)
    return maker.row(
        HEARTBEAT,
        noted.event_type,
        beat.moment,
        beat.who,
        kind=beat.kind,
        interval_ms=beat.interval_ms,
        period_ms=noted.period_ms,
        timeout_ms=beat.timeout_ms,
        dv_counter=counter,
        dv_timestamp=timestamp,
        dv_state_version=state_version,
        max_offset=beat.max_offset,
        epoch=beat.epoch,
    )


def _summary_row(maker: RowMaker, summary: Summary) -> Row:
    intervals_ms = summary.intervals_ms
    return maker.row(
        HEARTBEAT_SUMMARY,
        "summary",
        summary.moment,
        summary.who,
        minute=summary.minute_us,
        kind=summary.kind,
        period_ms=summary.period_ms,
        timeout_ms=summary.timeout_ms,
        n=len(intervals_ms),
        missed=summary.missed,
        late=summary.late,
        interval_min_ms=min(intervals_ms),
        interval_max_ms=max(intervals_ms),
        interval_sum_ms=sum(intervals_ms),
        interval_sumsq_ms2=sum(each * each for each in intervals_ms),
        hist=summary.hist,
    )


def _taken(queue: "deque[_Item]", most: int) -> "Iterable[_Item]":
    with contextlib.suppress(IndexError):
        for _ in range(most):
            yield queue.popleft()
