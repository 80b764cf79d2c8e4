"""What is stored under the name of a set, and what a rule decides about it."""

from typing import Generic, TypeVar

import msgspec

from controller.broker_set import BrokerSet, Floor
from controller.events import Event

Reply = TypeVar("Reply")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored under the name of a set: the set, or below what another of that name must not begin."""

    broker_set: BrokerSet | None = None
    floor: Floor = Floor()


class Decision(msgspec.Struct, Generic[Reply], frozen=True, kw_only=True):
    """What a rule has decided about a set."""

    reply: Reply
    #: What happens, in order; nothing is stored if nothing does.
    events: tuple[Event, ...] = ()
    #: The set before the events, where there is none yet.
    begins: BrokerSet | None = None
    #: The whole set goes.
    ends: bool = False
    #: Nothing is left of the set, as if it had never begun.
    expires: bool = False

    def after(self, entry: Entry) -> Entry:
        """Return what is to be stored."""
        if self.expires:
            return Entry()
        broker_set = entry.broker_set or self.begins
        for event in self.events:
            assert broker_set is not None, "events happen to a set"
            broker_set = broker_set.apply(event)
        if self.ends and broker_set is not None:
            return Entry(broker_set=None, floor=broker_set.floor)
        return Entry(broker_set=broker_set, floor=entry.floor)
