"""How often the lead went to somebody as far as one member has seen, but where the store went back. Pure.

Where the store went back to an older state, the lead that was ends, and the next one may be the same member's: then
nobody else has led in between, and what it knows is the newest. Numbers of leads come again there, and show nothing.
"""

from collections import deque
from typing import Final

from store.etcd.lease_state_machine import Holder

#: Leads that are remembered: an older state of the store may show one of them again.
_KNOWN_MAX: Final = 64


class SeenLeads:
    """Counts the leads that began, but the first one after the store went back if that is this member's own."""

    def __init__(self, run: str) -> None:
        self._run = run
        #: By run, create revision and lease: the same run may get the same revision again, but under another lease.
        self._known: deque[tuple[str, int, int]] = deque(maxlen=_KNOWN_MAX)
        self._is_put_back = False
        self.count = 0

    def went_back(self, revision: int) -> None:
        """Note that the store is at an older state, by now at this revision: leads that began after it are gone."""
        self._is_put_back = True
        self._known = deque((each for each in self._known if each[1] <= revision), maxlen=_KNOWN_MAX)

    def see(self, holder: Holder | None) -> None:
        """Note who leads; one that an older state of the store shows again has not begun to lead."""
        if holder is None or (lead := (holder.run, holder.token, holder.lease_id)) in self._known:
            return
        self._known.append(lead)
        goes_on = self._is_put_back and holder.run == self._run
        self._is_put_back = False
        self.count += not goes_on
