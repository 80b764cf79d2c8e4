"""Line 28 of the checklist: everything happens again and again to two brokers and three controllers, at random."""

import os
import random
import time

import pytest
from lengths import in_soak
from peers.controllers import leader_of
from peers.waiting import wait_until
from replicated import VERY_LONG_S, Moment

#: How long, in seconds; an hour is the full length.
RUN_S = int(os.environ.get("ACCEPTANCE_RUN_S", "600"))

pytestmark = [pytest.mark.java, pytest.mark.timeout(RUN_S + 900)]


def leader(replicated):
    return wait_until(lambda: leader_of(replicated.controllers), seconds=VERY_LONG_S, what="a controller leads")


def kill_the_master(replicated, group, load):
    before, master = replicated.state(), replicated.master
    master.process.kill()
    replicated.wait_for_master(lambda state: state.master != before.master, seconds=VERY_LONG_S)
    replicated.restart(master)


def freeze_the_master(replicated, group, load):
    # What still waits at its port when it goes on, it may acknowledge before it reads that another leads: the producer
    # has to have gone there, as in the minute of line 4.
    master, frozen = freeze_until_another_leads(replicated)
    frozen.until_sent(load, port=replicated.master.port)
    master.process.resume()


def freeze_until_another_leads(replicated):
    """Return the frozen master, and since when it is."""
    before, master = replicated.state(), replicated.master
    frozen = Moment()
    master.process.pause()
    replicated.wait_for_master(lambda state: state.master != before.master, seconds=VERY_LONG_S)
    return master, frozen


def kill_the_slave(replicated, group, load):
    before = replicated.state()
    (slave,) = replicated.slaves
    slave.process.kill()
    replicated.wait_for_state(lambda state: state.in_sync == {before.master}, seconds=VERY_LONG_S, what="shrunk")
    replicated.restart(slave)


def cut_connections(replicated, group, load):
    before = replicated.state()
    for _ in range(5):
        for front in group.fronts:
            front.cut()
        time.sleep(1)
    assert replicated.state().epochs == before.epochs


def kill_the_leading_controller(replicated, group, load):
    old = leader(replicated)
    old.process.kill()
    leader(replicated)
    old.start()


EVENTS = (kill_the_master, freeze_the_master, kill_the_slave, cut_connections, kill_the_leading_controller)


@in_soak
def test_long_run_of_all_faults_loses_no_acknowledged_message(run, stage, line):
    seed = random.randrange(2**32)
    with line("28", f"random mix for {RUN_S} s, seed {seed}") as it:
        chosen = random.Random(seed)
        replicated = stage.new_set(stage.controllers(behind_ways=True))
        last = replicated.start().wait_until_complete()
        load = replicated.load(**{"interval-ms": 50})
        events = EVENTS if run.is_ours else [each for each in EVENTS if each is not cut_connections]
        began = Moment()
        done = dict.fromkeys((event.__name__ for event in events), 0)
        while began.elapsed() < RUN_S:
            event = chosen.choice(events)
            event(replicated, stage.group, load)
            done[event.__name__] += 1
            state = replicated.wait_until_complete()
            assert [replicated.is_master(broker) for broker in replicated.brokers].count(True) == 1
            assert state.master_epoch >= last.master_epoch
            assert state.sync_state_set_epoch >= last.sync_state_set_epoch
            last = state
            load.wait_for_more()
        load.stop()
        it.saw(", ".join(f"{count} x {event}" for event, count in done.items()))
        it.saw(f"{len(load.acknowledged())} sends acknowledged, {len(load.failures())} failed")
        replicated.lose_nothing(load)
        it.saw("loss 0")


@in_soak
def test_resumed_master_acknowledges_nothing_alone_where_two_replicas_are_required(run, stage, line):
    """With allAckInSyncStateSet a broker of 5.5.0 acknowledges what waits as soon as its slave has left it.

    minInSyncReplicas=2 is looked at only when a message comes.
    """
    demanded = {"allAckInSyncStateSet": False, "inSyncReplicas": 2, "minInSyncReplicas": 2}
    with line("28+", "10 times the master frozen until another leads, no longer; always two have to confirm") as it:
        replicated = stage.new_set(**demanded)
        replicated.start().wait_until_complete()
        load = replicated.load(**{"interval-ms": 20})
        for _ in range(10):
            master, _ = freeze_until_another_leads(replicated)
            master.process.resume()
            replicated.wait_until_complete()
            load.wait_for_more(count=100)
        load.stop()
        it.saw(f"{len(load.acknowledged())} sends acknowledged, {len(load.failures())} failed")
        replicated.lose_nothing(load)
        it.saw("loss 0")
