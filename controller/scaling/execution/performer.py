"""Carries out what a round of a resize has decided: read, compare, write, read back.

Nothing is written once the lead of this controller could end before the request does. What fails here is seen in the
next round, which observes brokers anew.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from msgspec.structs import replace

from controller.scaling.execution.broker_views import counts_of, topic_of
from controller.scaling.execution.requests import FAILURES
from controller.scaling.resize.decision import (
    ChangeCounts,
    GiveLocks,
    HoldLocks,
    PutOrderConf,
    ResizeAction,
    StoreGroupOffset,
)
from remoting.admin.admin_request import AdminRequest
from remoting.admin.client import AdminClient
from remoting.admin.locks import lock_queues, unlock_queues
from remoting.admin.message_queues import MessageQueue
from remoting.admin.offsets import OffsetCommit, commit_offset, committed_offset
from remoting.admin.routes import delete_order_conf, order_conf, put_order_conf
from remoting.admin.topics import TopicDefinition, update_topic
from remoting.background_tasks import all_results
from remoting.clock import Clock
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import ConnectionRefused, InvokeError, NotSent, OutOfResources, Refused

Found = TypeVar("Found")

#: How long a broker may still carry out a change of numbers once nobody waits for its answer any more: with NameServers
#: it takes up to 24 s. No other one of the topic is sent there meanwhile: the earlier one could come after it.
UNANSWERED_MS: Final = 30_000
#: Errors of which no byte of a request has left.
_NOTHING_SENT: Final = (NotSent, ConnectionRefused, OutOfResources)


class ActionPerformer:
    def __init__(self, admin: AdminClient, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        #: Until when a change without an answer may still be carried out, monotonic; by address and topic.
        self._unanswered: dict[tuple[str, str], int] = {}

    async def perform(
        self, topic: str, actions: Iterable[ResizeAction], may_write: Callable[[], bool]
    ) -> tuple[str, ...]:
        """Carry out all actions, and return sentences about those that did not succeed.

        `may_write` returns False once another controller may lead, or has led; it is called right before each change.
        """
        outcomes = await all_results(self._attempt(topic, each, may_write) for each in actions)
        return tuple(each for each in outcomes if each)

    async def _attempt(self, topic: str, action: ResizeAction, may_write: Callable[[], bool]) -> str:
        try:
            match action:
                case ChangeCounts():
                    return await self._change_counts(topic, action, may_write)
                case StoreGroupOffset():
                    return await self._store_offset(topic, action, may_write)
                case PutOrderConf():
                    return await self._put_order_conf(topic, action, may_write)
                case GiveLocks():
                    given = unlock_queues(action.client_id, action.group, _queues(topic, action))
                    await self._write(action.address, given, may_write)
                    return ""
                case HoldLocks():
                    return await self._hold_locks(topic, action, may_write)
        except FAILURES as error:
            return f"{action.address}: {error}"

    async def _write(self, address: str, request: AdminRequest[Found], may_write: Callable[[], bool]) -> Found:
        """Send a change; raises NotSent if another controller may lead once the connection is there."""

        def before_send() -> None:
            if not may_write():
                raise NotSent(address, "another controller may lead")

        return await self._admin.call(address, request, before_send)

    async def _change_counts(self, topic: str, action: ChangeCounts, may_write: Callable[[], bool]) -> str:
        present = await topic_of(self._admin, action.address, topic)
        if present is None or counts_of(present) != action.before:
            return f"{action.broker_name} does not show {action.before} any more"
        after = action.after
        wanted = replace(present, read_queue_nums=after.read, write_queue_nums=after.write, perm=after.perm)
        if (left_ms := self._unanswered.get((action.address, topic), 0) - self._clock.now_ms()) > 0:
            return f"{action.broker_name} has not answered an earlier change: the next one in {left_ms / 1000:.0f} s"
        await self._update(action.address, wanted, may_write)
        stored = await topic_of(self._admin, action.address, topic)
        if stored != wanted:
            return f"{action.broker_name} has stored {stored} instead of {wanted}"
        return ""

    async def _update(self, address: str, wanted: TopicDefinition, may_write: Callable[[], bool]) -> None:
        try:
            await self._write(address, update_topic(wanted), may_write)
        except _NOTHING_SENT:
            raise
        except InvokeError:
            # Also where the connection has ended: the broker may have read the request before.
            now_ms = self._clock.now_ms()
            for over in [key for key, until_ms in self._unanswered.items() if until_ms <= now_ms]:
                del self._unanswered[over]
            self._unanswered[address, wanted.topic] = now_ms + UNANSWERED_MS
            raise

    async def _store_offset(self, topic: str, action: StoreGroupOffset, may_write: Callable[[], bool]) -> str:
        where = f"offset of group {action.group} in {action.broker_name}/{action.queue_id}"
        stored = await self._admin.call(action.address, committed_offset(action.group, topic, action.queue_id))
        # Brokers before 5.0 answer 0 where nothing is stored.
        if stored != action.before and not (action.before is None and stored == 0):
            return f"{where} is {stored} meanwhile"
        try:
            request = commit_offset(action.group, topic, action.queue_id, action.offset)
            outcome = await self._write(action.address, request, may_write)
        except Refused as error:
            if error.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                return f"{where}: {action.address} has no configuration of the group"
            raise
        return f"{where}: a reset of it waits for its consumer" if outcome is OffsetCommit.RESET_PENDING else ""

    async def _hold_locks(self, topic: str, action: HoldLocks, may_write: Callable[[], bool]) -> str:
        queues = _queues(topic, action)
        locked = await self._write(action.address, lock_queues(action.client_id, action.group, queues), may_write)
        held = sorted(each.queue_id for each in queues if each not in locked)
        if not held:
            return ""
        return (
            f"queues {held} of {action.broker_name} are locked by a consumer of group {action.group}: the order of "
            "keys may break"
        )

    async def _put_order_conf(self, topic: str, action: PutOrderConf, may_write: Callable[[], bool]) -> str:
        request = delete_order_conf(topic) if action.value is None else put_order_conf(topic, action.value)
        await self._write(action.address, request, may_write)
        stored = await self._admin.call(action.address, order_conf(topic))
        return "" if stored == action.value else f"{action.address} has orderTopicConf {stored} of {topic}"


def _queues(topic: str, action: HoldLocks) -> list[MessageQueue]:
    return [MessageQueue(topic=topic, broker_name=action.broker_name, queue_id=each) for each in action.queue_ids]
