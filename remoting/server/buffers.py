"""Bytes that wait: partial frames, input that is deferred to a later turn, responses that peers have not read.

Every buffer keeps the server's totals in `ServerStatistics` right as it changes. Limits are enforced in `server.py`.
"""

import asyncio
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, Protocol

from remoting.protocol.errors import FrameError
from remoting.protocol.frame_reader import FrameReader
from remoting.server.observer import CloseReason
from remoting.server.request_processor import Received
from remoting.server.statistics import Latencies, ServerStatistics, timer_ns
from remoting.transport.filter import ConnectionFilter
from remoting.transport.tls import TlsContexts

#: A batch leaves at the latest with so many responses: a loop iteration can produce thousands.
RESPONSES_MAX: Final = 64


class TooManyPartialFrameBytes(FrameError):
    """The partial frames of all connections together exceed their limit, and this one is among the largest."""

    kind = "partial_frame_bytes"

    def __init__(self, frame_bytes: int, all_bytes: int, all_bytes_max: int) -> None:
        self.frame_bytes = frame_bytes
        self.all_bytes = all_bytes
        self.all_bytes_max = all_bytes_max
        super().__init__(
            f"partial frames of all connections have {all_bytes} bytes, over the limit of {all_bytes_max}"
            f" (partialFrameBytesMax); {frame_bytes} of them are of this one"
        )


class ConnectionInput:
    """Received bytes of one connection: its filter, the frames cut from them, and what waits for a later turn.

    At most one frame is partial: begun and not complete. The rest of a refused frame counts as partial too, though its
    bytes are dropped: its sender occupies a connection meanwhile. With deferred input the connection reads nothing.
    """

    __slots__ = (
        "_at",
        "_began_ms",
        "_data",
        "_frames",
        "_new_reader",
        "_reader",
        "_refused_bytes_left",
        "_statistics",
        "filter",
        "is_plain",
        "is_scheduled",
        "partial_bytes",
    )

    def __init__(
        self, new_reader: Callable[[], FrameReader[Received]], tls: TlsContexts | None, statistics: ServerStatistics
    ) -> None:
        self._new_reader = new_reader
        self._reader = new_reader()
        self._statistics = statistics
        #: None once frames come as plain bytes.
        self.filter: ConnectionFilter | None = ConnectionFilter(tls)
        #: No filter, and no partial frame.
        self.is_plain = False
        #: Received bytes of the partial frame.
        self.partial_bytes = 0
        #: Bytes of a refused frame that are still to come.
        self._refused_bytes_left = 0
        self._began_ms = 0
        #: Deferred frames, which count as in flight, and deferred bytes from `_at` on.
        self._frames: Sequence[Received] = ()
        self._data = b""
        self._at = 0
        #: Whether the request queue gives the connection a turn to read on.
        self.is_scheduled = False

    @property
    def error(self) -> FrameError | None:
        """Why the bytes cannot be cut into frames any more; None while they can."""
        return self._reader.error

    def read_with(
        self, read: Callable[[bytes, int, int], Received], new_reader: Callable[[], FrameReader[Received]]
    ) -> None:
        """Read frames with `read` from now on, as the readers of `new_reader` do; a partial frame stays."""
        self._new_reader = new_reader
        self._reader.read_with(read)

    def read(self, data: bytes) -> list[Received]:
        return self._reader.receive(data)

    def update_partial(self, frames: int, now_ms: int) -> None:
        """Count what of a frame is incomplete after `frames` were read; its age begins at `now_ms` if it is new.

        If the only frame read is refused and not at its end, it is the one that was partial before.
        """
        reader = self._reader
        size, refused_bytes_left = reader.partial_frame_bytes, reader.skipped_bytes_left
        self.is_plain = not (size or refused_bytes_left or self.filter is not None or reader.error)
        if self.is_plain and not (self.partial_bytes or self._refused_bytes_left):
            return
        if self.filter is not None:
            size += self.filter.partial_bytes
        goes_on = frames == 1 and refused_bytes_left and self.partial_bytes
        if (frames and not goes_on) or not (self.partial_bytes or self._refused_bytes_left):
            self._began_ms = now_ms
        self._set_partial(size, refused_bytes_left)

    def restart_age(self, now_ms: int) -> None:
        """Count the age of the partial frame from `now_ms`: while nothing was read it could not grow."""
        self._began_ms = now_ms

    def too_old(self, now_ms: int, age_ms_max: int) -> FrameError | None:
        """Return the error that closes the connection if the partial frame is older than `age_ms_max`."""
        age_ms = now_ms - self._began_ms
        if age_ms <= age_ms_max or not (self.partial_bytes or self._refused_bytes_left):
            return None
        seconds = age_ms // 1000
        if self._refused_bytes_left:
            return FrameError(f"a refused frame is incomplete after {seconds} s: {self._refused_bytes_left} bytes lack")
        return FrameError(f"a frame is incomplete after {seconds} s: {self.partial_bytes} bytes came")

    def drop_bytes(self) -> None:
        """Drop the partial frame and deferred bytes; deferred frames stay."""
        self._data = b""
        self._reader = self._new_reader()
        self._set_partial(0, 0)

    def _set_partial(self, size: int, refused_bytes_left: int) -> None:
        self._statistics.partial_frame_bytes += size - self.partial_bytes
        self.partial_bytes, self._refused_bytes_left = size, refused_bytes_left

    # Deferred input

    @property
    def has_deferred(self) -> bool:
        return bool(self._frames or self._data)

    def exceeds_turn(self, data: bytes, turn_bytes: int) -> bool:
        """Return True for more than `turn_bytes`, unless they all belong to one frame: it is no work until it ends."""
        return len(data) > turn_bytes and (self.filter is not None or len(data) > self._reader.missing_bytes(data))

    def defer_frames(self, frames: Sequence[Received]) -> None:
        """Keep the frames that were not processed in this turn."""
        self._frames = frames
        self._statistics.in_flight += len(frames)

    def defer_bytes(self, data: bytes) -> None:
        """Keep bytes that are too many for one turn."""
        assert not self._data, "a connection with deferred bytes receives nothing"
        self._data, self._at = data, 0

    def take_frames(self) -> Sequence[Received]:
        frames, self._frames = self._frames, ()
        self._statistics.in_flight -= len(frames)
        return frames

    def take_bytes(self, turn_bytes: int) -> bytes:
        """Return deferred bytes for one turn, `b""` without any: a whole frame, or what `exceeds_turn` does not."""
        at = self._at
        if self.filter is None and self._data:
            turn_bytes = max(turn_bytes, self._reader.missing_bytes(self._data[at : at + 4]))
        self._at = at + turn_bytes
        piece = self._data[at : self._at]
        if self._at >= len(self._data):
            self._data = b""
        return piece

    def drop(self) -> None:
        """Drop everything: nothing more is processed."""
        self.take_frames()
        self.drop_bytes()


class WritePause(IntEnum):
    """Whether a peer reads its responses; 0 (false) while it does."""

    NONE = 0
    #: The response buffer exceeded `response_buffer_high_bytes`; no request of the peer is processed.
    BEGUN = 1
    #: So at the last check.
    SEEN = 2
    #: The peer read nothing between two checks, and the observer knows.
    REPORTED = 3


class ResponseBuffer:
    """Bytes of responses that one peer has not read, and whether there are too many."""

    __slots__ = ("_statistics", "bytes", "pause")

    def __init__(self, statistics: ServerStatistics) -> None:
        self._statistics = statistics
        #: As of the last update.
        self.bytes = 0
        self.pause = WritePause.NONE

    def update(self, size: int) -> None:
        self._statistics.response_buffer_bytes += size - self.bytes
        self.bytes = size

    def begin_pause(self, size: int) -> None:
        """Count a pause that begins with `size` buffered bytes."""
        self.pause = WritePause.BEGUN
        self._statistics.paused += 1
        self._statistics.pauses += 1
        self.update(size)

    def end_pause(self, size: int) -> None:
        """Count the end of a pause, if there is one, with `size` buffered bytes left."""
        self._statistics.paused -= self.pause is not WritePause.NONE
        self.pause = WritePause.NONE
        self.update(size)

    def check_pause(self, bytes_before: int) -> bool:
        """Return True once a pause: the peer read nothing of `bytes_before` since the last check.

        A fast reader is paused for a moment again and again, and is never reported.
        """
        is_stuck = self.pause is WritePause.SEEN and self.bytes == bytes_before
        if is_stuck:
            self.pause = WritePause.REPORTED
        elif self.pause is WritePause.BEGUN:
            self.pause = WritePause.SEEN
        return is_stuck


class WritableConnection(Protocol):
    """A connection as a batch sees it."""

    def write_response(self, frame: bytes) -> None:
        """Hand a frame to the socket, unless the connection is closing."""

    def abort(self, reason: CloseReason) -> None:
        """End the connection at once."""


class WriteBatch:
    """Cached responses of one iteration of the event loop, in order; they leave together at its end.

    Each write to a socket wakes its reader. Where client and server share processors the switch costs more than the
    response: so an iteration reads from all sockets first and writes all responses afterwards.
    """

    __slots__ = ("_began_ns", "_call_soon", "_latencies", "_responses", "_statistics")

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], latencies: Latencies, statistics: ServerStatistics
    ) -> None:
        """Flush by `call_soon`; count the time that responses took in `latencies`."""
        self._call_soon = call_soon
        self._latencies = latencies
        self._statistics = statistics
        self._responses: list[tuple[WritableConnection, bytes]] = []
        #: When the first of them came.
        self._began_ns = 0

    def put(self, connection: WritableConnection, frame: bytes) -> None:
        """Add a response; it leaves at the end of the iteration, or with RESPONSES_MAX in the batch."""
        responses = self._responses
        if not responses:
            self._began_ns = timer_ns()
            self._call_soon(self.flush)
        responses.append((connection, frame))
        if len(responses) >= RESPONSES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write all responses now; whoever writes to one of the connections directly flushes first."""
        if not self._responses:
            return
        responses, self._responses = self._responses, []
        sent_bytes = 0
        for connection, frame in responses:
            sent_bytes += len(frame)
            try:
                connection.write_response(frame)
            except Exception as error:  # noqa: BLE001  # whatever it is, the responses of others leave
                abort_after_fault(connection, "a response cannot be written to its connection", error)
        self._statistics.sent_bytes += sent_bytes
        # One reading of the clock serves all: none took longer than the first.
        self._latencies.add(timer_ns() - self._began_ns, len(responses))


def abort_after_fault(connection: WritableConnection, message: str, error: Exception) -> None:
    connection.abort(CloseReason.ERROR)
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
