"""A broker set as it is followed, what can change about its master, and who is told.

`Following` itself follows nobody: a manager without `controllerHttpAddr` and `namesrvAddr` has it. `by_controllers.py`
and `by_name_servers.py` are its children.
"""

import asyncio
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from offsets.values import SetName
from remoting.clock import Clock
from serving.telemetry.events import Count, Counter, Event

#: More sets are not followed; an answer with more is refused.
SETS_MAX: Final = 20_000
#: After so long without an answer it is not known who is master: a leader answers within a wait of 1 s and 1.5 s.
FRESH_MS: Final = 2_500
#: A peer that stays unusable is named so often at most.
_NAMED_AGAIN_MS: Final = 60_000


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


class SetMember(NamedTuple):
    """One broker of a set."""

    broker_id: int
    address: str


class FollowedSet(NamedTuple):
    """A broker set as it is known at the moment."""

    set_name: SetName
    #: None if it has none at the moment.
    master: SetMaster | None
    #: The master too; by broker id.
    members: tuple[SetMember, ...] = ()
    #: Of its last election, or of the loss of its master; None where no controller elects.
    master_epoch: int | None = None
    #: Ids of the members in sync; None where no controller tells.
    sync_state_set: frozenset[int] | None = None
    #: Rises with each change of `sync_state_set`.
    sync_state_set_epoch: int | None = None
    #: When its master was elected, Unix ms by the controller; None where that is not known.
    elected_unix_ms: int | None = None

    def replicas(self) -> Iterator[SetMember]:
        """Yield the members that are not the master."""
        master = None if self.master is None else self.master.address
        return (member for member in self.members if member.address != master)


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
    """A change of the master of a set."""

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


MASTER_CHANGES: Final = Counter(
    "master_changes",
    "What happened to masters of broker sets.",
    ("kind",),
    known=tuple((kind.value,) for kind in MasterChangeKind),
)


class MasterChanged(Event, frozen=True, kw_only=True):
    """The master of a broker set changed.

    `found` the first time, `gained` after none, `moved` to another broker or epoch, `address_changed`, `restarted`,
    `lost`, or `removed` with its set.
    """

    broker: str
    kind: str
    old_addr: str | None
    addr: str | None
    epoch: int | None
    since_unix_ms: int

    def counted(self) -> tuple[Count, ...]:
        """Return what it counts."""
        return (Count(MASTER_CHANGES, (self.kind,)),)


class Following:
    """The masters of all broker sets, by somebody who knows; this one follows nobody and knows none."""

    #: Whom it follows, as `GET /v1/manager` names it: `controllers`, `name_servers` or `nobody`.
    source = "nobody"

    def __init__(self, clock: Clock, emit: Callable[[Event], None]) -> None:
        self._clock = clock
        self._emit = emit
        #: All sets by broker name.
        self.sets: Mapping[str, FollowedSet] = {}
        #: Called with every change, in their order, in the event loop; they must neither wait nor raise.
        self.listeners: list[Callable[[MasterChange], None]] = []
        #: When somebody has answered last, monotonic ms; None before.
        self.answered_ms: int | None = None
        #: When each unusable peer was named last, monotonic ms.
        self._named_ms: dict[str, int] = {}

    async def run(self) -> None:
        """Follow for ever."""
        await asyncio.Event().wait()

    def is_fresh(self) -> bool:
        """Return whether it is known who is master now."""
        return self.answered_ms is not None and self._clock.now_ms() - self.answered_ms <= FRESH_MS

    def is_master(self, master: SetMaster) -> bool:
        """Return whether a broker is still the master of its set, in the same epoch and at the same address.

        False while it is not known who is master.
        """
        known = self.sets.get(master.set_name.broker_name)
        return self.is_fresh() and known is not None and known.master == master

    def masters(self) -> Iterator[SetMaster]:
        """Yield the master of each set that has one."""
        return (followed.master for followed in self.sets.values() if followed.master is not None)

    def tell(self, changes: Iterable[MasterChange]) -> None:
        """Hand changes on to all listeners, and log them."""
        for change in changes:
            before, after = change.before, change.after
            self._emit(
                MasterChanged(
                    broker=change.set_name.broker_name,
                    kind=change.kind.value,
                    old_addr=None if before is None else before.address,
                    addr=None if after is None else after.address,
                    epoch=None if after is None else after.master_epoch,
                    since_unix_ms=change.since_unix_ms,
                )
            )
            for listener in self.listeners:
                listener(change)

    def _warn(self, peer: str, event: Event) -> None:
        """Tell an event about an unusable peer, unless one was told within the last minute."""
        now_ms = self._clock.now_ms()
        named_ms = self._named_ms.get(peer)
        if named_ms is None or now_ms - named_ms >= _NAMED_AGAIN_MS:
            self._named_ms[peer] = now_ms
            self._emit(event)
