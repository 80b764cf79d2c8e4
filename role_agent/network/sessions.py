"""Finds and closes the TCP connections of an address, whichever process has them. Structures: linux/inet_diag.h."""

import errno
import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from role_agent.network.netlink import ACKNOWLEDGE, DUMP, NETLINK_SOCK_DIAG, Netlink, attribute

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

Ip = IPv4Address | IPv6Address


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
    """Close all connections to `local` and return them; raises OSError if the kernel does not list them.

    A kernel that closes none leaves them to time out; without the address they carry nothing.
    """
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
