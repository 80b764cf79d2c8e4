"""What became of the decisions of the guard. Pure."""

import enum
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from controller.offsets.guard.rules import Action, GuardDecision, OffsetCandidate, Reason


class Outcome(enum.StrEnum):
    """What became of one decision."""

    #: Nothing was to be written.
    NOTHING = "nothing"
    #: The broker shows it.
    STORED = "stored"
    #: It was sent, and the broker was not read again: it may be stored or not.
    UNVERIFIED = "unverified"
    #: The group has committed meanwhile, or somebody has reset it, which is left.
    MOVED_ON = "moved_on"
    #: Stored by a plain commit, as the broker resets nothing by itself: a client that is online may overwrite it.
    NOT_RESET = "not_reset"
    #: Stored by a plain commit, and the reset that was to follow was not sent or is refused: the same.
    RESET_MISSING = "reset_missing"
    #: A client that is online has overwritten it with its own position.
    OVERWRITTEN = "overwritten"
    #: A reset that somebody else has requested waits for the group's next pull; it is left.
    RESET_PENDING = "reset_pending"
    #: The broker has refused it.
    REFUSED = "refused"
    #: The broker is not the master any more, so nothing was written.
    ROLE_CHANGED = "role_changed"
    #: The broker does not have it: the time was over before it was sent, or the broker was busy, or did not answer, or
    #: nobody listened there.
    NOT_REACHED = "not_reached"
    #: The guard only reports: nothing is sent to a broker.
    WITHHELD = "withheld"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """One offset, what was decided, and what became of it."""

    candidate: OffsetCandidate
    decision: GuardDecision
    outcome: Outcome
    #: What the broker refused with, or why it did not answer.
    detail: str = ""


class GuardObserver(Protocol):
    """Follows what the guard does, and knows what operators do meanwhile."""

    def is_reset_since(self, candidate: OffsetCandidate) -> bool:
        """Return whether an operator has reset a queue by this manager since the run began, or is about to."""

    def sets_back(self, candidate: OffsetCandidate, offset: int) -> None:
        """Take that an offset is about to be sent which may be lower than what a reading has shown.

        It may not arrive. Called more than once for a candidate.
        """

    def guarded(self, broker_name: str, guarded: Guarded) -> None:
        """Take one offset whose outcome is certain; called once for each candidate, in no order."""


@dataclass(slots=True, kw_only=True)
class GuardReport:
    """One run at one broker."""

    broker_name: str
    address: str
    decisions: Counter[tuple[Action, Reason]] = field(default_factory=Counter)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    #: Why nothing, or not all, was decided or written; None: all was.
    failure: str | None = None
    took_ms: int = 0

    @property
    def is_incomplete(self) -> bool:
        """Whether another run at the same broker may do more."""
        return self.failure is not None or bool(
            self.outcomes[Outcome.ROLE_CHANGED] + self.outcomes[Outcome.NOT_REACHED]
        )

    def add(self, guarded: Guarded) -> None:
        """Count one offset."""
        self.decisions[guarded.decision.action, guarded.decision.reason] += 1
        self.outcomes[guarded.outcome] += 1


#: Whether the broker is still master of its set, in the epoch that the guard runs for.
StillMaster = Callable[[], bool]


def is_reset(decision: GuardDecision) -> bool:
    """Return whether clients that are online have to be sent to the offset."""
    return decision.action in (Action.SET, Action.ARCHIVE)


def may_set_back(candidate: OffsetCandidate, decision: GuardDecision) -> bool:
    """Return whether a write may be lower than what the broker shows: a client may commit more before a reset."""
    return is_reset(decision) or candidate.is_rewound


def is_overtaken(candidate: OffsetCandidate, decision: GuardDecision, shown_now: int | None) -> bool:
    """Return whether a decision is out of date, as the group has committed meanwhile, or somebody has reset it.

    A push gives way to any change. What is set to the max at the promotion gives way to a rewind alone: a commit may be
    that of a position in the lost tail, and to read again what a second has brought skips nothing.
    """
    if decision.action is Action.PUSH:
        return shown_now != candidate.shown
    if decision.offset is None or candidate.shown is None or shown_now is None:
        return False
    return shown_now < min(candidate.shown, decision.offset)


def verified_unanswered(
    decision: GuardDecision, shown_before: int | None, shown_after: int | None, *, can_reset: bool
) -> Outcome:
    """Return what became of a commit that the broker has not answered, by what it shows before and afterwards."""
    if shown_after != decision.offset and shown_after == shown_before:
        return Outcome.NOT_REACHED
    outcome = verified(decision, shown_after, was_reset=False)
    return Outcome.RESET_MISSING if outcome is Outcome.NOT_RESET and can_reset else outcome


def verified(decision: GuardDecision, shown_after: int | None, *, was_reset: bool) -> Outcome:
    """Return what became of an offset that the broker has accepted, by what it shows afterwards."""
    assert decision.offset is not None, "what was written has an offset"
    if shown_after == decision.offset:
        return Outcome.STORED if was_reset or not is_reset(decision) else Outcome.NOT_RESET
    is_later = shown_after is not None and shown_after > decision.offset
    return Outcome.MOVED_ON if is_later and (was_reset or not is_reset(decision)) else Outcome.OVERWRITTEN
