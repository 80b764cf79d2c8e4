"""A broker set whose master clients know by a role address, at which an HAProxy stands as operators set it up."""

import contextlib
from itertools import pairwise
from typing import NamedTuple

from peers.controllers import OurController, leader_of
from peers.etcd import Etcd
from peers.jars import V5_5
from peers.lab import Lab
from peers.processes import free_port
from peers.programs import require
from peers.role_proxy import RoleHAProxy
from peers.waiting import wait_until
from peers.wire import addresses_in
from replicated import UNIX, VERY_LONG_S, ReplicatedSet

SET = "broker-a"
#: A producer as it comes: it polls routes each 30 s, gives up a send after 3 s, and tries twice more.
AS_IT_COMES = {"poll-ms": 30_000, "timeout-ms": 3_000, "retries": 2}

RULES = """
[[roleAddress]]
set = "{name}"
master = "{address}"
controllerMode = true
hold = "10s"
"""


class Versions(NamedTuple):
    """What a broker set wants to know of a run."""

    broker_version: str


class RoleAddressedSet:
    """Controllers, a NameServer with role addresses, HAProxy, and a set of real brokers.

    `server_properties` are those of the controllers and the NameServer, `namesrv_properties` more ones of the latter,
    `proxy_options` those of `haproxy-config`, `rule` more lines of the set's rule.
    """

    def __init__(
        self,
        lab,
        folder,
        version,
        *,
        count=2,
        controllers=1,
        etcd_members=1,
        controller_properties=None,
        server_properties=None,
        namesrv_properties=None,
        proxy_options=(),
        rule="",
        **properties,
    ):
        self.folder, self.lab = folder, lab
        server_properties = server_properties or {}
        self._controller_properties = server_properties | (controller_properties or {})
        self.address = f"127.0.0.1:{free_port()}"
        rules = folder / "role-addresses.toml"
        rules.write_text(RULES.format(name=SET, address=self.address) + rule)
        self.check_ports = [free_port() for _ in range(controllers)]
        self.etcd = Etcd(folder / "etcd", members=etcd_members).start() if controllers > 1 else None
        self.controllers = [self._controller(number) for number in range(controllers)]
        properties_of_namesrv = server_properties | (namesrv_properties or {})
        self.namesrv = lab.name_server("namesrv", roleAddressFile=rules, **properties_of_namesrv)
        self.brokers = ReplicatedSet(
            lab,
            Versions(version),
            name=SET,
            namesrv=self.namesrv,
            controllers=self.controllers,
            count=count,
            **properties,
        )
        self.haproxy = lab.kept(RoleHAProxy(folder, rules, self.controllers, self.check_ports, proxy_options))

    def _controller(self, number):
        properties = {"roleCheckPort": self.check_ports[number]} | self._controller_properties
        if self.etcd is not None:
            properties |= {"controllerStore": "etcd", "etcdEndpoints": ";".join(self.etcd.endpoints)}
            properties |= {"controllerId": f"n{number}", "controllerGroup": "tried"}
        return self.lab.kept(OurController(self.folder, f"controller-{number}", **properties))

    def start(self):
        """Start everything, and wait until the set is complete."""
        for each in self.controllers:
            each.launch()
        for each in self.controllers:
            each.ready()
        wait_until(lambda: any(each.serves() for each in self.controllers), seconds=VERY_LONG_S, what="a leader")
        self.brokers.start().wait_until_complete()
        self.haproxy.configure()
        self.haproxy.start()
        wait_until(self.is_in_force, seconds=VERY_LONG_S, what="clients get the role address")
        return self

    def master(self):
        """Return the broker that leads; on a busy machine a controller may not answer in time at first."""
        state = self.brokers.wait_for_master(seconds=VERY_LONG_S)
        return next(each for each in self.brokers.brokers if each.address == state.addresses[state.master])

    def is_in_force(self):
        """Return whether routes have the role address: the NameServer checks first that it leads to the master."""
        return addresses_in(self.namesrv.caller.route(self.brokers.topic), SET).get("0") == self.address

    def load(self, name="load", **options):
        """Start a producer as it comes, and return it once its first message was acknowledged."""
        return self.brokers.load(name, **(AS_IT_COMES | options))

    def close(self):
        """End what the lab does not know."""
        if self.etcd is not None:
            self.etcd.stop()

    @property
    def leader(self):
        return wait_until(lambda: leader_of(self.controllers), seconds=VERY_LONG_S, what="a leader")


@contextlib.contextmanager
def role_addressed_sets(folder, kind=RoleAddressedSet):
    """Yield what starts a set with its address; all of it ends with the context, etcd after those that use it."""
    require("haproxy")
    with contextlib.ExitStack() as begun, contextlib.closing(Lab(folder)) as lab:

        def begin(version=V5_5, **options):
            site = kind(lab, folder, version, **options)
            begun.callback(site.close)
            return site.start()

        yield begin


def first_acknowledged(load, since_ms, *, not_by, seconds=60):
    """Wait for the first message that another broker acknowledged since, and return when that was."""

    def found():
        later = (each for each in load.acknowledged() if each.unix_ms > since_ms and each.port != not_by.port)
        return next((each.unix_ms for each in later), None)

    return wait_until(found, seconds=seconds, what=f"a message acknowledged by another than {not_by.port}")


def longest_gap_s(load, from_ms):
    """Return the longest time between two acknowledged messages from just before a moment on."""
    stamps = [each.unix_ms for each in load.acknowledged() if each.unix_ms >= from_ms - 1_000]
    return max((later - earlier for earlier, later in pairwise(stamps)), default=0) / 1000


def acknowledged_too_late(load, old, since_ms):
    """Return what the old master acknowledged after its successor had acknowledged something since that moment."""
    later = [each for each in load.acknowledged() if each.unix_ms > since_ms]
    first = next((number for number, each in enumerate(later) if each.port != old.port), len(later))
    return [each for each in later[first:] if each.port == old.port]


def now_ms():
    return UNIX.unix_ms()
