"""What is stored under the name of a set, and what a rule decides about it."""

from typing import Final, Generic, TypeVar

import msgspec

from controller.sets.broker_set import BrokerSet, Event, Floor

Reply = TypeVar("Reply")


#: The form in which entries are written. A release that writes more, or something else, counts it up: an older one
#: would drop what it does not know when it writes the entry again.
STORED_SET_FORMAT: Final = 2


class StoredSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is stored under the name of a set: the set, or below what another of that name must not begin."""

    format: int = STORED_SET_FORMAT
    broker_set: BrokerSet | None = None
    floor: Floor = Floor()


class NewerFormat(ValueError):
    """The entry is of a release that came later; the text continues "the entry of NAME"."""

    def __init__(self, written: int) -> None:
        super().__init__(
            f"has format {written}, and this release reads formats up to {STORED_SET_FORMAT}: run the release that "
            "wrote it, or a later one"
        )


class _Format(msgspec.Struct):
    format: int = STORED_SET_FORMAT


_decode_format: Final = msgspec.json.Decoder(_Format).decode
_decode_entry: Final = msgspec.json.Decoder(StoredSet).decode


def decode_stored_set(text: str | bytes) -> StoredSet:
    """Return what is stored; raises NewerFormat, and msgspec.DecodeError or UnicodeDecodeError for all else."""
    if (written := _decode_format(text).format) > STORED_SET_FORMAT:
        raise NewerFormat(written)
    return _decode_entry(text)


class SetDecision(msgspec.Struct, Generic[Reply], frozen=True, kw_only=True):
    reply: Reply
    #: What happens, in order; nothing is stored if nothing does.
    events: tuple[Event, ...] = ()
    #: The set before the events, where there is none yet.
    begins: BrokerSet | None = None
    #: The whole set goes.
    ends: bool = False
    #: Nothing is left of the set, as if it had never begun.
    expires: bool = False

    def after(self, entry: StoredSet) -> StoredSet:
        if self.expires:
            return StoredSet()
        broker_set = entry.broker_set or self.begins
        for event in self.events:
            assert broker_set is not None, "events happen to a set"
            broker_set = broker_set.apply(event)
        if self.ends and broker_set is not None:
            return StoredSet(broker_set=None, floor=broker_set.floor)
        return StoredSet(broker_set=broker_set, floor=entry.floor)
