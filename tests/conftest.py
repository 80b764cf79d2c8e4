"""Says what will not run here, skips tests whose programs are missing, shows the logs of a failing test's processes.

Several workers may share the tests (pytest-xdist), a file each: what takes longest comes first, and then all others in
the order of their names, whatever their folders: rules, which compute, beside servers, for which tests wait.
Those with Spark are shared by two or three workers: a JVM takes ten seconds to start, and is quicker when it is warm.
"""

import sys
from functools import cache

import measured
import pytest
from hypothesis import settings
from peers import processes, programs
from peers.etcd import PROGRAMS as ETCD_PROGRAMS
from peers.jars import TOOLS as JAVA_TOOLS
from xdist.scheduler import LoadFileScheduling

# How long an example takes says more about the machine than about the code.
settings.register_profile("here", deadline=None)
settings.load_profile("here")

LOG_TAIL_LINES = 25

#: What takes a minute or longer starts before the rest: at the end all workers should have something to do.
LONG = (
    "analytics",
    "integration/fleet",
    "scaling",
    "integration/test_java_liveness.py",
    "rmq/mqadmin/test_mqadmin_with_java.py",
    "acceptance/scaling/test_resizes.py",
    "integration/test_java_acl.py",
    "operations/test_lost_stores.py",
    "acceptance/test_masters.py",
    "faults/test_cut_off_controller.py",
    "integration/test_java_registration.py",
    "integration/test_java_role_addresses.py",
    "integration/test_java_cold_start.py",
    "dashboards/test_boards_live.py",
    "simulation/test_simulated_histories.py",
    "scaling_simulation/test_resize_histories.py",
    "contract/test_etcd_leaders.py",
    "contract/test_etcd_faults.py",
    "abuse/test_fuzz.py",
    "rmq/test_rmq_away.py",
)

#: Of each kind of peer that takes long to start, what `make test` runs. The rest is broad.
SMOKE = (
    "acceptance/scaling/test_resizes.py::test_grow_loses_nothing_while_a_consumer_is_killed",
    "analytics/cli/test_rmq_analytics.py::test_from_landing_to_a_result_by_commands",
    "analytics/spark/test_schemas.py",
    "console/test_console_in_a_browser.py::test_overview_shows_brokers_roles_and_differences_and_loads_nothing_from_elsewhere",
    "integration/test_java_role_addresses.py",
    "offsets/readings/test_java_readings.py::test_what_a_master_had_before_kill_9_is_known_proved_and_listed[5.5.0]",
    "rmq/test_rmq_with_java.py::test_status_is_well",
    "rmq/test_rmq_with_java.py::test_topic_is_created_changed_shown_and_deleted",
)

_started_before = pytest.StashKey[int]()
_internal_errors = []


def pytest_report_header():
    return programs.header()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    folder = config.rootpath / "tests"
    for item in items:
        if "spark" in item.fixturenames:
            item.add_marker("spark")
        if hasattr(item.module, "a_tab"):
            item.add_marker("browser")
        is_peer = any(item.get_closest_marker(peer) for peer in ("java", "spark", "browser"))
        if is_peer and not item.nodeid.removeprefix("tests/").startswith(SMOKE):
            item.add_marker("broad")

    @cache
    def turn_of(path):
        inside = path.relative_to(folder)
        turn = next((number for number, each in enumerate(LONG) if inside.is_relative_to(each)), len(LONG))
        return (turn, inside) if turn < len(LONG) else (turn, inside.name, inside)

    items.sort(key=lambda item: turn_of(item.path))


class FileScheduling(LoadFileScheduling):
    """A worker takes a file at a time, or all of these: of Spark's the analyses, the incident or the rest.

    Where a folder shares brokers another worker would start them again, and each idles with a tenth of a core.
    """

    TOGETHER = (
        "tests/analytics/jobs/",
        "tests/analytics/test_incident.py",
        "tests/analytics/",
        "tests/integration/fleet/",
        "tests/scaling/",
    )

    def _split_scope(self, nodeid):
        return next((each for each in self.TOGETHER if nodeid.startswith(each)), None) or super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[_started_before] = len(processes.started)
    if item.get_closest_marker("java") is not None:
        programs.require(*JAVA_TOOLS)
    if item.get_closest_marker("etcd") is not None:
        programs.require(*ETCD_PROGRAMS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        before = item.stash[_started_before]
        shared = [process for process in processes.started[:before] if process.running]
        for process in [*shared, *processes.started[before:]]:
            report.sections.append((f"log of {process.name}", tail_of(process)))
    return report


def tail_of(process):
    try:
        return "\n".join(process.text().splitlines()[-LOG_TAIL_LINES:])
    except OSError as error:
        # An error in a report ends the whole run.
        return f"cannot be read: {error}"


def pytest_internalerror(excrepr):
    _internal_errors.append(str(excrepr))


def pytest_unconfigure():
    # The first one is the cause: with several workers others follow, and of a long run one sees only the end.
    for line in "".join(_internal_errors[:1]).splitlines()[-LOG_TAIL_LINES:]:
        sys.stderr.write(f"first internal error: {line}\n")


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
