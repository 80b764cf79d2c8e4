"""Numbered changes of the keys that somebody watches, the latest of them kept so that a cut connection loses none.

A key is a topic, or the one key of all brokers. What is kept has a limit in changes and in bytes, over all keys
together; the oldest go first, and each key knows since when all of its changes are here. Pure: bytes in, bytes out.
"""

from collections import deque
from collections.abc import Callable, Iterator, KeysView
from typing import Final, Protocol

import msgspec

#: A key that nobody watches any more is followed so long, in ms: its watcher may be about to connect again.
UNWATCHED_MS_MAX: Final = 10 * 60 * 1000
#: So many keys that nobody watches are followed; beyond it those go first that are unwatched for longest.
UNWATCHED_KEYS_MAX: Final = 10_000


class ChangeReader(Protocol):
    """Reads the changes of the keys that it watches."""

    @property
    def has_more(self) -> bool:
        """Whether there is something to read."""

    def add(self, key: str) -> None:
        """Follow that a key has one more change."""


class Change(msgspec.Struct, frozen=True):
    """One change of one key."""

    #: Later changes have greater numbers; some numbers are no change's.
    number: int
    key: str
    #: As every watcher gets it.
    text: bytes


class FollowedKey:
    """What is known of a key that is watched, or was until a moment ago."""

    __slots__ = ("changed_unix_ms", "changes", "complete_since", "cursors", "digest", "unwatched_ms")

    def __init__(self, complete_since: int) -> None:
        #: Those that are kept, oldest first.
        self.changes: deque[Change] = deque()
        #: All changes with a greater number are kept.
        self.complete_since = complete_since
        #: Of its present state, for the owner of the log; blank until somebody reads the state or it changes.
        self.digest = b""
        #: When its present state came; None if that was before it was followed.
        self.changed_unix_ms: int | None = None
        #: Who watches it.
        self.cursors: dict[ChangeReader, None] = {}
        #: Since when nobody watches it, monotonic.
        self.unwatched_ms = 0


class ChangeLog:
    """The changes of all followed keys, and who has to read them."""

    def __init__(self, changes_max: int, bytes_max: int) -> None:
        self._changes_max = changes_max
        self._bytes_max = bytes_max
        self._followed: dict[str, FollowedKey] = {}
        #: Those of `_followed` that nobody watches, longest first.
        self._unwatched: dict[str, None] = {}
        self._kept: deque[Change] = deque()
        self._bytes = 0
        #: The greatest number so far.
        self.number = 0
        #: The followed key; None for any other.
        self.get = self._followed.get

    @property
    def keys(self) -> KeysView[str]:
        """The keys that are followed."""
        return self._followed.keys()

    def watch(self, key: str, cursor: ChangeReader) -> None:
        """Follow a key for a watcher."""
        followed = self._followed.get(key)
        if followed is None:
            # A number of its own: whoever has read up to the number before does not know what happened to the key.
            self.number += 1
            followed = self._followed[key] = FollowedKey(self.number)
        self._unwatched.pop(key, None)
        followed.cursors[cursor] = None

    def unwatch(self, key: str, cursor: ChangeReader, now_ms: int) -> None:
        """End what `watch` began; the key is followed for a while longer."""
        followed = self._followed[key]
        del followed.cursors[cursor]
        if not followed.cursors:
            followed.unwatched_ms = now_ms
            self._unwatched[key] = None
            self.end_unwatched(now_ms)

    def end_unwatched(self, now_ms: int) -> None:
        """Follow no longer what nobody has watched for long, and what is beyond the limit."""
        while self._unwatched:
            key = next(iter(self._unwatched))
            age_ms = now_ms - self._followed[key].unwatched_ms
            if age_ms < UNWATCHED_MS_MAX and len(self._unwatched) <= UNWATCHED_KEYS_MAX:
                return
            del self._unwatched[key], self._followed[key]

    def append(self, key: str, text_of: Callable[[int], bytes]) -> list[ChangeReader]:
        """Keep a change of a followed key, whose text has its number; return the watchers that had nothing to read."""
        self.number += 1
        change = Change(self.number, key, text_of(self.number))
        followed = self._followed[key]
        followed.changes.append(change)
        self._kept.append(change)
        self._bytes += len(change.text)
        while len(self._kept) > self._changes_max or self._bytes > self._bytes_max:
            self._discard_oldest()
        idle = [cursor for cursor in followed.cursors if not cursor.has_more]
        for cursor in followed.cursors:
            cursor.add(key)
        return idle

    def after(self, key: str, number: int) -> Iterator[Change]:
        """Yield the kept changes of a followed key with a greater number, oldest first."""
        changes = self._followed[key].changes
        newer = 0
        for change in reversed(changes):
            if change.number <= number:
                break
            newer += 1
        for index in range(len(changes) - newer, len(changes)):
            yield changes[index]

    def _discard_oldest(self) -> None:
        change = self._kept.popleft()
        self._bytes -= len(change.text)
        followed = self._followed.get(change.key)
        # The key may be followed anew since.
        if followed is not None and followed.changes and followed.changes[0] is change:
            followed.changes.popleft()
            followed.complete_since = change.number
