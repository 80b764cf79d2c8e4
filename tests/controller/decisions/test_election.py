"""Who becomes master, and what an operator is told about the others."""

import pytest
from controller_builders import SET, a_set, heard, replicas, view
from hypothesis import given
from hypothesis import strategies as st

from controller.decisions.cluster_view import ClusterView
from controller.decisions.election import ElectionRequest, ElectionResult, Verdict, decide_election, elect
from controller.refusals import EpochsUsedUp, SetUnknown
from controller.sets.broker_set import MASTER_EPOCH_MAX, RAISED_EPOCH_MAX, RECOVERY_MARGIN, BrokerSet
from controller.sets.events import MasterElected, MasterEpochRaised, MasterLost
from controller.sets.stored_set import StoredSet

LOST = ElectionRequest()
THREE_IN_SYNC = {"sync_state_set": frozenset({1, 2, 3}), "master": None}


def verdicts(election):
    return {candidate.broker_id: candidate.verdict for candidate in election.candidates}


EMPTY = heard(epoch=-1, max_offset=0)


# The first master of a set


def new_set(**values):
    young = {"master": None, "is_elected": False, "sync_state_set": frozenset(), "master_epoch": 0}
    return a_set(**(young | values))


def test_the_first_that_asks_leads_a_set_that_never_had_a_master():
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
def test_nobody_else_than_a_living_member_does(call):
    election = elect(new_set(), view({1: EMPTY, 9: EMPTY}), call)
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)


# A set that is new to the store, and not to its brokers

STRANGER = {1: EMPTY, 8: heard(epoch=7, max_offset=900)}


@pytest.mark.parametrize("call", [LOST, ElectionRequest(broker_id=1)])
def test_nobody_leads_a_new_set_while_a_broker_that_it_does_not_know_has_messages(call):
    election = elect(new_set(), view(STRANGER), call)
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)
    assert verdicts(election)[1] is Verdict.NOT_BEFORE_NON_MEMBER


def test_a_new_broker_leads_beside_such_a_stranger_if_an_operator_wants_it():
    election = elect(new_set(), view(STRANGER), ElectionRequest(broker_id=1, is_designated=True))
    assert election.event == MasterElected(1)


def test_a_stranger_without_messages_is_in_nobodys_way():
    election = elect(new_set(), view({1: EMPTY, 8: EMPTY}), ElectionRequest(broker_id=1))
    assert election.event == MasterElected(1)


def test_where_members_of_a_new_set_have_messages_the_longest_log_leads_and_not_who_asks_first():
    cleaned = new_set(master_epoch=7)
    logs = {1: EMPTY, 2: heard(epoch=7, max_offset=900)}
    assert ClusterView(heartbeats=logs).is_ahead_of(cleaned)
    assert elect(cleaned, view(logs), ElectionRequest(broker_id=1)).event == MasterElected(2)


def test_such_a_set_is_led_clear_of_all_that_its_late_brokers_may_have_seen():
    logs = {2: heard(epoch=7, max_offset=900)}
    decision = decide_election(
        SET, StoredSet(broker_set=new_set(master_epoch=7)), view(logs), ElectionRequest(broker_id=2)
    )
    assert decision.events == (MasterEpochRaised(7 + RECOVERY_MARGIN), MasterElected(2))


# A classic master and its slave that are converted: their logs have no epoch


@pytest.mark.parametrize("asks", [1, 2, 3])
def test_of_members_without_an_epoch_the_one_with_the_most_messages_leads_first_whoever_asks(asks):
    logs = {1: EMPTY, 2: heard(epoch=-1, max_offset=900), 3: heard(epoch=-1, max_offset=800)}
    assert ClusterView(heartbeats=logs).is_ahead_of(new_set())
    election = elect(new_set(), view(logs), ElectionRequest(broker_id=asks))
    assert election.event == MasterElected(2)
    assert verdicts(election) == {1: Verdict.BEHIND, 2: Verdict.ELECTED, 3: Verdict.BEHIND}
    assert not election.is_unclean


def test_of_equal_logs_without_an_epoch_the_smaller_id_leads_first():
    logs = {i: heard(epoch=-1, max_offset=900) for i in (3, 2)}
    assert elect(new_set(), view(logs), ElectionRequest(broker_id=3)).event == MasterElected(2)


# A store that is older than the logs


#: The recorded master is not heard, who is in sync knows higher epochs.
OLD_BACKUP = {2: heard(epoch=7, max_offset=60), 3: heard(epoch=7, max_offset=50)}


def test_the_longest_log_leads_where_the_store_knows_less_than_the_logs_clear_of_all_that_late_brokers_may_know():
    decision = decide_election(SET, StoredSet(broker_set=a_set()), view(OLD_BACKUP), LOST)
    assert decision.events == (MasterEpochRaised(7 + RECOVERY_MARGIN), MasterElected(2))
    assert verdicts(decision.reply) == {1: Verdict.NOT_ALIVE, 2: Verdict.ELECTED, 3: Verdict.BEHIND}
    assert not decision.reply.is_unclean


def test_whoever_is_not_in_sync_by_an_old_store_and_has_the_longest_log_leads_and_the_record_says_unclean():
    logs = {2: heard(epoch=6, max_offset=60), 3: heard(epoch=7, max_offset=50)}
    decision = decide_election(SET, StoredSet(broker_set=a_set()), view(logs), LOST)
    assert decision.events == (MasterEpochRaised(7 + RECOVERY_MARGIN), MasterElected(3))
    assert decision.reply.is_unclean


def test_a_master_with_the_longest_log_gets_an_epoch_that_brokers_heed():
    logs = {1: heard(epoch=7, max_offset=70), 2: heard(epoch=7, max_offset=60)}
    decision = decide_election(SET, StoredSet(broker_set=a_set()), view(logs), ElectionRequest(broker_id=2))
    assert decision.events == (MasterEpochRaised(7 + RECOVERY_MARGIN), MasterElected(1))


def test_who_has_started_and_not_said_how_far_its_log_is_is_waited_for_whoever_asks():
    logs = OLD_BACKUP | {3: heard(epoch=-1, max_offset=-1, awaits_heartbeat=True)}
    election = elect(a_set(), view(logs), ElectionRequest(broker_id=2))
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)
    election = elect(a_set(), view(logs | {3: heard(epoch=7, max_offset=70)}), ElectionRequest(broker_id=2))
    assert election.event == MasterElected(3)


def test_so_it_does_in_a_set_that_the_store_has_never_seen_with_a_master():
    decision = decide_election(SET, StoredSet(broker_set=new_set()), view(OLD_BACKUP), ElectionRequest(broker_id=1))
    assert decision.events == (MasterEpochRaised(7 + RECOVERY_MARGIN), MasterElected(2))


def test_a_master_that_knows_more_than_the_store_is_elected_above_what_it_knows():
    knows = ClusterView(
        trusted={2: heard(max_offset=9), 3: heard()}, heartbeats={2: heard(), 3: heard()}, reported={2: 5}
    )
    decision = decide_election(SET, StoredSet(broker_set=a_set()), knows, LOST)
    assert decision.events == (MasterEpochRaised(5 + RECOVERY_MARGIN), MasterElected(3))
    knows = ClusterView(trusted={1: heard()}, heartbeats={1: heard()}, reported={1: 8})
    decision = decide_election(SET, StoredSet(broker_set=a_set()), knows, LOST)
    assert decision.events == (MasterEpochRaised(8 + RECOVERY_MARGIN), MasterElected(1))


# Claims of higher epochs that prove nothing


LIAR = heard(epoch=6, max_offset=5)


def test_who_is_out_of_sync_does_not_lead_by_a_higher_epoch_but_one_in_sync_does_above_it():
    alive = {2: heard(), 3: LIAR}
    assert ClusterView(heartbeats=alive).disputes(a_set()) == {3: 6}
    decision = decide_election(SET, StoredSet(broker_set=a_set()), view(alive), LOST)
    assert decision.events == (MasterEpochRaised(6), MasterElected(2))
    assert verdicts(decision.reply)[3] is Verdict.OUT_OF_SYNC
    alone = decide_election(
        SET, StoredSet(broker_set=a_set(master=None)), view({3: LIAR}), ElectionRequest(broker_id=3)
    )
    assert (alone.reply.result, alone.events) == (ElectionResult.NOBODY, ())


@pytest.mark.parametrize("claims", [{3: LIAR}, {2: heard(epoch=6)}, {2: heard(epoch=6), 3: LIAR}])
def test_nobody_leads_by_a_higher_epoch_over_a_master_of_the_stored_one_that_is_heard(claims):
    alive = {1: heard(), 2: heard()} | claims
    assert not ClusterView(heartbeats=alive).is_ahead_of(a_set())
    assert ClusterView(heartbeats=alive).disputes(a_set()).keys() == claims.keys()
    election = elect(a_set(), view(alive), ElectionRequest(broker_id=3))
    assert (election.result, election.event) == (ElectionResult.KEPT, None)


def test_where_nobody_in_sync_may_live_and_an_operator_allows_it_one_with_a_higher_epoch_leads_and_the_record_says_so():
    call = ElectionRequest(broker_id=3, is_designated=True, allows_unclean=True)
    far = heard(epoch=5_000_000, max_offset=5)
    decision = decide_election(SET, StoredSet(broker_set=a_set()), view({1: heard(), 3: far}), call)
    assert decision.events == (MasterEpochRaised(5_000_000), MasterElected(3))
    assert decision.reply.is_unclean


@pytest.mark.parametrize(
    ("claim", "raised"), [(5 + 1_000, 5 + 1_000), (5 + 1_001, None), (RAISED_EPOCH_MAX, None), (2**31 - 1, None)]
)
def test_claims_of_who_is_out_of_sync_do_not_use_up_the_epochs(claim, raised):
    decision = decide_election(
        SET, StoredSet(broker_set=a_set()), view({2: heard(), 3: heard(epoch=claim, max_offset=5)}), LOST
    )
    assert decision.events == ((MasterEpochRaised(raised), MasterElected(2)) if raised else (MasterElected(2),))


def test_a_set_without_claims_disputes_nothing():
    assert ClusterView(heartbeats={1: heard(), 2: heard(), 9: heard(epoch=9)}).disputes(a_set()) == {}
    assert ClusterView(heartbeats=OLD_BACKUP).disputes(a_set()) == {}
    assert ClusterView(heartbeats=OLD_BACKUP).disputes(a_set(is_rebuilding=True)) == {}
    assert ClusterView(heartbeats=OLD_BACKUP).disputes(new_set()) == {}


@pytest.mark.parametrize("master_epoch", [MASTER_EPOCH_MAX - 1, MASTER_EPOCH_MAX])
def test_nobody_is_elected_at_an_epoch_that_brokers_cannot_read(master_epoch):
    entry = StoredSet(broker_set=a_set(master_epoch=master_epoch))
    if master_epoch == MASTER_EPOCH_MAX:
        with pytest.raises(EpochsUsedUp, match="another name"):
            decide_election(SET, entry, view({2: heard()}), LOST)
    else:
        after = decide_election(SET, entry, view({2: heard()}), LOST).after(entry).broker_set
        assert (after.master, after.master_epoch) == (2, MASTER_EPOCH_MAX)
        assert after.with_master(None).master_epoch == MASTER_EPOCH_MAX


def test_nobody_leads_while_only_suspects_have_such_logs():
    suspects = ClusterView(heartbeats=OLD_BACKUP)
    assert decide_election(SET, StoredSet(broker_set=a_set()), suspects, LOST).events == ()


def test_an_operator_decides_by_what_is_stored():
    call = ElectionRequest(broker_id=2, is_designated=True)
    decision = decide_election(SET, StoredSet(broker_set=a_set()), view(OLD_BACKUP), call)
    assert decision.events == (MasterEpochRaised(7 + RECOVERY_MARGIN), MasterElected(2))


# The next ones


@pytest.mark.parametrize(
    ("alive", "chosen"),
    [
        ({2: heard(epoch=5, max_offset=10), 3: heard(epoch=4, max_offset=99)}, 2),
        ({2: heard(max_offset=10), 3: heard(max_offset=10 + 2**33)}, 3),
        ({2: heard(priority=2), 3: heard(priority=1)}, 3),
        ({2: heard(priority=2**31 - 1), 3: heard(priority=-(2**31))}, 3),
        ({2: heard(), 3: heard()}, 2),
    ],
    ids=["epoch before offset", "longer log", "priority", "priorities far apart", "smaller id"],
)
def test_the_longest_log_leads_then_the_preferred_then_the_smaller_id(alive, chosen):
    election = elect(a_set(**THREE_IN_SYNC), view(alive), LOST)
    assert election.event == MasterElected(chosen)


def test_each_broker_that_was_not_elected_is_told_why():
    five = a_set(replicas=replicas(1, 2, 3, 4, 5), sync_state_set=frozenset({1, 2, 3, 4}), master=None)
    alive = {2: heard(), 3: heard(max_offset=10), 4: heard(priority=2**31 - 1), 5: heard(max_offset=99999)}
    election = elect(five, view(alive), LOST)
    assert verdicts(election) == {
        1: Verdict.NOT_ALIVE,
        2: Verdict.ELECTED,
        3: Verdict.BEHIND,
        4: Verdict.HIGHER_ID,
        5: Verdict.OUT_OF_SYNC,
    }
    assert not election.is_unclean


def test_a_living_master_keeps_its_place():
    election = elect(a_set(), view({1: heard(), 2: heard(max_offset=9999)}), ElectionRequest(broker_id=2))
    assert (election.result, election.event) == (ElectionResult.KEPT, None)
    assert verdicts(election)[1] is Verdict.KEPT


def test_who_is_out_of_sync_never_leads_unless_that_is_allowed():
    election = elect(a_set(), view({3: heard(max_offset=9999)}), LOST)
    assert (election.result, election.event) == (ElectionResult.NOBODY, MasterLost())
    assert verdicts(election)[3] is Verdict.OUT_OF_SYNC
    allowed = elect(a_set(), view({3: heard(max_offset=10)}), ElectionRequest(allows_unclean=True))
    assert (allowed.event, allowed.is_unclean) == (MasterElected(3), True)


def test_who_is_in_sync_is_preferred_also_where_unclean_elections_are_allowed():
    election = elect(
        a_set(), view({2: heard(max_offset=1), 3: heard(max_offset=9999)}), ElectionRequest(allows_unclean=True)
    )
    assert (election.event, election.is_unclean) == (MasterElected(2), False)


@pytest.mark.parametrize(
    ("known", "verdict"),
    [
        (ClusterView(trusted={3: heard()}, heartbeats={2: heard(), 3: heard()}), Verdict.SUSPECT),
        (ClusterView(trusted={3: heard()}, heartbeats={3: heard()}, may_live={2, 3}), Verdict.NO_CONTACT_YET),
    ],
    ids=["suspect", "not heard yet"],
)
def test_who_is_out_of_sync_does_not_lead_while_one_in_sync_may_live_whatever_is_allowed(known, verdict):
    call = ElectionRequest(broker_id=3, allows_unclean=True)
    election = elect(a_set(master=None), known, call)
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)
    assert (verdicts(election)[2], verdicts(election)[3]) == (verdict, Verdict.OUT_OF_SYNC)
    assert elect(a_set(master=None), view({3: heard()}), call).event == MasterElected(3)


def test_an_operator_who_is_allowed_to_moves_the_master_to_a_broker_out_of_sync():
    call = ElectionRequest(broker_id=3, is_designated=True, allows_unclean=True)
    election = elect(a_set(), view({1: heard(), 2: heard(), 3: heard()}), call)
    assert (election.event, election.is_unclean) == (MasterElected(3), True)


def test_a_lost_master_is_told_once():
    assert elect(a_set(), view({}), LOST).event == MasterLost()
    assert elect(a_set(master=None), view({}), LOST).event is None


def test_who_asks_for_himself_in_vain_changes_nothing():
    assert elect(a_set(), view({3: heard()}), ElectionRequest(broker_id=3)).event is None


# Designated elections


def test_an_operator_can_move_the_master():
    election = elect(a_set(), view({1: heard(), 2: heard()}), ElectionRequest(broker_id=2, is_designated=True))
    assert (election.result, election.event) == (ElectionResult.NEW_MASTER, MasterElected(2))
    assert verdicts(election)[1] is Verdict.NOT_WANTED


@pytest.mark.parametrize("broker_id", [3, 9])
def test_nobody_is_elected_instead_of_a_designated_broker_that_cannot_lead(broker_id):
    election = elect(
        a_set(), view({1: heard(), 2: heard(), 3: heard()}), ElectionRequest(broker_id=broker_id, is_designated=True)
    )
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)


def test_the_present_master_can_be_designated_to_no_effect():
    election = elect(a_set(), view({1: heard(), 2: heard()}), ElectionRequest(broker_id=1, is_designated=True))
    assert (election.result, election.event) == (ElectionResult.KEPT, None)


# Who may be dead


def test_a_suspect_does_not_stand_for_election():
    known = ClusterView(trusted={3: heard()}, heartbeats={2: heard(max_offset=9999), 3: heard()})
    election = elect(a_set(**THREE_IN_SYNC), known, LOST)
    assert election.event == MasterElected(3)
    assert verdicts(election) == {1: Verdict.NOT_ALIVE, 2: Verdict.SUSPECT, 3: Verdict.ELECTED}


def test_who_missed_a_beat_is_waited_for_if_its_log_may_be_longer():
    alive = {2: heard(last_contact_ms=7_999, max_offset=9999), 3: heard(last_contact_ms=8_000)}
    election = elect(a_set(**THREE_IN_SYNC), view(alive), ElectionRequest(fresh_from_ms=8_000))
    # The master stays recorded: it is over in a moment.
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)
    assert verdicts(election)[3] is Verdict.AWAITS_LONGER


def test_who_missed_a_beat_is_passed_over_where_its_log_is_no_longer_than_that_of_others():
    alive = {2: heard(last_contact_ms=7_999), 3: heard(last_contact_ms=8_000)}
    election = elect(a_set(**THREE_IN_SYNC), view(alive), ElectionRequest(fresh_from_ms=8_000))
    assert election.event == MasterElected(3)
    assert verdicts(election)[2] is Verdict.OVERDUE


def test_who_missed_a_beat_leads_where_nobody_else_can():
    alive = {2: heard(last_contact_ms=7_000, max_offset=10), 3: heard(last_contact_ms=7_900)}
    election = elect(a_set(**THREE_IN_SYNC), view(alive), ElectionRequest(fresh_from_ms=8_000))
    assert election.event == MasterElected(3)
    assert verdicts(election)[2] is Verdict.BEHIND


@pytest.mark.parametrize("call", [LOST, ElectionRequest(broker_id=2), ElectionRequest(allows_unclean=True)])
@pytest.mark.parametrize(
    "known",
    [
        ClusterView(trusted={2: heard()}, heartbeats={1: heard(), 2: heard()}),
        ClusterView(trusted={2: heard()}, heartbeats={2: heard()}, may_live={1, 2}),
    ],
    ids=["suspect", "not heard yet"],
)
def test_nobody_takes_the_place_of_a_master_that_may_live(call, known):
    election = elect(a_set(), known, call)
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)


def test_an_operator_may_replace_a_master_that_may_live():
    known = ClusterView(trusted={2: heard()}, heartbeats={1: heard(), 2: heard()})
    assert elect(a_set(), known, ElectionRequest(broker_id=2, is_designated=True)).event == MasterElected(2)


def test_of_equal_logs_the_preferred_broker_is_elected_and_the_other_is_told_why():
    election = elect(a_set(**THREE_IN_SYNC), view({2: heard(priority=2), 3: heard(priority=1)}), LOST)
    assert verdicts(election)[2] is Verdict.LOWER_PRIORITY


def test_nobody_else_is_elected_where_unclean_elections_are_allowed_and_the_designated_is_dead():
    call = ElectionRequest(broker_id=2, is_designated=True, allows_unclean=True)
    election = elect(a_set(), view({1: heard(), 3: heard()}), call)
    assert (election.result, election.event) == (ElectionResult.NOBODY, None)
    assert verdicts(election)[3] is Verdict.NOT_WANTED


# Epochs


@pytest.mark.parametrize(
    ("epoch", "master_epoch"), [(9, 10 + RECOVERY_MARGIN), (6, 7 + RECOVERY_MARGIN), (5, 6), (-1, 6)]
)
def test_a_new_master_is_above_every_epoch_that_a_log_has_seen(epoch, master_epoch):
    entry = StoredSet(broker_set=a_set())
    decision = decide_election("broker-a", entry, view({2: heard(epoch=epoch)}), LOST)
    assert decision.reply.event == MasterElected(2)
    assert (MasterEpochRaised(epoch + RECOVERY_MARGIN) in decision.events) == (epoch > 5)
    after = decision.after(entry).broker_set
    assert (after.master, after.master_epoch) == (2, master_epoch)


def test_the_loss_of_a_master_hides_no_claim():
    entry = StoredSet(broker_set=a_set(sync_state_set=frozenset({1})))
    claims = ClusterView(heartbeats={2: heard(epoch=9)})
    after = decide_election("broker-a", entry, claims, LOST).after(entry).broker_set
    assert (after.master, after.master_epoch) == (None, 6)
    assert claims.disputes(after) == {2: 9}


@pytest.mark.parametrize("claim", [5 + 1_000_001, RAISED_EPOCH_MAX, 2**31 - 1])
def test_no_epoch_that_one_in_sync_claims_uses_up_the_room_for_elections(claim):
    claims = view({2: heard(epoch=claim), 3: heard()})
    assert claims.disputes(a_set()) == {2: claim}
    decision = decide_election(SET, StoredSet(broker_set=a_set()), claims, LOST)
    assert decision.events == (MasterElected(2),)


def test_where_many_stores_were_lost_no_epoch_is_raised_into_the_last_room():
    last = RAISED_EPOCH_MAX - RECOVERY_MARGIN
    entry = StoredSet(broker_set=a_set(master_epoch=last - 1))
    assert MasterEpochRaised(RAISED_EPOCH_MAX) in decide_election(SET, entry, view({2: heard(epoch=last)}), LOST).events
    entry = StoredSet(broker_set=a_set(master_epoch=last))
    assert decide_election(SET, entry, view({2: heard(epoch=last + 1)}), LOST).events == (
        MasterEpochRaised(last + 1),
        MasterElected(2),
    )


def test_no_epoch_moves_where_nothing_else_changes():
    non_members = {9: heard(epoch=9)}
    knows = ClusterView(trusted={1: heard()}, heartbeats={1: heard(), **non_members})
    kept = decide_election("broker-a", StoredSet(broker_set=a_set()), knows, LOST)
    assert (kept.reply.result, kept.events) == (ElectionResult.KEPT, ())
    knows = ClusterView(trusted={3: heard()}, heartbeats={3: heard(), **non_members})
    in_vain = decide_election("broker-a", StoredSet(broker_set=a_set(master=None)), knows, ElectionRequest(broker_id=3))
    assert (in_vain.reply.result, in_vain.events) == (ElectionResult.NOBODY, ())


def test_a_set_that_nobody_is_heard_of_has_no_epoch_to_be_above_of():
    entry = StoredSet(broker_set=BrokerSet(broker_name="broker-a", cluster="C"))
    assert decide_election("broker-a", entry, ClusterView(), LOST).events == ()


def test_a_set_that_is_not_known_has_no_election():
    with pytest.raises(SetUnknown, match="there is no set broker-a") as refused:
        decide_election("broker-a", StoredSet(), ClusterView(), LOST)
    assert refused.value.code == 2010


IDS = st.integers(1, 4)
HEARD = st.builds(heard, epoch=st.integers(-1, 3), max_offset=st.integers(0, 3), priority=st.integers(0, 2))


@given(
    st.frozensets(IDS),
    st.none() | IDS,
    st.booleans(),
    st.dictionaries(IDS, HEARD),
    st.builds(ElectionRequest, broker_id=st.none() | IDS, is_designated=st.booleans(), allows_unclean=st.booleans()),
)
def test_whoever_is_elected_was_alive_and_known_and_in_sync_unless_that_was_waived(
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


def test_the_others_are_not_needed_where_the_master_lives_unless_an_operator_wants_another():
    alive = {1: heard(), 2: heard()}
    assert verdicts(elect(a_set(), view(alive), LOST))[2] is Verdict.NOT_NEEDED
    assert (
        verdicts(elect(a_set(), view(alive), ElectionRequest(broker_id=1, is_designated=True)))[2] is Verdict.NOT_WANTED
    )
