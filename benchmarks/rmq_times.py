"""How long each command of `rmq` takes from the start of its process, beside mqadmin's equivalent in the same run.

    python benchmarks/rmq_times.py                   (about ten minutes, into benchmarks/RMQ.md)
    python benchmarks/rmq_times.py --quick           (four runs of each, a few minutes, prints only)

One NameServer and one controller of ours and a broker of 5.5.0 with 10,000 topics, on the same machine. A command and
its equivalent take turns, mqadmin's after every fourth run of `rmq`, as it takes seconds; the first run of each, which
may read the disk, does not count. mqadmin is started as its own `bin/mqadmin` starts it, without the shell script: a
JVM for each command.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from controller_results import row, table, taken
from servers import REPOSITORY, Stolen

sys.path.insert(0, str(REPOSITORY / "tests"))

from peers.controllers import OurController
from peers.jars import SOURCES, V5_5, class_path
from peers.lab import Lab
from peers.servers import OurNameServer, registered
from peers.waiting import wait_until
from peers.wire import SUCCESS, Caller

RESULTS = REPOSITORY / "benchmarks" / "RMQ.md"
COMMAND = "make bench-rmq"
GOAL_S = 0.3
#: Of commands that show all topics, or wait for a request that goes over all of them.
MANY_GOAL_S = 1.0
#: A broker goes over all of its topics for it.
RUNTIME_INFO = 28
TOPICS = 10_000
#: Runs of `rmq` for each of mqadmin.
TO_ONE = 4
START_S = 180
#: Of bin/tools.sh in 5.5.0.
MQADMIN_FLAGS = ("-server", "-Xms1g", "-Xmx1g", "-Xmn256m", "-XX:MetaspaceSize=128m", "-XX:MaxMetaspaceSize=128m")
SILENT = SOURCES / "conf" / "logback-silent.xml"


class Case(NamedTuple):
    """A command, and what an operator of mqadmin types instead; `{…}` are addresses of the site."""

    rmq: str
    #: Blank where mqadmin has nothing like it.
    mqadmin: str = ""
    goal_s: float = GOAL_S


CASES = (
    Case("--help", "help"),
    Case("status", goal_s=MANY_GOAL_S),
    Case("cluster list"),
    Case("broker list", "clusterList -n {namesrv}", MANY_GOAL_S),
    Case("broker show broker-a", "brokerStatus -n {namesrv} -b {broker}", MANY_GOAL_S),
    Case("topic list", "topicList -n {namesrv}", MANY_GOAL_S),
    Case("topic list --long", goal_s=MANY_GOAL_S),
    Case("topic list topic-0777*"),
    Case("topic route topic-00000", "topicRoute -n {namesrv} -t topic-00000"),
    Case("topic show topic-00000", "topicStatus -n {namesrv} -t topic-00000"),
    Case("topic create topic-00000 --broker broker-a --yes", "updateTopic -n {namesrv} -b {broker} -t topic-00000"),
    Case("controller status", "getControllerMetaData -a {controller}"),
    Case("controller sets broker-a", "getSyncStateSet -a {controller} -b broker-a"),
    Case("config get namesrv", "getNamesrvConfig -n {namesrv}"),
    Case("config get broker --at broker-a", "getBrokerConfig -n {namesrv} -b {broker}"),
    Case("kv put NS key value --yes", "updateKvConfig -n {namesrv} -s NS -k key -v value"),
    Case("kv list NS"),
    Case("history timeline broker-a"),
    Case("history route topic-00000"),
)


class CommandEnded(Exception):
    """A command has failed: it gave no answer to measure."""


class Site:
    """The servers, and how both commands are run against them."""

    def __init__(self, lab: Lab) -> None:
        folder = lab.folder
        self._folder = folder
        history = folder / "history"
        namesrv = lab.kept(OurNameServer(folder, "namesrv", historyDir=history)).start()
        controller = lab.kept(OurController(folder)).start()
        broker = lab.broker("broker-a", namesrv=[namesrv.address], **controller.broker_settings())
        _store_topics(broker.store / "config" / "topics.json")
        broker.start().ready()
        wait_until(lambda: registered(namesrv, broker), seconds=START_S, what="the broker is listed")
        self._places = {"namesrv": namesrv.address, "controller": controller.address, "broker": broker.address}
        own = {"NAMESRV_ADDR": namesrv.address, "RMQ_CONTROLLER": controller.address, "RMQ_HISTORY": str(history)}
        # What is late is measured, not cut off.
        self._environment = os.environ | own | {"RMQ_TIMEOUT": "60"}
        wait_until(self._is_complete, seconds=START_S, what="all topics are listed")

    def rmq(self, case: Case) -> list[str]:
        """Return the words of a command."""
        return [str(Path(sys.executable).with_name("rmq")), *case.rmq.split()]

    def mqadmin(self, case: Case) -> list[str]:
        """Return those of mqadmin's."""
        flags = [*MQADMIN_FLAGS, f"-Drmq.logback.configurationFile={SILENT}", f"-Duser.home={self._folder}"]
        main = ["-cp", class_path(V5_5), "org.apache.rocketmq.tools.command.MQAdminStartup"]
        return ["java", *flags, *main, *case.mqadmin.format(**self._places).split()]

    def runtime_info_s(self) -> float:
        """Return how long the broker takes to answer request 28, in seconds."""
        broker = Caller(self._places["broker"])
        began_s = time.perf_counter()
        answer = broker.request(RUNTIME_INFO)
        took_s = time.perf_counter() - began_s
        assert answer.code == SUCCESS, answer
        return took_s

    def run(self, words: Sequence[str]) -> float:
        """Return how long a command took, in seconds; one that fails is tried again, and ends the benchmark then."""
        try:
            return self._run(words)
        except CommandEnded as error:
            print(error, file=sys.stderr)
            return self._run(words)

    def _run(self, words: Sequence[str]) -> float:
        environment = self._environment | {"ROCKETMQ_HOME": str(self._folder)}
        began_s = time.perf_counter()
        done = subprocess.run(words, env=environment, cwd=self._folder, capture_output=True, text=True, check=False)
        took_s = time.perf_counter() - began_s
        # mqadmin exits with 0 whatever happens.
        if done.returncode or "Exception" in done.stdout + done.stderr:
            raise CommandEnded(f"{words}: {done.stdout[-500:]} {done.stderr[-1000:]}")
        return took_s

    def _is_complete(self) -> bool:
        words = self.rmq(Case("topic list topic-"))
        done = subprocess.run(words, env=self._environment, capture_output=True, text=True, check=False)
        return len(done.stdout.splitlines()) == TOPICS + 1


def _store_topics(file: Path) -> None:
    """Write what a broker that has the topics keeps of them."""
    topics = {
        name: {"topicName": name, "readQueueNums": 8, "writeQueueNums": 8, "perm": 6, "topicFilterType": "SINGLE_TAG"}
        for name in (f"topic-{number:05}" for number in range(TOPICS))
    }
    version = {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"dataVersion": version, "topicConfigTable": topics}))


def times(site: Site, case: Case, runs: int) -> tuple[list[float], list[float]]:
    """Return how long both took, run by run, in seconds; the first runs are left out."""
    ours, theirs = [], []
    site.run(site.rmq(case))
    if case.mqadmin:
        site.run(site.mqadmin(case))
    for number in range(runs):
        ours.append(site.run(site.rmq(case)))
        if case.mqadmin and number % TO_ONE == 0:
            theirs.append(site.run(site.mqadmin(case)))
    return ours, theirs


def section(runs: int) -> Iterator[str]:
    """Yield the lines of the page below its head."""
    yield f"{TOPICS} topics on one broker of {V5_5}, mqadmin of {V5_5}; {runs} runs of each command of `rmq`,"
    yield f"and after each {TO_ONE} of them one of mqadmin's."
    yield f"Goal: a median below {GOAL_S} s from the start of the process; {MANY_GOAL_S:.0f} s where all topics, or a"
    yield "broker that goes over all of them, are waited for."
    yield ""
    yield from table("rmq", "median, ms", "longest, ms", "mqadmin", "median, ms", "times as long", "reached")
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        try:
            site = Site(lab)
            for case in CASES:
                yield _row(case, *times(site, case, runs))
            own_s = statistics.median(site.runtime_info_s() for _ in range(runs))
            yield ""
            yield (
                f"The broker itself takes {own_s * 1000:.0f} ms, the median, to answer request 28, for which it goes "
                "over all topics: `status`, `broker list`, `broker show` and mqadmin's equivalents wait for that."
            )
        finally:
            lab.close()


def _row(case: Case, ours: list[float], theirs: list[float]) -> str:
    median_s = statistics.median(ours)
    other_s = statistics.median(theirs) if theirs else None
    command = case.mqadmin.replace("{", "").replace("}", "")
    return row(
        f"`rmq {case.rmq}`",
        f"**{median_s * 1000:.0f}**",
        f"{max(ours) * 1000:.0f}",
        f"`{command}`" if command else "",
        "" if other_s is None else f"{other_s * 1000:.0f}",
        "" if other_s is None else f"{other_s / median_s:.0f}",
        "yes" if median_s < case.goal_s else "no",
    )


def main() -> None:
    """Measure and keep, or only print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four runs of each, prints only")
    options = parser.parse_args()
    lines = []
    with Stolen() as stolen:
        for line in section(TO_ONE if options.quick else 20):
            print(line, flush=True)
            lines.append(line)
    busy = f"{stolen.percent:.1f} % of the machine's time was given to others by its host."
    print(busy)
    if not options.quick:
        head = ["# `rmq` beside mqadmin", "", taken(COMMAND), busy, ""]
        RESULTS.write_text("\n".join([*head, *lines]) + "\n")


if __name__ == "__main__":
    main()
