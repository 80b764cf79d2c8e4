"""When a broker lives, and when it says something: the same for all servers that may hear it."""

from bisect import bisect_right
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from synthetic.plan import MS, Broker, End, Freeze, Plan, address_of


class Uptime(NamedTuple):
    """A process of a broker, from its first registration until its end."""

    start_us: int
    end_us: int
    #: None: it outlives the history.
    end: End | None
    address: str


class Saying(NamedTuple):
    """Something that a broker sends to all servers at once."""

    sent_us: int
    uptime: Uptime
    #: How many changes of its topics it has seen.
    version: int
    is_first: bool


def uptimes(plan: Plan, broker: Broker) -> list[Uptime]:
    """Return the lives within the plan of all that are this broker, in their order."""
    found = _own_uptimes(plan, broker)
    for move in sorted(plan.plant.moves, key=lambda each: each.at_us):
        if broker.key in (move.broker, move.to):
            found = [_ended(uptime, move.at_us) for uptime in found if uptime.start_us < move.at_us]
        if broker.key == move.to:
            found.append(Uptime(move.at_us, plan.end_us, None, address_of(move.broker)))
    return found


def _ended(uptime: Uptime, at_us: int) -> Uptime:
    return uptime if uptime.end_us <= at_us else uptime._replace(end_us=at_us, end=End.MOVED)


def _own_uptimes(plan: Plan, broker: Broker) -> list[Uptime]:
    start_us = broker.since_us
    if start_us is None:
        start_us = plan.start_us + int(_random(plan, broker, "phase").random() * broker.period_ms * MS)
    found, address = [], broker.address
    for outage in sorted(each for each in plan.plant.outages if each.broker == broker.key):
        found.append(Uptime(start_us, outage.from_us, outage.end, address))
        if outage.to_us is None:
            return found
        start_us, address = outage.to_us, outage.address or address
    return [*found, Uptime(start_us, plan.end_us, None, address)]


def version_times(plan: Plan, broker_name: str) -> list[int]:
    """Return when topics of a set are altered: its version is how many of these times are past."""
    return sorted(change.at_us for change in plan.plant.topic_changes if change.broker_name == broker_name)


def heartbeats(plan: Plan, broker: Broker, period_ms: int) -> Iterator[Saying]:
    """Yield what the broker sends, in its order; it registers at once when its topics are altered."""
    random = _random(plan, broker, f"sayings {period_ms}")
    freezes = [each for each in plan.plant.freezes if each.broker == broker.key]
    changes = version_times(plan, broker.key.broker_name)
    for uptime in uptimes(plan, broker):
        times = list(_times(broker, uptime, period_ms, random))
        times += [at_us for at_us in changes if uptime.start_us < at_us < uptime.end_us]
        for at_us in sorted(times):
            if not _is_frozen(freezes, at_us):
                yield Saying(at_us, uptime, bisect_right(changes, at_us), at_us == uptime.start_us)


def _times(broker: Broker, uptime: Uptime, period_ms: int, random: Random) -> Iterator[int]:
    """Yield the moments of a uptime's own beats, beginning with its start.

    Jitter does not add up, as with a timer of a fixed rate; gaps that are drawn do.
    """
    yield uptime.start_us
    due_us = at_us = uptime.start_us
    while True:
        if broker.gap_ms is not None and period_ms == broker.period_ms:
            at_us += int(broker.gap_ms(random) * MS)
        else:
            due_us += period_ms * MS
            at_us = due_us + int(random.uniform(-1, 1) * min(broker.jitter_ms, period_ms / 4) * MS)
        if at_us >= uptime.end_us:
            return
        yield at_us


def _is_frozen(freezes: list[Freeze], at_us: int) -> bool:
    return any(freeze.from_us <= at_us < freeze.to_us for freeze in freezes)


def _random(plan: Plan, broker: Broker, purpose: str) -> Random:
    return Random(f"{plan.seed} {purpose} {broker.key}")


#: What a network takes, us.
LATENCY_US = (200, 2_000)
