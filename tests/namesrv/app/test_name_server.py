"""A whole NameServer in this process, and brokers over real connections."""

import asyncio
import json

import pytest
from broker_messages import registration_body
from fakes.in_process_name_server import SOON_S, Line, running
from fakes.leadership_listener import eventually

from namesrv.core.values.effects import CloseConnection, RouteOutcome
from remoting.protocol.codes import RequestCode

BROKER = {"clusterName": "C", "brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "brokerId": "0"}


@pytest.fixture
async def server(tmp_path):
    async with running(tmp_path) as server:
        yield server


async def test_connection_of_an_expired_broker_stays_open_if_it_registered_again(server):
    line = await Line.to(server)
    assert (await line.request(RequestCode.REGISTER_BROKER, BROKER)).code == 0
    ((_, row),) = server._state.tables.live.rows()
    closing = RouteOutcome(reply=None, effects=(CloseConnection(row.connection_id),))
    # What a scan has found is carried out when the broker is there again.
    server._perform(closing)
    answer = await line.request(RequestCode.GET_BROKER_CLUSTER_INFO, {})
    assert b'"brokerName":"broker-a"' in answer.body
    assert (await line.request(RequestCode.UNREGISTER_BROKER, BROKER)).code == 0
    server._perform(closing)
    with pytest.raises(ConnectionError):
        await line.request(RequestCode.GET_BROKER_CLUSTER_INFO, {})
    await line.close()


async def test_connections_that_fetched_a_watched_route_are_known_until_the_watch_ends(server):
    broker, producer, controller = [await Line.to(server) for _ in range(3)]
    topics = registration_body("TopicTest", "Other")
    await broker.request(RequestCode.REGISTER_BROKER, BROKER, topics)
    query = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"}
    cached = [await producer.request(*query) for _ in range(3)]

    async def watched():
        fields = {"topic": "TopicTest", "keepMs": "60000"}
        body = json.loads((await controller.request(RequestCode.WATCH_ROUTE_FETCHES, fields)).body)
        return body["present"]["number"], [(each["clientAddress"], each["version"]) for each in body["fetches"]], body

    assert (await watched())[:2] == (1, [])
    answers = [await producer.request(*query) for _ in range(3)]
    assert answers == cached
    assert (await watched())[:2] == (1, [(producer.address, 1)])
    changed = registration_body("TopicTest", "Other", counter=2, writeQueueNums=4)
    await broker.request(RequestCode.REGISTER_BROKER, BROKER, changed)
    assert (await watched())[:2] == (2, [(producer.address, 1)])
    answer = await producer.request(*query)
    assert json.loads(answer.body)["queueDatas"][0]["writeQueueNums"] == 4
    assert (await watched())[:2] == (2, [(producer.address, 2)])
    assert (await watched())[2]["fetches"][0]["closedForMs"] is None

    await producer.close()

    async def closed():
        return (await watched())[2]["fetches"][0]["closedForMs"] is not None

    async with asyncio.timeout(SOON_S):
        while not await closed():
            await asyncio.sleep(0.01)
    await broker.close()
    await controller.close()


async def test_client_of_a_watched_route_is_known_by_the_address_that_its_proxy_announces(server):
    direct = await Line.to(server)
    await direct.request(RequestCode.REGISTER_BROKER, BROKER, registration_body("TopicTest", "Other"))
    proxied = await Line.to(server, b"PROXY TCP4 10.1.2.3 10.9.9.9 5555 9876\r\n")
    watch = RequestCode.WATCH_ROUTE_FETCHES, {"topic": "TopicTest", "keepMs": "60000"}
    await direct.request(*watch)
    await proxied.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})
    (fetch,) = json.loads((await direct.request(*watch)).body)["fetches"]
    assert (fetch["clientAddress"], fetch["proxyAddress"]) == ("10.1.2.3:5555", proxied.address)
    await proxied.close()
    await direct.close()


async def test_a_broker_set_that_is_lost_stays_known_after_a_restart(tmp_path):
    # The server has known the set for long: one that it has known for a moment is not remembered.
    known = {"cluster": "C", "brokerName": "broker-a", "registeredMs": 3_600_000}
    (tmp_path / "kv.brokerSets").write_text(json.dumps({"writtenUnixMs": 0, "sets": [known]}))

    async def away(server):
        line = await Line.to(server)
        answer = await line.request(RequestCode.GET_BROKER_CLUSTER_INFO, {"withAwayBrokerSets": "true"})
        await line.close()
        return json.loads(answer.body.replace(b"{0:", b'{"0":'))["awayBrokerSets"]

    async with running(tmp_path) as server:
        broker = await Line.to(server)
        await broker.request(RequestCode.REGISTER_BROKER, BROKER)
        assert await away(server) == []
        await broker.close()
        await eventually(lambda: len(server._state.away_sets), seconds=SOON_S, what="the set is away")
        (before,) = await away(server)
        assert (before["brokerName"], before["brokerAddrs"]) == ("broker-a", {"0": "10.0.0.1:10911"})
    async with running(tmp_path) as server:
        assert await away(server) == [before]
        broker = await Line.to(server)
        await broker.request(RequestCode.REGISTER_BROKER, BROKER)
        assert await away(server) == []
        await broker.close()
