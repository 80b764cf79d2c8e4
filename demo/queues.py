"""Topics in use get more queues: by an operator, and by the autoscaler, which leaves alone what queues do not help."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from peers.controllers import OurController
from peers.lab import Lab
from peers.processes import Process
from peers.waiting import wait_until
from peers.wire import Caller
from resize_site import TOKEN, WAITS, ScalingClient

REPOSITORY: Final = Path(__file__).parents[1]
OPERATOR: Final = "the operator of the demo"
UPDATE_TOPIC: Final = 17
#: Topics of clusters on which other brokers fail could not be resized meanwhile.
CLUSTER: Final = "MarketCluster"

#: Resized by an operator.
BY_OPERATOR: Final = "Checkout"
#: Grown by the autoscaler.
BY_AUTOSCALER: Final = "Flashsale"
#: Its listeners are slow, and each of them has a queue.
IN_VAIN: Final = "Invoices"
TOPICS: Final = (BY_OPERATOR, BY_AUTOSCALER, IN_VAIN)
QUEUES: Final = 4
MORE_QUEUES: Final = 8

#: Each of the 20 threads of a consumer works so long on a message: a consumer manages 20 a second.
WORK_MS: Final = 1000
#: A producer sends a message each so many ms.
SEND_MS: Final = 20
#: Producers that come one after the other, and how long each of them is the newest.
RAMP_PRODUCERS: Final = 3
RAMP_S: Final = 12
#: Clients are known anew each minute; then three looks have to agree.
DECIDED_S: Final = 240
RESIZED_S: Final = 180
#: A resize of the autoscaler is watched for five minutes after its end.
WATCHED_S: Final = 600
LOOK_S: Final = 0.2
#: Samples on which A15 compares before and after: a minute counts with one of them.
SAMPLED_EACH_S: Final = 10
SAMPLES_BEFORE_S: Final = 15

STOPPED: Final = ("DONE", "ABORTED", "REJECTED", "CONFLICT", "BLOCKED")


class Resized(NamedTuple):
    """A resize that was done, and who wanted it."""

    operation_id: str
    topic: str
    by: str


class Market:
    """One broker with three topics, their clients, and an operator of the controller."""

    def __init__(self, lab: Lab, controller: OurController, namesrvs: list[str], history: Path) -> None:
        self._lab = lab
        self._namesrvs = namesrvs
        self._history = history
        self._operator = ScalingClient(controller)
        self.broker = lab.broker("market", namesrv=namesrvs, brokerClusterName=CLUSTER)
        self.resized: list[Resized] = []
        self._sampler: Process | None = None

    def begin(self) -> None:
        """Make the topics, start clients and a sampler, and put the policies in force."""
        for topic in TOPICS:
            self._make_topic(topic)
        self._traffic = self._lab.traffic("market-clients", namesrv=self._namesrvs)
        self._consume(BY_OPERATOR, consumers=2, work_ms=0)
        self._consume(BY_AUTOSCALER, consumers=MORE_QUEUES, work_ms=WORK_MS)
        self._consume(IN_VAIN, consumers=2, work_ms=WORK_MS)
        for topic in TOPICS:
            self._traffic.send(f"{topic}-producer-0", topic=topic, interval_ms=SEND_MS)
        self._sampler = self._lab.kept(_Sampler(self._sampling())).process
        self._operator.ready()
        limits = {"min": QUEUES, "max": MORE_QUEUES, "window": "15s", "behind": "2s", "cooldown": "1m", "mode": "auto"}
        self._call("PUT", "policies", {"policy": [limits | {"topic": each} for each in (BY_AUTOSCALER, IN_VAIN)]})

    def stop_sampler(self) -> None:
        """End the sampler in order, so that what it has recorded is sealed."""
        if self._sampler is not None and self._sampler.running:
            self._sampler.stop()

    def resize(self, report: Callable[[str], None]) -> None:
        """Have an operator resize a topic, and report plan and phases."""
        time.sleep(SAMPLES_BEFORE_S)
        wanted = {"topic": BY_OPERATOR, "queues": MORE_QUEUES, "waits": WAITS, "reason": "more consumers come"}
        plan = self._call("POST", "plan", wanted)
        problems = "; ".join(plan["problems"]) or "nothing is in the way"
        report(
            f"plan: {plan['kind']} {BY_OPERATOR} to {MORE_QUEUES} queues, at least {plan['atLeastMs']} ms; {problems}"
        )
        for step in plan["steps"]:
            report(f"  {step['phase']}: {step['text']}")
        started = self._call("POST", "operations", wanted | {"requestedBy": OPERATOR})
        report(f"started: {started['id']}")
        self._follow(started["id"], report, RESIZED_S)
        self.resized.append(Resized(started["id"], BY_OPERATOR, OPERATOR))

    def grow_by_itself(self, report: Callable[[str], None]) -> None:
        """Send more and more to a topic whose consumers lack queues, until the autoscaler has grown it."""
        for number in range(1, RAMP_PRODUCERS):
            rate = (number + 1) * 1000 // SEND_MS
            report(f"{rate} messages/s to {BY_AUTOSCALER}: {MORE_QUEUES} consumers, {QUEUES} queues")
            self._traffic.send(f"{BY_AUTOSCALER}-producer-{number}", topic=BY_AUTOSCALER, interval_ms=SEND_MS)
            time.sleep(RAMP_S)
        operation = wait_until(
            lambda: self._operation_of(BY_AUTOSCALER),
            seconds=DECIDED_S,
            what=lambda: f"a resize by the autoscaler, not {self._decision(BY_AUTOSCALER)}",
        )
        report(f"the autoscaler grows {BY_AUTOSCALER}: {operation['reason']}")
        self.resized.append(Resized(operation["id"], BY_AUTOSCALER, "autoscaler"))
        wait_until(
            lambda: any(each["phase"] == "WRITE_UP" for each in self._operation(operation["id"])["steps"]),
            seconds=RESIZED_S,
            what="more write queues",
        )
        report(f"{BY_AUTOSCALER} has {MORE_QUEUES} queues, and is watched for five minutes")
        decision = wait_until(
            self._refusal, seconds=DECIDED_S, what=lambda: f"slow_listener, not {self._decision(IN_VAIN)}"
        )
        report(f"the autoscaler leaves {IN_VAIN} as it is: {decision['reason']}; {decision['findings'][0]['effect']}")

    def end(self, report: Callable[[str], None]) -> None:
        """Wait until the resize of the autoscaler is done, and report how often the slow topic was resized."""
        for each in self.resized:
            if each.topic == BY_AUTOSCALER:
                self._follow(each.operation_id, report, WATCHED_S)
        report(f"{IN_VAIN} was resized {self._resizes_of(IN_VAIN)} times")

    def _follow(self, operation_id: str, report: Callable[[str], None], seconds: int) -> None:
        """Report each phase when it has ended, until the resize is done."""
        shown = 0

        def done() -> dict[str, Any] | None:
            nonlocal shown
            operation = self._operation(operation_id)
            for step in operation["steps"][shown:]:
                took = (step["endedUnixMs"] - step["beganUnixMs"]) / 1000
                report(f"  {step['phase']} took {took:.1f} s: {step['evidence'][0] if step['evidence'] else 'done'}")
            shown = len(operation["steps"])
            assert operation["phase"] not in STOPPED or operation["phase"] == "DONE", operation
            time.sleep(LOOK_S)
            return operation if operation["phase"] == "DONE" else None

        operation = wait_until(done, seconds=seconds, what=lambda: f"DONE: {self._operation(operation_id)}")
        took_s = (operation["phaseSinceUnixMs"] - operation["createdUnixMs"]) / 1000
        report(f"DONE: {operation['topic']} has {MORE_QUEUES} queues, after {took_s:.0f} s")

    def _refusal(self) -> dict[str, Any] | None:
        """Return the decision on the topic of the slow listeners, once it names them."""
        found = self._decision(IN_VAIN)
        return found if found and [each["kind"] for each in found["findings"]] == ["slow_listener"] else None

    def _decision(self, topic: str) -> dict[str, Any] | None:
        found: list[dict[str, Any]] = self._call("GET", f"decisions?prefix={topic}")["decisions"]
        return found[0] if found else None

    def _operation_of(self, topic: str) -> dict[str, Any] | None:
        found: list[dict[str, Any]] = self._call("GET", f"operations?prefix={topic}")["operations"]
        return found[0] if found else None

    def _resizes_of(self, topic: str) -> int:
        return int(self._call("GET", f"operations?prefix={topic}")["total"])

    def _operation(self, operation_id: str) -> dict[str, Any]:
        return self._call("GET", f"operations/{operation_id}")

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        status, answer = self._operator.call(method, path, body)
        assert status in (200, 201), answer
        found: dict[str, Any] = answer
        return found

    def _make_topic(self, topic: str) -> None:
        fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES)}
        fields |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        Caller(self.broker.address).request(UPDATE_TOPIC, fields)
        for namesrv in map(Caller, self._namesrvs):
            wait_until(lambda its=namesrv: its.route(topic), seconds=RESIZED_S, what=f"the route of {topic}")

    def _consume(self, topic: str, *, consumers: int, work_ms: int) -> None:
        for number in range(consumers):
            named = {"topic": topic, "group": f"{topic}-readers", "kind": "push", "from_": "FIRST_OFFSET"}
            self._traffic.receive(f"{topic}-reader-{number}", work_ms=work_ms, persist_ms=500, **named)

    def _sampling(self) -> Process:
        command = [
            sys.executable,
            "-m",
            "rmq",
            "sample",
            "--namesrv",
            ";".join(self._namesrvs),
            "--topics",
            ",".join(TOPICS),
        ]
        command += ["--history", str(self._history), "--interval", str(SAMPLED_EACH_S)]
        env = os.environ | {"PYTHONPATH": str(REPOSITORY)}
        return Process("sampler", command, folder=self._lab.folder / "sampler", env=env)


class _Sampler(NamedTuple):
    """What the lab ends."""

    process: Process


def controller_settings(folder: Path, namesrvs: list[str]) -> dict[str, Any]:
    """Return the settings of a controller that scales queues."""
    token = folder / "token"
    token.write_text(f"{TOKEN}\n")
    return {"namesrvAddr": ";".join(namesrvs), "httpAdminTokenFile": token, "scalingIntervalMs": 5000}
