"""What repairs tell. Pure."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from history.offset_families import OFFSET_CHANGE_BY_OPERATOR, OFFSET_REPAIR
from history.rows import BrokerRef, HistoryRow, Moment, RowMaker
from offsets.repair.runs import RepairedQueue, Run
from serving.logging.events import Level
from serving.shapes.offsets import Outcome
from serving.telemetry.events import Count, Counter, Event, Gauge, Observation, Timer

REPAIRED: Final = Counter(
    "repaired_offsets",
    "Offsets of groups after a change of a master, by what became of them.",
    ("outcome",),
    known=tuple((outcome.value,) for outcome in Outcome),
)
MESSAGES_SKIPPED: Final = Counter(
    "messages_behind_lost", "Messages that groups may skip, as the end of a log is lost and the repair only reports."
)
MESSAGES_AGAIN: Final = Counter(
    "messages_read_again", "Messages that are read again, as offsets are lost and the repair only reports."
)
RUNS: Final = Counter(
    "repair_runs",
    "Repairs after changes of masters, by whether all was decided (complete) or not (incomplete).",
    ("result",),
    known=(("complete",), ("incomplete",)),
)
OFFSETS_TO_REPAIR: Final = Gauge(
    "offsets_to_repair",
    "Offsets that `rmq offsets repair RUN` would write, by the newest run at the master of each set.",
)
SETS_TO_REPAIR: Final = Gauge("sets_to_repair", "Broker sets with such offsets.")
REPAIRS_RUNNING: Final = Gauge("repairs_running", "Broker sets whose offsets are being repaired.")
FIRST_WRITE: Final = Timer("repair_first_write_seconds", "From the notice of a promotion to the first write.")

_WRITTEN: Final = (Outcome.PUSHED, Outcome.SET_BACK)
_REASONS_MAX: Final = 20
_TEXT_MAX: Final = 500


class _RunEvent(Event, frozen=True, kw_only=True):
    """A run of a repair has ended."""

    level: ClassVar[Level | None] = None
    run: int
    broker: str
    addr: str
    cause: str
    right: int
    pushed: int
    set_back: int
    would_change: int
    not_proved: int
    failed: int
    messages_again: int
    messages_skipped: int
    duration_ms: int
    problem: str | None


class OffsetsRepaired(_RunEvent, frozen=True, kw_only=True):
    """A broker became master, or started again, and the offsets of its groups are right or were set right."""

    level = Level.INFO


class OffsetsLost(_RunEvent, frozen=True, kw_only=True):
    """A broker became master, or started again, with older offsets or without the end of its log.

    `would_change` offsets wait for `rmq offsets repair RUN`: until then groups read `messages_again` messages again,
    and skip up to `messages_skipped`. Of `not_proved` and `failed` ones `rmq offsets repairs RUN` says why.
    """

    level = Level.WARNING
    advice = "`rmq offsets repairs RUN` says why, and `rmq offsets repair RUN` writes what would change."


class RepairApplied(_RunEvent, frozen=True, kw_only=True):
    """An operator has let a repair write what it had reported (`rmq offsets repair RUN`)."""

    level = Level.WARNING
    audit = True
    writer: str


class RepairNotKept(Event, frozen=True, kw_only=True):
    """A run of a repair cannot be stored, or a stored one cannot be read: it cannot be applied after a restart."""

    level = Level.WARNING
    advice = "Look after the disk of storePath."
    error: str


class FirstWrite(Event, frozen=True, kw_only=True):
    """How long a promotion was known before the first offset was written."""

    level = None
    milliseconds: int

    def observed(self) -> Iterable[Observation]:
        return (Observation(FIRST_WRITE, self.milliseconds / 1000),)


class RepairRows(Event, frozen=True, kw_only=True):
    """The rows of one run."""

    level = None
    of: Run

    def counted(self) -> Iterator[Count]:
        """Yield what it counts: once, where its members were awaited too."""
        yield Count(RUNS, ("incomplete" if self.of.problem else "complete",))
        for outcome, amount in self.of.counts.items():
            yield Count(REPAIRED, (outcome,), amount)
        yield Count(MESSAGES_AGAIN, (), self.of.messages_again)
        yield Count(MESSAGES_SKIPPED, (), self.of.messages_skipped)

    def rows(self) -> Iterable["RecordedRun"]:
        return (RecordedRun(self.of),)


class AppliedRows(Event, frozen=True, kw_only=True):
    """The rows of a run that an operator has applied."""

    level = None
    of: Run

    def rows(self) -> Iterable["RecordedChange"]:
        return (RecordedChange(self.of),)


class RecordedRun:
    """A run as rows of the history: one for each group in a topic that was not right, and one of the run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        run, broker = self._run, _broker(self._run)
        common = {"run": run.number, "cause": run.cause, "master_epoch": run.master_epoch}
        for (group, topic), queues in _by_group(run).items():
            columns = {"group": group, "topic": topic, **common, **_sums(queues, len(queues))}
            yield maker.row(OFFSET_REPAIR, "repaired", moment, broker, **columns)
        columns = {
            **common,
            **_sums(run.queues, sum(run.counts.values())),
            "duration_ms": run.took_ms,
            "problem": run.problem[:_TEXT_MAX] or None,
        }
        yield maker.row(OFFSET_REPAIR, "run", moment, broker, **columns)


class RecordedChange:
    """A run that an operator has applied, as rows of the history: one for each group in a topic."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        run, broker = self._run, _broker(self._run)
        for (group, topic), queues in _by_group(run).items():
            done = [queue for queue in queues if queue.outcome in _WRITTEN]
            failed = sum(queue.outcome is Outcome.FAILED for queue in queues)
            if done or failed:
                yield maker.row(
                    OFFSET_CHANGE_BY_OPERATOR,
                    "repair",
                    moment,
                    broker,
                    group=group,
                    topic=topic,
                    writer=run.applied_by,
                    target="broker",
                    change_id=str(run.number),
                    queues=len(done),
                    created=sum(queue.shown is None for queue in done),
                    removed=0,
                    messages_again=sum(_moved(queue, -1) for queue in done),
                    messages_skipped=sum(_moved(queue, 1) for queue in done),
                    failed=failed,
                )


def run_event(run: Run, kind: type[_RunEvent], **more: str) -> _RunEvent:
    """Return what a run tells."""
    return kind(
        run=run.number,
        broker=run.broker_name,
        addr=run.address,
        cause=run.cause,
        right=run.count(Outcome.RIGHT),
        pushed=run.count(Outcome.PUSHED),
        set_back=run.count(Outcome.SET_BACK),
        would_change=run.count(Outcome.WOULD_CHANGE),
        not_proved=run.count(Outcome.NOT_PROVED),
        failed=run.count(Outcome.FAILED),
        messages_again=run.messages_again,
        messages_skipped=run.messages_skipped,
        duration_ms=run.took_ms,
        problem=run.problem or None,
        **more,
    )


def _broker(run: Run) -> BrokerRef:
    return BrokerRef(run.cluster or None, run.broker_name, broker_addr=run.address)


def _by_group(run: Run) -> dict[tuple[str, str], list[RepairedQueue]]:
    groups: dict[tuple[str, str], list[RepairedQueue]] = {}
    for queue in run.queues:
        groups.setdefault((queue.group, queue.topic), []).append(queue)
    return groups


def _moved(queue: RepairedQueue, direction: int) -> int:
    """Return how far an offset was moved forward (1) or back (-1), or 0 if it was not."""
    if queue.offset is None or queue.shown is None:
        return 0
    return max(direction * (queue.offset - queue.shown), 0)


def _sums(queues: Iterable[RepairedQueue], total: int) -> dict[str, object]:
    """Return the columns of a row about some queues; what is not among them was right."""
    queues = list(queues)
    counts = {outcome: sum(queue.outcome is outcome for queue in queues) for outcome in Outcome}
    reasons: dict[str, int] = {}
    for queue in queues:
        reason = f"{queue.outcome.value}: {queue.why[:80]}" if queue.why else queue.outcome.value
        reasons[reason] = reasons.get(reason, 0) + 1
    undone = [queue for queue in queues if queue.outcome in (Outcome.WOULD_CHANGE, Outcome.FAILED)]
    return {
        "queues": total,
        "pushed": counts[Outcome.PUSHED],
        "set_back": counts[Outcome.SET_BACK],
        "would_change": counts[Outcome.WOULD_CHANGE],
        "not_proved": counts[Outcome.NOT_PROVED],
        "failed": counts[Outcome.FAILED],
        "messages_spared": sum(queue.messages_again for queue in queues if queue.outcome is Outcome.PUSHED),
        "messages_again": sum(queue.messages_again for queue in undone),
        "messages_skipped": sum(queue.messages_skipped for queue in undone),
        "reasons": [f"{reason} {count}" for reason, count in sorted(reasons.items(), key=lambda row: -row[1])][
            :_REASONS_MAX
        ],
    }
