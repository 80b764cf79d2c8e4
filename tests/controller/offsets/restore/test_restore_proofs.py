"""A restore skips nothing unseen: what needs proof and has none is not written, nor is anything at another master."""

import asyncio

import pytest
from fakes.offset_broker import BOOT_MS
from mirror_builders import a_read
from restore_site import AFTER, BEFORE, a_broker, a_queue, outcomes, restore_site

from controller.offsets.guard.boundaries import PlacedMessage
from controller.offsets.guard.master_queries import MasterQueries
from controller.offsets.mirror.regressions import EarlierResets, Regression, RegressionCause
from controller.offsets.restore.broker_run import BrokerRun
from controller.offsets.restore.operations import OperationKind
from controller.offsets.restore.restorer import READ_S, BrokerChange
from controller.offsets.restore.rules import proved
from controller.offsets.restore.values import PlannedOffset, RestoreOptions, RestoreStatus, WantedOffset
from remoting.protocol.codes import BrokerRequestCode


async def test_after_a_restart_only_offsets_with_old_messages_before_them_go_forward(tmp_path):
    broker = a_broker(billing={0: 10, 1: 10})
    broker.stored_ms = BOOT_MS + 60_000
    broker.stored["orders", 0] = {49: BEFORE - 60_000}
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50, 1: 50}}
        done = await site.restore(BEFORE)

        assert outcomes(done) == {("billing", 0): ("restored", 10, 50), ("billing", 1): ("not_proved", 10, 50)}
        assert "nobody has read" in done.queues[1].reason

        forced = await site.restore(BEFORE, unproved=True)
        assert outcomes(forced)["billing", 1] == ("restored", 10, 50)


async def test_without_the_time_of_the_election_offsets_need_old_messages_before_them(tmp_path):
    broker = a_broker(billing={0: 10})
    broker.stored_ms = AFTER + 1
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        # It may have become master since, without a new start.
        site.followed.sets["broker-a"] = site.followed.sets["broker-a"]._replace(elected_unix_ms=None)
        done = await site.restore(AFTER)

    assert outcomes(done) == {("billing", 0): ("not_proved", 10, 50)}
    assert broker.written == []


@pytest.mark.parametrize("moment", [AFTER, AFTER + 10**9], ids=["past", "to_come"])
async def test_offsets_that_were_read_before_a_role_change_need_old_messages_at_any_later_moment(tmp_path, moment):
    """The manager stood still: its newest reading before the moment is of the former master, and a tail was lost."""
    broker = a_broker(billing={0: 10, 1: 10})
    broker.stored_ms = BOOT_MS + 60_000
    broker.stored["orders", 0] = {49: BEFORE - 60_000}
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50, 1: 50}}
        site.mirror.read_unix_ms = BEFORE
        done = await site.restore(moment)

    assert outcomes(done) == {("billing", 0): ("restored", 10, 50), ("billing", 1): ("not_proved", 10, 50)}


async def test_topic_that_was_made_anew_at_the_same_master_gets_no_offset_of_the_former_one(tmp_path):
    broker = a_broker(billing={0: 10, 1: 10})
    # The messages of queue 0 are of the moment itself: the group had read the newest one.
    broker.stored_ms = AFTER
    broker.stored["orders", 1] = {49: AFTER + 60_000}
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50, 1: 50}}
        done = await site.restore(AFTER)
        assert outcomes(done) == {("billing", 0): ("restored", 10, 50), ("billing", 1): ("not_proved", 10, 50)}

        allowed = await site.restore(AFTER, unproved=True)
        assert outcomes(allowed)["billing", 1] == ("restored", 10, 50)


@pytest.mark.parametrize("moment", [AFTER, BEFORE])
async def test_beginning_of_a_queue_needs_no_message_before_it(tmp_path, moment):
    """All messages have expired: there is none that could be skipped, or looked at."""
    broker = a_broker(billing={0: 10})
    broker.topics["orders"][0] = (50, 50)
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(moment)

    assert outcomes(done) == {("billing", 0): ("restored", 10, 50)}


async def test_undo_takes_messages_that_a_group_read_while_its_restore_began(tmp_path):
    broker = a_broker(billing={0: 90})
    async with restore_site(tmp_path, broker) as site:
        site.clock.unix = AFTER
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER, back=True)
        broker.stored["orders", 0] = {89: AFTER + READ_S * 1000}

        undone = await site.undo(done.operation_id)

    assert outcomes(undone) == {("billing", 0): ("restored", 50, 90)}


async def test_what_there_is_no_time_to_look_at_is_not_written(tmp_path):
    broker = a_broker(billing={0: 10, 1: 90})
    broker.instead[BrokerRequestCode.QUERY_CONSUME_QUEUE] = None
    async with restore_site(tmp_path, broker) as site:
        queries = MasterQueries(site.admin, broker.name, broker.address)
        wanted = [WantedOffset(a_queue(0), 50, stored_before_unix_ms=BEFORE), WantedOffset(a_queue(1), 70)]
        run = BrokerRun(queries, broker.address, wanted, RestoreOptions(allow_back=True), lambda: True)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await run.plan()
        assert [each.status.value for each in run.planned] == ["not_proved", "ready"]

        await run.apply()

    assert broker.written == [("commit", "orders@billing", 1, 70)]


async def test_look_at_the_last_of_several_groups_proves_the_others(tmp_path):
    broker = a_broker(billing={0: 10}, shipping={0: 10}, search={0: 10})
    broker.stored_ms = BEFORE - 60_000
    broker.stored["orders", 0] = {69: BOOT_MS + 1}
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {
            "orders@billing": {0: 70},
            "orders@shipping": {0: 50},
            "orders@search": {0: 30},
        }
        done = await site.restore(BEFORE)

    statuses = {group: status for (group, _), (status, _, _) in outcomes(done).items()}
    assert statuses == {"billing": "not_proved", "shipping": "restored", "search": "restored"}


async def test_broker_that_becomes_master_while_the_mirror_is_read_gets_nothing(tmp_path):
    broker = a_broker(billing={0: 10})
    # Nothing had to be proved of the former master.
    broker.stored_ms = AFTER + 1
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        at, known = site.mirror.at, site.followed.sets["broker-a"]
        later = known._replace(master=known.master._replace(master_epoch=2), elected_unix_ms=AFTER)

        async def promoted_meanwhile(set_name, unix_ms):
            site.follow(later)
            return await at(set_name, unix_ms)

        site.mirror.at = promoted_meanwhile
        done = await site.restore(AFTER)
        assert outcomes(done) == {("billing", 0): ("role_changed", None, 50)}

        again = await site.restore(AFTER)

    assert outcomes(again) == {("billing", 0): ("not_proved", 10, 50)}
    assert broker.written == []


async def test_forced_undo_skips_nothing_unseen_unless_that_is_allowed(tmp_path):
    broker = a_broker(billing={0: 90})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER, back=True)
        # The queue has lost its end since, and new messages have filled it.
        broker.boot_ms = broker.stored_ms = site.clock.unix_ms() + 60_000
        broker.offsets["orders@billing"][0] = 40

        forced = await site.undo(done.operation_id, force=True)
        assert outcomes(forced) == {("billing", 0): ("not_proved", 40, 90)}

        allowed = await site.undo(done.operation_id, force=True, unproved=True)
        assert outcomes(allowed) == {("billing", 0): ("restored", 40, 90)}


async def test_undo_at_a_broker_that_becomes_master_meanwhile_writes_nothing(tmp_path):
    broker = a_broker(billing={0: 90})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER, back=True)
        known = site.followed.sets["broker-a"]
        later = known._replace(master=known.master._replace(master_epoch=2))
        site.change_with(broker, BrokerRequestCode.GET_BROKER_RUNTIME_INFO, lambda: site.follow(later))

        undone = await site.undo(done.operation_id)

    assert [each.status.value for each in undone.queues] == ["role_changed"]
    assert broker.offsets == {"orders@billing": {0: 50}}


async def test_set_that_is_removed_while_its_master_answers_is_named(tmp_path):
    broker = a_broker(billing={0: 10})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        site.change_with(broker, BrokerRequestCode.GET_BROKER_RUNTIME_INFO, site.followed.sets.clear)

        done = await site.restore(AFTER)

    assert outcomes(done) == {("billing", 0): ("no_master", None, 50)}


async def test_manager_that_ceases_to_serve_writes_nothing_more(tmp_path):
    broker = a_broker(billing={0: 10, 1: 10})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50, 1: 50}}

        def cease():
            site.serves = False

        # The last request before the first write.
        site.change_with(broker, BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST, cease)
        done = await site.restore(AFTER)

    assert {each.status.value for each in done.queues} == {"role_changed"}
    assert broker.written == []


@pytest.mark.parametrize(("kind", "status"), [("absent", "pops"), ("pops", "pops"), ("pulls", "restored")])
async def test_group_goes_forward_only_if_its_members_show_now_that_they_pull(tmp_path, kind, status):
    broker = a_broker(billing={0: 10})
    broker.version = "V5_5_0"
    broker.online = {} if kind == "absent" else {"billing": "CLUSTERING"}
    broker.popping = {"billing"} if kind == "pops" else set()
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER)
    assert outcomes(done) == {("billing", 0): (status, 10, 50)}


async def test_group_that_is_stopped_goes_forward_where_the_operator_says_that_it_pulls(tmp_path):
    """A broker that cannot send members anywhere needs them stopped, and a stopped group shows nothing."""
    broker = a_broker(billing={0: 10})
    broker.version, broker.resets_on_server = "V5_1_4", False
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER, pulls=True, group="billing")
        assert outcomes(done) == {("billing", 0): ("restored", 10, 50)}
        assert [each.pulls for each in site.began] == [True]

        undone = await site.undo(done.operation_id)
        broker.stored_ms = site.clock.unix_ms() - 60_000
        again = await site.undo(undone.operation_id, pulls=True)
    assert outcomes(again) == {("billing", 0): ("restored", 10, 50)}


async def test_group_that_the_mirror_knows_to_pop_does_not_go_forward_whatever_its_members_show(tmp_path):
    broker = a_broker(billing={0: 10})
    broker.version, broker.online = "V5_5_0", {"billing": "CLUSTERING"}
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}, "%RETRY%billing_orders@billing": {0: 1}}
        done = await site.restore(AFTER, topic="orders")
        assert outcomes(done) == {("billing", 0): ("pops", 10, 50)}

        site.mirror.newest = site.mirror.by_set["broker-a"]
        file = BrokerChange(OperationKind.IMPORT, "alice", RestoreOptions(), is_dry_run=False)
        imported = await site.restorer.write(file, [WantedOffset(a_queue(0), 50)])
        assert outcomes(imported) == {("billing", 0): ("pops", 10, 50)}


async def test_group_that_may_pop_is_reported_where_no_slave_has_what_was_popped(tmp_path):
    broker = a_broker(billing={0: 50})
    broker.version, broker.options = "V5_5_0", "popConsumerKVServiceEnable=true\n"
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER)
    assert outcomes(done) == {("billing", 0): ("pops", 50, 50)}


@pytest.mark.parametrize(
    ("named", "status"), [({}, "moved_on"), ({"unproved": True}, "moved_on"), ({"group": "billing"}, "restored")]
)
async def test_what_somebody_has_set_back_since_goes_forward_only_by_name(tmp_path, named, status):
    broker = a_broker(billing={0: 10})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        read = a_read(unix_ms=AFTER + 1)
        reset = Regression(
            queue=a_queue(0),
            cause=RegressionCause.OPERATOR_RESET,
            unix_ms=AFTER + 1,
            from_offset=50,
            to_offset=10,
            former=read,
            now=read,
        )
        site.mirror.regressions.add(reset)
        done = await site.restore(AFTER, **named)
    assert outcomes(done) == {("billing", 0): (status, 10, 50)}


async def test_operation_that_cannot_be_read_is_named_where_it_may_have_set_a_queue_back(tmp_path):
    broker = a_broker(billing={0: 10})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        site.mirror.resets.note_earlier(EarlierResets(unknown_unix_ms=AFTER))
        done = await site.restore(AFTER)
    assert outcomes(done) == {("billing", 0): ("moved_on", 10, 50)}
    assert "or may have been: an operation cannot be read (earlier_resets_unknown)" in done.queues[0].reason


def test_clock_of_the_broker_alone_proves_nothing():
    """It was 10 minutes behind; the message's producer knows better, and so does the place in the log."""
    wanted = WantedOffset(a_queue(0), 50, 1000, log_end=500)
    planned = PlannedOffset(a_queue(0), 10, 50, RestoreStatus.READY)
    for place, stored, born, status in (
        (499, 900, 900, RestoreStatus.READY),
        (499, 900, 1000, RestoreStatus.NOT_PROVED),
        (500, 900, 900, RestoreStatus.NOT_PROVED),
    ):
        assert proved(wanted, planned, PlacedMessage(place, stored, born)).status is status
