"""Skips tests whose programs are not there, and shows the logs of the processes of a failing test."""

import os

import pytest
from hypothesis import settings
from peers import processes
from peers.etcd import missing_programs
from peers.jars import missing_tools

# How long an example takes says more about the machine than about the code.
settings.register_profile("here", deadline=None)
settings.load_profile("here")

LOG_TAIL_LINES = 25

_started_before = pytest.StashKey[int]()


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
