"""Readings of real brokers: what a master had before kill -9 is known, proved and listed as lost afterwards."""

import asyncio
import contextlib

import pytest
from peers.jars import V4_9, V5_5
from peers.lab import Lab
from peers.servers import CLUSTER, registered
from peers.waiting import wait_until
from peers.wire import Caller

from offsets.at_broker import AtBroker
from offsets.config import OffsetManagerConfig
from offsets.proof import LogBefore, LogNow, prove
from offsets.readings.readings import Readings
from offsets.sets.followed import FollowedSet, SetMaster
from offsets.sets.following import Following
from offsets.values import QueueKey, SetName
from remoting.admin.brokers import broker_runtime, ha_status
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.groups import create_group
from remoting.admin.offsets import commit_offset
from remoting.admin.topics import TopicDefinition, update_topic
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.errors import Refused
from remoting.protocol.shapes.broker_clients import NewSubscriptionGroup
from serving.shapes.offsets import JumpCause

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

KEY = QueueKey("g", "orders", 0)
TOPIC = TopicDefinition(topic="orders", read_queue_nums=1, write_queue_nums=1, perm=6)
NAME = SetName(CLUSTER, "b1")


@pytest.fixture(params=[V5_5, V4_9])
def pair(request, tmp_path):
    """A master and its slave, which forget what is committed from now on."""
    with contextlib.closing(Lab(tmp_path)) as lab:
        namesrv = lab.name_server()
        settings = {"namesrv": [namesrv.address], "version": request.param, "flushConsumerOffsetInterval": 600_000}
        brokers = [lab.broker("b1", broker_id=broker_id, **settings) for broker_id in (0, 1)]
        for broker in brokers:
            broker.start()
        for broker in brokers:
            broker.ready().has_written_offsets()
            wait_until(lambda broker=broker: registered(namesrv, broker), seconds=90, what="a broker")
        yield brokers


async def until(found, *, seconds=60):
    async with asyncio.timeout(seconds):
        while not (value := found()):
            await asyncio.sleep(0.1)
    return value


async def test_what_a_master_had_before_kill_9_is_known_proved_and_listed(pair, tmp_path):
    master, slave = pair
    clock, client = SystemClock(), RemotingClient(SystemClock())
    admin = AdminClient(client, AdminLimits(timeout_ms=15_000))
    following = Following(clock, lambda event: None)
    readings = Readings(
        client,
        following,
        clock,
        lambda event: None,
        lambda name, error: pytest.fail(f"{name}: {error!r}"),
        OffsetManagerConfig(store_path=str(tmp_path / "manager"), reading_period_ms=1000),
    )
    of = SetMaster(NAME, 0, master.address)
    following.sets = {"b1": FollowedSet(NAME, of, (master.address, slave.address))}
    restarted = []
    readings.restarted.append(restarted.append)

    async def stay_fresh():
        while True:
            following.answered_ms = clock.now_ms()
            await asyncio.sleep(0.2)

    def newest():
        return readings.newest().get(NAME)

    works = [asyncio.create_task(readings.run()), asyncio.create_task(stay_fresh())]
    with contextlib.suppress(Refused):
        await admin.call(master.address, create_group(NewSubscriptionGroup(group_name="g")))
    await admin.call(master.address, update_topic(TOPIC))
    words = ["direct", "orders", "orders", "4", "0", "0", "1700000000000", "0", "", "0", "false"]
    for _ in range(20):
        assert Caller(master.address).request(310, dict(zip("abcdefghijk", words, strict=True)), b"text").code == 0
    await admin.call(master.address, commit_offset("g", "orders", 0, 15))
    await until(lambda: newest() is not None and newest().offset(KEY) == 15)
    # It stands still, and its last message is known.
    before = await until(lambda: (known := readings.known_before(other(of), clock.now_ms())) and idle(known))
    (replica,) = await until(lambda: [row for row in readings.statuses()[0].replicas if row.read_unix_ms])
    assert replica.problem == ""

    master.process.kill()
    await until(lambda: readings.statuses()[0].problem)
    master.start().ready()
    (again,) = await until(lambda: restarted, seconds=120)

    known = readings.known_before(again, clock.now_ms())
    assert known.readings[-1].offset(KEY) == 15
    assert known.fingerprints == before.fingerprints
    at = AtBroker(admin, again.set_name, master.address)
    looks = [await at.look_alone(mark.place) for mark in known.fingerprints]
    runtime = await admin.call(master.address, broker_runtime())
    reading = known.readings[-1]
    if not runtime.version.startswith("V4"):
        assert (await admin.call(master.address, ha_status())).max_offset == runtime.commit_log_max_offset
    now = LogNow(runtime.commit_log_min_offset, runtime.commit_log_max_offset, None, None)
    proof = prove(LogBefore(known.fingerprints, reading.second_end, None), now, looks)
    assert (proof.parted_at, proof.problem) == (None, "")
    assert proof.proves(reading.first_end)
    (jump,) = readings.jumps(9, lambda jump: jump.group == "g")
    assert (jump.cause, jump.removed, jump.queues[0].before) == (JumpCause.RESTART, 1, 15)
    for work in works:
        work.cancel()
    await asyncio.gather(*works, return_exceptions=True)
    await readings.close()
    await client.close()


def other(master):
    return master._replace(address="127.0.0.1:1")


def idle(known):
    newest = known.fingerprints[-1] if known.fingerprints else None
    return known if newest is not None and newest.end == known.readings[-1].first_end else None
