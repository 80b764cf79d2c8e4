"""What the brokers of one set answer about the topic of a resize: numbers of queues, ends, offsets, late messages.

The edge: whatever does not answer is a sentence in `missing`, and never a number.
"""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from controller.scaling.execution.requests import FAILURES, Requests, RoundRequests, or_none
from controller.scaling.resize.observation import DelayProgress, LateSources, LogPosition, QueueEnds, SetView
from controller.scaling.resize.operation import MasterIdentity, QueueCounts
from controller.scaling.rules.phases import ResizeNeeds
from remoting.admin.brokers import BrokerRuntime, broker_options, broker_runtime, ha_status
from remoting.admin.offsets import committed_offset, is_timer_off, max_offset, min_offset, timed_messages
from remoting.admin.topics import TopicDefinition, queue_offsets, topic_definition, topic_definition_of_all
from remoting.background_tasks import all_results
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import NotSent, NotSupported, Refused
from remoting.protocol.shapes.route import QueueData

#: Half messages of all topics, and the group of the broker that checks them.
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_GROUP: Final = "CID_RMQ_SYS_TRANS"
#: Where a broker with the first of these options keeps them instead; nobody else sees which of them are decided.
ROCKSDB_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
_OPTIONS: Final = ("transRocksDBEnable", "transactionTimeOut", "transactionCheckMax", "transactionCheckInterval")
#: Delayed messages until they are delivered; those of a level are in the queue of its number - 1.
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAddresses:
    broker_name: str
    #: None while there is no master.
    master: str | None
    slaves: tuple[str, ...] = ()
    #: True: the controller has elected this master itself.
    is_elected: bool = False


def _reason(error: Exception) -> str:
    if isinstance(error, Refused) and error.code == ResponseCode.NO_PERMISSION:
        return (
            f"it denies this controller the request ({error}); give the controller the keys of a user with the right "
            "to it: brokerAccessKey, brokerSecretKey, brokerAccessAddresses"
        )
    return str(error)


async def topic_of(admin: Requests, address: str, topic: str) -> TopicDefinition | None:
    """Return how a broker has stored a topic, None if it has none; for brokers before 5.0 too. Raises FAILURES."""
    try:
        return await admin.call(address, topic_definition(topic))
    except NotSupported:
        return await admin.call(address, topic_definition_of_all(topic))


def counts_of(queues: TopicDefinition | QueueData) -> QueueCounts:
    return QueueCounts(queues.read_queue_nums, queues.write_queue_nums, queues.perm)


class SetAnswer(NamedTuple):
    """What the set answered, the topic as its master has it, and what is missing."""

    view: SetView
    definition: TopicDefinition | None = None
    missing: Sequence[str] = ()


@dataclass(slots=True)
class SetObserver:
    """Queries one broker set for one round: only what is needed, beside the numbers of queues."""

    requests: RoundRequests
    addresses: SetAddresses
    topic: str
    needs: ResizeNeeds
    queue_ids: range
    missing: list[str] = field(default_factory=list)

    async def view(self) -> SetAnswer:
        name, master = self.addresses.broker_name, self.addresses.master
        if master is None:
            return SetAnswer(SetView(broker_name=name), missing=[f"{name} has no master"])
        definition = await self._answer(f"{name} at {master}", topic_of(self.requests, master, self.topic))
        is_known = definition is not None or not self.missing
        if definition is None:
            if is_known:
                self.missing.append(f"{name} at {master} does not have the topic {self.topic}")
            return SetAnswer(SetView(broker_name=name, has_topic=not is_known), missing=self.missing)
        slaves = await all_results(self._slave(address) for address in self.addresses.slaves)
        # Ends come last. What is consumed in between must not look as if it lay behind the end of a queue; and what was
        # delivered or dispatched by then is in the ends.
        offsets = None
        if self.needs.offsets:
            offsets = await self._answer(f"offsets at {master}", self.requests.offsets(master, self.topic))
        runtime = await self._answer(f"state of {name}", self.requests.call(master, broker_runtime()))
        late = await self._late(master, runtime) if self.needs.late and runtime is not None else None
        ends = await all_results(self._end(master, queue_id) for queue_id in self.queue_ids)
        view = SetView(
            broker_name=name,
            master=await self._identity(master, runtime),
            counts=counts_of(definition),
            slaves=dict(zip(self.addresses.slaves, slaves, strict=True)),
            ends={queue_id: end for queue_id, end in zip(self.queue_ids, ends, strict=True) if end is not None},
            log=_log_position(runtime) if self.needs.log else None,
            late=late,
            offsets=None if offsets is None else offsets.by_group,
            broadcast_offsets=None if offsets is None else offsets.broadcast_by_group,
        )
        if self.needs.log and view.log is None:
            self.missing.append(f"{name} at {master} does not answer how far its commit log is dispatched")
        return SetAnswer(view, definition, self.missing)

    async def _answer(self, what: str, call: Awaitable[Found]) -> Found | None:
        try:
            return await call
        except FAILURES as error:
            # Of a broker that does not answer, what it was asked first is enough.
            if not (isinstance(error, NotSent) and self.missing):
                self.missing.append(f"{what}: {_reason(error)}")
            return None

    async def _identity(self, master: str, runtime: BrokerRuntime | None) -> MasterIdentity | None:
        """Return which life of which broker answered; None for a slave that acts as master: it must not be changed."""
        if runtime is None:
            return None
        if runtime.boot_unix_ms is None:
            self.missing.append(f"{self.addresses.broker_name} at {master} does not answer when it was started")
            return None
        if not self.addresses.is_elected and not await self._is_master(master):
            self.missing.append(f"{master} of {self.addresses.broker_name} is a slave that acts as master")
            return None
        return MasterIdentity(master, runtime.boot_unix_ms)

    async def _is_master(self, address: str) -> bool:
        try:
            return (await self.requests.call(address, ha_status())).is_master
        except (NotSupported, Refused):
            # Before 5.0 no slave acts as master, and DLedger has leaders of its own.
            return True
        except FAILURES:
            return False

    async def _slave(self, address: str) -> QueueCounts | None:
        definition = await or_none(topic_of(self.requests, address, self.topic))
        return None if definition is None else counts_of(definition)

    async def _end(self, master: str, queue_id: int) -> QueueEnds | None:
        call, queue = self.requests.call, f"queue {queue_id} at {master}"
        first = await self._answer(queue, call(master, min_offset(self.topic, queue_id)))
        last = await self._answer(queue, call(master, max_offset(self.topic, queue_id)))
        if last is None:
            return None
        # A queue whose begin cannot be read is not taken for an empty one.
        return QueueEnds(min_offset=0 if first is None else first, max_offset=last)

    async def _late(self, master: str, runtime: BrokerRuntime) -> LateSources | None:
        timed = await self._answer(f"timed messages at {master}", self._timed(master))
        half = await self._answer(f"transactions at {master}", self._half_messages(master))
        options = await self._answer(f"options of {master}", self.requests.call(master, broker_options(_OPTIONS)))
        in_rocksdb = self._rocksdb_half_messages(master, options or {})
        rocksdb = await self._answer(f"transactions at {master}", in_rocksdb)
        levels = await self._levels(master, runtime)
        if timed is None or half is None or options is None or rocksdb is None or levels is None:
            return None
        return LateSources(
            levels=levels,
            timed=timed,
            half_messages=half,
            rocksdb_half_messages=rocksdb,
            transaction_ms=_transaction_ms(options),
        )

    async def _levels(self, master: str, runtime: BrokerRuntime) -> Mapping[int, DelayProgress] | None:
        """Return the delay levels that have messages; None if a broker does not answer how many.

        A level of which nothing was delivered yet is not in the state of a broker: its messages are in its queue.
        """
        known = {
            level: DelayProgress(delivered=shown.delivered_offset, end=shown.max_offset)
            for level, shown in runtime.delay_levels.items()
        }
        request = self.requests.call(master, queue_offsets(SCHEDULE_TOPIC))
        queues = await self._answer(f"delayed messages at {master}", request)
        if queues is None:
            return None
        ends = {queue.queue_id + 1: offsets.max_offset for queue, offsets in queues.items()}
        return known | {
            level: DelayProgress(delivered=0, end=end) for level, end in ends.items() if level not in known and end
        }

    async def _timed(self, master: str) -> int:
        try:
            return await self.requests.call(master, timed_messages(self.topic))
        except NotSupported:
            return 0
        except Refused as error:
            if is_timer_off(error):
                return 0
            raise

    async def _half_messages(self, master: str) -> int:
        end = await self.requests.call(master, max_offset(HALF_TOPIC, 0))
        if not end:
            return 0
        checked = await self.requests.call(master, committed_offset(HALF_GROUP, HALF_TOPIC, 0))
        return max(end - (checked or 0), 0)

    async def _rocksdb_half_messages(self, master: str, options: Mapping[str, str]) -> int:
        # Other releases would make a queue of that topic.
        if options.get("transRocksDBEnable") != "true":
            return 0
        first = await self.requests.call(master, min_offset(ROCKSDB_HALF_TOPIC, 0))
        end = await self.requests.call(master, max_offset(ROCKSDB_HALF_TOPIC, 0))
        return max(end - max(first or 0, 0), 0)


def _transaction_ms(options: Mapping[str, str]) -> int:
    """Return after how long a broker gives up a transaction: checks begin up to an interval after its timeout."""
    texts = (options.get(name, "") for name in _OPTIONS[1:])
    timeout_ms, checks, interval_ms = (int(text) if text.isdecimal() else 0 for text in texts)
    return timeout_ms + (checks + 1) * interval_ms


def _log_position(runtime: BrokerRuntime | None) -> LogPosition | None:
    if runtime is None or runtime.commit_log_max_offset is None or runtime.dispatch_behind_bytes is None:
        return None
    end = runtime.commit_log_max_offset
    return LogPosition(end=end, dispatched=end - runtime.dispatch_behind_bytes)
