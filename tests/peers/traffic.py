"""Java producers and consumers of one RocketMQ version in one JVM, which a test adds and ends one by one.

    traffic = lab.traffic("traffic", version=V5_1, namesrv=[namesrv.address])
    traffic.receive("c1", topic="T", group="g", kind="push")
    traffic.send("p1", topic="T", interval_ms=5)
    traffic.wait_for_acknowledged(1000, producer="p1")
    traffic.kill("c1")
    traffic.stop("p1")
    traffic.wait_until_consumed(["g"])
    assert not traffic.verdict(["g"])["g"].missing

Several of them are judged together by `delivery.verdict` of their records, the consumed ones sorted by time.
A producer that shall not see new routes gets `namesrv=[way.endpoint]` of a `peers.etcd.Way`, and the test holds that.
"""

import itertools
import threading
from collections import defaultdict

from peers.clients import POLL_MS, REBALANCE_FLAG
from peers.delivery import by_client, records_in, verdict
from peers.jars import V5_5
from peers.java import start_java
from peers.waiting import wait_until

COMMAND_S = 60


class Traffic:
    """Clients by name; what they have sent and received stays readable after they and the JVM have ended."""

    def __init__(self, folder, name="traffic", *, namesrv, version=V5_5, flags=(), heap="-Xmx192m"):
        self._namesrv = namesrv
        self._records = folder / f"{name}.records"
        self._records.touch()
        arguments = ["--records", str(self._records)]
        flags = [REBALANCE_FLAG, *flags]
        self.process = start_java(name, version, "Traffic", arguments, folder=folder, flags=flags, heap=heap)
        self._numbers = itertools.count()
        #: Tests that run at the same time may read.
        self._reading = threading.Lock()
        self._read_to = 0
        #: By producer and by group, the topic; a test may use several, each group one.
        self._topic_of = {}
        self._sent = defaultdict(set)
        self._got = defaultdict(set)
        #: Everything recorded up to the last call of `read`, each in the order of time.
        self.acknowledged, self.unacknowledged, self.consumed = [], [], []

    def send(self, name, *, topic, **options):
        """Start a producer; `options` are those of TrafficSender.java, with underscores. Return its client id."""
        self._topic_of[name] = topic
        return self._start("send", name, {"topic": topic} | options)

    def receive(self, name, *, topic, group, kind, **options):
        """Start a consumer: `kind` is push, orderly, broadcast, lite, assign or pop. Return its client id.

        `options` are those of TrafficReceiver.java, with underscores. A consumer begins at the end of a queue for which
        its group has no offset unless `from_` is FIRST_OFFSET.
        """
        self._topic_of[group] = topic
        return self._start("receive", name, {"topic": topic, "group": group, "kind": kind} | options)

    def finish(self, name):
        """Wait until a producer that was started with `count` has sent that many, and end it."""
        self._run("finish", name)

    def stop(self, name):
        """End a client in order: a consumer commits its offsets and leaves its group."""
        self._run("stop", name)

    def kill(self, name):
        """End a client as the system does with a killed process: its connections close, and no more."""
        self._run("kill", name)

    def read(self):
        """Read what was recorded since the last call; return self."""
        with self._reading:
            self._read_more()
        return self

    def _read_more(self):
        with self._records.open("rb") as file:
            file.seek(self._read_to)
            text, ending, _ = file.read().rpartition(b"\n")
        self._read_to += len(text) + len(ending)
        acknowledged, unacknowledged, consumed = records_in(text.decode().splitlines())
        self.acknowledged += acknowledged
        self.unacknowledged += unacknowledged
        self.consumed += consumed
        for each in acknowledged:
            self._sent[each.producer].add(each.message)
        for each in (*consumed, *by_client(consumed)):
            self._got[each.group].add(each.message)

    def verdict(self, groups):
        """Judge what was sent to the topic of each group, see `delivery.verdict`; GROUP/CLIENT is one client alone."""
        self.read()
        deliveries = {}
        for group in groups:
            producers = self._producers_for(group)
            acknowledged = [each for each in self.acknowledged if each.producer in producers]
            name, _, client = group.partition("/")
            consumed = [each for each in self.consumed if each.group == name]
            deliveries |= verdict(acknowledged, by_client(consumed) if client else consumed, [group])
        return deliveries

    def missing(self, groups):
        """Return how many acknowledged messages each of `groups` has not got so far; none that has got all."""
        self.read()
        sent = {group: set().union(*map(self._sent.__getitem__, self._producers_for(group))) for group in groups}
        counts = {group: len(sent[group] - self._got[group]) for group in groups}
        return {group: count for group, count in counts.items() if count}

    def wait_for_acknowledged(self, count, *, producer, seconds=60):
        """Wait until so many messages more of `producer` were acknowledged."""
        enough = len(self.read()._sent[producer]) + count
        wait_until(
            lambda: len(self.read()._sent[producer]) >= enough,
            seconds=seconds,
            what=f"{count} messages more acknowledged",
        )
        return self

    def wait_until_consumed(self, groups, *, seconds=60):
        """Wait until each of `groups` has got every message acknowledged so far."""
        wait_until(
            lambda: not self.missing(groups),
            seconds=seconds,
            what=lambda: f"all consumed, missing {self.missing(groups)}",
        )
        return self

    def _producers_for(self, group):
        topic = self._topic_of[group.split("/")[0]]
        return {name for name in self._sent if self._topic_of[name] == topic}

    def _start(self, command, name, options):
        words = {key.rstrip("_").replace("_", "-"): value for key, value in options.items()}
        words = {"namesrv": self._namesrv, "poll-ms": POLL_MS} | words
        words["namesrv"] = ";".join(words["namesrv"])
        return self._run(command, name, *itertools.chain(*((f"--{key}", value) for key, value in words.items())))

    def _run(self, *words):
        number = next(self._numbers)
        position = self.process.position()
        self.process.write_line("\t".join(map(str, words)))
        pattern = rf"^(DONE|REFUSED) {number} (.*)$"
        answer = self.process.wait_for(pattern, seconds=COMMAND_S, position=position)
        assert answer[1] == "DONE", f"{words}: {answer[2]}"
        return answer[2]
