"""What a repair found and did, as it is kept, shown and told: its queues, and what it was decided by. Pure."""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

import msgspec

from history.offset_families import OFFSET_REPAIR
from history.rows import BrokerRef, Record
from offsets.operator_rows import ChangedQueue, Records, change_by_operator
from offsets.readings.reading import KnownBefore, Reading, ReplicaReading
from offsets.values import GroupTopic, QueueKey, QueueOffsets, SetName
from serving.logging.events import Level
from serving.shapes.offsets import Outcome
from serving.telemetry.events import Count, Counter, Event, Gauge, Observation, Timer

#: Runs that are kept.
RUNS_MAX: Final = 100
#: Queues that a run lists; those that are right already are only counted.
QUEUES_MAX: Final = 100_000


class RepairedQueue(msgspec.Struct, frozen=True, array_like=True):
    """Outcome for one queue of a group."""

    group: str
    topic: str
    queue_id: int
    outcome: Outcome
    #: Up to where the group went on before the change, as far as it is known; None: not at all.
    before: int | None
    #: What the new master showed; None: no offset.
    shown: int | None
    #: What was, or is to be, written; None for nothing.
    offset: int | None = None
    why: str = ""

    @property
    def key(self) -> QueueKey:
        return QueueKey(self.group, self.topic, self.queue_id)

    @property
    def messages_again(self) -> int:
        """Messages that are read again unless it is pushed, or once it is set back: those that were read since."""
        if self.offset is None:
            return 0
        shown = self.shown or 0
        return max(self.offset - shown, shown - max(self.before or 0, self.offset), 0)

    @property
    def messages_skipped(self) -> int:
        """Messages that may be skipped unless the group is set back, as others lie where it had read."""
        return 0 if self.offset is None else max((self.before or 0) - self.offset, 0)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One repair of the offsets of a set after a change of its master."""

    number: int = 0
    cluster: str
    broker_name: str
    #: Of the new master.
    address: str
    master_epoch: int | None
    #: What has happened to the master.
    cause: str
    began_unix_ms: int
    took_ms: int = 0
    #: From the beginning to the first write; None: nothing was written.
    first_write_ms: int | None = None
    #: When the reading ended whose offsets were compared, Unix ms.
    read_unix_ms: int
    #: Where the logs have parted; None: no loss is known.
    parted_at: int | None = None
    #: Queues with each outcome, those too that are right already.
    counts: dict[str, int] = {}
    #: All others.
    queues: tuple[RepairedQueue, ...] = ()
    #: Why nothing, or not all, was decided; blank: all was.
    problem: str = ""
    #: It would write what is `would change`: nobody has let it.
    applied_unix_ms: int | None = None
    applied_by: str = ""

    @property
    def set_name(self) -> SetName:
        return SetName(self.cluster, self.broker_name)

    @property
    def messages_again(self) -> int:
        return sum(queue.messages_again for queue in self.queues if queue.outcome is Outcome.WOULD_CHANGE)

    @property
    def messages_skipped(self) -> int:
        return sum(queue.messages_skipped for queue in self.queues if queue.outcome is Outcome.WOULD_CHANGE)

    def count(self, *outcomes: Outcome) -> int:
        return sum(self.counts.get(outcome.value, 0) for outcome in outcomes)


class KeptRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with what it was decided by, so that it can be decided again."""

    run: Run
    #: Of the groups that the run lists; its monotonic times, as the next one, are of the process that wrote it.
    known: KnownBefore
    changed_ms: int


def known_of(known: KnownBefore, names: Iterable[GroupTopic]) -> KnownBefore:
    """Return what is known of some groups in topics."""
    names = list(names)
    groups = {name.group for name in names}
    return replace(
        known,
        readings=tuple(
            replace(
                reading,
                offsets=_offsets(reading, names),
                kinds={group: reading.kinds[group] for group in groups if group in reading.kinds},
            )
            for reading in known.readings
        ),
        replica_readings=tuple(replace(copy, offsets=_offsets(copy, names)) for copy in known.replica_readings),
    )


def counts_of(queues: Sequence[RepairedQueue], right: int) -> dict[str, int]:
    """Return how many queues have each outcome, with those that were right without a look."""
    counts = Tally(queue.outcome.value for queue in queues)
    counts[Outcome.RIGHT.value] += right
    return {outcome.value: counts[outcome.value] for outcome in Outcome if counts[outcome.value]}


def _offsets(reading: Reading | ReplicaReading, names: Iterable[GroupTopic]) -> dict[GroupTopic, QueueOffsets]:
    return {name: found for name in names if (found := reading.offsets.get(name)) is not None}


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
    keys: ClassVar[tuple[str, ...]] = (
        *("run", "broker", "addr", "cause", "right", "pushed", "set_back", "would_change", "not_proved", "failed"),
        *("messages_again", "messages_skipped", "duration_ms", "problem"),
    )
    of: Run

    def line(self) -> dict[str, object]:
        run = self.of
        values = (run.number, run.broker_name, run.address, run.cause, *(run.count(outcome) for outcome in Outcome))
        values += (run.messages_again, run.messages_skipped, run.took_ms, *([run.problem] if run.problem else []))
        return dict(zip(self.keys, values, strict=False))


class OffsetsRepaired(_RunEvent, frozen=True, kw_only=True):
    """A broker became master or restarted, and the offsets of its groups are correct or were corrected."""

    level = Level.INFO


class OffsetsLost(_RunEvent, frozen=True, kw_only=True):
    """A broker became master or restarted, with older offsets or without the end of its log.

    `would_change` offsets wait for `rmq offsets repair RUN`: until then groups read `messages_again` messages again,
    and skip up to `messages_skipped`.
    """

    level = Level.WARNING
    advice = (
        "`rmq offsets repairs RUN` gives the reasons for `not_proved` and `failed`; `rmq offsets repair RUN` writes "
        "what would change."
    )


class RepairApplied(_RunEvent, frozen=True, kw_only=True):
    """An operator applied a repair that had only been reported (`rmq offsets repair RUN`)."""

    level = Level.WARNING
    audit = True
    keys = (*_RunEvent.keys, "writer")

    def line(self) -> dict[str, object]:
        return {**super().line(), "writer": self.of.applied_by}

    def rows(self) -> tuple[Records]:
        run = self.of

        def queues() -> Iterator[ChangedQueue]:
            for queue in run.queues:
                is_done = queue.outcome in (Outcome.PUSHED, Outcome.SET_BACK)
                if is_done or queue.outcome is Outcome.FAILED:
                    yield ChangedQueue(_broker(run), queue.group, queue.topic, queue.shown, queue.offset, is_done)

        return change_by_operator("repair", run.applied_by, "broker", queues, str(run.number)).rows()


class RepairNotKept(Event, frozen=True, kw_only=True):
    """A run of a repair cannot be stored, or a stored one cannot be read: it cannot be applied after a restart."""

    level = Level.WARNING
    advice = "Check the disk of storePath."
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
