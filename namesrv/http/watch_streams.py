"""The watchers of one log of changes: how each gets what it has to read, and how all of them end.

Whoever changes something only notes that a watcher has something to read. Each watcher then reads in a task of its own,
some of them at a time, so that requests of peers are answered in between.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from typing import ClassVar, Final

from namesrv.core.change_log import (
    Change,
    ChangeLog,
    GapReason,
    PresentState,
    WatchCounts,
    WatchCursor,
    WatchGap,
    WatchKind,
)
from namesrv.core.tables.change import SAMPLE_TOPICS_MAX
from namesrv.observability.event_log import NameServerEventLog
from namesrv.observability.log_events import WATCHER_REFUSED, WATCHER_STALLED
from namesrv.settings.config import NameServerConfig
from remoting.clock import Clock
from serving.http.server_sent_events import HEARTBEAT, HEARTBEAT_S, DirectWriter, StreamPlaces, event_text
from serving.http.views import HttpRefused, Unavailable

#: Bytes that are written at a time; one event may have more.
CHUNK_BYTES: Final = 16 * 1024
#: Watchers that begin to read in one turn of the event loop, some 50 us of work each.
WAKES_PER_TURN: Final = 32
#: Ms after which a client should connect again when its stream was ended in order, and seconds after a refusal.
RETRY_MS: Final = 1000
FULL_RETRY_S: Final = 10

_DIGITS_MAX: Final = 18
_BOOT_ID_CHARS_MAX: Final = 32


class WatchStreams(ABC):
    """The log of what is watched, and its open watchers; what is watched, its children say."""

    kind: ClassVar[WatchKind]

    def __init__(
        self, boot_id: str, config: NameServerConfig, places: StreamPlaces, clock: Clock, event_log: NameServerEventLog
    ) -> None:
        self._boot_id = boot_id
        self.log = ChangeLog(config.route_watch_changes_max, config.route_watch_bytes_max)
        self.counts = WatchCounts()
        self._places = places
        self._clock = clock
        self._event_log = event_log
        self._open: dict[WatchCursor, WatchStream] = {}
        self._ready: deque[WatchStream] = deque()
        self._is_closing = False
        #: Set when there is something to publish.
        self._work = asyncio.Event()

    @abstractmethod
    def present(self, key: str) -> bytes:
        """Return the present state of a key as JSON; its latest change is in the log by then."""

    @abstractmethod
    def present_text(self, key: str, state: bytes, event_id: str | None) -> bytes:
        """Return the event with a present state."""

    @abstractmethod
    def gap_text(self, reason: GapReason, keys: tuple[str, ...]) -> bytes:
        """Return the event of a gap."""

    def id_of(self, number: int) -> str:
        return f"{self._boot_id}-{number}"

    def open(self, keys: tuple[str, ...], after: str, client: str) -> "WatchStream":
        """Return the stream of a new watcher, which goes on after an id unless that is blank.

        Raises Unavailable beyond the limit and while the server stops, HttpRefused for what can be no id.
        """
        number = _number_of(after) if after else None
        if self._is_closing:
            raise Unavailable("This NameServer is stopping; watch another one.")
        cursor = WatchCursor(keys, 0)
        stream = WatchStream(self, cursor, client)
        if not self._places.take(stream, client):
            self.counts.refused += 1
            places_max = self._places.places_max
            self._event_log.write(WATCHER_REFUSED, watch=self.kind, peer=client, watchers_max=places_max)
            raise Unavailable(f"There are {places_max} watchers, the limit of routeWatchersMax.", FULL_RETRY_S)
        for key in keys:
            self.log.watch(key, cursor)
        self._place(cursor, number, after)
        self._open[cursor] = stream
        self.counts.watchers += 1
        return stream

    def _place(self, cursor: WatchCursor, number: int | None, after: str) -> None:
        if number is None:
            cursor.begin(self.log.number)
        elif after != self.id_of(number) or number > self.log.number:
            cursor.begin(self.log.number, GapReason.UNKNOWN_ID)
        else:
            cursor.position = number
            cursor.resume(self.log)

    def ended(self, stream: "WatchStream", *, is_stalled: bool) -> None:
        """Give the place of a watcher back."""
        if self._open.pop(stream.cursor, None) is None:
            return
        self._places.leave(stream)
        self.counts.watchers -= 1
        now_ms = self._clock.now_ms()
        for key in stream.cursor.keys:
            self.log.unwatch(key, stream.cursor, now_ms)
        if is_stalled:
            self.counts.stalled += 1
            topics = [key for key in stream.cursor.keys if key][:SAMPLE_TOPICS_MAX]
            self._event_log.write(WATCHER_STALLED, watch=self.kind, peer=stream.client, sample_topics=topics)

    def notify(self, cursors: Iterable[WatchCursor]) -> None:
        """Note watchers that have something to read; `wake_some` lets them."""
        self._ready.extend(self._open[cursor] for cursor in cursors if cursor in self._open)

    def wake_some(self) -> None:
        """Let the next watchers read that have something to read."""
        for _ in range(min(WAKES_PER_TURN, len(self._ready))):
            self._ready.popleft().wake()

    def close(self) -> None:
        """End all streams in order, and take no more."""
        self._is_closing = True
        for stream in self._open.values():
            stream.end()


class WatchStream:
    """What one watcher gets; an `EventStream`."""

    def __init__(self, streams: WatchStreams, cursor: WatchCursor, client: str) -> None:
        self._streams = streams
        self.cursor = cursor
        self.client = client
        self._awake = asyncio.Event()
        self._is_waiting = False
        self._is_ending = False
        self._writer: DirectWriter | None = None

    def attach(self, writer: DirectWriter) -> None:
        """Write directly to a client that keeps up."""
        self._writer = writer

    def wake(self) -> None:
        if self._is_waiting and not self._is_ending and self._writer is not None and self._writer.is_free:
            self._write_next(self._writer)
        if self.cursor.has_more:
            self._awake.set()

    def end(self) -> None:
        self._is_ending = True
        self._awake.set()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield events as they come; a comment when there was none for HEARTBEAT_S."""
        while not self._is_ending:
            if self.cursor.has_more:
                # A watcher that goes on may find that there was nothing.
                if chunk := self._next():
                    yield chunk
                continue
            if not await self._is_woken():
                yield HEARTBEAT
        yield event_text("closing", b"{}", retry_ms=RETRY_MS)

    async def _is_woken(self) -> bool:
        """Wait until there is something to do; False after HEARTBEAT_S."""
        self._awake.clear()
        self._is_waiting = True
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                return await self._awake.wait()
        except TimeoutError:
            return False
        finally:
            self._is_waiting = False

    def close(self, *, is_stalled: bool) -> None:
        self._streams.ended(self, is_stalled=is_stalled)

    def _write_next(self, writer: DirectWriter) -> None:
        if chunk := self._next():
            writer.write(chunk)

    def _next(self) -> bytes:
        streams = self._streams
        steps = self.cursor.take(streams.log, streams.present, CHUNK_BYTES)
        streams.counts.events += len(steps)
        return b"".join(map(self._text, steps))

    def _text(self, step: WatchGap | PresentState | Change) -> bytes:
        streams = self._streams
        match step:
            case Change():
                return step.text
            case PresentState():
                event_id = None if step.number is None else streams.id_of(step.number)
                return streams.present_text(step.key, step.state, event_id)
            case WatchGap():
                streams.counts.gaps[step.reason] += 1
                return streams.gap_text(step.reason, step.keys)


def _number_of(event_id: str) -> int:
    """Return the number in an id; refuses what no server sent."""
    boot_id, _, number = event_id.rpartition("-")
    is_number = number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX
    if not (is_number and 0 < len(boot_id) <= _BOOT_ID_CHARS_MAX and boot_id.isascii() and boot_id.isalnum()):
        raise HttpRefused(
            "Last-Event-ID, or after, must be the id of an event of this server; leave it out to begin with "
            "the present routes."
        )
    return int(number)
