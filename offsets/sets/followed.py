"""A broker set as it is followed, and what can change about its master. Pure."""

import enum
from collections.abc import Iterator
from typing import Final, NamedTuple

from offsets.values import SetName

#: More sets are not followed; an answer with more is refused.
SETS_MAX: Final = 20_000


class SetMaster(NamedTuple):
    """The master of a broker set, in one master epoch."""

    set_name: SetName
    #: Its id at the controller; 0 where NameServers show it.
    broker_id: int
    #: `host:port` for clients.
    address: str
    #: A later master has a greater one; None where no controller elects.
    master_epoch: int | None = None
    #: When its process has started, Unix ms by its own clock; None where a controller is followed.
    boot_unix_ms: int | None = None


class FollowedSet(NamedTuple):
    """A broker set as it is known at the moment."""

    set_name: SetName
    #: None if it has none at the moment.
    master: SetMaster | None
    #: Addresses of its brokers, the master too, in the order of their ids.
    members: tuple[str, ...] = ()
    #: Of its last election, or of the loss of its master; None where no controller elects.
    master_epoch: int | None = None
    #: Rises as members come and go; None where no controller tells.
    sync_state_set_epoch: int | None = None
    #: When its master was elected, Unix ms by the controller; None where that is not known.
    elected_unix_ms: int | None = None

    def replicas(self) -> Iterator[str]:
        master = None if self.master is None else self.master.address
        return (address for address in self.members if address != master)


class MasterChangeKind(enum.StrEnum):
    """What has happened to the master of a set; the values label metrics."""

    #: The set was not known, and has a master.
    FOUND = "found"
    #: The set was without a master, and has one.
    GAINED = "gained"
    #: Another broker is master, or the same one in a later master epoch.
    MOVED = "moved"
    #: The same broker, in the same epoch, is at another address.
    ADDRESS_CHANGED = "address_changed"
    #: The same broker has started again; only where its start is followed.
    RESTARTED = "restarted"
    #: The set has no master.
    LOST = "lost"
    #: The set is gone.
    REMOVED = "removed"


class MasterChange(NamedTuple):
    kind: MasterChangeKind
    set_name: SetName
    #: The last master that is known, also if the set was without one since; None if none is.
    before: SetMaster | None
    after: SetMaster | None
    #: When the master was elected, Unix ms; of other changes, and where that is not known, when it was noticed here.
    since_unix_ms: int


#: What begins with an election.
_ELECTED: Final = frozenset({MasterChangeKind.FOUND, MasterChangeKind.GAINED, MasterChangeKind.MOVED})


def change_of(known: FollowedSet | None, last: SetMaster | None, now: FollowedSet, unix_ms: int) -> MasterChange | None:
    """Return what has changed about the master of a set; None if nothing has.

    `known` is what was known of it, None if it was not; `last` is the last master that is known.
    """
    kind = _kind_of(known, now.master)
    if kind is None:
        return None
    elected_ms = now.elected_unix_ms if kind in _ELECTED else None
    return MasterChange(kind, now.set_name, last, now.master, unix_ms if elected_ms is None else elected_ms)


def _kind_of(known: FollowedSet | None, master: SetMaster | None) -> MasterChangeKind | None:
    former = known.master if known is not None else None
    if master is None:
        return MasterChangeKind.LOST if former is not None else None
    if former is None:
        return MasterChangeKind.FOUND if known is None else MasterChangeKind.GAINED
    if (former.broker_id, former.master_epoch) != (master.broker_id, master.master_epoch):
        return MasterChangeKind.MOVED
    if former.address != master.address:
        # Without epochs it may be another broker.
        return MasterChangeKind.MOVED if master.master_epoch is None else MasterChangeKind.ADDRESS_CHANGED
    if None not in (former.boot_unix_ms, master.boot_unix_ms) and former.boot_unix_ms != master.boot_unix_ms:
        return MasterChangeKind.RESTARTED
    return None
