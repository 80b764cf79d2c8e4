"""How many brokers one connection, and all together, may register."""

import pytest
from builders import a_registration
from route_states import lose_connection, register_broker

from namesrv.core.route_state import GUARANTEED_PER_CONNECTION, RouteState
from namesrv.core.tables.change import RouteTables
from namesrv.core.tables.live_table import LiveTable
from namesrv.core.values.cooperative import run_to_completion
from namesrv.refusals import TooManyBrokers
from namesrv.settings.config import NameServerConfig


@pytest.fixture
def state():
    return RouteState(NameServerConfig(brokers_max=40, brokers_per_connection_max=20))


def register(state, connection_id, *numbers):
    """Register the brokers of these numbers over a connection; return how many are taken."""
    taken = 0
    for number in numbers:
        try:
            register_broker(
                state, a_registration(broker_name=f"broker-{number}", connection_id=connection_id), now_ms=0
            )
        except TooManyBrokers:
            continue
        taken += 1
    return taken


def test_a_connection_has_a_limit_which_no_other_feels(state):
    assert register(state, 1, *range(30)) == 20
    assert register(state, 2, *range(100, 110)) == 10


def test_what_is_refused_changes_nothing(state):
    register(state, 1, *range(20))
    with pytest.raises(TooManyBrokers, match="brokersPerConnectionMax"):
        register_broker(state, a_registration(broker_name="one-more", connection_id=1), now_ms=0)
    assert state.tables.brokers.get("one-more") is None
    assert len(state.tables.live) == 20


def test_registered_broker_registers_again_at_the_limit(state):
    register(state, 1, *range(30))
    state.configure(NameServerConfig(brokers_max=1, brokers_per_connection_max=1))
    assert register(state, 1, *range(20)) == 20


def test_beyond_the_limit_of_all_each_connection_has_some(state):
    assert register(state, 1, *range(20)) + register(state, 2, *range(20, 40)) == 40
    assert register(state, 3, *range(100, 120)) == GUARANTEED_PER_CONNECTION
    assert register(state, 4, *range(200, 203)) == 3
    with pytest.raises(TooManyBrokers, match="there are 51 brokers, and the limit is 40"):
        register_broker(state, a_registration(broker_name="one-more", connection_id=3), now_ms=0)


def test_departure_makes_room_for_another_broker(state):
    register(state, 1, *range(30))
    lose_connection(state, 1, now_ms=1)
    assert register(state, 2, *range(30)) == 20


def test_brokers_that_are_handed_from_connection_to_connection_make_no_room_without_end(state):
    register(state, 1, *range(20))
    register(state, 2, *range(20, 40))
    for generation in range(10):
        names = range(1000 * generation + 1000, 1000 * generation + 1020)
        for connection_id in range(10, 15):
            register(state, connection_id, *names)
    assert len(state.tables.live) <= 40 + 5 * GUARANTEED_PER_CONNECTION


def test_two_concurrent_registrations_do_not_exceed_the_limit_of_a_connection(state):
    register(state, 1, *range(19))
    resting = [
        state.registration_steps(a_registration(broker_name=name, connection_id=1), lambda: 0, lambda: False)
        for name in ("one", "two")
    ]
    for steps in resting:
        next(steps)
    first, second = resting
    run_to_completion(first)
    with pytest.raises(TooManyBrokers):
        run_to_completion(second)
    assert len(state.tables.live) == 20


class CountedTable(LiveTable):
    """Counts how often a member's row is looked up."""

    looks = 0

    def get(self, key):
        self.looks += 1
        return super().get(key)


@pytest.mark.parametrize("stay", [False, True], ids=["which leave", "which stay with another connection"])
def test_connection_loss_costs_a_few_lookups_per_broker(stay):
    count = 200
    state = RouteState(NameServerConfig(), RouteTables(live=CountedTable()))
    register(state, 1, *range(count))
    if stay:
        register(state, 2, *range(count))
    before = state.tables.live.looks
    lose_connection(state, 2 if stay else 1, now_ms=1)
    assert len(state.tables.live) == (count if stay else 0)
    assert state.tables.live.looks - before < 20 * count
