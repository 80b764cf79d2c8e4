"""Elections that are decided by what brokers have answered of their logs, and not by their last heartbeats."""

import pytest
from controller_builders import a_set, last_heartbeat

from controller.decisions.cluster_view import ClusterView
from controller.decisions.election import ElectionRequest, ElectionResult, Verdict, elect
from controller.failure_detection.heartbeats import UNKNOWN
from controller.failure_detection.log_ends import GROWTH_BYTES_MAX, LogEnd, LogEnds
from controller.sets.broker_set import MasterElected, MasterLost

LOST = ElectionRequest()
THREE_IN_SYNC = {"sync_state_set": frozenset({1, 2, 3})}


def verdicts(election):
    return {candidate.broker_id: candidate.verdict for candidate in election.candidates}


def answered(ends, confirmed_on=None, master_of=()):
    """What is known where brokers have answered: id -> (epoch, max offset)."""
    by_id = {i: LogEnd(*end, is_master=i in master_of) for i, end in ends.items()}
    alive = {i: last_heartbeat(epoch=end.epoch, max_offset=end.max_offset) for i, end in by_id.items()}
    return ClusterView(trusted=alive, heartbeats=alive, log_ends=LogEnds(by_id=by_id, confirmed_on=confirmed_on))


@pytest.mark.parametrize(
    ("ends", "confirmed_on", "is_enough"),
    [
        ({2: (5, 10), 3: (5, 9)}, 2, True),
        ({2: (5, 10)}, 2, False),
        ({2: (5, 10)}, 3, True),
        ({2: (5, 10)}, None, True),
    ],
    ids=["all others", "one of two may hold it alone", "all three hold it", "whoever is in sync holds it"],
)
def test_no_election_before_a_queried_log_is_certain_to_hold_all_confirmed_messages(ends, confirmed_on, is_enough):
    election = elect(a_set(**THREE_IN_SYNC), answered(ends, confirmed_on), LOST)
    if is_enough:
        assert election.event == MasterElected(2)
    else:
        assert (election.result, election.event) == (ElectionResult.NOBODY, MasterLost())
        assert verdicts(election)[2] is Verdict.AWAITS_ANSWERS


@pytest.mark.parametrize(("beaten_ms", "is_enough"), [(0, True), (-1, False)])
def test_starting_broker_counts_only_with_a_heartbeat_after_the_loss_of_the_master(beaten_ms, is_enough):
    """Before that it may have found the master and followed it."""
    known = answered({2: (5, 10)}, confirmed_on=2)
    starting = last_heartbeat(last_contact_ms=beaten_ms, max_offset=4, is_starting=True)
    known = ClusterView(trusted={**known.trusted, 3: starting}, heartbeats=known.heartbeats, log_ends=known.log_ends)
    election = elect(a_set(**THREE_IN_SYNC), known, ElectionRequest(fresh_from_ms=0))
    assert election.event == (MasterElected(2) if is_enough else MasterLost())


def test_elections_by_an_operator_and_unclean_elections_do_not_wait_for_log_ends():
    known = answered({2: (5, 10)}, confirmed_on=2)
    for call in (ElectionRequest(broker_id=2, is_designated=True), ElectionRequest(broker_id=2, allows_unclean=True)):
        assert elect(a_set(**THREE_IN_SYNC), known, call).event == MasterElected(2)


@pytest.mark.parametrize(
    ("ends", "confirmed_on", "chosen"),
    [
        ({2: (5, 10), 3: (5, 11)}, 2, 3),
        ({2: (5, 10), 3: (5, 11)}, None, 2),
        ({2: (5, 10), 3: (6, 11)}, None, 2),
        ({2: (5, 10), 3: (4, 11)}, 2, 2),
    ],
    ids=[
        "it holds more",
        "whoever is in sync holds all",
        "whoever is in sync holds all, at any epoch",
        "an older history",
    ],
)
def test_broker_out_of_sync_is_elected_only_if_it_may_be_the_only_holder_of_messages(ends, confirmed_on, chosen):
    election = elect(a_set(master_epoch=6), answered(ends, confirmed_on), LOST)
    assert (election.event, election.is_unclean) == (MasterElected(chosen), False)


def test_no_election_while_a_later_epoch_out_of_sync_may_be_the_only_holder_of_messages():
    election = elect(a_set(master_epoch=6), answered({2: (5, 10), 3: (6, 11)}, 2), LOST)
    assert (election.result, election.event) == (ElectionResult.NOBODY, MasterLost())
    assert verdicts(election)[2] is Verdict.OUTSIDER_AHEAD


@pytest.mark.parametrize(("epoch", "chosen"), [(7, 1), (6, 2)])
def test_on_an_old_store_the_serving_master_is_elected_over_a_longer_log_of_its_epoch(epoch, chosen):
    known = answered({1: (epoch, 105_840), 2: (7, 107_760)}, master_of={1})
    assert elect(a_set(), known, LOST).event == MasterElected(chosen)


def test_on_an_old_store_log_ends_are_not_compared_with_longer_past_heartbeats():
    ends = answered({2: (7, 107_760)})
    alive = {1: last_heartbeat(epoch=7, max_offset=105_840), **ends.trusted}
    known = ClusterView(trusted=alive, heartbeats=alive, log_ends=ends.log_ends)
    assert elect(a_set(), known, LOST).result is ElectionResult.NOBODY


@pytest.mark.parametrize("beaten", [107_760, 107_761])
def test_broker_without_a_log_end_is_elected_where_its_heartbeat_is_no_shorter_than_any(beaten):
    """Its log can only be longer by now; nobody would ever lead if its answer were waited for."""
    ends = answered({2: (7, 107_760)})
    alive = {1: last_heartbeat(epoch=7, max_offset=beaten), **ends.trusted}
    known = ClusterView(trusted=alive, heartbeats=alive, log_ends=ends.log_ends)
    assert elect(a_set(), known, LOST).event == MasterElected(1)


def test_heartbeats_decide_where_all_brokers_with_a_log_end_have_failed():
    alive = {1: last_heartbeat(epoch=7, max_offset=5), 2: last_heartbeat(epoch=7, max_offset=6)}
    known = ClusterView(trusted=alive, heartbeats=alive, log_ends=answered({3: (7, 10)}).log_ends)
    assert elect(a_set(), known, LOST).event == MasterElected(2)


@pytest.mark.parametrize("awaits_heartbeat", [False, True])
def test_heartbeat_of_a_starting_broker_counts_as_its_log_end(awaits_heartbeat):
    """It answers nothing before it has a role, and nothing is added to its log meanwhile."""
    known = answered({2: (5, 10)}, confirmed_on=2)
    starting = last_heartbeat(max_offset=9, is_starting=True, awaits_heartbeat=awaits_heartbeat)
    known = ClusterView(trusted={**known.trusted, 3: starting}, heartbeats=known.heartbeats, log_ends=known.log_ends)
    election = elect(a_set(**THREE_IN_SYNC), known, LOST)
    assert election.event == (MasterLost() if awaits_heartbeat else MasterElected(2))


# What is believed


def test_log_end_above_the_master_epoch_is_ignored():
    ends = LogEnds(by_id={2: LogEnd(6, 10), 3: LogEnd(5, 10)})
    assert ends.believed(5, None).by_id.keys() == {3}


def test_log_end_far_beyond_that_of_the_master_is_ignored():
    ends = LogEnds(by_id={2: LogEnd(5, 1001 + GROWTH_BYTES_MAX), 3: LogEnd(5, 2000)})
    assert ends.believed(5, last_heartbeat(max_offset=1000)).by_id.keys() == {3}
    # Nobody knows where its log ended.
    assert ends.believed(5, last_heartbeat(max_offset=UNKNOWN)).by_id.keys() == {2, 3}
    assert ends.believed(5, last_heartbeat(epoch=4)).by_id.keys() == {2, 3}


@pytest.mark.parametrize(
    ("ends", "leaves_doubt"),
    [
        ({2: LogEnd(5, 10), 3: LogEnd(5, 10)}, False),
        ({2: LogEnd(5, 10)}, True),
        ({2: LogEnd(5, 10), 3: LogEnd(5, 11)}, True),
        ({3: LogEnd(5, 11)}, True),
    ],
    ids=["all, and one in sync is longest", "one is missing", "one out of sync is longer", "nobody in sync"],
)
def test_log_ends_are_inconclusive_where_a_broker_may_be_the_only_holder_of_messages(ends, leaves_doubt):
    assert LogEnds(by_id=ends).are_inconclusive({1, 2}, others=2) is leaves_doubt
