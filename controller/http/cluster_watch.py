"""Watches what a controller shows, as events: which of its lists have changed, to be read again by whoever shows them.

An event has no list in it: a page reads the paths that it shows. So changes that follow each other closely are one
event, and a client that was away is told of each list that has changed meanwhile, once.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

import msgspec

from serving.http.server_sent_events import HEARTBEAT, HEARTBEAT_S, DirectWriter, StreamPlaces, event_text
from serving.http.views import HttpRefused, Unavailable

#: Seconds after which a change is seen, at most.
LOOK_S: Final = 0.25
#: Open streams at one time. The console of a server needs one for all of its pages.
WATCHERS_MAX: Final = 32
#: Ms after which a client should connect again when its stream was ended in order, and seconds after a refusal.
RETRY_MS: Final = 1000
FULL_RETRY_S: Final = 10

_BOOT_ID_BYTES: Final = 8
_ID_CHARS_MAX: Final = 64

_encode: Final = msgspec.json.Encoder().encode


class ControllerWatchEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data of an event `cluster` of a controller."""

    #: The lists that may be others than before: `leader` (/v1/controllers), `brokerSets`, `elections`, `scaling`.
    changed: list[str]
    id: str


class ChangedLists:
    """Which lists have changed, and when: each look compares them with the look before."""

    def __init__(self, present: Callable[[], Mapping[str, object]], is_stopping: Callable[[], bool]) -> None:
        """`present` returns a value for each list that is another one whenever the list is."""
        self._present, self.is_stopping = present, is_stopping
        # Another one after each start: what happened in between is not known.
        self._boot_id = secrets.token_hex(_BOOT_ID_BYTES)
        self._values: dict[str, object] = {}
        #: The number of the last change of each list.
        self._changed_at: dict[str, int] = {}
        self._number = 0
        self.places = StreamPlaces(WATCHERS_MAX)

    @property
    def event_id(self) -> str:
        return f"{self._boot_id}-{self._number}"

    def look(self) -> int:
        """Compare all lists with the look before; return the number of the last change."""
        changed = {name: value for name, value in self._present().items() if self._values.get(name, self) != value}
        if changed:
            self._number += 1
            self._values |= changed
            self._changed_at |= dict.fromkeys(changed, self._number)
        return self._number

    def changed_after(self, number: int) -> list[str]:
        return [name for name, at in self._changed_at.items() if at > number]

    def watch(self, after: str, client: str) -> "ControllerStream":
        """Return the stream of a new watcher, which goes on after an id unless that is blank or of another process.

        Raises Unavailable where there are too many watchers, HttpRefused for what can be no id.
        """
        if self.is_stopping():
            raise Unavailable("This controller is stopping; watch another one.")
        stream = ControllerStream(self, self._number_of(after) if after else None)
        if not self.places.take(stream, client):
            raise Unavailable(f"There are {WATCHERS_MAX} watchers, which is the limit.", FULL_RETRY_S)
        return stream

    def _number_of(self, event_id: str) -> int | None:
        """Return the number of an id of this process; None for one of another."""
        boot_id, _, digits = event_id.rpartition("-")
        # The length first: turning a million digits into a number takes a while.
        if len(event_id) > _ID_CHARS_MAX or not (boot_id.isalnum() and digits.isascii() and digits.isdigit()):
            raise HttpRefused("Last-Event-ID, or after, must be the id of an event of this server.")
        number = int(digits)
        return number if boot_id == self._boot_id and number <= self._number else None


class ControllerStream:
    """What one watcher gets; an `EventStream`."""

    def __init__(self, watch: ChangedLists, known: int | None) -> None:
        self._watch, self._known = watch, known
        self._is_ending = False

    def end(self) -> None:
        self._is_ending = True

    def attach(self, _: DirectWriter) -> None:
        """Write nothing directly: events are rare."""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield an event at once, unless nothing has changed since the id, and after each change."""
        watch, silent_s = self._watch, 0.0
        while not (self._is_ending or watch.is_stopping()):
            number = watch.look()
            if self._known is None or number > self._known:
                changed = watch.changed_after(self._known or 0)
                self._known, silent_s = number, 0.0
                data = ControllerWatchEvent(changed=changed, id=watch.event_id)
                yield event_text("cluster", _encode(data), watch.event_id)
            elif silent_s >= HEARTBEAT_S:
                silent_s = 0.0
                yield HEARTBEAT
            await asyncio.sleep(LOOK_S)
            silent_s += LOOK_S
        yield event_text("closing", b"{}", retry_ms=RETRY_MS)

    def close(self, *, is_stalled: bool) -> None:  # noqa: ARG002  # of EventStream; a stalled one just ends
        self._watch.places.leave(self)
