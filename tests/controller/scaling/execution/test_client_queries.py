"""Clients are queried through their brokers for a limited time, and one that hangs not again at once."""

import asyncio

import pytest
from fakes.answering_peer import NOTHING
from fakes.clock import FakeClock
from fakes.scaled_topic import GROUP, TIMEOUT_MS, ScaledBroker, scaling_site

from controller.scaling.execution.requests import AGAIN_MAX, ROUND_MS, SILENT_MS, SILENT_MS_MAX, ClientQueries
from remoting.admin.client import AdminClient, AdminLimits
from remoting.protocol.codes import BrokerRequestCode, ResponseCode

CODE = BrokerRequestCode.GET_CONSUMER_RUNNING_INFO
TURNS = 8


@pytest.fixture
async def broker():
    broker = ScaledBroker()
    broker.run("c1", {0: (1, 0)})
    return broker


@pytest.fixture
async def site(broker):
    async with scaling_site(broker, name_servers=0) as site:
        yield site


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def clients(site, clock):
    admin = AdminClient(site.client, AdminLimits(timeout_ms=TIMEOUT_MS, requests_per_peer_max=TURNS))
    return ClientQueries(admin, clock)


async def answers(clients, broker, *names):
    """Return of each client whether it is known in a round."""
    this = clients.begin_round()
    found = await asyncio.gather(*(clients.running(this, broker.address, GROUP, each) for each in names))
    return [each is not None for each in found]


async def test_client_that_stays_silent_is_queried_ever_more_rarely_and_goes_on_at_once_when_it_answers(
    broker, clients, clock
):
    broker.instead[CODE] = None
    for rounds in range(1, 3):
        await answers(clients, broker, "c1")
        assert broker.seen == [CODE] * rounds
        clock.pass_ms(SILENT_MS * rounds - 1)
        await answers(clients, broker, "c1")
        assert broker.seen == [CODE] * rounds
        clock.pass_ms(1)
    del broker.instead[CODE]
    assert SILENT_MS_MAX > 2 * SILENT_MS
    assert await answers(clients, broker, "c1") == [True]
    assert await answers(clients, broker, "c1") == [True]


async def test_silent_client_silences_no_other(broker, clients):
    answer = broker.peer.answer
    broker.peer.answer = lambda code, fields: NOTHING if fields["clientId"] == "hangs" else answer(code, fields)
    assert await answers(clients, broker, "hangs", "c1") == [False, True]


async def test_client_that_a_broker_refuses_is_queried_each_time(broker, clients):
    broker.instead[CODE] = ResponseCode.SYSTEM_ERROR
    assert await answers(clients, broker, "c1") == [False]
    del broker.instead[CODE]
    assert await answers(clients, broker, "c1") == [True]


async def test_connection_that_breaks_silences_no_client(broker, clients):
    broker.instead[CODE] = None
    asked = asyncio.create_task(answers(clients, broker, "c1"))
    async with asyncio.timeout(30):
        while not broker.seen:
            await asyncio.sleep(0.01)
    await broker.peer.close()
    assert await asked == [False]
    await broker.peer.open()
    del broker.instead[CODE]
    assert await answers(clients, broker, "c1") == [True]


async def test_few_silent_clients_of_a_broker_are_tried_again_in_a_round_and_all_others_are_queried(
    broker, clients, clock
):
    names = [f"hangs-{number}" for number in range(AGAIN_MAX + 1)]
    answer = broker.peer.answer
    broker.peer.answer = lambda code, fields: NOTHING if fields["clientId"] in names else answer(code, fields)
    await answers(clients, broker, *names)
    clock.pass_ms(SILENT_MS)
    broker.peer.received.clear()
    assert await answers(clients, broker, *names, "c1") == [False] * len(names) + [True]
    assert [fields["clientId"] for _, fields in broker.peer.received] == [*names[:AGAIN_MAX], "c1"]


async def test_clients_without_a_turn_within_the_time_of_a_round_are_unknown_and_queried_in_the_next_one(
    broker, clients, clock
):
    answer = broker.peer.answer

    def late(code, fields):
        clock.pass_ms(ROUND_MS)
        return answer(code, fields)

    # All that have a turn are sent before the first answer comes.
    broker.peer.pause_s = 0.1
    names = [f"c{number}" for number in range(TURNS + 2)]
    for each in names:
        broker.run(each, {0: (1, 0)})
    broker.peer.answer = late
    assert await answers(clients, broker, *names) == [True] * TURNS + [False] * 2
    broker.peer.answer = answer
    assert await answers(clients, broker, *names) == [True] * len(names)
