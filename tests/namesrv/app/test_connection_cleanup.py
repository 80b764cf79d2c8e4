"""Which of many lost connections has its brokers removed first."""

import pytest
from builders import a_registration, topic_configs
from fakes.background import background_tasks
from fakes.clock import FakeClock
from route_states import register_broker

from namesrv.app.service import ConnectionCleanup
from namesrv.core.route_state import GUARANTEED_PER_CONNECTION, RouteState
from namesrv.core.values.cooperative import BATCH_TOPICS
from namesrv.settings.config import NameServerConfig
from namesrv.wire.cooperative_runner import CooperativeRunner

REAL = 99


@pytest.fixture
def state():
    return RouteState(NameServerConfig())


def register(state, connection_id, count, topics=()):
    for number in range(count):
        name = f"broker-{connection_id}-{number}"
        register_broker(
            state,
            a_registration(
                broker_name=name, connection_id=connection_id, topics=topic_configs(name, "shared", *topics)
            ),
            now_ms=0,
        )


async def left_at_the_end_of_each(state, *lost):
    """Return how many brokers were left whenever all of one connection had been removed."""
    left = {}

    def perform(outcome):
        _, connection_id, _ = outcome.events[0].broker_name.split("-")
        left[int(connection_id)] = len(state.tables.live)

    async with background_tasks() as tasks:
        cleanup = ConnectionCleanup(state, FakeClock(), CooperativeRunner(), perform, tasks)
        for connection_id in lost:
            cleanup.put(connection_id)
    return left


async def test_single_broker_is_removed_before_connections_with_many_brokers(state):
    many = range(1, 21)
    for connection_id in many:
        register(state, connection_id, 200)
    register(state, REAL, 1)
    left = await left_at_the_end_of_each(state, *many, REAL)
    assert left[REAL] > 19 * 200
    assert len(state.tables.live) == 0


async def test_single_broker_is_removed_before_one_with_very_many_topics(state):
    register(state, 1, 1, [f"topic-{number}" for number in range(10 * BATCH_TOPICS)])
    register(state, REAL, 1)
    assert await left_at_the_end_of_each(state, 1, REAL) == {REAL: 1, 1: 0}


async def test_connections_within_the_limit_of_brokers_are_removed_in_order(state):
    for connection_id in (1, 2, REAL):
        register(state, connection_id, GUARANTEED_PER_CONNECTION)
    assert list(await left_at_the_end_of_each(state, 1, 2, REAL)) == [1, 2, REAL]


async def test_connection_without_brokers_removes_nothing(state):
    register(state, 1, 1)
    assert await left_at_the_end_of_each(state, 2) == {}


async def test_stopped_cleanup_removes_no_broker(state):
    register(state, 1, 1)
    async with background_tasks() as tasks:
        cleanup = ConnectionCleanup(state, FakeClock(), CooperativeRunner(), None, tasks)
        cleanup.stop()
        cleanup.put(1)
    assert len(state.tables.live) == 1
