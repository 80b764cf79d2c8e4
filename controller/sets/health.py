"""What operators see of a set at a glance: pure readings of sets and live brokers."""

from collections.abc import Collection
from enum import StrEnum

from controller.sets.broker_set import BrokerSet


class SetHealth(StrEnum):
    """How a set is; the values label metrics."""

    #: A living master, and every broker of the set in sync.
    HEALTHY = "healthy"
    UNDER_REPLICATED = "under_replicated"
    #: No master, or a failed one.
    NO_MASTER = "no_master"


def health_of(broker_set: BrokerSet, alive: Collection[int]) -> SetHealth:
    """Return how a set is; `alive` are the brokers that are thought to live."""
    if broker_set.master is None or broker_set.master not in alive:
        return SetHealth.NO_MASTER
    if broker_set.sync_state_set != broker_set.replicas.keys() or not broker_set.replicas.keys() <= set(alive):
        return SetHealth.UNDER_REPLICATED
    return SetHealth.HEALTHY
