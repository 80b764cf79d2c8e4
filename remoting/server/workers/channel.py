"""Messages between the server and a worker, some with a socket; in order, over one socket of this machine."""

import array
import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import msgspec

_HEAD: Final = struct.Struct(">IBQ")
#: A message brings one file descriptor at most, and no two that do are received together.
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(array.array("i").itemsize)
_SEND_BYTES: Final = 256 * 1024

#: Upper bound of audience numbers.
AUDIENCES: Final = 1 << 16


class Kind(IntEnum):
    # To a worker

    #: Serve a connection: its audience, and its socket.
    TAKE = 1
    #: What a `REQUEST` becomes: an `Answer`, which the worker keeps.
    ANSWER = 2
    #: Or bytes for the peer, perhaps none.
    DONE = 3
    #: Or the server has to read it itself: give the connection back.
    RETURN = 4
    #: Close a connection when all is written.
    CLOSE = 5
    ABORT = 6

    # To the server

    #: The worker serves.
    READY = 32
    #: A frame that the worker does not know. It reads no more of the connection until it knows what became of it.
    REQUEST = 33
    #: The socket of a connection, and the bytes that were read and not processed.
    BACK = 34
    #: The peer reads too slowly, and again fast enough; with the bytes that it has not read.
    PAUSED = 35
    RESUMED = 36
    #: The connection is gone.
    LOST = 37
    #: What happened since the last report: a `Report`.
    REPORT = 38


#: The messages that bring a socket.
_WITH_SOCKET: Final = frozenset({Kind.TAKE, Kind.BACK})


class Settings(msgspec.Struct, frozen=True):
    """What a worker is told at its start."""

    #: The code of the requests that it answers.
    code: int
    #: As in `ServerLimits`.
    response_buffer_high_bytes: int
    response_buffer_low_bytes: int
    turn_bytes: int
    #: Of the histogram in which responses are counted.
    tally_bounds: tuple[float, ...]


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """A response that is valid while its mark has this value."""

    #: Whose answer it is; also that of the connection from now on. A number of the server's audiences, after the
    #: generation of these numbers.
    audience: int
    mark: int
    value: int
    ext_fields: dict[str, str] | None
    body: bytes


class Report(msgspec.Struct, frozen=True, array_like=True):
    """What a worker counted since the last report, and the state of its connections."""

    cpu_s: float
    received_bytes: int
    sent_bytes: int
    answered: int
    latency_buckets: list[int]
    latency_ns: int
    tally_buckets: list[int]
    tally_sum: float
    #: Connections whose peers sent or read something.
    active: list[int]
    #: Connection -> bytes that its peer has not read, if there are any.
    unread: dict[int, int]


#: Kind, connection, payload, and the file descriptor that came with it; None also without room for it in this process.
Received = Callable[[int, int, bytes, int | None], None]


class Channel:
    """One end; its calls come from the event loop."""

    def __init__(self, end: socket.socket, received: Received, closed: Callable[[], None], receive_bytes: int) -> None:
        """Call `received` with each message, at most so many bytes in one turn of the loop, and `closed` at the end."""
        end.setblocking(False)
        self._socket = end
        self._received = received
        self._closed = closed
        self._receive_bytes = receive_bytes
        self._loop = asyncio.get_running_loop()
        #: What came of a message that is not complete.
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self._wanted_bytes = _HEAD.size
        #: File descriptors of messages that are not complete, in order; None for one that had no room here.
        self._files: deque[int | None] = deque()
        #: What waits to be sent, each part with the file descriptor that goes with it and is closed afterwards.
        self._unsent: deque[tuple[bytes, int | None]] = deque()
        self._is_flushing = False
        self._is_waiting = False
        self.is_open = True
        self._loop.add_reader(end, self._read)

    def send(self, kind: Kind, connection: int, payload: bytes = b"", file: int | None = None) -> None:
        """Send a message after all before it; a file descriptor belongs to the channel from now on."""
        if not self.is_open:
            if file is not None:
                os.close(file)
            return
        self._unsent.append((_HEAD.pack(len(payload), kind, connection) + payload, file))
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Send nothing more; what was sent arrives if the other end reads on."""
        self._flush()
        self._end()

    def _flush(self) -> None:
        self._is_flushing = False
        if self._is_waiting or not self.is_open:
            return
        try:
            while self._unsent:
                self._send_some()
        except BlockingIOError:
            self._is_waiting = True
            self._loop.add_writer(self._socket, self._writable)
        except OSError:
            self._end()

    def _send_some(self) -> None:
        """Send the messages up to one with a file descriptor together, or one with it."""
        parts: list[bytes] = []
        size = 0
        file = self._unsent[0][1]
        for message, its_file in self._unsent:
            if parts and (its_file is not None or file is not None or size > _SEND_BYTES):
                break
            parts.append(message)
            size += len(message)
        data = b"".join(parts) if len(parts) > 1 else parts[0]
        sent = socket.send_fds(self._socket, [data], [] if file is None else [file])
        for _ in parts:
            self._unsent.popleft()
        if file is not None:
            os.close(file)
        if sent < len(data):
            # The file descriptor has left with the first bytes.
            self._unsent.appendleft((data[sent:], None))

    def _writable(self) -> None:
        self._loop.remove_writer(self._socket)
        self._is_waiting = False
        self._flush()

    def _read(self) -> None:
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(self._receive_bytes, _ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary, flags = b"", [], 0
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._files.extend(array.array("i", content))
        if flags & socket.MSG_CTRUNC:
            self._files.append(None)
        if not data:
            self._end()
            return
        self._parts.append(data)
        self._parts_bytes += len(data)
        if self._parts_bytes >= self._wanted_bytes:
            self._deliver(b"".join(self._parts))

    def _deliver(self, data: bytes) -> None:
        at = 0
        wanted_bytes = _HEAD.size
        while self.is_open and len(data) - at >= _HEAD.size:
            length, kind, connection = _HEAD.unpack_from(data, at)
            wanted_bytes = _HEAD.size + length
            if len(data) - at < wanted_bytes:
                break
            file = None
            if kind in _WITH_SOCKET:
                file = self._files.popleft()
            payload = data[at + _HEAD.size : at + wanted_bytes]
            at += wanted_bytes
            wanted_bytes = _HEAD.size
            try:
                self._received(kind, connection, payload, file)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is reported; the next message is another's
                context = {"message": "a message between server and worker cannot be processed", "exception": error}
                self._loop.call_exception_handler(context)
        self._parts, self._parts_bytes, self._wanted_bytes = [data[at:]], len(data) - at, wanted_bytes

    def _end(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for file in (*self._files, *(file for _, file in self._unsent)):
            if file is not None:
                os.close(file)
        self._unsent.clear()
        self._closed()
