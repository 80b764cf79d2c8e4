"""Changes of masters that are to be delivered: one for each set at most, the latest, and one call of a set at a time.

Sets that were served before go first. Anybody can begin sets, so the new ones of a host have one call at a time, and
hosts take turns. Pure. A later change takes the place of an earlier one, so that 100,000 sets that change again and
again need no more memory than 100,000 changes.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple

from controller.roles.changes import RoleChange

#: The waits after the first failures, the last one from then on; a later change of the set does not wait.
RETRY_MS: Final = (1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000)


class DueChange(NamedTuple):
    change: RoleChange
    #: From 1 on.
    attempt: int


class UndeliveredChange(NamedTuple):
    """A change that waits, or is being delivered."""

    change: RoleChange
    #: Failed attempts.
    failures: int
    #: Why the last one failed; blank before.
    error: str
    #: Since when the set has a change that was not delivered; monotonic ms.
    since_ms: int
    is_running: bool


class _Entry:
    __slots__ = ("change", "due_ms", "error", "failures", "host", "running", "since_ms")

    def __init__(self, change: RoleChange, host: str, now_ms: int) -> None:
        self.change = change
        #: Where a new set began; blank of one that was served before, or if unknown.
        self.host = host
        self.since_ms = self.due_ms = now_ms
        self.failures = 0
        self.error = ""
        #: What is being delivered; it may be an earlier change than `change`.
        self.running: RoleChange | None = None


class PendingChanges:
    """What is to be delivered, by broker name."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        #: When sets are due: (monotonic ms, number, broker name). An entry that has moved meanwhile is passed over.
        self._due: list[tuple[int, int, str]] = []
        #: The sets that are due, by host.
        self._lines: dict[str, deque[str]] = {}
        #: Hosts with a call for a new set, and those whose turn comes.
        self._busy: set[str] = set()
        self._turns: deque[str] = deque()
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[UndeliveredChange]:
        for each in self._entries.values():
            yield UndeliveredChange(each.change, each.failures, each.error, each.since_ms, each.running is not None)

    @property
    def oldest_ms(self) -> int | None:
        """Since when the set that waits longest does; monotonic ms, None if all is delivered."""
        return min((each.since_ms for each in self._entries.values()), default=None)

    def offer(self, change: RoleChange, now_ms: int, host: str = "") -> bool:
        """Deliver a change, unless the same or a later one of its set waits already; returns whether it is new.

        `host` is where a set began that was never served.
        """
        entry = self._entries.get(change.broker_name)
        if entry is None:
            entry = self._entries[change.broker_name] = _Entry(change, host, now_ms)
            self._schedule(entry)
            return True
        if not _is_after(change, entry.change):
            return False
        entry.change, entry.failures, entry.error = change, 0, ""
        is_waiting = entry.running is None and entry.due_ms > now_ms
        entry.due_ms = now_ms if entry.running is not None else min(entry.due_ms, now_ms)
        if is_waiting:
            self._schedule(entry)
        return True

    def take_due(self, now_ms: int, count: int) -> list[DueChange]:
        """Return the changes to deliver now, `count` at most, those first that are due for longest."""
        while self._due and self._due[0][0] <= now_ms:
            due_ms, _, name = heappop(self._due)
            entry = self._entries.get(name)
            if entry is not None and entry.due_ms == due_ms and entry.running is None:
                self._line_up(entry)
        taken: list[DueChange] = []
        while len(taken) < count and ("" in self._lines or self._turns):
            host = "" if "" in self._lines else self._turns.popleft()
            entry = self._entries[self._lines[host].popleft()]
            if not self._lines[host]:
                del self._lines[host]
            if host:
                self._busy.add(host)
            entry.running = entry.change
            taken.append(DueChange(entry.change, entry.failures + 1))
        return taken

    def delivered(self, change: RoleChange) -> None:
        """Report that a change was delivered; a later one of its set is due at once."""
        entry = self._entries[change.broker_name]
        self._end_turn(entry.host)
        entry.running, entry.host = None, ""
        if entry.change == change:
            del self._entries[change.broker_name]
        else:
            entry.since_ms = entry.due_ms
            self._schedule(entry)

    def failed(self, change: RoleChange, error: str, now_ms: int) -> int:
        """Report that a change was not delivered; returns in how many ms its set is tried again."""
        entry = self._entries[change.broker_name]
        self._end_turn(entry.host)
        entry.running = None
        if entry.change == change:
            wait_ms = RETRY_MS[min(entry.failures, len(RETRY_MS) - 1)]
            entry.failures += 1
            entry.error = error
            entry.due_ms = now_ms + wait_ms
        else:
            wait_ms = 0
            entry.due_ms = now_ms
        self._schedule(entry)
        return wait_ms

    def drop(self, change: RoleChange) -> None:
        """Report that a change that was taken is not to be delivered any more: its set is gone."""
        self._end_turn(self._entries.pop(change.broker_name).host)

    def clear(self) -> None:
        for each in (self._entries, self._due, self._lines, self._busy, self._turns):
            each.clear()

    def _schedule(self, entry: _Entry) -> None:
        self._numbers += 1
        heappush(self._due, (entry.due_ms, self._numbers, entry.change.broker_name))

    def _line_up(self, entry: _Entry) -> None:
        line = self._lines.setdefault(entry.host, deque())
        if entry.host and not line and entry.host not in self._busy:
            self._turns.append(entry.host)
        line.append(entry.change.broker_name)

    def _end_turn(self, host: str) -> None:
        """Let a host whose call for a new set has ended take its turn again, behind the others."""
        self._busy.discard(host)
        if host in self._lines and host:
            self._turns.append(host)


def _is_after(change: RoleChange, other: RoleChange) -> bool:
    """Return whether a change takes the place of another one: it is of a later epoch, or names another address."""
    if change.master_epoch == other.master_epoch:
        return change.new != other.new
    return change.master_epoch > other.master_epoch
