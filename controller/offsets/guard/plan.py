"""Which messages have to be looked at before the offsets of a broker can be decided. Pure.

A look proves something for all groups of its queue, so each queue is looked at for the highest offset that matters.
Most queues need one look. Those of different queues do not depend on each other.

Once the tail is known to be lost it matters where late messages begin, if any were stored.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from controller.offsets.guard.boundaries import Boundary
from controller.offsets.guard.lost_tail import LostTail
from controller.offsets.guard.queue_view import QueueLook, QueueView, first_view
from controller.offsets.guard.rules import (
    GuardDecision,
    LogFacts,
    OffsetCandidate,
    OffsetKeeping,
    Tail,
    decide,
    matters,
)

#: A search in the longest queue takes twice 63 looks; of more, the broker contradicts itself.
LOOKS_PER_QUEUE_MAX: Final = 130
#: At the same time: a broker can have 100,000 queues.
ROUND_LOOKS_MAX: Final = 500


class MessageLook(NamedTuple):
    """A message to look at."""

    topic: str
    queue_id: int
    offset: int

    @property
    def queue(self) -> tuple[str, int]:
        """The topic and the queue id."""
        return self.topic, self.queue_id


class GuardPlan:
    """The candidates of one broker, and what its queues have shown so far."""

    def __init__(self, boundary: Boundary, facts: LogFacts) -> None:
        self._candidates: list[OffsetCandidate] = []
        self._boundary = boundary
        # Nothing of a store that was emptied is left.
        self._given = replace(facts, tail=Tail.LOST) if facts.is_emptied else facts
        self._facts_if_lost = replace(facts, tail=Tail.LOST)
        self._lost_tail = LostTail(boundary, facts.has_saved_log)
        #: By queue, the highest offset that matters; of queues that still have to be looked at.
        self._open: dict[tuple[str, int], int] = {}
        #: Those of them without a look under way.
        self._waiting: deque[tuple[str, int]] = deque()
        #: By queue, the highest offset that matters once the tail is proved to be lost.
        self._if_lost: dict[tuple[str, int], int] = {}
        #: By queue, the highest offset that was saved.
        self._saved: dict[tuple[str, int], int] = {}
        self._views: dict[tuple[str, int], QueueView] = {}
        #: What the first look at each queue has shown, at the highest offset that matters.
        self.first_looks: dict[MessageLook, QueueLook] = {}
        self._looks: dict[tuple[str, int], int] = {}
        #: Queues of which the broker was requested where late messages begin.
        self._hinted: set[tuple[str, int]] = set()

    @property
    def is_complete(self) -> bool:
        """Whether all is decided that looks can decide."""
        return not self._open

    @property
    def _facts(self) -> LogFacts:
        return self._facts_if_lost if self._lost_tail.is_proved else self._given

    def add(self, candidate: OffsetCandidate) -> None:
        """Take a candidate; all are to be added before the first look."""
        self._candidates.append(candidate)
        queue = candidate.queue
        if highest := matters(candidate, self._facts):
            self._open_queue(queue, highest)
        if highest := matters(candidate, self._facts_if_lost):
            self._if_lost[queue] = max(highest, self._if_lost.get(queue, 0))
            self._saved[queue] = max(candidate.saved or 0, self._saved.get(queue, 0))

    def looks(self, count: int = ROUND_LOOKS_MAX) -> list[MessageLook]:
        """Return so many looks that may be done at the same time; each is to be answered by one call below.

        None of queues with a look under way. None may be left although the plan is not complete.
        """
        found = list[MessageLook]()
        while self._waiting and len(found) < count:
            queue = self._waiting.popleft()
            view, highest = self._views.get(queue), self._open[queue]
            offset = highest - 1 if view is None else self._next_look(view, highest)
            if offset is None or self._looks.get(queue, 0) >= LOOKS_PER_QUEUE_MAX:
                del self._open[queue]
            else:
                self._looks[queue] = self._looks.get(queue, 0) + 1
                found.append(MessageLook(*queue, offset))
        return found

    @property
    def needs_store_time(self) -> bool:
        """Whether a look needs the store time of its message."""
        return self._boundary.needs_store_time

    def hint_ms(self, look: MessageLook) -> int | None:
        """Return since when messages are late (Unix ms) if the broker is to be requested where they begin first.

        Once for a queue, and only where that saves looks: `hinted` takes the answer.
        """
        if not self._facts.sends_back or look.queue not in self._views or look.queue in self._hinted:
            return None
        return self._boundary.late_since_ms

    def hinted(self, look: MessageLook, offset: int | None) -> MessageLook:
        """Take where the broker finds the first late message of a queue, and return the look that is to be done now.

        It proves nothing by itself. None: the broker refuses to search.
        """
        self._hinted.add(look.queue)
        view = self._views[look.queue].hinted(offset)
        self._views[look.queue] = view
        wanted = self._next_look(view, look.offset + 1)
        return look if wanted is None else look._replace(offset=wanted)

    def looked(self, look: MessageLook, found: QueueLook) -> None:
        """Take what a look has shown."""
        view = self._views.get(look.queue)
        if view is None:
            view = first_view(look.offset, found, self._boundary)
            self.first_looks[look] = found
        else:
            view = view.looked(look.offset, found, self._boundary)
        self._views[look.queue] = view
        self._waiting.appendleft(look.queue)
        was_lost = self._lost_tail.is_proved
        self._lost_tail.looked(found.message, self._saved[look.queue], view)
        if self._lost_tail.is_proved and not was_lost:
            # More matters now, and more of what was looked at.
            for queue, highest in self._if_lost.items():
                self._open_queue(queue, highest)

    def unreadable(self, look: MessageLook) -> None:
        """Look no more at a queue that the broker refuses to read; what matters in it is reported."""
        self._open.pop(look.queue, None)
        self._if_lost.pop(look.queue, None)

    def decisions(self) -> Iterator[tuple[OffsetCandidate, GuardDecision]]:
        """Yield what is done with each candidate."""
        for each in self._candidates:
            yield each, decide(each, self._view(each), self._facts)

    def if_pulling(self, candidate: OffsetCandidate) -> GuardDecision:
        """Return what is to be done with a candidate if its members turn out to pull."""
        pulling = replace(candidate, keeping=OffsetKeeping.CLUSTERING)
        return decide(pulling, self._view(candidate), self._facts)

    def _view(self, candidate: OffsetCandidate) -> QueueView | None:
        """Return what is proved of a queue; None of one that was not looked at, or not to the end."""
        view, highest = self._views.get(candidate.queue), self._open.get(candidate.queue, 0)
        return None if view is None or self._next_look(view, highest) is not None else view

    def _next_look(self, view: QueueView, highest: int) -> int | None:
        return view.next_look(highest, is_late_enough=not self._facts.sends_back)

    def _open_queue(self, queue: tuple[str, int], highest: int) -> None:
        if queue not in self._open:
            self._waiting.append(queue)
        self._open[queue] = max(highest, self._open.get(queue, 0))
