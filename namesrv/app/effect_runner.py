"""Runs the effects of a change of state: notifies brokers, closes and probes connections.

Effects run after the reply to the request that caused them has been handed to the transport. Of several notifications
about one broker set only the latest is sent: the earlier ones are outdated.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from namesrv.core.tables.live_table import LiveTable
from namesrv.core.values.effects import (
    CloseConnection,
    Effect,
    Event,
    NotifyMinBrokerIdChange,
    ProbeConnection,
    RouteOutcome,
)
from namesrv.observability import log_events as lines
from namesrv.observability.event_log import NameServerEventLog
from namesrv.observability.metric_catalogue import NOTIFICATIONS
from remoting.background_tasks import BackgroundTasks
from remoting.client import RemotingClient
from remoting.protocol.codec import encode_fields
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import InvokeError
from remoting.protocol.shapes.broker import NotifyMinBrokerIdChangeRequestHeader
from remoting.server.observer import CloseReason
from remoting.server.server import RemotingServer

#: How long a broker may take to accept a connection for a notification; Java waits as long to connect.
NOTIFY_TIMEOUT_MS: Final = 3000

#: Name of the task that runs effects, and of those that notify brokers.
RUN_EFFECTS: Final = "run_effects"
_NOTIFY: Final = "notify_min_broker_id_change"


class EffectRunner:
    """Runs effects in the order of the changes that caused them; notifications go out in tasks of `tasks`.

    The queue has no limit of its own: a change causes at most one effect for each connection and broker set.
    """

    def __init__(
        self,
        live: LiveTable,
        event_log: NameServerEventLog,
        tasks: BackgroundTasks,
        *records: Callable[[tuple[Event, ...]], None],
    ) -> None:
        self._live = live
        self._event_log = event_log
        self._tasks = tasks
        self._records = records
        self._effects: asyncio.Queue[Effect] = asyncio.Queue()
        #: Broker name -> its latest notification that is not sent yet; one task serves each name in `_notifying`.
        self._waiting: dict[str, NotifyMinBrokerIdChange] = {}
        self._notifying: set[str] = set()

    def perform(self, outcome: RouteOutcome[Any]) -> None:
        """Record what happened at once; queue the effects, which run when the present callback is over."""
        if outcome.events:
            for record in self._records:
                record(outcome.events)
        for effect in outcome.effects:
            self._effects.put_nowait(effect)

    async def run_effects(self, server: RemotingServer, client: RemotingClient) -> None:
        """Run every effect that is queued; never returns. A failed one is reported and delays no other."""
        while True:
            effect = await self._effects.get()
            try:
                self._run(effect, server, client)
            except Exception as error:  # noqa: BLE001  # whatever it is, the next effects run
                self._tasks.report(RUN_EFFECTS, error)

    def _run(self, effect: Effect, server: RemotingServer, client: RemotingClient) -> None:
        if isinstance(effect, CloseConnection):
            # A broker may have registered over it again since the scan.
            if not self._live.of_connection(effect.connection_id):
                server.close_connection(effect.connection_id, CloseReason.IDLE)
            return
        if isinstance(effect, ProbeConnection):
            server.probe_connection(effect.connection_id)
            return
        self._waiting[effect.broker_name] = effect
        if effect.broker_name not in self._notifying:
            self._notifying.add(effect.broker_name)
            self._tasks.start(self._notify(effect.broker_name, client), _NOTIFY)

    async def _notify(self, broker_name: str, client: RemotingClient) -> None:
        while effect := self._waiting.pop(broker_name, None):
            await self._tasks.attempt(self._notify_all(effect, client), _NOTIFY)
        self._notifying.discard(broker_name)

    async def _notify_all(self, effect: NotifyMinBrokerIdChange, client: RemotingClient) -> None:
        header = NotifyMinBrokerIdChangeRequestHeader(
            offline_broker_addr=effect.offline_broker_addr,
            min_broker_addr=effect.min_broker_addr,
            min_broker_id=effect.min_broker_id,
            ha_broker_addr=effect.ha_broker_addr,
        )
        failed: list[str] = []
        counted = self._event_log.counts[NOTIFICATIONS]

        async def notify(address: str) -> None:
            # Java sends it one-way, and a broker with ACL then drops it silently. Brokers answer it as any request.
            request = RemotingCommand(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, ext_fields=encode_fields(header))
            try:
                await client.post(address, request, NOTIFY_TIMEOUT_MS)
            except InvokeError as error:
                failed.append(address)
                counted.add(("failed",))
                self._event_log.write(
                    lines.MIN_BROKER_ID_NOTIFICATION_FAILED,
                    broker=effect.broker_name,
                    broker_id=effect.min_broker_id,
                    addr=address,
                    error=str(error),
                )

        notifying = [self._tasks.start(notify(address), _NOTIFY) for address in effect.recipients]
        if notifying:
            await asyncio.wait(notifying)
        if (reached := len(effect.recipients) - len(failed)) > 0:
            counted.add(("sent",), reached)
            self._event_log.write(
                lines.MIN_BROKER_ID_NOTIFIED,
                broker=effect.broker_name,
                broker_id=effect.min_broker_id,
                addr=effect.min_broker_addr,
                offline_addr=effect.offline_broker_addr,
                ha_addr=effect.ha_broker_addr,
                recipients=effect.recipients,
                reached=reached,
            )
