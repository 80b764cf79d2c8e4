"""Random histories of resizes: operations of some topics one after the other, samples with gaps, and decisions."""

from collections.abc import Iterator
from random import Random

from synthetic.generator import History, generate
from synthetic.plan import HOUR, MINUTE, MONDAY, MS, SECOND, Downtime, Pause, Plan, PlannedEvent, Plant, Server
from synthetic.plants import resize, scaling_decisions

#: From an evening to the next noon, so that operations run over midnight.
START_US = MONDAY + 20 * HOUR
LENGTH_US = 16 * HOUR

_CONTROLLER, _SAMPLER = "ctl-0", "sampler-0"
_GROW = ("PRECHECK", "SEED", "READ_UP", "ASSIGN", "WRITE_UP", "WATCH")
_SHRINK = ("PRECHECK", "WRITE_DOWN", "QUIESCE", "DRAIN", "CONFIRM", "READ_DOWN", "WATCH")
_DECISIONS = ("kept", "proposed", "approved", "dismissed", "resized", "refused")
_FINDINGS = ("clients_without_queue", "writes_near_limit", None)


def resizes_of(seed: int) -> tuple[Plan, History]:
    """Return a plan of one controller and one sampler, and what they record."""
    random = Random(f"plain resizes {seed}")
    plants = [plant for number in range(3) for plant in _topic(random, f"topic-{number}")]
    plan = Plan(
        start_us=START_US, end_us=START_US + LENGTH_US, seed=seed, servers=tuple(_servers(random)), brokers=()
    ).with_plants(*plants)
    return plan, generate(plan)


def _servers(random: Random) -> Iterator[Server]:
    at_us = START_US + random.randrange(HOUR, LENGTH_US - 2 * HOUR)
    away = (at_us, at_us + random.randrange(MINUTE, HOUR))
    yield Server(
        name=_CONTROLLER,
        source="controller",
        downtimes=(Downtime(*away),) if random.random() < 0.3 else (),
        pauses=(Pause(*away),) if random.random() < 0.3 else (),
    )
    yield Server(name=_SAMPLER, source="sampler", pauses=(Pause(*away),) if random.random() < 0.5 else ())


def _topic(random: Random, topic: str) -> Iterator[Plant]:
    clusters = random.choice((("east",), ("east",), ("east", "west")))
    at_us = START_US + random.randrange(2 * HOUR)
    while at_us < START_US + LENGTH_US:
        one = _resize(random, topic, clusters, at_us)
        yield one
        ended_us = one.truth["resizes"][0].phases[-1][0]
        at_us = ended_us + random.randrange(5 * MINUTE, 4 * HOUR)
    yield Plant(happenings=tuple(_samples(random, topic, clusters)))
    times = sorted(random.randrange(START_US, START_US + LENGTH_US) for _ in range(random.randrange(12)))
    yield scaling_decisions(
        _CONTROLLER, topic, [(each, random.choice(_DECISIONS), random.choice(_FINDINGS)) for each in times]
    )


def _resize(random: Random, topic: str, clusters: tuple[str, ...], at_us: int) -> Plant:
    grows = random.random() < 0.5
    steps = list(_GROW if grows else _SHRINK)
    if not grows and random.random() < 0.3:
        steps += ["REOPEN", "WRITE_DOWN", "DRAIN", "CONFIRM", "READ_DOWN", "WATCH"]
    if random.random() < 0.3:
        steps[3:3] = ["BLOCKED", steps[2]]
    end = random.choice(("DONE", "DONE", "DONE", "ABORTED", "REJECTED"))
    steps = [*(steps if end == "DONE" else steps[: random.randrange(1, len(steps))]), end]
    longest_us = random.choice((MINUTE, 10 * MINUTE, 2 * HOUR))
    phases = [(step, random.randrange(SECOND, longest_us) // MS * MS) for step in ("PLANNED", *steps)]
    queues = random.choice((2, 4, 8))
    target = queues * 2 if grows else queues // 2
    sets = {f"broker-{number}": (random.choice(clusters), queues, target) for number in range(random.randint(1, 3))}
    values = {"problem": "readers does not consume"} if random.random() < 0.3 else {}
    kind = "grow" if grows else "shrink"
    return resize(_CONTROLLER, topic, at_us, phases, sets=sets, kind=kind, requested_by="an operator", **values)


def _samples(random: Random, topic: str, clusters: tuple[str, ...]) -> Iterator[PlannedEvent]:
    """Yield a row each minute for the topic and each of its groups; some are missing, and some know no offset."""
    end, usual = 0, random.choice((10.0, 800.0))
    has_own_rate = random.random() < 0.8
    away_us = START_US + random.randrange(LENGTH_US)
    for at_us in range(START_US + random.randrange(MINUTE), START_US + LENGTH_US, MINUTE):
        if random.random() < 0.05 or away_us <= at_us < away_us + HOUR:
            continue
        tps = random.choice((usual * random.uniform(0.5, 1.5), usual, None))
        end += int((tps or 0) * 60)
        for cluster in clusters:
            values = {"cluster": cluster, "topic": topic, "max_offset": end, "tps": tps}
            if has_own_rate:
                yield PlannedEvent(at_us, _SAMPLER, "offset_sample", "sample", values)
            for group in ("readers", "auditors"):
                lag = random.choice((None, 0, -5, random.randrange(100_000)))
                offset = None if lag is None else end - lag
                more = {"group": group, "consumer_offset": offset, "consumers": random.choice((None, 4, 8))}
                yield PlannedEvent(at_us, _SAMPLER, "offset_sample", "sample", values | more)
