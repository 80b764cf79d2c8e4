"""Keeps the away broker sets as the events of the state say, and in a file: they outlive a restart."""

import asyncio
from pathlib import Path
from typing import Final

import msgspec

from namesrv.core.route_state import RouteState
from namesrv.core.tables.away_sets import RememberedSet
from namesrv.core.values.effects import BrokerRegistered, BrokerRemoved, DepartureReason, Event, RegistrationResult
from namesrv.observability.event_log import NameServerEventLog
from namesrv.observability.log_events import BROKER_SET_STORE_FAILED
from remoting.clock import Clock
from remoting.protocol.topic_kinds import TopicKind, kind_of
from serving.config.stored_config import NotStored, store
from serving.durable_file import NotReadable, read_latest, recover

#: Changes of these seconds are written together.
_LOOK_S: Final = 10.0
#: The file is written as often as this though nothing has changed: sets that do not come back after a crash were there
#: until its last word.
_WORD_MS: Final = 10 * 60_000


class _StoredSets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    written_unix_ms: int
    sets: list[RememberedSet]


class AwaySetStore:
    """Follows the events; one task only may call `store`."""

    def __init__(self, path: str, state: RouteState, clock: Clock, event_log: NameServerEventLog) -> None:
        self._path = Path(path)
        self._sets = state.away_sets
        self._brokers, self._topics = state.tables.brokers, state.tables.topics
        self._clock = clock
        self._event_log = event_log
        #: What the file holds, without how long sets were registered.
        self._stored: list[object] = []
        self._word_ms = 0
        self._last_error = ""

    def record(self, events: tuple[Event, ...]) -> None:
        """Take the sets of some events as they are now: an event may be older than the last change."""
        unix_ms = self._clock.unix_ms()
        for event in events:
            match event:
                case BrokerRegistered(cluster=cluster, broker_name=name) if (
                    event.result is not RegistrationResult.UNCHANGED
                ):
                    topics, owners = self._topics.of_broker(name), (cluster, name)
                    has_topics = any(kind_of(topic, owners) is TopicKind.NORMAL for topic in topics)
                    self._sets.observe(name, self._brokers.get(name), has_topics=has_topics, unix_ms=unix_ms)
                case BrokerRemoved(broker_name=name, reason=reason):
                    is_unregistered = reason is DepartureReason.REQUEST
                    self._sets.observe(name, self._brokers.get(name), is_unregistered=is_unregistered, unix_ms=unix_ms)

    def restore(self) -> None:
        """Take what the file holds; one that is missing or damaged is like no memory."""
        recover(self._path)
        try:
            if content := read_latest(self._path):
                stored = msgspec.json.decode(content, type=_StoredSets)
                self._sets.restore(stored.sets, stored.written_unix_ms, self._clock.unix_ms())
        except NotReadable as error:
            self._failed(str(error))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._failed(f"{self._path} holds no broker sets: {error}")

    async def keep_away_sets(self) -> None:
        """Forget what is over and write the file when a set came or left, for ever."""
        while True:
            await asyncio.sleep(_LOOK_S)
            self._sets.settle(self._clock.unix_ms())
            await self.store(_WORD_MS)

    async def store(self, word_ms: int = 0) -> None:
        """Write the file if it is to be another one, or was written longer than `word_ms` ago."""
        unix_ms = self._clock.unix_ms()
        sets = self._sets.known(unix_ms)
        content: list[object] = [
            (known.broker_name, known.away_since_unix_ms, *known.broker_addrs.items())
            for known in sorted(sets, key=lambda known: known.broker_name)
        ]
        if content == self._stored and (not content or 0 <= unix_ms - self._word_ms < word_ms):
            return
        text = msgspec.json.encode(_StoredSets(written_unix_ms=unix_ms, sets=sets))
        try:
            await store(str(self._path), text, self._event_log.written_in_place)
        except NotStored as error:
            self._failed(str(error))
        else:
            self._stored, self._word_ms, self._last_error = content, unix_ms, ""

    def _failed(self, error: str) -> None:
        if error != self._last_error:
            self._last_error = error
            self._event_log.write(BROKER_SET_STORE_FAILED, error=error)
