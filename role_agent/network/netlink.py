"""Requests to the kernel over netlink, one at a time. The structures are those of linux/netlink.h."""

import errno
import os
import socket
import struct
from collections.abc import Iterator
from typing import Final, Self

NETLINK_ROUTE: Final = 0
NETLINK_SOCK_DIAG: Final = 4

REQUEST: Final = 0x1
ACKNOWLEDGE: Final = 0x4
DUMP: Final = 0x300
REPLACE: Final = 0x100
CREATE: Final = 0x400

_ERROR: Final = 2
_DONE: Final = 3
_HEADER: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
#: The kernel's answers to dumps are of 32 KiB at most.
_ANSWER_BYTES_MAX: Final = 65_536
#: The kernel answers at once; a request that it does not answer must not stop an agent.
_TIMEOUT_S: Final = 1.0

Answer = tuple[int, bytes]


class Netlink:
    """A socket to one family of the kernel's; not for several threads."""

    def __init__(self, family: int) -> None:
        """Open it; raises OSError."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family)
        self._socket.settimeout(_TIMEOUT_S)
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def request(self, kind: int, flags: int, body: bytes) -> list[Answer]:
        """Return the kind and body of each answer; raises OSError with the number that the kernel answered."""
        self._sequence += 1
        length = _HEADER.size + len(body)
        self._socket.send(_HEADER.pack(length, kind, REQUEST | flags, self._sequence, 0) + body)
        answers: list[Answer] = []
        while True:
            for answer_kind, sequence, answer in _messages(self._socket.recv(_ANSWER_BYTES_MAX)):
                if sequence != self._sequence:
                    # Of a request whose answer came too late.
                    continue
                if answer_kind in (_DONE, _ERROR):
                    _raise_error(answer)
                    return answers
                answers.append((answer_kind, answer))


def attribute(kind: int, value: bytes) -> bytes:
    """Return an attribute, padded to four bytes."""
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


def attributes(body: bytes) -> dict[int, bytes]:
    """Return the attributes of a message by their kinds."""
    found = {}
    while len(body) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(body)
        if length < _ATTRIBUTE.size:
            break
        found[kind] = body[_ATTRIBUTE.size : length]
        body = body[length + (-length % 4) :]
    return found


def _messages(chunk: bytes) -> Iterator[tuple[int, int, bytes]]:
    while len(chunk) >= _HEADER.size:
        length, kind, _, sequence, _ = _HEADER.unpack_from(chunk)
        if length < _HEADER.size:
            raise OSError(errno.EBADMSG, "the kernel sent a message without a header")
        yield kind, sequence, chunk[_HEADER.size : length]
        chunk = chunk[length + (-length % 4) :]


def _raise_error(body: bytes) -> None:
    number = -struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0  # noqa: PLR2004  # an int of C
    if number > 0:
        raise OSError(number, os.strerror(number))
