"""Turns what becomes of switchovers and rolling restarts into log lines and counts: one line for each phase."""

from collections.abc import Mapping
from typing import Final

from controller.observability import switchover_log_events as catalogue
from controller.observability.counters import SetCounters
from controller.switchover.rolling_restart import RollingRestart
from controller.switchover.switchover import Switchover, SwitchoverPhase
from serving.logging.events import LogEvent
from serving.logging.logs import Logs

#: Characters of a reason or problem in a line.
TEXT_CHARS_MAX: Final = 600
#: Label of a switchover that was not begun.
REFUSED: Final = "refused"

#: Phase -> its event; all other phases are `switchover_phase_entered`.
_EVENTS: Final[Mapping[SwitchoverPhase, LogEvent]] = {
    SwitchoverPhase.DONE: catalogue.SWITCHOVER_FINISHED,
    SwitchoverPhase.FAILED: catalogue.SWITCHOVER_FAILED,
    SwitchoverPhase.INTERRUPTED: catalogue.SWITCHOVER_FAILED,
    SwitchoverPhase.ROLLED_BACK: catalogue.SWITCHOVER_ROLLED_BACK,
}


class SwitchoverEventLog:
    """Learns what becomes of switchovers and rolling restarts."""

    def __init__(self, logs: Logs, counters: SetCounters) -> None:
        self._logs = logs
        self._counters = counters

    # Switchovers

    def switchover_begun(self, switchover: Switchover) -> None:
        """Log a new switchover."""
        request = switchover.request
        self._logs.write(
            catalogue.SWITCHOVER_BEGUN,
            **_which(switchover),
            held=switchover.is_held,
            warnings=list(switchover.warnings),
            requested_by=request.requested_by,
            reason=request.reason,
        )

    def switchover_refused(self, broker_name: str, problem: str) -> None:
        """Log and count one that was not begun."""
        self._counters.switchovers.add((REFUSED,))
        self._logs.write(catalogue.SWITCHOVER_REFUSED, broker=broker_name, problem=problem[:TEXT_CHARS_MAX])

    def switchover_entered(self, before: Switchover, after: Switchover) -> None:
        """Log a phase; count an end, and how long clients were held."""
        counters, step = self._counters, after.steps[-1]
        keys: dict[str, object] = {
            "from_phase": before.phase.value,
            "to_phase": after.phase.value,
            "lasted_ms": step.lasted_ms,
            "evidence": step.evidence[:TEXT_CHARS_MAX],
        }
        if after.is_held and before.held_for_ms is None and after.held_for_ms is not None:
            counters.switchover_longest_hold_ms = max(counters.switchover_longest_hold_ms, after.held_for_ms)
        if after.has_ended:
            counters.switchovers.add((after.phase.value.lower(),))
            held_ms = after.held_for_ms if after.is_held else None
            keys |= {"master_epoch": after.new_epoch, "held_ms": held_ms, "duration_ms": after.lasted_ms}
            if after.phase is not SwitchoverPhase.DONE:
                keys["problem"] = after.problem[:TEXT_CHARS_MAX]
        self._logs.write(_EVENTS.get(after.phase, catalogue.SWITCHOVER_PHASE_ENTERED), **_which(after), **keys)

    # Rolling restarts

    def restart_begun(self, restart: RollingRestart) -> None:
        """Log a new rolling restart."""
        self._logs.write(
            catalogue.ROLLING_RESTART_BEGUN,
            **_which_restart(restart),
            broker_ids=list(restart.brokers),
            requested_by=restart.requested_by,
            reason=restart.reason,
        )

    def restart_entered(self, before: RollingRestart, after: RollingRestart) -> None:
        """Log a phase, and count an end."""
        step = after.steps[-1]
        keys: dict[str, object] = {
            "from_phase": before.phase.value,
            "to_phase": after.phase.value,
            "lasted_ms": step.ended_unix_ms - step.began_unix_ms,
            "evidence": step.evidence[:TEXT_CHARS_MAX],
            "left": list(after.left),
        }
        if after.has_ended:
            self._counters.rolling_restarts_ended.add((after.phase.value.lower(),))
            keys["duration_ms"] = after.phase_since_unix_ms - after.created_unix_ms
            self._logs.write(catalogue.ROLLING_RESTART_ENDED, **_which_restart(after), **keys)
            return
        keys["broker_id"] = after.broker_id
        self._logs.write(catalogue.ROLLING_RESTART_PHASE_ENTERED, **_which_restart(after), **keys)

    def restart_failed_to_look(self, broker_name: str, error: Exception) -> None:
        """Log a look that is repeated."""
        text = str(error)[:TEXT_CHARS_MAX] or type(error).__name__
        self._logs.write(catalogue.ROLLING_RESTART_LOOK_FAILED, broker=broker_name, error=text)


def _which(switchover: Switchover) -> dict[str, object]:
    return {
        "switchover": switchover.id,
        "cluster": switchover.cluster,
        "broker": switchover.broker_name,
        "old_master": switchover.old_master,
        "new_master": switchover.new_master,
    }


def _which_restart(restart: RollingRestart) -> dict[str, object]:
    return {"restart": restart.id, "cluster": restart.cluster, "broker": restart.broker_name}
