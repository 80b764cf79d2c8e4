"""Whom the masters of broker sets are known from: controllers, or NameServers. What acts on changes listens here."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from controller.offsets.config import OffsetManagerConfig
from controller.offsets.observability.topology_event_log import TopologyEventLog
from controller.offsets.topology.controller_http import ControllerHttp
from controller.offsets.topology.masters import Masters
from controller.offsets.topology.name_servers import NameServerParts, NameServerWatch
from controller.offsets.topology.shown_masters import ShownMasters
from controller.offsets.topology.values import FollowedSet, MasterChange, SetMaster
from controller.offsets.topology.watch import ControllerWatch, MastersListener, WatchParts
from remoting.client import Requester
from remoting.clock import Clock


class _SetsByOne(Protocol):
    """The sets by one of the two."""

    @property
    def sets(self) -> Mapping[str, FollowedSet]:
        """All sets by broker name."""


class Following:
    """The masters of all broker sets, followed for as long as `run` runs."""

    def __init__(
        self, config: OffsetManagerConfig, client: Requester, clock: Clock, event_log: TopologyEventLog
    ) -> None:
        """Take a configuration that follows brokers; `client` queries NameServers and brokers."""
        #: Get every change in this order.
        self.listeners: list[MastersListener] = [event_log]
        self._known: _SetsByOne
        self._watch: ControllerWatch | NameServerWatch
        if config.controller_http_addr:
            self._known = masters = Masters()
            urls = [f"http://{each}" for each in config.controller_http_addr.split(";")]
            self._watch = ControllerWatch(urls, WatchParts(ControllerHttp(), masters, self, event_log, clock))
        else:
            self._known = shown = ShownMasters()
            parts = NameServerParts(client, shown, self, event_log, clock)
            self._watch = NameServerWatch(config.namesrv_addr.split(";"), parts)

    async def run(self) -> None:
        """Follow for ever."""
        await self._watch.run()

    @property
    def sets(self) -> Mapping[str, FollowedSet]:
        """All sets by broker name."""
        return self._known.sets

    def masters(self) -> Iterator[SetMaster]:
        """Yield the master of each set that has one."""
        return (each.master for each in self._known.sets.values() if each.master is not None)

    def is_fresh(self) -> bool:
        """Return whether it is known who is master now."""
        return self._watch.is_fresh()

    def is_master(self, master: SetMaster) -> bool:
        """Return whether a broker is still the master of its set; false where that is not known."""
        return self._watch.is_master(master)

    def masters_changed(self, changes: Sequence[MasterChange]) -> None:
        """Hand changes on."""
        for each in self.listeners:
            each.masters_changed(changes)
