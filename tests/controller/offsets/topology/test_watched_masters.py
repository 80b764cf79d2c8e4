"""Answers about masters come in, changes come out: none twice, none missed, and none from an older epoch."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_builders import CAME_UNIX_MS, SET, a_master, an_address, answer, followed

from controller.offsets.topology.masters import REMOVED_EPOCH_MS, Masters, OutdatedSet
from controller.offsets.topology.values import MasterChange, MasterChangeKind


@pytest.fixture
def masters():
    masters = Masters()
    take(masters, followed())
    return masters


def change(kind, before=None, after=None, name=SET, since=CAME_UNIX_MS):
    return MasterChange(kind, name, before, after, since)


def take(masters, *sets, now_ms=0, **values):
    return masters.take(answer(*sets, **values), now_ms=now_ms, unix_ms=CAME_UNIX_MS)


def test_set_with_a_master_is_found_once():
    masters = Masters()
    assert take(masters, followed()).changes == (change(MasterChangeKind.FOUND, None, a_master()),)
    assert take(masters, followed()).changes == ()
    assert masters.sets[SET] == followed()


def test_set_without_a_master_is_nothing_new_until_it_gains_one():
    masters = Masters()
    assert take(masters, followed(None, 0)).changes == ()
    taken = take(masters, followed(1, 1))
    assert taken.changes == (change(MasterChangeKind.GAINED, None, a_master(1, 1)),)


def test_master_that_is_lost_is_still_named_when_another_one_follows(masters):
    assert take(masters, followed(None, 6)).changes == (change(MasterChangeKind.LOST, a_master()),)
    taken = take(masters, followed(2, 7))
    assert taken.changes == (change(MasterChangeKind.GAINED, a_master(), a_master(2, 7)),)


@pytest.mark.parametrize("after", [a_master(2, 6), a_master(1, 7)], ids=["another broker", "the same, elected again"])
def test_every_later_epoch_is_a_move(masters, after):
    taken = take(masters, followed(after.broker_id, after.master_epoch))
    assert taken.changes == (change(MasterChangeKind.MOVED, a_master(), after),)


def test_master_at_another_address_keeps_its_epoch(masters):
    taken = take(masters, followed(address="10.9.9.9:10911"), complete=False)
    after = a_master(address="10.9.9.9:10911")
    assert taken.changes == (change(MasterChangeKind.ADDRESS_CHANGED, a_master(), after),)
    assert masters.is_master(after)
    assert not masters.is_master(a_master())


def test_change_of_who_is_in_sync_is_kept_and_is_no_change_of_the_master(masters):
    assert take(masters, followed(in_sync=(1,), sync_epoch=2), complete=False).changes == ()
    assert [each.broker_id for each in masters.sets[SET].members if each.in_sync] == [1]
    take(masters, followed(in_sync=(1, 2), sync_epoch=1), complete=False)
    assert [each.broker_id for each in masters.sets[SET].members if each.in_sync] == [1]


# Since when


def test_master_is_master_since_its_election_or_else_since_it_is_known(masters):
    (change,) = take(masters, followed(2, 6, elected=123)).changes
    assert change.since_unix_ms == 123
    (change,) = take(masters, followed(3, 7)).changes
    assert change.since_unix_ms == CAME_UNIX_MS


def test_loss_of_a_master_is_known_since_it_came_here(masters):
    take(masters, followed(2, 6, elected=123))
    (change,) = take(masters, followed(None, 7, elected=123)).changes
    assert (change.kind, change.since_unix_ms) == (MasterChangeKind.LOST, CAME_UNIX_MS)


def test_time_and_kind_of_an_election_stay_known_when_another_controller_leads(masters):
    take(masters, followed(2, 6, elected=123)._replace(unclean_epoch=6))
    assert take(masters, followed(2, 6)).changes == ()
    assert (masters.sets[SET].elected_unix_ms, masters.sets[SET].unclean_epoch) == (123, 6)
    take(masters, followed(3, 7))
    assert masters.sets[SET].elected_unix_ms is None
    # Whatever was read before that epoch may be in the tail that was lost then.
    assert masters.sets[SET].unclean_epoch == 6


# What is removed


def test_set_that_a_complete_answer_does_not_have_is_removed_and_may_begin_again_above(masters):
    take(masters, followed(name="other"), complete=False)
    assert take(masters, followed(name="other")).changes == (change(MasterChangeKind.REMOVED, a_master()),)
    assert set(masters.sets) == {"other"}
    taken = take(masters, followed(2, 6), complete=False)
    assert taken.changes == (change(MasterChangeKind.FOUND, None, a_master(2, 6)),)


def test_epoch_of_a_removed_set_is_a_fence_for_hours(masters):
    take(masters)
    late = REMOVED_EPOCH_MS - 1
    assert take(masters, followed(1, 4), now_ms=late) == ((), (OutdatedSet(SET, 5, 4),))
    assert SET not in masters.sets
    taken = take(masters, followed(1, 4), now_ms=late + 1)
    assert taken.changes == (change(MasterChangeKind.FOUND, None, a_master(1, 4)),)


def test_epochs_of_removed_sets_have_a_limit(masters, monkeypatch):
    monkeypatch.setattr("controller.offsets.topology.masters.SETS_MAX", 1)
    take(masters, followed(name="other"))
    take(masters)
    assert take(masters, followed(1, 4), followed(1, 4, name="other")).outdated == (OutdatedSet("other", 5, 4),)


def test_answer_with_changes_alone_removes_only_what_it_names(masters):
    assert take(masters, followed(name="other"), complete=False).changes[0].broker_name == "other"
    assert SET in masters.sets
    taken = take(masters, complete=False, removed=(SET, "never seen"))
    assert taken.changes == (change(MasterChangeKind.REMOVED, a_master()),)


@pytest.mark.parametrize("complete", [True, False])
def test_set_that_the_controller_cannot_read_stays_as_it_is(masters, complete):
    assert take(masters, complete=complete, unreadable=(SET,)).changes == ()
    assert masters.is_master(a_master())


# The fence


@pytest.mark.parametrize("late", [followed(1, 4), followed(None, 4), followed(3, 0)])
def test_answer_of_an_older_epoch_never_wins(masters, late):
    taken = take(masters, late)
    assert taken == ((), (OutdatedSet(SET, 5, late.master_epoch),))
    assert masters.sets[SET].master == a_master()


def test_loss_of_the_master_is_a_fence_too(masters):
    take(masters, followed(None, 6))
    assert take(masters, followed(1, 5)).outdated == (OutdatedSet(SET, 6, 5),)
    assert masters.sets[SET].master is None


def test_second_master_of_one_epoch_is_not_followed(masters):
    assert take(masters, followed(2, 5)) == ((), (OutdatedSet(SET, 5, 5),))
    assert masters.sets[SET].master == a_master()


def test_set_that_its_controller_contradicts_has_no_master_until_an_answer_agrees(masters):
    """The store of the controller was put back: which of the two is wrong is not known."""
    take(masters, followed(1, 4))
    assert not masters.is_master(a_master())
    take(masters, followed(name="other"), complete=False)
    assert not masters.is_master(a_master())
    assert masters.is_master(a_master(name="other"))
    assert take(masters, followed(), complete=False).changes == ()
    assert masters.is_master(a_master())


def test_contradiction_ends_with_the_set(masters):
    take(masters, followed(2, 5))
    take(masters)
    take(masters, followed(2, 6))
    assert masters.is_master(a_master(2, 6))


# Whatever comes in

_SETS = st.lists(
    st.builds(
        followed,
        st.sampled_from([None, 1, 2, 3]),
        st.integers(0, 6),
        name=st.sampled_from(["a", "b", "c"]),
        address=st.sampled_from([None, an_address(9)]),
        sync_epoch=st.integers(1, 3),
    ),
    max_size=3,
    unique_by=lambda each: each.broker_name,
)
_ANSWERS = st.lists(
    st.builds(
        lambda sets, complete, removed: answer(
            *sets, complete=complete, removed=() if complete else tuple(removed - {each.broker_name for each in sets})
        ),
        _SETS,
        st.booleans(),
        st.sets(st.sampled_from("abc"), max_size=1),
    ),
    max_size=8,
)


@settings(max_examples=60)
@given(_ANSWERS)
def test_epochs_never_go_back_and_whoever_applies_the_changes_knows_every_master(answers):
    masters, copy, epochs = Masters(), {}, {}
    for each in answers:
        taken = masters.take(each, now_ms=0, unix_ms=CAME_UNIX_MS)
        for made in taken.changes:
            copy.pop(made.broker_name, None)
            if made.after is not None:
                copy[made.broker_name] = made.after
        assert copy == {name: known.master for name, known in masters.sets.items() if known.master is not None}
        for name, known in masters.sets.items():
            assert known.master_epoch >= epochs.get(name, 0)
            epochs[name] = known.master_epoch
