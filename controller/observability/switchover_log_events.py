"""Every event that is logged of switchovers and rolling restarts; part of the catalogue in `log_events.py`."""

from typing import Final

from serving.logging.events import Level, LogEvent

_PAGE: Final = "docs/role-addresses-switchover.md"
_SWITCHOVER: Final = ("switchover", "cluster", "broker", "old_master", "new_master")
_PHASE: Final = (*_SWITCHOVER, "from_phase", "to_phase", "lasted_ms", "evidence")
_ENDED: Final = (*_PHASE, "master_epoch", "held_ms", "duration_ms")

SWITCHOVER_BEGUN: Final = LogEvent(
    name="switchover_begun",
    level=Level.INFO,
    audit=True,
    keys=(*_SWITCHOVER, "held", "warnings", "requested_by", "reason"),
    meaning="An operator, or a rolling restart, has begun a switchover. With `held`, role checks are answered so that "
    "proxies hold clients.",
)
SWITCHOVER_REFUSED: Final = LogEvent(
    name="switchover_refused",
    level=Level.WARNING,
    keys=("broker", "problem"),
    meaning="A switchover was requested and not begun; nothing was changed.",
    advice="Do what `problem` says, then request it again.",
)
SWITCHOVER_PHASE_ENTERED: Final = LogEvent(
    name="switchover_phase_entered",
    level=Level.INFO,
    keys=_PHASE,
    meaning="A switchover is in another phase, after `lasted_ms` in the one before; `evidence` is why that one ended. "
    "In HOLD clients begin to be held, in VERIFY they reach the new master.",
)
SWITCHOVER_FINISHED: Final = LogEvent(
    name="switchover_finished",
    level=Level.INFO,
    keys=_ENDED,
    meaning="A switchover has ended, and the new master serves. Clients were held for `held_ms`.",
)
SWITCHOVER_FAILED: Final = LogEvent(
    name="switchover_failed",
    level=Level.WARNING,
    keys=(*_ENDED, "problem"),
    meaning="A switchover has ended without the new master, for the reason in `problem`. Clients are held no longer. "
    "FAILED: nothing was changed, unless `problem` says so. INTERRUPTED: another election decided meanwhile, or "
    "another controller leads.",
    advice=f"End the reason, then request it again: see {_PAGE}.",
)
SWITCHOVER_ROLLED_BACK: Final = LogEvent(
    name="switchover_rolled_back",
    level=Level.ERROR,
    keys=(*_ENDED, "problem"),
    meaning="The elected broker did not serve, so the old master was elected again and serves. Clients were held for "
    "`held_ms`.",
    advice="Check the broker `new_master`: its log, its disk, its load.",
)

_RESTART: Final = ("restart", "cluster", "broker")

ROLLING_RESTART_BEGUN: Final = LogEvent(
    name="rolling_restart_begun",
    level=Level.INFO,
    audit=True,
    keys=(*_RESTART, "broker_ids", "requested_by", "reason"),
    meaning="An operator has begun the rolling restart of a set.",
)
ROLLING_RESTART_PHASE_ENTERED: Final = LogEvent(
    name="rolling_restart_phase_entered",
    level=Level.INFO,
    keys=(*_RESTART, "from_phase", "to_phase", "lasted_ms", "evidence", "broker_id", "left"),
    meaning="A rolling restart is in another phase. In RESTART the operator is to restart broker `broker_id` now; "
    "`left` are the brokers that were not restarted yet.",
    advice="Restart that broker, and no other one.",
)
ROLLING_RESTART_ENDED: Final = LogEvent(
    name="rolling_restart_ended",
    level=Level.INFO,
    keys=(*_RESTART, "from_phase", "to_phase", "lasted_ms", "evidence", "left", "duration_ms"),
    meaning="A rolling restart has ended: DONE, ABORTED by an operator, or FAILED for the reason in `evidence`. "
    "Brokers in `left` were not restarted.",
    advice=f"None for DONE. After FAILED end the reason, then begin another one with brokerIds: see {_PAGE}.",
)
ROLLING_RESTART_LOOK_FAILED: Final = LogEvent(
    name="rolling_restart_look_failed",
    level=Level.WARNING,
    keys=("broker", "error"),
    meaning="A look at a rolling restart could not be stored, or an operator has changed it meanwhile. It is repeated "
    "after 1 s.",
    advice='If it goes on, check the store: see controller/OPERATIONS.md, section "etcd".',
)

SWITCHOVERS: Final = (
    SWITCHOVER_BEGUN,
    SWITCHOVER_REFUSED,
    SWITCHOVER_PHASE_ENTERED,
    SWITCHOVER_FINISHED,
    SWITCHOVER_FAILED,
    SWITCHOVER_ROLLED_BACK,
    ROLLING_RESTART_BEGUN,
    ROLLING_RESTART_PHASE_ENTERED,
    ROLLING_RESTART_ENDED,
    ROLLING_RESTART_LOOK_FAILED,
)
