"""Observer of the calls to a store; for logs and metrics."""

from typing import Protocol


class StoreObserver(Protocol):
    """Calls may come from any thread."""

    def store_call(self, kind: str, result: str, seconds: float) -> None:
        """Report one call: what was asked (`commit`, `read`, `load`, ...), its result, and how long it took.

        The result is `ok`, `moved`, `deposed`, `unknown` or `failed`.
        """

    def store_calls_failing(self, kind: str, error: str) -> None:
        """Report that calls of this kind fail from now on; called once, until one succeeds."""

    def store_calls_answered(self, kind: str, silent_ms: int) -> None:
        """Report that they succeed again, and how long they did not."""

    def task_failed(self, name: str, error: BaseException) -> None:
        """Report that something in the background failed by a fault of ours; it goes on."""

    def store_file_removed(self, error: str) -> None:
        """Report that the file of the store is gone, and nothing can be stored any more; called once."""

    def store_file_unseen(self, error: str) -> None:
        """Report that nobody can tell at the moment whether it is there; called once, until it can be told."""


class NoObserver:
    """Ignores everything."""

    def store_call(self, kind: str, result: str, seconds: float) -> None:
        """Do nothing."""

    def store_calls_failing(self, kind: str, error: str) -> None:
        """Do nothing."""

    def store_calls_answered(self, kind: str, silent_ms: int) -> None:
        """Do nothing."""

    def task_failed(self, name: str, error: BaseException) -> None:
        """Do nothing."""

    def store_file_removed(self, error: str) -> None:
        """Do nothing."""

    def store_file_unseen(self, error: str) -> None:
        """Do nothing."""
