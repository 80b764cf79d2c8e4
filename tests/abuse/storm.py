"""Connections at a rate, open loop: each is made, asks once, reads its answer and closes.

    storm.py PORT RATE SECONDS

Prints one JSON object: how many were offered, answered and failed, and how long they took from when they were due.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).parents[1]))

from peers.scripted import route_query
from peers.wire import frame
from witness import TOPIC, share

REQUEST = frame(*route_query(TOPIC))
TICK_S = 0.002
TIMEOUT_S = 30


class Visitor(asyncio.Protocol):
    def __init__(self, due, seconds):
        self._due = due
        self._seconds = seconds
        self._received = 0
        self._wanted = None
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self._transport = transport
        transport.write(REQUEST)

    def data_received(self, data):
        if self._wanted is None:
            self._wanted = 4 + int.from_bytes(data[:4])
        self._received += len(data)
        if self._received >= self._wanted:
            self._seconds.append(time.perf_counter() - self._due)
            self._transport.close()

    def connection_lost(self, exc):
        if not self.over.done():
            self.over.set_result(exc)


async def storm(port, rate, seconds):
    taken, failed, visits = [], 0, set()
    loop = asyncio.get_running_loop()

    async def visit(number, due):
        nonlocal failed
        # One address of loopback has too few ports for so many connections to one place.
        source = (f"127.0.0.{2 + number % 50}", 0)
        try:
            _, visitor = await loop.create_connection(lambda: Visitor(due, taken), "127.0.0.1", port, local_addr=source)
            await asyncio.wait_for(visitor.over, TIMEOUT_S)
        except (OSError, TimeoutError):
            failed += 1

    began, offered = time.perf_counter(), 0
    while (now := time.perf_counter()) < began + seconds:
        while offered < (now - began) * rate:
            task = asyncio.create_task(visit(offered, began + offered / rate))
            visits.add(task)
            task.add_done_callback(visits.discard)
            offered += 1
        await asyncio.sleep(TICK_S)
    if visits:
        await asyncio.wait(visits)
    return {
        "offered": offered,
        "answered": len(taken),
        "failed": failed,
        "seconds": round(time.perf_counter() - began, 1),
        "visit_p50_ms": share(taken, 0.5),
        "visit_p99_ms": share(taken, 0.99),
    }


if __name__ == "__main__":
    figures = uvloop.run(storm(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
    sys.stdout.write(json.dumps(figures))
