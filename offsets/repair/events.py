"""What repairs tell. Pure."""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from functools import partial
from typing import ClassVar, Final

from history.offset_families import OFFSET_REPAIR
from history.rows import BrokerRef, Record
from offsets.operator_rows import ChangedQueue, Recorded, Records, change_by_operator
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

    def rows(self) -> tuple[Records]:
        return (Records(partial(_records_of, self.of)),)


def _records_of(run: Run) -> Iterator[Record]:
    """Yield the rows of a run: one for each group in a topic that was not right, and one of the run."""
    broker = _broker(run)
    common = {"run": run.number, "cause": run.cause, "master_epoch": run.master_epoch}
    groups: dict[tuple[str, str], list[RepairedQueue]] = {}
    for queue in run.queues:
        groups.setdefault((queue.group, queue.topic), []).append(queue)
    for (group, topic), queues in groups.items():
        columns = {"group": group, "topic": topic, **common, **_sums(queues, len(queues))}
        yield Record(OFFSET_REPAIR, "repaired", broker, columns)
    sums = _sums(run.queues, sum(run.counts.values()))
    columns = {**common, **sums, "duration_ms": run.took_ms, "problem": run.problem[:_TEXT_MAX] or None}
    yield Record(OFFSET_REPAIR, "run", broker, columns)


def applied_rows(run: Run) -> Recorded:
    """Return the rows of a run that an operator has applied."""

    def queues() -> Iterator[ChangedQueue]:
        for queue in run.queues:
            is_done = queue.outcome in (Outcome.PUSHED, Outcome.SET_BACK)
            if is_done or queue.outcome is Outcome.FAILED:
                yield ChangedQueue(_broker(run), queue.group, queue.topic, queue.shown, queue.offset, is_done)

    return change_by_operator("repair", run.applied_by, "broker", queues, str(run.number))


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


def _sums(queues: Iterable[RepairedQueue], total: int) -> dict[str, object]:
    """Return the columns of a row about some queues; what is not among them was right."""
    queues = list(queues)
    columns = (Outcome.PUSHED, Outcome.SET_BACK, Outcome.WOULD_CHANGE, Outcome.NOT_PROVED, Outcome.FAILED)
    counts = {outcome.name.lower(): sum(queue.outcome is outcome for queue in queues) for outcome in columns}
    reasons = Tally(
        f"{queue.outcome.value}: {queue.why[:80]}" if queue.why else queue.outcome.value for queue in queues
    )
    undone = [queue for queue in queues if queue.outcome in (Outcome.WOULD_CHANGE, Outcome.FAILED)]
    return {
        "queues": total,
        **counts,
        "messages_spared": sum(queue.messages_again for queue in queues if queue.outcome is Outcome.PUSHED),
        "messages_again": sum(queue.messages_again for queue in undone),
        "messages_skipped": sum(queue.messages_skipped for queue in undone),
        "reasons": [f"{reason} {count}" for reason, count in reasons.most_common(_REASONS_MAX)],
    }
