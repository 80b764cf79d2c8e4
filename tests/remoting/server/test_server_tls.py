"""TLS and plain peers on one port, as `tls.server.mode` says; the peers are Python's own TLS clients."""

import asyncio
import contextlib
import ssl
import struct

import pytest
from certificates_made import Authority
from fakes.clock import FakeClock
from listening import E1, E2_BODY, E13_START, REGISTER, ROUTE, a_request, serving, until

from remoting.protocol.frame_reader import CommandReader
from remoting.server.observer import CloseReason
from remoting.transport.tls import TlsContexts, TlsSettings

V2_START = b"\r\n\r\n\0\r\nQUIT\n" + bytes([0x21, 0x11, 0, 12, 9, 9, 9, 9, 8, 8, 8, 8]) + struct.pack(">HH", 1234, 9876)


@pytest.fixture
def trusting(tmp_path, authority):
    """A client's context that trusts the authority and compares the name."""
    return ssl.create_default_context(cafile=authority.write(tmp_path / "ca.pem"))


def loaded(settings):
    contexts = TlsContexts(settings, FakeClock())
    assert contexts.reload() is None
    return contexts


def anybody():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def connect_behind(site, start, context):
    """Send what a proxy sends first, then begin TLS on the same connection."""
    peer = await site.connect()
    await peer.send(start)
    await peer.writer.start_tls(context, server_hostname="localhost")
    return peer


def route(request, connection):
    return request.reply(body=E2_BODY)


async def secured(site, context):
    return await site.connect(ssl=context, server_hostname="localhost")


@pytest.mark.parametrize("mode", ["permissive", "enforcing"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_tls_peer_is_served_with_the_certificate_of_the_files(settings, trusting, mode, version):
    trusting.minimum_version = trusting.maximum_version = version
    async with serving(route, tls=loaded(settings(server_mode=mode))) as site:
        peer = await secured(site, trusting)
        for _ in range(3):
            assert (await peer.request(E1)).body == E2_BODY
        assert (await peer.request(a_request(REGISTER))).body == E2_BODY


async def test_a_plain_peer_is_served_beside_them_in_permissive_mode(settings, trusting):
    async with serving(tls=loaded(settings())) as site:
        assert (await (await secured(site, trusting)).request(E1)).code == 0
        assert (await (await site.connect()).request(E1)).code == 0


@pytest.mark.parametrize("code", [ROUTE, REGISTER])
async def test_in_enforcing_mode_a_plain_command_is_not_carried_out(settings, code):
    carried_out = []

    async with serving(
        lambda request, _: carried_out.append(request), tls=loaded(settings(server_mode="enforcing"))
    ) as site:
        peer = await site.connect()
        await peer.send(a_request(code))
        assert await peer.until_closed() == b""
        ((_, error),) = site.observed.of("frame")
        assert "enforcing" in str(error)
        assert not carried_out


@pytest.mark.parametrize(
    "tls", [None, TlsContexts(TlsSettings(server_mode="disabled"), FakeClock())], ids=["none", "disabled"]
)
async def test_without_tls_a_tls_peer_is_closed_and_plain_ones_are_served(tls):
    async with serving(tls=tls) as site:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await secured(site, anybody())
        ((_, error),) = site.observed.of("frame")
        assert "disabled" in str(error)
        assert (await (await site.connect()).request(E1)).code == 0


async def test_test_mode_serves_tls_without_any_file():
    async with serving(tls=TlsContexts(TlsSettings(), FakeClock(unix_ms=1_800_000_000_000))) as site:
        peer = await secured(site, anybody())
        assert (await peer.request(E1)).code == 0
        assert peer.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)


async def test_without_a_certificate_tls_peers_are_closed_and_plain_ones_are_served(settings):
    contexts = TlsContexts(settings(server_key_path="/nowhere"), FakeClock())
    contexts.reload()
    async with serving(tls=contexts) as site:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await secured(site, anybody())
        ((_, error),) = site.observed.of("frame")
        assert "/nowhere" in str(error)
        assert (await (await site.connect()).request(E1)).code == 0


@pytest.mark.parametrize("start", [E13_START, V2_START], ids=["v1", "v2"])
async def test_a_proxy_header_may_come_before_tls(settings, trusting, start):
    async with serving(tls=loaded(settings(server_mode="enforcing"))) as site:
        peer = await connect_behind(site, start, trusting)
        assert (await peer.request(E1)).code == 0
        assert site.observed.of("opened")[0].peer == "9.9.9.9:1234"


async def test_new_connections_use_a_renewed_certificate_and_old_ones_go_on(tmp_path, settings, authority, trusting):
    def certificate(peer):
        return peer.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)

    contexts = loaded(settings())
    async with serving(tls=contexts) as site:
        old = await secured(site, trusting)
        await old.request(E1)
        authority.write_pair(tmp_path, "server")
        assert contexts.changed()
        assert certificate(await secured(site, trusting)) == certificate(old), "nothing changes before the reload"
        assert contexts.reload() is None
        new = await secured(site, trusting)
        assert certificate(new) != certificate(old)
        for peer in (old, new):
            assert (await peer.request(E1)).code == 0


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_demanded_client_certificate_must_be_shown_and_trusted(
    tmp_path, settings, authority, trusting, version
):
    demanding = settings(
        server_auth_client=True, server_need_client_auth="require", server_trust_cert_path=str(tmp_path / "ca.pem")
    )
    trusting.minimum_version = trusting.maximum_version = version
    async with serving(tls=loaded(demanding)) as site:
        strangers = Authority("Stranger").write_pair(tmp_path, "stranger")
        for attempt, shown in enumerate((None, strangers), 1):
            if shown:
                trusting.load_cert_chain(shown[1], shown[0])
            # With TLS 1.3 a client learns only after its own handshake that it was turned down.
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await (await secured(site, trusting)).request(E1)
            await until(lambda attempt=attempt: len(site.observed.of("frame")) == attempt)
        assert "certificate" in str(site.observed.of("frame")[0][1])
        key, cert = authority.write_pair(tmp_path, "client")
        trusting.load_cert_chain(cert, key)
        assert (await (await secured(site, trusting)).request(E1)).code == 0


async def test_bytes_that_only_begin_like_tls_close_the_connection(settings):
    async with serving(tls=loaded(settings())) as site:
        peer = await site.connect()
        await peer.send(b"\x16\x03\x01\0\x05" + b"hello" * 10)
        alert = await peer.until_closed()
        assert alert[:1] == b"\x15", "an alert tells a TLS client what is wrong"
        ((_, error),) = site.observed.of("frame")
        assert str(error).startswith("TLS failed: ")


async def test_bad_frames_and_floods_within_tls_are_treated_as_without(settings, trusting):
    async with serving(tls=loaded(settings())) as site:
        peer = await secured(site, trusting)
        await peer.send(b"".join(a_request(ROUTE, at) for at in range(2000)) + b"\xff\xff\xff\xff")
        assert [answer.opaque for answer in await peer.answers(2000)] == list(range(2000))
        assert await peer.until_closed() == b""
        assert site.observed.of("closed")[0][1] is CloseReason.ERROR


async def test_close_notify_closes_the_connection_on_both_sides(settings, trusting):
    async with serving(tls=loaded(settings())) as site:
        peer = await secured(site, trusting)
        await peer.request(E1)
        await peer.close()
        await until(lambda: site.observed.of("closed"))
        assert site.observed.of("closed")[0][1] is CloseReason.PEER
        second = await secured(site, trusting)
        await second.request(E1)
        await site.server.close()
        assert await second.until_closed() == b"", "a clean end, not one that could be an attacker's"


async def test_connection_with_an_endless_tls_handshake_is_closed(settings):
    async with serving(tls=loaded(settings()), idle_seconds=0.15) as site:
        peer = await site.connect()
        await peer.send(b"\x16\x03\x01\x02\x00" + bytes(10))
        while not site.observed.of("closed"):
            peer.writer.write(b"\0")
            await asyncio.sleep(0.01)
        ((_, error),) = site.observed.of("frame")
        assert "incomplete" in str(error)
        assert site.statistics.partial_frame_bytes == 0


class RawTls:
    """A TLS peer that holds the bytes of its own records, and may send others between them."""

    def __init__(self, peer):
        self._peer = peer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = anybody().wrap_bio(self._incoming, self._outgoing)

    async def shake_hands(self):
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._peer.send(self._outgoing.read())
                self._incoming.write(await self._peer.reader.read(65536))
        await self._peer.send(self._outgoing.read())

    async def send(self, data, *, then=b""):
        self._tls.write(data)
        await self._peer.send(self._outgoing.read() + then)

    async def leave_with(self, data):
        """Send `data` and close_notify at once; return what is answered until the server closes."""
        self._tls.write(data)
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        await self._peer.send(self._outgoing.read())
        self._incoming.write(await self._peer.reader.read())
        plain = b""
        with contextlib.suppress(ssl.SSLError):
            while chunk := self._tls.read(65536):
                plain += chunk
        return CommandReader(len(plain)).receive(plain)


async def test_requests_that_come_with_the_end_of_tls_are_answered(settings):
    async with serving(tls=loaded(settings())) as site:
        peer = await site.connect()
        leaving = RawTls(peer)
        await leaving.shake_hands()
        answers = await leaving.leave_with(b"".join(a_request(REGISTER, at) for at in range(3)))
        assert sorted(answer.opaque for answer in answers) == [0, 1, 2]
        await until(lambda: site.observed.of("closed"))
        assert site.observed.of("closed")[0][1] is CloseReason.PEER


#: Announces 32 bytes of data; they belong to no key.
BAD_RECORD = b"\x17\x03\x03\0\x20" + bytes(32)


@pytest.mark.parametrize("is_sent_with_them", [False, True])
async def test_responses_after_a_bad_tls_record_end_that_connection_only(settings, is_sent_with_them):
    """The answers wait, for a disk perhaps; the peer's bad record has then ended TLS in both directions."""
    gate = asyncio.Event()

    async def wait(request):
        await gate.wait()
        return request.reply(body=bytes(20_000))

    def dispatch(request, connection):
        return wait(request) if request.code == REGISTER else request.reply()

    async with serving(dispatch, tls=loaded(settings())) as site:
        peer, other = await site.connect(), await site.connect()
        hostile = RawTls(peer)
        await hostile.shake_hands()
        await hostile.send(b"".join(a_request(REGISTER, at) for at in range(5)))
        await until(lambda: site.server.request_queue.requests == 5)
        await hostile.send(a_request(REGISTER, 5) if is_sent_with_them else b"", then=BAD_RECORD)
        await until(lambda: site.observed.of("frame"))
        gate.set()
        await until(lambda: site.observed.of("closed"))
        ((connection, reason),) = site.observed.of("closed")
        assert (connection.id, reason) == (1, CloseReason.ERROR)
        assert (await other.request(a_request(REGISTER))).code == 0
        assert (
            site.server.request_queue.requests,
            site.server.request_queue.body_bytes,
            site.statistics.in_flight,
        ) == (0, 0, 0)
        assert not site.observed.of("fault")


async def test_response_that_tls_cannot_write_ends_the_connection(settings):
    """As where the session failed and nothing of the peer has told it yet."""
    async with serving(tls=loaded(settings())) as site:
        peer = await secured(site, anybody())
        await peer.request(E1)
        session = site.server.connections[1].input.filter._tls
        with pytest.raises(ssl.SSLError):
            session._tls.unwrap()
        await peer.send(E1)
        await until(lambda: site.observed.of("closed"))
        assert site.observed.of("closed")[0][1] is CloseReason.ERROR
        assert (await (await secured(site, anybody())).request(E1)).code == 0
