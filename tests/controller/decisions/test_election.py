"""Who becomes master, and what an operator is told about the others."""

import pytest
from controller_builders import a_set, electorate, heard, replicas
from hypothesis import given
from hypothesis import strategies as st

from controller.decisions.election import Call, Result, Verdict, elect
from controller.events import MasterElected, MasterLost

LOST = Call()
THREE_IN_SYNC = {"sync_state_set": frozenset({1, 2, 3}), "master": None}


def verdicts(election):
    return {candidate.broker_id: candidate.verdict for candidate in election.candidates}


# The first master of a set


def new_set(**values):
    young = {"master": None, "is_elected": False, "sync_state_set": frozenset(), "master_epoch": 0}
    return a_set(**(young | values))


def test_the_first_that_asks_leads_a_set_that_never_had_a_master():
    election = elect(new_set(), electorate({1: heard(), 2: heard(max_offset=9999)}), Call(broker_id=1))
    assert (election.result, election.event) == (Result.NEW_MASTER, MasterElected(1))
    assert verdicts(election) == {1: Verdict.ELECTED, 2: Verdict.NOT_FIRST, 3: Verdict.NOT_ALIVE}


@pytest.mark.parametrize("call", [Call(broker_id=9), Call(broker_id=3), LOST, Call(broker_id=9, is_designated=True)])
def test_nobody_else_than_a_living_member_does(call):
    election = elect(new_set(), electorate({1: heard(), 9: heard()}), call)
    assert (election.result, election.event) == (Result.NOBODY, None)


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
    election = elect(a_set(**THREE_IN_SYNC), electorate(alive), LOST)
    assert election.event == MasterElected(chosen)


def test_each_broker_that_was_not_elected_is_told_why():
    five = a_set(replicas=replicas(1, 2, 3, 4, 5), sync_state_set=frozenset({1, 2, 3, 4}), master=None)
    alive = {2: heard(), 3: heard(max_offset=10), 4: heard(priority=2**31 - 1), 5: heard(max_offset=99999)}
    election = elect(five, electorate(alive), LOST)
    assert verdicts(election) == {
        1: Verdict.NOT_ALIVE,
        2: Verdict.ELECTED,
        3: Verdict.BEHIND,
        4: Verdict.HIGHER_ID,
        5: Verdict.OUT_OF_SYNC,
    }
    assert not election.is_unclean


def test_a_living_master_keeps_its_place():
    election = elect(a_set(), electorate({1: heard(), 2: heard(max_offset=9999)}), Call(broker_id=2))
    assert (election.result, election.event) == (Result.KEPT, None)
    assert verdicts(election)[1] is Verdict.KEPT


def test_who_is_out_of_sync_never_leads_unless_that_is_allowed():
    election = elect(a_set(), electorate({3: heard(max_offset=9999)}), LOST)
    assert (election.result, election.event) == (Result.NOBODY, MasterLost())
    assert verdicts(election)[3] is Verdict.OUT_OF_SYNC
    allowed = elect(a_set(), electorate({3: heard(max_offset=10)}), Call(allows_unclean=True))
    assert (allowed.event, allowed.is_unclean) == (MasterElected(3), True)


def test_who_is_in_sync_is_preferred_also_where_unclean_elections_are_allowed():
    election = elect(
        a_set(), electorate({2: heard(max_offset=1), 3: heard(max_offset=9999)}), Call(allows_unclean=True)
    )
    assert (election.event, election.is_unclean) == (MasterElected(2), False)


def test_a_lost_master_is_told_once():
    assert elect(a_set(), electorate({}), LOST).event == MasterLost()
    assert elect(a_set(master=None), electorate({}), LOST).event is None


def test_who_asks_for_himself_in_vain_changes_nothing():
    assert elect(a_set(), electorate({3: heard()}), Call(broker_id=3)).event is None


# Designated elections


def test_an_operator_can_move_the_master():
    election = elect(a_set(), electorate({1: heard(), 2: heard()}), Call(broker_id=2, is_designated=True))
    assert (election.result, election.event) == (Result.NEW_MASTER, MasterElected(2))
    assert verdicts(election)[1] is Verdict.NOT_WANTED


@pytest.mark.parametrize("broker_id", [3, 9])
def test_nobody_is_elected_instead_of_a_designated_broker_that_cannot_lead(broker_id):
    election = elect(
        a_set(), electorate({1: heard(), 2: heard(), 3: heard()}), Call(broker_id=broker_id, is_designated=True)
    )
    assert (election.result, election.event) == (Result.NOBODY, None)


def test_the_present_master_can_be_designated_to_no_effect():
    election = elect(a_set(), electorate({1: heard(), 2: heard()}), Call(broker_id=1, is_designated=True))
    assert (election.result, election.event) == (Result.KEPT, None)


IDS = st.integers(1, 4)
HEARD = st.builds(heard, epoch=st.integers(-1, 3), max_offset=st.integers(0, 3), priority=st.integers(0, 2))


@given(
    st.frozensets(IDS),
    st.none() | IDS,
    st.booleans(),
    st.dictionaries(IDS, HEARD),
    st.builds(Call, broker_id=st.none() | IDS, is_designated=st.booleans(), allows_unclean=st.booleans()),
)
def test_whoever_is_elected_was_alive_and_known_and_in_sync_unless_that_was_waived(
    sync_state_set, master, is_elected, alive, call
):
    before = a_set(
        sync_state_set=sync_state_set & {1, 2, 3},
        master=master if master != 4 else None,
        is_elected=is_elected,
    )
    election = elect(before, electorate(alive), call)
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
        assert election.result is not Result.NOBODY
