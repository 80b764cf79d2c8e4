"""Broker sets that left, as a NameServer remembers them over its restarts."""

import json

import pytest
from builders import BROKER, CLUSTER, an_address
from clusters import register
from fakes.clock import FakeClock
from route_states import lose_connection, unregister_broker

from namesrv.app.away_set_store import AwaySetStore
from namesrv.core.route_state import RouteState
from namesrv.core.tables.away_sets import REGISTERED_MS_MIN, STARTING_MS
from namesrv.core.tables.live_table import LiveKey
from namesrv.settings.config import NameServerConfig

HOUR_MS = 3_600_000


class Server:
    """The state of a NameServer with its store, over a file that outlives it."""

    def __init__(self, path, clock):
        self.path, self.clock = path, clock
        self.failures = []
        self.restart()

    def restart(self):
        self.state = RouteState(NameServerConfig())
        self.store = AwaySetStore(str(self.path), self.state, self.clock, self)
        self.store.restore()

    def note(self, outcome):
        self.store.record(outcome.events)

    def register(self, *broker, **values):
        self.note(register(self.state, *broker, **values))

    def away(self):
        return [(away.broker_name, away.away_since_unix_ms, away.was_unregistered) for away in self.settled().away()]

    def settled(self):
        self.state.away_sets.settle(self.clock.unix_ms())
        return self.state.away_sets

    def written_in_place(self, path):
        raise AssertionError(path)

    def write(self, event, error):
        assert event.name == "broker_set_store_failed"
        self.failures.append(error)


@pytest.fixture
def server(tmp_path):
    return Server(tmp_path / "kv.brokerSets", FakeClock())


async def test_away_sets_outlive_a_restart_with_what_is_known_of_them(server):
    server.register("broker-a")
    server.register("broker-b", connection_id=2)
    server.clock.pass_ms(REGISTERED_MS_MIN)
    left = server.clock.unix_ms()
    server.note(lose_connection(server.state, 1, 0))
    key = LiveKey("broker-b", an_address(broker_name="broker-b"))
    server.note(unregister_broker(server.state, CLUSTER, key, 2, 0))
    before = server.away()
    assert before == [("broker-a", left, False), ("broker-b", left, True)]
    await server.store.store()
    server.clock.pass_ms(HOUR_MS)
    server.restart()
    assert server.away() == before


async def test_set_that_does_not_come_back_after_a_crash_is_away_since_the_last_word_of_the_file(server):
    server.register("broker-a")
    server.register("broker-b", connection_id=2)
    server.clock.pass_ms(REGISTERED_MS_MIN)
    await server.store.store()
    word = server.clock.unix_ms()
    server.clock.pass_ms(HOUR_MS)
    server.restart()
    assert server.away() == [("broker-a", None, False), ("broker-b", None, False)]
    server.clock.pass_ms(STARTING_MS)
    assert server.away() == [("broker-a", word, False), ("broker-b", word, False)]
    server.register("broker-b")
    assert server.away() == [("broker-a", word, False)]


async def test_file_is_written_when_a_set_comes_or_leaves_and_now_and_then(server):
    minute_ms, ten_ms = 60_000, 600_000
    await server.store.store(ten_ms)
    assert not server.path.exists()

    async def written():
        server.path.unlink(missing_ok=True)
        await server.store.store(ten_ms)
        return server.path.exists()

    server.register("broker-a")
    assert await written()
    server.register("broker-a")
    server.clock.pass_ms(minute_ms)
    assert not await written()
    server.clock.pass_ms(ten_ms)
    assert await written()
    assert json.loads(server.path.read_text())["writtenUnixMs"] == server.clock.unix_ms()
    server.note(lose_connection(server.state, 1, 0))
    assert await written()


@pytest.mark.parametrize("content", [b"\xff", b"{}", b'{"writtenUnixMs":1,"sets":[{}]}'])
def test_damaged_file_is_reported_and_like_none(server, content):
    server.path.write_bytes(content)
    server.restart()
    assert server.failures[0].startswith(f"{server.path} holds no broker sets")
    assert server.away() == []


async def test_file_that_cannot_be_used_is_reported_once(server):
    server.path.mkdir()
    server.restart()
    server.register("broker-a")
    server.clock.pass_ms(REGISTERED_MS_MIN)
    await server.store.store()
    await server.store.store()
    assert len(server.failures) == len(set(server.failures)) == 2
    assert all(str(server.path) in failure for failure in server.failures)


def test_departure_that_is_told_late_makes_no_registered_set_away(server):
    server.register("broker-a")
    server.clock.pass_ms(REGISTERED_MS_MIN)
    left = lose_connection(server.state, 1, 0)
    server.register("broker-a", connection_id=2)
    server.note(left)
    assert (server.away(), BROKER in server.state.away_sets) == ([], False)
