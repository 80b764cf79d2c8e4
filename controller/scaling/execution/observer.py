"""Queries NameServers and brokers about the topic of a resize: one observation a round, and the facts for a plan."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from controller.scaling.execution.broker_views import SetAddresses, SetAnswer, SetObserver, counts_of, topic_of
from controller.scaling.execution.group_views import ClientChoice, ConnectedMembers, GroupKinds, GroupObserver
from controller.scaling.execution.requests import (
    FAILURES,
    ClientQueries,
    GroupDefinitions,
    RoundRequests,
    SharedOffsets,
    answers_of,
)
from controller.scaling.resize.observation import (
    SPECIAL_TYPES,
    GroupView,
    NameServerView,
    ResizeObservation,
    SetView,
    StaleProducers,
    TopicTraits,
)
from controller.scaling.resize.operation import ResizeOperation
from controller.scaling.rules.drained import is_behind
from controller.scaling.rules.phases import ResizeNeeds, needs_of
from controller.scaling.rules.plan import SET_QUEUES_MAX
from controller.scaling.rules.quiet import stale_producers
from remoting.admin.client import AdminClient
from remoting.admin.clients import producers
from remoting.admin.route_fetches import ClientFetches, host_of, watch_route_fetches
from remoting.admin.routes import ClusterBrokers, RoutedBrokerSet, TopicRoute, order_conf, registered_and_away, route_of
from remoting.admin.topics import TopicDefinition
from remoting.background_tasks import all_results
from remoting.clock import Clock
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import Refused
from serving.shapes.scaling import ResizeKind
from store.store import SetStore

#: A watch lasts so long without another request; the next round prolongs it.
KEEP_MS: Final = 600_000


class ProducerFetches:
    def __init__(self, admin: AdminClient, name_servers: Callable[[], tuple[str, ...]]) -> None:
        self._admin = admin
        self._name_servers = name_servers

    async def begin(self, topic: str) -> None:
        """Watch a topic that may be resized: who has which route is known only from then on."""
        await self._fetches(topic)

    async def stale(self, operation: ResizeOperation, masters: Collection[str]) -> StaleProducers:
        return stale_producers(operation, await self._fetches(operation.topic), await self._hosts(masters))

    async def _fetches(self, topic: str) -> list[ClientFetches | None]:
        return await answers_of(self._admin, self._name_servers(), watch_route_fetches(topic, KEEP_MS))

    async def _hosts(self, masters: Collection[str]) -> frozenset[str] | None:
        """Return the hosts of all producers that brokers know; None if a broker does not tell."""
        found = await answers_of(self._admin, masters, producers())
        addresses = [client.remote_ip for groups in found for clients in (groups or {}).values() for client in clients]
        known = [each for each in addresses if each is not None]
        is_everybody = None not in found and len(known) == len(addresses)
        return frozenset(map(host_of, known)) if is_everybody else None


#: Attributes of ordered topics: compaction keeps the last message of a key in each queue.
_ORDERED: Final = (("message.type", "FIFO"), ("cleanup.policy", "COMPACTION"))

#: A set whose master hangs holds up a round no longer; commands of operators wait for its end.
SET_ROUND_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlaces:
    """Where the queues of a topic are; None is unknown."""

    #: By broker name; None while there is no master, or NameServers name different ones.
    masters: Mapping[str, str | None]
    is_static: bool | None
    #: Whether a NameServer has an entry of ORDER_TOPIC_CONFIG.
    has_order_conf: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _NameServerAnswer:
    view: NameServerView
    route: TopicRoute | None
    failure: str = ""


class TopicObserver:
    def __init__(
        self,
        admin: AdminClient,
        name_servers: Callable[[], tuple[str, ...]],
        sets: SetStore,
        clients: ClientQueries,
        kinds: GroupKinds,
        clock: Clock,
    ) -> None:
        self._admin = admin
        self._name_servers = name_servers
        self._sets = sets
        self._producers = ProducerFetches(admin, name_servers)
        self._clock = clock
        self._offsets = SharedOffsets(admin)
        self._clients = clients
        self._kinds = kinds
        self._definitions = GroupDefinitions(admin, clock)

    async def observe(self, operation: ResizeOperation, waited_ms: int) -> ResizeObservation:
        """Return what the present phase has to know, which has waited so long."""
        needs = needs_of(operation, waited_ms)
        requests = RoundRequests(self._admin, self._offsets)
        conf = operation.kind is ResizeKind.ORDERED
        answers, routes, _ = await self._query_name_servers(operation.topic, order=conf)
        queue_ids = {each.broker_name: needs.ends(each) if needs.ends else range(0) for each in operation.sets}
        found = await self._query_sets(requests, operation.topic, needs, queue_ids, routes)
        observation = self._observation(answers, found)
        if observation.is_in_no_route:
            observation = await self._with_unrouted(observation, operation.topic)
        if needs.groups and not observation.missing:
            clients = _client_choice(operation, needs, observation)
            observation = await self._with_groups(requests, observation, operation.topic, clients)
        if needs.definitions and not observation.missing:
            observation = await self._with_definitions(observation)
        if needs.producers and not observation.missing:
            producers = await self._producers.stale(operation, _masters(observation.sets.values()))
            observation = replace(observation, producers=producers)
        return observation

    async def facts(self, topic: str) -> tuple[TopicTraits, ResizeObservation]:
        """Return everything that a plan has to know of a topic; who fetches its route is watched from now on."""
        await self._producers.begin(topic)
        answers, routes, names = await self._query_name_servers(topic, order=True)
        numbers = dict.fromkeys(names, 0)
        for name, queues in (item for route in routes for item in route.queues.items()):
            numbers[name] = max(numbers[name], queues.read_queue_nums, queues.write_queue_nums)
        too_many = {name: number for name, number in numbers.items() if number > SET_QUEUES_MAX}
        queue_ids = {name: range(0 if name in too_many else number) for name, number in numbers.items()}
        requests = RoundRequests(self._admin, self._offsets)
        needs = ResizeNeeds(offsets=True, log=True, late=True)
        found = await self._query_sets(requests, topic, needs, queue_ids, routes)
        observation = self._observation(answers, found)
        traits = self._traits(answers, routes, found)
        away = await self._away_sets(set(traits.clusters.values())) - {*found, *traits.absent_sets}
        traits = structs.replace(traits, too_many_queues=too_many, away_sets=tuple(sorted(away)))
        if not observation.missing and not too_many:
            observation = await self._with_groups(
                requests, observation, topic, lambda each: each.client_ids, is_whole=not traits.absent_sets
            )
        return traits, observation

    async def groups(self, topic: str) -> tuple[tuple[GroupView, ...] | None, tuple[str, ...]]:
        """Return the groups of a topic, None if they are not known, and what is missing; no client is queried."""
        answers, routes, names = await self._query_name_servers(topic, order=False)
        requests, nothing = RoundRequests(self._admin, self._offsets), dict.fromkeys(names, range(0))
        found = await self._query_sets(requests, topic, ResizeNeeds(offsets=True), nothing, routes)
        observation = self._observation(answers, found)
        if not observation.missing:
            observation = await self._with_groups(requests, observation, topic, lambda _: ())
        return observation.groups, observation.missing

    async def brokers_with(self, topic: str, broker_name: str) -> list[str] | None:
        """Return which brokers of a set answer that they have a topic; None if nobody knows the brokers of the set."""
        clusters = await self._clusters()
        if not clusters:
            return None
        addresses = {address for each in _registered(broker_name, clusters) for address in each.addresses.values()}
        own = self._sets.get(broker_name)
        if own is not None and own.master_address is not None:
            addresses.add(own.master_address)
        return [each for each in sorted(addresses) if await self._has_topic(each, topic)]

    async def places(self, topic: str) -> TopicPlaces:
        """Return where a topic is; nothing is known without any NameServer's answer."""
        answers, routes, names = await self._query_name_servers(topic, order=True)
        found = {name: self._addresses(name, routes) for name in names}
        is_known = bool(routes)
        return TopicPlaces(
            masters={name: None if problem else addresses.master for name, (addresses, problem) in found.items()},
            is_static=any(each.static_broker_names for each in routes) if is_known else None,
            has_order_conf=any(each.view.order_conf is not None for each in answers) if is_known else None,
        )

    def _traits(
        self, answers: Iterable[_NameServerAnswer], routes: Collection[TopicRoute], found: Mapping[str, SetAnswer]
    ) -> TopicTraits:
        definitions = {name: each.definition for name, each in found.items() if each.definition is not None}
        clusters = {name: each.cluster for route in routes for name, each in route.broker_sets.items() if name in found}
        return TopicTraits(
            counts={name: each.view.counts for name, each in found.items() if each.view.counts is not None},
            clusters=clusters,
            is_static=any(route.static_broker_names for route in routes),
            is_ordered=any(map(has_order, definitions.values())),
            special_type=special_type(definitions.values()),
            order_conf=next((each.view.order_conf for each in answers if each.view.order_conf is not None), None),
            # Sets without a master: nobody knows their topics.
            absent_sets=tuple(
                sorted(
                    own.broker_name
                    for own in self._sets.sets()
                    if own.cluster in clusters.values() and own.broker_name not in found and own.master is None
                )
            ),
        )

    async def _query_name_servers(
        self, topic: str, *, order: bool
    ) -> tuple[list[_NameServerAnswer], list[TopicRoute], list[str]]:
        """Return all answers, the routes among them, and the broker sets of these."""
        answers = await all_results(self._query_name_server(each, topic, order=order) for each in self._name_servers())
        routes = [each.route for each in answers if each.route is not None]
        return answers, routes, sorted({name for route in routes for name in route.queues})

    async def _query_name_server(self, address: str, topic: str, *, order: bool) -> _NameServerAnswer:
        try:
            conf = await self._admin.call(address, order_conf(topic)) if order else None
            route = await self._route(address, topic)
        except FAILURES as error:
            failure = f"NameServer {address} does not answer about {topic}: {error}"
            return _NameServerAnswer(view=NameServerView(address=address, counts=None), route=None, failure=failure)
        counts = {name: counts_of(queues) for name, queues in (route.queues.items() if route is not None else ())}
        sends = route is not None and route.order_conf is not None
        view = NameServerView(address=address, counts=counts, order_conf=conf, sends_order_conf=sends)
        return _NameServerAnswer(view=view, route=route)

    async def _route(self, address: str, topic: str) -> TopicRoute | None:
        try:
            return await self._admin.call(address, route_of(topic))
        except Refused as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise

    async def _query_sets(
        self,
        requests: RoundRequests,
        topic: str,
        needs: ResizeNeeds,
        queue_ids: Mapping[str, range],
        routes: Collection[TopicRoute],
    ) -> dict[str, SetAnswer]:
        async def answer(name: str) -> SetAnswer:
            addresses, problem = self._addresses(name, routes)
            if problem:
                return SetAnswer(SetView(broker_name=name), missing=(problem,))
            try:
                async with asyncio.timeout(SET_ROUND_S):
                    return await SetObserver(requests, addresses, topic, needs, queue_ids[name]).view()
            except TimeoutError:
                late = f"{name} did not answer everything within {SET_ROUND_S:.0f} s"
                return SetAnswer(SetView(broker_name=name), missing=(late,))

        return dict(zip(queue_ids, await all_results(map(answer, queue_ids)), strict=True))

    def _addresses(self, name: str, routes: Collection[TopicRoute]) -> tuple[SetAddresses, str]:
        """Return where the brokers of a set are; the second value says why nobody knows."""
        known = [route.broker_sets[name] for route in routes if name in route.broker_sets]
        masters = {each.master_address for each in known if each.master_address is not None}
        # A master that this controller has elected is newer than any route.
        own = self._sets.get(name)
        is_elected = own is not None
        master = own.master_address if own is not None else next(iter(masters), None)
        everybody = {address for each in known for address in each.addresses.values()}
        slaves = tuple(sorted(everybody - {master})) if master is not None else ()
        problem = ""
        if not is_elected and len(masters) > 1:
            problem = f"NameServers name different masters of {name}: {', '.join(sorted(masters))}"
        return SetAddresses(broker_name=name, master=master, slaves=slaves, is_elected=is_elected), problem

    def _observation(self, answers: Collection[_NameServerAnswer], found: Mapping[str, SetAnswer]) -> ResizeObservation:
        missing = [each.failure for each in answers if each.failure]
        missing += [sentence for each in found.values() for sentence in each.missing]
        if not answers:
            missing.append("no NameServer is configured: set namesrvAddr")
        return ResizeObservation(
            now_ms=self._clock.now_ms(),
            unix_ms=self._clock.unix_ms(),
            sets={name: each.view for name, each in found.items()},
            name_servers=tuple(each.view for each in answers),
            missing=tuple(dict.fromkeys(missing)),
        )

    async def _with_unrouted(self, observation: ResizeObservation, topic: str) -> ResizeObservation:
        """Return an observation with what masters answer that have no route to the topic: it may be deleted there."""
        clusters = await self._clusters()

        async def unrouted(view: SetView) -> SetView:
            if self._sets.get(view.broker_name) is not None:
                return view
            masters = (each.master_address for each in _registered(view.broker_name, clusters))
            found = {await self._has_topic(each, topic) for each in masters if each is not None}
            return replace(view, has_topic=found != {False})

        views = await all_results(map(unrouted, observation.sets.values()))
        return replace(observation, sets={each.broker_name: each for each in views})

    async def _has_topic(self, address: str, topic: str) -> bool | None:
        try:
            return await topic_of(self._admin, address, topic) is not None
        except FAILURES:
            return None

    async def _clusters(self) -> list[ClusterBrokers]:
        found = await answers_of(self._admin, self._name_servers(), registered_and_away())
        return [each for each in found if each is not None]

    async def _away_sets(self, clusters: Collection[str]) -> set[str]:
        known = await self._clusters()
        away = {gone.broker_name for each in known for gone in each.away.values() if gone.cluster in clusters}
        return away.difference(*(each.broker_sets for each in known))

    async def _with_groups(
        self,
        requests: RoundRequests,
        observation: ResizeObservation,
        topic: str,
        clients: ClientChoice,
        *,
        is_whole: bool = False,
    ) -> ResizeObservation:
        views = observation.sets.values()
        stored = [name for view in views for name in (*(view.offsets or ()), *(view.broadcast_offsets or ()))]
        observer = GroupObserver(requests, self._clients, self._kinds)
        groups, missing = await observer.views(topic, _masters(views), stored, clients, is_whole=is_whole)
        return replace(observation, groups=groups, missing=(*observation.missing, *missing))

    async def _with_definitions(self, observation: ResizeObservation) -> ResizeObservation:
        groups = [each.name for each in observation.groups or ()]
        missing: list[str] = []

        async def with_unknown_groups(view: SetView) -> SetView:
            assert view.master is not None, "a round with missing answers needs no more"
            try:
                unknown = await self._definitions.unknown(view.master.address, groups)
            except FAILURES as error:
                missing.append(f"groups that are configured at {view.master.address}: {error}")
                return view
            return replace(view, unknown_groups=unknown)

        views = await all_results(map(with_unknown_groups, observation.sets.values()))
        return replace(observation, sets={each.broker_name: each for each in views}, missing=tuple(missing))


def has_order(definition: TopicDefinition) -> bool:
    """Return whether messages have an order by what a broker has stored: the flag, type FIFO, or compaction."""
    return definition.is_order or any(definition.attributes.get(name) == value for name, value in _ORDERED)


def special_type(definitions: Iterable[TopicDefinition]) -> str:
    """Return the message type of a topic if it gives numbers of queues a meaning; blank if it does not."""
    types = (each.attributes.get("message.type", "") for each in definitions)
    return next((each for each in types if each in SPECIAL_TYPES), "")


def _registered(name: str, clusters: Collection[ClusterBrokers]) -> list[RoutedBrokerSet]:
    return [each.broker_sets[name] for each in clusters if name in each.broker_sets]


def _masters(views: Iterable[SetView]) -> list[str]:
    return [each.master.address for each in views if each.master is not None]


def _client_choice(operation: ResizeOperation, needs: ResizeNeeds, observation: ResizeObservation) -> ClientChoice:
    """Return which clients a phase has to know: none of a group that is seen to lag by what brokers have stored."""

    def chosen(members: ConnectedMembers) -> Collection[str]:
        # A group that has locks keeps them, however it consumes.
        if not needs.clients or members.group in operation.gated_groups:
            return ()
        decides_nothing = needs.drained and not members.is_broadcasting
        if decides_nothing and is_behind(members.group, operation, observation):
            return ()
        return members.client_ids

    return chosen
