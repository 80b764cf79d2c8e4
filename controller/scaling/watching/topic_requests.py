"""What requests something of NameServers and brokers for the autoscaler, with limits of its own.

Requests that clients answer have turns of their own: a client that hangs holds up no offsets.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from controller.scaling.autoscaler.policies import PolicyTable
from controller.scaling.autoscaler.readings import GroupReading, Offsets, SetReading, TopicReading
from controller.scaling.autoscaler.signals import BrokerLoad
from controller.scaling.execution.broker_views import FAILURES, counts_of, topic_of
from controller.scaling.execution.group_views import ConnectedMembers, GroupObserver
from controller.scaling.execution.observer import TopicObserver, has_order, special_type
from controller.scaling.execution.requests import read_offsets
from controller.scaling.resize.observation import GroupKind, GroupView
from controller.scaling.resize.operation import QueueCounts
from remoting.admin.admin_request import AdminRequest
from remoting.admin.brokers import BrokerRuntime, broker_runtime
from remoting.admin.client import AdminClient
from remoting.admin.offset_table import OffsetTable, all_offsets
from remoting.admin.routes import all_topics, topic_owners
from remoting.admin.topics import TopicDefinition, queue_offsets
from remoting.background_tasks import all_results
from remoting.client import PeerResponse, Requester, send_always
from remoting.clock import Clock
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, InvokeError, NotSent, OutOfResources
from remoting.protocol.topic_kinds import topics_of
from remoting.slices import in_slices

#: No request so long after one without an answer.
PAUSE_MS: Final = 10_000
#: Addresses that are remembered; those that answer again are not.
PEERS_MAX: Final = 10_000

#: A client answers it, so silence says nothing about the broker.
_OF_CLIENTS: Final = frozenset({BrokerRequestCode.GET_CONSUMER_RUNNING_INFO})


class FailedPeers:
    """A client that remembers who did not answer: of all topics of a broker that hangs, one waits for it."""

    def __init__(self, client: Requester, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        #: Address -> until when no request is sent there, monotonic.
        self._until_ms: dict[str, int] = {}

    async def invoke(
        self, address: str, request: RemotingCommand, timeout_ms: int, before_send: Callable[[], None] = send_always
    ) -> RemotingCommand:
        """Return the answer of a peer; raises InvokeError at once where there was none a moment ago."""
        self._check(address)
        try:
            answer = await self._client.invoke(address, request, timeout_ms, before_send)
        except (OutOfResources, NotSent):
            raise
        except InvokeError:
            if request.code not in _OF_CLIENTS:
                if len(self._until_ms) >= PEERS_MAX:
                    self._until_ms.clear()
                self._until_ms[address] = self._clock.now_ms() + PAUSE_MS
            raise
        self._until_ms.pop(address, None)
        return answer

    async def invoke_on_new_connection(self, address: str, request: RemotingCommand, timeout_ms: int) -> PeerResponse:
        """As `invoke`, over a connection of its own."""
        self._check(address)
        return await self._client.invoke_on_new_connection(address, request, timeout_ms)

    def release(self, address: str) -> None:
        """Close the connection to an address, unless others use it."""
        self._client.release(address)

    def connection_number(self, address: str) -> int | None:
        """Return the number of the open connection to an address, None without one."""
        return self._client.connection_number(address)

    def _check(self, address: str) -> None:
        if self._until_ms.get(address, 0) > self._clock.now_ms():
            raise InvokeError(address, f"it did not answer within the last {PAUSE_MS // 1000} s")


#: Topics that are watched; each costs requests to its brokers in each round.
TOPICS_MAX: Final = 5_000
#: How old the list of NameServers may be.
LIST_MS: Final = 60_000
#: A topic is watched for so long after it is on no list any more: a NameServer that has just started knows few.
UNLISTED_MS: Final = 600_000
#: Names that are compared with patterns before something else goes on.
_NAMES_AT_ONCE: Final = 100


class PolicyTopics:
    """The list of all topics, requested each minute; only while a policy has a pattern."""

    def __init__(
        self, admin: AdminClient, name_servers: Callable[[], tuple[str, ...]], now_ms: Callable[[], int]
    ) -> None:
        self._admin = admin
        self._name_servers = name_servers
        self._now_ms = now_ms
        self._listed: frozenset[str] = frozenset()
        self._listed_ms: int | None = None
        #: Watched topics of patterns, and when a NameServer listed them last.
        self._listed_last_ms: dict[str, int] = {}
        #: What was matched last, and what followed.
        self._matched: tuple[PolicyTable, int | None, list[str]] | None = None
        #: Topics with a policy beyond TOPICS_MAX.
        self.left_out = 0

    async def watched(self, policies: PolicyTable) -> list[str]:
        """Return the topics to be watched: those with policies of their own, then those of patterns."""
        exact = sorted(each.topic for each in policies.policies if not each.is_pattern)
        found = dict.fromkeys(exact)
        if len(exact) < len(policies.policies):
            await self._look()
            found |= dict.fromkeys(await self._matching(policies))
        self.left_out = max(0, len(found) - TOPICS_MAX)
        watched = list(found)[:TOPICS_MAX]
        now_ms, former = self._listed_ms or 0, self._listed_last_ms
        self._listed_last_ms = {
            topic: now_ms if topic in self._listed else former.get(topic, now_ms) for topic in watched[len(exact) :]
        }
        return watched

    async def _matching(self, policies: PolicyTable) -> list[str]:
        """Return the topics that patterns match: first those that are watched, so that new ones push none of them out.

        Both by name. Only a new list or new policies are matched.
        """
        if self._matched is None or self._matched[0] is not policies or self._matched[1] != self._listed_ms:
            self._matched = policies, self._listed_ms, await self._match(policies)
        return self._matched[2]

    async def _match(self, policies: PolicyTable) -> list[str]:
        known_ms = (self._listed_ms or 0) - UNLISTED_MS
        former = [topic for topic, listed_ms in self._listed_last_ms.items() if listed_ms > known_ms]
        found: dict[str, None] = {}
        async for topics in in_slices((*sorted(former), *sorted(self._listed)), _NAMES_AT_ONCE):
            found |= dict.fromkeys(topic for topic in topics if policies.policy_of(topic) is not None)
        return list(found)

    async def _look(self) -> None:
        now_ms = self._now_ms()
        if self._listed_ms is not None and now_ms - self._listed_ms < LIST_MS:
            return
        answers = await all_results(self._listed_at(each) for each in self._name_servers())
        known = [each for each in answers if each is not None]
        if known:
            # One that has just started does not know all of them yet.
            self._listed, self._listed_ms = frozenset().union(*known), now_ms

    async def _listed_at(self, address: str) -> frozenset[str] | None:
        """Return the topics of a NameServer, without those that brokers name after their cluster or set."""
        try:
            listed = await self._admin.call(address, all_topics())
            owners = await self._admin.call(address, topic_owners())
        except FAILURES:
            return None
        return listed - topics_of(owners)


#: How old facts may be.
PLACES_MS: Final = 120_000
GROUPS_MS: Final = 60_000

#: A broker set that has left the route counts for so long as one that does not answer: it may be down.
ABSENT_MS: Final = 3_600_000

#: Clients of one group that are queried at one time.
CLIENTS_MAX: Final = 64

_OFFLINE: Final = frozenset[str]()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """Who consumes; None is unknown."""

    kind: GroupKind | None
    clients: frozenset[str] | None
    holders: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """What is known of a topic; None is unknown."""

    #: When it was requested, monotonic.
    places_ms: int
    groups_ms: int
    #: By broker name.
    masters: Mapping[str, str | None] = field(default_factory=dict)
    counts: Mapping[str, QueueCounts | None] = field(default_factory=dict)
    is_ordered: bool | None = None
    is_static: bool | None = None
    special_type: str = ""
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    #: Since when sets are in no route any more, monotonic; they have no master.
    absent: Mapping[str, int] = field(default_factory=dict)
    #: Whether every answer came.
    is_complete: bool = False


class TopicFactsObserver:
    """Requests what changes rarely about topics, each minute or two.

    Clients cost themselves a request: all are queried only of groups that are behind, of others one, for its kind.
    """

    def __init__(
        self, admin: AdminClient, topics: TopicObserver, groups: GroupObserver, now_ms: Callable[[], int]
    ) -> None:
        self._admin = admin
        self._topics = topics
        self._groups = groups
        self._now_ms = now_ms

    def is_due(self, facts: TopicFacts | None) -> bool:
        """Return whether facts are too old, or lack an answer."""
        return facts is None or not facts.is_complete or self._now_ms() - facts.groups_ms >= GROUPS_MS

    async def facts(self, topic: str, former: TopicFacts | None, behind: Collection[str]) -> TopicFacts:
        """Return what is known of a topic by now; all clients of the groups that are `behind` are queried."""
        found = former
        if found is None or not found.is_complete or self._now_ms() - found.places_ms >= PLACES_MS:
            found = await self._placed(topic, former)
        return await self._grouped(topic, found, behind)

    async def _placed(self, topic: str, former: TopicFacts | None) -> TopicFacts:
        places = await self._topics.places(topic)
        definitions = await all_results(self._definition(each, topic) for each in places.masters.values())
        found = dict(zip(places.masters, definitions, strict=True))
        known = [each for each in definitions if each is not None]
        is_known = places.has_order_conf is not None and len(known) == len(definitions)
        has_any_order = places.has_order_conf or any(map(has_order, known))
        absent = self._absent(places.masters, former)
        return TopicFacts(
            places_ms=self._now_ms(),
            groups_ms=0,
            masters={**places.masters, **dict.fromkeys(absent)},
            absent=absent,
            counts={name: None if each is None else counts_of(each) for name, each in found.items()},
            is_ordered=True if has_any_order else (False if is_known else None),
            is_static=places.is_static,
            special_type=special_type(known),
            groups=former.groups if former is not None else {},
            is_complete=is_known,
        )

    def _absent(self, masters: Collection[str], former: TopicFacts | None) -> Mapping[str, int]:
        now_ms = self._now_ms()
        left = {} if former is None else {name: former.absent.get(name, now_ms) for name in former.masters}
        return {name: since for name, since in left.items() if name not in masters and now_ms - since < ABSENT_MS}

    async def _definition(self, master: str | None, topic: str) -> TopicDefinition | None:
        try:
            return None if master is None else await topic_of(self._admin, master, topic)
        except FAILURES:
            return None

    async def _grouped(self, topic: str, facts: TopicFacts, behind: Collection[str]) -> TopicFacts:
        former = facts.groups
        masters = [each for each in facts.masters.values() if each is not None]

        def chosen(members: ConnectedMembers) -> Collection[str]:
            group, clients, _ = members
            if group in behind:
                return clients[:CLIENTS_MAX]
            known = former.get(group)
            is_same = known is not None and known.kind is not None and known.clients == frozenset(clients)
            return () if is_same else clients[:1]

        is_whole = len(masters) == len(facts.masters)
        views, missing = await self._groups.views(topic, masters, (), chosen, is_whole=is_whole)
        if views is None:
            unknown = {name: replace(each, clients=None, holders=None) for name, each in former.items()}
            return replace(facts, groups_ms=self._now_ms(), groups=unknown, is_complete=False)
        groups = {each.name: group_facts(each, former.get(each.name)) for each in views}
        is_complete = facts.is_complete and not missing and len(masters) + len(facts.absent) == len(facts.masters)
        return replace(facts, groups_ms=self._now_ms(), groups=groups, is_complete=is_complete)


def group_facts(view: GroupView, former: GroupFacts | None) -> GroupFacts:
    """Return what is known of a group; its kind stays unknown until one of its clients has answered."""
    if not view.is_online:
        # Whether it may be in order although nobody has seen it, the plan of a resize decides.
        former_kind = None if former is None else former.kind
        return GroupFacts(
            kind=view.last_kind or former_kind or GroupKind.CONCURRENT, clients=_OFFLINE, holders=_OFFLINE
        )
    clients = frozenset(each.client_id for each in view.clients)
    answered = [each for each in view.clients if each.queues is not None]
    kind = view.reported_kind
    if kind is None and former is not None and former.clients == clients:
        kind = former.kind
    holders = frozenset(each.client_id for each in answered if each.queues)
    is_whole = len(answered) == len(view.clients)
    return GroupFacts(kind=kind, clients=clients, holders=holders if is_whole else None)


#: `osPageCacheBusyTimeOutMills` of brokers, and what they take for a fault of the clock.
PAGE_CACHE_BUSY_MS: Final = 1_000
_PAGE_CACHE_MS_MAX: Final = 10_000_000

#: Shorter differences of waits are no news.
WAIT_STEP_MS: Final = 20

#: A queue id above it is no queue.
_QUEUE_ID_MAX: Final = 65_535

Found = TypeVar("Found")

#: Topic -> group -> offsets by queue id; a topic whose offsets cannot be read is absent.
_StoredOffsets = Mapping[str, Mapping[str, Mapping[int, int]]]


class _BrokerAnswers(NamedTuple):
    """What one broker answered for all of its topics; None without an answer."""

    offsets: _StoredOffsets | None
    load: BrokerLoad
    #: Messages a second with all its topics.
    put_tps: float | None


class SlotReadings:
    """Reads topics, some at a time; what a broker answers for all of its topics is requested once.

    Offsets come before ends: what is consumed in between must not look as if it lay behind the end of a queue.
    """

    def __init__(self, admin: AdminClient, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock

    async def read(self, topics: Mapping[str, TopicFacts], limited: Collection[str] = ()) -> list[TopicReading]:
        """Return what is known of each topic now; what did not answer is None.

        The rate of a broker counts for `limited` topics, whose policy says what it takes at most; idle topics would
        look as if they changed with it.
        """
        by_master: dict[str, list[str]] = {}
        for topic, facts in topics.items():
            for master in facts.masters.values():
                if master is not None:
                    by_master.setdefault(master, []).append(topic)
        answers = await all_results(self._of_broker(*each) for each in by_master.items())
        brokers = dict(zip(by_master, answers, strict=True))
        return await all_results(
            self._of_topic(topic, facts, brokers, is_limited=topic in limited) for topic, facts in topics.items()
        )

    async def _of_broker(self, address: str, topics: Collection[str]) -> _BrokerAnswers:
        runtime = await self._answer(address, broker_runtime())
        table = await self._answer(address, all_offsets())
        offsets = None if table is None else await _offsets_of(table, topics)
        return _BrokerAnswers(offsets, _load(runtime), None if runtime is None else runtime.put_tps)

    async def _of_topic(
        self, topic: str, facts: TopicFacts, brokers: Mapping[str, _BrokerAnswers], *, is_limited: bool
    ) -> TopicReading:
        ends = await all_results(self._ends(topic, each) for each in facts.masters.values())
        sets, stored = {}, {}
        for (name, master), max_offsets in zip(facts.masters.items(), ends, strict=True):
            counts = facts.counts.get(name)
            if master is None or max_offsets is None or counts is None:
                sets[name] = SetReading()
                continue
            answers = brokers[master]
            load = replace(answers.load, put_tps=answers.put_tps) if is_limited else answers.load
            sets[name] = SetReading(
                read_queues=counts.read, write_queues=counts.write, max_offsets=max_offsets, load=load
            )
            if answers.offsets is not None and topic in answers.offsets:
                stored[name] = answers.offsets[topic]
        groups = {
            group: GroupReading(
                kind=each.kind,
                clients=each.clients,
                holders=each.holders,
                offsets={name: _by_queue(offsets.get(group, {})) for name, offsets in stored.items()},
            )
            for group, each in facts.groups.items()
        }
        return TopicReading(
            topic=topic,
            unix_ms=self._clock.unix_ms(),
            sets=sets,
            groups=groups,
            is_ordered=facts.is_ordered,
            is_static=facts.is_static,
            special_type=facts.special_type,
        )

    async def _ends(self, topic: str, master: str | None) -> Offsets | None:
        if master is None:
            return None
        found = await self._answer(master, queue_offsets(topic))
        return None if found is None else _by_queue({each.queue_id: ends.max_offset for each, ends in found.items()})

    async def _answer(self, address: str, wanted: AdminRequest[Found]) -> Found | None:
        try:
            return await self._admin.call(address, wanted)
        except FAILURES:
            return None


async def _offsets_of(table: OffsetTable, topics: Collection[str]) -> _StoredOffsets | None:
    try:
        found = await read_offsets(table, topics)
    except BodyError:
        return None
    return {topic: each.by_group for topic, each in found.items() if not isinstance(each, BodyError)}


def _load(runtime: BrokerRuntime | None) -> BrokerLoad:
    if runtime is None:
        return BrokerLoad()
    lock_ms = runtime.page_cache_lock_ms
    wait_ms = runtime.send_queue_wait_ms
    return BrokerLoad(
        queue_wait_ms=None if wait_ms is None else wait_ms // WAIT_STEP_MS * WAIT_STEP_MS,
        is_page_cache_busy=None if lock_ms is None else PAGE_CACHE_BUSY_MS < lock_ms < _PAGE_CACHE_MS_MAX,
    )


def _by_queue(offsets: Mapping[int, int]) -> Offsets:
    known = [each for each in offsets if 0 <= each <= _QUEUE_ID_MAX]
    return tuple(offsets.get(each) for each in range(max(known, default=-1) + 1))
