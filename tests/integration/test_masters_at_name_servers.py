"""Masters of a cluster without a controller, followed at a real NameServer through its restart and a broker's end."""

import asyncio
import contextlib
import socket

from fakes.answering_peer import AnsweringPeer, success
from peers.scripted import Line, ScriptedBroker
from peers.servers import OurNameServer

from controller.offsets.topology.name_servers import NameServerParts, NameServerWatch
from controller.offsets.topology.shown_masters import ShownMasters
from controller.offsets.topology.values import MasterChangeKind
from remoting.client import RemotingClient
from remoting.clock import SystemClock


class Recorder:
    def __init__(self):
        self.changes = []

    def masters_changed(self, changes):
        self.changes += changes

    def name_server_unusable(self, address, problem):
        """It restarts."""

    @property
    def kinds(self):
        return [each.kind for each in self.changes]


@contextlib.contextmanager
def registered(namesrv, broker):
    """Let a broker be registered as long as its connection is open."""
    with contextlib.closing(Line(socket.create_connection(("127.0.0.1", namesrv.port), timeout=60))) as line:
        ScriptedBroker(line, "broker-a", address=broker.address).register({"a": 4, "b": 4})
        yield


async def test_restart_of_a_name_server_loses_no_master_and_the_end_of_its_broker_does(tmp_path):
    boot = [1_000]
    broker = await AnsweringPeer(lambda *_: success({"table": {"bootTimestamp": str(boot[0])}})).open()
    namesrv = await asyncio.to_thread(OurNameServer(tmp_path).start)
    client, recorder = RemotingClient(SystemClock()), Recorder()
    watch = NameServerWatch(
        [namesrv.address], NameServerParts(client, ShownMasters(), recorder, recorder, SystemClock())
    )

    async def until(*kinds):
        async with asyncio.timeout(60):
            while recorder.kinds != list(kinds):
                await watch.look()
                await asyncio.sleep(0.05)

    try:
        with registered(namesrv, broker):
            await until(MasterChangeKind.FOUND)
            assert recorder.changes[0].after.address == broker.address
            boot[0] = 2_000
            await until(MasterChangeKind.FOUND, MasterChangeKind.RESTARTED)
            assert await asyncio.to_thread(namesrv.process.stop) == 0
        await asyncio.to_thread(namesrv.start)
        answered_ms = watch.answered_ms
        async with asyncio.timeout(60):
            while watch.answered_ms == answered_ms:
                await watch.look()
                await asyncio.sleep(0.05)
        assert recorder.kinds == [MasterChangeKind.FOUND, MasterChangeKind.RESTARTED]
        with registered(namesrv, broker):
            await watch.look()
        await broker.close()
        await until(MasterChangeKind.FOUND, MasterChangeKind.RESTARTED, MasterChangeKind.LOST)
    finally:
        await client.close()
        if namesrv.process.running:
            assert await asyncio.to_thread(namesrv.process.stop) == 0
