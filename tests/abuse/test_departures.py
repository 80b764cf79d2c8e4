"""A broker that dies leaves the routes soon, whatever work others make."""

import contextlib
import json
import socket
import subprocess
import sys
import time

import pytest
from bounds import HERE, REMOVAL_S, REMOVAL_S_ON_BUSY_MACHINES
from peers.scripted import Line, ScriptedBroker, queues_in, route_query
from peers.waiting import wait_until

TOPIC = "watched"


@contextlib.contextmanager
def flood(served, connections):
    """Have so many connections send long registrations, until the end; `figures` then tells how many."""
    command = [sys.executable, str(HERE / "flood.py"), str(served.port), str(connections)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        figures = {}
        try:
            assert process.stdout.readline() == "ready\n"
            # All of them wait for their turn by then, and some had it.
            wait_until(
                lambda: sum(line["cluster"] == "Flood" for line in served.events("broker_registered")) >= 2,
                seconds=120,
                what="the first two of the flood",
            )
            yield figures
        finally:
            figures |= json.loads(process.communicate()[0])


@contextlib.contextmanager
def a_line(served):
    with contextlib.closing(Line(socket.create_connection(("127.0.0.1", served.port), timeout=120))) as line:
        yield line


def a_broker(line, topics):
    """Return a broker that has registered over this connection."""
    broker = ScriptedBroker(line, "watched", address="10.9.9.9:10911", cluster="Watched")
    broker.register(dict.fromkeys(topics, 4))
    return broker


@pytest.mark.parametrize(
    ("connections", "seconds_max"),
    [(40, REMOVAL_S_ON_BUSY_MACHINES), pytest.param(100, REMOVAL_S, marks=pytest.mark.soak)],
)
def test_a_dead_broker_leaves_before_the_work_of_others_is_done(serve, print_figures, connections, seconds_max):
    served = serve()
    with a_line(served) as client, a_line(served) as line, flood(served, connections) as figures:
        broker = a_broker(line, [TOPIC, "another"])
        assert queues_in(client.request(*route_query(TOPIC))) == {"watched": 4}
        began = time.perf_counter()
        broker.close()
        wait_until(
            lambda: not queues_in(client.request(*route_query(TOPIC))), seconds=120, what="the broker is in no route"
        )
        removed_s = time.perf_counter() - began
    print_figures(removed_s=round(removed_s, 2), **figures)
    served.assert_unharmed()
    assert removed_s < seconds_max
