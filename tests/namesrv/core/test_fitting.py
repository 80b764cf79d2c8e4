"""What fits into a route that hosts have made long: a share of each, the latest of a host left out first."""

import time

import pytest
from builders import a_mapping, a_registration, topic_configs
from route_states import register_broker

from namesrv.core import fitting
from namesrv.core.registration.accepted_topics import AcceptedTopics
from namesrv.core.route_state import RouteState
from namesrv.settings.config import NameServerConfig
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.route import DataVersion

STRANGER, OPERATOR = "10.6.6.6", "10.9.9.9"


@pytest.fixture
def state():
    return RouteState(NameServerConfig(topic_sets_per_host_max=3))


def register(state, name, network=STRANGER, **values):
    defaults = {"topics": topic_configs("Orders", name), "network": network}
    return register_broker(state, a_registration(broker_name=name, **(defaults | values)), now_ms=0)


def sets_of(state, topic="Orders"):
    return [data.broker_name for data in state.route_of(topic, None).broker_datas]


def test_a_host_has_so_many_sets_in_a_topic_and_others_have_theirs(state):
    outcomes = [register(state, f"stranger-{number}") for number in range(4)]
    register(state, "real", OPERATOR)
    assert sets_of(state) == ["stranger-0", "stranger-1", "stranger-2", "real"]
    assert [outcome.events[0].ignored_topics for outcome in outcomes] == [0, 0, 0, 1]
    assert sets_of(state, "stranger-3") == ["stranger-3"]


def test_many_hosts_have_fewer_sets_each_in_a_topic_and_a_real_one_still_has_a_place(state):
    for host in range(20):
        for number in range(3):
            register(state, f"set-{host}-{number}", f"2001:db8:{host}::/64")
    register(state, "real", OPERATOR)
    assert len(sets_of(state)) == 8 * 3 + 12 + 1
    assert "real" in sets_of(state)


def test_the_more_sets_a_topic_has_the_fewer_a_host_may_add():
    state = RouteState(NameServerConfig(topic_sets_per_host_max=64))
    for host in range(600):
        for number in range(64 if host < 8 else 4):
            register(state, f"set-{host}-{number}", f"2001:db8:{host:x}::/64", connection_id=host)
    register(state, "real", OPERATOR)
    assert 512 + 600 < len(sets_of(state)) < 512 + 2 * 600
    assert "real" in sets_of(state)


def test_a_set_that_has_the_topic_keeps_it_when_the_limit_falls(state):
    for number in range(3):
        register(state, f"set-{number}")
    state.configure(NameServerConfig(topic_sets_per_host_max=1))
    register(state, "set-2", data_version=DataVersion(counter=2))
    assert sets_of(state) == ["set-0", "set-1", "set-2"]


def test_a_set_whose_broker_registers_over_another_network_stays_with_its_host(state):
    register(state, "real", OPERATOR)
    register(state, "real", STRANGER)
    assert state.tables.brokers.of_network(OPERATOR) == {"real"}


def test_a_topic_that_was_left_out_comes_once_there_is_a_place(state):
    for number in range(4):
        register(state, f"set-{number}", connection_id=number)
    run = state.connection_loss_steps(0, 1)
    while next(run, "end") != "end":
        pass
    register(state, "set-3", connection_id=3)
    assert sets_of(state) == ["set-1", "set-2", "set-3"]


def test_members_of_others_sets_count_for_the_host_that_registered_them(state):
    register(state, "real", OPERATOR)
    for number in range(1, 31):
        register(
            state, "real", broker_id=number, address=f"{number}{'a' * 240}:9", filter_servers=(f"{'f' * 240}:9",) * 4
        )
    register(state, "late", OPERATOR)
    route = state.route_of("Orders", None)
    assert sets_of(state) == ["real", "late"]
    assert 0 in route.broker_datas[0].broker_addrs
    assert 20 < len(route.broker_datas[0].broker_addrs) < 32
    assert len(encode(route, Dialect.STANDARD)) < fitting.ROUTE_HOST_BYTES_MIN + 1000


def test_sets_that_map_a_topic_which_they_do_not_have_add_nothing_to_its_route(state):
    register(state, "real", OPERATOR, mappings={"Orders": a_mapping(broker_name="real", topic="Orders")})
    long = {number: number for number in range(4000)}
    for number in range(3):
        mapping = a_mapping(broker_name=f"set-{number}", topic="Orders", curr_id_map=long)
        register(state, f"set-{number}", topics=topic_configs("a", "b"), mappings={"Orders": mapping})
    assert set(state.route_of("Orders", None).topic_queue_mapping_by_broker) == {"real"}


def test_where_all_hosts_together_are_too_long_those_with_most_have_less(state, monkeypatch):
    monkeypatch.setattr(fitting, "ANSWER_BYTES_MAX", 20_000)
    for host in range(4):
        for number in range(host + 1):
            register(state, f"set-{host}-{number}", f"10.0.0.{host}")
    for number in range(1, 31):
        register(state, "set-0-0", "10.6.6.6", broker_id=number, address=f"{number}{'a' * 240}:9")
    assert set(sets_of(state)) == {f"set-{host}-{number}" for host in range(4) for number in range(min(3, host + 1))}
    assert len(encode(state.route_of("Orders", None), Dialect.STANDARD)) < 20_000


def test_filter_servers_of_a_broker_have_a_sum():
    servers = [f"{number}{'f' * 240}:9" for number in range(9)]
    assert AcceptedTopics().body(DataVersion(), servers).filter_servers == tuple(servers[:4])


def test_mappings_as_long_as_may_be_do_not_make_a_route_take_long():
    state, long = RouteState(NameServerConfig()), {number: number for number in range(4000)}
    for number in range(1600):
        name, host = f"set-{number}", f"10.0.0.{number // 400}"
        mapping = a_mapping(broker_name=name, topic="Orders", curr_id_map=long)
        register(state, name, host, connection_id=number, mappings={"Orders": mapping})
    took_ms = []
    for _ in range(3):
        began = time.process_time()
        assert sets_of(state)
        took_ms.append(1000 * (time.process_time() - began))
    assert min(took_ms) < 60
