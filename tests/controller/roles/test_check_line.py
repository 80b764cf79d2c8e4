"""The lines of role checks, as HAProxy's agent-check takes them."""

import pytest

from controller.failure_detection.heartbeats import BrokerKey
from controller.roles.verdict import RoleAnswer, RoleVerdict
from controller.wire.role_check_port import decode_check, encode_answer


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (b"broker-a/1", BrokerKey("broker-a", 1)),
        (b"broker-a/12\r", BrokerKey("broker-a", 12)),
        (b"a/b/0", BrokerKey("a/b", 0)),
        ("brøker/3".encode(), BrokerKey("brøker", 3)),
        (b"leader", "leader"),
        (b"leader\r", "leader"),
    ],
)
def test_check_names_a_broker_or_the_leader(line, wanted):
    assert decode_check(line) == wanted


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"broker-a",
        b"/1",
        b"broker-a/",
        b"broker-a/x",
        b"broker-a/-1",
        b"broker-a/1 2",
        "broker-a/\N{SUPERSCRIPT TWO}".encode(),
        b"broker-a/" + b"1" * 20,
        b"\xff/1",
        b"GET / HTTP/1.1",
    ],
)
def test_other_lines_are_invalid(line):
    assert decode_check(line) is None


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (RoleAnswer(RoleVerdict.SERVES, 12), b"up ready #epoch 12\n"),
        (RoleAnswer(RoleVerdict.SUPERSEDED, 12), b"down #superseded epoch 12\n"),
        (RoleAnswer(RoleVerdict.FAILED, 12), b"down #failed epoch 12\n"),
        (RoleAnswer(RoleVerdict.HELD, 12), b"down #held epoch 12\n"),
        (RoleAnswer(RoleVerdict.UNKNOWN, 0, "the master is suspect"), b"#unknown the master is suspect\n"),
    ],
)
def test_only_certain_verdicts_change_the_state_of_a_server(answer, line):
    assert encode_answer(answer) == line
