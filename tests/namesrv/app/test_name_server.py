"""A whole NameServer in this process, and brokers over real connections."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from broker_messages import registration_body
from fakes.leadership_listener import eventually
from fakes.lines import Lines

from namesrv.app.service import NameServer
from namesrv.core.values.effects import CloseConnection, RouteOutcome
from namesrv.settings.config import NameServerConfig
from namesrv.settings.kv_config import KvConfig
from remoting.clock import SystemClock
from remoting.protocol.addresses import host_and_port
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.frame import encode
from remoting.protocol.frame_reader import CommandReader
from serving.logging.logs import Logs, json_line
from serving.process.background_tasks import logged_tasks
from serving.process.process import Runtime
from serving.process.signals import Signals

SOON_S = 30
BROKER = {"clusterName": "C", "brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "brokerId": "0"}


@asynccontextmanager
async def running(tmp_path):
    config = NameServerConfig(
        bind_address="127.0.0.1",
        listen_port=0,
        http_port=0,
        kv_config_path=str(tmp_path / "kv"),
        config_store_path=str(tmp_path / "kept"),
    )
    logs, signals = Logs(Lines(), json_line(), SystemClock(), {}), Signals()
    tasks = logged_tasks(logs)
    server = NameServer(config, KvConfig(), Runtime(SystemClock(), logs, tasks, signals))

    async def run():
        async with tasks:
            await server.run()

    task = asyncio.create_task(run())
    await eventually(lambda: server._server.address[1], seconds=SOON_S, what="it serves")
    yield server
    signals.stop.set()
    await asyncio.wait_for(task, SOON_S)
    logs.close(1)


@pytest.fixture
async def server(tmp_path):
    async with running(tmp_path) as server:
        yield server


class Line:
    """A connection of a broker that stays open."""

    @classmethod
    async def to(cls, server, start=b""):
        line = cls()
        line._reader, line._writer = await asyncio.open_connection(*server._server.address)
        line._writer.write(start)
        return line

    @property
    def address(self):
        return host_and_port(*self._writer.get_extra_info("sockname"))

    async def request(self, code, fields, body=b""):
        """Return the answer; raises ConnectionError if the connection is closed instead."""
        self._writer.write(encode(RemotingCommand(code, version=513, ext_fields=fields, body=body)))
        commands, answers = CommandReader(), []
        while not answers:
            received = await asyncio.wait_for(self._reader.read(65536), SOON_S)
            if not received:
                raise ConnectionError
            answers += commands.receive(received)
        return answers[0]

    async def close(self):
        self._writer.close()


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
