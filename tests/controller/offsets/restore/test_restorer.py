"""Offsets are restored at brokers on loopback: shown before, written once, read back, and undone."""

import asyncio
from types import SimpleNamespace

import pytest
from fakes.answering_peer import refusal
from fakes.offset_broker import BOOT_MS
from restore_site import AFTER, a_broker, a_queue, outcomes, restore_site

from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.changes import OffsetMove
from controller.offsets.mirror.saved_offsets import SavedEntry
from controller.offsets.restore.operations import OperationKind
from controller.offsets.restore.requests import FORMER, AnotherRuns, NoSuchOperation, TooManyRestored
from controller.offsets.restore.restorer import BrokerChange
from controller.offsets.restore.values import RESTORED_MAX, RestoreOptions, RestoreStatus, WantedOffset
from remoting.protocol.codes import BrokerRequestCode, ResponseCode


async def test_preview_shows_old_new_and_messages_and_writes_nothing(tmp_path):
    broker = a_broker(billing={0: 10, 1: 90})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50, 1: 70}}

        done = await site.restore(AFTER, dry=True, back=True)

    assert outcomes(done) == {("billing", 0): ("ready", 10, 50), ("billing", 1): ("ready", 90, 70)}
    assert [(each.messages_again, each.messages_skipped) for each in done.queues] == [(0, 40), (20, 0)]
    assert done.operation_id == ""
    assert broker.written == []


async def test_only_what_goes_forward_is_written_unless_back_is_allowed(tmp_path):
    broker = a_broker(billing={0: 10, 1: 90})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50, 1: 70}}

        done = await site.restore(AFTER)

        assert outcomes(done) == {("billing", 0): ("restored", 10, 50), ("billing", 1): ("backward", 90, 70)}
        assert broker.written == [("commit", "orders@billing", 0, 50)]
        assert done.operation_id

        again = await site.restore(AFTER, back=True)
        assert outcomes(again) == {("billing", 0): ("unchanged", 50, 50), ("billing", 1): ("restored", 90, 70)}


async def test_groups_of_brokers_and_tools_are_restored_only_by_name(tmp_path):
    broker = a_broker(CID_RMQ_SYS_TRANS={0: 10}, TOOLS_CONSUMER={0: 10})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@CID_RMQ_SYS_TRANS": {0: 50}, "orders@TOOLS_CONSUMER": {0: 50}}
        assert outcomes(await site.restore(AFTER, dry=True)) == {}

        named = await site.restore(AFTER, dry=True, group="TOOLS_CONSUMER")
        assert outcomes(named) == {("TOOLS_CONSUMER", 0): ("ready", 10, 50)}


async def test_mirror_knows_what_an_operator_sets_back(tmp_path):
    broker = a_broker(billing={0: 90})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 70}}
        await site.restore(AFTER, back=True)

        move = OffsetMove(0, 90, 70)
        assert site.mirror.resets.explains(a_queue(0), move, site.clock.unix_ms())


async def test_members_that_are_online_are_sent_to_the_offset(tmp_path):
    broker = a_broker(billing={0: 10})
    broker.online["billing"] = "CLUSTERING"
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER)

    assert outcomes(done) == {("billing", 0): ("restored", 10, 50)}
    assert broker.written == [("commit", "orders@billing", 0, 50), ("reset", "orders@billing", 0, 50)]


@pytest.mark.parametrize(("waiting", "status"), [(90, "restored"), (70, "reset_pending")])
async def test_reset_that_waits_for_a_pull_is_replaced_if_it_was_shown(tmp_path, waiting, status):
    """Whoever stops the clients and restores has a reset by mistake still waiting at the broker."""
    broker = a_broker(billing={0: 90})
    broker.pending = {("orders@billing", 0): waiting}
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER, back=True)

    assert outcomes(done) == {("billing", 0): (status, 90, 50)}
    assert broker.written == ([("reset", "orders@billing", 0, 50)] if status == "restored" else [])


async def test_broker_that_cannot_reset_is_left_while_members_are_online(tmp_path):
    broker = a_broker(billing={0: 10})
    broker.online["billing"] = "CLUSTERING"
    broker.resets_on_server = False
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER)

    assert outcomes(done) == {("billing", 0): ("online", 10, 50)}
    assert broker.written == []


async def test_client_that_overwrites_the_offset_is_seen(tmp_path):
    broker = a_broker(billing={0: 10})
    broker.then = lambda _, key, queue, __: broker.offsets[key].__setitem__(queue, 12)
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER)

    assert [(each.status.value, each.reason) for each in done.queues] == [("overwritten", "the broker shows 12 now")]


async def test_queue_that_does_not_exist_any_more_and_lost_ends_are_named(tmp_path):
    broker = a_broker(billing={0: 10})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {
            "orders@billing": {0: 101, 7: 5},
            "gone@billing": {0: 5},
            "orders@billing@broadcast": {0: 5},
        }
        done = await site.restore(AFTER)

    by_topic = {
        (each.queue.key.topic, each.queue.key.kind.value, each.queue.queue_id): each.status.value
        for each in done.queues
    }
    assert by_topic == {
        ("orders", "clustering", 0): "beyond_end",
        ("orders", "clustering", 7): "no_queue",
        ("gone", "clustering", 0): "no_queue",
        ("orders", "broadcast", 0): "not_restorable",
    }
    assert broker.written == []


async def test_offset_before_the_beginning_becomes_the_beginning(tmp_path):
    broker = a_broker(billing={0: 90})
    broker.topics["orders"][0] = (40, 100)
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 20}}
        done = await site.restore(AFTER, back=True)

    assert outcomes(done) == {("billing", 0): ("restored", 90, 40)}


async def test_former_is_what_was_read_before_the_broker_became_master(tmp_path):
    broker = a_broker(billing={0: 10})
    moments = []
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        at = site.mirror.at

        async def noted(set_name, unix_ms):
            moments.append(unix_ms)
            return await at(set_name, unix_ms)

        site.mirror.at = noted
        done = await site.restore(FORMER, dry=True)

    assert moments == [BOOT_MS - 1]
    assert outcomes(done) == {("billing", 0): ("ready", 10, 50)}


async def test_former_of_a_master_that_does_not_say_since_when_it_is_one_is_a_problem_of_its_set_alone(tmp_path):
    silent, other = a_broker(billing={0: 10}), a_broker("broker-b", billing={0: 10})
    silent.instead[BrokerRequestCode.GET_BROKER_RUNTIME_INFO] = ResponseCode.SYSTEM_ERROR
    async with restore_site(tmp_path, silent, other) as site:
        site.mirror.by_set = {name: {"orders@billing": {0: 50}} for name in ("broker-a", "broker-b")}
        newest = [SavedEntry(EntryKey("orders", "billing"), {0: 40})]
        site.mirror.saved = lambda _: SimpleNamespace(
            read=SimpleNamespace(requested_unix_ms=AFTER), entries=lambda: newest
        )
        done = await site.restore(FORMER)

    assert {each.queue.set_name.broker_name: each.new for each in done.queues} == {"broker-b": 50}
    assert [(each.set_name.broker_name, "does not answer (28): repeat" in each.reason) for each in done.problems] == [
        ("broker-a", True)
    ]
    assert silent.written == []


async def test_moment_that_is_not_kept_is_a_problem_of_its_set_alone(tmp_path):
    first, second = a_broker(billing={0: 10}), a_broker("broker-b", billing={0: 10})
    async with restore_site(tmp_path, first, second) as site:
        site.mirror.by_set["broker-b"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER)

    assert [each.status.value for each in done.queues] == ["restored"]
    assert [(each.set_name.broker_name, "not known" in each.reason) for each in done.problems] == [("broker-a", True)]


@pytest.mark.parametrize("code", [BrokerRequestCode.GET_ALL_CONSUMER_OFFSET, BrokerRequestCode.GET_TOPIC_STATS_INFO])
async def test_broker_that_answers_errors_gets_nothing_and_is_named(tmp_path, code):
    broken, other = a_broker(billing={0: 10}), a_broker("broker-b", billing={0: 10})
    broken.instead[code] = ResponseCode.SYSTEM_ERROR
    async with restore_site(tmp_path, broken, other) as site:
        site.mirror.by_set = {name: {"orders@billing": {0: 50}} for name in ("broker-a", "broker-b")}
        done = await site.restore(AFTER)

    statuses = {each.queue.set_name.broker_name: each.status.value for each in done.queues}
    assert statuses == {"broker-a": "unavailable", "broker-b": "restored"}
    assert broken.written == []


async def test_all_that_a_broker_denies_is_named_at_once(tmp_path):
    broker = a_broker(billing={0: 10})
    for code in (BrokerRequestCode.GET_TOPIC_STATS_INFO, BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST):
        broker.instead[code] = ResponseCode.NO_PERMISSION
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER)

    (queue,) = done.queues
    assert queue.status.value == "unavailable"
    assert "the ends of topic orders are not known" in queue.reason
    assert "whether members of group billing are online is not known" in queue.reason


async def test_set_without_a_master_is_named(tmp_path):
    broker = a_broker(billing={0: 10})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        site.followed.sets["broker-a"] = site.followed.sets["broker-a"]._replace(master=None)
        done = await site.restore(AFTER)

    assert outcomes(done) == {("billing", 0): ("no_master", None, 50)}


async def test_broker_that_is_not_master_any_more_gets_nothing(tmp_path):
    broker = a_broker(billing={0: 10})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        site.followed.lost.add("broker-a")
        done = await site.restore(AFTER)

    assert outcomes(done) == {("billing", 0): ("role_changed", 10, 50)}
    assert broker.written == []


async def test_refusal_of_one_queue_leaves_the_others(tmp_path):
    broker = a_broker(billing={0: 10}, shipping={0: 10})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}, "orders@shipping": {0: 50}}

        def answer(code, fields):
            if code == BrokerRequestCode.UPDATE_CONSUMER_OFFSET and fields["consumerGroup"] == "shipping":
                return refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
            return broker(code, fields)

        broker.peer.answer = answer
        done = await site.restore(AFTER)

    assert outcomes(done) == {("billing", 0): ("restored", 10, 50), ("shipping", 0): ("refused", 10, 50)}


async def test_undo_brings_back_what_was_there(tmp_path):
    broker = a_broker(billing={0: 10, 1: 90})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50, 1: 70}}
        site.clock.unix = AFTER
        done = await site.restore(AFTER, back=True)

        shown = await site.undo(done.operation_id, dry=True)
        assert outcomes(shown) == {("billing", 0): ("ready", 50, 10), ("billing", 1): ("ready", 70, 90)}

        undone = await site.undo(done.operation_id, force=True)

        assert outcomes(undone) == {("billing", 0): ("restored", 50, 10), ("billing", 1): ("restored", 70, 90)}
        assert broker.offsets == {"orders@billing": {0: 10, 1: 90}}
        kept = [(each.kind, each.undoes) for each in await site.kept.last()]
        assert kept == [("undo", done.operation_id), ("restore", "")]


async def test_undo_leaves_groups_that_have_moved_unless_it_is_forced(tmp_path):
    broker = a_broker(billing={0: 10})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER)
        broker.offsets["orders@billing"][0] = 55

        undone = await site.undo(done.operation_id)
        assert outcomes(undone) == {("billing", 0): ("moved_on", 55, 10)}

        forced = await site.undo(done.operation_id, force=True)
        assert outcomes(forced) == {("billing", 0): ("restored", 55, 10)}


async def test_undo_of_an_offset_where_there_was_none_is_not_possible(tmp_path):
    broker = a_broker()
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        done = await site.restore(AFTER)
        assert outcomes(done) == {("billing", 0): ("restored", None, 50)}

        undone = await site.undo(done.operation_id)
        assert outcomes(undone) == {("billing", 0): ("not_restorable", 50, None)}


async def test_operation_is_kept_before_anything_is_written(tmp_path):
    broker = a_broker(billing={0: 10})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        seen = []
        broker.then = lambda *_: seen.append(list(site.began))
        done = await site.restore(AFTER)

    (operation,) = seen[0]
    assert operation.operation_id == done.operation_id
    assert not operation.is_finished
    # Whoever ends now can undo it.
    assert [each.old for each in operation.sent()] == [10]


async def test_unknown_operation_is_refused(tmp_path):
    async with restore_site(tmp_path) as site:
        with pytest.raises(NoSuchOperation, match="is not kept here"):
            await site.undo("0123")


async def test_two_operations_do_not_run_at_a_time(tmp_path):
    broker = a_broker(billing={0: 10})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}
        first = asyncio.ensure_future(site.restore(AFTER))
        await asyncio.sleep(0)
        with pytest.raises(AnotherRuns):
            await site.restore(AFTER)
        await first


async def test_more_queues_than_one_operation_takes_are_refused(tmp_path):
    broker = a_broker()
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {f"orders@g{number}": {0: 1, 1: 1} for number in range(RESTORED_MAX // 2 + 1)}
        with pytest.raises(TooManyRestored, match="more than 10000 queues"):
            await site.restore(AFTER)


async def test_file_offsets_are_written_as_an_import(tmp_path):
    broker = a_broker(billing={0: 10})
    async with restore_site(tmp_path, broker) as site:
        change = BrokerChange(OperationKind.IMPORT, "alice", RestoreOptions(), is_dry_run=False)
        done = await site.restorer.write(change, [WantedOffset(a_queue(0), 50)])

    assert [each.status for each in done.queues] == [RestoreStatus.RESTORED]
    assert [each.kind for each in site.ended] == [OperationKind.IMPORT]
