"""The facts that the guard relies on, and the guard itself, with real brokers whose master is lost."""

import contextlib
import json
import re
import shutil
import time

import pytest
from java_sets import SOON_S, UNIX, Pair, admin, end_of, guard, look, mirrored, online, table
from peers.jars import V4_9, V5_1, V5_5
from peers.lab import Lab
from peers.waiting import wait_until
from peers.wire import Caller

from controller.offsets.guard.boundaries import CLOCK_MARGIN_MS
from controller.offsets.guard.candidates import TableKey
from controller.offsets.guard.rules import Tail
from remoting.admin.groups import configured_groups
from remoting.admin.offsets import OffsetCommit, commit_offset, reset_offset
from remoting.admin.stored_messages import message_in_log

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(600)]

#: In the topics of these tests nobody reads for it.
IDLE = "idle-readers"
PULL_MESSAGE = 11
UPDATE_GROUP = 200
FEW = 200
#: What a slave has of the first commit. One of 5.5.0 cannot read its master's table (43) any more once anybody has
#: pulled from it: its JSON library fails at the integer keys of `pullOffsetTable`, and it keeps what it had.
COPIED = {V5_1: {0: 20}, V5_5: None}
#: What is stored, read and started in less than the margin for clocks proves nothing.
LONGER_THAN_MARGIN_S = CLOCK_MARGIN_MS / 1000 + 1
FAST = {"interval-ms": 4, "poll-ms": 200}


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


def create_group(broker):
    """From 5.3.0 on a broker takes offsets of groups alone that it has."""
    answer = Caller(broker.address).request(UPDATE_GROUP, {}, json.dumps({"groupName": IDLE}).encode())
    assert answer.code == 0, answer


def pull(broker, topic):
    """Pull a message, as any consumer does."""
    fields = {"consumerGroup": "TOOLS_CONSUMER", "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "1"}
    # The subscription is in the request, which is answered at once.
    fields |= {"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0"}
    answer = Caller(broker.address).request(PULL_MESSAGE, fields)
    assert answer.code == 0, answer


def commit(broker, topic, offset):
    """Commit an offset of a group that is not online."""
    create_group(broker)
    assert admin(broker.address, commit_offset(IDLE, topic, 0, offset)) is OffsetCommit.STORED


@pytest.mark.parametrize("version", [V5_1, V5_5])
def test_offset_of_a_group_that_reads_elsewhere_is_pushed_to_the_promoted_slave(lab, version):
    pair = Pair(lab, version)
    online(lab, pair.master, pair.namesrv, IDLE)
    load = lab.load("load", **pair.clients()).ready()
    load.wait_for_more(count=200)
    before = {offset: look(pair.master.address, pair.topic, offset) for offset in (0, 19, 150)}
    assert look(pair.slave.address, pair.topic, 19) == before[19]
    pull(pair.master, pair.topic)
    commit(pair.master, pair.topic, 20)
    key = TableKey(IDLE, pair.topic)
    copied = COPIED[version]
    wait_until(lambda: table(pair.slave.address, pair.topic).get(key) == copied, seconds=SOON_S, what="copied offsets")
    commit(pair.master, pair.topic, 150)
    mirror = pair.mirrored()
    has_group = lambda: IDLE in admin(pair.slave.address, configured_groups())  # noqa: E731
    wait_until(has_group, seconds=SOON_S, what="the slave has the group")
    epoch = pair.kill_master()
    load.wait_for_more(count=50)

    assert {offset: look(pair.slave.address, pair.topic, offset) for offset in before} == before
    start = pair.epochs(pair.slave)[epoch]
    last = look(pair.slave.address, pair.topic, end_of(pair.slave.address, pair.topic) - 1)
    assert before[150] < start <= last
    assert admin(pair.slave.address, message_in_log(start)).store_unix_ms > mirror.moment.unix_ms
    assert table(pair.slave.address, pair.topic).get(key) == copied

    notes, report = guard(pair.slave, mirror, Tail.KEPT)

    assert report.failure is None
    assert notes.of(IDLE) == ("push", 150, "stored")
    assert table(pair.slave.address, pair.topic)[key] == {0: 150}


def test_lost_tail_is_recognised_after_new_messages_have_refilled_it(lab):
    pair = Pair(lab, V5_5, allAckInSyncStateSet=False, haMaxTimeSlaveNotCatchup=3000)
    pair.send(200)
    kept = end_of(pair.master.address, pair.topic)
    wait_until(lambda: end_of(pair.slave.address, pair.topic) == kept, seconds=SOON_S, what="the slave has all")
    create_group(pair.master)
    wait_until(lambda: IDLE in admin(pair.slave.address, configured_groups()), seconds=SOON_S, what="the group")
    pair.freeze_slave()
    pair.send(100)
    lost = end_of(pair.master.address, pair.topic)
    commit(pair.master, pair.topic, lost)
    mirror = pair.mirrored()
    epoch = pair.kill_master()
    pair.send(400)
    # Only now: of a broker that was paused, connections may be left over through which it does not reach its clients.
    online(lab, pair.slave, pair.namesrv, IDLE)
    assert end_of(pair.slave.address, pair.topic) > lost > kept

    notes, report = guard(pair.slave, mirror)

    assert report.failure is None
    assert notes.of(IDLE) == ("set", kept, "stored")
    start = pair.epochs(pair.slave)[epoch]
    assert look(pair.slave.address, pair.topic, kept - 1) < start == look(pair.slave.address, pair.topic, kept)


def test_group_that_is_online_reads_all_new_messages_after_a_lost_tail(lab):
    pair = Pair(lab, V5_5, allAckInSyncStateSet=False, haMaxTimeSlaveNotCatchup=3000)
    load = lab.load("load", **pair.clients(threads=4, **FAST)).ready()
    group = "readers"
    readers = lab.consumer("readers", **pair.clients(group=group, **{"poll-ms": 200})).ready()
    wait_until(lambda: len(readers.got()) > FEW, seconds=SOON_S, what="the group reads")
    time.sleep(6)
    pair.freeze_slave()
    time.sleep(5)
    mirror = pair.mirrored()
    lost_ms = UNIX.unix_ms()
    epoch = pair.kill_master()
    notes, report = guard(pair.slave, mirror)

    assert report.failure is None
    start = pair.epochs(pair.slave)[epoch]
    assert notes.of(group)[0] == "set", notes.by_queue
    end = notes.by_queue[group, 0].decision.offset
    assert look(pair.slave.address, pair.topic, end - 1) < start <= look(pair.slave.address, pair.topic, end)
    load.wait_for_more(count=2000, seconds=SOON_S).stop()
    sent = {each.key for each in load.acknowledged() if each.port == pair.slave.port and each.unix_ms > lost_ms}
    readers.wait_for_all(sent, seconds=SOON_S)


@pytest.fixture
def namesrv(lab):
    return lab.name_server()


def started(lab, namesrv, version, **properties):
    return lab.broker("alone", namesrv=[namesrv.address], version=version, **properties).start().ready()


def sent_to(lab, namesrv, broker, version, count):
    """Send so many messages to the topic that has the name of the broker."""
    load = lab.load("load", namesrv=[namesrv.address], topic=broker.name, version=version, **FAST).ready()
    load.wait_for_more(count=count, seconds=SOON_S).stop()


def stored_on_disk(broker, offset):
    file = broker.store / "config" / "consumerOffset.json"
    return file.exists() and f"0:{offset}" in file.read_text()


def test_offset_that_a_killed_broker_had_not_written_is_pushed_by_when_messages_were_stored(lab, namesrv):
    # It writes offsets ten seconds after its start, and not again while this test needs the second commit unwritten.
    broker = started(lab, namesrv, V4_9, flushConsumerOffsetInterval=60_000)
    sent_to(lab, namesrv, broker, V4_9, 200)
    commit(broker, broker.name, 20)
    wait_until(lambda: stored_on_disk(broker, 20), seconds=SOON_S, what="the offset on disk")
    commit(broker, broker.name, 150)
    time.sleep(LONGER_THAN_MARGIN_S)
    mirror = mirrored(broker.address, broker.name, epoch=None)
    broker.process.kill()
    time.sleep(LONGER_THAN_MARGIN_S)
    broker.start().ready()
    key = TableKey(IDLE, broker.name)
    assert table(broker.address, broker.name)[key] == {0: 20}

    notes, report = guard(broker, mirror)

    assert report.failure is None
    assert notes.of(IDLE) == ("push", 150, "stored")
    assert table(broker.address, broker.name)[key] == {0: 150}


def test_offset_of_a_store_that_was_lost_is_archived_and_never_pushed(lab, namesrv):
    broker = started(lab, namesrv, V5_5)
    sent_to(lab, namesrv, broker, V5_5, 200)
    commit(broker, broker.name, 150)
    mirror = mirrored(broker.address, broker.name, epoch=None)
    broker.process.kill()
    shutil.rmtree(broker.store)
    time.sleep(LONGER_THAN_MARGIN_S)
    broker.start().ready()
    sent_to(lab, namesrv, broker, V5_5, 300)
    create_group(broker)

    notes, report = guard(broker, mirror)

    assert report.failure is None
    assert notes.of(IDLE) == ("archive", 0, "stored")
    assert table(broker.address, broker.name)[TableKey(IDLE, broker.name)] == {0: 0}


def test_client_that_is_online_overwrites_a_commit_and_follows_a_reset(lab, namesrv):
    broker = started(lab, namesrv, V5_5)
    sent_to(lab, namesrv, broker, V5_5, 100)
    group, end = "readers", end_of(broker.address, broker.name)
    clients = {"namesrv": [namesrv.address], "topic": broker.name, "group": group}
    readers = lab.consumer("readers", **clients).ready()
    committed = lambda: table(broker.address, broker.name).get(TableKey(group, broker.name))  # noqa: E731
    wait_until(lambda: committed() == {0: end}, seconds=SOON_S, what="the group has read all")

    admin(broker.address, commit_offset(group, broker.name, 0, 10))
    wait_until(lambda: committed() == {0: end}, seconds=SOON_S, what="the client commits its own position")
    assert received(readers) == end

    admin(broker.address, reset_offset(group, broker.name, 0, 10))
    wait_until(lambda: received(readers) == end + end - 10, seconds=SOON_S, what="messages are read again")


def received(consumer):
    """Return how many messages a consumer got, each as often as it came."""
    return len(re.findall(r"^GOT ", consumer.process.text(), re.MULTILINE))
