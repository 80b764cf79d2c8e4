"""A13: when a broker behaved unlike itself.

Ten minutes of a broker are compared with all of its ten minutes in the same hour of the week, over the last four weeks.
Twice in a row far from their median, in terms of the median deviation, is an anomaly; once is chance.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.job import Inputs, Job, Span
from analytics.rows import CLUSTER, DAY_US, HOUR_US, MINUTE_US, of_span, shaped
from history.schemas import Column, Type

WINDOW_US: Final = 10 * MINUTE_US

BASELINE_DAYS: Final = 28

#: An hour of the week with fewer windows than this is compared with all windows of the broker.
WINDOWS_MIN: Final = 12

Z_MAX: Final = 6.0

#: Windows in a row.
RUN_MIN: Final = 2

#: Metric -> the least deviation that is taken to be usual; and at least FLOOR_SHARE of the median.
FLOORS: Final[Mapping[str, float]] = MappingProxyType(
    {"interval_mean_ms": 20.0, "interval_max_ms": 100.0, "missed": 0.5, "topic_changes": 1.0}
)
FLOOR_SHARE: Final = 0.005

_WHO: Final = ("cluster", "broker_name", "broker_id")

PART_COLUMNS: Final = (
    CLUSTER,
    Column("broker_name", Type.STRING, "broker set"),
    Column("broker_id", Type.LONG, "broker id"),
    Column("window_us", Type.LONG, "beginning of the ten minutes, Unix us"),
    Column("interval_mean_ms", Type.DOUBLE, "mean interval between beats, ms"),
    Column("interval_max_ms", Type.DOUBLE, "longest interval, ms; the mean of the NameServers"),
    Column("missed", Type.DOUBLE, "beats that did not come; the mean of the NameServers"),
    Column("topic_changes", Type.DOUBLE, "topics that came, went or changed; the mean of the NameServers"),
)

COLUMNS: Final = (
    Column("broker_name", Type.STRING, "broker set"),
    Column("broker_id", Type.LONG, "broker id"),
    Column("metric", Type.STRING, "interval_mean_ms, interval_max_ms, missed or topic_changes"),
    Column("start", Type.TIMESTAMP, "beginning of the first window"),
    Column("end", Type.TIMESTAMP, "end of the last window"),
    Column("windows", Type.LONG, "windows of ten minutes in a row"),
    Column("value", Type.DOUBLE, "in the window that is farthest off"),
    Column("baseline", Type.DOUBLE, "its median in this hour of the week"),
    Column("z", Type.DOUBLE, "how many deviations it is off, with its sign"),
)


def parts(inputs: Inputs, span: Span) -> DataFrame:
    """Return what each broker was like in each ten minutes."""
    window_us = (F.floor(F.col("at_us") / WINDOW_US) * WINDOW_US).alias("window_us")
    key = [*map(F.col, _WHO), window_us, F.col("ns_id")]
    heard = (
        _beats(inputs, span)
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
    each = heard.join(changes, [*_WHO, "window_us", "ns_id"], "left")
    of_window = each.groupBy(*_WHO, "window_us").agg(
        F.avg("mean_ms").alias("interval_mean_ms"),
        F.avg("max_ms").alias("interval_max_ms"),
        F.avg("missed").alias("missed"),
        F.avg(F.coalesce("changes", F.lit(0))).alias("topic_changes"),
    )
    return shaped(of_window, PART_COLUMNS)


def _beats(inputs: Inputs, span: Span) -> DataFrame:
    """Return the intervals that NameServers saw: of each beat, or of a minute where beats are summarised."""
    interval, period = F.col("interval_ms"), F.col("period_ms")
    missed = F.greatest(F.round(F.try_divide(interval, period)) - 1, F.lit(0.0))
    beats = of_span(inputs["heartbeat"], span).where("event_type = 'beat' AND interval_ms IS NOT NULL")
    single = beats.where(_of_namesrv()).select(
        *_WHO,
        "at_us",
        "ns_id",
        F.lit(1).alias("n"),
        interval.alias("sum_ms"),
        interval.alias("max_ms"),
        F.coalesce(missed, F.lit(0.0)).alias("missed"),
    )
    summaries = of_span(inputs["heartbeat_summary"], span).where("n > 0").where(_of_namesrv())
    return single.unionByName(
        summaries.select(
            *_WHO,
            # A minute's summary is written after it: by its own time it belongs to the day whose rows have it.
            "at_us",
            "ns_id",
            F.col("n"),
            F.col("interval_sum_ms").alias("sum_ms"),
            F.col("interval_max_ms").alias("max_ms"),
            F.coalesce(F.col("missed"), F.lit(0)).cast("double").alias("missed"),
        )
    )


def _of_namesrv() -> Expression:
    return F.coalesce(F.col("source"), F.lit("namesrv")) == "namesrv"


def result(parts: DataFrame, span: Span) -> DataFrame:
    """Return the anomalies of the last four weeks of the span."""
    recent = parts.where(F.col("window_us") >= span.end_us - BASELINE_DAYS * DAY_US)
    return shaped(_runs(far_off(recent)), (CLUSTER, *COLUMNS))


def far_off(windows: DataFrame) -> DataFrame:
    """Return the windows that are far from what is usual, one row per metric, with `value`, `baseline` and `z`."""
    told = F.concat(*(_far_in(metric) for metric in FLOORS))
    usual = _baselines(_slots(windows))
    return usual.select(*_WHO, F.explode(told).alias("far")).select(*_WHO, "far.*")


def _slots(windows: DataFrame) -> DataFrame:
    """Return, by broker and hour of the week, an array of its windows; hours with too few are taken together."""
    hour = F.pmod(F.floor(F.col("window_us") / HOUR_US), F.lit(7 * 24)).alias("hour")
    hourly = windows.groupBy(*_WHO, hour).agg(F.collect_list(F.struct("window_us", *FLOORS)).alias("windows"))
    known = F.size("windows") >= WINDOWS_MIN
    sparse = hourly.where(~known).groupBy(*_WHO).agg(F.flatten(F.collect_list("windows")).alias("windows"))
    return hourly.where(known).drop("hour").unionByName(sparse)


def _baselines(slots: DataFrame) -> DataFrame:
    """Return the slots with median and usual deviation of each metric."""
    medians = slots.withColumns({f"{metric}_median": _median(_values(metric)) for metric in FLOORS})
    return medians.withColumns({f"{metric}_usual": _usual_deviation(metric) for metric in FLOORS})


def _values(metric: str) -> Expression:
    return F.transform("windows", lambda window: window[metric])


def _usual_deviation(metric: str) -> Expression:
    median = F.col(f"{metric}_median")
    off = F.transform(_values(metric), lambda value: F.abs(value - median))
    return F.greatest(_median(off), F.lit(FLOORS[metric]), F.abs(median) * FLOOR_SHARE)


def _median(values: Expression) -> Expression:
    ordered, size = F.sort_array(values), F.size(values)
    return (F.get(ordered, F.floor((size - 1) / 2).cast("int")) + F.get(ordered, F.floor(size / 2).cast("int"))) / 2


def _far_in(metric: str) -> Expression:
    """Return the windows of a slot in which one metric is far off."""
    median, usual = F.col(f"{metric}_median"), F.col(f"{metric}_usual")
    scored = F.transform(
        "windows",
        lambda window: F.struct(
            F.lit(metric).alias("metric"),
            window["window_us"].alias("window_us"),
            window[metric].alias("value"),
            median.alias("baseline"),
            (0.6745 * (window[metric] - median) / usual).alias("z"),
        ),
    )
    return F.filter(scored, lambda window: F.abs(window["z"]) > Z_MAX)


def _runs(windows: DataFrame) -> DataFrame:
    """Return windows that are far off as runs without a pause, the short ones left out."""
    broker = Window.partitionBy(*_WHO, "metric").orderBy("window_us")
    # Neighbours have the same difference between their place in time and their number.
    far = windows.withColumn("run", F.floor(F.col("window_us") / WINDOW_US) - F.row_number().over(broker))
    # Of two that are as far the later one, so that the order of rows does not matter.
    farthest = F.struct(F.abs("z"), "window_us")
    runs = far.groupBy(*_WHO, "metric", "run").agg(
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
    parts=parts,
    result=result,
    part_columns=PART_COLUMNS,
    columns=COLUMNS,
    order=("abs(z) DESC",),
)
