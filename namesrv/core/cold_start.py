"""What a NameServer that has just started answers of brokers that have not registered here yet: what its peers know.

Brokers register every 30 s, and for so long Java's NameServer says "no such topic" after each restart. Here the brokers
that peers list (106) show who is missing, and the peers' route of a topic (105) is merged with our own. Nothing of it
enters the tables: a broker that has registered here is decided here, and one that no peer lists any more, or that any
peer saw leave, is left out at once. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from namesrv.core.routes import acts_for_master, broker_data
from namesrv.core.tables.broker_table import Member, RegisteredSet
from namesrv.core.tables.change import RouteTables
from namesrv.core.tables.live_table import PERIOD_MS_DEFAULT
from remoting.protocol.shapes.route import BrokerData, TopicRouteData

#: What was learned is answered for so long after the start at most, in ms: each broker registers twice in this time.
COLD_MS_MAX: Final = 120_000

#: Broker name and id.
_Key = tuple[str, int]


class LearnedSet(NamedTuple):
    """A broker set as peers list it, without the members that left."""

    #: The first peer that lists it.
    peer: str
    data: BrokerData
    members: dict[int, str]


class LearnedRoute(NamedTuple):
    route: TopicRouteData | None
    #: Broker name -> the peer of whom members of the set were learned.
    learned_from: Mapping[str, str]
    #: These sets, with their members here and at the peer.
    sets: Mapping[str, RegisteredSet]


class _Listing(NamedTuple):
    connection: int | None
    sets: Mapping[str, BrokerData]
    members: frozenset[tuple[str, int, str]]


class ColdStart:
    """Knows which brokers are missing here, from the start until it is over; and always which peers count."""

    def __init__(self, tables: RouteTables, peers: Iterable[str], now_ms: int) -> None:
        """Take our tables, and the peers by precedence."""
        self._tables = tables
        #: Broker name and address of those that were registered before the start; empty if nothing is known of it.
        self.known: frozenset[tuple[str, str]] = frozenset()
        self._began_ms = now_ms
        #: What each peer listed last, and why some are ignored all the same.
        self._listings: dict[str, _Listing | None] = dict.fromkeys(peers)
        self.problems: dict[str, str] = {}
        #: Those that have neither answered nor failed to.
        self._unanswered = set(self._listings)
        #: Brokers that a peer does not list any more.
        self._left: set[tuple[str, int, str]] = set()
        #: Brokers that have registered here since the start, and when the first did.
        self._registered: set[_Key] = set()
        self._first_ms: int | None = None
        self._learned: dict[str, LearnedSet] = {}
        self.is_over = False

    @property
    def peers(self) -> Iterable[str]:
        return self._listings.keys()

    @property
    def usable(self) -> list[str]:
        """The peers whose last answer counts."""
        return [peer for peer, listing in self._listings.items() if listing is not None and peer not in self.problems]

    def registered(self, broker_name: str, broker_id: int, now_ms: int) -> None:
        """Decide about a broker here from now on, also if it leaves again."""
        if self._first_ms is None:
            self._first_ms = now_ms
        if not self.is_over:
            self._registered.add((broker_name, broker_id))

    def take(self, peer: str, sets: Mapping[str, BrokerData], connection: int | None, now_ms: int) -> None:
        """Take what a peer lists; as `ignore` if it is of another fleet.

        What it listed before over the same connection, and does not list now, has left.
        """
        self._unanswered.discard(peer)
        rows = ((name, data.broker_addrs.items()) for name, data in sets.items())
        members = frozenset((name, broker_id, address) for name, row in rows for broker_id, address in row)
        if problem := self._problem({(name, address) for name, _, address in members}, now_ms):
            self.ignore(peer, problem)
            return
        was_ignored = self.problems.pop(peer, None) is not None
        former = self._listings[peer]
        if former is not None and former.connection == connection and not self.is_over:
            self._left |= former.members - members
            self._left -= members - former.members
        self._listings[peer] = _Listing(connection, sets, members)
        if was_ignored or former is None or former.sets != sets:
            self._learn()

    def ignore(self, peer: str, problem: str) -> None:
        """Leave out what a peer listed until it lists again."""
        self._unanswered.discard(peer)
        self.problems[peer] = problem
        self._learn()

    def drop(self, peer: str) -> None:
        """Have nothing to do with a peer any more: it is this server."""
        self._unanswered.discard(peer)
        self.problems.pop(peer, None)
        self._listings.pop(peer, None)
        self._learn()

    def end(self) -> None:
        """Learn nothing any more."""
        self.is_over = True
        self._registered.clear()
        self._left.clear()
        self._learn()

    def missing(self) -> int:
        """Return how many brokers are learned: peers list them, and they have not registered here."""
        keys = ((name, broker_id) for name, learned in self._learned.items() for broker_id in learned.members)
        return sum(key not in self._registered for key in keys)

    def why_over(self, now_ms: int) -> str:
        """Return why this is over; blank while it is not."""
        if not self._listings:
            return "alone"
        if now_ms - self._began_ms >= COLD_MS_MAX:
            return "time"
        is_complete = self.usable and not self._unanswered and not self.missing()
        return "registered" if is_complete and self._has_come() else ""

    def merged(
        self,
        own: TopicRouteData | None,
        answers: Sequence[TopicRouteData],
        *,
        support_acting_master: bool,
        order_topic_conf: str | None,
    ) -> LearnedRoute:
        """Return our route of a topic with what the peers' routes, by precedence, have of missing brokers.

        The member of a set with the smallest id has its queues: they are ours once it has registered here. Of the
        orders of queues ours counts, which we may have without a route.
        """
        merged = _Parts(own)
        offered = _Parts(*reversed(answers))
        sets: dict[str, RegisteredSet] = {}
        for name in dict.fromkeys((*merged.queues, *offered.queues)):
            broker_set = self._merged_set(name)
            if broker_set is None:
                # All of it is registered here, or no peer lists it.
                continue
            here = self._tables.brokers.get(name)
            if name in offered.queues and (here is None or broker_set.min_broker_id not in here.members):
                merged.queues[name] = offered.queues[name]
                merged.mappings.pop(name, None)
                if name in offered.mappings:
                    merged.mappings[name] = offered.mappings[name]
            if (queue_data := merged.queues.get(name)) is None:
                continue
            sets[name] = broker_set
            acting = support_acting_master and acts_for_master(broker_set, queue_data)
            merged.sets[name] = broker_data(broker_set, acting=acting)
            for member in broker_set.members.values():
                if servers := offered.filter_servers.get(member.address):
                    merged.filter_servers.setdefault(member.address, servers)
        learned_from = {name: self._learned[name].peer for name in sets}
        order = offered.order_topic_conf if order_topic_conf is None else order_topic_conf
        return LearnedRoute(merged.route(order) if sets else own, learned_from, sets)

    def _merged_set(self, name: str) -> RegisteredSet | None:
        """Return a set with its missing members; None if none is missing."""
        learned = self._learned.get(name)
        if learned is None:
            return None
        own = self._tables.brokers.get(name)
        here = own.members if own else {}
        addresses = {member.address for member in here.values()}
        missing = {
            broker_id: Member(address, learned.data.cluster)
            for broker_id, address in learned.members.items()
            if (name, broker_id) not in self._registered and address not in addresses
        }
        if not missing:
            return None
        zone = learned.data.zone_name
        broker_set = own or RegisteredSet(
            broker_name=name,
            cluster=learned.data.cluster,
            enable_acting_master=learned.data.enable_acting_master,
            zone_name=None if zone is UNSET else zone,
            members={},
        )
        return msgspec.structs.replace(broker_set, members={**missing, **here})

    def _has_come(self) -> bool:
        """Return whether a broker that peers list, or that was known before the start, is here.

        Peers that were restarted too list none, which tells nothing of the brokers that there are.
        """
        listed = (listing.members for listing in self._listings.values() if listing is not None)
        is_listed = any((name, broker_id) in self._registered for row in listed for name, broker_id, _ in row)
        return is_listed or not self.known.isdisjoint(self._places())

    def _places(self) -> set[tuple[str, str]]:
        """Return name and address of the brokers that are registered here."""
        sets = self._tables.brokers.sets()
        return {(known.broker_name, member.address) for known in sets for member in known.members.values()}

    def _problem(self, places: set[tuple[str, str]], now_ms: int) -> str:
        """Return why brokers at these places, by name and address, are of another fleet; blank if they may be ours."""
        own = self._places()
        if not places or not places.isdisjoint(own):
            return ""
        if self.known and places.isdisjoint(self.known):
            return "it lists no broker that was registered here before the start"
        if own and self._first_ms is not None and now_ms - self._first_ms >= PERIOD_MS_DEFAULT:
            return "it lists no broker that is registered here"
        return ""

    def _learn(self) -> None:
        self._learned = {}
        for peer in () if self.is_over else self.usable:
            listing = self._listings[peer]
            for name, data in listing.sets.items() if listing is not None else ():
                members = {i: at for i, at in data.broker_addrs.items() if (name, i, at) not in self._left}
                if members:
                    known = self._learned.setdefault(name, LearnedSet(peer, data, {}))
                    known.members.update({i: at for i, at in members.items() if i not in known.members})


class _Parts:
    """What some routes have, by broker name; what a later one says counts."""

    def __init__(self, *routes: TopicRouteData | None) -> None:
        present = [route for route in routes if route is not None]
        self.queues = {data.broker_name: data for route in present for data in route.queue_datas}
        self.sets = {data.broker_name: data for route in present for data in route.broker_datas}
        self.filter_servers = {at: servers for route in present for at, servers in route.filter_server_table.items()}
        tables = (route.topic_queue_mapping_by_broker for route in present)
        self.mappings = {name: row for table in tables if table is not UNSET for name, row in table.items()}
        orders = [route.order_topic_conf for route in present if route.order_topic_conf is not UNSET]
        self.order_topic_conf = orders[-1] if orders else UNSET

    def route(self, order_topic_conf: str | UnsetType) -> TopicRouteData:
        return TopicRouteData(
            broker_datas=[self.sets[name] for name in self.queues],
            filter_server_table=self.filter_servers,
            order_topic_conf=order_topic_conf,
            queue_datas=list(self.queues.values()),
            topic_queue_mapping_by_broker=self.mappings or UNSET,
        )
