"""Broker sets whose masters fail, with and without an offset manager beside their controller or their NameServer."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from failover_ways import Site, haproxy, java, ours
from peers.lab import Lab
from peers.offset_managers import OffsetManager
from peers.servers import Broker, registered
from peers.waiting import wait_until
from replicated import VERY_LONG_S

#: The one group of orderly consumers.
ORDERED = "ordered"
ACT, REPORT = {"repair": "act", "lock_replay": "on"}, {"repair": "report"}


class LoneSet:
    """A broker that a NameServer shows, and nothing else."""

    def __init__(self, lab: Lab, version: str) -> None:
        self.lab = lab
        server = lab.name_server()
        self.namesrv: str = server.address
        self._broker: Broker = lab.broker("alone", version=version, namesrv=[self.namesrv]).start().ready()
        wait_until(lambda: registered(server, self._broker), seconds=VERY_LONG_S, what="the broker is registered")

    def master(self) -> Broker:
        """Return the broker."""
        return self._broker

    def make_topic(self, topic: str, queues: int) -> None:
        """Make a topic as operators do."""
        tool = self.lab.mqadmin()
        words = f"-b {self._broker.address} -t {topic} -r {queues} -w {queues}".split()
        printed = tool.update_topic(*words, namesrv=[self.namesrv])
        tool.process.kill()
        assert "success" in printed, printed


class ManagedSite(NamedTuple):
    """A set, and the offset manager that follows its controller or NameServer, if any."""

    site: Site | LoneSet
    manager: OffsetManager | None


@dataclass(frozen=True)
class OffsetWay:
    """How offsets and locks get to the next master."""

    title: str
    site: Callable[..., contextlib.AbstractContextManager[Site | LoneSet]]
    #: Options of the offset manager; none without one.
    manager: Mapping[str, object] = field(default_factory=dict)
    has_role_address: bool = False

    @contextlib.contextmanager
    def begin(self, folder: Path, version: str, **properties: object) -> Iterator[ManagedSite]:
        """Yield a complete set; `properties` are those of its brokers, and `controller_properties`."""
        with self.site(folder, version, **properties) as site:
            yield ManagedSite(site, _manager(folder, site, self.manager) if self.manager else None)


def _manager(folder: Path, site: Site | LoneSet, options: Mapping[str, object]) -> OffsetManager:
    if isinstance(site, LoneSet):
        options = {"namesrv_addr": site.namesrv, **options}
    else:
        addresses = ";".join(f"127.0.0.1:{controller.http_port}" for controller in site.brokers.controllers)
        options = {"controller_http_addr": addresses, **options}
    manager = site.lab.kept(OffsetManager(folder, **options)).start().leading()
    answer = manager.post("/v1/locks/declare-orderly", {"writer": "benchmark", "group": ORDERED})
    assert answer.status == HTTPStatus.OK, answer
    return manager


@contextlib.contextmanager
def _alone(folder: Path, version: str) -> Iterator[LoneSet]:
    with contextlib.closing(Lab(folder)) as lab:
        yield LoneSet(lab, version)


def _without_slaves(folder: Path, version: str, **properties: object) -> contextlib.AbstractContextManager[Site]:
    return haproxy(folder, version, rule=OMIT_SLAVES, **properties)


#: Where routes have the slaves, a client keeps its connection to the one that is elected, and comes to the role address
#: as well: the broker counts it twice until 120 s after the last heartbeat, and the second one's queues are nobody's.
OMIT_SLAVES = 'slaves = "omit"\n'

OFFSET_WAYS = {
    "java": OffsetWay("Java's controller", java),
    "act": OffsetWay("ours, offset manager acts", ours, ACT),
    "report": OffsetWay("ours, offset manager reports", ours, REPORT),
    "addressed": OffsetWay("ours, role address, slaves omitted", _without_slaves, has_role_address=True),
    "both": OffsetWay(
        "ours, role address, slaves omitted, offset manager acts", _without_slaves, ACT, has_role_address=True
    ),
    "slaves": OffsetWay("ours, role address, slaves in routes", haproxy, has_role_address=True),
    "alone": OffsetWay("no controller", _alone),
    "alone_act": OffsetWay("no controller, offset manager acts", _alone, ACT),
    "alone_report": OffsetWay("no controller, offset manager reports", _alone, REPORT),
}
