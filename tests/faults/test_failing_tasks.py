"""Every background task of a server fails, in every way, and the server goes on serving."""

import asyncio
from collections.abc import Coroutine

import aiohttp
import pytest
from fakes.lines import Lines
from peers.processes import free_port
from prometheus_client.parser import text_string_to_metric_families

from controller.app import service
from controller.app.service import Controller
from controller.config import ControllerConfig
from controller.observability import analytics_results
from namesrv.app.service import NameServer
from namesrv.recording import route_recorder
from namesrv.settings.config import NameServerConfig
from namesrv.settings.kv_config import KvConfig
from remoting.clock import SystemClock
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.frame import encode
from remoting.protocol.frame_reader import CommandReader
from serving.logging.logs import Logs, json_line
from serving.process import background_tasks, recording, server_certificate
from serving.process.background_tasks import logged_tasks
from serving.process.process import Runtime
from serving.process.signals import Signals

SOON_S = 60


class OddFailure(BaseException):
    """Not even an Exception."""


FAILURES = (RuntimeError, MemoryError, RecursionError, asyncio.CancelledError, TimeoutError, OddFailure)

#: What any server does for as long as it serves, and what each does beside that.
COMMON = {"measure_lag", "write_held_lines", "watch_certificate", "give_memory_back", "tick"}
NAME_SERVER = COMMON | {"scan", "take_snapshots"}
CONTROLLER = COMMON | {"look_at_brokers", "look_at_sets", "read_results", "poll_store_size"}
FOREVER = NAME_SERVER | CONTROLLER


class FailingCoroutine(Coroutine):
    """The coroutine of a task, into which failures are thrown where it waits."""

    def __init__(self, coroutine, failures):
        self._coroutine = coroutine
        self._failures = failures
        self._steps = -1

    def send(self, value):
        left = self._failures.get(asyncio.current_task().get_name())
        self._steps += 1
        # What runs for ever waits for the end of its pause first, then works until it waits for something of its own.
        if left and self._steps >= (2 if asyncio.current_task().get_name() in FOREVER else 1):
            self._steps = 0
            return self._coroutine.throw(left.pop())
        return self._coroutine.send(value)

    def throw(self, *error):
        return self._coroutine.throw(*error)

    def close(self):
        self._coroutine.close()

    def __await__(self):
        return self


class Served:
    """A server in this process, tasks of which fail as `failures` says: name -> what is raised, the last one first."""

    def __init__(self, make):
        self.failures = {}
        loop = asyncio.get_running_loop()
        loop.set_task_factory(
            lambda loop, work, **more: asyncio.Task(FailingCoroutine(work, self.failures), loop=loop, **more)
        )
        self.lines, self.signals = Lines(), Signals()
        self.logs = Logs(self.lines, json_line(), SystemClock(), {})
        self.tasks = logged_tasks(self.logs)
        self.server = make(Runtime(SystemClock(), self.logs, self.tasks, self.signals))
        self.running = loop.create_task(self._run())

    async def _run(self):
        async with self.tasks:
            await self.server.run()

    @property
    def address(self):
        return self.server._server.address

    def events(self, name):
        return [line for line in self.lines.decoded() if line["event"] == name]

    async def until(self, is_true, what):
        async with asyncio.timeout(SOON_S):
            while not is_true():
                assert not self.running.done(), "the server has ended"
                await asyncio.sleep(0.02)

    async def request(self, code):
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(encode(RemotingCommand(code, opaque=7)))
        answers, commands = [], CommandReader()
        while not answers:
            answers += commands.receive(await reader.read(65536))
        writer.close()
        return answers[0]

    async def stop(self):
        self.signals.stop.set()
        await asyncio.wait_for(self.running, SOON_S)
        self.logs.close(1)
        asyncio.get_running_loop().set_task_factory(None)


@pytest.fixture
def _hasty(monkeypatch):
    """What happens each some seconds happens much more often."""
    monkeypatch.setattr(background_tasks, "_HELD_LINES_S", 0.05)
    monkeypatch.setattr(background_tasks, "_FREE_MEMORY_LOOK_S", 0.05)
    monkeypatch.setattr(server_certificate, "_LOOK_S", 0.05)
    monkeypatch.setattr(recording, "TICK_INTERVAL_MS", 50)
    monkeypatch.setattr(route_recorder, "_LOOK_S", 0.05)
    monkeypatch.setattr(analytics_results, "_LOOK_S", 0.05)
    monkeypatch.setattr(service, "_POLL_S", 0.05)


def a_name_server(folder, http_port):
    config = NameServerConfig(
        bind_address="127.0.0.1",
        listen_port=0,
        http_port=http_port,
        history_dir=str(folder / "history"),
        kv_config_path=str(folder / "kv"),
        config_store_path=str(folder / "kept"),
        scan_not_active_broker_interval_ms=50,
        notify_min_broker_id_changed=True,
    )
    return Served(lambda runtime: NameServer(config, KvConfig(), runtime))


def a_controller(folder, http_port):
    config = ControllerConfig(
        bind_address="127.0.0.1",
        listen_port=0,
        http_port=http_port,
        controller_store_path=str(folder / "store"),
        config_store_path=str(folder / "kept"),
        history_dir=str(folder / "history"),
        analytics_dir=str(folder / "analytics"),
    )
    return Served(lambda runtime: Controller(config, runtime))


async def failures_scraped(http_port):
    async with aiohttp.ClientSession() as session:
        text = await (await session.get(f"http://127.0.0.1:{http_port}/metrics")).text()
    return {
        sample.labels["task"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.endswith("_background_task_failures_total")
    }


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize(
    ("make", "forever", "code"),
    [
        (a_name_server, NAME_SERVER, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
        (a_controller, CONTROLLER, RequestCode.CONTROLLER_GET_METADATA_INFO),
    ],
)
async def test_server_continues_after_any_exception_of_a_periodic_background_task(make, forever, code, tmp_path):
    http_port = free_port()
    served = make(tmp_path, http_port)
    await served.until(lambda: served.events("server_ready"), "it is ready")
    running = {name for name in served.tasks.failures if name in forever}
    assert running == forever, "a task without a test"
    served.failures.update({name: [*FAILURES] for name in forever})
    await served.until(lambda: not any(served.failures.values()), "each has failed in each way")
    # Whoever begins again has yet to come to what it does.
    await served.until(lambda: all(served.tasks.failures[name] == len(FAILURES) for name in forever), "all are counted")
    assert (await served.request(code)).code == 0
    scraped = await failures_scraped(http_port)
    assert {name: scraped[name] for name in forever} == dict.fromkeys(forever, len(FAILURES))
    assert {line["task"] for line in served.events("background_task_failed")} <= forever
    assert served.events("background_task_failed")
    # They all run again: what is thrown once more is met again.
    served.failures.update({name: [RuntimeError] for name in forever})
    await served.until(lambda: not any(served.failures.values()), "all run again")
    await served.stop()
    assert served.events("server_stopped")
    assert not served.events("server_failed")


async def brokers_come_and_go(served, count):
    """Have tasks started that remove brokers, answer requests and notify brokers."""
    for number in range(count):
        writers = []
        for broker_id in (5, 3):
            reader, writer = await asyncio.open_connection(*served.address)
            writers.append(writer)
            fields = {
                "clusterName": "C",
                "brokerName": f"broker-{number}",
                "brokerId": str(broker_id),
                "brokerAddr": f"127.0.0.1:{broker_id}",
                "enableActingMaster": "true",
            }
            writer.write(encode(RemotingCommand(RequestCode.REGISTER_BROKER, opaque=1, ext_fields=fields)))
            await reader.read(65536)
        for writer in writers:
            writer.close()


async def test_name_server_continues_after_any_exception_in_work_for_brokers(tmp_path):
    served = a_name_server(tmp_path, free_port())
    await served.until(lambda: served.events("server_ready"), "it is ready")
    names = ("remove_lost_brokers", "notify_min_broker_id_change")
    served.failures.update({name: [*FAILURES] for name in names})
    async with asyncio.timeout(SOON_S):
        while any(served.failures.values()):
            await brokers_come_and_go(served, 2)
            await asyncio.sleep(0.05)
    assert (await served.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).code == 0
    await brokers_come_and_go(served, 2)
    assert {name: served.tasks.failures[name] for name in names} == dict.fromkeys(names, len(FAILURES))
    await served.stop()
    assert not served.events("server_failed")
