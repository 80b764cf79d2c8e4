"""Restores, imports and jumps at real brokers: of a group that is not online on each release, and of consumers."""

import base64
import contextlib

import pytest
from java_pairs import (
    FAST,
    SOON_S,
    ask,
    commit,
    committed,
    end_of,
    jumps,
    lone_broker,
    make_group,
    make_topic,
    manager_of,
    online,
    read_again,
    received,
)
from peers.clocks import WallClock, why_not
from peers.jars import V4_9, V5_1, V5_5, V5_5_1
from peers.lab import Lab
from peers.programs import cannot_run
from peers.waiting import wait_until

from remoting.admin.topics import delete_topic

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(600)]

IDLE, READERS = "idle-readers", "readers"
ORDERS, RENEWED = "orders", "renewed"


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


@pytest.fixture
def namesrv(lab):
    return lab.name_server()


@pytest.fixture
def manager(lab, namesrv):
    return manager_of(lab, namesrv_addr=namesrv.address, reading_period_ms=1000)


def lag_of(manager, group):
    """Return the lag in queue 0; brokers are not read for it more often than once a second."""
    path = f"/v1/offsets/lag?group={group}"
    found = wait_until(
        lambda: (answer := manager.get(path)).status == 200 and answer, seconds=SOON_S, what="the lag is read"
    )
    return {queue["queueId"]: queue["lag"] for queue in found.body["queues"]}.get(0)


def restored(manager, path="/v1/offsets/restore", **body):
    return manager.post(path, {"writer": "alice"} | body).body


def outcomes(answer):
    return [(queue["status"], queue["old"], queue["new"]) for queue in answer["queues"]]


@pytest.mark.parametrize("version", [V4_9, V5_1, V5_5, V5_5_1])
def test_a_group_that_was_set_back_by_mistake_is_restored_and_that_is_undone(lab, namesrv, manager, version):
    broker = lone_broker(lab, namesrv, version)
    make_topic(broker, ORDERS, messages=30)
    make_group(broker, IDLE)
    commit(broker, IDLE, ORDERS, 30)
    wait_until(lambda: lag_of(manager, IDLE) == 0, seconds=SOON_S, what="no lag")
    moment = read_again(manager, times=3)
    commit(broker, IDLE, ORDERS, 10)
    assert lag_of(manager, IDLE) == 20
    listed = lambda: jumps(manager, group=IDLE)  # noqa: E731
    wait_until(listed, seconds=SOON_S, what="the jump is listed")
    assert listed() == [("reset", 30, 10)]

    wanted = {"moment": moment, "group": IDLE}
    assert outcomes(restored(manager, **wanted)) == [("not proved", 10, 30)]
    # Somebody has set it, and no member is online that shows that the group pulls.
    wanted |= {"overResets": True, "pulls": True}
    assert outcomes(restored(manager, dryRun=True, **wanted)) == [("would change", 10, 30)]
    done = restored(manager, **wanted)
    assert (outcomes(done), committed(broker, IDLE, ORDERS)) == ([("done", 10, 30)], 30)
    undone = restored(manager, "/v1/offsets/undo", operationId=done["operationId"])
    assert (outcomes(undone), committed(broker, IDLE, ORDERS)) == ([("done", 30, 10)], 10)


def test_a_rewind_is_listed_also_where_no_manager_has_seen_it(lab, namesrv, manager):
    broker = lone_broker(lab, namesrv, V5_5)
    make_topic(broker, ORDERS, messages=40)
    make_group(broker, IDLE)
    commit(broker, IDLE, ORDERS, 40)
    read_again(manager, times=3)
    manager.process.kill()
    commit(broker, IDLE, ORDERS, 15)
    manager.start()
    wait_until(lambda: jumps(manager, group=IDLE), seconds=SOON_S, what="what went back while no manager ran")
    read_again(manager, times=3)
    assert jumps(manager, group=IDLE) == [("reset", 40, 15)]
    assert committed(broker, IDLE, ORDERS) == 15


def test_consumers_that_are_online_go_to_an_imported_offset(lab, namesrv, manager):
    broker = lone_broker(lab, namesrv, V5_5)
    make_topic(broker, ORDERS, messages=30)
    readers = lab.consumer(READERS, namesrv=[namesrv.address], topic=ORDERS, group=READERS, **FAST).ready()
    wait_until(lambda: lag_of(manager, READERS) == 0, seconds=SOON_S, what="the group has read all")

    file = base64.b64encode(b'{"offsetTable":{"%s@%s":{0:10}}}' % (ORDERS.encode(), READERS.encode())).decode()
    wanted = {"dialect": "broker", "file": file, "brokerName": broker.name, "target": "broker"}
    assert outcomes(restored(manager, "/v1/offsets/import", **wanted)) == [("not proved", 30, 10)]
    done = restored(manager, "/v1/offsets/import", allowBack=True, **wanted)
    assert outcomes(done) == [("done", 30, 10)]
    assert done["queues"][0]["messagesAgain"] == 20
    wait_until(lambda: received(readers) == 30 + 20, seconds=SOON_S, what="messages are read again")


def test_a_topic_that_was_made_anew_is_not_proved_whatever_the_clock_of_its_broker_says(lab, namesrv, manager):
    if reason := why_not():
        cannot_run(reason)
    (folder := lab.folder / "clock").mkdir()
    clock = WallClock(folder)
    # The new messages are stored before the moment, by the broker's clock.
    clock.jump_to(-600)
    broker = lone_broker(lab, namesrv, V5_5, environment=clock.environment)
    online(lab, broker, READERS, namesrv=[namesrv.address])
    for topic in (ORDERS, RENEWED):
        make_topic(broker, topic, messages=100)
        commit(broker, READERS, topic, 80)
    moment = read_again(manager, times=3)
    ask(broker.address, delete_topic(RENEWED))
    make_topic(broker, RENEWED, messages=100)
    commit(broker, READERS, ORDERS, 10)
    read_again(manager, times=3)

    wanted = {"moment": moment, "group": READERS, "overResets": True}
    assert outcomes(restored(manager, topic=RENEWED, **wanted)) == [("not proved", None, 80)]
    assert committed(broker, READERS, RENEWED) is None
    assert outcomes(restored(manager, topic=ORDERS, **wanted)) == [("done", 10, 80)]
    assert end_of(broker, RENEWED) == 100
