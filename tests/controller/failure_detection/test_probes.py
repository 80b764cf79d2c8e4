"""Probes under way: how many at a time, whose first, and what a result that never comes counts as."""

import pytest
from controller_builders import SET

from controller.failure_detection import suspicion
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import (
    ANSWER_MS,
    OpenProbes,
    Probe,
    ProbeOutcome,
    Suspicion,
    SuspicionReason,
)

ONE, TWO = BrokerKey(SET, 1), BrokerKey(SET, 2)


@pytest.fixture
def open_probes():
    return OpenProbes(lambda key: key == TWO)


@pytest.fixture
def suspicions():
    return {key: Suspicion(SuspicionReason.SILENT, 0, ANSWER_MS, 0) for key in (ONE, TWO)}


def test_master_is_probed_first_where_not_all_have_a_place(open_probes, suspicions, monkeypatch):
    monkeypatch.setattr(suspicion, "NEW_PROBES_MAX", 1)
    assert open_probes.start([ONE, TWO], suspicions, 0) == [Probe(TWO, ANSWER_MS)]
    assert open_probes.start([ONE], suspicions, 0) == []
    open_probes.begin_look()
    assert open_probes.start([ONE], suspicions, 0) == [Probe(ONE, ANSWER_MS)]


def test_result_that_is_never_reported_counts_as_no_answer(open_probes, suspicions):
    open_probes.start([ONE], suspicions, 0)
    assert open_probes.awaits_result(ONE, suspicions[ONE], ANSWER_MS + 999)
    assert not open_probes.awaits_result(ONE, suspicions[ONE], ANSWER_MS + 1_000)
    assert suspicions[ONE].outcome is ProbeOutcome.NO_ANSWER


@pytest.mark.parametrize("how", ["clear", "remove", "another suspicion"])
def test_result_of_an_ended_probe_is_about_no_suspicion(open_probes, suspicions, how):
    open_probes.start([ONE], suspicions, 0)
    if how == "clear":
        open_probes.clear()
    elif how == "remove":
        open_probes.remove(ONE)
    about = suspicions[TWO if how == "another suspicion" else ONE]
    assert not open_probes.end(ONE, about)
    assert not open_probes.is_open(ONE)
