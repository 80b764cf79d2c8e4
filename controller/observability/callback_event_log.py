"""Turns what becomes of callbacks into log lines and counts."""

from controller.callbacks.outcome import CallOutcome, CallResult
from controller.callbacks.role_callback import RoleCallback
from controller.observability import callback_log_events as catalogue
from controller.observability.counters import SetCounters
from controller.roles.changes import RoleHolder
from serving.logging.logs import Logs


class CallbackEventLog:
    """Observes callbacks."""

    def __init__(self, logs: Logs, counters: SetCounters) -> None:
        self._logs = logs
        self._counters = counters

    def callback_unusable(self, problem: str) -> None:
        """Log that what is to be called cannot be called at present."""
        self._logs.write(catalogue.ROLE_CALLBACK_UNUSABLE, error=problem)

    def callback_ended(self, callback: RoleCallback, outcome: CallOutcome, duration_ms: int, retry_ms: int) -> None:
        """Log and count a call."""
        self._counters.roles.callbacks.add((outcome.result.value,))
        self._counters.roles.callback_durations.observe((), duration_ms / 1000)
        change = callback.change
        keys = {
            "cluster": change.cluster,
            "broker": change.broker_name,
            "old_master": _shown(callback.old),
            "new_master": _shown(change.new),
            "master_epoch": change.master_epoch,
            "skipped_epochs": None if callback.skipped is None else list(callback.skipped),
            "cause": callback.why,
            "attempt": callback.attempt,
            "duration_ms": duration_ms,
            "output": outcome.output or None,
        }
        if outcome.result is CallResult.DELIVERED:
            self._logs.write(catalogue.ROLE_CALLBACK_DELIVERED, **keys)
            return
        failed = {"result": outcome.result.value, "error": outcome.error, "retry_ms": retry_ms}
        self._logs.write(catalogue.ROLE_CALLBACK_FAILED, **keys, **failed)

    def redelivery_requested(self, prefix: str, sets: int) -> None:
        """Log that an operator wants sets to be called once more."""
        self._logs.write(catalogue.ROLE_CALLBACKS_REQUESTED, prefix=prefix, broker_sets=sets)

    def callbacks_not_stored(self, error: str) -> None:
        """Log that it could not be stored, or not be read, what was delivered."""
        self._logs.write(catalogue.ROLE_CALLBACKS_NOT_STORED, error=error)


def _shown(master: RoleHolder | None) -> str | None:
    return None if master is None else f"{master.broker_id} at {master.address}"
