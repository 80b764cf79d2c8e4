"""Questions for the ends of logs, over real connections on loopback, and what is read from answers."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from controller_builders import SET

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.log_ends import NO_LOG_ENDS, LogEnd, LogEndQuery
from controller.sets.broker_set import RAISED_EPOCH_MAX
from controller.wire.broker_queries import ANSWER_BYTES_MAX, LOG_END_MS, LogEndQueries, confirmed_on, log_end
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.codes import RequestCode
from remoting.protocol.frame import decode, encode

KEY = BrokerKey(SET, 2)
FIXED = b"allAckInSyncStateSet=false\nenableAutoInSyncReplicas=false\ninSyncReplicas=2\nminInSyncReplicas=1\n"


def cache(**fields):
    answer = {
        "brokerName": SET,
        "brokerId": 2,
        "maxOffset": 1000,
        "epochList": [{"epoch": 1, "startOffset": 0, "endOffset": 10}, {"epoch": 4, "startOffset": 10}],
    }
    return json.dumps(answer | fields).encode()


@asynccontextmanager
async def a_broker(answers):
    """Answer requests by their code; those without an answer are kept waiting."""
    requested = []

    async def serve(reader, writer):
        try:
            while True:
                prefix = await reader.readexactly(4)
                length = int.from_bytes(prefix)
                request = decode(prefix + await reader.readexactly(length), 0, length)
                requested.append(request.code)
                if request.code in answers:
                    code, body = answers[request.code]
                    writer.write(encode(request.reply(code, body=body)))
        except (asyncio.IncompleteReadError, ConnectionError):
            requested.append("closed")
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", requested
    finally:
        server.close()


@asynccontextmanager
async def brokers(*answers):
    """Yield their addresses by id, from 2 on, what each was asked, and what asks them."""
    async with AsyncExitStack() as stack:
        client = RemotingClient(SystemClock())
        stack.push_async_callback(client.close)
        made = [await stack.enter_async_context(a_broker(each)) for each in answers]
        addresses = {number: address for number, (address, _) in enumerate(made, 2)}
        yield addresses, [requested for _, requested in made], LogEndQueries(client)


async def test_master_reports_its_confirmations_before_any_election():
    async with brokers({PROPERTIES: (0, FIXED)}, {PROPERTIES: (16, b"")}) as (addresses, requested, queries):
        assert await queries.confirmed_on(addresses[2]) == 2
        assert await queries.confirmed_on(addresses[3]) is None
        # Thousands of masters are queried each ten minutes.
        async with asyncio.timeout(20):
            while requested != [[PROPERTIES, "closed"]] * 2:
                await asyncio.sleep(0.01)


def a_query(addresses):
    return LogEndQuery(broker_name=SET, addresses=addresses, in_sync={1, 2, 3}, others=2)


EPOCHS, PROPERTIES = RequestCode.GET_BROKER_EPOCH_CACHE, RequestCode.GET_BROKER_CONFIG


async def test_log_ends_are_queried_together_and_properties_only_if_one_is_missing():
    answers = {EPOCHS: (0, cache())}, {EPOCHS: (0, cache(brokerId=3, maxOffset=900))}
    async with brokers(*answers) as (addresses, requested, queries):
        ends = await queries.query(a_query(addresses))
    assert ends.by_id == {2: LogEnd(4, 1000), 3: LogEnd(4, 900)}
    assert requested == [[EPOCHS], [EPOCHS]]


async def test_paused_broker_delays_the_query_briefly_and_properties_of_the_others_are_queried():
    answers = {EPOCHS: (0, cache()), PROPERTIES: (0, FIXED)}, {}
    async with brokers(*answers) as (addresses, requested, queries):
        # Ten times what it may take: a queue for the processor is none of its own.
        async with asyncio.timeout(LOG_END_MS * 10 / 1000):
            ends = await queries.query(a_query(addresses))
    assert (ends.by_id.keys(), ends.confirmed_on, ends.is_awaited) == ({2}, 2, True)
    assert requested == [[EPOCHS, PROPERTIES], [EPOCHS]]


async def test_simultaneous_elections_of_a_set_share_one_query():
    answers = {EPOCHS: (0, cache())}, {EPOCHS: (0, cache(brokerId=3))}
    async with brokers(*answers) as (addresses, requested, queries):
        first, second = await asyncio.gather(queries.query(a_query(addresses)), queries.query(a_query(addresses)))
        assert first is second
        await queries.query(a_query(addresses))
    assert requested == [[EPOCHS, EPOCHS], [EPOCHS, EPOCHS]]


async def test_refusing_and_unreachable_brokers_have_no_log_end():
    async with brokers({EPOCHS: (16, b"")}) as (addresses, _, queries):
        assert await queries.query(a_query(addresses | {3: "127.0.0.1:1", 4: "no host at all"})) == NO_LOG_ENDS


async def test_log_end_with_broker_id_0_is_that_of_a_master():
    assert log_end(KEY, cache(brokerId=0)) == LogEnd(4, 1000, is_master=True)
    assert log_end(KEY, cache(brokerId=-1, epochList=[])) == LogEnd(-1, 1000)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        cache(brokerName="another"),
        cache(brokerName=None),
        cache(brokerId=3),
        cache(maxOffset=-1),
        cache(maxOffset=2**63),
        cache(maxOffset=None),
        cache(epochList=[{"epoch": RAISED_EPOCH_MAX + 1}]),
        cache(epochList=[{"epoch": -2}]),
    ],
)
async def test_invalid_response_or_one_of_another_broker_is_no_log_end(body):
    assert log_end(KEY, body) is None


async def test_oversized_response_is_not_read():
    answers = {EPOCHS: (0, cache(padding="x" * ANSWER_BYTES_MAX))}, {EPOCHS: (0, cache(brokerId=3))}
    async with brokers(*answers) as (addresses, _, queries):
        assert (await queries.query(a_query(addresses))).by_id.keys() == {3}


@pytest.mark.parametrize(
    ("bodies", "number"),
    [
        ([FIXED], 2),
        ([FIXED, FIXED.replace(b"Replicas=2", b"Replicas=3")], 2),
        ([FIXED, FIXED.replace(b"=2", b"=1")], 2),
        ([FIXED.replace(b"=2", b"=1")], 1),
        ([FIXED.replace(b"=2", b"=0")], 1),
        ([FIXED.replace(b"Set=false", b"Set=true")], 1),
        ([FIXED.replace(b"AutoInSyncReplicas=false", b"AutoInSyncReplicas=true")], 1),
        ([FIXED.replace(b"=2", b"=x")], None),
        ([FIXED.replace(b"=2", b"=" + b"9" * 5000)], None),
        ([b"", b"\xff\xfe"], None),
        ([], None),
    ],
    ids=[
        "fixed",
        "differing",
        "one promises nothing",
        "the master alone",
        "none",
        "all in sync",
        "automatic",
        "no number",
        "huge",
        "nothing",
        "nobody",
    ],
)
def test_properties_contain_the_number_of_replicas_with_a_confirmed_message(bodies, number):
    assert confirmed_on(bodies) == number
