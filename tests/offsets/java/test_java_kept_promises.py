"""Real brokers fail over, and no write of a manager lets a group skip what it has not read.

Groups that pop, rewind, are deleted; topics that are made anew; slaves that copy, that are frozen, that keep their
store in RocksDB; two managers. Orders of events that brokers cannot be brought into are those of `tests/offset_fuzz`.
"""

import contextlib
import threading
from types import SimpleNamespace

import pytest
from java_pairs import (
    CLOCK,
    FAST,
    SOON_S,
    Pair,
    ask,
    commit,
    committed,
    end_of,
    has_copied,
    jumps,
    lone_broker,
    make_group,
    make_topic,
    manager_of,
    newest_run,
    online,
    read_again,
    send,
)
from peers.disks import SmallDisk, why_not
from peers.etcd import running_etcd
from peers.jars import V4_9, V5_1, V5_4, V5_5, V5_5_1
from peers.lab import Lab
from peers.programs import cannot_run
from peers.waiting import holds_for, wait_until
from peers.wire import Caller

from remoting.admin.groups import delete_group
from remoting.admin.topics import delete_topic

pytestmark = [pytest.mark.java, pytest.mark.broad, pytest.mark.timeout(900)]

POP_MESSAGE = 200050
#: Its member pulls from a topic of its own.
READERS = "readers"
POPPED, POPPED_TWICE, GONE = "popped", "popped-twice", "gone"
ORDERS, REWOUND, RENEWED, RENEWED_BEFORE = "orders", "rewound", "renewed", "renewed-before"
#: What was popped is in a store of the broker's own.
KV_POP = {"popConsumerKVServiceInit": True, "popConsumerKVServiceEnable": True}
ASYNCHRONOUS = {"allAckInSyncStateSet": False, "haMaxTimeSlaveNotCatchup": 3000}
#: Outcomes of what is not written.
LEFT = ("right already", "not proved")
#: Longer than a lease, and than a reading counts.
PAUSED_S = 60


@contextlib.contextmanager
def a_pair(folder, version, **properties):
    """Two brokers with a manager that reads them each second, and a group whose member pulls."""
    with contextlib.closing(Lab(folder)) as lab:
        pair = Pair(lab, version, **properties)
        yield pair, pair.manager(reading_period_ms=1000)


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


def pop(broker, group, topic, count):
    """Pop so many messages from the beginning, acknowledge none, and return their offsets."""
    popped = set()
    wait_until(
        lambda: popped.update(_popped(broker, group, topic, count - len(popped))) or len(popped) == count,
        seconds=SOON_S,
        what=lambda: f"{count} messages, not {sorted(popped)}",
    )
    return popped


def _popped(broker, group, topic, count):
    """Pop once; a broker that is busy gives nothing."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": 0, "maxMsgNums": count, "invisibleTime": 600_000}
    fields |= {"pollTime": 0, "bornTime": CLOCK.unix_ms(), "initMode": 0, "order": "false"}
    answer = Caller(broker.address).request(POP_MESSAGE, {name: str(value) for name, value in fields.items()})
    # Each part: whether it is a retry, queue id, offsets.
    parts = (part.split(" ") for part in answer.fields.get("msgOffsetInfo", "").split(";") if part)
    return {int(offset) for _, _, offsets in parts for offset in offsets.split(",")}


def renew(brokers, topic):
    """Delete a topic, and make another one of its name with as many messages; the first broker is the master."""
    for broker in brokers:
        ask(broker.address, delete_topic(topic))
    make_topic(brokers[0], topic, messages=100)
    has_copied(brokers[1], **{topic: 100})


def fail_over(pair, manager, before=lambda: None):
    """Kill the master once the manager has read all; what is done `before` no reading shows."""
    read_again(manager, times=3)
    manager.process.pause()
    before()
    pair.kill_master()
    manager.process.resume()
    run, queues = newest_run(manager)
    return SimpleNamespace(broker=pair.slave, pair=pair, manager=manager, run=run, queues=queues)


def outcome(site, group, topic):
    """Return what became of an offset; those that were right already are not listed."""
    _, queues = newest_run(site.manager)
    return queues[group, topic]["outcome"] if (group, topic) in queues else "right already"


@pytest.fixture(scope="module")
def after_a_failover(tmp_path_factory):
    """The slave has copied no offset; of two topics another one of the name has come, before and after a reading."""
    with a_pair(tmp_path_factory.mktemp("clean"), V5_5, **KV_POP) as (pair, manager):
        master, brokers = pair.master, (pair.master, pair.slave)
        # A slave of 5.5.0 copies no offsets any more once somebody has pulled from its master.
        online(pair.lab, master, READERS, **pair.clients())
        make_group(master, POPPED, GONE)
        for topic in (ORDERS, REWOUND, RENEWED, RENEWED_BEFORE):
            make_topic(master, topic, messages=100)
            commit(master, READERS, topic, 80)
        commit(master, GONE, ORDERS, 80)
        send(master, pair.topic, 40)
        # The offset is where the last pop has begun.
        assert pop(master, POPPED, pair.topic, 20) == set(range(20))
        assert pop(master, POPPED, pair.topic, 10) == set(range(20, 30))
        has_copied(pair.slave, POPPED, GONE, READERS, **dict.fromkeys((ORDERS, REWOUND), 100))
        read_again(manager)
        renew(brokers, RENEWED_BEFORE)
        commit(master, READERS, RENEWED_BEFORE, 30)
        commit(master, READERS, REWOUND, 20)

        def unseen():
            renew(brokers, RENEWED)
            ask(master.address, delete_group(GONE, cleans_offsets=True))

        site = fail_over(pair, manager, unseen)
        # Its member has to come to the new master.
        wait_until(lambda: outcome(site, READERS, ORDERS) == "pushed", seconds=SOON_S, what=lambda: newest_run(manager))
        yield site


def test_an_offset_that_was_not_copied_is_raised_to_what_was_read(after_a_failover):
    assert committed(after_a_failover.broker, READERS, ORDERS) == 80


def test_a_rewind_that_a_reading_shows_stays(after_a_failover):
    assert committed(after_a_failover.broker, READERS, REWOUND) == 20


def test_a_topic_that_was_made_anew_before_the_reading_has_its_new_offset(after_a_failover):
    assert committed(after_a_failover.broker, READERS, RENEWED_BEFORE) == 30


def test_a_topic_that_was_made_anew_after_the_reading_gets_no_offset(after_a_failover):
    site = after_a_failover
    assert outcome(site, READERS, RENEWED) == "not proved"
    assert committed(site.broker, READERS, RENEWED) is None


def test_a_group_that_was_deleted_stays_deleted(after_a_failover):
    assert committed(after_a_failover.broker, GONE, ORDERS) is None


def test_what_was_popped_into_a_store_of_the_broker_is_reported_and_comes_again(after_a_failover):
    site = after_a_failover
    assert outcome(site, POPPED, site.pair.topic) == "not proved"
    assert pop(site.broker, POPPED, site.pair.topic, 30) == set(range(30))


@pytest.fixture(scope="module")
def after_a_lost_tail(tmp_path_factory):
    """Of one group the slave has what it popped first; while it is frozen, a client commits to it."""
    with a_pair(tmp_path_factory.mktemp("tail"), V5_5, **ASYNCHRONOUS) as (pair, manager):
        master, slave = pair.master, pair.slave
        make_group(master, POPPED, POPPED_TWICE)
        send(master, pair.topic, 40)
        assert pop(master, POPPED_TWICE, pair.topic, 10) == set(range(10))
        is_copied = lambda: committed(slave, POPPED_TWICE, pair.topic) == 10  # noqa: E731
        wait_until(is_copied, seconds=SOON_S, what="the slave has copied the offset")
        online(pair.lab, master, READERS, **pair.clients())
        commit(master, READERS, pair.topic, 30)
        has_copied(slave, POPPED, POPPED_TWICE, READERS, **{pair.topic: 40})
        read_again(manager, times=3)
        pair.freeze_slave()
        assert pop(master, POPPED_TWICE, pair.topic, 20) == set(range(10, 30))
        assert pop(master, POPPED, pair.topic, 30) == set(range(30))
        committing = threading.Thread(target=commit, args=(slave, READERS, pair.topic, 5))
        committing.start()
        site = fail_over(pair, manager)
        committing.join()
        yield site


def test_what_was_popped_and_not_acknowledged_comes_again_after_a_lost_tail(after_a_lost_tail):
    site = after_a_lost_tail
    assert site.run["partedAt"] is not None, site.run
    for group in (POPPED, POPPED_TWICE):
        assert outcome(site, group, site.pair.topic) in LEFT
    assert pop(site.broker, POPPED, site.pair.topic, 30) == set(range(30))


def test_a_restore_leaves_a_group_that_pops_too(after_a_lost_tail):
    site = after_a_lost_tail
    body = {"writer": "alice", "moment": "former", "group": POPPED_TWICE}
    (queue,) = site.manager.post("/v1/offsets/restore", body).body["queues"]
    # What the former master had before the logs parted is what is shown.
    assert queue["status"] in LEFT, queue
    assert pop(site.broker, POPPED_TWICE, site.pair.topic, 20) == set(range(10, 30))


def test_what_a_client_has_committed_to_a_frozen_slave_stays_once_that_is_promoted(after_a_lost_tail):
    site = after_a_lost_tail
    shown = lambda: committed(site.broker, READERS, site.pair.topic)  # noqa: E731
    holds_for(lambda: shown() == 5, seconds=10, what="the client's offset")
    assert outcome(site, READERS, site.pair.topic) in LEFT


@pytest.mark.parametrize(
    "version", [V5_5_1, pytest.param(V5_4, marks=pytest.mark.soak), pytest.param(V5_1, marks=pytest.mark.soak)]
)
def test_what_a_slave_has_copied_since_the_reading_stays_and_what_it_has_not_yet_is_raised(tmp_path, version):
    with a_pair(tmp_path, version) as (pair, manager):
        online(pair.lab, pair.master, READERS, **pair.clients())
        for topic in (ORDERS, REWOUND):
            make_topic(pair.master, topic, messages=100)
            commit(pair.master, READERS, topic, 80)
        has_copied(pair.slave, READERS, **dict.fromkeys((ORDERS, REWOUND), 100))
        is_copied = lambda: committed(pair.slave, READERS, REWOUND) == 80  # noqa: E731
        wait_until(is_copied, seconds=SOON_S, what="copied offsets")

        def rewind():
            commit(pair.master, READERS, REWOUND, 20)
            is_back = lambda: committed(pair.slave, READERS, REWOUND) == 20  # noqa: E731
            wait_until(is_back, seconds=SOON_S, what="the slave has the rewind")

        commit(pair.master, READERS, ORDERS, 90)
        site = fail_over(pair, manager, rewind)
        wait_until(lambda: committed(site.broker, READERS, ORDERS) == 90, seconds=SOON_S, what=lambda: str(site.queues))
        assert committed(site.broker, READERS, REWOUND) == 20


def test_what_a_manager_only_reports_is_written_by_one_request(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as lab:
        pair = Pair(lab, V5_5)
        manager = pair.manager(reading_period_ms=1000, repair="report")
        online(lab, pair.master, READERS, **pair.clients())
        make_topic(pair.master, ORDERS, messages=100)
        commit(pair.master, READERS, ORDERS, 80)
        has_copied(pair.slave, READERS, **{ORDERS: 100})
        site = fail_over(pair, manager)
        wait_until(lambda: outcome(site, READERS, ORDERS) == "would change", seconds=SOON_S, what="the report")
        assert committed(site.broker, READERS, ORDERS) is None
        applied = manager.post(f"/v1/offsets/repairs/{site.run['run']}/apply", {"writer": "alice"})
        assert applied.status == 200, applied
        assert (outcome(site, READERS, ORDERS), committed(site.broker, READERS, ORDERS)) == ("pushed", 80)


def test_offsets_are_raised_where_brokers_keep_them_and_their_queues_in_rocksdb(tmp_path):
    with a_pair(tmp_path, V5_5, storeType="defaultRocksDB") as (pair, manager):
        online(pair.lab, pair.master, READERS, **pair.clients())
        make_topic(pair.master, ORDERS, messages=100)
        commit(pair.master, READERS, ORDERS, 80)
        has_copied(pair.slave, READERS, **{ORDERS: 100})
        site = fail_over(pair, manager)
        wait_until(lambda: committed(site.broker, READERS, ORDERS) == 80, seconds=SOON_S, what=lambda: str(site.queues))


@pytest.mark.parametrize("version", [V4_9, V5_5])
def test_a_master_that_starts_again_without_a_controller_is_raised_by_a_restore_alone(lab, version):
    namesrv = lab.name_server()
    unwritten = {"flushConsumerOffsetInterval": 600_000}
    broker = lone_broker(lab, namesrv, version, **unwritten).has_written_offsets()
    lab.broker("alone", broker_id=1, namesrv=[namesrv.address], version=version).start().ready()
    online(lab, broker, READERS, namesrv=[namesrv.address], version=version)
    make_topic(broker, ORDERS, messages=100)
    commit(broker, READERS, ORDERS, 80)
    manager = manager_of(lab, namesrv_addr=namesrv.address, repair="act", reading_period_ms=1000)
    read_again(manager, times=3)
    broker.process.kill()
    broker.start().ready()
    _, queues = newest_run(manager)
    wait_until(lambda: jumps(manager, group=READERS, topic=ORDERS), seconds=SOON_S, what="the jump is listed")
    assert jumps(manager, group=READERS, topic=ORDERS) == [("restart", 80, None)]
    assert queues[READERS, ORDERS]["outcome"] == "not proved"
    assert committed(broker, READERS, ORDERS) is None
    commit(broker, READERS, ORDERS, 10)
    read_again(manager, times=3)
    body = {"writer": "alice", "moment": "former", "brokerName": broker.name, "topic": ORDERS}
    (restored,) = manager.post("/v1/offsets/restore", body).body["queues"]
    # 4.9 cannot send its members there: they have to be stopped first.
    expected = ("not proved", 10) if version is V4_9 else ("done", 80)
    assert (restored["status"], committed(broker, READERS, ORDERS)) == expected, restored


def test_a_manager_whose_disk_is_full_repairs_and_tells_what_it_could_not_keep(lab):
    if reason := why_not():
        cannot_run(reason)
    disk = SmallDisk(lab.folder / "disk")
    pair = Pair(lab, V5_5)
    manager = pair.manager(reading_period_ms=1000, store_path=disk.folder, wrapper=disk.wrapper())
    disk.attach(manager.process)
    online(lab, pair.master, READERS, **pair.clients())
    make_topic(pair.master, ORDERS, messages=100)
    has_copied(pair.slave, READERS, **{ORDERS: 100})
    disk.fill()
    # There is a new file each minute.
    wait_until(lambda: manager.events("readings_not_kept"), seconds=SOON_S, what="a reading that cannot be kept")
    commit(pair.master, READERS, ORDERS, 80)
    site = fail_over(pair, manager)
    wait_until(lambda: committed(site.broker, READERS, ORDERS) == 80, seconds=SOON_S, what=lambda: str(site.queues))
    assert len(manager.events("readings_not_kept")) == 1
    assert manager.events("repair_not_kept")


@pytest.mark.etcd
def test_a_manager_that_was_paused_over_a_failover_writes_nothing_when_it_goes_on(lab, tmp_path):
    with running_etcd(tmp_path / "etcd") as etcd:
        pair = Pair(lab, V5_5)
        shared = {"store": "etcd", "etcd_endpoints": ";".join(etcd.endpoints), "reading_period_ms": 1000}
        first, second = (pair.manager(name=name, **shared) for name in ("first", "second"))
        first.leading()
        online(lab, pair.master, READERS, **pair.clients())
        make_topic(pair.master, ORDERS, messages=100)
        commit(pair.master, READERS, ORDERS, 80)
        has_copied(pair.slave, READERS, **{ORDERS: 100})
        for manager in (first, second):
            read_again(manager, times=3)
        first.process.pause()
        began_ms = CLOCK.now_ms()
        second.leading()
        pair.kill_master()
        is_raised = lambda: committed(pair.slave, READERS, ORDERS) == 80  # noqa: E731
        wait_until(is_raised, seconds=SOON_S, what=lambda: newest_run(second))
        # Somebody rewinds it since.
        commit(pair.slave, READERS, ORDERS, 10)
        wait_until(lambda: CLOCK.now_ms() - began_ms > PAUSED_S * 1000, seconds=2 * PAUSED_S, what="the pause is over")
        first.process.resume()
        wait_until(lambda: not first.leads(), seconds=SOON_S, what="it knows that it does not lead")
        holds_for(lambda: committed(pair.slave, READERS, ORDERS) == 10, seconds=10, what="the rewind")
        assert [first.events(name) for name in ("offsets_repaired", "offsets_lost")] == [[], []]


@pytest.mark.soak
@pytest.mark.parametrize("version", [V5_5_1, V5_1])
def test_a_group_under_load_skips_nothing_when_its_master_is_killed_again_and_again(lab, version):
    pair = Pair(lab, version)
    manager = pair.manager()
    load = lab.load("load", threads=4, **pair.clients(**FAST)).ready()
    readers = lab.consumer("readers", **pair.clients(group=READERS, **{"poll-ms": 200})).ready()
    for kill in range(4):
        before = committed(pair.master, READERS, pair.topic) or 0
        wait_until(
            lambda before=before: (committed(pair.master, READERS, pair.topic) or 0) > before + 500,
            seconds=SOON_S,
            what="the group reads on",
        )
        read_again(manager, times=2)
        pair.kill_master()
        newest_run(manager, kill + 1)
        pair.exchange_roles()
    load.wait_for_more(count=2000, seconds=SOON_S).stop()
    readers.wait_for_all({*lab.scan("scan", **pair.clients()).keys()}, seconds=SOON_S)
    assert end_of(pair.master, pair.topic) > 2000
