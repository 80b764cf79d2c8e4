"""How long the body of a request may be, by its code: what is longer is refused by its length, and read past."""

from collections.abc import Mapping
from typing import Final

import msgspec

from remoting.protocol.codes import RequestCode
from remoting.protocol.errors import RequestRefused

#: Longer than any frame.
UNLIMITED: Final = 2**31 - 1


class BodyLimits(msgspec.Struct, frozen=True):
    """The longest bodies that a server takes, in bytes; the length of a frame (`frameMaxLength`) ends them too."""

    #: Of a request whose code has no limit of its own, also of one that nobody answers.
    other: int = UNLIMITED
    by_code: Mapping[int, int] = msgspec.field(default_factory=dict)

    def of(self, code: int) -> int:
        """Return the longest body of requests with this code."""
        return self.by_code.get(code, self.other)


class BodyTooLong(RequestRefused):
    """A body longer than a request of its code can need."""

    def __init__(self, code: int, body_bytes: int, body_bytes_max: int) -> None:
        self.request_code = code
        self.body_bytes = body_bytes
        self.body_bytes_max = body_bytes_max
        super().__init__(f"{_named(code)}: a body of {body_bytes} bytes is over the limit of {body_bytes_max}")


def _named(code: int) -> str:
    try:
        return f"{RequestCode(code).name} ({code})"
    except ValueError:
        return f"request {code}"
