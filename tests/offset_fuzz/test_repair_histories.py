"""Histories of the fuzz: some in each run, many in soak; and each mutant is shown by one of them."""

import pytest

from offset_fuzz.mutants import MUTANTS, found_at
from offset_fuzz.world import World
from offsets.repair.runs import OffsetsLost, OffsetsRepaired


def history(seed, folder):
    world = World(seed, folder)
    world.run()
    return world


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_no_write_lets_a_group_skip_a_message(tmp_path, first):
    writes = raises = runs = 0
    for seed in range(first, first + 10):
        world = history(seed, tmp_path / str(seed))
        writes, raises = writes + world.writes, raises + world.raises
        told = (event for manager in world.managers for event in manager.told)
        runs += sum(isinstance(event, OffsetsLost | OffsetsRepaired) for event in told)
    # What never writes skips nothing.
    assert runs > 10
    assert writes > raises > 0


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(0, 20_000, 1_000))
def test_no_write_lets_a_group_skip_a_message_in_many_histories(tmp_path, first):
    for seed in range(first, first + 1_000):
        history(seed, tmp_path / str(seed))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_shown(name):
    assert found_at(name, range(1, 4_000)) is not None
