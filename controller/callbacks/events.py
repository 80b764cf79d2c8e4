"""What is told of callbacks: lines of the log, and metrics."""

from collections.abc import Mapping
from typing import ClassVar, Final

from controller.callbacks.role_callback import CallOutcome, CallResult, RoleCallback
from controller.failover.events import PHASE_S
from controller.roles.changes import RoleHolder
from serving.logging.events import Level
from serving.telemetry.events import Count, Counter, Event, Gauge, Observation, Timer

CALLS: Final = Counter(
    "role_callbacks",
    "Calls of onRoleChange, each attempt, by result.",
    ("result",),
    known=tuple((result.value,) for result in CallResult),
)
CALL_DURATION: Final = Timer("role_callback_duration_seconds", "Duration of a call of onRoleChange.", bounds=PHASE_S)
UNDELIVERED: Final = Gauge(
    "role_callbacks_undelivered", "Sets whose last change of the master onRoleChange has not taken."
)
UNDELIVERED_SINCE: Final = Gauge(
    "role_callback_undelivered_since_timestamp_seconds",
    "Since when the set that waits longest for onRoleChange does; 0 if none does.",
)
_SECTION: Final = "docs/role-addresses-callbacks.md"


class _Called(Event, frozen=True, kw_only=True):
    keys: ClassVar[tuple[str, ...]] = (
        "cluster",
        "broker",
        "old_master",
        "new_master",
        "master_epoch",
        "skipped_epochs",
        "cause",
        "attempt",
        "duration_ms",
        "output",
    )
    callback: RoleCallback
    outcome: CallOutcome
    duration_ms: int

    def counted(self) -> tuple[Count]:
        return (Count(CALLS, (self.outcome.result.value,)),)

    def observed(self) -> tuple[Observation]:
        return (Observation(CALL_DURATION, self.duration_ms / 1000),)

    def line(self) -> Mapping[str, object]:
        callback, change = self.callback, self.callback.change
        return {
            "cluster": change.cluster,
            "broker": change.broker_name,
            "old_master": _shown(callback.old),
            "new_master": _shown(change.new),
            "master_epoch": change.master_epoch,
            "skipped_epochs": None if callback.skipped is None else list(callback.skipped),
            "cause": callback.why,
            "attempt": callback.attempt,
            "duration_ms": self.duration_ms,
            "output": self.outcome.output or None,
        }


class RoleCallbackDelivered(_Called, frozen=True, kw_only=True):
    """onRoleChange accepted the change of a set's master: its program ended with status 0, or its URL answered 2xx.
    `output` is the beginning of its output or answer."""


class RoleCallbackFailed(_Called, frozen=True, kw_only=True):
    """A call of onRoleChange failed or timed out (`result` timeout). The set is called again after `retry_ms`, and at
    once if its master changes again. The failover itself does not depend on it."""

    level = Level.WARNING
    advice = f"Do what `error` and `output` say: see {_SECTION}."
    keys = (*_Called.keys, "result", "error", "retry_ms")
    retry_ms: int

    def line(self) -> Mapping[str, object]:
        result, error, _ = self.outcome
        return {**super().line(), "result": result.value, "error": error, "retry_ms": self.retry_ms}


class RoleCallbackUnusable(Event, frozen=True, kw_only=True):
    """At the start of this controller the program of onRoleChange was missing or not executable, or its token could not
    be read. Every call fails until this is repaired; brokers are served as usual."""

    level = Level.ERROR
    advice = "Repair what `error` names. No restart is needed."
    error: str


class RoleCallbacksRequested(Event, frozen=True, kw_only=True):
    """An operator requested another call of onRoleChange for the `broker_sets` sets whose names begin with `prefix`,
    with their present masters and epochs."""

    audit = True
    prefix: str
    broker_sets: int


class RoleCallbacksNotStored(Event, frozen=True, kw_only=True):
    """The record of the changes that onRoleChange accepted could not be stored or read. This is retried every second; a
    leader without the record calls again with the same master epoch."""

    level = Level.ERROR
    advice = "Check the disk, or etcd: see controller/OPERATIONS.md."
    error: str


def _shown(master: RoleHolder | None) -> str | None:
    return None if master is None else f"{master.broker_id} at {master.address}"
