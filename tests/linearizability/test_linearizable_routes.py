"""No query shows an older route than it could have, with route workers, whoever is killed."""

import asyncio
import itertools
import os
import signal
from pathlib import Path

import pytest
from linearizability.route_histories import NOTHING, History, Query, Write, recorded, workers_of
from peers.figures import print_figures
from peers.servers import OurNameServer
from peers.waiting import wait_until

KILLS = ("worker", "worker", "worker", "worker", "server")
KILLS_LONG = 100

TOPIC = "topic"


def a_history(*queries, writes=((0, 1, 1), (2, 3, 2)), kills=()):
    history = History(kills_s=list(kills))
    history.writes[TOPIC] = [Write(*each) for each in writes]
    history.queries = [Query(TOPIC, *each) for each in queries]
    return history


@pytest.mark.parametrize(
    ("history", "is_right"),
    [
        (a_history((1.5, 1.6, 1), (2.1, 2.2, 2), (2.3, 2.4, 2)), True),
        (a_history((3.1, 3.2, 1)), False),
        (a_history((2.1, 2.2, 2), (2.3, 2.4, 1)), False),
        (a_history((2.1, 2.3, 2), (2.2, 2.4, 1)), True),
        (a_history((1.5, 1.6, 2)), False),
        (a_history((0.1, 0.2, NOTHING)), True),
        (a_history((1.5, 1.6, NOTHING)), False),
        (a_history((1.5, 1.6, NOTHING), kills=[(1.2, 1.3)]), True),
        (a_history((3.5, 3.6, NOTHING), kills=[(1.2, 1.3)]), False),
        (a_history((1.5, 1.6, NOTHING), writes=[(0, 1.4, 1)], kills=[(1.2, 1.3)]), True),
    ],
)
def test_the_checker_knows_right_from_wrong(history, is_right):
    assert (not history.violations()) is is_right


def run(folder, kills, capsys):
    namesrv = OurNameServer(folder, routeWorkers=2).start()
    try:
        history = asyncio.run(recorded(namesrv, kills))
    finally:
        namesrv.process.kill()
    print_figures(capsys, f"{len(history.queries)} queries, {dict(history.counts)}")
    assert history.violations() == []
    return history


@pytest.mark.broad
def test_a_worker_that_stands_still_answers_nothing_after_its_server_has_ended(tmp_path):
    namesrv = OurNameServer(tmp_path, routeWorkers=1).start()
    (worker,) = workers_of(namesrv.process.pid)
    os.kill(worker, signal.SIGSTOP)
    namesrv.process.kill()
    wait_until(lambda: not Path(f"/proc/{worker}").exists(), seconds=10, what="the end of the worker")


@pytest.mark.broad
def test_routes_are_linearizable_while_workers_and_the_server_are_killed(tmp_path, capsys):
    history = run(tmp_path, KILLS, capsys)
    assert history.counts["changes"] > 100
    assert len(history.queries) > 100


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_routes_are_linearizable_while_workers_and_the_server_are_killed_a_hundred_times(tmp_path, capsys):
    run(tmp_path, itertools.islice(itertools.cycle(KILLS), KILLS_LONG), capsys)
