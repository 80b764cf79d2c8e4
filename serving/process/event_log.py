"""Turns what happened to connections, requests and the configuration into log lines and counters.

Each server's own event log adds what happened to its state. A context variable holds the requester for audit lines.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import Generic

from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import FrameError
from remoting.server.observer import CloseReason, ConnectionKind, Peer, Rejection
from remoting.server.request_processor import Answer, Dispatcher
from remoting.server.response_cache import PreparedResponse
from serving.config.server_config import Config
from serving.config.server_kind import ServerKind, listed_properties
from serving.config.stored_config import NotStored
from serving.logging import server_events as events
from serving.logging.events import LogEvent
from serving.logging.logs import Logs
from serving.metrics.label_values import UNKNOWN, request_name
from serving.metrics.server_counters import ServerCounters

#: Who sent the request that is being carried out: its peer, code and opaque.
_Requester = tuple[str, int, int]
_requester: ContextVar[_Requester | None] = ContextVar("requester", default=None)


class AttributedDispatcher:
    """Hands requests on, notes whether a broker or a client sent them, and keeps the requester for audit lines."""

    def __init__(self, dispatcher: Dispatcher, from_brokers: frozenset[int], busiest: int) -> None:
        """Take the codes that only brokers send, and the busiest one, which changes nothing and needs no name."""
        self._dispatch = dispatcher.dispatch
        self._from_brokers = from_brokers
        self._busiest = busiest

    def dispatch(self, request: RemotingCommand, connection: Peer) -> Answer:
        if request.code in self._from_brokers:
            connection.kind = ConnectionKind.BROKER
        elif connection.kind is ConnectionKind.UNKNOWN:
            connection.kind = ConnectionKind.CLIENT
        if request.code == self._busiest:
            return self._dispatch(request, connection)
        requester = (connection.peer, request.code, request.opaque)
        token = _requester.set(requester)
        try:
            answer = self._dispatch(request, connection)
        finally:
            _requester.reset(token)
        return answer if isinstance(answer, RemotingCommand | PreparedResponse) else _answered_for(requester, answer)


async def _answered_for(requester: _Requester, answer: Awaitable[RemotingCommand]) -> RemotingCommand:
    token = _requester.set(requester)
    try:
        return await answer
    finally:
        _requester.reset(token)


class ServerEventLog(Generic[Config]):
    """Observes the connections of a server and its configuration."""

    def __init__(self, kind: ServerKind[Config], logs: Logs, counters: ServerCounters, config: Config) -> None:
        """Take the configuration in force, to compare later ones with it."""
        self._kind = kind
        self._logs = logs
        self._counters = counters
        self._properties = listed_properties(kind, config)
        self._written_in_place: set[str] = set()
        #: Called with the id of a connection that ended, perhaps twice.
        self.lost: Callable[[int], None] = lambda _: None

    # What operators changed

    def config_changed(self, changed: tuple[str, ...], unknown: tuple[str, ...], config: Config) -> None:
        if changed:
            self._counters.config_changes.add(("stored",))
        before, self._properties = self._properties, listed_properties(self._kind, config)
        self._logs.set_level(config.log_level)
        self.write(
            events.CONFIG_CHANGED,
            old={key: before.get(key, "") for key in changed},
            new={key: self._properties.get(key, "") for key in changed},
            unknown=unknown,
            in_force=self._with_effect(changed, at_once=True),
            from_next_start=self._with_effect(changed, at_once=False),
        )

    def _with_effect(self, keys: Iterable[str], *, at_once: bool) -> list[str]:
        """Return the properties whose change counts at once, or only from the next start."""
        options = {option.key: option for option in self._kind.options.values() if option.has_effect}
        return [key for key in keys if key in options and options[key].at_once is at_once]

    def written_in_place(self, path: str) -> None:
        if path not in self._written_in_place:
            self._written_in_place.add(path)
            self._logs.write(events.MOUNTED_FILE_STORED, path=path)

    def config_not_stored(self, error: NotStored) -> None:
        self._counters.config_changes.add(("failed",))
        self.write(events.CONFIG_STORE_FAILED, error=str(error))

    # Connections and requests

    def connection_opened(self, connection: Peer) -> None:
        self._logs.write(events.CONNECTION_OPENED, peer=connection.peer)

    def connection_refused(self, peer: str, connections_max: int) -> None:
        self._logs.write(events.CONNECTION_REFUSED, peer=peer, connections_max=connections_max)

    def connection_paused(self, connection: Peer, response_buffer_bytes: int) -> None:
        self._logs.write(events.CONNECTION_PAUSED, peer=connection.peer, response_buffer_bytes=response_buffer_bytes)

    def connection_lost(self, connection: Peer) -> None:
        self.lost(connection.id)

    def connection_closed(self, connection: Peer, reason: CloseReason) -> None:
        is_slow = reason is CloseReason.SLOW_READER
        event = events.SLOW_READER_DISCONNECTED if is_slow else events.CONNECTION_CLOSED
        self._logs.write(event, peer=connection.peer, reason=reason.value)
        self.lost(connection.id)

    def frame_rejected(self, connection: Peer, error: FrameError) -> None:
        self._logs.write(events.FRAME_REJECTED, peer=connection.peer, reason=error.kind, error=str(error))

    def request_rejected(self, connection: Peer, request: RemotingCommand, reason: Rejection, error: str) -> None:
        if reason is Rejection.DRAINING:
            # Every request is then; `server_draining` is the one line about it.
            return
        self._logs.write(
            events.REQUEST_REJECTED, **self._request(connection, request), reason=reason.value, error=error
        )

    def handler_failed(self, connection: Peer, request: RemotingCommand, error: BaseException) -> None:
        self._logs.write(events.REQUEST_FAILED, **self._request(connection, request), exc_info=error)

    def write(self, event: LogEvent, **keys: object) -> None:
        """Write a line; that of a change by request says who sent it."""
        self._logs.write(event, **keys, **(self.requester() if event.audit else {}))

    def requester(self) -> dict[str, object]:
        """Return what an audit line says of who sent the request; nothing over HTTP."""
        if (requester := _requester.get()) is None:
            return {}
        peer, code, opaque = requester
        return {"peer": peer, "request_code": request_name(self._kind, code), "opaque": opaque}

    def _request(self, connection: Peer, request: RemotingCommand) -> dict[str, object]:
        # An unknown code is logged as its number.
        name = request_name(self._kind, request.code)
        return {
            "peer": connection.peer,
            "request_code": request.code if name == UNKNOWN else name,
            "opaque": request.opaque,
        }
