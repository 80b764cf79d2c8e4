"""Broker sets that left: how long each is remembered, and whose place strangers do not take."""

import pytest
from builders import BROKER, CLUSTER, a_broker_set, a_member, an_address

from namesrv.core.tables.away_sets import (
    ADDRESSES_MAX,
    KEPT_MS,
    REGISTERED_MS_MIN,
    SETS_MAX,
    SETS_PER_HOST_MAX,
    STARTING_MS,
    AwaySets,
    RememberedSet,
)
from remoting.protocol.shapes.broker_sets import AwayBrokerSet

LATER_MS = 1_000_000
LONG_MS = REGISTERED_MS_MIN


@pytest.fixture
def sets():
    return AwaySets()


def come(sets, unix_ms, broker_name=BROKER, **values):
    came = a_broker_set(broker_name=broker_name, **values)
    sets.observe(broker_name, came, is_unregistered=False, unix_ms=unix_ms)


def leave(sets, unix_ms, broker_name=BROKER, *, is_unregistered=False):
    sets.observe(broker_name, None, is_unregistered=is_unregistered, unix_ms=unix_ms)


def stay(sets, broker_name=BROKER, *, from_ms=0, ms=LONG_MS):
    come(sets, from_ms, broker_name)
    leave(sets, from_ms + ms, broker_name)


def names(sets):
    return [away.broker_name for away in sets.away()]


@pytest.mark.parametrize("was_unregistered", [True, False])
def test_a_set_is_away_since_its_last_broker_left_until_one_is_back(sets, was_unregistered):
    come(sets, 0, broker_ids=(0, 1))
    come(sets, LATER_MS, broker_ids=(1,))
    leave(sets, LATER_MS + 5, is_unregistered=was_unregistered)
    assert sets.away() == [
        AwayBrokerSet(
            cluster=CLUSTER,
            broker_name=BROKER,
            away_since_unix_ms=LATER_MS + 5,
            was_unregistered=was_unregistered,
            broker_addrs={0: an_address(), 1: an_address(broker_id=1)},
        )
    ]
    assert (BROKER in sets, len(sets)) == (True, 1)
    leave(sets, LATER_MS + 9)
    assert sets.away()[0].away_since_unix_ms == LATER_MS + 5
    come(sets, LATER_MS + 10)
    assert sets.away() == []


def test_the_cluster_and_the_addresses_are_those_that_the_brokers_had_last(sets):
    come(sets, 0, members={1: a_member(address="moved:1", cluster="Other")}, cluster="Other")
    come(sets, LATER_MS, members={0: a_member(address="moved:1")})
    leave(sets, LATER_MS)
    assert (sets.away()[0].cluster, sets.away()[0].broker_addrs) == (CLUSTER, {0: "moved:1"})


def test_a_set_has_the_addresses_of_its_latest_brokers_only(sets):
    for number in range(2 * ADDRESSES_MAX):
        come(sets, number, members={number: a_member(address=f"b:{number}")})
    leave(sets, LONG_MS)
    assert list(sets.away()[0].broker_addrs) == list(range(ADDRESSES_MAX, 2 * ADDRESSES_MAX))


def test_of_one_host_those_are_remembered_that_were_registered_longest(sets):
    for number in range(2 * SETS_PER_HOST_MAX):
        invented = f"invented-{number:03}"
        come(sets, number, invented, members={0: a_member(network="10.6.6.6")})
        leave(sets, 2 * LONG_MS, invented)
    come(sets, 0, members={0: a_member(network="10.9.9.9")})
    leave(sets, LONG_MS)
    assert names(sets) == [BROKER, *(f"invented-{number:03}" for number in range(SETS_PER_HOST_MAX))]
    assert [known.network for known in sets.known(2 * LONG_MS) if known.broker_name == BROKER] == ["10.9.9.9"]


def test_all_sets_of_a_site_behind_one_address_are_remembered(sets):
    for number in range(2 * SETS_PER_HOST_MAX):
        come(sets, 0, f"broker-{number}", members={0: a_member(network="10.9.9.9")})
        leave(sets, KEPT_MS, f"broker-{number}")
    assert len(names(sets)) == sum(sets.counts().values()) == 2 * SETS_PER_HOST_MAX


def test_a_set_that_was_registered_for_a_moment_is_not_remembered_unless_it_was_known_before(sets):
    stay(sets, ms=LONG_MS - 1)
    assert names(sets) == []
    stay(sets, ms=LONG_MS)
    stay(sets, from_ms=LATER_MS, ms=1)
    assert [away.away_since_unix_ms for away in sets.away()] == [LATER_MS + 1]


def test_a_set_is_forgotten_after_a_day_or_when_an_operator_says_so(sets):
    stay(sets, "broker-a")
    stay(sets, "broker-b", ms=LONG_MS + 1)
    sets.settle(LONG_MS + KEPT_MS - 1)
    assert names(sets) == ["broker-a", "broker-b"]
    sets.settle(LONG_MS + KEPT_MS)
    assert names(sets) == ["broker-b"]
    assert sets.forget("broker-b")
    assert not sets.forget("broker-b")
    assert (names(sets), sets.known(LATER_MS)) == ([], [])


def test_invented_sets_take_the_place_of_no_set_that_was_registered_for_longer(sets):
    for number in range(5):
        stay(sets, f"ours-{number}", ms=LATER_MS)
    come(sets, 0, "registered")
    for number in range(3 * SETS_MAX):
        stay(sets, f"invented-{number}", ms=LONG_MS)
        assert len(sets) <= SETS_MAX + 100
    assert {f"ours-{number}" for number in range(5)} <= set(names(sets))
    assert len(names(sets)) == SETS_MAX
    known = sets.known(2 * LATER_MS)
    assert len(known) == SETS_MAX
    assert [each.broker_name for each in known[:6]] == ["registered", *(f"ours-{number}" for number in range(5))]


def restarted(sets, *, unix_ms, word_ms):
    after = AwaySets()
    after.restore(sets.known(word_ms), word_ms, unix_ms)
    return after


def test_a_set_with_topics_of_users_is_remembered_from_the_first_moment_on(sets):
    sets.observe(BROKER, a_broker_set(broker_name=BROKER), has_topics=True, unix_ms=0)
    leave(sets, 1)
    assert names(sets) == [BROKER]


def test_after_a_restart_sets_are_away_since_they_were_known_last_once_they_had_time_to_come_back(sets):
    for name in ("broker-a", "broker-b"):
        come(sets, 0, name)
    stay(sets, "broker-c")
    started = 2 * LATER_MS
    after = restarted(sets, unix_ms=started, word_ms=LATER_MS)
    after.settle(started + STARTING_MS - 1)
    assert [away.away_since_unix_ms for away in after.away()] == [None, None, LONG_MS]
    assert after.counts() == {CLUSTER: 1}
    assert [away.away_since_unix_ms for away in restarted(after, unix_ms=started + 1, word_ms=started).away()] == [
        None,
        None,
        LONG_MS,
    ]
    come(after, started + 10, "broker-a")
    after.settle(started + STARTING_MS)
    assert {each.broker_name for each in after.known(2 * LATER_MS + 10)} == {"broker-a", "broker-b", "broker-c"}
    assert [(away.broker_name, away.away_since_unix_ms) for away in after.away()] == [
        ("broker-b", LATER_MS),
        ("broker-c", LONG_MS),
    ]


def test_a_set_that_did_not_come_back_is_remembered_for_a_day_since_that_was_seen(sets):
    come(sets, 0)
    after = restarted(sets, unix_ms=3 * KEPT_MS, word_ms=LATER_MS)
    after.settle(4 * KEPT_MS - 1)
    assert names(after) == [BROKER]
    assert names(restarted(after, unix_ms=4 * KEPT_MS, word_ms=4 * KEPT_MS)) == [BROKER]
    after.settle(4 * KEPT_MS)
    assert names(after) == []


def test_a_set_that_has_just_come_is_not_kept_for_a_restart(sets):
    come(sets, 0)
    assert sets.known(LONG_MS - 1) == []
    (known,) = sets.known(LONG_MS)
    assert known == RememberedSet(
        cluster=CLUSTER, broker_name=BROKER, broker_addrs={0: an_address()}, registered_ms=LONG_MS
    )
