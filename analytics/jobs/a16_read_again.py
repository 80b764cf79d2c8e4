"""A16: what consumer groups read again or skipped and why, and what repairs, operators and lock replays did about it.

Only the offset manager that leads records these rows, so they are added up. `messages_again` of a group is what went
back: the most that it read again. What a repair pushed forward is in `messages_spared`, and was read again by those
clients only that began in between.
"""

from typing import Final, NamedTuple

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.shared.job import Inputs, Job, Span
from analytics.shared.rows import CLUSTER, KIND, of_kind, of_span
from analytics.spark.schemas import Frames, shaped
from history.columns import Column, Type
from history.offset_families import UNWANTED_CAUSES


class _Counted(NamedTuple):
    """One kind of rows: by what they are told apart, what is added up, and of what the most counts."""

    keys: tuple[str, ...]
    sums: tuple[str, ...]
    maxima: tuple[str, ...] = ()


_REPAIRED: Final = (
    "queues",
    "pushed",
    "set_back",
    "would_change",
    "not_proved",
    "failed",
    "messages_spared",
    "messages_again",
    "messages_skipped",
)
_REPLAYS: Final = ("queues", "granted", "held_by_another", "unanswered", "unconfirmed")

_KINDS: Final = {
    "group": _Counted(("group", "topic", "cause"), ("queues", "removed", "messages_again", "messages_skipped")),
    "change": _Counted(
        ("group", "topic", "operation", "target", "writer"),
        ("queues", "created", "removed", "failed", "messages_again", "messages_skipped"),
    ),
    "run": _Counted(("broker_name",), (*_REPAIRED, "problems"), ("longest_ms",)),
    "repaired": _Counted(("group", "topic"), _REPAIRED),
    "locks": _Counted(("group", "topic"), (*_REPLAYS, "replays", "overlaps"), ("longest_ms", "overlap_longest_ms")),
}

#: Row of `lock_event` -> the column that counts it.
_LOCK_EVENTS: Final = {"replayed": "replays", "overlap_began": "overlaps"}
_OVERLAP_ENDED: Final = "overlap_ended"

_MEASURED: Final = (
    Column(
        "kind", Type.STRING, "group: by cause; change: of operators; run: repairs of a set; repaired: in these; locks"
    ),
    Column("group", Type.STRING, "the consumer group"),
    Column("topic", Type.STRING, "the topic"),
    Column("broker_name", Type.STRING, "run: the broker set"),
    Column("cause", Type.STRING, "group: failover, restart, lost, reset or deleted"),
    Column("operation", Type.STRING, "change: reset, restore, undo, repair, import or delete"),
    Column("target", Type.STRING, "change: where: manager or broker"),
    Column("writer", Type.STRING, "change: who requested it"),
    Column("events", Type.LONG, "rows that were recorded: readings, changes, runs, or events of locks"),
    Column("sets", Type.STRINGS, "broker sets that they are about"),
    Column("queues", Type.LONG, "queues, as often as it happened to them; locks: with a holder at a promotion"),
    Column("removed", Type.LONG, "group, change: queues without an offset from then on"),
    Column("created", Type.LONG, "change: queues that had no offset before"),
    Column("messages_again", Type.LONG, "group, change: messages read again, at most; run, repaired: not repaired"),
    Column("messages_skipped", Type.LONG, "group, change: messages that were skipped; run, repaired: that may be"),
    Column("pushed", Type.LONG, "run, repaired: queues that were raised to a proved offset"),
    Column("set_back", Type.LONG, "run, repaired: queues that were set to where the logs part, or below"),
    Column("would_change", Type.LONG, "run, repaired: queues that were only reported"),
    Column("not_proved", Type.LONG, "run, repaired: queues in which nothing is proved"),
    Column("failed", Type.LONG, "run, repaired, change: queues that were not changed, or not for certain"),
    Column("messages_spared", Type.LONG, "run, repaired: messages that were not read again, as offsets were pushed"),
    Column("problems", Type.LONG, "run: runs in which nothing, or not all, was decided"),
    Column("longest_ms", Type.LONG, "run: ms of the longest; locks: from a promotion to its last lock, at most"),
    Column("replays", Type.LONG, "locks: promotions after which locks were replayed"),
    Column("granted", Type.LONG, "locks: queues that new masters locked for their holders"),
    Column("held_by_another", Type.LONG, "locks: queues that somebody else had locked there before"),
    Column("unanswered", Type.LONG, "locks: queues of which the answer did not come in time"),
    Column("unconfirmed", Type.LONG, "locks: queues that their holders did not confirm in time"),
    Column("overlaps", Type.LONG, "locks: times that two clients were proved to hold one queue"),
    Column("overlap_longest_ms", Type.LONG, "locks: ms of the longest of these that have ended"),
)

PART_COLUMNS: Final = (
    CLUSTER,
    *_MEASURED,
    Column("first_us", Type.LONG, "the first of them, Unix us"),
    Column("last_us", Type.LONG, "the last of them, Unix us"),
)

COLUMNS: Final = (
    *_MEASURED,
    Column("is_wanted", Type.BOOLEAN, "group: somebody has wanted it: a reset or a deletion"),
    Column("first", Type.TIMESTAMP, "the first of them"),
    Column("last", Type.TIMESTAMP, "the last of them"),
)


def parts(inputs: Inputs, span: Span) -> Frames:
    """Return the sums of a span, by kind and what each is told apart by."""
    repairs = of_span(inputs["offset_repair"], span)
    rows = {
        "group": of_span(inputs["offset_jump"], span).where("event_type = 'jumped'"),
        "change": of_span(inputs["offset_change_by_operator"], span).withColumn("operation", F.col("event_type")),
        "run": repairs.where("event_type = 'run'").withColumns(
            {"problems": F.col("problem").isNotNull().cast("bigint"), "longest_ms": F.col("duration_ms")}
        ),
        "repaired": repairs.where("event_type = 'repaired'"),
        "locks": _lock_events(of_span(inputs["lock_event"], span)),
    }
    once = {"events": F.lit(1), "sets": F.array_compact(F.array("broker_name"))}
    times = {"first_us": F.col("at_us"), "last_us": F.col("at_us")}
    return {kind: _summed(found.withColumns({**once, **times}), _KINDS[kind]) for kind, found in rows.items()}


def _lock_events(rows: DataFrame) -> DataFrame:
    """Return the events that are known, each with a 1 where it counts."""
    known = rows.where(F.col("event_type").isin(*_LOCK_EVENTS, _OVERLAP_ENDED))
    counts = {column: _is(event_type).cast("bigint") for event_type, column in _LOCK_EVENTS.items()}
    return known.withColumns(
        {
            **counts,
            "longest_ms": F.when(_is("replayed"), F.col("duration_ms")),
            "overlap_longest_ms": F.when(_is(_OVERLAP_ENDED), F.col("duration_ms")),
        }
    )


def _is(event_type: str) -> Expression:
    return F.col("event_type") == event_type


def result(parts: DataFrame, span: Span) -> DataFrame:  # noqa: ARG001 - the parts are those of the span
    """Return the sums of all spans."""
    frames = {kind: _summed(of_kind(parts, kind), counted) for kind, counted in _KINDS.items()}
    return shaped(frames, PART_COLUMNS).withColumns(
        {
            "first": F.timestamp_micros("first_us"),
            "last": F.timestamp_micros("last_us"),
            "is_wanted": F.when(F.col(KIND.name) == "group", ~F.col("cause").isin(*UNWANTED_CAUSES)),
        }
    )


def _summed(rows: DataFrame, counted: _Counted) -> DataFrame:
    sums = [F.sum(F.coalesce(F.col(name), F.lit(0))).alias(name) for name in (*counted.sums, "events")]
    maxima = [F.max(name).alias(name) for name in counted.maxima]
    return rows.groupBy(CLUSTER.name, *counted.keys).agg(
        *sums,
        *maxima,
        F.array_sort(F.array_distinct(F.flatten(F.collect_list("sets")))).alias("sets"),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
    )


JOB: Final = Job(
    id="A16",
    name="read_again",
    question="What was read again or skipped, by group and cause, and what did repairs, restores and lock replays do?",
    inputs=("offset_jump", "offset_change_by_operator", "offset_repair", "lock_event"),
    parts_of=parts,
    result_of=result,
    part_columns=PART_COLUMNS,
    columns=COLUMNS,
    # What nobody has wanted comes first.
    order=("is_wanted", "messages_again DESC NULLS LAST", "would_change DESC NULLS LAST", "overlaps DESC NULLS LAST"),
)
