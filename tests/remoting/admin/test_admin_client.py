"""The client sends a limited number of requests at a time, over real connections."""

import asyncio
import contextlib

import msgspec
import pytest
from fakes.answering_broker import AnsweringBroker

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body
from remoting.admin.client import AdminClient, AdminLimits
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.errors import BodyError, InvokeTimeout, NotSent, NotSupported, Refused

LIMITS = AdminLimits(timeout_ms=10_000, requests_max=3, requests_per_peer_max=2)


class Levels(msgspec.Struct, rename="camel"):
    offset_table: dict[int, int]


def delay_offsets():
    """Request what a table of numbers answers."""
    request = command(BrokerRequestCode.GET_ALL_DELAY_OFFSET)
    return AdminRequest(request, lambda answer: decode_broker_body(Levels, answer.body).offset_table)


@contextlib.asynccontextmanager
async def listening(*brokers):
    servers = [await asyncio.start_server(each.serve, "127.0.0.1", 0) for each in brokers]
    client = RemotingClient(SystemClock())
    try:
        yield client, [f"127.0.0.1:{each.sockets[0].getsockname()[1]}" for each in servers]
    finally:
        await client.close()
        for server in servers:
            server.close()


async def test_client_returns_what_a_broker_answers():
    broker = AnsweringBroker()
    broker.body = b'{"offsetTable":{1:100}}'
    async with listening(broker) as (client, [address]):
        assert await AdminClient(client, LIMITS).call(address, delay_offsets()) == {1: 100}


@pytest.mark.parametrize(("code", "body", "error"), [(1, b"", Refused), (3, b"", NotSupported), (0, b"x", BodyError)])
async def test_client_raises_what_a_broker_refuses_or_garbles(code, body, error):
    broker = AnsweringBroker(code)
    broker.body = body
    async with listening(broker) as (client, [address]):
        with pytest.raises(error):
            await AdminClient(client, LIMITS).call(address, delay_offsets())


async def test_broker_that_hangs_gets_no_more_requests_and_others_do():
    hanging, healthy = AnsweringBroker(None), AnsweringBroker()
    healthy.body = b'{"offsetTable":{}}'
    async with listening(hanging, healthy) as (client, [slow, fast]):
        admin = AdminClient(client, LIMITS)
        waiting = [asyncio.create_task(admin.call(slow, delay_offsets())) for _ in range(5)]
        await hanging.got(2)
        for _ in range(4):
            assert await admin.call(fast, delay_offsets()) == {}
        assert len(hanging.requests) == 2
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_waiting_requests_are_sent_when_earlier_ones_end():
    hanging = AnsweringBroker(None)
    async with listening(hanging) as (client, [address]):
        admin = AdminClient(client, AdminLimits(timeout_ms=50, requests_max=1, requests_per_peer_max=1))
        calls = (admin.call(address, delay_offsets()) for _ in range(3))
        ends = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in ends] == [InvokeTimeout] * 3
    assert len(hanging.requests) == 3


async def test_request_is_not_sent_if_it_must_not_be_once_it_is_its_turn():
    hanging = AnsweringBroker(None)
    async with listening(hanging) as (client, [address]):
        admin = AdminClient(client, LIMITS)
        leads = True

        def before_send():
            if not leads:
                raise NotSent(address, "another controller may lead")

        waiting = [asyncio.create_task(admin.call(address, delay_offsets())) for _ in range(2)]
        await hanging.got(2)
        late = asyncio.create_task(admin.call(address, delay_offsets(), before_send))
        await asyncio.sleep(0)
        leads = False
        for each in waiting:
            each.cancel()
        with pytest.raises(NotSent, match="another controller may lead"):
            await late
        assert len(hanging.requests) == 2
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_request_is_not_sent_if_it_must_not_be_once_the_connection_is_there(monkeypatch):
    broker = AnsweringBroker()
    loop = asyncio.get_running_loop()
    connect, connects, may_connect = loop.create_connection, asyncio.Event(), asyncio.Event()

    async def slowly(*args, **kwargs):
        connects.set()
        await may_connect.wait()
        return await connect(*args, **kwargs)

    leads = True

    def before_send():
        if not leads:
            raise NotSent("broker", "another controller may lead")

    async with listening(broker) as (client, [address]):
        monkeypatch.setattr(loop, "create_connection", slowly)
        call = asyncio.create_task(AdminClient(client, LIMITS).call(address, delay_offsets(), before_send))
        await connects.wait()
        leads = False
        may_connect.set()
        with pytest.raises(NotSent):
            await call
    assert len(broker.requests) == 0


async def test_long_answer_is_read_while_others_go_on():
    broker = AnsweringBroker()
    levels = ",".join(f"{level}:{level}" for level in range(1, 200_000))
    broker.body = f'{{"offsetTable":{{{levels}}}}}'.encode()
    async with listening(broker) as (client, [address]):
        assert len(await AdminClient(client, LIMITS).call(address, delay_offsets())) == 199_999
