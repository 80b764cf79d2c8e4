"""An offset manager process guards a broker that starts again with older offsets, and shows what it did."""

import asyncio
import contextlib
import socket

import pytest
from fake_master import FakeMaster
from guard_logs import Queue
from peers.offset_managers import OffsetManager
from peers.scripted import Line, ScriptedBroker
from peers.servers import OurNameServer
from peers.waiting import wait_until

from controller.offsets.guard.boundaries import CLOCK_MARGIN_MS
from remoting.clock import SystemClock

KEYS = ("orders@g", "orders@h")
WAIT_S = 60


@pytest.fixture
def namesrv(tmp_path):
    namesrv = OurNameServer(tmp_path).start()
    yield namesrv
    assert namesrv.process.stop() == 0


@pytest.fixture
async def broker():
    """A broker without a controller, whose groups pull."""
    broker = FakeMaster({("orders", 0): Queue(old=100, new=20)}, {key: {0: 80} for key in KEYS}, epochs=None)
    broker.clients = {"g": "pulls", "h": "pulls"}
    await broker.peer.open()
    yield broker
    await broker.peer.close()


async def eventually(condition, what):
    return await asyncio.to_thread(wait_until, condition, seconds=WAIT_S, what=what)


async def test_broker_that_was_started_again_gets_its_offsets_back(tmp_path, namesrv, broker):
    options = {"namesrv_addr": namesrv.address, "mirror_period_ms": 1000, "guard": "act"}
    manager = await asyncio.to_thread(OffsetManager(tmp_path, **options).start)
    line = Line(socket.create_connection(("127.0.0.1", namesrv.port), timeout=WAIT_S))
    try:
        with contextlib.closing(line):
            ScriptedBroker(line, "b", address=broker.peer.address).register({"orders": 1, "payments": 1})
            await eventually(lambda: manager.metric('mirrored_sets{state="fresh"}') == 1, "the mirror has read it")
            assert (await asyncio.to_thread(manager.get, "/v1/offsets/guard")).body["runs"] == []
            for key in KEYS:
                broker.offsets[key] = {0: 60}
            # By its own clock, which is ahead: only so it was certainly not running when it was read.
            broker.boot_ms = SystemClock().unix_ms() + CLOCK_MARGIN_MS + 1000
            await eventually(lambda: len(broker.written) == len(KEYS), "offsets are written")
            await eventually(lambda: manager.metric('guard_sets{state="running"}') == 0, "the run has ended")
            # And once more, but it does not fill its queues: the manager stops without waiting for it.
            broker.behind_bytes = 500
            broker.boot_ms += 1000
            await eventually(lambda: manager.metric('guard_sets{state="waiting"}') == 1, "the guard waits for it")
        await shows_the_run(manager)
    finally:
        assert await asyncio.to_thread(manager.process.stop) == 0
    assert {each[1:] for each in broker.written} == {(key, 0, 80) for key in KEYS}


async def shows_the_run(manager):
    listing = (await asyncio.to_thread(manager.get, "/v1/offsets/guard")).body
    assert listing["mode"] == "act"
    # The mirror may have seen the start first: the run that began then was ended as the manager saw it too.
    (run,) = (each for each in listing["runs"] if each["result"] != "ended")
    assert (run["brokerName"], run["writes"], run["result"], run["error"]) == ("b", True, "complete", "")
    assert run["counts"] == [{"action": "push", "reason": "behind", "outcome": "stored", "offsets": 2}]
    path = f"/v1/offsets/guard/{run['run']}"
    page = (await asyncio.to_thread(manager.get, f"{path}?limit=1")).body
    assert [(each["group"], each["saved"], each["oldOffset"], each["newOffset"]) for each in page["offsets"]] == [
        ("g", 80, 60, 80)
    ]
    rest = (await asyncio.to_thread(manager.get, f"{path}?cursor={page['nextCursor']}")).body
    assert ([each["group"] for each in rest["offsets"]], rest["nextCursor"]) == (["h"], None)
    missing = await asyncio.to_thread(manager.get, "/v1/offsets/guard/99")
    assert (missing.status, missing.code) == (404, "not_found")
    assert manager.events("offsets_guarded")[-1]["push"] == 2
