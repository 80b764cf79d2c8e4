"""Carries out what the control asks for: telling brokers who leads, and asking them whether they live.

Java sends NOTIFY_BROKER_ROLE_CHANGED without waiting; brokers answer it nevertheless, so here it is repeated until they
do. Of several notifications for one broker the latest counts.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol

from controller.failover.effects import CheckReachability, Effect, NotifyRoleChanged, ProbeBroker, Recipient
from controller.failover.election_log import ElectionLog, ElectionRecord, NotificationResult
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import ANSWER_MS, ProbeOutcome
from remoting.client import Requester
from remoting.clock import Clock
from remoting.protocol.codec import decode_body, encode_fields
from remoting.protocol.codes import RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, ConnectionRefused, InvokeError, OutOfResources
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.broker import EpochCache
from remoting.protocol.shapes.controller import MasterHeader, SyncStateSet

#: How long a broker may take to change its role; a master waits for what is still to be indexed.
NOTIFY_TIMEOUT_MS: Final = 3_000
#: Pauses between the tries.
NOTIFY_PAUSES_S: Final = (0.2, 1.0)

Reached = Callable[[BrokerKey, str, str], None]
#: Does something that nobody waits for; what it raises is told, and ends nothing else.
Starter = Callable[[Coroutine[Any, Any, None]], asyncio.Task[bool]]


class PerformObserver(Protocol):
    """Who is told what came of it."""

    def broker_probed(self, outcome: ProbeOutcome) -> None:
        """Learn of the answer to a question."""

    def role_notified(
        self,
        effect: NotifyRoleChanged,
        recipient: Recipient,
        notified: NotificationResult,
        record: ElectionRecord | None,
    ) -> None:
        """Learn whether a broker knows its role."""

    def role_notification_failed(self, effect: NotifyRoleChanged, recipient: Recipient, tries: int, error: str) -> None:
        """Learn that a broker does not confirm."""


class Performer:
    """Performs each effect in a task of its own."""

    def __init__(
        self,
        start: Starter,
        client: Requester,
        elections: ElectionLog,
        clock: Clock,
        observer: PerformObserver,
        reached: Reached,
    ) -> None:
        """Take who learns which broker has answered at which address, and the other end; blank if unknown."""
        self._start = start
        self._client = client
        self._elections = elections
        self._clock = clock
        self._observer = observer
        self._reached = reached
        self._telling: dict[BrokerKey, asyncio.Task[bool]] = {}

    def perform(self, effect: Effect) -> None:
        """Begin to carry out an effect."""
        if isinstance(effect, ProbeBroker):
            self._start(self._ask(effect))
            return
        if isinstance(effect, CheckReachability):
            self._start(self._greet(effect))
            return
        for recipient in effect.recipients:
            key = BrokerKey(effect.broker_name, recipient.broker_id)
            if (earlier := self._telling.get(key)) is not None:
                earlier.cancel()
            task = self._start(self._tell(effect, recipient))
            self._telling[key] = task
            task.add_done_callback(partial(self._told, key))

    async def close(self) -> None:
        """Tell nobody any more."""
        for task in self._telling.values():
            task.cancel()

    def _told(self, key: BrokerKey, done: asyncio.Task[bool]) -> None:
        if self._telling.get(key) is done:
            del self._telling[key]

    async def _ask(self, effect: ProbeBroker) -> None:
        try:
            outcome, peer = await self._question(effect.probe.key, effect.address, effect.probe.timeout_ms)
        except Exception:
            # Who waits for the outcome has to learn that there is none; a fault of ours says nothing about the broker.
            effect.report(effect.probe.key, ProbeOutcome.NOT_ASKED, "")
            raise
        effect.report(effect.probe.key, outcome, peer)

    async def _greet(self, effect: CheckReachability) -> None:
        outcome, peer = await self._question(effect.key, effect.address, ANSWER_MS)
        if outcome is ProbeOutcome.ANSWERED:
            self._reached(effect.key, effect.address, peer)

    async def _question(self, key: BrokerKey, address: str, timeout_ms: int) -> tuple[ProbeOutcome, str]:
        """Return what came of it, and the other end of the connection; blank without an answer."""
        peer = ""
        # A small question that any broker in controller mode answers.
        question = RemotingCommand(RequestCode.GET_BROKER_EPOCH_CACHE)
        try:
            answer, peer = await self._client.invoke_on_new_connection(address, question, timeout_ms)
            outcome = ProbeOutcome.ANOTHER if _is_of_another(key, answer) else ProbeOutcome.ANSWERED
        except ConnectionRefused:
            outcome = ProbeOutcome.REFUSED
        except OutOfResources:
            outcome = ProbeOutcome.NOT_ASKED
        except InvokeError:
            outcome = ProbeOutcome.NO_ANSWER
        self._observer.broker_probed(outcome)
        return outcome, peer

    async def _tell(self, effect: NotifyRoleChanged, recipient: Recipient) -> None:
        request = _notification(effect)
        error = ""
        tries = 0
        result = "failed"
        try:
            for pause_s in (*NOTIFY_PAUSES_S, None):
                tries += 1
                result, error = await self._try(recipient, request)
                if not error:
                    self._reached(BrokerKey(effect.broker_name, recipient.broker_id), recipient.address, "")
                    break
                if pause_s is not None:
                    await asyncio.sleep(pause_s)
            else:
                self._observer.role_notification_failed(effect, recipient, tries, error)
        except asyncio.CancelledError:
            result = "superseded"
            raise
        finally:
            notified = NotificationResult(result, self._clock.now_ms() - effect.since_ms, tries)
            record = self._elections.notified(effect.broker_name, effect.election, recipient.broker_id, notified)
            self._observer.role_notified(effect, recipient, notified, record)

    async def _try(self, recipient: Recipient, request: RemotingCommand) -> tuple[str, str]:
        """Return how a try ended, and why the broker does not know its role, blank if it does."""
        try:
            answer = await self._client.invoke(recipient.address, request, NOTIFY_TIMEOUT_MS)
        except InvokeError as error:
            return "failed", str(error)
        if answer.code == ResponseCode.SUCCESS:
            return "ok", ""
        return "refused", f"it answers {answer.code}: {answer.remark or 'no remark'}"


def _is_of_another(key: BrokerKey, answer: RemotingCommand) -> bool:
    """Tell whether a broker that is certainly another one has answered; not all say who they are."""
    if answer.code != ResponseCode.SUCCESS or not answer.body:
        return False
    try:
        said = decode_body(EpochCache, answer.body)
    except BodyError:
        return False
    if said.broker_name is not None and said.broker_name != key.broker_name:
        return True
    # A master says 0, and one that starts -1.
    return said.broker_id is not None and said.broker_id > 0 and said.broker_id != key.broker_id


def _notification(effect: NotifyRoleChanged) -> RemotingCommand:
    header = MasterHeader(
        master_broker_id=effect.master.broker_id,
        master_address=effect.master.address,
        master_epoch=effect.master_epoch,
        sync_state_set_epoch=effect.sync_state_set_epoch,
    )
    body = SyncStateSet(sync_state_set=list(effect.sync_state_set), sync_state_set_epoch=effect.sync_state_set_epoch)
    return RemotingCommand(
        RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
        ext_fields=encode_fields(header),
        body=encode(body, Dialect.STANDARD),
    )
