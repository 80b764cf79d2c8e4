"""A topic with a group, in simulated time: what comes in, who consumes how fast, and resizes that take a while.

Queues are given to consumers as Java's averaging strategy does. What a consumer can do is spread over its queues.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from controller.scaling.autoscaler.decision import KnownResizes, PastResize, ScalingVerdict
from controller.scaling.autoscaler.policies import PolicyMode, ScalingPolicy
from controller.scaling.autoscaler.readings import GroupReading, ReadingHistory, SetReading, TopicReading
from controller.scaling.autoscaler.signals import BrokerLoad
from controller.scaling.autoscaler.topic_watch import TopicWatch
from controller.scaling.resize.observation import GroupKind

#: Monday, 2026-03-02 00:00 UTC.
MONDAY_MS = 1_772_409_600_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

AUTO = ScalingPolicy(topic="orders", queues_min=4, queues_max=64, mode=PolicyMode.AUTO)


def averaged(queues: int, consumers: int, consumer: int) -> range:
    """The queues of a consumer: one after the other, the first consumers get one more."""
    share, more = divmod(queues, consumers)
    first = consumer * share + min(consumer, more)
    return range(first, first + share + (consumer < more))


@dataclass
class SimulatedTopic:
    """One topic on one broker set, one group; rates are functions of the ms since the start."""

    put_tps: Callable[[int], float]
    consumers: Callable[[int], int]
    consumer_tps: float = 100.0
    queues: int = 4
    kind: GroupKind = GroupKind.CONCURRENT
    #: By queue: how much more than others it gets.
    weights: Callable[[int], Sequence[float]] = lambda count: [1.0] * count
    load: BrokerLoad = field(default_factory=BrokerLoad)
    ends: list[float] = field(default_factory=list)
    offsets: list[float] = field(default_factory=list)
    #: What had come into each queue by when, from the oldest message on that is not consumed.
    _history: deque[tuple[int, list[float]]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.resize(self.queues)

    def resize(self, queues: int) -> None:
        self.queues = queues
        missing = max(0, queues - len(self.ends))
        self.ends += [0.0] * missing
        self.offsets += [0.0] * missing

    def advance(self, at_ms: int, elapsed_ms: int) -> None:
        seconds, weights = elapsed_ms / 1000, self.weights(self.queues)
        come_in = self.put_tps(at_ms) * seconds / sum(weights)
        for queue_id, weight in enumerate(weights):
            self.ends[queue_id] += come_in * weight
        consumers = self.consumers(at_ms)
        for consumer in range(min(consumers, self.queues)):
            self._consume(averaged(self.queues, consumers, consumer), self.consumer_tps * seconds)
        self._history.append((at_ms, list(self.ends)))
        self._forget()

    def _consume(self, mine: Sequence[int], can_do: float) -> None:
        for position, queue_id in enumerate(sorted(mine, key=lambda each: self.ends[each] - self.offsets[each])):
            done = min(self.ends[queue_id] - self.offsets[queue_id], can_do / (len(mine) - position))
            self.offsets[queue_id] += done
            can_do -= done

    def lag(self) -> float:
        return sum(self.ends) - sum(self.offsets)

    def _forget(self) -> None:
        """Leave out the moments at which all that had come in is consumed by now."""
        while all(end <= offset + 0.5 for end, offset in zip(self._history[0][1], self.offsets, strict=False)):
            self._history.popleft()
            if not self._history:
                return

    def behind_ms(self, at_ms: int) -> float:
        """How long ago the oldest message came in that is not consumed."""
        return at_ms - self._history[0][0] if self._history else 0.0

    def reading(self, at_ms: int) -> TopicReading:
        clients = frozenset(f"client-{each}" for each in range(self.consumers(at_ms)))
        group = GroupReading(
            kind=self.kind,
            clients=clients,
            holders=frozenset(f"client-{each}" for each in range(min(len(clients), self.queues))),
            offsets={"broker-a": tuple(map(int, self.offsets))},
        )
        ends = SetReading(
            read_queues=self.queues, write_queues=self.queues, max_offsets=tuple(map(int, self.ends)), load=self.load
        )
        return TopicReading(
            topic="orders",
            unix_ms=MONDAY_MS + at_ms,
            sets={"broker-a": ends},
            groups={"billing": group},
            is_ordered=False,
            is_static=False,
        )


@dataclass
class Run:
    """A topic under a policy; `auto` is carried out, after the time that a resize takes."""

    topic: SimulatedTopic
    policy: ScalingPolicy = AUTO
    grow_ms: int = 90_000
    #: What the autoscaler gets to see of a reading.
    seen: Callable[[TopicReading], TopicReading] = lambda reading: reading
    verdicts: list[ScalingVerdict] = field(default_factory=list)
    resizes: list[PastResize] = field(default_factory=list)
    #: At which ms since the start how far behind the group was.
    behind: dict[int, float] = field(default_factory=dict)

    def play(self, duration_ms: int, *, step_ms: int = 1000, interval_ms: int = 15_000) -> "Run":
        history, watch = ReadingHistory(), TopicWatch()
        for at_ms in range(0, duration_ms, step_ms):
            self.topic.advance(at_ms, step_ms)
            self._end_resize(at_ms)
            if at_ms % interval_ms == 0:
                self.behind[at_ms] = self.topic.behind_ms(at_ms)
                signals = history.add(self.seen(self.topic.reading(at_ms)))
                self._take(watch.evaluate(signals, self.policy, KnownResizes(tuple(self.resizes[-16:]))))
        return self

    def _take(self, verdict: ScalingVerdict) -> None:
        self.verdicts.append(verdict)
        if verdict.is_change and verdict.mode is PolicyMode.AUTO:
            self.resizes.append(PastResize(verdict.unix_ms, None, self.topic.queues, verdict.target))

    def _end_resize(self, at_ms: int) -> None:
        if self.resizes and self.resizes[-1].ended_unix_ms is None:
            last, now_ms = self.resizes[-1], MONDAY_MS + at_ms
            if now_ms >= last.begun_unix_ms + self.grow_ms:
                self.resizes[-1] = last._replace(ended_unix_ms=now_ms)
                self.topic.resize(last.after)

    @property
    def reasons(self) -> str:
        return "\n".join(sorted({verdict.reason for verdict in self.verdicts}))

    @property
    def counts(self) -> list[tuple[int, int]]:
        return [(each.before, each.after) for each in self.resizes]


def without_groups_clients(reading: TopicReading) -> TopicReading:
    groups = {name: replace(group, clients=None, holders=None) for name, group in reading.groups.items()}
    return replace(reading, groups=groups)
