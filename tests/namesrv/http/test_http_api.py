"""The HTTP server as its users see it: a real one, on a free port."""

import asyncio
import contextlib
import socket
import time

import aiohttp
import pytest
from builders import CLUSTER, TOPIC, a_broker_set, topic_configs
from clusters import register
from fakes.admin_token import ADMIN_TOKEN
from fakes.site import Site
from route_states import lose_connection
from server_paths import NAMESRV_ENDPOINTS

from namesrv.core.route_fetches import WatchedTopic, first_version
from namesrv.core.route_state import RouteState
from namesrv.http import views
from namesrv.settings.config import NameServerConfig
from namesrv.settings.kv_config import KvConfig
from remoting.protocol.shapes.route import DataVersion
from remoting.protocol.shapes.route_fetches import RouteFetch
from serving.http import connections, server
from serving.metrics.health import Serving


@pytest.fixture
async def site():
    async with Site() as site:
        yield site


@pytest.fixture
async def ready_site(site):
    site.health.serving = Serving.READY
    return site


# Probes


async def test_starting_server_is_live_and_not_ready(site):
    assert await site.get("/healthz") == (200, {"status": "ok"})
    assert await site.get("/livez") == (200, {"status": "ok"})
    status, body = await site.get("/readyz")
    assert (status, body["error"]) == (503, {"code": "unavailable", "message": "This NameServer is starting."})


async def test_draining_server_is_live_and_not_ready(site):
    site.health.serving = Serving.READY
    assert await site.get("/readyz") == (200, {"status": "ready"})
    site.health.serving = Serving.DRAINING
    assert (await site.get("/livez"))[0] == 200
    assert (await site.get("/readyz?verbose"))[0] == 503


# Views


async def test_clusters_are_listed_with_their_counts(site):
    register(site.state, "broker-a", connection_id=1)
    register(site.state, "broker-a", 1, connection_id=2)
    register(site.state, "broker-b", cluster="Zeta", connection_id=3)
    lose_connection(site.state, 1, 0)
    status, body = await site.get("/v1/clusters")
    assert (status, body["total"], body["nextCursor"]) == (200, 2, None)
    assert body["items"][0] == {
        "cluster": CLUSTER,
        "brokerSets": 1,
        "brokerSetsWithoutMaster": 1,
        "awayBrokerSets": 0,
        "masters": 0,
        "slaves": 1,
        "topics": {"normal": 1, "system": 1, "retry": 0, "dlq": 0},
        "readQueues": 32,
        "writeQueues": 32,
    }


def away_for_ever(site, *names, cluster="Gone"):
    """Have sets registered long enough to be remembered, and leave."""
    for name in names:
        for broker_set, unix_ms in ((a_broker_set(broker_name=name, cluster=cluster), 0), (None, 60_000)):
            site.state.away_sets.observe(name, broker_set, is_unregistered=False, unix_ms=unix_ms)


async def test_sets_that_are_away_are_listed_and_counted_until_they_are_forgotten(site):
    away_for_ever(site, "broker-c", "broker-b")
    status, first = await site.get("/v1/broker-sets/away?limit=1")
    assert (status, first["total"]) == (200, 2)
    assert first["items"] == [
        {
            "cluster": "Gone",
            "brokerName": "broker-b",
            "awaySinceUnixMs": 60_000,
            "wasUnregistered": False,
            "brokerAddrs": {"0": "broker-b-0:10911"},
        }
    ]
    _, second = await site.get(f"/v1/broker-sets/away?cursor={first['nextCursor']}")
    assert [each["brokerName"] for each in second["items"]] == ["broker-c"]
    (cluster,) = (await site.get("/v1/clusters"))[1]["items"]
    assert (cluster["cluster"], cluster["brokerSets"], cluster["awayBrokerSets"]) == ("Gone", 0, 2)
    status, body = await site.get("/v1/brokers/broker-b")
    assert (status, body["error"]["message"]) == (
        404,
        "No broker named broker-b is registered now: see /v1/broker-sets/away.",
    )

    status, body = await site.get("/v1/topics/Orders/route")
    unknown = "No registered broker has the topic Orders; sets that are away may have it, see /v1/broker-sets/away."
    assert (status, body["error"]["message"]) == (404, unknown)

    path = "/v1/broker-sets/away/broker-b"
    assert (await site.request("DELETE", path))[0] == 401
    admin = {"headers": {"Authorization": f"Bearer {ADMIN_TOKEN}"}}
    status, _, body = await site.request("DELETE", path, **admin)
    assert (status, body) == (200, {"brokerName": "broker-b"})
    assert (await site.request("DELETE", path, **admin))[0] == 404
    assert (await site.get("/v1/broker-sets/away"))[1]["total"] == 1
    assert site.lines.decoded()[-1]["event"] == "http_admin_request_accepted"


async def test_route_fetches_are_listed_in_pages_while_somebody_watches_the_topic(site):
    register(site.state, "broker-a")
    path = f"/v1/topics/{TOPIC}/route-fetches"
    status, body = await site.get(path)
    assert (status, body["error"]["code"]) == (404, "not_found")

    route = site.state.route_of(TOPIC, None)
    watched = WatchedTopic("id", first_version(route, site.clock.unix_ms()), site.clock.now_ms(), 60_000)
    site.state.route_fetches.begin(TOPIC, watched)
    for number in (1, 2, 3):
        fetch = RouteFetch(client_address=f"10.0.0.{number}:5", proxy_address=None, version=1, fetched_unix_ms=number)
        site.state.route_fetches.note(watched, number, fetch)
    register(site.state, "broker-b", now_ms=0, address="b:10911", connection_id=9)
    status, first = await site.get(f"{path}?limit=2")
    assert (status, first["total"], first["watchId"], first["endsInMs"]) == (200, 3, "id", 60_000)
    assert (first["isComplete"], first["present"]["number"]) == (True, 2)
    assert first["present"]["writeQueueNums"] == {"broker-a": 16, "broker-b": 16}
    _, second = await site.get(f"{path}?limit=2&cursor={first['nextCursor']}")
    addresses = [each["clientAddress"] for each in (*first["items"], *second["items"])]
    assert (addresses, second["nextCursor"]) == (["10.0.0.1:5", "10.0.0.2:5", "10.0.0.3:5"], None)

    site.clock.pass_ms(60_001)
    assert (await site.get(path))[0] == 404


async def test_broker_is_listed_with_age_timeout_release_and_version(site):
    register(
        site.state,
        "broker-a",
        1,
        now_ms=site.clock.now_ms(),
        zone_name="z1",
        enable_acting_master=True,
        heartbeat_timeout_ms=10_000,
        ha_server_addr="ha:10912",
        data_version=DataVersion(3, 2, 1),
    )
    site.clock.pass_ms(4_321)
    expected = {
        "cluster": CLUSTER,
        "brokerName": "broker-a",
        "brokerId": 1,
        "role": "slave",
        "actingMaster": True,
        "zoneName": "z1",
        "address": "broker-a-1:10911",
        "haServerAddress": "ha:10912",
        "lastHeartbeatAgeMs": 4_321,
        "heartbeatTimeoutMs": 10_000,
        "version": "5.5.0",
        "dataVersion": {"counter": 3, "stateVersion": 2, "timestamp": 1},
        "lacksTopics": False,
        "lostTopics": 0,
    }
    listing = {"total": 1, "nextCursor": None, "items": [expected]}
    assert await site.get("/v1/brokers") == (200, listing)
    assert await site.get("/v1/brokers/broker-a") == (
        200,
        {
            "brokerName": "broker-a",
            "cluster": CLUSTER,
            "state": "acting_master",
            "enableActingMaster": True,
            "zoneName": "z1",
            "topics": 2,
            "readQueues": 32,
            "writeQueues": 32,
            "lostTopics": None,
            "brokers": [expected],
        },
    )


async def test_brokers_are_paged_in_the_order_of_cluster_name_and_id(site):
    for name, broker_id in (("broker-b", 0), ("broker-a", 10), ("broker-a", 2)):
        register(site.state, name, broker_id)
    seen, query = [], {"limit": "2"}
    while True:
        _, body = await site.get("/v1/brokers", params=query)
        assert body["total"] == 3
        seen += [(item["brokerName"], item["brokerId"]) for item in body["items"]]
        if body["nextCursor"] is None:
            break
        query["cursor"] = body["nextCursor"]
    assert seen == [("broker-a", 2), ("broker-a", 10), ("broker-b", 0)]


async def test_topics_are_paged_and_found_by_prefix(site):
    register(site.state, "broker-a", topics=topic_configs("b", "a1", "a2", "%RETRY%g"))
    register(site.state, "broker-b", topics=topic_configs("a1", "a3"))
    _, body = await site.get("/v1/topics", params={"prefix": "a", "limit": "2"})
    assert body["total"] == 3
    assert body["items"] == [
        {"topic": "a1", "kind": "normal", "brokerSets": 2},
        {"topic": "a2", "kind": "normal", "brokerSets": 1},
    ]
    _, body = await site.get("/v1/topics", params={"prefix": "a", "cursor": body["nextCursor"]})
    assert [item["topic"] for item in body["items"]] == ["a3"]
    _, body = await site.get("/v1/topics")
    assert [item["kind"] for item in body["items"]] == ["retry", "normal", "normal", "normal", "normal"]


async def test_route_is_the_one_that_clients_get(site):
    register(site.state, "broker-a", topics=topic_configs("TopicTest", "%RETRY%group"))
    status, body = await site.get("/v1/topics/TopicTest/route")
    assert (status, body) == (
        200,
        {
            "brokerDatas": [
                {
                    "brokerAddrs": {"0": "broker-a-0:10911"},
                    "brokerName": "broker-a",
                    "cluster": CLUSTER,
                    "enableActingMaster": False,
                }
            ],
            "filterServerTable": {},
            "queueDatas": [
                {"brokerName": "broker-a", "perm": 6, "readQueueNums": 16, "topicSysFlag": 0, "writeQueueNums": 16}
            ],
        },
    )
    assert (await site.get("/v1/topics/%25RETRY%25group/route"))[0] == 200


async def test_route_has_the_order_configuration_if_the_option_is_on():
    async with Site(NameServerConfig(order_message_enable=True)) as site:
        site.settings.kv = KvConfig().with_value("ORDER_TOPIC_CONFIG", "TopicTest", "broker-a:4")
        register(site.state, "broker-a")
        _, body = await site.get("/v1/topics/TopicTest/route")
        assert body["orderTopicConf"] == "broker-a:4"


async def test_kv_is_read_by_namespace(site):
    site.settings.kv = KvConfig().with_value("ns", "b", "2").with_value("ns", "a", "1").with_value("empty", "x", None)
    _, body = await site.get("/v1/kv")
    assert body["items"] == [{"namespace": "empty", "entries": 0}, {"namespace": "ns", "entries": 2}]
    _, body = await site.get("/v1/kv/ns")
    assert body["items"] == [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]
    assert (await site.get("/v1/kv/empty"))[1]["total"] == 0


async def test_a_page_of_large_kv_entries_ends_early(site, monkeypatch):
    monkeypatch.setattr(views, "KV_PAGE_CHARS_MAX", 100)
    for key in "abc":
        site.settings.kv = site.settings.kv.with_value("ns", key, key * 49)
    site.settings.kv = site.settings.kv.with_value("ns", "d", "d" * 1000)
    seen, query = [], {}
    while True:
        _, body = await site.get("/v1/kv/ns", params=query)
        seen.append([item["key"] for item in body["items"]])
        if body["nextCursor"] is None:
            break
        query["cursor"] = body["nextCursor"]
    assert seen == [["a", "b"], ["c"], ["d"]]


async def test_configuration_is_listed_without_secrets():
    async with Site(NameServerConfig(tls_server_key_password="hunter2", listen_port=1234)) as site:
        _, body = await site.get("/v1/config")
    assert body["properties"]["listenPort"] == "1234"
    assert body["properties"]["tls.server.keyPassword"] == "******"


# What Java clients look up


async def test_nsaddr_is_the_configured_list():
    async with Site(NameServerConfig(namesrv_addr_list="ns1:9876;ns2:9876")) as site:
        site.health.serving = Serving.READY
        status, headers, body = await site.request("GET", "/rocketmq/nsaddr")
        assert (status, body, headers["Content-Type"]) == (200, "ns1:9876;ns2:9876", "text/plain; charset=utf-8")
        assert await site.get("/rocketmq/nsaddr-unit1?nofix=1") == (200, "ns1:9876;ns2:9876")


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("ns.example.com:8080", "ns.example.com:9876"),
        ("ns.example.com", "ns.example.com:9876"),
        ("10.1.2.3:9880", "10.1.2.3:9876"),
        ("[fe80::1]:9880", "[fe80::1]:9876"),
    ],
)
async def test_nsaddr_without_a_list_is_the_requested_host(ready_site, host, address):
    assert await ready_site.get("/rocketmq/nsaddr", headers={"Host": host}) == (200, address)


@pytest.mark.parametrize("host", ["a;evil:1", "a b", "", "a:b:c", "a/../b", "a" * 70000])
async def test_nsaddr_refuses_a_host_that_no_list_can_hold(ready_site, host):
    assert (await ready_site.get("/rocketmq/nsaddr", headers={"Host": host}))[0] == 400


@pytest.mark.parametrize(
    ("bound", "address"), [("10.9.8.7", "10.9.8.7:9876"), ("fe80::2", "[fe80::2]:9876"), ("::", "127.0.0.1:9876")]
)
async def test_nsaddr_is_the_bind_address_if_it_is_one_address(bound, address):
    async with Site(served_at=(bound, 9876)) as site:
        site.health.serving = Serving.READY
        assert await site.get("/rocketmq/nsaddr") == (200, address)


async def test_nsaddr_without_a_host_header_is_the_address_of_the_connection(ready_site):
    def http_get():
        with socket.create_connection(("127.0.0.1", ready_site.server.port), 5) as connection:
            connection.sendall(b"GET /rocketmq/nsaddr HTTP/1.0\r\n\r\n")
            answer = b""
            while part := connection.recv(4096):
                answer += part
        return answer

    assert (await asyncio.to_thread(http_get)).endswith(b"\r\n\r\n127.0.0.1:9876")


async def test_nsaddr_is_refused_while_draining(ready_site):
    ready_site.health.serving = Serving.DRAINING
    status, body = await ready_site.get("/rocketmq/nsaddr")
    assert (status, body["error"]["message"]) == (503, "This NameServer is draining.")


# Errors


@pytest.mark.parametrize(
    ("path", "status", "code", "sentence"),
    [
        ("/nope", 404, "not_found", "There is nothing at /nope; see /v1/openapi.json."),
        ("/v1/brokers/nope", 404, "not_found", "No broker named nope is registered."),
        ("/v1/topics/nope/route", 404, "not_found", "No registered broker has the topic nope."),
        ("/v1/kv/nope", 404, "not_found", "There is no KV namespace nope."),
        ("/v1/topics?limit=0", 400, "bad_request", "limit must be a whole number from 1 to 1000, not 0."),
        ("/v1/topics?limit=1001", 400, "bad_request", "limit must be a whole number from 1 to 1000, not 1001."),
        ("/v1/topics?limit=-1", 400, "bad_request", "limit must be a whole number from 1 to 1000, not -1."),
        ("/v1/topics?limit=%C2%B2", 400, "bad_request", "limit must be a whole number from 1 to 1000, not ²."),
        ("/v1/topics?limit=1&limit=2", 400, "bad_request", "The parameter limit is given more than once."),
        (
            "/v1/topics?cursor=x",
            400,
            "bad_request",
            "cursor must be the nextCursor of the previous page of the same list.",
        ),
        ("/v1/topics?page=2", 400, "bad_request", "/v1/topics has no parameter page; it takes prefix, limit, cursor."),
        ("/v1/config?a=1", 400, "bad_request", "/v1/config has no parameter a; it takes none."),
    ],
)
async def test_error_response_is_json_with_a_sentence(site, path, status, code, sentence):
    assert await site.get(path) == (status, {"error": {"code": code, "message": sentence}})


async def test_long_input_is_shortened_in_the_error(site):
    for path in ("/" + "x" * 5000, "/v1/topics?limit=" + "9" * 5000, "/v1/topics?" + "x" * 5000 + "=1"):
        _, body = await site.get(path)
        assert len(body["error"]["message"]) < 250


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_methods_that_change_are_refused(site, method):
    status, headers, body = await site.request(method, "/v1/kv/ns", data=b"x")
    assert (status, headers["Allow"], body["error"]["code"]) == (405, "GET, HEAD", "method_not_allowed")


async def test_head_has_the_headers_of_get(site):
    status, headers, body = await site.request("HEAD", "/healthz")
    assert (status, headers["Content-Length"], body) == (200, str(len('{"status":"ok"}')), "")


async def test_view_fault_is_logged_and_hidden_from_the_peer(site, monkeypatch):
    def fail(*_):
        raise KeyError("inner detail")

    monkeypatch.setattr(RouteState, "route_of", fail)
    status, body = await site.get("/v1/topics/t/route")
    assert (status, body["error"]["code"]) == (500, "internal")
    assert "inner" not in str(body)
    (line,) = site.lines.decoded()
    assert (line["event"], line["method"], line["path"]) == ("http_request_failed", "GET", "/v1/topics/t/route")
    assert line["peer"].startswith("127.0.0.1:")
    assert line["exception"][0]["exc_value"] == "'inner detail'"


async def test_responses_forbid_caching_and_sniffing(site):
    _, headers, _ = await site.request("GET", "/v1/clusters")
    assert headers["Content-Type"] == "application/json"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Server"] == "rmq-namesrv"
    assert "Access-Control-Allow-Origin" not in headers


# The server itself


async def test_requests_are_counted_by_path_template(site):
    await site.get("/v1/brokers/nope")
    await site.get("/v1/brokers/none")
    await site.get("/healthz")
    await site.get("/nowhere")
    await site.request("POST", "/healthz")
    counted = {labels: count for labels, count in site.counters.http_requests.counts().items() if count}
    assert counted == {
        ("GET", "/v1/brokers/{name}", "4xx"): 2,
        ("GET", "/healthz", "2xx"): 1,
        ("GET", "unmatched", "4xx"): 1,
        ("other", "unmatched", "4xx"): 1,
    }
    assert ("GET", "/v1/kv", "2xx") in site.counters.http_requests.counts()
    durations = site.counters.http_durations.histograms()
    assert sum(durations["GET", "/v1/brokers/{name}"].buckets) == 2


async def is_closed(reader):
    """Wait until the server has closed a connection; whatever it sent before is passed over."""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(5):
            while await reader.read(65536):
                pass
    return True


async def test_probe_is_answered_at_the_connection_limit_and_longest_idle_ones_are_closed(monkeypatch):
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 4)
    async with Site() as site:
        held = [await asyncio.open_connection("127.0.0.1", site.server.port) for _ in range(3)]
        answered = await asyncio.open_connection("127.0.0.1", site.server.port)
        answered[1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in await answered[0].readuntil(b"\r\n")
        for _ in range(3):
            async with aiohttp.ClientSession() as session:
                assert (await session.get(f"{site.url}/livez")).status == 200
        assert await is_closed(held[0][0])
        # Who has asked since stays.
        answered[1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"ok" in await asyncio.wait_for(answered[0].readuntil(b"ok"), 5)
        for _, writer in (*held, answered):
            writer.close()


async def test_busy_connections_are_closed_for_a_probe_only_if_none_is_idle(monkeypatch):
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 2)
    async with Site() as site:
        begun = asyncio.Queue()

        async def forever():
            begun.put_nowait(True)
            await asyncio.sleep(3600)

        monkeypatch.setattr(site.metrics, "text", forever)
        working = []
        for _ in range(2):
            working.append(await asyncio.open_connection("127.0.0.1", site.server.port))
            working[-1][1].write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            await begun.get()
        assert (await site.get("/livez"))[0] == 200
        assert await is_closed(working[0][0])
        reader = asyncio.create_task(working[1][0].read())
        await asyncio.sleep(0.05)
        assert not reader.done()
        reader.cancel()
        for _, writer in working:
            writer.close()


async def test_connection_without_a_first_request_is_closed_soon(monkeypatch):
    monkeypatch.setattr(connections, "FIRST_REQUEST_S", 0.1)
    async with Site() as site:
        silent = await asyncio.open_connection("127.0.0.1", site.server.port)
        begun = await asyncio.open_connection("127.0.0.1", site.server.port)
        begun[1].write(b"GET /healthz HTT")
        answered = await asyncio.open_connection("127.0.0.1", site.server.port)
        answered[1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await is_closed(silent[0])
        assert await is_closed(begun[0])
        answered[1].write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"ok" in await asyncio.wait_for(answered[0].readuntil(b"ok"), 5)
        for _, writer in (silent, begun, answered):
            writer.close()


async def test_client_that_reads_nothing_of_an_answer_is_closed_and_one_that_reads_slowly_gets_it_all(monkeypatch):
    monkeypatch.setattr(connections, "STALL_S", 0.3)
    answer = b"x" * 8_000_000
    async with Site() as site:

        async def text():
            return answer

        monkeypatch.setattr(site.metrics, "text", text)
        stalled, slow = [
            await asyncio.open_connection("127.0.0.1", site.server.port, limit=16 * 1024) for _ in range(2)
        ]
        for _, writer in (stalled, slow):
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        received = 0
        while data := await slow[0].read(1_000_000):
            received += len(data)
            await asyncio.sleep(0.002)
        assert received > len(answer)
        async with asyncio.timeout(5):
            while not any("was not read" in line.get("error", "") for line in site.lines.decoded()):
                await asyncio.sleep(0.05)
        assert await is_closed(stalled[0])
        for _, writer in (stalled, slow):
            writer.close()


async def test_idle_connection_is_closed(monkeypatch):
    monkeypatch.setattr(server, "IDLE_S", 0.1)
    async with Site() as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


async def test_stop_does_not_wait_for_open_connections(monkeypatch):
    waits = asyncio.Event()

    async def forever(*_):
        waits.set()
        await asyncio.sleep(3600)

    site = Site()
    await site.__aenter__()
    await site.get("/healthz")
    monkeypatch.setattr(site.metrics, "text", forever)
    asking = asyncio.create_task(site.get("/metrics"))
    await waits.wait()
    began = time.perf_counter()
    await site.server.stop()
    assert time.perf_counter() - began < 3
    with pytest.raises(aiohttp.ClientError):
        await asking
    await site.session.close()
    site.logs.close(1)


async def test_requests_are_not_logged(site):
    for endpoint in NAMESRV_ENDPOINTS:
        await site.get(endpoint.path)
    await site.get("/nope")
    assert site.lines == []


@pytest.mark.parametrize(
    "garbage",
    [b"\0\0\0\x10garbage\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"x" * 100_000 + b"\r\n\r\n", b"GET / HTTP/9.9x\r\n\r\n"],
)
async def test_bytes_that_are_no_http_are_answered_400(site, garbage):
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
    writer.write(garbage)
    answer = await asyncio.wait_for(reader.read(), 5)
    assert answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    writer.close()
    assert [line["event"] for line in site.lines.decoded()] in ([], ["http_request_rejected"])
    assert all(line["peer"] == "127.0.0.1" and len(line["error"]) < 100 for line in site.lines.decoded())
    assert (await site.get("/livez"))[0] == 200
