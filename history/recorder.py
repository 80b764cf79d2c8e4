"""The thread that writes the history; the event loop only hands over what happened, and never waits for it.

What finds its queue full, or no disk, is dropped and counted. As soon as recording resumes it writes since when
something is missing, and requests a snapshot where changes alone no longer give the state.

Rows that say that the server was watching are written after all that happened before them: a process killed between
two writes leaves no time that seems observed and is not.
"""

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from history.event_queue import HEARTBEAT, STATE, EventQueue, taken
from history.heartbeats import HeartbeatSummary, SingleHeartbeat
from history.landing import SEAL_BYTES, Landing, RowsLost, file_name, former_process
from history.retention import DeletedFiles, Retention
from history.rows import HistoryRow, Moment, Recordable, RowMaker, encoded
from history.schemas import HEARTBEAT_FAMILIES, NS_LIFECYCLE, NS_TICK
from history.server_rows import HEARTBEATS_MISSING, STATES_MISSING, ClockSet
from history.times import RecordingClock, TrustedClock

#: How often the thread looks, and at how many state changes it is woken before.
_LOOK_S: Final = 0.25
_WAKE_AT: Final = 2_000
#: So many are made into rows at a time.
_AT_ONCE: Final = 500
#: A disk that failed is tried again after this long.
_RETRY_S: Final = 2.0
#: How often files that other processes left are sealed, and how many days back.
_RECOVER_US: Final = 60_000_000
_RECOVER_DAYS: Final = 1
#: How often the limits of age and size are enforced, however little is written.
_RETENTION_US: Final = 3_600_000_000
#: The wall clock was set if it moved so far against the monotonic clock between two state changes; rows record it.
_CLOCK_STEP_US: Final = 1_000_000
#: A disk that hangs delays the end of the process by no more than this.
_CLOSE_S: Final = 10.0

#: Rows of these families say that the server was watching.
_WATCHING: Final = frozenset({NS_LIFECYCLE.name, NS_TICK.name})
_HOUR_US: Final = 3_600_000_000
_REASONS: Final = {STATE: STATES_MISSING, HEARTBEAT: HEARTBEATS_MISSING}


class RecordingObserver(Protocol):
    """Receives what became of recording; calls come from the recorder's thread."""

    def recording_stopped(self, error: str) -> None:
        """Nothing can be written."""

    def recording_resumed(self) -> None:
        """Rows are written again."""

    def history_deleted(self, deleted: DeletedFiles) -> None:
        """Files were deleted that may never have been ingested."""


class RecorderIdentity(NamedTuple):
    """Who records."""

    ns_id: str
    #: `namesrv`, `controller`, `sampler` or `offset-manager`.
    source: str
    version: str
    address: str


class _Lines(NamedTuple):
    family: str
    text: bytes
    rows: int
    #: When the first of them happened.
    unix_us: int


class RecordingCounts:
    """What is counted of recording; read at a scrape."""

    def __init__(self) -> None:
        #: Rows written, by family.
        self.events: Counter[str] = Counter()
        #: Events that were dropped or lost: `state` or `heartbeat`.
        self.dropped: Counter[str] = Counter()
        #: Files deleted that may never have been ingested, by reason: `age` or `size`.
        self.deleted_files: Counter[str] = Counter()
        self.written_bytes = 0
        #: Seconds that each of the last 10,000 writes took; whoever reads them empties it.
        self.writes_s: deque[float] = deque(maxlen=10_000)
        self.is_recording = False


class Recorder:
    """Records what one server sees."""

    def __init__(
        self,
        folder: Path,
        identity: RecorderIdentity,
        clock: RecordingClock,
        observer: RecordingObserver,
        bytes_max: int,
    ) -> None:
        """Take where to write, and how many bytes of files may lie there; nothing is written before `start`."""
        self.counts = RecordingCounts()
        self._folder = folder
        self._identity = identity
        self._clock = clock
        self._observer = observer
        self._began = Moment(clock.unix_us(), clock.mono_us())
        #: When the last state change happened, by the wall clock as it was set last.
        self._last_change = self._began
        self._trusted_clock = TrustedClock(clock)
        boot_ms = self._began.unix_us // 1000
        self._maker = RowMaker(file_name(identity.ns_id), boot_ms, identity.source)
        boot_id = f"{identity.ns_id}-{boot_ms}"
        self._landing = Landing(folder, boot_id)
        self._retention = Retention(folder, boot_id, bytes_max)
        self._queue = EventQueue(self.counts.dropped)
        self._awake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._recovered_us = self._retention_us = self._began.mono_us
        #: The limit of size is enforced again as soon as so many bytes are written.
        self._enforce_at_bytes = 0
        #: Lines that are still to be written.
        self._waiting: deque[_Lines] = deque()
        #: The disk has failed, and nothing was written since.
        self._is_failing = False
        self._faults: list[BaseException] = []
        self._snapshot_requested = threading.Event()

    # Called by the event loop

    def start(self) -> None:
        """Start the thread unless it runs; an OS that refuses the thread counts as a failed recording."""
        if self._thread.is_alive():
            return
        try:
            self._thread.start()
        except RuntimeError as error:
            self._failed(error)

    def enqueue(self, event: Recordable, topics: int = 0) -> None:
        """Record a change of state, which holds values of so many topics."""
        self._queue.put(Moment(self._clock.unix_us(), self._clock.mono_us()), event, topics)
        if len(self._queue.states) >= _WAKE_AT:
            self._awake.set()

    def enqueue_heartbeat(self, heartbeat: SingleHeartbeat | HeartbeatSummary) -> None:
        self._queue.put_heartbeat(heartbeat)

    def take_snapshot_request(self) -> bool:
        """Return True once after state changes were dropped: a snapshot of the whole state is needed."""
        is_requested = self._snapshot_requested.is_set()
        self._snapshot_requested.clear()
        return is_requested

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def unsealed_since_us(self) -> int | None:
        return self._landing.opened_us

    def close(self) -> None:
        """Write what waits, seal all files, and end; blocks for as long as that takes, but 10 s at most."""
        self._closing = True
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)

    # The thread

    def _run(self) -> None:
        self._attempt(self._begin)
        self._attempt(self._landing.recover)
        self._attempt(self._enforce_limits)
        while not self._closing:
            self._write_or_wait()
            self._awake.wait(_LOOK_S if self.counts.is_recording else _RETRY_S)
            self._awake.clear()
        self._write_or_wait()
        self._attempt(self._landing.seal_all)

    def _write_or_wait(self) -> None:
        """Write what came; only a write shows that the disk works again: with nothing to do anything succeeds."""
        if not self._attempt(self._work):
            return
        if self._is_failing:
            self._notify(self._observer.recording_resumed)
        self._is_failing = False
        self.counts.is_recording = True

    def _attempt(self, work: Callable[[], object]) -> bool:
        """Do something with the disk; True unless it failed. What was not written waits until the disk works again."""
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # nothing ends this thread but `close`, no fault of ours either
            for each in _each(error):
                if isinstance(each, RowsLost):
                    self._queue.drop(
                        HEARTBEAT if each.family in HEARTBEAT_FAMILIES else STATE, each.since_us, each.rows
                    )
            self._failed(error)
            return False
        return True

    def _failed(self, error: BaseException) -> None:
        """Notify once that nothing is written, until something is again."""
        if not self._is_failing:
            self._notify(lambda: self._observer.recording_stopped(_message(error)))
        self._is_failing = True
        self.counts.is_recording = False

    @staticmethod
    def _notify(call: Callable[[], None]) -> None:
        # A failing observer is no reason to stop recording.
        with contextlib.suppress(Exception):
            call()

    def _work(self) -> None:
        try:
            self._write_what_came()
        except OSError:
            # Deleting what exceeds the limit may free the disk.
            self._enforce_if_due(at_once=True)
            raise
        if faults := self._faults:
            self._faults = []
            raise BaseExceptionGroup("; ".join(map(_message, faults)), faults)

    def _write_what_came(self) -> None:
        self._write()
        while self._queue:
            # What is to be written last is taken first: heartbeats before a tick wait by the time the tick is taken.
            states = list(taken(self._queue.states, _AT_ONCE))
            for _ in range(0, len(self._queue.heartbeats), _AT_ONCE):
                heartbeats = taken(self._queue.heartbeats, _AT_ONCE)
                self._add_lines(row for each in heartbeats for row in self._made(HEARTBEAT, each.moment, each))
            self._add_lines(
                row
                for moment, event, _ in states
                for each in (*self._clock_set(moment), event)
                for row in self._made(STATE, moment, each)
            )
            self._queue.topics_written += sum(topics for _, _, topics in states)
            self._write()
        if self._queue.has_dropped:
            self._add_lines((row, encoded(row)) for row in self._resumed())
            self._write()
        self._landing.seal_old(self._clock.unix_us())
        self._recover_if_due()
        self._enforce_if_due()

    def _clock_set(self, moment: Moment) -> Iterator[Recordable]:
        """Yield that the wall clock was set since the moment before; readers order rows by the monotonic clock."""
        former, before = self._last_change, moment.unix_us - moment.mono_us
        offset_us = former.unix_us - former.mono_us
        if abs(before - offset_us) > _CLOCK_STEP_US:
            yield ClockSet(former_offset_us=offset_us, offset_us=before, since_mono_us=former.mono_us)
            offset_us = before
        # Small corrections add up: together they are a step as soon as they come to one.
        self._last_change = Moment(moment.mono_us + offset_us, moment.mono_us)

    def _made(self, kind: str, moment: Moment, event: Recordable) -> list[tuple[HistoryRow, bytes]]:
        """Return the rows of an event with their lines; a fault costs no more than that event."""
        try:
            return [(row, encoded(row)) for row in event.rows(self._maker, moment)]
        except Exception as error:  # noqa: BLE001  # whatever it is, the others are written
            self._queue.drop(kind, moment.unix_us)
            self._faults.append(error)
            return []

    def _recover_if_due(self) -> None:
        """Seal each minute, by the monotonic clock, what other processes have left."""
        now_us = self._clock.mono_us()
        if now_us - self._recovered_us >= _RECOVER_US:
            self._recovered_us = now_us
            self._landing.recover(self._trusted_clock.today(now_us) - timedelta(days=_RECOVER_DAYS))

    def _enforce_if_due(self, *, at_once: bool = False) -> None:
        """Delete what exceeds the limits, if that is due; a failure is reported when all is written."""
        try:
            if self._clock.mono_us() - self._retention_us >= _RETENTION_US:
                self._enforce_limits()
            elif at_once or self.counts.written_bytes >= self._enforce_at_bytes:
                self._enforce_size()
        except Exception as error:  # noqa: BLE001  # rows that the disk takes are written all the same
            self._faults += _each(error)

    def _enforce_limits(self) -> None:
        now_us = self._retention_us = self._clock.mono_us()
        self._deleted(self._retention.delete_old(self._trusted_clock.today(now_us)))
        self._enforce_size()

    def _enforce_size(self) -> None:
        between = self._retention.bytes_between_checks
        self._enforce_at_bytes = self.counts.written_bytes + between
        try:
            if between < SEAL_BYTES:
                # Growing files are not deleted, so under a small limit they must not grow long.
                self._landing.seal_all()
        finally:
            mono_us = self._clock.mono_us()
            clock = self._trusted_clock
            self._deleted(self._retention.enforce_size(clock.today(mono_us), clock.unix_us(mono_us)))

    def _deleted(self, deleted: DeletedFiles) -> None:
        if deleted.files:
            self.counts.deleted_files[deleted.reason] += deleted.files
            self._notify(lambda: self._observer.history_deleted(deleted))

    def _add_lines(self, made: Iterable[tuple[HistoryRow, bytes]]) -> None:
        """Add lines to those that wait; each is written once, however often the disk fails meanwhile."""
        together: dict[tuple[str, int], list[tuple[HistoryRow, bytes]]] = {}
        for row, line in made:
            together.setdefault((row.family.name, row.unix_us // _HOUR_US), []).append((row, line))
        for (family, _), mine in sorted(together.items(), key=lambda each: each[0][0] in _WATCHING):
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
            self._enforce_if_due()

    def _begin(self) -> None:
        former = None
        with contextlib.suppress(OSError):
            former = former_process(self._folder, self._maker.boot_id, self._began.unix_us)
        started = self._maker.row(
            NS_LIFECYCLE,
            "started",
            self._began,
            reason=self._identity.source,
            version=self._identity.version,
            address=self._identity.address,
            former_boot_id=former[0] if former else None,
            unobserved_from=former[1] if former else None,
        )
        self._add_lines([(started, encoded(started))])

    def _resumed(self) -> Iterator[HistoryRow]:
        moment = Moment(self._clock.unix_us(), self._clock.mono_us())
        dropped = self._queue.take_dropped()
        if STATE in dropped:
            self._snapshot_requested.set()
        for kind, (events, from_us) in dropped.items():
            yield self._maker.row(
                NS_LIFECYCLE,
                "recording_resumed",
                moment,
                reason=_REASONS[kind],
                unobserved_from=from_us,
                dropped=events,
            )


def _each(error: BaseException) -> Sequence[BaseException]:
    return error.exceptions if isinstance(error, BaseExceptionGroup) else (error,)


def _message(error: BaseException) -> str:
    return error.message if isinstance(error, BaseExceptionGroup) else str(error) or repr(error)
