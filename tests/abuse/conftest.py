"""A server under abuse, somebody who behaves beside it, and what it costs them both."""

import contextlib
import json
import subprocess
import sys
import time

import pytest
from bounds import HERE
from peers.lab import Lab
from peers.waiting import wait_until
from served import Served

GROWTH_MAX = 1.2
#: serving/process/allocator.py lets the C library keep freed memory, on purpose: no more than so much is looked for.
KEPT_KIB = 2 * 64 * 1024
#: What a machine does not give back in pieces: arenas of the C library, tables that have grown.
SLACK_KIB = 16 * 1024


class Watch:
    """What somebody who behaves saw, once it is over, and the memory before and after."""

    def __init__(self, served):
        self._served = served
        self.before_kib = served.memory_kib()
        self.most_kib = self.after_kib = self.before_kib
        self.seen = {}

    def look(self):
        self.most_kib = max(self.most_kib, self._served.memory_kib())

    def assert_unharmed(self, *, p99_ms_max):
        assert self.seen["refused"] == []
        assert self.seen["queries"] > 0
        assert self.seen["p99_ms"] < p99_ms_max

    def assert_memory_came_back(self):
        """Fail if more is left than the C library may keep.

        In sizes of CI that is more than most abuse takes, so it finds leaks in soak runs; `test_memory.py` finds them
        in CI.
        """
        most = GROWTH_MAX * self.before_kib + KEPT_KIB + SLACK_KIB
        wait_until(
            lambda: self._served.memory_kib() < most,
            seconds=20,
            what=lambda: f"memory is {self._served.memory_kib()} KiB, was {self.before_kib}",
        )
        self.after_kib = self._served.memory_kib()

    def figures(self):
        mib = {
            f"rss_{name}_mib": round(kib / 1024)
            for name, kib in (("before", self.before_kib), ("most", self.most_kib), ("after", self.after_kib))
        }
        return {key: value for key, value in self.seen.items() if key != "refused"} | mib


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


@pytest.fixture
def serve(lab):
    """Start a server with these properties."""

    def serve(**properties):
        server = lab.name_server("namesrv", http=True, **properties)
        server.process.wait_for("server_ready", seconds=30)
        return Served(server)

    return serve


@pytest.fixture
def watched():
    """Return a context in which a witness asks, and which tells afterwards what it saw."""

    @contextlib.contextmanager
    def watched(served, kind="namesrv"):
        pid = str(served.server.process.pid)
        command = [sys.executable, str(HERE / "witness.py"), kind, str(served.port), pid]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as witness:
            assert witness.stdout.readline() == "ready\n"
            watch = Watch(served)
            try:
                yield watch
            finally:
                watch.seen = json.loads(witness.communicate()[0])

    return watched


@pytest.fixture
def print_figures(capsys, request):
    """Print one line of figures, whether the test passes or not."""
    began = time.perf_counter()

    def print_figures(**figures):
        line = json.dumps({"test": request.node.name, "seconds": round(time.perf_counter() - began, 1)} | figures)
        with capsys.disabled():
            sys.stdout.write(f"\n{line}\n")

    return print_figures
