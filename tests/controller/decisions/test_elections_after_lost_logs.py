"""Elections where logs are shorter than they were known to be: membership of the SyncStateSet is no proof of a log."""

import pytest
from controller_builders import SET, a_set, last_heartbeat, replicas, view
from msgspec.structs import replace

from controller.decisions.cluster_view import ClusterView
from controller.decisions.election import ElectionRequest, ElectionResult, Verdict, decide_election, elect
from controller.decisions.known_log_ends import known_log_ends
from controller.failure_detection.log_ends import LogEnd, LogEnds
from controller.sets.broker_set import EpochStart, EpochStarted, MasterElected, MasterLost, SyncStateSetAltered
from controller.sets.stored_set import StoredSet

#: The heartbeats of these tests came at 0, when no master added to the logs any more.
LOST = ElectionRequest(static_from_ms=0)
#: The master of epoch 5 began at 200.
STARTED = EpochStart(epoch=5, offset=200)


def known(log_ends, **values):
    """A set of which is stored how much of the log its brokers have had; without a master unless one is given."""
    members = {i: replace(each, log_end=log_ends[i]) for i, each in replicas(*log_ends).items()}
    defaults = {"master": None, "replicas": members, "sync_state_set": frozenset(members), "epoch_start": STARTED}
    return a_set(**(defaults | values))


def reports(**ends):
    """Heartbeats of living brokers: b1=1000, or b1=(epoch, offset)."""
    found = {int(name[1:]): end if isinstance(end, tuple) else (5, end) for name, end in ends.items()}
    return view({i: last_heartbeat(epoch=epoch, max_offset=end) for i, (epoch, end) in found.items()})


def verdicts(election):
    return {candidate.broker_id: candidate.verdict for candidate in election.candidates}


def test_broker_whose_log_is_gone_is_not_elected_while_another_one_in_sync_may_come_back():
    election = elect(known({1: 1000, 2: 1000}), reports(b1=0), LOST)
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)
    assert verdicts(election) == {1: Verdict.LOG_SHRANK, 2: Verdict.NOT_ALIVE}
    assert election.candidates[0].lost_bytes == 1000


def test_master_is_lost_where_only_a_broker_without_its_log_is_left():
    election = elect(known({1: 1000, 2: 1000}, master=2), reports(b1=0), LOST)
    assert election.event == MasterLost()


@pytest.mark.parametrize("first", [(5, 0), (5, 999), (4, 1000), (-1, 0)])
def test_the_one_with_the_whole_log_is_elected_beside_one_that_has_lost_some(first):
    election = elect(known({1: 1000, 2: 1000}), reports(b1=first, b2=1000), LOST)
    assert (election.event, election.is_unclean) == (MasterElected(2), False)
    assert verdicts(election)[1] is Verdict.LOG_SHRANK


def test_longer_log_of_a_broker_out_of_sync_is_elected_where_the_one_in_sync_came_back_empty():
    """Its epoch file has survived, so it reports the last epoch with an empty log."""
    broker_set = known({1: 1000, 2: 150}, sync_state_set=frozenset({1}))
    election = elect(broker_set, reports(b1=(5, 0), b2=(4, 150)), LOST)
    assert (election.event, election.is_unclean) == (MasterElected(2), True)


def test_empty_broker_is_not_elected_over_a_log_that_ends_some_epochs_earlier():
    """Each restart of a master takes an epoch, so that epochs of logs have gaps."""
    broker_set = known({1: 800, 2: 1000}, sync_state_set=frozenset({2}), epoch_start=EpochStart(epoch=3, offset=800))
    election = elect(broker_set, reports(b1=(1, 800), b2=(3, 0)), LOST)
    assert election.event == MasterElected(1)


def test_late_heartbeat_of_before_an_election_does_not_unlock_the_tail_of_the_master_before():
    """What 1 has beyond 900 was never acknowledged: 2 was elected there while it wrote on."""
    broker_set = known({1: 0, 2: 0, 3: 0}, master_epoch=5).apply(MasterElected(2)).apply(EpochStarted(5, 900))
    broker_set = broker_set.apply(SyncStateSetAltered(frozenset({2, 3})))
    for epoch, end in ((5, 950), (6, 1095)):
        for event in known_log_ends(broker_set, {2: last_heartbeat(epoch=epoch, max_offset=end, confirm_offset=end)}):
            broker_set = broker_set.apply(event)
    election = elect(broker_set.apply(MasterLost()), reports(b1=1100, b2=(6, 1080), b3=(6, 1085)), LOST)
    assert election.event == MasterElected(3)


def test_longest_log_of_the_last_epoch_leads_where_it_is_not_known_where_epochs_begin():
    broker_set = known({1: 0, 2: 1095, 3: 1095}, sync_state_set=frozenset({2, 3}), epoch_start=EpochStart())
    election = elect(broker_set, reports(b1=1100, b2=(6, 1080), b3=(6, 1085)), LOST)
    assert election.event == MasterElected(3)


def test_master_that_runs_has_not_lost_its_log_whatever_its_last_heartbeat_says():
    election = elect(known({1: 1000, 2: 1000}, master=1), reports(b1=950, b2=1000), ElectionRequest(broker_id=2))
    assert election.result is ElectionResult.KEPT


def test_broker_in_sync_that_came_back_empty_waits_for_one_out_of_sync_that_is_known_to_have_more():
    broker_set = known({1: 1000, 2: 150}, sync_state_set=frozenset({1}))
    assert elect(broker_set, reports(b1=0), LOST).event is None
    assert elect(broker_set, reports(b1=151), LOST).event == MasterElected(1)


@pytest.mark.parametrize(("end", "chosen"), [(300, 1), (190, 2)])
def test_log_of_an_earlier_epoch_counts_up_to_the_start_of_the_next_one_unless_that_is_lost(end, chosen):
    """What it has beyond was written by a replaced master, and never acknowledged; a list of epochs survives a loss."""
    broker_set = known({1: 1000, 2: 150}, sync_state_set=frozenset({1}))
    assert elect(broker_set, reports(b1=(5, end), b2=(4, 900)), LOST).event == MasterElected(chosen)


@pytest.mark.parametrize(("ends", "leads"), [((400, 700), 2), ((700, 400), 1), ((700, 700), 1)])
def test_longest_log_leads_after_a_power_failure_that_cut_all_of_them(ends, leads):
    election = elect(known({1: 1000, 2: 1000}), reports(b1=ends[0], b2=ends[1]), LOST)
    assert (election.event, election.is_unclean) == (MasterElected(leads), True)
    assert sorted(each.lost_bytes for each in election.candidates) == sorted(1000 - each for each in ends)


def test_after_a_power_failure_the_last_member_is_waited_for_however_little_is_known_of_it():
    broker_set = known({1: 1000, 2: 1000, 3: 0})
    assert elect(broker_set, reports(b1=400, b2=700), LOST).event is None
    assert elect(broker_set.without(frozenset({3})), reports(b1=400, b2=700), LOST).event == MasterElected(2)


def test_unclean_elections_do_not_wait_and_take_the_longest():
    call = replace(LOST, broker_id=1, allows_unclean=True)
    election = elect(known({1: 1000, 2: 1000, 3: 1000}), reports(b1=(5, 0), b2=(4, 150)), call)
    assert (election.event, election.is_unclean) == (MasterElected(2), True)


def test_designated_broker_without_its_log_is_elected_only_where_nobody_can_have_more():
    call = replace(LOST, broker_id=1, is_designated=True)
    one_away = known({1: 1000, 2: 1000})
    assert elect(one_away, reports(b1=900), call).event is None
    assert elect(known({1: 1000, 2: 1000}), reports(b1=900, b2=1000), call).event is None
    assert elect(known({1: 1000, 2: 1000}), reports(b1=900, b2=800), call).event == MasterElected(1)
    assert elect(one_away, reports(b1=900), replace(call, allows_unclean=True)).event == MasterElected(1)


# Heartbeats are up to a second old


def test_old_heartbeat_of_a_running_broker_does_not_show_that_its_log_is_shorter():
    election = elect(known({1: 1000, 2: 1000}, master=1), reports(b2=900), replace(LOST, static_from_ms=1))
    assert (election.event, verdicts(election)[2]) == (None, Verdict.AWAITS_LONGER)


@pytest.mark.parametrize(("answer", "event"), [(1000, MasterElected(2)), (900, MasterLost())])
def test_answer_of_a_broker_shows_whether_its_log_is_shorter(answer, event):
    ends = LogEnds(by_id={2: LogEnd(5, answer)})
    alive = {2: last_heartbeat(max_offset=answer)}
    seen = ClusterView(trusted=alive, heartbeats=alive, log_ends=ends)
    assert elect(known({1: 1000, 2: 1000}, master=1), seen, replace(LOST, static_from_ms=1)).event == event


def test_starting_broker_that_has_not_reported_its_log_yet_is_waited_for():
    alive = {1: last_heartbeat(max_offset=-1, epoch=-1, awaits_heartbeat=True), 2: last_heartbeat(max_offset=900)}
    election = elect(known({1: 1000, 2: 1000}), view(alive), LOST)
    assert (election.event, verdicts(election)[1]) == (None, Verdict.AWAITS_LONGER)


# What is known, and when it ends


def after_election(broker_set, seen):
    return decide_election(SET, StoredSet(broker_set=broker_set), seen, LOST).after(StoredSet(broker_set=broker_set))


def test_what_is_beyond_the_start_of_the_next_epoch_is_no_loss():
    """Broker 1 had more than was acknowledged, and is cut to the log of its successor before it is in sync again."""
    broker_set = known({1: 1500, 2: 1400}, sync_state_set=frozenset({1, 2}))
    led = after_election(broker_set, reports(b2=1400)).broker_set
    assert (led.epoch_start, led.replicas[1].log_end) == (EpochStart(led.master_epoch, 1400), 1400)
    again = led.apply(SyncStateSetAltered(frozenset({1, 2}))).apply(MasterLost())
    election = elect(again, reports(b1=(5, 1400)), LOST)
    assert (election.event, election.is_unclean) == (MasterElected(1), False)


def test_epoch_without_messages_is_not_begun_in_the_log():
    quiet = known({1: 200, 2: 200}, master=1)
    assert quiet.apply(MasterElected(2)).apply(EpochStarted(5, 200)).epoch_start == STARTED
    assert quiet.apply(MasterElected(2)).apply(EpochStarted(4, 150)).epoch_start == EpochStart(6, 150)


def test_nothing_is_known_of_logs_once_one_is_elected_that_has_reported_nothing():
    led = known({1: 1000, 2: 1000}).apply(MasterElected(2)).apply(EpochStarted(-1, -1))
    assert (led.epoch_start, {each.log_end for each in led.replicas.values()}) == (EpochStart(), {0})


def known_after(broker_set, last, joined=()):
    for event in known_log_ends(broker_set, last, joined):
        broker_set = broker_set.apply(event)
    return {i: each.log_end for i, each in broker_set.replicas.items()}


def test_members_of_the_sync_state_set_have_what_the_master_has_confirmed():
    broker_set = known({1: 300, 2: 300, 3: 300}, master=1, sync_state_set=frozenset({1, 2}))
    last = {1: last_heartbeat(max_offset=900, confirm_offset=800), 2: last_heartbeat(max_offset=700)}
    assert known_after(broker_set, last) == {1: 900, 2: 800, 3: 300}
    assert known_log_ends(known({1: 900, 2: 800, 3: 300}, master=1, sync_state_set=frozenset({1, 2})), last) == ()


def test_a_shorter_report_changes_nothing_of_what_is_known_before_the_broker_is_in_sync_again():
    broker_set = known({1: 900, 2: 900}, master=1, sync_state_set=frozenset({1}))
    last = {1: last_heartbeat(max_offset=950, confirm_offset=950), 2: last_heartbeat(max_offset=10)}
    assert known_after(broker_set, last) == {1: 950, 2: 900}
    assert known_after(broker_set, {**last, 2: last_heartbeat(max_offset=940)}) == {1: 950, 2: 940}
    assert known_after(broker_set, {1: last_heartbeat(max_offset=600, confirm_offset=600)}, joined={2}) == {
        1: 600,
        2: 600,
    }


def test_nobody_has_more_than_the_master_whatever_is_sent_in_their_names():
    broker_set = known({1: 900, 2: 900}, master=1)
    assert known_after(broker_set, {1: last_heartbeat(max_offset=950), 2: last_heartbeat(max_offset=10**15)})[2] == 950


def test_master_is_known_to_have_had_what_its_successor_had_copied():
    """A copied message may be acknowledged, and the last heartbeat of the master be older."""
    entry = StoredSet(broker_set=known({1: 900, 2: 900}, master=1))
    last = {1: last_heartbeat(max_offset=900, confirm_offset=900), 2: last_heartbeat(max_offset=1000)}
    decision = decide_election(SET, entry, ClusterView(trusted={2: last[2]}, last=last), LOST)
    after = decision.after(entry).broker_set
    assert (after.master, after.replicas[1].log_end, after.epoch_start.offset) == (2, 1000, 1000)


def test_report_with_an_epoch_that_nobody_was_elected_for_says_nothing():
    broker_set = known({1: 900, 2: 900}, master=None)
    assert known_log_ends(broker_set, {1: last_heartbeat(epoch=broker_set.master_epoch + 1, max_offset=10**9)}) == ()


def test_reports_of_a_master_before_it_begins_its_epoch_do_not_lower_what_is_known():
    """A slave reports half messages, which it cuts when it is elected: its first report as master is exact."""
    led = known({1: 900, 2: 900}).apply(MasterElected(2)).apply(EpochStarted(5, 950))
    assert known_after(led, {2: last_heartbeat(epoch=5, max_offset=700)}) == {1: 900, 2: 950}
    assert known_after(led, {2: last_heartbeat(epoch=led.master_epoch, max_offset=890)}) == {1: 890, 2: 890}


@pytest.mark.parametrize(
    ("log_epoch", "max_offset", "file_epoch"),
    [(5, 1400, 5), (4, 150, 5), (3, 1400, 3)],
    ids=["the last epoch has no message", "its log was cut below the last epoch", "the store was lost meanwhile"],
)
def test_log_ends_are_known_where_the_broker_has_not_begun_the_epoch_it_was_elected_for(
    log_epoch, max_offset, file_epoch
):
    broker_set = known({1: 0, 2: 0}, master_epoch=100_000).apply(MasterElected(2))
    broker_set = broker_set.apply(EpochStarted(log_epoch, max_offset)).apply(SyncStateSetAltered(frozenset({1, 2})))
    grown = {i: last_heartbeat(epoch=file_epoch, max_offset=9_000, confirm_offset=9_000) for i in (1, 2)}
    for event in known_log_ends(broker_set, grown):
        broker_set = broker_set.apply(event)
    assert {i: each.log_end for i, each in broker_set.replicas.items()} == {1: 9_000, 2: 9_000}
    assert known_log_ends(broker_set, grown) == ()
    rolled_back = view({1: last_heartbeat(epoch=file_epoch, max_offset=5_000)})
    assert elect(broker_set.apply(MasterLost()), rolled_back, LOST).event is None
