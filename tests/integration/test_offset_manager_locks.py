"""An offset manager process replays the locks of orderly clients, finds two holders of a queue, and shows both."""

import asyncio
import contextlib
import socket

import pytest
from fakes.locking_broker import LockingBroker, OrderlyClient
from holder_builders import BROKER, GROUP
from peers.offset_managers import OffsetManager
from peers.scripted import Line, ScriptedBroker
from peers.servers import OurNameServer
from peers.waiting import wait_until

CLUSTER = "C"


@pytest.fixture
def namesrv(tmp_path):
    namesrv = OurNameServer(tmp_path).start()
    yield namesrv
    assert namesrv.process.stop() == 0


def follow(manager, namesrv, broker, client):
    """Let the process follow the broker, look at its holders, and see it restart and a second holder."""
    line = Line(socket.create_connection(("127.0.0.1", namesrv.port), timeout=60))
    with contextlib.closing(line):
        ScriptedBroker(line, BROKER, address=broker.address, cluster=CLUSTER).register({"TopicTest": 4, "Other": 4})
        assert manager.get(f"/v1/locks/holders?group={GROUP}&cluster={CLUSTER}").body["kind"] == "unknown"
        manager.post("/v1/locks/declare-orderly", {"writer": "alice", "group": GROUP, "cluster": CLUSTER})
        wait_until(lambda: manager.metric("broker_locks_held") == 2, seconds=60, what="the holder is mirrored")
        found = manager.get(f"/v1/locks/holders?group={GROUP}&cluster={CLUSTER}").body
        assert (found["isDeclared"], found["kind"], found["members"]) == (True, "orderly", 1)
        assert [each["queueId"] for each in found["holders"][0]["queues"]] == [0, 1]

        broker.restart()
        wait_until(lambda: manager.events("broker_locks_replayed"), seconds=60, what="the locks are replayed")
        assert broker.locks == {(GROUP, 0): "c1", (GROUP, 1): "c1"}
        assert manager.metric('broker_lock_replays_total{outcome="granted"}') == 2

        broker.clients["c2"] = OrderlyClient(1)
        wait_until(lambda: manager.metric("broker_lock_overlaps") == 1, seconds=60, what="the overlap is found")
        (overlap,) = manager.get("/v1/locks/overlaps").body["overlaps"]
        assert (overlap["cluster"], overlap["queueId"], overlap["clients"]) == (CLUSTER, 1, ["c1", "c2"])
        (logged,) = manager.events("broker_lock_overlap")
        assert (logged["cluster"], logged["group"], logged["clients"]) == (CLUSTER, GROUP, ["c1", "c2"])
        client.locked.pop(1)
        wait_until(lambda: manager.events("broker_lock_overlap_ended"), seconds=60, what="the overlap is over")


async def test_process_replays_locks_at_a_restarted_master_and_reports_two_holders(tmp_path, namesrv):
    broker = await LockingBroker().open()
    client = broker.clients["c1"] = OrderlyClient(0, 1)
    manager = OffsetManager(tmp_path, namesrv_addr=namesrv.address, lock_replay="on")
    await asyncio.to_thread(manager.start)
    try:
        await asyncio.to_thread(follow, manager, namesrv, broker, client)
    finally:
        assert await asyncio.to_thread(manager.process.stop) == 0
        await broker.close()


def test_manager_that_follows_no_brokers_has_no_holders(tmp_path):
    manager = OffsetManager(tmp_path).start()
    answer = manager.get("/v1/locks/overlaps")
    assert (answer.status, answer.code) == (409, "conflict")
    assert "controllerHttpAddr" in answer.sentence
    assert manager.process.stop() == 0
