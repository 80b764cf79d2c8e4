"""Every event and metric of an offset manager, collected from the modules that declare them, and their pages.

    python -m offsets.catalogues logs > docs/offset-manager-logs.md
    python -m offsets.catalogues metrics > docs/offset-manager-metrics.md

A module that declares events or metrics is named in `MODULES`; without that its first event raises KeyError.
"""

import sys
from typing import Final

from offsets import at_broker, lead, operator_rows
from offsets.commits import events, service
from offsets.config import OFFSET_MANAGER
from offsets.order import events as order_events
from offsets.order import service as order_service
from offsets.readings import files as reading_files
from offsets.readings import jumps, readings
from offsets.repair import runs
from offsets.restore import operations
from offsets.sets import by_controllers, by_name_servers, following
from serving.logging import server_events
from serving.logging.events import LogEvent, log_page
from serving.metrics.families import HttpServerFamilies, MetricFamily, metric_page
from serving.telemetry.events import Declared, declared_in

#: Modules with events, counters, timers or gauges, in the order of the pages.
MODULES: Final = (
    lead,
    following,
    by_controllers,
    by_name_servers,
    readings,
    reading_files,
    jumps,
    runs,
    operations,
    events,
    service,
    order_service,
    order_events,
    operator_rows,
    at_broker,
)
DECLARED: Final[Declared] = declared_in(*map(vars, MODULES))

#: Events of any server that this one logs, before and after its own.
_AT_START: Final = (
    server_events.SERVER_STARTED,
    server_events.SERVER_CONFIGURED,
    server_events.OPTION_IGNORED,
    server_events.SERVER_READY,
    server_events.SERVER_START_FAILED,
    server_events.SERVER_DRAINING,
    server_events.SERVER_STOPPED,
    server_events.BACKGROUND_TASK_FAILED,
    server_events.SERVER_FAILED,
    server_events.LOOPBACK_ADVERTISED,
    server_events.HTTP_ADMIN_TOKEN_LOADED,
    server_events.HTTP_ADMIN_TOKEN_LOAD_FAILED,
    server_events.FILE_EXPOSED,
)
_OF_REQUESTS: Final = (
    server_events.BROKER_REQUEST_DENIED,
    server_events.BROKER_REQUEST_NOT_SIGNED,
    server_events.HTTP_REQUEST_REJECTED,
    server_events.HTTP_REQUEST_FAILED,
    server_events.HTTP_ADMIN_DENIED,
    server_events.TOKEN_TRIES_LIMITED,
    server_events.HTTP_ADMIN_REQUEST_ACCEPTED,
    server_events.LIBRARY_LOGGED,
)
EVENTS: Final[tuple[LogEvent, ...]] = (*_AT_START, *DECLARED.log_events(), *_OF_REQUESTS)

SERVER: Final = HttpServerFamilies(OFFSET_MANAGER)
FAMILIES: Final[tuple[MetricFamily, ...]] = (
    *SERVER.life,
    *(
        found
        for kind in ("gauge", "counter", "histogram")
        for found in DECLARED.families(SERVER.make)
        if found.kind == kind
    ),
    *SERVER.http,
    *SERVER.history,
)


def logs() -> str:
    """Return the page `docs/offset-manager-logs.md`."""
    return log_page(OFFSET_MANAGER, EVENTS, "offsets/catalogues.py")


def metrics() -> str:
    """Return the page `docs/offset-manager-metrics.md`."""
    labels = "Groups, topics and clients are no labels: the API shows them."
    return metric_page(OFFSET_MANAGER, FAMILIES, "offsets/catalogues.py", labels)


if __name__ == "__main__":
    sys.stdout.write({"logs": logs, "metrics": metrics}[sys.argv[1]]())
