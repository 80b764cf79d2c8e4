"""What offset managers answer is what one queue after the other would have answered, whoever is killed.

Acknowledged commits are all there after kill -9 of the manager that leads and of etcd's leader: at once where they are
written through or where the same manager leads again, otherwise once the killed one is back.

How long the long runs commit is the environment variable LINEARIZABLE_S, in seconds; ten minutes if it is not set.
LINEARIZABLE_SEED repeats what the clients wanted; the processes take their own time.
"""

import asyncio
import itertools
import os
import time

import pytest
from linearizability.offset_model import ABSENT, COMMIT, DELETE, OK, PRESENT, READ, RESET, SEED, STALE
from linearizability.stormy_managers import commit_while_killing, stormy_managers
from peers.figures import print_figures

KILLS = ("leader, etcd leader", "paused leader")
KILLS_LONG = ("leader", "etcd leader", "paused leader", "leader, etcd leader")
#: Nobody leads in place of a single manager.
KILLS_OF_ONE = ("leader", "etcd leader", "leader, etcd leader")
SOAK_S = int(os.environ.get("LINEARIZABLE_S", "600"))
SEED_NUMBER = int(os.environ.get("LINEARIZABLE_SEED", "0")) or time.time_ns() % 1_000_000
#: What never happened would not have been tried.
TRIED = ((COMMIT, OK), (COMMIT, STALE), (READ, OK), (RESET, OK), (SEED, PRESENT), (DELETE, OK))

pytestmark = [pytest.mark.broad, pytest.mark.etcd]


def until(seconds, kinds):
    """Return what is to be killed, over and over, for so long."""
    ends_s = time.perf_counter() + seconds
    return itertools.takewhile(lambda _: time.perf_counter() < ends_s, itertools.cycle(kinds))


def checked(storm, *, strict="strict", tried=TRIED):
    storm.check(strict=strict)
    assert not storm.problems, storm.problems
    assert not storm.lost, "\n".join(map(str, storm.lost))
    assert all(storm.results[each] for each in tried), storm.results
    return storm


def test_offsets_are_linearizable_while_managers_and_etcd_are_killed(tmp_path, capsys):
    with stormy_managers(tmp_path) as group:
        storm = asyncio.run(commit_while_killing(group, KILLS, 0, SEED_NUMBER))
    print_figures(capsys, checked(storm))


@pytest.mark.soak
@pytest.mark.timeout(SOAK_S * 3 + 300)
def test_offsets_are_linearizable_for_a_long_time(tmp_path, capsys):
    with stormy_managers(tmp_path) as group:
        storm = asyncio.run(commit_while_killing(group, until(SOAK_S, KILLS_LONG), SOAK_S, SEED_NUMBER))
    print_figures(capsys, checked(storm, tried=(*TRIED, (SEED, OK), (DELETE, ABSENT))))


@pytest.mark.soak
@pytest.mark.timeout(SOAK_S * 3 + 300)
def test_offsets_that_are_written_behind_are_linearizable_where_the_same_manager_leads_again(tmp_path, capsys):
    with stormy_managers(tmp_path, managers=1, write_through="") as group:
        storm = asyncio.run(commit_while_killing(group, until(SOAK_S, KILLS_OF_ONE), SOAK_S, SEED_NUMBER))
    print_figures(capsys, checked(storm, strict=("strict", "local")))
