"""An offset manager process mirrors the offsets of a broker, and finds what went back, also over a kill -9."""

import asyncio
import contextlib
import socket

import pytest
from fakes.answering_peer import AnsweringPeer, refusal, success
from mirror_builders import body_of
from peers.offset_managers import OffsetManager
from peers.scripted import Line, ScriptedBroker
from peers.servers import OurNameServer
from peers.waiting import wait_until

from controller.offsets.mirror_file.mirror_file import FILE_NAME
from remoting.protocol.codes import BrokerRequestCode

BOOT_MS = 1_700_000_000_000
WAIT_S = 60


class Broker:
    """A broker with offsets at a NameServer; a test changes its table."""

    def __init__(self):
        self.table = {"orders@billing": {0: 100, 1: 7}, "orders@audit": {0: 55}}
        self.log_max_offset = 900
        self.peer = AnsweringPeer(self)

    def __call__(self, code, _fields):
        if code == BrokerRequestCode.GET_ALL_CONSUMER_OFFSET:
            return success(body_of(self.table))
        if code == BrokerRequestCode.GET_BROKER_RUNTIME_INFO:
            state = {"bootTimestamp": str(BOOT_MS), "commitLogMaxOffset": str(self.log_max_offset)}
            return success({"table": state})
        return refusal(1, "not in controller mode")


@pytest.fixture
async def broker():
    broker = Broker()
    await broker.peer.open()
    yield broker
    await broker.peer.close()


@pytest.fixture
def manager(tmp_path, broker):
    """A manager that mirrors the broker; not started."""
    namesrv = OurNameServer(tmp_path).start()
    try:
        with contextlib.closing(Line(socket.create_connection(("127.0.0.1", namesrv.port), timeout=60))) as line:
            ScriptedBroker(line, "broker-a", address=broker.peer.address).register({"orders": 4, "payments": 4})
            manager = OffsetManager(tmp_path, namesrv_addr=namesrv.address, mirror_period_ms=1000)
            yield manager
            if manager.process.running:
                assert manager.process.stop() == 0
    finally:
        assert namesrv.process.stop() == 0


def set_view(manager):
    sets = manager.get("/v1/offsets/mirror").body["sets"]
    return sets[0] if sets else {"state": "unknown"}


def shown(regression):
    return tuple(regression[each] for each in ("group", "queueId", "cause", "fromOffset", "toOffset", "times"))


def regressions(manager, query=""):
    return [shown(each) for each in manager.get(f"/v1/offsets/regressions{query}").body["regressions"]]


async def until(condition, what):
    await asyncio.to_thread(wait_until, condition, seconds=WAIT_S, what=what)


async def fresh(manager):
    await until(lambda: set_view(manager)["state"] == "fresh", "the broker is mirrored")


def stores(manager):
    """Return how often the file was written: within a second of a change, and never without one."""
    return manager.metric('mirror_stores_total{result="ok"}')


async def read_twice(manager):
    """Wait until a reading was begun and ended."""
    name = 'mirror_polls_total{result="ok"}'
    before = await asyncio.to_thread(manager.metric, name)
    await until(lambda: manager.metric(name) >= before + 2, "two further readings")


async def test_rewind_is_found_also_over_a_kill_and_nothing_is_invented(manager, broker):
    await asyncio.to_thread(manager.start)
    await fresh(manager)
    view = await asyncio.to_thread(set_view, manager)
    assert (view["entries"], view["reading"]["address"]) == (2, broker.peer.address)
    await until(lambda: stores(manager) == 1, "the first reading is stored")
    view = await asyncio.to_thread(set_view, manager)
    assert view["keptSinceUnixMs"] <= view["reading"]["readUnixMs"]
    broker.table["orders@billing"] = {0: 40, 1: 7}
    await until(lambda: regressions(manager) == [("billing", 0, "rewind", 100, 40, 1)], "the rewind")
    await until(lambda: stores(manager) == 2, "the rewind is stored")

    manager.process.kill()
    broker.table["orders@billing"] = {0: 10, 1: 9}
    await asyncio.to_thread(manager.start)
    await until(lambda: regressions(manager)[:1] == [("billing", 0, "rewind", 40, 10, 2)], "what went back meanwhile")
    await read_twice(manager)
    assert await asyncio.to_thread(regressions, manager) == [("billing", 0, "rewind", 40, 10, 2)]
    (line,) = manager.events("offset_mirror_loaded")
    assert (line["sets"], line["entries"], line["regressions"]) == (1, 2, 1)
    assert await asyncio.to_thread(manager.metric, 'offset_regressions_total{cause="rewind"}') == 1


async def test_regressions_are_filtered_and_filters_are_checked(manager, broker):
    await asyncio.to_thread(manager.start)
    await fresh(manager)
    broker.table = {"orders@billing": {0: 1, 1: 7}}
    both = {("billing", 0, "rewind", 100, 1, 1), ("audit", 0, "deleted", 55, None, 1)}
    await until(lambda: set(regressions(manager)) == both, "both regressions")
    for query in ("cause=rewind", "group=billing", "brokerName=broker-a&topic=orders&group=billing"):
        assert await asyncio.to_thread(regressions, manager, f"?{query}") == [("billing", 0, "rewind", 100, 1, 1)]
    assert await asyncio.to_thread(regressions, manager, "?brokerName=broker-b") == []
    assert len(await asyncio.to_thread(regressions, manager, "?limit=1")) == 1
    answer = await asyncio.to_thread(manager.get, "/v1/offsets/regressions?cause=bad")
    assert (answer.status, "role_change" in answer.sentence) == (400, True)


async def test_damaged_file_is_moved_aside_and_the_mirror_begins_anew(manager, broker):
    await asyncio.to_thread(manager.start)
    await fresh(manager)
    assert await asyncio.to_thread(manager.process.stop) == 0
    path = manager.folder / "store" / FILE_NAME
    path.write_bytes(b"no database" * 1000)
    await asyncio.to_thread(manager.start)
    await fresh(manager)
    (line,) = manager.events("offset_mirror_moved_aside")
    assert str(path) in line["error"]
    assert await asyncio.to_thread(regressions, manager) == []


async def test_broker_that_does_not_answer_is_stale_and_its_mirror_stays(manager, broker):
    await asyncio.to_thread(manager.start)
    await fresh(manager)
    broker.peer.answer = lambda code, fields: (
        broker(code, fields) if code == BrokerRequestCode.GET_BROKER_RUNTIME_INFO else refusal(1, "No consumer offset")
    )
    await until(lambda: set_view(manager)["state"] == "stale", "the mirror is stale")
    view = await asyncio.to_thread(set_view, manager)
    assert (view["entries"], "No consumer offset" in view["error"]) == (2, True)
    assert await asyncio.to_thread(manager.metric, 'mirrored_sets{state="stale"}') == 1
    await until(lambda: manager.events("offset_mirror_stale"), "a line about it")


def test_manager_without_brokers_says_how_to_follow_some(tmp_path):
    manager = OffsetManager(tmp_path).start()
    answer = manager.get("/v1/offsets/mirror")
    assert (answer.status, "namesrvAddr" in answer.sentence) == (409, True)
    assert not (manager.folder / "store" / FILE_NAME).exists()
    assert manager.process.stop() == 0
