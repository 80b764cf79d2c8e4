"""Whether the SyncStateSet may be what the master reports (docs/protocol/controller.md 1.8)."""

from collections.abc import Collection

from msgspec import Struct

from controller.refusals import (
    NotTheMaster,
    ReplicasInvalid,
    ReplicasNotAlive,
    StaleMasterEpoch,
    StaleSyncStateSetEpoch,
    SyncStateSetRefused,
)
from controller.sets.broker_set import BrokerSet
from controller.sets.events import SyncStateSetAltered
from controller.sets.stored_set import SetDecision, StoredSet


class WantedSyncStateSet(Struct, frozen=True, kw_only=True):
    """What a master reports."""

    broker_name: str
    master: int
    master_epoch: int
    members: frozenset[int]
    #: The epoch of the set that it was made from.
    sync_state_set_epoch: int


def decide_alteration(entry: StoredSet, wanted: WantedSyncStateSet, alive: Collection[int]) -> SetDecision[None]:
    """Decide whether the SyncStateSet becomes what a master reports."""
    if entry.broker_set is None:
        raise SyncStateSetRefused(f"there is no set {wanted.broker_name}")
    return SetDecision(reply=None, events=(alter(entry.broker_set, wanted, alive),))


def alter(broker_set: BrokerSet, wanted: WantedSyncStateSet, alive: Collection[int]) -> SyncStateSetAltered:
    """Return the change; raises the refusal of the first check that fails, in the order of the original."""
    name = broker_set.broker_name
    if wanted.members == broker_set.sync_state_set:
        raise SyncStateSetRefused(f"{name}: the SyncStateSet is {sorted(wanted.members)} already")
    if broker_set.master is None or wanted.master != broker_set.master:
        raise NotTheMaster(name, sent=wanted.master, current=broker_set.master)
    if wanted.master_epoch != broker_set.master_epoch:
        raise StaleMasterEpoch(name, sent=wanted.master_epoch, current=broker_set.master_epoch)
    if wanted.sync_state_set_epoch != broker_set.sync_state_set_epoch:
        raise StaleSyncStateSetEpoch(name, sent=wanted.sync_state_set_epoch, current=broker_set.sync_state_set_epoch)
    if non_members := sorted(wanted.members - broker_set.replicas.keys()):
        raise ReplicasInvalid(name, non_members, current=sorted(broker_set.replicas))
    if silent := sorted(wanted.members.difference(alive)):
        raise ReplicasNotAlive(name, silent)
    if broker_set.master not in wanted.members:
        raise SyncStateSetRefused(f"{name}: the SyncStateSet {sorted(wanted.members)} lacks its master")
    return SyncStateSetAltered(wanted.members)
