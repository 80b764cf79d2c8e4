"""Who is told about each call to a store; for metrics."""

from typing import Protocol


class StoreObserver(Protocol):
    """Calls may come from any thread."""

    def store_call(self, kind: str, result: str, seconds: float) -> None:
        """Learn of one call: what was asked (`commit`, `read`, `load`, ...), what came of it, and how long it took.

        The result is `ok`, `moved`, `deposed`, `unknown` or `failed`.
        """


class NoObserver:
    """Nobody wants to know."""

    def store_call(self, kind: str, result: str, seconds: float) -> None:
        """Do nothing."""
