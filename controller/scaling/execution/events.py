"""What is told of resizes: lines of the log, metrics, and rows `scaling` of the history.

Each new phase is one line, under a name of its own where somebody has to act or the resize has ended. Rounds, and what
they wait for, are not logged: `/v1/scaling/operations` shows them.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

from controller.scaling.resize.operation import ResizeOperation, first_sentences
from controller.scaling.rules.phases import is_overdue, writes_paused_since
from history.rows import BrokerRef, Record
from history.schemas import SCALING
from serving.logging.events import Level
from serving.shapes.scaling import FINISHED, ResizeKind, ResizePhase
from serving.telemetry.events import Count, Counter, Event, Gauge, Measure, Observation, Timer

#: Failures of one line, and characters of each sentence: a resize can wait for hundreds of groups and queues.
SENTENCES_MAX: Final = 3
SENTENCE_CHARS_MAX: Final = 300
PROBLEM_CHARS_MAX: Final = 600
#: What an operator wrote as the reason.
REASON_CHARS_MAX: Final = 200
#: Characters of a sentence that are recorded.
RECORDED_CHARS_MAX: Final = 500

#: A follower has only what it knew when it led last, and shows none of these.
RESIZES: Final = Gauge("resizes", "Resizes of topics under way, by phase.", ("phase",))
PHASE_SINCE: Final = Gauge(
    "resize_phase_since_timestamp_seconds",
    "Since when the resize that is longest in a phase is there; 0 if none is.",
    ("phase",),
)
OVERDUE: Final = Gauge(
    "resizes_overdue",
    "Resizes whose phase lasts 10 minutes longer than its waits, or that lacked answers for 10 minutes in it.",
    known=(),
)
WRITES_PAUSED_SINCE: Final = Gauge(
    "resize_writes_paused_since_timestamp_seconds",
    "Since when the ordered topic that is longest without writes has none because of its resize; 0 if none is.",
    known=(),
)
ENDED: Final = Counter(
    "resizes_ended",
    "Resizes that have ended, by result.",
    ("result",),
    known=tuple(sorted((phase.value.lower(),) for phase in FINISHED)),
)
DURATION: Final = Timer(
    "resize_duration_seconds",
    "From the request for a resize to its end, whatever that was.",
    ("kind",),
    known=tuple((kind.value,) for kind in ResizeKind),
    # A grow takes minutes, a shrink with late messages days.
    bounds=(60, 180, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400, 345_600),
)
REOPENED: Final = Counter(
    "resizes_reopened", "Times that dropped queues became readable again: late messages, replaced masters."
)
CONFLICTS: Final = Counter("resize_conflicts", "Resizes that stopped because somebody else had changed queue numbers.")
ACTIONS: Final = Counter(
    "resize_actions",
    "Changes of brokers and NameServers, by result; of a round in which some failed only those are counted.",
    ("result",),
    known=(("done",), ("failed",)),
)
ROUNDS_FAILED: Final = Counter(
    "resize_rounds_failed", "Rounds of resizes that could not be stored, or failed by a fault of the controller."
)

_PHASES_UNDER_WAY: Final = tuple((phase.value,) for phase in ResizePhase if phase not in FINISHED)
#: How an operation ends -> event type of its row; all other phases are begun.
_ENDS: Final = {ResizePhase.DONE: "verified", ResizePhase.ABORTED: "rolled_back", ResizePhase.REJECTED: "rejected"}


def resize_measures(operations: Iterable[ResizeOperation], unix_ms: int) -> Iterator[Measure]:
    """Yield the gauges of operations under way."""
    present = list(operations)
    counts = dict.fromkeys(_PHASES_UNDER_WAY, 0)
    since: dict[tuple[str], float] = dict.fromkeys(_PHASES_UNDER_WAY, 0)
    for operation in present:
        labels = (operation.phase.value,)
        counts[labels] = counts.get(labels, 0) + 1
        since[labels] = min(since.get(labels) or math.inf, operation.phase_since_unix_ms / 1000)
    paused = [began for operation in present if (began := writes_paused_since(operation)) is not None]
    yield from (Measure(RESIZES, count, labels) for labels, count in counts.items())
    yield from (Measure(PHASE_SINCE, seconds, labels) for labels, seconds in since.items())
    yield Measure(OVERDUE, sum(is_overdue(operation, unix_ms) for operation in present))
    yield Measure(WRITES_PAUSED_SINCE, min(paused, default=0) / 1000)


class _OfResize(Event, frozen=True, kw_only=True):
    keys: ClassVar[tuple[str, ...]] = ("resize", "topic", "kind")
    operation: ResizeOperation

    def line(self) -> dict[str, object]:
        operation = self.operation
        return {"resize": operation.id, "topic": operation.topic, "kind": operation.requested.kind.value}


class ResizeCreated(_OfResize, frozen=True, kw_only=True):
    """The resize of a topic was stored: `queues` read and write queues on each of its broker sets. It begins with a
    check; if scalingOperationsMax others run, it waits for one of them to end."""

    keys = (*_OfResize.keys, "broker_sets", "queues", "requested_by", "reason")

    def line(self) -> dict[str, object]:
        operation = self.operation
        return super().line() | {
            "broker_sets": len(operation.sets),
            "queues": operation.sets[0].target if operation.sets else None,
            "requested_by": operation.requested_by[:REASON_CHARS_MAX],
            "reason": operation.reason[:REASON_CHARS_MAX],
        }

    def rows(self) -> tuple[Record]:
        return (_row("plan", self.operation.requested),)


class ResizePhaseEntered(_OfResize, frozen=True, kw_only=True):
    """A resize entered another phase, after `lasted_ms` in the former one, which ended because of `evidence`. ROLLBACK,
    and WRITE_DOWN of a grow, undo it for the reason in `problem`."""

    keys = (*_OfResize.keys, "from_phase", "to_phase", "lasted_ms", "evidence", "problem")
    before: ResizeOperation

    @property
    def after(self) -> ResizeOperation:
        """What the operator requested, also on the way back."""
        return self.operation.requested

    def line(self) -> dict[str, object]:
        after = self.after
        return super().line() | {
            "from_phase": self.before.phase.value,
            "to_phase": after.phase.value,
            "lasted_ms": after.phase_since_unix_ms - self.before.phase_since_unix_ms,
            # How many are stored with a step is limited already.
            "evidence": [text[:SENTENCE_CHARS_MAX] for text in after.steps[-1].evidence] if after.steps else [],
            "problem": after.problem[:PROBLEM_CHARS_MAX],
        }

    def counted(self) -> Iterator[Count]:
        yield Count(REOPENED, (), max(self.after.reopened - self.before.reopened, 0))

    def rows(self) -> tuple[Record]:
        before, after = self.before, self.after
        evidence = after.steps[-1].evidence if after.steps else ()
        columns = {
            "former_step": before.phase.value,
            # Another controller may have stored its beginning, by a clock that is ahead of this one.
            "duration_ms": max(0, after.phase_since_unix_ms - before.phase_since_unix_ms),
            "waited_ms": before.waited_ms,
            "evidence": [_recorded(text) for text in evidence],
        }
        return (_row(_ENDS.get(after.phase, "step_started"), after, columns),)


class ResizeBlocked(ResizePhaseEntered, frozen=True, kw_only=True):
    """A resize waits for an operator: a group is offline or does not consume the remaining messages, or producers still
    send to dropped queues. Nothing is lost meanwhile, and it continues by itself once the cause is gone."""

    level = Level.WARNING
    advice = "Remove the cause that `problem` names, waive the group, or abort the resize: see controller/SCALING.md."


class ResizeConflicted(ResizePhaseEntered, frozen=True, kw_only=True):
    """A broker shows queue numbers that this resize did not set: someone else changed them. The resize stops until an
    operator decides."""

    level = Level.ERROR
    advice = (
        "Find out who changes queue numbers. Give the broker the numbers that `problem` names, then resume; or abort: "
        "all numbers stay as they are, and an ordered topic gets its writes back. See controller/SCALING.md."
    )

    def counted(self) -> Iterator[Count]:
        yield from super().counted()
        yield Count(CONFLICTS)


class ResizeReopened(ResizePhaseEntered, frozen=True, kw_only=True):
    """Dropped queues become readable again: a message came late, a master was replaced, or not all servers showed the
    new numbers. Groups consume the messages, then the queues are closed again."""

    level = Level.WARNING
    advice = (
        "None if it happens once. If it recurs, find the producer that keeps an old route, or wait for delayed "
        "messages instead of accepting them."
    )


class _Ended(ResizePhaseEntered, frozen=True, kw_only=True):
    keys = (*ResizePhaseEntered.keys, "duration_ms", "reopened")

    @property
    def duration_ms(self) -> int:
        return max(self.after.phase_since_unix_ms - self.after.created_unix_ms, 0)

    def line(self) -> dict[str, object]:
        return super().line() | {"duration_ms": self.duration_ms, "reopened": self.after.reopened}

    def counted(self) -> Iterator[Count]:
        yield from super().counted()
        yield Count(ENDED, (self.after.phase.value.lower(),))

    def observed(self) -> tuple[Observation]:
        return (Observation(DURATION, self.duration_ms / 1000, (self.after.kind.value,)),)


class ResizeFinished(_Ended, frozen=True, kw_only=True):
    """A resize has ended; every broker has the wanted queue numbers."""


class ResizeAborted(_Ended, frozen=True, kw_only=True):
    """A resize has ended without its target, for the reason in `problem`. Brokers have their former queue numbers;
    after a conflict, those that were found. An ordered topic has its writes and orderTopicConf back, except where
    someone else changed them; `evidence` names the differences."""

    level = Level.WARNING
    advice = "Remove the cause, then start it again."


class ResizeRejected(_Ended, frozen=True, kw_only=True):
    """A resize was refused by the check before its start; nothing was changed."""

    level = Level.WARNING
    advice = "Do what `problem` says, then start it again."


class ResizeActionsFailed(_OfResize, frozen=True, kw_only=True):
    """Changes of brokers or NameServers did not succeed. The next round checks again and retries."""

    level = Level.WARNING
    advice = (
        "If it persists, check the named brokers, the network to them, and, with ACL, the permissions of the "
        "controller's user."
    )
    keys = (*_OfResize.keys, "phase", "failed", "failures")
    failures: tuple[str, ...]

    def line(self) -> dict[str, object]:
        shown = first_sentences([text[:SENTENCE_CHARS_MAX] for text in self.failures], SENTENCES_MAX)
        failed = {"phase": self.operation.phase.value, "failed": len(self.failures), "failures": list(shown)}
        return {**super().line(), **failed}

    def counted(self) -> tuple[Count]:
        return (Count(ACTIONS, ("failed",), len(self.failures)),)


class ResizeRoundFailed(_OfResize, frozen=True, kw_only=True):
    """A round of a resize could not be stored, or failed by a fault of the controller. It is tried again after 5 s."""

    level = Level.ERROR
    advice = 'Check the store: see controller/OPERATIONS.md, section "etcd". With an exception: report it.'
    keys = (*_OfResize.keys, "phase", "error", "exception")
    counter = ROUNDS_FAILED
    error: Exception
    #: Not of the store: the line shows the traceback.
    is_fault: bool

    def line(self) -> dict[str, object]:
        text = str(self.error)[:PROBLEM_CHARS_MAX] or type(self.error).__name__
        trace = {"exc_info": self.error} if self.is_fault else {}
        return {**super().line(), "phase": self.operation.phase.value, "error": text, **trace}


_OF_PHASES: Final[Mapping[ResizePhase, type[ResizePhaseEntered]]] = {
    ResizePhase.BLOCKED: ResizeBlocked,
    ResizePhase.CONFLICT: ResizeConflicted,
    ResizePhase.REOPEN: ResizeReopened,
    ResizePhase.DONE: ResizeFinished,
    ResizePhase.ABORTED: ResizeAborted,
    ResizePhase.REJECTED: ResizeRejected,
}


def phase_entered(before: ResizeOperation, after: ResizeOperation) -> ResizePhaseEntered:
    """Return the event of an operation that is in another phase; the last one of an operation ends it."""
    event = _OF_PHASES.get(after.requested.phase, ResizePhaseEntered)
    return event(before=before, operation=after)


def _row(event_type: str, operation: ResizeOperation, of_phase: Mapping[str, object] | None = None) -> Record:
    sets = operation.sets
    target = sum(each.target for each in sets)
    clusters = {each.cluster for each in sets}
    columns: dict[str, object] = {
        "operation_id": operation.id,
        "topic": operation.topic,
        "step": operation.phase.value,
        "reason": _recorded(operation.reason),
        "kind": operation.kind.value,
        "problem": _recorded(operation.problem),
        "requested_by": _recorded(operation.requested_by),
        "reopened": operation.reopened,
        "created_time": operation.created_unix_ms * 1000,
        "from_read": sum(each.before.read for each in sets),
        "from_write": sum(each.before.write for each in sets),
        "to_read": target,
        "to_write": target,
        "broker_names": [each.broker_name for each in sets],
        "set_clusters": [each.cluster for each in sets],
        "set_reads": [each.before.read for each in sets],
        "set_writes": [each.before.write for each in sets],
        "set_targets": [each.target for each in sets],
        **(of_phase or {}),
    }
    return Record(SCALING, event_type, BrokerRef(cluster=clusters.pop() if len(clusters) == 1 else None), columns)


def _recorded(text: str) -> str | None:
    return text[:RECORDED_CHARS_MAX] or None
