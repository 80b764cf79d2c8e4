"""Broker sets of two whose masters fail, with and without an offset manager beside their controller."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from failover_ways import Site, haproxy, java, ours
from peers.offset_managers import NewOffsetManager, OffsetManager

#: The one group of orderly consumers.
ORDERED = "ordered"
MANAGER = {"repair": "act", "lock_replay": "on"}


class ManagedSite(NamedTuple):
    """A set, and the offset manager that follows its controller, if any."""

    site: Site
    manager: OffsetManager | None


@dataclass(frozen=True)
class OffsetWay:
    """How offsets and locks get to the next master."""

    title: str
    site: Callable[..., contextlib.AbstractContextManager[Site]]
    has_manager: bool
    has_role_address: bool = False
    #: Further ones of the manager.
    options: Mapping[str, object] = field(default_factory=dict)

    @contextlib.contextmanager
    def begin(self, folder: Path, version: str, **properties: object) -> Iterator[ManagedSite]:
        """Yield a complete set; `properties` are those of its brokers, and `controller_properties`."""
        with self.site(folder, version, **properties) as site:
            options = MANAGER | self.options
            yield ManagedSite(site, _manager(folder, site, options) if self.has_manager else None)


def _manager(folder: Path, site: Site, options: Mapping[str, object]) -> OffsetManager:
    addresses = ";".join(f"127.0.0.1:{each.http_port}" for each in site.brokers.controllers)
    options = {"controller_http_addr": addresses, **options}
    manager = site.lab.kept(NewOffsetManager(folder, **options)).start().leading()
    answer = manager.post("/v1/locks/declare-orderly", {"writer": "benchmark", "group": ORDERED})
    assert answer.status == HTTPStatus.OK, answer
    return manager


def _without_slaves(folder: Path, version: str, **properties: object) -> contextlib.AbstractContextManager[Site]:
    return haproxy(folder, version, rule=OMIT_SLAVES, **properties)


#: Where routes have the slaves, a client keeps its connection to the one that is elected, and comes to the role address
#: as well: the broker counts it twice until 120 s after the last heartbeat, and the second one's queues are nobody's.
OMIT_SLAVES = 'slaves = "omit"\n'

OFFSET_WAYS = {
    "java": OffsetWay("Java's controller", java, has_manager=False),
    "ours": OffsetWay("ours", ours, has_manager=False),
    "reported": OffsetWay(
        "ours, offset manager that only reports", ours, has_manager=True, options={"repair": "report"}
    ),
    "managed": OffsetWay("ours, offset manager", ours, has_manager=True),
    "slaves": OffsetWay("ours, role address, slaves in routes", haproxy, has_manager=False, has_role_address=True),
    "addressed": OffsetWay(
        "ours, role address, slaves omitted", _without_slaves, has_manager=False, has_role_address=True
    ),
    "both": OffsetWay(
        "ours, role address, slaves omitted, offset manager", _without_slaves, has_manager=True, has_role_address=True
    ),
    "often": OffsetWay(
        "ours, role address, slaves omitted, offset manager with readingPeriodMs=1000",
        _without_slaves,
        has_manager=True,
        has_role_address=True,
        options={"reading_period_ms": 1_000},
    ),
}
