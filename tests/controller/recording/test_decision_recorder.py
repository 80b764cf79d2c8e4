import pytest
from fakes import recorded_rows

from controller.scaling.autoscaler.decision import ScalingVerdict
from controller.scaling.autoscaler.findings import Finding, FindingKind
from controller.scaling.autoscaler.policies import PolicyMode, ScalingPolicy
from controller.scaling.watching.events import RECORDED_CHARS_MAX, ScalingProposalDismissed, ScalingVerdictChanged
from controller.scaling.watching.watched_topic import DecisionOutcome, TopicDecision, TopicNumbers
from history.schemas import SCALING_DECISION

SENTENCE = "billing: 12 consumers, 2 queues"


def a_decision(outcome=DecisionOutcome.PROPOSED, *, lag=300, target=4, findings=None, **values):
    found = Finding(kind=FindingKind.CLIENTS_WITHOUT_QUEUE, subject="billing", sentence=SENTENCE)
    verdict = ScalingVerdict(
        topic="orders-eu",
        unix_ms=0,
        mode=PolicyMode.APPROVE,
        before=2,
        target=target,
        reason=SENTENCE,
        findings=(found,) if findings is None else findings,
    )
    numbers = TopicNumbers(sets=1, put_tps=70.0, lag=lag, clients=12)
    return TopicDecision(
        verdict=verdict, policy=ScalingPolicy(topic="orders-*"), outcome=outcome, numbers=numbers, **values
    )


@pytest.fixture
def recorded(tmp_path):
    """From events to the rows that land."""
    return lambda *events: recorded_rows.recorded_events(tmp_path, "scaling_decision", events)


def test_proposal_is_recorded_with_the_numbers_that_it_rests_on(recorded):
    (row,) = recorded(ScalingVerdictChanged(decision=a_decision()))
    assert (row["event_type"], row["topic"], row["policy"], row["mode"]) == (
        "proposed",
        "orders-eu",
        "orders-*",
        "approve",
    )
    assert (row["queues"], row["target"], row["sets"]) == (2, 4, 1)
    assert (row["finding"], row["subject"], row["findings"]) == (
        "clients_without_queue",
        "billing",
        ["clients_without_queue"],
    )
    assert (row["lag"], row["tps"], row["consumers"], row["reason"]) == (300, 70.0, 12, SENTENCE)


def test_what_is_unknown_is_not_recorded_as_a_number(recorded):
    kept = a_decision(DecisionOutcome.KEPT, lag=None, target=None, findings=())
    (row,) = recorded(ScalingVerdictChanged(decision=kept))
    assert row["event_type"] == "kept"
    assert row.keys().isdisjoint({"lag", "target", "finding", "subject", "operation_id"})


def test_what_becomes_of_a_proposal_is_recorded(recorded):
    decisions = (
        a_decision(DecisionOutcome.APPROVED),
        a_decision(DecisionOutcome.RESIZED, operation_id="orders-eu.1"),
        a_decision(DecisionOutcome.REFUSED, problem="broker-b does not answer"),
    )
    told = [ScalingVerdictChanged(decision=decision) for decision in decisions]
    dismissal = ScalingProposalDismissed(topic="orders-eu", reason="not before the weekend")
    approved, resized, refused, dismissed = recorded(*told, dismissal)
    assert (approved["event_type"], approved["target"]) == ("approved", 4)
    assert (resized["event_type"], resized["operation_id"]) == ("resized", "orders-eu.1")
    assert (refused["event_type"], refused["reason"]) == ("refused", "broker-b does not answer")
    assert (dismissed["event_type"], dismissed["topic"], dismissed["reason"]) == (
        "dismissed",
        "orders-eu",
        "not before the weekend",
    )


def test_long_reason_is_cut(recorded):
    refused = a_decision(DecisionOutcome.REFUSED, problem="x" * 9_999)
    (row,) = recorded(ScalingVerdictChanged(decision=refused))
    assert len(row["reason"]) == RECORDED_CHARS_MAX


def test_each_outcome_has_its_event_type():
    assert {each.value for each in DecisionOutcome} < set(SCALING_DECISION.event_types)
