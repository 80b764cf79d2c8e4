"""The life of servers in one process, with real sockets: opened, ready, told to stop, drained, closed."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import ssl
import threading
from datetime import UTC, datetime, timedelta
from functools import partial

import aiohttp
import pytest
from fakes.lines import Lines
from other_server import OTHER, OtherConfig
from peers.processes import free_port

from remoting.clock import SystemClock
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.frame import encode
from remoting.protocol.frame_reader import CommandReader
from remoting.server.limits import ServerOptions
from serving.config.stored_config import StoredConfig
from serving.http.paths import endpoints_of, post
from serving.http.server_views import ConfigViews, ProbeViews, check_serving
from serving.http.views import HealthAnswer
from serving.logging.logs import Logs, json_line
from serving.metrics.server_counters import ServerCounters
from serving.process.background_tasks import logged_tasks
from serving.process.event_log import AttributedDispatcher, ServerEventLog
from serving.process.process import Runtime, ServerProcess, serve, serve_together
from serving.process.signals import Signals
from serving.process.start import StartFailed


class ChangeViews:
    @post("/v1/change")
    def change(self) -> HealthAnswer:
        return HealthAnswer("ok")


class OtherServer:
    """The least that is a server: it answers every request, and shows its configuration over HTTP."""

    def __init__(self, runtime, **config):
        self.config = OtherConfig(bind_address="127.0.0.1", listen_port=0, http_port=free_port(), **config)
        counters = ServerCounters()
        journal = ServerEventLog(OTHER, runtime.logs, counters, self.config)
        self.process = ServerProcess(OTHER, self.config, counters, runtime)
        self.settings = StoredConfig(OTHER, self.config, journal, self.process.follow)
        dispatcher = AttributedDispatcher(self, frozenset(), busiest=-1)
        self.listener = self.process.make_listener(
            dispatcher,
            journal,
            ServerOptions(urgent=frozenset({RequestCode.BROKER_HEARTBEAT}), cached_code=None),
            queued_requests_max=10,
        )
        self.is_open = asyncio.Event()
        self.closed = []

    def dispatch(self, request, connection):
        return request.reply(remark=connection.peer)

    async def run(self):
        await self.process.open()
        self.process.start_http(self.site)
        self.is_open.set()
        await self.process.serve(self.own_task)
        await self.process.drain(self.settings.config)
        await self.process.close(self.close_more)

    def site(self):
        return endpoints_of(
            ProbeViews(lambda: check_serving(OTHER.name, self.process.health), self.text),
            ConfigViews(OTHER, lambda: self.settings.config),
            ChangeViews(),
        )

    async def text(self):
        return b"nothing 0\n"

    async def own_task(self):
        raise OSError("disk gone")

    async def close_more(self):
        self.closed.append(len(self.listener.connections))

    async def request(self):
        reader, writer = await asyncio.open_connection(*self.listener.address)
        writer.write(encode(RemotingCommand(1, opaque=7)))
        answers = []
        commands = CommandReader()
        while not answers:
            answers += commands.receive(await reader.read(65536))
        return answers[0], writer


@pytest.fixture
async def around():
    lines = Lines()
    logs = Logs(lines, json_line(), SystemClock(), {"other_id": "h:1"})
    async with logged_tasks(logs) as tasks:
        yield Runtime(SystemClock(), logs, tasks, Signals())
    logs.close(1)


def events_of(around):
    return [line["event"] for line in around.logs._sink.decoded()]


async def started(around, **config):
    server = OtherServer(around, **config)
    running = asyncio.create_task(server.run())
    await asyncio.wait_for(server.is_open.wait(), 30)
    return server, running


async def test_two_servers_live_side_by_side_and_stop_at_one_signal(around):
    (one, running_one), (two, running_two) = await started(around), await started(around)
    for server in (one, two):
        answer, writer = await server.request()
        assert answer.opaque == 7
        writer.close()
        async with aiohttp.ClientSession() as session:
            base = f"http://127.0.0.1:{server.config.http_port}"
            assert (await (await session.get(f"{base}/readyz")).json()) == {"status": "ready"}
            shown = await session.get(f"{base}/v1/config")
            assert shown.headers["Server"] == "rmq-other"
            assert (await shown.json())["properties"]["listenPort"] == "0"
            described = await (await session.get(f"{base}/v1/openapi.json")).json()
            assert described["info"]["title"] == "RocketMQ other server"
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(asyncio.gather(running_one, running_two), 30)
    assert (one.closed, two.closed) == ([0], [0])
    logged = events_of(around)
    assert [logged.count(event) for event in ("server_ready", "server_draining", "server_stopped")] == [2, 2, 2]
    assert "background_task_failed" in logged


async def test_the_admin_token_of_the_file_is_the_one_in_force_while_the_server_runs(around, tmp_path):
    file = tmp_path / "token"
    file.write_text("first-token-0123\n")
    server, running = await started(around, http_admin_token_file=str(file))

    async def change(token):
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
            return (await session.post(f"http://127.0.0.1:{server.config.http_port}/v1/change")).status

    assert (await change("first-token-0123"), await change("second-token-0123")) == (200, 401)
    file.write_text("second-token-0123\n")
    async with asyncio.timeout(30):
        while await change("second-token-0123") != 200:
            await asyncio.sleep(0.05)
    assert await change("first-token-0123") == 401
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 30)


async def test_a_file_without_an_admin_token_ends_the_start(around, tmp_path):
    (tmp_path / "token").write_text("too short")
    server = OtherServer(around, http_admin_token_file=str(tmp_path / "token"))
    with pytest.raises(StartFailed, match=r"httpAdminTokenFile: the first line of .*token must be a token: 16 or more"):
        await server.run()


async def test_a_second_signal_ends_the_wait_for_peers_to_leave(around):
    server, running = await started(around, enable_shutdown_gracefully=True, shutdown_wait_time_seconds=600)
    _, writer = await server.request()
    os.kill(os.getpid(), signal.SIGINT)
    while "server_draining" not in events_of(around):
        await asyncio.sleep(0.01)
    assert not running.done()
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.wait_for(running, 30)
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()


async def test_a_port_that_is_taken_ends_the_start(around):
    server, running = await started(around)
    taken = OtherServer(around)
    object.__setattr__(taken.config, "listen_port", server.listener.address[1])
    with pytest.raises(StartFailed, match="in use"):
        await taken.process.open()
    taken.process._http_socket.close()
    around.signals.stop.set()
    await asyncio.wait_for(running, 30)


async def test_what_the_configuration_limits_reaches_the_listener(around):
    limits = OtherServer(
        around, server_socket_backlog=77, response_buffer_bytes_max=4096, connections_max=3
    ).listener.limits
    assert (limits.backlog, limits.response_buffer_bytes_max, limits.connections_max) == (77, 4096, 3)
    assert limits.queued_requests_max == 10


async def test_history_beyond_what_the_configuration_allows_is_deleted_and_logged(around, tmp_path):
    yesterday = datetime.fromtimestamp(SystemClock().unix_us() / 1e6, UTC) - timedelta(days=1)
    hour = tmp_path / f"landing/v1/family=heartbeat/date={yesterday:%Y-%m-%d}/hour=00"
    hour.mkdir(parents=True)
    (hour / "another_1-1-1.jsonl").write_bytes(b"{}\n" * 100)
    _, running = await started(around, history_dir=str(tmp_path), history_bytes_max=299)
    async with asyncio.timeout(30):
        while "history_deleted" not in events_of(around):
            await asyncio.sleep(0.01)
    around.signals.stop.set()
    await asyncio.wait_for(running, 30)
    (logged,) = (line for line in around.logs._sink.decoded() if line["event"] == "history_deleted")
    assert (logged["reason"], logged["files"], logged["bytes"]) == ("size", 1, 300)
    assert not hour.exists()


class Brief:
    """A server that ends as soon as all are there, after a library has said something."""

    def __init__(self, all_there, logs_something):
        self.all_there, self.logs_something = all_there, logs_something

    async def run(self):
        await self.all_there.wait()
        if self.logs_something:
            logging.getLogger("asyncio").warning("slow callback")


async def test_servers_of_one_process_share_its_output_and_a_library_is_logged_once(capfd):
    all_there, threads = asyncio.Barrier(2), []

    def brief(port, *, logs_something):
        config = OtherConfig(listen_port=port)

        def make(_):
            threads.append([each.name for each in threading.enumerate()].count("log-writer"))
            return Brief(all_there, logs_something)

        return partial(serve, OTHER, config, (), make)

    before = [each.name for each in threading.enumerate()].count("log-writer")
    await serve_together(brief(1, logs_something=True), brief(2, logs_something=False))
    assert [number - before for number in threads] == [1, 1]
    logged = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    # Each line comes from its server, and all of them are there although the first to end has closed its logs.
    assert sorted(line["other_id"][-2:] for line in logged if line["event"] == "server_started") == [":1", ":2"]
    assert [line["message"] for line in logged if line["event"] == "library_logged"] == ["slow callback"]
