"""Runs the effects of a change of state: notifies brokers, closes and probes connections.

Effects run after the reply to the request that caused them has been handed to the transport. Of several notifications
about one broker set only the latest is sent: the earlier ones are outdated.
"""

import asyncio
from typing import Any, Final, Protocol

from namesrv.core.tables.live_table import LiveTable
from namesrv.core.values.effects import (
    CloseConnection,
    Effect,
    Event,
    NotifyMinBrokerIdChange,
    ProbeConnection,
    RouteOutcome,
)
from remoting.background_tasks import BackgroundTasks
from remoting.protocol.codec import encode_fields
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import InvokeError
from remoting.protocol.shapes.broker import NotifyMinBrokerIdChangeRequestHeader
from remoting.server.observer import CloseReason

#: How long a broker may take to accept a connection for a notification; Java waits as long to connect.
NOTIFY_TIMEOUT_MS: Final = 3000

#: Name of the task that runs effects, and of those that notify brokers.
RUN_EFFECTS: Final = "run_effects"
_NOTIFY: Final = "notify_min_broker_id_change"


class RequestSender(Protocol):
    """Sends requests to brokers."""

    async def post(self, address: str, request: RemotingCommand, timeout_ms: int) -> None:
        """Send a request without waiting for its response; raises InvokeError if it cannot be written in time."""


class OpenConnections(Protocol):
    """Closes and probes connections by their id."""

    def close_connection(self, number: int, reason: CloseReason) -> None:
        """Close a connection, if it is open."""

    def probe_connection(self, number: int) -> None:
        """Check that the peer is still there; if not, the connection is lost within some seconds."""


class EventObserver(Protocol):
    """Logs and counts what happened."""

    def record(self, events: tuple[Event, ...]) -> None:
        """Log and count the events of one request, scan or lost connection."""


class NotificationObserver(Protocol):
    """Logs and counts notifications."""

    def notification_sent(self, effect: NotifyMinBrokerIdChange) -> None:
        """Every recipient was tried."""

    def notification_failed(self, effect: NotifyMinBrokerIdChange, address: str, error: InvokeError) -> None:
        """One recipient could not be reached; a slave learns of the change by its own poll."""


class EffectQueue:
    """Effects in the order of the changes that caused them.

    It has no limit of its own: a change causes at most one effect for each connection and broker set that it concerns.
    """

    def __init__(self, *observers: EventObserver) -> None:
        self._observers = observers
        self._effects: asyncio.Queue[Effect] = asyncio.Queue()

    def perform(self, outcome: RouteOutcome[Any]) -> None:
        """Record what happened at once; queue the effects, which run when the present callback is over."""
        if outcome.events:
            for observer in self._observers:
                observer.record(outcome.events)
        for effect in outcome.effects:
            self._effects.put_nowait(effect)

    async def next(self) -> Effect:
        """Return the oldest effect once there is one."""
        return await self._effects.get()


class EffectRunner:
    """Takes effects from a queue and runs them; notifications go out in tasks of `tasks`."""

    def __init__(
        self,
        queue: EffectQueue,
        live: LiveTable,
        connections: OpenConnections,
        sender: RequestSender,
        observer: NotificationObserver,
        tasks: BackgroundTasks,
    ) -> None:
        self._queue = queue
        self._live = live
        self._connections = connections
        self._sender = sender
        self._observer = observer
        self._tasks = tasks
        #: Broker name -> its latest notification that is not sent yet; one task serves each name in `_notifying`.
        self._waiting: dict[str, NotifyMinBrokerIdChange] = {}
        self._notifying: set[str] = set()

    async def run_effects(self) -> None:
        """Run every effect that is queued; never returns. A failed one is reported and delays no other."""
        while True:
            effect = await self._queue.next()
            try:
                self._run(effect)
            except Exception as error:  # noqa: BLE001  # whatever it is, the next effects run
                self._tasks.report(RUN_EFFECTS, error)

    def _run(self, effect: Effect) -> None:
        if isinstance(effect, CloseConnection):
            # A broker may have registered over it again since the scan.
            if not self._live.of_connection(effect.connection_id):
                self._connections.close_connection(effect.connection_id, CloseReason.IDLE)
            return
        if isinstance(effect, ProbeConnection):
            self._connections.probe_connection(effect.connection_id)
            return
        self._waiting[effect.broker_name] = effect
        if effect.broker_name not in self._notifying:
            self._notifying.add(effect.broker_name)
            self._tasks.start(self._notify(effect.broker_name), _NOTIFY)

    async def _notify(self, broker_name: str) -> None:
        while effect := self._waiting.pop(broker_name, None):
            await self._tasks.attempt(self._notify_all(effect), _NOTIFY)
        self._notifying.discard(broker_name)

    async def _notify_all(self, effect: NotifyMinBrokerIdChange) -> None:
        notifying = [self._tasks.start(self._notify_one(effect, address), _NOTIFY) for address in effect.recipients]
        if notifying:
            await asyncio.wait(notifying)
        self._observer.notification_sent(effect)

    async def _notify_one(self, effect: NotifyMinBrokerIdChange, address: str) -> None:
        header = NotifyMinBrokerIdChangeRequestHeader(
            offline_broker_addr=effect.offline_broker_addr,
            min_broker_addr=effect.min_broker_addr,
            min_broker_id=effect.min_broker_id,
            ha_broker_addr=effect.ha_broker_addr,
        )
        # Java sends it one-way, and a broker with ACL then drops it silently. Brokers answer it as any request.
        request = RemotingCommand(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, ext_fields=encode_fields(header))
        try:
            await self._sender.post(address, request, NOTIFY_TIMEOUT_MS)
        except InvokeError as error:
            self._observer.notification_failed(effect, address, error)
