"""Twenty topics at once are resized up and down again and again under load while controllers are killed."""

import contextlib
import random
import time

import pytest
from measured import note
from peers.etcd import running_etcd
from peers.jars import V5_5
from peers.lab import Lab
from repeated_kills import RepeatedKills
from resize_site import LOOK_S, ResizeSite, ScalingClient, described

pytestmark = [pytest.mark.java, pytest.mark.etcd]

QUEUES = (2, 17)
#: Between two kills.
KILLED_EACH_S = (4.0, 12.0)
#: No resize of these may be in one phase for so long, whatever is killed.
STUCK_S = 300


class Resizes:
    """Resizes topics in turn, each to a random number of queues, until so many are done."""

    def __init__(self, client, topics, *, count, chosen):
        self._client = client
        self._chosen = chosen
        self._left = count
        self.queues = dict.fromkeys(topics, 8)
        self.operations = {}
        #: By topic: the phase of its resize, and since when it was seen.
        self._phases = {}
        self.done = []

    def run(self):
        """Resize until nothing is left to be done; fail if one stops or does not end."""
        while self._left or self.operations:
            for topic in self.queues:
                self._look_at(topic)
            time.sleep(LOOK_S)

    def _look_at(self, topic):
        if topic in self.operations:
            self._see_whether_it_has_ended(topic)
        elif self._left:
            self._start(topic)

    def _start(self, topic):
        wanted = self._chosen.choice([each for each in range(*QUEUES) if each != self.queues[topic]])
        status, body = self._client.request(topic, wanted)
        if status in {0, 503, 409}:
            # No controller answers or leads; the next look tries again. One that was stored is found by its topic.
            self._adopt(topic)
            return
        assert status == 201, (topic, wanted, body)
        self._note_start(topic, body)

    def _adopt(self, topic):
        status, body = self._client.call("GET", f"operations?prefix={topic}")
        if status != 200:
            return
        mine = (each for each in body["operations"] if each["topic"] == topic and not is_ended(each))
        if (operation := next(mine, None)) is not None:
            self._note_start(topic, operation)

    def _note_start(self, topic, operation):
        self.operations[topic] = operation["id"]
        self._phases[topic] = operation["phase"], time.perf_counter()
        self.queues[topic] = operation["sets"][0]["target"]
        self._left -= 1

    def _see_whether_it_has_ended(self, topic):
        operation = self._client.operation(self.operations[topic])
        if operation is not None and is_ended(operation):
            assert operation["phase"] == "DONE", described(operation)
            self.done.append(operation)
            del self.operations[topic]
            return
        phase, since = self._phases[topic]
        if operation is not None and operation["phase"] != phase:
            self._phases[topic] = operation["phase"], time.perf_counter()
            return
        assert time.perf_counter() - since < STUCK_S, described(operation)


def is_ended(operation):
    return operation["phase"] in {"DONE", "ABORTED", "REJECTED"}


def resize_many(site, controllers, *, topics, resizes):
    """Resize topics under load until so many resizes are done, and check what was lost."""
    seed = random.randrange(2**32)
    chosen = random.Random(seed)
    client, traffic = ScalingClient(*controllers).ready(), site.traffic
    names = [site.make_topic(f"Many-{number}", 8) for number in range(topics)]
    groups = [site.consume(each, "push", from_="FIRST_OFFSET", persist_ms=1000) for each in names]
    for each in names:
        traffic.send(each, topic=each, interval_ms=50)
    began = time.perf_counter()
    many = Resizes(client, names, count=resizes, chosen=chosen)
    with RepeatedKills(controllers, random.Random(seed + 1), between_s=KILLED_EACH_S) as kills:
        many.run()
    took = time.perf_counter() - began
    for each in names:
        traffic.stop(each)
    traffic.wait_until_consumed(groups, seconds=120)

    verdicts = traffic.verdict(groups)
    lost = sum(len(each.missing) for each in verdicts.values())
    reopened = sum(each["reopened"] for each in many.done)
    refused = len(traffic.unacknowledged)
    note(
        "many resizes",
        len(controllers),
        f"{len(many.done)} resizes of {topics} topics in {took:.0f} s, {kills.count} kills of {len(controllers)} "
        f"controllers, {len(traffic.acknowledged)} messages acknowledged, {refused} not, {lost} lost, "
        f"{reopened} queues reopened, seed {seed}",
    )
    assert kills.count
    assert lost == 0
    for topic, queues in many.queues.items():
        assert site.is_everywhere(topic, queues), topic
    status, listed = client.call("GET", "operations?limit=1000")
    assert status == 200
    assert [each["id"] for each in listed["operations"] if not is_ended(each)] == []


@contextlib.contextmanager
def own_site(folder):
    with contextlib.closing(ResizeSite(Lab(folder), V5_5)) as site:
        yield site


@contextlib.contextmanager
def two_controllers(site, folder):
    """Two controllers that share an etcd."""
    with running_etcd(folder / "etcd") as etcd:
        shared = {"controllerStore": "etcd", "etcdEndpoints": ";".join(etcd.endpoints), "controllerGroup": "many"}
        controllers = [site.new_controller(name, controllerId=name, **shared) for name in ("many-0", "many-1")]
        try:
            yield controllers
        finally:
            for each in controllers:
                each.process.kill()


@pytest.mark.soak
@pytest.mark.parametrize(
    "resizes", [pytest.param(100, marks=pytest.mark.timeout(900)), pytest.param(1000, marks=pytest.mark.timeout(7200))]
)
def test_many_resizes_lose_nothing_while_the_controller_is_killed(tmp_path, resizes):
    with own_site(tmp_path) as own:
        resize_many(own, [own.controller], topics=20, resizes=resizes)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_many_resizes_lose_nothing_while_the_leader_of_an_etcd_is_killed(tmp_path):
    with own_site(tmp_path) as own, two_controllers(own, tmp_path) as controllers:
        resize_many(own, controllers, topics=20, resizes=100)
