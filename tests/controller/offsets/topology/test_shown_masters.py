"""What NameServers show and brokers report becomes masters: found, moved, restarted; a silence alone loses none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_builders import CAME_UNIX_MS, CLUSTER, SET, an_address

from controller.offsets.topology.shown_masters import REMOVED_AFTER_MS, ShownMasters, ShownRound
from controller.offsets.topology.values import MasterChange, MasterChangeKind, SetMaster, SetMember
from remoting.admin.routes import RoutedBrokerSet

ONE, TWO = an_address(1), an_address(2)


def shown(master=ONE, *, name=SET, **slaves):
    """Return what one NameServer shows of one set; slaves are `s1="10.0.0.9:10911"` with their ids."""
    addresses = {int(key[1:]): address for key, address in slaves.items()}
    if master is not None:
        addresses[0] = master
    return {name: RoutedBrokerSet(cluster=CLUSTER, broker_name=name, addresses=addresses)}


def master(address=ONE, boot_unix_ms=1_000, name=SET):
    return SetMaster(CLUSTER, name, 0, address, None, boot_unix_ms)


def change(kind, before=None, after=None, name=SET):
    return (MasterChange(kind, name, before, after, CAME_UNIX_MS),)


def take(masters, shown, boots, now_ms):
    return masters.take(ShownRound(shown, boots, now_ms, CAME_UNIX_MS))


@pytest.fixture
def masters():
    masters = ShownMasters()
    take(masters, [shown()], {ONE: 1_000}, 0)
    return masters


def test_master_that_is_shown_and_answers_is_found():
    masters = ShownMasters()
    sets = [shown(s1=TWO)]
    assert masters.candidates(sets) == (set(), {ONE})
    assert take(masters, sets, {}, 0) == ()
    assert take(masters, sets, {ONE: 1_000}, 1) == change(MasterChangeKind.GAINED, None, master())
    assert take(masters, sets, {ONE: 1_000}, 2) == ()
    assert masters.sets[SET].members == (SetMember(0, ONE), SetMember(1, TWO))
    assert masters.is_master(master())


def test_set_with_an_answering_master_is_found_at_once(masters):
    assert masters.sets[SET].master == master()


def test_later_start_of_the_same_broker_is_a_restart(masters):
    assert take(masters, [shown()], {ONE: 2_000}, 1) == change(
        MasterChangeKind.RESTARTED, master(), master(boot_unix_ms=2_000)
    )
    assert not masters.is_master(master())


def test_candidates_of_known_sets_are_told_from_others(masters):
    sets = [shown(), shown(TWO), shown("10.0.0.3:10911", name="other"), shown(TWO, name="other")]
    assert masters.candidates(sets) == ({TWO}, {"10.0.0.3:10911"})


def test_restart_is_found_while_no_name_server_answers(masters):
    assert (masters.known_addresses(), masters.candidates([])) == ({ONE}, (set(), set()))
    assert [each.kind for each in take(masters, [], {ONE: 2_000}, 1)] == [MasterChangeKind.RESTARTED]


@pytest.mark.parametrize("start", [{}, {ONE: None}], ids=["silent", "refuses"])
def test_broker_that_does_not_tell_its_start_has_not_restarted(masters, start):
    assert take(masters, [shown()], start, 1) == ()
    assert take(masters, [shown()], {ONE: 1_000}, 2) == ()
    assert [each.kind for each in take(masters, [shown()], {ONE: 2_000}, 3)] == [MasterChangeKind.RESTARTED]


def test_broker_at_another_address_is_another_master(masters):
    assert take(masters, [shown(TWO)], {TWO: 500}, 1) == change(MasterChangeKind.MOVED, master(), master(TWO, 500))


# What is not known


def test_nothing_is_lost_while_no_name_server_answers(masters):
    assert take(masters, [], {}, 1) == ()
    assert masters.is_master(master())


def test_name_server_that_has_just_started_and_shows_nobody_takes_no_living_master(masters):
    assert take(masters, [{}], {ONE: 1_000}, 1) == ()
    assert masters.is_master(master())


def test_master_that_is_silent_stays_as_long_as_one_name_server_shows_it(masters):
    assert take(masters, [shown(), {}], {}, 1) == ()
    assert take(masters, [{}], {}, 2) == change(MasterChangeKind.LOST, master())
    assert take(masters, [shown()], {ONE: 1_000}, 3) == change(MasterChangeKind.GAINED, master(), master())


def test_other_master_that_is_shown_and_does_not_answer_is_not_followed(masters):
    assert take(masters, [shown(TWO)], {ONE: 1_000}, 1) == ()
    assert masters.is_master(master())


def test_master_that_is_shown_as_a_slave_is_lost(masters):
    assert take(masters, [shown(None, s2=ONE)], {ONE: 1_000}, 1) == change(MasterChangeKind.LOST, master())


def test_where_name_servers_differ_the_one_that_has_started_last_is_master(masters):
    sets = [shown(ONE), shown(TWO)]
    assert (masters.known_addresses(), masters.candidates(sets)) == ({ONE}, ({TWO}, set()))
    assert take(masters, sets, {ONE: 1_000, TWO: 900}, 1) == ()
    assert [each.after.address for each in take(masters, sets, {ONE: 1_000, TWO: 1_100}, 2)] == [TWO]
    # The failed one is still shown by the one that is behind.
    assert take(masters, sets, {TWO: 1_100}, 3) == ()


def test_former_master_that_one_name_server_still_shows_is_not_master_again_after_its_restart(masters):
    behind, present = shown(ONE, s2=TWO), shown(TWO, s1=ONE)
    assert [each.after.address for each in take(masters, [present], {TWO: 900}, 1)] == [TWO]
    # It has started after its successor, and each is a slave by one of them.
    assert take(masters, [behind, present], {ONE: 2_000, TWO: 900}, 2) == ()
    assert take(masters, [shown(ONE), present], {ONE: 2_000, TWO: 900}, 3) == ()


# What stays


def test_set_that_nobody_shows_is_removed_after_a_day(masters):
    take(masters, [{}], {}, 1)
    assert take(masters, [{}], {}, REMOVED_AFTER_MS - 1) == ()
    assert take(masters, [], {}, REMOVED_AFTER_MS + 1) == ()
    assert take(masters, [{}], {}, REMOVED_AFTER_MS + 2) == ()
    assert take(masters, [{}], {}, 2 * REMOVED_AFTER_MS + 2) == change(MasterChangeKind.REMOVED, master())
    assert masters.sets == {}


@pytest.mark.parametrize("sets", [shown(name=""), shown(name="n" * 256), shown(name="a\nb"), shown("no address")])
def test_name_or_address_that_cannot_be_is_not_followed(sets):
    masters = ShownMasters()
    assert masters.candidates([shown("no address")]).all == set()
    assert take(masters, [sets], {ONE: 1_000, "no address": 1_000}, 0) == ()


def test_only_so_many_sets_are_followed(monkeypatch):
    monkeypatch.setattr("controller.offsets.topology.shown_masters.SETS_MAX", 1)
    masters = ShownMasters()
    take(masters, [shown() | shown(TWO, name="other")], {ONE: 1, TWO: 1}, 0)
    assert set(masters.sets) == {SET}


_SHOWN = st.lists(
    st.one_of(
        st.just({}),
        st.builds(shown, st.sampled_from([None, ONE, TWO])),
        st.builds(shown, st.sampled_from([None, ONE]), s1=st.sampled_from([ONE, TWO])),
    ),
    max_size=2,
)
_BOOTS = st.dictionaries(st.sampled_from([ONE, TWO]), st.sampled_from([None, 1, 2]))


@settings(max_examples=60)
@given(st.lists(st.tuples(_SHOWN, _BOOTS), max_size=6))
def test_whoever_applies_the_changes_knows_every_master_and_none_is_found_before_it_answered(rounds):
    masters, copy, answered = ShownMasters(), {}, set()
    for now_ms, (sets, starts) in enumerate(rounds):
        candidates = masters.known_addresses() | masters.candidates(sets).all
        boots = {address: boot for address, boot in starts.items() if address in candidates}
        answered |= boots.keys()
        for made in take(masters, sets, boots, now_ms):
            copy.pop(made.broker_name, None)
            if made.after is not None:
                copy[made.broker_name] = made.after.address
                assert made.after.address in answered
        assert copy == {name: each.master.address for name, each in masters.sets.items() if each.master is not None}
