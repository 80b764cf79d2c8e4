"""Whether this offset manager leads, and so answers; the others send clients to it.

A manager that was paused may not have noticed yet that another one leads: until when it leads is compared at each
request, and again before a change is acknowledged.
"""

from collections.abc import Callable
from typing import Final

from controller.offsets.locks.sessions.values import Lead
from remoting.clock import Clock
from store.store import ControllerMember

#: When a lead ends that nobody else can gain.
_FOR_EVER_MS: Final = 2**63 - 1


class ManagerNotLeading(Exception):
    """Another manager answers; the address is its own, blank if nobody is known to lead."""

    def __init__(self, leader_address: str) -> None:
        self.leader_address = leader_address
        super().__init__(
            f"This offset manager does not lead: send requests to the one at {leader_address}."
            if leader_address
            else "No offset manager is known to lead: repeat the request in a second."
        )


class StillLoading(Exception):
    """This manager leads, and has not loaded all offsets yet."""

    def __init__(self) -> None:
        super().__init__("The offsets are being loaded: repeat the request in a second.")


class ManagerRole:
    """Receives who leads (`storage/etcd_remote.py`), and says whether this manager may answer."""

    def __init__(self, clock: Clock, elected: Callable[[int], None], deposed: Callable[[], None]) -> None:
        """Take what is called with each term that begins here, and what is called when one ends."""
        self._clock = clock
        self._elected = elected
        self._deposed = deposed
        self._is_held = False
        #: When this manager was elected, monotonic ms.
        self._since_ms = 0
        #: Monotonic ms; None: for ever.
        self._until_ms: int | None = None
        self._is_loaded = False
        #: Counts the times that this manager was elected.
        self.term = 0
        #: Who leads; None: nobody is known to, or this manager does.
        self.leader: ControllerMember | None = None

    def leads(self, until_ms: int | None) -> None:
        """Lead until then, None for ever."""
        self._until_ms = until_ms
        if not self._is_held:
            self._is_held = True
            self._since_ms = self._clock.now_ms()
            self.leader = None
            self.term += 1
            self._elected(self.term)

    def follows(self, leader: ControllerMember | None) -> None:
        """Answer nothing any more."""
        was_held, self._is_held, self._is_loaded = self._is_held, False, False
        self.leader = leader
        if was_held:
            self._deposed()

    def loaded(self, term: int) -> bool:
        """Answer from now on, unless the term is over; return whether that is so."""
        self._is_loaded = self.leads_in(term)
        return self._is_loaded

    def unload(self) -> None:
        """Answer no changes until `loaded`."""
        self._is_loaded = False

    def leads_in(self, term: int) -> bool:
        """Return whether this manager leads, and has led since it was elected for this term."""
        return self.term == term and self.is_leading

    @property
    def lead(self) -> Lead:
        """Between which moments nobody else leads for certain; an ended one if another manager may."""
        if not self._is_held:
            return Lead(self._since_ms, self._since_ms - 1)
        return Lead(self._since_ms, _FOR_EVER_MS if self._until_ms is None else self._until_ms - 1)

    @property
    def is_leading(self) -> bool:
        """Whether it leads at this moment."""
        return self._is_held and (self._until_ms is None or self._clock.now_ms() < self._until_ms)

    @property
    def is_serving(self) -> bool:
        """Whether it leads and has loaded all offsets."""
        return self._is_loaded and self.is_leading

    def check_leads(self) -> None:
        """Raise ManagerNotLeading unless this manager leads."""
        if not self.is_leading:
            raise ManagerNotLeading(self.leader.address if self.leader is not None else "")

    def check_serves(self) -> None:
        """Raise ManagerNotLeading or StillLoading unless this manager may change offsets."""
        self.check_leads()
        if not self._is_loaded:
            raise StillLoading

    def serving_ms(self) -> int:
        """Return the present time, monotonic ms, at which this manager serves for certain; raises as `check_serves`."""
        # The time first: after a pause in between, another manager may lead.
        now_ms = self._clock.now_ms()
        self.check_serves()
        return now_ms
