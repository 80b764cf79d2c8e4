"""Watching routes and brokers over HTTP: real connections to a NameServer's state."""

import asyncio
import contextlib
import itertools
import json
import socket

import pytest
from builders import CLUSTER, TOPIC, topic_configs
from clusters import register
from fakes.event_reader import EventReader
from fakes.site import Site
from route_states import expire, lose_connection

from namesrv.core.values.effects import DepartureReason
from namesrv.http import watch_streams
from namesrv.settings.config import NameServerConfig
from serving.http import event_stream
from serving.metrics.health import Serving

WATCH = f"/v1/routes/watch?topic={TOPIC}"
CLUSTER_WATCH = "/v1/cluster/watch"


@contextlib.asynccontextmanager
async def serving(config=None):
    async with Site(config) as site:
        site.health.serving = Serving.READY
        watches = site.watches
        tasks = [
            asyncio.create_task(watches.routes.publish_route_changes()),
            asyncio.create_task(watches.cluster.publish_cluster_changes()),
        ]
        yield site
        watches.close()
        for task in tasks:
            task.cancel()


@pytest.fixture
async def site():
    async with serving() as site:
        yield site


async def route_of(site, topic=TOPIC):
    status, body = await site.get(f"/v1/topics/{topic}/route")
    return body if status == 200 else None


async def until(holds):
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.005)


def metric(text, name):
    return next(line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name))


async def test_watcher_gets_the_present_route_and_every_change_as_the_route_view_has_it(site):
    register(site.state, "broker-a")
    async with EventReader.open(site.url, WATCH) as events:
        first = await events.next()
        assert (first.name, first.data["topic"], first.data["changedUnixMs"]) == ("route", TOPIC, None)
        assert first.data["route"] == await route_of(site)
        assert first.id == first.data["id"]

        register(site.state, "broker-b", connection_id=2)
        second = await events.next()
        assert second.data["route"] == await route_of(site)
        assert second.data["changedUnixMs"] == site.clock.unix_ms()
        assert {data["brokerName"] for data in second.data["route"]["brokerDatas"]} == {"broker-a", "broker-b"}

        lose_connection(site.state, 2, 0)
        assert (await events.next()).data["route"] == first.data["route"]


async def test_topic_that_no_broker_has_is_watched_until_it_comes_and_after_it_went(site):
    async with EventReader.open(site.url, "/v1/routes/watch?topic=New") as events:
        assert (await events.next()).data["route"] is None
        register(site.state, "broker-a", topics=topic_configs("New", "Old"))
        assert (await events.next()).data["route"] == await route_of(site, "New")
        site.state.delete_topic("New", None)
        assert (await events.next()).data["route"] is None


async def test_heartbeat_and_registration_without_a_change_are_no_events(site):
    register(site.state, "broker-a")
    async with EventReader.open(site.url, WATCH) as events:
        await events.next()
        register(site.state, "broker-a")
        register(site.state, "broker-b", topics=topic_configs("Other", "Third"), connection_id=2)
        assert await events.nothing_comes()


async def test_changes_of_permissions_and_acting_masters_are_events(site):
    register(site.state, "broker-a", enable_acting_master=True)
    register(site.state, "broker-a", 1, connection_id=2, enable_acting_master=True)
    async with EventReader.open(site.url, WATCH) as events:
        await events.next()
        site.state.wipe_write_perm("broker-a")
        assert (await events.next()).data["route"]["queueDatas"][0]["perm"] == 4
        site.state.configure(NameServerConfig(support_acting_master=True))
        lose_connection(site.state, 1, 0)
        assert (await events.next()).data["route"] == await route_of(site)


async def test_several_topics_share_a_stream_and_the_last_present_route_has_the_id(site):
    register(site.state, "broker-a", topics=topic_configs("A", "B"))
    async with EventReader.open(site.url, "/v1/routes/watch?topic=A&topic=B&topic=A") as events:
        first, second = await events.some(2)
        assert [(each.data["topic"], each.id is None) for each in (first, second)] == [("A", True), ("B", False)]
        assert first.data["id"] is None


async def test_cut_watcher_goes_on_where_it_was_and_misses_nothing(site):
    register(site.state, "broker-a")
    async with EventReader.open(site.url, WATCH) as events:
        last_id = (await events.next()).id
    routes = []
    for number, name in enumerate(("broker-b", "broker-c"), 2):
        register(site.state, name, connection_id=number)
        await asyncio.sleep(0.05)
        routes.append(await route_of(site))
    async with EventReader.open(site.url, WATCH, last_id) as events:
        assert [each.data["route"] for each in await events.some(2)] == routes
        assert await events.nothing_comes()
    async with EventReader.open(site.url, f"{WATCH}&after={events.last_id}") as events:
        assert await events.nothing_comes()


async def test_id_of_another_server_gives_a_gap_and_the_present_route(site):
    register(site.state, "broker-a")
    async with serving() as former, EventReader.open(former.url, WATCH) as events:
        foreign = (await events.next()).id
    async with EventReader.open(site.url, WATCH, foreign) as events:
        gap, present = await events.some(2)
        assert (gap.name, gap.data, gap.id) == ("gap", {"reason": "unknown_id", "topics": [TOPIC]}, None)
        assert present.data["route"] == await route_of(site)
        assert present.id.partition("-")[0] != foreign.partition("-")[0]


async def test_id_whose_changes_are_discarded_gives_a_gap():
    async with serving(NameServerConfig(route_watch_changes_max=1)) as site:
        async with EventReader.open(site.url, WATCH) as events:
            last_id = (await events.next()).id
        for number in range(1, 4):
            register(site.state, f"broker-{number}", connection_id=number)
            await asyncio.sleep(0.05)
        async with EventReader.open(site.url, WATCH, last_id) as events:
            gap, present = await events.some(2)
            assert (gap.name, gap.data["reason"]) == ("gap", "too_old")
            assert present.data["route"] == await route_of(site)


@pytest.mark.parametrize("bad", ["x", "-1", "abc-", "abc-1x", "a b-1", "abc-" + "1" * 30, "²-1"])
async def test_id_that_no_server_sent_is_refused(site, bad):
    status, body = await site.get(WATCH, headers={"Last-Event-ID": bad.encode().decode("latin-1")})
    assert (status, body["error"]["code"]) == (400, "bad_request")


@pytest.mark.parametrize(
    "query", ["", "?topic=", "?topic=" + "x" * 1025, "?name=a", f"?topic={TOPIC}&after=1-1&after=2"]
)
async def test_query_without_topics_or_with_impossible_ones_is_refused(site, query):
    status, body = await site.get(f"/v1/routes/watch{query}")
    assert (status, body["error"]["code"]) == (400, "bad_request")
    assert body["error"]["message"].endswith(".")


async def test_topics_of_a_watcher_have_a_limit():
    async with serving(NameServerConfig(route_watch_topics_max=2)) as site:
        status, body = await site.get("/v1/routes/watch?topic=a&topic=b&topic=c")
        assert status == 400
        assert "routeWatchTopicsMax" in body["error"]["message"]


async def test_watchers_have_a_limit_and_a_place_is_free_once_one_leaves():
    async with serving(NameServerConfig(route_watchers_max=1)) as site:
        async with EventReader.open(site.url, WATCH) as events:
            await events.next()
            for path in (WATCH, CLUSTER_WATCH):
                status, headers, body = await site.request("GET", path)
                assert (status, headers["Retry-After"]) == (503, str(watch_streams.FULL_RETRY_S))
                assert "routeWatchersMax" in body["error"]["message"]
            assert (await site.get("/healthz"))[0] == 200
        await until(lambda: not site.watches.routes.counts.watchers)
        async with EventReader.open(site.url, WATCH) as events:
            await events.next()
        text = (await site.get("/metrics"))[1]
    assert metric(text, 'rocketmq_namesrv_watchers_dropped_total{reason="refused",watch="routes"}') == "1.0"
    assert any(line["event"] == "watcher_refused" for line in site.lines.decoded())


async def test_watcher_is_refused_until_the_server_is_ready_and_once_it_stops(site):
    site.health.serving = Serving.DRAINING
    assert (await site.get(WATCH))[0] == 503
    site.health.serving = Serving.READY
    site.watches.close()
    assert (await site.get(WATCH))[0] == 503


async def test_stream_ends_in_order_when_the_server_stops(site):
    async with EventReader.open(site.url, WATCH) as events:
        await events.next()
        site.watches.close()
        closing = await events.next()
        assert (closing.name, closing.retry_ms, closing.id) == ("closing", 1000, None)
        assert await events.next() is None


async def test_comment_comes_while_nothing_changes(site, monkeypatch):
    monkeypatch.setattr(watch_streams, "HEARTBEAT_S", 0.05)
    async with EventReader.open(site.url, WATCH) as events:
        await events.next()
        assert await events.nothing_comes(0.5)
        assert events.comments >= 2


async def test_stream_passes_proxies_unbuffered_and_is_stored_nowhere(site):
    for method in ("GET", "HEAD"):
        status, headers, _ = await site.request(method, WATCH)
        assert (status, headers["Content-Type"]) == (200, "text/event-stream")
        assert (headers["Cache-Control"], headers["X-Accel-Buffering"]) == ("no-store", "no")
    await until(lambda: not site.watches.routes.counts.watchers)


@contextlib.contextmanager
def lazy_client(site):
    """A watcher of a long route that reads nothing, with little room for what it does not read."""
    for number in range(100):
        register(site.state, f"broker-{number}", connection_id=number + 1)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", site.server.port))
        client.sendall(f"GET {WATCH} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        client.setblocking(False)
        yield client


def change(site, number):
    register(site.state, "broker-7", topics=topic_configs(TOPIC, read_queue_nums=number), connection_id=8)


async def test_slow_reader_gets_a_gap_and_the_last_route_and_holds_up_nobody():
    async with serving(NameServerConfig(route_watch_changes_max=8)) as site:
        with lazy_client(site) as slow:
            counts, loop = site.watches.routes.counts, asyncio.get_running_loop()
            await until(lambda: counts.watchers)
            async with EventReader.open(site.url, WATCH) as quick:
                await quick.next()
                for number in range(17, 500):
                    change(site, number)
                    assert f'"readQueueNums":{number},' in json.dumps((await quick.next()).data, separators=(",", ":"))
            received = b""
            async with asyncio.timeout(20):
                while not received.rpartition(b"event: gap")[2].partition(b"\n\n")[2].endswith(b"\n\n\r\n"):
                    received += await loop.sock_recv(slow, 65536)
            assert b'"reason":"slow_reader"' in received
            assert b'"readQueueNums":499,' in received.rpartition(b"event: gap")[2]
            assert counts.events < 2 * 480


async def test_reader_that_reads_nothing_is_disconnected(site, monkeypatch):
    monkeypatch.setattr(event_stream, "STALL_S", 0.2)
    counts = site.watches.routes.counts
    with lazy_client(site):
        await until(lambda: counts.watchers)
        async with asyncio.timeout(30):
            for number in itertools.count(17):
                change(site, number)
                await asyncio.sleep(0.001)
                if not counts.watchers:
                    break
    assert counts.stalled == 1
    assert any(line["event"] == "watcher_stalled" for line in site.lines.decoded())


async def test_metrics_count_watchers_events_and_gaps(site):
    async with EventReader.open(site.url, WATCH, "abc-1") as events:
        await events.some(2)
        text = (await site.get("/metrics"))[1]
    assert metric(text, 'rocketmq_namesrv_watchers{watch="routes"}') == "1.0"
    assert metric(text, "rocketmq_namesrv_watch_topics") == "1.0"
    assert metric(text, 'rocketmq_namesrv_watch_events_total{watch="routes"}') == "2.0"
    assert metric(text, 'rocketmq_namesrv_watch_gaps_total{reason="unknown_id",watch="routes"}') == "1.0"


# Brokers


def record(site, outcome):
    site.record(outcome)
    site.watches.cluster.record(outcome.events)
    return outcome


async def test_cluster_watcher_gets_registrations_departures_and_new_masters(site):
    record(site, register(site.state, "broker-a", connection_id=1))
    async with EventReader.open(site.url, CLUSTER_WATCH) as events:
        start = await events.next()
        assert (start.name, start.data) == ("cluster", {"brokers": 1, "brokerSets": 1, "id": start.id})
        record(site, register(site.state, "broker-a", 1, connection_id=2, heartbeat_timeout_ms=10_000))
        slave = (await events.next()).data
        assert (slave["change"], slave["cluster"], slave["brokerName"], slave["brokerId"]) == (
            "registered",
            CLUSTER,
            "broker-a",
            1,
        )
        assert slave["brokerSet"]["brokerAddrs"] == {"0": "broker-a-0:10911", "1": "broker-a-1:10911"}
        record(site, expire(site.state, 10_001))
        expired = await events.next()
        assert expired.data["change"] == DepartureReason.TIMEOUT.value
        record(site, lose_connection(site.state, 1, 20_000))
        assert (await events.next()).data["brokerSet"] is None
    record(site, register(site.state, "broker-a", connection_id=3))
    async with EventReader.open(site.url, CLUSTER_WATCH, expired.id) as events:
        names = [(each.name, each.data["change"]) for each in await events.some(3)]
        assert names == [("broker", "channel_closed"), ("broker", "registered"), ("broker", "masterChanged")]


async def test_cluster_watcher_of_another_server_gets_a_gap(site):
    async with EventReader.open(site.url, CLUSTER_WATCH, "abc-7") as events:
        assert [(each.name, "reason" in each.data) for each in await events.some(2)] == [
            ("gap", True),
            ("cluster", False),
        ]
