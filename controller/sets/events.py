"""What can happen to a broker set: plain facts, decided in `decisions/`, applied in `broker_set.py`, then stored."""

from collections.abc import Mapping

import msgspec


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
