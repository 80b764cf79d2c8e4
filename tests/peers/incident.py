"""An incident with real brokers of which every moment is known: what was done, and what was served meanwhile.

    PYTHONPATH=.:tests python -m peers.incident FOLDER     (JDK 17 and Maven; two minutes and a half)

Two NameServers that record, a controller, a set of two brokers in controller mode and one broker alone, all with the
periods that brokers come with. FOLDER gets the rows (`history`) and `truth.json`: the steps and, from route queries
twenty times a second, the route that each NameServer returned for the topic. All times are Unix seconds of this
machine's clock.
"""

import contextlib
import json
import re
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from peers.controllers import OurController
from peers.lab import Lab
from peers.servers import registered
from peers.waiting import wait_until
from peers.wire import SUCCESS, Caller, addresses_in, brokers_in
from remoting.clock import SystemClock

TRUTH = "truth.json"
TOPIC = "orders"
SET = "pair"
LONE = "lone"
UPDATE_TOPIC = 17

#: The period that brokers have by default; the others are not configured.
REGISTRATION_PERIOD_MS = 30_000
STOPPED_S = 40
DOWN_S = 30
#: The stop begins so long after a registration: with STOPPED_S two periods, so that one is missed, however one counts.
SILENT_S = 22
LAST_HEARTBEAT = "rocketmq_namesrv_broker_last_heartbeat_timestamp_seconds"
#: Between the death of the master and its next start.
DEAD_S = 3
QUEUES = (4, 8)
QUERY_EACH_S = 0.05
READY_S = 180
#: A registration outside the period, as when a topic changes, is long past when the broker dies: the analyses
#: must not go by it.
QUIET_S = 8
#: How often it is tried how late the machine lets somebody run who has waited.
TRIED_EACH_S = 0.01
#: So late everybody is now and then.
LATE_S = 0.02
#: Between the end of one fault and the next: whoever comes back registers at once.
SETTLED_S = 2


def now():
    return SystemClock().unix_us() / 1e6


class Witness:
    """Sends one NameServer route queries of the topic, and keeps each change of the response."""

    def __init__(self, server):
        self._server = server
        self._over = threading.Event()
        #: Each route, from when until when it was returned, and how often. It changed after the last query of one spell
        #: was sent and before the first query of the next was answered.
        self.spells = []
        self._thread = threading.Thread(target=self._query_routes, daemon=True)

    def start(self):
        self._thread.start()
        return self

    def stop(self):
        self._over.set()
        self._thread.join()

    def _query_routes(self):
        while not self._over.wait(QUERY_EACH_S):
            sent = now()
            route = self._route()
            answered = now()
            if not self.spells or self.spells[-1]["route"] != route:
                self.spells.append({"route": route, "first_sent": sent, "first_answered": answered, "answers": 0})
            self.spells[-1] |= {"last_sent": sent, "last_answered": answered}
            self.spells[-1]["answers"] += 1

    def _route(self):
        """Return broker name -> address of the master, "" for none; or why there is no route."""
        try:
            answer = self._server.caller.request(105, {"topic": TOPIC})
        except OSError:
            return "unreachable"
        if answer.code != SUCCESS:
            return f"code {answer.code}"
        route = answer.json
        return {name: addresses_in(route, name).get("0", "") for name in sorted(brokers_in(route))}


class Lateness:
    """Notes how much later than it wanted to a thread ran: of that no server is the cause.

    It is a process of its own, whose threads nobody else holds up.
    """

    def __init__(self, folder):
        self._file = folder / "late.json"
        self._process = None

    def start(self):
        command = [sys.executable, "-c", _LATE, str(self._file), str(TRIED_EACH_S), str(LATE_S)]
        self._process = subprocess.Popen(command)
        return self

    def stop(self):
        """Return when it ran too late, in Unix seconds, and by how many."""
        self.close()
        return json.loads(self._file.read_text())

    def close(self):
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


_LATE = """
import json, signal, sys, time
file, each_s, late_s = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
found = []
def end(*_):
    open(file, "w").write(json.dumps(found))
    sys.exit()
signal.signal(signal.SIGTERM, end)
while True:
    before = time.monotonic()
    time.sleep(each_s)
    late = time.monotonic() - before - each_s
    if late > late_s:
        found.append((time.time(), late))
"""


class Incident:
    """The cluster, and what is done to it."""

    def __init__(self, folder):
        self.folder = folder
        self.history = folder / "history"
        self.steps = []
        self._lab = Lab(folder / "servers")
        self.namesrvs = [
            self._lab.name_server(name, http=True, historyDir=self.history) for name in ("namesrv-1", "namesrv-2")
        ]
        self.controller = self._lab.kept(OurController(self._lab.folder, historyDir=self.history)).start()
        addresses = [each.address for each in self.namesrvs]
        usual = {"registerNameServerPeriod": REGISTRATION_PERIOD_MS}
        self.pair = [
            self._lab.broker(
                SET, namesrv=addresses, label=f"{SET}-{number}", **(self.controller.broker_settings() | usual)
            )
            for number in range(2)
        ]
        self.lone = self._lab.broker(LONE, namesrv=addresses, **usual)
        self._witnesses = [Witness(each) for each in self.namesrvs]
        self._lateness = Lateness(folder)
        self._late = []

    def play(self):
        """Do everything, one fault after the other but where they cannot disturb each other."""
        with self._step("brokers started"):
            self._start(self.lone)
            self._start(*self.pair)
        for queues, what in zip(QUEUES, ("topic created", "topic grown"), strict=True):
            with self._step(what, queues=queues):
                self._update_topic(queues)
        self._lateness.start()
        for witness in self._witnesses:
            witness.start()
        # Registrations because of changed topics have arrived by now.
        stopping = threading.Thread(target=self._stop_the_lone_one, args=(now(),))
        stopping.start()
        self._kill_the_master()
        stopping.join()
        time.sleep(SETTLED_S)
        self._kill_a_name_server()
        # The witnesses have to see that the cold one is warm.
        time.sleep(SETTLED_S)
        self._lone_one_leaves()
        time.sleep(SETTLED_S)
        self._end()

    def truth(self):
        """Return the steps, who was there, and what was served."""
        return {
            "namesrvs": {each.name: each.address for each in self.namesrvs},
            "controller": self.controller.address,
            "brokers": {each.label: each.address for each in (*self.pair, self.lone)},
            "steps": self.steps,
            "late": self._late,
            "served": {its.name: each.spells for its, each in zip(self.namesrvs, self._witnesses, strict=True)},
        }

    def close(self):
        self._lateness.close()
        self._lab.close()

    def master_of_pair(self):
        """Return who leads the set, once both of its brokers are in sync."""

        def settled():
            state = self.controller.set_state(SET)
            if state is None or state.master is None or len(state.in_sync) != len(self.pair):
                return None
            address = state.addresses[state.master]
            return next(each for each in self.pair if each.address == address)

        return wait_until(settled, seconds=READY_S, what=f"a master and a whole SyncStateSet of {SET}")

    def _kill_the_master(self):
        master = self.master_of_pair()
        (slave,) = (each for each in self.pair if each is not master)
        with self._step("slave copies the topic", broker=SET, address=slave.address):
            wait_until(lambda: TOPIC in slave.stored_topics(), seconds=READY_S, what=f"{TOPIC} on the slave")
            time.sleep(QUIET_S)
        with self._step("master killed", broker=SET, address=master.address):
            master.process.kill()
        time.sleep(DEAD_S)
        with self._step("killed master started again", broker=SET, address=master.address):
            self._start(master)
        with self._step("killed master in sync again", broker=SET, address=master.address):
            self.master_of_pair()

    def _stop_the_lone_one(self, since):
        """Stop it so long after a registration of its own time that one is due, and none comes, however one counts."""

        def is_old():
            heartbeats_s = [self._last_heartbeat_s(server) for server in self.namesrvs]
            return min(heartbeats_s) > since and now() - max(heartbeats_s) > SILENT_S

        wait_until(is_old, seconds=READY_S, what=f"a registration of {LONE} that is old")
        with self._step("lone broker stopped", broker=LONE, address=self.lone.address):
            self.lone.process.pause()
            time.sleep(STOPPED_S)
            self.lone.process.resume()

    @staticmethod
    def _last_heartbeat_s(server):
        """Return when a NameServer received the last heartbeat of the broker without a slave, in Unix seconds."""
        with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return float(re.search(rf'^{LAST_HEARTBEAT}{{[^}}]*broker="{LONE}"[^}}]*}} (\S+)$', text, re.MULTILINE)[1])

    def _kill_a_name_server(self):
        server = self.namesrvs[1]
        with self._step("NameServer killed", server=server.name):
            server.process.kill()
            time.sleep(DOWN_S)
        with self._step("NameServer started again", server=server.name):
            server.start()
        with self._step("NameServer cold", server=server.name):
            self._wait_for_all(*self.pair, self.lone)

    def _lone_one_leaves(self):
        with self._step("lone broker stopped in order", broker=LONE, address=self.lone.address):
            # It says good-bye at once, and takes ten seconds more to leave.
            self.lone.process.terminate()
            for server in self.namesrvs:
                wait_until(
                    lambda at=server: not registered(at, self.lone), seconds=READY_S, what=f"no {LONE} at {server.name}"
                )

    def _update_topic(self, queues):
        """Tell the masters, as mqadmin's updateTopic -c does."""
        fields = {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues}
        fields |= {"perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
        for broker in (self.master_of_pair(), self.lone):
            answer = Caller(broker.address).request(UPDATE_TOPIC, {key: str(value) for key, value in fields.items()})
            assert answer.code == SUCCESS, answer
        for server in self.namesrvs:
            wait_until(lambda at=server: self._grown(at, queues), seconds=READY_S, what=f"{queues} queues each")

    @staticmethod
    def _grown(server, queues):
        route = server.caller.route(TOPIC)
        return route and {each["brokerName"]: each["readQueueNums"] for each in route["queueDatas"]} == {
            SET: queues,
            LONE: queues,
        }

    def _start(self, *brokers):
        for broker in brokers:
            broker.start()
        for broker in brokers:
            broker.ready()
        self._wait_for_all(*brokers)

    def _wait_for_all(self, *brokers):
        for server in self.namesrvs:
            wait_until(lambda at=server: registered(at, *brokers), seconds=READY_S, what=f"brokers at {server.name}")

    def _end(self):
        """Stop the servers before the brokers: that these are thrown away afterwards is no part of the history."""
        for witness in self._witnesses:
            witness.stop()
        self._late = self._lateness.stop()
        with self._step("servers stopped"):
            assert [each.process.stop() for each in (self.controller, *self.namesrvs)] == [0, 0, 0]

    @contextlib.contextmanager
    def _step(self, what, **about):
        began = now()
        yield
        self.steps.append({"what": what, "began": began, "ended": now()} | about)
        print(f"{self.steps[-1]}", flush=True)  # noqa: T201  # whoever runs it sees how far it is


class Truth:
    """What was done and what was served meanwhile, as `record` wrote it."""

    def __init__(self, folder):
        self.history = folder / "history"
        self._truth = json.loads((folder / TRUTH).read_text())
        self.brokers = self._truth["brokers"]
        #: Name -> port, by which servers call themselves in their rows.
        self.ports = {name: address.rpartition(":")[2] for name, address in self._truth["namesrvs"].items()}

    def step(self, what):
        """Return when something was done: began, ended."""
        (found,) = (each for each in self._truth["steps"] if each["what"] == what)
        return found["began"], found["ended"]

    def dead_master(self):
        (found,) = (each["address"] for each in self._truth["steps"] if each["what"] == "master killed")
        return found

    def master_of_set(self, route):
        """Return whom a NameServer named as the master of the set, None for nobody."""
        return route.get(SET) if isinstance(route, dict) else None

    def since(self, server, holds, after):
        """Return between which moments a NameServer began to say something of which `holds` is true."""
        before = None
        for spell in self._truth["served"][server]:
            if spell["first_answered"] > after and holds(spell["route"]):
                return max(after, before["last_sent"] if before else after), spell["first_answered"]
            before = spell
        raise AssertionError(f"{server} never did: {self._truth['served'][server]}")

    def late_s(self, from_s, to_s):
        """Return by how much the machine let somebody run late in a time, at most."""
        return max((late for at, late in self._truth["late"] if from_s <= at - late and at <= to_s + late), default=0)

    def answers(self, server, route):
        """Return how often a NameServer returned this route."""
        return sum(spell["answers"] for spell in self._truth["served"][server] if spell["route"] == route)


def record(folder):
    """Play the incident in a folder, and return the truth about it."""
    with contextlib.closing(Incident(folder)) as incident:
        incident.play()
        (folder / TRUTH).write_text(json.dumps(incident.truth(), indent=1))
    return Truth(folder)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
