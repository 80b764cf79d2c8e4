"""Cuts the bytes of a peer into frames; no socket here.

Answers to `NettyDecoder` (docs/protocol/remoting.md 2).
"""

import struct
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import FrameError, FrameTooLarge, without_origin
from remoting.protocol.frame import (
    FRAME_BYTES_MAX_DEFAULT,
    LENGTH_BYTES,
    PREFIX,
    Pieces,
    decode,
    decode_pieces,
    header_span,
)

Read = TypeVar("Read")

#: Shorter frames are read when they are complete: to keep them costs little.
_LONG_FRAME_BYTES: Final = 64 * 1024
#: An object for each smaller piece would cost more than its bytes.
_PIECE_BYTES_MIN: Final = 4096
_LENGTH: Final = struct.Struct(">i")


class FrameReader(Generic[Read]):
    """Cuts a peer's bytes into frames and reads them, whatever the sizes of the chunks they arrive in.

    Keeps at most one partial frame, so at most `frame_bytes_max` bytes. The header of a long one is read as soon as it
    is there; if the frame is refused, the rest of it is skipped. After bytes that break the framing `error` is set and
    everything later is ignored: the caller answers the frames before and closes the connection.
    """

    # Each of many thousand connections has one.
    __slots__ = (
        "_frame_bytes_max",
        "_is_checked",
        "_read",
        "_read_pieces",
        "_refuse",
        "_rest",
        "_wanted",
        "error",
        "partial_frame_bytes",
        "skipped_bytes_left",
    )

    def __init__(
        self,
        read: Callable[[bytes, int, int], Read],
        read_pieces: Callable[[Pieces], Read],
        frame_bytes_max: int = FRAME_BYTES_MAX_DEFAULT,
        refuse: Callable[[bytes, int], Read | None] = lambda _data, _length: None,
    ) -> None:
        """Take the functions that read a complete frame, such as `decode` and `decode_pieces`.

        `refuse` is given the beginning of a long frame with its whole header, and its length; it returns what stands
        for the frame if the rest of it is not wanted.
        """
        self._read = read
        self._read_pieces = read_pieces
        self._refuse = refuse
        self._frame_bytes_max = frame_bytes_max
        #: Bytes of a refused frame that are still to come.
        self.skipped_bytes_left = 0
        #: Whether the partial frame needs no check before it is complete.
        self._is_checked = True
        #: The partial frame, in the pieces in which it came, small ones joined.
        self._rest: Pieces = []
        #: How many bytes those have.
        self.partial_frame_bytes = 0
        #: Bytes that they must have before they are read again.
        self._wanted = LENGTH_BYTES
        #: Why the stream ended, once it did.
        self.error: FrameError | None = None

    def read_with(self, read: Callable[[bytes, int, int], Read]) -> None:
        """Read complete frames with another function from now on; those in pieces are read as before."""
        self._read = read

    def missing_bytes(self, data: bytes) -> int:
        """Return how many of the next bytes, which begin with `data`, belong to a frame that began, or begins there."""
        if self.partial_frame_bytes:
            return self._wanted - self.partial_frame_bytes
        return self.skipped_bytes_left or LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES])

    def receive(self, data: bytes) -> list[Read]:
        """Return what the frames are that `data` completes, in order; see `error` for what ended the stream."""
        if self.error is not None:
            return []
        if self.skipped_bytes_left:
            data = self._skip(data)
        if self.partial_frame_bytes:
            self._keep(data)
            if self.partial_frame_bytes < self._wanted:
                return self._checked()
            pieces, self._rest = self._rest, []
            is_one_frame = self.partial_frame_bytes == self._wanted > _PIECE_BYTES_MIN
            self.partial_frame_bytes = 0
        else:
            pieces, is_one_frame = [data], False
        frames: list[Read] = []
        try:
            if is_one_frame:
                self._wanted = LENGTH_BYTES
                return [self._read_pieces(pieces)]
            data = bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)
            at = self._cut(data, frames)
        except FrameError as error:
            self.error = without_origin(error)
            return frames
        if at < len(data):
            self._keep(data[at:] if at else data)
            frames += self._checked()
        return frames

    def _skip(self, data: bytes) -> bytes:
        """Return what of `data` is behind a refused frame."""
        skipped = min(self.skipped_bytes_left, len(data))
        self.skipped_bytes_left -= skipped
        return data[skipped:]

    def _checked(self) -> list[Read]:
        """Return what stands for the partial frame if its header is there and the rest is not wanted."""
        length = self._wanted - LENGTH_BYTES
        try:
            if self._is_checked or self.partial_frame_bytes < PREFIX.size:
                return []
            _, header_end = header_span(self._beginning(PREFIX.size), 0, length)
            if self.partial_frame_bytes < header_end:
                return []
            self._is_checked = True
            refused = self._refuse(self._beginning(header_end), length)
        except FrameError as error:
            self.error = without_origin(error)
            self._rest, self.partial_frame_bytes = [], 0
            return []
        if refused is None:
            return []
        self.skipped_bytes_left = self._wanted - self.partial_frame_bytes
        self._rest, self.partial_frame_bytes, self._wanted = [], 0, LENGTH_BYTES
        return [refused]

    def _beginning(self, count: int) -> bytes:
        """Return the first `count` bytes of the partial frame, which are there, and perhaps more."""
        pieces = iter(self._rest)
        beginning = bytes(next(pieces))
        while len(beginning) < count:
            beginning += next(pieces)
        return beginning

    def _keep(self, data: bytes) -> None:
        """Add to the partial frame; large pieces stay as they are, to be copied once, when the frame is whole."""
        self.partial_frame_bytes += len(data)
        if len(data) >= _PIECE_BYTES_MIN:
            self._rest.append(data)
        elif self._rest and isinstance(self._rest[-1], bytearray):
            self._rest[-1] += data
        else:
            self._rest.append(bytearray(data))

    def _cut(self, data: bytes, frames: list[Read]) -> int:
        """Append every complete frame of `data` to `frames` and return where the unfinished one begins."""
        at, end = 0, len(data)
        while end - at >= LENGTH_BYTES:
            (length,) = _LENGTH.unpack_from(data, at)
            self._check_length(length)
            if end - at < LENGTH_BYTES + length:
                self._wanted = LENGTH_BYTES + length
                self._is_checked = length <= _LONG_FRAME_BYTES
                return at
            frames.append(self._read(data, at, length))
            at += LENGTH_BYTES + length
        self._wanted = LENGTH_BYTES
        return at

    def _check_length(self, length: int) -> None:
        if length < LENGTH_BYTES:
            raise FrameError(f"a frame length of {length} is below the {LENGTH_BYTES} bytes of the header word")
        if length + LENGTH_BYTES > self._frame_bytes_max:
            raise FrameTooLarge(length + LENGTH_BYTES, self._frame_bytes_max)


class CommandReader(FrameReader[RemotingCommand]):
    """Cuts a peer's bytes into commands."""

    __slots__ = ()

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX_DEFAULT) -> None:
        super().__init__(decode, decode_pieces, frame_bytes_max)
