"""Who was heard when, over which connection, and for how long that holds."""

import pytest
from builders import BROKER, CLUSTER, a_live_key, a_live_row
from hypothesis import given
from hypothesis import strategies as st

from namesrv.core.tables.live_table import LiveTable

MASTER, SLAVE = a_live_key(), a_live_key(broker_id=1)


@pytest.fixture
def table():
    return LiveTable()


# Silence


def test_a_broker_lives_to_the_end_of_its_own_timeout_and_not_a_millisecond_longer(table):
    table.put(MASTER, a_live_row(last_heartbeat_ms=500, timeout_ms=10_000))
    table.put(SLAVE, a_live_row(last_heartbeat_ms=500, timeout_ms=120_000))
    assert table.expired(now_ms=10_500) == []
    assert table.expired(now_ms=10_501) == [MASTER]
    assert table.expired(now_ms=120_501) == [MASTER, SLAVE]


def test_a_sign_of_life_moves_the_deadline_and_nothing_else(table):
    table.put(MASTER, a_live_row(timeout_ms=10_000, connection_id=7))
    table.refresh(MASTER, now_ms=9_000)
    assert table.get(MASTER) == a_live_row(last_heartbeat_ms=9_000, registered_ms=0, timeout_ms=10_000, connection_id=7)
    assert table.expired(now_ms=19_000) == []
    assert table.of_connection(7) == [MASTER]


def test_a_newcomer_with_a_short_timeout_lowers_the_earliest_deadline(table):
    assert table.earliest_ms is None
    table.put(MASTER, a_live_row(timeout_ms=120_000))
    table.expired(now_ms=1)
    assert table.earliest_ms == 120_000
    table.put(SLAVE, a_live_row(last_heartbeat_ms=1, timeout_ms=4_000))
    assert table.earliest_ms == 4_001
    assert table.expired(now_ms=4_002) == [SLAVE]


# Addresses


def test_two_broker_names_at_one_address_live_and_die_apart(table):
    mine, other = a_live_key(address="host:10911"), a_live_key(broker_name="broker-b", address="host:10911")
    table.put(mine, a_live_row())
    table.put(other, a_live_row())
    table.put(mine, a_live_row(last_heartbeat_ms=1))
    assert table.at_address(CLUSTER, "host:10911") == mine
    table.remove(mine)
    assert table.at_address(CLUSTER, "host:10911") == other
    table.remove(other)
    assert table.at_address(CLUSTER, "host:10911") is None


def test_an_address_is_looked_for_in_one_cluster_only(table):
    table.put(MASTER, a_live_row())
    table.put(a_live_key(broker_name="broker-b", address=MASTER.address), a_live_row(cluster="Other"))
    assert table.at_address(CLUSTER, MASTER.address) == MASTER
    assert table.at_address(CLUSTER, SLAVE.address) is None
    table.put(MASTER, a_live_row(cluster="Other"))
    assert table.at_address(CLUSTER, MASTER.address) is None


# Connections


# Leaving


def test_brokers_that_come_and_go_leave_nothing_behind(table):
    for connection_id in range(3):
        table.put(MASTER, a_live_row(connection_id=connection_id))
        table.put(SLAVE, a_live_row(connection_id=connection_id))
    table.remove(MASTER)
    table.remove(SLAVE)
    assert vars(table) == vars(LiveTable())


KEYS = st.builds(a_live_key, broker_name=st.sampled_from([BROKER, "broker-b"]), broker_id=st.integers(0, 1))


HAPPENINGS = st.tuples(st.sampled_from(["put", "heard", "remove", "look"]), KEYS, st.integers(1, 50), st.integers(0, 9))


@given(st.lists(HAPPENINGS, max_size=40))
def test_a_scan_finds_whom_a_walk_finds_whatever_happened(happenings):
    table, now_ms = LiveTable(), 0
    for what, key, timeout_ms, passed_ms in happenings:
        now_ms += passed_ms
        if what == "put":
            table.put(key, a_live_row(last_heartbeat_ms=now_ms, timeout_ms=timeout_ms))
        elif what == "heard" and table.get(key):
            table.refresh(key, now_ms)
        elif what == "remove":
            table.remove(key)
        walked = [each for each, row in table.rows() if row.last_heartbeat_ms + row.timeout_ms < now_ms]
        deadlines = [row.last_heartbeat_ms + row.timeout_ms for _, row in table.rows()]
        assert table.earliest_ms is None if not deadlines else table.earliest_ms <= min(deadlines)
        if what == "look":
            assert table.expired(now_ms) == walked


@given(st.lists(st.tuples(KEYS, st.integers(1, 3) | st.none())))
def test_connections_have_the_brokers_that_a_walk_finds_whatever_happened(registrations):
    table = LiveTable()
    for key, connection_id in registrations:
        if connection_id is None:
            table.remove(key)
        else:
            table.put(key, a_live_row(connection_id=connection_id))
    for connection_id in (1, 2, 3):
        walked = {key for key, row in table.rows() if row.connection_id == connection_id}
        assert set(table.of_connection(connection_id)) == walked
