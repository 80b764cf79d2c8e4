"""Loads a controller with 3,000 broker sets, ours, a former one and the Java one, for `benchmarks/CONTROLLER.md`.

    make bench-controller                              (about 20 minutes)
    python benchmarks/controller_load.py --only former (ours and the former one, by turns; about ten minutes)
    python benchmarks/controller_load.py --quick       (300 sets for 10 s, prints only)
    python benchmarks/controller_load.py --profile     (ours under cProfile, writes benchmarks/profiles/controller.txt)

`controller_load.c` is all of the brokers: 9,000 with a connection each, a beat a second, a question who leads each 5 s.
That every broker stayed alive and nobody was elected is asked of the controller at the end (1006).
"""

import argparse
import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Self

from controller_results import keep, row, table
from load import built
from peers.controllers import REFLECTING, Controller, JavaController, OurController
from peers.jars import SOURCES, V5_5, class_path
from peers.processes import Process
from peers.waiting import wait_until
from peers.wire import Answer
from servers import JAVA_HEAP, REPOSITORY, Stolen, checkout

GET_SYNC_STATE_DATA = 1006
REPLICAS = 3
PROFILE = REPOSITORY / "benchmarks" / "profiles" / "controller.txt"
PROFILE_LINES = 40
#: Prometheus scrapes as often.
SCRAPE_S = 15
ANSWER_S = 30
#: The brokers are but connections: nobody listens where they could be told their roles.
PROPERTIES = {"notifyBrokerRoleChanged": False}


class Plan(NamedTuple):
    """How much is done."""

    sets: int
    connections: int
    seconds: int
    warm_up_s: int


#: Java's compiler is done well before a minute of this load is over.
FULL = Plan(3_000, 9_000, 120, 60)
QUICK = Plan(300, 900, 10, 3)

#: The controller without roles, switchovers and scaling. Each turn loads ours, and then this one.
FORMER = "f28380ea"
BESIDE_FORMER = Plan(3_000, 9_000, 40, 10)
TURNS = 3
#: How much more than the former one ours may take.
FORMER_RATIO_MAX = 1.15


class Goals(NamedTuple):
    """What ours has to keep."""

    cpu_percent: float = 60
    memory_mb: float = 300
    p99_ms: float = 20


class FastJavaController(JavaController):
    """The original with the memory and the compiler that it has by default, logging nothing."""

    def _launch(self) -> Process:
        home = self._folder / self.name
        quiet = home / "conf" / "logback.xml"
        quiet.parent.mkdir(parents=True, exist_ok=True)
        quiet.write_text((SOURCES / "conf" / "logback-silent.xml").read_text())
        command = ["java", *JAVA_HEAP, *REFLECTING, f"-Duser.home={home}"]
        command += [f"-Drmq.logback.configurationFile={quiet}", "-cp", class_path(V5_5)]
        command += ["org.apache.rocketmq.controller.ControllerStartup", "-c", str(self._file)]
        return Process(self.name, command, folder=home, env=os.environ | {"ROCKETMQ_HOME": str(home)})


class InstalledController(OurController):
    """Ours of a checkout, with the packages of an environment and no others: some load what they find beside them."""

    def __init__(self, folder: Path, name: str, checkout: Path, environment: Path, **properties: object) -> None:
        self._checkout, self._environment = checkout, environment
        super().__init__(folder, name, **properties)

    def _launch(self) -> Process:
        command = [self._environment / "bin" / "python", "-m", "controller", "-c", self._file]
        env = os.environ | {"PYTHONPATH": str(self._checkout), "HOME": str(self.folder)}
        return Process(self.name, command, folder=self.folder, env=env)


class ProfiledController(OurController):
    """Ours under cProfile, which writes what it found when the process is told to stop."""

    def _launch(self) -> Process:
        self.profile = self.folder / "profile"
        program = (
            "import cProfile, os, runpy, sys, time\n"
            f"sys.argv = ['controller', '-c', {str(self._file)!r}]\n"
            "profiler = cProfile.Profile(time.thread_time)\n"
            "leave = os._exit\n"
            "def written(code):\n"
            "    profiler.disable()\n"
            f"    profiler.dump_stats({str(self.profile)!r})\n"
            "    leave(code)\n"
            "os._exit = written\n"
            "try:\n"
            "    profiler.runcall(runpy.run_module, 'controller', run_name='__main__', alter_sys=True)\n"
            "finally:\n"
            "    written(0)\n"
        )
        env = os.environ | {"PYTHONPATH": str(REPOSITORY), "HOME": str(self.folder)}
        return Process(self.name, [sys.executable, "-c", program], folder=self.folder, env=env)


class Sample(NamedTuple):
    """What a process had used at a moment."""

    at_s: float
    cpu_s: float
    memory_mb: float


class Usage:
    """Samples a process each second until the `with` ends."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.samples = [self._sample()]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        with contextlib.suppress(AssertionError):
            self.samples.append(self._sample())

    def _run(self) -> None:
        while not self._done.wait(1):
            with contextlib.suppress(AssertionError):
                self.samples.append(self._sample())

    def _sample(self) -> Sample:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        memory = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self._pid}/status").read_text())
        assert memory, "a process that runs has memory"
        cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return Sample(time.monotonic(), cpu_s, int(memory[1]) / 1024)

    @property
    def cpu_s(self) -> float:
        """Return the processor time since the first sample, until now."""
        return self._sample().cpu_s - self.samples[0].cpu_s

    @property
    def cpu_percent(self) -> float:
        """Return the share of one core."""
        first, last = self.samples[0], self.samples[-1]
        return 100 * (last.cpu_s - first.cpu_s) / (last.at_s - first.at_s)

    @property
    def memory_mb(self) -> float:
        """Return the most that it had."""
        return max(sample.memory_mb for sample in self.samples)

    @property
    def growth_mb(self) -> float:
        """Return by how much the last third had more than the second, each taken at its median."""
        third = len(self.samples) // 3
        middle, last = (
            sorted(each.memory_mb for each in part) for part in (self.samples[third:-third], self.samples[-third:])
        )
        return last[len(last) // 2] - middle[len(middle) // 2] if middle and last else 0


class Outcome(NamedTuple):
    """What one run came to."""

    name: str
    usage: Usage
    stolen_percent: float
    #: What the generator printed when all was set up, and at the end.
    set_up: dict[str, Any]
    set_up_cpu_s: float
    times: dict[str, dict[str, float]]
    generator_percent: float
    #: Sets in which all three live and whose master is the first of epoch 1.
    undisturbed: int
    lag: str


def measured(controller: Controller, plan: Plan) -> Outcome:
    """Load a controller that runs."""
    command = [str(built(REPOSITORY / "benchmarks" / "controller_load.c")), "-n", str(plan.sets)]
    command += ["-c", str(plan.connections), "-s", str(plan.seconds), "-w", str(plan.warm_up_s), str(controller.port)]
    setting_up = Usage(controller.process.pid)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as brokers:
        set_up = json.loads(_line(brokers))
        set_up_cpu_s = setting_up.cpu_s
        assert _line(brokers) == "measuring\n", "it says so once it is warm"
        before = lag_buckets(controller)
        with (
            Usage(controller.process.pid) as usage,
            Usage(brokers.pid) as generator,
            scraped(controller),
            Stolen() as stolen,
        ):
            times = json.loads(_line(brokers))
        lag = longest_lag(before, lag_buckets(controller))
        undisturbed = count_undisturbed(controller, plan.sets)
        assert brokers.stdin is not None
        brokers.stdin.close()
    return Outcome(
        controller.name, usage, stolen.percent, set_up, set_up_cpu_s, times, generator.cpu_percent, undisturbed, lag
    )


def _line(brokers: "subprocess.Popen[str]") -> str:
    assert brokers.stdout is not None
    line = brokers.stdout.readline()
    if not line:
        raise RuntimeError("the brokers gave up; see above")
    return line


@contextlib.contextmanager
def scraped(controller: Controller) -> Iterator[None]:
    """Scrape ours as Prometheus would."""
    done = threading.Event()

    def scrape() -> None:
        while not done.wait(SCRAPE_S):
            lag_buckets(controller)

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def lag_buckets(controller: Controller) -> dict[float, float]:
    """Return how often the event loop of ours was late by at most so many seconds; of Java's there is none."""
    if not isinstance(controller, OurController):
        return {}
    url = f"http://127.0.0.1:{controller.http_port}/metrics"
    with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
        text = answer.read().decode()
    found = re.findall(r'event_loop_lag_seconds_bucket\{.*?le="([^"]+)".*?\} (\S+)', text)
    return {float(limit.replace("+Inf", "inf")): float(count) for limit, count in found}


def longest_lag(before: dict[float, float], after: dict[float, float]) -> str:
    """Return the bucket of the longest lag between two scrapes, and of 99 in 100."""
    if not after:
        return "-"
    grown = {limit: after[limit] - before.get(limit, 0) for limit in sorted(after)}
    total = grown[float("inf")]

    def within(share: float) -> str:
        limit = next(limit for limit, count in grown.items() if count >= share * total)
        lower = max((smaller for smaller, larger in pairwise(grown) if larger == limit), default=0)
        return f"{lower * 1000:g} to {limit * 1000:g} ms"

    return f"p99 {within(0.99)}, longest {within(1)}"


def count_undisturbed(controller: Controller, sets: int) -> int:
    """Return in how many sets all are alive and nobody was elected but the first."""
    names = json.dumps([f"bench-set-{number}" for number in range(sets)]).encode()
    answer = wait_until(lambda: _sync_state(controller, names), seconds=ANSWER_S, what="an answer about all sets")
    in_sync = answer.json["replicasInfoTable"].values()
    return sum(
        each.get("masterBrokerId") == 1
        and each["masterEpoch"] == 1
        and [one["alive"] for one in each["inSyncReplicas"] + each["notInSyncReplicas"]] == [True] * REPLICAS
        for each in in_sync
    )


def _sync_state(controller: Controller, names: bytes) -> Answer | None:
    try:
        return controller.caller.request(GET_SYNC_STATE_DATA, body=names)
    except TimeoutError:
        return None


def line_of(outcome: Outcome, plan: Plan, goals: Goals | None) -> str:
    """Return the row of one controller."""
    usage, times = outcome.usage, outcome.times
    p99 = max(times[code]["p99_ms"] for code in ("1003", "1004"))
    errors = _errors(outcome)
    failed = errors or outcome.undisturbed != plan.sets
    reached = "-"
    if goals is not None:
        kept = usage.cpu_percent < goals.cpu_percent and usage.memory_mb < goals.memory_mb and p99 < goals.p99_ms
        reached = "yes" if kept and not failed else "**no**"
    return row(
        outcome.name,
        f"{usage.cpu_percent:.1f} %",
        *(f"{times[c]['p50_ms']:.2f} / {times[c]['p99_ms']:.2f} / {times[c]['max_ms']:.1f}" for c in CODES),
        f"{usage.memory_mb:.0f} ({usage.growth_mb:+.1f})",
        outcome.lag,
        f"{outcome.set_up['connected_s']:.1f} + {outcome.set_up['set_up_s']:.1f} s",
        f"{outcome.undisturbed} of {plan.sets}",
        errors,
        f"{times['beats_late']['p99_ms']:.2f}, {outcome.generator_percent:.0f} %",
        f"{outcome.stolen_percent:.1f} %",
        reached,
    )


CODES = ("1003", "1004", "1001")
TITLES = (
    "controller",
    "CPU of one core",
    *(f"{code}: p50 / p99 / longest, ms" for code in CODES),
    "memory, MB (growth)",
    "event loop late",
    "connected + set up",
    "undisturbed sets",
    "errors",
    "generator: heartbeats late p99 ms, CPU",
    "machine's time taken by its host",
    "reached",
)


def section(outcomes: list[Outcome], plan: Plan) -> Iterator[str]:
    """Yield the lines of the part."""
    goals = Goals()
    replicas = plan.sets * REPLICAS
    requests = outcomes[0].set_up["requests"]
    yield (
        f"{plan.sets} sets of {REPLICAS} on {plan.connections} connections for {plan.seconds} s: {replicas} heartbeats "
        f"and {replicas / 5:.0f} queries of the leader (1004) a second,\n20 registrations of slaves (1003) and 20 "
        f"changes of a SyncStateSet (1001) a second; ours is scraped each {SCRAPE_S} s. Setting up takes {requests} "
        "requests\n(1012, 1013, 1003 of each broker, 1002 and 1001 of each set), 32 sets at a time. "
        "Growth is that of the last third\nbeside the second. "
        "Undisturbed: all three alive at the end, and master epoch 1.\n"
        f"Goal: CPU < {goals.cpu_percent:g} %, p99 of 1003 and 1004 < {goals.p99_ms:g} ms, memory < "
        f"{goals.memory_mb:g} MB."
    )
    yield ""
    yield from table(*TITLES)
    for outcome in outcomes:
        yield line_of(outcome, plan, goals if outcome.name == "ours" else None)


def beside_former(folder: Path, plan: Plan) -> list[Outcome]:
    """Load ours and the former one by turns, both with the packages of the former: those of tests cost memory."""
    outcomes = []
    with checkout(FORMER) as former:
        environment = former / ".venv"
        for turn in range(TURNS):
            for name, path in (("ours", REPOSITORY), ("former", former)):
                controller = InstalledController(folder / f"{turn}", name, path, environment, **PROPERTIES)
                with running(controller):
                    outcomes.append(measured(controller, plan))
    return outcomes


def section_of_former(outcomes: Sequence[Outcome], plan: Plan) -> Iterator[str]:
    """Yield the lines of the comparison with the former commit."""
    yield (
        f"The same load for {plan.seconds} s, on ours and on that of {FORMER} by turns. "
        f"Goal: no median above {FORMER_RATIO_MAX} times the former one."
    )
    yield ""
    yield from table(
        "controller", "CPU of one core", "set-up: CPU, s", "set-up, s", "memory, MB", "undisturbed", "errors"
    )
    for each in outcomes:
        yield row(
            each.name,
            f"{each.usage.cpu_percent:.1f} %",
            f"{each.set_up_cpu_s:.1f}",
            f"{each.set_up['set_up_s']:.1f}",
            f"{each.usage.memory_mb:.0f}",
            f"{each.undisturbed} of {plan.sets}",
            _errors(each),
        )
    yield ""
    ratios = former_ratios(outcomes)
    failed = any(_errors(each) or each.undisturbed != plan.sets for each in outcomes if each.name == "ours")
    reached = "**no**" if failed or max(ratios.values()) > FORMER_RATIO_MAX else "yes"
    found = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    yield f"Medians of ours to the former ones: {found}. Reached: {reached}."


def former_ratios(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return our medians by those of the former one; the wall time of the set-up is the disk's and the machine's."""

    def of(name: str) -> list[tuple[float, float, float]]:
        return [(o.usage.cpu_percent, o.set_up_cpu_s, o.usage.memory_mb) for o in outcomes if o.name == name]

    ours, former = ([median(each) for each in zip(*of(name), strict=True)] for name in ("ours", "former"))
    names = ("CPU", "CPU of the set-up", "memory")
    return {name: mine / theirs for name, mine, theirs in zip(names, ours, former, strict=True)}


def _errors(outcome: Outcome) -> int:
    return int(sum(each["errors"] for each in outcome.times.values() if isinstance(each, dict)))


@contextlib.contextmanager
def running(controller: Controller) -> Iterator[Controller]:
    """Run a controller, and end it."""
    controller.start()
    try:
        wait_until(controller.serves, seconds=60, what=f"{controller.name} serves")
        yield controller
    finally:
        controller.process.stop()


def profile(folder: Path, plan: Plan) -> None:
    """Write what ours spends its time on; setting up is in it, so it is kept short beside the measured time."""
    import pstats  # noqa: PLC0415  # only here

    profiled = ProfiledController(folder, "ours", **PROPERTIES)
    with running(profiled) as controller:
        outcome = measured(controller, plan)
    with PROFILE.open("w") as file:
        print(f"{plan}, under cProfile: {outcome.usage.cpu_percent:.0f} % of a core.", file=file)
        pstats.Stats(str(profiled.profile), stream=file).strip_dirs().sort_stats("tottime").print_stats(PROFILE_LINES)
    print(PROFILE.read_text())


def main() -> None:
    """Measure both, print, and write the part if it is a full one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--sets", type=int)
    parser.add_argument("--connections", type=int, help="fewer: several brokers on each")
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--subject", action="append", choices=["ours", "java"], help="only this one; prints only")
    parser.add_argument("--only", action="append", choices=["former", "load"], help="only this part")
    options = parser.parse_args()
    # Told to stop, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    plan = QUICK if options.quick else FULL
    if options.sets:
        plan = plan._replace(sets=options.sets, connections=options.sets * REPLICAS)
    plan = plan._replace(connections=options.connections or plan.connections, seconds=options.seconds or plan.seconds)
    # Controllers and generator inherit it.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kinds = {"ours": OurController, "java": FastJavaController}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.profile:
            profile(folder, plan)
            return
        if not options.subject and "former" in (options.only or ["former"]):
            beside = plan if plan != FULL else BESIDE_FORMER
            outcomes = beside_former(folder, beside)
            report("former", section_of_former(outcomes, beside), is_full=plan == FULL)
        if "load" in (options.only or ["load"]):
            outcomes = []
            for name in options.subject or kinds:
                with running(kinds[name](folder, name, **PROPERTIES)) as controller:
                    outcomes.append(measured(controller, plan))
            report("load", section(outcomes, plan), is_full=plan == FULL and not options.subject)


def report(part: str, lines: Iterator[str], *, is_full: bool) -> None:
    """Keep the part of a full run, print that of any other."""
    if is_full:
        keep(part, "make bench-controller", lines)
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
