"""Which broker is to be restarted now, and when nobody is."""

import msgspec
import pytest
from controller_builders import a_set
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.switchover.rolling_restart import (
    RESTART_FORMAT,
    STEPS_MAX,
    SWITCHOVER_PAUSE_MS,
    SWITCHOVERS_MAX,
    RestartFacts,
    RestartPhase,
    RollingRestart,
    aborted,
    decode_restart,
    encode_restart,
    next_decision,
    waits_behind,
)

COMPLETE = a_set(sync_state_set=frozenset({1, 2, 3}))
BOOTS = {1: 100, 2: 200, 3: 300}


def a_restart(**values):
    defaults = {
        "id": "broker-a.1",
        "broker_name": "broker-a",
        "cluster": "DefaultCluster",
        "brokers": (1, 2, 3),
        "created_unix_ms": 0,
        "phase_since_unix_ms": 0,
    }
    return RollingRestart(**(defaults | values))


def restarting(broker_id, **values):
    return a_restart(phase=RestartPhase.RESTART, broker_id=broker_id, boot_unix_ms=BOOTS[broker_id], **values)


def facts(broker_set=COMPLETE, *, trusted=(1, 2, 3), boots=None, is_switching=False, failed=None, **values):
    fields = {
        "unix_ms": 1_000,
        "broker_set": broker_set,
        "trusted": trusted,
        "boots": BOOTS if boots is None else boots,
        "is_switching": is_switching,
        "failed_switchover": failed,
    }
    return RestartFacts(**(fields | values))


def test_slaves_are_restarted_first_then_the_master_hands_over_and_is_the_last():
    """The whole way, each broker restarted as soon as it is named; each step is taken by another controller."""
    broker_set, boots, order = COMPLETE, dict(BOOTS), []
    restart = a_restart()
    for _ in range(20):
        decision = next_decision(decode_restart(encode_restart(restart)), facts(broker_set, boots=boots))
        restart = decision.restart
        if decision.begins_switchover:
            order.append("switchover")
            broker_set = a_set(master=2, master_epoch=6, sync_state_set=frozenset({1, 2, 3}))
        elif restart.phase is RestartPhase.RESTART and boots[restart.broker_id] == BOOTS[restart.broker_id]:
            order.append(restart.broker_id)
            boots[restart.broker_id] += 1
        if restart.has_ended:
            break
    assert (restart.phase, order) == (RestartPhase.DONE, [2, 3, "switchover", 1])
    assert set(restart.restarted) == {1, 2, 3}


@pytest.mark.parametrize(
    ("values", "waits_for"),
    [
        ({"trusted": (1, 3)}, "brokers [2] to send heartbeats"),
        ({"broker_set": a_set()}, "brokers [3] to be in the SyncStateSet"),
        ({"broker_set": replace(COMPLETE, master=None)}, "a master"),
        ({"is_switching": True}, "the end of a switchover"),
        ({"behind": "another restart"}, "another restart"),
        ({"boots": {3: 300}}, "broker 2 to answer when it has started"),
    ],
)
def test_nobody_is_named_before_the_set_is_complete(values, waits_for):
    restart = a_restart()
    decision = next_decision(restart, facts(**values))
    assert (decision.restart, decision.begins_switchover, decision.waits_for) == (restart, False, waits_for)


@pytest.mark.parametrize(
    ("values", "waits_for"),
    [
        ({}, "the operator to restart broker 2"),
        ({"boots": {}, "trusted": (1, 3)}, "broker 2 to start"),
        ({"boots": {2: 201}, "trusted": (1, 3)}, "heartbeats of broker 2, which has started"),
        (
            {"boots": {2: 201}, "broker_set": a_set(sync_state_set=frozenset({1, 3}))},
            "broker 2, which has started, to be in the SyncStateSet",
        ),
    ],
)
def test_named_broker_is_waited_for_until_it_is_back_in_sync(values, waits_for):
    restart = restarting(2)
    decision = next_decision(restart, facts(**values))
    assert (decision.restart, decision.waits_for) == (restart, waits_for)


def test_broker_counts_as_restarted_by_its_new_process_even_if_nobody_saw_it_go():
    after = next_decision(restarting(2), facts(boots={2: 201})).restart
    assert (after.phase, after.restarted, after.broker_id) == (RestartPhase.IN_SYNC, (2,), None)
    assert after.steps[-1].broker_id == 2


def test_named_broker_that_became_master_before_its_restart_is_named_no_longer():
    after = next_decision(restarting(2), facts(a_set(master=2, sync_state_set=frozenset({1, 2, 3})))).restart
    assert (after.phase, after.restarted) == (RestartPhase.IN_SYNC, ())
    # Now the former master is a slave, and takes its turn.
    assert next_decision(after, facts(a_set(master=2, sync_state_set=frozenset({1, 2, 3})))).restart.broker_id == 1


def test_only_the_wanted_brokers_are_restarted():
    assert next_decision(a_restart(brokers=(3,)), facts()).restart.broker_id == 3
    done = next_decision(a_restart(brokers=(3,), restarted=(3,)), facts()).restart
    assert done.phase is RestartPhase.DONE


# The switchover


def test_master_that_is_left_alone_hands_over_its_role():
    decision = next_decision(a_restart(restarted=(2, 3)), facts())
    assert (decision.restart.phase, decision.begins_switchover) == (RestartPhase.SWITCHOVER, True)


def switching(**values):
    return a_restart(restarted=(2, 3), phase=RestartPhase.SWITCHOVER, **values)


def test_switchover_under_way_is_waited_for():
    decision = next_decision(switching(), facts(is_switching=True))
    assert (decision.restart, decision.begins_switchover) == (switching(), False)
    assert decision.waits_for == "the end of the switchover"


def test_switchover_of_a_controller_that_failed_is_begun_anew():
    decision = next_decision(switching(), facts())
    assert (decision.restart, decision.begins_switchover) == (switching(), True)


def test_failed_switchover_is_tried_again_after_a_pause_whatever_a_wall_clock_shows():
    failed = next_decision(switching(), facts(failed="the backlog is large")).restart
    assert (failed.phase, failed.failed_switchovers) == (RestartPhase.IN_SYNC, 1)
    early = next_decision(failed, facts(unix_ms=7_200_000, since_failed_ms=SWITCHOVER_PAUSE_MS - 1))
    assert (early.restart, early.begins_switchover) == (failed, False)
    assert next_decision(failed, facts(unix_ms=0, since_failed_ms=SWITCHOVER_PAUSE_MS)).begins_switchover


def test_switchovers_that_fail_again_and_again_end_a_rolling_restart_with_the_reason():
    last = switching(failed_switchovers=SWITCHOVERS_MAX - 1)
    after = next_decision(last, facts(failed="the backlog is large")).restart
    assert after.phase is RestartPhase.FAILED
    assert after.problem == "3 switchovers did not succeed, the last one because the backlog is large"
    assert after.left == (1,)


def test_switchover_that_succeeds_forgets_those_that_failed():
    after = next_decision(switching(failed_switchovers=2), facts(a_set(master=2))).restart
    assert (after.phase, after.failed_switchovers) == (RestartPhase.IN_SYNC, 0)


# Ends


@pytest.mark.parametrize(
    ("broker_set", "sentence"),
    [(None, "broker-a was removed"), (replace(COMPLETE, replicas={1: None, 2: None}), "no longer has brokers [3]")],
)
def test_set_or_broker_that_was_removed_ends_a_rolling_restart(broker_set, sentence):
    after = next_decision(a_restart(), facts(broker_set)).restart
    assert after.phase is RestartPhase.FAILED
    assert sentence in after.problem


def test_aborted_restart_names_nobody():
    after = aborted(restarting(2), "not today", 5_000)
    assert (after.phase, after.broker_id, after.problem) == (RestartPhase.ABORTED, None, "aborted: not today")
    assert aborted(a_restart(), "", 5_000).problem == "aborted"


# What is stored


def test_restart_is_read_as_it_was_stored():
    restart = next_decision(restarting(2, reason="new kernel"), facts(boots={2: 201})).restart
    assert decode_restart(encode_restart(restart)) == restart


def test_steps_that_are_kept_have_a_limit():
    restart = a_restart()
    for number in range(STEPS_MAX + 10):
        restart = restart.entered(RestartPhase.IN_SYNC, "again", number)
    assert len(restart.steps) == STEPS_MAX
    assert restart.steps[-1].ended_unix_ms == STEPS_MAX + 9


sets = st.builds(
    lambda master, in_sync: a_set(master=master, sync_state_set=frozenset(in_sync)),
    st.sampled_from([None, 1, 2, 3]),
    st.sets(st.sampled_from([1, 2, 3])),
)


@given(
    broker_set=sets,
    trusted=st.sets(st.sampled_from([1, 2, 3])),
    restarted=st.sets(st.sampled_from([1, 2, 3])).map(tuple),
    is_switching=st.booleans(),
)
def test_broker_is_named_only_if_it_is_no_master_and_all_brokers_are_alive_and_in_sync(
    broker_set, trusted, restarted, is_switching
):
    facts_then = facts(broker_set, trusted=tuple(trusted), is_switching=is_switching)
    named = next_decision(a_restart(restarted=restarted), facts_then).restart.broker_id
    if named is not None:
        assert trusted == broker_set.sync_state_set == {1, 2, 3}
        assert broker_set.master not in (None, named)
        assert not is_switching


# Several sets


HOSTS = {
    "broker-a": {"h1", "h2"},
    "broker-b": {"h3", "h4"},
    "broker-c": {"h2", "h5"},
    "other-d": {"h3"},
    # Their sets were removed meanwhile.
    "broker-e": (),
    "other-e": (),
}


def restarts(*names, **values):
    """Restarts that were begun one after the other; those of `other-` are in another cluster."""
    return [
        a_restart(
            broker_name=name,
            created_unix_ms=number,
            cluster="Other" if name.startswith("other") else "DefaultCluster",
            **values,
        )
        for number, name in enumerate(names)
    ]


def behind(under_way):
    return [waits_behind(each, under_way, HOSTS) for each in under_way]


def test_restarts_of_one_cluster_take_turns_in_the_order_in_which_they_were_begun():
    under_way = restarts("broker-b", "broker-a", "other-e")
    waits = "the rolling restart of broker-b, which was begun before in this cluster (clusterRestartsMax is 1)"
    assert behind(under_way) == ["", waits, ""]
    assert behind(under_way[::-1]) == ["", waits, ""]
    assert behind(under_way[1:]) == ["", ""]


def test_operator_says_how_many_restarts_of_a_cluster_go_on_at_one_time():
    one, two, three = behind(restarts("broker-a", "broker-b", "broker-e", cluster_restarts_max=2))
    assert (one, two) == ("", "")
    assert three.startswith("the rolling restart of broker-a")


def test_sets_that_share_a_host_are_never_restarted_at_one_time():
    many = {"cluster_restarts_max": 100}
    assert behind(restarts("broker-a", "broker-b", "broker-c", "other-d", **many)) == [
        "",
        "",
        "the rolling restart of broker-a, which has a broker on h2 too",
        "the rolling restart of broker-b, which has a broker on h3 too",
    ]


def test_restart_whose_turn_it_is_not_ends_what_it_has_begun():
    """The address of a broker may change meanwhile."""
    decision = next_decision(restarting(2), facts(boots={2: 201}, behind="another restart"))
    assert decision.restart.restarted == (2,)
    over = a_restart(restarted=(1, 2, 3))
    assert next_decision(over, facts(behind="another restart")).restart.phase is RestartPhase.DONE


def test_restart_in_a_later_format_is_refused_with_what_to_do():
    later = encode_restart(replace(a_restart(), format=RESTART_FORMAT + 1))
    with pytest.raises(msgspec.DecodeError, match=r"it has format 2, and this release reads formats up to 1: run the"):
        decode_restart(later.replace(b'"steps"', b'"what_came_later"'))
    assert decode_restart(encode_restart(a_restart())).format == RESTART_FORMAT
