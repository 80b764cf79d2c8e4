"""Hours in which a broker is unlike itself, though it never leaves."""

from dataclasses import replace
from typing import NamedTuple

from synthetic.plan import BrokerKey, Freeze, Plant
from synthetic.plants import churner


class Spell(NamedTuple):
    """A broker behaved unlike itself; Unix us."""

    broker: BrokerKey
    from_us: int
    to_us: int


def slow_spell(broker: BrokerKey, from_us: int, to_us: int, *, every_us: int, still_us: int) -> Plant:
    """Plant a broker that stands still again and again: what it would have said meanwhile does not come.

    If `still_us` is its period and `every_us` two of them, its intervals are twice as long as they use to be.
    """
    stills = tuple(Freeze(broker, at_us, at_us + still_us) for at_us in range(from_us, to_us, every_us))
    return Plant(freezes=stills, truth={"spells": (Spell(broker, from_us, to_us),)})


def busy_spell(topic: str, broker: BrokerKey, from_us: int, to_us: int, *, every_us: int) -> Plant:
    """Plant a master whose topic is altered again and again."""
    changes = (to_us - from_us) // every_us
    busy = churner(topic, broker.broker_name, from_us, every_us=every_us, changes=changes)
    return replace(busy, truth={**busy.truth, "spells": (Spell(broker, from_us, to_us),)})
