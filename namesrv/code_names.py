"""Request and response codes as metrics and logs spell them: Java's constants in lower case."""

from typing import Final

from remoting.codes import NAMESRV_REQUESTS, ResponseCode

#: Stands for every code that a NameServer does not have; peers can send any number.
UNKNOWN: Final = "unknown"

_REQUESTS: Final = {int(code): code.name.lower() for code in NAMESRV_REQUESTS}
_RESPONSES: Final = {int(code): code.name.lower() for code in ResponseCode}


def request_name(code: int) -> str:
    """Return the name of a request code."""
    return _REQUESTS.get(code, UNKNOWN)


def response_name(code: int) -> str:
    """Return the name of a response code."""
    return _RESPONSES.get(code, UNKNOWN)
