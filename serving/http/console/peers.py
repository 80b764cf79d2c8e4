"""The servers of a console: itself, and those of consolePeers, by kind and number."""

import socket
from collections.abc import Mapping, Sequence

import aiohttp
import msgspec

from remoting.protocol.addresses import host_and_port, is_loopback
from serving.config.console_options import ConsolePeer, PeerKind

#: Where a server that listens on all addresses reaches itself.
_LOOPBACK_OF_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class NumberedPeer(msgspec.Struct, frozen=True, kw_only=True):
    """One server, as addresses of the console name it."""

    kind: PeerKind
    number: int
    is_self: bool
    #: `http://host:port`.
    url: str

    @property
    def address(self) -> str:
        return self.url.partition("://")[2]


PeerTable = Mapping[tuple[str, int], NumberedPeer]


def new_session(connections_max: int) -> aiohttp.ClientSession:
    """Return what connects to servers, without a proxy of the environment, cookies and .netrc; 0 for no limit."""
    connector = aiohttp.TCPConnector(limit=connections_max)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)


def kind_of(program: str) -> PeerKind:
    """Return the kind of a server with a console, by its command."""
    return "controller" if program == "rmq-controller" else "namesrv"


def peer_table(own: PeerKind, bind_address: str, port: int, others: Sequence[ConsolePeer]) -> PeerTable:
    """Return all peers; an entry of the option that is this very server is left out, so that all may have one list."""
    host = _LOOPBACK_OF_ANY.get(bind_address, bind_address)
    table: dict[tuple[str, int], NumberedPeer] = {}
    table[own, 0] = NumberedPeer(kind=own, number=0, is_self=True, url=f"http://{host_and_port(host, port)}")
    for each in others:
        if each.kind == own and each.port == port and _is_this_machine(each.host, host):
            continue
        number = sum(kind == each.kind for kind, _ in table)
        table[each.kind, number] = NumberedPeer(kind=each.kind, number=number, is_self=False, url=each.url)
    return table


def _is_this_machine(host: str, bound: str) -> bool:
    """Return whether a host is written as this machine's own; no name is looked up."""
    name = socket.gethostname().lower()
    is_named = host == name or host.startswith(f"{name}.")
    return host == bound or is_named or (is_loopback(host) and is_loopback(bound))
