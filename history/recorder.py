"""The thread that writes the history; the event loop only hands over what happened, and never waits for it.

Two queues of limited length: what changes state has its own, so that a flood of heartbeats cannot push it out. What
finds no room, or no disk, is dropped and counted. As soon as recording goes on it says since when something is missing,
and asks for a snapshot where changes alone no longer tell how things stand.

What says that the server was watching is written last of all that happened before, so that whoever kills the process
between two writings leaves no time that seems to be known and is not.
"""

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from history.heartbeat_rows import BeatRow, moment_of
from history.heartbeats import NotedBeat, Summary
from history.landing import SEAL_BYTES, Landing, RowsLost, file_name, lines_of, sealed_files
from history.retention import BYTES_MAX, Forgotten, Room
from history.rows import Moment, Row, RowMaker
from history.schemas import BEATS, FAMILIES, NS_LIFECYCLE, NS_TICK, Type
from history.server_rows import BEATS_MISSING, STATES_MISSING, ClockSet
from history.times import time_text, unix_us

#: How often the thread looks, and when it is woken before.
_LOOK_S: Final = 0.25
_WAKE_AT: Final = 2_000
#: So many are made into rows at a time.
_AT_ONCE: Final = 500
STATES_MAX: Final = 20_000
BEATS_MAX: Final = 100_000
#: So many topics may be held by the state changes that wait: a disk that hangs must not fill the memory.
TOPICS_MAX: Final = 1_000_000
#: How soon a disk that refused is tried again.
_AGAIN_S: Final = 2.0
#: How often it is looked what others have left, and how many days back.
_RECOVER_US: Final = 60_000_000
_RECOVER_DAYS: Final = 1
#: How often it is looked what is old or too much, however little is written.
_FORGET_US: Final = 3_600_000_000
#: A wall clock that moved so far against the other one between two state changes was set; rows tell of it.
_CLOCK_STEP_US: Final = 1_000_000
#: A clock that is so far from where it was, has been set.
_CLOCK_SET_US: Final = 60_000_000
#: So long it has to stand as it was set before files may be old by it.
_CLOCK_TRUSTED_US: Final = 24 * 3_600_000_000
#: A disk that hangs holds the end of the process up no longer.
_CLOSE_S: Final = 10.0
#: How far back the process before is looked for.
_FORMER_US: Final = 2 * 24 * 3_600_000_000


_encode: Final = msgspec.json.Encoder().encode
#: Family -> its columns that are times.
_TIMES: Final = {
    name: frozenset(column.name for column in family.all_columns if column.type is Type.TIMESTAMP)
    for name, family in FAMILIES.items()
}
#: Rows of these say that the server was watching.
_VOUCHING: Final = frozenset({NS_LIFECYCLE.name, NS_TICK.name})
_HOUR_US: Final = 3_600_000_000
_STATE, _BEAT = "state", "beat"
_REASONS: Final = {_STATE: STATES_MISSING, _BEAT: BEATS_MISSING}
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

    def history_deleted(self, forgotten: Forgotten) -> None:
        """Learn that files were deleted though nobody may have read them."""


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


class _Offset(NamedTuple):
    """How far the time of day is ahead of the clock that nobody sets, us."""

    #: By which files are old.
    trusted: int
    #: What it was when the clock was last set.
    seen: int
    #: When that was, by the clock that nobody sets.
    since: int


class _Missing(NamedTuple):
    """So much is missing, and since when."""

    events: int
    from_us: int


class Counts:
    """What is counted of recording; read at a scrape."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        #: What found no room, or was lost otherwise: `state` or `beat`.
        self.dropped: Counter[str] = Counter()
        #: Files that were deleted though nobody may have read them, by reason: `age` or `size`.
        self.deleted_files: Counter[str] = Counter()
        self.written_bytes = 0
        #: Seconds that each writing took, the last ones first out; emptied by whoever reads them.
        self.writes_s: deque[float] = deque(maxlen=10_000)
        self.is_recording = False


class Recorder:
    """Records what one server sees."""

    def __init__(
        self, folder: Path, identity: Identity, clock: Clock, observer: Observer, bytes_max: int = BYTES_MAX
    ) -> None:
        """Take where to write, and how many bytes of files may lie there; nothing is written before `start`."""
        self.counts = Counts()
        self._folder = folder
        self._identity = identity
        self._clock = clock
        self._observer = observer
        self._began = Moment(clock.unix_us(), clock.mono_us())
        #: When the last state change happened, by the wall clock as it was set last.
        self._stamped = self._began
        offset_us = self._began.unix_us - self._began.mono_us
        self._offset_us = _Offset(offset_us, offset_us, self._began.mono_us)
        boot_ms = self._began.unix_us // 1000
        self._maker = RowMaker(file_name(identity.ns_id), boot_ms, identity.source)
        boot_id = f"{identity.ns_id}-{boot_ms}"
        self._landing = Landing(folder, boot_id)
        self._room = Room(folder, boot_id, bytes_max)
        self._states: deque[tuple[Moment, Happening, int]] = deque()
        self._beats: deque[NotedBeat | Summary] = deque()
        self._awake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        #: Topics that state changes brought, and of how many of them rows were made: each counted by one thread.
        self._topics_noted = self._topics_done = 0
        self._recovered_us = self._forgot_us = self._began.mono_us
        #: As soon as so many bytes are written it is looked again what is too much.
        self._look_at_bytes = 0
        #: Lines that are still to be written.
        self._waiting: deque[_Lines] = deque()
        #: The disk has refused something, and nothing was written since.
        self._is_refused = False
        #: What is missing, `state` or `beat`; both threads find that something is.
        self._missing: dict[str, _Missing] = {}
        self._lock = threading.Lock()
        self._faults: list[BaseException] = []
        self._wants_snapshot = False

    # Called by the event loop

    def start(self) -> None:
        """Begin to record, unless that is done already; where the system has no thread for it, that is told."""
        if self._thread.is_alive():
            return
        try:
            self._thread.start()
        except RuntimeError as error:
            self._refused(error)

    def note(self, happening: Happening, topics: int = 0) -> None:
        """Record a change of state, which holds values of so many topics."""
        moment = Moment(self._clock.unix_us(), self._clock.mono_us())
        held = self._topics_noted - self._topics_done
        if len(self._states) >= STATES_MAX or (held and topics and held + topics > TOPICS_MAX):
            self._miss(_STATE, moment.unix_us)
            return
        self._topics_noted += topics
        self._states.append((moment, happening, topics))
        if len(self._states) >= _WAKE_AT:
            self._awake.set()

    def note_beat(self, noted: NotedBeat | Summary) -> None:
        """Record a heartbeat, or the summary of a minute."""
        if len(self._beats) >= BEATS_MAX:
            self._miss(_BEAT, moment_of(noted).unix_us)
            return
        self._beats.append(noted)

    def take_wish_for_snapshot(self) -> bool:
        """Tell once that a snapshot of the whole state is needed, because changes are missing."""
        with self._lock:
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
        """Write what waits, seal all files, and end; blocks for as long as that takes, but for seconds at most."""
        self._closing = True
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)

    def _miss(self, kind: str, unix_us: int, events: int = 1) -> None:
        """Take note of what is lost; the thread says so as soon as it writes again."""
        with self._lock:
            before = self._missing.get(kind, _Missing(0, unix_us))
            self._missing[kind] = _Missing(before.events + events, min(before.from_us, unix_us))
            self.counts.dropped[kind] += events

    # The thread

    def _run(self) -> None:
        self._attempt(self._begin)
        self._attempt(self._landing.recover)
        self._attempt(self._forget)
        while not self._closing:
            self._write_or_wait()
            self._awake.wait(_LOOK_S if self.counts.is_recording else _AGAIN_S)
            self._awake.clear()
        self._write_or_wait()
        self._attempt(self._landing.seal_all)

    def _write_or_wait(self) -> None:
        """Write what came; only that shows that the disk takes it again: with nothing to do anything succeeds."""
        if not self._attempt(self._work):
            return
        if self._is_refused:
            self._tell(self._observer.recording_resumed)
        self._is_refused = False
        self.counts.is_recording = True

    def _attempt(self, work: Callable[[], object]) -> bool:
        """Do something with the disk; what it refuses waits, as far as there is room, until it takes it again."""
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # nothing ends this thread but `close`, no fault of ours either
            for each in _each(error):
                if isinstance(each, RowsLost):
                    self._miss(_BEAT if each.family in BEATS else _STATE, each.since_us, each.rows)
            self._refused(error)
            return False
        return True

    def _refused(self, error: BaseException) -> None:
        """Tell once that nothing is written, until something is again."""
        if not self._is_refused:
            self._tell(lambda: self._observer.recording_stopped(_said(error)))
        self._is_refused = True
        self.counts.is_recording = False

    @staticmethod
    def _tell(tell: Callable[[], None]) -> None:
        # Who is told may fail, which is no reason to record no more.
        with contextlib.suppress(Exception):
            tell()

    def _work(self) -> None:
        try:
            self._write_what_came()
        except OSError:
            # There may be room on the disk as soon as what is too much is gone.
            self._look_for_room(at_once=True)
            raise
        if faults := self._faults:
            self._faults = []
            raise BaseExceptionGroup("; ".join(map(_said, faults)), faults)

    def _write_what_came(self) -> None:
        self._write()
        while self._states or self._beats:
            # First what is to be written last: beats before a tick wait by the time that the tick is taken.
            states = list(_taken(self._states, _AT_ONCE))
            for _ in range(0, len(self._beats), _AT_ONCE):
                beats = _taken(self._beats, _AT_ONCE)
                self._rows_wait(row for each in beats for row in self._made(_BEAT, moment_of(each), BeatRow(each)))
            self._rows_wait(
                row
                for moment, happening, _ in states
                for each in (*self._clock_set(moment), happening)
                for row in self._made(_STATE, moment, each)
            )
            self._topics_done += sum(topics for _, _, topics in states)
            self._write()
        if self._missing:
            self._rows_wait((row, encoded(row)) for row in self._resumed())
            self._write()
        self._landing.seal_old(self._clock.unix_us())
        self._recover_now_and_then()
        self._look_for_room()

    def _clock_set(self, moment: Moment) -> Iterator[Happening]:
        """Yield that the wall clock was set since the moment before; readers order rows by the other clock."""
        former, before = self._stamped, moment.unix_us - moment.mono_us
        offset_us = former.unix_us - former.mono_us
        if abs(before - offset_us) > _CLOCK_STEP_US:
            yield ClockSet(former_offset_us=offset_us, offset_us=before, since_mono_us=former.mono_us)
            offset_us = before
        # It may be corrected bit by bit, which is a step as soon as it comes to one.
        self._stamped = Moment(moment.mono_us + offset_us, moment.mono_us)

    def _made(self, kind: str, moment: Moment, happening: Happening) -> list[tuple[Row, bytes]]:
        """Return the rows of a happening with their lines; a fault costs no more than the happening."""
        try:
            return [(row, encoded(row)) for row in happening.rows(self._maker, moment)]
        except Exception as error:  # noqa: BLE001  # whatever it is, the others are written
            self._miss(kind, moment.unix_us)
            self._faults.append(error)
            return []

    def _recover_now_and_then(self) -> None:
        """Seal what others have left, by a clock that nobody sets."""
        now_us = self._clock.mono_us()
        if now_us - self._recovered_us >= _RECOVER_US:
            self._recovered_us = now_us
            self._landing.recover(self._today(now_us) - timedelta(days=_RECOVER_DAYS))

    def _look_for_room(self, *, at_once: bool = False) -> None:
        """Delete what is too much, if it is time to look; what is in the way of that is told when all is written."""
        try:
            if self._clock.mono_us() - self._forgot_us >= _FORGET_US:
                self._forget()
            elif at_once or self.counts.written_bytes >= self._look_at_bytes:
                self._make_room()
        except Exception as error:  # noqa: BLE001  # rows that the disk takes are written all the same
            self._faults += _each(error)

    def _forget(self) -> None:
        now_us = self._forgot_us = self._clock.mono_us()
        self._told_deleted(self._room.forget_old(self._today(now_us)))
        self._make_room()

    def _make_room(self) -> None:
        between = self._room.bytes_between_looks
        self._look_at_bytes = self.counts.written_bytes + between
        try:
            if between < SEAL_BYTES:
                # What grows is not deleted, so where little may lie it must not grow long.
                self._landing.seal_all()
        finally:
            mono_us = self._clock.mono_us()
            self._told_deleted(self._room.make_room(self._today(mono_us), self._unix_us(mono_us)))

    def _told_deleted(self, forgotten: Forgotten) -> None:
        if forgotten.files:
            self.counts.deleted_files[forgotten.reason] += forgotten.files
            self._tell(lambda: self._observer.history_deleted(forgotten))

    def _unix_us(self, mono_us: int) -> int:
        """Return the time; a clock that is set far ahead while the server runs makes no file old.

        Unless it stands so for a day: then it was set right, or the machine had slept.
        """
        offset_us = self._clock.unix_us() - mono_us
        if abs(offset_us - self._offset_us.seen) > _CLOCK_SET_US:
            self._offset_us = self._offset_us._replace(seen=offset_us, since=mono_us)
        if offset_us < self._offset_us.trusted or mono_us - self._offset_us.since >= _CLOCK_TRUSTED_US:
            self._offset_us = self._offset_us._replace(trusted=offset_us)
        return mono_us + self._offset_us.trusted

    def _today(self, mono_us: int) -> date:
        return datetime.fromtimestamp(self._unix_us(mono_us) // 1_000_000, UTC).date()

    def _rows_wait(self, made: Iterable[tuple[Row, bytes]]) -> None:
        """Let lines wait, which are written once, whatever the disk refuses meanwhile."""
        together: dict[tuple[str, int], list[tuple[Row, bytes]]] = {}
        for row, line in made:
            together.setdefault((row.family.name, row.unix_us // _HOUR_US), []).append((row, line))
        for (family, _), mine in sorted(together.items(), key=lambda each: each[0][0] in _VOUCHING):
            self._waiting.append(_Lines(family, b"".join(line for _, line in mine), len(mine), mine[0][0].unix_us))

    def _write(self) -> None:
        while self._waiting:
            began_us = self._clock.mono_us()
            lines = self._waiting[0]
            self._landing.append(lines.family, lines.text, lines.unix_us)
            self._waiting.popleft()
            self.counts.written_bytes += len(lines.text)
            self.counts.events[lines.family] += lines.rows
            self.counts.writes_s.append((self._clock.mono_us() - began_us) / 1e6)
            self._look_for_room()

    def _begin(self) -> None:
        started = self._started()
        self._rows_wait([(started, encoded(started))])

    def _started(self) -> Row:
        former = None
        with contextlib.suppress(OSError):
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

    def _resumed(self) -> Iterator[Row]:
        moment = Moment(self._clock.unix_us(), self._clock.mono_us())
        with self._lock:
            missing, self._missing = self._missing, {}
            self._wants_snapshot = self._wants_snapshot or _STATE in missing
        for kind, (events, from_us) in missing.items():
            yield self._maker.row(
                NS_LIFECYCLE,
                "recording_resumed",
                moment,
                reason=_REASONS[kind],
                unobserved_from=from_us,
                dropped=events,
            )

    def _former(self) -> tuple[str, int] | None:
        """Return the process of this server before, and when it was watching last, Unix us."""
        now_us = self._began.unix_us
        first, last = (datetime.fromtimestamp(each // 1_000_000, UTC) for each in (now_us - _FORMER_US, now_us))
        mine = self._maker.boot_id.rpartition("-")[0]
        latest: tuple[int, str] | None = None
        for path in sealed_files(self._folder, NS_TICK.name, first, last):
            if not path.name.removeprefix(".").startswith(f"{mine}-"):
                continue
            for line in list(lines_of(path))[-1:]:
                with contextlib.suppress(msgspec.DecodeError):
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


def _each(error: BaseException) -> Sequence[BaseException]:
    return error.exceptions if isinstance(error, BaseExceptionGroup) else (error,)


def _said(error: BaseException) -> str:
    return error.message if isinstance(error, BaseExceptionGroup) else str(error) or repr(error)


def _taken(queue: "deque[_Item]", most: int) -> "Iterable[_Item]":
    with contextlib.suppress(IndexError):
        for _ in range(most):
            yield queue.popleft()
