"""Numbered changes of the keys that somebody watches, and what each watcher reads of them next.

A key is a topic, or the one key of all brokers. What is kept has a limit in changes and in bytes, over all keys
together; the oldest go first, and each key knows since when all of its changes are here. A watcher has no buffer of its
own: it reads the present states, then every change in order, at its own pace. One that is so slow that the log has
discarded what it did not read gets a gap and the present states, once each. Pure: bytes in, bytes out.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, KeysView
from enum import Enum
from typing import Final, Literal

import msgspec

#: A key that nobody watches any more is followed so long, in ms: its watcher may be about to connect again.
UNWATCHED_MS_MAX: Final = 10 * 60 * 1000
#: So many keys that nobody watches are followed; beyond it those go first that are unwatched for longest.
UNWATCHED_KEYS_MAX: Final = 10_000


class Change(msgspec.Struct, frozen=True):
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
        self.cursors: dict[WatchCursor, None] = {}
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
        return self._followed.keys()

    def watch(self, key: str, cursor: "WatchCursor") -> None:
        followed = self._followed.get(key)
        if followed is None:
            # A number of its own: whoever has read up to the number before does not know what happened to the key.
            self.number += 1
            followed = self._followed[key] = FollowedKey(self.number)
        self._unwatched.pop(key, None)
        followed.cursors[cursor] = None

    def unwatch(self, key: str, cursor: "WatchCursor", now_ms: int) -> None:
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

    def append(self, key: str, text_of: Callable[[int], bytes]) -> "list[WatchCursor]":
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


class GapReason(Enum):
    """Why a watcher misses changes; the values are the metric's labels."""

    #: The id is of another server, or of this one before a restart.
    UNKNOWN_ID = "unknown_id"
    #: The id is known, and changes after it are no longer kept.
    TOO_OLD = "too_old"
    #: The watcher read so slowly that changes were discarded meanwhile.
    SLOW_READER = "slow_reader"


class WatchGap(msgspec.Struct, frozen=True):
    """Changes of these keys may be missing; their present states follow."""

    reason: GapReason
    keys: tuple[str, ...]


class PresentState(msgspec.Struct, frozen=True):
    key: str
    state: bytes
    #: Number after which a watcher that has read this far has to go on; None while more present states follow.
    number: int | None


class WatchCursor:
    """The place of one watcher in the log."""

    __slots__ = ("_behind", "_gap", "_presents", "_shown", "keys", "position")

    def __init__(self, keys: Iterable[str], position: int) -> None:
        self.keys = tuple(keys)
        #: What happened to the keys up to this number was read, or is in `_presents`.
        self.position = position
        self._gap: WatchGap | None = None
        #: Keys whose present states are read next.
        self._presents: dict[str, None] = {}
        #: Key -> number at which its present state was read, if later changes were not read before.
        self._shown: dict[str, int] = {}
        #: Keys with changes after `position`.
        self._behind: dict[str, None] = {}

    @property
    def has_more(self) -> bool:
        return bool(self._behind or self._presents or self._gap)

    def add(self, key: str) -> None:
        """Follow that a key has one more change."""
        if key not in self._presents:
            self._behind[key] = None

    def begin(self, position: int, gap: GapReason | None = None) -> None:
        """Read the present states of all keys, after a gap if changes are missing."""
        self._restart(self.keys, position, gap)

    def resume(self, log: ChangeLog) -> None:
        """Read every change after `position`, or a gap and the present states if some are no longer kept."""
        self._behind = dict.fromkeys(self.keys)
        if self._has_lost(log):
            self.begin(log.number, GapReason.TOO_OLD)

    def take(
        self, log: ChangeLog, present: Callable[[str], bytes], bytes_max: int
    ) -> list[WatchGap | PresentState | Change]:
        """Return what comes next, of at least one step and hardly more than so many bytes; nothing if all is read.

        `present` returns the present state of a key, and has added its latest change to the log by then.
        """
        if self._behind and not self._presents and self._has_lost(log):
            self._restart(tuple(self._behind), log.number, GapReason.SLOW_READER)
        steps: list[WatchGap | PresentState | Change] = []
        if self._gap is not None:
            steps.append(self._gap)
            self._gap = None
        size = 0
        while self._presents and size < bytes_max:
            steps.append(shown := self._next_present(log, present))
            size += len(shown.state)
        if not self._presents and size < bytes_max and not self._has_lost(log):
            steps += self._next_changes(log, bytes_max - size)
        return steps

    def _next_present(self, log: ChangeLog, present: Callable[[str], bytes]) -> PresentState:
        key = next(iter(self._presents))
        del self._presents[key]
        state = present(key)
        self._behind.pop(key, None)
        self._shown[key] = log.number
        return PresentState(key, state, None if self._presents else self.position)

    def _next_changes(self, log: ChangeLog, bytes_max: int) -> list[Change]:
        waiting = [change for key in self._behind for change in log.after(key, self._read_of(key))]
        waiting.sort(key=lambda change: change.number)
        size = taken = 0
        for taken, change in enumerate(waiting, 1):  # noqa: B007  # its last value counts
            size += len(change.text)
            if size >= bytes_max:
                break
        if taken < len(waiting):
            self.position = waiting[taken - 1].number
        else:
            self.position = log.number
            self._behind.clear()
            self._shown.clear()
        return waiting[:taken]

    def _has_lost(self, log: ChangeLog) -> bool:
        """Return whether changes that were not read are no longer kept."""
        return any((key := log.get(name)) is None or key.complete_since > self._read_of(name) for name in self._behind)

    def _read_of(self, key: str) -> int:
        return max(self.position, self._shown.get(key, 0))

    def _restart(self, keys: tuple[str, ...], position: int, gap: GapReason | None) -> None:
        self.position = position
        self._gap = None if gap is None else WatchGap(gap, keys)
        self._presents = dict.fromkeys(keys)
        self._behind.clear()
        self._shown.clear()


#: What is watched; a label of the metrics.
WatchKind = Literal["routes", "cluster"]


class WatchCounts(msgspec.Struct):
    """Plain numbers, one set for each kind of watch."""

    #: Open now.
    watchers: int = 0
    #: Events sent, each once for each watcher that got it.
    events: int = 0
    gaps: Counter[GapReason] = msgspec.field(default_factory=Counter)
    #: Watchers that read nothing for a minute.
    stalled: int = 0
    #: Those beyond the limit.
    refused: int = 0
