"""The gap in the acknowledged sends of one set: from the last before a failure to the first after it. Pure."""

from typing import NamedTuple


class ProbeGap(NamedTuple):
    """A time without acknowledged sends that has ended."""

    #: From the last acknowledgement before it to the first one after it.
    gap_ms: int
    #: Sends within it that failed.
    failed: int
    #: Why the last of them failed; blank if none did, and one only took long.
    error: str
    #: Where the sends went before and after.
    former_address: str
    address: str


class AcknowledgedSends:
    """The sends to one set, one after another."""

    def __init__(self) -> None:
        #: None: there is nothing to measure from.
        self._last_ms: int | None = None
        self._address = ""
        self._failed = 0
        self._error = ""

    def acknowledged(self, now_ms: int, address: str, usual_ms: int) -> ProbeGap | None:
        """Take an acknowledged send; returns the gap before it, None if there was none.

        Without a failed send only what is longer than `usual_ms` is a gap.
        """
        gap = None
        if self._last_ms is not None and (self._failed or now_ms - self._last_ms > usual_ms):
            gap = ProbeGap(now_ms - self._last_ms, self._failed, self._error, self._address, address)
        self._last_ms, self._address = now_ms, address
        self._failed, self._error = 0, ""
        return gap

    def failed(self, error: str) -> None:
        """Take a send that failed."""
        self._failed += 1
        self._error = error

    def discard_before(self, since_ms: int) -> None:
        """Measure nothing from an acknowledgement before then: this process was paused meanwhile."""
        if self._last_ms is not None and self._last_ms < since_ms:
            self._last_ms, self._failed, self._error = None, 0, ""
