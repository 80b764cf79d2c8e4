"""Running histories, and making the shortest of one that fails."""

from contextlib import suppress

from simulation.faults import history_of
from simulation.world import Violation, World


class Failure:
    """A history in which something did not hold."""

    def __init__(self, seed, settings, plan, what):
        self.seed, self.settings, self.plan, self.what = seed, settings, plan, what


def what_fails(settings, plan):
    """Return what does not hold in a history; None if all does."""
    try:
        World(settings, plan).run()
    except Violation as violation:
        return str(violation)
    return None


def first_failure(seeds, profile=""):
    """Return the first history of these seeds that fails."""
    for seed in seeds:
        settings, plan = history_of(seed, profile)
        what = what_fails(settings, plan)
        if what is not None:
            return Failure(seed, settings, plan, what)
    return None


def shrunk(failure):
    """Return the same failure with as few faults, as short ones, as still fail: delta debugging."""
    plan, what = list(failure.plan), failure.what
    size = max(1, len(plan) // 2)
    while size:
        at = 0
        while at < len(plan):
            less = plan[:at] + plan[at + size :]
            found = what_fails(failure.settings, tuple(less))
            if found is None:
                at += size
            else:
                plan, what = less, found
        size //= 2
    for i, fault in enumerate(plan):
        for for_ms in (200, 700, 1_500, 2_500, 4_000):
            less = [*plan[:i], fault._replace(for_ms=for_ms), *plan[i + 1 :]]
            found = what_fails(failure.settings, tuple(less)) if for_ms < fault.for_ms else None
            if found is not None:
                plan, what = less, found
                break
    return Failure(failure.seed, failure.settings, tuple(plan), what)


def described(failure):
    """Return a history as text: its faults, and what happened."""
    world = World(failure.settings, failure.plan)
    world.story = []
    with suppress(Violation):
        world.run()
    lines = [f"seed {failure.seed}: {failure.what}", str(failure.settings), "faults:"]
    lines += [f"  {fault}" for fault in failure.plan] or ["  none"]
    return "\n".join([*lines, "what happened:", *(f"  {line}" for line in world.story)])
