"""What repairs tell. Pure."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from history.offset_families import GUARD_OUTCOME
from history.rows import BrokerRef, HistoryRow, Moment, RowMaker
from offsets.repair.rules import Outcome
from offsets.repair.runs import RepairedQueue, Run
from serving.logging.events import Level
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
OFFSETS_TO_REPAIR: Final = Gauge(
    "offsets_to_repair", "Offsets that `rmq offsets repair RUN` would write, by the newest run of each set."
)
SETS_TO_REPAIR: Final = Gauge("sets_to_repair", "Broker sets with such offsets.")
REPAIRS_RUNNING: Final = Gauge("repairs_running", "Broker sets whose offsets are being repaired.")
FIRST_WRITE: Final = Timer("repair_first_write_seconds", "From the notice of a promotion to the first write.")

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

    def counted(self) -> Iterator[Count]:
        """Yield what it counts."""
        for outcome, amount in zip(
            Outcome,
            (self.right, self.pushed, self.set_back, self.would_change, self.not_proved, self.failed),
            strict=True,
        ):
            if amount:
                yield Count(REPAIRED, (outcome.value,), amount)


class OffsetsRepaired(_RunEvent, frozen=True, kw_only=True):
    """A broker became master, or started again, and the offsets of its groups are right or were set right."""

    level = Level.INFO


class OffsetsLost(_RunEvent, frozen=True, kw_only=True):
    """A broker became master, or started again, with older offsets or without the end of its log.

    `would_change` offsets wait for `rmq offsets repair RUN`: until then groups read `messages_again` messages again,
    and skip up to `messages_skipped`. Of `not_proved` and `failed` ones `rmq offsets repairs RUN` says why.
    """

    level = Level.WARNING
    advice = "Run `rmq offsets repair RUN` with the number of the run."

    def counted(self) -> Iterator[Count]:
        """Yield what it counts."""
        yield from super().counted()
        if self.would_change:
            yield Count(MESSAGES_AGAIN, (), self.messages_again)
            yield Count(MESSAGES_SKIPPED, (), self.messages_skipped)


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
        """Return how long it took."""
        return (Observation(FIRST_WRITE, self.milliseconds / 1000),)


class RepairRows(Event, frozen=True, kw_only=True):
    """The rows of one run."""

    level = None
    of: Run

    def rows(self) -> Iterable["RecordedRun"]:
        """Return them."""
        return (RecordedRun(self.of),)


class RecordedRun:
    """A run as rows of the history: one for each group in a topic that was not right, and one of the run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        """Yield them."""
        run = self._run
        broker = BrokerRef(run.cluster or None, run.broker_name, broker_addr=run.address)
        groups: dict[tuple[str, str], list[RepairedQueue]] = {}
        for queue in run.queues:
            groups.setdefault((queue.group, queue.topic), []).append(queue)
        for (group, topic), queues in groups.items():
            columns = {"group": group, "topic": topic, "master_epoch": run.master_epoch, **_sums(queues, len(queues))}
            yield maker.row(GUARD_OUTCOME, "guarded", moment, broker, **columns)
        columns = {
            "master_epoch": run.master_epoch,
            **_sums(run.queues, sum(run.counts.values())),
            "duration_ms": run.took_ms,
            "problem": run.problem[:_TEXT_MAX] or None,
        }
        yield maker.row(GUARD_OUTCOME, "run", moment, broker, **columns)


def run_event(run: Run, kind: type[_RunEvent], **more: str) -> _RunEvent:
    """Return what a run tells."""
    open_queues = [queue for queue in run.queues if queue.outcome is Outcome.WOULD_CHANGE]
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
        messages_again=sum(queue.messages_again for queue in open_queues),
        messages_skipped=sum(queue.messages_skipped for queue in open_queues),
        duration_ms=run.took_ms,
        problem=run.problem or None,
        **more,
    )


def _sums(queues: Iterable[RepairedQueue], total: int) -> dict[str, object]:
    """Return the columns of a row about some queues; what is not among them was right."""
    queues = list(queues)
    counts = {outcome: sum(queue.outcome is outcome for queue in queues) for outcome in Outcome}
    reasons: dict[str, int] = {}
    for queue in queues:
        reason = f"{queue.outcome.value}: {queue.why[:80]}" if queue.why else queue.outcome.value
        reasons[reason] = reasons.get(reason, 0) + 1
    reported = counts[Outcome.WOULD_CHANGE] + counts[Outcome.NOT_PROVED]
    done = (Outcome.PUSHED, Outcome.SET_BACK)
    return {
        "queues": total,
        "pushed": counts[Outcome.PUSHED],
        "set_to_max": counts[Outcome.SET_BACK],
        "left": total - reported - counts[Outcome.FAILED] - sum(counts[outcome] for outcome in done),
        "reported": reported,
        "failed": counts[Outcome.FAILED],
        "messages_spared": sum(queue.messages_again for queue in queues if queue.outcome is Outcome.PUSHED),
        "messages_at_risk": sum(
            max(queue.messages_again, queue.messages_skipped) for queue in queues if queue.outcome not in done
        ),
        "reasons": [f"{reason} {count}" for reason, count in sorted(reasons.items(), key=lambda row: -row[1])][
            :_REASONS_MAX
        ],
    }
