"""A fault that meets one connection while its requests wait for their turn: it is told, and nobody else feels it."""

import asyncio

import pytest
from fakes.background import background_tasks
from listening import REGISTER, ROUTE, SMALL_BUFFERS, RecordingObserver, a_request, serving, until

from remoting.protocol.command import RemotingCommand
from remoting.server.limits import ServerLimits, ServerOptions
from remoting.server.observer import CloseReason, ConnectionKind
from remoting.server.request_processor import RequestProcessor
from remoting.server.request_queue import ConnectionQueue, RequestQueue
from remoting.server.statistics import ServerStatistics


class Fault(Exception):
    pass


class QueuedConnection:
    """A connection that fails where the test wants it, and notes what becomes of it."""

    kind = ConnectionKind.BROKER
    is_lost = False

    def __init__(self, number, fails_at=()):
        self.id, self.peer = number, f"peer {number}"
        self.fails_at = fails_at
        self.takes_responses = True
        self.sent = []
        self.finished = 0
        self.ended = None

    def send(self, frame):
        self.fail("send")
        self.sent.append(frame)

    def request_finished(self):
        self.finished += 1
        self.fail("request_finished")

    def read_on(self):
        self.fail("read_on")
        self.sent.append(b"read on")

    def abort(self, reason):
        self.ended = reason

    def close(self, reason):
        raise AssertionError("nobody asked for it")

    def fail(self, place):
        if place in self.fails_at:
            raise Fault(place)


class Deaf(RecordingObserver):
    """An observer that fails where it should note a fault."""

    def handler_failed(self, connection, request, error):
        raise Fault("the log is full")


class Site:
    def __init__(self, tasks, served, cached_code=None, **limits):
        self.observed = served
        self.fails = False
        self.statistics = ServerStatistics()
        self.options = ServerOptions(limits=ServerLimits(**limits), cached_code=cached_code)
        processor = RequestProcessor(self, self.options, served, self.statistics)
        self.request_queue = RequestQueue(processor, self.options.limits, self.statistics, tasks)

    def dispatch(self, request, connection):
        return self._later(request) if request.code == REGISTER else self._answer(request)

    async def _later(self, request):
        await asyncio.sleep(0)
        return self._answer(request)

    def _answer(self, request):
        if self.fails:
            raise Fault("handler")
        return request.reply()

    def put(self, requester, *codes):
        queue = ConnectionQueue(requester, self.options.limits)
        for opaque, code in enumerate(codes):
            assert self.request_queue.put(RemotingCommand(code, opaque, body=b"body"), queue)
        return queue

    def assert_nothing_is_left(self):
        assert (self.request_queue.requests, self.request_queue.body_bytes, self.statistics.in_flight) == (0, 0, 0)


#: One that is answered at once, and one whose answer is waited for in a task of the server.
CODES = (ROUTE, REGISTER)


@pytest.mark.parametrize("place", ["send", "request_finished"])
@pytest.mark.parametrize("code", CODES)
async def test_connection_that_fails_to_send_is_aborted_and_others_go_on(place, code):
    async with background_tasks() as tasks:
        site = Site(tasks, RecordingObserver())
        broken, other = QueuedConnection(1, [place]), QueuedConnection(2)
        site.put(broken, code, code)
        site.put(other, code, code)
        await until(lambda: broken.finished == other.finished == 2)
    assert broken.ended is CloseReason.ERROR
    assert [(opaque, str(error)) for opaque, error in site.observed.of("fault")] == [(0, place), (1, place)]
    assert (len(other.sent), other.ended) == (2, None)
    site.assert_nothing_is_left()


@pytest.mark.parametrize("code", CODES)
async def test_observer_that_fails_leaves_the_queue_running(code, caplog):
    """A handler that failed is told to it; the loop is told what it does with that."""
    async with background_tasks() as tasks:
        site = Site(tasks, Deaf())
        site.fails = True
        requester = QueuedConnection(1)
        site.put(requester, code)
        await until(lambda: requester.finished)
    assert requester.ended is CloseReason.ERROR
    site.assert_nothing_is_left()
    assert "an error cannot be reported" in caplog.text


async def test_queries_that_are_not_urgent_leave_half_of_the_places_to_brokers():
    async with background_tasks() as tasks:
        site = Site(tasks, RecordingObserver(), cached_code=ROUTE, queued_requests_max=4)
        client = QueuedConnection(1)
        queue = site.put(client, ROUTE, ROUTE)
        assert not site.request_queue.put(RemotingCommand(ROUTE, 2), queue)
        site.put(QueuedConnection(2), REGISTER, REGISTER)
        await until(lambda: client.finished == 2)
    site.assert_nothing_is_left()


@pytest.mark.parametrize("place", ["send", "request_finished"])
async def test_blocked_connection_that_fails_frees_its_places_in_the_queue(place):
    async with background_tasks() as tasks:
        site = Site(tasks, RecordingObserver(), queued_requests_max=2)
        broken, other = QueuedConnection(1, [place]), QueuedConnection(2)
        broken.takes_responses = False
        site.put(broken, ROUTE, ROUTE)
        site.put(other, ROUTE)
        await until(lambda: other.finished)
    assert (broken.ended, broken.finished, other.ended) == (CloseReason.ERROR, 1, None)
    assert [str(error) for _, error in site.observed.of("fault")] == [place]
    site.assert_nothing_is_left()


async def test_connection_that_fails_to_read_on_is_aborted_and_the_next_reads_on(caplog):
    async with background_tasks() as tasks:
        site = Site(tasks, RecordingObserver())
        broken, other = QueuedConnection(1, ["read_on"]), QueuedConnection(2)
        site.request_queue.schedule_read(broken)
        site.request_queue.schedule_read(other)
        await until(lambda: other.sent)
    assert (broken.ended, other.ended) == (CloseReason.ERROR, None)
    assert "read_on" in caplog.text


async def test_aborted_connection_is_closed_at_once_and_its_requests_are_processed():
    gate = asyncio.Event()

    async def wait(request):
        await gate.wait()
        return request.reply()

    async with serving(lambda request, _: wait(request), **SMALL_BUFFERS) as site:
        peer = await site.connect()
        await peer.send(b"".join(a_request(REGISTER, at) for at in range(3)))
        await until(lambda: site.statistics.in_flight == 3)
        site.server.connections[1].abort(CloseReason.ERROR)
        assert await peer.until_closed() == b""
        await until(lambda: not site.server.connections)
        assert not site.observed.of("closed")
        gate.set()
        await until(lambda: site.observed.of("closed"))
        assert site.observed.of("closed")[0][1] is CloseReason.ERROR
        assert (site.server.request_queue.requests, site.statistics.in_flight) == (0, 0)


async def test_connection_lost_during_a_request_is_reported_at_once_and_closed_after_it():
    working = asyncio.Event()

    async def later(request):
        await working.wait()
        return request.reply()

    async with serving(lambda request, _: later(request)) as site:
        peer = await site.connect()
        await peer.send(a_request(REGISTER))
        await until(lambda: site.statistics.in_flight == 1)
        await peer.close()
        await until(lambda: site.observed.of("lost"))
        assert not site.observed.of("closed")
        working.set()
        await until(lambda: site.observed.of("closed"))
        assert len(site.observed.of("lost")) == 1
