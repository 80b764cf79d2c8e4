"""Running histories of resizes, and making the shortest of one that fails."""

from contextlib import suppress
from typing import NamedTuple

from scaling_simulation.histories import Fault, ResizeSettings, history_of
from scaling_simulation.world import Violation, World


class FailedResize(NamedTuple):
    """A history in which something did not hold."""

    settings: ResizeSettings
    plan: tuple[Fault, ...]
    what: str


def what_fails(settings, plan):
    """Return what does not hold in a history; None if all does."""
    try:
        World(settings, plan).run()
    except Violation as violation:
        return str(violation)
    return None


def first_failure(seeds, profile="", more=()):
    """Return the first history of these seeds that fails; `more` faults happen in each of them."""
    for seed in seeds:
        settings, plan = history_of(seed, profile)
        plan = (*plan, *more)
        what = what_fails(settings, plan)
        if what is not None:
            return FailedResize(settings, plan, what)
    return None


def shrunk(failure):
    """Return a failure with as few faults, groups, producers and brokers as still fail."""
    failure = _with_less_faults(failure)
    settings = failure.settings
    smaller = [{"groups": (each,)} for each in settings.groups]
    smaller += [
        {"producers_ms": (pause_ms,), "late_shares": (share,)}
        for pause_ms, share in zip(settings.producers_ms, settings.late_shares, strict=True)
    ]
    smaller += [{"sets": 1}, {"slaves": 0}, {"name_servers": 1}]
    for change in smaller:
        less = failure.settings._replace(**change)
        if less != failure.settings and (what := what_fails(less, failure.plan)) is not None:
            failure = FailedResize(less, failure.plan, what)
    return failure


def _with_less_faults(failure):
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
    return FailedResize(failure.settings, tuple(plan), what)


def described(failure):
    """Return a history as text: its faults, and what happened."""
    world = World(failure.settings, failure.plan)
    world.story = []
    with suppress(Violation):
        world.run()
    lines = [f"seed {failure.settings.seed}: {failure.what}", str(failure.settings), "faults:"]
    lines += [f"  {fault}" for fault in failure.plan] or ["  none"]
    return "\n".join([*lines, "what happened:", *(f"  {line}" for line in world.story)])
