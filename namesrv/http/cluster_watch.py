"""Watches brokers: who registered or left and why, and which sets have another master, as events.

A watcher begins with an event without brokers, reads `/v1/brokers`, and applies the events after it: each has the
whole broker set as it is, so an event that is older than what was read does no harm.
"""

import asyncio
from typing import Final

import msgspec

from namesrv.core.route_changes.change_log import ChangeLog
from namesrv.core.route_changes.watch_counts import WatchKind
from namesrv.core.route_changes.watch_cursor import GapReason
from namesrv.core.routes import broker_data
from namesrv.core.tables.change import RouteTables
from namesrv.core.values.effects import BrokerRegistered, BrokerRemoved, Event, RegistrationResult
from namesrv.http.watch_streams import WatcherObserver, WatchStream, WatchStreams
from namesrv.settings.config import NameServerConfig
from remoting.clock import Clock
from serving.http.server_sent_events import StreamPlaces, event_text
from serving.shapes.namesrv import ClusterWatchEvent, ClusterWatchGap, ClusterWatchStart

#: The one key of the log: all brokers.
_ALL: Final = ""

_encode: Final = msgspec.json.Encoder().encode


class ClusterWatch:
    """Who watches the brokers."""

    kind: WatchKind = "cluster"

    def __init__(
        self,
        boot_id: str,
        tables: RouteTables,
        config: NameServerConfig,
        places: StreamPlaces,
        clock: Clock,
        observer: WatcherObserver,
    ) -> None:
        self._tables = tables
        self._clock = clock
        self._log = log = ChangeLog(config.route_watch_changes_max, config.route_watch_bytes_max)
        self.streams = WatchStreams(boot_id, log, self, places, clock, observer)
        self._work = asyncio.Event()

    def record(self, events: tuple[Event, ...]) -> None:
        """Note what happened to brokers; nothing is kept while nobody watches."""
        if not self._log.keys:
            return
        for event in events:
            for change in _changes_of(event):
                assert isinstance(event, BrokerRegistered | BrokerRemoved), "nothing else changes brokers"
                self._append(event, change)

    def _append(self, event: BrokerRegistered | BrokerRemoved, change: str) -> None:
        broker_set = self._tables.brokers.get(event.broker_name)

        def text_of(number: int) -> bytes:
            event_id = self.streams.id_of(number)
            data = ClusterWatchEvent(
                change=change,
                cluster=event.cluster,
                broker_name=event.broker_name,
                broker_id=event.broker_id,
                broker_addr=event.address,
                broker_set=None if broker_set is None else broker_data(broker_set),
                changed_unix_ms=self._clock.unix_ms(),
                id=event_id,
            )
            return event_text("broker", _encode(data), event_id)

        self.streams.notify(self._log.append(_ALL, text_of))
        self._work.set()

    async def publish_cluster_changes(self) -> None:
        """Let watchers read what was noted, for ever."""
        while True:
            await self._work.wait()
            self._work.clear()
            self._log.end_unwatched(self._clock.now_ms())
            while self.streams.has_ready:
                self.streams.wake_some()
                await asyncio.sleep(0)

    def watch(self, after: str, client: str) -> WatchStream:
        """Return the stream of a new watcher; raises HttpRefused and Unavailable."""
        return self.streams.open((_ALL,), after, client)

    def present(self, _: str) -> bytes:
        """Return nothing: the brokers there are have a path of their own, with pages."""
        return b""

    def present_text(self, _: str, __: bytes, event_id: str | None) -> bytes:
        """Return the event with which changes begin."""
        data = ClusterWatchStart(brokers=len(self._tables.live), broker_sets=len(self._tables.brokers), id=event_id)
        return event_text("cluster", _encode(data), event_id)

    def gap_text(self, reason: GapReason, _: tuple[str, ...]) -> bytes:
        """Return the event of a gap."""
        return event_text("gap", _encode(ClusterWatchGap(reason=reason.value)))


def _changes_of(event: Event) -> list[str]:
    match event:
        case BrokerRegistered():
            is_first = event.result is RegistrationResult.FIRST
            return ["registered"] * is_first + ["masterChanged"] * event.master_changed
        case BrokerRemoved():
            return [event.reason.value]
        case _:
            return []
