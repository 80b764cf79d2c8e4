"""What waits to be written: filled by the event loop, emptied by the recorder's thread, limited in length.

State changes have a queue of their own, so that a flood of heartbeats cannot push them out. What finds its queue full
is dropped and counted; the counts say since when something is missing.
"""

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeVar

from history.heartbeats import HeartbeatSummary, SingleHeartbeat
from history.rows import Moment, Recordable

STATES_MAX: Final = 20_000
HEARTBEATS_MAX: Final = 100_000
#: The state changes that wait hold at most this many topics: a disk that hangs must not fill the memory.
TOPICS_MAX: Final = 1_000_000
#: What was dropped; also the values of the metric's label.
STATE, HEARTBEAT = "state", "heartbeat"
_Item = TypeVar("_Item")


class Dropped(NamedTuple):
    """So many events of one kind are missing, and since when."""

    events: int
    from_us: int


class StateChange(NamedTuple):
    """A change of state that waits."""

    moment: Moment
    event: Recordable
    #: It holds values of so many topics.
    topics: int


class EventQueue:
    """State changes and heartbeats that are not written yet."""

    def __init__(self, dropped: "Counter[str]") -> None:
        """Take the counter of dropped events, by `state` or `heartbeat`."""
        self._dropped_total = dropped
        self.states: deque[StateChange] = deque()
        self.heartbeats: deque[SingleHeartbeat | HeartbeatSummary] = deque()
        #: Topics of state changes that were enqueued, and of those that became rows and hold no more memory: each is
        #: counted by one thread.
        self._topics_enqueued = self.topics_written = 0
        #: Dropped since the last report, by kind; both threads drop events.
        self._dropped: dict[str, Dropped] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.states) + len(self.heartbeats)

    def put(self, moment: Moment, event: Recordable, topics: int) -> None:
        """Append a state change, which holds values of so many topics."""
        held = self._topics_enqueued - self.topics_written
        if len(self.states) >= STATES_MAX or (held and topics and held + topics > TOPICS_MAX):
            self.drop(STATE, moment.unix_us)
            return
        self._topics_enqueued += topics
        self.states.append(StateChange(moment, event, topics))

    def put_heartbeat(self, heartbeat: SingleHeartbeat | HeartbeatSummary) -> None:
        if len(self.heartbeats) >= HEARTBEATS_MAX:
            self.drop(HEARTBEAT, heartbeat.moment.unix_us)
            return
        self.heartbeats.append(heartbeat)

    def drop(self, kind: str, unix_us: int, events: int = 1) -> None:
        """Count events that are lost since a time; the thread reports them as soon as it writes again."""
        with self._lock:
            before = self._dropped.get(kind, Dropped(0, unix_us))
            self._dropped[kind] = Dropped(before.events + events, min(before.from_us, unix_us))
            self._dropped_total[kind] += events

    @property
    def has_dropped(self) -> bool:
        return bool(self._dropped)

    def take_dropped(self) -> dict[str, Dropped]:
        with self._lock:
            dropped, self._dropped = self._dropped, {}
        return dropped


def taken(queue: "deque[_Item]", most: int) -> Iterable[_Item]:
    """Yield the oldest items of a queue, and remove them."""
    with contextlib.suppress(IndexError):
        for _ in range(most):
            yield queue.popleft()
