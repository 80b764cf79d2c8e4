"""Two real broker sets, two NameServers, a controller and Java clients: where tests resize topics under load."""

import json
import time
import urllib.error
import urllib.request

from peers.controllers import OurController
from peers.jars import V4_9
from peers.servers import registered
from peers.waiting import wait_until
from peers.wire import GET_KV_CONFIG, GET_MAX_OFFSET, PUT_KV_CONFIG, SUCCESS, Caller

from remoting.protocol.object_keys import with_quoted_keys

UPDATE_TOPIC = 17
GET_ALL_TOPIC_CONFIG = 21
GET_BROKER_RUNTIME_INFO = 28
GET_RUNNING_INFO = 307
SET_REQUEST_MODE = 401

TOKEN = "0123456789abcdef-of-the-tests"
#: Clients of these tests query routes and share out queues each second.
WAITS = {
    "producersMs": 3000,
    "stableMs": 2000,
    "confirmMs": 1000,
    "watchMs": 2000,
    "grownWatchMs": 1000,
    "assignMs": 60_000,
    "popMs": 6000,
    "processMs": 2000,
}
#: Level 1 is over before a shrink has closed its queues, level 2 is not.
DELAYS = "6s 25s"
#: How long a popped message is its consumer's own: the shortest that clients accept.
INVISIBLE_MS = 5000
#: Between two looks at an operation: each costs the controller some milliseconds.
LOOK_S = 0.1
#: Of a resize with the waits above, on a machine that others use as well.
RESIZED_S = 120
#: Phases of a resize that nothing hinders.
GROWN = ["PLANNED", "PRECHECK", "SEED", "READ_UP", "ASSIGN", "WRITE_UP", "VERIFY"]
SHRUNK = ["PLANNED", "PRECHECK", "WRITE_DOWN", "QUIESCE", "LATE", "DRAIN", "CONFIRM", "READ_DOWN", "WATCH"]
STOPPED = ("DONE", "ABORTED", "REJECTED", "CONFLICT", "BLOCKED")


class ScalingClient:
    """Requests of an operator to the leader of some controllers."""

    def __init__(self, *controllers):
        self.controllers = list(controllers)

    def call(self, method, path, body=None, *, token=TOKEN):
        """Send a request and return the status and what the body holds."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        data = None if body is None else json.dumps(body).encode()
        refused = (0, None)
        for controller in self.controllers:
            url = f"http://127.0.0.1:{controller.http_port}/v1/scaling/{path}"
            request = urllib.request.Request(url, method=method, data=data, headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return answer.status, json.loads(answer.read())
            except urllib.error.HTTPError as error:
                refused = error.code, json.loads(error.read())
            except OSError:
                continue
        return refused

    def start(self, topic, queues, *, waits=None, **request):
        """Start a resize and return its id."""
        status, body = self.request(topic, queues, waits=waits, **request)
        assert status == 201, body
        return body["id"]

    def request(self, topic, queues, *, waits=None, **request):
        """Request a resize; return the status and the body."""
        body = {"topic": topic, "queues": queues, "waits": WAITS | (waits or {}), "reason": "test"}
        return self.call("POST", "operations", body | request)

    def command(self, operation_id, name, body=None):
        """Send abort, resume or waive; return the status and the operation."""
        return self.call("POST", f"operations/{operation_id}/{name}", body or {})

    def operation(self, operation_id):
        """Return an operation, None while nobody answers."""
        status, body = self.call("GET", f"operations/{operation_id}")
        return body if status == 200 else None

    def ready(self):
        """Wait until one of the controllers leads and has loaded its operations; return this client."""
        wait_until(lambda: self.call("GET", "operations")[0] == 200, seconds=60, what="a controller leads")
        return self

    def wait_for_phase(self, operation_id, *phases, seconds=RESIZED_S):
        """Return the operation once it is in one of these phases; fail if it stops in another one."""
        return self._wait_for(operation_id, phases, STOPPED, seconds)

    def _wait_for(self, operation_id, phases, stopped, seconds):
        last = None

        def entered():
            nonlocal last
            last = self.operation(operation_id) or last
            if last is None or last["phase"] in phases:
                return last
            assert last["phase"] not in stopped, described(last)
            time.sleep(LOOK_S)
            return None

        return wait_until(entered, seconds=seconds, what=lambda: f"{phases}, not {described(last)}")

    def wait_for_waiting(self, operation_id, phase):
        """Return the operation once it is in this phase and says what it waits for."""
        while not (operation := self.wait_for_phase(operation_id, phase))["waitsFor"]:
            time.sleep(LOOK_S)
        return operation

    def wait_until_done_after_block(self, operation_id):
        """Return the operation once it is DONE; it may still be blocked or in a conflict when this is called."""
        return self._wait_for(operation_id, ("DONE",), ("ABORTED", "REJECTED"), RESIZED_S)

    def wait_until_aborted(self, operation_id):
        """Return the operation once it is ABORTED; it may be blocked or in a conflict when this is called."""
        return self._wait_for(operation_id, ("ABORTED",), ("DONE", "REJECTED"), RESIZED_S)

    def wait_until_done(self, operation_id, *, seconds=RESIZED_S):
        """Return the operation once it is DONE."""
        return self.wait_for_phase(operation_id, "DONE", seconds=seconds)


def described(operation):
    """Return where an operation is, for the message of a failing test."""
    if operation is None:
        return "an operation that nobody knows"
    shown = ("id", "phase", "waitsFor", "problem", "waitedMs", "reopened")
    return {name: operation[name] for name in shown} | {"phases": phases_of(operation)}


def phases_of(operation):
    """Return the finished phases in their order."""
    return [each["phase"] for each in operation["steps"]]


def evidence_of(operation, phase):
    """Return what was written down at the end of a phase, of all times that it was entered."""
    return [line for step in operation["steps"] if step["phase"] == phase for line in step["evidence"]]


class ResizeSite(ScalingClient):
    """Topics and groups have names of their own in each test; nothing is removed."""

    def __init__(self, lab, version):
        super().__init__()
        self.lab = lab
        self.version = version
        self.is_4_9 = version == V4_9
        #: By the name of a consumer.
        self.client_ids = {}
        self.close = lab.close
        self.namesrvs = [lab.name_server(f"namesrv-{number}", orderMessageEnable=True) for number in range(2)]
        # A broker counts nothing as in memory here, as one with much more data: the default of a client decides where
        # it begins, and not the broker's guess that a queue is new.
        self._settings = {"messageDelayLevel": DELAYS, "accessMessageInMemoryMaxRatio": 0}
        self.brokers = {name: self._new_broker(name).start() for name in ("broker-a", "broker-b")}
        #: Brokers that some tests start beside these.
        self.others = {}
        self.traffic = lab.traffic(namesrv=self.namesrv_addresses, version=version)
        self._token = lab.folder / "token"
        self._token.write_text(f"{TOKEN}\n")
        self.controller = self.new_controller("controller")
        self.controllers = [self.controller]
        self.ready()
        for broker in self.brokers.values():
            self.wait_until_ready(broker)

    @property
    def namesrv_addresses(self):
        return [each.address for each in self.namesrvs]

    def _new_broker(self, name, **properties):
        settings = self._settings | properties
        return self.lab.broker(name, version=self.version, namesrv=self.namesrv_addresses, **settings)

    def start_other_broker(self, name, **properties):
        """Start a broker beside those that all tests share, and return it once it is registered."""
        self.others[name] = self._new_broker(name, **properties).start()
        return self.wait_until_ready(self.others[name])

    def wait_until_ready(self, broker):
        """Return a broker that was started once it answers and every NameServer knows it."""
        broker.ready()
        # 4.9 answers an error in its first second.
        wait_until(
            lambda: Caller(broker.address).request(GET_BROKER_RUNTIME_INFO).code == SUCCESS,
            seconds=30,
            what="a broker answers how it is",
        )
        wait_until(
            lambda: all(registered(each, broker) for each in self.namesrvs),
            seconds=60,
            what=f"{broker.name} is registered",
        )
        return broker

    def new_controller(self, name, **properties):
        """Start a controller for the topics of this site; each has operations of its own unless they share an etcd."""
        addresses = ";".join(self.namesrv_addresses)
        made = OurController(self.lab.folder, name, namesrvAddr=addresses, httpAdminTokenFile=self._token, **properties)
        return self.lab.kept(made).start()

    # Topics

    def make_topic(self, topic, queues, *, brokers=None, **changes):
        """Make a topic on all brokers, or on some, and wait until every NameServer shows it; return its name."""
        for name in brokers or self.brokers:
            self.set_counts(topic, name, read=queues, write=queues, **changes)
        wanted = dict.fromkeys(brokers or self.brokers, (queues, queues))
        wait_until(lambda: self.routed(topic) == [wanted] * len(self.namesrvs), seconds=30, what=f"routes of {topic}")
        return topic

    def put_order_conf(self, topic, text):
        """Set `orderTopicConf` of a topic at every NameServer."""
        fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": text}
        for namesrv in self.namesrvs:
            assert namesrv.caller.request(PUT_KV_CONFIG, fields).code == SUCCESS

    def order_confs(self, topic):
        """Return `orderTopicConf` of a topic as each NameServer has it."""
        fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic}
        return [each.caller.request(GET_KV_CONFIG, fields).fields.get("value") for each in self.namesrvs]

    def set_counts(self, topic, broker_name, *, read, write, **changes):
        """Change a topic on one broker by hand."""
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": read,
            "writeQueueNums": write,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        } | changes
        self.asked(broker_name, UPDATE_TOPIC, fields)

    def set_all_counts(self, topic, *, read, write):
        """Change a topic on all brokers by hand, and wait until every NameServer shows it."""
        for name in self.brokers:
            self.set_counts(topic, name, read=read, write=write)
        wanted = dict.fromkeys(self.brokers, (read, write))
        wait_until(lambda: self.routed(topic) == [wanted] * len(self.namesrvs), seconds=30, what=f"routes of {topic}")

    def counts(self, topic, *names):
        """Return read and write queues of a topic by broker name, as these brokers or the first two have them."""
        return {
            name: (stored["readQueueNums"], stored["writeQueueNums"])
            for name in names or self.brokers
            if (stored := self.stored(topic, name)) is not None
        }

    def stored(self, topic, broker_name):
        """Return how a broker has stored a topic."""
        return self.asked(broker_name, GET_ALL_TOPIC_CONFIG)["topicConfigTable"].get(topic)

    def routed(self, topic):
        """Return read and write queues by broker name, for each NameServer."""
        routes = [each.caller.route(topic) or {"queueDatas": []} for each in self.namesrvs]
        return [
            {each["brokerName"]: (each["readQueueNums"], each["writeQueueNums"]) for each in route["queueDatas"]}
            for route in routes
        ]

    def is_everywhere(self, topic, queues):
        """Return whether all brokers and NameServers show this number of queues."""
        wanted = dict.fromkeys(self.brokers, (queues, queues))
        return self.counts(topic) == wanted and self.routed(topic) == [wanted] * len(self.namesrvs)

    def ends(self, topic, queue_ids, *names):
        """Return the ends of these queues by broker name and queue id, of these brokers or of the first two."""
        return {
            (name, queue_id): int(self.asked(name, GET_MAX_OFFSET, {"topic": topic, "queueId": queue_id})["offset"])
            for name in names or self.brokers
            for queue_id in queue_ids
        }

    # Clients

    def consume(self, topic, kind, *, clients=1, group=None, **options):
        """Start consumers of one group, named GROUP-0 and so on; return the name of the group."""
        group = group or f"{topic}-{kind}"
        if kind == "pop":
            body = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": -1}
            for name in self.brokers:
                self.asked(name, SET_REQUEST_MODE, body=body)
            options = {"invisible_ms": INVISIBLE_MS} | options
        for number in range(clients):
            named = {"topic": topic, "group": group, "kind": kind, "persist_ms": 500}
            client_id = self.traffic.receive(f"{group}-{number}", **named | options)
            self.client_ids[f"{group}-{number}"] = client_id
        return group

    def wait_until_shared_out(self, topic, group, names, queues):
        """Wait until these clients of a group consume every queue once."""
        wanted = sorted((name, queue_id) for name in self.brokers for queue_id in range(queues))

        def shared_out():
            held = [each for name in names for each in self.queues_of(topic, group, self.client_ids[name])]
            return sorted(held) == wanted

        wait_until(shared_out, seconds=60, what=f"{group} has {queues} queues of {topic} on each broker")

    def queues_of(self, topic, group, client_id):
        """Return broker name and queue id of what a client consumes, by its own report."""
        fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": False}
        answer = self.requested("broker-a", GET_RUNNING_INFO, fields)
        if answer.code != SUCCESS:
            return []
        table = json.loads(with_quoted_keys(answer.body)).get("mqTable", {})
        queues = [json.loads(key) for key, held in table.items() if not held["droped"]]
        return [(each["brokerName"], each["queueId"]) for each in queues if each["topic"] == topic]

    # Brokers

    def asked(self, broker_name, code, fields=None, body=None):
        """Send a request that the broker must answer with success; return what its body holds, or its fields."""
        answer = self.requested(broker_name, code, fields, body)
        assert answer.code == SUCCESS, answer
        return answer.json if answer.body else answer.fields

    def requested(self, broker_name, code, fields=None, body=None):
        """Send a request; numbers and booleans as Java spells them, `body` as JSON."""
        texts = {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in (fields or {}).items()
        }
        data = b"" if body is None else json.dumps(body).encode()
        broker = (self.brokers | self.others)[broker_name]
        return Caller(broker.address).request(code, texts, data)
