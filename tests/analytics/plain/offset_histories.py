"""Random histories of an offset manager: offsets that jumped, repairs, changes of operators, and locks."""

from collections.abc import Iterator
from random import Random

from synthetic.generator import History, generate
from synthetic.offset_plants import LockedTwice, ReadAgain, locked_twice, locks_replayed, offsets_lost, operator_changed
from synthetic.plan import HOUR, MINUTE, MONDAY, SECOND, Pause, Plan, PlannedEvent, Plant, Server

#: Over two midnights.
START_US = MONDAY + 20 * HOUR
LENGTH_US = 30 * HOUR

_MANAGER = "offsets-0"
_CAUSES = ("failover", "restart", "lost", "reset", "deleted")
_OPERATIONS = ("reset", "restore", "undo", "repair", "import", "delete")


def offsets_of(seed: int) -> tuple[Plan, History]:
    """Return a plan of one offset manager, and what it records."""
    random = Random(f"plain offsets {seed}")
    away = START_US + random.randrange(HOUR, LENGTH_US - 2 * HOUR)
    pauses = (Pause(away, away + random.randrange(MINUTE, HOUR)),) if random.random() < 0.5 else ()
    server = Server(name=_MANAGER, source="offset-manager", pauses=pauses)
    plan = Plan(start_us=START_US, end_us=START_US + LENGTH_US, seed=seed, servers=(server,), brokers=())
    plan = plan.with_plants(*_plants(random))
    return plan, generate(plan)


def _plants(random: Random) -> Iterator[Plant]:
    for _ in range(random.randrange(10, 40)):
        at_us = START_US + random.randrange(MINUTE, LENGTH_US - HOUR)
        group, topic = random.choice(("billing", "audit")), random.choice(("orders", "refunds"))
        queues, messages = random.randrange(1, 9), random.randrange(1, 100_000)
        set_name = f"broker-{random.randrange(2):03}"
        found = ReadAgain(group, topic, random.choice(_CAUSES), set_name, at_us, queues, messages)
        yield offsets_lost(_MANAGER, found, pushed=random.randrange(queues + 1), spared=random.randrange(messages))
        about = {"group": group, "topic": topic, "broker_name": set_name}
        amounts = {"messages_again": random.choice((0, messages)), "messages_skipped": random.choice((0, 5))}
        who = {"writer": random.choice(("alice", "bob")), "target": random.choice(("manager", "broker"))}
        yield operator_changed(_MANAGER, at_us + SECOND, random.choice(_OPERATIONS), **about, **amounts, **who)
        outcomes = [random.randrange(3) for _ in range(4)]
        took = {"duration_ms": random.choice((None, random.randrange(3_000)))}
        yield locks_replayed(_MANAGER, at_us, outcomes, **about, **took)
        if random.random() < 0.3:
            held = LockedTwice(group, topic, 0, at_us, at_us + random.randrange(2 * SECOND, MINUTE))
            yield locked_twice(_MANAGER, held, broker_name=set_name, is_over=random.random() < 0.7)
        yield Plant(happenings=tuple(_rest(random, at_us)))


def _rest(random: Random, at_us: int) -> Iterator[PlannedEvent]:
    if random.random() < 0.2:
        failed = {"broker_name": "broker-000", "problem": "the master did not answer", "duration_ms": 10_000}
        yield PlannedEvent(at_us, _MANAGER, "offset_repair", "run", failed)
