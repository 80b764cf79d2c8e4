"""A whole NameServer with a broker set of two, whose file of role addresses a test writes."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager, suppress

from broker_messages import MASTER, SLAVE, registration_body

from fakes.leadership_listener import eventually
from fakes.lines import Lines
from namesrv.app.service import NameServer
from namesrv.settings.config import NameServerConfig
from namesrv.settings.kv_config import KvConfig
from remoting.clock import SystemClock
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.frame import encode
from remoting.protocol.frame_reader import CommandReader
from serving.http.views import ViewRequest
from serving.logging.logs import Logs, json_line
from serving.process.background_tasks import logged_tasks
from serving.process.process import Runtime
from serving.process.signals import Signals

SOON_S = 30
HERE, THERE = "127.0.0.1", "127.0.0.2"
OWN, ROLE = "10.0.0.1:10911", "10.9.0.5:10911"
CHECKED_RULE = f'[[roleAddress]]\nset = "broker-a"\nnetworks = ["{{}}/32"]\nmaster = "{ROLE}"\nslaves = "omit"\n'
RULE = CHECKED_RULE + "verify = false\n"


class Site:
    """A NameServer with a master and a slave, whose file of role addresses a test writes."""

    def __init__(self, folder):
        self.file = folder / "role-addresses.toml"
        self.lines = Lines()
        self.member_port = free_port()
        self._folder = folder
        self._connections = []

    @asynccontextmanager
    async def running(self, **config):
        config = NameServerConfig(
            bind_address="127.0.0.1",
            listen_port=0,
            http_port=0,
            kv_config_path=str(self._folder / "kv"),
            config_store_path=str(self._folder / "kept"),
            member_port=self.member_port,
            **config,
        )
        logs, signals = Logs(self.lines, json_line(), SystemClock(), {}), Signals()
        tasks = logged_tasks(logs)
        self.server = NameServer(config, KvConfig(), Runtime(SystemClock(), logs, tasks, signals))

        async def run():
            async with tasks:
                await self.server.run()

        starts = len(self.events("server_ready"))
        running = asyncio.create_task(run())
        await eventually(
            lambda: self.events("server_ready")[starts:] or running.done(), seconds=SOON_S, what="it serves"
        )
        if running.done():
            # It could not start.
            running.result()
        try:
            await self.register(MASTER, SLAVE)
            yield self
        finally:
            for connection in self._connections:
                await connection.close()
            signals.stop.set()
            await asyncio.wait_for(running, SOON_S)
            logs.close(1)

    async def register(self, *members):
        """Register brokers over one new connection."""
        self.broker = await self.from_host(HERE)
        topics = registration_body("TopicTest", "broker-a", "rmq_sys_SYNC_BROKER_MEMBER_broker-a")
        for member in members:
            assert (await self.broker.request(RequestCode.REGISTER_BROKER, member, topics)).code == 0

    def events(self, name):
        return [line for line in self.lines.decoded() if line["event"] == name]

    async def from_host(self, host, port=None):
        line = await Line.to((HERE, port or self.server._server.address[1]), host)
        self._connections.append(line)
        return line

    async def rules_of(self, text):
        """Write the file, and wait until the server has decided on it."""
        before = len(self.events("role_addresses_loaded") + self.events("role_addresses_refused"))
        self.file.write_text(text)
        await eventually(
            lambda: len(self.events("role_addresses_loaded") + self.events("role_addresses_refused")) > before,
            seconds=SOON_S,
            what="the file is read",
        )

    def shown(self):
        """Return what `/v1/role-addresses` shows."""
        (view,) = [each.view for each in self.server._site() if each.path == "/v1/role-addresses"]
        return view(ViewRequest())


class Line:
    """A connection from one of the hosts."""

    @classmethod
    async def to(cls, address, host):
        line = cls()
        line._reader, line._writer = await asyncio.open_connection(*address, local_addr=(host, 0))
        return line

    async def request(self, code, fields=None, body=b""):
        self._writer.write(encode(RemotingCommand(code, version=513, ext_fields=fields, body=body)))
        commands, answers = CommandReader(), []
        while not answers:
            answers += commands.receive(await asyncio.wait_for(self._reader.read(65536), SOON_S))
        return answers[0]

    async def close(self):
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def addresses(self, topic="TopicTest"):
        """Return broker id -> address in the route of a topic, the same each of three times."""
        fields = {"topic": topic}
        bodies = {(await self.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)).body for _ in range(3)}
        (body,) = bodies
        (data,) = json.loads(body)["brokerDatas"]
        return data["brokerAddrs"]


def free_port():
    with socket.create_server((HERE, 0)) as server:
        return server.getsockname()[1]
