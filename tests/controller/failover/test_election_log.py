"""What operators are told about the last elections: who stood, what is at stake, what forces a master."""

import pytest
from controller_builders import CLUSTER, SET, a_set, last_heartbeat, replicas, view

from controller.decisions.cluster_view import ClusterView
from controller.decisions.election import ElectionRequest, ElectionResult, Verdict, elect
from controller.failover import election_log as module
from controller.failover.election_log import Cause, ElectionLog, HeldElection, NotificationResult, Phases, Trigger

DEAD = Cause(
    trigger=Trigger.MASTER_FAILED,
    why="master 1 is dead",
    last_contact_ms=10_000,
    suspected_ms=10_400,
    judged_ms=10_402,
    evidence="channel_closed",
)
NO_MASTER = Cause(trigger=Trigger.NO_MASTER, why="the set has no master, and one can lead")
OPERATOR = Cause(trigger=Trigger.OPERATOR, why="an operator wants broker 3 as master", broker_id=3)


def held(before=None, *, alive=None, gone=None, call=None, cause=DEAD):
    """Return an election as the rules hold it; `gone` is what was heard last of the dead."""
    before = before or a_set()
    alive = alive or {}
    election = elect(before, view(alive), call or ElectionRequest())
    after = before if election.event is None else before.apply(election.event)
    return HeldElection(before, after, cause, election, last={**(gone or {}), **alive}, commit_ms=12)


@pytest.fixture
def elections():
    return ElectionLog("10.0.0.99:9878")


def record(held_election):
    added, is_new = ElectionLog("10.0.0.99:9878").add(held_election, 1_000)
    assert is_new
    return added


# One election


def test_election_record_has_the_candidates_and_the_new_master():
    summary = record(
        held(alive={2: last_heartbeat(max_offset=990, priority=4), 3: last_heartbeat()}, gone={1: last_heartbeat()})
    )
    assert (summary.number, summary.broker_name, summary.cluster, summary.unix_ms, summary.last_unix_ms) == (
        1,
        SET,
        CLUSTER,
        1_000,
        1_000,
    )
    assert (summary.result, summary.old_master, summary.new_master) == (ElectionResult.NEW_MASTER, 1, 2)
    assert (summary.master_epoch, summary.sync_state_set_epoch) == (6, 8)
    assert summary.reason == "broker 2 was elected; broker 1 is not alive; broker 3 is not in the SyncStateSet"
    assert [(each.broker_id, each.in_sync, each.verdict) for each in summary.reports] == [
        (1, True, Verdict.NOT_ALIVE),
        (2, True, Verdict.ELECTED),
        (3, False, Verdict.OUT_OF_SYNC),
    ]
    assert [(each.epoch, each.max_offset, each.priority) for each in summary.reports][:2] == [
        (5, 1000, 2**31 - 1),
        (5, 990, 4),
    ]
    assert (summary.is_unclean, summary.bytes_at_stake, summary.force) == (False, 0, "")


def test_candidate_without_a_log_end_has_no_figures():
    summary = record(held(alive={2: last_heartbeat(epoch=-1, max_offset=-1)}))
    assert [(each.epoch, each.max_offset, each.priority) for each in summary.reports] == [(None, None, None)] * 3


def test_election_record_has_the_duration_of_each_phase():
    assert record(held(alive={2: last_heartbeat()})).phases == Phases(suspect_ms=400, judge_ms=2, commit_ms=12)
    assert record(held(a_set(master=None), alive={2: last_heartbeat()}, cause=NO_MASTER)).phases == Phases(commit_ms=12)


def test_record_of_a_kept_master_names_it_as_old_and_new_master():
    summary = record(held(alive={1: last_heartbeat(), 2: last_heartbeat()}, cause=NO_MASTER))
    assert summary.reason.startswith("broker 1 leads already; broker 2: ")
    assert (summary.old_master, summary.new_master) == (1, 1)


def test_record_without_living_brokers_says_whom_to_start():
    summary = record(held())
    dead = "; ".join(f"broker {i} is not alive" for i in (1, 2, 3))
    assert summary.reason == f"no broker of the SyncStateSet [1, 2] can lead; {dead}"
    assert (summary.new_master, summary.bytes_at_stake) == (None, 0)
    assert summary.advice == (
        "start broker 1 at 10.0.0.1:30911 or broker 2 at 10.0.0.2:30911: the first that is back can lead"
    )
    assert summary.force == (
        "rmq controller elect broker-a 1 --controller 10.0.0.99:9878 "
        "# once broker 1 runs again, unless it leads by then"
    )


def test_record_of_the_last_broker_of_a_set_that_died_contradicts_nothing():
    """No broker at all is in contact: the master stays recorded, as this controller may be cut off."""
    known = ClusterView(may_live={1, 2}, failed={1, 2}, last={1: last_heartbeat(), 2: last_heartbeat(max_offset=990)})
    one_in_sync = a_set(replicas=replicas(1, 2), sync_state_set=frozenset({1}))
    election = elect(one_in_sync, known, ElectionRequest())
    summary = record(HeldElection(one_in_sync, one_in_sync, DEAD, election, last=dict(known.last), commit_ms=12))
    assert summary.reason == (
        "no broker of the SyncStateSet [1] can lead, and broker 1 stays recorded as master; "
        "broker 1 is not alive; broker 2 is not alive"
    )
    assert (summary.reported_result, summary.new_master, summary.master_epoch) == (ElectionResult.NOBODY, None, 5)
    assert summary.advice == "start broker 1 at 10.0.0.1:30911: once it is back, it can lead"
    assert summary.force.startswith("rmq controller elect broker-a 1 ")


def test_brokers_that_were_never_in_contact_are_not_called_dead():
    known = ClusterView(may_live={1, 2, 3}, failed={2}, last={2: last_heartbeat(), 3: last_heartbeat()})
    election = elect(a_set(), known, ElectionRequest())
    assert [each.verdict for each in election.candidates] == [
        Verdict.NO_CONTACT_YET,
        Verdict.NOT_ALIVE,
        Verdict.SUSPECT,
    ]


def test_record_of_a_set_that_never_had_a_master_has_no_command_to_force_one():
    young = a_set(master=None, is_elected=False, sync_state_set=frozenset())
    summary = record(held(young, alive={1: last_heartbeat(epoch=-1, max_offset=0)}))
    dead = "broker 2 is not alive; broker 3 is not alive"
    assert summary.reason == f"no broker may lead yet; broker 1: another requested first; {dead}"
    assert summary.force == ""


def test_election_of_the_only_broker_has_a_short_reason():
    one = a_set(replicas=replicas(1), master=None, is_elected=False, sync_state_set=frozenset())
    alone = held(one, alive={1: last_heartbeat()}, call=ElectionRequest(broker_id=1))
    assert record(alone).reason == "broker 1 was elected"


# What is at stake, and what forces a master


def test_record_without_living_broker_in_sync_has_bytes_at_stake_and_the_forcing_command():
    four = a_set(replicas=replicas(1, 2, 3, 4))
    summary = record(
        held(
            four,
            alive={3: last_heartbeat(max_offset=700), 4: last_heartbeat(epoch=4, max_offset=9_000)},
            gone={1: last_heartbeat(max_offset=1_000), 2: last_heartbeat(max_offset=950)},
        )
    )
    assert summary.result is ElectionResult.NOBODY
    assert summary.bytes_at_stake == 300
    assert summary.advice.startswith("start broker 1 at 10.0.0.1:30911 or broker 2 ")
    assert summary.force == (
        "rmq controller elect broker-a 3 --controller 10.0.0.99:9878 "
        "# while controllers run with enableElectUncleanMaster=true in their files, and false again at once"
    )


def test_record_of_an_unclean_election_has_the_lost_bytes():
    summary = record(
        held(
            alive={3: last_heartbeat(max_offset=700)},
            gone={1: last_heartbeat()},
            call=ElectionRequest(allows_unclean=True),
        )
    )
    assert (summary.is_unclean, summary.bytes_at_stake, summary.force) == (True, 300, "")
    assert summary.reason.startswith("broker 3 was elected although it is not in the SyncStateSet; ")


@pytest.mark.parametrize(
    ("outsider", "in_sync"),
    [
        (last_heartbeat(), None),
        (last_heartbeat(epoch=4, max_offset=9_000), last_heartbeat(epoch=5, max_offset=1_000)),
        (last_heartbeat(epoch=5, max_offset=9_000), last_heartbeat(epoch=4, max_offset=1_000)),
        (last_heartbeat(max_offset=-1), last_heartbeat()),
        (last_heartbeat(), last_heartbeat(max_offset=-1)),
        (last_heartbeat(epoch=-1), last_heartbeat(epoch=-1)),
    ],
    ids=["nobody heard", "older epoch", "newer epoch", "own end unknown", "other end unknown", "epochs unknown"],
)
def test_bytes_at_stake_are_unknown_where_logs_cannot_be_compared(outsider, in_sync):
    summary = record(held(alive={3: outsider}, gone={1: in_sync} if in_sync else {}))
    assert summary.bytes_at_stake is None
    assert "elect broker-a 3 " in summary.force


def test_longer_log_of_the_same_epoch_has_no_bytes_at_stake():
    assert record(held(alive={3: last_heartbeat(max_offset=1_001)}, gone={1: last_heartbeat()})).bytes_at_stake == 0


def test_record_has_no_command_to_force_a_master_while_one_in_sync_may_live():
    alive = {1: last_heartbeat(), 2: last_heartbeat(), 3: last_heartbeat()}
    summary = record(held(alive=alive, call=ElectionRequest(broker_id=3, is_designated=True), cause=OPERATOR))
    assert (summary.result, summary.new_master, summary.force, summary.bytes_at_stake) == (
        ElectionResult.NOBODY,
        1,
        "",
        0,
    )


# The log of elections


def test_repeated_election_with_the_same_result_is_counted_in_one_record(elections):
    stuck = a_set(master=None)
    first, is_new = elections.add(held(stuck, alive={3: last_heartbeat()}, cause=NO_MASTER), 1_000)
    assert is_new
    for unix_ms in (6_000, 11_000):
        again, is_new = elections.add(held(stuck, alive={3: last_heartbeat()}, cause=NO_MASTER), unix_ms)
        assert not is_new
        assert again is first
    assert (first.times, first.unix_ms, first.last_unix_ms) == (3, 1_000, 11_000)
    assert list(elections) == [first]


def test_repeated_failed_election_updates_the_bytes_at_stake(elections):
    """Who copies the command must get the broker that has the longest log by then."""
    stuck = a_set(master=None, replicas=replicas(1, 2, 3, 4), sync_state_set=frozenset({1}))
    gone = {1: last_heartbeat(max_offset=1_000)}
    first, _ = elections.add(
        held(
            stuck,
            alive={3: last_heartbeat(max_offset=500), 4: last_heartbeat(max_offset=50)},
            gone=gone,
            cause=NO_MASTER,
        ),
        1_000,
    )
    assert (first.bytes_at_stake, "elect broker-a 3 " in first.force) == (500, True)
    elections.add(
        held(
            stuck,
            alive={3: last_heartbeat(max_offset=500), 4: last_heartbeat(max_offset=900)},
            gone=gone,
            cause=NO_MASTER,
        ),
        6_000,
    )
    assert (first.times, first.bytes_at_stake, "elect broker-a 4 " in first.force) == (2, 100, True)


def test_names_in_the_forcing_command_are_quoted(elections):
    """Anybody can register a set of any name, and operators copy the command."""
    odd = a_set(master=None, broker_name="a; reboot #", cluster="$(id)", sync_state_set=frozenset({1}))
    summary, _ = elections.add(
        held(odd, alive={3: last_heartbeat()}, gone={1: last_heartbeat()}, cause=NO_MASTER), 1_000
    )
    assert summary.force.startswith("rmq controller elect 'a; reboot #' 3 --controller ")


def test_election_with_another_result_is_a_record_of_its_own(elections):
    stuck = a_set(master=None)
    elections.add(held(stuck, alive={3: last_heartbeat()}, cause=NO_MASTER), 1_000)
    _, is_new = elections.add(held(stuck, cause=NO_MASTER), 2_000)
    assert is_new
    _, is_new = elections.add(held(stuck, cause=OPERATOR), 3_000)
    assert is_new
    assert [each.number for each in elections] == [1, 2, 3]
    assert [each.number for each in reversed(elections)] == [3, 2, 1]


def test_alternating_requests_of_brokers_without_master_make_one_record(elections):
    stuck = a_set(master=None, sync_state_set=frozenset({1}))
    for number in range(40):
        requester = 2 + number % 2
        cause = Cause(trigger=Trigger.BROKER, why=f"broker {requester} found no master", broker_id=requester)
        elections.add(
            held(
                stuck,
                alive={2: last_heartbeat(), 3: last_heartbeat()},
                call=ElectionRequest(broker_id=requester),
                cause=cause,
            ),
            number,
        )
    (only,) = elections
    assert (only.times, only.last_unix_ms) == (40, 39)


def test_each_broker_designated_by_an_operator_makes_a_record(elections):
    for broker_id in (8, 9):
        cause = Cause(trigger=Trigger.OPERATOR, why=f"an operator wants broker {broker_id}", broker_id=broker_id)
        call = ElectionRequest(broker_id=broker_id, is_designated=True)
        _, is_new = elections.add(held(alive={1: last_heartbeat()}, call=call, cause=cause), 1_000)
        assert is_new


def test_each_new_master_makes_a_record(elections):
    for number in (1, 2):
        summary, is_new = elections.add(held(alive={2: last_heartbeat()}), 1_000)
        assert (summary.number, is_new) == (number, True)


def test_records_are_kept_for_each_set(elections):
    first, _ = elections.add(held(a_set(master=None), cause=NO_MASTER), 1_000)
    other, is_new = elections.add(held(a_set(master=None, broker_name="broker-b"), cause=NO_MASTER), 1_000)
    assert is_new
    assert elections.of_set(SET) is first
    assert elections.of_set("broker-b") is other
    assert elections.of_set("broker-c") is None


def test_only_the_last_elections_are_kept(elections, monkeypatch):
    monkeypatch.setattr(module, "ELECTIONS_MAX", 3)
    elections = ElectionLog("10.0.0.99:9878")
    for name in ("a", "b", "b", "c", "d"):
        elections.add(held(a_set(broker_name=name), alive={2: last_heartbeat()}), 1_000)
    assert [(each.number, each.broker_name) for each in elections] == [(3, "b"), (4, "c"), (5, "d")]
    assert elections.of_set("a") is None
    assert elections.of_set("b").number == 3


@pytest.mark.parametrize(
    ("trigger", "summary"),
    [
        (Trigger.OPERATOR, ElectionResult.KEPT),
        (Trigger.BROKER, ElectionResult.KEPT),
        (Trigger.STORE_BEHIND, ElectionResult.NOBODY),
    ],
)
def test_failed_election_keeps_a_living_master_unless_the_store_is_behind(trigger, summary):
    cause = Cause(trigger=trigger, why="a test wants it")
    designated = ElectionRequest(broker_id=3, is_designated=True)
    in_vain = record(held(alive={1: last_heartbeat()}, call=designated, cause=cause))
    assert (in_vain.result, in_vain.reported_result) == (ElectionResult.NOBODY, summary)
    assert in_vain.new_master == (1 if summary is ElectionResult.KEPT else None)
    assert record(held(alive={}, call=designated, cause=cause)).reported_result is ElectionResult.NOBODY


def test_results_of_role_notifications_are_kept_for_the_last_election(elections):
    old, _ = elections.add(held(alive={2: last_heartbeat()}), 1_000)
    last, _ = elections.add(held(alive={2: last_heartbeat()}), 2_000)
    assert elections.notified(SET, old.number, 2, NotificationResult("ok", 5, 1)) is None
    assert elections.notified("broker-b", last.number, 2, NotificationResult("ok", 5, 1)) is None
    assert elections.notified(SET, last.number, 2, NotificationResult("ok", 5, 1)) is last
    assert elections.notified(SET, last.number, 3, NotificationResult("timeout", 3_000, 3)) is last
    assert last.notified == {2: NotificationResult("ok", 5, 1), 3: NotificationResult("timeout", 3_000, 3)}
    assert old.notified == {}


# Since when


def test_time_and_cause_of_an_epoch_are_known_if_it_began_with_the_last_election(elections):
    assert elections.beginning(SET, 6) is None
    elections.add(held(alive={2: last_heartbeat()}), 1_000)
    assert [elections.beginning(SET, epoch) is None for epoch in (5, 6, 7)] == [True, False, True]
    assert elections.beginning(SET, 6).unix_ms == 1_000
    assert [elections.why(SET, epoch) for epoch in (5, 6, 7)] == ["", "master 1 is dead", ""]


def test_epoch_that_began_with_a_master_out_of_sync_is_known_until_the_next_one(elections):
    elections.add(held(alive={2: last_heartbeat()}), 1_000)
    assert not elections.beginning(SET, 6).is_unclean
    outsider = held(alive={3: last_heartbeat()}, call=ElectionRequest(allows_unclean=True))
    elections.add(outsider, 2_000)
    assert elections.beginning(SET, outsider.after.master_epoch).is_unclean
    # A replica asks who is master.
    elections.add(held(outsider.after, alive={3: last_heartbeat()}), 3_000)
    assert elections.of_set(SET).result is ElectionResult.KEPT
    assert elections.beginning(SET, outsider.after.master_epoch).is_unclean


def test_election_without_a_result_begins_no_epoch(elections):
    elections.add(held(), 1_000)
    assert [elections.beginning(SET, epoch) for epoch in (5, 6)] == [None, None]
