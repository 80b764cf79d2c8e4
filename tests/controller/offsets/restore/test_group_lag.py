"""How far a group is behind: unknown is never 0, and each reason is named."""

import pytest
from fakes.offset_broker import CLUSTER, OffsetBroker
from restore_site import restore_site

from controller.offsets.commits.results import OffsetUnavailable
from controller.offsets.restore.lag import CommittedIn, CommittedOffset, LagQueue, lag_in
from controller.offsets.restore.lag_reader import LagReader, LagRequest
from controller.offsets.restore.rules import QueueBounds
from controller.offsets.values import StoredOffset
from remoting.protocol.codes import BrokerRequestCode, ResponseCode

QUEUE = LagQueue("orders", "broker-a", 0)


def committed(offset):
    return CommittedOffset(offset, CommittedIn.BROKER)


def test_lag_counts_messages_that_can_be_read():
    assert lag_in(QUEUE, committed(60), QueueBounds(0, 100)).lag == 40
    assert lag_in(QUEUE, committed(100), QueueBounds(0, 100)).lag == 0
    # What has expired is not read.
    assert lag_in(QUEUE, committed(60), QueueBounds(90, 100)).lag == 10
    # It never had a message.
    assert lag_in(QUEUE, CommittedOffset(None), QueueBounds(0, 0)).lag == 0


@pytest.mark.parametrize(
    ("offset", "ends", "problem", "reason"),
    [
        (CommittedOffset(None), QueueBounds(0, 100), "", "has stored no offset"),
        (committed(101), QueueBounds(0, 100), "", "beyond the end of the queue, 100"),
        (committed(10), None, "", "does not have this queue"),
        (committed(10), None, "no answer", "no answer"),
        (CommittedOffset(None, None, "not readable"), QueueBounds(0, 100), "", "not readable"),
    ],
)
def test_unknown_lag_has_a_reason(offset, ends, problem, reason):
    found = lag_in(QUEUE, offset, ends, problem)

    assert found.lag is None
    assert reason in found.reason


def a_broker(name="broker-a", **offsets):
    broker = OffsetBroker(name)
    broker.topics = {"orders": {0: (0, 100), 1: (0, 100)}, "%RETRY%billing": {0: (0, 5)}}
    broker.offsets = offsets
    return broker


async def lags(site, group="billing", topic=None, managed=None):
    reading = await LagReader(site.admin, site.clock).read(
        site.followed.sets.values(), LagRequest(group, topic, managed or {})
    )
    return {tuple(each.queue): each for each in reading.queues}, reading.unavailable


async def test_lag_is_read_from_all_brokers_of_the_topics_of_a_group(tmp_path):
    first = a_broker(**{"orders@billing": {0: 40, 1: 100}, "%RETRY%billing@billing": {0: 5}, "orders@other": {0: 1}})
    second = a_broker("broker-b")
    async with restore_site(tmp_path, first, second) as site:
        found, unavailable = await lags(site)

    assert unavailable == {}
    known = {queue: each.lag for queue, each in found.items()}
    assert known == {
        ("%RETRY%billing", "broker-a", 0): 0,
        ("%RETRY%billing", "broker-b", 0): None,
        ("orders", "broker-a", 0): 60,
        ("orders", "broker-a", 1): 0,
        # It has stored nothing there, which is not 0.
        ("orders", "broker-b", 0): None,
        ("orders", "broker-b", 1): None,
    }
    assert "stored no offset" in found["orders", "broker-b", 0].reason


async def test_one_topic_alone_is_read(tmp_path):
    broker = a_broker(**{"orders@billing": {0: 40}, "%RETRY%billing@billing": {0: 5}})
    async with restore_site(tmp_path, broker) as site:
        found, _ = await lags(site, topic="%RETRY%billing")

    assert [each.lag for each in found.values()] == [0]


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION])
async def test_broker_that_answers_errors_is_named_and_hides_no_other(tmp_path, code):
    broken, other = a_broker(**{"orders@billing": {0: 40}}), a_broker("broker-b", **{"orders@billing": {0: 90}})
    broken.instead[BrokerRequestCode.GET_ALL_CONSUMER_OFFSET] = code
    async with restore_site(tmp_path, broken, other) as site:
        found, unavailable = await lags(site, topic="orders")

    assert list(unavailable) == ["broker-a"]
    assert {queue: each.lag for queue, each in found.items()} == {
        ("orders", "broker-b", 0): 10,
        ("orders", "broker-b", 1): None,
    }


async def test_topic_whose_ends_are_not_answered_is_unknown(tmp_path):
    broker = a_broker(**{"orders@billing": {0: 40}})
    broker.instead[BrokerRequestCode.GET_TOPIC_STATS_INFO] = ResponseCode.SYSTEM_ERROR
    async with restore_site(tmp_path, broker) as site:
        found, unavailable = await lags(site)

    assert unavailable == {}
    assert [(each.committed, each.lag) for each in found.values()] == [(40, None)]
    assert "the ends of topic orders are not known" in found["orders", "broker-a", 0].reason


async def test_offset_of_the_manager_counts_where_it_has_one(tmp_path):
    broker = a_broker(**{"orders@billing": {0: 40}})
    managed = {
        QUEUE: StoredOffset(70),
        LagQueue("orders", "broker-a", 1): OffsetUnavailable("the row is damaged"),
        LagQueue("orders", "broker-z", 0): StoredOffset(1),
    }
    async with restore_site(tmp_path, broker) as site:
        found, _ = await lags(site, managed=managed)

    assert (found[QUEUE].lag, found[QUEUE].committed_in) == (30, CommittedIn.MANAGER)
    assert found["orders", "broker-a", 1].reason == "the row is damaged"
    assert found["orders", "broker-z", 0].reason == "the broker set is not followed"


async def test_set_without_a_master_is_named(tmp_path):
    broker = a_broker()
    async with restore_site(tmp_path, broker) as site:
        site.followed.sets["broker-a"] = site.followed.sets["broker-a"]._replace(master=None)
        found, unavailable = await lags(site)

    assert site.followed.sets["broker-a"].cluster == CLUSTER
    assert (found, unavailable) == ({}, {"broker-a": "the broker set has no master now"})


async def test_broadcasting_group_has_no_lag_whatever_offset_is_stored(tmp_path):
    broker, other = a_broker(**{"orders@billing": {0: 40, 1: 100}}), a_broker("broker-b")
    other.online = {"billing": "BROADCASTING"}
    async with restore_site(tmp_path, broker, other) as site:
        found, _ = await lags(site)

    assert {each.lag for each in found.values()} == {None}
    assert all("each member keeps its own offsets" in each.reason for each in found.values())


async def test_queues_that_are_not_read_any_more_count_while_they_hold_messages(tmp_path):
    broker = a_broker(**{"orders@billing": {0: 100, 1: 20}})
    broker.topics["orders"] = {0: (0, 100), 1: (0, 50), 2: (0, 7), 3: (9, 9)}
    broker.read_queue_nums = {"orders": 1}
    async with restore_site(tmp_path, broker) as site:
        found, _ = await lags(site)

    assert {queue[2]: each.lag for queue, each in found.items()} == {0: 0, 1: 30, 2: None}


async def test_broker_that_does_not_say_whether_it_has_more_queues_makes_the_lag_unknown(tmp_path):
    broker, other = (
        a_broker(**{"orders@billing": {0: 100, 1: 100}}),
        a_broker("broker-b", **{"orders@billing": {0: 90}}),
    )
    broker.instead[BrokerRequestCode.QUERY_CONSUME_QUEUE] = None
    async with restore_site(tmp_path, broker, other) as site:
        found, unavailable = await lags(site)

    assert unavailable == {}
    assert [found["orders", "broker-a", queue].lag for queue in (0, 1)] == [None, None]
    assert "more queues" in found["orders", "broker-a", 0].reason
    assert found["orders", "broker-b", 0].lag == 10
