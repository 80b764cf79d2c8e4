"""The checklist of a controller with real brokers: shared sets, and the table at the end.

In CI a core of it runs on ours with short waits; `-m soak` runs all of it in full length, on ours and on the Java
controller. ACCEPTANCE_RESULTS names a file in which the results of several runs are put together.
"""

import contextlib
import functools
import itertools

import pytest
from peers.controllers import JavaController, OurController
from peers.jars import V5_5
from peers.lab import Lab
from replicated import ReplicatedSet
from verdicts import Table

TABLE = Table()
_serial = itertools.count()


class Stage:
    """Peers of their own for one test, or for several in a row."""

    def __init__(self, folder, run):
        self.lab = Lab(folder)
        self.run = run

    def controller(self, name="controller", **properties):
        """Start one controller that is alone."""
        make = OurController if self.run.is_ours else JavaController
        return self.lab.kept(make(self.lab.folder, name, **properties)).start()

    @functools.cached_property
    def namesrv(self):
        return self.lab.name_server()

    def new_set(self, controllers=None, *, count=2, **properties):
        """Return a set whose brokers do not run yet."""
        controllers = controllers or [self.controller()]
        name = f"set{next(_serial)}"
        return ReplicatedSet(
            self.lab, self.run, name=name, namesrv=self.namesrv, controllers=controllers, count=count, **properties
        )

    def close(self):
        self.lab.close()


class Stages:
    """At most one stage that several tests share; memory is for one."""

    def __init__(self, new_folder):
        self._new_folder = new_folder
        self._stage = None
        self._set = None

    def fresh(self, run):
        """Return a set that has just been made, in its first epoch, once all its brokers are in sync."""
        made = self.idle(run)
        made.start().wait_until_complete()
        return made

    def idle(self, run):
        """Return a set whose controller runs and whose brokers were never started."""
        self.close()
        self._stage = Stage(self._new_folder("stage"), run)
        self._set = self._stage.new_set()
        return self._set

    def shared(self, run):
        """Return a set of two that is complete, whatever other tests did to it before."""
        if self._set is None or self._set.run != run or not self._set.is_complete():
            return self.fresh(run)
        return self._set

    def close(self):
        if self._stage is not None:
            stage, self._stage, self._set = self._stage, None, None
            stage.close()


@pytest.fixture(scope="session")
def stages(tmp_path_factory):
    with contextlib.closing(Stages(tmp_path_factory.mktemp)) as made:
        yield made


@pytest.fixture(scope="session")
def run(request):
    """Which controller with which brokers, in which length: see lengths.py."""
    return request.param


@pytest.fixture
def idle_set(run, stages):
    return stages.idle(run)


@pytest.fixture
def fresh_set(run, stages):
    return stages.fresh(run)


@pytest.fixture
def shared_set(run, stages):
    return stages.shared(run)


@pytest.fixture
def stage(run, stages, tmp_path):
    """A stage of this test alone."""
    stages.close()
    with contextlib.closing(Stage(tmp_path, run)) as own:
        yield own


@pytest.fixture
def line(run, request):
    """Open a line of the checklist: `with line("3", "what must be so") as it: ...`."""

    def opened(number, behaviour, *, known_to_fail=False):
        brokers = "" if run.broker_version == V5_5 else f", brokers {run.broker_version}"
        subject = f"{run.controller}{brokers}{'' if run.full else ', short'}"
        return TABLE.line(run, number, behaviour, subject=subject, known_to_fail=known_to_fail)

    return opened


def pytest_terminal_summary(terminalreporter):
    if rows := TABLE.rows():
        terminalreporter.section("checklist of the controller")
        for row in rows:
            terminalreporter.write_line(row)
