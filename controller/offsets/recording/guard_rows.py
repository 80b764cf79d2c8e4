"""Rows about one run of the guard: sums by group and topic, added up while it runs, and one of the run itself. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from controller.offsets.guard.outcomes import Guarded, GuardReport, Outcome
from controller.offsets.guard.rules import Action
from controller.offsets.mirror.masters import SetName
from controller.offsets.recording.offset_rows import TEXT_MAX, OffsetRow
from history.offset_families import GUARD_OUTCOME
from history.rows import BrokerRef

#: The broker shows what was decided, as far as the guard can tell: a client that is online may overwrite NOT_RESET.
_STORED: Final = frozenset({Outcome.STORED, Outcome.NOT_RESET})
#: Nothing was to be written, or it was out of date.
_LEFT: Final = frozenset({Outcome.NOTHING, Outcome.MOVED_ON, Outcome.RESET_PENDING, Outcome.ROLE_CHANGED})
#: Reasons that a row names, the most frequent ones.
_REASONS_MAX: Final = 20


@dataclass(slots=True)
class _Sums:
    """What became of the queues of one group in one topic."""

    places: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    spared: int = 0
    at_risk: int = 0

    def add(self, guarded: Guarded) -> None:
        place = _place_of(guarded)
        self.places[place] += 1
        self.reasons[f"{guarded.decision.action.value} {guarded.decision.reason.value}"] += 1
        shown = guarded.candidate.shown or 0
        if place == "pushed":
            self.spared += max(0, (guarded.decision.offset or 0) - shown)
        elif place in ("reported", "failed"):
            self.at_risk += max(0, (guarded.candidate.saved or 0) - shown)

    def columns(self) -> dict[str, object]:
        places = ("pushed", "set_to_max", "left", "reported", "failed")
        reasons = [f"{reason} {count}" for reason, count in self.reasons.most_common(_REASONS_MAX)]
        return {
            "queues": self.places.total(),
            **{place: self.places[place] for place in places},
            "messages_spared": self.spared,
            "messages_at_risk": self.at_risk,
            "reasons": reasons,
        }


def _place_of(guarded: Guarded) -> str:
    """Return the column that counts a queue; each queue is in one of them."""
    action, outcome = guarded.decision.action, guarded.outcome
    if action is Action.REPORT or outcome is Outcome.WITHHELD:
        return "reported"
    if action is Action.LEAVE or outcome in _LEFT:
        return "left"
    if outcome not in _STORED:
        return "failed"
    return "pushed" if action is Action.PUSH else "set_to_max"


class GuardRunRows:
    """Adds up one run at one set; a GuardObserver."""

    def __init__(self, set_name: SetName, address: str, master_epoch: int | None) -> None:
        self._broker = BrokerRef(set_name.cluster or None, set_name.broker_name, broker_addr=address)
        self._master_epoch = master_epoch
        self._groups: dict[tuple[str, str], _Sums] = {}
        self._run = _Sums()

    def guarded(self, broker_name: str, guarded: Guarded) -> None:  # noqa: ARG002  # a run has one broker
        """Add one offset."""
        candidate = guarded.candidate
        self._groups.setdefault((candidate.group, candidate.topic), _Sums()).add(guarded)
        self._run.add(guarded)

    def rows(self, report: GuardReport) -> Iterator[OffsetRow]:
        """Yield a row for each group and topic, and one for the run, once it is over."""
        epoch = {"master_epoch": self._master_epoch}
        for (group, topic), sums in self._groups.items():
            columns = {"group": group, "topic": topic, **epoch, **sums.columns()}
            yield OffsetRow(GUARD_OUTCOME, "guarded", self._broker, columns)
        problem = report.failure[:TEXT_MAX] if report.failure else None
        columns = {**epoch, **self._run.columns(), "duration_ms": report.took_ms, "problem": problem}
        yield OffsetRow(GUARD_OUTCOME, "run", self._broker, columns)
