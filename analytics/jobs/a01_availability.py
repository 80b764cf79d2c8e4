"""A1: how available each broker was, how often it failed, and how long repairs took.

A broker is down on one NameServer until its next registration there: from the end of its connection, from its good-bye,
or, if it was silent, from the last heartbeat, to this NameServer or to a controller. It is down when fewer than a
majority of the NameServers that watch have it. Planned: it unregistered. Time that nobody watched counts for nothing,
nor does time in which its process has another broker id: a slave that became the master is not down.

Who was silent may have lived on until it was given up, so that such times have two bounds. The end of a
connection shows nothing of a host that cannot send, as when its power is off or a cable is pulled: it is silent.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.shared.broker_states import AVAILABILITY_INPUTS, STATE_PARTS, availability_parts
from analytics.shared.job import Job, Span
from analytics.shared.rates import poisson_lower, poisson_upper
from analytics.shared.rows import BROKER_COLUMNS
from analytics.shared.uptime_intervals import runs
from history.columns import Column, Type

COLUMNS: Final = (
    *BROKER_COLUMNS,
    Column("observed_s", Type.DOUBLE, "seconds in which its state was known"),
    Column("up_s", Type.DOUBLE, "seconds up"),
    Column("planned_s", Type.DOUBLE, "seconds down after it unregistered"),
    Column("unplanned_s", Type.DOUBLE, "seconds down otherwise, at most: from the last heartbeat on"),
    Column("unplanned_least_s", Type.DOUBLE, "the same, at least: from when silent brokers were given up"),
    Column("failures", Type.LONG, "unplanned times down that began in the window, and were sure at some moment"),
    Column("mtbf_s", Type.DOUBLE, "mean seconds up between failures; null without failures: see mtbf_lower_s"),
    Column("mttr_s", Type.DOUBLE, "mean seconds of an unplanned time down, at most; null without failures"),
    Column("availability", Type.DOUBLE, "up / (up + down), 0 to 1"),
    Column("mtbf_lower_s", Type.DOUBLE, "the MTBF is above it with 95 %; without failures a third of the time up"),
    Column("mtbf_upper_s", Type.DOUBLE, "the MTBF is below it with 95 %; null without failures"),
)


def availability(parts: DataFrame, span: Span) -> DataFrame:
    """Return one row for each broker that was known in the span."""
    failed = ~F.col("up") & ~F.col("planned") & F.col("is_change") & (F.col("sure_us") > 0)
    seconds = F.col("observed_us") / 1e6
    sums = (
        runs(parts, span)
        .groupBy("cluster", "broker_name", "broker_id")
        .agg(
            F.sum(seconds).alias("observed_s"),
            F.sum(F.when(F.col("up"), seconds).otherwise(0.0)).alias("up_s"),
            F.sum(F.when(F.col("planned"), seconds).otherwise(0.0)).alias("planned_s"),
            F.sum(F.when(~F.col("up") & ~F.col("planned"), seconds).otherwise(0.0)).alias("unplanned_s"),
            F.sum(F.when(~F.col("up") & ~F.col("planned"), F.col("sure_us") / 1e6).otherwise(0.0)).alias(
                "unplanned_least_s"
            ),
            F.count_if(failed).alias("failures"),
            F.avg(F.when(failed, seconds)).alias("mttr_s"),
        )
    )
    failures = F.col("failures")
    return sums.withColumns(
        {
            "mtbf_s": F.when(failures > 0, F.col("up_s") / failures),
            "availability": F.try_divide("up_s", "observed_s"),
            "mtbf_lower_s": F.col("up_s") / poisson_upper(failures),
            "mtbf_upper_s": F.col("up_s") / poisson_lower(failures),
        }
    )


JOB: Final = Job(
    id="A1",
    name="availability",
    question="How available was each broker, how often did it fail, and how long did repairs take?",
    inputs=AVAILABILITY_INPUTS,
    parts_of=availability_parts,
    result_of=availability,
    part_columns=STATE_PARTS,
    columns=COLUMNS,
    order=("availability ASC NULLS LAST",),
)
