"""What a route becomes for peers with role addresses, and when it stays what the tables say."""

import pytest
from builders import BROKER, TOPIC, a_broker_set, a_registration, an_address
from route_states import lose_connection, register_broker

from namesrv.core.role_addresses.documents import rules_of_toml
from namesrv.core.role_addresses.state import TICK_MS
from namesrv.core.route_state import RouteState
from namesrv.core.routes import broker_data, in_zone
from namesrv.settings.config import NameServerConfig
from remoting.protocol.shapes.route import TopicRouteData
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import Histogram

ROLE, PEER = "10.9.0.5:10911", "127.0.0.1:5000"
MASTER, SLAVE, SECOND_SLAVE = (an_address(broker_id=broker_id) for broker_id in range(3))
RULE = f'[[roleAddress]]\nset = "{BROKER}"\nmaster = "{ROLE}"\nverify = false\n'
HOLD = RULE + 'controllerMode = true\nhold = "10s"\n'


def a_state(rules=RULE, *, broker_ids=(0, 1, 2), **registration):
    """Return a state with a set, of which each broker has its own connection: 100 + its id."""
    state = RouteState(NameServerConfig(support_acting_master=True))
    state.role_addresses.replace(rules_of_toml(rules), 0)
    for broker_id in broker_ids:
        register(state, broker_id, **registration)
    return state


def register(state, broker_id, **registration):
    register_broker(state, a_registration(broker_id=broker_id, connection_id=100 + broker_id, **registration), 0)


def addresses(state, peer=PEER):
    """Return the addresses of the set as a peer gets them."""
    audience = state.role_addresses.audience_of(peer)
    (data,) = state.role_addresses.for_audience(state.route_of(TOPIC, None), audience).broker_datas
    return data.broker_addrs


def test_master_has_the_role_address_and_slaves_their_own():
    assert addresses(a_state()) == {0: ROLE, 1: SLAVE, 2: SECOND_SLAVE}


@pytest.mark.parametrize("here", [(), (1,)], ids=["none of the set has registered here", "its slave has"])
def test_master_that_only_a_peer_knows_has_the_role_address_too(here):
    state = a_state(broker_ids=here)
    known = a_broker_set(broker_ids=(0, 1))
    route = TopicRouteData(broker_datas=[broker_data(known)], filter_server_table={}, queue_datas=[])
    audience = state.role_addresses.audience_of(PEER)
    (data,) = state.role_addresses.for_audience(route, audience, {BROKER: known}).broker_datas
    assert data.broker_addrs == {0: ROLE, 1: SLAVE}


def test_slaves_can_be_left_out_or_have_addresses_of_their_own():
    assert addresses(a_state(RULE + 'slaves = "omit"')) == {0: ROLE}
    assert addresses(a_state(RULE + 'slaves = { 1 = "10.9.0.6:10911", 7 = "10.9.0.7:10911" }')) == {
        0: ROLE,
        1: "10.9.0.6:10911",
        2: SECOND_SLAVE,
    }


def test_pattern_leaves_out_slaves_and_the_master_keeps_its_own_address():
    assert addresses(a_state('[[roleAddress]]\nset = "broker-*"\nslaves = "omit"')) == {0: MASTER}


def test_peers_of_other_networks_get_real_addresses():
    state = a_state(RULE + 'networks = ["127.0.0.2/32"]')
    assert addresses(state) == {0: MASTER, 1: SLAVE, 2: SECOND_SLAVE}
    assert addresses(state, "127.0.0.2:1")[0] == ROLE


def test_without_a_master_peers_get_what_the_tables_say():
    state = a_state(RULE + 'slaves = "omit"')
    lose_connection(state, 100, 0)
    assert addresses(state) == {1: SLAVE, 2: SECOND_SLAVE}


def test_acting_master_has_no_role_address():
    state = a_state(HOLD, enable_acting_master=True)
    lose_connection(state, 100, 0)
    assert addresses(state) == {0: SLAVE, 2: SECOND_SLAVE}


def test_acting_master_and_slaves_keep_their_addresses_of_the_rule():
    slaves = 'slaves = { 1 = "10.9.0.6:10911", 2 = "10.9.0.7:10911" }'
    state = a_state(RULE + slaves, enable_acting_master=True, filter_servers=("10.0.0.1:30000",))
    lose_connection(state, 100, 0)
    assert addresses(state) == {0: "10.9.0.6:10911", 2: "10.9.0.7:10911"}
    given = state.role_addresses.for_audience(state.route_of(TOPIC, None), state.role_addresses.audience_of(PEER))
    assert given.filter_server_table.keys() == {"10.9.0.6:10911", "10.9.0.7:10911"}
    lose_connection(state, 101, 0)
    assert addresses(state) == {0: "10.9.0.7:10911"}


def test_slaves_without_a_master_keep_their_addresses_of_the_rule():
    state = a_state(RULE + 'slaves = { 1 = "10.9.0.6:10911" }')
    lose_connection(state, 100, 0)
    assert addresses(state) == {1: "10.9.0.6:10911", 2: SECOND_SLAVE}


def test_role_address_is_held_for_ten_seconds_at_most_while_a_member_lives():
    state = a_state(HOLD)
    lose_connection(state, 100, 0)
    assert addresses(state) == {0: ROLE, 1: SLAVE, 2: SECOND_SLAVE}
    dropped = []
    for now_ms in range(TICK_MS, 10_001, TICK_MS):
        before = state.route_cache.invalidated
        state.route_cache.keep(TOPIC, "form", a_prepared())
        state.role_addresses.tick(now_ms)
        dropped.append(state.route_cache.invalidated - before)
        if dropped[-1]:
            break
        assert addresses(state)[0] == ROLE
    assert 9_000 <= now_ms <= 10_000
    assert addresses(state) == {1: SLAVE, 2: SECOND_SLAVE}
    register(state, 0)
    assert addresses(state)[0] == ROLE


def a_prepared():
    return PreparedResponse(b"", Histogram(()))


def test_new_master_ends_the_hold_of_the_former_one():
    state = a_state(HOLD)
    lose_connection(state, 100, 0)
    state.role_addresses.tick(0)
    register(state, 0)
    state.role_addresses.tick(60_000)
    lose_connection(state, 100, 60_000)
    assert addresses(state)[0] == ROLE


def test_set_whose_master_left_before_its_rule_came_and_one_of_a_rule_without_hold_are_not_held():
    state = a_state("")
    lose_connection(state, 100, 0)
    state.role_addresses.replace(rules_of_toml(HOLD), 0)
    assert 0 not in addresses(state)
    state = a_state(RULE)
    lose_connection(state, 100, 0)
    assert 0 not in addresses(state)


def test_address_of_a_broker_of_the_set_is_not_applied_and_reported():
    own = "10.0.0.7:10911"
    state = a_state(f'\n[[roleAddress]]\nset = "{BROKER}"\nmaster = "{own}"\n', broker_ids=(0,))
    register(state, 1, address=own)
    assert addresses(state) == {0: MASTER, 1: own}
    state.role_addresses.tick(0)
    (loop,) = state.role_addresses.loops.values()
    assert str(loop).startswith(f"line 2: {own} of {BROKER} is the address with which a broker of {BROKER} registers")


def test_own_address_of_a_slave_may_stand_for_it():
    state = a_state(RULE + 'slaves = { 1 = "10.0.0.7:10911" }', broker_ids=(0,))
    register(state, 1, address="10.0.0.7:10911")
    state.role_addresses.tick(0)
    assert (addresses(state), state.role_addresses.loops) == ({0: ROLE, 1: "10.0.0.7:10911"}, {})


def test_address_with_which_a_broker_of_another_set_registers_is_not_applied_while_that_lives():
    state = a_state(broker_ids=(0,))
    state.route_cache.keep(TOPIC, "form", a_prepared())
    register_broker(state, a_registration(broker_name="broker-b", address=ROLE, connection_id=7), 0)
    state.role_addresses.tick(0)
    route = state.role_addresses.for_audience(state.route_of(TOPIC, None), state.role_addresses.audience_of(PEER))
    assert route.broker_datas[0].broker_addrs == {0: MASTER}
    assert state.role_addresses.loops[BROKER].owner == "broker-b"
    assert state.route_cache.get(TOPIC, "form") is None
    lose_connection(state, 7, 0)
    state.role_addresses.tick(0)
    assert addresses(state) == {0: ROLE}


def test_filter_servers_are_under_the_address_that_a_peer_knows():
    state = a_state(RULE + 'slaves = "omit"', filter_servers=("10.0.0.1:30000",))
    route = state.route_of(TOPIC, None)
    assert route.filter_server_table.keys() == {MASTER, SLAVE, SECOND_SLAVE}
    given = state.role_addresses.for_audience(route, state.role_addresses.audience_of(PEER))
    assert given.filter_server_table == {ROLE: ["10.0.0.1:30000"]}


@pytest.mark.parametrize(("zone", "sets"), [("zone-1", 1), ("zone-2", 0)])
def test_zone_decides_by_the_real_members(zone, sets):
    state = a_state(HOLD, zone_name="zone-1")
    route = in_zone(state.route_of(TOPIC, None), zone)
    given = state.role_addresses.for_audience(route, state.role_addresses.audience_of(PEER))
    assert [data.broker_addrs[0] for data in given.broker_datas] == [ROLE] * sets


def test_other_rules_drop_every_cached_route_and_without_rules_nobody_is_of_an_audience():
    state = a_state()
    state.route_cache.keep(TOPIC, "form", a_prepared())
    state.role_addresses.replace(rules_of_toml(""), 0)
    assert state.route_cache.get(TOPIC, "form") is None
    assert state.role_addresses.audience_of(PEER) == 0
    assert addresses(state)[0] == MASTER
