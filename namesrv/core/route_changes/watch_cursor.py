"""What one watcher reads next: the present states first, then every change in order, and a gap where some are missing.

A watcher has no buffer of its own. It reads from the log at its own pace; one that is so slow that the log has
discarded what it did not read yet gets a gap and the present states, once each. So a slow one costs nothing and holds
up nobody.
"""

from collections.abc import Callable, Iterable
from enum import Enum

import msgspec

from namesrv.core.route_changes.change_log import Change, ChangeLog


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
    """The present state of a key."""

    key: str
    state: bytes
    #: Number after which a watcher that has read this far has to go on; None while more present states follow.
    number: int | None


class WatchCursor:
    """The place of one watcher in the log."""

    __slots__ = ("_behind", "_gap", "_presents", "_shown", "keys", "position")

    def __init__(self, keys: Iterable[str], position: int) -> None:
        #: What is watched.
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
        """Whether there is something to read."""
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
