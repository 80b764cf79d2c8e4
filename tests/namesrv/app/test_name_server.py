"""A whole NameServer in this process, and brokers over real connections."""

import asyncio

import pytest
from fakes.leadership_listener import eventually
from fakes.lines import Lines

from namesrv.app.service import NameServer
from namesrv.core.values.effects import CloseConnection, RouteOutcome
from namesrv.settings.config import NameServerConfig
from namesrv.settings.kv_config import KvConfig
from remoting.clock import SystemClock
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


@pytest.fixture
async def server(tmp_path):
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

    running = asyncio.create_task(run())
    await eventually(lambda: server._server.address[1], seconds=SOON_S, what="it serves")
    yield server
    signals.stop.set()
    await asyncio.wait_for(running, SOON_S)
    logs.close(1)


class Line:
    """A connection of a broker that stays open."""

    @classmethod
    async def to(cls, server):
        line = cls()
        line._reader, line._writer = await asyncio.open_connection(*server._server.address)
        return line

    async def request(self, code, fields):
        """Return the answer; raises ConnectionError if the connection is closed instead."""
        self._writer.write(encode(RemotingCommand(code, ext_fields=fields)))
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
