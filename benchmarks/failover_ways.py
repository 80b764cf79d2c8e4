"""Broker sets of two, each with another way in which clients find the next master; all ways look the same from outside.

With a role address clients reconnect: `haproxy` has an HAProxy at it, `host` has it on the host of the master, in a
network of its own. Without one clients learn the next master by their poll of routes: `ours` and `java` are
controllers.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from servers import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests" / "acceptance"))

from peers.controllers import Controller, JavaController, OurController
from peers.lab import Lab
from peers.networks import Network
from peers.servers import CLUSTER, Broker
from peers.waiting import wait_until
from replicated import VERY_LONG_S, ReplicatedSet
from role_addressed import SET, RoleAddressedSet, Versions
from role_agents import HostAddressedSet

#: A push consumer as it comes balances its queues each 20 s.
BALANCES_AS_IT_COMES = "-Drocketmq.client.rebalance.waitInterval=20000"


#: Settings of a server by their names.
Properties = Mapping[str, object]
NOTHING: Properties = MappingProxyType({})


@dataclass(frozen=True)
class Site:
    """A complete broker set, and where its clients are."""

    lab: Lab
    brokers: ReplicatedSet
    #: The NameServer as clients reach it.
    namesrv: str
    #: Processes started inside belong to the host of clients.
    client_place: Callable[[], contextlib.AbstractContextManager[None]] = field(default=contextlib.nullcontext)

    def master(self) -> Broker:
        """Return the broker that leads; on a busy machine a controller may not answer in time at first."""
        state = self.brokers.wait_for_master(seconds=VERY_LONG_S)
        return next(each for each in self.brokers.brokers if each.address == state.addresses[state.master])

    def make_topic(self, topic: str, queues: int = 4) -> None:
        """Make a topic as operators do, and wait until the slave has it as well: it takes it over each 10 s."""
        printed = self.brokers.mqadmin(*f"updateTopic -c {CLUSTER} -t {topic} -r {queues} -w {queues}".split())
        assert "success" in printed, printed
        has_it = lambda: all(topic in broker.stored_topics() for broker in self.brokers.brokers)  # noqa: E731
        wait_until(has_it, seconds=VERY_LONG_S, what=f"{topic} on both brokers")

    def client(self, start: Callable[..., Any], name: str, version: str, **options: Any) -> Any:
        """Start a client of the lab, such as `lab.load`, where clients are, and return it once it works."""
        with self.client_place():
            client = start(name, namesrv=[self.namesrv], topic=self.brokers.topic, version=version, **options)
        return client.ready()


@contextlib.contextmanager
def haproxy(folder: Path, version: str, **properties: object) -> Iterator[Site]:
    """Yield a set at whose role address an HAProxy stands, with its rules of nftables; only root can make the network.

    `properties` are those of its brokers, and of its controllers if they are in `controller_properties`.
    """
    with contextlib.closing(Network()) as network, network.inside(), contextlib.closing(Lab(folder)) as lab:
        site = RoleAddressedSet(lab, folder, version, **properties).start()
        site.haproxy.reset_sessions()
        yield Site(lab, site.brokers, site.namesrv.address)


@contextlib.contextmanager
def host(folder: Path, version: str) -> Iterator[Site]:
    """Yield a set whose role address moves between the hosts of its brokers; only root can make the network."""
    with contextlib.closing(Network()) as network, network.inside(), contextlib.closing(Lab(folder)) as lab:
        site = HostAddressedSet(network, lab, version).start()
        namesrv = f"{Network.server}:{site.namesrv.port}"
        yield Site(lab, site.brokers, namesrv, site.client_host.inside)


@contextlib.contextmanager
def ours(
    folder: Path, version: str, *, controller_properties: Properties = NOTHING, **properties: object
) -> Iterator[Site]:
    """Yield a set of our controller, without role addresses; `properties` are those of its brokers."""
    with contextlib.closing(Lab(folder)) as lab:
        yield _without_role_address(lab, OurController(folder, **controller_properties), version, properties)


@contextlib.contextmanager
def java(
    folder: Path, version: str, *, controller_properties: Properties = NOTHING, **properties: object
) -> Iterator[Site]:
    """Yield a set of the Java controller 5.5.0 with our NameServer; `properties` are those of its brokers."""
    with contextlib.closing(Lab(folder)) as lab:
        yield _without_role_address(lab, JavaController(folder, **controller_properties), version, properties)


def _without_role_address(lab: Lab, controller: Controller, version: str, properties: Properties) -> Site:
    lab.kept(controller).start()
    wait_until(controller.serves, seconds=VERY_LONG_S, what="the controller serves")
    namesrv = lab.name_server("namesrv")
    settings = {"name": SET, "namesrv": namesrv, "controllers": [controller], "count": 2}
    brokers = ReplicatedSet(lab, Versions(version), **settings, **properties)
    brokers.start().wait_until_complete()
    return Site(lab, brokers, namesrv.address)


@dataclass(frozen=True)
class Way:
    """How clients find the next master."""

    title: str
    begin: Callable[[Path, str], contextlib.AbstractContextManager[Site]]
    has_role_address: bool


WAYS = {
    "haproxy": Way("role address, HAProxy", haproxy, has_role_address=True),
    "host": Way("role address on the host", host, has_role_address=True),
    "ours": Way("ours, no role address", ours, has_role_address=False),
    "java": Way("Java's controller", java, has_role_address=False),
}
