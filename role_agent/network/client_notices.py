"""Has clients notice that a connection has ended, by whichever host has its address now."""

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address
from typing import Final

from role_agent.network.frames import stray_acknowledgement
from role_agent.network.sessions import Session

_IPPROTO_RAW: Final = 255


def notify(sessions: Iterable[Session]) -> None:
    """Send a stray acknowledgement to the client of each connection that was closed on this host.

    Raises OSError if the kernel gives no raw socket; a client that cannot be reached is left out.
    """
    by_family: dict[int, list[Session]] = {socket.AF_INET: [], socket.AF_INET6: []}
    for session in sessions:
        by_family[socket.AF_INET if isinstance(session.remote, IPv4Address) else socket.AF_INET6].append(session)
    for family, members in by_family.items():
        if members:
            _notify(family, members)


def _notify(family: int, sessions: list[Session]) -> None:
    with socket.socket(family, socket.SOCK_RAW, _IPPROTO_RAW) as raw:
        raw.setblocking(False)
        for session in sessions:
            packet = stray_acknowledgement(session.local, session.local_port, session.remote, session.remote_port)
            try:
                raw.sendto(packet, (str(session.remote), 0))
            except OSError:
                # No route to it, or a full queue: its own next packet meets the new host.
                continue
