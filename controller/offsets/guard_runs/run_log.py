"""What the last runs of the guard have done, within a bound. Pure.

Of an offset that was left as it is only the count is kept: most are, and nobody looks for them.
"""

import enum
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controller.offsets.guard.log_facts import SavedMoment
from controller.offsets.guard.outcomes import Guarded, GuardReport, Outcome
from controller.offsets.guard.rules import Action, Reason
from controller.offsets.guard_runs.occasions import GuardCause, GuardOccasion
from controller.offsets.mirror.masters import SetName
from controller.offsets.topology.values import SetMaster

#: Runs that are kept; of more the oldest is forgotten.
RUNS_MAX: Final = 100
#: Offsets of one run, and of all runs, that are kept one by one.
OFFSETS_PER_RUN_MAX: Final = 10_000
OFFSETS_MAX: Final = 50_000


class RunResult(enum.StrEnum):
    """How a run has ended; the values label metrics."""

    COMPLETE = "complete"
    #: Not all was decided or written, and the broker has not failed: the master has changed again, the set was removed,
    #: it is the same process as before, or it is not known who is master. Another run follows where one is needed.
    ENDED = "ended"
    #: Not all was decided; another run follows.
    FAILED = "failed"
    #: Not all was decided, and no other run follows before the master changes again.
    GIVEN_UP = "given_up"
    #: It looked at nothing, and it is too late now: the broker did not serve in time, other runs had all turns, nobody
    #: knew that it is master, or no manager led.
    NOT_DECIDED = "not_decided"


class GuardedOffset(NamedTuple):
    """One offset that was written, or is reported."""

    group: str
    topic: str
    queue_id: int
    action: Action
    reason: Reason
    outcome: Outcome
    #: What the mirror had; None: nothing.
    saved: int | None
    #: What the broker had; None: nothing.
    shown: int | None
    #: What is right; None: it is not known.
    offset: int | None
    detail: str


class GuardedGroup(NamedTuple):
    """Offsets of one group in one topic of which the same became."""

    group: str
    topic: str
    action: Action
    reason: Reason
    outcome: Outcome


@dataclass(slots=True, kw_only=True)
class GuardRun:
    """One run at one broker; it is complete once `report` is there."""

    #: Counts the runs of this process, from 1.
    number: int
    set_name: SetName
    cause: GuardCause
    master: SetMaster
    #: When and of whom the offsets were read.
    moment: SavedMoment
    began_unix_ms: int
    is_recent: bool
    #: Whether it wrote, or only decided.
    writes: bool
    report: GuardReport | None = None
    result: RunResult = RunResult.COMPLETE
    offsets: list[GuardedOffset] = field(default_factory=list)
    #: Offsets beyond the limit.
    offsets_left_out: int = 0
    decisions: Counter[tuple[Action, Reason, Outcome]] = field(default_factory=Counter)

    def guarded(self, _: str, guarded: Guarded) -> None:
        """Take one offset."""
        decision, outcome = guarded.decision, guarded.outcome
        self.decisions[decision.action, decision.reason, outcome] += 1
        if decision.action is Action.LEAVE:
            return
        found = _offset_of(guarded)
        if len(self.offsets) < OFFSETS_PER_RUN_MAX:
            self.offsets.append(found)
        else:
            self.offsets_left_out += 1

    def groups(self) -> dict[GuardedGroup, tuple[int, GuardedOffset]]:
        """Return of how many queues of a group the same became, and the first of them; of those that are kept."""
        found: dict[GuardedGroup, tuple[int, GuardedOffset]] = {}
        for each in self.offsets:
            kind = GuardedGroup(each.group, each.topic, each.action, each.reason, each.outcome)
            count, first = found.get(kind, (0, each))
            found[kind] = (count + 1, first)
        return found


class GuardRunLog:
    """The last runs of this process."""

    def __init__(self) -> None:
        self._runs: OrderedDict[int, GuardRun] = OrderedDict()
        self._count = 0

    def begin(self, occasion: GuardOccasion, unix_ms: int, *, is_recent: bool, writes: bool) -> GuardRun:
        """Return a new run."""
        self._count += 1
        run = GuardRun(
            number=self._count,
            set_name=occasion.set_name,
            cause=occasion.cause,
            master=occasion.master,
            moment=occasion.moment,
            began_unix_ms=unix_ms,
            is_recent=is_recent,
            writes=writes,
        )
        self._runs[run.number] = run
        return run

    def end(self, run: GuardRun, report: GuardReport, result: RunResult) -> None:
        """Take that a run has ended; forget the oldest ones that are too many."""
        run.report, run.result = report, result
        while len(self._runs) > RUNS_MAX or self._offsets() > OFFSETS_MAX:
            self._runs.popitem(last=False)

    def runs(self) -> Sequence[GuardRun]:
        """Return the runs that have ended, the newest first."""
        return [each for each in reversed(self._runs.values()) if each.report is not None]

    def run(self, number: int) -> GuardRun | None:
        """Return a run that has ended; None if it has not, or is forgotten."""
        found = self._runs.get(number)
        return found if found is not None and found.report is not None else None

    def _offsets(self) -> int:
        return sum(len(each.offsets) for each in self._runs.values())


def _offset_of(guarded: Guarded) -> GuardedOffset:
    candidate, decision = guarded.candidate, guarded.decision
    return GuardedOffset(
        candidate.group,
        candidate.topic,
        candidate.queue_id,
        decision.action,
        decision.reason,
        guarded.outcome,
        candidate.saved,
        candidate.shown,
        decision.offset if decision.offset is not None else decision.safe_offset,
        guarded.detail,
    )
