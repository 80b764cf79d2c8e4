"""Every event that a controller logs, collected from the modules that declare them.

Events of any server are in `serving/logging/server_events.py`. `docs/controller-logs.md` is this catalogue as a
page: `python -m controller.observability.log_events > docs/controller-logs.md` writes it, and a test compares.
"""

import sys
from typing import Final

from controller.callbacks import events as callback_events
from controller.config import CONTROLLER
from controller.endpoint_slices import events as slice_events
from controller.failover import events as failover_events
from controller.role_probe import events as probe_events
from controller.roles import events as role_events
from controller.scaling.execution import events as resize_events
from controller.scaling.watching import events as autoscaler_events
from controller.switchover import events as switchover_events
from serving.logging import server_events
from serving.logging.events import log_page
from serving.telemetry.events import Declared, declared_in

#: Modules with events and metrics, in the order of the page; without a module here its first event raises KeyError.
MODULES: Final = (
    failover_events,
    switchover_events,
    resize_events,
    role_events,
    autoscaler_events,
    callback_events,
    probe_events,
    slice_events,
)
DECLARED: Final[Declared] = declared_in(*map(vars, MODULES))
EVENTS: Final = (
    *server_events.LIFE,
    *server_events.MEANS,
    *DECLARED.log_events(),
    *server_events.SETTINGS,
    *server_events.TRAFFIC,
)


def as_markdown() -> str:
    return log_page(CONTROLLER, EVENTS, "controller/observability/log_events.py")


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
