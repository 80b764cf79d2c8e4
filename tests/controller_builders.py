"""Small valid examples of what a controller knows: a set of three, 1 leads, 1 and 2 are in sync."""

from controller.decisions.cluster_view import ClusterView
from controller.failure_detection.heartbeats import LastHeartbeat
from controller.sets.broker_set import BrokerSet, Replica
from controller.sets.stored_set import StoredSet
from controller.wire.handlers import ReplicaInfoCache
from store.store import SetStore, VersionedEntry

SET = "broker-a"
CLUSTER = "DefaultCluster"


def an_address(broker_id):
    return f"10.0.0.{broker_id}:30911"


def replicas(*broker_ids):
    return {i: Replica(an_address(i), f"{an_address(i)};{i}") for i in broker_ids}


def a_set(**values):
    defaults = {
        "broker_name": SET,
        "cluster": CLUSTER,
        "replicas": replicas(1, 2, 3),
        "next_broker_id": 4,
        "master": 1,
        "master_epoch": 5,
        "sync_state_set": frozenset({1, 2}),
        "sync_state_set_epoch": 7,
        "is_elected": True,
    }
    return BrokerSet(**(defaults | values))


def stored_sets(*broker_sets):
    """Return a store that holds these broker sets."""
    sets = SetStore(None, ReplicaInfoCache())
    for revision, each in enumerate(broker_sets, 1):
        sets.entry_changed(each.broker_name, VersionedEntry(StoredSet(broker_set=each), revision))
    return sets


def last_heartbeat(*, last_contact_ms=0, epoch=5, max_offset=1000, priority=2**31 - 1, **values):
    return LastHeartbeat(
        last_contact_ms=last_contact_ms, epoch=epoch, max_offset=max_offset, priority=priority, **values
    )


def view(alive):
    """What a controller knows that suspects nobody."""
    return ClusterView(trusted=alive, heartbeats=alive)
