"""Skips tests whose programs are not there, and shows the logs of the processes of a failing test.

Several workers may share the tests (pytest-xdist), a file each: what is quick comes first, then what takes longest.
"""

import os

import measured
import pytest
from hypothesis import settings
from peers import processes
from peers.etcd import missing_programs
from peers.jars import missing_tools

# How long an example takes says more about the machine than about the code.
settings.register_profile("here", deadline=None)
settings.load_profile("here")

LOG_TAIL_LINES = 25

#: Folders of tests that start no other program, or only for a moment.
QUICK = ("remoting", "history", "namesrv", "controller", "serving", "sampling", "helm", "simulation")
#: What takes a minute or longer starts before the rest: at the end all workers should have something to do.
LONG = (
    "analytics/test_incident.py",
    "integration/test_java_acl.py",
    "operations/test_lost_stores.py",
    "acceptance/test_masters.py",
    "faults/test_cut_off_controller.py",
    "integration/test_java_registration.py",
    "analytics/test_plain_model.py",
    "analytics/test_metamorphic.py",
)

_started_before = pytest.StashKey[int]()


def pytest_collection_modifyitems(config, items):
    folder = config.rootpath / "tests"

    def turn(item):
        path = item.path.relative_to(folder)
        if path.parts[0] in QUICK:
            return 0
        place = path.as_posix()
        return 1 + LONG.index(place) if place in LONG else 1 + len(LONG)

    items.sort(key=turn)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[_started_before] = len(processes.started)
    give_up = pytest.fail if os.environ.get("CI") else pytest.skip
    if item.get_closest_marker("java") is not None and (missing := missing_tools()):
        give_up(f"Java peers cannot run, not installed: {', '.join(missing)}")
    if item.get_closest_marker("etcd") is not None and (missing := missing_programs()):
        give_up(f"etcd cannot run, not installed: {', '.join(missing)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        before = item.stash[_started_before]
        shared = [process for process in processes.started[:before] if process.running]
        for process in [*shared, *processes.started[before:]]:
            tail = "\n".join(process.text().splitlines()[-LOG_TAIL_LINES:])
            report.sections.append((f"log of {process.name}", tail))
    return report


def pytest_sessionfinish(session):
    """A worker hands over what its tests have measured."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["measured"] = measured.sections


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    # A worker that has crashed hands nothing over.
    measured.merge(getattr(node, "workeroutput", {}).get("measured", {}))


def pytest_terminal_summary(terminalreporter):
    for section, lines in measured.sections.items():
        terminalreporter.section(section)
        for _, line in sorted(lines.items()):
            terminalreporter.write_line(line)
