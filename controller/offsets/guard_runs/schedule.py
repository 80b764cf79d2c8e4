"""Which broker sets wait for the guard, which have a run, and from which reading the next one begins. Pure.

A set has one run at a time. A change of its master ends the run, and the next one begins from the reading of the run
that was cut, unless the mirror has read the broker in between after the run there had ended: then that reading has what
the run did, and what groups have committed since. Where another manager leads, its run has ended half a minute later.
A broker that was started again since its run may have lost what that wrote: another run begins from the same reading.
"""

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller.offsets.guard.boundaries import CLOCK_MARGIN_MS
from controller.offsets.guard_runs.occasions import GuardOccasion, is_run_of
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.saved_offsets import SavedOffsets

#: Runs at one broker that are not complete, one after another; then an operator has to look.
ATTEMPTS_MAX: Final = 4
#: Between two of them.
PAUSE_MS: Final = 2_000
#: What the mirror requests so long after another manager was seen to lead is right by itself: that one has guarded it.
SETTLED_MS: Final = 30_000


class OutdatedOccasion(NamedTuple):
    """What was not dealt with for too long."""

    occasion: GuardOccasion
    #: No run began, and no other manager led: nobody has decided it.
    is_undecided: bool


class RunEnd(enum.Enum):
    """How a run has ended."""

    COMPLETE = enum.auto()
    FAILED = enum.auto()
    #: Nothing was missing but that who is master was known: it is no attempt at the broker.
    ROLE_CHANGED = enum.auto()


@dataclass(slots=True)
class _SetState:
    #: What is to be done, is done, or was done last.
    occasion: GuardOccasion
    is_running: bool = False
    attempts: int = 0
    #: When the first of them began at the broker, monotonic ms; None: none has.
    first_run_ms: int | None = None
    #: Another run begins then at the earliest, monotonic ms.
    not_before_ms: int = 0
    #: When its last run ended, monotonic and Unix ms; None: none has, or another one is to follow.
    ended_ms: int | None = None
    ended_unix_ms: int | None = None
    #: The last run has not done all, and no other one follows.
    is_given_up: bool = False
    #: When another manager was seen to lead first while the set was waiting, monotonic ms.
    led_elsewhere_ms: int | None = None

    @property
    def is_waiting(self) -> bool:
        return not self.is_running and self.ended_ms is None

    def is_settled_by(self, read: SavedOffsets) -> bool:
        """Whether a reading is of this master, and has what became of it."""
        run = read.read.run
        if read.requested_ms is None or not is_run_of(run, self.occasion.master):
            return False
        if self.led_elsewhere_ms is not None and read.requested_ms > self.led_elsewhere_ms + SETTLED_MS:
            return True
        is_done = self.ended_ms is not None and not self.is_given_up and read.requested_ms > self.ended_ms
        return is_done and not self.has_restarted(run.boot_unix_ms)

    def has_restarted(self, boot_unix_ms: int | None) -> bool:
        """Whether a broker with this start may have lost what the run wrote that has ended."""
        if self.ended_unix_ms is None or boot_unix_ms is None:
            return False
        if self.occasion.boot_unix_ms is not None:
            return boot_unix_ms > self.occasion.boot_unix_ms
        return boot_unix_ms > self.ended_unix_ms - CLOCK_MARGIN_MS


class GuardSchedule:
    """The broker sets whose master has changed: one entry for each at most."""

    def __init__(self) -> None:
        self._states: dict[SetName, _SetState] = {}
        #: Occasions that were dropped, until the mirror has read their master or another one is master: what is found
        #: at the same one again is no news.
        self._dropped: dict[SetName, GuardOccasion] = {}

    @property
    def waiting(self) -> int:
        """Sets that wait for a run."""
        return sum(each.is_waiting for each in self._states.values())

    @property
    def running(self) -> int:
        """Sets with a run."""
        return sum(each.is_running for each in self._states.values())

    def saved_for_next(self, set_name: SetName, read: SavedOffsets, oldest: SavedOffsets) -> SavedOffsets:
        """Return from which reading a run at the next master begins, if the mirror would give `read`.

        That is the reading of the last run, as long as the mirror has not read what that run has done. Where no run is
        known, as after a start of this process, it is `oldest`: of the first run that was not dealt with.
        """
        state = self._states.get(set_name)
        if state is None:
            return oldest
        return read if state.is_settled_by(read) else state.occasion.saved

    def add(self, occasion: GuardOccasion) -> bool:
        """Let a set wait for a run, in place of what it waited for; return whether one is under way that is to end.

        An occasion that is under way, or was dealt with, is no new one unless the broker was started again since. One
        that was dropped is none.
        """
        dropped = self._dropped.get(occasion.set_name)
        if dropped is not None and dropped.master == occasion.master:
            return False
        self._dropped.pop(occasion.set_name, None)
        state = self._states.get(occasion.set_name)
        is_same = state is not None and _is_same(state.occasion, occasion)
        if state is not None and is_same and not state.has_restarted(occasion.boot_unix_ms):
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

    def first_run_ms(self, occasion: GuardOccasion, now_ms: int) -> int:
        """Return when the first run of an occasion began at the broker, monotonic ms: now, if there was none."""
        state = self._states.get(occasion.set_name)
        if state is None or state.occasion is not occasion:
            return now_ms
        if state.first_run_ms is None:
            state.first_run_ms = now_ms
        return state.first_run_ms

    def end(self, occasion: GuardOccasion, *, now_ms: int, unix_ms: int, end: RunEnd) -> bool:
        """Take that a run has ended; return whether it has failed and no other one follows.

        One that failed is repeated after PAUSE_MS, ATTEMPTS_MAX runs in all.
        """
        state = self._states.get(occasion.set_name)
        if state is None:
            return False
        state.is_running = False
        if state.occasion is not occasion:
            return False
        if end is RunEnd.ROLE_CHANGED:
            state.attempts -= 1
        is_repeated = state.attempts < ATTEMPTS_MAX and not occasion.is_outdated(now_ms)
        if end is RunEnd.ROLE_CHANGED or (end is RunEnd.FAILED and is_repeated):
            state.not_before_ms = now_ms + PAUSE_MS
        else:
            state.ended_ms, state.ended_unix_ms = now_ms, unix_ms
            state.is_given_up = end is not RunEnd.COMPLETE
        return state.is_given_up

    def led_elsewhere(self, now_ms: int) -> None:
        """Take that another manager leads: it guards what waits here."""
        for _, state in self._waiting():
            if state.led_elsewhere_ms is None:
                state.led_elsewhere_ms = now_ms

    def names_waiting(self, now_ms: int, may_begin: Callable[[GuardOccasion], bool]) -> list[SetName]:
        """Return the sets whose run may begin now, those that were noticed first before the others."""
        due = [
            (each.occasion.noticed_ms, name)
            for name, each in self._waiting()
            if each.not_before_ms <= now_ms and may_begin(each.occasion)
        ]
        return [name for _, name in sorted(due)]

    def forget_settled(self, set_name: SetName, read: SavedOffsets) -> bool:
        """Forget a set whose run has ended or was dropped, once the mirror has read its master since.

        Returns whether that is so.
        """
        dropped = self._dropped.get(set_name)
        if dropped is not None and is_run_of(read.read.run, dropped.master):
            del self._dropped[set_name]
            return True
        state = self._states.get(set_name)
        if state is None or state.ended_ms is None or not state.is_settled_by(read):
            return False
        del self._states[set_name]
        return True

    def drop_outdated(self, now_ms: int) -> list[OutdatedOccasion]:
        """Forget occasions that were not dealt with for too long, and return them."""
        left = (each for each in self._states.values() if each.is_waiting or each.is_given_up)
        outdated = [
            OutdatedOccasion(each.occasion, is_undecided=each.is_waiting and each.led_elsewhere_ms is None)
            for each in left
            if each.occasion.is_outdated(now_ms)
        ]
        for occasion, _ in outdated:
            del self._states[occasion.set_name]
            self._dropped[occasion.set_name] = occasion
        return outdated

    def forget(self, set_name: SetName) -> bool:
        """Forget a set; return whether a run is under way that is to end."""
        self._dropped.pop(set_name, None)
        state = self._states.pop(set_name, None)
        return state is not None and state.is_running

    def _waiting(self) -> Iterator[tuple[SetName, _SetState]]:
        return ((name, each) for name, each in self._states.items() if each.is_waiting)


def _is_same(one: GuardOccasion, other: GuardOccasion) -> bool:
    return one.master == other.master and one.saved is other.saved
