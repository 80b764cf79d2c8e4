"""How many sets each host has begun lately: names of sets are few, and anybody can send a 1013 under a new one.

Pure: `requests.py` checks before a set begins.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

#: So many sets may begin at once from one host, and then one after each of these times.
BURST: Final = 5_000
REFILL_MS: Final = 1_000
#: Hosts that are remembered, the last ones.
HOSTS_MAX: Final = 10_000


class _Budget(NamedTuple):
    """How many sets a host might begin at a moment."""

    sets: int
    at_ms: int


class NewSets:
    """Host -> how many sets may begin from it."""

    def __init__(self) -> None:
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()

    @property
    def hosts(self) -> int:
        """How many hosts are remembered."""
        return len(self._budgets)

    def take(self, host: str, now_ms: int) -> bool:
        """Return whether another set may begin from a host, and count it."""
        budget = self._budgets.pop(host, None) or _Budget(BURST, now_ms)
        refilled = (now_ms - budget.at_ms) // REFILL_MS
        sets = min(BURST, budget.sets + refilled)
        while len(self._budgets) >= HOSTS_MAX:
            self._budgets.popitem(last=False)
        self._budgets[host] = _Budget(max(sets - 1, 0), budget.at_ms + refilled * REFILL_MS)
        return sets > 0
