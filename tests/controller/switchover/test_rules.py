"""Who may lead next, and what a switchover does at each moment."""

import pytest
from controller_builders import a_set, last_heartbeat
from hypothesis import given
from hypothesis import strategies as st

from controller.failure_detection.log_ends import LogEnd
from controller.switchover.record import ENDED, Switchover, SwitchoverPhase, SwitchoverRequest
from controller.switchover.rules import (
    CONFIRM_MS_MAX,
    HOLD_SETTLES_MS,
    VERIFY_MS_MAX,
    Elected,
    SwitchoverFacts,
    SwitchoverNeeds,
    Turn,
    after_election,
    after_roll_back,
    find_next_master,
    next_turn,
    problem_of_loss,
    problem_of_roll_back,
    warnings_of,
)

BEGAN_MS = 1_000
ALL_THREE = a_set(sync_state_set=frozenset({1, 2, 3}))
ELECTED = a_set(master=2, master_epoch=6, sync_state_set=frozenset({2}))
BACK = a_set(master=1, master_epoch=7, sync_state_set=frozenset({1}))
EQUAL = {1: LogEnd(5, 1_000, is_master=True), 2: LogEnd(5, 1_000)}


def needs(broker_set=ALL_THREE, trusted=(1, 2, 3), **values):
    heartbeats = trusted if isinstance(trusted, dict) else {i: last_heartbeat() for i in trusted}
    defaults = {"wanted": None, "is_held": True, "is_all_ack": True, "accepts_loss": False}
    return SwitchoverNeeds(broker_set=broker_set, trusted=heartbeats, **(defaults | values))


def a_switchover(phase=SwitchoverPhase.CATCH_UP, since_ms=BEGAN_MS, **values):
    """A switchover from 1 to 2 that entered a phase at `since_ms`."""
    defaults = {"request": SwitchoverRequest(), "is_held": True, "is_all_ack": True}
    begun = Switchover(
        id="broker-a.1",
        broker_name="broker-a",
        cluster="DefaultCluster",
        old_master=1,
        new_master=2,
        old_epoch=5,
        created_unix_ms=0,
        phase_since_ms=BEGAN_MS,
        phase_since_unix_ms=0,
        **(defaults | values),
    )
    return begun if phase is SwitchoverPhase.CATCH_UP else begun.entered(phase, "why", since_ms, since_ms)


def facts(broker_set=None, *, now_ms=BEGAN_MS, leads=True, **values):
    return SwitchoverFacts(now_ms=now_ms, leads=leads, broker_set=broker_set or a_set(), **values)


def lacks(backlog):
    return {1: LogEnd(5, 1_000_000_000), 2: LogEnd(5, 1_000_000_000 - backlog)}


# Who leads next


def test_wanted_broker_in_sync_is_the_next_master():
    assert find_next_master(needs(wanted=3)).broker_id == 3


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"wanted": 7}, "broker-a has no broker 7; it has [1, 2, 3]"),
        ({"wanted": 1}, "broker 1 is the master of broker-a already"),
        ({"wanted": 2, "trusted": (1, 3)}, "broker 2 of broker-a is not alive, or suspect"),
        ({"wanted": 3, "broker_set": a_set()}, "broker 3 of broker-a is not in the SyncStateSet [1, 2]"),
        ({"trusted": (2, 3)}, "master 1 of broker-a is suspect or silent"),
        ({"broker_set": a_set(master=None)}, "broker-a has no master"),
        ({"trusted": (1, 3), "broker_set": a_set()}, "no other broker of broker-a is alive and in the SyncStateSet"),
    ],
)
def test_set_that_cannot_switch_over_is_refused_with_the_reason(values, sentence):
    found = find_next_master(needs(**values))
    assert found.broker_id is None
    assert found.problem.startswith(sentence)


@pytest.mark.parametrize(
    ("two", "three", "chosen"),
    [
        ({"priority": 2}, {"priority": 1, "max_offset": 0}, 3),
        ({"max_offset": 500}, {"max_offset": 900}, 3),
        ({"epoch": 5}, {"epoch": 4, "max_offset": 9_000}, 2),
        ({}, {}, 2),
    ],
)
def test_best_next_master_has_the_lowest_priority_then_the_longest_log_then_the_lowest_id(two, three, chosen):
    trusted = {1: last_heartbeat(), 2: last_heartbeat(**two), 3: last_heartbeat(**three)}
    assert find_next_master(needs(trusted=trusted)).broker_id == chosen


# Loss


@pytest.mark.parametrize(
    "values", [{"is_held": True, "is_all_ack": False}, {"is_all_ack": True}, {"is_all_ack": None, "accepts_loss": True}]
)
def test_nothing_is_lost_where_clients_are_held_or_slaves_are_waited_for(values):
    assert problem_of_loss(needs(**({"is_held": False} | values))) == ""


@pytest.mark.parametrize(
    ("is_all_ack", "why"), [(False, "acknowledges messages before its slaves have them"), (None, "did not answer")]
)
def test_switchover_that_may_lose_messages_is_refused_unless_that_is_accepted(is_all_ack, why):
    problem = problem_of_loss(needs(is_held=False, is_all_ack=is_all_ack))
    assert why in problem
    assert "acceptLoss" in problem


def test_switchover_without_role_checks_warns_of_the_poll_of_clients_and_of_accepted_loss():
    assert warnings_of(needs(is_held=True)) == ()
    (poll,) = warnings_of(needs(is_held=False))
    assert "route poll" in poll
    assert len(warnings_of(needs(is_held=False, is_all_ack=False, accepts_loss=True))) == 2


# Before the election


@pytest.mark.parametrize("phase", [each for each in SwitchoverPhase if each not in ENDED])
def test_controller_that_leads_no_longer_interrupts_its_switchovers(phase):
    turn = next_turn(a_switchover(phase), facts(leads=False))
    assert turn.phase is SwitchoverPhase.INTERRUPTED
    assert "leads no longer" in turn.problem


def test_set_that_was_removed_interrupts_its_switchover():
    removed = SwitchoverFacts(now_ms=BEGAN_MS, leads=True, broker_set=None)
    assert next_turn(a_switchover(), removed).phase is SwitchoverPhase.INTERRUPTED


@pytest.mark.parametrize("phase", [SwitchoverPhase.CATCH_UP, SwitchoverPhase.HOLD, SwitchoverPhase.DRAIN])
@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        (ELECTED, "broker 2 leads since an election meanwhile, at master epoch 6"),
        (a_set(master=None, master_epoch=6), "nobody leads since an election meanwhile, at master epoch 6"),
        (a_set(master_epoch=6), "broker 1 leads since an election meanwhile, at master epoch 6"),
    ],
)
def test_election_meanwhile_interrupts_a_switchover(phase, now, sentence):
    turn = next_turn(a_switchover(phase), facts(now, ends=EQUAL))
    assert (turn.phase, turn.problem) == (SwitchoverPhase.INTERRUPTED, sentence)


@pytest.mark.parametrize("phase", [SwitchoverPhase.CATCH_UP, SwitchoverPhase.HOLD, SwitchoverPhase.DRAIN])
@pytest.mark.parametrize("values", [{"failed": [2]}, {"broker_set": a_set(sync_state_set=frozenset({1}))}])
def test_next_master_that_fails_or_leaves_the_sync_state_set_ends_a_switchover(phase, values):
    turn = next_turn(a_switchover(phase), facts(ends=EQUAL, **values))
    assert turn.phase is SwitchoverPhase.FAILED
    assert "nothing was changed" in turn.problem


def test_clients_are_held_only_once_the_backlog_is_small():
    small = a_switchover(request=SwitchoverRequest(backlog_bytes_max=100))
    assert next_turn(small, facts(ends=lacks(101))).phase is SwitchoverPhase.CATCH_UP
    assert next_turn(small, facts(ends=lacks(100))) == Turn(SwitchoverPhase.HOLD, "broker 2 lacks 100 bytes of the log")


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        (lacks(101), "broker 2 lacks 101 bytes of the log after 500 ms, the limit is 100"),
        ({1: LogEnd(5, 9)}, "broker 1 or 2 does not report the end of its log after 500 ms"),
        ({}, "broker 1 or 2 does not report"),
    ],
)
def test_backlog_that_stays_large_ends_a_switchover_and_changes_nothing(ends, sentence):
    waiting = a_switchover(request=SwitchoverRequest(backlog_bytes_max=100, catch_up_ms_max=500))
    assert next_turn(waiting, facts(now_ms=BEGAN_MS + 499, ends=ends)).phase is SwitchoverPhase.CATCH_UP
    turn = next_turn(waiting, facts(now_ms=BEGAN_MS + 500, ends=ends))
    assert turn.phase is SwitchoverPhase.FAILED
    assert turn.problem.startswith(sentence)
    assert turn.problem.endswith("nothing was changed")


def test_proxy_that_does_not_learn_of_the_hold_ends_a_switchover_and_is_named():
    held, unheld = a_switchover(SwitchoverPhase.HOLD), ["10.9.0.1", "10.9.0.2"]
    assert next_turn(held, facts(now_ms=BEGAN_MS + 999, unheld=unheld)).phase is SwitchoverPhase.HOLD
    turn = next_turn(held, facts(now_ms=BEGAN_MS + 1_000, unheld=unheld))
    assert turn.phase is SwitchoverPhase.FAILED
    assert turn.problem.startswith("10.9.0.1, 10.9.0.2 check the role, but do not know after 1000 ms that it is held")


def test_logs_are_compared_only_once_every_proxy_knows_of_the_hold():
    held = a_switchover(SwitchoverPhase.HOLD)
    before = facts(now_ms=BEGAN_MS + HOLD_SETTLES_MS - 1, ends=EQUAL)
    assert next_turn(held, before).phase is SwitchoverPhase.HOLD
    assert next_turn(held, facts(now_ms=BEGAN_MS + 500, unheld=["10.9.0.1"])).phase is SwitchoverPhase.HOLD
    assert next_turn(held, facts(now_ms=BEGAN_MS + HOLD_SETTLES_MS)).phase is SwitchoverPhase.DRAIN
    assert next_turn(a_switchover(SwitchoverPhase.HOLD, is_held=False), facts()).phase is SwitchoverPhase.DRAIN


def test_next_master_is_elected_once_it_has_every_message():
    draining = a_switchover(SwitchoverPhase.DRAIN)
    assert next_turn(draining, facts(ends=lacks(1))).phase is SwitchoverPhase.DRAIN
    assert next_turn(draining, facts(ends=lacks(0))) == Turn(SwitchoverPhase.ELECT, "broker 2 has every message")
    # Its own answer is the newer one.
    assert next_turn(draining, facts(ends=lacks(-50))).phase is SwitchoverPhase.ELECT


def test_log_that_grows_although_clients_are_held_ends_a_switchover():
    draining = a_switchover(SwitchoverPhase.DRAIN, is_all_ack=False)
    turn = next_turn(draining, facts(now_ms=BEGAN_MS + 1_000, ends=lacks(7)))
    assert turn.phase is SwitchoverPhase.FAILED
    assert turn.problem.startswith("broker 2 lacks 7 bytes of the log after 1000 ms, although clients are held")


def test_broker_that_does_not_answer_while_clients_are_held_ends_a_switchover():
    turn = next_turn(a_switchover(SwitchoverPhase.DRAIN), facts(now_ms=BEGAN_MS + 1_000))
    problem = "broker 1 or 2 does not report the end of its log after 1000 ms; nothing was changed"
    assert (turn.phase, turn.problem) == (SwitchoverPhase.FAILED, problem)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"is_all_ack": True}, "no client was told that those are stored"),
        ({"is_all_ack": False, "request": SwitchoverRequest(accept_loss=True)}, "their loss is accepted"),
    ],
)
def test_log_that_grows_does_not_stop_a_switchover_where_nothing_acknowledged_is_lost(values, why):
    draining = a_switchover(SwitchoverPhase.DRAIN, **values)
    turn = next_turn(draining, facts(now_ms=BEGAN_MS + 1_000, ends=lacks(7)))
    assert turn.phase is SwitchoverPhase.ELECT
    assert turn.evidence.endswith(why)


@given(
    ends=st.dictionaries(st.sampled_from([1, 2, 3]), st.integers(0, 50).map(lambda end: LogEnd(5, end))),
    waited_ms=st.integers(0, 2_000),
)
def test_nobody_without_every_message_is_elected_where_the_old_master_acknowledges_alone(ends, waited_ms):
    draining = a_switchover(SwitchoverPhase.DRAIN, is_all_ack=False)
    turn = next_turn(draining, facts(now_ms=BEGAN_MS + waited_ms, ends=ends))
    if turn.phase is SwitchoverPhase.ELECT:
        assert ends[2].max_offset >= ends[1].max_offset


# The election, and what follows


def test_election_decides_itself_what_follows():
    electing = a_switchover(SwitchoverPhase.ELECT)
    assert next_turn(electing, facts(ELECTED)) == Turn(SwitchoverPhase.ELECT)
    assert after_election(electing, Elected(2, "2 was elected")) == Turn(SwitchoverPhase.CONFIRM, "2 was elected")


@pytest.mark.parametrize("elected", [None, 1])
def test_election_of_nobody_else_ends_a_switchover(elected):
    turn = after_election(a_switchover(SwitchoverPhase.ELECT), Elected(elected, "1 stays master"))
    assert (turn.phase, turn.problem) == (SwitchoverPhase.FAILED, "broker 2 was not elected: 1 stays master")


def test_clients_are_released_once_the_new_master_serves():
    confirming = a_switchover(SwitchoverPhase.CONFIRM)
    assert next_turn(confirming, facts(ELECTED)).phase is SwitchoverPhase.CONFIRM
    turn = next_turn(confirming, facts(ELECTED, is_confirmed=True))
    assert turn == Turn(SwitchoverPhase.VERIFY, "broker 2 serves at master epoch 6")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"now_ms": BEGAN_MS + CONFIRM_MS_MAX}, f"broker 2 does not serve after {CONFIRM_MS_MAX} ms"),
        ({"failed": [2]}, "broker 2 has failed before it was known to serve"),
    ],
)
@pytest.mark.parametrize("stored", [ELECTED, a_set(master=None, master_epoch=7, sync_state_set=frozenset({2}))])
def test_new_master_that_does_not_serve_is_rolled_back(values, sentence, stored):
    turn = next_turn(a_switchover(SwitchoverPhase.CONFIRM), facts(stored, **values))
    assert turn == Turn(SwitchoverPhase.ROLL_BACK, sentence)


def test_set_without_a_master_does_not_count_as_serving():
    lost = a_set(master=None, master_epoch=7, sync_state_set=frozenset({2}))
    assert next_turn(a_switchover(SwitchoverPhase.CONFIRM), facts(lost, is_confirmed=True)).phase is (
        SwitchoverPhase.CONFIRM
    )


@pytest.mark.parametrize("phase", [SwitchoverPhase.CONFIRM, SwitchoverPhase.ROLL_BACK])
def test_election_of_a_third_broker_after_the_switchovers_own_interrupts_it(phase):
    third = a_set(master=3, master_epoch=8, sync_state_set=frozenset({3}))
    turn = next_turn(a_switchover(phase), facts(third, is_confirmed=True))
    assert (turn.phase, turn.problem) == (
        SwitchoverPhase.INTERRUPTED,
        "broker 3 was elected meanwhile, at master epoch 8",
    )


@pytest.mark.parametrize(
    ("ends", "began", "sentence"),
    [
        (EQUAL, "", ""),
        # It answers, so it is known that it has acknowledged nothing alone.
        (EQUAL, "it has confirmed its role", ""),
        ({1: LogEnd(5, 1_000)}, "", ""),
        (
            {1: LogEnd(5, 1_000)},
            "its heartbeat says epoch 6",
            "broker 2 does not answer, and has begun its master epoch: its heartbeat says epoch 6",
        ),
        ({2: LogEnd(6, 1_000)}, "", "broker 1 does not report the end of its log"),
        ({1: LogEnd(5, 1_000), 2: LogEnd(6, 1_010)}, "", "broker 2 has 10 bytes that broker 1 lacks"),
        ({1: LogEnd(5, 1_000), 2: LogEnd(6, 1_000, is_master=True)}, "", "broker 2 is master by now"),
    ],
)
def test_old_master_is_elected_again_only_if_the_new_one_has_no_messages_of_its_own(ends, began, sentence):
    rolled = facts(ELECTED, ends=ends, began=began)
    assert problem_of_roll_back(a_switchover(SwitchoverPhase.ROLL_BACK), rolled) == sentence


def test_switchover_is_rolled_back_once_the_old_master_serves_again():
    back = a_switchover(SwitchoverPhase.ROLL_BACK)
    assert after_roll_back(back, Elected(1, "1 was elected")) == Turn(SwitchoverPhase.ROLL_BACK)
    assert next_turn(back, facts(BACK)) == Turn(SwitchoverPhase.ROLL_BACK)
    turn = next_turn(back, facts(BACK, is_confirmed=True))
    assert turn == Turn(SwitchoverPhase.ROLLED_BACK, "broker 1 serves again at master epoch 7", "why")


@pytest.mark.parametrize("values", [{"failed": [1]}, {"now_ms": BEGAN_MS + CONFIRM_MS_MAX}])
def test_old_master_that_does_not_serve_again_either_ends_a_switchover(values):
    turn = next_turn(a_switchover(SwitchoverPhase.ROLL_BACK), facts(BACK, **values))
    assert (turn.phase, turn.problem) == (SwitchoverPhase.FAILED, "why, and broker 1 does not serve again either")


def test_old_master_that_cannot_be_elected_again_ends_a_switchover():
    turn = after_roll_back(a_switchover(SwitchoverPhase.ROLL_BACK), Elected(None, "it is not alive"))
    assert turn.problem == "why, and broker 1 was not elected again: it is not alive"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"ends": {1: LogEnd(5, 1_000)}}, "broker 1 is a slave"),
        ({"failed": [1]}, "broker 1 has not confirmed that it is a slave: check it"),
        ({"now_ms": BEGAN_MS + VERIFY_MS_MAX}, "broker 1 has not confirmed that it is a slave: check it"),
        ({"broker_set": a_set(master=3, master_epoch=9)}, "broker 2 has led, and lost the role since"),
    ],
)
def test_switchover_is_done_once_the_old_master_is_a_slave_or_cannot_be_waited_for(values, sentence):
    verifying = a_switchover(SwitchoverPhase.VERIFY)
    assert next_turn(verifying, facts(**({"broker_set": ELECTED} | values))) == Turn(SwitchoverPhase.DONE, sentence)


def test_old_master_that_is_not_a_slave_yet_is_waited_for():
    assert next_turn(a_switchover(SwitchoverPhase.VERIFY), facts(ELECTED, ends=EQUAL)).phase is SwitchoverPhase.VERIFY


# What is kept of it


def test_time_that_clients_are_held_is_counted_from_the_hold_to_the_release():
    held = a_switchover().entered(SwitchoverPhase.HOLD, "small", 1_500, 1_500)
    assert (held.held_since_ms, held.held_for_ms) == (1_500, None)
    electing = held.entered(SwitchoverPhase.ELECT, "all", 1_800, 1_800)
    assert (electing.held_since_ms, electing.held_for_ms) == (1_500, None)
    done = electing.entered(SwitchoverPhase.VERIFY, "serves", 2_100, 2_100).entered(SwitchoverPhase.DONE, "", 9_000, 9)
    assert (done.held_since_ms, done.held_for_ms) == (1_500, 600)
    assert [(each.phase.value, each.lasted_ms) for each in done.steps] == [
        ("CATCH_UP", 500),
        ("HOLD", 300),
        ("ELECT", 300),
        ("VERIFY", 6_900),
    ]
    assert done.lasted_ms == 8_000
