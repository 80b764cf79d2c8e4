"""Keeps the away broker sets as the events of the state say, and in a file: they outlive a restart."""

import asyncio
from pathlib import Path
from typing import Final, Protocol

import msgspec

from namesrv.core.route_state import RouteState
from namesrv.core.tables.away_sets import RememberedSet
from namesrv.core.values.effects import BrokerRegistered, BrokerRemoved, DepartureReason, Event, RegistrationResult
from remoting.clock import Clock
from serving.config.stored_config import NotStored, store
from serving.durable_file import NotReadable, read_latest, recover

#: Changes of these seconds are written together.
_LOOK_S: Final = 10.0
#: The file is written as often as this though nothing has changed: sets that do not come back after a crash were there
#: until its last word.
_WORD_MS: Final = 10 * 60_000


class _StoredSets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole file."""

    written_unix_ms: int
    sets: list[RememberedSet]


class AwaySetObserver(Protocol):
    """Logs what became of the file."""

    def written_in_place(self, path: str) -> None:
        """Report that a file was overwritten in place, because it is a mount of its own."""

    def away_set_store_failed(self, error: str) -> None:
        """Report that the file cannot be read or written."""


class AwaySetStore:
    """Follows the events; one task only may call `store`."""

    def __init__(self, path: str, state: RouteState, clock: Clock, observer: AwaySetObserver) -> None:
        self._path = path
        self._sets = state.away_sets
        self._brokers = state.tables.brokers
        self._clock = clock
        self._observer = observer
        #: What the file holds, without how long sets were registered.
        self._stored: list[object] = []
        self._word_ms = 0
        self._last_error = ""

    def record(self, events: tuple[Event, ...]) -> None:
        """Take the sets of some events as they are now: an event may be older than the last change."""
        for event in events:
            match event:
                case BrokerRegistered() if event.result is not RegistrationResult.UNCHANGED:
                    self._observe(event.broker_name, is_unregistered=False)
                case BrokerRemoved():
                    self._observe(event.broker_name, is_unregistered=event.reason is DepartureReason.REQUEST)

    def restore(self) -> None:
        """Take what the file holds; one that is missing or damaged is like no memory."""
        path = Path(self._path)
        recover(path)
        try:
            if content := read_latest(path):
                stored = msgspec.json.decode(content, type=_StoredSets)
                self._sets.restore(stored.sets, stored.written_unix_ms, self._clock.unix_ms())
        except NotReadable as error:
            self._failed(str(error))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._failed(f"{path} holds no broker sets: {error}")

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
            await store(self._path, text, self._observer.written_in_place)
        except NotStored as error:
            self._failed(str(error))
        else:
            self._stored, self._word_ms, self._last_error = content, unix_ms, ""

    def _observe(self, broker_name: str, *, is_unregistered: bool) -> None:
        broker_set = self._brokers.get(broker_name)
        unix_ms = self._clock.unix_ms()
        self._sets.observe(broker_name, broker_set, is_unregistered=is_unregistered, unix_ms=unix_ms)

    def _failed(self, error: str) -> None:
        if error != self._last_error:
            self._last_error = error
            self._observer.away_set_store_failed(error)
