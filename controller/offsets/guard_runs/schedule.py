"""Which broker sets wait for the guard, which have a run, and from which reading the next one begins. Pure.

A set has one run at a time. A change of its master ends the run, and the next one begins from the reading of the run
that was cut, unless the mirror has read the broker in between after the run there had ended: then that reading has what
the run did, and what groups have committed since. Where another manager serves, its run has ended half a minute later.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from controller.offsets.guard_runs.occasions import GuardOccasion, is_run_of
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.saved_offsets import SavedOffsets

#: Runs at one broker that are not complete, one after another; then an operator has to look.
ATTEMPTS_MAX: Final = 4
#: Between two of them.
PAUSE_MS: Final = 2_000
#: What the mirror requests so long after a change was noticed is right by itself, whoever has guarded it.
SETTLED_MS: Final = 30_000


@dataclass(slots=True)
class _SetState:
    #: What is to be done, is done, or was done last.
    occasion: GuardOccasion
    is_running: bool = False
    attempts: int = 0
    #: Another run begins then at the earliest, monotonic ms.
    not_before_ms: int = 0
    #: When its last run ended, monotonic ms; None: none has, or another one is to follow.
    ended_ms: int | None = None

    @property
    def is_waiting(self) -> bool:
        return not self.is_running and self.ended_ms is None

    def is_settled_by(self, read: SavedOffsets) -> bool:
        """Whether a reading is of this master, and has what became of it."""
        settled_ms = self.occasion.noticed_ms + SETTLED_MS
        if self.ended_ms is not None:
            settled_ms = min(settled_ms, self.ended_ms)
        is_later = read.requested_ms is not None and read.requested_ms > settled_ms
        return is_later and is_run_of(read.read.run, self.occasion.master)


class GuardSchedule:
    """The broker sets whose master has changed: one entry for each at most."""

    def __init__(self) -> None:
        self._states: dict[SetName, _SetState] = {}

    @property
    def waiting(self) -> int:
        """Sets that wait for a run."""
        return sum(each.is_waiting for each in self._states.values())

    @property
    def running(self) -> int:
        """Sets with a run."""
        return sum(each.is_running for each in self._states.values())

    def saved_for_next(self, set_name: SetName, read: SavedOffsets) -> SavedOffsets:
        """Return from which reading a run at the next master begins, if the mirror would give `read`.

        That is the reading of the last run, as long as the mirror has not read what that run has done.
        """
        state = self._states.get(set_name)
        if state is None:
            return read
        return read if state.is_settled_by(read) else state.occasion.saved

    def add(self, occasion: GuardOccasion) -> bool:
        """Let a set wait for a run, in place of what it waited for; return whether one is under way that is to end.

        An occasion that is under way, or was dealt with, is no new one.
        """
        state = self._states.get(occasion.set_name)
        if state is not None and _is_same(state.occasion, occasion):
            return False
        is_cut = state is not None and state.is_running
        self._states[occasion.set_name] = _SetState(occasion, is_running=is_cut)
        return is_cut

    def begin(self, set_name: SetName) -> GuardOccasion | None:
        """Return what is to be done at a set, which has a run from now on; None if nothing is."""
        state = self._states.get(set_name)
        if state is None or not state.is_waiting:
            return None
        state.is_running = True
        state.attempts += 1
        return state.occasion

    def end(self, occasion: GuardOccasion, *, now_ms: int, is_failed: bool) -> None:
        """Take that a run has ended; one that failed is repeated after PAUSE_MS, ATTEMPTS_MAX runs in all."""
        state = self._states.get(occasion.set_name)
        if state is None:
            return
        state.is_running = False
        if state.occasion is not occasion:
            return
        if is_failed and state.attempts < ATTEMPTS_MAX:
            state.not_before_ms = now_ms + PAUSE_MS
        else:
            state.ended_ms = now_ms

    def names_waiting(self, now_ms: int, may_begin: Callable[[GuardOccasion], bool]) -> list[SetName]:
        """Return the sets whose run may begin now, those that were noticed first before the others."""
        due = [
            (each.occasion.noticed_ms, name)
            for name, each in self._waiting()
            if each.not_before_ms <= now_ms and may_begin(each.occasion)
        ]
        return [name for _, name in sorted(due)]

    def forget_settled(self, set_name: SetName, read: SavedOffsets) -> bool:
        """Forget a set whose run has ended, once the mirror has read what it did; return whether that is so."""
        state = self._states.get(set_name)
        if state is None or state.ended_ms is None or not state.is_settled_by(read):
            return False
        del self._states[set_name]
        return True

    def drop_outdated(self, now_ms: int) -> list[GuardOccasion]:
        """Forget occasions that have waited for too long, and return them: this manager did not serve."""
        outdated = [each.occasion for _, each in self._waiting() if each.occasion.is_outdated(now_ms)]
        for each in outdated:
            del self._states[each.set_name]
        return outdated

    def forget(self, set_name: SetName) -> bool:
        """Forget a set; return whether a run is under way that is to end."""
        state = self._states.pop(set_name, None)
        return state is not None and state.is_running

    def _waiting(self) -> Iterator[tuple[SetName, _SetState]]:
        return ((name, each) for name, each in self._states.items() if each.is_waiting)


def _is_same(one: GuardOccasion, other: GuardOccasion) -> bool:
    return one.master == other.master and one.saved is other.saved
