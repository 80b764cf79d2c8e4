"""Queries to brokers: where their logs end, on how many replicas they confirm, whether they serve, when they started.

A broker in controller mode answers GET_BROKER_EPOCH_CACHE (1007) from memory, with the end of its log and its identity.
Its properties (26) are larger, and are requested only where they decide. GET_BROKER_HA_STATUS (907) shows the role by
which its store refuses or takes messages (docs/protocol/broker-admin.md 25 to 27).
"""

import asyncio
from collections.abc import Awaitable, Collection
from typing import Final, TypeVar

from msgspec.structs import replace

from controller.failure_detection.heartbeats import UNKNOWN, BrokerKey
from controller.failure_detection.log_ends import LogEnd, LogEndQuery, LogEnds
from controller.sets.broker_set import RAISED_EPOCH_MAX
from remoting.admin.brokers import ALL_ACK, broker_options, broker_runtime, ha_status, has_all_ack
from remoting.admin.client import AdminClient, AdminLimits
from remoting.background_tasks import all_results, start_task
from remoting.client import Requester
from remoting.protocol.codec import decode_body
from remoting.protocol.codes import RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, InvokeError, InvokeTimeout, Refused
from remoting.protocol.shapes.broker import EpochCache

#: How long brokers have to answer with their log ends: a healthy one takes some ms, and a longer wait would hold up
#: the election.
LOG_END_MS: Final = 300
#: How long they have to answer with their properties then.
PROPERTIES_MS: Final = 200
#: How many brokers are queried at a time: thousands of masters can fail together, and each has some slaves.
QUERIES_MAX: Final = 200
#: A longer answer is not read: 1,000 epochs take 60 KB, all properties of a broker 30 KB.
ANSWER_BYTES_MAX: Final = 1024 * 1024
#: Digits of a number of replicas that is believed.
_DIGITS_MAX: Final = 4

_LOG_END: Final = RemotingCommand(RequestCode.GET_BROKER_EPOCH_CACHE)
_PROPERTIES: Final = RemotingCommand(RequestCode.GET_BROKER_CONFIG)


class LogEndQueries:
    """Queries to brokers; elections of one set that are held at the same time share the answers."""

    def __init__(self, client: Requester) -> None:
        self._client = client
        self._places = asyncio.Semaphore(QUERIES_MAX)
        self._under_way: dict[str, asyncio.Task[LogEnds]] = {}

    async def query(self, query: LogEndQuery) -> LogEnds:
        """Return what these brokers answer within LOG_END_MS, and PROPERTIES_MS where that is needed."""
        name = query.broker_name
        task = self._under_way.get(name)
        if task is None:
            task = self._under_way[name] = start_task(self._query(query))
            task.add_done_callback(lambda _: self._under_way.pop(name))
        # One that gives up waiting must not end it for the others.
        return await asyncio.shield(task)

    async def confirmed_on(self, address: str) -> int | None:
        """Return on how many replicas a broker confirms a message, as `confirmed_on`, within PROPERTIES_MS."""
        answer = await self._answer(address, _PROPERTIES, PROPERTIES_MS)
        # It is queried again in ten minutes, as thousands of others are.
        self._client.release(address)
        return confirmed_on([answer or b""])

    async def _query(self, query: LogEndQuery) -> LogEnds:
        keys = [BrokerKey(query.broker_name, i) for i in query.addresses]
        answers = await all_results(self._answer(query.addresses[key.broker_id], _LOG_END, LOG_END_MS) for key in keys)
        ends = {key.broker_id: log_end(key, body or b"") for key, body in zip(keys, answers, strict=True)}
        found = {i: end for i, end in ends.items() if end is not None}
        answered = LogEnds(by_id=found, is_awaited=None in answers)
        if not found or not answered.are_inconclusive(query.in_sync, query.others):
            return answered
        bodies = await all_results(self._answer(query.addresses[i], _PROPERTIES, PROPERTIES_MS) for i in found)
        return replace(answered, confirmed_on=confirmed_on([body for body in bodies if body]))

    async def _answer(self, address: str, request: RemotingCommand, within_ms: int) -> bytes | None:
        """Return the body of a broker's answer, empty if it refuses or cannot be reached, None if it takes too long."""
        try:
            async with asyncio.timeout(within_ms / 1000), self._places:
                answer = await self._client.invoke(address, request, within_ms)
        except (InvokeTimeout, TimeoutError):
            return None
        except InvokeError:
            return b""
        is_read = answer.code == ResponseCode.SUCCESS and len(answer.body) <= ANSWER_BYTES_MAX
        return bytes(answer.body) if is_read else b""


def log_end(key: BrokerKey, body: bytes) -> LogEnd | None:
    """Return the log end in an answer to GET_BROKER_EPOCH_CACHE (1007); None if it is another's, or cannot be."""
    try:
        cache = decode_body(EpochCache, body)
    except BodyError:
        return None
    # A master reports 0, and one that starts -1.
    is_another = cache.broker_id is not None and cache.broker_id > 0 and cache.broker_id != key.broker_id
    if is_another or cache.broker_name != key.broker_name:
        return None
    if cache.max_offset is None or cache.max_offset < 0:
        return None
    # The list of epochs is a file of its own: it outlives a log that is lost, or has lost its end.
    begun = [each.epoch for each in cache.epoch_list or () if each.start_offset <= cache.max_offset]
    epoch = max(begun, default=UNKNOWN)
    if not UNKNOWN <= epoch <= RAISED_EPOCH_MAX:
        return None
    return LogEnd(epoch, cache.max_offset, is_master=cache.broker_id == 0)


def confirmed_on(bodies: Collection[bytes]) -> int | None:
    """Return on how many replicas a confirmed message is at least, by GET_BROKER_CONFIG (26) of brokers of a set.

    1 if all of the SyncStateSet have it, or the master alone; None if unknown. Where brokers differ the smallest
    number above 1 counts, for which most answers are waited for: that of the lost master may not be known.
    """
    numbers = [number for body in bodies if (number := _confirmed_on(body)) is not None]
    return min((number for number in numbers if number > 1), default=1) if numbers else None


def _confirmed_on(body: bytes) -> int | None:
    pairs = (line.partition("=") for line in body.decode(errors="replace").splitlines())
    properties = {key: value.strip() for key, _, value in pairs}
    if has_all_ack(properties):
        return 1
    # With it, a broker waits for fewer replicas while fewer are there.
    is_automatic = properties.get("enableAutoInSyncReplicas") == "true"
    value = properties.get("minInSyncReplicas" if is_automatic else "inSyncReplicas", "")
    return max(1, int(value)) if value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX else None


#: How long a broker may take to answer; it does from memory.
ANSWER_MS: Final = 500


class ServingQueries:
    """Queries over a connection that stays open until the answer is yes: thousands are elected after a restart."""

    def __init__(self, client: Requester) -> None:
        self._client = client

    async def is_master(self, address: str) -> bool:
        """Return whether the broker at an address is a master; false if it refuses, or does not answer."""
        wanted = ha_status()
        try:
            is_master = wanted.read_response(await self._client.invoke(address, wanted.request, ANSWER_MS)).is_master
        except (InvokeError, Refused, BodyError):
            return False
        if is_master:
            self._client.release(address)
        return is_master


_LIMITS: Final = AdminLimits(timeout_ms=1_000, requests_max=32, requests_per_peer_max=4)

Found = TypeVar("Found")


class SwitchoverQueries:
    """A broker that does not answer, refuses, or answers something else, gives None; each has 1 s."""

    def __init__(self, client: Requester) -> None:
        self._admin = AdminClient(client, _LIMITS)

    async def all_ack(self, address: str) -> bool | None:
        """Return whether a broker acknowledges a message only once everybody in sync has it."""
        options = await _answer(self._admin.call(address, broker_options({ALL_ACK})))
        return None if options is None else has_all_ack(options)

    async def boot_unix_ms(self, address: str) -> int | None:
        """Return when the process of a broker has started, Unix ms by its own clock."""
        runtime = await _answer(self._admin.call(address, broker_runtime()))
        return None if runtime is None else runtime.boot_unix_ms


async def _answer(call: Awaitable[Found]) -> Found | None:
    try:
        return await call
    except (InvokeError, Refused, BodyError):
        return None
