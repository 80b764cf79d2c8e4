"""Requests of ours to a real server, and to peers that behave badly."""

import asyncio
import struct

import pytest
from fakes.clock import FakeClock
from listening import REGISTER, PeerStream, a_request, serving, success, until

from remoting.client import ClientLimits, RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.addresses import named_addresses
from remoting.protocol.codes import FLAG_ONEWAY, ResponseCode, SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import InvokeError, InvokeTimeout, TlsFailed
from remoting.protocol.frame import encode
from remoting.protocol.signing import Credentials, Denial, Signer, SigningObserver, signed
from remoting.transport.tls import TlsContexts, TlsSettings, client_context

NOTIFY = RemotingCommand(905, ext_fields={"minBrokerId": "1"})
KEYS = Credentials("somebody", "a secret")
SECONDS_ARE_ENOUGH_MS = 5000


class Calling:
    def __init__(self, client):
        self.client = client

    async def __aenter__(self):
        return self.client

    async def __aexit__(self, *exc):
        await self.client.close()


class Observer(SigningObserver):
    """Keeps what a client reports."""

    def __init__(self, denials, addresses):
        self._denials, self._addresses = denials, addresses

    def denied(self, denial):
        self._denials.append(denial)

    def unsigned(self, address):
        self._addresses.append(address)


def a_client(clock=None, **options):
    limits = {name: options.pop(name) for name in ClientLimits.__struct_fields__ if name in options}
    return Calling(RemotingClient(clock or SystemClock(), ClientLimits(**limits), **options))


def a_signer(named="", **values):
    return Signer(credentials=KEYS, named=named_addresses(named), **values)


class Peers:
    """A listener that leaves its connections to the test."""

    def __init__(self):
        self.streams = []

    async def __aenter__(self):
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = "127.0.0.1:%d" % self._listener.sockets[0].getsockname()[1]  # noqa: UP031  # reads best
        return self

    async def _accept(self, reader, writer):
        self.streams.append(PeerStream(reader, writer))

    async def one(self):
        await until(lambda: self.streams)
        return self.streams[0]

    async def __aexit__(self, *exc):
        self._listener.close()
        for stream in self.streams:
            await stream.close()


def address(site):
    return f"127.0.0.1:{site.port}"


async def invoke(client, where, request=NOTIFY, timeout_ms=SECONDS_ARE_ENOUGH_MS):
    return await client.invoke(where, request, timeout_ms)


@pytest.mark.parametrize("serialize_type", list(SerializeType))
async def test_many_requests_share_one_connection_and_each_gets_its_own_answer(serialize_type):
    async with serving() as site, a_client(serialize_type=serialize_type) as client:
        answers = await asyncio.gather(*(invoke(client, address(site)) for _ in range(100)))
        assert sorted(int(answer.body) for answer in answers) == list(range(100))
        assert all(int(answer.body) == answer.opaque for answer in answers)
        assert len(site.observed.of("opened")) == 1


async def test_posted_request_arrives():
    seen = []

    def note(request, connection):
        seen.append(request)
        return request.reply()

    async with serving(note) as site, a_client() as client:
        await client.post(address(site), NOTIFY, SECONDS_ARE_ENOUGH_MS)
        await until(lambda: seen)
        assert (seen[0].code, seen[0].flag, seen[0].ext_fields) == (905, 0, {"minBrokerId": "1"})


async def signed_at(signer, host="127.0.0.1"):
    """Send a request in each way; return what arrived and which addresses were told as unsigned."""
    seen, unsigned = [], []

    def note(request, connection):
        seen.append(request)
        return request.reply()

    async with (
        serving(note) as site,
        a_client(signer=signer(site.port), observer=Observer([], unsigned)) as client,
    ):
        for send in (client.invoke, client.invoke_on_new_connection, client.post):
            await send(f"{host}:{site.port}", NOTIFY, SECONDS_ARE_ENOUGH_MS)
        await until(lambda: len(seen) == 3)
    return [request.ext_fields for request in seen], unsigned


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("127.0.0.1", "127.0.0.0/8"),
        ("127.0.0.1", "10.0.0.0/8;127.0.0.1:{port}"),
        # Whatever the text is, the network is that of the other end.
        ("localhost", "127.0.0.0/8;[::1]"),
        ("LocalHost", "localhost:{port}"),
    ],
)
async def test_every_request_to_a_named_peer_is_signed(host, named):
    seen, unsigned = await signed_at(lambda port: a_signer(named.format(port=port)), host)
    assert seen == [signed(NOTIFY, KEYS).ext_fields] * 3
    assert unsigned == []
    assert NOTIFY.ext_fields == {"minBrokerId": "1"}


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("127.0.0.1", ""),
        ("127.0.0.1", "10.0.0.0/8;127.0.0.1:1;127.0.0.2"),
        # A name is the operator's only as he wrote it: anybody's may resolve to where another one does.
        ("127.0.0.1", "localhost"),
        ("localhost", "localhost.example.org"),
    ],
)
async def test_request_to_an_unlisted_peer_is_unsigned_and_reported(host, named):
    seen, unsigned = await signed_at(lambda _: a_signer(named), host)
    assert seen == [NOTIFY.ext_fields] * 3
    assert [each.rpartition(":")[0] for each in unsigned] == [host] * 3


async def test_requests_to_verified_peers_are_signed():
    seen, unsigned = await signed_at(lambda _: a_signer(verifies_all=True))
    assert seen == [signed(NOTIFY, KEYS).ext_fields] * 3
    assert unsigned == []


@pytest.mark.parametrize("is_signed", [True, False])
async def test_denial_is_reported_for_awaited_and_posted_requests(is_signed):
    def deny(request, connection):
        return request.reply(ResponseCode.NO_PERMISSION, remark="check signature failed.")

    denied = []
    signer = a_signer("127.0.0.1" if is_signed else "")
    async with serving(deny) as site, a_client(signer=signer, observer=Observer(denied, [])) as client:
        for send in (client.invoke, client.invoke_on_new_connection, client.post):
            await send(address(site), NOTIFY, SECONDS_ARE_ENOUGH_MS)
        await until(lambda: len(denied) == 3)
        expected = Denial(
            address=address(site), request_code=905, remark="check signature failed.", is_signed=is_signed
        )
        assert denied == [expected] * 3


async def test_other_responses_to_posted_requests_are_dropped():
    denied = []
    async with Peers() as peers, a_client(pending_max=2, observer=Observer(denied, [])) as client:
        for _ in range(3):
            await client.post(peers.address, NOTIFY, SECONDS_ARE_ENOUGH_MS)
        peer = await peers.one()
        first, second, third = await peer.answers(3)
        # The limit of what is remembered is two: the oldest is a stray by now.
        await peer.send(
            encode(first.reply(ResponseCode.NO_PERMISSION)) + encode(second.reply(ResponseCode.SYSTEM_BUSY))
        )
        await peer.send(encode(third.reply()))
        asking = asyncio.create_task(invoke(client, peers.address))
        await peer.send(encode((await peer.answer()).reply(body=b"asked later")))
        assert (await asking).body == b"asked later"
    assert denied == []


async def test_answers_find_their_requests_in_any_order_and_strays_are_dropped():
    async with Peers() as peers, a_client() as client:
        asking = [asyncio.create_task(invoke(client, peers.address)) for _ in range(3)]
        peer = await peers.one()
        requests = await peer.answers(3)
        await peer.send(encode(RemotingCommand(0, 4711, 1)))
        for request in reversed(requests):
            await peer.send(encode(request.reply(body=b"%d" % request.opaque)))
        assert [(await each).opaque for each in asking] == [0, 1, 2]


async def test_request_after_a_timeout_takes_another_connection():
    """Packets of the first may be lost for minutes; a peer that only stood still finds there what it was told."""
    async with Peers() as peers, a_client() as client:
        with pytest.raises(InvokeTimeout, match="no answer within 30 ms") as caught:
            await invoke(client, peers.address, timeout_ms=30)
        assert (caught.value.address, caught.value.timeout_ms) == (peers.address, 30)
        asking = asyncio.create_task(invoke(client, peers.address))
        await until(lambda: len(peers.streams) == 2)
        first, second = peers.streams
        assert (await first.answer()).code == NOTIFY.code
        await second.send(encode((await second.answer()).reply(body=b"in time")))
        assert (await asking).body == b"in time"
        assert await first.reader.read() == b""


async def test_late_response_is_dropped_and_others_arrive_over_that_connection():
    async with Peers() as peers, a_client() as client:
        patient = asyncio.create_task(invoke(client, peers.address))
        peer = await peers.one()
        first = await peer.answer()
        with pytest.raises(InvokeTimeout):
            await invoke(client, peers.address, timeout_ms=30)
        late = await peer.answer()
        await peer.send(encode(late.reply()) + encode(first.reply(body=b"in time")))
        assert (await patient).body == b"in time"
        assert await peer.reader.read() == b""


@pytest.mark.parametrize("waits", [True, False])
async def test_refused_connection_is_an_error_with_its_address(waits):
    async with Peers() as peers:
        gone = peers.address
    async with a_client() as client:
        call = client.invoke if waits else client.post
        with pytest.raises(InvokeError, match=f"request to {gone} failed: cannot connect"):
            await call(gone, NOTIFY, SECONDS_ARE_ENOUGH_MS)


@pytest.mark.parametrize("bad", ["", "nowhere", "host:", ":10911", "host:0", "host:65536", "host:-1", "host:²"])
async def test_invalid_address_is_an_error(bad):
    async with a_client() as client:
        with pytest.raises(InvokeError, match="host:port"):
            await invoke(client, bad)


async def test_an_address_of_version_6_may_have_brackets_or_none():
    try:
        listener = await asyncio.start_server(lambda reader, writer: writer.close(), "::1", 0)
    except OSError:
        return
    port = listener.sockets[0].getsockname()[1]
    async with a_client() as client:
        for host in ("[::1]", "::1", "0:0:0:0:0:0:0:1"):
            await client.post(f"{host}:{port}", NOTIFY, SECONDS_ARE_ENOUGH_MS)
    listener.close()


async def test_a_connection_that_hangs_while_it_is_made_is_a_timeout():
    async with Peers() as peers, a_client(tls=client_context(TlsSettings())) as client:
        with pytest.raises(InvokeTimeout):
            await client.post(peers.address, NOTIFY, 50)


async def test_lost_connection_fails_its_requests_and_the_next_request_reconnects():
    async with Peers() as peers, a_client() as client:
        assert client.connection_number(peers.address) is None
        asking = [asyncio.create_task(invoke(client, peers.address)) for _ in range(2)]
        peer = await peers.one()
        await peer.answers(2)
        number = client.connection_number(peers.address)
        peer.writer.transport.abort()
        for each in asking:
            with pytest.raises(InvokeError, match="connection"):
                await each
        assert number is not None
        assert client.connection_number(peers.address) is None
        asking = asyncio.create_task(invoke(client, peers.address))
        await until(lambda: len(peers.streams) == 2)
        second = peers.streams[1]
        await second.send(encode((await second.answer()).reply()))
        assert (await asking).code == 0
        assert client.connection_number(peers.address) not in {None, number}


async def test_invalid_response_ends_the_connection():
    async with Peers() as peers, a_client(frame_bytes_max=1000) as client:
        asking = asyncio.create_task(invoke(client, peers.address))
        peer = await peers.one()
        await peer.answer()
        await peer.send(struct.pack(">i", 1001))
        with pytest.raises(InvokeError, match="over the limit of 1000"):
            await asking
        assert await peer.until_closed() == b""


async def test_response_before_invalid_bytes_arrives():
    async with Peers() as peers, a_client() as client:
        asking = [asyncio.create_task(invoke(client, peers.address)) for _ in range(2)]
        peer = await peers.one()
        first, _ = await peer.answers(2)
        await peer.send(encode(first.reply()) + struct.pack(">i", -1))
        assert (await asking[0]).code == 0
        with pytest.raises(InvokeError, match="frame length of -1"):
            await asking[1]


async def test_unreachable_address_is_removed_after_a_while():
    clock = FakeClock()
    async with a_client(clock=clock, idle_seconds=0.02, addresses_max=1) as client:
        with pytest.raises(InvokeError, match="host:port"):
            await invoke(client, "nowhere")
        clock.pass_ms(20)
        await until(lambda: not client._addresses)


async def test_a_client_that_was_never_used_closes():
    await RemotingClient(SystemClock()).close()


async def test_request_of_a_peer_is_answered_as_not_supported():
    async with Peers() as peers, a_client() as client:
        await client.post(peers.address, NOTIFY, SECONDS_ARE_ENOUGH_MS)
        peer = await peers.one()
        await peer.answer()
        await peer.send(a_request(REGISTER, 5, flag=FLAG_ONEWAY) + a_request(REGISTER, 6))
        answer = await peer.answer()
        assert (answer.opaque, answer.code, answer.remark) == (6, 3, " request type 103 not supported")


async def test_requests_that_wait_for_answers_have_a_limit():
    async with Peers() as peers, a_client(pending_max=2) as client:
        asking = [asyncio.create_task(invoke(client, peers.address, timeout_ms=200)) for _ in range(2)]
        await (await peers.one()).answers(2)
        with pytest.raises(InvokeError, match="2 requests wait"):
            await invoke(client, peers.address)
        for each in asking:
            with pytest.raises(InvokeTimeout):
                await each


async def test_a_peer_that_does_not_read_is_an_error_before_memory_fills():
    big = RemotingCommand(905, body=bytes(1_000_000))
    async with Peers() as peers, a_client(unsent_bytes_max=2_000_000, close_seconds=0.05) as client:

        async def send_all():
            for _ in range(100):
                await client.post(peers.address, big, SECONDS_ARE_ENOUGH_MS)

        with pytest.raises(InvokeError, match="does not read"):
            await send_all()


async def test_least_recently_used_address_is_dropped_at_the_limit():
    async with serving() as first, serving() as second, serving() as third, a_client(addresses_max=2) as client:
        for site in (first, second, first, third):
            await invoke(client, address(site))
        await until(lambda: second.observed.of("closed"))
        assert not first.observed.of("closed")
        await invoke(client, address(second))
        await until(lambda: first.observed.of("closed"))


async def test_addresses_in_use_are_not_dropped_at_the_limit():
    async with Peers() as peers, serving() as site, a_client(addresses_max=1) as client:
        asking = asyncio.create_task(invoke(client, peers.address))
        peer = await peers.one()
        request = await peer.answer()
        with pytest.raises(InvokeError, match="1 other addresses"):
            await invoke(client, address(site))
        await peer.send(encode(request.reply()))
        await asking
        assert (await invoke(client, address(site))).code == 0


async def test_an_unused_connection_is_closed_and_made_again_when_needed():
    clock = FakeClock()
    async with serving() as site, a_client(clock=clock, idle_seconds=0.04) as client:
        await invoke(client, address(site))
        await asyncio.sleep(0.05)
        assert not site.observed.of("closed"), "the clock stands still"
        clock.pass_ms(40)
        await until(lambda: site.observed.of("closed"))
        assert (await invoke(client, address(site))).code == 0
        assert len(site.observed.of("opened")) == 2


async def test_released_connection_closes_unless_another_request_uses_it():
    async with Peers() as peers, a_client() as client:
        first, second = (asyncio.create_task(invoke(client, peers.address)) for _ in range(2))
        peer = await peers.one()
        requests = [await peer.answer(), await peer.answer()]
        await peer.send(encode(requests[0].reply()))
        await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        client.release(peers.address)
        await peer.send(encode(requests[1].reply()))
        await asyncio.gather(first, second)
        client.release(peers.address)
        assert await peer.until_closed() == b""
        client.release(peers.address)


async def test_closed_client_fails_waiting_and_new_requests():
    async with Peers() as peers, a_client() as client:
        asking = asyncio.create_task(invoke(client, peers.address))
        peer = await peers.one()
        await peer.answer()
        await client.close()
        with pytest.raises(InvokeError):
            await asking
        with pytest.raises(InvokeError, match="client is closed"):
            await invoke(client, peers.address)


async def test_a_client_closed_while_it_connects_leaves_no_connection_behind():
    contexts = TlsContexts(TlsSettings(), FakeClock(unix_ms=1_800_000_000_000))
    async with serving(tls=contexts) as site, a_client(tls=client_context(TlsSettings())) as client:
        asking = asyncio.create_task(invoke(client, address(site)))
        await until(lambda: site.observed.of("opened"))
        await client.close()
        with pytest.raises(InvokeError):
            await asking
        await until(lambda: site.observed.of("closed"))


async def test_requests_can_go_over_tls():
    contexts = TlsContexts(TlsSettings(server_mode="enforcing"), FakeClock(unix_ms=1_800_000_000_000))
    async with serving(success, tls=contexts) as site:
        async with a_client(tls=client_context(TlsSettings())) as client:
            assert (await invoke(client, address(site))).code == 0
        async with a_client() as plain:
            with pytest.raises(InvokeError, match="connection"):
                await invoke(plain, address(site))


async def test_untrusted_certificate_is_an_error():
    contexts = TlsContexts(TlsSettings(), FakeClock(unix_ms=1_800_000_000_000))
    verifying = client_context(TlsSettings(test_mode_enable=False, client_auth_server=True))
    async with serving(tls=contexts) as site, a_client(tls=verifying) as client:
        with pytest.raises(TlsFailed, match=r"no TLS session: .*certificate"):
            await invoke(client, address(site))


async def test_peer_that_speaks_no_tls_is_an_error_of_tls():
    contexts = TlsContexts(TlsSettings(server_mode="disabled"), FakeClock(unix_ms=1_800_000_000_000))
    async with serving(tls=contexts) as site, a_client(tls=client_context(TlsSettings())) as client:
        with pytest.raises(TlsFailed):
            await invoke(client, address(site))
