"""An offset manager process follows masters at a real NameServer, and shows what it knows."""

import asyncio
import contextlib
import socket

import pytest
from fakes.answering_peer import AnsweringPeer, success
from peers.offset_managers import OffsetManager
from peers.scripted import Line, ScriptedBroker
from peers.servers import OurNameServer
from peers.waiting import wait_until

BOOT_MS = 1_000


@pytest.fixture
def namesrv(tmp_path):
    namesrv = OurNameServer(tmp_path).start()
    yield namesrv
    assert namesrv.process.stop() == 0


async def test_manager_knows_the_masters_of_its_name_servers(tmp_path, namesrv):
    broker = await AnsweringPeer(lambda *_: success({"table": {"bootTimestamp": str(BOOT_MS)}})).open()
    manager = await asyncio.to_thread(OffsetManager(tmp_path, namesrv_addr=namesrv.address).start)

    try:
        line = Line(socket.create_connection(("127.0.0.1", namesrv.port), timeout=60))
        with contextlib.closing(line):
            ScriptedBroker(line, "broker-a", address=broker.address).register({"a": 4, "b": 4})
            await asyncio.to_thread(
                wait_until, lambda: manager.metric('followed_sets{master="yes"}') == 1, seconds=60, what="a master"
            )
        (found,) = manager.events("master_changed")
        assert (found["broker"], found["kind"], found["addr"]) == ("broker-a", "found", broker.address)
        assert await asyncio.to_thread(manager.metric, "masters_known") == 1
    finally:
        assert await asyncio.to_thread(manager.process.stop) == 0
        await broker.close()
