"""A whole NameServer in this process, and connections to it."""

import asyncio
from contextlib import asynccontextmanager

from peers.processes import free_port

from fakes.leadership_listener import eventually
from fakes.lines import Lines
from namesrv.app.service import NameServer
from namesrv.settings.config import NameServerConfig
from namesrv.settings.kv_config import KvConfig
from remoting.clock import SystemClock
from remoting.protocol.addresses import host_and_port
from remoting.protocol.command import RemotingCommand
from remoting.protocol.frame import encode
from remoting.protocol.frame_reader import CommandReader
from serving.logging.logs import Logs, json_line
from serving.process.background_tasks import logged_tasks
from serving.process.process import Runtime
from serving.process.signals import Signals

SOON_S = 30


@asynccontextmanager
async def running(tmp_path, *, port=0, http=False, **settings):
    http_port = free_port() if http else 0
    config = NameServerConfig(
        bind_address="127.0.0.1",
        listen_port=port,
        http_port=http_port,
        kv_config_path=str(tmp_path / "kv"),
        config_store_path=str(tmp_path / "kept"),
        **settings,
    )
    lines, signals = Lines(), Signals()
    logs = Logs(lines, json_line(), SystemClock(), {})
    tasks = logged_tasks(logs)
    server = NameServer(config, KvConfig(), Runtime(SystemClock(), logs, tasks, signals))

    async def run():
        async with tasks:
            await server.run()

    task = asyncio.create_task(run())
    await eventually(lambda: server._server.address[1], seconds=SOON_S, what="it serves")
    server.log_lines, server.lines, server.http_port = lines, [], http_port
    yield server
    for line in server.lines:
        await line.close()
    signals.stop.set()
    await asyncio.wait_for(task, SOON_S)
    logs.close(1)


class Line:
    """A connection that stays open for as long as the server runs."""

    @classmethod
    async def to(cls, server, start=b""):
        line = cls()
        line._reader, line._writer = await asyncio.open_connection(*server._server.address)
        line._writer.write(start)
        server.lines.append(line)
        return line

    @property
    def address(self):
        return host_and_port(*self._writer.get_extra_info("sockname"))

    async def request(self, code, fields, body=b"", *, version=513):
        """Return the answer; raises ConnectionError if the connection is closed instead."""
        self._writer.write(encode(RemotingCommand(code, version=version, ext_fields=fields, body=body)))
        commands, answers = CommandReader(), []
        while not answers:
            received = await asyncio.wait_for(self._reader.read(65536), SOON_S)
            if not received:
                raise ConnectionError
            answers += commands.receive(received)
        return answers[0]

    async def close(self):
        self._writer.close()
