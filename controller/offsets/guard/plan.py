"""Which messages have to be looked at before the offsets of a broker can be decided, in rounds. Pure.

A look proves something for all groups of its queue, so each queue is looked at for the highest offset that matters.
Most queues need one look. The looks of a round do not depend on each other.

A broker has one log for all its queues. So one queue in which a saved offset lies behind the max at the promotion, or
behind a new message, proves for all of them that the tail is lost. Then it matters where late messages begin. But where
all that the old master had when its table was read is in this log, such an offset lay behind the end of its queue there
too: some client has committed it, or its topic was made anew.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from controller.offsets.guard.boundaries import Boundary
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
#: Of one round: others run between two rounds, and a broker can have 100,000 queues.
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
        self._facts = replace(facts, tail=Tail.LOST) if facts.is_emptied else facts
        self._facts_if_lost = replace(facts, tail=Tail.LOST)
        #: By queue, the highest offset that matters; of queues that still have to be looked at.
        self._open: dict[tuple[str, int], int] = {}
        #: By queue, the highest offset that matters once the tail is proved to be lost.
        self._if_lost: dict[tuple[str, int], int] = {}
        #: By queue, the highest offset that was saved.
        self._saved: dict[tuple[str, int], int] = {}
        self._views: dict[tuple[str, int], QueueView] = {}
        self._looks: dict[tuple[str, int], int] = {}

    @property
    def is_complete(self) -> bool:
        """Whether all is decided that looks can decide."""
        return not self._open

    def add(self, candidate: OffsetCandidate) -> None:
        """Take a candidate; all are to be added before the first round."""
        self._candidates.append(candidate)
        queue = candidate.queue
        if highest := matters(candidate, self._facts):
            self._open[queue] = max(highest, self._open.get(queue, 0))
        if highest := matters(candidate, self._facts_if_lost):
            self._if_lost[queue] = max(highest, self._if_lost.get(queue, 0))
            self._saved[queue] = max(candidate.saved or 0, self._saved.get(queue, 0))

    def looks(self) -> list[MessageLook]:
        """Return the looks of the next round, ROUND_LOOKS_MAX at most; each is to be answered by one call below.

        None may be left although the plan is not complete.
        """
        found = []
        is_late_enough = not self._facts.sends_back
        for queue, highest in list(islice(self._open.items(), ROUND_LOOKS_MAX)):
            view = self._views.get(queue)
            offset = highest - 1 if view is None else view.next_look(highest, is_late_enough=is_late_enough)
            if offset is None or self._looks.get(queue, 0) >= LOOKS_PER_QUEUE_MAX:
                del self._open[queue]
            else:
                self._looks[queue] = self._looks.get(queue, 0) + 1
                found.append(MessageLook(*queue, offset))
        return found

    def looked(self, look: MessageLook, found: QueueLook) -> None:
        """Take what a look has shown."""
        view = self._views.get(look.queue)
        if view is None:
            view = first_view(look.offset, found, self._boundary)
        else:
            view = view.looked(look.offset, found, self._boundary)
        self._views[look.queue] = view
        # A queue without any message is most often that of a topic that was deleted.
        if view.max_offset and not self._facts.has_saved_log and _is_behind_old(self._saved[look.queue], view):
            self._take_tail_for_lost()

    def unreadable(self, look: MessageLook) -> None:
        """Look no more at a queue that the broker refuses to read; what matters in it is reported."""
        self._open.pop(look.queue, None)
        self._if_lost.pop(look.queue, None)

    def decisions(self) -> Iterator[tuple[OffsetCandidate, GuardDecision]]:
        """Yield what is done with each candidate."""
        for each in self._candidates:
            yield each, decide(each, self._views.get(each.queue), self._facts)

    def if_pulling(self, candidate: OffsetCandidate) -> GuardDecision:
        """Return what is to be done with a candidate if its members turn out to pull."""
        pulling = replace(candidate, keeping=OffsetKeeping.CLUSTERING)
        return decide(pulling, self._views.get(candidate.queue), self._facts)

    def _take_tail_for_lost(self) -> None:
        if self._facts.tail is Tail.LOST:
            return
        # More matters now, and more of what was looked at.
        self._open |= self._if_lost
        self._facts = self._facts_if_lost


def _is_behind_old(saved: int, view: QueueView) -> bool:
    """Return whether an offset lies behind messages that nobody had read when it was committed, or behind the end."""
    if view.is_new_seen:
        return saved > view.new_from
    return view.end_of_old is not None and saved > view.end_of_old
