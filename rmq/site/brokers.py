"""Which brokers a name means: of a broker set, of a cluster, or an address; and which sets cannot be asked. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from remoting.admin.controllers import ReportedBrokerSet
from remoting.admin.routes import AwaySet, ClusterBrokers, RoutedBrokerSet
from remoting.protocol.addresses import is_address
from remoting.protocol.shapes.route import MASTER_ID
from rmq.failures import (
    CommandFailed,
    NotReachable,
    NotShownNow,
    PartlyDone,
    UnknownName,
    WrongUse,
    first_of,
    unknown_sentence,
)
from rmq.output.formats import iso_time

#: Of a topic on one broker set; brokers set no limit, and each queue is a row or a request here.
QUEUES_MAX: Final = 65_536


class BrokerPlace(NamedTuple):
    cluster: str
    broker_name: str
    #: 0 of a master.
    broker_id: int
    address: str


class Gap(NamedTuple):
    """A broker set that cannot be asked, so that what it has is not known."""

    cluster: str
    broker_name: str
    #: "away since ...", "without a master".
    reason: str

    def __str__(self) -> str:
        return f"{self.broker_name} is {self.reason}"


_NOBODY: Final = Gap("", "no broker", "registered")


def merged(known: Sequence[ClusterBrokers]) -> ClusterBrokers:
    """Return what NameServers know together.

    A set is as the first one has it that has its master, or else that has it at all. Away is what nobody has.
    """
    sets: dict[str, RoutedBrokerSet] = {}
    for broker_set in (each for one in known for each in one.broker_sets.values()):
        present = sets.get(broker_set.broker_name)
        if present is None or (present.master_address is None and broker_set.master_address is not None):
            sets[broker_set.broker_name] = broker_set
    away: dict[str, AwaySet] = {}
    for gone in (each for one in known for each in one.away.values()):
        earlier = away.get(gone.broker_name)
        if gone.broker_name not in sets and (earlier is None or _since(gone) < _since(earlier)):
            away[gone.broker_name] = gone
    clusters: dict[str, set[str]] = {}
    for cluster, names in (each for one in known for each in one.clusters.items()):
        clusters.setdefault(cluster, set()).update(names)
    return ClusterBrokers(
        broker_sets=sets,
        clusters={cluster: frozenset(names) for cluster, names in clusters.items()},
        away=away,
        lost_topics={name: each for one in reversed(known) for name, each in one.lost_topics.items()},
        stale_replicas={address: each for one in reversed(known) for address, each in one.stale_replicas.items()},
    )


def stored_away(brokers: ClusterBrokers, stored: Mapping[str, ReportedBrokerSet]) -> dict[str, AwaySet]:
    """Return all sets that are away: those that controllers have stored and no NameServer lists are, too."""
    found = {
        name: AwaySet(
            cluster=each.cluster or "",
            broker_name=name,
            away_since_unix_ms=None,
            broker_addrs={replica.broker_id: replica.address for replica in each.replicas},
        )
        for name, each in stored.items()
        if name not in brokers.broker_sets
    }
    return found | dict(brokers.away)


def away_sentence(away: AwaySet) -> str:
    """Return since when a set is away, and whether it was stopped: "away since ..., shut down cleanly"."""
    if away.is_starting:
        return "not registered since the NameServer started"
    since = "" if away.away_since_unix_ms is None else f" since {iso_time(away.away_since_unix_ms)}"
    return f"away{since}" + (", shut down cleanly" if away.was_unregistered else "")


def gaps_in(brokers: ClusterBrokers, cluster: str | None = None) -> list[Gap]:
    """Return the sets, of a cluster or of all, whose masters cannot be asked.

    No broker at all is a gap too: nobody is there to say what there is.
    """
    if not brokers.broker_sets and not brokers.away:
        return [_NOBODY]
    away = [Gap(each.cluster, each.broker_name, away_sentence(each)) for each in brokers.away.values()]
    headless = [
        Gap(each.cluster, each.broker_name, "without a master")
        for each in brokers.broker_sets.values()
        if each.master_address is None
    ]
    return sorted(each for each in away + headless if cluster in (None, each.cluster))


def gap_names(gaps: Collection[Gap]) -> str:
    """Return the sets with their reasons; of very many only the first."""
    return first_of(map(str, gaps), "; ")


def check_gaps(gaps: Collection[Gap], what: str = "") -> None:
    """Raise PartlyDone if sets could not be asked; `what` is what may be missing of them."""
    if gaps:
        raise PartlyDone(gap_names(gaps) + (f": {what}" if what else ""))


def not_found(what: str, name: str, names: Iterable[str], gaps: Collection[Gap]) -> UnknownName:
    """Return the failure for a topic or group that nobody shows: where a set cannot be asked, it may have it."""
    if gaps:
        return NotShownNow(f"no broker that answers has {what} {name}; others may have it: {gap_names(gaps)}")
    return UnknownName(unknown_sentence(what, name, names))


def places(brokers: ClusterBrokers) -> list[BrokerPlace]:
    return sorted(each for broker_set in brokers.broker_sets.values() for each in _members(broker_set))


def set_of(brokers: ClusterBrokers, broker_name: str) -> RoutedBrokerSet:
    """Return a broker set by its name; raises UnknownName, and NotReachable for one that is away."""
    found = brokers.broker_sets.get(broker_name)
    if found is None:
        _check_not_away(brokers, broker_name)
        raise UnknownName(unknown_sentence("broker set", broker_name, brokers.broker_sets))
    return found


def members_at(brokers: ClusterBrokers, place: str) -> list[BrokerPlace]:
    """Return the brokers that a broker name or an address means; raises as `set_of`."""
    found = [each for each in places(brokers) if place in (each.broker_name, each.address)]
    if found:
        return found
    if is_address(place):
        # A broker that no NameServer lists: it may be the very reason to look at it.
        return [BrokerPlace("", "", MASTER_ID, place)]
    _check_not_away(brokers, place)
    raise UnknownName(unknown_sentence("broker set", place, brokers.broker_sets))


def members_of_cluster(brokers: ClusterBrokers, cluster: str) -> list[BrokerPlace]:
    """Return the brokers of a cluster; raises UnknownName."""
    check_cluster(brokers, cluster)
    return [each for each in places(brokers) if each.cluster == cluster]


def check_cluster(brokers: ClusterBrokers, cluster: str) -> None:
    """Raise UnknownName for a cluster that no broker is of, nor a set that is away."""
    if cluster not in brokers.clusters and all(each.cluster != cluster for each in brokers.away.values()):
        raise UnknownName(unknown_sentence("cluster", cluster, brokers.clusters))


def masters(found: list[BrokerPlace]) -> list[BrokerPlace]:
    return [each for each in found if each.broker_id == MASTER_ID]


def chosen_masters(
    brokers: ClusterBrokers, cluster: str | None, broker: str | None
) -> tuple[list[BrokerPlace], list[Gap]]:
    """Return the masters of a cluster with the sets that have none, or those of one broker; raises CommandFailed."""
    if (cluster is None) == (broker is None):
        raise WrongUse("give either --cluster or --broker")
    found = masters(members_of_cluster(brokers, cluster) if cluster else members_at(brokers, broker or ""))
    gaps = gaps_in(brokers, cluster) if cluster else []
    if not found:
        why = gap_names(gaps) or "only masters change topics and groups"
        raise NotReachable(f"{cluster or broker} has no master now: {why}")
    return found, gaps


def not_reached(gaps: Collection[Gap]) -> str:
    """Return what the question before a change says of sets that do not get it."""
    return f" Not reached: {gap_names(gaps)}." if gaps else ""


def _since(away: AwaySet) -> float:
    return float("inf") if away.away_since_unix_ms is None else away.away_since_unix_ms


def _check_not_away(brokers: ClusterBrokers, broker_name: str) -> None:
    if (away := brokers.away.get(broker_name)) is not None:
        raise NotReachable(f"{broker_name} is {away_sentence(away)}")


def _members(broker_set: RoutedBrokerSet) -> Iterator[BrokerPlace]:
    for broker_id, address in broker_set.addresses.items():
        yield BrokerPlace(broker_set.cluster, broker_set.broker_name, broker_id, address)


def queue_ids(broker_name: str, queue_nums: int) -> range:
    """Return the ids of a topic's queues on a broker set; raises CommandFailed for more than QUEUES_MAX."""
    if queue_nums > QUEUES_MAX:
        raise CommandFailed(f"{broker_name}: the topic is reported with {queue_nums} queues, more than {QUEUES_MAX}")
    return range(queue_nums)
