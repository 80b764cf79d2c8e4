"""Lines reach a descriptor, and a reader that stops stops nobody."""

import fcntl
import os
import time

import pytest

from serving.logging.writer import LineWriter


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


def read_all(descriptor):
    parts = []
    while part := os.read(descriptor, 65536):
        parts.append(part)
    return b"".join(parts)


def wait_until(condition):
    deadline = time.perf_counter() + 5
    while not condition():
        assert time.perf_counter() < deadline
        time.sleep(0.01)


def test_lines_are_written_in_the_order_they_came(pipe):
    reading, writing = pipe
    writer = LineWriter(writing)
    for number in range(1000):
        writer.put(b"%d" % number)
    writer.close(5)
    os.close(writing)
    assert read_all(reading).split() == [b"%d" % number for number in range(1000)]
    assert writer.dropped == 0


def test_a_reader_that_stops_costs_lines_and_no_waiting(pipe):
    reading, writing = pipe
    writer = LineWriter(writing, queued_bytes_max=100_000)
    began = time.perf_counter()
    for _ in range(1000):
        writer.put(b"x" * 1000)
    writer.close(0.1)
    assert time.perf_counter() - began < 1
    assert writer.dropped > 700
    # The thread ends when somebody reads at last, so that no thread of this test is left.
    os.set_blocking(reading, False)
    while writer._thread.is_alive():
        try:
            os.read(reading, 65536)
        except BlockingIOError:
            time.sleep(0.01)


def test_lines_after_the_end_are_counted_as_lost(pipe):
    writer = LineWriter(pipe[1])
    writer.close(5)
    writer.put(b"late")
    assert writer.dropped == 1


def test_lines_are_lost_without_harm_when_nobody_reads_any_more(pipe):
    reading, writing = pipe
    os.close(reading)
    writer = LineWriter(writing)
    writer.put(b"one")
    wait_until(lambda: writer.dropped == 1)
    writer.put(b"two")
    writer.close(5)
    assert writer.dropped == 2


def test_a_descriptor_that_does_not_block_is_waited_for(pipe):
    reading, writing = pipe
    fcntl.fcntl(writing, fcntl.F_SETFL, fcntl.fcntl(writing, fcntl.F_GETFL) | os.O_NONBLOCK)
    writer = LineWriter(writing)
    for _ in range(200):
        writer.put(b"x" * 999)
    time.sleep(0.05)
    got = 0
    while got < 200_000:
        got += len(os.read(reading, 65536))
    writer.close(5)
    assert (got, writer.dropped) == (200_000, 0)


def test_what_comes_after_the_end_is_lost(pipe):
    reading, writing = pipe
    writer = LineWriter(writing)
    writer.put(b"in time")
    writer.close(5)
    writer.put(b"late")
    os.close(writing)
    assert (read_all(reading), writer.dropped) == (b"in time\n", 1)


def test_a_descriptor_that_cannot_be_waited_for_costs_lines_and_the_next_are_written(pipe):
    """`select` takes no descriptor from 1024 on, and raises no OSError."""
    reading, writing = pipe
    os.set_blocking(writing, False)
    high = fcntl.fcntl(writing, fcntl.F_DUPFD, 1024)
    writer = LineWriter(high)
    writer.put(b"x" * 1_000_000)
    wait_until(lambda: writer.dropped == 1)
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        read_all(reading)
    writer.put(b"next")
    writer.close(5)
    assert os.read(reading, 65536).endswith(b"next\n")
    os.close(high)
