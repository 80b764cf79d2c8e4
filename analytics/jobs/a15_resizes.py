"""A15: what each resize of a topic did, how long it took, and what the autoscaler decided.

Rows of `scaling` tell when an operation entered a phase and how long the one before took. Rates and lags are those that
were sampled in the 30 minutes before the operation was stored, while it ran, and in the 30 minutes after its end. A
minute that was not sampled counts for nothing: without any of them the value is null.

An operation over several clusters has rows for each of them: topics are sampled by cluster.
"""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.days import MINUTE_US
from analytics.shared.job import Inputs, Job, Span
from analytics.shared.rows import CLUSTER, KIND, of_kind, of_span, timed
from analytics.spark.schemas import Frames
from history.columns import Column, Type

#: How long before and after an operation is looked at.
AROUND_US: Final = 30 * MINUTE_US

#: Event type of the end of an operation -> its result.
RESULTS: Final = {"verified": "done", "rolled_back": "aborted", "rejected": "rejected"}

_OPERATION: Final = ("cluster", "operation_id", "topic")
_WINDOWS: Final = ("before", "during", "after")

PART_COLUMNS: Final = (
    KIND,
    CLUSTER,
    Column("topic", Type.STRING, "the topic"),
    Column("operation_id", Type.STRING, "event: the operation"),
    Column("at_us", Type.LONG, "event, sample: when, Unix us"),
    Column("event_id", Type.STRING, "event: its row"),
    Column("event_type", Type.STRING, "event, decision: that of its row"),
    Column("created_us", Type.LONG, "event: when the operation was stored first, Unix us"),
    Column("step", Type.STRING, "event: the phase from then on"),
    Column("former_step", Type.STRING, "event: the phase before"),
    Column("duration_ms", Type.LONG, "event: ms that it took"),
    Column("evidence", Type.STRINGS, "event: what ended it"),
    Column("resize", Type.STRING, "event: grow, shrink, ordered or gated"),
    Column("requested_by", Type.STRING, "event: who wanted it"),
    Column("reason", Type.STRING, "event: why"),
    Column("problem", Type.STRING, "event: why it is blocked, in conflict, rejected or undone"),
    Column("reopened", Type.LONG, "event: how often dropped queues were opened again"),
    Column("sets", Type.LONG, "event: sets of the cluster that it changes"),
    Column("write_from", Type.LONG, "event: their write queues before"),
    Column("write_to", Type.LONG, "event: those wanted"),
    Column("group", Type.STRING, "sample: the group; null: the topic"),
    Column("lag", Type.LONG, "sample: messages not consumed"),
    Column("consumers", Type.LONG, "sample: members that are connected"),
    Column("tps", Type.DOUBLE, "sample: messages that come in a second"),
    Column("finding", Type.STRING, "decision: what was found"),
    Column("decisions", Type.LONG, "decision: how many"),
    Column("first_us", Type.LONG, "decision: the first of them, Unix us"),
    Column("last_us", Type.LONG, "decision: the last of them, Unix us"),
)


def _of_windows(name: str, kind: Type, doc: str) -> tuple[Column, ...]:
    times = ("in the 30 minutes before it", "while it ran", "in the 30 minutes after its end")
    return tuple(
        Column(f"{name}_{window}", kind, f"{doc} {time}") for window, time in zip(_WINDOWS, times, strict=True)
    )


COLUMNS: Final = (
    Column("kind", Type.STRING, "operation; phase, group: of an operation; decision: of the autoscaler, by topic"),
    Column("topic", Type.STRING, "the topic"),
    Column("operation_id", Type.STRING, "the operation"),
    Column("resize", Type.STRING, "grow, shrink, ordered or gated, as it was planned"),
    Column("result", Type.STRING, "done, aborted, rejected, or running"),
    Column("phase", Type.STRING, "operation: that in which it is, or ended; phase: which"),
    Column("requested_by", Type.STRING, "who wanted it"),
    Column("reason", Type.STRING, "operation: why"),
    Column("problem", Type.STRING, "why it is blocked, in conflict, rejected or undone"),
    Column("sets", Type.LONG, "sets of the cluster that it changes"),
    Column("write_from", Type.LONG, "write queues of the topic on them before"),
    Column("write_to", Type.LONG, "those that were planned"),
    Column("created", Type.TIMESTAMP, "when it was stored first"),
    Column("ended", Type.TIMESTAMP, "when it ended; null while it runs"),
    Column("seconds", Type.DOUBLE, "operation: from then until its end, or that of the window; phase: spent in it"),
    Column("entries", Type.LONG, "phase: how often it was in it"),
    Column("reopened", Type.LONG, "how often dropped queues were opened again: messages came late"),
    Column("longest_phase", Type.STRING, "the phase in which it was longest without a break"),
    Column("longest_s", Type.DOUBLE, "seconds of that"),
    Column("evidence", Type.STRINGS, "what ended that; while it lasts, what it waits for if it is known"),
    *_of_windows("samples", Type.LONG, "minutes in which the rate of the topic was sampled,"),
    *_of_windows("tps", Type.DOUBLE, "mean messages that came in a second,"),
    Column("queue_tps_before", Type.DOUBLE, "tps_before for each write queue"),
    Column("queue_tps_after", Type.DOUBLE, "tps_after for each write queue: of those planned if it is done"),
    Column("group", Type.STRING, "group: which"),
    *_of_windows("lag", Type.DOUBLE, "mean messages not consumed,"),
    *_of_windows("lag_max", Type.LONG, "most messages not consumed,"),
    *_of_windows("consumers", Type.LONG, "most members that were connected,"),
    Column("verdict", Type.STRING, "decision: kept, proposed, approved, dismissed, resized or refused"),
    Column("finding", Type.STRING, "decision: the kind of what was found first; null: nothing was"),
    Column("decisions", Type.LONG, "decision: how often it came to that; an unchanged decision is one"),
    Column("first", Type.TIMESTAMP, "decision: the first of them"),
    Column("last", Type.TIMESTAMP, "decision: the last of them"),
)


def parts(inputs: Inputs, span: Span) -> Frames:
    """Return the rows about operations, what was sampled near them, and how often the autoscaler decided what."""
    return {
        "event": _events(of_span(inputs["scaling"], span)),
        "sample": _by_minute(_near_resizes(of_span(inputs["offset_sample"], span), timed(inputs["scaling"]), span)),
        "decision": _decisions(of_span(inputs["scaling_decision"], span)),
    }


def _events(rows: DataFrame) -> DataFrame:
    each_set = F.arrays_zip("set_clusters", "set_writes", "set_targets")
    mine = F.filter(F.col("each_set"), lambda each: each["set_clusters"].eqNullSafe(F.col("cluster")))
    by_cluster = rows.withColumn("each_set", each_set).withColumn(
        "cluster", F.explode(F.array_distinct("set_clusters"))
    )
    return by_cluster.withColumn("mine", mine).withColumns(
        {
            "created_us": F.coalesce(F.unix_micros("created_time"), "at_us"),
            "resize": F.col("kind"),
            "sets": F.size("mine"),
            "write_from": _sum(F.col("mine")["set_writes"]),
            "write_to": _sum(F.col("mine")["set_targets"]),
        }
    )


def _sum(numbers: Expression) -> Expression:
    return F.aggregate(numbers, F.lit(0).cast("bigint"), lambda total, each: total + each)


def _near_resizes(samples: DataFrame, events: DataFrame, span: Span) -> DataFrame:
    """Return the samples that an operation of the topic may need.

    One that is stored soon after the span needs what is sampled at its end.
    """
    created_us = F.coalesce(F.unix_micros("created_time"), "at_us")
    ended_us = F.when(F.col("event_type").isin(*RESULTS), F.col("at_us"))
    windows = events.groupBy("topic", "operation_id").agg(
        (F.min(created_us) - AROUND_US).alias("since_us"),
        F.coalesce(F.max(ended_us) + AROUND_US, F.lit(span.end_us)).alias("until_us"),
    )
    near = [
        samples["topic"] == windows["topic"],
        samples["at_us"] >= windows["since_us"],
        samples["at_us"] < windows["until_us"],
    ]
    is_last = samples["at_us"] >= span.end_us - AROUND_US
    # What is sampled each minute is compared with the few operations of a day.
    return samples.where(~is_last).join(F.broadcast(windows), near, "left_semi").unionByName(samples.where(is_last))


def _by_minute(samples: DataFrame) -> DataFrame:
    """Return one row per minute, topic and group; of several that sampled the same minute the highest counts."""
    is_known = F.col("group").isNotNull() & F.col("max_offset").isNotNull() & F.col("consumer_offset").isNotNull()
    lag = F.when(is_known, F.greatest(F.col("max_offset") - F.col("consumer_offset"), F.lit(0)))
    minute = F.floor(F.col("at_us") / MINUTE_US)
    return samples.groupBy("cluster", "topic", "group", minute.alias("minute")).agg(
        F.max("at_us").alias("at_us"),
        F.max(lag).alias("lag"),
        F.max("consumers").alias("consumers"),
        F.max("tps").alias("tps"),
    )


def _decisions(rows: DataFrame) -> DataFrame:
    return rows.groupBy("cluster", "topic", "event_type", "finding").agg(
        F.count(F.lit(1)).alias("decisions"), F.min("at_us").alias("first_us"), F.max("at_us").alias("last_us")
    )


def result(parts: DataFrame, span: Span) -> Frames:
    """Return operations with their phases and groups, and what the autoscaler decided."""
    events = of_kind(parts, "event")
    stays = _stays(events, span)
    operations = _operations(events, span).join(_longest(stays), list(_OPERATION), "left").localCheckpoint()
    sampled = _sampled(operations, of_kind(parts, "sample"), span)
    return {
        "operation": _with_rates(operations, sampled),
        "phase": _phases(stays, operations),
        "group": _groups(sampled),
        "decision": _decided(of_kind(parts, "decision")),
    }


def _in_time() -> Expression:
    """Return the place of an event among those of its operation; what ends it comes last."""
    return F.struct("at_us", F.col("event_type").isin(*RESULTS), "event_id")


def _operations(events: DataFrame, span: Span) -> DataFrame:
    """Return one row per operation and cluster: as it was planned, and how far it is."""
    first, last = ("resize", "sets", "write_from", "write_to"), ("step", "requested_by", "reason", "problem")
    ends = F.col("event_type").isin(*RESULTS)
    result_of = F.coalesce(*(F.when(F.col("event_type") == type_, word) for type_, word in RESULTS.items()))
    found = events.groupBy(*_OPERATION).agg(
        *(F.min_by(name, _in_time()).alias(name) for name in first),
        *(F.max_by(name, _in_time()).alias(name) for name in last),
        F.max("reopened").alias("reopened"),
        F.min("created_us").alias("created_us"),
        F.max(F.when(ends, F.col("at_us"))).alias("ended_us"),
        F.coalesce(F.max(result_of), F.lit("running")).alias("result"),
    )
    until_us = F.coalesce("ended_us", F.lit(span.end_us))
    return found.withColumns(
        {
            "phase": F.col("step"),
            "created": F.timestamp_micros("created_us"),
            "ended": F.timestamp_micros("ended_us"),
            "seconds": F.greatest(until_us - F.col("created_us"), F.lit(0)) / 1e6,
        }
    )


def _stays(events: DataFrame, span: Span) -> DataFrame:
    """Return how long operations were in a phase, each time: in those that have ended, and in the present one."""
    over = events.where("former_step IS NOT NULL AND duration_ms IS NOT NULL").select(
        *_OPERATION, F.col("former_step").alias("phase"), (F.col("duration_ms") / 1e3).alias("s"), "at_us", "evidence"
    )
    newest = Window.partitionBy(*_OPERATION).orderBy(F.desc(_in_time()))
    problem = F.when(F.col("problem").isNotNull(), F.array("problem"))
    present = (
        events.withColumn("nth", F.row_number().over(newest))
        .where((F.col("nth") == 1) & ~F.col("event_type").isin(*RESULTS))
        .select(
            *_OPERATION,
            F.col("step").alias("phase"),
            ((F.lit(span.end_us) - F.col("at_us")) / 1e6).alias("s"),
            F.lit(span.end_us).alias("at_us"),
            problem.alias("evidence"),
        )
    )
    return over.unionByName(present)


def _longest(stays: DataFrame) -> DataFrame:
    longest = F.max_by(F.struct("phase", "s", "evidence"), F.struct("s", "at_us", "phase"))
    return (
        stays.groupBy(*_OPERATION)
        .agg(longest.alias("longest"))
        .select(
            *_OPERATION,
            F.col("longest.phase").alias("longest_phase"),
            F.col("longest.s").alias("longest_s"),
            F.col("longest.evidence").alias("evidence"),
        )
    )


def _phases(stays: DataFrame, operations: DataFrame) -> DataFrame:
    spent = stays.groupBy(*_OPERATION, "phase").agg(F.count(F.lit(1)).alias("entries"), F.sum("s").alias("seconds"))
    known = operations.select(*_OPERATION, "resize", "result")
    return spent.join(F.broadcast(known), list(_OPERATION), "inner")


def _sampled(operations: DataFrame, samples: DataFrame, span: Span) -> DataFrame:
    """Return the samples of each operation, with the window that they lie in."""
    windows = operations.select(
        "cluster",
        "topic",
        "operation_id",
        "resize",
        "result",
        "created_us",
        F.coalesce("ended_us", F.lit(span.end_us)).alias("until_us"),
    )
    both = samples.select("cluster", "topic", "group", "at_us", "lag", "consumers", "tps").join(
        F.broadcast(windows), ["cluster", "topic"], "inner"
    )
    at_us, created_us, until_us = F.col("at_us"), F.col("created_us"), F.col("until_us")
    window = (
        F.when((at_us >= created_us - AROUND_US) & (at_us < created_us), "before")
        .when((at_us >= created_us) & (at_us < until_us), "during")
        .when((at_us >= until_us) & (at_us < until_us + AROUND_US), "after")
    )
    return both.withColumn("window", window).where("window IS NOT NULL")


def _with_rates(operations: DataFrame, sampled: DataFrame) -> DataFrame:
    """Return the operations with the rates of their topics; rows of groups tell the rate too."""
    minute = F.floor(F.col("at_us") / MINUTE_US)
    of_topic = F.max(F.when(F.col("group").isNull(), F.col("tps")))
    by_minute = sampled.groupBy(*_OPERATION, "window", minute.alias("minute")).agg(
        F.coalesce(of_topic, F.max("tps")).alias("tps")
    )
    rates = by_minute.groupBy(*_OPERATION).agg(
        *(F.count(_when(window, "tps")).alias(f"samples_{window}") for window in _WINDOWS),
        *(F.avg(_when(window, "tps")).alias(f"tps_{window}") for window in _WINDOWS),
    )
    queues_after = F.when(F.col("result") == "done", F.col("write_to")).otherwise(F.col("write_from"))
    none_sampled = {f"samples_{window}": F.coalesce(f"samples_{window}", F.lit(0)) for window in _WINDOWS}
    return (
        operations.join(rates, list(_OPERATION), "left")
        .withColumns(none_sampled)
        .withColumns(
            {
                "queue_tps_before": F.try_divide("tps_before", "write_from"),
                "queue_tps_after": F.try_divide(F.col("tps_after"), queues_after),
            }
        )
    )


def _groups(sampled: DataFrame) -> DataFrame:
    return (
        sampled.where(F.col("group").isNotNull())
        .groupBy(*_OPERATION, "resize", "result", "group")
        .agg(
            *(F.avg(_when(window, "lag")).alias(f"lag_{window}") for window in _WINDOWS),
            *(F.max(_when(window, "lag")).alias(f"lag_max_{window}") for window in _WINDOWS),
            *(F.max(_when(window, "consumers")).alias(f"consumers_{window}") for window in _WINDOWS),
        )
    )


def _when(window: str, column: str) -> Expression:
    return F.when(F.col("window") == window, F.col(column))


def _decided(days: DataFrame) -> DataFrame:
    return days.groupBy("cluster", "topic", F.col("event_type").alias("verdict"), "finding").agg(
        F.sum("decisions").alias("decisions"),
        F.timestamp_micros(F.min("first_us")).alias("first"),
        F.timestamp_micros(F.max("last_us")).alias("last"),
    )


JOB: Final = Job(
    id="A15",
    name="resizes",
    question="What did each resize of a topic do, how long did it take, and what did the autoscaler decide?",
    inputs=("scaling", "scaling_decision", "offset_sample"),
    parts_of=parts,
    result_of=result,
    part_columns=PART_COLUMNS,
    columns=COLUMNS,
    order=("kind = 'operation' DESC", "result = 'running' DESC", "created DESC NULLS LAST", "kind = 'decision' DESC"),
)
