"""brokerAddrTable and clusterAddrTable: which broker sets exist, who their members are, which cluster lists them.

A set without members does not exist here; the cluster lists follow from the members and cannot go stale.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from remoting.protocol.shapes.route import MASTER_ID

#: What an answer has of each set and of each member beside their texts, in bytes: the names of fields, and numbers.
_SET_BYTES: Final = 300
_MEMBER_BYTES: Final = 24

_NONE: Final[Mapping[str, Sequence[str]]] = {}

#: What a host adds to an answer: its network, the id of a member, None for what a set has beside them, and bytes.
Addition = tuple[str, int | None, int]


class Member(msgspec.Struct, frozen=True):
    #: `host:port` that the broker advertises.
    address: str
    #: The cluster it registered in; nearly always that of the set.
    cluster: str
    #: Whence its first registration came, as `network_of`.
    network: str = ""


class RegisteredSet(msgspec.Struct, frozen=True, kw_only=True):
    """A master and its slaves under one broker name."""

    broker_name: str
    #: The cluster of the first member, kept while anybody of that cluster is left.
    cluster: str
    enable_acting_master: bool = False
    zone_name: str | None = None
    #: Broker id -> member.
    members: Mapping[int, Member]

    @property
    def min_broker_id(self) -> int:
        """The smallest broker id of a set that has members."""
        return min(self.members)

    @property
    def master_address(self) -> str | None:
        master = self.members.get(MASTER_ID)
        return master.address if master else None

    @property
    def network(self) -> str:
        """The host that has the set: that of its master, or else of the smallest broker id."""
        member = self.members.get(MASTER_ID) or self.members.get(min(self.members, default=MASTER_ID))
        return member.network if member else ""

    @property
    def has_acting_master(self) -> bool:
        """Whether a slave acts for a missing master."""
        return self.enable_acting_master and MASTER_ID not in self.members

    def without(self, addresses: Iterable[str]) -> "RegisteredSet":
        gone = set(addresses)
        return self.with_members({i: member for i, member in self.members.items() if member.address not in gone})

    def with_members(self, members: Mapping[int, Member]) -> "RegisteredSet":
        """Return the set with other members; its cluster moves only when nobody of it is left."""
        clusters = [member.cluster for member in members.values()]
        cluster = self.cluster if self.cluster in clusters or not clusters else clusters[0]
        return msgspec.structs.replace(self, cluster=cluster, members=members)


def additions(
    broker_set: RegisteredSet, filter_servers: Mapping[str, Sequence[str]] = _NONE, mapping_bytes: int = 0
) -> Iterator[Addition]:
    """Yield what a set adds to an answer; `filter_servers` has those of its members by address."""
    name = broker_set.broker_name
    texts_bytes = _bytes(name) * 3 + _bytes(broker_set.cluster) * 2 + _bytes(broker_set.zone_name or "")
    yield broker_set.network, None, _SET_BYTES + texts_bytes + mapping_bytes
    for broker_id, member in broker_set.members.items():
        size = _MEMBER_BYTES + len(member.address)
        if member.cluster != broker_set.cluster:
            # Another cluster that lists the set.
            size += _bytes(name) + _bytes(member.cluster)
        if servers := filter_servers.get(member.address):
            size += len(member.address) + sum(map(len, servers)) + 4 * len(servers)
        yield member.network, broker_id, size


class BrokerTable:
    """Broker name -> broker set, with the clusters' lists of names."""

    def __init__(self) -> None:
        self._sets: dict[str, RegisteredSet] = {}
        #: Cluster -> broker names, in the order they came.
        self._clusters: dict[str, dict[str, None]] = {}
        #: Cluster -> the sets whose cluster it is.
        self._counted: dict[str, set[str]] = {}
        #: Network -> the sets that it has.
        self._of_network: dict[str, set[str]] = {}
        #: Broker name -> how long the set's part of a route is, in bytes.
        self._part_bytes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sets)

    def get(self, broker_name: str) -> RegisteredSet | None:
        return self._sets.get(broker_name)

    def sets(self) -> Iterable[RegisteredSet]:
        return self._sets.values()

    def clusters(self) -> Mapping[str, Iterable[str]]:
        return self._clusters

    def topic_owners(self) -> list[str]:
        """Return the names of clusters and broker sets: brokers make topics of these names."""
        return [*self._clusters, *self._sets]

    def names_in(self, cluster: str) -> list[str]:
        """Return the broker names of one cluster, none if it is unknown."""
        return list(self._clusters.get(cluster, ()))

    def counted_in(self, cluster: str) -> AbstractSet[str]:
        """Return the names of the sets that count for a cluster: each set for one, whatever else lists it."""
        return self._counted.get(cluster, frozenset())

    def of_network(self, network: str) -> set[str] | frozenset[str]:
        return self._of_network.get(network, frozenset())

    def part_bytes(self, broker_names: Iterable[str]) -> int:
        """Return how long the parts of these sets in a route are together, filter servers and mappings left out."""
        return sum(map(self._part_bytes.__getitem__, broker_names))

    def put(self, broker_set: RegisteredSet) -> None:
        """Store a set; one without members is removed."""
        name = broker_set.broker_name
        present = self._sets.get(name)
        for index, before_key, after_key in (
            (self._counted, present.cluster if present else None, broker_set.cluster),
            (self._of_network, present.network if present else None, broker_set.network),
        ):
            _move(index, name, before_key, after_key if broker_set.members else None)
        before = self._clusters_of(present)
        after = self._clusters_of(broker_set)
        if broker_set.members:
            self._sets[name] = broker_set
            self._part_bytes[name] = sum(size for _, _, size in additions(broker_set))
        else:
            self._sets.pop(name, None)
            self._part_bytes.pop(name, None)
        for cluster in before - after:
            names = self._clusters[cluster]
            del names[name]
            if not names:
                del self._clusters[cluster]
        for cluster in after - before:
            self._clusters.setdefault(cluster, {})[name] = None

    @staticmethod
    def _clusters_of(broker_set: RegisteredSet | None) -> set[str]:
        return {member.cluster for member in broker_set.members.values()} if broker_set else set()


def _move(index: dict[str, set[str]], name: str, before: str | None, after: str | None) -> None:
    """Have a set's name stand under another key of an index; None for none."""
    if before == after:
        return
    if before is not None:
        index[before].remove(name)
        if not index[before]:
            del index[before]
    if after is not None:
        index.setdefault(after, set()).add(name)


def _bytes(text: str) -> int:
    return len(text.encode())
