"""Three controllers on an etcd of three, with a set of brokers at work, as an operator looks at them: log lines, HTTP,
metrics, and the requests that mqadmin sends.
"""

import contextlib
import itertools
import json
import urllib.error
import urllib.request

from operations.brokers_at_work import (
    APPLY_BROKER_ID,
    CLEAN_BROKER_DATA,
    CLUSTER,
    BrokerAtWork,
    in_sync,
)
from peers.controllers import OurController, leader_of
from peers.etcd import Etcd, Way
from peers.processes import free_port
from peers.waiting import wait_until
from peers.wire import SUCCESS

UPDATE_CONTROLLER_CONFIG = 1009

#: What a slow machine may take for anything that takes seconds.
SOON_S = 60

_names = itertools.count()


class ControlPlane:
    """Controllers, their store, and the ways between them."""

    def __init__(self, folder, *, etcd_options=(), members=3, controllers=3):
        self.folder = folder
        self.etcd = Etcd(folder / "etcd", members=members, options=etcd_options)
        self._ways = []
        self.controllers = []
        self.brokers = []
        self._count = controllers

    def start(self):
        self.etcd.start()
        for number in range(self._count):
            self.controllers.append(self.make(f"c{number}"))
        for each in self.controllers:
            each.launch()
        for each in self.controllers:
            each.ready()
        self.leader()
        return self

    def make(self, name, **properties):
        """Return a controller of the group that does not run yet, with ways of its own to etcd."""
        ways = [Way(endpoint) for endpoint in self.etcd.endpoints]
        port = free_port()
        own = {
            "controllerId": name,
            "controllerGroup": "operated",
            "controllerStore": "etcd",
            "etcdEndpoints": ";".join(way.endpoint for way in ways),
            "configWhiteList": "adoptUnknownBrokers",
        }
        controller = OurController(self.folder, f"{name}-{port}", port=port, **own | properties)
        controller.ways = ways
        self._ways += ways
        return controller

    def close(self):
        for broker in self.brokers:
            broker.stop()
        for broker in self.brokers:
            broker.close()
        for way in self._ways:
            way.close()
        for each in self.controllers:
            if each.process is not None and each.process.running:
                each.process.kill()
        self.etcd.stop()

    # What is there

    @property
    def ways(self):
        return self._ways

    def leader(self, *, among=None, seconds=SOON_S):
        among = among or self.controllers
        return wait_until(lambda: leader_of(among), seconds=seconds, what="a controller leads")

    def brokers_of(self, name, *, count=2, controllers=None):
        """Start a set, and return its brokers once all are in sync."""
        addresses = [each.address for each in controllers or self.controllers]
        brokers = [BrokerAtWork(addresses, name) for _ in range(count)]
        self.brokers += brokers
        for each in brokers:
            each.start()
            wait_until(lambda each=each: each.master is not None, seconds=SOON_S, what="it has a role")
        in_sync(brokers)
        self.wait_for_sync(brokers)
        return brokers

    def wait_for_sync(self, brokers):
        name, ids = brokers[0].name, {each.broker_id for each in brokers}
        self.wait_for_state(name, lambda state: state.in_sync == ids and state.alive >= ids, what=f"{ids} in sync")

    def state(self, name):
        controller = leader_of(self.controllers)
        return None if controller is None else controller.set_state(name)

    def wait_for_state(self, name, condition, *, what, seconds=SOON_S):
        last = None

        def found():
            nonlocal last
            last = self.state(name)
            return last if last is not None and condition(last) else None

        return wait_until(found, seconds=seconds, what=lambda: f"{what}, but it is {last}")

    def keep_running(self):
        """Start again what a test has ended."""
        gone = [member for member in self.etcd.members if not member.process.running]
        for member in gone:
            self.etcd.begin(member)
        for member in gone:
            self.etcd.wait_for(member)
        for each in self.controllers:
            if not each.process.running:
                each.start()


# What operators look at


def get(controller, path):
    """Return the status and the body of a HTTP answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{controller.http_port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def shown(controller, path):
    status, body = get(controller, path)
    assert status == 200, (status, body)
    return json.loads(body)


def is_ready(controller):
    """Return whether `/readyz` says that brokers can be sent here; None without an answer."""
    with contextlib.suppress(OSError):
        return get(controller, "/readyz")[0] == 200
    return None


def metric(controller, sample):
    """Return the value of a sample, named as on the page of metrics; 0 where there is none."""
    lines = get(controller, "/metrics")[1].splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == sample), 0.0)


def events(controller, name, position=None):
    """Return the lines of an event since a position of the log."""
    found = []
    for line in controller.process.text(position).splitlines():
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and entry.get("event") == name:
                found.append(entry)
    return found


def elections(controller, name):
    """Return the elections of a set, the newest first."""
    return shown(controller, f"/v1/elections?prefix={name}")["elections"]


# What operators and their tools ask


def apply_new_id(controller):
    """Ask for something that has to be stored; returns the answer."""
    name = f"asked{next(_names)}"
    fields = {"clusterName": CLUSTER, "brokerName": name, "appliedBrokerId": "1"}
    return controller.caller.request(APPLY_BROKER_ID, fields | {"registerCheckCode": "127.0.0.1:1;1"})


def stores_again(controller):
    with contextlib.suppress(OSError):
        return apply_new_id(controller).code == SUCCESS
    return False


def designate(controller, name, broker_id):
    return controller.designate(name, broker_id, cluster=CLUSTER)


def clean(controller, name, ids=None, *, living=False):
    """As `mqadmin cleanBrokerMetadata`."""
    fields = {"clusterName": CLUSTER, "brokerName": name, "isCleanLivingBroker": str(living).lower()}
    if ids:
        fields["brokerControllerIdsToClean"] = ";".join(map(str, ids))
    return controller.caller.request(CLEAN_BROKER_DATA, fields)


def configure(controller, key, value):
    """As `mqadmin updateControllerConfig`."""
    answer = controller.caller.request(UPDATE_CONTROLLER_CONFIG, {}, f"{key}={value}".encode())
    assert answer.code == SUCCESS, answer
