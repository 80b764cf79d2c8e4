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
_SEND_BYTES: Final = 256 * 1024
#: Sockets that come with one read at most.
_SOCKETS_MAX: Final = 64
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(_SOCKETS_MAX * array.array("i").itemsize)
#: Whoever leaves so many bytes unread is given up.
UNREAD_BYTES_MAX: Final = 64 * 1024 * 1024


#: More than there are audiences.
AUDIENCES: Final = 1 << 16


class Kind(IntEnum):
    # To a worker

    #: Serve this connection from now on; with its audience and its socket.
    TAKE = 1
    #: Write these bytes to its peer.
    WRITE = 2
    #: An answer to one request, to be kept: an `Answer`.
    ANSWER = 3
    PAUSE_READING = 4
    RESUME_READING = 5
    #: Close it when all is written.
    CLOSE = 6
    ABORT = 7
    #: Give the connection back when all is written.
    RETURN = 8
    #: Answer nothing from memory any more.
    DRAIN = 9

    # To the server

    #: The worker serves.
    READY = 32
    #: A request that the worker does not know.
    REQUEST = 33
    #: The connection with its socket, and what was read of it last.
    BACK = 34
    #: What was to be written to a connection that is back already.
    UNWRITTEN = 35
    #: The peer reads too slowly, and again fast enough; with the bytes that it has not read.
    PAUSED = 36
    RESUMED = 37
    #: The peer closed its side; the connection is gone.
    ENDED = 38
    LOST = 39
    #: What happened since the last report: a `Report`.
    REPORT = 40


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
    """A response that holds while its mark has this value."""

    #: Whose answer it is; also that of the connection from now on. A number of the server's audiences, after the
    #: generation of these numbers.
    audience: int
    mark: int
    value: int
    ext_fields: dict[str, str] | None
    body: bytes
    #: The frame of the request.
    request: bytes


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
    #: Whoever sent or read something.
    active: list[int]
    #: Connection -> bytes that its peer has not read, if there are any.
    unread: dict[int, int]


class Channel:
    """One end; its calls come from the event loop."""

    def __init__(
        self,
        end: socket.socket,
        received: Callable[[int, int, bytes, int | None], None],
        closed: Callable[[], None],
        receive_bytes: int,
    ) -> None:
        """Call `received` with kind, connection, payload and file descriptor of each message, `closed` at the end.

        Messages of so many bytes are received in one turn of the event loop.
        """
        end.setblocking(False)
        self._socket = end
        self._received = received
        self._closed = closed
        self._receive_bytes = receive_bytes
        self._loop = asyncio.get_running_loop()
        self._partial = b""
        self._sockets: deque[int] = deque()
        #: What waits to be sent, each part with the file descriptor that goes with it and is closed afterwards.
        self._unsent: deque[tuple[bytes, int | None]] = deque()
        self._unsent_bytes = 0
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
        message = _HEAD.pack(len(payload), kind, connection) + payload
        self._unsent.append((message, file))
        self._unsent_bytes += len(message)
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
            if self._unsent_bytes > UNREAD_BYTES_MAX:
                self._end()
                return
            self._is_waiting = True
            self._loop.add_writer(self._socket, self._writable)
        except OSError:
            self._end()

    def _send_some(self) -> None:
        """Send the messages up to one with a socket together, or one with a socket."""
        parts: list[bytes] = []
        size = 0
        file = self._unsent[0][1]
        for text, its_file in self._unsent:
            if parts and (its_file is not None or file is not None or size > _SEND_BYTES):
                break
            parts.append(text)
            size += len(text)
        data = b"".join(parts) if len(parts) > 1 else parts[0]
        sent = socket.send_fds(self._socket, [data], [] if file is None else [file])
        for _ in parts:
            self._unsent.popleft()
        if file is not None:
            os.close(file)
        self._unsent_bytes -= sent
        if sent < len(data):
            # Its socket has left with the first bytes.
            self._unsent.appendleft((data[sent:], None))

    def _writable(self) -> None:
        self._loop.remove_writer(self._socket)
        self._is_waiting = False
        self._flush()

    def _read(self) -> None:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(self._receive_bytes, _ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                files = array.array("i")
                files.frombytes(content[: len(content) - len(content) % files.itemsize])
                self._sockets.extend(files)
        if not data:
            self._end()
            return
        self._deliver(self._partial + data if self._partial else data)

    def _deliver(self, data: bytes) -> None:
        at = 0
        while len(data) - at >= _HEAD.size:
            length, kind, connection = _HEAD.unpack_from(data, at)
            end = at + _HEAD.size + length
            if end > len(data):
                break
            file = self._sockets.popleft() if kind in (Kind.TAKE, Kind.BACK) else None
            self._received(kind, connection, data[at + _HEAD.size : end], file)
            at = end
            if not self.is_open:
                return
        self._partial = data[at:]

    def _end(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for file in (*self._sockets, *(file for _, file in self._unsent if file is not None)):
            os.close(file)
        self._unsent.clear()
        self._sockets.clear()
        self._closed()
