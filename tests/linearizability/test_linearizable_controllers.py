"""What three controllers answer is what one would have answered, one request after the other, whoever is killed.

How long the long run asks is the environment variable LINEARIZABLE_S, in seconds; ten minutes if it is not set.
LINEARIZABLE_SEED repeats what the brokers wanted; the processes take their own time.
"""

import asyncio
import itertools
import os
import time

import pytest
from linearizability.set_model import ALTER, APPLY_ID, CLEAN, ELECT, OK, REGISTER, REPLICA_INFO
from linearizability.stormy_group import KILLS, KILLS_LONG, request_while_killing, stormy_group
from peers.figures import print_figures

CI_S = 18
SOAK_S = int(os.environ.get("LINEARIZABLE_S", "600"))
SEED = int(os.environ.get("LINEARIZABLE_SEED", "0")) or time.time_ns() % 1_000_000

pytestmark = [pytest.mark.broad, pytest.mark.etcd]


@pytest.fixture
def group(tmp_path):
    with stormy_group(tmp_path) as group:
        yield group


def until(seconds):
    """Return what is to be killed, over and over, for so long."""
    ends_s = time.perf_counter() + seconds
    return itertools.takewhile(lambda _: time.perf_counter() < ends_s, itertools.cycle(KILLS_LONG))


def checked(storm):
    storm.check()
    assert not storm.problems, storm.problems
    # What never succeeded would not have been tried.
    for code in (ALTER, APPLY_ID, CLEAN, ELECT, REGISTER, REPLICA_INFO):
        assert storm.codes[code, OK], storm.codes
    return storm


def test_responses_are_linearizable_while_controllers_and_etcd_are_killed(group, capsys):
    print_figures(capsys, checked(asyncio.run(request_while_killing(group, KILLS, CI_S, SEED))))


@pytest.mark.soak
@pytest.mark.timeout(SOAK_S * 3 + 300)
def test_responses_are_linearizable_for_a_long_time(group, capsys):
    print_figures(capsys, checked(asyncio.run(request_while_killing(group, until(SOAK_S), SOAK_S, SEED))))
