"""Every event that is logged of callbacks; part of the catalogue in `log_events.py`."""

from typing import Final

from serving.logging.events import Level, LogEvent

_CALL: Final = (
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
_SECTION: Final = "docs/role-addresses-callbacks.md"

ROLE_CALLBACK_DELIVERED: Final = LogEvent(
    name="role_callback_delivered",
    level=Level.INFO,
    keys=_CALL,
    meaning="onRoleChange took the change of a set's master: its program ended with status 0, or its URL answered 2xx. "
    "`output` is the beginning of what it printed or answered.",
)
ROLE_CALLBACK_FAILED: Final = LogEvent(
    name="role_callback_failed",
    level=Level.WARNING,
    keys=(*_CALL, "result", "error", "retry_ms"),
    meaning="A call of onRoleChange failed, or its time was over (`result` timeout). The set is called again after "
    "`retry_ms`, and at once if its master changes again. The failover itself does not depend on it.",
    advice=f"Do what `error` and `output` say: see {_SECTION}.",
)
ROLE_CALLBACK_UNUSABLE: Final = LogEvent(
    name="role_callback_unusable",
    level=Level.ERROR,
    keys=("error",),
    meaning="At the start of this controller the program of onRoleChange was missing or not executable, or its token "
    "could not be read. Every call fails until that is mended; brokers are served as ever.",
    advice="Mend what `error` names. No restart is needed.",
)
ROLE_CALLBACKS_REQUESTED: Final = LogEvent(
    name="role_callbacks_requested",
    level=Level.INFO,
    audit=True,
    keys=("prefix", "broker_sets"),
    meaning="An operator wants `broker_sets` sets, those whose names begin with `prefix`, to be called once more with "
    "their present masters and epochs.",
)
ROLE_CALLBACKS_NOT_STORED: Final = LogEvent(
    name="role_callbacks_not_stored",
    level=Level.ERROR,
    keys=("error",),
    meaning="Which changes onRoleChange has taken could not be stored, or not be read. It is tried again each second; "
    "a leader that does not know them calls once more with the same master epoch.",
    advice="Check the disk, or etcd: see controller/OPERATIONS.md.",
)

CALLBACKS: Final = (
    ROLE_CALLBACK_DELIVERED,
    ROLE_CALLBACK_FAILED,
    ROLE_CALLBACK_UNUSABLE,
    ROLE_CALLBACKS_REQUESTED,
    ROLE_CALLBACKS_NOT_STORED,
)
