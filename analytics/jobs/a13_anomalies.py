"""A13: when a broker behaved unlike itself.

Ten minutes of a broker are compared with all of its ten minutes in the same hour of the week, over the last four weeks.
Twice in a row far from their median, in terms of the median deviation, is an anomaly; once is chance. Of a broker that
sent heartbeats for less than a day, nothing is reported.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.broker_states import BROKER
from analytics.shared.days import DAY_US, HOUR_US, MINUTE_US
from analytics.shared.job import Inputs, Job, Span
from analytics.shared.rows import CLUSTER, of_namesrv, of_span
from history.columns import Column, Type

WINDOW_US: Final = 10 * MINUTE_US

BASELINE_DAYS: Final = 28

#: An hour of the week with fewer windows than this is compared with all windows of the broker.
WINDOWS_MIN: Final = 12

#: And with nothing at all if these are fewer: of less than a day nobody knows what is usual.
USUAL_WINDOWS_MIN: Final = DAY_US // WINDOW_US

Z_MAX: Final = 6.0

#: Windows in a row.
RUN_MIN: Final = 2

#: Metric -> the least deviation that is taken to be usual; and at least FLOOR_SHARE of the median.
FLOORS: Final[Mapping[str, float]] = MappingProxyType(
    {"interval_mean_ms": 20.0, "interval_max_ms": 100.0, "missed": 0.5, "topic_changes": 1.0}
)
FLOOR_SHARE: Final = 0.005

JUDGED: Final = "judged"

#: Column of one window -> the column of parts that has it of all windows of an hour.
OF_HOUR: Final[Mapping[str, str]] = MappingProxyType(
    {
        "window_us": "windows_us",
        "interval_mean_ms": "interval_means_ms",
        "interval_max_ms": "interval_maxima_ms",
        "missed": "heartbeats_missed",
        "topic_changes": "topics_changed",
    }
)

PART_COLUMNS: Final = (
    CLUSTER,
    Column("broker_name", Type.STRING, "broker set"),
    Column("broker_id", Type.LONG, "broker id"),
    Column("hour_us", Type.LONG, "beginning of the hour whose windows these are, Unix us"),
    Column("windows_us", Type.LONGS, "beginnings of its ten minutes, Unix us; what follows has one value for each"),
    Column("interval_means_ms", Type.DOUBLES, "mean interval between heartbeats, ms"),
    Column("interval_maxima_ms", Type.DOUBLES, "longest interval, ms; the mean of the NameServers"),
    Column("heartbeats_missed", Type.DOUBLES, "heartbeats that did not come; the mean of the NameServers"),
    Column("topics_changed", Type.DOUBLES, "topics that came, went or changed; the mean of the NameServers"),
)

COLUMNS: Final = (
    Column("broker_name", Type.STRING, "broker set"),
    Column("broker_id", Type.LONG, "broker id"),
    Column("metric", Type.STRING, "interval_mean_ms, interval_max_ms, missed or topic_changes; judged: how many were"),
    Column("start", Type.TIMESTAMP, "beginning of the first window"),
    Column("end", Type.TIMESTAMP, "end of the last window"),
    Column("windows", Type.LONG, "windows of ten minutes in a row"),
    Column("value", Type.DOUBLE, "in the window that is farthest off"),
    Column("baseline", Type.DOUBLE, "its median in this hour of the week"),
    Column("z", Type.DOUBLE, "how many deviations it is off, with its sign"),
    Column("brokers", Type.LONG, "judged: brokers of the cluster with enough heartbeats to know what is usual"),
)


def parts(inputs: Inputs, span: Span) -> DataFrame:
    """Return what each broker was like in each ten minutes."""
    window_us = (F.floor(F.col("at_us") / WINDOW_US) * WINDOW_US).alias("window_us")
    key = [*map(F.col, BROKER), window_us, F.col("ns_id")]
    of_windows = (
        _heartbeats(inputs, span)
        .groupBy(*key)
        .agg(
            F.try_divide(F.sum("sum_ms"), F.sum("n")).alias("mean_ms"),
            F.max("max_ms").alias("max_ms"),
            F.sum("missed").alias("missed"),
        )
    )
    counts = [F.coalesce(F.col(f"topics_{what}"), F.lit(0)) for what in ("added", "removed", "changed")]
    # What comes with a broker's first word is not a change of its own.
    changed = of_span(inputs["broker_state"], span).where("event_type = 'changed'")
    changes = changed.groupBy(*key).agg(F.sum(counts[0] + counts[1] + counts[2]).alias("changes"))
    each = of_windows.join(changes, [*BROKER, "window_us", "ns_id"], "left")
    of_window = each.groupBy(*BROKER, "window_us").agg(
        F.avg("mean_ms").alias("interval_mean_ms"),
        F.avg("max_ms").alias("interval_max_ms"),
        F.avg("missed").alias("missed"),
        F.avg(F.coalesce("changes", F.lit(0))).alias("topic_changes"),
    )
    # An hour is looked at as a whole: a month has a sixth as many rows to sort then.
    hour_us = (F.floor(F.col("window_us") / HOUR_US) * HOUR_US).alias("hour_us")
    of_hour = of_window.groupBy(*BROKER, hour_us).agg(F.collect_list(F.struct(*OF_HOUR)).alias("windows"))
    return of_hour.select(*BROKER, "hour_us", *(F.col("windows")[one].alias(all_) for one, all_ in OF_HOUR.items()))


def _heartbeats(inputs: Inputs, span: Span) -> DataFrame:
    """Return the intervals that NameServers saw: of each heartbeat, or of a minute where heartbeats are summarised."""
    interval, period = F.col("interval_ms"), F.col("period_ms")
    missed = F.greatest(F.round(F.try_divide(interval, period)) - 1, F.lit(0.0))
    heartbeats = of_span(inputs["heartbeat"], span).where("event_type = 'heartbeat' AND interval_ms IS NOT NULL")
    single = heartbeats.where(of_namesrv()).select(
        *BROKER,
        "at_us",
        "ns_id",
        F.lit(1).alias("n"),
        interval.alias("sum_ms"),
        interval.alias("max_ms"),
        F.coalesce(missed, F.lit(0.0)).alias("missed"),
    )
    summaries = of_span(inputs["heartbeat_summary"], span).where("n > 0").where(of_namesrv())
    return single.unionByName(
        summaries.select(
            *BROKER,
            # A minute's summary is written after it: by its own time it belongs to the day whose rows have it.
            "at_us",
            "ns_id",
            F.col("n"),
            F.col("interval_sum_ms").alias("sum_ms"),
            F.col("interval_max_ms").alias("max_ms"),
            F.coalesce(F.col("missed"), F.lit(0)).cast("double").alias("missed"),
        )
    )


def result(parts: DataFrame, span: Span) -> DataFrame:
    """Return the anomalies of the last four weeks of the span; of an hour that these cut all windows count."""
    recent = parts.where(F.col("hour_us") > span.end_us - BASELINE_DAYS * DAY_US - HOUR_US)
    return _runs(far_off(recent)).unionByName(_judged(recent), allowMissingColumns=True)


def _judged(hours: DataFrame) -> DataFrame:
    """Return how many brokers of each cluster have a slot: see `_slots`."""
    by_hour = hours.groupBy(*BROKER, _hour()).agg(F.sum(F.size("windows_us")).alias("n"))
    known = F.coalesce(F.max("n"), F.lit(0)) >= WINDOWS_MIN
    sparse = F.coalesce(F.sum(F.when(F.col("n") < WINDOWS_MIN, F.col("n"))), F.lit(0)) >= USUAL_WINDOWS_MIN
    by_broker = by_hour.groupBy(*BROKER).agg((known | sparse).alias("is_judged"))
    judged = by_broker.groupBy("cluster").agg(F.count_if("is_judged").alias("brokers"))
    return judged.withColumn("metric", F.lit(JUDGED))


def far_off(hours: DataFrame) -> DataFrame:
    """Return the windows that are far from what is usual, one row per metric, with `value`, `baseline` and `z`."""
    results_of = F.flatten(F.array_compact(F.array(*(_far_in(metric) for metric in FLOORS))))
    usual = _baselines(_slots(hours))
    return usual.select(*BROKER, F.explode(results_of).alias("far")).select(*BROKER, "far.*")


def _slots(hours: DataFrame) -> DataFrame:
    """Return, by broker and hour of the week, an array of its windows; hours with too few are taken together."""
    zipped = F.arrays_zip(*(F.col(all_).alias(one) for one, all_ in OF_HOUR.items()))
    hourly = hours.groupBy(*BROKER, _hour()).agg(F.flatten(F.collect_list(zipped)).alias("windows"))
    known = F.size("windows") >= WINDOWS_MIN
    sparse = hourly.where(~known).groupBy(*BROKER).agg(F.flatten(F.collect_list("windows")).alias("windows"))
    return hourly.where(known).drop("hour").unionByName(sparse.where(F.size("windows") >= USUAL_WINDOWS_MIN))


def _hour() -> Expression:
    return F.pmod(F.floor(F.col("hour_us") / HOUR_US), F.lit(7 * 24)).alias("hour")


def _baselines(slots: DataFrame) -> DataFrame:
    """Return the slots with median and usual deviation of each metric.

    Each step is one of its own, so that nothing is sorted twice.
    """
    ordered = slots.withColumns({_ordered(metric): F.sort_array(F.col("windows")[metric]) for metric in FLOORS})
    medians = ordered.withColumns({f"{metric}_median": _middle(_ordered(metric)) for metric in FLOORS})
    off = medians.withColumns({_off(metric): _deviations(metric) for metric in FLOORS})
    return off.withColumns({f"{metric}_usual": _usual_deviation(metric) for metric in FLOORS})


def _ordered(metric: str) -> str:
    return f"{metric}_ordered"


def _off(metric: str) -> str:
    return f"{metric}_off"


def _deviations(metric: str) -> Expression:
    median = F.col(f"{metric}_median")
    return F.sort_array(F.transform(_ordered(metric), lambda value: F.abs(value - median)))


def _usual_deviation(metric: str) -> Expression:
    median = F.col(f"{metric}_median")
    return F.greatest(_middle(_off(metric)), F.lit(FLOORS[metric]), F.abs(median) * FLOOR_SHARE)


def _middle(ordered: str) -> Expression:
    size = F.size(ordered)
    return (F.get(ordered, F.floor((size - 1) / 2).cast("int")) + F.get(ordered, F.floor(size / 2).cast("int"))) / 2


def _far_in(metric: str) -> Expression:
    """Return the windows of a slot in which one metric is far off; null: none."""
    median, usual = F.col(f"{metric}_median"), F.col(f"{metric}_usual")

    def z(off: Expression) -> Expression:
        return 0.6745 * off / usual

    # Most slots have none: their windows are not looked at one by one.
    some = F.when(z(F.element_at(_off(metric), -1)) > Z_MAX, F.col("windows"))
    return F.transform(
        F.filter(some, lambda window: F.abs(z(window[metric] - median)) > Z_MAX),
        lambda window: F.struct(
            F.lit(metric).alias("metric"),
            window["window_us"].alias("window_us"),
            window[metric].alias("value"),
            median.alias("baseline"),
            z(window[metric] - median).alias("z"),
        ),
    )


def _runs(windows: DataFrame) -> DataFrame:
    """Return windows that are far off as runs without a pause, the short ones left out."""
    broker = Window.partitionBy(*BROKER, "metric").orderBy("window_us")
    # Neighbours have the same difference between their place in time and their number.
    far = windows.withColumn("run", F.floor(F.col("window_us") / WINDOW_US) - F.row_number().over(broker))
    # Of two that are as far the later one, so that the order of rows does not matter.
    farthest = F.struct(F.abs("z"), "window_us")
    runs = far.groupBy(*BROKER, "metric", "run").agg(
        F.min("window_us").alias("start_us"),
        F.max("window_us").alias("last_us"),
        F.count(F.lit(1)).alias("windows"),
        F.max_by("value", farthest).alias("value"),
        F.max_by("baseline", farthest).alias("baseline"),
        F.max_by("z", farthest).alias("z"),
    )
    return runs.where(F.col("windows") >= RUN_MIN).withColumns(
        {"start": F.timestamp_micros("start_us"), "end": F.timestamp_micros(F.col("last_us") + WINDOW_US)}
    )


JOB: Final = Job(
    id="A13",
    name="anomalies",
    question="When did a broker behave unlike itself?",
    inputs=("heartbeat", "heartbeat_summary", "broker_state"),
    parts_of=parts,
    result_of=result,
    part_columns=PART_COLUMNS,
    columns=COLUMNS,
    order=("metric = 'judged' DESC", "abs(z) DESC NULLS LAST"),
)
