"""Requests of one new master what the guard has to see of it: its log, its offset table, its messages. The edge."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from controller.offsets.guard.boundaries import PlacedMessage, doubtful_from
from controller.offsets.guard.candidates import ShownTable, TableKey, key_of
from controller.offsets.guard.log_facts import MasterLog, SavedMoment, are_epochs_enough, decisive_place, is_dispatched
from controller.offsets.guard.plan import MessageLook
from controller.offsets.guard.queue_view import QueueLook
from remoting.admin.admin_request import AdminRequest
from remoting.admin.brokers import BrokerRuntime, broker_name, broker_options, broker_runtime
from remoting.admin.client import AdminClient
from remoting.admin.log_epochs import LogEpochs, log_epochs
from remoting.admin.offset_table import GroupOffsets, UnreadableOffsets, all_offsets
from remoting.admin.offsets import RESETS_ON_SERVER, max_offset, min_offset, offset_at, reset_offset
from remoting.admin.stored_messages import QueueEntry, StoredMessage, message_in_log, queue_entry
from remoting.client import send_always
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import BodyError, InvokeError, Refused
from remoting.protocol.shapes.route import MASTER_ID

#: The option of brokers from 5.5.0 on that keep what was popped outside the log: no slave has it.
POP_RECORDS: Final = "popConsumerKVServiceEnable"
#: Between two requests that are repeated.
PAUSE_S: Final = 0.05
#: A broker refuses with SYSTEM_BUSY while it becomes master, and under load: so often is a request repeated.
BUSY_TRIES: Final = 20

Found = TypeVar("Found")


class NoMaster(Exception):  # not an error: the run has nothing to guard
    """Another broker has answered at the address, or one that is not in the controller's mode."""


class NotServing(Exception):  # not an error: the run comes later
    """The broker does not serve as master yet, or does not answer, or other runs had all turns; the text says which."""


class MasterQueries:
    """Requests of one broker."""

    def __init__(self, admin: AdminClient, broker_name: str, address: str) -> None:
        self.address: Final = address
        self._admin = admin
        self._broker_name = broker_name
        #: Up to where messages have to be in their queues: where the log ended when that was requested first.
        self._log_end: int | None = None
        self._is_named = False
        #: The broker is requested to search by time.
        self._is_searched = True

    async def call(self, wanted: AdminRequest[Found], before_send: Callable[[], None] = send_always) -> Found:
        """Return what the broker answers; one that is busy is asked again. Raises as AdminClient.call."""
        for _ in range(BUSY_TRIES):
            try:
                return await self._admin.call(self.address, wanted, before_send)
            except Refused as refused:
                if refused.code != ResponseCode.SYSTEM_BUSY:
                    raise
            await asyncio.sleep(PAUSE_S)
        return await self._admin.call(self.address, wanted, before_send)

    async def log(self, moment: SavedMoment) -> MasterLog:
        """Return what proves the age of messages.

        Raises NotServing where it is no master yet, or what it had stored at the first call is not in its queues yet;
        NoMaster where nothing can be proved, and BodyError for an answer that is none.
        """
        epochs = await self._epochs_of_master()
        if epochs is None and moment.epoch is not None:
            # Its start proves nothing: a slave is promoted without one.
            raise NoMaster(
                f"{self.address} does not list its master epochs (1007), and the offsets were read in epoch "
                f"{moment.epoch}: restore enableControllerMode=true there"
            )
        if epochs is None and not self._is_named:
            await self.check_name()
            self._is_named = True
        if are_epochs_enough(moment, epochs):
            return MasterLog(runtime=None, epochs=epochs)
        if epochs is not None and moment.epoch is not None:
            start = doubtful_from(epochs.epochs, moment.epoch)
            # Not readable: the head of the log has expired.
            if start is not None and (first := await self.message_at(start)) is not None:
                return MasterLog(runtime=None, epochs=epochs, decisive=first)
        runtime = await self._runtime()
        end = runtime.commit_log_max_offset or 0
        # A broker that was started again meanwhile may have lost the end of its log.
        self._log_end = end if self._log_end is None else min(end, self._log_end)
        if not is_dispatched(runtime, self._log_end):
            raise NotServing(
                f"{self.address} does not have all messages of its log in their queues yet (28): "
                f"dispatchBehindBytes={runtime.dispatch_behind_bytes}"
            )
        found = MasterLog(runtime=runtime, epochs=epochs)
        place = decisive_place(moment, epochs, runtime)
        return found if place is None else replace(found, decisive=await self.message_at(place))

    async def check_name(self) -> None:
        """Raise NoMaster for a broker of another name; pass for one that does not tell it, as with ACL.

        Without a controller NameServers alone show who has an address, and may be behind. Raises NotServing where it
        is busy, or does not answer.
        """
        try:
            found = await self._admin.call(self.address, broker_name())
        except Refused as refused:
            if refused.code == ResponseCode.SYSTEM_BUSY:
                raise NotServing(f"{self.address} is busy") from refused
            found = None
        except InvokeError as error:
            raise NotServing(str(error)) from error
        if found not in (None, self._broker_name):
            raise NoMaster(f"{self.address} is {found} by its own options (26), not {self._broker_name}")

    async def can_reset(self) -> bool:
        """Return whether the broker resets offsets by itself (222)."""
        return (await self.call(broker_options([RESETS_ON_SERVER]))).get(RESETS_ON_SERVER, "").strip() == "true"

    async def loses_popped(self) -> bool:
        """Return whether what was popped and not acknowledged is in a store of the broker's own; True if it refuses."""
        try:
            return (await self.call(broker_options([POP_RECORDS]))).get(POP_RECORDS, "").strip() == "true"
        except Refused:
            return True

    async def shown(self, topics: Collection[str]) -> ShownTable:
        """Return the offsets that the broker has of these topics; others run in between. Raises as AdminClient.call."""
        table = await self.call(all_offsets())
        offsets, unreadable = await _read(table.of_topics(topics))
        if (pulls := table.pulled_of_topics(topics)) is None:
            return ShownTable(offsets=offsets, unreadable_topics=unreadable)
        pulled, unreadable_pulls = await _read(pulls)
        return ShownTable(
            offsets=offsets, pulled=pulled, has_pulls=True, unreadable_topics=unreadable | unreadable_pulls
        )

    async def look(self, look: MessageLook, *, needs_store_time: bool) -> QueueLook:
        """Return what a queue has at an offset. Raises as AdminClient.call."""
        entry = await self._entry(look)
        if entry is None:
            first, end = min_offset(look.topic, look.queue_id), max_offset(look.topic, look.queue_id)
            if (found := await self.call(first)) is None:
                raise BodyError(f"queue {look.queue_id} of topic {look.topic} has no readable beginning")
            return QueueLook(None, found, await self.call(end))
        store_unix_ms = born_unix_ms = None
        if needs_store_time:
            message = await self.call(message_in_log(entry.physical_offset))
            store_unix_ms, born_unix_ms = message.store_unix_ms, message.born_unix_ms
        placed = PlacedMessage(entry.physical_offset, store_unix_ms, born_unix_ms)
        return QueueLook(placed, entry.min_offset, entry.max_offset)

    async def first_since(self, look: MessageLook, unix_ms: int) -> int | None:
        """Return the first message of a queue that was stored at a moment or later, as the broker finds it (29).

        None: it does not; once it has not answered, it is not requested any more.
        """
        if not self._is_searched:
            return None
        try:
            return await self.call(offset_at(look.topic, look.queue_id, unix_ms))
        except (Refused, BodyError):
            return None
        except InvokeError:
            self._is_searched = False
            return None

    async def reset(self, group: str, topic: str, queue_id: int, offset: int, before_send: Callable[[], None]) -> int:
        """Reset where a group goes on at a broker that does it by itself (222), and return where that is.

        It refuses an offset before the first message that it has, in tiered storage too: the group begins with that
        one, as it would after any older offset. Raises as AdminClient.call.
        """
        try:
            await self.call(reset_offset(group, topic, queue_id, offset), before_send)
        except Refused:
            first = await self.call(min_offset(topic, queue_id))
            if first is None or first <= offset:
                raise
            await self.call(reset_offset(group, topic, queue_id, first), before_send)
            return first
        return offset

    async def message_at(self, physical_offset: int) -> StoredMessage | None:
        """Return the message at a place in the log; None if there is none, or it cannot be read.

        Raises InvokeError as AdminClient.call.
        """
        try:
            return await self.call(message_in_log(physical_offset))
        except (Refused, BodyError):
            return None

    async def _entry(self, look: MessageLook) -> QueueEntry | None:
        """Return where a message is; None if there is none, or the queue never had one."""
        try:
            return await self.call(queue_entry(look.topic, look.queue_id, look.offset))
        except Refused as refused:
            if refused.code != ResponseCode.SYSTEM_ERROR:
                raise
            return None

    async def _epochs_of_master(self) -> LogEpochs | None:
        """Return the epochs of the log of a broker that serves as master; None if it is not in controller mode."""
        try:
            epochs = await self._admin.call(self.address, log_epochs())
        except Refused as refused:
            if refused.code != ResponseCode.SYSTEM_BUSY:
                return None
            raise NotServing(f"{self.address} is busy") from refused
        except InvokeError as error:
            raise NotServing(str(error)) from error
        if epochs.broker_name != self._broker_name:
            raise NoMaster(f"{self.address} is {epochs.broker_name}, not {self._broker_name}")
        if epochs.broker_id != MASTER_ID:
            raise NotServing(f"{self.address} reports (1007) brokerId {epochs.broker_id}: it is no master")
        return epochs

    async def _runtime(self) -> BrokerRuntime:
        """Return what the broker reports about itself; one of 4.9 refuses in its first second."""
        try:
            return await self._admin.call(self.address, broker_runtime())
        except (Refused, InvokeError) as error:
            raise NotServing(str(error)) from error


async def _read(
    entries: Iterator[GroupOffsets | UnreadableOffsets | None],
) -> tuple[dict[TableKey, Mapping[int, int]], frozenset[str]]:
    """Return what is readable, and the topics of the rest; others run in between."""
    found: dict[TableKey, Mapping[int, int]] = {}
    unreadable = set()
    for each in entries:
        if isinstance(each, GroupOffsets):
            found[key_of(each)] = each.offsets
        elif each is None:
            await asyncio.sleep(0)
        else:
            unreadable.add(each.topic)
    return found, frozenset(unreadable)
