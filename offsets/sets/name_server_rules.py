"""The masters of sets without a controller, by what NameServers show and brokers report. Pure.

No epoch tells here what is newer, and each NameServer may be behind: it shows a failed master for up to two minutes,
and after its own restart it shows no broker for up to 30 s. So brokers are asked themselves (28): a broker that answers
lives, and its start time tells whether it has restarted. A broker that does not answer is unknown, which changes
nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from offsets.sets.followed import (
    SETS_MAX,
    FollowedSet,
    MasterChange,
    MasterChangeKind,
    SetMaster,
    change_of,
)
from offsets.values import SetName
from remoting.admin.routes import RoutedBrokerSet
from remoting.protocol.addresses import is_address, is_name
from remoting.protocol.shapes.route import MASTER_ID

#: A set that no NameServer shows, and whose master does not answer, is removed after so long.
REMOVED_AFTER_MS: Final = 24 * 3_600_000

#: What one NameServer shows, by broker name.
ShownSets = Mapping[str, RoutedBrokerSet]
#: By the addresses of brokers that answered: when they started, Unix ms; None if they did not tell.
BootTimes = Mapping[str, int | None]


class _Kept(NamedTuple):
    known: FollowedSet
    last: SetMaster | None
    #: When it was shown, or its master has answered, last; monotonic ms.
    seen_ms: int


class NameServerSets:
    def __init__(self) -> None:
        #: By broker name.
        self.sets: dict[str, FollowedSet] = {}
        self._kept: dict[str, _Kept] = {}

    def known_masters(self) -> set[str]:
        """Return the addresses of all known masters, to be asked for their start."""
        return {followed.master.address for followed in self.sets.values() if followed.master is not None}

    def candidates(self, shown: Sequence[ShownSets]) -> set[str]:
        """Return the addresses of all other brokers that are shown as masters, to be asked too."""
        return {address for sets in shown for address in _masters(sets.values())} - self.known_masters()

    def take(
        self, shown: Sequence[ShownSets], boots: BootTimes, *, now_ms: int, unix_ms: int
    ) -> tuple[MasterChange, ...]:
        """Take what each NameServer that answered shows, and which brokers answered; returns the changes."""
        names = dict.fromkeys([*self._kept, *(name for sets in shown for name in sets if name and is_name(name))])
        changes = [self._take_set(name, shown, boots, now_ms, unix_ms) for name in names]
        return (*(change for change in changes if change is not None), *self._removed(now_ms, unix_ms))

    def _take_set(
        self, name: str, shown: Sequence[ShownSets], boots: BootTimes, now_ms: int, unix_ms: int
    ) -> MasterChange | None:
        kept = self._kept.get(name)
        if kept is None and len(self._kept) >= SETS_MAX:
            return None
        known, last = (kept.known, kept.last) if kept is not None else (None, None)
        of_set = [sets[name] for sets in shown if name in sets]
        former = known.master if known is not None else None
        # Where no NameServer has answered, nothing is known to have changed, but for a restart.
        address = former.address if former is not None and not shown else _master_address(former, of_set, boots)
        now = _followed(name, known, of_set, address, boots)
        is_unseen = bool(shown) and not of_set and address not in boots
        seen_ms = kept.seen_ms if kept is not None and is_unseen else now_ms
        self._kept[name] = _Kept(now, now.master or last, seen_ms)
        self.sets[name] = now
        return change_of(known, last, now, unix_ms)

    def _removed(self, now_ms: int, unix_ms: int) -> Iterator[MasterChange]:
        for name in [name for name, kept in self._kept.items() if now_ms - kept.seen_ms >= REMOVED_AFTER_MS]:
            gone = self._kept.pop(name)
            del self.sets[name]
            yield MasterChange(MasterChangeKind.REMOVED, gone.known.set_name, gone.last, None, unix_ms)


def _masters(of_set: Iterable[RoutedBrokerSet]) -> set[str]:
    addresses = (shown.master_address for shown in of_set)
    return {address for address in addresses if address is not None and is_address(address)}


def _master_address(known: SetMaster | None, of_set: Sequence[RoutedBrokerSet], boots: BootTimes) -> str | None:
    """Return where the master of a set is; None if it has none.

    The one that is shown and answers. Where NameServers differ, one that none of them shows as a slave, then the known
    one, then the one that started last. No broker is found before it has answered. A known one that is silent stays as
    long as it is shown, and one that answers stays until it is shown as a slave.
    """
    shown = _masters(of_set)
    slaves = {address for row in of_set for id_, address in row.addresses.items() if id_ != MASTER_ID}
    answering = shown & boots.keys()
    undisputed = answering - slaves
    if known is not None and not undisputed:
        answers = known.address in boots and known.address not in slaves
        if known.address in shown or answers:
            return known.address
    return max(undisputed or answering, key=lambda address: (boots[address] or 0, address), default=None)


def _followed(
    name: str,
    known: FollowedSet | None,
    of_set: Sequence[RoutedBrokerSet],
    address: str | None,
    boots: BootTimes,
) -> FollowedSet:
    cluster = of_set[0].cluster if of_set else (known.set_name.cluster if known is not None else "")
    set_name = SetName(cluster, name)
    rows = sorted({row for shown in of_set for row in shown.addresses.items()})
    members = tuple(where for _, where in rows)
    former = known.master if known is not None else None
    master = None
    if address is not None:
        boot_unix_ms = boots.get(address)
        if boot_unix_ms is None and former is not None and former.address == address:
            boot_unix_ms = former.boot_unix_ms
        master = SetMaster(set_name, MASTER_ID, address, boot_unix_ms=boot_unix_ms)
    return FollowedSet(set_name, master, members or (known.members if known is not None else ()))
