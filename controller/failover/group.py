"""Which controller leads, as this one knows it, and whether it may answer for the sets.

Source: docs/protocol/controller.md 5.3.

A backend reports it. Leading alone is not enough: a new leader first has to know all that is stored.
"""

from collections.abc import Callable
from enum import IntEnum

from controller.refusals import NotLeader
from remoting.clock import Clock
from store.store import ControllerMember, SetStore, VersionedEntry, ignore


class ControllerRole(IntEnum):
    """What this controller is; the numbers are those of Java's metric."""

    UNKNOWN = 0
    CANDIDATE = 1
    FOLLOWER = 2
    LEADER = 3


class Group:
    def __init__(
        self,
        name: str,
        me: ControllerMember,
        clock: Clock,
        store: SetStore,
        elected: Callable[[], None] = ignore,
        deposed: Callable[[], None] = ignore,
    ) -> None:
        """`elected` and `deposed` are called when this controller begins and ceases to lead."""
        self.name = name
        #: Where this controller is may only be known once it listens.
        self.me = me
        self.leader: ControllerMember | None = None
        self.members: tuple[ControllerMember, ...] = (me,)
        #: Changes of the leader that were seen from here.
        self.leader_changes = 0
        #: How often this controller has begun to lead.
        self.term = 0
        #: Everything that is stored is known here since this controller leads.
        self._is_ready = False
        self._leads = False
        self._until_ms: int | None = None
        self._clock, self._store, self._elected, self._deposed = clock, store, elected, deposed

    # Reports of a backend

    def leads(self, until_ms: int | None) -> None:
        self._until_ms = until_ms
        if self._leads:
            return
        self._leads, self._is_ready = True, False
        self.term += 1
        self._led_by(self.me)
        self._elected()

    def follows(self, leader: ControllerMember | None) -> None:
        led, self._leads, self._is_ready = self._leads, False, False
        self._led_by(leader)
        if led:
            self._deposed()

    def members_changed(self, members: tuple[ControllerMember, ...]) -> None:
        self.members = members

    def entry_changed(self, broker_name: str, kept: VersionedEntry) -> None:
        self._store.entry_changed(broker_name, kept)

    def put_back(self) -> None:
        self._store.put_back()

    def _led_by(self, leader: ControllerMember | None) -> None:
        if leader != self.leader:
            self.leader_changes += 1
            self.leader = leader

    # What others read

    def leads_in(self, term: int) -> bool:
        """Whether this controller still leads as it began to for that time; ready or not."""
        return self._leads and self.term == term

    def ready(self, term: int) -> None:
        """Serve: all that was stored when this term began is known."""
        if self.leads_in(term):
            self._is_ready = True

    @property
    def is_leader(self) -> bool:
        """Whether this controller leads and knows all that is stored; its lease is looked at each time."""
        return self._leads and self._is_ready and self._is_in_time

    def leads_for(self, duration_ms: int) -> bool:
        """Whether this controller leads for so long from now on, even if it renews nothing."""
        return self.is_leader and (self._until_ms is None or self._clock.now_ms() + duration_ms <= self._until_ms)

    @property
    def leads_for_good(self) -> bool:
        """Whether nobody else can lead: nothing but `deposed` ends it."""
        return self.is_leader and self._until_ms is None

    @property
    def role(self) -> ControllerRole:
        if self._leads and self._is_in_time:
            return ControllerRole.LEADER if self._is_ready else ControllerRole.CANDIDATE
        return ControllerRole.FOLLOWER if self.known_leader is not None else ControllerRole.CANDIDATE

    @property
    def known_leader(self) -> ControllerMember | None:
        """Who leads, for requests of brokers; None if nobody can be named."""
        return None if self._leads and not self._is_in_time else self.leader

    def check_leads(self) -> None:
        if not self.is_leader:
            other = self.known_leader
            raise NotLeader(f"{other.id} at {other.address}" if other is not None and other != self.me else None)

    @property
    def _is_in_time(self) -> bool:
        return self._until_ms is None or self._clock.now_ms() <= self._until_ms
