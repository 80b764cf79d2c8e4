"""The options of the console in the browser (docs/console.md); Java's servers have none."""

from dataclasses import dataclass
from typing import ClassVar, Final, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from serving.config.options import NAMES_A_FILE, FilePath, Fixed, Flag, NamedAddressList, Text, option

#: `offsets` is an offset manager.
PeerKind = Literal["namesrv", "controller", "offsets"]

#: Servers that one console may name.
PEERS_MAX: Final = 64

_KINDS: Final = get_args(PeerKind)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class ConsolePeer(msgspec.Struct, frozen=True):
    """The HTTP side of another server."""

    kind: PeerKind
    #: `http://host:port` or `https://host:port`, without a path.
    url: str
    host: str
    port: int


class ConsolePeerList(Text, frozen=True):
    """Other servers as `kind=url` with a `;` between them; blank for none."""

    placeholder: ClassVar[str] = "KIND=URL;..."
    allowed: ClassVar[str] = (
        f"at most {PEERS_MAX} times {', '.join(_KINDS[:-1])} or {_KINDS[-1]}, = and http(s)://host:port without user, "
        "path and query, separated by ';'"
    )

    def value_of(self, text: str) -> str | None:
        value = super().value_of(text)
        return value if value is not None and console_peers(value) is not None else None


def console_peers(text: str) -> tuple[ConsolePeer, ...] | None:
    """Parse a list of peers, each once, in its order; None if an entry is invalid or there are too many."""
    found = [_peer(entry) for each in text.split(";") if (entry := each.strip())]
    right = tuple(dict.fromkeys(each for each in found if each is not None))
    return right if None not in found and len(found) <= PEERS_MAX else None


def _peer(entry: str) -> ConsolePeer | None:
    word, _, address = (part.strip() for part in entry.partition("="))
    kind = next((each for each in _KINDS if each == word.lower()), None)
    if kind is None or not address.isascii() or any(each.isspace() for each in address):
        return None
    try:
        url = urlsplit(address)
        port = url.port
    except ValueError:
        return None
    if port is None:
        port = _DEFAULT_PORTS.get(url.scheme)
    is_bare = url.username is None and url.path in {"", "/"} and not url.query and not url.fragment
    if not (is_bare and url.scheme in _DEFAULT_PORTS and url.hostname and port):
        return None
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return ConsolePeer(kind=kind, url=f"{url.scheme}://{host}:{port}", host=url.hostname, port=port)


#: Option with the path of the file of the token that lets its holders read.
READER_PROPERTY: Final = "consoleReadTokenFile"

_WHO: Final = Fixed("it decides who may use the console")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConfig:
    """Options of a server with a console. All are read by process.py, which hands them to serving/http/console."""

    console_enable: bool = option(
        True, "consoleEnable", Flag(), "Serve the browser console at /ui/ of the HTTP port.", _WHO
    )
    console_hosts: str = option(
        "",
        "consoleHosts",
        NamedAddressList(),
        "Further names and addresses, such as those of a proxy or load balancer, under which clients reach the HTTP "
        "port, separated by ';'. Users who open the console there must sign in.",
        _WHO,
    )
    console_read_token_file: str = option(
        "",
        READER_PROPERTY,
        FilePath(),
        "File whose first line, at least 16 characters, is the token for reading in the console; read again when it "
        "changes. If set, the console requires a sign-in on loopback too.",
        NAMES_A_FILE,
    )
    console_peers: str = option(
        "",
        "consolePeers",
        ConsolePeerList(),
        "Other servers that the console shows: "
        "namesrv=http://host:9880;controller=http://host:9881;offsets=http://host:9883. Changes there carry the "
        "admin token of the session, so name only your own servers.",
        Fixed("it decides where the console sends requests"),
    )
