"""Which brokers a name means: of a broker set, of a cluster, or an address. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from remoting.admin.routes import ClusterBrokers, RoutedBrokerSet
from remoting.protocol.addresses import is_address
from remoting.protocol.shapes.route import MASTER_ID
from rmq.failures import UnknownName
from rmq.site.nearest import unknown_sentence


class BrokerPlace(NamedTuple):
    """One broker, as a NameServer lists it."""

    cluster: str
    broker_name: str
    #: 0 of a master.
    broker_id: int
    address: str


def places(brokers: ClusterBrokers) -> list[BrokerPlace]:
    """Return all brokers in the order of clusters, names and ids."""
    return sorted(each for broker_set in brokers.broker_sets.values() for each in _members(broker_set))


def set_of(brokers: ClusterBrokers, broker_name: str) -> RoutedBrokerSet:
    """Return a broker set by its name; raises UnknownName."""
    found = brokers.broker_sets.get(broker_name)
    if found is None:
        raise UnknownName(unknown_sentence("broker set", broker_name, brokers.broker_sets))
    return found


def members_at(brokers: ClusterBrokers, place: str) -> list[BrokerPlace]:
    """Return the brokers that a broker name or an address means; raises UnknownName."""
    found = [each for each in places(brokers) if place in (each.broker_name, each.address)]
    if found:
        return found
    if is_address(place):
        # A broker that no NameServer lists: it may be the very reason to look at it.
        return [BrokerPlace("", "", MASTER_ID, place)]
    raise UnknownName(unknown_sentence("broker set", place, brokers.broker_sets))


def members_of_cluster(brokers: ClusterBrokers, cluster: str) -> list[BrokerPlace]:
    """Return the brokers of a cluster; raises UnknownName."""
    check_cluster(brokers, cluster)
    return [each for each in places(brokers) if each.cluster == cluster]


def check_cluster(brokers: ClusterBrokers, cluster: str) -> None:
    """Raise UnknownName for a cluster that no broker is of."""
    if cluster not in brokers.clusters:
        raise UnknownName(unknown_sentence("cluster", cluster, brokers.clusters))


def masters(found: list[BrokerPlace]) -> list[BrokerPlace]:
    """Return those that are masters, or act for them."""
    return [each for each in found if each.broker_id == MASTER_ID]


def _members(broker_set: RoutedBrokerSet) -> Iterator[BrokerPlace]:
    for broker_id, address in broker_set.addresses.items():
        yield BrokerPlace(broker_set.cluster, broker_set.broker_name, broker_id, address)
