"""What brokers answer about the offsets of some topics is known of each of them alone."""

import pytest
from fakes.answering_peer import success
from fakes.clock import FakeClock
from fakes.scaled_topic import GROUP, TOPIC, ScaledBroker, scaling_site

from controller.scaling.resize.observation import GroupKind
from controller.scaling.resize.operation import QueueCounts
from controller.scaling.watching.topic_requests import GroupFacts, SlotReadings, TopicFacts
from remoting.protocol.codes import BrokerRequestCode


@pytest.fixture
def broker():
    broker = ScaledBroker(queues=2)
    broker.ends = {0: (0, 9), 1: (0, 9)}
    broker.offsets[GROUP] = {0: 5}
    return broker


async def offsets_of(broker, *topics):
    clients = frozenset({"c1"})
    async with scaling_site(broker, name_servers=0) as site:
        facts = TopicFacts(
            places_ms=0,
            groups_ms=0,
            masters={broker.name: broker.address},
            counts={broker.name: QueueCounts(2, 2)},
            groups={GROUP: GroupFacts(kind=GroupKind.CONCURRENT, clients=clients, holders=clients)},
        )
        readings = await SlotReadings(site.admin, FakeClock()).read(dict.fromkeys(topics, facts))
    return {each.topic: each.groups[GROUP].offsets for each in readings}


async def test_offsets_of_a_group_are_those_that_its_broker_has_stored(broker):
    assert await offsets_of(broker, TOPIC) == {TOPIC: {"broker-a": (5,)}}


async def test_offsets_that_cannot_be_read_are_unknown_and_not_absent(broker):
    answer = broker.peer.answer
    table = b'{"offsetTable":{"Other@g\xff":{0:1},"%b@g1":{0:5}}}' % TOPIC.encode()
    is_table = BrokerRequestCode.GET_ALL_CONSUMER_OFFSET
    broker.peer.answer = lambda code, fields: success(table) if code == is_table else answer(code, fields)
    assert await offsets_of(broker, TOPIC, "Other") == {TOPIC: {"broker-a": (5,)}, "Other": {}}
