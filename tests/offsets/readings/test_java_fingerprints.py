"""Fingerprints of the logs of real brokers: busy, idle, at the end of a file, and after kill -9."""

import asyncio
import contextlib

import pytest
from peers.jars import V4_9, V5_5
from peers.lab import Lab
from peers.servers import registered
from peers.waiting import wait_until
from peers.wire import Caller

from offsets.at_broker import AtBroker, LogWatch
from offsets.proof import NoMessage
from offsets.values import SetName
from remoting.admin.brokers import broker_runtime
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.topics import TopicDefinition, update_topic
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.errors import Refused

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

FILE_BYTES = 64 * 1024
QUEUES = 4
SEND_MESSAGE = 310
TOPIC = TopicDefinition(topic="orders", read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=6)


class Log:
    """The log of one real broker, and who reads it."""

    def __init__(self, broker, client):
        self.broker, self.address = broker, broker.address
        self.admin = AdminClient(client, AdminLimits(timeout_ms=15_000))
        self.at, self.watch = AtBroker(self.admin, SetName("", ""), self.address, busy_tries=0), LogWatch()
        self._sent = 0

    def send(self, count, *, body=bytes(900)):
        for _ in range(count):
            queue_id = str(self._sent % QUEUES)
            words = ["direct", "orders", "orders", "4", queue_id, "0", "1700000000000", "0", "", "0", "false"]
            fields = dict(zip("abcdefghijk", words, strict=True))
            assert Caller(self.address).request(SEND_MESSAGE, fields, body).code == 0
            self._sent += 1

    async def limits(self):
        runtime = await self.admin.call(self.address, broker_runtime())
        return runtime.commit_log_min_offset, runtime.commit_log_max_offset

    async def look(self):
        begin, end = await self.limits()
        return await self.watch.look(self.at, begin, end, end)


async def ready(log):
    """Wait until a broker of 4.9 tells where its log ends: it refuses in its first second."""
    for _ in range(100):
        try:
            return await log.limits()
        except Refused:
            await asyncio.sleep(0.2)
    raise AssertionError("the broker does not tell where its log ends")


@pytest.fixture(params=[V5_5, V4_9])
def broker(request, tmp_path):
    with contextlib.closing(Lab(tmp_path)) as lab:
        namesrv = lab.name_server()
        broker = lab.broker(
            "b1",
            namesrv=[namesrv.address],
            version=request.param,
            mappedFileSizeCommitLog=FILE_BYTES,
            # Nothing but the test writes into the log.
            traceTopicEnable=False,
        )
        broker.start().ready()
        wait_until(lambda: registered(namesrv, broker), seconds=60, what="the broker")
        yield broker


@pytest.fixture
async def client():
    client = RemotingClient(SystemClock())
    yield client
    await client.close()


async def test_a_log_is_known_again_by_its_messages(broker, client):
    log = Log(broker, client)
    await ready(log)
    await log.admin.call(log.address, update_topic(TOPIC))
    log.send(100)

    # Idle from the start: the last message is found by a short walk.
    assert await log.look() is None
    last = await log.look()
    begin, end = await log.limits()
    assert (last.end, last.topic) == (end, "orders")
    assert await log.look() is None

    # Busy: one look at the end of the reading before.
    log.send(6)
    found = [await log.look()]
    assert found[0].place == end

    # It stands still again, and goes on over the end of a file.
    found.append(await log.look())
    assert found[1].end == (await log.limits())[1]
    while found[-1].place % FILE_BYTES:
        before = (await log.limits())[1]
        log.send(1)
        found.append(await log.look())
        assert found[-1].place in (before, (before // FILE_BYTES + 1) * FILE_BYTES)
    files = await log.at.first_of_files(begin, (await log.limits())[1], FILE_BYTES)
    assert [each.place for each in files] == list(range(begin, found[-1].end, FILE_BYTES))

    # No message begins at the end, in the middle of a message, and where a file ends.
    end = (await log.limits())[1]
    ends_of_file = [found[-2].end] if found[-2].end % FILE_BYTES else []
    for place in (end, end + 1000, found[0].place + 1, found[0].place + 40, *ends_of_file):
        assert await log.at.look_alone(place) is NoMessage.ABSENT

    # Other bytes of one are taken for a length: a negative one, a small one, and one that the file does not have.
    for words in ("你好吗".encode() * 2, bytes([0, 0, 0, 64]), b"text"):
        _, place = await log.limits()
        log.send(1, body=words * 50)
        for inside in range(place + 88, place + 130):
            assert await log.at.look_alone(inside) is NoMessage.ABSENT

    log.broker.process.kill()
    assert await log.at.look_alone(last.place) is NoMessage.UNKNOWN
    log.broker.start().ready()
    await ready(log)
    for known in (last, *found, *files):
        assert await log.at.look_alone(known.place) == known
