"""Answers about masters come in, changes come out: none twice, none missed, and none from an older epoch."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from set_builders import (
    CAME_UNIX_MS,
    CLUSTER,
    SET,
    a_master,
    a_set,
    an_address,
    an_answer,
    answer_fields,
    set_fields,
)

from offsets.sets.controller_rules import (
    REMOVED_EPOCH_MS,
    AnswerUnreadable,
    ControllerSets,
    OutdatedSet,
    decode_answer,
)
from offsets.sets.followed import MasterChange, MasterChangeKind
from offsets.values import SetName

KINDS = MasterChangeKind


@pytest.fixture
def table():
    table = ControllerSets()
    take(table, a_set())
    return table


def change(kind, before=None, after=None, name=SET, since=CAME_UNIX_MS):
    return MasterChange(kind, SetName(CLUSTER, name), before, after, since)


def take(table, *sets, now_ms=0, **values):
    return table.take(an_answer(*sets, **values), now_ms=now_ms, unix_ms=CAME_UNIX_MS)


def test_a_set_is_found_once_and_one_without_a_master_when_it_gains_one():
    table = ControllerSets()
    assert take(table, a_set(None, 0), a_set(name="other")).changes == (
        change(KINDS.FOUND, None, a_master(name="other"), "other"),
    )
    assert take(table, a_set(1, 1), a_set(name="other")).changes == (change(KINDS.GAINED, None, a_master(1, 1)),)
    assert take(table, a_set(1, 1), a_set(name="other")).changes == ()


def test_a_lost_master_is_still_named_when_another_one_follows(table):
    assert take(table, a_set(None, 6)).changes == (change(KINDS.LOST, a_master()),)
    assert take(table, a_set(2, 7)).changes == (change(KINDS.GAINED, a_master(), a_master(2, 7)),)


@pytest.mark.parametrize("after", [a_master(2, 6), a_master(1, 7)], ids=["another broker", "the same, elected again"])
def test_every_later_epoch_is_a_move(table, after):
    taken = take(table, a_set(after.broker_id, after.master_epoch))
    assert taken.changes == (change(KINDS.MOVED, a_master(), after),)


def test_older_members_of_the_same_epoch_are_not_taken(table):
    take(table, a_set(members=(1,), sync_epoch=2), complete=False)
    assert take(table, a_set(members=(1, 2), sync_epoch=1), complete=False).changes == ()
    assert table.sets[SET].members == (an_address(1),)
    take(table, a_set(2, 6, members=(2, 3), sync_epoch=1), complete=False)
    assert table.sets[SET].members == (an_address(2), an_address(3))


def test_the_time_of_an_election_stays_known_when_another_controller_leads(table):
    assert take(table, a_set(2, 6, elected=123)).changes[0].since_unix_ms == 123
    assert take(table, a_set(2, 6)).changes == ()
    assert table.sets[SET].elected_unix_ms == 123
    take(table, a_set(3, 7))
    assert table.sets[SET].elected_unix_ms is None


# Removed sets


def test_a_set_that_a_complete_answer_lacks_is_removed_and_one_with_changes_alone_removes_what_it_names(table):
    assert take(table, a_set(name="other"), complete=False).changes[0].kind is KINDS.FOUND
    assert set(table.sets) == {SET, "other"}
    assert take(table, complete=False, removed=("other", "never seen")).changes == (
        change(KINDS.REMOVED, a_master(name="other"), name="other"),
    )
    assert take(table).changes == (change(KINDS.REMOVED, a_master()),)
    assert take(table, a_set(2, 6), complete=False).changes == (change(KINDS.FOUND, None, a_master(2, 6)),)


def test_the_epoch_of_a_removed_set_is_a_fence_for_hours(table):
    take(table)
    late = REMOVED_EPOCH_MS - 1
    assert take(table, a_set(1, 4), now_ms=late) == ((), (OutdatedSet(SET, 5, 4),))
    assert SET not in table.sets
    assert take(table, a_set(1, 4), now_ms=late + 1).changes == (change(KINDS.FOUND, None, a_master(1, 4)),)


def test_epochs_of_removed_sets_have_a_limit(table, monkeypatch):
    monkeypatch.setattr("offsets.sets.controller_rules.SETS_MAX", 1)
    take(table, a_set(name="other"))
    take(table)
    assert take(table, a_set(1, 4), a_set(1, 4, name="other")).outdated == (OutdatedSet("other", 5, 4),)


@pytest.mark.parametrize("complete", [True, False])
def test_a_set_that_the_controller_cannot_read_stays_as_it_is(table, complete):
    assert take(table, complete=complete, unreadable=(SET,)).changes == ()
    assert table.sets[SET].master == a_master()


# The fence


@pytest.mark.parametrize("late", [a_set(1, 4), a_set(None, 4), a_set(3, 0), a_set(2, 5)])
def test_an_older_epoch_and_a_second_master_of_one_epoch_never_win_and_leave_the_set_in_doubt(table, late):
    assert take(table, late) == ((), (OutdatedSet(SET, 5, late.master_epoch),))
    assert (table.sets[SET].master, table.contradicted) == (a_master(), {SET})
    take(table, a_set(name="other"), complete=False)
    assert table.contradicted == {SET}
    assert take(table, a_set(), complete=False).changes == ()
    assert table.contradicted == set()


def test_the_loss_of_a_master_is_a_fence_too_and_a_doubt_ends_with_the_set(table):
    take(table, a_set(None, 6))
    assert take(table, a_set(1, 5)).outdated == (OutdatedSet(SET, 6, 5),)
    take(table)
    assert table.contradicted == set()


# Whatever comes in

_SETS = st.lists(
    st.builds(
        a_set,
        st.sampled_from([None, 1, 2, 3]),
        st.integers(0, 6),
        name=st.sampled_from(["a", "b", "c"]),
        address=st.sampled_from([None, an_address(9)]),
        sync_epoch=st.integers(1, 3),
    ),
    max_size=3,
    unique_by=lambda found: found.set_name,
)


@st.composite
def _answers(draw):
    sets, complete = draw(_SETS), draw(st.booleans())
    removed = draw(st.sets(st.sampled_from("abc"), max_size=1)) - {found.set_name.broker_name for found in sets}
    return an_answer(*sets, complete=complete, removed=() if complete else tuple(removed))


@settings(max_examples=60)
@given(st.lists(_answers(), max_size=8))
def test_epochs_never_go_back_and_the_changes_alone_tell_every_master(answers):
    table, told, epochs = ControllerSets(), {}, {}
    for answer in answers:
        for made in table.take(answer, now_ms=0, unix_ms=CAME_UNIX_MS).changes:
            told.pop(made.set_name.broker_name, None)
            if made.after is not None:
                told[made.set_name.broker_name] = made.after
        assert told == {name: known.master for name, known in table.sets.items() if known.master is not None}
        for name, known in table.sets.items():
            assert known.master_epoch >= epochs.get(name, 0)
            epochs[name] = known.master_epoch


# The answer itself


def decoded(*sets, **values):
    return decode_answer(json.dumps(answer_fields(*sets, **values)).encode())


def test_an_answer_is_read_with_fields_that_it_does_not_know():
    answer = decoded(set_fields(electedUnclean=True, electedUnixMs=7), removed=["gone"], later=1)
    assert answer == an_answer(a_set(elected=7), removed=("gone",))
    assert decoded(set_fields(None)).sets[0].master is None


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([set_fields(), set_fields()], "broker-a is in it more than once"),
        ([set_fields(masterAddress="nowhere")], "the master of broker-a has no address host:port"),
        ([set_fields(masterAddress=None)], "the master of broker-a has no address host:port"),
        ([set_fields(epoch=2**31)], "masterEpoch"),
        ([set_fields(masterBrokerId=-1)], "masterBrokerId"),
        ([set_fields(brokerName="")], "brokerName"),
        ([set_fields(brokerName="n" * 256)], "brokerName"),
    ],
)
def test_an_answer_with_anything_impossible_is_refused_as_a_whole(answer, problem):
    with pytest.raises(AnswerUnreadable, match=problem):
        decoded(set_fields(name="good"), *answer)


@pytest.mark.parametrize("text", [b"", b"<html>", b"{}", b"\xff", b"[" * 100_000])
def test_bytes_that_are_no_answer_are_refused(text):
    with pytest.raises(AnswerUnreadable):
        decode_answer(text)
