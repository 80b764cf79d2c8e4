"""Resizes that look at the offsets of one broker share an answer that is as new as each of them needs."""

import asyncio

import pytest
from fakes.answering_peer import success
from fakes.scaled_topic import GROUP, TOPIC, ScaledBroker, scaling_site

from controller.scaling.execution import requests
from controller.scaling.execution.requests import SharedOffsets
from remoting.protocol.codes import BrokerRequestCode, ResponseCode
from remoting.protocol.errors import BodyError, Refused

CODE = BrokerRequestCode.GET_ALL_CONSUMER_OFFSET


@pytest.fixture
async def broker():
    broker = ScaledBroker()
    broker.offsets[GROUP] = {0: 5}
    return broker


@pytest.fixture
async def site(broker):
    async with scaling_site(broker, name_servers=0) as site:
        yield site


@pytest.fixture
def offsets(site):
    return SharedOffsets(site.admin)


async def seen(broker, times):
    async with asyncio.timeout(30):
        while broker.seen.count(CODE) < times:
            await asyncio.sleep(0.01)


async def test_topics_that_are_looked_at_together_cost_one_request(broker, offsets):
    topics = (TOPIC, "Other", TOPIC)
    found = await asyncio.gather(*(offsets.of_topic(broker.address, each) for each in topics))
    assert [each.by_group for each in found] == [{GROUP: {0: 5}}, {}, {GROUP: {0: 5}}]
    assert broker.seen == [CODE]


async def test_answer_that_was_requested_before_is_too_old(broker, offsets):
    held = broker.held[CODE] = asyncio.Event()
    first = asyncio.create_task(offsets.of_topic(broker.address, TOPIC))
    await seen(broker, 1)
    later = [asyncio.create_task(offsets.of_topic(broker.address, TOPIC)) for _ in range(3)]
    await asyncio.sleep(0)
    held.set()
    await first
    broker.offsets[GROUP] = {0: 9}
    assert [each.by_group for each in await asyncio.gather(*later)] == [{GROUP: {0: 9}}] * 3
    assert broker.seen == [CODE] * 2


async def test_nothing_is_kept_for_a_later_look(broker, offsets, monkeypatch):
    monkeypatch.setattr(requests, "PAUSE_S", 0.0)
    await offsets.of_topic(broker.address, TOPIC)
    broker.broadcast_offsets = {"loud": {0: 3}}
    assert (await offsets.of_topic(broker.address, TOPIC)).broadcast_by_group == {"loud": {0: 3}}


async def test_refusal_is_that_of_all_who_wait_and_of_no_later_look(broker, offsets):
    broker.instead[CODE] = ResponseCode.SYSTEM_BUSY
    calls = (offsets.of_topic(broker.address, TOPIC) for _ in range(2))
    assert [type(each) for each in await asyncio.gather(*calls, return_exceptions=True)] == [Refused] * 2
    del broker.instead[CODE]
    assert (await offsets.of_topic(broker.address, TOPIC)).by_group == {GROUP: {0: 5}}
    assert broker.seen == [CODE] * 2


@pytest.mark.parametrize("entry", [b'"Other@g\xff":{0:1}', b'"Other@g":{0:x}'], ids=["name", "offset"])
async def test_offsets_of_a_topic_that_cannot_be_read_are_missing_for_no_other_topic(broker, offsets, entry):
    broker.peer.answer = lambda *_: success(b'{"offsetTable":{%b,"%b@g1":{0:5}}}' % (entry, TOPIC.encode()))
    calls = (offsets.of_topic(broker.address, each) for each in ("Other", TOPIC))
    unreadable, readable = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(unreadable, BodyError)
    assert readable.by_group == {GROUP: {0: 5}}


async def test_one_that_gives_up_ends_the_request_for_no_other(broker, offsets):
    held = broker.held[CODE] = asyncio.Event()
    impatient, patient = (asyncio.create_task(offsets.of_topic(broker.address, TOPIC)) for _ in range(2))
    await seen(broker, 1)
    impatient.cancel()
    held.set()
    assert (await patient).by_group == {GROUP: {0: 5}}


async def test_brokers_do_not_wait_for_each_other(broker, site):
    other = ScaledBroker("broker-b")
    async with scaling_site(other, name_servers=0):
        offsets = SharedOffsets(site.admin)
        broker.held[CODE] = asyncio.Event()
        waiting = asyncio.create_task(offsets.of_topic(broker.address, TOPIC))
        await seen(broker, 1)
        assert (await offsets.of_topic(other.address, TOPIC)).by_group == {}
        broker.held[CODE].set()
        await waiting
