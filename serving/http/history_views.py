"""What this server has recorded, over HTTP: routes of the past, when they changed, and what happened to a broker."""

from typing import Final

from remoting.clock import SystemClock
from remoting.protocol.shapes.history import PastLife, PastQuery, PastRouteChanges, PastRoutes
from serving.config.server_config import Config
from serving.config.server_kind import ServerKind
from serving.http.endpoints import Endpoint, Parameter
from serving.http.history_reader import HistoryReader
from serving.http.views import HttpRefused, MetricsText, PresentConfig, ServerViews, ViewRequest, requested_number
from serving.metrics.health import Health

_HOUR_MS: Final = 3_600_000
#: The longest time of one request: files of the history are kept no longer by default.
SPAN_MS_MAX: Final = 31 * 24 * _HOUR_MS
#: The year 9999: whatever is added to it stays a time.
_UNIX_MS_MAX: Final = 253_000_000_000_000
_BROKER_ID_MAX: Final = 2**31 - 1


class HistoryViews(ServerViews[Config]):
    """One method per path; a process of its own reads the files of historyDir for each."""

    def __init__(
        self, kind: ServerKind[Config], health: Health, metrics: MetricsText, settings: PresentConfig[Config]
    ) -> None:
        super().__init__(kind, health, metrics, settings)
        self._history = HistoryReader()

    async def past_routes(self, request: ViewRequest) -> bytes:
        """Return what each NameServer of the history served for a topic at a moment."""
        at_ms = requested_number(request, "at", _UNIX_MS_MAX, SystemClock().unix_ms())
        folder = self._settings.config.history_dir
        query = PastQuery(kind="route", folder=folder, name=_name(request, "topic"), first_ms=at_ms, last_ms=at_ms)
        return await self._history.answer(query)

    async def past_route_changes(self, request: ViewRequest) -> bytes:
        """Return when the route of a topic changed."""
        first_ms, last_ms = _span(request)
        folder, topic = self._settings.config.history_dir, _name(request, "topic")
        query = PastQuery(kind="route-changes", folder=folder, name=topic, first_ms=first_ms, last_ms=last_ms)
        return await self._history.answer(query)

    async def past_life(self, request: ViewRequest) -> bytes:
        """Return what happened to a broker set, and when a broker of it was registered."""
        first_ms, last_ms = _span(request)
        query = PastQuery(
            kind="timeline",
            folder=self._settings.config.history_dir,
            name=_name(request, "broker"),
            first_ms=first_ms,
            last_ms=last_ms,
            broker_id=requested_number(request, "brokerId", _BROKER_ID_MAX),
            with_details=request.sees_details,
        )
        return await self._history.answer(query)


def _name(request: ViewRequest, parameter: str) -> str:
    if not (name := request.query.get(parameter, "")):
        raise HttpRefused(f"{parameter} must be given.")
    return name


def _span(request: ViewRequest) -> tuple[int, int]:
    last_ms = requested_number(request, "to", _UNIX_MS_MAX, SystemClock().unix_ms())
    first_ms = requested_number(request, "from", _UNIX_MS_MAX, max(0, last_ms - _HOUR_MS))
    if not 0 <= last_ms - first_ms <= SPAN_MS_MAX:
        raise HttpRefused("from must be before to, by 31 days at most; both are Unix ms.")
    return first_ms, last_ms


_TOPIC: Final = Parameter("topic", "Name of the topic; must be given.")
_UNIX_MS: Final = {"type": "integer", "minimum": 0, "maximum": _UNIX_MS_MAX}
_SPAN: Final = (
    Parameter("from", "Unix ms; an hour before `to` by default.", _UNIX_MS),
    Parameter("to", "Unix ms, at most 31 days after `from`; now by default.", _UNIX_MS),
)

PAST_LIFE: Final = Endpoint(
    "/v1/history/broker",
    HistoryViews.past_life,
    "What happened to a broker set, as rmq history timeline shows it, and when a broker of it was registered.",
    PastLife,
    parameters=(
        Parameter("broker", "The brokerName; must be given."),
        Parameter("brokerId", "The broker whose life is returned; 0 by default.", {"type": "integer", "minimum": 0}),
        *_SPAN,
    ),
    refusals=(400, 429, 503),
    waits=True,
    has_details=True,
)
PAST_ROUTES: Final = (
    Endpoint(
        "/v1/history/route",
        HistoryViews.past_routes,
        "The route of a topic at a moment, as rmq history route shows it, of each NameServer that the history has.",
        PastRoutes,
        parameters=(_TOPIC, Parameter("at", "Unix ms; now by default.", _UNIX_MS)),
        refusals=(400, 429, 503),
        waits=True,
    ),
    Endpoint(
        "/v1/history/route-changes",
        HistoryViews.past_route_changes,
        "When the route of a topic changed: the last 1,000 times.",
        PastRouteChanges,
        parameters=(_TOPIC, *_SPAN),
        refusals=(400, 429, 503),
        waits=True,
    ),
)
