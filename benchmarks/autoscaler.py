"""Measures what the autoscaler's rules take: processor time per topic, and memory; prints a table.

    python benchmarks/autoscaler.py

Goals: 10,000 idle topics take less than 3 % of a core, 1,000 topics with traffic less than 10 %, each looked at every
15 s. Only the rules are measured: what brokers answer is made beforehand.
"""

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from controller.scaling.autoscaler.policies import PolicyTable, ScalingPolicy
from controller.scaling.autoscaler.readings import GroupReading, ReadingHistory, SetReading, TopicReading
from controller.scaling.autoscaler.topic_watch import TopicWatch
from controller.scaling.resize.observation import GroupKind

INTERVAL_MS = 15_000
ROUNDS = 12
MONDAY_MS = 1_772_409_600_000
SETS = ("broker-a", "broker-b")
QUEUES = 8
GROUPS = ("billing", "stock", "audit")
POLICIES = PolicyTable(
    [*(ScalingPolicy(topic=f"other-{each}-*") for each in range(999)), ScalingPolicy(topic="topic-*")]
)


class Case(NamedTuple):
    """How many topics, and what happens in them."""

    name: str
    topics: int
    #: Messages that come into each queue in an interval.
    come_in: int
    #: Of a hundred of these, how many are consumed.
    consumed: int
    goal_percent: float


CASES = (
    Case("10,000 idle topics", 10_000, 0, 100, 3.0),
    Case("1,000 topics, groups keep up", 1_000, 1_500, 100, 10.0),
    Case("1,000 topics, every group behind", 1_000, 1_500, 60, 10.0),
)


def reading_of(case: Case, topic: str, number: int) -> TopicReading:
    """Return what brokers answer about a topic in one round; a new object each time, as off the wire."""
    end = number * case.come_in
    offset = end * case.consumed // 100
    clients = frozenset(f"client-{each}" for each in range(20))
    return TopicReading(
        topic=topic,
        unix_ms=MONDAY_MS + number * INTERVAL_MS,
        sets={name: SetReading(read_queues=8, write_queues=8, max_offsets=tuple([end] * QUEUES)) for name in SETS},
        groups={
            group: GroupReading(
                kind=GroupKind.CONCURRENT,
                clients=clients,
                holders=clients,
                offsets={name: tuple([offset] * QUEUES) for name in SETS},
            )
            for group in GROUPS
        },
        is_ordered=False,
        is_static=False,
    )


class Watched:
    """One topic as an autoscaler holds it."""

    def __init__(self) -> None:
        self._history, self._watch = ReadingHistory(), TopicWatch()

    def take(self, reading: TopicReading) -> None:
        """Evaluate one reading."""
        policy = POLICIES.policy_of(reading.topic)
        assert policy is not None
        self._watch.evaluate(self._history.add(reading), policy)


def evaluation_us(case: Case) -> float:
    """Return the processor time that one evaluation takes, once all that is held has its final size."""
    topics = [f"topic-{each}" for each in range(case.topics)]
    watched = {topic: Watched() for topic in topics}
    best = float("inf")
    for number in range(ROUNDS):
        readings = [reading_of(case, topic, number) for topic in topics]
        begun = time.process_time()
        for reading in readings:
            watched[reading.topic].take(reading)
        if number >= ROUNDS // 2:
            best = min(best, (time.process_time() - begun) / case.topics * 1e6)
    return best


def held_bytes(case: Case, count: int = 200) -> float:
    """Return what one topic takes in memory."""
    topics = [f"topic-{each}" for each in range(count)]
    gc.collect()
    tracemalloc.start()
    watched = {topic: Watched() for topic in topics}
    for number in range(ROUNDS):
        for topic in topics:
            watched[topic].take(reading_of(case, topic, number))
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / count


def main(measure: Callable[[Case], float] = evaluation_us) -> None:
    """Print a row for each case."""
    print("| work | evaluation | of a core, each 15 s | goal | held per topic |")
    print("|---|---|---|---|---|")
    for case in CASES:
        took_us = measure(case)
        percent = took_us * case.topics / (INTERVAL_MS * 1000) * 100
        held = held_bytes(case) / 1024
        print(f"| {case.name} | {took_us:.0f} us | {percent:.2f} % | {case.goal_percent:g} % | {held:.1f} KiB |")


if __name__ == "__main__":
    main()
