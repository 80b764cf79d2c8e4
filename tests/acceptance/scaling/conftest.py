"""A site of each release, shared by the tests of a file; they run at the same time, each with topics of its own.

A resize waits most of its time: ten of them take as long as one.
"""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from peers.jars import V4_9, V5_1, V5_5
from peers.lab import Lab
from resize_site import ResizeSite

#: Tests that run at the same time.
TOGETHER = 16


@pytest.fixture(
    scope="module",
    params=[V5_5, pytest.param(V5_1, marks=pytest.mark.soak), pytest.param(V4_9, marks=pytest.mark.soak)],
)
def site(request, tmp_path_factory):
    with contextlib.closing(ResizeSite(Lab(tmp_path_factory.mktemp("resizes")), request.param)) as started:
        yield started


class Together:
    """Starts the tests of a file at the same time when the first of them is due; each item reports its own."""

    def __init__(self):
        self._executor = ThreadPoolExecutor(TOGETHER)
        self._running = {}

    def outcome(self, item):
        """Return once this test has ended; raises what it has raised."""
        if item.nodeid not in self._running:
            fellows = [each for each in item.session.items if _has_the_same_site(each, item)]
            for each in fellows:
                arguments = each.callspec.params | {"site": item.funcargs["site"]}
                self._running[each.nodeid] = self._executor.submit(each.obj, **arguments)
        self._running[item.nodeid].result()


def _has_the_same_site(one, other):
    return (
        one.path == other.path
        and getattr(one, "callspec", None) is not None
        and one.callspec.params.get("site") == other.callspec.params.get("site")
    )


_together = Together()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if "site" not in pyfuncitem.fixturenames:
        return None
    _together.outcome(pyfuncitem)
    return True
