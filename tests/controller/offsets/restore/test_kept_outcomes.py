"""What an operation has done is answered, counted and undone, also where the disk or a broker fails on the way."""

from fakes.answering_peer import refusal
from restore_site import AFTER, a_broker, a_queue, outcomes, restore_site

from controller.offsets.mirror.changes import OffsetMove
from remoting.protocol.codes import BrokerRequestCode, ResponseCode
from store.store import StoreError


async def test_outcomes_that_cannot_be_kept_are_answered_and_undone_all_the_same(tmp_path):
    broker = a_broker(billing={0: 90})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 50}}

        keep = site.kept.keep

        async def keep_until_written(operation):
            if operation.is_finished:
                raise StoreError("the disk is full")
            await keep(operation)

        site.kept.keep = keep_until_written
        done = await site.restore(AFTER, back=True)

        assert outcomes(done) == {("billing", 0): ("restored", 90, 50)}
        assert [each.operation_id for each in site.ended] == [done.operation_id]
        assert site.not_kept == [("restore", "the disk is full")]

        site.kept.keep = keep
        undone = await site.undo(done.operation_id)

    assert outcomes(undone) == {("billing", 0): ("restored", 50, 90)}


async def test_mirror_takes_what_was_not_sent_for_no_reset(tmp_path):
    broker = a_broker(billing={0: 90}, shipping={0: 90})
    async with restore_site(tmp_path, broker) as site:
        site.mirror.by_set["broker-a"] = {"orders@billing": {0: 70}, "orders@shipping": {0: 70}}

        def answer(code, fields):
            if code == BrokerRequestCode.UPDATE_CONSUMER_OFFSET and fields["consumerGroup"] == "shipping":
                return refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
            return broker(code, fields)

        broker.peer.answer = answer
        await site.restore(AFTER, back=True)

        move, unix_ms = OffsetMove(0, 90, 70), site.clock.unix_ms()
        assert site.mirror.resets.explains(a_queue(0), move, unix_ms)
        assert not site.mirror.resets.explains(a_queue(0, group="shipping"), move, unix_ms)
