"""Changes of brokers: compared before they are written, read back afterwards, and left alone once another may lead."""

import pytest
from fakes.answering_peer import NOTHING
from fakes.clock import FakeClock
from fakes.scaled_topic import GROUP, TOPIC, ScaledBroker, scaling_site

from controller.scaling.execution.performer import UNANSWERED_MS, ActionPerformer
from controller.scaling.resize.decision import ChangeCounts, PutOrderConf, StoreGroupOffset
from controller.scaling.resize.operation import QueueCounts
from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand

NO_LEAD = "nothing was sent: another controller may lead"


@pytest.fixture
def broker():
    return ScaledBroker()


async def performed(site, *actions, may_write=lambda: True):
    return await ActionPerformer(site.admin, FakeClock()).perform(TOPIC, actions, may_write)


def change(broker, before=(4, 4), after=(8, 4), **values):
    return ChangeCounts(
        broker_name=broker.name,
        address=broker.address,
        before=QueueCounts(*before),
        after=QueueCounts(*after),
        **values,
    )


def store(broker, before=None, offset=7, group=GROUP, queue_id=4):
    return StoreGroupOffset(
        broker_name=broker.name, address=broker.address, group=group, queue_id=queue_id, before=before, offset=offset
    )


# Counts


async def test_changed_counts_keep_everything_else_of_the_topic(broker):
    broker.topic |= {
        "topicFilterType": "MULTI_TAG",
        "topicSysFlag": 3,
        "order": True,
        "attributes": {"message.type": "FIFO"},
    }
    async with scaling_site(broker) as site:
        assert await performed(site, change(broker, after=(8, 4, 4))) == ()
    ((_, fields),) = broker.written
    assert (fields["readQueueNums"], fields["writeQueueNums"], fields["perm"]) == ("8", "4", "4")
    assert (fields["topicFilterType"], fields["topicSysFlag"], fields["order"]) == ("MULTI_TAG", "3", "true")
    # Brokers keep the attributes that a change does not name.
    assert "attributes" not in fields
    assert broker.topic["attributes"] == {"message.type": "FIFO"}


@pytest.mark.parametrize("is_gone", [False, True])
async def test_counts_that_have_changed_meanwhile_are_left_alone(broker, is_gone):
    broker.topic = None if is_gone else broker.topic
    async with scaling_site(broker) as site:
        assert await performed(site, change(broker, before=(2, 2))) == (
            "broker-a does not show read 2, write 2, perm 6 any more",
        )
    assert broker.written == []


async def test_counts_that_a_broker_stores_otherwise_are_reported(broker, monkeypatch):
    async with scaling_site(broker) as site:
        # It answers with success, and stores nothing.
        broker.instead[BrokerRequestCode.UPDATE_AND_CREATE_TOPIC] = ResponseCode.SUCCESS
        (failure,) = await performed(site, change(broker))
    assert failure.startswith("broker-a has stored TopicDefinition(")
    assert "read_queue_nums=4" in failure
    assert "read_queue_nums=8" in failure


async def test_change_that_a_broker_has_not_answered_is_not_followed_by_another_one_at_once(broker):
    clock = FakeClock()
    async with scaling_site(broker) as site:
        performer = ActionPerformer(site.admin, clock)
        broker.instead[BrokerRequestCode.UPDATE_AND_CREATE_TOPIC] = None
        (failure,) = await performer.perform(TOPIC, [change(broker)], lambda: True)
        assert "no answer within" in failure
        del broker.instead[BrokerRequestCode.UPDATE_AND_CREATE_TOPIC]
        # The earlier one could still come, after this one.
        assert await performer.perform(TOPIC, [change(broker, after=(2, 2))], lambda: True) == (
            "broker-a has not answered an earlier change: the next one in 30 s",
        )
        assert broker.written == []
        clock.pass_ms(UNANSWERED_MS)
        assert await performer.perform(TOPIC, [change(broker, after=(2, 2))], lambda: True) == ()


def instead_of_an_update(broker, happens):
    """Let something happen when a change of numbers comes, which is not answered and not carried out."""
    answers = broker.peer.answer

    def answer(code, fields):
        if code != BrokerRequestCode.UPDATE_AND_CREATE_TOPIC:
            return answers(code, fields)
        broker.peer.answer = answers
        happens()
        return NOTHING

    broker.peer.answer = answer


async def test_wait_after_an_unanswered_change_begins_when_nobody_waits_for_its_answer_any_more(broker):
    clock = FakeClock()
    async with scaling_site(broker) as site:
        performer = ActionPerformer(site.admin, clock)
        instead_of_an_update(broker, lambda: clock.pass_ms(UNANSWERED_MS))
        (failure,) = await performer.perform(TOPIC, [change(broker)], lambda: True)
        assert "no answer within" in failure
        (failure,) = await performer.perform(TOPIC, [change(broker)], lambda: True)
        assert failure == "broker-a has not answered an earlier change: the next one in 30 s"


async def test_change_whose_connection_breaks_may_still_be_carried_out(broker):
    clock = FakeClock()
    async with scaling_site(broker) as site:
        performer = ActionPerformer(site.admin, clock)
        instead_of_an_update(broker, broker.peer.drop_connections)
        (failure,) = await performer.perform(TOPIC, [change(broker)], lambda: True)
        assert "no answer within" not in failure
        (failure,) = await performer.perform(TOPIC, [change(broker)], lambda: True)
        assert failure == "broker-a has not answered an earlier change: the next one in 30 s"
        clock.pass_ms(UNANSWERED_MS)
        assert await performer.perform(TOPIC, [change(broker)], lambda: True) == ()


async def test_counts_of_a_broker_of_4_9_are_changed(broker):
    broker.instead[BrokerRequestCode.GET_TOPIC_CONFIG] = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    async with scaling_site(broker) as site:
        assert await performed(site, change(broker)) == ()
    assert broker.topic["readQueueNums"] == 8


async def test_one_broker_that_fails_holds_up_no_other(broker):
    silent = ScaledBroker("broker-b")
    silent.instead[BrokerRequestCode.GET_TOPIC_CONFIG] = None
    async with scaling_site(broker, silent) as site:
        (failure,) = await performed(site, change(silent), change(broker))
        assert failure.startswith(f"{silent.address}: ")
    assert broker.topic["readQueueNums"] == 8


# Offsets


@pytest.mark.parametrize("offsets", [{}, {GROUP: {4: 0}}], ids=["none", "0, as 4.9 answers"])
async def test_offset_is_stored_where_there_is_none(broker, offsets):
    broker.offsets |= offsets
    async with scaling_site(broker) as site:
        assert await performed(site, store(broker)) == ()
    assert broker.offsets[GROUP] == {4: 7}


@pytest.mark.parametrize("stored", [3, 0])
async def test_offset_that_has_changed_meanwhile_is_left_alone(broker, stored):
    broker.offsets[GROUP] = {4: stored}
    async with scaling_site(broker) as site:
        assert await performed(site, store(broker, before=5)) == (
            f"offset of group {GROUP} in broker-a/4 is {stored} meanwhile",
        )
    assert broker.offsets[GROUP] == {4: stored}


async def test_group_without_a_configuration_is_named(broker):
    async with scaling_site(broker) as site:
        (failure,) = await performed(site, store(broker, group="gone"))
        assert failure == f"offset of group gone in broker-a/4: {broker.address} has no configuration of the group"
    assert broker.written == []


async def test_offset_whose_reset_is_pending_is_reported(broker):
    async with scaling_site(broker) as site:
        answers = broker.peer.answer

        def pending(code, fields):
            if code == BrokerRequestCode.UPDATE_CONSUMER_OFFSET:
                return RemotingCommand(0, remark="Offset has been previously reset")
            return answers(code, fields)

        broker.peer.answer = pending
        (failure,) = await performed(site, store(broker))
    assert failure == f"offset of group {GROUP} in broker-a/4: a reset of it waits for its consumer"


# Order configuration


async def test_order_configuration_is_written_and_removed_at_one_name_server(broker):
    async with scaling_site(broker) as site:
        first, second = site.name_servers
        assert await performed(site, PutOrderConf(address=first.address, value="broker-a:8")) == ()
        assert (first.order_conf, second.order_conf) == ({TOPIC: "broker-a:8"}, {})
        assert await performed(site, PutOrderConf(address=first.address, value=None)) == ()
        assert first.order_conf == {}


async def test_order_configuration_that_is_not_stored_is_reported(broker):
    async with scaling_site(broker) as site:
        name_server = site.name_servers[0]
        name_server.instead[RequestCode.PUT_KV_CONFIG] = ResponseCode.SUCCESS
        (failure,) = await performed(site, PutOrderConf(address=name_server.address, value="broker-a:8"))
    assert failure.endswith("has orderTopicConf None of TopicTest")


# The lead


async def test_nothing_is_written_once_another_controller_may_lead(broker):
    async with scaling_site(broker) as site:
        actions = (change(broker), store(broker), PutOrderConf(address=site.addresses[0], value="broker-a:8"))
        failures = await performed(site, *actions, may_write=lambda: False)
        assert [each.endswith(NO_LEAD) for each in failures] == [True] * 3
    assert (broker.written, site.name_servers[0].order_conf) == ([], {})


async def test_lead_is_looked_at_after_the_comparison(broker):
    seen = []

    def may_write():
        seen.append(list(broker.seen))
        return False

    async with scaling_site(broker) as site:
        await performed(site, change(broker), may_write=may_write)
    assert seen == [[BrokerRequestCode.GET_TOPIC_CONFIG]]
