"""How a call ended, whatever was called."""

from enum import StrEnum
from typing import Final, NamedTuple

#: Bytes of what a program prints, or a server answers, that are kept; the rest is read and dropped.
OUTPUT_BYTES_MAX: Final = 2_048


class CallResult(StrEnum):
    """How a call ended; the values label metrics."""

    DELIVERED = "delivered"
    #: A program ended with another status than 0, a server did not answer 2xx, or neither was reached.
    FAILED = "failed"
    #: The time limit ended it.
    TIMEOUT = "timeout"


class CallOutcome(NamedTuple):
    """How a call ended."""

    result: CallResult
    #: Why it was not delivered, in words; blank if it was.
    error: str = ""
    #: What the program printed, or the server answered: the first OUTPUT_BYTES_MAX bytes.
    output: str = ""


def output_text(data: bytes) -> str:
    """Return the beginning of an output as text, without what is no UTF-8 and without blanks around it."""
    return data[:OUTPUT_BYTES_MAX].decode(errors="replace").strip()
