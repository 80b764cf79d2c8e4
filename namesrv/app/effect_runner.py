"""Carries out what the state asks for: notifications to brokers, closing and probing of connections.

Effects are performed after the reply of the request that caused them has been handed to the transport. Of several
notifications about one broker set the latest wins: what an earlier one says is no longer true.
"""

import asyncio
from typing import Any, Final, Protocol

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

#: How long a broker may take to accept a connection for a notification; Java waits as long to connect.
NOTIFY_TIMEOUT_MS: Final = 3000

#: What the tasks are called that notify brokers.
_NOTIFY: Final = "notify_min_broker_id_change"


class Sender(Protocol):
    """What sends requests to brokers."""

    async def post(self, address: str, request: RemotingCommand, timeout_ms: int) -> None:
        """Send a request whose answer nobody waits for; raises InvokeError if it cannot be written in time."""


class Connections(Protocol):
    """What closes and probes connections."""

    def close_connection(self, connection_id: int) -> None:
        """Close the connection of a broker that was given up, unless a living one uses it."""

    def probe_connection(self, connection_id: int) -> None:
        """Find out whether the peer is still there; within some seconds the connection is lost if not."""


class EffectObserver(Protocol):
    """Who is told what happened."""

    def tell(self, events: tuple[Event, ...]) -> None:
        """Log and count events."""

    def notification_sent(self, effect: NotifyMinBrokerIdChange) -> None:
        """All recipients of a notification were written to."""

    def notification_failed(self, effect: NotifyMinBrokerIdChange, address: str, error: InvokeError) -> None:
        """One recipient could not be reached; a slave finds out by its own poll."""


class Performer:
    """Performs effects in tasks of `tasks`, so none outlives the service."""

    def __init__(
        self,
        tasks: BackgroundTasks,
        sender: Sender,
        connections: Connections,
        observer: EffectObserver,
    ) -> None:
        self._tasks = tasks
        self._sender = sender
        self._connections = connections
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        #: Broker name -> the latest notification that nobody was told of yet; a task works for each name in here.
        self._waiting: dict[str, NotifyMinBrokerIdChange] = {}
        self._busy: set[str] = set()

    def perform(self, outcome: RouteOutcome[Any]) -> None:
        """Tell what happened at once, and carry out the effects when the present callback is over."""
        if outcome.events:
            self._observer.tell(outcome.events)
        for effect in outcome.effects:
            self._loop.call_soon(self._start, effect)

    def _start(self, effect: Effect) -> None:
        if isinstance(effect, CloseConnection):
            self._connections.close_connection(effect.connection_id)
            return
        if isinstance(effect, ProbeConnection):
            self._connections.probe_connection(effect.connection_id)
            return
        self._waiting[effect.broker_name] = effect
        if effect.broker_name not in self._busy:
            self._busy.add(effect.broker_name)
            self._tasks.start(self._notify(effect.broker_name), _NOTIFY)

    async def _notify(self, broker_name: str) -> None:
        while effect := self._waiting.pop(broker_name, None):
            await self._tasks.attempt(self._notify_all(effect), _NOTIFY)
        self._busy.discard(broker_name)

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
        # Java sends it one-way, and then a broker with ACL refuses it in silence. Brokers answer it as any request.
        request = RemotingCommand(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, ext_fields=encode_fields(header))
        try:
            await self._sender.post(address, request, NOTIFY_TIMEOUT_MS)
        except InvokeError as error:
            self._observer.notification_failed(effect, address, error)
