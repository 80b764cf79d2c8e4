"""The checklist of a controller with real brokers: shared sets, and the table at the end.

In CI a core of it runs on ours with short waits; `-m soak` runs all of it in full length, on ours and on the Java
controller. ACCEPTANCE_RESULTS names a file in which the results of several runs are put together.
"""

import contextlib
import functools
import itertools
from pathlib import Path

import pytest
from groups import CutWay, java_group, our_group
from peers.controllers import JavaController, OurController
from peers.jars import V5_5
from peers.lab import Lab
from peers.processes import free_port
from peers.waiting import wait_until
from replicated import VERY_LONG_S, ReplicatedSet
from verdicts import Table

TABLE = Table()
HERE = Path(__file__).parent
_serial = itertools.count()


class Stage:
    """Peers of their own for one test, or for several in a row."""

    def __init__(self, folder, run):
        self.lab = Lab(folder)
        self.run = run
        self.group = None
        self.front = None
        self._closing = contextlib.ExitStack()
        self._closing.callback(self.lab.close)

    def controller(self, name="controller", **properties):
        """Start one controller that is alone, and return it once it leads."""
        make = OurController if self.run.is_ours else JavaController
        if self.run.is_ours:
            properties |= {"configWhiteList": "enableElectUncleanMaster;notifyBrokerRoleChanged"}
        controller = self.lab.kept(make(self.lab.folder, name, **properties)).start()
        wait_until(controller.serves, seconds=VERY_LONG_S, what=f"{name} serves")
        return controller

    def controller_behind_a_way(self):
        """Start one controller that brokers reach by a way that can be cut, where it can name another address."""
        if not self.run.is_ours:
            return self.controller()
        port = free_port()
        self.front = CutWay(f"127.0.0.1:{port}")
        self._closing.callback(self.front.close)
        return self.controller(port=port, advertised_address=self.front.endpoint)

    def controllers(self, *, behind_ways=False):
        """Start a group of three, ours on an etcd of three; `behind_ways`, brokers reach ours by ways that can be cut.

        Each of ours has ways of its own to etcd.
        """
        self.group = (our_group if self.run.is_ours else java_group)(self.lab, behind_ways=behind_ways)
        self._closing.callback(self.group.close)
        return self.group.start().controllers

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
        self._closing.close()


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
        self._stage = self.new_stage(run)
        self._set = self._stage.new_set([self._stage.controller_behind_a_way()])
        return self._set

    def new_stage(self, run):
        """Return a stage that is the caller's to close."""
        return Stage(self._new_folder("stage"), run)

    def shared(self, run):
        """Return a set of two that is complete, whatever other tests did to it before."""
        if self._set is None or self._set.run != run or not self._set.is_complete():
            return self.fresh(run)
        return self._set

    @property
    def front(self):
        """The way to the controller of the shared set."""
        return self._stage.front

    def close(self):
        if self._stage is not None:
            stage, self._stage, self._set = self._stage, None, None
            stage.close()


_opened = []


@pytest.fixture(scope="session")
def stages(tmp_path_factory):
    with contextlib.closing(Stages(tmp_path_factory.mktemp)) as made:
        _opened.append(made)
        yield made


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Leave the machine to the tests of other folders: brokers that only idle take a quarter of a core each."""
    if nextitem is None or HERE not in nextitem.path.parents:
        for each in _opened:
            each.close()


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

    def opened(number, behaviour, *, java_fails=None):
        brokers = "" if run.broker_version == V5_5 else f", brokers {run.broker_version}"
        subject = f"{run.controller}{brokers}{'' if run.full else ', short'}"
        return TABLE.line(run, number, behaviour, subject=subject, java_fails=java_fails)

    return opened
