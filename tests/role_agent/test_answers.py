"""Lines of role check ports and of agents: what they mean, and that anything else means nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from role_agent.rules.answers import (
    PeerAnswer,
    PeerReply,
    PeerRequest,
    PeerVerb,
    Role,
    peer_answer,
    peer_request,
    role_line,
)


@pytest.mark.parametrize(
    ("text", "role", "epoch"),
    [
        ("up ready #epoch 12", Role.UP, 12),
        ("down #superseded epoch 12", Role.SUPERSEDED, 12),
        ("down #failed epoch 12", Role.DOWN, 12),
        ("down #held epoch 12", Role.DOWN, 12),
        ("#unknown the master is suspect epoch 12", Role.UNKNOWN, 12),
        ("#unknown not leading", Role.UNKNOWN, None),
        ("up ready", Role.UNKNOWN, None),
        ("upward #epoch 12", Role.UNKNOWN, 12),
        ("", Role.UNKNOWN, None),
    ],
)
def test_line_of_a_controller_has_a_role_and_an_epoch(text, role, epoch):
    line = role_line(text)
    assert (line.role, line.epoch, line.text) == (role, epoch, text)


EPOCHS = st.integers(0, 10**18 - 1)
LEASES = st.integers(0, 99_999)


@given(
    st.builds(
        PeerRequest,
        verb=st.sampled_from(PeerVerb),
        set_name=st.from_regex(r"[^\s/]{1,127}", fullmatch=True),
        broker_id=st.integers(0, 999_999_999),
        epoch=EPOCHS,
        lease_ms=LEASES,
    )
)
def test_request_of_an_agent_is_read_as_it_was_written(request_):
    assert peer_request(request_.line()) == request_


@given(st.builds(PeerAnswer, reply=st.sampled_from(PeerReply), epoch=EPOCHS, lease_ms=LEASES))
def test_answer_of_an_agent_is_read_as_it_was_written(answer):
    assert peer_answer(answer.line()) == answer


@given(st.text(max_size=80))
def test_any_other_line_is_nothing(text):
    assert peer_request(text) is None
    assert peer_answer(text) is None
    assert role_line(text).role in Role
