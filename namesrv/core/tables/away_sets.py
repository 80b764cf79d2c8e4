"""Broker sets that were registered and of which no broker is now: a set that is lost must not vanish from the picture.

No topics are kept: which of them only an away set has is unknown. Requests are not authenticated, so everything has a
limit, and strangers' sets go before those that were registered for longer. Java remembers nothing of a set that left.
"""

from collections import Counter
from collections.abc import Iterable
from heapq import nlargest
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from namesrv.core.tables.broker_table import RegisteredSet
from remoting.protocol.shapes.broker_sets import AwayBrokerSet

#: Away sets, and sets in the file.
SETS_MAX: Final = 1_000
#: Away sets of one host, but for those that were registered for a day: anybody can register invented sets and leave,
#: and all sets of a site may be behind one address.
SETS_PER_HOST_MAX: Final = 32
#: So many more are kept until those beyond the limit go: to look for the next one at each departure takes too long.
_SURPLUS_MAX: Final = 100
#: Addresses of one away set, the latest.
ADDRESSES_MAX: Final = 8
#: A set that was registered for less, and had no topics of users, is not remembered, in ms.
REGISTERED_MS_MIN: Final = 30_000
#: An away set is forgotten after so long, in ms.
KEPT_MS: Final = 24 * 3600 * 1000
#: So long after a start a set is not away that was registered before it: brokers register every 30 s.
STARTING_MS: Final = 60_000


class RememberedSet(msgspec.Struct, kw_only=True, rename="camel"):
    """One set, as the file has it; times are Unix ms."""

    cluster: str
    broker_name: str
    #: Those of now, or that it had last.
    broker_addrs: dict[int, str] = {}
    #: For how long it was registered, all its stays before the present one together, in ms.
    registered_ms: int = 0
    #: None while a broker of it is registered.
    away_since_unix_ms: int | None = None
    was_unregistered: bool = False
    kept_until_unix_ms: int = 0
    #: The host that had it, as `network_of`.
    network: str = ""


class AwaySets:
    """The sets that are registered, and those that are away."""

    def __init__(self) -> None:
        #: Registered sets, and since when.
        self._present: dict[str, tuple[RememberedSet, int]] = {}
        #: Those of the file that were registered have no `away_since_unix_ms` until `settle` gives it to them.
        self._away: dict[str, RememberedSet] = {}
        self._started_ms = self._last_word_ms = 0

    def __len__(self) -> int:
        return len(self._away)

    def __contains__(self, broker_name: str) -> bool:
        return broker_name in self._away

    def away(self) -> list[AwayBrokerSet]:
        """Return the away sets by name, SETS_MAX at most, and those that have not registered since the start."""
        return [
            AwayBrokerSet(
                cluster=known.cluster,
                broker_name=name,
                away_since_unix_ms=known.away_since_unix_ms,
                was_unregistered=known.was_unregistered,
                broker_addrs=known.broker_addrs,
            )
            for name, known in sorted(self._longest_away().items())
        ]

    def network_of(self, broker_name: str) -> str:
        """Return the host that had an away set; blank for none."""
        known = self._away.get(broker_name)
        return known.network if known else ""

    def counts(self) -> Counter[str]:
        return Counter(away.cluster for away in self.away() if away.away_since_unix_ms is not None)

    def observe(
        self,
        broker_name: str,
        broker_set: RegisteredSet | None,
        *,
        is_unregistered: bool = False,
        has_topics: bool = False,
        unix_ms: int,
    ) -> None:
        """Take a set as it is now, with topics of users or not; None if its last broker has left, by request or not."""
        if broker_set is None:
            if (present := self._present.pop(broker_name, None)) is not None:
                self._leave(*present, is_unregistered=is_unregistered, unix_ms=unix_ms)
            return
        known, _ = self._present.get(broker_name) or self._come(broker_set, unix_ms)
        known.cluster, known.network = broker_set.cluster, broker_set.network
        if has_topics:
            known.registered_ms = max(known.registered_ms, REGISTERED_MS_MIN)
        members = {broker_id: member.address for broker_id, member in broker_set.members.items()}
        # Brokers that left while others stayed are those that an operator has to look at.
        left = {i: addr for i, addr in known.broker_addrs.items() if i not in members and addr not in members.values()}
        known.broker_addrs = dict([*left.items(), *members.items()][-ADDRESSES_MAX:])

    def forget(self, broker_name: str) -> bool:
        """Forget an away set; False if there is none of this name."""
        return self._away.pop(broker_name, None) is not None

    def restore(self, sets: Iterable[RememberedSet], last_word_ms: int, unix_ms: int) -> None:
        """Take the sets of a file that was written at `last_word_ms`: none of them is registered after a start.

        Those that the file calls registered do so within 30 s, as all brokers; those that do not are away since then.
        """
        self._started_ms, self._last_word_ms = unix_ms, last_word_ms
        for known in sets:
            self._away[known.broker_name] = known
            if known.away_since_unix_ms is None:
                known.kept_until_unix_ms = unix_ms + KEPT_MS

    def settle(self, unix_ms: int) -> None:
        """Forget the sets that have been away for very long, and call those away that a start did not bring back."""
        for name in [name for name, known in self._away.items() if known.kept_until_unix_ms <= unix_ms]:
            del self._away[name]
        if unix_ms >= self._started_ms + STARTING_MS:
            for known in self._away.values():
                if known.away_since_unix_ms is None:
                    known.away_since_unix_ms = self._last_word_ms

    def known(self, unix_ms: int) -> list[RememberedSet]:
        """Return what outlives a restart: sets away and registered, those first that were registered longest."""
        sets = [(known.registered_ms, known) for known in self._away.values()]
        # Copied are those only that are kept: there may be very many.
        sets += ((known.registered_ms + unix_ms - since_ms, known) for known, since_ms in self._present.values())
        longest = nlargest(SETS_MAX, sets, key=itemgetter(0))
        return [replace(known, registered_ms=ms) for ms, known in longest if ms >= REGISTERED_MS_MIN]

    def _come(self, broker_set: RegisteredSet, unix_ms: int) -> tuple[RememberedSet, int]:
        name, former = broker_set.broker_name, self._away.pop(broker_set.broker_name, None)
        known = RememberedSet(
            cluster=broker_set.cluster, broker_name=name, registered_ms=former.registered_ms if former else 0
        )
        return self._present.setdefault(name, (known, unix_ms))

    def _leave(self, known: RememberedSet, since_ms: int, *, is_unregistered: bool, unix_ms: int) -> None:
        known.registered_ms += max(0, unix_ms - since_ms)
        if known.registered_ms < REGISTERED_MS_MIN:
            return
        known.was_unregistered = is_unregistered
        known.away_since_unix_ms, known.kept_until_unix_ms = unix_ms, unix_ms + KEPT_MS
        self._away[known.broker_name] = known
        if len(self._away) > SETS_MAX + _SURPLUS_MAX:
            self._away = self._longest_away()

    def _longest_away(self) -> dict[str, RememberedSet]:
        of_hosts: Counter[str] = Counter()
        longest: dict[str, RememberedSet] = {}
        for known in sorted(self._away.values(), key=attrgetter("registered_ms"), reverse=True):
            of_hosts[known.network] += 1
            is_long = known.registered_ms >= KEPT_MS
            if of_hosts[known.network] <= SETS_PER_HOST_MAX or is_long or not known.network:
                longest[known.broker_name] = known
        return dict(islice(longest.items(), SETS_MAX))
