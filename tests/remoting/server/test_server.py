"""What peers see of the server: answers, the limits, and the ends of connections."""

import asyncio
import gc
import socket
import struct
import weakref
from contextlib import suppress
from typing import ClassVar

import pytest
from fakes.background import background_tasks
from listening import (
    E1,
    E2,
    E2_BODY,
    E4,
    E5,
    E11,
    E11_ANSWER,
    E13_START,
    REGISTER,
    ROUTE,
    SMALL_BUFFERS,
    Dispatching,
    RecordingObserver,
    a_request,
    serving,
    success,
    until,
)

from remoting.clock import SystemClock
from remoting.protocol.codes import ResponseCode, SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, RequestRefused
from remoting.protocol.frame import decode, encode
from remoting.server.limits import BodyLimits, ServerOptions
from remoting.server.observer import CloseReason, ConnectionKind, Rejection
from remoting.server.response_cache import PreparedResponse
from remoting.server.server import BindError, RemotingServer
from remoting.server.statistics import Histogram


class Body:
    """What a request brought."""


def route(request, connection):
    return request.reply(body=E2_BODY)


# Responses


@pytest.mark.parametrize("pieces", [1, 50])
async def test_a_body_too_long_for_its_code_is_refused_by_its_length_and_the_connection_goes_on(pieces):
    limits = BodyLimits(other=1000, by_code={REGISTER: 2000})
    async with serving(body_limits=limits) as site:
        peer = await site.connect()
        bodies = {322: 2_000_000, REGISTER: 2000, 999: 1001}
        data = b"".join(a_request(code, at, body=bytes(size)) for at, (code, size) in enumerate(bodies.items(), 1))
        for at in range(0, len(data), len(data) // pieces):
            await peer.send(data[at : at + len(data) // pieces])
        answers = await peer.answers(3)
        assert [(each.opaque, each.code) for each in answers] == [(1, 1), (2, 0), (3, 1)]
        assert answers[0].remark == "QUERY_DATA_VERSION (322): a body of 2000000 bytes is over the limit of 1000"
        assert answers[2].remark == "request 999: a body of 1001 bytes is over the limit of 1000"
        assert site.server.statistics.rejected[Rejection.BAD_REQUEST] == 2
        assert site.server.statistics.partial_frame_bytes == 0


@pytest.mark.parametrize("question", [E1, E4, E13_START + E1], ids=["E1 JSON", "E4 binary", "E13 PROXY"])
async def test_a_route_is_answered_as_the_java_server_answers(question):
    async with serving(route) as site:
        peer = await site.connect()
        await peer.send(question)
        assert await peer.frame() == E2


async def test_responses_have_the_configured_header_whatever_the_request_used():
    class NoTopic(RequestRefused):
        code = ResponseCode.TOPIC_NOT_EXIST

    def no_topic(request, connection):
        raise NoTopic(E5[25:-4].decode())

    async with serving(no_topic, serialize_type=SerializeType.ROCKETMQ) as site:
        peer = await site.connect()
        await peer.send(a_request(opaque=1, ext_fields={"topic": "t"}))
        assert await peer.frame() == E5
        assert site.observed.of("request") == [], "that a topic does not exist is an ordinary answer"


async def test_an_unsupported_code_is_answered_as_the_java_server_answers():
    def unsupported(request, connection):
        return request.reply(3, remark=f" request type {request.code} not supported")

    async with serving(unsupported) as site:
        peer = await site.connect()
        await peer.send(E11)
        assert await peer.frame() == E11_ANSWER
        assert site.statistics.finished() == {(-1, 3): 1}


@pytest.mark.parametrize("code", [REGISTER, ROUTE])
async def test_prepared_response_is_the_frame_of_java(code):
    async with serving(lambda *_: PreparedResponse(E2_BODY, Histogram(()))) as site:
        peer = await site.connect()
        await peer.send(a_request(code, 9))
        assert await peer.frame() == E2
        await until(lambda: site.statistics.finished() == {(code, 0): 1})


async def test_prepared_response_has_a_binary_header_if_configured():
    prepared = PreparedResponse(b"body", Histogram(()))
    async with serving(lambda *_: prepared, serialize_type=SerializeType.ROCKETMQ) as site:
        peer = await site.connect()
        for opaque in (9, 10):
            await peer.send(a_request(ROUTE, opaque))
            frame = await peer.frame()
            assert frame[4] == SerializeType.ROCKETMQ
            answer = decode(frame, 0, len(frame) - 4)
            assert (answer.code, answer.opaque, answer.body) == (0, opaque, b"body")


async def test_cached_response_is_sent_until_it_is_invalidated():
    carried_out = []

    def route(request, connection):
        carried_out.append(PreparedResponse(b"%d" % len(carried_out), Histogram(())))
        return carried_out[-1]

    async with serving(route) as site:
        peer = await site.connect()
        assert [(await peer.request(a_request(ROUTE, opaque))).body for opaque in (1, 2, 30)] == [b"0", b"0", b"0"]
        carried_out[0].invalidate()
        await peer.send(b"".join(a_request(ROUTE, opaque) for opaque in (4, 5, 6)))
        answers = await peer.answers(3)
        assert [(answer.opaque, answer.body) for answer in answers] == [(4, b"1"), (5, b"2"), (6, b"3")]
        assert (await peer.request(a_request(ROUTE, 7))).body == b"3"
        assert site.statistics.finished() == {(ROUTE, 0): 7}
        assert sum(site.statistics.latencies[ROUTE].buckets) == 7


async def test_deferred_cached_request_gets_the_response_valid_at_its_turn():
    old, new = (PreparedResponse(letter * 50_000, Histogram(())) for letter in (b"o", b"n"))
    current = [old]
    async with serving(lambda *_: current[0], **SMALL_BUFFERS) as site:
        peer = await site.connect_with_little_room()
        await peer.request(a_request(ROUTE, 1))
        await peer.send(b"".join(a_request(ROUTE, opaque) for opaque in range(2, 102)))
        await until(lambda: site.statistics.in_flight > 0)
        current[0] = new
        old.invalidate()
        bodies = [answer.body[:1] for answer in await peer.answers(100)]
        assert set(bodies) == {b"o", b"n"}
        assert bodies == sorted(bodies, reverse=True)


async def test_peer_that_sends_cached_requests_only_is_a_client():
    async with serving(lambda *_: PreparedResponse(b"body", Histogram(()))) as site:
        await site.answers_to(a_request(ROUTE, 1))
        newcomer = await site.connect()
        await newcomer.request(a_request(ROUTE, 2))
        assert site.statistics.connections[ConnectionKind.CLIENT] == 1


async def test_draining_server_sends_no_cached_responses():
    async with serving(lambda *_: PreparedResponse(b"body", Histogram(()))) as site:
        peer = await site.connect()
        assert (await peer.request(a_request(ROUTE, 1))).code == 0
        site.server.drain()
        assert (await peer.request(a_request(ROUTE, 2))).code == ResponseCode.GO_AWAY


@pytest.mark.parametrize("code", [REGISTER, ROUTE])
async def test_oneway_request_is_processed_and_never_answered(code):
    carried_out = []

    def note(request, connection):
        carried_out.append(request.opaque)
        if request.opaque == 1:
            raise BodyError("unreadable")
        if request.opaque == 2:
            raise ZeroDivisionError
        return PreparedResponse(b"body", Histogram(())) if request.opaque == 3 else request.reply()

    async with serving(note) as site:
        oneway = b"".join(a_request(code, opaque, flag=2) for opaque in range(1, 5))
        answers = await site.answers_to(oneway + a_request(code, 5))
    assert carried_out == [1, 2, 3, 4, 5]
    assert [answer.opaque for answer in answers] == [5]


async def test_unsolicited_responses_are_dropped():
    async with serving() as site:
        stray = b"".join(a_request(code, 1, flag=1) for code in (0, ROUTE, REGISTER))
        answers = await site.answers_to(stray + a_request(opaque=2))
    assert [answer.opaque for answer in answers] == [2]


@pytest.mark.parametrize("code", [REGISTER, ROUTE])
async def test_a_refusal_carries_its_code_and_its_sentence(code):
    class QueryNotFound(RequestRefused):
        code = ResponseCode.QUERY_NOT_FOUND
        ext_fields: ClassVar = {}

    def refuse(request, connection):
        raise QueryNotFound("no such key")

    async with serving(refuse) as site:
        (answer,) = await site.answers_to(a_request(code))
    assert (answer.code, answer.remark, answer.ext_fields) == (22, "no such key", {})


@pytest.mark.parametrize("error", [BodyError("the body ends too early"), RequestRefused("brokerId is missing")])
async def test_invalid_request_is_answered_and_reported_with_its_peer(error):
    def refuse(request, connection):
        raise error

    async with serving(refuse) as site:
        (answer,) = await site.answers_to(a_request(REGISTER, 7))
        assert (answer.code, answer.remark) == (1, str(error))
        assert site.observed.of("request") == [(7, Rejection.BAD_REQUEST, str(error))]
        assert site.statistics.rejected[Rejection.BAD_REQUEST] == 1


@pytest.mark.parametrize("code", [REGISTER, ROUTE])
async def test_internal_error_is_reported_with_its_traceback_and_answered_without_details(code):
    def fail(request, connection):
        raise KeyError("secret")

    async with serving(fail) as site:
        answers = await site.answers_to(a_request(code, 7) + a_request(code, 8), 2)
        assert [answer.code for answer in answers] == [1, 1]
        assert all("secret" not in answer.remark for answer in answers)
        (opaque, error), _ = site.observed.of("fault")
        assert opaque == 7
        assert error.__traceback__ is not None


@pytest.mark.parametrize("error", [RequestRefused("no such broker"), KeyError("secret")])
async def test_failed_request_frees_its_memory_at_once(error):
    """An error that was waited for holds the frame that waited, and this holds the error, until a collection."""
    held = []

    async def fail(request):
        body = Body()
        held.append(weakref.ref(body))
        done = asyncio.get_running_loop().create_future()
        done.set_exception(type(error)(*error.args))
        await done

    gc.disable()
    try:
        async with serving(lambda request, _: fail(request)) as site:
            (answer,) = await site.answers_to(a_request(REGISTER))
            assert answer.code == 1
            assert [each() for each in held] == [None]
    finally:
        gc.enable()


async def test_answer_that_cannot_be_encoded_is_an_internal_error():
    def unwritable(request, connection):
        return request.reply(ext_fields={"k" * 40_000: "v"})

    async with serving(unwritable, serialize_type=SerializeType.ROCKETMQ) as site:
        (answer,) = await site.answers_to(a_request())
        assert answer.code == 1
        assert len(site.observed.of("fault")) == 1


async def test_thousands_of_pipelined_requests_are_answered_in_order():
    async with serving() as site:
        codes = [ROUTE, REGISTER]
        for code in codes:
            answers = await site.answers_to(b"".join(a_request(code, at) for at in range(5000)), 5000)
            assert [answer.body for answer in answers] == [b"%d" % at for at in range(5000)]
        await until(lambda: site.statistics.in_flight == 0)
        assert site.statistics.finished() == {(code, 0): 5000 for code in codes}
        assert sum(site.statistics.latencies[ROUTE].buckets) == 5000
        assert sum(site.statistics.latencies[REGISTER].buckets) == 5000


@pytest.mark.parametrize("start", [b"", E13_START], ids=["plain", "PROXY"])
async def test_request_is_read_byte_by_byte(start):
    async with serving(route) as site:
        peer = await site.connect()
        for byte in start + E1 + E4:
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)
        assert [await peer.frame(), await peer.frame()] == [E2, E2]
        await until(lambda: site.statistics.partial_frame_bytes == 0)


async def test_a_first_frame_shorter_than_twelve_bytes_waits_for_more():
    async with serving() as site:
        peer = await site.connect()
        await peer.send(bytes.fromhex("00000006 00000002 7b7d"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await peer.answer()
        await peer.send(E1)
        assert {answer.opaque for answer in await peer.answers(2)} == {9, 0}


# Connections


async def test_a_later_connection_has_a_larger_id_and_names_its_peer():
    async with serving() as site:
        for _ in range(3):
            await (await site.connect()).request(E1)
        opened = site.observed.of("opened")
        assert [connection.id for connection in opened] == sorted({connection.id for connection in opened})
        assert opened[0].peer.startswith("127.0.0.1:")
        assert list(site.server.connections) == [connection.id for connection in opened]


async def test_connection_behind_a_proxy_has_the_address_of_its_source():
    async with serving() as site:
        await site.answers_to(E13_START + E1)
        assert site.observed.of("opened")[0].peer == "9.9.9.9:1234"


async def test_open_connections_are_counted_by_kind_and_closed_ones_by_reason():
    def broker(request, connection):
        assert connection.kind is ConnectionKind.UNKNOWN
        connection.kind = ConnectionKind.BROKER
        return request.reply()

    async with serving(broker) as site:
        first, second = await site.connect(), await site.connect()
        await first.request(a_request())
        await until(lambda: len(site.server.connections) == 2)
        kinds = {kind.value: count for kind, count in site.statistics.connections.items()}
        assert kinds == {"broker": 1, "client": 0, "unknown": 1}
        await first.close()
        await second.close()
        await until(lambda: not site.server.connections)
        assert set(site.statistics.connections.values()) == {0}
        assert site.statistics.closed[CloseReason.PEER] == 2
        for connection, _ in site.observed.of("closed"):
            connection.kind = ConnectionKind.CLIENT
        assert set(site.statistics.connections.values()) == {0}


async def test_peer_lost_before_it_is_accepted_disturbs_no_other():
    async with serving() as site:
        with socket.create_connection(("127.0.0.1", site.port)) as gone:
            # Closes with a reset.
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert (await (await site.connect()).request(E1)).code == 0
        await until(lambda: len(site.server.connections) == 1)
        # uvloop cannot tell any more who it was.
        assert {connection.peer.partition(":")[0] for connection in site.observed.of("opened")} <= {
            "127.0.0.1",
            "unknown",
        }


async def test_the_service_can_close_a_connection_by_its_id():
    async with serving() as site:
        peer = await site.connect()
        await peer.request(E1)
        (number,) = site.server.connections
        site.server.close_connection(number, CloseReason.IDLE)
        assert await peer.until_closed() == b""
        await until(lambda: site.observed.of("closed"))
        assert site.observed.of("closed")[0][1] is CloseReason.IDLE
        site.server.close_connection(number, CloseReason.ERROR)


async def test_the_first_reason_to_close_a_connection_counts():
    def close(request, connection):
        connection.close(CloseReason.IDLE)
        connection.close(CloseReason.ERROR)
        return request.reply()

    async with serving(close) as site:
        peer = await site.connect()
        await peer.send(a_request())
        assert await peer.until_closed() == b""
        await until(lambda: site.observed.of("closed"))
        assert site.observed.of("closed")[0][1] is CloseReason.IDLE


async def test_among_registered_brokers_only_one_of_the_largest_host_is_evicted():
    async with serving(connections_max=4, kept=range(100)) as site:
        served = [await site.connect() for _ in range(4)]
        for peer in served:
            assert (await peer.request(E1)).code == 0
        assert (await (await site.connect()).request(E1)).code == 0
        assert await served[3].until_closed() == b""
        await until(lambda: site.statistics.closed[CloseReason.HOST_SHARE] == 1)
        for peer in served[:3]:
            assert (await peer.request(E1)).code == 0


async def test_connection_over_the_limit_is_refused_while_all_others_are_closing():
    def big(request, _):
        return request.reply(body=b"x" * 1_000_000)

    async with serving(big, connections_max=1, **SMALL_BUFFERS) as site:
        first = await site.connect_with_little_room()
        await first.send(E1)
        await until(lambda: site.statistics.paused)
        (number,) = site.server.connections
        # It ends when what is written to it has left.
        site.server.close_connection(number, CloseReason.IDLE)
        refused = await site.connect()
        assert await refused.until_closed() == b""
        assert site.observed.of("refused")[0][1] == 1
        assert site.statistics.rejected[Rejection.CONNECTIONS] == 1
        await first.until_closed()
        await until(lambda: not site.server.connections)
        assert (await (await site.connect()).request(E1)).code == 0


async def test_idle_unknown_connections_are_evicted_for_a_broker_the_oldest_first():
    async with serving(connections_max=3, kept=(4,)) as site:
        strangers = [await site.connect() for _ in range(3)]
        await until(lambda: len(site.server.connections) == 3)
        broker = await site.connect()
        assert (await broker.request(E1)).code == 0
        assert await strangers[0].until_closed() == b""
        await until(lambda: site.statistics.closed[CloseReason.EVICTED] == 1)
        # However many come after it, it stays.
        for _ in range(10):
            await site.connect()
        assert (await broker.request(E1)).code == 0
        assert site.statistics.rejected[Rejection.CONNECTIONS] == 0


async def test_requests_before_a_half_close_are_answered():
    async with serving() as site:
        peer = await site.connect()
        await peer.send(a_request(REGISTER, 1) + a_request(ROUTE, 2) + a_request(REGISTER, 3))
        peer.writer.write_eof()
        assert {answer.opaque for answer in await peer.answers(3)} == {1, 2, 3}
        assert await peer.until_closed() == b""


async def test_close_is_reported_after_the_last_request():
    done = []

    async def slow(request):
        await asyncio.sleep(0.02)
        done.append(request.opaque)
        return request.reply()

    async with serving(lambda request, _: slow(request)) as site:
        peer = await site.connect()
        await peer.send(b"".join(a_request(REGISTER, opaque) for opaque in range(3)))
        await until(lambda: site.statistics.in_flight == 3)
        peer.writer.transport.abort()
        await until(lambda: not site.server.connections)
        assert len(done) < 3
        assert not site.observed.of("closed")
        await until(lambda: site.observed.of("closed"))
        assert done == [0, 1, 2]
        assert len(site.observed.of("closed")) == 1
        assert site.statistics.in_flight == 0


async def test_listener_has_its_address_and_the_socket_options_of_java():
    async with serving() as site:
        host, port = site.server.address
        assert host == "127.0.0.1"
        assert port > 0
        peer = await site.connect()
        await peer.request(E1)
        accepted = site.server.connections[1]._transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0


async def test_socket_buffers_can_be_set():
    async with serving(socket_send_bytes=32 * 1024, socket_receive_bytes=64 * 1024) as site:
        await (await site.connect()).request(E1)
        accepted = site.server.connections[1]._transport.get_extra_info("socket")
        # Linux doubles what is asked for.
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (32 * 1024, 64 * 1024)
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (64 * 1024, 128 * 1024)


@pytest.mark.parametrize("host", ["127.0.0.1", "203.0.113.1", "no.such.host.invalid"])
async def test_bind_error_names_the_port(host):
    async with serving() as site, background_tasks() as tasks:
        other = RemotingServer(Dispatching(success), RecordingObserver(), tasks, SystemClock(), ServerOptions())
        with pytest.raises(BindError, match=f"cannot listen on {host}:{site.port}: ") as caught:
            await other.start(host, site.port)
        assert (caught.value.host, caught.value.port) == (host, site.port)
        await other.close()


# Bad bytes


def frame(length, word, rest=b""):
    return struct.pack(">iI", length, word) + rest


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (frame(-1, 0, bytes(20)), "frame length of -1"),
        (frame(3, 0, bytes(20)), "frame length of 3"),
        (frame(16_777_213, 0, bytes(20)), "16777217 bytes is over the limit of 16777216"),
        (frame(2**31 - 1, 0, bytes(20)), "over the limit"),
        (frame(20, 100, bytes(20)), "header of 100 bytes does not fit"),
        (frame(20, 2 << 24, bytes(20)), "serialization type 2 is unknown"),
        (frame(20, 16, b"x" * 16), "JSON"),
        (frame(20, 1 << 24 | 16, b"\0" * 16), "ends too early"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "HTTP client"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2"),
        (bytes.fromhex("00000026 0012 0003 00000001 0007") + b"rdkafka" + bytes(20), "Kafka"),
        (b"PROXY TCP4 nonsense\r\n" + E1, "PROXY"),
        (bytes.fromhex("1603010200 0100") + bytes(30), "tls.server.mode=disabled"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_invalid_bytes_close_the_connection_with_one_report(data, problem):
    async with serving() as site:
        other, peer = await site.connect(), await site.connect()
        await other.request(E1)
        await peer.send(data)
        assert await peer.until_closed() == b""
        ((connection, error),) = site.observed.of("frame")
        assert problem in str(error)
        assert connection.peer.startswith("127.0.0.1:")
        await until(lambda: site.observed.of("closed"))
        assert site.observed.of("closed") == [(connection, CloseReason.ERROR)]
        assert site.statistics.rejected[Rejection(error.kind)] == 1
        assert site.statistics.partial_frame_bytes == 0
        assert (await other.request(E1)).code == 0


async def test_frame_of_the_longest_length_is_accepted_and_one_byte_more_is_not():
    async with serving(frame_bytes_max=1024) as site:
        longest = encode(RemotingCommand(ROUTE, 1))
        longest = encode(RemotingCommand(ROUTE, 1, body=bytes(1024 - len(longest))))
        assert len(longest) == 1024
        peer = await site.connect()
        assert (await peer.request(longest)).code == 0
        await peer.send(struct.pack(">i", 1021))
        assert await peer.until_closed() == b""


@pytest.mark.parametrize("code", [ROUTE, REGISTER])
async def test_requests_before_invalid_bytes_are_answered(code):
    async def soon(request):
        await asyncio.sleep(0.01)
        return request.reply()

    async with serving(lambda request, _: soon(request) if request.code == REGISTER else request.reply()) as site:
        peer = await site.connect()
        await peer.send(b"".join(a_request(code, at) for at in range(3)) + frame(-1, 0))
        assert [answer.opaque for answer in await peer.answers(3)] == [0, 1, 2]
        assert await peer.until_closed() == b""
        assert len(site.observed.of("frame")) == 1


async def test_partial_frames_of_all_peers_together_have_a_limit():
    async with serving(partial_frame_bytes_max=3000) as site:
        peers = [await site.connect() for _ in range(4)]
        for peer in peers[:2]:
            await peer.send(frame(60_000, 50, bytes(1000)))
        await until(lambda: site.statistics.partial_frame_bytes == 2 * 1008)
        await peers[2].send(frame(60_000, 50, bytes(1000)))
        assert await peers[2].until_closed() == b""
        ((_, error),) = site.observed.of("frame")
        assert (error.kind, error.frame_bytes, error.all_bytes_max) == ("partial_frame_bytes", 1008, 3000)
        await until(lambda: site.statistics.partial_frame_bytes == 2 * 1008)
        assert (await peers[3].request(E1)).code == 0
        for peer in peers[:2]:
            await peer.close()
        await until(lambda: site.statistics.partial_frame_bytes == 0)


async def test_largest_partial_frames_are_rejected_and_a_brokers_goes_on():
    registration = a_request(REGISTER, 5, body=bytes(2000))
    async with serving(partial_frame_bytes_max=80_000) as site:
        broker, *hogs = [await site.connect() for _ in range(6)]
        for hog in hogs:
            await hog.send(frame(60_000, 50, bytes(15_000)))
        await until(lambda: site.statistics.partial_frame_bytes == 5 * 15_008)
        await broker.send(registration[:1500])
        await hogs[0].send(bytes(4000))
        assert await hogs[0].until_closed() == b""
        await until(lambda: site.statistics.closed[CloseReason.ERROR] == 1)
        assert site.statistics.rejected[Rejection.PARTIAL_FRAME_BYTES] == 1
        assert site.statistics.partial_frame_bytes == 4 * 15_008 + 1500
        assert (await broker.request(registration[1500:])).opaque == 5


@pytest.mark.parametrize("is_half_closed", [False, True])
async def test_slow_reader_keeps_no_rejected_partial_frame(is_half_closed):
    def big(request, connection):
        return request.reply(body=bytes(2_000_000))

    async with serving(big, partial_frame_bytes_max=30_000, **SMALL_BUFFERS) as site:
        hog, broker = await site.connect_with_little_room(), await site.connect()
        await hog.send(a_request(REGISTER) + frame(60_000, 50, bytes(18_000)))
        await until(lambda: site.statistics.paused and site.statistics.partial_frame_bytes)
        if is_half_closed:
            hog.writer.write_eof()
        await broker.send(frame(60_000, 50, bytes(10_000)))
        await until(lambda: site.statistics.partial_frame_bytes == 18_008 + 10_008)
        await broker.send(bytes(6000))
        await until(lambda: site.statistics.partial_frame_bytes == 16_008)
        assert not site.observed.of("closed")
        assert len((await hog.answer()).body) == 2_000_000
        assert await hog.until_closed() == b""
        assert site.server.connections


# The end of the server


async def test_draining_server_answers_go_away_to_peers_that_understand_it():
    carried_out = []

    def note(request, connection):
        carried_out.append(request.opaque)
        return request.reply()

    async with serving(note) as site:
        old_and_new = (
            a_request(ROUTE, 1, version=475)
            + a_request(ROUTE, 2, version=476)
            + a_request(ROUTE, 3, version=513, flag=2)
            + a_request(ROUTE, 4, version=0)
        )
        early = await site.connect()
        await early.request(E1)
        site.server.drain()
        for peer in (early, await site.connect()):
            await peer.send(old_and_new)
            answers = await peer.answers(3)
            assert [(answer.opaque, answer.code) for answer in answers] == [(1, 0), (2, 1500), (4, 0)]
            assert answers[1].remark == "please go away"
        assert carried_out == [9, 1, 4, 1, 4]
        assert site.statistics.rejected[Rejection.DRAINING] == 4


async def test_close_answers_queued_requests_and_reports_shutdown():
    async def soon(request):
        await asyncio.sleep(0.02)
        return request.reply()

    async with serving(lambda request, _: soon(request)) as site:
        peer, idle = await site.connect(), await site.connect()
        await peer.send(a_request(REGISTER, 1) + a_request(REGISTER, 2))
        await until(lambda: site.statistics.in_flight == 2 and len(site.server.connections) == 2)
        await site.server.close()
        assert [answer.opaque for answer in await peer.answers(2)] == [1, 2]
        assert await peer.until_closed() == await idle.until_closed() == b""
        assert {reason for _, reason in site.observed.of("closed")} == {CloseReason.SHUTDOWN}
        with pytest.raises(ConnectionRefusedError):
            await site.connect()


# The standard library's own listener trips over it.
@pytest.mark.asyncio(loop_factories=["uvloop"])
@pytest.mark.parametrize("turns", range(6))
async def test_connection_accepted_during_close_is_closed(turns):
    async with serving() as site:
        with socket.create_connection(("127.0.0.1", site.port)) as peer:
            for _ in range(turns):
                await asyncio.sleep(0)
            await site.server.close()
            await asyncio.sleep(0.02)
            peer.settimeout(1)
            with suppress(ConnectionResetError):
                assert peer.recv(1) == b""
        assert not site.server.connections


async def test_close_aborts_a_peer_that_does_not_read():
    async with serving(lambda r, _: r.reply(body=bytes(1_000_000)), close_seconds=0.05) as site:
        peer = await site.connect(limit=1)
        await peer.send(b"".join(a_request(ROUTE, at) for at in range(50)))
        await until(lambda: site.statistics.sent_bytes > 1_000_000)
        await site.server.close()
        assert not site.server.connections
