"""What became of a decision is told by what the broker shows before and after."""

import pytest
from test_guard_plan import a_candidate

from controller.offsets.guard.outcomes import Outcome, is_overtaken, verified, verified_unanswered
from controller.offsets.guard.rules import Action, GuardDecision, Reason

PUSH = GuardDecision(action=Action.PUSH, reason=Reason.BEHIND, offset=80)
REWIND = GuardDecision(action=Action.PUSH, reason=Reason.REWOUND, offset=20)
SET = GuardDecision(action=Action.SET, reason=Reason.TAIL_LOST, offset=80)


@pytest.mark.parametrize(
    ("shown_now", "is_late"), [(None, True), (10, True), (60, False), (79, True), (80, True), (95, True)]
)
def test_push_is_overtaken_by_any_commit_and_by_a_reset(shown_now, is_late):
    assert is_overtaken(a_candidate(80, 60), PUSH, shown_now) == is_late


def test_rewind_is_overtaken_by_any_commit():
    candidate = a_candidate(20, 90)
    assert not is_overtaken(candidate, REWIND, 90)
    assert is_overtaken(candidate, REWIND, 25)
    assert is_overtaken(candidate, REWIND, 95)


def test_commit_may_be_that_of_a_lost_position_and_does_not_keep_the_end_from_being_set():
    assert not is_overtaken(a_candidate(130, 60), SET, 140)
    assert not is_overtaken(a_candidate(130, 60), SET, 70)
    # The broker has sent the client to the end of the queue, behind new messages.
    assert not is_overtaken(a_candidate(130, 4000), SET, 150)


def test_rewind_meanwhile_keeps_the_end_from_being_set():
    assert is_overtaken(a_candidate(130, 60), SET, 10)
    assert is_overtaken(a_candidate(130, 4000), SET, 10)


@pytest.mark.parametrize(
    ("decision", "before", "after", "outcome"),
    [
        (PUSH, 60, 80, Outcome.STORED),
        (PUSH, 60, 60, Outcome.NOT_REACHED),
        (PUSH, None, None, Outcome.NOT_REACHED),
        (PUSH, 60, 85, Outcome.MOVED_ON),
        (PUSH, 60, 65, Outcome.OVERWRITTEN),
        (REWIND, 90, 90, Outcome.NOT_REACHED),
        (SET, 60, 80, Outcome.RESET_MISSING),
        (SET, 80, 80, Outcome.RESET_MISSING),
        (SET, 130, 130, Outcome.NOT_REACHED),
    ],
)
def test_commit_without_an_answer_is_told_by_what_the_broker_shows_before_and_afterwards(
    decision, before, after, outcome
):
    assert verified_unanswered(decision, before, after, can_reset=True) is outcome


@pytest.mark.parametrize(
    ("decision", "was_reset", "after", "outcome"),
    [
        (PUSH, False, 80, Outcome.STORED),
        (PUSH, False, 85, Outcome.MOVED_ON),
        (PUSH, False, 70, Outcome.OVERWRITTEN),
        (PUSH, False, None, Outcome.OVERWRITTEN),
        (SET, True, 80, Outcome.STORED),
        # It has read on from there: commits were refused before.
        (SET, True, 85, Outcome.MOVED_ON),
        (SET, True, 70, Outcome.OVERWRITTEN),
        (SET, False, 80, Outcome.NOT_RESET),
        (SET, False, 85, Outcome.OVERWRITTEN),
    ],
)
def test_outcome_is_what_the_broker_shows_afterwards(decision, was_reset, after, outcome):
    assert verified(decision, after, was_reset=was_reset) is outcome
