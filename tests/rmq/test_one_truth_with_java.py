"""What is there, dead, away or unknown is the same in every view: `rmq`, `/v1`, the console's data, and alerts.

Two NameServers, a controller on etcd, a set of two brokers and one of a single broker, all of them real.
"""

import contextlib
import json
import time
import urllib.request
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
from peers.controllers import OurController
from peers.etcd import PROGRAMS, Etcd
from peers.lab import Lab
from peers.programs import require
from peers.prometheus import Prometheus
from peers.servers import CLUSTER, OurNameServer
from peers.waiting import wait_until
from peers.wire import SUCCESS, Caller
from rmq_runs import Rmq

pytestmark = [pytest.mark.java, pytest.mark.etcd]

TOPIC, GROUP = "Orders", "billing"
#: Messages in each set, of which the group has consumed all but LAG.
MESSAGES, LAG = 10, 3
SEND, COMMIT, ALL_OFFSETS = 310, 15, 43
SOON_S = 240
#: A NameServer remembers sets that were registered for so long.
REMEMBERED_S = 31
#: What the alerts of such incidents are called.
WATCHED = {"BrokerMissing", "BrokerSetWithoutMaster", "BrokerSetAway", "ControllerNoLeader"}


@dataclass(frozen=True)
class Picture:
    """What the views say; as it is when all is well."""

    #: Exit code of `rmq status`, and the state of what is not `ok` by the name that it has here.
    code: int = 0
    status: dict = field(default_factory=dict)
    #: Sets without a master, and away, by `rmq cluster list`.
    clusters: tuple = ((), ())
    #: The sum of what `rmq group lag` shows.
    lag: int | str = 2 * LAG
    #: Sets that are away by each NameServer's `/v1/broker-sets/away`.
    away: tuple = ()
    #: Of sets that are not healthy, by `/v1/broker-sets` of the controller as the console gets it; None: no leader.
    controller: dict | None = field(default_factory=dict)
    alerts: frozenset = frozenset()


class Site:
    """The servers; `close` ends them."""

    def __init__(self, folder, *, watches=False):
        self._closing = contextlib.ExitStack()
        self.lab = Lab(folder)
        self._closing.callback(self.lab.close)
        self.etcd = Etcd(folder / "etcd")
        self._closing.callback(self.etcd.stop)
        stored = {"controllerStore": "etcd", "etcdEndpoints": self.etcd.endpoints[0], "controllerGroup": "g"}
        self.controller = self.lab.kept(OurController(folder, **stored))
        peers = f"controller=http://127.0.0.1:{self.controller.http_port}"
        self.name_servers = [
            self.lab.kept(OurNameServer(folder, f"ns{n}", http=True, consolePeers=peers)) for n in (1, 2)
        ]
        self.third = self.lab.kept(OurNameServer(folder, "ns3"))
        settings = {"namesrv": [each.address for each in self.name_servers]}
        settings |= self.controller.broker_settings() | {"brokerHeartbeatInterval": 1000}
        names = {"a1": "broker-a", "a2": "broker-a", "b1": "broker-b"}
        self.brokers = {label: self.lab.broker(name, label=label, **settings) for label, name in names.items()}
        self.rmq = Rmq(
            folder / "operator",
            NAMESRV_ADDR=";".join(each.address for each in self.name_servers),
            RMQ_CONTROLLER=self.controller.address,
        )
        self.prometheus = None
        self._watches = watches

    def start(self):
        self.etcd.start()
        for each in (self.controller, *self.name_servers):
            each.start()
        wait_until(self.controller.serves, seconds=SOON_S, what="the controller leads")
        for each in self.brokers.values():
            each.start().ready()
        if self._watches:
            self._watch()
        self._fill()

    def close(self):
        self._closing.close()

    def _watch(self):
        jobs = {
            "rocketmq-namesrv": [each.http_port for each in self.name_servers],
            "rocketmq-controller": [self.controller.http_port],
        }
        self.prometheus = Prometheus(self.lab.folder / "prometheus", {"p": jobs})
        self._closing.callback(self.prometheus.process.stop)
        self.prometheus.ready()

    def _fill(self):
        """Put messages into both sets, and let the group consume all but some."""
        self.wait_for(Picture(lag="unknown"))
        self.rmq.items("topic", "create", TOPIC, "--cluster", CLUSTER, "--read", "1", "--write", "1", "--yes")
        self.rmq.items("group", "create", GROUP, "--cluster", CLUSTER, "--yes")
        for name in ("broker-a", "broker-b"):
            master = Caller(self.master(name))
            for _ in range(MESSAGES):
                fields = {"a": "p", "b": TOPIC, "c": TOPIC, "d": "1", "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}
                assert master.request(SEND, fields | {"j": "0", "n": name}, b"text").code == SUCCESS
            offset = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": str(MESSAGES - LAG)}
            assert master.request(COMMIT, offset).code == SUCCESS
        for each in (self.brokers["a1"], self.brokers["a2"]):
            caller = Caller(each.address)
            has_offset = partial(self._has_offset, caller)
            wait_until(has_offset, seconds=SOON_S, what=f"{each.label} has the offset of the group")

    @staticmethod
    def _has_offset(caller):
        return f"{TOPIC}@{GROUP}".encode() in caller.request(ALL_OFFSETS).body

    def master(self, name):
        state = self.controller.set_state(name)
        return state.addresses[state.master]

    def slave_of_a(self):
        """Return the label of the slave in broker-a."""
        return next(label for label in ("a1", "a2") if self.brokers[label].address != self.master("broker-a"))

    def kill(self, *labels):
        for each in labels:
            self.brokers[each].process.kill()

    def revive(self):
        for each in self.brokers.values():
            if not each.process.running:
                each.start()

    def restart(self):
        """Restart NameServers and controllers; brokers go on as they are."""
        for each in (*self.name_servers, self.controller):
            assert each.process.stop() == 0
            each.start()

    def picture(self, rmq=None):
        rmq = rmq or self.rmq
        status = rmq.run("status", "-o", "json")
        lag = rmq.run("group", "lag", GROUP, "--no-clients", "-o", "json")
        clusters = rmq.run("cluster", "list", "-o", "json")
        rows = clusters.items if clusters.out else []
        diffs = [row["diff"] for row in lag.items if row["topic"] in (TOPIC, None)] if lag.out else []
        return Picture(
            code=status.code,
            status={self._label(row["name"]): row["state"] for row in status.items if row["state"] != "ok"},
            clusters=tuple(tuple(name for row in rows for name in row[key] or ()) for key in ("withoutMaster", "away")),
            lag="unknown" if not diffs or "unknown" in diffs else sum(diffs),
            away=tuple(sorted({name for server in self.name_servers for name in self._away_at(server)})),
            controller=self.unhealthy_sets(),
            alerts=frozenset(WATCHED & self.prometheus.firing().keys()) if self.prometheus else frozenset(),
        )

    def wait_for(self, wanted, *, rmq=None):
        """Wait until every view says so; what is not well is never called `ok` meanwhile, nor is a lag made up."""
        seen = None
        if self.prometheus is None:
            wanted = replace(wanted, alerts=frozenset())

        def agrees():
            nonlocal seen
            seen = self.picture(rmq)
            if wanted.code:
                assert seen.code, f"{seen} while {wanted} is so"
            assert seen.lag in ("unknown", wanted.lag), f"{seen} while {wanted} is so"
            return seen == wanted

        wait_until(agrees, seconds=SOON_S, what=lambda: f"{wanted}; the last was {seen}")

    def _label(self, name):
        labels = {each.address: label for label, each in self.brokers.items()}
        labels |= {each.address: each.name for each in (*self.name_servers, self.third, self.controller)}
        return labels.get(name, name)

    def _away_at(self, server):
        found = _document(server, "/v1/broker-sets/away")
        return [each["brokerName"] for each in found["items"]]

    def unhealthy_sets(self):
        """Return what the console of a NameServer gets from the controller."""
        if _document(self.name_servers[0], "/ui/peer/controller/0/v1/controllers")["leaderAddress"] is None:
            return None
        found = _document(self.name_servers[0], "/ui/peer/controller/0/v1/broker-sets")["brokerSets"]
        return {each["brokerName"]: each["state"] for each in found if each["state"] != "healthy"}


def _document(server, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}{path}", timeout=20) as answer:
        return json.loads(answer.read())


@pytest.fixture
def site(request, tmp_path):
    watches = getattr(request, "param", False)
    require(*PROGRAMS, *(["prometheus"] if watches else []))
    found = Site(tmp_path, watches=watches)
    try:
        found.start()
        yield found
    finally:
        found.close()


def dead_in_a(label, **more):
    return Picture(
        code=7,
        status={"broker-a": "under_replicated", label: "away"},
        controller={"broker-a": "under_replicated"},
        alerts=frozenset({"BrokerMissing"}),
        **more,
    )


SET_AWAY = Picture(
    code=7,
    status={"broker-b": "away", "b1": "away"},
    clusters=((), ("broker-b",)),
    lag="unknown",
    away=("broker-b",),
    controller={"broker-b": "no_master"},
    alerts=frozenset({"BrokerMissing", "BrokerSetWithoutMaster", "BrokerSetAway"}),
)
ALL_AWAY = replace(
    SET_AWAY,
    status=dict.fromkeys(("broker-a", "a1", "a2", "broker-b", "b1"), "away")
    | {"ns1": "no_brokers", "ns2": "no_brokers"},
    clusters=((), ("broker-a", "broker-b")),
    away=("broker-a", "broker-b"),
    controller={"broker-a": "no_master", "broker-b": "no_master"},
)


def test_set_that_died_is_away_in_every_view(site):
    site.wait_for(Picture())
    time.sleep(REMEMBERED_S)
    site.kill("b1")

    site.wait_for(SET_AWAY)
    unknown = site.rmq.run("topic", "show", "Invoices")
    assert (unknown.code, "broker-b is away since" in unknown.err) == (7, True), unknown


@pytest.mark.broad
@pytest.mark.parametrize("site", [True], indirect=True)
def test_every_view_tells_the_same_story_also_after_a_restart_of_the_servers(site):
    """One story: brokers take long to start."""

    def stays(wanted):
        site.wait_for(wanted)
        site.restart()
        site.wait_for(wanted)

    site.wait_for(Picture())
    time.sleep(REMEMBERED_S)
    stays(Picture())

    slave = site.slave_of_a()
    site.kill(slave)
    stays(dead_in_a(slave))
    site.revive()
    site.wait_for(Picture())

    master = ({"a1", "a2"} - {site.slave_of_a()}).pop()
    site.kill(master)
    stays(dead_in_a(master))
    site.revive()
    site.wait_for(Picture())

    site.kill("b1")
    stays(SET_AWAY)

    site.kill("a1", "a2")
    stays(ALL_AWAY)
    site.revive()
    site.wait_for(Picture())

    # The NameServers say nothing of what nobody told them.
    site.third.start()
    other = Rmq(
        site.rmq.home, **site.rmq.environment | {"NAMESRV_ADDR": f"{site.third.address};{site.name_servers[0].address}"}
    )
    site.wait_for(Picture(code=7, status={"ns3": "no_brokers", "ns1": "differs"}), rmq=other)

    # A leader leads until its lease ends.
    site.etcd.kill()
    wait_until(lambda: site.unhealthy_sets() is None, seconds=SOON_S, what="nobody leads")
    without_leader = Picture(
        code=7, status={"controller": "failed"}, controller=None, alerts=frozenset({"ControllerNoLeader"})
    )
    site.wait_for(without_leader)
    for each in site.name_servers:
        assert each.process.stop() == 0
        each.start()
    site.wait_for(without_leader)
