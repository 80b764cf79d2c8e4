"""Request and response codes as metrics and logs spell them: Java's constants in lower case."""

from typing import Final

from remoting.protocol.codes import ResponseCode
from serving.config.server_config import Config
from serving.config.server_kind import ServerKind

#: Stands for every code that a server does not have; peers can send any number.
UNKNOWN: Final = "unknown"

_RESPONSES: Final = {int(code): code.name.lower() for code in ResponseCode}


def request_name(kind: ServerKind[Config], code: int) -> str:
    """Return the name of a request code."""
    return kind.request_names.get(code, UNKNOWN)


def response_name(code: int) -> str:
    """Return the name of a response code."""
    return _RESPONSES.get(code, UNKNOWN)
