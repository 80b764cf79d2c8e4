"""What the autoscaler requests: nothing of peers that did not answer a moment ago, and each topic's answers alone."""

import pytest
from fakes.answering_peer import success
from fakes.clock import FakeClock
from fakes.scaled_topic import GROUP, TOPIC, ScaledBroker, scaling_site

from controller.scaling.autoscaler.signals import GroupMembers
from controller.scaling.resize.observation import ClientView, GroupKind, GroupView
from controller.scaling.resize.operation import QueueCounts
from controller.scaling.watching.topic_requests import (
    PAUSE_MS,
    FailedPeers,
    SlotReadings,
    TopicFacts,
    group_facts,
)
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import InvokeError, InvokeTimeout, OutOfResources


class Silent:
    """A client whose peers answer only while they are up."""

    def __init__(self, error):
        self.error = error
        self.sent = 0

    async def invoke(self, address, request, timeout_ms, before_send=None):
        self.sent += 1
        if self.error is not None:
            raise self.error
        return request


def request(code=BrokerRequestCode.GET_TOPIC_STATS_INFO):
    return RemotingCommand(code)


async def test_peer_without_an_answer_is_left_alone_for_a_while():
    clock, client = FakeClock(), Silent(InvokeTimeout("a:1", 3000))
    peers = FailedPeers(client, clock)
    with pytest.raises(InvokeTimeout):
        await peers.invoke("a:1", request(), 3000)
    with pytest.raises(InvokeError, match="it did not answer within the last 10 s"):
        await peers.invoke("a:1", request(), 3000)
    assert client.sent == 1
    clock.pass_ms(PAUSE_MS)
    client.error = None
    await peers.invoke("a:1", request(), 3000)
    await peers.invoke("a:1", request(), 3000)
    assert client.sent == 3


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvokeTimeout("a:1", 3000), BrokerRequestCode.GET_CONSUMER_RUNNING_INFO),
        (OutOfResources("a:1", "no descriptors"), BrokerRequestCode.GET_TOPIC_STATS_INFO),
    ],
)
async def test_silence_that_is_not_the_brokers_keeps_it_in_use(error, code):
    client = Silent(error)
    peers = FailedPeers(client, FakeClock())
    for _ in range(2):
        with pytest.raises(type(error)):
            await peers.invoke("a:1", request(code), 3000)
    assert client.sent == 2


def a_view(kind, *answered):
    clients = tuple(ClientView(client_id=f"client-{i}", queues={} if each else None) for i, each in enumerate(answered))
    return GroupView(name="billing", kind=kind, clients=clients)


def test_group_of_which_one_client_does_not_tell_how_it_consumes_stays_unknown():
    facts = group_facts(a_view(GroupKind.UNKNOWN, True, False), None)
    assert (facts.kind, facts.holders) == (None, None)
    known = group_facts(a_view(GroupKind.ORDERLY, True, True), None)
    assert known.kind is GroupKind.ORDERLY
    assert group_facts(a_view(GroupKind.UNKNOWN, True, False), known).kind is GroupKind.ORDERLY


def test_group_that_goes_offline_keeps_its_kind_though_no_store_tells_it():
    known = group_facts(a_view(GroupKind.ORDERLY, True), None)
    assert group_facts(a_view(GroupKind.OFFLINE), known).kind is GroupKind.ORDERLY
    assert group_facts(a_view(GroupKind.OFFLINE), None).kind is GroupKind.CONCURRENT


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
            groups={GROUP: GroupMembers(kind=GroupKind.CONCURRENT, clients=clients, holders=clients)},
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
