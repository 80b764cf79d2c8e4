"""Logs and counts what becomes of resizes."""

from controller.observability.counters import SetCounters
from controller.scaling.resize.decision import ResizeAction
from controller.scaling.resize.operation import ResizeOperation
from serving.logging.logs import Logs


class ResizeEventLog:
    """Learns what becomes of operations."""

    def __init__(self, logs: Logs, counters: SetCounters) -> None:
        self._logs = logs
        self._counters = counters

    def resize_created(self, operation: ResizeOperation) -> None:
        """Log a new operation."""

    def phase_entered(self, before: ResizeOperation, after: ResizeOperation) -> None:
        """Log the phase."""

    def actions_failed(self, operation: ResizeOperation, failures: tuple[str, ...]) -> None:
        """Log changes that failed."""

    def actions_done(self, operation: ResizeOperation, actions: tuple[ResizeAction, ...]) -> None:
        """Count changes."""

    def round_failed(self, operation: ResizeOperation, error: Exception) -> None:
        """Log a round that failed."""
