"""Whatever goes wrong with brokers, clients and controllers during a resize: see `world.py` for what must hold.

RMQ_RESIZES_FROM=<seed> begins elsewhere; `make soak` runs RMQ_RESIZES (default 40,000) of them.
"""

import os

import pytest

from scaling_simulation.histories import Fault, ResizeSettings, history_of
from scaling_simulation.mutants import MUTANTS, mutated
from scaling_simulation.shrinking import described, first_failure, shrunk, what_fails
from scaling_simulation.world import World
from serving.shapes.scaling import ResizePhase

FROM = int(os.environ.get("RMQ_RESIZES_FROM", "0"))
#: Of each kind of resize; more of them in `make test-all`.
IN_GATE = 100
IN_CI = 300
IN_SOAK = int(os.environ.get("RMQ_RESIZES", "40000"))
#: Within so many histories each mutant is found.
MUTANT_HISTORIES = 4_000


def must_hold(seeds, profile=""):
    failure = first_failure(seeds, profile)
    assert failure is None, "\n" + described(shrunk(failure))


@pytest.mark.parametrize("profile", ["grow", "shrink", "ordered", "gated"])
def test_resize_loses_and_reorders_no_message_under_random_faults(profile):
    must_hold(range(FROM, FROM + IN_GATE), profile)


@pytest.mark.broad
@pytest.mark.parametrize("profile", ["grow", "shrink", "ordered", "gated"])
def test_resize_loses_and_reorders_no_message_under_more_random_faults(profile):
    must_hold(range(FROM + IN_GATE, FROM + IN_CI), profile)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_resize_loses_and_reorders_no_message_under_random_faults_for_long():
    must_hold(range(FROM, FROM + IN_SOAK))


def test_delayed_messages_of_a_producer_with_an_old_route_are_consumed():
    cut = Fault("cut_producer", "", 0, 0, 150_000)
    for seed in range(1_480, 1_500):
        settings = ResizeSettings(seed=seed, before=6, target=2, producers_ms=(90_000, 4_000), late_shares=(1.0, 0.0))
        assert what_fails(settings, (cut,)) is None


@pytest.mark.broad
@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_each_mutated_rule_of_a_resize_is_found(name):
    mutant = MUTANTS[name]
    with mutated(name):
        assert first_failure(range(mutant.seed, MUTANT_HISTORIES), mutant.profile, mutant.more) is not None


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_each_mutated_rule_of_a_resize_is_found_in_any_histories(name):
    mutant = MUTANTS[name]
    with mutated(name):
        assert first_failure(range(100_000, 100_000 + 4 * MUTANT_HISTORIES), mutant.profile, mutant.more) is not None


def test_simulated_resizes_go_through_every_phase():
    phases, ends, sent = set(), set(), 0
    for seed in range(120):
        world = World(*history_of(seed))
        world.run()
        phases |= set(world.judge.phases)
        if world.controller.operation is not None:
            ends.add(world.controller.operation.phase)
        sent += len(world.acked_ids)
    assert ends >= {ResizePhase.DONE, ResizePhase.ABORTED}
    assert phases >= set(ResizePhase) - {ResizePhase.REJECTED}
    assert sent > 5_000
