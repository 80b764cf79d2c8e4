"""Which brokers that NameServers show as masters, and that are not known as such, are queried in a round. Pure.

A NameServer may show any number of them, of which none answers: they take turns, and those of sets that are followed
come first, as one of them may be the successor of a master.
"""

from collections.abc import Set as AbstractSet
from typing import NamedTuple


class ShownCandidates(NamedTuple):
    """Addresses of brokers that may be masters."""

    of_known_sets: AbstractSet[str]
    others: AbstractSet[str]

    @property
    def all(self) -> AbstractSet[str]:
        """All of them."""
        return self.of_known_sets | self.others


class CandidateTurns:
    """When each candidate was queried last."""

    def __init__(self) -> None:
        self._round = 0
        #: The round in which each candidate was queried last; of those that are shown.
        self._queried: dict[str, int] = {}

    def next(self, shown: ShownCandidates, under_way: AbstractSet[str], limit: int) -> set[str]:
        """Return whom to query or to wait for in a round: up to `limit`, together with those that are under way.

        Of those under way only the ones that are still shown.
        """
        self._round += 1
        everybody = shown.all
        self._queried = {each: at for each, at in self._queried.items() if each in everybody}
        waiting = sorted(
            everybody - under_way,
            key=lambda each: (each not in shown.of_known_sets, self._queried.get(each, 0), each),
        )
        chosen = waiting[: max(0, limit - len(under_way))]
        self._queried.update(dict.fromkeys(chosen, self._round))
        return {*chosen, *(under_way & everybody)}
