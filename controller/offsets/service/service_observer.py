"""What the offset service reports. Values only."""

from collections.abc import Sequence
from typing import Protocol

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.commits.freezes import Freeze
from controller.offsets.commits.results import OffsetResult


class ServiceObserver(Protocol):
    """Learns what the service does, to log and count it."""

    def leadership_gained(self, offsets: int, unreadable: int, duration_ms: int) -> None:
        """Report that this manager answers, with so many offsets, and so many rows that cannot be read."""

    def leadership_lost(self, leader_address: str) -> None:
        """Report that this manager answers no more; the address of the leader is blank if nobody is known to lead."""

    def load_failed(self, error: str) -> None:
        """Report that the offsets could not be loaded; that is tried again."""

    def results(self, operation: str, results: Sequence[OffsetResult]) -> None:
        """Report what became of the entries of a request."""

    def changed_by_operator(self, operation: str, writer: str, changes: Sequence[OffsetChange]) -> None:
        """Report a change that is no commit, once it is durable."""

    def frozen(self, freeze: Freeze) -> None:
        """Report a freeze that was made or replaced."""

    def thawed(self, operation: str, *, is_expired: bool) -> None:
        """Report the end of a freeze: requested, or because its operation did not renew it."""
