"""What one connection may do to the server: how much it may ask, how slowly it may read or write, and for how long."""

import asyncio

import pytest
from fakes.clock import FakeClock
from listening import E1, E13_START, REGISTER, ROUTE, SMALL_BUFFERS, a_request, serving, until

from remoting.server.limits import BodyLimits
from remoting.server.observer import CloseReason, Rejection

BIG = bytes(20_000)


def big(request, connection):
    return request.reply(body=BIG)


# Peers that do not read


@pytest.mark.parametrize("code", [ROUTE, REGISTER])
async def test_requests_of_a_peer_that_does_not_read_wait_until_it_reads(code):
    carried_out = []

    def note(request, connection):
        carried_out.append(request.opaque)
        return request.reply(body=BIG)

    async with serving(note, queued_requests_per_connection=10, **SMALL_BUFFERS) as site:
        peer, other = await site.connect_with_little_room(), await site.connect()
        asking = asyncio.create_task(peer.send(b"".join(a_request(code, at) for at in range(300))))
        await until(lambda: carried_out)
        for _ in range(20):
            assert (await other.request(a_request(ROUTE, 5000))).code == 0
        served = len(carried_out) - carried_out.count(5000)
        unsent = site.server.connections[1]._transport.get_write_buffer_size()
        assert served < 30
        assert unsent < 100_000 + 2 * len(BIG)
        answers = await peer.answers(300)
        assert [answer.opaque for answer in answers] == list(range(300))
        await asking
        await until(lambda: site.statistics.in_flight == 0)


@pytest.mark.parametrize("code", [ROUTE, REGISTER])
async def test_a_peer_that_never_reads_is_closed_as_a_slow_reader(code):
    async with serving(big, idle_seconds=0.15, **SMALL_BUFFERS) as site:
        peer = await site.connect_with_little_room()
        peer.writer.write(b"".join(a_request(code, at) for at in range(300)))
        await until(lambda: site.observed.of("closed"))
        assert site.observed.of("closed")[0][1] is CloseReason.SLOW_READER
        assert site.statistics.in_flight == 0


async def test_a_peer_that_reads_slowly_stays():
    async with serving(big, idle_seconds=0.2, **SMALL_BUFFERS) as site:
        peer = await site.connect_with_little_room()
        peer.writer.write(b"".join(a_request(ROUTE, at) for at in range(60)))
        for at in range(40):
            assert (await peer.answer()).opaque == at
            await asyncio.sleep(0.015)
        assert not site.observed.of("closed")


@pytest.mark.parametrize("limit", [{"queued_requests_max": 12}, {"queued_bytes_max": 1200}])
async def test_peers_that_never_read_hold_no_places_in_a_full_queue(limit):
    """Requests wait for peers whose answers lie unread, until others need the places."""
    carried_out = []

    def note(request, connection):
        carried_out.append(connection.id)
        return request.reply(body=BIG * 50 if request.code == ROUTE else b"done")

    async with serving(note, **limit, **SMALL_BUFFERS) as site:
        hogs = [await site.connect_with_little_room() for _ in range(3)]
        for hog in hogs:
            requests = [a_request(REGISTER, at, body=bytes(100)) for at in range(4)]
            await hog.send(b"".join(requests) + a_request(ROUTE, 9))
        await until(lambda: site.statistics.paused == 3)
        assert site.server.request_queue.requests == 12
        broker = await site.connect()
        registered = [await broker.request(a_request(REGISTER, at, body=bytes(100))) for at in range(20)]
        assert [answer.code for answer in registered] == [0] * 20
        # The first that stopped reading gave up its places, and that was enough.
        assert [(opaque, reason) for opaque, reason, _ in site.observed.of("request")] == [
            (at, Rejection.BUSY) for at in range(4)
        ]
        assert site.server.request_queue.requests == 8
        answers = [await hog.answers(5) for hog in hogs]
        assert [[answer.code for answer in each] for each in answers] == [[0, 2, 2, 2, 2], [0] * 5, [0] * 5]
        assert carried_out.count(1) == 1
        assert (await hogs[0].request(a_request(REGISTER, 5))).code == 0
        assert (
            site.server.request_queue.requests,
            site.server.request_queue.body_bytes,
            site.statistics.in_flight,
        ) == (0, 0, 0)


async def test_peer_with_rejected_requests_is_still_closed_as_a_slow_reader():
    """To be turned away is no sign of life: the time counts from when it last took something."""
    clock = FakeClock()
    async with serving(big, clock=clock, queued_requests_max=4, idle_seconds=1, **SMALL_BUFFERS) as site:

        async def pass_until(true):
            while not true():
                clock.pass_ms(50)
                await asyncio.sleep(0.02)

        hog, other = await site.connect_with_little_room(), await site.connect()
        hog.writer.write(b"".join(a_request(REGISTER, at) for at in range(4)) + a_request(ROUTE, 9) * 100)
        await until(lambda: site.statistics.paused)
        assert site.server.request_queue.requests == 4
        await pass_until(lambda: site.server.awake_ms >= 700)
        assert (await other.request(a_request(REGISTER, 5))).code == 0
        assert [(opaque, reason) for opaque, reason, _ in site.observed.of("request")] == [
            (at, Rejection.BUSY) for at in range(4)
        ]
        await pass_until(lambda: site.observed.of("closed"))
        ((connection, reason),) = site.observed.of("closed")
        assert (connection.id, reason) == (1, CloseReason.SLOW_READER)
        assert site.server.awake_ms < 1500


async def test_slow_reader_is_reported_once_a_pause(monkeypatch):
    monkeypatch.setattr("remoting.server.server._CHECK_MS_MAX", 20)
    async with serving(big, idle_seconds=0, **SMALL_BUFFERS) as site:
        peer = await site.connect_with_little_room()
        for _ in range(2):
            before = len(site.observed.of("paused"))
            await peer.send(b"".join(a_request(ROUTE, at) for at in range(100)))
            await until(lambda before=before: len(site.observed.of("paused")) > before)
            # It goes on for several looks. What the kernel still takes may end it and begin another, told once as well.
            await asyncio.sleep(0.1)
            assert len(site.observed.of("paused")) <= site.statistics.pauses
            assert len(await peer.answers(100)) == 100
        # Since it was paused the kernel may have taken some.
        assert site.observed.of("paused")[0][1] > SMALL_BUFFERS["response_buffer_low_bytes"]


async def test_paused_connections_and_response_buffers_are_counted(monkeypatch):
    monkeypatch.setattr("remoting.server.server._CHECK_MS_MAX", 20)
    async with serving(big, idle_seconds=0, **SMALL_BUFFERS) as site:
        stays, leaves = [await site.connect_with_little_room() for _ in range(2)]
        for peer in (stays, leaves):
            peer.writer.write(b"".join(a_request(ROUTE, at) for at in range(100)))
        await until(lambda: site.statistics.paused == 2)
        await until(lambda: site.statistics.response_buffer_bytes > 200_000)
        assert site.statistics.pauses == 2
        leaves.writer.transport.abort()
        await until(lambda: site.statistics.paused == 1)
        assert len(await stays.answers(100)) == 100
        await until(lambda: not site.statistics.response_buffer_bytes)
        assert site.statistics.paused == 0
        assert site.statistics.pauses > 2


async def test_response_buffers_of_all_peers_together_have_a_limit():
    """Those who left most unread go, and nobody else; the next look is soon enough for none of it."""
    async with serving(big, idle_seconds=0, response_buffer_bytes_max=1_000_000, **SMALL_BUFFERS) as site:
        modest = await site.connect_with_little_room()
        modest.writer.write(a_request(ROUTE, 1))
        hogs = []
        while not site.observed.of("closed"):
            assert len(hogs) < 30
            hogs.append(await site.connect_with_little_room())
            paused = site.statistics.pauses
            hogs[-1].writer.write(b"".join(a_request(ROUTE, at) for at in range(100)))
            await until(lambda paused=paused: site.statistics.pauses > paused)
            assert site.statistics.response_buffer_bytes <= 1_000_000
        assert {reason for _, reason in site.observed.of("closed")} == {CloseReason.SLOW_READER}
        closed = len(site.observed.of("closed"))
        assert 0 < closed < len(hogs) / 2
        assert site.statistics.closed[CloseReason.SLOW_READER] == closed
        assert len((await modest.answer()).body) == len(BIG)
        stays = hogs[[connection.id for connection in site.server.connections.values()][1] - 2]
        for hog in hogs:
            if hog is not stays:
                # What is read makes room for more answers, and the limit would be reached again.
                hog.writer.close()
        assert len(await stays.answers(100)) == 100
    assert (site.statistics.response_buffer_bytes, site.statistics.paused, site.statistics.in_flight) == (0, 0, 0)


async def test_small_response_buffers_count_at_the_next_idle_check(monkeypatch):
    monkeypatch.setattr("remoting.server.server._CHECK_MS_MAX", 20)
    limits = SMALL_BUFFERS | {"response_buffer_high_bytes": 3_000_000, "response_buffer_bytes_max": 5_000_000}

    def very_big(request, connection):
        return request.reply(body=bytes(2_000_000))

    async with serving(very_big, **limits) as site:
        for _ in range(3):
            (await site.connect_with_little_room()).writer.write(a_request(ROUTE))
        await until(lambda: site.observed.of("closed"))
        assert site.observed.of("closed")[0][1] is CloseReason.SLOW_READER
        assert (len(site.server.connections), site.statistics.pauses) == (2, 0)
        assert site.statistics.response_buffer_bytes <= 5_000_000 - 5_000_000 // 8


async def test_peer_that_has_read_meanwhile_is_not_aborted_as_a_slow_reader():
    async with serving(big, idle_seconds=0, response_buffer_bytes_max=400_000, **SMALL_BUFFERS) as site:
        reader = await site.connect_with_little_room()
        for _ in range(20):
            await reader.send(b"".join(a_request(ROUTE, at) for at in range(20)))
            await reader.answers(20)
        hogs = [await site.connect_with_little_room() for _ in range(8)]
        for hog in hogs:
            hog.writer.write(b"".join(a_request(ROUTE, at) for at in range(100)))
        await until(lambda: site.observed.of("closed"))
        assert site.observed.of("opened")[0] not in [connection for connection, _ in site.observed.of("closed")]
        assert (await reader.request(a_request(ROUTE, 5))).opaque == 5


# Peers that send nothing, or too slowly


@pytest.mark.parametrize("start", [b"", E1, E13_START, E1[:5]], ids=["nothing", "a request", "PROXY header", "5 bytes"])
async def test_connection_without_activity_is_closed_as_idle(start):
    async with serving(idle_seconds=0.1) as site:
        peer = await site.connect()
        await peer.send(start)
        await until(lambda: site.observed.of("closed"))
        assert site.observed.of("closed")[0][1] is CloseReason.IDLE


async def test_a_connection_that_is_used_stays_and_is_never_closed_early():
    async with serving(idle_seconds=0.2) as site:
        used, silent = await site.connect(), await site.connect()
        began = asyncio.get_running_loop().time()
        while not site.observed.of("closed"):
            await used.request(E1)
            await asyncio.sleep(0.01)
        # uvloop's time has whole milliseconds.
        assert asyncio.get_running_loop().time() - began > 0.195
        assert await silent.until_closed() == b""
        assert (await used.request(E1)).code == 0


@pytest.mark.parametrize("already", [0, 20], ids=["first frame", "later frame"])
async def test_frame_that_trickles_in_closes_its_connection(already):
    async with serving(idle_seconds=0.15) as site:
        peer = await site.connect()
        for _ in range(already):
            await peer.request(E1)
        for byte in E1:
            if site.observed.of("closed"):
                break
            peer.writer.write(bytes([byte]))
            await asyncio.sleep(0.01)
        ((_, error),) = site.observed.of("frame")
        assert "incomplete" in str(error)
        assert site.observed.of("closed")[0][1] is CloseReason.ERROR


async def test_partial_frame_is_rejected_once_while_earlier_requests_are_processed():
    async def slow(request):
        await asyncio.sleep(0.3)
        return request.reply()

    async with serving(lambda request, _: slow(request), idle_seconds=0.1) as site:
        peer = await site.connect()
        await peer.send(a_request(REGISTER, 1))
        for byte in E1[:50]:
            if not site.observed.of("frame"):
                peer.writer.write(bytes([byte]))
            await asyncio.sleep(0.01)
        await until(lambda: site.observed.of("closed"))
        assert len(site.observed.of("frame")) == 1


async def trickle(site, peer, data, *, pause_s=0.01):
    """Send a byte now and then until the server has closed the connection."""
    for byte in data:
        if site.observed.of("closed"):
            break
        peer.writer.write(bytes([byte]))
        await asyncio.sleep(pause_s)


async def test_refused_frame_that_trickles_in_closes_its_connection():
    async with serving(idle_seconds=0.15, body_limits=BodyLimits(other=10)) as site:
        peer = await site.connect()
        refused = a_request(REGISTER, body=bytes(100_000))
        await peer.send(refused[:1000])
        await peer.answers(1)
        await trickle(site, peer, bytes(200))
        ((_, error),) = site.observed.of("frame")
        assert "refused" in str(error)
        assert site.observed.of("closed")[0][1] is CloseReason.ERROR


async def test_rest_of_a_refused_frame_has_the_age_of_its_beginning():
    clock = FakeClock()
    async with serving(idle_seconds=10, clock=clock, body_limits=BodyLimits(other=10)) as site:
        peer = await site.connect()
        refused = a_request(REGISTER, body=bytes(100_000))
        await peer.send(refused[:50])
        await until(lambda: site.statistics.partial_frame_bytes)
        (connection,) = site.server.connections.values()
        began_ms = site.server.awake_ms
        site.server.awake_ms += 9_000
        await peer.send(refused[50:1000])
        await peer.answers(1)
        connection.check_idle(began_ms + 10_000, 10_000)
        assert not site.observed.of("frame")
        site.server.awake_ms += 1_001
        connection.check_idle(began_ms + 10_001, 10_000)
        assert len(site.observed.of("frame")) == 1


async def test_refused_frame_that_ends_in_time_leaves_no_partial_frame():
    async with serving(idle_seconds=0.3, body_limits=BodyLimits(other=10)) as site:
        peer = await site.connect()
        for number in range(20):
            refused = a_request(REGISTER, number, body=bytes(100_000))
            await peer.send(refused[:70_000])
            await peer.answers(1)
            await asyncio.sleep(0.02)
            await peer.send(refused[70_000:])
            assert (await peer.request(a_request(ROUTE, 500))).opaque == 500
        assert not site.observed.of("frame")


async def test_idle_limit_can_be_changed_and_turned_off(monkeypatch):
    monkeypatch.setattr("remoting.server.server._CHECK_MS_MAX", 20)
    async with serving(idle_seconds=0) as site:
        peer = await site.connect()
        await asyncio.sleep(0.05)
        assert (await peer.request(E1)).code == 0
        site.server.idle_seconds = 0.1
        await until(lambda: site.observed.of("closed"))
        assert site.observed.of("closed")[0][1] is CloseReason.IDLE


async def test_response_to_a_long_request_counts_as_activity():
    async def slow(request):
        await asyncio.sleep(0.1)
        return request.reply()

    async with serving(lambda request, _: slow(request), idle_seconds=0.15) as site:
        peer = await site.connect()
        await peer.send(b"".join(a_request(REGISTER, at) for at in range(4)))
        assert [answer.opaque for answer in await peer.answers(4)] == [0, 1, 2, 3]


async def test_many_idle_connections_are_checked_in_slices(monkeypatch):
    monkeypatch.setattr("remoting.server.server._CHECKED_AT_ONCE", 7)
    async with serving(idle_seconds=0.1) as site:
        for _ in range(30):
            await site.connect()
        await until(lambda: len(site.observed.of("closed")) == 30)
        assert site.statistics.closed[CloseReason.IDLE] == 30


async def test_process_pause_does_not_count_as_idle_time():
    clock = FakeClock()
    async with serving(clock=clock, idle_seconds=1) as site:
        peer = await site.connect()
        await peer.request(E1)
        clock.pass_ms(150_000)
        await until(lambda: site.server.awake_ms)
        assert (await peer.request(E1)).code == 0
        while not site.observed.of("closed"):
            clock.pass_ms(50)
            await asyncio.sleep(0.05)
        assert 1000 < site.server.awake_ms < 1500


# Peers that ask too much


async def test_full_queue_answers_busy_and_urgent_requests_are_still_served():
    gate = asyncio.Event()

    async def wait(request):
        await gate.wait()
        return request.reply()

    def dispatch(request, connection):
        return request.reply() if request.code == ROUTE else wait(request)

    async with serving(dispatch, queued_requests_max=3) as site:
        peer = await site.connect()
        await peer.send(b"".join(a_request(REGISTER, at) for at in range(4)) + a_request(REGISTER, 4, flag=2))
        busy = await peer.answer()
        assert (busy.opaque, busy.code) == (3, 2)
        assert busy.remark == "[OVERLOAD]system busy, start flow control for a while"
        assert (await peer.request(a_request(ROUTE, 9))).opaque == 9
        assert [(opaque, reason) for opaque, reason, _ in site.observed.of("request")] == [
            (3, Rejection.BUSY),
            (4, Rejection.BUSY),
        ]
        gate.set()
        assert [answer.opaque for answer in await peer.answers(3)] == [0, 1, 2]
        assert (await peer.request(a_request(REGISTER, 10))).code == 0


async def test_queued_bodies_have_a_limit_but_one_request_is_always_taken():
    gate = asyncio.Event()

    async def wait(request):
        await gate.wait()
        return request.reply()

    async with serving(lambda request, _: wait(request), queued_bytes_max=100) as site:
        peer = await site.connect()
        await peer.send(a_request(REGISTER, 1, body=bytes(500)) + a_request(REGISTER, 2, body=b"1"))
        assert (await peer.answer()).code == 2
        gate.set()
        assert (await peer.answer()).opaque == 1
        assert site.server.request_queue.body_bytes == 0


@pytest.mark.parametrize("limit", [{"queued_requests_per_connection": 10}, {"queued_bytes_per_connection": 5000}])
async def test_peer_with_a_full_connection_queue_is_read_no_further(limit):
    async def soon(request):
        await asyncio.sleep(0)
        return request.reply()

    async with serving(lambda request, _: soon(request), **limit, queued_requests_max=100_000) as site:
        peer = await site.connect()
        most = 0

        async def query():
            for at in range(0, 1500, 10):
                await peer.send(b"".join(a_request(REGISTER, at + each, body=bytes(500)) for each in range(10)))

        asking = asyncio.create_task(query())
        for at in range(1500):
            assert (await peer.answer()).opaque == at
            most = max(most, site.statistics.in_flight)
        await asking
        # What is read in one go is taken; at most 250 kB.
        assert most < 600


async def test_connections_take_turns_in_the_request_queue():
    order = []

    def note(request, connection):
        order.append(connection.id)
        return request.reply()

    async with serving(note) as site:
        greedy, modest = await site.connect(), await site.connect()
        await greedy.request(a_request())
        await modest.request(a_request())
        order.clear()
        greedy.writer.write(b"".join(a_request(REGISTER, at) for at in range(200)))
        modest.writer.write(a_request(REGISTER, 1))
        await modest.answer()
        await greedy.answers(200)
        first, second = site.observed.of("opened")
        assert order.index(second.id) < 150
        assert order.count(first.id) == 200


async def test_requests_of_one_connection_are_processed_one_after_another():
    under_way, most, order = 0, 0, []

    async def slow(request):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        order.append(request.opaque)
        await asyncio.sleep(0.001)
        under_way -= 1
        return request.reply()

    def dispatch(request, connection):
        if request.opaque % 2:
            order.append(request.opaque)
            return request.reply()
        return slow(request)

    async with serving(dispatch) as site:
        answers = await site.answers_to(b"".join(a_request(REGISTER, at) for at in range(20)), 20)
    assert order == list(range(20)) == [answer.opaque for answer in answers]
    assert most == 1


async def test_sockets_are_read_between_runs_of_the_request_queue():
    loop = asyncio.get_running_loop()

    def busy(request, connection):
        if request.code == REGISTER:
            until_s = loop.time() + 0.002
            while loop.time() < until_s:
                pass
        return request.reply()

    async with serving(busy, turn_ms=1) as site:
        greedy, requester = await site.connect(), await site.connect()
        await requester.request(E1)
        greedy.writer.write(b"".join(a_request(REGISTER, at) for at in range(100)))
        await greedy.answer()
        await requester.request(E1)
        assert site.statistics.in_flight > 50
        await greedy.answers(99)


async def test_flood_of_urgent_requests_on_one_connection_lets_others_in():
    answered = []

    def note(request, connection):
        answered.append(connection.id)
        return request.reply()

    async with serving(note, turn_bytes=1000) as site:
        flooding, other = await site.connect(), await site.connect()
        await other.request(E1)
        answered.clear()
        flooding.writer.write(b"".join(a_request(ROUTE, at) for at in range(3000)))
        other.writer.write(E1)
        await other.answer()
        assert answered.index(site.observed.of("opened")[1].id) < 2900
        assert [answer.opaque for answer in await flooding.answers(3000)] == list(range(3000))


async def test_bytes_are_counted_both_ways():
    async with serving() as site:
        peer = await site.connect()
        await peer.send(E1)
        frame = await peer.frame()
        assert (site.statistics.received_bytes, site.statistics.sent_bytes) == (len(E1), len(frame))
