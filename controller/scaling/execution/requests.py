"""How resizes and the autoscaler send requests: what is shared, kept for some seconds, or not sent for a while.

Old clients and those behind a proxy never answer. Each request to one that hangs keeps a thread of its broker for 10 s.
So a silent client is left alone for a time, which doubles each time, and few of them are tried again in one round.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from remoting.admin.admin_request import AdminRequest
from remoting.admin.brokers import broker_runtime
from remoting.admin.client import AdminClient
from remoting.admin.clients import RunningConsumer, running_consumer
from remoting.admin.groups import configured_groups
from remoting.admin.offset_table import OffsetTable, TopicOffsets, UnreadableOffsets, all_offsets
from remoting.background_tasks import all_results, start_task
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError, InvokeTimeout, NotSent, Refused, without_origin

Found = TypeVar("Found")

#: What a peer can do instead of answering.
FAILURES: Final = (InvokeError, Refused, BodyError)


async def or_none(call: Awaitable[Found]) -> Found | None:
    try:
        return await call
    except FAILURES:
        return None


async def answers_of(admin: AdminClient, addresses: Iterable[str], wanted: AdminRequest[Found]) -> list[Found | None]:
    async def answer(address: str) -> Found | None:
        return await or_none(admin.call(address, wanted))

    return await all_results(map(answer, addresses))


#: How long a client that did not answer is not queried again; twice as long after each further time, up to the second.
SILENT_MS: Final = 60_000
SILENT_MS_MAX: Final = 480_000
#: Silent clients that are remembered.
SILENT_MAX: Final = 10_000
#: Clients of one broker that are tried again in a round although they were silent: as many as have a turn at once.
AGAIN_MAX: Final = 4
#: No client is queried later in a round: who has had no turn by then is unknown.
ROUND_MS: Final = 30_000

#: Broker, group, client id.
_Client = tuple[str, str, str]


class _Silence(NamedTuple):
    #: When it is queried again, monotonic.
    until_ms: int
    lasts_ms: int


@dataclass(slots=True)
class ClientRound:
    ends_ms: int
    #: By broker.
    tried_again: Counter[str] = field(default_factory=Counter)


class ClientQueries:
    """Queries clients of all groups, with turns of their own: clients that hang hold up no other requests."""

    def __init__(self, admin: AdminClient, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._silent: dict[_Client, _Silence] = {}

    def begin_round(self) -> ClientRound:
        """Return one round of one topic: after ROUND_MS nothing more is sent, and answers are waited for."""
        return ClientRound(ends_ms=self._clock.now_ms() + ROUND_MS)

    async def running(self, turns: ClientRound, master: str, group: str, client_id: str) -> RunningConsumer | None:
        """Return what a client consumes, by the broker at "host:port"; None is unknown."""

        def check() -> None:
            if self._clock.now_ms() >= turns.ends_ms:
                raise NotSent(master, f"clients of this round are queried for {ROUND_MS // 1000} s")

        client = (master, group, client_id)
        if not self._is_due(client, turns):
            return None
        try:
            found = await self._admin.call(master, running_consumer(group, client_id), check)
        except InvokeTimeout:
            self._keep_silent(client)
            return None
        except FAILURES:
            # That says nothing about the client: a connection that breaks ends the requests to all clients of a broker.
            return None
        self._silent.pop(client, None)
        return found

    def _is_due(self, client: _Client, turns: ClientRound) -> bool:
        if (silence := self._silent.get(client)) is None:
            return True
        master, _, _ = client
        if silence.until_ms > self._clock.now_ms() or turns.tried_again[master] >= AGAIN_MAX:
            return False
        turns.tried_again[master] += 1
        return True

    def _keep_silent(self, client: _Client) -> None:
        now_ms, former = self._clock.now_ms(), self._silent.get(client)
        if former is not None and former.until_ms > now_ms:
            # Rounds of other topics have queried it at the same time.
            return
        lasts_ms = SILENT_MS if former is None else min(2 * former.lasts_ms, SILENT_MS_MAX)
        if len(self._silent) >= SILENT_MAX:
            self._silent.clear()
        self._silent[client] = _Silence(now_ms + lasts_ms, lasts_ms)


#: From one request to a broker to the next one; whoever comes meanwhile waits for that.
PAUSE_S: Final = 0.5

#: By topic; an error where a broker has something stored of the topic that cannot be read.
_Offsets = Mapping[str, TopicOffsets | BodyError]


class SharedOffsets:
    """Requests the stored offsets of brokers (43), of each of them once at a time, for all that wait for it.

    Drained, seeded and confirmed rest on these offsets. So an answer counts for those alone that wanted it before it
    was requested; nothing is kept for a later one.
    """

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        #: By address; those that nobody has looked at for a while are forgotten.
        self._brokers: dict[str, _BrokerOffsets] = {}

    async def of_topic(self, master: str, topic: str) -> TopicOffsets:
        """Return the offsets of a topic at "host:port", requested after this call; raises as `AdminClient.call`."""
        if (broker := self._brokers.get(master)) is None:
            now_s = asyncio.get_running_loop().time()
            self._brokers = {name: each for name, each in self._brokers.items() if not each.is_idle(now_s)}
            broker = self._brokers[master] = _BrokerOffsets(self._admin, master)
        return await broker.of_topic(topic)


class _BrokerOffsets:
    """One broker, and who waits for its next answer."""

    def __init__(self, admin: AdminClient, address: str) -> None:
        self._admin = admin
        self._address = address
        self._turn = asyncio.Lock()
        self._next_s = 0.0
        #: Topics that the next request is for, and what it brings; None while nobody waits for one.
        self._topics: set[str] = set()
        self._next: asyncio.Task[_Offsets | Exception] | None = None

    def is_idle(self, now_s: float) -> bool:
        """Return whether nothing is to be known of it."""
        return self._next is None and not self._turn.locked() and self._next_s <= now_s

    async def of_topic(self, topic: str) -> TopicOffsets:
        if self._next is None:
            self._topics = set()
            self._next = start_task(self._request())
        self._topics.add(topic)
        # One that gives up waiting must not end it for the others.
        found = await asyncio.shield(self._next)
        offsets = found if isinstance(found, Exception) else found[topic]
        if isinstance(offsets, Exception):
            raise offsets
        return offsets

    async def _request(self) -> _Offsets | Exception:
        """Request the offsets when it is time; a failure is returned: it is for all that wait, be it nobody."""
        async with self._turn:
            await asyncio.sleep(self._next_s - asyncio.get_running_loop().time())
            self._next_s = asyncio.get_running_loop().time() + PAUSE_S
            # Whoever comes from now on wants a newer answer.
            topics, self._next = self._topics, None
            try:
                return await read_offsets(await self._admin.call(self._address, all_offsets()), topics)
            except FAILURES as error:
                return without_origin(error)


async def read_offsets(table: OffsetTable, topics: Collection[str]) -> _Offsets:
    """Return the offsets of topics, while others go on: brokers with many groups answer megabytes.

    What cannot be read of one topic is an error of that topic alone. Raises BodyError for text that is no such table.
    """
    by_group: dict[str, dict[str, Mapping[int, int]]] = {topic: {} for topic in topics}
    broadcast: dict[str, dict[str, Mapping[int, int]]] = {topic: {} for topic in topics}
    errors: dict[str, BodyError] = {}
    for each in table.of_topics(topics):
        if each is None:
            await asyncio.sleep(0)
        elif isinstance(each, UnreadableOffsets):
            errors[each.topic] = each.error
        else:
            (broadcast if each.is_broadcast else by_group)[each.topic][each.group] = each.offsets
    readable = {each: TopicOffsets(by_group=by_group[each], broadcast_by_group=broadcast[each]) for each in topics}
    return readable | errors


class RoundRequests:
    """The requests of one round: a master that hangs is waited for once, and not for each of its queues."""

    def __init__(self, admin: AdminClient, offsets: SharedOffsets) -> None:
        self._admin = admin
        self._offsets = offsets
        self._silent: set[str] = set()

    async def call(self, address: str, wanted: AdminRequest[Found]) -> Found:
        """Return the answer as `AdminClient.call`; raises NotSent if there was none in this round before."""
        return await self._answer(address, lambda: self._admin.call(address, wanted, lambda: self._check(address)))

    async def offsets(self, address: str, topic: str) -> TopicOffsets:
        """Return the stored offsets of a topic, requested within this round; raises as `call` does."""
        self._check(address)
        return await self._answer(address, lambda: self._offsets.of_topic(address, topic))

    async def _answer(self, address: str, call: Callable[[], Awaitable[Found]]) -> Found:
        try:
            return await call()
        except InvokeError:
            self._silent.add(address)
            raise

    def _check(self, address: str) -> None:
        if address in self._silent:
            raise NotSent(address, "it has not answered an earlier request of this round")


#: What sends administrative requests.
Requests = AdminClient | RoundRequests

#: How long an answer counts: it has all groups of a broker, megabytes of them on a large one.
KEEP_MS: Final = 5_000
#: The first release that refuses offsets of groups without a configuration; older ones store them, and they protect.
_REFUSES_FROM: Final = (5, 3)

_VERSION: Final = re.compile(r"V(\d+)_(\d+)")


class GroupDefinitions:
    """The configured groups of brokers, kept for some seconds. Source: docs/protocol/broker-admin.md 13 and 22."""

    def __init__(self, admin: AdminClient, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        #: By address: when it was requested, and the groups; None: the broker stores offsets of any group.
        self._answers: dict[str, tuple[int, frozenset[str] | None]] = {}

    async def unknown(self, master: str, groups: Iterable[str]) -> frozenset[str]:
        """Return the groups for which this broker refuses to store an offset; raises what `AdminClient.call` does."""
        now_ms = self._clock.now_ms()
        self._answers = {name: known for name, known in self._answers.items() if now_ms - known[0] < KEEP_MS}
        if master not in self._answers:
            self._answers[master] = now_ms, await self._configured(master)
        configured = self._answers[master][1]
        return frozenset() if configured is None else frozenset(groups) - configured

    async def _configured(self, master: str) -> frozenset[str] | None:
        runtime = await self._admin.call(master, broker_runtime())
        found = _VERSION.match(runtime.version or "")
        if found is not None and (int(found[1]), int(found[2])) < _REFUSES_FROM:
            return None
        return await self._admin.call(master, configured_groups())
