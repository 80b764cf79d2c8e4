"""What is kept of the last runs of the guard, and how it is shown."""

import pytest
from test_guard_occasions import an_occasion

from controller.offsets.guard.outcomes import Guarded, GuardReport, Outcome
from controller.offsets.guard.rules import Action, GuardDecision, OffsetCandidate, Reason
from controller.offsets.guard_runs import run_log
from controller.offsets.guard_runs.run_log import GuardRunLog, RunResult


@pytest.fixture
def log():
    return GuardRunLog()


def a_guarded(queue_id=0, *, action=Action.PUSH, group="g"):
    candidate = OffsetCandidate(group=group, topic="orders", queue_id=queue_id, saved=80, shown=60)
    offset = None if action is Action.LEAVE else 80
    decision = GuardDecision(action=action, reason=Reason.BEHIND, offset=offset)
    return Guarded(candidate=candidate, decision=decision, outcome=Outcome.STORED)


def ended(log, *guarded):
    run = log.begin(an_occasion(), 0, is_recent=True, writes=True)
    for each in guarded:
        run.guarded("b", each)
    log.end(run, GuardReport(broker_name="b", address="a"), RunResult.COMPLETE)
    return run


def test_offsets_that_are_left_are_counted_and_not_kept(log):
    run = ended(log, a_guarded(), a_guarded(1, action=Action.LEAVE))
    assert [each.queue_id for each in run.offsets] == [0]
    assert sum(run.decisions.values()) == 2


def test_queues_of_a_group_of_which_the_same_became_are_one(log):
    run = ended(log, *(a_guarded(queue_id) for queue_id in range(5)), a_guarded(group="h"))
    assert [(kind.group, queues) for kind, (queues, _) in run.groups().items()] == [("g", 5), ("h", 1)]


def test_runs_are_shown_from_the_newest_on_once_they_have_ended(log):
    first, second = ended(log), ended(log)
    log.begin(an_occasion(), 0, is_recent=True, writes=True)
    assert log.runs() == [second, first]
    assert log.run(1) is first
    assert log.run(3) is None


def test_oldest_runs_are_forgotten(log, monkeypatch):
    monkeypatch.setattr(run_log, "RUNS_MAX", 3)
    for _ in range(5):
        ended(log)
    assert [each.number for each in log.runs()] == [5, 4, 3]


def test_offsets_of_a_run_and_of_all_runs_are_bounded(log, monkeypatch):
    monkeypatch.setattr(run_log, "OFFSETS_PER_RUN_MAX", 3)
    monkeypatch.setattr(run_log, "OFFSETS_MAX", 7)
    for _ in range(3):
        run = ended(log, *(a_guarded(queue_id) for queue_id in range(5)))
    assert (len(run.offsets), run.offsets_left_out) == (3, 2)
    assert [each.number for each in log.runs()] == [3, 2]
