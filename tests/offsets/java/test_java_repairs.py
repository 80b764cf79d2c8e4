"""An offset manager process repairs offsets at real brokers whose master is killed under load: nothing is skipped."""

import contextlib
import shutil

import pytest
from java_pairs import FAST, SOON_S, Pair, committed, end_of, lone_broker, manager_of, newest_run, read_again
from peers.jars import V5_5
from peers.lab import Lab
from peers.waiting import wait_until

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(900)]

GROUP = "readers"
ASYNCHRONOUS = {"allAckInSyncStateSet": False, "haMaxTimeSlaveNotCatchup": 3000}


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


def run_of_group(manager, count=1):
    """Return the newest run, and what became of the group in the topic of the set."""
    run, queues = newest_run(manager, count)
    return run, [queue["outcome"] for (group, topic), queue in queues.items() if group == GROUP and topic[0] != "%"]


@pytest.mark.parametrize("mode", ["act", "report"])
def test_a_group_goes_on_where_it_was_after_its_master_was_killed(lab, mode):
    pair = Pair(lab, V5_5)
    manager = pair.manager(repair=mode)
    load = lab.load("load", **pair.clients(**FAST)).ready()
    readers = lab.consumer("first", **pair.clients(group=GROUP, **{"poll-ms": 200})).ready()
    wait_until(lambda: (committed(pair.master, GROUP, pair.topic) or 0) > 500, seconds=SOON_S, what="a commit")
    read_again(manager, times=3)
    pair.kill_master()
    run, _ = run_of_group(manager)
    # Its member may have committed to the new master before the manager looks.
    assert not {"failed", "not proved", "set back"} & run["counts"].keys(), run
    assert ("pushed" not in run["counts"]) if mode == "report" else ("would change" not in run["counts"])
    print(f"{mode}: {run['counts']}, first write after {run['firstWriteMs']} ms, whole {run['tookMs']} ms")  # noqa: T201
    load.wait_for_more(count=500, seconds=SOON_S).stop()
    readers.wait_for_all({*lab.scan("scan", **pair.clients()).keys()}, seconds=SOON_S)


def test_a_group_that_is_online_skips_nothing_after_a_lost_tail(lab):
    pair = Pair(lab, V5_5, **ASYNCHRONOUS)
    manager = pair.manager()
    load = lab.load("load", threads=4, **pair.clients(**FAST)).ready()
    readers = lab.consumer("readers", **pair.clients(group=GROUP, **{"poll-ms": 200})).ready()
    wait_until(lambda: (committed(pair.master, GROUP, pair.topic) or 0) > 200, seconds=SOON_S, what="a commit")
    read_again(manager)
    kept = end_of(pair.master, pair.topic)
    pair.freeze_slave()
    wait_until(
        lambda: committed(pair.master, GROUP, pair.topic) > kept + 500, seconds=SOON_S, what="what the slave lacks"
    )
    read_again(manager, times=3)
    pair.kill_master()
    run, outcomes = run_of_group(manager)
    load.wait_for_more(count=2000, seconds=SOON_S).stop()
    assert run["partedAt"] is not None, run
    assert outcomes in (["set back"], ["not proved"]), (run, outcomes)
    readers.wait_for_all({*lab.scan("scan", **pair.clients()).keys()}, seconds=SOON_S)


def test_a_group_that_is_online_skips_nothing_after_an_older_copy_of_a_disk(lab):
    """Without a controller: nothing but messages shows where the logs part."""
    namesrv, topic = lab.name_server(), "alone"
    broker = lone_broker(lab, namesrv, V5_5, topic)
    manager = manager_of(lab, namesrv_addr=namesrv.address, repair="act")
    clients = {"namesrv": [namesrv.address], "topic": topic, "version": V5_5}
    load = lab.load("load", threads=4, **FAST, **clients).ready()
    readers = lab.consumer("readers", group=GROUP, **{"poll-ms": 200}, **clients).ready()
    wait_until(lambda: (committed(broker, GROUP, topic) or 0) > 1000, seconds=SOON_S, what="a commit")
    read_again(manager)
    copy = broker.store.with_name("copy")
    broker.process.kill()
    shutil.copytree(broker.store, copy)
    broker.start().ready()
    kept = end_of(broker, topic)
    wait_until(lambda: (committed(broker, GROUP, topic) or 0) > kept + 3000, seconds=SOON_S, what="more")
    read_again(manager, times=3)
    runs = len(manager.get("/v1/offsets/repairs").body["runs"])
    broker.process.kill()
    shutil.rmtree(broker.store)
    copy.rename(broker.store)
    broker.start().ready()
    run, outcomes = run_of_group(manager, count=runs + 1)
    load.wait_for_more(count=2000, seconds=SOON_S).stop()
    assert run["partedAt"] is not None, run
    assert outcomes == ["set back"], (run, outcomes)
    readers.wait_for_all({*lab.scan("scan", **clients).keys()}, seconds=2 * SOON_S)


def test_a_group_that_is_online_skips_nothing_after_its_broker_came_back_with_an_empty_disk(lab):
    namesrv, topic = lab.name_server(), "alone"
    broker = lone_broker(lab, namesrv, V5_5, topic)
    manager = manager_of(lab, namesrv_addr=namesrv.address, repair="act")
    clients = {"namesrv": [namesrv.address], "topic": topic, "version": V5_5}
    load = lab.load("load", threads=4, **FAST, **clients).ready()
    readers = lab.consumer("readers", group=GROUP, **{"poll-ms": 200}, **clients).ready()
    wait_until(lambda: (committed(broker, GROUP, topic) or 0) > 1000, seconds=SOON_S, what="a commit")
    read_again(manager, times=3)
    broker.process.kill()
    shutil.rmtree(broker.store)
    broker.start().ready()
    run, outcomes = run_of_group(manager)
    load.wait_for_more(count=3000, seconds=SOON_S).stop()
    assert run["partedAt"] == 0, run
    # A client whose offset is beyond the end goes to the beginning by itself.
    assert not {"pushed", "failed"} & {*outcomes}, (run, outcomes)
    readers.wait_for_all({*lab.scan("scan", **clients).keys()}, seconds=2 * SOON_S)
