"""Which queues to move from full to empty broker sets: the one plan that needs a loop, so it is plain Python.

One queue moves at a time, from the set with the most load to that with the least, and only if both are better off than
the fuller one was; so no move makes the fullest set fuller.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

#: The fullest set may have so much more than the mean.
RATIO_MAX: Final = 1.2

#: So many queues are moved in one plan; the next run plans on.
MOVES_MAX: Final = 200


class QueueMove(NamedTuple):
    """One write queue of a topic goes from one set to another."""

    topic: str
    source: str
    target: str


@dataclass(slots=True)
class Placement:
    """The load of each set of a cluster, and the queues that make it."""

    #: Set -> its load: queues, or messages a second.
    loads: dict[str, float]
    #: Set -> topic -> write queues there.
    queues: dict[str, dict[str, int]]
    #: Topic -> load that one of its queues brings.
    weights: Mapping[str, float]

    @property
    def ratio(self) -> float:
        """The load of the fullest set, as a multiple of the mean; 1 if there is none."""
        total = sum(self.loads.values())
        return max(self.loads.values()) * len(self.loads) / total if total > 0 else 1.0

    def apply(self, move: QueueMove) -> None:
        """Have one queue moved."""
        weight = self.weights[move.topic]
        self.loads[move.source] -= weight
        self.loads[move.target] += weight
        self.queues[move.source][move.topic] -= 1
        held = self.queues.setdefault(move.target, {})
        held[move.topic] = held.get(move.topic, 0) + 1


def next_move(placement: Placement) -> QueueMove | None:
    """Return the move that evens out the fullest and the emptiest set best; None while there is none.

    A topic keeps one queue wherever it has any: to take its last one away is another decision.
    """
    loads = placement.loads
    source = max(sorted(loads), key=loads.__getitem__)
    target = min(sorted(loads), key=loads.__getitem__)
    # A move that only swaps the two would go on for ever, and sums of fractions are not exact.
    gap = (loads[source] - loads[target]) * (1 - 1e-9)
    there = placement.queues.get(target, {})
    best: tuple[float, int, str] | None = None
    for topic, queues in placement.queues.get(source, {}).items():
        weight = placement.weights[topic]
        if queues > 1 and 0 < weight < gap:
            # Half the gap would make both equal; of like topics the one that lies most unevenly goes first.
            found = (abs(gap / 2 - weight), there.get(topic, 0) - queues, topic)
            best = found if best is None else min(best, found)
    return None if best is None else QueueMove(best[2], source, target)


def plan(placement: Placement) -> list[QueueMove]:
    """Return the moves, in order, that bring the fullest set down to RATIO_MAX; the placement is moved along."""
    moves: list[QueueMove] = []
    while len(moves) < MOVES_MAX and placement.ratio > RATIO_MAX:
        move = next_move(placement)
        if move is None:
            break
        placement.apply(move)
        moves.append(move)
    return moves
