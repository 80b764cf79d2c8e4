"""A run at one broker, over real connections: what is written, verified and reported."""

import asyncio
import contextlib
import copy
from dataclasses import replace

import pytest
from fake_master import FakeMaster
from guard_logs import BOOT_MS, OLD_MS, READ_MS, SIZE, Queue
from java_sets import Notes

from controller.offsets.guard.candidates import SavedQueue, TableKey
from controller.offsets.guard.log_facts import SavedMoment
from controller.offsets.guard.outcomes import Outcome
from controller.offsets.guard.rules import Action, Reason, Tail
from controller.offsets.guard.runner import EarlyEnd, GuardedBroker, GuardLimits, OffsetGuard
from remoting.admin.client import AdminClient, AdminLimits
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode

ORDERS = ("orders", 0)
KEY = "orders@g"
LIMITS = AdminLimits(requests_max=64, requests_per_peer_max=64, timeout_ms=90_000)


def a_moment(*, epoch=1):
    return SavedMoment(epoch=epoch, unix_ms=READ_MS, was_restarted=False)


def saved(offset=80, *, group="g", topic="orders", queues=1):
    return {TableKey(group, topic): {queue_id: SavedQueue(offset) for queue_id in range(queues)}}


@contextlib.asynccontextmanager
async def opened(master, limits=LIMITS):
    await master.peer.open()
    client = RemotingClient(SystemClock())
    try:
        yield AdminClient(client, limits)
    finally:
        await client.close()
        await master.peer.close()


async def guarded(
    master,
    table=None,
    *,
    is_still_master=lambda: True,
    limits=None,
    admin_limits=LIMITS,
    writes=True,
    early_end=None,
    **options,
):
    """Run the guard at a master whose groups pull unless its clients say otherwise; return its notes and its report.

    Where nothing else is said, the log that was read ended with the last message that a group had read.
    """
    notes, table = Notes(), saved() if table is None else table
    if master.clients is None:
        master.clients = {key.group: "pulls" for key in table}
    moment = options.pop("moment", a_moment())
    if moment.log_end is None:
        highest = max(each.offset or 0 for queues in table.values() for each in queues.values())
        moment = replace(moment, log_end=highest * SIZE)
    known = {
        "saved": table,
        "moment": moment,
        "is_stale": False,
        "tail": Tail.MAY_BE_LOST,
        "is_recent": True,
        "awaits_members": True,
    }
    async with opened(master, admin_limits) as admin:
        broker = GuardedBroker(broker_name="b", address=master.peer.address, **(known | options))
        guard = OffsetGuard(admin, SystemClock(), notes, limits, writes=writes)
        return notes, await guard.guard(broker, is_still_master, early_end)


async def test_older_offset_is_pushed_and_verified():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    notes, report = await guarded(master)
    assert master.written == [("commit", KEY, 0, 80)]
    assert notes.of("g") == ("push", 80, "stored")
    assert report.failure is None
    assert report.decisions == {(Action.PUSH, Reason.BEHIND): 1}
    assert report.outcomes == {Outcome.STORED: 1}


async def test_nothing_but_epochs_is_requested_of_a_log_where_they_prove_all():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    await guarded(master)
    assert master.peer.count(BrokerRequestCode.GET_BROKER_RUNTIME_INFO) == 0
    assert master.peer.count(BrokerRequestCode.VIEW_MESSAGE_BY_ID) == 0


async def test_offset_in_the_lost_tail_is_reset_on_the_server():
    master = FakeMaster({ORDERS: Queue(old=100, new=200)}, {KEY: {0: 60}})
    notes, _ = await guarded(master, saved(130))
    assert master.written == [("commit", KEY, 0, 100), ("reset", KEY, 0, 100)]
    assert notes.of("g") == ("set", 100, "stored")


async def test_reset_to_an_offset_that_has_expired_begins_with_the_first_message_that_there_is():
    """The broker refuses the offset itself (222), and members that are online would skip what fills the lost tail."""
    master = FakeMaster({ORDERS: Queue(old=1500, new=100, expired=1000)}, {KEY: {0: 1800}})
    notes, report = await guarded(master, saved(5), tail=Tail.LOST)
    assert master.written == [("commit", KEY, 0, 5), ("reset", KEY, 0, 1000)]
    assert notes.of("g") == ("set", 1000, "stored")
    assert report.failure is None


async def test_broker_that_cannot_reset_gets_a_commit_that_a_client_may_overwrite():
    master = FakeMaster({ORDERS: Queue(old=100, new=200)}, {KEY: {0: 60}})
    master.options = "useServerSideResetOffset=false\n"
    notes, _ = await guarded(master, saved(130))
    assert master.written == [("commit", KEY, 0, 100)]
    assert notes.of("g") == ("set", 100, "not_reset")


async def test_reset_of_somebody_else_is_respected():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    master.pending.add((KEY, 0))
    notes, report = await guarded(master)
    assert master.written == []
    assert notes.of("g") == ("push", 80, "reset_pending")
    assert report.outcomes == {Outcome.RESET_PENDING: 1}


async def test_nothing_is_written_once_the_broker_is_not_the_master_any_more():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    notes, _ = await guarded(master, is_still_master=lambda: False)
    assert master.written == []
    assert notes.of("g") == ("push", 80, "role_changed")


async def test_commit_of_the_group_meanwhile_is_left():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})

    def commit_after_a_look(code):
        if code == BrokerRequestCode.QUERY_CONSUME_QUEUE:
            master.offsets[KEY] = {0: 90}

    master.then = commit_after_a_look
    notes, _ = await guarded(master)
    assert master.written == []
    assert notes.of("g") == ("push", 80, "moved_on")


async def test_reset_of_an_operator_during_the_run_is_left():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})

    def reset_after_a_look(code):
        if code == BrokerRequestCode.QUERY_CONSUME_QUEUE:
            master.offsets[KEY] = {0: 10}

    master.then = reset_after_a_look
    notes, _ = await guarded(master)
    assert master.written == []
    assert notes.of("g") == ("push", 80, "moved_on")


async def test_reset_of_an_operator_before_this_process_was_started_is_reported_and_left():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 10}})
    notes, report = await guarded(master, saved() | saved(70, group="h"), is_recent=False)
    assert master.written == [("commit", "orders@h", 0, 70)]
    assert notes.of("g") == ("report", None, "nothing")
    assert notes.by_queue["g", 0].decision.safe_offset == 80
    assert notes.of("h") == ("push", 70, "stored")
    assert report.decisions == {(Action.REPORT, Reason.MAY_BE_RESET): 1, (Action.PUSH, Reason.ABSENT): 1}


async def test_request_that_a_busy_broker_refuses_is_repeated():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    # As a slave refuses pulls.
    master.first = {BrokerRequestCode.QUERY_CONSUME_QUEUE: [2, 2]}
    notes, _ = await guarded(master)
    assert notes.of("g") == ("push", 80, "stored")


async def test_broker_that_is_no_master_any_more_is_reported():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    master.broker_id = 2
    notes, report = await guarded(master, limits=GuardLimits(run_ms=2_000))
    assert notes.by_queue == {}
    assert "reports (1007) brokerId 2: it is no master" in report.failure


async def test_another_broker_at_the_address_is_left_alone():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    master.name = "other"
    _, report = await guarded(master)
    assert "is other, not b" in report.failure
    assert master.written == []


async def test_another_broker_at_the_address_is_left_alone_where_no_epochs_name_it():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}}, epochs=None)
    master.options += "brokerName=other\n"
    _, report = await guarded(master, moment=a_moment(epoch=None))
    assert report.failure.endswith(f"{report.address} is other by its own options (26), not b")
    assert master.written == []


@pytest.mark.parametrize("answers", [{"first": {RequestCode.GET_BROKER_CONFIG: [16]}}, {"options": "brokerName=b\n"}])
async def test_broker_that_has_the_name_or_does_not_tell_it_is_guarded_without_epochs(answers):
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}}, epochs=None)
    vars(master).update(answers)
    notes, _ = await guarded(master, moment=a_moment(epoch=None))
    assert notes.of("g") == ("push", 80, "stored")


async def test_offset_table_that_is_refused_is_no_empty_table():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    master.first = {BrokerRequestCode.GET_ALL_CONSUMER_OFFSET: [1]}
    _, report = await guarded(master)
    assert report.failure.startswith("it read the offset table: ")
    assert master.written == []


async def test_write_that_cannot_be_read_again_is_told_from_one_that_was_not_made():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})

    def broken(code):
        if code == BrokerRequestCode.UPDATE_CONSUMER_OFFSET:
            master.first = {BrokerRequestCode.GET_ALL_CONSUMER_OFFSET: [1]}

    master.then = broken
    notes, report = await guarded(master)
    assert notes.of("g") == ("push", 80, "unverified")
    assert report.failure.startswith("it verified offsets: ")


def ends_at(master, code):
    """Let the time of a run be over while the master does not answer this code, and return the run's limits."""
    loop = asyncio.get_running_loop()
    time = loop.time

    def end(received):
        if received == code:
            loop.time = lambda: time() + 40

    master.silent, master.then = code, end
    return GuardLimits(run_ms=40_000, requests_max=1)


async def test_time_that_is_over_tells_what_was_sent_from_what_was_not():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}, "orders@h": {0: 60}})
    limits = ends_at(master, BrokerRequestCode.UPDATE_CONSUMER_OFFSET)
    notes, report = await guarded(master, saved() | saved(group="h"), limits=limits)
    assert report.failure == f"{report.address} was not finished within 40000 ms, it wrote offsets"
    assert {notes.of("g"), notes.of("h")} == {("push", 80, "unverified"), ("push", 80, "not_reached")}


async def test_time_that_is_over_before_the_answer_to_a_reset_leaves_it_unverified():
    master = FakeMaster({ORDERS: Queue(old=100, new=200)}, {KEY: {0: 60}})
    limits = ends_at(master, BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
    notes, _ = await guarded(master, saved(130), limits=limits)
    assert notes.of("g") == ("set", 100, "unverified")


async def test_offset_that_was_committed_and_could_not_be_reset_differs_from_one_that_was_not_written():
    master = FakeMaster({ORDERS: Queue(old=100, new=200)}, {KEY: {0: 60}})
    notes, _ = await guarded(master, saved(130), is_still_master=lambda: not master.written)
    assert master.written == [("commit", KEY, 0, 100)]
    assert notes.of("g") == ("set", 100, "reset_missing")

    master = FakeMaster({ORDERS: Queue(old=100, new=200)}, {KEY: {0: 60}})
    master.first = {BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET: [26]}
    notes, _ = await guarded(master, saved(130))
    assert notes.of("g") == ("set", 100, "reset_missing")
    assert "26" in notes.by_queue["g", 0].detail


def breaks_at_the_write(master, *, stored=None):
    """Let connections break before a commit is answered; the master has stored this offset or nothing."""
    master.silent = BrokerRequestCode.UPDATE_CONSUMER_OFFSET

    def break_off(code):
        if code == BrokerRequestCode.UPDATE_CONSUMER_OFFSET:
            master.offsets[KEY][0] = stored or master.offsets[KEY][0]
            master.peer.drop_connections()

    master.then = break_off
    return master


async def test_write_that_was_not_answered_and_not_stored_is_left_to_another_run():
    master = breaks_at_the_write(FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}}))
    notes, report = await guarded(master)
    assert notes.of("g") == ("push", 80, "not_reached")
    assert report.is_incomplete
    assert report.failure.startswith(f"{report.address} has not taken all offsets: request to {report.address} failed")


@pytest.mark.parametrize(
    ("offset", "options", "done"),
    [
        (80, "true", ("push", 80, "stored")),
        (130, "true", ("set", 100, "reset_missing")),
        (130, "false", ("set", 100, "not_reset")),
    ],
)
async def test_write_that_was_stored_without_an_answer_is_verified(offset, options, done):
    master = breaks_at_the_write(FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}}), stored=done[1])
    master.options = f"useServerSideResetOffset={options}\n"
    notes, report = await guarded(master, saved(offset))
    assert notes.of("g") == done
    assert not report.is_incomplete


async def test_write_that_a_busy_broker_refuses_is_left_to_another_run():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    master.first = {BrokerRequestCode.UPDATE_CONSUMER_OFFSET: [2] * 21}
    notes, report = await guarded(master)
    assert notes.of("g") == ("push", 80, "not_reached")
    assert report.failure == f"{report.address} has not taken all offsets: code 2: no"


async def test_write_that_the_broker_refuses_for_good_is_not_repeated():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    master.first = {BrokerRequestCode.UPDATE_CONSUMER_OFFSET: [26]}
    _, report = await guarded(master)
    assert not report.is_incomplete


async def test_topic_that_is_gone_is_refused_and_others_are_set_right():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    notes, _ = await guarded(master, saved() | saved(group="h", topic="gone"))
    assert notes.of("g") == ("push", 80, "stored")
    assert notes.of("h") == ("set", 0, "refused")


async def test_queue_that_cannot_be_read_is_reported():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    master.first = {BrokerRequestCode.QUERY_CONSUME_QUEUE: [16]}
    notes, _ = await guarded(master)
    assert notes.of("g") == ("report", None, "nothing")


async def test_group_that_the_broker_refuses_is_reported_with_its_answer():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {})
    master.first = {BrokerRequestCode.UPDATE_CONSUMER_OFFSET: [26]}
    notes, _ = await guarded(master)
    assert notes.of("g") == ("push", 80, "refused")
    assert "26" in notes.by_queue["g", 0].detail


async def test_gap_in_the_epochs_is_closed_by_the_age_of_the_log():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}}, epochs=((1, 0), (3, None)))
    notes, _ = await guarded(master)
    assert notes.of("g") == ("push", 80, "stored")


async def test_cluster_without_a_controller_is_guarded_by_store_times():
    master = FakeMaster({ORDERS: Queue(old=100, new=200)}, {KEY: {0: 60}}, epochs=None)
    notes, _ = await guarded(master, saved(130), moment=a_moment(epoch=None))
    assert notes.of("g") == ("set", 100, "stored")


async def test_new_master_without_epochs_is_left_alone_where_its_predecessor_had_them():
    """It is a slave that was promoted without a start: when it started says nothing."""
    master = FakeMaster({ORDERS: Queue(old=100, new=200)}, {KEY: {0: 150}}, epochs=None)
    notes, report = await guarded(master, moment=a_moment(epoch=3))
    assert "does not list its master epochs (1007), and the offsets were read in epoch 3" in report.failure
    assert notes.by_queue == {}
    assert master.written == []


async def test_slave_that_was_promoted_without_a_start_and_without_epochs_is_reported():
    master = FakeMaster({ORDERS: Queue(old=100, new=200)}, {KEY: {0: 150}}, epochs=None)
    master.boot_ms = READ_MS - 3_600_000
    notes, _ = await guarded(master, saved(200), moment=a_moment(epoch=None), tail=Tail.LOST)
    assert notes.of("g") == ("report", None, "nothing")
    assert master.written == []


def started_again(*, queues=1, log_end=130 * SIZE, **options):
    """Return a broker without a controller that came back with less than it had, and when it was read before."""
    orders = {("orders", queue_id): Queue(old=100, late=30, new=20) for queue_id in range(queues)}
    master = FakeMaster(orders, {KEY: dict.fromkeys(range(queues), 60)}, epochs=None)
    master.log_end = log_end
    for name, value in options.items():
        setattr(master, name, value)
    moment = replace(a_moment(epoch=None), log_end=140 * SIZE, boot_unix_ms=BOOT_MS - 3_600_000)
    return master, moment


async def test_new_message_where_another_one_was_shows_that_the_disk_is_an_older_copy():
    """Its log has grown beyond where it ended."""
    master, moment = started_again(log_end=150 * SIZE)
    notes, _ = await guarded(master, saved(140), moment=moment)
    assert notes.of("g") == ("set", 100, "stored")


@pytest.mark.parametrize("search_error", [0, -7, 7, 1000])
async def test_older_copy_of_a_disk_sends_groups_before_what_was_stored_last(search_error):
    """The broker searches by time for where that begins, which is proved."""
    master, moment = started_again(search_error=search_error)
    notes, report = await guarded(master, saved(140), moment=moment)
    assert master.written == [("commit", KEY, 0, 100), ("reset", KEY, 0, 100)]
    assert notes.of("g") == ("set", 100, "stored")
    assert report.failure is None
    assert master.peer.count(BrokerRequestCode.SEARCH_OFFSET_BY_TIMESTAMP) == 1


async def test_broker_that_refuses_to_search_by_time_is_searched_by_looks():
    master, moment = started_again()
    master.first[BrokerRequestCode.SEARCH_OFFSET_BY_TIMESTAMP] = [ResponseCode.SYSTEM_ERROR]
    notes, _ = await guarded(master, saved(140), moment=moment)
    assert notes.of("g") == ("set", 100, "stored")


async def test_broker_that_does_not_answer_a_search_by_time_is_searched_by_looks_from_then_on():
    master, moment = started_again(queues=200, silent=BrokerRequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
    limits = AdminLimits(requests_max=64, requests_per_peer_max=64, timeout_ms=500)
    _, report = await guarded(master, saved(140, queues=200), moment=moment, admin_limits=limits)
    assert report.outcomes == {Outcome.STORED: 200}
    assert master.peer.count(BrokerRequestCode.SEARCH_OFFSET_BY_TIMESTAMP) <= GuardLimits().requests_max


async def test_what_was_looked_at_in_time_is_written_and_the_run_is_not_complete():
    orders = {("orders", queue_id): Queue(old=100, new=20) for queue_id in range(2)}
    master = FakeMaster(orders, {KEY: {0: 60, 1: 60}})
    master.silent_queues.add(("orders", 1))
    notes, report = await guarded(master, saved(queues=2), limits=GuardLimits(looks_ms=500))
    assert master.written == [("commit", KEY, 0, 80)]
    assert (notes.of("g"), notes.of("g", 1)) == (("push", 80, "stored"), ("report", None, "nothing"))
    assert report.failure.endswith("has not shown all messages within 500 ms")
    assert report.is_incomplete


async def test_looks_end_in_time_also_where_the_broker_has_filled_its_queues_late():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}}, epochs=None)
    master.behind_bytes = 500
    begun_s = asyncio.get_running_loop().time()

    def fill(_):
        master.behind_bytes = 500 if asyncio.get_running_loop().time() < begun_s + 1 else 0

    master.then = fill
    master.silent_queues.add(ORDERS)
    limits = GuardLimits(run_ms=2200, looks_ms=1500)
    notes, report = await guarded(master, saved(), moment=a_moment(epoch=None), limits=limits)
    assert notes.of("g") == ("report", None, "nothing")
    assert report.failure.endswith("has not shown all messages within 1500 ms")


async def test_queue_that_is_not_shown_keeps_no_other_one_waiting():
    """The others need several looks each."""
    master, moment = started_again(queues=100, silent_queues={("orders", 0)})
    notes, _ = await guarded(master, saved(140, queues=100), moment=moment, limits=GuardLimits(looks_ms=3000))
    assert {notes.of("g", queue_id) for queue_id in range(1, 100)} == {("set", 100, "stored")}
    assert notes.of("g", 0) == ("report", None, "nothing")


@pytest.mark.parametrize(
    ("read_ms", "done"), [(READ_MS, ("push", 80, "stored")), (OLD_MS, ("report", None, "nothing"))]
)
async def test_messages_of_a_master_that_was_started_again_in_its_epoch_are_old_by_when_they_were_stored(read_ms, done):
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    moment = SavedMoment(epoch=1, unix_ms=read_ms, was_restarted=True)
    notes, _ = await guarded(master, moment=moment)
    assert notes.of("g") == done
    assert master.peer.count(BrokerRequestCode.VIEW_MESSAGE_BY_ID) > 0


async def test_group_that_has_never_pulled_is_taken_back_where_the_broker_says_so():
    master = FakeMaster({ORDERS: Queue(old=100, new=200)}, {KEY: {0: 150}})
    notes, _ = await guarded(master, saved(80))
    assert notes.of("g") == ("set", 80, "stored")
    master = FakeMaster({ORDERS: Queue(old=100, new=200)}, {KEY: {0: 150}})
    master.pulled = {KEY: {0: 155}}
    notes, _ = await guarded(master, saved(80))
    assert notes.of("g") == ("report", None, "nothing")


@pytest.mark.parametrize(("offsets", "reason"), [({KEY: {0: 60}}, Reason.POPS), ({}, Reason.LEFT_ABSENT)])
async def test_group_without_members_is_not_raised_whatever_it_did_before(offsets, reason):
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, offsets)
    master.clients, master.pulled = {}, {KEY: {0: 60}}
    _, report = await guarded(master)
    assert master.written == []
    assert report.decisions == {(Action.REPORT, reason): 1}


@pytest.mark.parametrize(
    ("option", "reason"),
    [("true", (Action.REPORT, Reason.POPS)), ("false", (Action.LEAVE, Reason.UP_TO_DATE))],
)
async def test_group_that_may_pop_is_reported_where_no_slave_has_what_was_popped(option, reason):
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 80}})
    master.clients, master.options = {}, f"popConsumerKVServiceEnable={option}\n"
    _, report = await guarded(master)
    assert report.decisions == {reason: 1}


async def test_group_is_not_raised_where_a_member_does_not_show_that_it_pulls():
    """A proxy answers nothing but a stack trace for its gRPC clients, which pop."""
    for known, reason in ({"c1": (1, None)}, Reason.POPS), ({"c1": (1, None), "c2": (1, None)}, Reason.BEHIND):
        master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
        master.members, master.idle, master.started = ["c1", "c2"], {"c2"}, known
        _, report = await guarded(master)
        assert [why for _, why in report.decisions] == [reason]


async def test_consumers_that_pull_by_themselves_show_queues_as_well():
    """203 has the gRPC consumers of a proxy under the same word."""
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    master.consume_type, master.idle, master.started = "CONSUME_ACTIVELY", {"c1"}, {"c1": (1, None)}
    _, report = await guarded(master)
    assert report.decisions == {(Action.REPORT, Reason.POPS): 1}


@pytest.mark.parametrize("tail", [Tail.KEPT, Tail.LOST])
@pytest.mark.parametrize("offsets", [{KEY: {0: 60}}, {}], ids=["older", "absent"])
async def test_no_offset_is_raised_over_messages_that_came_after_the_reading(tail, offsets):
    """The topic was made anew: its messages are in the old log, and nobody has read them."""
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, copy.deepcopy(offsets))
    notes, _ = await guarded(master, moment=replace(a_moment(), log_end=79 * SIZE), tail=tail)
    sent_back = ("set", 60 if offsets else 0, "stored") if tail is Tail.LOST else ("report", None, "nothing")
    assert notes.of("g") == sent_back


@pytest.mark.parametrize(
    ("log_end", "looks", "raised"), [(80 * SIZE, 1, {"a", "b", "c"}), (59 * SIZE, 3, {"a"}), (10 * SIZE, 3, set())]
)
async def test_one_look_at_the_highest_raise_of_a_queue_proves_those_below(log_end, looks, raised):
    """Where it does not, the lower ones are looked at."""
    read = {"a": 40, "b": 60, "c": 80}
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {f"orders@{group}": {0: 5} for group in read})
    table = {key: value for group, offset in read.items() for key, value in saved(offset, group=group).items()}
    await guarded(master, table, moment=replace(a_moment(), log_end=log_end))
    assert {key.removeprefix("orders@") for _, key, _, _ in master.written} == raised
    assert master.peer.count(BrokerRequestCode.QUERY_CONSUME_QUEUE) == looks


async def test_nothing_is_looked_at_where_nothing_would_be_raised():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    master.clients = {}
    await guarded(master)
    looks = master.peer.count(BrokerRequestCode.QUERY_CONSUME_QUEUE)
    assert looks == 1, "the plan's own look, and none for the group's members, who need not be awaited"


@pytest.mark.parametrize("offsets", [{KEY: {0: 60}}, {}], ids=["older", "absent"])
@pytest.mark.parametrize("version", ["V5_5_0", "V4_9_7"])
async def test_offset_that_was_read_long_ago_is_raised_only_where_members_show_now_that_they_pull(offsets, version):
    """A group without members may have been deleted since, also at a broker that cannot pop."""
    for clients, written in ({}, []), ({"g": "pulls"}, [("commit", KEY, 0, 80)]):
        master = FakeMaster({ORDERS: Queue(old=100, new=20)}, copy.deepcopy(offsets), epochs=None)
        master.clients, master.version = clients, version
        await guarded(master, moment=a_moment(epoch=None), is_stale=True)
        assert master.written == written


async def test_members_in_a_lost_tail_are_sent_back_however_long_the_election_took():
    master = FakeMaster({ORDERS: Queue(old=100, new=200)}, {})
    await guarded(master, saved(130), tail=Tail.LOST, is_stale=True, moment=replace(a_moment(), log_end=130 * SIZE))
    assert master.written == [("commit", KEY, 0, 100), ("reset", KEY, 0, 100)]


async def test_group_whose_client_says_that_it_pulls_is_pushed_and_one_that_pops_is_left_behind():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}, "orders@h": {0: 60}})
    master.clients = {"g": "pulls", "h": "pops"}
    await guarded(master, saved() | saved(group="h"))
    assert master.written == [("commit", KEY, 0, 80)]


async def test_client_that_does_not_answer_leaves_its_group_behind():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    master.clients = {"g": "pulls"}
    master.first = {BrokerRequestCode.GET_CONSUMER_RUNNING_INFO: [207]}
    _, report = await guarded(master)
    assert master.written == []
    assert report.decisions == {(Action.REPORT, Reason.POPS): 1}


async def test_clients_that_hang_hold_the_other_offsets_up_for_a_limited_time(monkeypatch):
    monkeypatch.setattr("controller.offsets.guard.group_kinds.WITHIN_S", 0.2)
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 150}})
    master.clients, master.silent = {"g": "pulls"}, BrokerRequestCode.GET_CONSUMER_RUNNING_INFO
    notes, report = await guarded(master)
    assert report.failure is None
    assert notes.of("g") == ("set", 80, "stored")


async def test_guard_that_only_reports_sends_no_change_to_the_broker():
    master = FakeMaster({ORDERS: Queue(old=100, new=200)}, {KEY: {0: 60}, "orders@h": {0: 60}})
    notes, report = await guarded(master, saved(80) | saved(130, group="h"), writes=False)
    assert master.written == []
    assert notes.of("g") == ("set", 80, "withheld")
    assert notes.of("h") == ("set", 100, "withheld")
    assert not report.is_incomplete


async def test_run_that_another_one_takes_the_place_of_ends_at_once_and_says_what_it_was_at():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    early_end, master.silent = EarlyEnd(), BrokerRequestCode.QUERY_CONSUME_QUEUE
    master.then = lambda code: early_end.end("the master has changed again") if code == master.silent else None
    async with asyncio.timeout(5):
        _, report = await guarded(master, early_end=early_end)
    assert report.failure == "the master has changed again, it looked at messages"
    assert master.written == []


async def test_run_that_is_ended_before_it_begins_sends_no_change():
    master = FakeMaster({ORDERS: Queue(old=100, new=20)}, {KEY: {0: 60}})
    early_end = EarlyEnd()
    early_end.end("the broker set was removed")
    _, report = await guarded(master, early_end=early_end)
    assert report.failure.startswith("the broker set was removed")
    assert master.written == []


async def test_group_whose_retry_topic_shows_that_it_pops_is_left_behind():
    retry = ("%RETRY%g_orders", 0)
    master = FakeMaster({ORDERS: Queue(old=100, new=20), retry: Queue(old=100, new=20)}, {KEY: {0: 60}})
    _, report = await guarded(master, saved() | saved(0, topic=retry[0]))
    assert report.decisions[Action.REPORT, Reason.POPS] == 1
    assert ("commit", KEY, 0, 80) not in master.written


@pytest.mark.broad
async def test_ten_thousand_offsets_of_groups_are_set_right_in_one_run():
    queues = {(f"t{topic}", queue_id): Queue(old=100, new=20) for topic in range(100) for queue_id in range(10)}
    keys = [f"t{topic}@g{group}" for topic in range(100) for group in range(10)]
    master = FakeMaster(queues, {key: dict.fromkeys(range(10), 60) for key in keys})
    table = {}
    for key in keys:
        topic, group = key.split("@")
        table |= saved(80, group=group, topic=topic, queues=10)
    async with asyncio.timeout(60):
        _, report = await guarded(master, table, limits=GuardLimits(run_ms=60_000))
    assert report.outcomes == {Outcome.STORED: 10_000}
    assert master.peer.count(BrokerRequestCode.QUERY_CONSUME_QUEUE) == 1000
