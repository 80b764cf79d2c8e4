"""What groups got of what was sent around failovers: twice, skipped, out of order, by two clients at a time. Pure.

Records are those of `tests/peers/delivery.py`, added in the order in which they were recorded. A run has more than a
million messages, so each takes a byte for each group, and records are kept for one event only: the window.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from peers.delivery import NO_KEY, Acknowledged, Consumed

#: Broker name and queue id.
Queue = tuple[str, int]
#: A message is counted so often at most.
_TIMES_MAX = 255
#: Room is made for so many numbers more at a time.
_ROOM = 4096


class MessageCounts:
    """How often each message occurred. Messages have ids NAME:NUMBER."""

    def __init__(self) -> None:
        #: By the name, how often each number occurred.
        self.numbers_of: dict[str, bytearray] = defaultdict(bytearray)
        #: How many different ones there are.
        self.total = 0

    def add(self, message: str) -> int:
        """Count a message, and return how often it occurred before, 255 at most."""
        name, _, number = message.rpartition(":")
        times, index = self.numbers_of[name], int(number)
        if index >= len(times):
            times.extend(bytes(index + _ROOM - len(times)))
        before = times[index]
        times[index] = min(before + 1, _TIMES_MAX)
        self.total += not before
        return before

    def __contains__(self, message: str) -> bool:
        """Return whether a message occurred."""
        name, _, number = message.rpartition(":")
        times = self.numbers_of.get(name, b"")
        return int(number) < len(times) and times[int(number)] > 0

    def missing_in(self, other: "MessageCounts") -> int:
        """Return how many messages occurred here and not in the other."""
        return sum(
            each > 0 and not (index < len(there) and there[index])
            for name, times in self.numbers_of.items()
            for there in [other.numbers_of.get(name, b"")]
            for index, each in enumerate(times)
        )


@dataclass
class Window:
    """What a group got since the window began."""

    consumed: list[Consumed] = field(default_factory=list)
    #: By queue, the deliveries of what the group had got before, at whatever time.
    repeated: Counter[Queue] = field(default_factory=Counter)
    #: Messages that came for the first time after a later one of the same key.
    inversions: int = 0

    def shared(self) -> set[Queue]:
        """Return the queues that two clients had at a time: one got messages, another one did, and the first again."""
        readers: dict[Queue, list[str]] = defaultdict(list)
        for each in self.consumed:
            had = readers[each.broker_name, each.queue]
            if not had or had[-1] != each.client:
                had.append(each.client)
        return {queue for queue, had in readers.items() if len(set(had)) < len(had)}


class GroupDeliveries:
    """What one group got since its start, and since its window began."""

    def __init__(self) -> None:
        self.received = MessageCounts()
        self.inversions = 0
        self.repeated = 0
        self.window = Window()
        self._latest: dict[str, int] = {}

    def begin_window(self) -> None:
        """Let a window begin here."""
        self.window = Window()

    def add(self, consumed: Iterable[Consumed]) -> None:
        """Add deliveries in their order."""
        for each in consumed:
            self.window.consumed.append(each)
            if self.received.add(each.message):
                self.repeated += 1
                self.window.repeated[each.broker_name, each.queue] += 1
            elif each.key != NO_KEY:
                latest = self._latest.get(each.key, -1)
                self.inversions += each.number < latest
                self.window.inversions += each.number < latest
                self._latest[each.key] = max(each.number, latest)


def rates(acknowledged: Iterable[Acknowledged], *, until_ms: int, seconds: float) -> dict[Queue, float]:
    """Return how many messages a second each queue got in the time before a moment."""
    from_ms = until_ms - seconds * 1000
    counts = Counter((each.broker_name, each.queue) for each in acknowledged if from_ms <= each.unix_ms < until_ms)
    return {queue: count / seconds for queue, count in counts.items()}


def seconds_of_traffic(repeated: Mapping[Queue, int], queue_rates: Mapping[Queue, float]) -> float:
    """Return what came again as seconds of traffic, of the queue where these are most; infinite where nothing came."""
    return max(
        (count / queue_rates[queue] if queue_rates.get(queue) else math.inf for queue, count in repeated.items()),
        default=0.0,
    )


def went_on_ms(
    acknowledged: Iterable[Acknowledged], consumed: Iterable[Consumed], *, after_ms: int
) -> dict[Queue, int]:
    """Return by queue when the first message was consumed that was acknowledged after a moment; Unix ms."""
    later = {each.message for each in acknowledged if each.unix_ms > after_ms}
    found: dict[Queue, int] = {}
    for each in consumed:
        if each.message in later:
            found.setdefault((each.broker_name, each.queue), each.unix_ms)
    return found


@dataclass(frozen=True)
class Delivered:
    """What became of all messages for one group."""

    stored: int
    #: Can be read, and never came.
    skipped: int
    #: Acknowledged, and cannot be read.
    lost: int


def delivered(acknowledged: MessageCounts, stored: Iterable[str], received: MessageCounts) -> Delivered:
    """Judge what a group got of the messages that can be read, acknowledged or not."""
    readable = MessageCounts()
    for each in stored:
        readable.add(each)
    return Delivered(
        stored=readable.total,
        skipped=readable.missing_in(received),
        lost=acknowledged.missing_in(readable),
    )
