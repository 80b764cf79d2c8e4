"""What can be watched over HTTP: routes and brokers, with one limit for all watchers.

A change of a route is noted in the step that makes it (`routes_dropped`), and looked at in a task of its own: the route
is encoded as `/v1/topics/{topic}/route` has it and compared with the one before, some topics at a time. Changes of one
topic within one turn of the event loop are one event. While nobody watches, a change costs one comparison, and a query
nothing.

A watcher of brokers begins with an event without brokers, reads `/v1/brokers`, and applies the events after it: each
has the whole broker set as it is, so an event that is older than what was read does no harm.
"""

import asyncio
from collections.abc import Collection
from hashlib import blake2b
from itertools import islice
from secrets import token_hex
from typing import Final

import msgspec

from namesrv.core.change_log import GapReason
from namesrv.core.route_state import RouteState
from namesrv.core.routes import broker_data
from namesrv.core.tables.change import RouteTables
from namesrv.core.values.effects import BrokerRegistered, BrokerRemoved, Event, RegistrationResult
from namesrv.http.watch_streams import WatchStream, WatchStreams
from namesrv.observability.event_log import NameServerEventLog
from namesrv.refusals import NameTooLong
from namesrv.settings.config import NameServerConfig
from namesrv.settings.durable_settings import DurableSettings
from remoting.clock import Clock
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.route import TopicRouteData
from remoting.server.response_cache import PreparedResponse
from serving.http.server_sent_events import StreamPlaces, event_text
from serving.http.views import HttpRefused
from serving.shapes.namesrv import ClusterWatchEvent, ClusterWatchGap, ClusterWatchStart, RouteWatchEvent, WatchGapEvent

#: Bytes of routes that are encoded and compared in one turn of the event loop, about 1 ms of work.
TURN_BYTES: Final = 64 * 1024
TURN_TOPICS: Final = 50

_DIGEST_BYTES: Final = 16

_encode: Final = msgspec.json.Encoder().encode


def plain_route(state: RouteState, settings: DurableSettings, topic: str) -> TopicRouteData | None:
    """Return the route that clients without a zone and without role addresses get, None if no broker has the topic."""
    order_conf = settings.kv.order_conf(topic) if settings.config.order_message_enable else None
    return state.route_of(topic, order_conf)


def plain_route_text(state: RouteState, settings: DurableSettings, topic: str) -> bytes | None:
    """Return the same as JSON: what is sent to clients that want the standard, encoded once for all."""
    cache = state.route_cache
    if (prepared := cache.get(topic, Dialect.STANDARD)) is not None:
        return prepared.body
    if (route := plain_route(state, settings, topic)) is None:
        return None
    text = encode(route, Dialect.STANDARD)
    # Who fetches the route of a watched topic must be told by the request for it.
    if state.route_fetches.get(topic) is None:
        cache.keep(topic, Dialect.STANDARD, PreparedResponse(text, cache.counts.found))
    return text


class RouteWatch(WatchStreams):
    kind = "routes"

    def __init__(
        self,
        boot_id: str,
        state: RouteState,
        settings: DurableSettings,
        places: StreamPlaces,
        clock: Clock,
        event_log: NameServerEventLog,
    ) -> None:
        super().__init__(boot_id, settings.config, places, clock, event_log)
        self._state = state
        self._settings = settings
        self._topics_max = settings.config.route_watch_topics_max
        #: Followed topics whose routes may have changed.
        self._dropped: dict[str, None] = {}

    # What changes

    def routes_dropped(self, topics: Collection[str] | None) -> None:
        """Note topics whose routes change in this step, None for any; called before or after they do."""
        if self.log.keys and (dropped := self.log.keys & (self.log.keys if topics is None else topics)):
            self._dropped.update(dict.fromkeys(dropped))
            self._work.set()

    async def publish_route_changes(self) -> None:
        """Turn what was noted into changes for the watchers, for ever."""
        while True:
            await self._work.wait()
            self._work.clear()
            self.log.end_unwatched(self._clock.now_ms())
            while self._dropped or self._ready:
                self._publish_some()
                self.wake_some()
                await asyncio.sleep(0)

    def _publish_some(self) -> None:
        size = 0
        for topic in list(islice(self._dropped, TURN_TOPICS)):
            size += len(self._publish(topic))
            if size >= TURN_BYTES:
                return

    def _publish(self, topic: str) -> bytes:
        """Keep the change of a topic, if its route is another one than before; return its route."""
        self._dropped.pop(topic, None)
        state = self._state_of(topic)
        followed = self.log.get(topic)
        if followed is not None and followed.digest != (digest := _digest(state)):
            followed.digest = digest
            followed.changed_unix_ms = self._clock.unix_ms()
            self.notify(self.log.append(topic, lambda number: self._text(topic, state, number)))
            if self._ready:
                self._work.set()
        return state

    # What watchers get

    def watch(self, topics: tuple[str, ...], after: str, client: str) -> WatchStream:
        """Return the stream of a new watcher; raises HttpRefused and Unavailable."""
        unique = tuple(dict.fromkeys(topics))
        if not unique:
            raise HttpRefused("Name the topics to watch: ?topic=NAME, once for each.")
        if len(unique) > self._topics_max:
            raise HttpRefused(
                f"{len(unique)} topics are more than routeWatchTopicsMax allows, {self._topics_max}; watch the others "
                "over another connection."
            )
        for topic in unique:
            if not 0 < len(topic) <= NameTooLong.CHARS_MAX:
                raise HttpRefused(f"A topic's name has 1 to {NameTooLong.CHARS_MAX} characters, not {len(topic)}.")
        return self.open(unique, after, client)

    def present(self, key: str) -> bytes:
        """Return the present route of a topic as JSON, `null` if no broker has it."""
        if key in self._dropped:
            return self._publish(key)
        state = self._state_of(key)
        if (followed := self.log.get(key)) is not None and not followed.digest:
            followed.digest = _digest(state)
        return state

    def present_text(self, key: str, state: bytes, event_id: str | None) -> bytes:
        followed = self.log.get(key)
        changed_unix_ms = None if followed is None else followed.changed_unix_ms
        return _route_text(key, state, changed_unix_ms, event_id)

    def gap_text(self, reason: GapReason, keys: tuple[str, ...]) -> bytes:
        return event_text("gap", _encode(WatchGapEvent(reason=reason.value, topics=list(keys))))

    def _text(self, topic: str, state: bytes, number: int) -> bytes:
        return _route_text(topic, state, self._clock.unix_ms(), self.id_of(number))

    def _state_of(self, topic: str) -> bytes:
        return plain_route_text(self._state, self._settings, topic) or b"null"


def _route_text(topic: str, state: bytes, changed_unix_ms: int | None, event_id: str | None) -> bytes:
    data = RouteWatchEvent(topic=topic, route=msgspec.Raw(state), changed_unix_ms=changed_unix_ms, id=event_id)
    return event_text("route", _encode(data), event_id)


def _digest(state: bytes) -> bytes:
    return blake2b(state, digest_size=_DIGEST_BYTES).digest()


#: The one key of the log: all brokers.
_ALL: Final = ""


class ClusterWatch(WatchStreams):
    kind = "cluster"

    def __init__(
        self,
        boot_id: str,
        tables: RouteTables,
        config: NameServerConfig,
        places: StreamPlaces,
        clock: Clock,
        event_log: NameServerEventLog,
    ) -> None:
        super().__init__(boot_id, config, places, clock, event_log)
        self._tables = tables

    def record(self, events: tuple[Event, ...]) -> None:
        """Note what happened to brokers; nothing is kept while nobody watches."""
        if not self.log.keys:
            return
        for event in events:
            for change in _changes_of(event):
                assert isinstance(event, BrokerRegistered | BrokerRemoved), "nothing else changes brokers"
                self._append(event, change)

    def _append(self, event: BrokerRegistered | BrokerRemoved, change: str) -> None:
        broker_set = self._tables.brokers.get(event.broker_name)

        def text_of(number: int) -> bytes:
            event_id = self.id_of(number)
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

        self.notify(self.log.append(_ALL, text_of))
        self._work.set()

    async def publish_cluster_changes(self) -> None:
        """Let watchers read what was noted, for ever."""
        while True:
            await self._work.wait()
            self._work.clear()
            self.log.end_unwatched(self._clock.now_ms())
            while self._ready:
                self.wake_some()
                await asyncio.sleep(0)

    def watch(self, after: str, client: str) -> WatchStream:
        """Return the stream of a new watcher; raises HttpRefused and Unavailable."""
        return self.open((_ALL,), after, client)

    def present(self, _: str) -> bytes:
        """Return nothing: the brokers there are have a path of their own, with pages."""
        return b""

    def present_text(self, _: str, __: bytes, event_id: str | None) -> bytes:
        """Return the event with which changes begin."""
        data = ClusterWatchStart(brokers=len(self._tables.live), broker_sets=len(self._tables.brokers), id=event_id)
        return event_text("cluster", _encode(data), event_id)

    def gap_text(self, reason: GapReason, _: tuple[str, ...]) -> bytes:
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


_BOOT_ID_BYTES: Final = 8


class Watches:
    def __init__(
        self,
        state: RouteState,
        settings: DurableSettings,
        watchers_max: int,
        clock: Clock,
        event_log: NameServerEventLog,
    ) -> None:
        """Follow the routes of `state` from now on; `cluster.record` has to be given the events."""
        # Another one after each start: what happened in between is not known.
        boot_id = token_hex(_BOOT_ID_BYTES)
        places = StreamPlaces(watchers_max)
        self.routes = RouteWatch(boot_id, state, settings, places, clock, event_log)
        self.cluster = ClusterWatch(boot_id, state.tables, settings.config, places, clock, event_log)
        state.route_cache.dropped = self.routes.routes_dropped

    @property
    def streams(self) -> tuple[WatchStreams, ...]:
        return self.routes, self.cluster

    def close(self) -> None:
        """End all streams in order, and take no more: their clients go to other servers."""
        for each in self.streams:
            each.close()
