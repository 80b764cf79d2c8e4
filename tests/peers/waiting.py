"""Waiting for other processes, always with a deadline."""

import time

POLL_S = 0.02


def wait_until(condition, *, seconds, what):
    """Poll `condition` until it returns something true, and return that; fail with `what` was awaited after `seconds`.

    `what` may be a function, called only in case of failure.
    """
    deadline = time.perf_counter() + seconds
    while not (answer := condition()):
        if time.perf_counter() > deadline:
            awaited = what() if callable(what) else what
            raise AssertionError(f"not within {seconds} s: {awaited}")
        time.sleep(POLL_S)
    return answer


def seconds_until(condition, *, seconds, what):
    """Return how long it took until `condition` returned something true."""
    start = time.perf_counter()
    wait_until(condition, seconds=seconds, what=what)
    return time.perf_counter() - start


def holds_for(condition, *, seconds, what):
    """Fail as soon as `condition` returns something false in the next `seconds`."""
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        assert condition(), f"no longer so: {what}"
        time.sleep(POLL_S)
