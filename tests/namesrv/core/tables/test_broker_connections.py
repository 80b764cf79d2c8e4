"""A broker lives as long as one of the connections over which it registers; one it no longer uses does not count."""

import pytest
from builders import BROKER, CLUSTER, a_live_key, a_registration
from route_states import expire, lose_connection, register_broker

from namesrv.core.route_state import RouteState
from namesrv.core.values.effects import BrokerRemoved, DepartureReason, HeartbeatKind, ProbeConnection, RouteOutcome
from namesrv.settings.config import NameServerConfig

MASTER = a_live_key()


def only_probed(*connection_ids):
    """Return the outcome of what removes nobody, and asks whether these connections have another end."""
    return RouteOutcome(reply=None, effects=tuple(map(ProbeConnection, connection_ids)))


@pytest.fixture
def state():
    return RouteState(NameServerConfig())


def register(state, connection_id, now_ms):
    return register_broker(state, a_registration(connection_id=connection_id), now_ms)


def register_each(state, connection_ids, *, period_ms, from_ms, to_ms):
    """Register over all the connections at the same times; return the last of them."""
    for now_ms in range(from_ms, to_ms + 1, period_ms):
        for connection_id in connection_ids:
            register(state, connection_id, now_ms)
    return now_ms


def removed(outcome):
    return [(event.broker_name, event.reason) for event in outcome.events if isinstance(event, BrokerRemoved)]


LOST = [(BROKER, DepartureReason.CHANNEL_CLOSED)]


def test_a_dead_broker_leaves_though_a_half_open_connection_of_its_former_process_is_remembered(state):
    register_each(state, [1], period_ms=30_000, from_ms=0, to_ms=60_000)
    # The machine lost its power; the new process registers over a connection of its own and ends a minute later.
    register_each(state, [2], period_ms=30_000, from_ms=90_000, to_ms=150_000)
    assert removed(lose_connection(state, 2, now_ms=151_000)) == LOST
    assert state.tables.brokers.get(BROKER) is None


def probed(outcome):
    return [effect.connection_id for effect in outcome.effects if isinstance(effect, ProbeConnection)]


def test_older_connections_are_probed_when_a_broker_uses_a_new_one(state):
    assert probed(register(state, 1, now_ms=0)) == []
    assert probed(register(state, 1, now_ms=10_000)) == []
    assert probed(register(state, 2, now_ms=11_000)) == [1]
    assert probed(register(state, 3, now_ms=12_000)) == [1, 2]


def test_broker_that_alternates_between_known_connections_is_not_probed(state):
    register_each(state, [1, 2], period_ms=30_000, from_ms=0, to_ms=0)
    assert probed(register(state, 1, now_ms=30_000)) == []
    assert probed(register(state, 2, now_ms=30_001)) == []


def test_remaining_connections_are_probed_only_when_the_latest_is_lost(state):
    register_each(state, [1, 2, 3], period_ms=30_000, from_ms=0, to_ms=0)
    assert probed(lose_connection(state, 1, now_ms=1_000)) == []
    assert probed(lose_connection(state, 3, now_ms=1_000)) == [2]
    assert removed(lose_connection(state, 2, now_ms=1_001)) == LOST


def test_a_process_that_ends_right_after_its_start_leaves_in_time_though_something_answers_for_the_one_before(state):
    """A proxy does. It could be a second name for this server, too, under which the broker lives."""
    register_each(state, [1], period_ms=30_000, from_ms=0, to_ms=60_000)
    register(state, 2, now_ms=80_000)
    assert lose_connection(state, 2, now_ms=81_000) == only_probed(1)
    assert removed(expire(state, now_ms=105_000)) == []
    assert removed(expire(state, now_ms=105_001)) == LOST


@pytest.mark.parametrize("period_ms", [10_000, 30_000, 60_000])
def test_a_broker_with_two_names_for_this_server_stays_with_either_whatever_its_period(state, period_ms):
    last_ms = register_each(state, [1, 2], period_ms=period_ms, from_ms=0, to_ms=10 * period_ms)
    lost_ms = last_ms + period_ms - 1
    assert lose_connection(state, 2, now_ms=lost_ms) == only_probed(1)
    assert removed(expire(state, now_ms=lost_ms)) == []
    register(state, 1, now_ms=lost_ms + 1)
    assert removed(expire(state, now_ms=lost_ms + 1 + 120_000)) == []
    assert removed(lose_connection(state, 1, now_ms=lost_ms + 2 + 120_000)) == LOST


def test_the_other_name_is_waited_for_one_and_a_half_periods_and_no_longer(state):
    last_ms = register_each(state, [1, 2], period_ms=10_000, from_ms=0, to_ms=200_000)
    assert lose_connection(state, 2, now_ms=last_ms) == only_probed(1)
    assert removed(expire(state, now_ms=last_ms + 15_000)) == []
    assert removed(expire(state, now_ms=last_ms + 15_001)) == LOST


def test_changes_of_topics_do_not_pass_for_a_short_period(state):
    """Each changed topic is a registration; between two periods there can be very many."""
    register_each(state, [1, 2], period_ms=30_000, from_ms=0, to_ms=300_000)
    register_each(state, [1, 2], period_ms=10, from_ms=300_010, to_ms=301_000)
    assert lose_connection(state, 2, now_ms=329_000) == only_probed(1)
    assert removed(expire(state, now_ms=330_000)) == []


def test_a_broker_that_only_compares_versions_keeps_its_connections(state):
    """With forceRegister=false it registers when its topics change, and sends a 322 at each period."""
    register_each(state, [1, 2], period_ms=1, from_ms=0, to_ms=0)
    for now_ms in range(30_000, 300_001, 30_000):
        for connection_id in (1, 2):
            state.query_data_version(CLUSTER, MASTER, connection_id, now_ms)
    assert lose_connection(state, 2, now_ms=301_000) == only_probed(1)
    assert removed(expire(state, now_ms=344_999)) == []


def test_version_query_over_foreign_connection_does_not_become_a_connection_of_the_broker(state):
    register(state, 1, now_ms=0)
    state.query_data_version(CLUSTER, MASTER, 9, now_ms=1_000)
    assert state.tables.live.get(MASTER).connections == (1,)
    assert removed(lose_connection(state, 1, now_ms=2_000)) == LOST


def test_heartbeat_during_grace_period_ends_it(state):
    last_ms = register_each(state, [1, 2], period_ms=10_000, from_ms=0, to_ms=200_000)
    lose_connection(state, 2, now_ms=last_ms)
    state.heartbeat(CLUSTER, MASTER, HeartbeatKind.HEARTBEAT, last_ms + 10_000)
    assert removed(expire(state, now_ms=last_ms + 15_001)) == []
    (timed_out,) = removed(expire(state, now_ms=last_ms + 130_001))
    assert timed_out == (BROKER, DepartureReason.TIMEOUT)


def test_a_broker_is_known_to_register_each_minute_whatever_topics_its_registrations_carry(state):
    register_each(state, [1, 2], period_ms=60_000, from_ms=0, to_ms=120_000)
    # As long as it is known for that period its older connection stands for it.
    assert removed(lose_connection(state, 2, now_ms=205_000)) == []
    assert state.tables.live.get(MASTER).grace_ends_ms == 120_000 + 90_000


def test_a_broker_that_lost_its_latest_connection_is_known_by_when_it_registered_over_the_other(state):
    register(state, 1, now_ms=0)
    register(state, 2, now_ms=20_000)
    assert removed(lose_connection(state, 2, now_ms=21_000)) == []
    # A minute after the registration over this connection, and 40 s after the one over the other.
    register(state, 1, now_ms=60_000)
    register(state, 2, now_ms=60_500)
    assert removed(lose_connection(state, 2, now_ms=61_000)) == []
    assert state.tables.live.get(MASTER).grace_ends_ms == 60_000 + 90_000
