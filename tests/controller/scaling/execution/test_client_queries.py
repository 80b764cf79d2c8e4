"""Clients are queried through their brokers, and one that hangs not again at once."""

import pytest
from fakes.answering_peer import NOTHING
from fakes.clock import FakeClock
from fakes.scaled_topic import GROUP, ScaledBroker, scaling_site

from controller.scaling.execution.client_queries import SILENT_MS, ClientQueries
from remoting.protocol.codes import BrokerRequestCode, ResponseCode

CODE = BrokerRequestCode.GET_CONSUMER_RUNNING_INFO


@pytest.fixture
async def broker():
    broker = ScaledBroker()
    broker.run("c1", {0: (1, 0)})
    return broker


@pytest.fixture
async def site(broker):
    async with scaling_site(broker, name_servers=0) as site:
        yield site


def queries(site, clock):
    return ClientQueries(site.admin, clock)


async def test_silent_client_is_queried_again_after_a_minute(broker, site):
    clock = FakeClock()
    clients = queries(site, clock)
    broker.instead[CODE] = None
    assert await clients.running(broker.address, GROUP, "c1") is None
    del broker.instead[CODE]
    clock.pass_ms(SILENT_MS - 1)
    assert await clients.running(broker.address, GROUP, "c1") is None
    assert broker.seen == [CODE]
    clock.pass_ms(1)
    assert await clients.running(broker.address, GROUP, "c1") is not None


async def test_silent_client_silences_no_other(broker, site):
    clients = queries(site, FakeClock())
    answers = broker.peer.answer
    broker.peer.answer = lambda code, fields: NOTHING if fields["clientId"] == "hangs" else answers(code, fields)
    assert await clients.running(broker.address, GROUP, "hangs") is None
    assert await clients.running(broker.address, GROUP, "c1") is not None


async def test_client_that_a_broker_refuses_is_queried_each_time(broker, site):
    clients = queries(site, FakeClock())
    broker.instead[CODE] = ResponseCode.SYSTEM_ERROR
    assert await clients.running(broker.address, GROUP, "c1") is None
    del broker.instead[CODE]
    assert await clients.running(broker.address, GROUP, "c1") is not None
