"""Responses of one round of the event loop leave together, in order, and none waits for long."""

import asyncio

import pytest

from remoting.server.buffers import RESPONSES_MAX, WriteBatch
from remoting.server.statistics import ServerStatistics


class Line:
    """A connection that notes what was written to it."""

    def __init__(self, written):
        self._written = written

    def write_response(self, frame):
        self._written.append((self, frame))


@pytest.fixture
def written():
    return []


@pytest.fixture
def statistics():
    return ServerStatistics()


@pytest.fixture
async def outbox(statistics):
    return WriteBatch(asyncio.get_running_loop().call_soon, statistics.latencies_of(105), statistics)


async def test_batched_responses_leave_in_order_at_the_end_of_the_loop_iteration(outbox, written, statistics):
    first, second = Line(written), Line(written)
    outbox.put(first, b"a")
    outbox.put(second, b"bb")
    outbox.put(first, b"c")
    assert written == []
    await asyncio.sleep(0)
    assert written == [(first, b"a"), (second, b"bb"), (first, b"c")]
    assert statistics.sent_bytes == 4
    assert sum(statistics.latencies_of(105).buckets) == 3


async def test_flush_writes_batched_responses_at_once_and_only_once(outbox, written):
    line = Line(written)
    outbox.put(line, b"a")
    outbox.flush()
    assert written == [(line, b"a")]
    await asyncio.sleep(0)
    assert written == [(line, b"a")]


async def test_full_batch_leaves_before_the_end_of_the_iteration(outbox, written):
    line = Line(written)
    for _ in range(RESPONSES_MAX):
        outbox.put(line, b"x")
    assert len(written) == RESPONSES_MAX


async def test_each_loop_iteration_has_its_own_batch(outbox, written):
    line = Line(written)
    for number in range(3):
        outbox.put(line, b"%d" % number)
        await asyncio.sleep(0)
    assert [frame for _, frame in written] == [b"0", b"1", b"2"]
