"""Codes and releases as metrics and log lines spell them: codes are Java's constants in lower case."""

from typing import Final

from remoting.protocol.codes import ResponseCode
from remoting.protocol.releases import release_name
from serving.config.server_config import Config
from serving.config.server_kind import ServerKind

#: Stands for every code that a server does not have, and every ordinal that no release from 4.0.0 to 5.9.9 has:
#: peers can send any number.
UNKNOWN: Final = "unknown"

_RESPONSES: Final = {int(code): code.name.lower() for code in ResponseCode}


def request_name(kind: ServerKind[Config], code: int) -> str:
    return kind.request_names.get(code, UNKNOWN)


def response_name(code: int) -> str:
    return _RESPONSES.get(code, UNKNOWN)


def release_of(ordinal: int) -> str:
    """Return the release of a peer, `5.3.1` or `5.4.0-SNAPSHOT`, by the ordinal that it sends as its version."""
    name = release_name(ordinal)
    return UNKNOWN if name is None else name.removeprefix("V").replace("_SNAPSHOT", "-SNAPSHOT").replace("_", ".")
