"""An offset manager process follows a controller, mirrors orderly clients, and replays their locks at a new master."""

import pytest
from measured import note
from orderly_site import DEFAULT_POLL_MS
from peers.offset_managers import OffsetManager
from peers.servers import CLUSTER
from peers.waiting import wait_until
from replicated import VERY_LONG_S, Moment

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture
def manager(site, tmp_path):
    (controller,) = site.set.controllers
    address = f"127.0.0.1:{controller.http_port}"
    manager = OffsetManager(tmp_path, controller_http_addr=address, lock_replay="on").start()
    yield manager
    assert manager.process.stop() == 0


def is_holder(manager, member, queue):
    """Return whether the manager knows a client as holder of a queue; clients hold those of retry topics too."""
    answer = manager.get(f"/v1/locks/holders?group={member.of.group}")
    return any(
        holder["clientId"] == member.client_id and queue.topic in {held["topic"] for held in holder["queues"]}
        for holder in answer.body["holders"]
    )


def test_new_master_has_the_lock_of_a_client_that_does_not_know_it_yet(site, manager):
    group = site.new_group()
    manager.post("/v1/locks/declare-orderly", {"writer": "alice", "group": group, "cluster": CLUSTER})
    # It learns of the new master 30 s later.
    member = site.join("unknowing", group, poll_ms=DEFAULT_POLL_MS)
    wait_until(lambda: is_holder(manager, member, site.queue), seconds=VERY_LONG_S, what="it is mirrored")
    former, (slave,) = site.set.master, site.set.slaves
    killed = Moment()
    former.process.kill()
    replayed = wait_until(
        lambda: next(
            (row for row in manager.events("broker_locks_replayed") if row["topic"] == site.queue.topic), None
        ),
        seconds=60,
        what="its lock is replayed",
    )
    after_ms = round(killed.elapsed() * 1000)
    assert (replayed["broker"], replayed["addr"]) == (site.set.name, slave.address)
    assert replayed["granted"] > 0
    assert not site.manager.lock(slave.address, group, "somebody-else", site.queue)
    assert site.locked_unix_ms(member, slave.address) < killed.unix_ms
    note(
        "orderly groups after kill -9 of their master",
        f"{site.version} 4",
        f"{site.version}: the manager has locked {replayed['duration_ms']} ms after the promotion, "
        f"at most {after_ms} ms after the kill",
    )
    granted = [row["granted"] for row in manager.events("broker_locks_replayed")]
    assert manager.metric('broker_lock_replays_total{outcome="granted"}') == sum(granted)
    assert manager.metric("broker_lock_overlaps") == 0
    site.traffic.stop("unknowing")


def test_lock_of_a_client_that_has_died_is_given_up(site, manager):
    group = site.new_group()
    manager.post("/v1/locks/declare-orderly", {"writer": "alice", "group": group, "cluster": CLUSTER})
    member = site.join("dying", group)
    wait_until(lambda: is_holder(manager, member, site.queue), seconds=VERY_LONG_S, what="it is mirrored")
    address = site.set.master.address
    # It would unlock the queue if it were stopped.
    site.traffic.kill("dying")
    assert not site.manager.lock(address, group, "somebody-else", site.queue)
    released = wait_until(
        lambda: next(iter(manager.events("broker_locks_released")), None), seconds=100, what="its lock is given up"
    )
    assert released["client"] == member.client_id
    assert site.manager.lock(address, group, "somebody-else", site.queue)
