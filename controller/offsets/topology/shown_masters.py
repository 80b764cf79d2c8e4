"""The masters of sets without a controller, by what NameServers show and what the brokers report. Pure.

No epoch tells here what is newer, and each NameServer may be behind: it shows a failed master for up to two minutes,
and after its own restart it shows nobody for up to 30 s. So brokers are queried themselves (28): who answers lives, and
the time of its start tells whether it has restarted. What nobody answers is unknown, and changes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from controller.offsets.topology.candidates import ShownCandidates
from controller.offsets.topology.values import (
    SETS_MAX,
    FollowedSet,
    MasterChange,
    MasterChangeKind,
    SetMaster,
    SetMember,
    change_of,
)
from remoting.admin.routes import RoutedBrokerSet
from remoting.protocol.addresses import is_address, is_name
from remoting.protocol.shapes.route import MASTER_ID

#: A set that nobody shows, and whose master does not answer, is removed after so long.
REMOVED_AFTER_MS: Final = 24 * 3_600_000

#: What one NameServer shows, by broker name.
ShownSets = Mapping[str, RoutedBrokerSet]
#: By the addresses of brokers that answered: when they started, Unix ms; None if they did not tell.
BootTimes = Mapping[str, int | None]


class ShownRound(NamedTuple):
    """What one round of queries has found."""

    #: What each NameServer shows that has answered.
    shown: Sequence[ShownSets]
    boots: BootTimes
    #: When it ended: monotonic, and Unix.
    now_ms: int
    unix_ms: int


class _Kept(NamedTuple):
    """A set that is followed."""

    known: FollowedSet
    last: SetMaster | None
    #: When it was shown, or its master has answered, last; monotonic ms.
    seen_ms: int


class ShownMasters:
    """All sets that NameServers have shown."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    @property
    def sets(self) -> Mapping[str, FollowedSet]:
        """All sets by broker name."""
        return {name: each.known for name, each in self._kept.items()}

    def is_master(self, master: SetMaster) -> bool:
        """Return whether a broker is still the master of its set, at the same address since the same start."""
        kept = self._kept.get(master.broker_name)
        return kept is not None and kept.known.master == master

    def known_addresses(self) -> set[str]:
        """Return the addresses of all masters that are known, to be queried when they have started."""
        return {each.known.master.address for each in self._kept.values() if each.known.master is not None}

    def candidates(self, shown: Sequence[ShownSets]) -> ShownCandidates:
        """Return the addresses of all other brokers that may be masters, to be queried too."""
        known = self.known_addresses()
        every = set[str]().union(*(_master_addresses(sets.values()) for sets in shown)) - known
        of_sets = (each for sets in shown for name, each in sets.items() if name in self._kept)
        of_known_sets = _master_addresses(of_sets) - known
        return ShownCandidates(of_known_sets, every - of_known_sets)

    def take(self, found: ShownRound) -> tuple[MasterChange, ...]:
        """Take what a round has found; returns the changes."""
        names = dict.fromkeys([*self._kept, *(name for sets in found.shown for name in sets if name and is_name(name))])
        changes = [self._take_set(name, found) for name in names]
        return (*(each for each in changes if each is not None), *self._removed(found))

    def _take_set(self, name: str, found: ShownRound) -> MasterChange | None:
        kept = self._kept.get(name)
        if kept is None and len(self._kept) >= SETS_MAX:
            return None
        known, last = (kept.known, kept.last) if kept is not None else (None, None)
        of_set = [sets[name] for sets in found.shown if name in sets]
        former = known.master if known is not None else None
        # Where no NameServer has answered, nothing is known to have changed, but for a restart.
        if former is not None and not found.shown:
            address: str | None = former.address
        else:
            address = _master_address(former, of_set, found.boots)
        now = _followed(name, known, of_set, address, found.boots)
        is_unseen = found.shown and not of_set and address not in found.boots
        seen_ms = kept.seen_ms if kept is not None and is_unseen else found.now_ms
        self._kept[name] = _Kept(now, now.master or last, seen_ms)
        return change_of(known, last, now, found.unix_ms)

    def _removed(self, found: ShownRound) -> Iterator[MasterChange]:
        for name in [name for name, each in self._kept.items() if found.now_ms - each.seen_ms >= REMOVED_AFTER_MS]:
            yield MasterChange(MasterChangeKind.REMOVED, name, self._kept.pop(name).last, None, found.unix_ms)


def _master_addresses(of_set: Iterable[RoutedBrokerSet]) -> set[str]:
    addresses = (each.master_address for each in of_set)
    return {address for address in addresses if address is not None and is_address(address)}


def _master_address(known: SetMaster | None, of_set: Sequence[RoutedBrokerSet], boots: BootTimes) -> str | None:
    """Return where the master of a set is; None if it has none.

    The one that is shown and answers. Where NameServers differ, one that none of them shows as a slave, then the one
    that is known, then the one that has started last. Nobody is found before it has answered. A known one that is
    silent stays as long as it is shown, and one that answers stays until it is shown as a slave.
    """
    shown, slaves = _master_addresses(of_set), _slave_addresses(of_set)
    answering = shown & boots.keys()
    undisputed = answering - slaves
    if known is not None and not undisputed:
        answers = known.address in boots and known.address not in slaves
        if known.address in shown or answers:
            return known.address
    return max(undisputed or answering, key=lambda address: (boots[address] or 0, address), default=None)


def _slave_addresses(of_set: Iterable[RoutedBrokerSet]) -> set[str]:
    return {address for each in of_set for id_, address in each.addresses.items() if id_ != MASTER_ID}


def _followed(
    name: str,
    known: FollowedSet | None,
    of_set: Sequence[RoutedBrokerSet],
    address: str | None,
    boots: BootTimes,
) -> FollowedSet:
    cluster = of_set[0].cluster if of_set else (known.cluster if known is not None else "")
    members = {SetMember(id_, where) for each in of_set for id_, where in each.addresses.items()}
    former = known.master if known is not None else None
    master = None
    if address is not None:
        boot_unix_ms = boots.get(address)
        if boot_unix_ms is None and former is not None and former.address == address:
            boot_unix_ms = former.boot_unix_ms
        master = SetMaster(cluster, name, MASTER_ID, address, boot_unix_ms=boot_unix_ms)
    shown_members = tuple(sorted(members)) or (known.members if known is not None else ())
    return FollowedSet(cluster, name, master, members=shown_members)
