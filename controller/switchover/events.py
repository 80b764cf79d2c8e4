"""What is told of switchovers and rolling restarts: one line for each phase, and metrics."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from controller.switchover.record import ENDED, Switchover, SwitchoverPhase
from controller.switchover.rolling_restart import RESTART_ENDED, RollingRestart
from serving.logging.events import Level
from serving.telemetry.events import Count, Counter, Event, Gauge

#: Characters of a reason or problem in a line.
TEXT_CHARS_MAX: Final = 600

SWITCHOVERS: Final = Counter(
    "switchovers",
    "Planned switchovers that have ended, by outcome; `refused` were not begun.",
    ("outcome",),
    known=(("refused",), *sorted((phase.value.lower(),) for phase in ENDED)),
)
LONGEST_HOLD: Final = Gauge(
    "switchover_longest_hold_seconds", "Longest time that a switchover held clients since the start."
)
RESTARTS: Final = Gauge("rolling_restarts", "Rolling restarts of sets under way; only of the leader.")
RESTARTS_ENDED: Final = Counter(
    "rolling_restarts_ended",
    "Rolling restarts of sets that have ended, by outcome.",
    ("outcome",),
    known=tuple(sorted((phase.value.lower(),) for phase in RESTART_ENDED)),
)


class _OfSwitchover(Event, frozen=True, kw_only=True):
    keys: ClassVar[tuple[str, ...]] = ("switchover", "cluster", "broker", "old_master", "new_master")
    switchover: Switchover

    def line(self) -> dict[str, object]:
        return {
            "switchover": self.switchover.id,
            "cluster": self.switchover.cluster,
            "broker": self.switchover.broker_name,
            "old_master": self.switchover.old_master,
            "new_master": self.switchover.new_master,
        }


class SwitchoverBegun(_OfSwitchover, frozen=True, kw_only=True):
    """An operator, or a rolling restart, has begun a switchover. With `held`, role checks make proxies hold clients."""

    keys = (*_OfSwitchover.keys, "held", "warnings", "requested_by", "reason")
    audit = True

    def line(self) -> dict[str, object]:
        switchover, request = self.switchover, self.switchover.request
        return super().line() | {
            "held": switchover.is_held,
            "warnings": list(switchover.warnings),
            "requested_by": request.requested_by,
            "reason": request.reason,
        }


class SwitchoverRefused(Event, frozen=True, kw_only=True):
    """A switchover was requested but not begun; nothing was changed."""

    level = Level.WARNING
    advice = "Do what `problem` says, then request it again."
    broker: str
    problem: str

    def counted(self) -> tuple[Count]:
        return (Count(SWITCHOVERS, ("refused",)),)

    def line(self) -> dict[str, object]:
        return {"broker": self.broker, "problem": self.problem[:TEXT_CHARS_MAX]}


class SwitchoverPhaseEntered(_OfSwitchover, frozen=True, kw_only=True):
    """A switchover entered another phase, after `lasted_ms` in the former one, which ended because of `evidence`. From
    HOLD on clients are held; in VERIFY they reach the new master."""

    keys = (*_OfSwitchover.keys, "from_phase", "to_phase", "lasted_ms", "evidence")
    before: Switchover

    def line(self) -> dict[str, object]:
        step = self.switchover.steps[-1]
        return super().line() | {
            "from_phase": self.before.phase.value,
            "to_phase": self.switchover.phase.value,
            "lasted_ms": step.lasted_ms,
            "evidence": step.evidence[:TEXT_CHARS_MAX],
        }


class SwitchoverFinished(SwitchoverPhaseEntered, frozen=True, kw_only=True):
    """A switchover has ended, and the new master serves. Clients were held for `held_ms`."""

    keys = (*SwitchoverPhaseEntered.keys, "master_epoch", "held_ms", "duration_ms")

    def counted(self) -> tuple[Count]:
        return (Count(SWITCHOVERS, (self.switchover.phase.value.lower(),)),)

    def line(self) -> dict[str, object]:
        after = self.switchover
        held_ms = after.held_for_ms if after.is_held else None
        return super().line() | {"master_epoch": after.new_epoch, "held_ms": held_ms, "duration_ms": after.lasted_ms}


class _GivenUp(SwitchoverFinished, frozen=True, kw_only=True):
    keys = (*SwitchoverFinished.keys, "problem")

    def line(self) -> dict[str, object]:
        return super().line() | {"problem": self.switchover.problem[:TEXT_CHARS_MAX]}


class SwitchoverFailed(_GivenUp, frozen=True, kw_only=True):
    """A switchover has ended without the new master, for the reason in `problem`. Clients are no longer held. FAILED:
    nothing was changed, unless `problem` says so. INTERRUPTED: another election took place, or another controller
    leads."""

    level = Level.WARNING
    advice = "Remove the cause, then request it again: see docs/role-addresses-switchover.md."


class SwitchoverRolledBack(_GivenUp, frozen=True, kw_only=True):
    """The elected broker did not serve, so the old master was elected again and serves. Clients were held for
    `held_ms`."""

    level = Level.ERROR
    advice = "Check the broker `new_master`: its log, its disk, its load."


class _OfRestart(Event, frozen=True, kw_only=True):
    keys: ClassVar[tuple[str, ...]] = ("restart", "cluster", "broker")
    restart: RollingRestart

    def line(self) -> dict[str, object]:
        return {"restart": self.restart.id, "cluster": self.restart.cluster, "broker": self.restart.broker_name}


class RollingRestartBegun(_OfRestart, frozen=True, kw_only=True):
    """An operator has begun the rolling restart of a set."""

    keys = (*_OfRestart.keys, "broker_ids", "requested_by", "reason")
    audit = True

    def line(self) -> dict[str, object]:
        restart = self.restart
        return super().line() | {
            "broker_ids": list(restart.brokers),
            "requested_by": restart.requested_by,
            "reason": restart.reason,
        }


class _RestartEntered(_OfRestart, frozen=True, kw_only=True):
    before: RollingRestart

    def line(self) -> dict[str, object]:
        restart, step = self.restart, self.restart.steps[-1]
        line = super().line() | {
            "from_phase": self.before.phase.value,
            "to_phase": restart.phase.value,
            "lasted_ms": step.ended_unix_ms - step.began_unix_ms,
            "evidence": step.evidence[:TEXT_CHARS_MAX],
            "broker_id": restart.broker_id,
            "left": list(restart.left),
            "duration_ms": restart.phase_since_unix_ms - restart.created_unix_ms,
        }
        return {key: line[key] for key in self.keys}


class RollingRestartPhaseEntered(_RestartEntered, frozen=True, kw_only=True):
    """A rolling restart entered another phase. In RESTART, restart broker `broker_id` now; brokers in `left` have not
    been restarted yet."""

    keys = (*_OfRestart.keys, "from_phase", "to_phase", "lasted_ms", "evidence", "broker_id", "left")
    advice = "In RESTART: restart that broker, and no other."


class RollingRestartEnded(_RestartEntered, frozen=True, kw_only=True):
    """A rolling restart has ended: DONE, ABORTED by an operator, or FAILED for the reason in `evidence`. Brokers in
    `left` were not restarted."""

    keys = (*_OfRestart.keys, "from_phase", "to_phase", "lasted_ms", "evidence", "left", "duration_ms")
    advice = (
        "None for DONE. After FAILED remove the cause, then begin another restart with brokerIds: see "
        "docs/role-addresses-switchover.md."
    )

    def counted(self) -> Iterator[Count]:
        yield Count(RESTARTS_ENDED, (self.restart.phase.value.lower(),))


class RollingRestartLookFailed(Event, frozen=True, kw_only=True):
    """A check of a rolling restart could not be stored, or an operator changed the restart meanwhile. The check is
    repeated after 1 s."""

    level = Level.WARNING
    advice = 'If it persists, check the store: see controller/OPERATIONS.md, section "etcd".'
    broker: str
    error: Exception

    def line(self) -> dict[str, object]:
        return {"broker": self.broker, "error": str(self.error)[:TEXT_CHARS_MAX] or type(self.error).__name__}


_OF_PHASES: Final[Mapping[SwitchoverPhase, type[SwitchoverPhaseEntered]]] = {
    SwitchoverPhase.DONE: SwitchoverFinished,
    SwitchoverPhase.FAILED: SwitchoverFailed,
    SwitchoverPhase.INTERRUPTED: SwitchoverFailed,
    SwitchoverPhase.ROLLED_BACK: SwitchoverRolledBack,
}


def switchover_entered(before: Switchover, after: Switchover) -> SwitchoverPhaseEntered:
    return _OF_PHASES.get(after.phase, SwitchoverPhaseEntered)(before=before, switchover=after)


def restart_entered(before: RollingRestart, after: RollingRestart) -> Event:
    event = RollingRestartEnded if after.has_ended else RollingRestartPhaseEntered
    return event(before=before, restart=after)
