"""Who becomes master, and what an operator is told about the others."""

import pytest
from controller_builders import SET, a_set, last_heartbeat, replicas, view
from hypothesis import given
from hypothesis import strategies as st

from controller.decisions.cluster_view import ClusterView
from controller.decisions.election import ElectionRequest, ElectionResult, Verdict, decide_election, elect
from controller.refusals import EpochsUsedUp, SetUnknown
from controller.sets.broker_set import (
    MASTER_EPOCH_MAX,
    RAISED_EPOCH_MAX,
    RECOVERY_MARGIN,
    BrokerSet,
    EpochStarted,
    LogEndsKnown,
    MasterElected,
    MasterEpochRaised,
    MasterLost,
)
from controller.sets.stored_set import StoredSet

LOST = ElectionRequest()
THREE_IN_SYNC = {"sync_state_set": frozenset({1, 2, 3}), "master": None}


def living(*broker_ids):
    return view({i: last_heartbeat() for i in broker_ids})


def verdicts(election):
    return {candidate.broker_id: candidate.verdict for candidate in election.candidates}


def epochs_of(decision):
    """What a decision makes of the master and the master epoch of a set."""
    return tuple(each for each in decision.events if not isinstance(each, EpochStarted | LogEndsKnown))


EMPTY = last_heartbeat(epoch=-1, max_offset=0)


# The first master of a set


def new_set(**values):
    young = {"master": None, "is_elected": False, "sync_state_set": frozenset(), "master_epoch": 0}
    return a_set(**(young | values))


def test_first_requester_becomes_master_of_a_set_that_never_had_one():
    election = elect(new_set(), view({1: EMPTY, 2: EMPTY}), ElectionRequest(broker_id=1))
    assert (election.result, election.event) == (ElectionResult.NEW_MASTER, MasterElected(1))
    assert verdicts(election) == {1: Verdict.ELECTED, 2: Verdict.NOT_FIRST, 3: Verdict.NOT_ALIVE}


@pytest.mark.parametrize(
    "call",
    [
        ElectionRequest(broker_id=9),
        ElectionRequest(broker_id=3),
        LOST,
        ElectionRequest(broker_id=9, is_designated=True),
    ],
)
def test_only_a_living_member_becomes_master_of_a_new_set(call):
    election = elect(new_set(), view({1: EMPTY, 9: EMPTY}), call)
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)


# A set that is new to the store, and not to its brokers

NON_MEMBER_WITH_MESSAGES = {1: EMPTY, 8: last_heartbeat(epoch=7, max_offset=900)}


@pytest.mark.parametrize("call", [LOST, ElectionRequest(broker_id=1)])
def test_new_set_has_no_election_while_a_non_member_has_messages(call):
    election = elect(new_set(), view(NON_MEMBER_WITH_MESSAGES), call)
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)
    assert verdicts(election)[1] is Verdict.NOT_BEFORE_NON_MEMBER


def test_operator_can_elect_a_new_broker_although_a_non_member_has_messages():
    election = elect(new_set(), view(NON_MEMBER_WITH_MESSAGES), ElectionRequest(broker_id=1, is_designated=True))
    assert election.event == MasterElected(1)


def test_non_member_without_messages_does_not_block_the_election():
    election = elect(new_set(), view({1: EMPTY, 8: EMPTY}), ElectionRequest(broker_id=1))
    assert election.event == MasterElected(1)


def test_longest_log_wins_over_the_first_requester_where_members_of_a_new_set_have_messages():
    cleaned = new_set(master_epoch=7)
    logs = {1: EMPTY, 2: last_heartbeat(epoch=7, max_offset=900)}
    assert ClusterView(heartbeats=logs).is_ahead_of(cleaned)
    assert elect(cleaned, view(logs), ElectionRequest(broker_id=1)).event == MasterElected(2)


def test_epoch_of_a_new_set_with_messages_is_raised_by_the_recovery_margin():
    logs = {2: last_heartbeat(epoch=7, max_offset=900)}
    decision = decide_election(
        SET, StoredSet(broker_set=new_set(master_epoch=7)), view(logs), ElectionRequest(broker_id=2)
    )
    assert epochs_of(decision) == (MasterEpochRaised(7 + RECOVERY_MARGIN), MasterElected(2))


# A classic master and its slave that are converted: their logs have no epoch


@pytest.mark.parametrize("asks", [1, 2, 3])
def test_first_master_of_members_without_epoch_has_the_longest_log_whoever_requests(asks):
    logs = {1: EMPTY, 2: last_heartbeat(epoch=-1, max_offset=900), 3: last_heartbeat(epoch=-1, max_offset=800)}
    assert ClusterView(heartbeats=logs).is_ahead_of(new_set())
    election = elect(new_set(), view(logs), ElectionRequest(broker_id=asks))
    assert election.event == MasterElected(2)
    assert verdicts(election) == {1: Verdict.BEHIND, 2: Verdict.ELECTED, 3: Verdict.BEHIND}
    assert not election.is_unclean


def test_first_master_of_equal_logs_without_epoch_has_the_smaller_id():
    logs = {i: last_heartbeat(epoch=-1, max_offset=900) for i in (3, 2)}
    assert elect(new_set(), view(logs), ElectionRequest(broker_id=3)).event == MasterElected(2)


# A store that is older than the logs


#: The recorded master is not heard, who is in sync knows higher epochs.
OLD_BACKUP = {2: last_heartbeat(epoch=7, max_offset=60), 3: last_heartbeat(epoch=7, max_offset=50)}


def test_longest_log_is_elected_with_a_recovery_margin_where_the_store_is_behind_the_logs():
    decision = decide_election(SET, StoredSet(broker_set=a_set()), view(OLD_BACKUP), LOST)
    assert epochs_of(decision) == (MasterEpochRaised(7 + RECOVERY_MARGIN), MasterElected(2))
    assert verdicts(decision.reply) == {1: Verdict.NOT_ALIVE, 2: Verdict.ELECTED, 3: Verdict.BEHIND}
    assert not decision.reply.is_unclean


def test_election_of_a_broker_out_of_sync_by_an_old_store_is_recorded_as_unclean():
    logs = {2: last_heartbeat(epoch=6, max_offset=60), 3: last_heartbeat(epoch=7, max_offset=50)}
    decision = decide_election(SET, StoredSet(broker_set=a_set()), view(logs), LOST)
    assert epochs_of(decision) == (MasterEpochRaised(7 + RECOVERY_MARGIN), MasterElected(3))
    assert decision.reply.is_unclean


def test_recorded_master_with_the_longest_log_gets_an_epoch_above_all_logs():
    logs = {1: last_heartbeat(epoch=7, max_offset=70), 2: last_heartbeat(epoch=7, max_offset=60)}
    decision = decide_election(SET, StoredSet(broker_set=a_set()), view(logs), ElectionRequest(broker_id=2))
    assert epochs_of(decision) == (MasterEpochRaised(7 + RECOVERY_MARGIN), MasterElected(1))


def test_election_on_an_old_store_waits_for_the_log_end_of_a_started_broker():
    logs = OLD_BACKUP | {3: last_heartbeat(epoch=-1, max_offset=-1, awaits_heartbeat=True)}
    election = elect(a_set(), view(logs), ElectionRequest(broker_id=2))
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)
    election = elect(a_set(), view(logs | {3: last_heartbeat(epoch=7, max_offset=70)}), ElectionRequest(broker_id=2))
    assert election.event == MasterElected(3)


def test_longest_log_is_elected_with_a_recovery_margin_where_the_store_has_no_master():
    decision = decide_election(SET, StoredSet(broker_set=new_set()), view(OLD_BACKUP), ElectionRequest(broker_id=1))
    assert epochs_of(decision) == (MasterEpochRaised(7 + RECOVERY_MARGIN), MasterElected(2))


def test_new_master_has_an_epoch_above_one_that_a_master_reported():
    knows = ClusterView(
        trusted={2: last_heartbeat(max_offset=9), 3: last_heartbeat()},
        heartbeats={2: last_heartbeat(), 3: last_heartbeat()},
        reported={2: 5},
    )
    decision = decide_election(SET, StoredSet(broker_set=a_set()), knows, LOST)
    assert epochs_of(decision) == (MasterEpochRaised(5 + RECOVERY_MARGIN), MasterElected(3))
    knows = ClusterView(trusted={1: last_heartbeat()}, heartbeats={1: last_heartbeat()}, reported={1: 8})
    decision = decide_election(SET, StoredSet(broker_set=a_set()), knows, LOST)
    assert epochs_of(decision) == (MasterEpochRaised(8 + RECOVERY_MARGIN), MasterElected(1))


# Claims of higher epochs that prove nothing


FALSE_CLAIM = last_heartbeat(epoch=6, max_offset=5)


def test_higher_epoch_of_a_broker_out_of_sync_raises_the_epoch_and_does_not_elect_it():
    alive = {2: last_heartbeat(), 3: FALSE_CLAIM}
    assert ClusterView(heartbeats=alive).disputes(a_set()) == {3: 6}
    decision = decide_election(SET, StoredSet(broker_set=a_set()), view(alive), LOST)
    assert epochs_of(decision) == (MasterEpochRaised(6), MasterElected(2))
    assert verdicts(decision.reply)[3] is Verdict.OUT_OF_SYNC
    alone = decide_election(
        SET, StoredSet(broker_set=a_set(master=None)), view({3: FALSE_CLAIM}), ElectionRequest(broker_id=3)
    )
    assert (alone.reply.result, alone.events) == (ElectionResult.NOBODY, ())


@pytest.mark.parametrize(
    "claims", [{3: FALSE_CLAIM}, {2: last_heartbeat(epoch=6)}, {2: last_heartbeat(epoch=6), 3: FALSE_CLAIM}]
)
def test_higher_epoch_does_not_replace_a_living_master_of_the_stored_epoch(claims):
    alive = {1: last_heartbeat(), 2: last_heartbeat()} | claims
    assert not ClusterView(heartbeats=alive).is_ahead_of(a_set())
    assert ClusterView(heartbeats=alive).disputes(a_set()).keys() == claims.keys()
    election = elect(a_set(), view(alive), ElectionRequest(broker_id=3))
    assert (election.result, election.event) == (ElectionResult.KEPT, None)


def test_operator_can_elect_a_broker_out_of_sync_with_a_higher_epoch_and_the_election_is_unclean():
    call = ElectionRequest(broker_id=3, is_designated=True, allows_unclean=True)
    far = last_heartbeat(epoch=5_000_000, max_offset=5)
    decision = decide_election(SET, StoredSet(broker_set=a_set()), view({1: last_heartbeat(), 3: far}), call)
    assert epochs_of(decision) == (MasterEpochRaised(5_000_000), MasterElected(3))
    assert decision.reply.is_unclean


@pytest.mark.parametrize(
    ("claim", "raised"), [(5 + 1_000, 5 + 1_000), (5 + 1_001, None), (RAISED_EPOCH_MAX, None), (2**31 - 1, None)]
)
def test_epoch_of_a_broker_out_of_sync_raises_the_master_epoch_by_1000_at_most(claim, raised):
    decision = decide_election(
        SET,
        StoredSet(broker_set=a_set()),
        view({2: last_heartbeat(), 3: last_heartbeat(epoch=claim, max_offset=5)}),
        LOST,
    )
    assert epochs_of(decision) == ((MasterEpochRaised(raised), MasterElected(2)) if raised else (MasterElected(2),))


def test_members_without_disputed_epochs_dispute_nothing():
    assert (
        ClusterView(heartbeats={1: last_heartbeat(), 2: last_heartbeat(), 9: last_heartbeat(epoch=9)}).disputes(a_set())
        == {}
    )
    assert ClusterView(heartbeats=OLD_BACKUP).disputes(a_set()) == {}
    assert ClusterView(heartbeats=OLD_BACKUP).disputes(a_set(is_rebuilding=True)) == {}
    assert ClusterView(heartbeats=OLD_BACKUP).disputes(new_set()) == {}


@pytest.mark.parametrize("master_epoch", [MASTER_EPOCH_MAX - 1, MASTER_EPOCH_MAX])
def test_election_beyond_the_largest_master_epoch_is_refused(master_epoch):
    entry = StoredSet(broker_set=a_set(master_epoch=master_epoch))
    if master_epoch == MASTER_EPOCH_MAX:
        with pytest.raises(EpochsUsedUp, match="another name"):
            decide_election(SET, entry, living(2), LOST)
    else:
        after = decide_election(SET, entry, living(2), LOST).after(entry).broker_set
        assert (after.master, after.master_epoch) == (2, MASTER_EPOCH_MAX)
        assert after.with_master(None).master_epoch == MASTER_EPOCH_MAX


def test_no_election_while_only_suspects_have_newer_logs():
    suspects = ClusterView(heartbeats=OLD_BACKUP)
    assert decide_election(SET, StoredSet(broker_set=a_set()), suspects, LOST).events == ()


def test_election_by_an_operator_on_an_old_store_raises_the_epoch_too():
    call = ElectionRequest(broker_id=2, is_designated=True)
    decision = decide_election(SET, StoredSet(broker_set=a_set()), view(OLD_BACKUP), call)
    assert epochs_of(decision) == (MasterEpochRaised(7 + RECOVERY_MARGIN), MasterElected(2))


# The next ones


@pytest.mark.parametrize(
    ("alive", "chosen"),
    [
        ({2: last_heartbeat(epoch=5, max_offset=10), 3: last_heartbeat(epoch=4, max_offset=99)}, 2),
        ({2: last_heartbeat(max_offset=10), 3: last_heartbeat(max_offset=10 + 2**33)}, 3),
        ({2: last_heartbeat(priority=2), 3: last_heartbeat(priority=1)}, 3),
        ({2: last_heartbeat(priority=2**31 - 1), 3: last_heartbeat(priority=-(2**31))}, 3),
        ({2: last_heartbeat(), 3: last_heartbeat()}, 2),
    ],
    ids=["epoch before offset", "longer log", "priority", "priorities far apart", "smaller id"],
)
def test_epoch_then_log_then_priority_then_smaller_id_decide_the_election(alive, chosen):
    election = elect(a_set(**THREE_IN_SYNC), view(alive), LOST)
    assert election.event == MasterElected(chosen)


def test_each_candidate_that_was_not_elected_has_a_verdict():
    five = a_set(replicas=replicas(1, 2, 3, 4, 5), sync_state_set=frozenset({1, 2, 3, 4}), master=None)
    alive = {
        2: last_heartbeat(),
        3: last_heartbeat(max_offset=10),
        4: last_heartbeat(priority=2**31 - 1),
        5: last_heartbeat(max_offset=99999),
    }
    election = elect(five, view(alive), LOST)
    assert verdicts(election) == {
        1: Verdict.NOT_ALIVE,
        2: Verdict.ELECTED,
        3: Verdict.BEHIND,
        4: Verdict.HIGHER_ID,
        5: Verdict.OUT_OF_SYNC,
    }
    assert not election.is_unclean


def test_living_master_stays_master():
    election = elect(
        a_set(), view({1: last_heartbeat(), 2: last_heartbeat(max_offset=9999)}), ElectionRequest(broker_id=2)
    )
    assert (election.result, election.event) == (ElectionResult.KEPT, None)
    assert verdicts(election)[1] is Verdict.KEPT


def test_broker_out_of_sync_is_elected_only_if_unclean_elections_are_allowed():
    election = elect(a_set(), view({3: last_heartbeat(max_offset=9999)}), LOST)
    assert (election.result, election.event) == (ElectionResult.NOBODY, MasterLost())
    assert verdicts(election)[3] is Verdict.OUT_OF_SYNC
    allowed = elect(a_set(), view({3: last_heartbeat(max_offset=10)}), ElectionRequest(allows_unclean=True))
    assert (allowed.event, allowed.is_unclean) == (MasterElected(3), True)


def test_broker_in_sync_is_preferred_although_unclean_elections_are_allowed():
    election = elect(
        a_set(),
        view({2: last_heartbeat(max_offset=1), 3: last_heartbeat(max_offset=9999)}),
        ElectionRequest(allows_unclean=True),
    )
    assert (election.event, election.is_unclean) == (MasterElected(2), False)


@pytest.mark.parametrize(
    ("known", "verdict"),
    [
        (
            ClusterView(trusted={3: last_heartbeat()}, heartbeats={2: last_heartbeat(), 3: last_heartbeat()}),
            Verdict.SUSPECT,
        ),
        (
            ClusterView(trusted={3: last_heartbeat()}, heartbeats={3: last_heartbeat()}, may_live={2, 3}),
            Verdict.NO_CONTACT_YET,
        ),
    ],
    ids=["suspect", "not heard yet"],
)
def test_broker_out_of_sync_is_not_elected_while_one_in_sync_may_live(known, verdict):
    call = ElectionRequest(broker_id=3, allows_unclean=True)
    election = elect(a_set(master=None), known, call)
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)
    assert (verdicts(election)[2], verdicts(election)[3]) == (verdict, Verdict.OUT_OF_SYNC)
    assert elect(a_set(master=None), living(3), call).event == MasterElected(3)


def test_operator_can_elect_a_broker_out_of_sync_if_unclean_elections_are_allowed():
    call = ElectionRequest(broker_id=3, is_designated=True, allows_unclean=True)
    election = elect(a_set(), living(1, 2, 3), call)
    assert (election.event, election.is_unclean) == (MasterElected(3), True)


def test_loss_of_a_master_is_one_event():
    assert elect(a_set(), view({}), LOST).event == MasterLost()
    assert elect(a_set(master=None), view({}), LOST).event is None


def test_election_request_of_a_broker_that_cannot_lead_changes_nothing():
    assert elect(a_set(), living(3), ElectionRequest(broker_id=3)).event is None


# Designated elections


@pytest.mark.parametrize(
    ("broker_id", "result", "event"),
    [
        (2, ElectionResult.NEW_MASTER, MasterElected(2)),
        (1, ElectionResult.KEPT, None),
        (3, ElectionResult.NOBODY, None),
        (9, ElectionResult.NOBODY, None),
    ],
    ids=["in sync", "master already", "out of sync", "unknown"],
)
def test_operator_can_replace_a_living_master_by_a_broker_in_sync(broker_id, result, event):
    election = elect(a_set(), living(1, 2, 3), ElectionRequest(broker_id=broker_id, is_designated=True))
    assert (election.result, election.event) == (result, event)
    assert verdicts(election)[1] is (Verdict.KEPT if broker_id == 1 else Verdict.NOT_WANTED)


# Who may be dead


def test_suspect_is_not_elected():
    known = ClusterView(
        trusted={3: last_heartbeat()}, heartbeats={2: last_heartbeat(max_offset=9999), 3: last_heartbeat()}
    )
    election = elect(a_set(**THREE_IN_SYNC), known, LOST)
    assert election.event == MasterElected(3)
    assert verdicts(election) == {1: Verdict.NOT_ALIVE, 2: Verdict.SUSPECT, 3: Verdict.ELECTED}


@pytest.mark.parametrize(
    ("two", "three", "event", "verdict"),
    [
        # The master stays recorded: it is over in a moment.
        ((7_999, 9999), 8_000, None, {3: Verdict.AWAITS_LONGER}),
        ((7_999, 1000), 8_000, MasterElected(3), {2: Verdict.OVERDUE}),
        ((7_000, 10), 7_900, MasterElected(3), {2: Verdict.BEHIND}),
    ],
    ids=["its log may be longer", "equal logs", "both are overdue"],
)
def test_overdue_broker_is_waited_for_only_if_its_log_may_be_longer(two, three, event, verdict):
    heard = {
        2: last_heartbeat(last_contact_ms=two[0], max_offset=two[1]),
        3: last_heartbeat(last_contact_ms=three),
    }
    election = elect(a_set(**THREE_IN_SYNC), view(heard), ElectionRequest(fresh_from_ms=8_000))
    assert election.event == event
    assert (election.result is ElectionResult.NOBODY) == (event is None)
    assert verdict.items() <= verdicts(election).items()


@pytest.mark.parametrize("call", [LOST, ElectionRequest(broker_id=2), ElectionRequest(allows_unclean=True)])
@pytest.mark.parametrize(
    "known",
    [
        ClusterView(trusted={2: last_heartbeat()}, heartbeats={1: last_heartbeat(), 2: last_heartbeat()}),
        ClusterView(trusted={2: last_heartbeat()}, heartbeats={2: last_heartbeat()}, may_live={1, 2}),
    ],
    ids=["suspect", "not heard yet"],
)
def test_master_that_may_live_is_not_replaced(call, known):
    election = elect(a_set(), known, call)
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)


def test_operator_can_replace_a_master_that_may_live():
    known = ClusterView(trusted={2: last_heartbeat()}, heartbeats={1: last_heartbeat(), 2: last_heartbeat()})
    assert elect(a_set(), known, ElectionRequest(broker_id=2, is_designated=True)).event == MasterElected(2)


def test_verdict_lower_priority_where_logs_are_equal():
    election = elect(a_set(**THREE_IN_SYNC), view({2: last_heartbeat(priority=2), 3: last_heartbeat(priority=1)}), LOST)
    assert verdicts(election)[2] is Verdict.LOWER_PRIORITY


def test_no_other_broker_is_elected_for_a_failed_designated_one_in_an_unclean_election():
    call = ElectionRequest(broker_id=2, is_designated=True, allows_unclean=True)
    election = elect(a_set(), living(1, 3), call)
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)
    assert verdicts(election)[3] is Verdict.NOT_WANTED


# Epochs


@pytest.mark.parametrize(
    ("epoch", "master_epoch"), [(9, 10 + RECOVERY_MARGIN), (6, 7 + RECOVERY_MARGIN), (5, 6), (-1, 6)]
)
def test_new_master_has_an_epoch_above_every_log(epoch, master_epoch):
    entry = StoredSet(broker_set=a_set())
    decision = decide_election("broker-a", entry, view({2: last_heartbeat(epoch=epoch)}), LOST)
    assert decision.reply.event == MasterElected(2)
    assert (MasterEpochRaised(epoch + RECOVERY_MARGIN) in decision.events) == (epoch > 5)
    after = decision.after(entry).broker_set
    assert (after.master, after.master_epoch) == (2, master_epoch)


def test_disputed_epoch_stays_disputed_after_the_master_is_lost():
    entry = StoredSet(broker_set=a_set(sync_state_set=frozenset({1})))
    claims = ClusterView(heartbeats={2: last_heartbeat(epoch=9)})
    after = decide_election("broker-a", entry, claims, LOST).after(entry).broker_set
    assert (after.master, after.master_epoch) == (None, 6)
    assert claims.disputes(after) == {2: 9}


@pytest.mark.parametrize("claim", [5 + 1_000_001, RAISED_EPOCH_MAX, 2**31 - 1])
def test_out_of_range_epoch_of_a_broker_in_sync_does_not_raise_the_master_epoch(claim):
    claims = view({2: last_heartbeat(epoch=claim), 3: last_heartbeat()})
    assert claims.disputes(a_set()) == {2: claim}
    decision = decide_election(SET, StoredSet(broker_set=a_set()), claims, LOST)
    assert epochs_of(decision) == (MasterElected(2),)


def test_epoch_is_raised_by_the_recovery_margin_only_below_the_limit():
    last = RAISED_EPOCH_MAX - RECOVERY_MARGIN
    entry = StoredSet(broker_set=a_set(master_epoch=last - 1))
    assert (
        MasterEpochRaised(RAISED_EPOCH_MAX)
        in decide_election(SET, entry, view({2: last_heartbeat(epoch=last)}), LOST).events
    )
    entry = StoredSet(broker_set=a_set(master_epoch=last))
    assert epochs_of(decide_election(SET, entry, view({2: last_heartbeat(epoch=last + 1)}), LOST)) == (
        MasterEpochRaised(last + 1),
        MasterElected(2),
    )


def test_election_without_another_master_moves_no_epoch():
    non_members = {9: last_heartbeat(epoch=9)}
    knows = ClusterView(trusted={1: last_heartbeat()}, heartbeats={1: last_heartbeat(), **non_members})
    kept = decide_election("broker-a", StoredSet(broker_set=a_set()), knows, LOST)
    assert (kept.reply.result, kept.events) == (ElectionResult.KEPT, ())
    knows = ClusterView(trusted={3: last_heartbeat()}, heartbeats={3: last_heartbeat(), **non_members})
    in_vain = decide_election("broker-a", StoredSet(broker_set=a_set(master=None)), knows, ElectionRequest(broker_id=3))
    assert (in_vain.reply.result, in_vain.events) == (ElectionResult.NOBODY, ())


def test_election_in_a_set_without_heartbeats_has_no_events():
    entry = StoredSet(broker_set=BrokerSet(broker_name="broker-a", cluster="C"))
    assert decide_election("broker-a", entry, ClusterView(), LOST).events == ()


def test_election_in_an_unknown_set_is_refused_with_2010():
    with pytest.raises(SetUnknown, match="there is no set broker-a") as refused:
        decide_election("broker-a", StoredSet(), ClusterView(), LOST)
    assert refused.value.code == 2010


IDS = st.integers(1, 4)
HEARTBEATS = st.builds(
    last_heartbeat, epoch=st.integers(-1, 3), max_offset=st.integers(0, 3), priority=st.integers(0, 2)
)


@given(
    st.frozensets(IDS),
    st.none() | IDS,
    st.booleans(),
    st.dictionaries(IDS, HEARTBEATS),
    st.builds(ElectionRequest, broker_id=st.none() | IDS, is_designated=st.booleans(), allows_unclean=st.booleans()),
)
def test_elected_broker_is_a_living_member_and_in_sync_unless_the_election_is_unclean(
    sync_state_set, master, is_elected, alive, call
):
    before = a_set(
        sync_state_set=sync_state_set & {1, 2, 3},
        master=master if master != 4 else None,
        is_elected=is_elected,
    )
    election = elect(before, view(alive), call)
    assert {candidate.broker_id for candidate in election.candidates} == set(before.replicas)
    if isinstance(election.event, MasterElected):
        chosen = election.event.broker_id
        assert chosen in alive
        assert chosen in before.replicas
        assert chosen != before.master or not is_elected
        if is_elected and not election.is_unclean:
            assert chosen in before.sync_state_set
        assert call.allows_unclean or not election.is_unclean
    electable = [i for i in alive if i in before.sync_state_set and i in before.replicas]
    if is_elected and electable and not call.is_designated:
        assert election.result is not ElectionResult.NOBODY


def test_verdicts_of_other_brokers_beside_a_living_master():
    alive = {1: last_heartbeat(), 2: last_heartbeat()}
    assert verdicts(elect(a_set(), view(alive), LOST))[2] is Verdict.NOT_NEEDED
    assert (
        verdicts(elect(a_set(), view(alive), ElectionRequest(broker_id=1, is_designated=True)))[2] is Verdict.NOT_WANTED
    )


# Back to the former master


def test_former_master_that_has_all_that_was_confirmed_leads_again_outside_the_sync_state_set():
    """A switchover is rolled back: the SyncStateSet is the elected alone, which has failed before it served."""
    alone = a_set(master=2, sync_state_set=frozenset({2}))
    back = ElectionRequest(broker_id=1, is_designated=True, holds_all=True)
    for alive in ({1: last_heartbeat()}, {1: last_heartbeat(), 2: last_heartbeat()}):
        election = elect(alone, view(alive), back)
        assert (election.event, election.is_unclean) == (MasterElected(1), False)
    assert elect(alone, living(3), back).result is ElectionResult.NOBODY


def test_designated_broker_outside_the_sync_state_set_does_not_lead_because_another_had_all_messages():
    alone = a_set(master=2, sync_state_set=frozenset({2}))
    call = ElectionRequest(broker_id=1, is_designated=True)
    assert elect(alone, living(1, 2), call).result is ElectionResult.NOBODY
    undesignated = ElectionRequest(broker_id=1, holds_all=True)
    assert elect(alone, living(1), undesignated).result is ElectionResult.NOBODY
