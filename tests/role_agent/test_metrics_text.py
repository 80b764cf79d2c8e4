"""Metrics of an agent, from what it answers to `status`; test_agent_hosts.py reads them of a running one."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from role_agent.metrics_text import metrics_text
from role_agent.settings import settings_of

FILE = """
set = 'broker-"a"'
brokerId = 1
addresses = ["10.9.0.5/24"]
interface = "eth0"
controllers = ["10.0.0.11:9879", "10.0.0.12:9879", "10.0.0.13:9879"]
listen = "10.0.0.1:9990"
peers = ["10.0.0.2:9990"]
"""
OWN = {"set": 'broker-"a"', "broker_id": "1"}


def samples(**status):
    answer = {
        "phase": "holding",
        "masterEpoch": 7,
        "leaseLeftMs": 2_900,
        "controllers": {
            "10.0.0.11:9879": {"answer": "up ready #epoch 7", "answered": True, "ageMs": 3},
            "10.0.0.12:9879": {"answer": "no answer: no answer within 0.5 s", "answered": False, "ageMs": 3},
            "10.0.0.13:9879": {"answer": "", "answered": False, "ageMs": 3},
        },
        "peers": {"10.0.0.2:9990": {"answeredBeforeMs": 1_500, "error": ""}},
    }
    return read(metrics_text(settings_of(FILE), json.dumps(answer | status)))


def read(text):
    """Return values by name and by the labels that are not the same in all of them."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels.items() >= OWN.items()
            others = tuple(value for label, value in sample.labels.items() if label not in OWN)
            found[sample.name.removeprefix("rocketmq_role_agent_"), *others] = sample.value
    return found


def test_metrics_show_phase_epoch_lease_and_who_answers():
    assert samples() == {
        ("up",): 1,
        ("phase", "standby"): 0,
        ("phase", "claiming"): 0,
        ("phase", "holding"): 1,
        ("master_epoch",): 7,
        ("lease_left_seconds",): 2.9,
        ("controller_answers", "10.0.0.11:9879"): 1,
        ("controller_answers", "10.0.0.12:9879"): 0,
        ("controller_answers", "10.0.0.13:9879"): 0,
        ("peer_silent_seconds", "10.0.0.2:9990"): 1.5,
    }


def test_agent_without_a_lease_has_no_metric_of_it():
    found = samples(phase="standby", leaseLeftMs=None)
    assert ("lease_left_seconds",) not in found
    assert found["phase", "standby"] == 1


def test_agent_that_does_not_run_is_down_and_has_no_other_metric():
    assert read(metrics_text(settings_of(FILE), None)) == {("up",): 0}


@pytest.mark.parametrize("answer", ["", "nonsense", "{}", '{"phase": "asleep"}', '{"phase": "hold'])
def test_agent_whose_status_cannot_be_read_is_down(answer):
    assert read(metrics_text(settings_of(FILE), answer)) == {("up",): 0}
