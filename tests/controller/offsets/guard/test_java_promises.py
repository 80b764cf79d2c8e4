"""What the guard and restores promise where they would skip messages or undo a reset, at real brokers."""

import contextlib
from types import SimpleNamespace

import pytest
from java_sets import SOON_S, UNIX, Pair, admin, end_of, make_topic, offset_of, online, read_moment, send
from peers.clocks import WallClock, why_not
from peers.jars import V4_9, V5_5
from peers.lab import Lab
from peers.offset_managers import OffsetManager
from peers.programs import cannot_run
from peers.waiting import wait_until
from peers.wire import Caller

from remoting.admin.groups import configured_groups, create_group, delete_group
from remoting.admin.offsets import OffsetCommit, commit_offset
from remoting.admin.topics import delete_topic, topic_definition
from remoting.protocol.shapes.broker_clients import NewSubscriptionGroup

pytestmark = [pytest.mark.java, pytest.mark.broad, pytest.mark.timeout(600)]

POP_MESSAGE = 200050
#: Its member, if it has one, pulls from a topic of its own.
READERS = "readers"
POPPED, POPPED_TWICE = "popped", "popped-twice"
TOPIC, RENEWED = "orders", "renewed"
LONG_AGO_S = 48 * 3600
WITHOUT_LAST_SYNC = {"allAckInSyncStateSet": False, "haMaxTimeSlaveNotCatchup": 3000}
#: What was popped is in a store of the broker's own.
WITH_POP_RECORDS = {"popConsumerKVServiceInit": True, "popConsumerKVServiceEnable": True}


@contextlib.contextmanager
def a_pair(folder, **properties):
    """Two brokers of 5.5.0, and a manager that guards them."""
    with contextlib.closing(Lab(folder)) as lab:
        pair = Pair(lab, V5_5, **properties)
        yield pair, manager_of(lab, controller_http_addr=f"127.0.0.1:{pair.controller.http_port}")


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


def pop(broker, group, topic, count):
    """Pop so many messages or less from the beginning, acknowledge none, and return their offsets."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": 0, "maxMsgNums": count, "invisibleTime": 600_000}
    fields |= {"pollTime": 0, "bornTime": UNIX.unix_ms(), "initMode": 0, "order": "false"}
    answer = Caller(broker.address).request(POP_MESSAGE, {name: str(value) for name, value in fields.items()})
    # Each part: whether it is a retry, queue id, offsets.
    parts = (each.split(" ") for each in answer.fields.get("msgOffsetInfo", "").split(";") if each)
    return {int(offset) for _, _, offsets in parts for offset in offsets.split(",")}


def make_group(broker, group):
    admin(broker.address, create_group(NewSubscriptionGroup(group_name=group)))


def commit(broker, group, topic, offset):
    assert admin(broker.address, commit_offset(group, topic, 0, offset)) is OffsetCommit.STORED


def manager_of(lab, **options):
    return lab.kept(OffsetManager(lab.folder, guard="act", mirror_period_ms=1000, **options)).start()


def guarded(manager):
    """Return the offsets that the guard has written or reported in its newest run, once that has ended well."""

    def found():
        ended = [each for each in manager.get("/v1/offsets/guard").body["runs"] if each["result"] == "complete"]
        return ended and manager.get(f"/v1/offsets/guard/{ended[0]['run']}")

    answer = wait_until(found, seconds=SOON_S, what="the guard has run")
    return {(each["group"], each["topic"]): each for each in answer.body["offsets"]}


def outcome(offset):
    return (offset["action"], offset["reason"], offset["outcome"])


def restored(manager, **scope):
    """Restore, and return the only queue of the answer: its status, and why."""
    (queue,) = manager.post("/v1/offsets/restore", {"writer": "alice"} | scope).body["queues"]
    return queue["status"], queue["reason"]


def fail_over(pair, manager, before=lambda: None):
    """Kill the master of a pair once the mirror has all; return what the tests look at after the guard's run."""
    read_moment(manager)
    manager.process.pause()
    before()
    pair.kill_master()
    manager.process.resume()
    return SimpleNamespace(broker=pair.slave, topic=pair.topic, manager=manager, offsets=guarded(manager))


def has_groups(pair, *groups):
    """Wait until the slave has groups: it takes offsets of no others."""
    found = lambda: set(groups) <= admin(pair.slave.address, configured_groups())  # noqa: E731
    wait_until(found, seconds=SOON_S, what="the slave has the groups")


@pytest.fixture(scope="module")
def after_a_lost_tail(tmp_path_factory):
    """Two groups popped; of one the slave has what it popped first, and nothing of what either popped then."""
    with a_pair(tmp_path_factory.mktemp("tail"), **WITHOUT_LAST_SYNC) as (pair, manager):
        for group in (POPPED, POPPED_TWICE):
            make_group(pair.master, group)
        send(pair.master, pair.topic, 40)
        assert pop(pair.master, POPPED_TWICE, pair.topic, 10) == set(range(10))
        is_copied = lambda: offset_of(pair.slave, POPPED_TWICE, pair.topic) == 10  # noqa: E731
        wait_until(is_copied, seconds=SOON_S, what="the slave has copied the offset")
        has_groups(pair, POPPED, POPPED_TWICE)
        pair.freeze_slave()
        assert pop(pair.master, POPPED_TWICE, pair.topic, 20) == set(range(10, 30))
        assert pop(pair.master, POPPED, pair.topic, 30) == set(range(30))
        yield fail_over(pair, manager)


def test_guard_leaves_what_was_popped_and_not_acknowledged_after_a_lost_tail(after_a_lost_tail):
    site = after_a_lost_tail
    found = site.offsets[POPPED, site.topic]
    assert (found["action"], found["outcome"]) == ("report", "nothing"), found
    assert pop(site.broker, POPPED, site.topic, 30) == set(range(30))
    assert outcome(site.offsets[POPPED_TWICE, site.topic]) == ("report", "pops", "nothing")


def test_restore_of_former_offsets_leaves_what_was_popped_and_not_acknowledged(after_a_lost_tail):
    site = after_a_lost_tail
    status, reason = restored(site.manager, moment="former", group=POPPED_TWICE)
    assert status == "pops", reason
    assert pop(site.broker, POPPED_TWICE, site.topic, 20) == set(range(10, 30))


@pytest.fixture(scope="module")
def after_a_clean_failover(tmp_path_factory):
    """No slave has what was popped, a group pulls, and one topic was made anew after the last reading."""
    with a_pair(tmp_path_factory.mktemp("clean"), **WITH_POP_RECORDS) as (pair, manager):
        send(pair.master, pair.topic, 40)
        # A slave of 5.5.0 copies no offsets any more once somebody has pulled from its master.
        online(pair.lab, pair.master, pair.namesrv, READERS)
        make_group(pair.master, POPPED)
        for topic in (TOPIC, RENEWED):
            make_topic(pair.master, topic, messages=100)
            commit(pair.master, READERS, topic, 80)
        # The offset is where the last pop has begun.
        assert pop(pair.master, POPPED, pair.topic, 20) == set(range(20))
        assert pop(pair.master, POPPED, pair.topic, 10) == set(range(20, 30))
        has_groups(pair, POPPED, READERS)

        def renew():
            for broker in (pair.master, pair.slave):
                admin(broker.address, delete_topic(RENEWED))
            make_topic(pair.master, RENEWED, messages=100)
            has_topic = lambda: admin(pair.slave.address, topic_definition(RENEWED))  # noqa: E731
            wait_until(has_topic, seconds=SOON_S, what="the slave has the topic")
            has_all = lambda: end_of(pair.slave.address, RENEWED) == 100  # noqa: E731
            wait_until(has_all, seconds=SOON_S, what="the slave has its messages")

        yield fail_over(pair, manager, renew)


def test_guard_and_restores_leave_groups_of_which_no_slave_has_what_they_popped(after_a_clean_failover):
    site = after_a_clean_failover
    found = site.offsets[POPPED, site.topic]
    assert (found["action"], found["outcome"]) == ("report", "nothing"), found
    status, reason = restored(site.manager, moment="former", group=POPPED)
    assert status == "pops", reason
    assert pop(site.broker, POPPED, site.topic, 30) == set(range(30))


def test_guard_raises_the_offset_of_a_group_whose_members_pull(after_a_clean_failover):
    site = after_a_clean_failover
    found = site.offsets[READERS, TOPIC]
    assert (*outcome(found), found["newOffset"]) == ("push", "absent", "stored", 80), found
    assert offset_of(site.broker, READERS, TOPIC) == 80


def test_guard_raises_no_offset_in_a_topic_that_was_made_anew_since_the_reading(after_a_clean_failover):
    site = after_a_clean_failover
    found = site.offsets[READERS, RENEWED]
    assert outcome(found) == ("report", "no_proof", "nothing"), found
    assert offset_of(site.broker, READERS, RENEWED) is None


def a_clock(folder, *, ahead_s):
    if reason := why_not():
        cannot_run(reason)
    folder.mkdir()
    clock = WallClock(folder)
    clock.jump_to(ahead_s)
    return clock


@pytest.fixture
def namesrv(lab):
    return lab.name_server()


def started(lab, namesrv, clock, version):
    broker = lab.broker("alone", namesrv=[namesrv.address], version=version, environment=clock.environment)
    return broker.start().ready()


def test_restore_undoes_no_reset_and_does_not_believe_the_clock_of_a_broker_alone(lab, namesrv):
    broker = started(lab, namesrv, a_clock(lab.folder / "clock", ahead_s=-600), V5_5)
    online(lab, broker, namesrv, READERS)
    for topic in (TOPIC, RENEWED):
        make_topic(broker, topic, messages=100)
        commit(broker, READERS, topic, 80)
    manager = manager_of(lab, namesrv_addr=namesrv.address)
    moment = read_moment(manager)
    commit(broker, READERS, TOPIC, 10)
    admin(broker.address, delete_topic(RENEWED))
    make_topic(broker, RENEWED, messages=100)

    def listed():
        return {each["topic"] for each in manager.get("/v1/offsets/regressions").body["regressions"]}

    wait_until(lambda: listed() == {TOPIC, RENEWED}, seconds=SOON_S, what="both are listed")
    of_topic = restored(manager, moment=moment, topic=TOPIC)
    of_group = restored(manager, moment=moment, group=READERS, topic=RENEWED)
    # The messages of the topic that was made anew were stored before the moment by the broker's clock.
    assert (of_topic[0], of_group[0]) == ("moved_on", "not_proved"), (of_topic, of_group)
    assert [offset_of(broker, READERS, topic) for topic in (TOPIC, RENEWED)] == [10, None]
    assert restored(manager, moment=moment, group=READERS, topic=TOPIC)[0] == "restored"


@pytest.mark.parametrize("version", [V4_9, V5_5])
def test_guard_brings_no_group_back_that_was_deleted_while_there_was_no_manager(lab, namesrv, version):
    clock = a_clock(lab.folder / "clock", ahead_s=-LONG_AGO_S)
    broker = started(lab, namesrv, clock, version)
    make_topic(broker, TOPIC, messages=100)
    make_group(broker, READERS)
    commit(broker, READERS, TOPIC, 80)
    # Messages that are as young as the reading prove nothing.
    clock.jump_to(10 - LONG_AGO_S)
    manager = manager_of(lab, namesrv_addr=namesrv.address, environment=clock.environment)
    read_moment(manager, ahead_s=10 - LONG_AGO_S)
    assert manager.process.stop() == 0
    admin(broker.address, delete_group(READERS, cleans_offsets=True))
    file = broker.store / "config" / "consumerOffset.json"
    is_gone = lambda: not file.exists() or f"{TOPIC}@{READERS}" not in file.read_text()  # noqa: E731
    wait_until(is_gone, seconds=SOON_S, what="the deletion on disk")
    broker.process.kill()
    clock.jump_to(0)
    broker.start().ready()
    # Others use the name today.
    make_group(broker, READERS)
    manager.start()

    found = guarded(manager)[READERS, TOPIC]
    assert (found["action"], found["outcome"]) == ("report", "nothing"), found
    assert offset_of(broker, READERS, TOPIC) is None
