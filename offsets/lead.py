"""Whether this offset manager leads: only the leader answers clients and writes to brokers.

With the embedded store a manager leads as long as it lives. With etcd (`etcd_lead.py`) it leads under a lease: a
manager that was paused may not have noticed yet that another one leads, so the end of the lease is compared with the
monotonic clock, which goes on while the host is suspended, at each request and right before each write to a broker:

    await admin.call(address, commit_offset(...), before_send=lead.check)
"""

from collections.abc import Callable, Iterator
from typing import Final, Literal

from remoting.clock import Clock
from serving.http.views import Unavailable
from serving.logging.events import Level
from serving.telemetry.events import Counter, Event, Gauge, Measure
from store.store import ControllerMember, VersionedEntry

ROLE: Final = Gauge("role", "0 following, 1 loading, 2 leading: only the leader answers clients.")
LEADER_CHANGES: Final = Counter("leader_changes", "Times that this manager began or ceased to lead.")

STORE_CALLS: Final = Counter("store_calls", "Calls to etcd, by operation and result.", ("operation", "result"))


class ManagerLeads(Event, frozen=True, kw_only=True):
    """This offset manager leads: it answers clients, and only it writes to brokers."""

    counter = LEADER_CHANGES


class ManagerFollows(Event, frozen=True, kw_only=True):
    """This offset manager no longer leads and answers 503 with the address of the one that does (`leader`)."""

    level = Level.WARNING
    advice = "None if another one leads; otherwise check etcd."
    counter = LEADER_CHANGES
    leader: str | None


class StorePutBack(Event, frozen=True, kw_only=True):
    """The revision of etcd went back: it was restored from a backup. Offsets that clients committed since are lost."""

    level = Level.ERROR
    advice = "Find out who restored etcd."


class StoreCallsFailing(Event, frozen=True, kw_only=True):
    """Calls of this kind to etcd fail; logged once per kind until one succeeds.

    While `look`, `grant`, `campaign` and `renew` fail no manager can lead.
    """

    level = Level.ERROR
    advice = "Check etcd. Offset managers need no restart."
    operation: str
    error: str


class StoreCallsAnswered(Event, frozen=True, kw_only=True):
    """etcd answers calls of this kind again."""

    operation: str
    silent_ms: int


class NotLeading(Unavailable):
    """Another manager answers; `leader_address` is blank if no manager is known to lead."""

    code = "not_leader"
    retry_after_s = 1

    def __init__(self, leader_address: str) -> None:
        self.leader_address = leader_address
        super().__init__(
            f"This offset manager does not lead: send requests to the one at {leader_address}."
            if leader_address
            else "No offset manager is known to lead: repeat the request in a second."
        )


class Lead:
    """The lead of a manager with a store of its own: it begins with `start` and lasts."""

    def __init__(self, clock: Clock, emit: Callable[[Event], None]) -> None:
        self._clock = clock
        self._emit = emit
        self._is_held = False
        #: Monotonic ms; None: for ever.
        self._until_ms: int | None = None
        #: Called with True when a lead of this manager begins, and with False when it has ended.
        self.listeners: list[Callable[[bool], None]] = []
        #: The manager that leads, this one too; None: no manager is known to.
        self.leader: ControllerMember | None = None
        #: Counts the leads of this process: work that spans an await compares it.
        self.term = 0
        #: Cleared while the offsets that clients committed are read from the store.
        self.is_loaded = True

    def start(self, me: ControllerMember) -> None:
        """Stand for election under this name from now on."""
        self.me = me
        self.leads(None)

    @property
    def number(self) -> int:
        """Number of the present lead, which rises with each lead of any manager; 0 where there are no rivals."""
        return 0

    def is_leading(self) -> bool:
        """Return whether this manager leads at this moment, by the monotonic clock."""
        return self._is_held and (self._until_ms is None or self._clock.now_ms() < self._until_ms)

    def check(self) -> None:
        """Raise NotLeading unless this manager leads at this moment."""
        if not self.is_leading():
            other = None if self.leader is None or self.leader == self.me else self.leader
            raise NotLeading("" if other is None else other.address)

    @property
    def role(self) -> Literal["leading", "loading", "following"]:
        """The role of this manager, as `GET /v1/manager` names it."""
        if not self.is_leading():
            return "following"
        return "leading" if self.is_loaded else "loading"

    def measures(self) -> Iterator[Measure]:
        yield Measure(ROLE, ("following", "loading", "leading").index(self.role))

    def pass_on(self) -> None:
        """Let another manager lead, if there is one; this one stands again after some seconds."""

    async def resign(self) -> None:
        """Let another manager lead at once."""

    async def close(self) -> None:
        """End everything in the background."""

    # Called by the election, as `LeadershipListener` says

    def leads(self, until_ms: int | None) -> None:
        """Lead until then, None for ever; called again at each renewal."""
        self._until_ms = until_ms
        if not self._is_held:
            self._is_held = True
            self.leader = self.me
            self.term += 1
            self._emit(ManagerLeads())
            for listener in self.listeners:
                listener(True)

    def follows(self, leader: ControllerMember | None) -> None:
        was_held, self._is_held = self._is_held, False
        self.leader = leader
        if was_held:
            self._emit(ManagerFollows(leader=None if leader is None else leader.address))
            for listener in self.listeners:
                listener(False)

    def put_back(self) -> None:
        """Tell that the store was put back; the lead ends by itself, and another one begins."""
        self._emit(StorePutBack())

    def members_changed(self, members: tuple[ControllerMember, ...]) -> None:
        """Take no list of the members: managers do not register."""

    def entry_changed(self, broker_name: str, versioned: VersionedEntry) -> None:
        """Take no broker sets: those of controllers are another group."""
