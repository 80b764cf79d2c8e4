"""A NameServer that has just started and its peers, over real sockets: what clients and brokers get."""

import asyncio
import json
import subprocess
import sys

import aiohttp
import pytest
from broker_messages import registration_body
from fakes.answering_peer import NOTHING, peers, refusal, success
from fakes.in_process_name_server import SOON_S, Line, running
from fakes.leadership_listener import eventually
from peers.processes import free_port

from namesrv.app.peers import LISTING_BYTES_MAX, PEER_TIMEOUT_MS
from remoting.protocol.codes import RequestCode
from serving.metrics.health import Serving

TOPIC = "TopicTest"
AT = "10.0.0.1:10911"
BROKER = {"clusterName": "C", "brokerName": "broker-a", "brokerAddr": AT, "brokerId": "0"}
ROUTE, LISTING = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO
QUERY = {"topic": TOPIC}


#: Where the time is that a peer may take.
_TIMEOUT = "namesrv.app.peers.PEER_TIMEOUT_MS"


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Let peers take longer: on a machine with much to do they are late without hanging."""
    monkeypatch.setattr(_TIMEOUT, 20_000)


class Known:
    """What a peer knows: sets of one broker, all with the same topic."""

    def __init__(self, **addresses):
        self.addresses = addresses or {"broker-a": AT}
        #: What is answered in place of the truth, by code.
        self.instead = {}

    def __call__(self, code, fields):
        if code in self.instead:
            return self.instead[code]
        sets = {
            name.replace("_", "-"): {"cluster": "C", "brokerName": name.replace("_", "-"), "brokerAddrs": {"0": at}}
            for name, at in self.addresses.items()
        }
        if code == LISTING:
            return success({"brokerAddrTable": sets, "clusterAddrTable": {"C": list(sets)}})
        assert fields["registeredOnly"] == "true"
        if fields["topic"] != TOPIC or not sets:
            return refusal(17)
        queues = [{"brokerName": name, "perm": 6, "readQueueNums": 4, "writeQueueNums": 4} for name in sets]
        return success({"brokerDatas": list(sets.values()), "filterServerTable": {}, "queueDatas": queues})


def brokers_in(answer):
    """Return the addresses in the answer to a route query; the code if there is no route."""
    if answer.code:
        return answer.code
    return sorted(at for each in json.loads(answer.body)["brokerDatas"] for at in each["brokerAddrs"].values())


def logged(server, event):
    return [line for line in server.log_lines.decoded() if line["event"] == event]


async def cold_start_ended(server):
    await eventually(lambda: logged(server, "cold_start_ended"), seconds=SOON_S, what="the cold start is over")
    return logged(server, "cold_start_ended")[0]


async def test_client_of_a_started_server_gets_what_a_peer_knows_until_the_broker_registers(tmp_path):
    async with peers(Known()) as (peer,), running(tmp_path, peers=peer.address) as server:
        client, broker = await Line.to(server), await Line.to(server)
        assert brokers_in(await client.request(ROUTE, QUERY)) == [AT]
        assert (await client.request(ROUTE, {"topic": "Unknown"})).code == 17
        old = await client.request(ROUTE, QUERY, version=317)
        assert b'{0:"10.0.0.1:10911"}' in old.body
        await broker.request(RequestCode.REGISTER_BROKER, BROKER, registration_body(TOPIC, "Other"))
        ended = await cold_start_ended(server)
        assert (ended["reason"], ended["brokers"], ended["learned_answers"]) == ("registered", 0, 2)
        answers = [await client.request(ROUTE, QUERY) for _ in range(2)]
        assert {json.loads(each.body)["queueDatas"][0]["readQueueNums"] for each in answers} == {8}
        # From now on the second of two equal queries is answered from its bytes.
        assert server._server.statistics.prepared[ROUTE] == 2
        assert server._state.route_cache.misses == 1
        asked = peer.count(LISTING), peer.count(ROUTE)
        await client.request(ROUTE, {"topic": "Unknown"})
        await asyncio.sleep(1.2)
        assert (peer.count(LISTING), peer.count(ROUTE)) == asked


async def test_started_server_is_not_ready_and_serves_until_the_brokers_of_its_peers_have_registered(tmp_path):
    async with peers(Known()) as (peer,), running(tmp_path, peers=peer.address, http=True) as server:
        health = server._process.health
        await eventually(lambda: health.serving is Serving.WAITING, seconds=SOON_S, what="it serves")
        status, answer = await probed(server)
        assert (status, answer["error"]["message"]) == (
            503,
            "This NameServer is waiting for brokers that are registered at its peers (1).",
        )
        assert (await fetched(server, "/rocketmq/nsaddr")).startswith("127.0.0.1:")
        await register(server)
        await eventually(lambda: health.serving is Serving.READY, seconds=SOON_S, what="it is ready")
        assert (await probed(server))[0] == 200


async def test_cold_start_goes_on_beside_a_peer_that_was_restarted_too(tmp_path):
    empty = Known()
    empty.addresses = {}
    async with peers(empty) as (peer,), running(tmp_path, peers=peer.address) as server:
        client = await Line.to(server)
        assert (await client.request(ROUTE, QUERY)).code == 17
        looks = peer.count(LISTING)
        await eventually(lambda: peer.count(LISTING) > looks + 1, seconds=SOON_S, what="it looks on")
        empty.addresses = {"broker-a": AT}
        async with asyncio.timeout(SOON_S):
            while brokers_in(await client.request(ROUTE, QUERY)) != [AT]:
                await asyncio.sleep(0.1)
        assert not logged(server, "cold_start_ended")


async def test_cold_start_is_in_the_history(tmp_path):
    folder = tmp_path / "history"
    async with peers(Known()) as (peer,), running(tmp_path, peers=peer.address, history_dir=str(folder)) as server:
        await eventually(lambda: server._process.health.serving is Serving.WAITING, seconds=SOON_S, what="it serves")
    written = "".join(file.read_text() for file in folder.rglob("*") if file.is_file())
    assert all(f'"{event}"' in written for event in ("cold_start_began", "cold_start_ended"))


async def test_brokers_and_peers_get_only_what_is_registered(tmp_path):
    async with (
        peers(Known(broker_a=AT, broker_b="10.0.0.2:10911")) as (peer,),
        running(tmp_path, peers=peer.address) as server,
    ):
        client, broker, other = [await Line.to(server) for _ in range(3)]
        await broker.request(RequestCode.REGISTER_BROKER, BROKER, registration_body(TOPIC, "Other"))
        assert brokers_in(await client.request(ROUTE, QUERY)) == [AT, "10.0.0.2:10911"]
        assert brokers_in(await broker.request(ROUTE, QUERY)) == [AT]
        assert brokers_in(await other.request(ROUTE, QUERY | {"registeredOnly": "true"})) == [AT]
        members = {"topic": "rmq_sys_SYNC_BROKER_MEMBER_broker-b"}
        assert brokers_in(await client.request(ROUTE, members)) == 17
        slave = BROKER | {"brokerName": "broker-b", "brokerId": "1", "brokerAddr": "10.0.0.3:10911"}
        answer = await other.request(RequestCode.REGISTER_BROKER, slave)
        assert not (answer.ext_fields or {}).get("masterAddr")
        group = await other.request(RequestCode.GET_BROKER_MEMBER_GROUP, {"brokerName": "broker-b"})
        assert b"10.0.0.2" not in group.body
        assert b"10.0.0.2" not in (await client.request(LISTING, {})).body


async def test_broker_that_dies_meanwhile_is_out_two_looks_after_one_of_its_peers_knows(tmp_path):
    first, second = Known(), Known()
    async with (
        peers(first, second) as (one, two),
        running(tmp_path, peers=f"{one.address};{two.address}") as server,
    ):
        client = await Line.to(server)
        assert brokers_in(await client.request(ROUTE, QUERY)) == [AT]
        first.addresses, looks = {}, one.count(LISTING)
        async with asyncio.timeout(SOON_S):
            while brokers_in(await client.request(ROUTE, QUERY)) == [AT]:
                await asyncio.sleep(0.05)
        assert one.count(LISTING) - looks <= 2


async def test_clients_that_ask_at_once_share_a_request_to_each_peer(tmp_path):
    known = Known()
    async with peers(known) as (peer,), running(tmp_path, peers=peer.address) as server:
        clients = [await Line.to(server) for _ in range(20)]
        answers = await asyncio.gather(*(client.request(ROUTE, QUERY) for client in clients))
        assert [brokers_in(each) for each in answers] == [[AT]] * 20
        assert peer.count(ROUTE) == 1


@pytest.mark.parametrize("limit", ["ROUTES_MAX", "ROUTES_BYTES_MAX"])
async def test_routes_that_are_kept_have_a_limit(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(f"namesrv.app.peers.{limit}", 1)
    async with peers(Known()) as (peer,), running(tmp_path, peers=peer.address) as server:
        client = await Line.to(server)
        for topic in ("Unknown", TOPIC, "Another", TOPIC):
            await client.request(ROUTE, {"topic": topic})
        assert len(server._peers._routes) <= 2
        assert peer.count(ROUTE) == 4


@pytest.mark.parametrize(
    ("listing", "error"),
    [
        (success(b"what?"), "malformed"),
        (success({"brokerAddrTable": []}), "brokerAddrTable"),
        (success(b" " * (LISTING_BYTES_MAX + 1)), "are read"),
        (refusal(1500, "please go away"), "please go away"),
        (NOTHING, f"no answer within {PEER_TIMEOUT_MS} ms"),
    ],
    ids=["no JSON", "another shape", "far too long", "it stops", "it hangs"],
)
async def test_peer_that_lies_or_hangs_is_ignored_and_the_log_says_so(tmp_path, monkeypatch, listing, error):
    monkeypatch.setattr(_TIMEOUT, PEER_TIMEOUT_MS)
    known = Known()
    known.instead[LISTING] = listing
    async with peers(known) as (peer,), running(tmp_path, peers=peer.address) as server:
        client = await Line.to(server)
        assert (await client.request(ROUTE, QUERY)).code == 17
        (line,) = logged(server, "peer_ignored")
        assert (line["peer"], error in line["error"]) == (peer.address, True)
        # Once it answers properly, it counts.
        known.instead.clear()

        async def learned():
            return brokers_in(await client.request(ROUTE, QUERY)) == [AT]

        async with asyncio.timeout(SOON_S):
            while not await learned():
                await asyncio.sleep(0.1)


async def test_peer_that_hangs_at_routes_costs_its_routes_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(_TIMEOUT, PEER_TIMEOUT_MS)
    hanging, well = Known(), Known(broker_b="10.0.0.2:10911")
    hanging.instead[ROUTE] = NOTHING
    async with peers(hanging, well) as (one, two), running(tmp_path, peers=f"{one.address};{two.address}") as server:
        client = await Line.to(server)
        assert brokers_in(await client.request(ROUTE, QUERY)) == ["10.0.0.2:10911"]
        # For a second it is not asked for routes again; its listing counts, and nothing is logged.
        assert (await client.request(ROUTE, {"topic": "Another"})).code == 17
        assert one.count(ROUTE) == 1
        assert (server._peers.cold.usable, logged(server, "peer_ignored")) == ([one.address, two.address], [])


async def test_peer_that_refuses_a_route_is_asked_for_the_next(tmp_path):
    known = Known()
    known.instead[ROUTE] = refusal(1, "busy")
    async with peers(known) as (peer,), running(tmp_path, peers=peer.address) as server:
        client = await Line.to(server)
        assert (await client.request(ROUTE, {"topic": "Another"})).code == 17
        known.instead.clear()
        assert brokers_in(await client.request(ROUTE, QUERY)) == [AT]
        assert not logged(server, "peer_ignored")


async def test_queries_that_wait_for_peers_leave_places_to_registrations(tmp_path):
    known, release = Known(), asyncio.Event()

    async def answer(code, fields):
        if code == ROUTE:
            await release.wait()
        return known(code, fields)

    async with (
        peers(answer) as (peer,),
        running(tmp_path, peers=peer.address, default_thread_pool_queue_capacity=20) as server,
    ):
        lines = [await Line.to(server) for _ in range(2)]
        waiting = [asyncio.create_task(line.request(ROUTE, QUERY)) for line in lines]
        await eventually(lambda: server._peers._waiting == 2, seconds=SOON_S, what="a tenth of the places is taken")
        other = await Line.to(server)
        assert (await other.request(ROUTE, QUERY)).code == 2
        release.set()
        assert [brokers_in(answer) for answer in await asyncio.gather(*waiting)] == [[AT], [AT]]
        assert brokers_in(await other.request(ROUTE, QUERY)) == [AT]


async def test_peers_are_not_asked_for_a_name_that_no_topic_can_have(tmp_path):
    async with peers(Known()) as (peer,), running(tmp_path, peers=peer.address) as server:
        client = await Line.to(server)
        assert (await client.request(ROUTE, {"topic": "t" * 256})).code == 17
        assert peer.count(ROUTE) == 0
        assert (await client.request(ROUTE, {"topic": "t" * 255})).code == 17
        assert peer.count(ROUTE) == 1


async def test_fault_of_ours_in_one_look_does_not_end_the_cold_start(tmp_path, monkeypatch):
    monkeypatch.setattr("namesrv.app.peers.LISTING_BYTES_MAX", "no number")
    async with peers(Known()) as (peer,), running(tmp_path, peers=peer.address) as server:
        client = await Line.to(server)
        assert (await client.request(ROUTE, QUERY)).code == 17
        monkeypatch.undo()
        async with asyncio.timeout(SOON_S):
            while brokers_in(await client.request(ROUTE, QUERY)) != [AT]:
                await asyncio.sleep(0.1)
        assert not logged(server, "cold_start_ended")


async def test_server_whose_peers_are_all_away_serves_and_is_ready_as_without(tmp_path):
    async with peers(Known()) as (peer,):
        away = peer.address
    async with running(tmp_path, peers=away, http=True) as server:
        ready = lambda: server._process.health.serving is Serving.READY  # noqa: E731
        await eventually(ready, seconds=SOON_S, what="it is ready")
        (began,) = logged(server, "cold_start_began")
        assert (began["peers"], began["brokers"]) == ([], 0)
        await eventually(lambda: logged(server, "peer_ignored"), seconds=SOON_S, what="it is said")
        listing = await fetched(server, "/v1/peers")
        assert (listing["missingBrokers"], listing["peers"][0]["differences"]) == (None, None)
        broker, client = await Line.to(server), await Line.to(server)
        assert (await client.request(ROUTE, QUERY)).code == 17
        await broker.request(RequestCode.REGISTER_BROKER, BROKER, registration_body(TOPIC, "Other"))
        assert brokers_in(await client.request(ROUTE, QUERY)) == [AT]


async def test_server_does_not_listen_before_its_peers_have_answered_or_failed(tmp_path):
    known, answered = Known(), []

    async def answer(code, fields):
        await asyncio.sleep(0.3)
        answered.append(code)
        return known(code, fields)

    async with peers(answer) as (peer,), running(tmp_path, peers=peer.address) as server:
        assert answered
        assert brokers_in(await (await Line.to(server)).request(ROUTE, QUERY)) == [AT]


async def test_peer_of_another_fleet_is_known_by_the_brokers_of_the_time_before(tmp_path):
    async with running(tmp_path) as server:
        broker = await Line.to(server)
        await broker.request(RequestCode.REGISTER_BROKER, BROKER, registration_body(TOPIC, "Other"))
    other, ours = Known(broker_a="10.9.9.9:10911"), Known()
    async with peers(other, ours) as (one, two), running(tmp_path, peers=f"{one.address};{two.address}") as server:
        client = await Line.to(server)
        assert brokers_in(await client.request(ROUTE, QUERY)) == [AT]
        (line,) = logged(server, "peer_ignored")
        assert (line["peer"], line["error"]) == (
            one.address,
            "it lists no broker that was registered here before the start",
        )


async def test_server_leaves_itself_out_of_a_list_that_all_have(tmp_path):
    port, other = free_port(), free_port()
    async with peers(Known()) as (peer,):
        addresses = f"127.0.0.1:{port};localhost:{port};127.0.0.1:{other};{peer.address}"
        async with running(tmp_path, peers=addresses, port=port, member_port=other) as server:
            only = lambda: list(server._peers.cold.peers) == [peer.address]  # noqa: E731
            await eventually(only, seconds=SOON_S, what="it knows itself")
            assert (server._peers.cold.problems, logged(server, "peer_ignored")) == ({}, [])


async def test_server_that_is_the_only_one_of_its_list_starts_as_without(tmp_path):
    port = free_port()
    async with running(tmp_path, peers=f"127.0.0.1:{port}", port=port) as server:
        line = await cold_start_ended(server)
        assert (line["reason"], server._server.processor.is_urgent(ROUTE)) == ("alone", True)


async def test_clients_need_not_wait_for_brokers_that_peers_know(tmp_path):
    async with peers(Known()) as (peer,), running(tmp_path, peers=peer.address, need_wait_for_service=True) as server:
        assert brokers_in(await (await Line.to(server)).request(ROUTE, QUERY)) == [AT]


async def test_clients_wait_for_brokers_where_peers_were_restarted_too_and_know_none(tmp_path):
    known = Known()
    known.instead[LISTING] = success({"brokerAddrTable": {}, "clusterAddrTable": {}})
    async with peers(known) as (peer,), running(tmp_path, peers=peer.address, need_wait_for_service=True) as server:
        assert server._peers.cold.usable == [peer.address]
        answer = await (await Line.to(server)).request(ROUTE, QUERY)
        assert (answer.code, answer.remark) == (1, "name server not ready")


async def test_servers_that_require_tls_and_sign_requests_to_brokers_ask_each_other_by_tls_and_unsigned(tmp_path):
    enforcing = {"tls_server_mode": "enforcing"}
    keys = {"broker_access_key": "rmq", "broker_secret_key": "secret-of-rmq"}
    async with running(tmp_path / "one", port=(port := free_port()), **enforcing):
        address = f"127.0.0.1:{port}"
        async with running(tmp_path / "two", peers=address, **enforcing, **keys) as server:
            assert server._peers.cold.usable == [address]
            assert not logged(server, "broker_request_not_signed")


def test_nothing_of_it_is_loaded_without_peers():
    loaded = "[name for name in sys.modules if name.endswith(('.cold_start', 'namesrv.app.peers'))]"
    command = [sys.executable, "-c", f"import namesrv.app.service, sys; print({loaded})"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


async def fetched(server, path):
    url = f"http://127.0.0.1:{server.http_port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await (answer.json() if path.startswith("/v1") else answer.text())


async def probed(server):
    url = f"http://127.0.0.1:{server.http_port}/readyz"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.json()


async def register(server):
    await (await Line.to(server)).request(RequestCode.REGISTER_BROKER, BROKER, registration_body(TOPIC, "Other"))


async def test_learned_route_is_marked_over_http_and_cold_in_the_metrics(tmp_path):
    async with peers(Known()) as (peer,), running(tmp_path, peers=peer.address, http=True) as server:
        await eventually(lambda: server._process.health.serving is Serving.WAITING, seconds=SOON_S, what="it serves")
        route = await fetched(server, f"/v1/topics/{TOPIC}/route")
        assert (route["learnedFrom"], route["brokerDatas"][0]["brokerAddrs"]) == ({"broker-a": peer.address}, {"0": AT})
        listing = await fetched(server, "/v1/peers")
        assert (listing["isCold"], listing["missingBrokers"]) == (True, 1)
        assert "rocketmq_namesrv_cold 1.0" in await fetched(server, "/metrics")
        broker = await Line.to(server)
        await broker.request(RequestCode.REGISTER_BROKER, BROKER, registration_body(TOPIC, "Other"))
        await cold_start_ended(server)
        assert "learnedFrom" not in await fetched(server, f"/v1/topics/{TOPIC}/route")
        assert "rocketmq_namesrv_cold 0.0" in await fetched(server, "/metrics")


async def test_servers_that_differ_by_one_queue_are_found_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr("namesrv.app.peers.COMPARE_S", 0.2)
    monkeypatch.setattr("namesrv.core.peer_views.LASTING_MS", 1_000)
    ports = [free_port(), free_port()]
    one, two = (f"127.0.0.1:{port}" for port in ports)
    async with (
        running(tmp_path / "one", port=ports[0], peers=f"{one};{two}", http=True) as first,
        running(tmp_path / "two", port=ports[1], peers=f"{one};{two}") as second,
    ):
        for server, queues in ((first, 8), (second, 9)):
            broker, body = await Line.to(server), registration_body(TOPIC, "Other", readQueueNums=queues)
            await broker.request(RequestCode.REGISTER_BROKER, BROKER, body)
        await eventually(lambda: logged(first, "peer_differs"), seconds=SOON_S, what="the difference is found")
        (line,) = logged(first, "peer_differs")
        assert (line["differences"], line["sample"]) == (1, [f"{two}: topics of broker-a"])
        labels = f'broker="broker-a",cluster="C",kind="topics",namesrv="{two}"'
        metrics = await fetched(first, "/metrics")
        assert f"rocketmq_namesrv_peer_difference{{{labels}}} 1.0" in metrics
        assert 'rocketmq_namesrv_view_digest{cluster="C"}' in metrics
        listing = await fetched(first, "/v1/peers")
        named = {"cluster": "C", "brokerName": "broker-a", "kind": "topics"}
        assert listing["peers"] == [{"address": two, "problem": None, "differences": [named]}]
        await broker.request(
            RequestCode.REGISTER_BROKER, BROKER, registration_body(TOPIC, "Other", counter=2, readQueueNums=8)
        )

        async def agree():
            listing = await fetched(first, "/v1/peers")
            return listing["peers"][0]["differences"] == []

        async with asyncio.timeout(SOON_S):
            while not await agree():
                await asyncio.sleep(0.1)
        digests = [server._peers.views.digests.clusters["C"].digest for server in (first, second)]
        assert digests[0] == digests[1]
        assert [view["digest"] for view in (await fetched(first, "/v1/peers"))["clusters"]] == [f"{digests[0]:012x}"]
