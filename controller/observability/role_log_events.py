"""Every event that is logged of the roles of brokers; part of the catalogue in `log_events.py`."""

from typing import Final

from serving.logging.events import Level, LogEvent

_WHO: Final = ("cluster", "broker", "broker_id", "addr")

MASTER_SERVES: Final = LogEvent(
    name="master_serves",
    level=Level.INFO,
    keys=(*_WHO, "master_epoch", "duration_ms", "repeated"),
    meaning="An elected master has changed to master and takes messages, `duration_ms` after its election was stored; "
    "role checks answer `up` for it only now. With `repeated` a new leader has found it so.",
)
ROLE_ANSWER_CHANGED: Final = LogEvent(
    name="role_answer_changed",
    level=Level.INFO,
    keys=(*_WHO, "master_epoch", "old", "new"),
    meaning="Role checks of a broker are answered otherwise than before: proxies end its sessions at `failed`, "
    "`superseded` and `held`, and send clients to it at `serves`. Answers in doubt change nothing there and are not "
    "logged.",
)

#: In the order of the page.
ROLES: Final = (MASTER_SERVES, ROLE_ANSWER_CHANGED)
