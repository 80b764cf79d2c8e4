"""Masters of a cluster without a controller, followed at a real NameServer through its restart and a broker's end."""

import asyncio
import contextlib
import socket

from fakes.answering_peer import AnsweringPeer, success
from peers.scripted import Line, ScriptedBroker
from peers.servers import OurNameServer

from offsets.sets.by_name_servers import NameServerFollowing
from offsets.sets.followed import MasterChangeKind
from remoting.client import RemotingClient
from remoting.clock import SystemClock


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
    client, changes = RemotingClient(SystemClock()), []
    following = NameServerFollowing([namesrv.address], client, SystemClock(), lambda _: None)
    following.listeners.append(changes.append)

    async def until(*kinds):
        async with asyncio.timeout(60):
            while [change.kind for change in changes] != list(kinds):
                await following.look()
                await asyncio.sleep(0.05)

    try:
        with registered(namesrv, broker):
            await until(MasterChangeKind.FOUND)
            assert changes[0].after.address == broker.address
            boot[0] = 2_000
            await until(MasterChangeKind.FOUND, MasterChangeKind.RESTARTED)
            assert await asyncio.to_thread(namesrv.process.stop) == 0
        await asyncio.to_thread(namesrv.start)
        answered_ms = following.answered_ms
        async with asyncio.timeout(60):
            while following.answered_ms == answered_ms:
                await following.look()
                await asyncio.sleep(0.05)
        assert [change.kind for change in changes] == [MasterChangeKind.FOUND, MasterChangeKind.RESTARTED]
        with registered(namesrv, broker):
            await following.look()
        await broker.close()
        await until(MasterChangeKind.FOUND, MasterChangeKind.RESTARTED, MasterChangeKind.LOST)
    finally:
        await client.close()
        if namesrv.process.running:
            assert await asyncio.to_thread(namesrv.process.stop) == 0
