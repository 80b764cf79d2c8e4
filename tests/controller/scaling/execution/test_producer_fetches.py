"""Who is asked about producers with an old route, and what a broker or NameServer that does not know leaves open."""

import pytest
from fakes.scaled_topic import TOPIC, ScaledBroker, scaling_site
from resize_builders import a_resize

from controller.scaling.execution.observer import ProducerFetches
from controller.scaling.resize.observation import StaleProducers
from remoting.protocol.codes import BrokerRequestCode, RequestCode
from serving.shapes.scaling import ResizePhase

UNKNOWN = StaleProducers(is_complete=False, addresses=())


@pytest.fixture
def broker():
    broker = ScaledBroker(queues=8)
    broker.producers = {"p": ["/10.0.0.1:5000"]}
    return broker


@pytest.fixture
async def site(broker):
    async with scaling_site(broker) as site:
        for each in site.name_servers:
            each.watched = watched()
        yield site


def watched(version=3):
    fetch = {
        "clientAddress": "10.0.0.1:5001",
        "proxyAddress": None,
        "version": version,
        "fetchedUnixMs": 1,
        "closedForMs": None,
    }
    present = {"number": 3, "sinceUnixMs": 100_000, "writeQueueNums": {"broker-a": 4}, "orderTopicConf": None}
    return {
        "topic": TOPIC,
        "watchId": "w",
        "watchedSinceUnixMs": 1,
        "watchedBeforeMs": 60_000,
        "endsInMs": 60_000,
        "present": present,
        "isComplete": True,
        "fetches": [fetch],
    }


async def stale(site):
    # The clocks of NameServers are decades behind that of this controller.
    operation = a_resize(phase=ResizePhase.QUIESCE)
    fetches = ProducerFetches(site.admin, lambda: site.addresses)
    return await fetches.stale(operation, [each.address for each in site.brokers])


async def test_producers_that_have_the_present_route_are_not_waited_for(site):
    assert await stale(site) == StaleProducers(is_complete=True, addresses=())


async def test_producer_with_the_old_route_at_one_name_server_is_named(site):
    site.name_servers[1].watched = watched(version=2)
    assert await stale(site) == StaleProducers(is_complete=True, addresses=("10.0.0.1",))


@pytest.mark.parametrize("instead", [None, 3], ids=["silent", "before 4.9.4"])
async def test_broker_that_does_not_know_its_producers_leaves_the_fixed_wait(broker, site, instead):
    broker.instead[BrokerRequestCode.GET_ALL_PRODUCER_INFO] = instead
    assert await stale(site) == UNKNOWN


async def test_producer_without_an_address_leaves_the_fixed_wait(broker, site):
    broker.producers = {"p": [None]}
    assert await stale(site) == UNKNOWN


@pytest.mark.parametrize("instead", [None, 3, 1], ids=["silent", "of Java", "watches too many topics"])
async def test_name_server_that_does_not_know_leaves_the_fixed_wait(site, instead):
    site.name_servers[0].instead[RequestCode.WATCH_ROUTE_FETCHES] = instead
    assert await stale(site) == UNKNOWN


async def test_topic_is_watched_from_its_plan_on(site):
    await ProducerFetches(site.admin, lambda: site.addresses).begin(TOPIC)
    for each in site.name_servers:
        assert each.peer.count(RequestCode.WATCH_ROUTE_FETCHES) == 1
