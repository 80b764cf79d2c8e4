"""Brokers that return with less of the log than they had: none of them leads over messages that others have.

A member of the SyncStateSet had every acknowledged message once. But disks are lost, older copies of them are put back,
and a power failure takes the end of a log.
"""

import json
import shutil
import subprocess
import time
import urllib.request

import pytest
from lengths import ours_in_ci
from peers.servers import CLUSTER
from peers.waiting import holds_for, wait_until
from peers.wire import SUCCESS
from replicated import VERY_LONG_S
from verdicts import PATIENCE

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

#: A broker without a role asks for one each 5 s: within this time it has asked at least twice.
TWO_TRIES_S = 12
#: Known log ends are stored each 30 s while they move.
STORED_WITHIN_S = 40
#: More than fits into the sockets of a slave that is frozen.
TAIL_MESSAGES, TAIL_BYTES = 10, 2_000_000

role_and_restart = pytest.mark.parametrize(
    ("role", "restarts"),
    [
        pytest.param("master", False, id="master"),
        pytest.param("slave", False, id="slave", marks=pytest.mark.broad),
        pytest.param("master", True, id="master-new-controller", marks=pytest.mark.broad),
    ],
)
with_restart = pytest.mark.parametrize(
    "restarts", [False, pytest.param(True, marks=pytest.mark.broad)], ids=["same-controller", "new-controller"]
)


@pytest.fixture
def begin(stage):
    """Return what starts a complete set under one controller, with these properties."""

    def begun(count=2, **properties):
        replicated = stage.new_set([stage.controller(**properties)], count=count).start()
        replicated.wait_until_complete()
        return replicated

    return begun


def fill(replicated, name, count):
    """Return a load of so many messages, acknowledged, once the controller knows how long the logs are."""
    load = replicated.load(name, **{"interval-ms": 1}).wait_for_more(count=count).stop()
    alive = replicated.state().alive
    wait_until(
        lambda: replicas(replicated, "maxOffset", alive) == {i: end_of(replicated, i) for i in alive},
        seconds=VERY_LONG_S,
        what="heartbeats with the ends of all logs",
    )
    return load


def end_of(replicated, broker_id):
    return replicated.log_bytes(replicated.by_id(broker_id))


def replicas(replicated, field, broker_ids):
    """Return one field of these brokers as the controller shows it."""
    shown = get(replicated, f"broker-sets/{replicated.name}")
    return {each["brokerId"]: each[field] for each in shown["replicas"] if each["brokerId"] in broker_ids}


def get(replicated, path):
    (controller,) = replicated.controllers
    with urllib.request.urlopen(f"http://127.0.0.1:{controller.http_port}/v1/{path}", timeout=30) as answer:
        return json.load(answer)


def end_all(replicated, *, restarts=False):
    """Kill all brokers at once; the SyncStateSet stays as it is. `restarts` the controller too, before it sees that.

    A master that outlives its slave for a millisecond would report that.
    """
    before, master, slaves = replicated.state(), replicated.master, replicated.slaves
    (controller,) = replicated.controllers
    if restarts:
        time.sleep(STORED_WITHIN_S)
        controller.process.kill()
    master.process.pause()
    for broker in (*slaves, master):
        broker.process.kill()
    if restarts:
        controller.start()
    state = replicated.wait_for_state(lambda state: not state.alive, seconds=VERY_LONG_S, what="all are dead")
    assert state.in_sync == before.in_sync == before.members


def lose_log(broker):
    """Remove the log of a broker that was on a disk of its own; identity and epochs are on another one."""
    shutil.rmtree(broker.store / "commitlog")


def copied(broker):
    """Return a copy of all that a broker has stored at one moment; files are far smaller than they seem."""
    copy = broker.store.with_name("copy")
    broker.process.pause()
    subprocess.run(["cp", "-a", "--sparse=always", broker.store, copy], check=True)
    broker.process.resume()
    return copy


def put_back(broker, copy):
    shutil.rmtree(broker.store)
    copy.rename(broker.store)


def shrunk(replicated):
    """Return what this controller has logged of logs that became shorter."""
    lines = replicated.controllers[0].process.text().splitlines()
    return [json.loads(line) for line in lines if '"event":"log_shrank"' in line]


def asks_in_vain(replicated, broker):
    """Fail if a broker is elected that has lost messages, by what it says itself; the controller says why it is not."""
    wait_until(
        lambda: shrunk(replicated) or replicated.is_master(broker), seconds=VERY_LONG_S, what="log_shrank in the log"
    )
    holds_for(lambda: not replicated.is_master(broker), seconds=TWO_TRIES_S, what="it is not elected")


def follows(replicated, broker):
    """Wait until all are in sync under this master, with equal logs."""
    state = replicated.wait_until_complete()
    assert replicated.by_id(state.master) is broker
    wait_until(
        lambda: len({replicated.log_bytes(each) for each in replicated.brokers}) == 1,
        seconds=VERY_LONG_S,
        what="equal logs",
    )


@ours_in_ci
@role_and_restart
def test_broker_whose_log_is_lost_waits_for_one_that_may_have_it(run, begin, role, restarts):
    replicated = begin()
    load = fill(replicated, "load", 100)
    master, (slave,) = replicated.master, replicated.slaves
    emptied, whole = (master, slave) if role == "master" else (slave, master)
    end_all(replicated, restarts=restarts)
    lose_log(emptied)
    replicated.restart(emptied)
    asks_in_vain(replicated, emptied)
    replicated.restart(whole)
    follows(replicated, whole)
    replicated.lose_nothing(load)


@ours_in_ci
@pytest.mark.broad
def test_broker_whose_disk_is_an_older_copy_waits_for_one_that_may_have_more(run, begin):
    replicated = begin()
    master, (slave,) = replicated.master, replicated.slaves
    first = fill(replicated, "first", 50)
    copy = copied(master)
    second = fill(replicated, "second", 50)
    end_all(replicated)
    put_back(master, copy)
    replicated.restart(master)
    asks_in_vain(replicated, master)
    replicated.restart(slave)
    follows(replicated, slave)
    replicated.lose_nothing(first, second)


@ours_in_ci
@pytest.mark.broad
def test_slave_out_of_sync_leads_where_the_log_of_the_master_is_lost(run, begin):
    """What only the master had is lost with its disk; the rest is not given up."""
    replicated = begin()
    master, (slave,) = replicated.master, replicated.slaves
    first = fill(replicated, "first", 50)
    slave.process.kill()
    replicated.wait_for_state(lambda state: len(state.in_sync) == 1, seconds=VERY_LONG_S, what="the slave is out")
    fill(replicated, "second", 50)
    master.process.kill()
    lose_log(master)
    replicated.restart(slave)
    holds_for(lambda: not replicated.is_master(slave), seconds=TWO_TRIES_S, what="the slave waits for the master")
    replicated.restart(master)
    asks_in_vain(replicated, master)
    follows(replicated, slave)
    replicated.lose_nothing(first)


@ours_in_ci
@pytest.mark.broad
def test_emptied_slave_that_is_still_in_sync_is_not_elected_when_its_master_fails(run, begin):
    """The master is frozen meanwhile: it neither reports that its slave left, nor sends it the log again."""
    replicated = begin(suspectTimeoutMs=10_000)
    load = fill(replicated, "load", 100)
    master, (slave,) = replicated.master, replicated.slaves
    before = replicated.state()
    master.process.pause()
    slave.process.kill()
    lose_log(slave)
    replicated.restart(slave)
    assert replicated.state().in_sync == before.in_sync == before.members
    master.process.kill()
    asks_in_vain(replicated, slave)
    replicated.restart(master)
    follows(replicated, master)
    replicated.lose_nothing(load)


@ours_in_ci
@with_restart
def test_longest_log_leads_after_a_power_failure_of_all_brokers(run, begin, restarts):
    replicated = begin()
    master, (slave,) = replicated.master, replicated.slaves
    kept = [fill(replicated, "first", 30)]
    shorter = copied(master)
    kept.append(fill(replicated, "second", 30))
    left = replicated.log_bytes(slave)
    longer = copied(slave)
    fill(replicated, "lost", 40)
    lost = replicated.log_bytes(slave) - left
    end_all(replicated, restarts=restarts)
    put_back(master, shorter)
    put_back(slave, longer)
    replicated.start()
    follows(replicated, slave)
    assert replicated.epochs_in_log(slave)[-1][1] == left
    assert lost in {event["lost_bytes"] for event in shrunk(replicated)}
    kept.append(replicated.load("later").wait_for_more().stop())
    replicated.lose_nothing(*kept)


@ours_in_ci
@pytest.mark.broad
@pytest.mark.parametrize("operator", ["cleans", "designates"])
def test_nobody_leads_after_a_power_failure_until_the_missing_broker_is_given_up(run, begin, operator):
    replicated = begin(count=3)
    master, (slave, missing) = replicated.master, replicated.slaves
    slave_id, missing_id = (replicated.id_of(broker) for broker in (slave, missing))
    kept = [fill(replicated, "first", 30)]
    shorter = copied(master)
    kept.append(fill(replicated, "second", 30))
    longer = copied(slave)
    fill(replicated, "lost", 40)
    end_all(replicated)
    put_back(master, shorter)
    put_back(slave, longer)
    for broker in (master, slave):
        broker.start()
    for broker in (master, slave):
        broker.ready()
        asks_in_vain(replicated, broker)
    candidates = get(replicated, "elections")["elections"][0]["candidates"]
    assert next(each["verdict"] for each in candidates if each["brokerId"] == missing_id) == "not alive"
    replicated.brokers.remove(missing)
    if operator == "cleans":
        words = ["-a", replicated.controllers[0].address, "-bn", replicated.name, "-b", str(missing_id), "-c", CLUSTER]
        printed = replicated.mqadmin("cleanBrokerMetadata", *words)
        assert "success" in printed, printed
    else:
        printed = replicated.elect(slave_id)
        assert "#MasterEpoch" in printed, printed
    follows(replicated, slave)
    kept.append(replicated.load("later").wait_for_more().stop())
    replicated.lose_nothing(*kept)


@ours_in_ci
@pytest.mark.broad
def test_end_of_a_log_that_was_cut_to_follow_a_new_master_is_not_missed(run, begin):
    replicated = begin()
    load = fill(replicated, "load", 100)
    old, (new,) = replicated.master, replicated.slaves
    old_id, new_id = replicated.id_of(old), replicated.id_of(new)
    new.process.pause()
    for number in range(TAIL_MESSAGES):
        assert replicated.send_to(old, f"tail-{number}", padding=TAIL_BYTES, waits=False) == SUCCESS
    tail = replicated.log_bytes(old)
    wait_until(
        lambda: replicas(replicated, "maxOffset", {old_id}) == {old_id: tail}, seconds=VERY_LONG_S, what="a heartbeat"
    )
    old.process.kill()
    new.process.resume()
    replicated.wait_for_master(lambda state: state.master == new_id, seconds=VERY_LONG_S)
    replicated.restart(old)
    follows(replicated, new)
    assert replicated.log_bytes(old) < tail
    new.process.kill()
    replicated.wait_for_master(lambda state: state.master == old_id, seconds=4 * PATIENCE, what="the other leads")
    assert shrunk(replicated) == []
    replicated.lose_nothing(load)
