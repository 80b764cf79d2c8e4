"""What offset managers answer is what one queue after the other would have answered, whoever is killed.

Acknowledged commits are all there after kill -9 of the manager that leads and of etcd's leader: those that are written
through whoever leads then, all of them where the same manager leads again.

How long the long runs commit is the environment variable LINEARIZABLE_S, in seconds; ten minutes if it is not set.
LINEARIZABLE_SEED repeats what the clients wanted; the processes take their own time.
"""

import asyncio
import itertools
import os
import time

import pytest
from linearizability.offset_model import COMMIT, DELETE, OK, READ, RESET, STALE
from linearizability.stormy_managers import commit_while_killing, stormy_managers
from peers.figures import print_figures

KILLS = ("leader, etcd leader", "paused leader")
KILLS_LONG = ("leader", "etcd leader", "paused leader", "leader, etcd leader")
#: Nobody leads in place of a single manager.
KILLS_OF_ONE = ("leader", "etcd leader", "leader, etcd leader")
SOAK_S = int(os.environ.get("LINEARIZABLE_S", "600"))
SEED_NUMBER = int(os.environ.get("LINEARIZABLE_SEED", "0")) or time.time_ns() % 1_000_000
#: What never happened would not have been tried.
TRIED = ((COMMIT, OK), (COMMIT, STALE), (READ, OK), (RESET, OK), (DELETE, OK))

pytestmark = [pytest.mark.broad, pytest.mark.etcd]


def until(seconds, kinds):
    """Return what is to be killed, over and over, for so long."""
    ends_s = time.perf_counter() + seconds
    return itertools.takewhile(lambda _: time.perf_counter() < ends_s, itertools.cycle(kinds))


def checked(storm, *, strict="strict"):
    storm.check(strict=strict)
    assert not storm.problems, storm.problems
    assert not storm.lost, "\n".join(map(str, storm.lost))
    assert all(storm.results[each] for each in TRIED), storm.results
    return storm


def stormed(folder, kills, seconds, *, local_groups=0, **managers):
    with stormy_managers(folder, **managers) as group:
        return asyncio.run(commit_while_killing(group, kills, seconds, SEED_NUMBER, local_groups=local_groups))


def test_offsets_that_are_written_through_are_linearizable_while_managers_and_etcd_are_killed(tmp_path, capsys):
    print_figures(capsys, checked(stormed(tmp_path, KILLS, 0)))


def test_offsets_that_are_written_behind_are_linearizable_where_the_same_manager_leads_again(tmp_path, capsys):
    storm = stormed(tmp_path, KILLS_OF_ONE, 0, managers=1, write_through="", local_groups=2)
    print_figures(capsys, checked(storm, strict=("strict", "local")))


@pytest.mark.soak
@pytest.mark.timeout(SOAK_S * 3 + 300)
def test_offsets_that_are_written_through_are_linearizable_for_a_long_time(tmp_path, capsys):
    print_figures(capsys, checked(stormed(tmp_path, until(SOAK_S, KILLS_LONG), SOAK_S)))


@pytest.mark.soak
@pytest.mark.timeout(SOAK_S * 3 + 300)
def test_offsets_that_are_written_behind_are_linearizable_for_a_long_time(tmp_path, capsys):
    kills = until(SOAK_S, KILLS_OF_ONE)
    storm = stormed(tmp_path, kills, SOAK_S, managers=1, write_through="", local_groups=2)
    print_figures(capsys, checked(storm, strict=("strict", "local")))
