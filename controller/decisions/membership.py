"""Who belongs to a set and is in sync: ids, addresses, cleaning, the SyncStateSet.

Source: docs/protocol/controller.md 1.4, 1.5, 1.8, 1.10, 6.2 to 6.5.
"""

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from controller.refusals import (
    BrokerIdInvalid,
    BrokerUnknown,
    CleaningRefused,
    ClusterDiffers,
    EpochsUsedUp,
    LimitReached,
    NotTheMaster,
    ReplicasInvalid,
    ReplicasNotAlive,
    SetUnknown,
    StaleMasterEpoch,
    StaleSyncStateSetEpoch,
    SyncStateSetRefused,
)
from controller.sets.broker_set import (
    FIRST_BROKER_ID,
    RAISED_EPOCH_MAX,
    RECOVERY_MARGIN,
    BrokerAddressChanged,
    BrokerIdApplied,
    BrokerSet,
    BrokersRegistered,
    Event,
    Floor,
    MasterEpochRaised,
    MasterLost,
    PlacesFreed,
    RebuildingBegun,
    ReplicaAdopted,
    ReplicasRemoved,
    SyncStateSetAltered,
)
from controller.sets.stored_set import SetDecision, StoredSet

#: Most brokers of a set that have registered, failed ones too; real sets have some.
REPLICAS_MAX: Final = 1_000
#: Most of them whose places were taken from one host.
REPLICAS_OF_HOST_MAX: Final = 500
#: Most members of a set that have applied for their ids and not registered: the oldest make room for new ones.
APPLICANTS_MAX: Final = 32
#: No controller has handed out a larger one; the next id must stay a number that brokers can read.
ADOPTED_ID_MAX: Final = 2**31 - 1
#: No broker is adopted whose set has seen a higher master epoch: what is left is for elections.
ADOPTED_EPOCH_MAX: Final = RAISED_EPOCH_MAX - RECOVERY_MARGIN


class Applicant(Struct, frozen=True, kw_only=True):
    cluster: str
    broker_name: str
    broker_id: int
    address: str
    check_code: str
    #: Where the request comes from; blank if unknown.
    host: str = ""


def new_set(broker_name: str, cluster: str, floor: Floor) -> BrokerSet:
    """Return a set without members, above whatever a set of that name has had."""
    return BrokerSet(
        broker_name=broker_name, cluster=cluster, master_epoch=floor.master_epoch, next_broker_id=floor.next_broker_id
    )


def decide_id(entry: StoredSet, applicant: Applicant) -> SetDecision[None]:
    """Decide whether a broker gets the id it applies for; the first id begins a set."""
    begins = entry.broker_set or new_set(applicant.broker_name, applicant.cluster, entry.floor)
    applied = apply_id(begins, applicant)
    if applied is None:
        return SetDecision(reply=None, begins=begins)
    return SetDecision(reply=None, events=(*make_room(begins, applicant.host), applied), begins=begins)


def apply_id(broker_set: BrokerSet, applicant: Applicant) -> BrokerIdApplied | None:
    """Return that a broker takes an id; None if it has it already, because it applies again with the same check code.

    Only the next id can be taken, so that no number is handed out twice; Java takes any that is free.
    """
    if applicant.cluster != broker_set.cluster:
        raise ClusterDiffers(broker_set.broker_name, sent=applicant.cluster, stored=broker_set.cluster)
    present = broker_set.replicas.get(applicant.broker_id)
    if present is not None and present.check_code == applicant.check_code:
        return None
    if present is not None or applicant.broker_id != broker_set.next_broker_id:
        raise BrokerIdInvalid(
            broker_set.broker_name, applied=applicant.broker_id, next_broker_id=broker_set.next_broker_id
        )
    return BrokerIdApplied(applicant.broker_id, applicant.address, applicant.check_code, applicant.host)


def make_room(broker_set: BrokerSet, host: str) -> list[Event]:
    """Return what has to happen before a broker from a host takes a place; raises LimitReached if none is left.

    Anybody can apply for ids without end, so only brokers that have registered hold places. A number is given out once
    all the same, and its broker gets in whenever it comes.
    """
    waiting = sorted(broker_set.applicants)
    placed = broker_set.replicas.keys() - waiting
    if len(placed) >= REPLICAS_MAX:
        raise LimitReached(
            f"{broker_set.broker_name} has {len(placed)} brokers, {REPLICAS_MAX} are allowed; clean those that are gone"
        )
    of_host = sum(broker_set.replicas[i].host == host for i in placed) if host else 0
    if of_host >= REPLICAS_OF_HOST_MAX:
        raise LimitReached(
            f"{broker_set.broker_name} has {of_host} brokers that came from {host}, {REPLICAS_OF_HOST_MAX} are "
            "allowed; clean those that are gone"
        )
    too_many = max(0, len(waiting) + 1 - APPLICANTS_MAX)
    return [PlacesFreed(frozenset(waiting[:too_many]))] if too_many else []


class Registrant(Struct, frozen=True, kw_only=True):
    """A broker that has started, or was answered to register."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    #: Where the request comes from; blank if unknown.
    host: str = ""
    #: It is the process that sent the last heartbeats.
    is_same_process: bool = False


def decide_registration(entry: StoredSet, registrant: Registrant) -> SetDecision[None]:
    """Decide what follows from a broker's start; raises SetUnknown, BrokerUnknown or LimitReached.

    A broker that applied for its id keeps its place from now on. One that comes after its place went to another is a
    member again, out of sync.
    """
    broker_set = entry.broker_set
    if broker_set is None:
        raise SetUnknown(registrant.broker_name)
    check_cluster(broker_set, registrant.cluster)
    broker_id, address, host = registrant.broker_id, registrant.address, registrant.host
    has_applied = broker_set.has_applied(broker_id)
    if has_applied and broker_id not in broker_set.replicas:
        events = [*make_room(broker_set, host), BrokerIdApplied(broker_id, address, "", host)]
    else:
        events = register(broker_set, broker_id, address, is_same_process=registrant.is_same_process)
    if has_applied:
        events.append(BrokersRegistered(frozenset({broker_id})))
    return SetDecision(reply=None, events=tuple(events))


def decide_adoption(entry: StoredSet, registrant: Registrant, epoch: int) -> SetDecision[None]:
    """As `decide_registration`, but take in a broker with an unknown id; `epoch` is the highest that its set has seen.

    After a lost store brokers keep their ids and cannot apply again. Without a master at a higher epoch than theirs
    they would not request one (docs/protocol/controller.md 4.4); and one that comes later may have seen a higher epoch
    than the others. New brokers may have come first, with empty logs: a set that they have begun, and that never had a
    master, is one that was lost as well. Raises EpochsUsedUp.
    """
    begins = entry.broker_set
    if begins is None:
        begins = new_set(registrant.broker_name, registrant.cluster, entry.floor).as_rebuilding()
    elif registrant.broker_id in begins.replicas or begins.has_applied(registrant.broker_id):
        return decide_registration(entry, registrant)
    if not FIRST_BROKER_ID <= registrant.broker_id <= ADOPTED_ID_MAX:
        raise BrokerUnknown(registrant.broker_name, registrant.broker_id)
    check_cluster(begins, registrant.cluster)
    events = make_room(begins, registrant.host)
    if not begins.is_elected:
        events.append(RebuildingBegun())
    events.append(ReplicaAdopted(registrant.broker_id, registrant.address, registrant.host))
    if (begins.is_rebuilding or not begins.is_elected) and epoch >= begins.master_epoch:
        if epoch > ADOPTED_EPOCH_MAX:
            raise EpochsUsedUp(registrant.broker_name, epoch)
        events += MasterEpochRaised(epoch + RECOVERY_MARGIN), MasterLost()
    return SetDecision(reply=None, events=tuple(events), begins=begins)


def check_cluster(broker_set: BrokerSet, cluster: str) -> None:
    """Raise SetUnknown if a request means a set of the same name in another cluster; a blank one means any."""
    if cluster and cluster != broker_set.cluster:
        raise SetUnknown(broker_set.broker_name, sent=cluster, stored=broker_set.cluster)


def register(broker_set: BrokerSet, broker_id: int, address: str, *, is_same_process: bool = False) -> list[Event]:
    """Return what changes because a broker has started; `is_same_process` if it only registers once more.

    The recorded master that starts is another process than the one that was elected: with its old epoch its followers
    could never follow it again, so there is no master until one is elected with a new epoch.
    """
    replica = broker_set.replicas.get(broker_id)
    if replica is None:
        raise BrokerUnknown(broker_set.broker_name, broker_id)
    events: list[Event] = []
    if replica.address != address:
        events.append(BrokerAddressChanged(broker_id, address))
    if broker_set.master == broker_id and not is_same_process:
        events.append(MasterLost())
    return events


def never_led(entry: StoredSet) -> bool:
    """Return whether a set never had a master, nor one of its name before: nobody has messages, or an epoch."""
    broker_set = entry.broker_set
    if broker_set is None or broker_set.is_elected or broker_set.is_rebuilding:
        return False
    return broker_set.master_epoch == 0 and entry.floor == Floor()


def decide_expiry(entry: StoredSet, alive: Collection[int]) -> SetDecision[None]:
    """Decide whether a set is forgotten, because it never had a master and none of its brokers lives."""
    members = entry.broker_set.replicas if entry.broker_set is not None else {}
    return SetDecision(reply=None, expires=never_led(entry) and members.keys().isdisjoint(alive))


class Cleaning(Struct, frozen=True, kw_only=True):
    """What an operator wants to be rid of."""

    broker_name: str
    #: Blank for any.
    cluster: str = ""
    #: None: the whole set.
    broker_ids: frozenset[int] | None
    #: Also those that are alive, or lead.
    even_living: bool


def decide_cleaning(
    entry: StoredSet, wanted: Cleaning, alive: Collection[int], awaited: Collection[int] = ()
) -> SetDecision[None]:
    """Decide whether brokers, or a whole set, are forgotten; raises CleaningRefused.

    An awaited broker made no contact since the controller started, and may live all the same.
    """
    broker_set = entry.broker_set
    if broker_set is None:
        raise CleaningRefused(f"there is no set {wanted.broker_name}")
    if wanted.cluster and wanted.cluster != broker_set.cluster:
        raise CleaningRefused(
            f"{wanted.broker_name} is a set of the cluster {broker_set.cluster}, the request says {wanted.cluster}"
        )
    removed = clean(broker_set, wanted, alive, awaited)
    if removed is None:
        return SetDecision(reply=None, ends=True)
    return SetDecision(reply=None, events=(removed,))


def clean(  # one branch for each refusal
    broker_set: BrokerSet, wanted: Cleaning, alive: Collection[int], awaited: Collection[int] = ()
) -> ReplicasRemoved | None:
    """Return who is taken out; None for the whole set. Raises CleaningRefused."""
    name, ids = broker_set.broker_name, wanted.broker_ids
    if ids is None:
        if broker_set.master is not None and not wanted.even_living:
            raise CleaningRefused(
                f"{name} has the master {broker_set.master}; name the ids, or clean living brokers too"
            )
        return None
    if not ids:
        raise CleaningRefused(f"{name}: the list of ids is empty; leave it out to clean the whole set")
    if non_members := sorted(ids - broker_set.replicas.keys()):
        raise CleaningRefused(f"{name} has no brokers {non_members}; it has {sorted(broker_set.replicas)}")
    if not wanted.even_living and (living := sorted(ids.intersection(alive))):
        raise CleaningRefused(f"{name}: the brokers {living} are alive")
    if not wanted.even_living and (may_live := sorted(ids.intersection(awaited))):
        raise CleaningRefused(
            f"{name}: the brokers {may_live} may be alive: this controller has not run long enough to know"
        )
    if ids == broker_set.replicas.keys():
        return None
    if broker_set.sync_state_set and broker_set.sync_state_set <= ids:
        raise CleaningRefused(
            f"{name}: only {sorted(broker_set.sync_state_set)} have all messages, and the others could never lead; "
            "clean the whole set, or elect another master first"
        )
    return ReplicasRemoved(ids)


class WantedSyncStateSet(Struct, frozen=True, kw_only=True):
    """What a master reports."""

    broker_name: str
    master: int
    master_epoch: int
    members: frozenset[int]
    #: The epoch of the set that it was made from.
    sync_state_set_epoch: int


def decide_alteration(entry: StoredSet, wanted: WantedSyncStateSet, alive: Collection[int]) -> SetDecision[None]:
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
