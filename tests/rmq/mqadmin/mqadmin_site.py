"""Java's NameServer, controller, brokers, clients and mqadmin of 5.5.0, with our servers beside them."""

import re
from contextlib import contextmanager

from mqadmin_pair import MqadminPair
from peers.controllers import JavaController, OurController
from peers.jars import V5_5
from peers.lab import Lab
from peers.servers import JavaNameServer, OurNameServer
from peers.waiting import wait_until
from rmq_runs import Rmq

START_S = 120
TOPIC = "Orders"
GROUP = "Readers"
PRODUCERS = "Writers"
#: Of the client that ends, without that of the one that stays.
MESSAGES = 60
BOTH = ("{ns}", "{our_ns}")
BOTH_BROKERS = ("broker-a", "broker-b")
#: An option that our NameServer lets be changed only where it is named so.
CHANGEABLE = "deleteTopicWithBrokerRegistration"
HOURS_MS = 36_000_000


class MqadminSite:
    """Broker-a has its role from the controller, broker-b has none; both NameServers list both."""

    def __init__(self, lab, version):
        self.java = lab.kept(JavaNameServer(lab.folder, "java-namesrv"))
        self.ours = lab.kept(OurNameServer(lab.folder, "our-namesrv", configWhiteList=CHANGEABLE)).start()
        self.java.start()
        controller = lab.kept(JavaController(lab.folder)).launch()
        our_controller = lab.kept(OurController(lab.folder, "our-controller")).launch()
        mqadmin = lab.mqadmin()
        addresses = [self.java.address, self.ours.address]
        settings = {"namesrv": addresses, "version": version}
        other = lab.broker("broker-b", **settings).start()
        for each in (controller, our_controller):
            each.ready()
        wait_until(controller.serves, seconds=START_S, what="the controller leads")
        # Releases before 5.0 have no controllers.
        led = controller.broker_settings() if version == V5_5 else {}
        broker = lab.broker("broker-a", **settings, **led).start()
        for each in (broker, other):
            each.ready()
        for each in (self.java, self.ours):
            wait_until(lambda each=each: _masters(each) == 2, seconds=START_S, what="both brokers are listed")
        names = {
            "ns": self.java.address,
            "our_ns": self.ours.address,
            "controller": controller.address,
            "our_controller": our_controller.address,
            "a": broker.address,
            "b": other.address,
        }
        self.release = version
        self.pair = MqadminPair(mqadmin, Rmq(lab.folder / "operator"), names)
        self._lab = lab
        self._fill(lab)

    def pair_with(self, version):
        """Return a pair with the mqadmin of another release."""
        return self.pair.beside(self._lab.mqadmin(version=version))

    def _fill(self, lab):
        """Let a group read all messages of a topic, stay online, and have its offsets at the brokers."""
        pair = self.pair
        for words in (
            ("updateTopic", "-t", TOPIC, "-c", "DefaultCluster", "-r", "4", "-w", "4"),
            ("updateSubGroup", "-g", GROUP, "-c", "DefaultCluster"),
        ):
            ran = pair.ours(*words, "-n", "{ns}")
            assert ran.code == 0, ran
        routes = lambda: all("broker-b" in pair.ours("topicRoute", "-t", TOPIC, "-n", each).out for each in BOTH)  # noqa: E731
        wait_until(routes, seconds=START_S, what="both NameServers have the route")
        clients = {"namesrv": [self.java.address], "topic": TOPIC}
        lab.consumer("reader", group=GROUP, **clients).ready()
        lab.producer("writer", group=f"{PRODUCERS}-gone", count=MESSAGES, **clients).finish(seconds=START_S)
        # It sends one message, and stays connected.
        lab.producer("idle", group=PRODUCERS, **clients | {"interval-ms": HOURS_MS}).ready()

        def is_read():
            text = pair.ours("consumerProgress", "-g", GROUP, "-n", "{ns}").out
            rows = [row for row in map(str.split, text.splitlines()) if row]
            offsets = [int(row[4]) for row in rows if row[0] == TOPIC]
            # An empty queue gets its offset after its first long poll has ended.
            retries = {row[1] for row in rows if row[0] == f"%RETRY%{GROUP}"}
            nothing_left = re.search(r"^Consume Diff Total: 0$", text, re.MULTILINE)
            return sum(offsets) > MESSAGES and len(retries) == len(BOTH_BROKERS) and nothing_left

        wait_until(is_read, seconds=START_S, what="all messages are read, and the brokers have the offsets")


def _masters(name_server):
    return sum(bool(name_server.caller.addresses(name).get("0")) for name in BOTH_BROKERS)


@contextmanager
def running_site(folder, version):
    """Start a site with brokers of a release, and end it."""
    lab = Lab(folder)
    try:
        yield MqadminSite(lab, version)
    finally:
        lab.close()
