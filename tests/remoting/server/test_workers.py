"""Clients' connections at workers: real processes, real sockets, and a dispatcher of the test's own."""

import asyncio
import os
import resource
import signal
import socket

import pytest
from listening import (
    E1,
    E4,
    E13_START,
    REGISTER,
    ROUTE,
    SMALL_BUFFERS,
    a_request,
    serving,
    until,
)

from remoting.protocol.codes import ResponseCode
from remoting.server.observer import CloseReason, ConnectionKind
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import Histogram
from remoting.server.workers import pool
from remoting.server.workers.channel import Channel, Kind

THERE = "127.0.0.2"


class Routes:
    """Answers route queries with a version, in a prepared response, and everything else with its opaque."""

    def __init__(self, body_bytes=0):
        self.version = 0
        self.prepared = {}
        self.asked = 0
        self.filling = b" " * body_bytes
        self.tally = Histogram((100,))
        self.by_host = {}

    def audience_of(self, peer):
        return self.by_host.get(peer.rpartition(":")[0], 0)

    def dispatch(self, request, connection):
        if request.code != ROUTE:
            connection.kind = ConnectionKind.BROKER
            return request.reply(body=b"%d" % len(request.body))
        if connection.kind is ConnectionKind.UNKNOWN:
            connection.kind = ConnectionKind.CLIENT
        self.asked += 1
        prepared = self.prepared.get(connection.audience)
        if prepared is None or not prepared.is_valid:
            body = b"version %d for %d" % (self.version, connection.audience) + self.filling
            prepared = self.prepared[connection.audience] = PreparedResponse(body, self.tally)
        return prepared

    def change(self):
        self.version += 1
        for each in self.prepared.values():
            each.invalidate()


@pytest.fixture
def routes():
    return Routes()


@pytest.fixture
async def site(routes):
    async with serving(routes.dispatch, audience_of=routes.audience_of, workers=2, tally=routes.tally) as site:
        yield site


async def moved(site, peer, data=E1):
    """Send the first query of a peer, and wait until a worker has its connection; return the peer."""
    before = site.server.workers.connections
    await peer.request(data)
    await until(lambda: site.server.workers.connections == before + 1)
    return peer


async def bodies(peer, count=1, data=E1):
    return [(await peer.request(data)).body.rstrip() for _ in range(count)]


@pytest.mark.parametrize("request_bytes", [E1, E4], ids=["JSON", "binary"])
async def test_a_worker_answers_what_it_knows_by_itself(site, routes, request_bytes):
    peer = await moved(site, await site.connect(), request_bytes)
    assert await bodies(peer, 20, request_bytes) == [b"version 0 for 0"] * 20
    assert routes.asked == 1
    assert site.server.workers.asked == 1


async def test_what_changed_is_seen_by_the_next_query_at_each_worker(site, routes):
    peers = [await moved(site, await site.connect()) for _ in range(4)]
    for version in range(1, 100):
        routes.change()
        assert [await bodies(peer, 2) for peer in peers] == [[b"version %d for 0" % version] * 2] * 4


async def test_connections_are_shared_evenly(site):
    for _ in range(6):
        await moved(site, await site.connect())
    assert [*map(len, site.server.workers.workers)] == [3, 3]


async def test_requests_in_one_packet_are_answered_in_order(site):
    peer = await moved(site, await site.connect())
    await peer.send(b"".join(a_request(opaque=number) for number in range(1, 51)))
    assert [answer.opaque for answer in await peer.answers(50)] == [*range(1, 51)]


async def test_a_long_request_takes_its_connection_back_to_the_server(site):
    peer = await moved(site, await site.connect())
    await peer.send(E1 + a_request(REGISTER, opaque=7, body=b"t" * 500_000) + a_request(opaque=8))
    answers = {answer.opaque: answer for answer in await peer.answers(3)}
    assert sorted(answers) == [7, 8, 9]
    assert site.server.workers.connections == 0
    assert await bodies(peer, 3) == [b"version 0 for 0"] * 3


async def test_a_broker_among_clients_goes_back_to_the_server(site):
    peer = await moved(site, await site.connect())
    assert (await peer.request(a_request(REGISTER, opaque=3))).opaque == 3
    await until(lambda: site.server.workers.connections == 0)
    assert site.statistics.connections[ConnectionKind.BROKER] == 1
    assert await bodies(peer, 3) == [b"version 0 for 0"] * 3


async def test_a_request_in_pieces_is_answered(site):
    peer = await moved(site, await site.connect())
    await peer.send(E1[:20])
    await until(lambda: site.server.workers.connections == 0)
    await peer.send(E1[20:])
    assert (await peer.answer()).body == b"version 0 for 0"


async def test_a_request_that_is_asked_for_is_answered_before_its_connection_goes_back(site, routes):
    peer = await moved(site, await site.connect())
    routes.change()
    await peer.send(E1 + E1[:20])
    assert (await peer.answer()).body == b"version 1 for 0"
    await peer.send(E1[20:])
    assert (await peer.answer()).body == b"version 1 for 0"


async def test_a_client_that_came_back_goes_to_a_worker_again(site, monkeypatch):
    monkeypatch.setattr(pool, "_BACK_S", 0.1)
    peer = await moved(site, await site.connect())
    await peer.send(E1[:20])
    await until(lambda: site.server.workers.connections == 0)
    await peer.send(E1[20:])
    await peer.answer()
    await until(lambda: site.server.workers.connections == 1)
    assert await bodies(peer, 3) == [b"version 0 for 0"] * 3


async def test_bytes_that_are_no_frame_end_the_connection(site):
    peer = await moved(site, await site.connect())
    await peer.send(b"\xff" * 64)
    assert await peer.until_closed() == b""
    await until(lambda: site.statistics.closed[CloseReason.ERROR] == 1)


async def test_a_peer_that_leaves_is_counted_as_before(site):
    peer = await moved(site, await site.connect())
    await peer.close()
    await until(lambda: not site.server.connections)
    assert site.statistics.closed[CloseReason.PEER] == 1
    assert site.server.workers.connections == 0


async def test_a_peer_that_closes_its_side_gets_what_it_asked_for(site):
    peer = await moved(site, await site.connect())
    await peer.send(E1)
    peer.writer.write_eof()
    assert (await peer.answer()).body == b"version 0 for 0"
    assert await peer.until_closed() == b""


async def test_a_peer_that_closes_its_side_gets_what_the_server_is_asked_for(site, routes):
    peer = await moved(site, await site.connect())
    routes.change()
    await peer.send(E1 + a_request(opaque=3))
    peer.writer.write_eof()
    assert [(await peer.answer()).body for _ in range(2)] == [b"version 1 for 0"] * 2
    assert await peer.until_closed() == b""


async def test_what_workers_answer_counts_as_what_the_server_answers(site, routes):
    peer = await moved(site, await site.connect())
    await bodies(peer, 99)
    await until(lambda: site.statistics.finished() == {(ROUTE, 0): 100})
    assert sum(site.statistics.latencies[ROUTE].buckets) == 100
    assert sum(routes.tally.buckets) == 100
    assert site.statistics.received_bytes == 100 * len(E1)
    frame_bytes = site.statistics.sent_bytes // 100
    assert site.statistics.sent_bytes == 100 * frame_bytes > 0


async def test_networks_get_their_own_answers_before_and_after_a_change_of_who_is_where(site, routes):
    routes.by_host = {THERE: 1}
    here = await moved(site, await site.connect())
    there = await moved(site, await site.connect(local_addr=(THERE, 0)))
    proxied = await moved(site, await site.connect(), E13_START + E1)
    assert [await bodies(each, 3) for each in (here, there, proxied)] == [
        [b"version 0 for %d" % audience] * 3 for audience in (0, 1, 0)
    ]
    routes.by_host = {"127.0.0.1": 1, "9.9.9.9": 2}
    routes.change()
    site.server.reclassify()
    assert [await bodies(each, 3) for each in (here, there, proxied)] == [
        [b"version 1 for %d" % audience] * 3 for audience in (1, 0, 2)
    ]


async def test_a_server_that_drains_sends_clients_at_workers_away(site):
    peer = await moved(site, await site.connect())
    await bodies(peer, 2)
    site.server.drain()
    assert (await peer.request(E1)).code == ResponseCode.GO_AWAY
    assert site.server.workers.connections == 1


async def test_a_killed_worker_costs_its_clients_a_reconnect(site):
    peers = [await moved(site, await site.connect()) for _ in range(4)]
    ends = []
    site.server.workers.report_end = lambda *facts: ends.append(facts)
    victim, other = site.server.workers.workers
    pid = victim.process.pid
    os.kill(pid, signal.SIGKILL)
    await until(lambda: ends == [("exited", pid, -9, 2)])
    assert not site.server.workers.are_ready
    kept = [peer for peer in peers if not peer.reader.at_eof()]
    assert [await bodies(peer) for peer in kept] == [[b"version 0 for 0"]] * 2
    await moved(site, await site.connect())
    await until(lambda: site.server.workers.are_ready, seconds=20)
    assert site.server.workers.ended == 1
    assert len(other) == 3


async def test_a_worker_that_stands_still_is_ended(site):
    peer = await moved(site, await site.connect())
    pid = next(worker.process.pid for worker in site.server.workers.workers if len(worker))
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(15):
        assert await peer.until_closed() == b""
    await until(lambda: site.server.workers.are_ready, seconds=20)


async def test_a_peer_that_reads_nothing_is_paused_and_closed_as_at_the_server():
    routes = Routes(body_bytes=20_000)
    limits = SMALL_BUFFERS | {"idle_seconds": 1.5}
    async with serving(routes.dispatch, workers=1, tally=routes.tally, **limits) as site:
        peer = await site.connect_with_little_room()
        await moved(site, peer)
        for _ in range(400):
            peer.writer.write(E1)
        await until(lambda: site.statistics.paused == 1)
        # What was read before the pause may still be answered.
        await until(lambda: 0 < site.statistics.response_buffer_bytes < 5_000_000)
        await until(lambda: site.statistics.closed[CloseReason.SLOW_READER] == 1, seconds=15)
        assert not site.server.connections
        assert site.statistics.response_buffer_bytes == 0


async def test_a_slow_reader_gets_every_answer():
    routes = Routes(body_bytes=20_000)
    async with serving(routes.dispatch, workers=1, tally=routes.tally, **SMALL_BUFFERS) as site:
        peer = await site.connect_with_little_room()
        await moved(site, peer)
        sending = asyncio.create_task(peer.send(b"".join(a_request(opaque=number) for number in range(1, 401))))
        await until(lambda: site.statistics.pauses > 0)
        assert sorted([answer.opaque for answer in await peer.answers(400)]) == [*range(1, 401)]
        await sending


async def test_an_idle_client_at_a_worker_is_closed_and_a_busy_one_stays():
    routes = Routes()
    async with serving(routes.dispatch, workers=1, tally=routes.tally, idle_seconds=2.5) as site:
        idle, busy = await moved(site, await site.connect()), await moved(site, await site.connect())
        for _ in range(12):
            await bodies(busy)
            await asyncio.sleep(0.4)
        assert await idle.until_closed() == b""
        assert site.statistics.closed[CloseReason.IDLE] == 1
        assert await bodies(busy) == [b"version 0 for 0"]


async def test_beyond_the_limit_the_longest_idle_client_at_a_worker_is_evicted():
    routes = Routes()
    async with serving(routes.dispatch, workers=1, tally=routes.tally, connections_max=3) as site:
        first, second, third = [await moved(site, await site.connect()) for _ in range(3)]
        await asyncio.sleep(2.2)
        await bodies(second)
        await bodies(third)
        await asyncio.sleep(1.2)
        fourth = await site.connect()
        assert await bodies(fourth) == [b"version 0 for 0"]
        assert await first.until_closed() == b""
        await until(lambda: site.statistics.closed[CloseReason.EVICTED] == 1)
        assert await bodies(second) == await bodies(third) == [b"version 0 for 0"]


async def test_new_clients_take_no_more_places_though_a_worker_stands_still():
    routes = Routes()
    async with serving(routes.dispatch, workers=1, tally=routes.tally, connections_max=5) as site:
        for _ in range(5):
            await moved(site, await site.connect())
        (worker,) = site.server.workers.workers
        os.kill(worker.process.pid, signal.SIGSTOP)
        for _ in range(20):
            await bodies(await site.connect())
            assert len(site.server.connections) <= 5


async def test_clients_that_ask_for_much_that_no_worker_knows_hold_up_nobody_else():
    routes = Routes(body_bytes=100_000)
    unknown = b"".join(a_request(opaque=number, ext_fields={"topic": f"t{number}"}) for number in range(1, 200))
    async with serving(routes.dispatch, workers=1, tally=routes.tally) as site:
        (worker,) = site.server.workers.workers
        other = await moved(site, await site.connect())
        greedy = [await moved(site, await site.connect()) for _ in range(20)]
        for peer in greedy:
            peer.writer.write(unknown)
        async with asyncio.timeout(2):
            assert await bodies(other, 20) == [b"version 0 for 0"] * 20
        assert [len(await peer.answers(199)) for peer in greedy] == [199] * 20
        assert site.server.workers.workers == [worker]


async def test_a_worker_without_room_for_another_file_costs_one_client_a_reconnect():
    routes = Routes()
    async with serving(routes.dispatch, workers=1, tally=routes.tally) as site:
        first = await moved(site, await site.connect())
        (worker,) = site.server.workers.workers
        await bodies(first)
        _, hard = resource.prlimit(worker.process.pid, resource.RLIMIT_NOFILE)
        # No number is free below.
        resource.prlimit(worker.process.pid, resource.RLIMIT_NOFILE, (3, hard))
        second = await site.connect()
        await bodies(second)
        assert await second.until_closed() == b""
        assert await bodies(first) == [b"version 0 for 0"]
        await until(lambda: len(site.server.connections) == 1)
        resource.prlimit(worker.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
        await moved(site, await site.connect())


async def test_each_socket_comes_with_its_own_message_however_long_that_is(tmp_path):
    (end, other), sizes, received = socket.socketpair(), [0, 50_000, 0, 0], []
    files = [os.open(tmp_path / str(number), os.O_CREAT) for number in range(len(sizes))]
    sent = [(number, size, os.fstat(file).st_ino) for number, (file, size) in enumerate(zip(files, sizes, strict=True))]

    def took(_, number, payload, file):
        received.append((number, len(payload), os.fstat(file).st_ino))
        os.close(file)

    channels = Channel(end, took, list, receive_bytes=1000), Channel(other, took, list, receive_bytes=1000)
    for number, size, _ in sent:
        channels[1].send(Kind.BACK, number, bytes(size), files[number])
    await until(lambda: len(received) == len(sent))
    for channel in channels:
        channel.close()
    assert received == sent
