"""Requests to the kernel over netlink: addresses that end by themselves, and TCP connections of any process.

The structures are those of linux/netlink.h and linux/inet_diag.h.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Interface, ip_address
from typing import Final, Self

from role_agent.network.frames import Ip

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


_NEW_ADDRESS: Final = 20
_DELETE_ADDRESS: Final = 21
_GET_ADDRESS: Final = 22
#: struct ifaddrmsg: family, prefix length, flags, scope, interface.
_ADDRESS: Final = struct.Struct("=BBBBI")
_IFA_ADDRESS: Final = 1
_IFA_LOCAL: Final = 2
_IFA_CACHEINFO: Final = 6
_IFA_FLAGS: Final = 8
#: struct ifa_cacheinfo: preferred and valid lifetime in seconds, two stamps.
_LIFETIMES: Final = struct.Struct("=IIII")
#: The agent has probed for it itself, and no route to a network hangs on it.
_NO_DUPLICATE_DETECTION: Final = 0x02
_NO_PREFIX_ROUTE: Final = 0x200

#: An address of the kernel's that has no end.
ENDLESS_S: Final = 0xFFFFFFFF

RoleAddress = IPv4Interface | IPv6Interface


class AddressTable:
    """Addresses of one interface; each method raises OSError where the kernel refuses."""

    def __init__(self, interface: str) -> None:
        """Work on the interface of this name, also if it is removed and made again."""
        self._interface = interface

    def add(self, address: RoleAddress, lifetime_s: int) -> None:
        """Add the address, or renew it: the kernel removes it `lifetime_s` from now, up to a second later.

        Nobody begins a connection from it: its preferred lifetime is 0.
        """
        lifetimes = attribute(_IFA_CACHEINFO, _LIFETIMES.pack(0, lifetime_s, 0, 0))
        flags = attribute(_IFA_FLAGS, struct.pack("=I", _NO_PREFIX_ROUTE | _NO_DUPLICATE_DETECTION))
        with Netlink(NETLINK_ROUTE) as kernel:
            kernel.request(_NEW_ADDRESS, ACKNOWLEDGE | CREATE | REPLACE, self._named(address) + lifetimes + flags)

    def remove(self, address: RoleAddress) -> bool:
        """Remove the address; False if it was not there."""
        try:
            with Netlink(NETLINK_ROUTE) as kernel:
                kernel.request(_DELETE_ADDRESS, ACKNOWLEDGE, self._named(address))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return False
            raise
        return True

    def lifetime_s(self, address: RoleAddress) -> int | None:
        """Return for how many seconds the interface has the address, None if it has not."""
        with Netlink(NETLINK_ROUTE) as kernel:
            dumped = kernel.request(_GET_ADDRESS, DUMP, _ADDRESS.pack(_family(address), 0, 0, 0, 0))
        own_index = socket.if_nametoindex(self._interface)
        for _, body in dumped:
            *_, index = _ADDRESS.unpack_from(body)
            found = attributes(body[_ADDRESS.size :])
            packed = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS)
            if index == own_index and packed == address.packed:
                return int(_LIFETIMES.unpack_from(found[_IFA_CACHEINFO])[1]) if _IFA_CACHEINFO in found else ENDLESS_S
        return None

    def _named(self, address: RoleAddress) -> bytes:
        header = _ADDRESS.pack(
            _family(address), address.network.prefixlen, 0, 0, socket.if_nametoindex(self._interface)
        )
        return header + attribute(_IFA_LOCAL, address.packed) + attribute(_IFA_ADDRESS, address.packed)


def _family(address: RoleAddress) -> int:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004  # IPv4


_BY_FAMILY: Final = 20
_DESTROY: Final = 21
_BYTECODE: Final = 1
#: struct inet_diag_req_v2 up to the id: family, protocol, extensions, padding, states.
_REQUEST: Final = struct.Struct("=BBBBI")
#: struct inet_diag_sockid: ports, addresses, interface and cookie.
_ID: Final = struct.Struct("!HH16s16s12s")
#: struct inet_diag_msg up to the id: family, state, timer, retransmissions.
_FOUND: Final = struct.Struct("=BBBB")
_LISTENING: Final = 10
_TIME_WAIT: Final = 6
#: All that have another end: no listener, and none that is only remembered.
_STATES: Final = 0xFFF & ~(1 << _LISTENING) & ~(1 << _TIME_WAIT)
#: struct inet_diag_bc_op (code, yes, no) and inet_diag_hostcond (family, prefix length, port): of this source address.
_OPERATION: Final = struct.Struct("=BBH")
_CONDITION: Final = struct.Struct("=BBHi")
_SOURCE_IS: Final = 7
_ANY_PORT: Final = -1


@dataclass(frozen=True, slots=True)
class Session:
    """One TCP connection to an address of this host."""

    local: Ip
    local_port: int
    remote: Ip
    remote_port: int


def can_close() -> bool:
    """Return whether this kernel closes connections of other processes (CONFIG_INET_DIAG_DESTROY); raises OSError."""
    nowhere = _ID.pack(0, 0, bytes(16), bytes(16), bytes(4) + b"\xff" * 8)
    try:
        with Netlink(NETLINK_SOCK_DIAG) as kernel:
            kernel.request(_DESTROY, ACKNOWLEDGE, _request(socket.AF_INET, nowhere))
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return False
        if error.errno != errno.ENOENT:
            raise
    return True


def close_sessions(local: Ip) -> list[Session]:
    """Close all connections to `local` and return them, also where the kernel only lists them; raises OSError."""
    with Netlink(NETLINK_SOCK_DIAG) as kernel:
        # A dual socket has addresses of IPv4 as IPv6 ones.
        families = (socket.AF_INET, socket.AF_INET6) if isinstance(local, IPv4Address) else (socket.AF_INET6,)
        condition = _source_is(_of_address(local))
        found = [(family, each) for family in families for each in _ids(kernel, family, condition)]
        for family, each in found:
            _close(kernel, family, each)
    return [_session(each) for _, each in found]


def close_connections_at(port: int) -> int:
    """Close all connections to a port of this host, and return how many; raises OSError as `close_sessions`."""
    with Netlink(NETLINK_SOCK_DIAG) as kernel:
        condition = _source_is(_CONDITION.pack(socket.AF_UNSPEC, 0, 0, port))
        found = [(each, ids) for each in (socket.AF_INET, socket.AF_INET6) for ids in _ids(kernel, each, condition)]
        for family, each in found:
            _close(kernel, family, each)
    return len(found)


def _ids(kernel: Netlink, family: int, condition: bytes) -> list[bytes]:
    dump = _request(family, bytes(_ID.size)) + attribute(_BYTECODE, condition)
    answers = kernel.request(_BY_FAMILY, DUMP, dump)
    return [body[_FOUND.size : _FOUND.size + _ID.size] for _, body in answers]


def _close(kernel: Netlink, family: int, session_id: bytes) -> None:
    try:
        kernel.request(_DESTROY, ACKNOWLEDGE, _request(family, session_id))
    except OSError as error:
        # It ended by itself meanwhile, or this kernel closes none.
        if error.errno not in (errno.ENOENT, errno.EOPNOTSUPP):
            raise


def _request(family: int, session_id: bytes) -> bytes:
    return _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _STATES) + session_id


def _of_address(local: Ip) -> bytes:
    family = socket.AF_INET if isinstance(local, IPv4Address) else socket.AF_INET6
    return _CONDITION.pack(family, local.max_prefixlen, 0, _ANY_PORT) + local.packed


def _source_is(condition: bytes) -> bytes:
    length = _OPERATION.size + len(condition)
    # To jump beyond the end is "no".
    return _OPERATION.pack(_SOURCE_IS, length, length + 4) + condition


def _session(session_id: bytes) -> Session:
    local_port, remote_port, local, remote, _ = _ID.unpack(session_id)
    return Session(_ip(local), local_port, _ip(remote), remote_port)


def _ip(sixteen: bytes) -> Ip:
    if sixteen[4:] == bytes(12):
        return IPv4Address(sixteen[:4])
    found = ip_address(sixteen)
    return getattr(found, "ipv4_mapped", None) or found
