from dataclasses import replace

import pytest
import recorded_rows

from controller.recording.decision_recorder import DecisionRecorder
from controller.scaling.autoscaler.decision import ScalingVerdict
from controller.scaling.autoscaler.findings import Finding, FindingKind
from controller.scaling.autoscaler.policies import PolicyMode, ScalingPolicy
from controller.scaling.autoscaler.signals import (
    ConsumptionKind,
    GroupSignals,
    QueueProgress,
    SetSignals,
    TopicSignals,
)

POLICY = ScalingPolicy(topic="orders-*")


def signals(*lags, clients=12):
    group = GroupSignals(
        kind=ConsumptionKind.CONCURRENT,
        clients=frozenset(map(str, range(clients))),
        queues=tuple(QueueProgress("broker-a", number, lag) for number, lag in enumerate(lags)),
    )
    a_set = SetSignals(read_queues=2, write_queues=2, write_tps=(30.0, 40.0))
    return TopicSignals(topic="orders-eu", unix_ms=0, sets={"broker-a": a_set}, groups={"billing": group})


def verdict(target=4, sentence="billing: 12 consumers, 2 queues", *, kind=FindingKind.CLIENTS_WITHOUT_QUEUE, **values):
    findings = (Finding(kind=kind, subject="billing", sentence=sentence),)
    about = {"topic": "orders-eu", "unix_ms": 0, "mode": PolicyMode.APPROVE, "before": 2, "target": target}
    return ScalingVerdict(**(about | {"reason": sentence, "findings": findings} | values))


@pytest.fixture
def recorded(tmp_path):
    """From what is done with a DecisionRecorder to the rows that land."""
    return lambda work: recorded_rows.recorded(
        tmp_path, "scaling_decision", lambda recorder: work(DecisionRecorder(recorder))
    )


def test_proposal_is_recorded_with_the_numbers_that_it_rests_on(recorded):
    (row,) = recorded(lambda history: history.decided(verdict(), POLICY, signals(100, 200)))
    assert (row["event_type"], row["topic"], row["policy"], row["mode"]) == (
        "proposed",
        "orders-eu",
        "orders-*",
        "approve",
    )
    assert (row["queues"], row["target"], row["sets"]) == (2, 4, 1)
    assert (row["finding"], row["subject"]) == ("clients_without_queue", "billing")
    assert (row["lag"], row["tps"], row["consumers"]) == (300, 70.0, 12)
    assert row["reason"] == "billing: 12 consumers, 2 queues"


def test_unknown_lag_is_not_recorded_as_a_number(recorded):
    (row,) = recorded(lambda history: history.decided(verdict(), POLICY, signals(100, None)))
    assert "lag" not in row


def test_decision_that_stays_as_it_is_is_recorded_once(recorded):
    def work(history):
        for number in range(3):
            history.decided(verdict(sentence=f"{number} messages are left"), POLICY, signals(number))

    (row,) = recorded(work)
    assert row["reason"] == "0 messages are left"


def test_decision_that_differs_is_recorded(recorded):
    calm = verdict(None, kind=FindingKind.CALM)

    def work(history):
        for each in (verdict(), calm, verdict(), verdict(8), replace(calm, before=8)):
            history.decided(each, POLICY, signals(1))

    rows = recorded(work)
    assert [row["event_type"] for row in rows] == ["proposed", "kept", "proposed", "proposed", "kept"]


def test_what_becomes_of_a_proposal_is_recorded(recorded):
    def work(history):
        history.approved(verdict(), POLICY, signals(1))
        history.resized(verdict(), POLICY, signals(1), "orders-eu.1")
        history.refused(verdict(), POLICY, signals(1), "broker-b does not answer")

    approved, resized, refused = recorded(work)
    assert (approved["event_type"], approved["target"]) == ("approved", 4)
    assert (resized["event_type"], resized["operation_id"]) == ("resized", "orders-eu.1")
    assert (refused["event_type"], refused["reason"]) == ("refused", "broker-b does not answer")
