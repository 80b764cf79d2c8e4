"""What NameServers show and brokers report becomes masters: found, moved, restarted; silence alone loses none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from set_builders import CAME_UNIX_MS, CLUSTER, SET, an_address

from offsets.sets.followed import MasterChange, MasterChangeKind, SetMaster
from offsets.sets.name_server_rules import REMOVED_AFTER_MS, NameServerSets
from offsets.values import SetName
from remoting.admin.routes import RoutedBrokerSet

ONE, TWO = an_address(1), an_address(2)
KINDS = MasterChangeKind


def shown(master=ONE, *, name=SET, **slaves):
    """Return what one NameServer shows of one set; slaves are `s1="10.0.0.9:10911"` with their ids."""
    addresses = {int(key[1:]): address for key, address in slaves.items()}
    if master is not None:
        addresses[0] = master
    return {name: RoutedBrokerSet(cluster=CLUSTER, broker_name=name, addresses=addresses)}


def master(address=ONE, boot_unix_ms=1_000):
    return SetMaster(SetName(CLUSTER, SET), 0, address, None, boot_unix_ms)


def change(kind, before=None, after=None):
    return (MasterChange(kind, SetName(CLUSTER, SET), before, after, CAME_UNIX_MS),)


def take(table, shown, boots, now_ms=0):
    return table.take(shown, boots, now_ms=now_ms, unix_ms=CAME_UNIX_MS)


@pytest.fixture
def table():
    table = NameServerSets()
    take(table, [shown()], {ONE: 1_000})
    return table


def test_a_master_is_found_once_it_is_shown_and_has_answered():
    table, sets = NameServerSets(), [shown(s1=TWO)]
    assert (table.known_masters(), table.candidates(sets)) == (set(), {ONE})
    assert take(table, sets, {}) == ()
    assert take(table, sets, {ONE: 1_000}) == change(KINDS.GAINED, None, master())
    assert take(table, sets, {ONE: 1_000}) == ()
    assert table.sets[SET].members == (ONE, TWO)
    assert (table.known_masters(), table.candidates(sets)) == ({ONE}, set())


#: What NameServers show, which brokers answer with which start, and what follows for a set whose master is ONE.
@pytest.mark.parametrize(
    ("sets", "boots", "found"),
    [
        pytest.param([shown()], {ONE: 2_000}, (KINDS.RESTARTED, master(boot_unix_ms=2_000)), id="a later start"),
        pytest.param([], {ONE: 2_000}, (KINDS.RESTARTED, master(boot_unix_ms=2_000)), id="seen without NameServers"),
        pytest.param([shown()], {}, None, id="silent and shown"),
        pytest.param([shown()], {ONE: None}, None, id="refuses to tell its start"),
        pytest.param([shown(TWO)], {TWO: 500}, (KINDS.MOVED, master(TWO, 500)), id="another address"),
        pytest.param([shown(TWO)], {ONE: 1_000}, None, id="another one that does not answer"),
        pytest.param([], {}, None, id="no answer at all"),
        pytest.param([{}], {ONE: 1_000}, None, id="a NameServer that has just started"),
        pytest.param([shown(), {}], {}, None, id="silent, and one NameServer shows it"),
        pytest.param([{}], {}, (KINDS.LOST, None), id="silent, and none shows it"),
        pytest.param([shown(None, s2=ONE)], {ONE: 1_000}, (KINDS.LOST, None), id="shown as a slave"),
        pytest.param([shown(ONE), shown(TWO)], {ONE: 1_000, TWO: 900}, (None), id="two, and the known one is later"),
        pytest.param(
            [shown(ONE), shown(TWO)], {ONE: 1_000, TWO: 1_100}, (KINDS.MOVED, master(TWO, 1_100)), id="two, later one"
        ),
        pytest.param([shown(ONE), shown(TWO)], {TWO: 5}, (KINDS.MOVED, master(TWO, 5)), id="a NameServer is behind"),
    ],
)
def test_what_follows_for_a_known_master(table, sets, boots, found):
    assert take(table, sets, boots, 1) == (() if found is None else change(found[0], master(), found[1]))


def test_a_silence_forgets_no_start(table):
    take(table, [shown()], {ONE: None})
    assert take(table, [shown()], {ONE: 1_000}) == ()
    take(table, [shown()], {})
    assert take(table, [shown()], {ONE: 2_000})[0].kind is KINDS.RESTARTED


def test_a_former_master_that_one_name_server_still_shows_is_not_master_again_after_its_restart(table):
    behind, present = shown(ONE, s2=TWO), shown(TWO, s1=ONE)
    assert take(table, [present], {TWO: 900})[0].after.address == TWO
    # It has started after its successor, and each is a slave by one of them.
    assert take(table, [behind, present], {ONE: 2_000, TWO: 900}) == ()
    assert take(table, [shown(ONE), present], {ONE: 2_000, TWO: 900}) == ()


def test_a_set_that_is_shown_no_more_is_removed_after_a_day(table):
    take(table, [{}], {}, 1)
    assert take(table, [{}], {}, REMOVED_AFTER_MS - 1) == ()
    # Without an answer nothing is known to have gone.
    assert take(table, [], {}, REMOVED_AFTER_MS + 1) == ()
    assert take(table, [{}], {}, 2 * REMOVED_AFTER_MS) == ()
    assert take(table, [{}], {}, 2 * REMOVED_AFTER_MS + 1) == change(KINDS.REMOVED, master())
    assert table.sets == {}


@pytest.mark.parametrize("sets", [shown(name=""), shown(name="n" * 256), shown(name="a\nb"), shown("no address")])
def test_a_name_or_address_that_cannot_be_is_not_followed(sets):
    table = NameServerSets()
    assert table.candidates([shown("no address")]) == set()
    assert take(table, [sets], {ONE: 1_000, "no address": 1_000}) == ()


def test_only_so_many_sets_are_followed(monkeypatch):
    monkeypatch.setattr("offsets.sets.name_server_rules.SETS_MAX", 1)
    table = NameServerSets()
    take(table, [shown() | shown(TWO, name="other")], {ONE: 1, TWO: 1})
    assert set(table.sets) == {SET}


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
def test_the_changes_alone_tell_every_master_and_none_is_found_before_it_answered(rounds):
    table, told, answered = NameServerSets(), {}, set()
    for sets, starts in rounds:
        asked = table.known_masters() | table.candidates(sets)
        boots = {address: boot for address, boot in starts.items() if address in asked}
        answered |= boots.keys()
        for made in take(table, sets, boots):
            told.pop(made.set_name.broker_name, None)
            if made.after is not None:
                told[made.set_name.broker_name] = made.after.address
                assert made.after.address in answered
        assert told == {name: known.master.address for name, known in table.sets.items() if known.master is not None}
