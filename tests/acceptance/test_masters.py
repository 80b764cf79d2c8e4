"""Lines 1 to 11, 21, 24 and 25 of the checklist: brokers start, die, freeze and return under one controller."""

import concurrent.futures
import itertools
import signal
import threading

import pytest
from lengths import everywhere, everywhere_and_old, in_soak
from peers.servers import CLUSTER
from peers.waiting import holds_for, wait_until
from peers.wire import SUCCESS
from replicated import IN_SYNC_S, VERY_LONG_S, Moment
from verdicts import PATIENCE

pytestmark = [pytest.mark.broad, pytest.mark.java, pytest.mark.timeout(900)]

#: The code of an answer to a producer whose message has too few replicas that could take it.
TOO_FEW_IN_SYNC = "1"


@everywhere_and_old
def test_two_brokers_on_empty_disks_form_a_complete_set(run, idle_set, line):
    with line("1", "first start of two brokers") as it:
        started = Moment()
        idle_set.start()
        state = idle_set.wait_for_master(lambda state: len(state.members) == 2, seconds=15 * PATIENCE)
        it.took("master and both ids", started.elapsed(), limit=15)
        complete = idle_set.wait_until_complete()
        it.took("both in sync", started.elapsed(), limit=IN_SYNC_S)
        assert state.master_epoch == complete.master_epoch == 1
        assert complete.in_sync == {1, 2}

        printed = idle_set.mqadmin("getSyncStateSet", "-a", idle_set.controllers[0].address, "-b", idle_set.name)
        assert "#MasterEpoch\t1" in printed, printed
        assert printed.count("\nInSyncReplica:") == 2, printed
        slave = 3 - complete.master
        assert set(idle_set.routed()) == {"0", str(slave)}
        assert sorted(listed_ids(idle_set)) == ["0", str(slave)]


def listed_ids(replicated):
    """Return the role ids that clusterList prints."""
    rows = [row.split() for row in replicated.mqadmin("clusterList").splitlines()]
    return [row[2] for row in rows if row[:2] == [CLUSTER, replicated.name]]


@everywhere
def test_cluster_killed_as_a_whole_restarts_with_a_new_epoch(run, fresh_set, line):
    with line("9", "kill -9 of controller and brokers together", java_fails="in sync|still in master epoch") as it:
        before = fresh_set.state()
        assert before.master_epoch == 1
        load = fresh_set.load().wait_for_more(count=100)
        # The master first, and all in the same moment: a broker of 5.5.0 that loses its slave acknowledges without it
        # before a controller has confirmed that, and would do so for the milliseconds that it outlives the slave.
        victims = (fresh_set.master, *fresh_set.controllers, *fresh_set.brokers)
        for peer in victims:
            peer.process.signal(signal.SIGKILL)
        for peer in victims:
            peer.process.kill()
        killed = Moment()
        load.process.kill()
        for peer in (*fresh_set.controllers, *fresh_set.brokers):
            (peer.launch if peer in fresh_set.controllers else peer.start)()
        for peer in (*fresh_set.controllers, *fresh_set.brokers):
            peer.ready()
        after = fresh_set.wait_for_master(
            lambda state: state.alive == {1, 2} and fresh_set.routed(), seconds=VERY_LONG_S
        )
        it.took("master", killed.elapsed(), limit=None)
        assert after.master_epoch > before.master_epoch, f"still in master epoch {after.master_epoch}"
        complete = fresh_set.wait_until_complete()
        it.took("both in sync", killed.elapsed(), limit=None)
        it.saw(f"master epoch {before.master_epoch} -> {complete.master_epoch}")
        again = fresh_set.load("again")
        again.wait_for_more().stop()
        fresh_set.lose_nothing(load, again)
        it.saw("loss 0")
        wait_until(lambda: logs_are_equal(fresh_set), seconds=IN_SYNC_S, what="both have every message")


def logs_are_equal(replicated):
    return len({replicated.end_of_log(broker) for broker in replicated.brokers}) == 1


@everywhere_and_old
def test_killed_master_is_replaced_without_loss_and_returns_as_slave(run, shared_set, line):
    before, old = shared_set.state(), shared_set.master
    load = shared_set.load()
    with line("3", "kill -9 the master under load") as it:
        killed = Moment()
        old.process.kill()
        after = replaced(shared_set, before, seconds=4 * PATIENCE)
        it.took("new master", killed.elapsed(), limit=4)
        new = shared_set.master
        it.took("producer again", killed.until_sent(load, port=new.port), limit=10)
        assert after.master_epoch > before.master_epoch
        shared_set.lose_nothing(load)
        it.saw("loss 0")
    with line("5", "the killed master returns") as it:
        returned = Moment()
        shared_set.restart(old)
        state = shared_set.wait_until_complete()
        it.took("in sync", returned.elapsed(), limit=IN_SYNC_S)
        assert state.epochs == after.epochs
        load.wait_for_more().stop()
        assert shared_set.epochs_in_log(old) == shared_set.epochs_in_log(new)
        printed = shared_set.mqadmin("getBrokerEpoch", "-b", shared_set.name)
        assert {f"#brokerAddr\t{broker.address}" for broker in shared_set.brokers} <= set(printed.splitlines()), printed
        shared_set.lose_nothing(load)
        it.saw("epoch lists equal, loss 0")


def replaced(replicated, before, *, seconds):
    """Return the state once another than before leads."""
    return replicated.wait_for_master(
        lambda state: state.master != before.master, seconds=seconds, what="another master"
    )


@everywhere
def test_frozen_master_is_replaced_and_acknowledges_nothing_when_it_resumes(run, shared_set, line):
    with line("4", "freeze the master (SIGSTOP) and let it go on", java_fails="the old master has acknowledged") as it:
        before, old = shared_set.state(), shared_set.master
        load = shared_set.load()
        frozen = Moment()
        old.process.pause()
        replaced(shared_set, before, seconds=17 * PATIENCE)
        elected = Moment()
        it.took("new master", frozen.elapsed(), limit=17)
        new = shared_set.master
        it.took("producer again", frozen.until_sent(load, port=new.port), limit=None)
        wait_until(
            lambda: frozen.elapsed() > run.choose(full=60, short=0), seconds=VERY_LONG_S, what="frozen long enough"
        )
        with Hammer(shared_set, old) as hammer:
            old.process.resume()
            thawed = Moment()
            wait_until(lambda: not shared_set.is_master(old), seconds=10 * PATIENCE, what="the old master is slave")
            it.took("old one is slave", thawed.elapsed(), limit=10)
        shared_set.wait_until_complete()
        load.wait_for_more().stop()
        assert hammer.acknowledged == [], "the old master has acknowledged what the new one does not have"
        late = [each for each in load.acknowledged() if each.port == old.port and each.unix_ms > elected.unix_ms]
        assert late == []
        it.saw(f"{hammer.sent} sends to the old one, none acknowledged")
        shared_set.lose_nothing(load)
        it.saw("loss 0")


class Hammer:
    """Sends to one broker as if nobody had said that another leads."""

    def __init__(self, replicated, broker):
        self._set = replicated
        self._broker = broker
        self._stopped = threading.Event()
        self._numbers = itertools.count()
        self._pool = concurrent.futures.ThreadPoolExecutor(8)
        self._codes = {}

    @property
    def sent(self):
        return len(self._codes)

    @property
    def acknowledged(self):
        return [key for key, code in self._codes.items() if code == 0]

    def __enter__(self):
        for _ in range(8):
            self._pool.submit(self._send)
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._pool.shutdown()

    def _send(self):
        while not self._stopped.wait(0.05):
            key = f"late-{next(self._numbers)}"
            try:
                self._codes[key] = self._set.send_to(self._broker, key)
            except OSError:
                self._codes[key] = None


@everywhere
def test_failed_slave_leaves_the_sync_state_set_and_writes_continue_unless_two_are_required(run, shared_set, line):
    with line("6", "kill -9 the slave under load") as it:
        before, master = shared_set.state(), shared_set.master
        (slave,) = shared_set.slaves
        load = shared_set.load()
        killed = Moment()
        slave.process.kill()
        shrunk(shared_set, before.master)
        it.took("set is the master alone", killed.elapsed(), limit=10)
        it.took("producer again", killed.until_sent(load, port=master.port), limit=None)

        shared_set.configure_brokers([master], minInSyncReplicas=2)
        refused = Moment()
        load.process.wait_for(rf"^NO \d+ \S+ {TOO_FEW_IN_SYNC} ", position=load.process.position())
        it.took("refused with code 1", refused.elapsed(), limit=None)
        returned = Moment()
        shared_set.restart(slave)
        shared_set.wait_until_complete()
        it.took("slave in sync", returned.elapsed(), limit=None)
        load.wait_for_more()
        shared_set.configure_brokers([master], minInSyncReplicas=1)
        load.stop()
        assert shared_set.state().epochs == before.epochs
        shared_set.lose_nothing(load)
        it.saw("loss 0")


def shrunk(replicated, master):
    replicated.wait_for_state(
        lambda state: state.in_sync == {master}, seconds=10 * PATIENCE, what="only the master in sync"
    )


def with_a_stale_slave_alone(replicated):
    """Kill the slave, write, kill the master, start the slave; return state before, old master, slave, the load."""
    before, master = replicated.state(), replicated.master
    (slave,) = replicated.slaves
    slave.process.kill()
    shrunk(replicated, before.master)
    load = replicated.load().wait_for_more()
    master.process.kill()
    load.process.kill()
    replicated.wait_for_state(lambda state: not state.alive, seconds=10 * PATIENCE, what="both are dead")
    return before, master, slave, load


@in_soak
def test_no_master_is_elected_while_only_a_broker_out_of_sync_lives(run, shared_set, line):
    with line("7", "only a slave that is out of sync is left") as it:
        before, master, slave, load = with_a_stale_slave_alone(shared_set)
        started = Moment()
        shared_set.restart(slave)
        shared_set.wait_for_state(
            lambda state: state.master is None, seconds=10 * PATIENCE, what="the set has no master"
        )
        it.took("no master", started.elapsed(), limit=None)
        printed = shared_set.mqadmin("getSyncStateSet", "-a", shared_set.controllers[0].address, "-b", shared_set.name)
        assert "#MasterBrokerId\tnull" in printed, printed
        holds_for(
            lambda: shared_set.state().master is None and shared_set.send_to(slave, "too-early") != 0,
            seconds=30,
            what="no master",
        )
        it.saw("no master for 30 s")
        returned = Moment()
        shared_set.restart(master)
        shared_set.wait_for_master(seconds=15 * PATIENCE)
        it.took("old master leads", returned.elapsed(), limit=15)
        state = shared_set.wait_until_complete()
        assert state.master == before.master
        shared_set.lose_nothing(load)
        it.saw("loss 0")


@in_soak
def test_broker_out_of_sync_is_elected_if_unclean_elections_are_allowed(run, shared_set, line):
    with line("8", "the same with enableElectUncleanMaster") as it:
        before, master, slave, _ = with_a_stale_slave_alone(shared_set)
        shared_set.configure_controllers("enableElectUncleanMaster", "true")
        returned = Moment()
        slave.start()
        shared_set.wait_for_master(lambda state: state.master != before.master, seconds=10 * PATIENCE)
        it.took("slave leads", returned.elapsed(), limit=10)
        slave.ready()
        shared_set.configure_controllers("enableElectUncleanMaster", "false")
        shared_set.restart(master)
        shared_set.wait_until_complete()
        it.took("both in sync", returned.elapsed(), limit=None)


@everywhere_and_old
def test_operator_chooses_the_master(run, shared_set, line):
    with line("10", "electMaster under load") as it:
        before = shared_set.state()
        (wanted,) = before.members - {before.master}
        new = shared_set.by_id(wanted)
        load = shared_set.load()
        # The first command takes seconds to load classes.
        shared_set.mqadmin("getControllerMetaData", "-a", shared_set.controllers[0].address)
        since = Moment()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            printing = pool.submit(shared_set.elect, wanted)
            wait_until(lambda: shared_set.is_master(new), seconds=3 * PATIENCE, what="the chosen broker leads")
            it.took("switch", since.elapsed(), limit=3)
            printed = printing.result()
        it.took("producer again", since.until_sent(load, port=new.port), limit=None)
        # The tool cannot read what a Java controller answers to it.
        assert f"#BrokerMasterAddr\t{new.address}" in printed or not run.is_ours, printed
        complete = shared_set.wait_until_complete()
        load.wait_for_more().stop()
        assert complete.epochs == (wanted, before.master_epoch + 1)
        shared_set.lose_nothing(load)
        it.saw("loss 0")

        assert "CODE: 2011" in shared_set.elect(wanted)
        (slave,) = shared_set.slaves
        dead = shared_set.id_of(slave)
        slave.process.kill()
        still = shared_set.wait_for_state(
            lambda state: state.alive == state.in_sync == {wanted}, seconds=10 * PATIENCE, what="the slave is gone"
        )
        for nobody in (dead, 77):
            printed = shared_set.elect(nobody)
            assert "CODE: 2012" in printed, printed
        assert shared_set.state() == still
        it.saw("2011 for the master, 2012 for the dead")
        shared_set.restart(slave)
        shared_set.wait_until_complete()


@in_soak
def test_nothing_is_lost_however_often_the_operator_chooses_the_other_broker(run, stage, line):
    """The old master is to be a slave before its slave leaves it, or it acknowledges what only it has."""
    known = "cannot be read|switch"
    with line("10+", "30 times electMaster while three producers send", java_fails=known) as it:
        replicated = stage.new_set().start()
        replicated.wait_until_complete()
        loads = [replicated.load(**{"interval-ms": 3}) for _ in range(3)]
        slowest = 0.0
        for _ in range(30):
            before = replicated.state()
            (wanted,) = before.members - {before.master}
            since = Moment()
            # Without the second that mqadmin takes.
            assert replicated.controllers[0].designate(replicated.name, wanted).code == SUCCESS
            chosen = replicated.by_id(wanted)
            wait_until(lambda: replicated.is_master(chosen), seconds=6 * PATIENCE, what="the chosen broker leads")  # noqa: B023
            slowest = max(slowest, since.elapsed())
            replicated.wait_until_complete()
        it.took("slowest switch", slowest, limit=3)
        for load in loads:
            load.stop()
        it.saw(f"{sum(len(load.acknowledged()) for load in loads)} sends acknowledged")
        replicated.lose_nothing(*loads)
        it.saw("loss 0")


@in_soak
def test_brokers_get_their_roles_by_polling_without_role_notifications(run, shared_set, line):
    with line("11", "no notification: elections seen by polling") as it:
        shared_set.configure_controllers("notifyBrokerRoleChanged", "false")
        before = shared_set.state()
        (wanted,) = before.members - {before.master}
        chosen = shared_set.by_id(wanted)
        load = shared_set.load()
        since = Moment()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            printing = pool.submit(shared_set.elect, wanted)
            replaced(shared_set, before, seconds=VERY_LONG_S)
            elected = Moment()
            wait_until(lambda: shared_set.is_master(chosen), seconds=6 * PATIENCE, what="the chosen broker leads")
            it.took("switch after electMaster", elected.elapsed(), limit=6)
            printing.result()
        it.took("producer again", since.until_sent(load, port=chosen.port), limit=None)
        load.stop()
        before = shared_set.wait_until_complete()
        # Until it has asked, the old master of a chosen one may acknowledge alone (OPERATIONS.md): nothing is said of
        # the messages before.
        load = shared_set.load()
        (other,) = shared_set.slaves
        killed = Moment()
        chosen.process.kill()
        wait_until(lambda: shared_set.is_master(other), seconds=6 * PATIENCE, what="the other broker leads")
        it.took("switch after kill -9", killed.elapsed(), limit=6)
        shared_set.configure_controllers("notifyBrokerRoleChanged", "true")
        shared_set.restart(chosen)
        shared_set.wait_until_complete()
        load.stop()
        shared_set.lose_nothing(load)
        it.saw("loss 0")


@in_soak
def test_three_brokers_that_start_together_get_ids_and_one_master(run, stage, line):
    with line("2", "simultaneous first start of three brokers") as it:
        controllers = [stage.controller()]
        slowest = 0.0
        for _ in range(20):
            replicated = stage.new_set(controllers, count=3)
            started = Moment()
            replicated.start()
            ready = Moment()
            state = replicated.wait_for_master(
                lambda state: state.alive == {1, 2, 3}, seconds=15 * PATIENCE, what="three ids and a master"
            )
            wait_until(lambda: run_their_roles(replicated), seconds=15 * PATIENCE, what="every broker serves")  # noqa: B023
            slowest = max(slowest, ready.elapsed())
            assert state.members == {1, 2, 3}
            assert state.master_epoch == 1
            assert started.elapsed() > 0
            for broker in replicated.brokers:
                broker.process.kill()
        it.took("slowest of 20, once all processes were up", slowest, limit=15)


def run_their_roles(replicated):
    """Return whether the NameServer lists every broker, one of them as master: fenced ones are not listed."""
    routed = replicated.routed()
    return "0" in routed and set(routed.values()) == {broker.address for broker in replicated.brokers}


@in_soak
def test_broker_with_a_new_address_keeps_its_id_and_gets_role_notifications_there(run, shared_set, line):
    with line("21", "a slave returns with another port") as it:
        (slave,) = shared_set.slaves
        broker_id = shared_set.id_of(slave)
        slave.process.kill()
        moved = shared_set.moved(slave)
        returned = Moment()
        shared_set.restart(moved)
        shared_set.wait_for_state(
            lambda state: state.addresses[broker_id] == moved.address, seconds=15 * PATIENCE, what="the new address"
        )
        it.took("known", returned.elapsed(), limit=None)
        before = shared_set.wait_until_complete()
        assert before.members == {1, 2}
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            printing = pool.submit(shared_set.elect, broker_id)
            replaced(shared_set, before, seconds=VERY_LONG_S)
            elected = Moment()
            wait_until(lambda: shared_set.is_master(moved), seconds=6 * PATIENCE, what="the moved broker leads")
            it.took("notified of its election", elected.elapsed(), limit=3)
            printing.result()
        shared_set.wait_until_complete()


@in_soak
def test_cleaned_set_restarts_above_its_last_epoch(run, stage, line):
    with line("24", "the set is made anew after a cleaning", java_fails="master epoch") as it:
        replicated = stage.new_set()
        replicated.start()
        first = replicated.wait_until_complete()
        (other,) = first.members - {first.master}
        replicated.load("first").wait_for_more().stop()
        replicated.elect(other)
        replaced(replicated, first, seconds=VERY_LONG_S)
        replicated.wait_until_complete()
        load = replicated.load("second").wait_for_more().stop()
        last = max(epoch for broker in replicated.brokers for epoch, _ in replicated.epochs_in_log(broker))
        for broker in replicated.brokers:
            broker.process.kill()
        replicated.wait_for_state(lambda state: not state.alive, seconds=VERY_LONG_S, what="both are dead")
        words = ["-a", replicated.controllers[0].address, "-bn", replicated.name, "-c", CLUSTER, "-l"]
        assert "success" in replicated.mqadmin("cleanBrokerMetadata", *words)
        assert replicated.state() is None
        for broker in replicated.brokers:
            (broker.store / "brokerIdentity").unlink()
        returned = Moment()
        replicated.start()
        state = replicated.wait_for_master(lambda state: len(state.alive) == 2, seconds=VERY_LONG_S)
        it.saw(f"epoch {last} in the logs, then {state.master_epoch}")
        assert state.master_epoch > last, f"master epoch {state.master_epoch} after {last}"
        replicated.wait_until_complete()
        it.took("both in sync", returned.elapsed(), limit=None)
        load.sendings()
        replicated.load("third").wait_for_more().stop()
        wait_until(lambda: logs_are_equal(replicated), seconds=IN_SYNC_S, what="both have every message")


@in_soak
def test_preferred_one_of_equal_slaves_is_elected(run, stage, line):
    with line("25", "two equal slaves, one preferred", java_fails="the other slave leads") as it:
        replicated = stage.new_set(count=1)
        replicated.brokers.append(replicated.new_broker("later", brokerElectionPriority=2))
        replicated.brokers.append(replicated.new_broker("preferred", brokerElectionPriority=1))
        for number, broker in enumerate(replicated.brokers, start=1):
            replicated.restart(broker)
            replicated.wait_for_state(
                lambda state, number=number: len(state.members) == number, seconds=VERY_LONG_S, what="an id"
            )
        before = replicated.wait_until_complete()
        replicated.load().wait_for_more().stop()
        wait_until(lambda: logs_are_equal(replicated), seconds=IN_SYNC_S, what="all have every message")
        master, _, preferred = replicated.brokers
        assert replicated.master is master
        # The controller learns how far logs are by heartbeats, one each second.
        holds_for(lambda: replicated.state() == before, seconds=3, what="nothing happens")
        killed = Moment()
        master.process.kill()
        replaced(replicated, before, seconds=VERY_LONG_S)
        it.took("new master", killed.elapsed(), limit=None)
        assert replicated.master is preferred, "the other slave leads"
        it.saw("priority 1 leads")
