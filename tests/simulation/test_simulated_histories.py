"""Whatever goes wrong with controllers, their store and brokers, in any order: see `world.py` for what must hold.

RMQ_HISTORIES_FROM=<seed> begins elsewhere; `make soak` runs RMQ_HISTORIES (default 60,000) of them.
"""

import os
import re

import pytest

from simulation.faults import KINDS, Fault, Settings, history_of
from simulation.injection import ACTS
from simulation.mutants import MUTANTS, UNSEEN, mutated
from simulation.shrinking import Failure, described, first_failure, shrunk, what_fails
from simulation.world import World

FROM = int(os.environ.get("RMQ_HISTORIES_FROM", "0"))
IN_CI = 150
IN_SOAK = int(os.environ.get("RMQ_HISTORIES", "60000"))
#: Within so many histories each mutant is found.
MUTANT_HISTORIES = 6_000
#: By this a controller tells its own runs apart: it is another one each time.
RUN = re.compile(r'"run":"\w+"')


def histories_of(mutant):
    first = MUTANTS[mutant].seed
    return range(first, first + MUTANT_HISTORIES)


def must_hold(seeds, profile=""):
    failure = first_failure(seeds, profile)
    assert failure is None, "\n" + described(shrunk(failure))


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.broad)])
def test_set_keeps_its_messages_and_finds_its_master_under_random_faults(part):
    must_hold(range(FROM + part * IN_CI, FROM + (part + 1) * IN_CI))


@pytest.mark.parametrize("seeds", [range(FROM, FROM + IN_CI // 2), range(711, 712), range(1712, 1713)], ids=str)
def test_messages_confirmed_by_a_fixed_number_of_replicas_are_not_lost(seeds):
    must_hold(seeds, "fixed")


@pytest.mark.timeout(60)
def test_election_with_a_shared_log_end_query_is_not_repeated_for_ever():
    must_hold(range(1505, 1506))


#: Histories that ended with a wrong master once.
MENDED = {
    "a notification of a master epoch that is over is repeated": (
        Settings("planned", 3, 3_000, (50, 96, 884), 2, (48, 1), are_named=True, is_planned=True),
        Fault(5_220, "delay_notice", 1, 0, 700),
        Fault(6_068, "switch_over", 2, 0, 200),
        Fault(6_608, "crash_broker", 1, 2, 200),
        Fault(7_151, "cut_host", 1, 2, 2_500),
    ),
    "a notification is repeated to the process after the one that it was for": (
        Settings("disks", 2, 10_000, (823, 128), 3, (43, 5, 42)),
        Fault(5_818, "cut_broker_from_controller", 2, 1, 2_500),
        Fault(6_123, "crash_broker", 1, 0, 700),
        Fault(6_179, "lose_log", 2, 1, 200),
    ),
    "what the last master had copied to its successor is not known of it": (
        Settings("disks", 2, 3_000, (76, 630), 2, (44, 7)),
        Fault(11_860, "roll_back_all_logs", 0, 0, 1_500),
        Fault(11_942, "crash_broker", 0, 0, 200),
        Fault(13_350, "delay_request", 2, 0, 2_500),
    ),
}


@pytest.mark.parametrize("name", MENDED)
def test_wrong_election_that_was_found_once_is_not_held_again(name):
    settings, *plan = MENDED[name]
    assert what_fails(settings, tuple(plan)) is None


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_set_keeps_its_messages_under_random_faults_for_long():
    must_hold(range(FROM, FROM + IN_SOAK))
    must_hold(range(FROM, FROM + IN_SOAK // 10), "fixed")


@pytest.mark.broad
@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - UNSEEN))
def test_each_mutated_rule_is_found(name):
    with mutated(name):
        assert first_failure(histories_of(name), MUTANTS[name].profile) is not None


def test_shortest_history_of_a_mutated_rule_is_printed():
    name = "a restarted master keeps its epoch"
    with mutated(name):
        found = first_failure(histories_of(name), MUTANTS[name].profile)
        shortest = shrunk(found)
        text = described(shortest)
    assert len(shortest.plan) <= min(2, len(found.plan))
    assert "crash_" in text
    assert "VIOLATION: two processes lead in epoch" in text


def test_simulated_history_can_be_repeated():
    settings, plan = history_of(FROM + 7)
    one, other = (RUN.sub("", described(Failure(7, settings, plan, ""))) for _ in range(2))
    assert one == other
    assert history_of(FROM + 7) == (settings, plan)


def test_simulated_histories_contain_elections_messages_and_failovers():
    worlds = [World(*history_of(seed)) for seed in range(50)]
    for world in worlds:
        world.run()
    assert sum(world.elections for world in worlds) > 50
    assert sum(len(world.sets[0].acked) for world in worlds) > 300
    assert sum(world.sets[0].entry.broker_set.master_epoch > 1 for world in worlds) > 10


def test_every_fault_is_drawn_and_can_be_injected():
    assert set().union(*KINDS.values()) == ACTS.keys()


def test_mutants_that_histories_do_not_show_exist():
    assert MUTANTS.keys() >= UNSEEN


@pytest.mark.parametrize("at_ms", range(5_000, 6_000, 100))
@pytest.mark.parametrize("who", range(3))
def test_broker_that_pauses_for_two_seconds_keeps_its_role(at_ms, who):
    assert what_fails(Settings(profile="calm"), (Fault(at_ms, "pause_broker", who),)) is None
