"""One broker, as readings, repairs and restores see it: its log, offsets, queues, how groups consume, writes. The edge.

Everything that is asked of a broker twice is asked here: a broker that is busy is asked again, a master that does not
serve yet is awaited by the caller. Nothing is pulled (docs/protocol/broker-admin.md 31), no queue is made by a question
(a broker of 4.9 makes one for 30 and 31), and offsets are read before the ends of queues, so that no end is older than
the offset that is compared with it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from offsets.proof import Fingerprint, LogBefore, LogNow, LogProof, Look, NoMessage, QueueEnds, QueuePlace, prove
from offsets.values import GroupKind, GroupMembers, GroupTopic, QueueKey, SetName
from remoting.admin.admin_request import AdminRequest
from remoting.admin.brokers import BrokerRuntime, broker_options, broker_runtime
from remoting.admin.client import AdminClient
from remoting.admin.clients import RunningConsumer, running_consumer
from remoting.admin.groups import connections_of_group
from remoting.admin.log_epochs import LogEpoch, LogEpochs, log_epochs
from remoting.admin.offset_table import all_offsets, decode_key, decode_offsets
from remoting.admin.offsets import (
    RESETS_ON_SERVER,
    OffsetCommit,
    commit_offset,
    max_offset,
    min_offset,
    reset_offset,
)
from remoting.admin.stored_messages import LogFileEnds, StoredMessage, is_none_there, message_in_log, queue_entry
from remoting.admin.topics import queue_offsets, topic_definition, topic_definition_of_all
from remoting.background_tasks import all_results
from remoting.client import send_always
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import AnswerNotFramed, BodyError, InvokeError, NotSupported, Refused
from remoting.protocol.shapes.broker_admin import OFFSET_KEY_SEPARATOR
from remoting.protocol.shapes.route import MASTER_ID
from serving.telemetry.events import Counter

UNSIGNED_REQUESTS: Final = Counter(
    "unsigned_requests",
    "Requests that this manager sent unsigned, although it has keys, because `brokerAccessAddresses` does not name the "
    "address.",
)

#: Requests of one work under way at one broker.
REQUESTS_MAX: Final = 16
#: Messages that are looked at in one reading of a log that stands still.
WALK_MAX: Final = 32
#: Messages that are looked at in a log of which nothing is known yet: the first ones of some of its files.
FILES_MAX: Final = 16
#: A broker refuses with SYSTEM_BUSY while it becomes master, and under load: so often is a request repeated.
BUSY_TRIES: Final = 20
PAUSE_S: Final = 0.05
#: Messages of the log that are looked at for one proof have this long together.
LOOKS_S: Final = 5.0
#: Of a group with more members nothing is shown.
MEMBERS_MAX: Final = 50
#: Entries of an offset table that are decoded before others run.
SLICE_ENTRIES: Final = 500
#: What a broker fails with.
BROKER_FAILURES: Final = (Refused, InvokeError, BodyError)

#: The option of brokers from 5.5.0 on that keep what was popped outside the log: no slave has it.
_POPS_IN_KV: Final = "popConsumerKVServiceEnable"
_NAME: Final = "brokerName"
_ROLE: Final = "brokerRole"
_FILE_BYTES: Final = "mappedFileSizeCommitLog"
_CONSUME_POP: Final = "CONSUME_POP"
#: Releases that cannot pop, as 28 spells them.
_BEFORE_POP: Final = ("V3_", "V4_")

Found = TypeVar("Found")
Item = TypeVar("Item")


class NotServing(Exception):  # not an error: the caller tries again
    """The broker does not serve as master yet, or does not answer; the text says which."""


class OtherBroker(Exception):  # not an error: there is nothing to do here
    """A broker of another name answers at the address."""


class BrokerOptions(NamedTuple):
    """What options of a broker (26) decide. One that refuses to tell, as with ACL, may be anything."""

    resets_on_server: bool = False
    pops_in_kv: bool = True
    is_slave: bool = False
    #: Of each file of its log.
    file_bytes: int = 1 << 30


class BrokerLog(NamedTuple):
    """The log of a broker, and whether groups may pop from it."""

    now: LogNow
    boot_unix_ms: int | None
    can_pop: bool


class ShownOffsets(NamedTuple):
    offsets: Mapping[GroupTopic, Mapping[int, int]]
    #: What it has stored there is not known, which is not nothing.
    unreadable: frozenset[GroupTopic]

    def offset(self, key: QueueKey) -> int | None:
        return self.offsets.get(GroupTopic(key.group, key.topic), {}).get(key.queue_id)


@dataclass(frozen=True, slots=True)
class AtBroker:
    """Requests of one broker."""

    admin: AdminClient
    set_name: SetName
    #: `host:port`.
    address: str
    #: How often it is asked again while it is busy.
    busy_tries: int = BUSY_TRIES

    async def call(self, wanted: AdminRequest[Found], before_send: Callable[[], None] = send_always) -> Found:
        """Return what the broker answers; one that is busy is asked again. Raises as AdminClient.call."""
        for _ in range(self.busy_tries):
            try:
                return await self.admin.call(self.address, wanted, before_send)
            except Refused as refused:
                if refused.code != ResponseCode.SYSTEM_BUSY:
                    raise
            await asyncio.sleep(PAUSE_S)
        return await self.admin.call(self.address, wanted, before_send)

    # The broker and its log

    async def options(self) -> BrokerOptions:
        """Return what its options decide; raises OtherBroker, and NotServing where it does not answer.

        Where no controller elects, NameServers alone show whose offsets an address has, and brokers may have exchanged
        addresses.
        """
        try:
            options = await self.call(broker_options([_NAME, _ROLE, _FILE_BYTES, RESETS_ON_SERVER, _POPS_IN_KV]))
        except Refused as refused:
            if refused.code == ResponseCode.SYSTEM_BUSY:
                raise NotServing(str(refused)) from refused
            return BrokerOptions()
        except (InvokeError, BodyError) as error:
            raise NotServing(str(error)) from error
        if (name := options.get(_NAME, "").strip()) not in ("", self.set_name.broker_name):
            raise OtherBroker(f"{self.address} is {name} by its own options (26), not {self.set_name.broker_name}")
        size = options.get(_FILE_BYTES, "").strip()
        return BrokerOptions(
            _is_on(options, RESETS_ON_SERVER),
            _is_on(options, _POPS_IN_KV),
            is_slave=options.get(_ROLE, "").strip() == "SLAVE",
            file_bytes=int(size) if size.isdecimal() and int(size) > 0 else BrokerOptions().file_bytes,
        )

    async def runtime(self) -> tuple[BrokerRuntime, int, int]:
        """Return what it reports, and where its log begins and ends. Raises as AdminClient.call."""
        runtime = await self.call(broker_runtime())
        return runtime, *self.log_limits(runtime)

    def log_limits(self, runtime: BrokerRuntime) -> tuple[int, int]:
        """Return where the log begins and ends by an answer; raises BodyError."""
        begin, end = runtime.commit_log_min_offset, runtime.commit_log_max_offset
        if begin is None or end is None:
            raise BodyError(f"{self.address} does not report where its log begins and ends (28)")
        # A log without a file begins at -1.
        return max(begin, 0), end

    async def log(self, master_epoch: int | None) -> BrokerLog:
        """Return what its log is; raises NotServing until it is master and its messages are in their queues.

        Raises OtherBroker too.
        """
        try:
            runtime, begin, end = await self.runtime()
            epochs = await self._epochs()
        except BROKER_FAILURES as error:
            raise NotServing(str(error)) from error
        if (behind := runtime.dispatch_behind_bytes or 0) > 0:
            await self._dispatched(end, behind)
        can_pop = runtime.version is None or not runtime.version.startswith(_BEFORE_POP)
        return BrokerLog(LogNow(begin, end, epochs, master_epoch), runtime.boot_unix_ms, can_pop)

    async def prove(self, before: LogBefore, now: LogNow, seen: set[Fingerprint] | None = None) -> LogProof:
        """Return how far its log is the one that was read before; raises NotServing where a look has no answer.

        Fingerprints that are `seen` in its log are not looked at, and others are added: hundreds may be on a slow disk.
        """
        seen = set() if seen is None else seen
        looks: list[Look] = [mark if mark in seen else NoMessage.UNKNOWN for mark in before.fingerprints]
        unframed: list[int] = []

        async def look(number: int) -> None:
            try:
                mark = before.fingerprints[number]
                looks[number] = found = await self.look(mark.place)
                if found == mark:
                    seen.add(mark)
            except AnswerNotFramed:
                unframed.append(number)

        kept = [number for number, fingerprint in enumerate(before.fingerprints) if fingerprint.place >= now.begin]
        try:
            async with asyncio.timeout(LOOKS_S):
                await for_all([number for number in kept if looks[number] is NoMessage.UNKNOWN], look)
                for number in unframed:
                    looks[number] = await self.look_alone(before.fingerprints[number].place)
            # What expires meanwhile is not lost.
            begin = (await self.call(broker_runtime())).commit_log_min_offset or 0
        except (TimeoutError, *BROKER_FAILURES) as error:
            raise NotServing(f"{self.address} does not show the messages of its log (33): {error}") from error
        proof = prove(before, now._replace(begin=max(begin, now.begin)), looks)
        if proof.problem and any(looks[number] is NoMessage.UNKNOWN for number in kept):
            raise NotServing(f"{self.address}: {proof.problem}")
        return proof

    async def look(self, place: int) -> Look:
        """Return the message that begins at a place of the log (33); raises AnswerNotFramed."""
        try:
            return fingerprint_of(await self.call(message_in_log(place)))
        except AnswerNotFramed:
            raise
        except BROKER_FAILURES as error:
            return none_by(error)

    async def look_alone(self, place: int) -> Look:
        """Return the same; no message where an answer was too long: bytes in the middle of one, taken for its length.

        Such an answer ends the connection, and with it other requests under way: so it is looked at once more alone.
        """
        try:
            return await self.look(place)
        except AnswerNotFramed:
            return NoMessage.ABSENT

    async def first_from(self, place: int) -> Fingerprint | None:
        """Return the message that begins at a place, or in the next file if one ends there; None without any."""
        try:
            return fingerprint_of(await self.call(message_in_log(place)))
        except LogFileEnds as ends:
            look = await self.look_alone(ends.next_offset)
            return look if isinstance(look, Fingerprint) else None
        except BROKER_FAILURES:
            return None

    async def first_of_files(self, begin: int, end: int, file_bytes: int) -> list[Fingerprint]:
        """Return the first messages of the log and of some of its files, by place: what a new log is known by."""
        first_file = (begin // file_bytes + 1) * file_bytes
        files = range(first_file, end, file_bytes)
        places = [begin, *files[:: max(1, -(-len(files) // FILES_MAX))]] if begin < end else []
        looks = [await self.look_alone(place) for place in places]
        return [look for look in looks if isinstance(look, Fingerprint) and look.end <= end]

    # Groups and queues

    async def shown(self) -> ShownOffsets:
        """Return its offsets (43); others run in between. Raises as AdminClient.call."""
        entries = (await self.call(all_offsets())).entries()
        offsets: dict[GroupTopic, dict[int, int]] = {}
        unreadable = set[GroupTopic]()
        while part := list(islice(entries, SLICE_ENTRIES)):
            for entry in part:
                topic, _, group = entry.key.partition(OFFSET_KEY_SEPARATOR.encode())
                try:
                    name = GroupTopic(decode_key(group), decode_key(topic))
                except BodyError:
                    continue
                try:
                    offsets[name] = decode_offsets(entry.value)
                except BodyError:
                    unreadable.add(name)
            await asyncio.sleep(0)
        return ShownOffsets(offsets, frozenset(unreadable))

    async def members(self, group: str, *, can_pop: bool = True) -> GroupMembers:
        """Return how a group consumes (203, then 307 of each member), as only its members know.

        It pulls only if all members say so: some hold queues, and none pops or may pop. From a broker that cannot pop
        any member pulls, whatever it tells.
        """
        try:
            connected = await self.call(connections_of_group(group))
        except BROKER_FAILURES:
            return GroupMembers(GroupKind.UNKNOWN, is_online=True)
        if connected is None:
            return GroupMembers(GroupKind.UNKNOWN)
        if connected.is_broadcasting:
            return GroupMembers(GroupKind.BROADCAST, is_online=True)
        if connected.consume_type == _CONSUME_POP:
            return GroupMembers(GroupKind.POP, is_online=True)
        unknown = GroupMembers(GroupKind.UNKNOWN, is_online=True)
        if len(connected.clients) > MEMBERS_MAX:
            return unknown
        positions: dict[tuple[str, int], int] = {}
        has_queues = not can_pop
        for client in connected.clients:
            try:
                running = await self.call(running_consumer(group, client.client_id))
            except BROKER_FAILURES:
                if can_pop:
                    return unknown
                continue
            if running.pop_queues or running.consume_type == _CONSUME_POP:
                return GroupMembers(GroupKind.POP, is_online=True)
            if can_pop and not (running.queues or running.started_unix_ms):
                # A member without any queue tells at least when it started. A proxy tells nothing of its gRPC clients.
                return unknown
            has_queues |= bool(running.queues)
            self._add_positions(positions, running)
        return GroupMembers(GroupKind.PULL, is_online=True, positions=positions) if has_queues else unknown

    async def place(self, topic: str, queue_id: int, offset: int) -> QueuePlace | None:
        """Return where a message is (321); None if the broker does not have the queue. Raises as AdminClient.call."""
        try:
            entry = await self.call(queue_entry(topic, queue_id, offset))
            if entry is not None:
                return QueuePlace(entry.physical_offset, entry.min_offset, entry.max_offset)
        except Refused as refused:
            if refused.code != ResponseCode.SYSTEM_ERROR:
                raise
            return None
        if (ends := await self.queue_ends(topic, queue_id)) is None:
            raise BodyError(f"queue {queue_id} of topic {topic} has no readable beginning")
        return QueuePlace(None, *ends)

    async def queue_ends(self, topic: str, queue_id: int) -> QueueEnds | None:
        """Return where a queue that the broker has begins and ends; None if it cannot read it."""
        first = await self.call(min_offset(topic, queue_id))
        return None if first is None else QueueEnds(first, await self.call(max_offset(topic, queue_id)))

    async def topic_ends(self, topic: str, wanted: Collection[int]) -> dict[int, QueueEnds]:
        """Return where the queues of a topic begin and end (202), those that are wanted among them if it has them.

        Empty for a topic that it does not have. Raises as AdminClient.call.
        """
        try:
            listed = await self.call(queue_offsets(topic))
        except Refused as refused:
            if refused.code == ResponseCode.TOPIC_NOT_EXIST:
                return {}
            raise
        found = {
            queue.queue_id: QueueEnds(ends.min_offset, ends.max_offset)
            for queue, ends in listed.items()
            if ends.min_offset is not None
        }
        listed_ids = {queue.queue_id for queue in listed}
        if missing := [queue_id for queue_id in wanted if queue_id not in listed_ids]:
            # Up to 5.2.0 queues that are only read from are not listed.
            readable = await self._read_queue_nums(topic)
            for queue_id in missing:
                if queue_id < readable and (ends := await self.queue_ends(topic, queue_id)) is not None:
                    found[queue_id] = ends
        return found

    # Writes

    async def commit(self, key: QueueKey, offset: int, before_send: Callable[[], None]) -> bool:
        """Commit an offset (15); False where a reset waits for the group's next pull. Raises as AdminClient.call."""
        request = commit_offset(key.group, key.topic, key.queue_id, offset)
        return await self.call(request, before_send) is OffsetCommit.STORED

    async def send_members(self, key: QueueKey, offset: int, before_send: Callable[[], None]) -> int:
        """Send members to an offset (222), and return where: the first message, if the offset has expired.

        Only for brokers that reset on their side. Raises as AdminClient.call.
        """
        try:
            await self.call(reset_offset(key.group, key.topic, key.queue_id, offset), before_send)
        except Refused:
            first = await self.call(min_offset(key.topic, key.queue_id))
            if first is None or first <= offset:
                raise
            await self.call(reset_offset(key.group, key.topic, key.queue_id, first), before_send)
            return first
        return offset

    def _add_positions(self, positions: dict[tuple[str, int], int], running: RunningConsumer) -> None:
        for queue, held in running.queues.items():
            if queue.broker_name != self.set_name.broker_name or held.is_dropped:
                continue
            told = [offset for offset in (held.commit_offset, held.pulled_until) if offset is not None]
            if told:
                key = queue.topic, queue.queue_id
                positions[key] = max(*told, positions.get(key, 0))

    async def _epochs(self) -> tuple[LogEpoch, ...] | None:
        """Return where each master epoch begins; None of a broker without a controller."""
        try:
            found: LogEpochs = await self.call(log_epochs())
        except Refused as refused:
            if refused.code == ResponseCode.SYSTEM_BUSY:
                raise
            return None
        if found.broker_name != self.set_name.broker_name:
            raise OtherBroker(f"{self.address} is {found.broker_name}, not {self.set_name.broker_name}")
        if found.broker_id != MASTER_ID:
            raise NotServing(f"{self.address} reports (1007) brokerId {found.broker_id}: it is no master")
        return found.epochs

    async def _dispatched(self, end: int, behind: int) -> None:
        """Wait until all messages below `end` are in their queues; raises NotServing."""
        for _ in range(BUSY_TRIES):
            await asyncio.sleep(PAUSE_S)
            try:
                runtime = await self.call(broker_runtime())
            except BROKER_FAILURES as error:
                raise NotServing(str(error)) from error
            behind = runtime.dispatch_behind_bytes or 0
            if (runtime.commit_log_max_offset or 0) - behind >= end:
                return
        raise NotServing(f"{self.address} does not have all messages in their queues yet (28), {behind} bytes behind")

    async def _read_queue_nums(self, topic: str) -> int:
        try:
            found = await self.call(topic_definition(topic))
        except NotSupported:
            found = await self.call(topic_definition_of_all(topic))
        return 0 if found is None else found.read_queue_nums


class LogWatch:
    """Takes fingerprints of a master's log: one look (33) at each reading if it moves, a short walk if not.

    The end of a log at one reading is where a message begins at the next, if the log has moved. In a log that stands
    still no message begins at its end: there a walk finds the last one, from message to message, and at each of them to
    the last one of its queue (321). It passes no queue twice, so it is short. Bodies are received and dropped.
    """

    def __init__(self) -> None:
        #: Where the log ended at the reading before.
        self._former_end: int | None = None
        self._newest: Fingerprint | None = None

    async def look(self, at: AtBroker, begin: int, first_end: int, second_end: int) -> Fingerprint | None:
        """Return a message below `second_end` that was not known before: the newest that is found, None without any."""
        former_end, self._former_end = self._former_end, first_end
        found = None
        if former_end is not None and former_end < first_end:
            found = await at.first_from(former_end)
        elif former_end is not None and (self._newest is None or self._newest.end < first_end):
            found = await self._walk(at, begin, first_end)
        if found is None or found.end > second_end:
            return None
        self._newest = found
        return found

    async def _walk(self, at: AtBroker, begin: int, end: int) -> Fingerprint | None:
        """Return the last message of a log that stands still, or one that is nearer to it than the newest known one."""
        place, last = begin if self._newest is None else self._newest.end, None
        for _ in range(WALK_MAX):
            found = await at.first_from(place)
            if found is None or found.end > end:
                break
            last = found
            if found.end == end:
                break
            place = max(found.end, await _last_place_of_queue(at, found))
        return last


async def _last_place_of_queue(at: AtBroker, message: Fingerprint) -> int:
    """Return where the last message of a message's queue is in the log; 0 if the broker does not tell."""
    try:
        found = await at.place(message.topic, message.queue_id, message.queue_offset)
        if found is not None and found.max_offset - 1 > message.queue_offset:
            found = await at.place(message.topic, message.queue_id, found.max_offset - 1)
    except BROKER_FAILURES:
        return 0
    return 0 if found is None else found.place or 0


def none_by(failure: InvokeError | Refused | BodyError) -> NoMessage:
    """Return what a look that has failed says; bytes that are no message are those in the middle of another one."""
    is_absent = is_none_there(failure) if isinstance(failure, Refused) else isinstance(failure, BodyError)
    return NoMessage.ABSENT if is_absent else NoMessage.UNKNOWN


def fingerprint_of(message: StoredMessage) -> Fingerprint:
    return Fingerprint(
        place=message.physical_offset,
        length=message.length,
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        store_unix_ms=message.store_unix_ms,
        body_crc=message.body_crc,
    )


async def for_all(items: Iterable[Item], work: Callable[[Item], Awaitable[None]], at_once: int = REQUESTS_MAX) -> None:
    left: Iterator[Item] = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    await all_results(worker() for _ in range(at_once))


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").strip().lower() == "true"
