"""One broker set as the controller keeps it, and the only place where its epochs move.

Answers to `BrokerReplicaInfo` and `SyncStateInfo` (docs/protocol/controller.md 2.1, 2.2). Immutable: an event makes
another, as `decisions/` decides.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace


class BrokerIdApplied(msgspec.Struct, frozen=True):
    """A broker took an id; the set begins with the first."""

    broker_id: int
    address: str
    #: What the broker sends again if the answer did not reach it; blank of one that comes back with its id.
    check_code: str
    #: Where the request came from; blank if unknown, as of the next one.
    host: str = ""


class BrokersRegistered(msgspec.Struct, frozen=True):
    """Brokers that applied for their ids have registered: they keep their places."""

    broker_ids: frozenset[int]


class PlacesFreed(msgspec.Struct, frozen=True):
    """Ids whose brokers never registered gave their places to others; they get in again when they register."""

    broker_ids: frozenset[int]


class ReplicaAdopted(msgspec.Struct, frozen=True):
    """A broker came with an id that is not known here, and keeps it."""

    broker_id: int
    address: str
    host: str = ""


class RebuildingBegun(msgspec.Struct, frozen=True):
    """A set without a first master turned out to be one whose state was lost: a broker of it has an id already."""


class BrokerAddressChanged(msgspec.Struct, frozen=True):
    """A broker came back at another address."""

    broker_id: int
    address: str


class MasterElected(msgspec.Struct, frozen=True):
    """A broker became master; the SyncStateSet is it alone."""

    broker_id: int


class EpochStarted(msgspec.Struct, frozen=True):
    """The elected begins its epoch where its log ends: what other logs have beyond that does not count any more."""

    #: The last epoch in its log until then, and the end of the log in bytes; -1 where they are not known.
    log_epoch: int
    max_offset: int


class LogEndsKnown(msgspec.Struct, frozen=True):
    """Brokers are known to have had so much of the log of their set: bytes, by broker id."""

    log_ends: Mapping[int, int]


class EpochWritten(msgspec.Struct, frozen=True):
    """The master writes under another epoch than was thought: the list of its log took no later one, or took one."""

    log_epoch: int


class MasterLost(msgspec.Struct, frozen=True):
    """There is no master; who was in sync is still known."""


class SyncStateSetAltered(msgspec.Struct, frozen=True):
    """The master reported who is in sync with it."""

    members: frozenset[int]


class ReplicasRemoved(msgspec.Struct, frozen=True):
    """An operator took brokers out of the set for good."""

    broker_ids: frozenset[int]


class MasterEpochRaised(msgspec.Struct, frozen=True):
    """Brokers know a higher master epoch than the store, after a restored backup or a lost store."""

    master_epoch: int


Event = (
    BrokerIdApplied
    | BrokersRegistered
    | PlacesFreed
    | ReplicaAdopted
    | RebuildingBegun
    | BrokerAddressChanged
    | MasterElected
    | EpochStarted
    | LogEndsKnown
    | EpochWritten
    | MasterLost
    | SyncStateSetAltered
    | ReplicasRemoved
    | MasterEpochRaised
)


#: The first broker id that a controller hands out; 0 is what a master calls itself elsewhere.
FIRST_BROKER_ID: Final = 1
#: The highest master epoch: brokers read it as a Java int.
MASTER_EPOCH_MAX: Final = 2**31 - 1
#: No epoch is raised above it, whatever brokers claim: the rest is for elections.
RAISED_EPOCH_MAX: Final = 2**31 - 2**20
#: By how much the epoch of a set is raised above all that its brokers claim, where the store has lost something: a
#: broker without contact yet has seen fewer elections since. The range suffices for 21,464 lost stores.
RECOVERY_MARGIN: Final = 100_000
#: Most ranges of ids without a registered broker that a set remembers, the latest: each takes a broker that registers.
APPLIED_RANGES_MAX: Final = 1_000


class Replica(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One member of a set, living or not."""

    #: `host:port` for other brokers and for clients.
    address: str
    #: What the broker sent when it applied for its id; blank of one that was adopted with an id that it had.
    check_code: str
    #: The host whose request took its place; blank if unknown.
    host: str = ""
    #: How many bytes of the log of its set it is known to have had; 0 where that is not known. A process that reports
    #: less has lost messages: its disk, the end of its log, or all but an older copy.
    log_end: int = 0

    @property
    def is_adopted(self) -> bool:
        """Return whether it was taken in with an id that it had, of another controller or from before."""
        return not self.check_code


class Floor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Below what a set of this name must never begin again, once one was cleaned."""

    master_epoch: int = 0
    next_broker_id: int = FIRST_BROKER_ID


class EpochStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the last epoch with messages begins in the log of a set; 0 where that is not known."""

    epoch: int = 0
    #: In bytes.
    offset: int = 0


class BrokerSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The members of a set, who leads it, and who is in sync."""

    broker_name: str
    cluster: str
    #: By broker id.
    replicas: Mapping[int, Replica] = {}
    next_broker_id: int = FIRST_BROKER_ID
    #: The broker id of the master.
    master: int | None = None
    #: Moves with every change of the master, also to none; brokers follow the highest they have seen.
    master_epoch: int = 0
    sync_state_set: frozenset[int] = frozenset()
    sync_state_set_epoch: int = 0
    #: Ids that were applied for, and with which no broker is known to have registered, as ranges (first, last). Their
    #: brokers get in whenever they come; the latest are members already, though they hold no place.
    applied_ids: tuple[tuple[int, int], ...] = ()
    #: There was a master once. Before, nobody has messages that could be lost.
    is_elected: bool = False
    #: It is put together again from brokers that have ids already, and who of them is in sync is not known: all count
    #: as such until the first is elected.
    is_rebuilding: bool = False
    epoch_start: EpochStart = EpochStart()

    @property
    def master_address(self) -> str | None:
        return None if self.master is None else self.replicas[self.master].address

    @property
    def floor(self) -> Floor:
        return Floor(master_epoch=self.master_epoch, next_broker_id=self.next_broker_id)

    @property
    def applicants(self) -> frozenset[int]:
        """The members that are not known to have registered."""
        return frozenset(filter(self.has_applied, self.replicas)) if self.applied_ids else frozenset()

    def has_applied(self, broker_id: int) -> bool:
        """Return whether an id was applied for, and no broker is known to have registered with it."""
        index = bisect_left(self.applied_ids, (broker_id + 1, 0))
        return index > 0 and broker_id <= self.applied_ids[index - 1][1]

    def apply(self, event: Event) -> "BrokerSet":  # noqa: C901  # one case for each event
        match event:
            case BrokerIdApplied(broker_id, address, check_code, host):
                applied = self if broker_id < self.next_broker_id else self.with_applied_id(broker_id)
                return applied.with_replica(broker_id, Replica(address, check_code, host))
            case BrokersRegistered(broker_ids):
                return self.with_registered(broker_ids)
            case PlacesFreed(broker_ids):
                return self.without(broker_ids)
            case ReplicaAdopted(broker_id, address, host):
                adopted = self.with_replica(broker_id, Replica(address, "", host))
                adopted = replace(adopted, next_broker_id=max(self.next_broker_id, broker_id + 1))
                members = {*self.sync_state_set, broker_id}
                return adopted.with_sync_state_set(members) if self.is_rebuilding else adopted
            case RebuildingBegun():
                return self.as_rebuilding().with_sync_state_set(self.replicas)
            case BrokerAddressChanged(broker_id, address):
                return self.with_replica(broker_id, replace(self.replicas[broker_id], address=address))
            case MasterElected(broker_id):
                led = self.with_master(broker_id).with_sync_state_set({broker_id})
                return replace(led, is_elected=True, is_rebuilding=False)
            case EpochStarted(log_epoch, max_offset):
                return self.with_epoch_start(log_epoch, max_offset)
            case LogEndsKnown(log_ends):
                return self.with_log_ends(log_ends)
            case EpochWritten(log_epoch):
                return replace(self, epoch_start=EpochStart(log_epoch, self.epoch_start.offset))
            case MasterLost():
                return self.with_master(None)
            case SyncStateSetAltered(members):
                return self.with_sync_state_set(members)
            case ReplicasRemoved(broker_ids):
                return self.with_registered(broker_ids).without(broker_ids)
            case MasterEpochRaised(master_epoch):
                return replace(self, master_epoch=max(self.master_epoch, master_epoch))

    def as_rebuilding(self) -> "BrokerSet":
        return replace(self, is_elected=True, is_rebuilding=True)

    def with_applied_id(self, broker_id: int) -> "BrokerSet":
        former = self.applied_ids
        if former and former[-1][1] == broker_id - 1:
            ranges = (*former[:-1], (former[-1][0], broker_id))
        else:
            ranges = (*former, (broker_id, broker_id))
        return replace(self, next_broker_id=broker_id + 1, applied_ids=ranges[-APPLIED_RANGES_MAX:])

    def with_registered(self, broker_ids: Collection[int]) -> "BrokerSet":
        if not self.applied_ids:
            return self
        left = [part for first, last in self.applied_ids for part in _cut(first, last, broker_ids)]
        return replace(self, applied_ids=tuple(left[-APPLIED_RANGES_MAX:]))

    def with_replica(self, broker_id: int, replica: Replica) -> "BrokerSet":
        return replace(self, replicas={**self.replicas, broker_id: replica})

    def with_log_ends(self, log_ends: Mapping[int, int]) -> "BrokerSet":
        moved = {i: replace(each, log_end=log_ends[i]) for i, each in self.replicas.items() if i in log_ends}
        return replace(self, replicas={**self.replicas, **moved})

    def differs_only_in_log_ends(self, other: "BrokerSet") -> bool:
        # Nearly all changes move one of these.
        if (self.next_broker_id, self.applied_ids, self.master_epoch) != (
            other.next_broker_id,
            other.applied_ids,
            other.master_epoch,
        ):
            return False
        known = {i: each.log_end for i, each in other.replicas.items()}
        return replace(self.with_log_ends(known), epoch_start=other.epoch_start) == other

    def with_epoch_start(self, log_epoch: int, max_offset: int) -> "BrokerSet":
        """Return the set whose master begins its epoch at the end of its log; nothing beyond it counts any more.

        A broker begins no epoch in its log where the one before it has no messages (docs/protocol/controller.md 4.6).
        """
        end = max(max_offset, 0)
        is_begun = log_epoch == self.epoch_start.epoch and end <= self.epoch_start.offset
        start = self.epoch_start if is_begun else EpochStart(self.master_epoch, end)
        log_ends = {i: end if i == self.master else min(each.log_end, end) for i, each in self.replicas.items()}
        return replace(self.with_log_ends(log_ends), epoch_start=start if max_offset >= 0 else EpochStart())

    def length_of(self, log_epoch: int, max_offset: int) -> int:
        """Return how many bytes of the log of this set are in a log with this last epoch and end.

        Logs of the present epoch are beginnings of one another; those that end in an earlier one have parted from it
        where it begins, at the latest.
        """
        start = self.epoch_start
        return max_offset if log_epoch >= start.epoch else min(max_offset, start.offset)

    def with_master(self, broker_id: int | None) -> "BrokerSet":
        """Return the set under another master, or none: a new master epoch.

        Nobody is elected at the highest one any more, so that only the loss of a master does not move it.
        """
        return replace(self, master=broker_id, master_epoch=min(self.master_epoch + 1, MASTER_EPOCH_MAX))

    def with_sync_state_set(self, members: Iterable[int]) -> "BrokerSet":
        in_sync = frozenset(members)
        registered = self.with_registered(in_sync)
        return replace(registered, sync_state_set=in_sync, sync_state_set_epoch=self.sync_state_set_epoch + 1)

    def without(self, broker_ids: frozenset[int]) -> "BrokerSet":
        left = replace(self, replicas={i: each for i, each in self.replicas.items() if i not in broker_ids})
        if self.master in broker_ids:
            left = left.with_master(None)
        if self.sync_state_set & broker_ids:
            left = left.with_sync_state_set(self.sync_state_set - broker_ids)
        return left


def _cut(first: int, last: int, broker_ids: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield what is left of a range of ids without some."""
    for broker_id in sorted(i for i in broker_ids if first <= i <= last):
        if first < broker_id:
            yield first, broker_id - 1
        first = broker_id + 1
    if first <= last:
        yield first, last


class SetHealth(StrEnum):
    """How a set is; the values label metrics."""

    #: A living master, and every broker of the set in sync.
    HEALTHY = "healthy"
    UNDER_REPLICATED = "under_replicated"
    #: No master, or a failed one.
    NO_MASTER = "no_master"


def health_of(broker_set: BrokerSet, alive: Collection[int]) -> SetHealth:
    if broker_set.master is None or broker_set.master not in alive:
        return SetHealth.NO_MASTER
    if broker_set.sync_state_set != broker_set.replicas.keys() or not broker_set.replicas.keys() <= set(alive):
        return SetHealth.UNDER_REPLICATED
    return SetHealth.HEALTHY
