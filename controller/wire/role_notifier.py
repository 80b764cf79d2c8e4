"""Notifies brokers of their role until they confirm it.

Java sends NOTIFY_BROKER_ROLE_CHANGED (1008) without waiting. Brokers answer it all the same, so here it is repeated
until they do, while it still holds: a broker that starts again meanwhile would lead in an epoch that is over, or that a
former process has begun.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from controller.failover.election_log import ElectionLog, NotificationResult
from controller.failover.events import NotifyRoleChanged, Recipient, RoleNotificationFailed, RoleNotified
from controller.failure_detection.heartbeats import BrokerKey
from controller.wire.broker_prober import Reached, Starter
from remoting.client import Requester
from remoting.clock import Clock
from remoting.protocol.codec import encode_fields
from remoting.protocol.codes import RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import InvokeError
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.controller import MasterHeader, SyncStateSet
from serving.telemetry.events import Emit

#: How long a broker may take to change its role; a master waits for what is still to be indexed.
NOTIFY_TIMEOUT_MS: Final = 3_000
#: How long the others wait for a former master that leads still; it took 0.1 s under load. A switchover gives its new
#: master 2 s, and that may need one to leave the former.
STEP_DOWN_S: Final = 0.5
#: Pauses between the tries.
NOTIFY_PAUSES_S: Final = (0.2, 1.0)


class _Superseded(Exception):
    """What a notification says does not hold any more."""


class RoleNotifier:
    """Notifies each recipient in a task of its own."""

    def __init__(  # it is wired once
        self,
        start: Starter,
        client: Requester,
        elections: ElectionLog,
        clock: Clock,
        emit: Emit,
        reached: Reached,
        is_current: Callable[[NotifyRoleChanged, BrokerKey], bool],
    ) -> None:
        """Take `reached`, which is called for each broker that confirms.

        `is_current` tells whether a set is still in the master epoch of a notification, and the process of a broker
        that the notification is for may still run.
        """
        self._start, self._client, self._elections, self._clock = start, client, elections, clock
        self._emit, self._reached, self._is_current = emit, reached, is_current
        self._under_way: dict[BrokerKey, asyncio.Task[bool]] = {}

    def notify(self, effect: NotifyRoleChanged) -> None:
        """Begin to notify all recipients; an earlier notification of a recipient is cancelled.

        A former master that leads still is notified first, and the others once it has confirmed. A broker of 5.5.0
        whose slave has left it acknowledges what waits for that slave; and a slave that loses its master while it is
        told to lead may sleep for 5 s first.
        """
        stepped_down: asyncio.Task[bool] | None = None
        for recipient in sorted(effect.recipients, key=lambda each: each.broker_id != effect.former_master):
            key = BrokerKey(effect.broker_name, recipient.broker_id)
            if (earlier := self._under_way.get(key)) is not None:
                earlier.cancel()
            task = self._start(self._notify(effect, recipient, stepped_down))
            self._under_way[key] = task
            task.add_done_callback(partial(self._done, key))
            if recipient.broker_id == effect.former_master:
                stepped_down = task

    async def close(self) -> None:
        for task in self._under_way.values():
            task.cancel()

    def _done(self, key: BrokerKey, done: asyncio.Task[bool]) -> None:
        if self._under_way.get(key) is done:
            del self._under_way[key]

    async def _notify(
        self, effect: NotifyRoleChanged, recipient: Recipient, stepped_down: asyncio.Task[bool] | None
    ) -> None:
        request = _notification(effect)
        error = ""
        tries = 0
        result = "failed"
        try:
            if stepped_down is not None:
                await asyncio.wait({stepped_down}, timeout=STEP_DOWN_S)
            for pause_s in (*NOTIFY_PAUSES_S, None):
                tries += 1
                result, error = await self._try(effect, recipient, request)
                if not error:
                    self._reached(BrokerKey(effect.broker_name, recipient.broker_id), recipient.address, "")
                    break
                if pause_s is not None:
                    await asyncio.sleep(pause_s)
            else:
                self._emit(
                    RoleNotificationFailed(
                        broker=effect.broker_name,
                        broker_id=recipient.broker_id,
                        addr=recipient.address,
                        master_epoch=effect.master_epoch,
                        sync_state_set_epoch=effect.sync_state_set_epoch,
                        tries=tries,
                        error=error,
                    )
                )
        except _Superseded:
            result = "superseded"
        except asyncio.CancelledError:
            result = "superseded"
            raise
        finally:
            notified = NotificationResult(result, self._clock.now_ms() - effect.since_ms, tries)
            record = self._elections.notified(effect.broker_name, effect.election, recipient.broker_id, notified)
            self._emit(RoleNotified(effect=effect, recipient=recipient, notified=notified, record=record))

    async def _try(self, effect: NotifyRoleChanged, recipient: Recipient, request: RemotingCommand) -> tuple[str, str]:
        """Return how a try ended, and why the broker does not know its role, blank if it does."""

        def before_send() -> None:
            if not self._is_current(effect, BrokerKey(effect.broker_name, recipient.broker_id)):
                raise _Superseded

        try:
            response = await self._client.invoke(recipient.address, request, NOTIFY_TIMEOUT_MS, before_send)
        except InvokeError as error:
            return "failed", str(error)
        if response.code == ResponseCode.SUCCESS:
            return "ok", ""
        return "refused", f"it answers {response.code}: {response.remark or 'no remark'}"


def _notification(effect: NotifyRoleChanged) -> RemotingCommand:
    header = MasterHeader(
        master_broker_id=effect.master.broker_id,
        master_address=effect.master.address,
        master_epoch=effect.master_epoch,
        sync_state_set_epoch=effect.sync_state_set_epoch,
    )
    body = SyncStateSet(sync_state_set=list(effect.sync_state_set), sync_state_set_epoch=effect.sync_state_set_epoch)
    return RemotingCommand(
        RequestCode.NOTIFY_BROKER_ROLE_CHANGED, ext_fields=encode_fields(header), body=encode(body, Dialect.STANDARD)
    )
