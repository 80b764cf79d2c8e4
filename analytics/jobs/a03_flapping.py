"""A3: which brokers leave and come back so often that they harm more than they serve.

As with route-flap damping: each time that a broker goes down adds 1 to its score, which falls to a third in an hour
(1/e). Above 3 the broker is flagged, below 1.5 it is cleared again.
"""

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.broker_states import AVAILABILITY_INPUTS, BROKER, STATE_PARTS, availability_parts
from analytics.shared.job import Job, Span
from analytics.shared.rows import BROKER_COLUMNS
from analytics.shared.uptime_intervals import runs
from history.columns import Column, Type

#: The score falls to 1/e in so many us.
TAU_US: Final = 3_600_000_000
FLAG_ABOVE: Final = 3.0
CLEAR_BELOW: Final = 1.5

#: What is older adds less than 1/20,000.
_REMEMBERED_US: Final = 10 * TAU_US

COLUMNS: Final = (
    *BROKER_COLUMNS,
    Column("transitions", Type.LONG, "times that it went down in the window, planned ones too"),
    Column("peak", Type.DOUBLE, "its highest score"),
    Column("peak_time", Type.TIMESTAMP, "when that was"),
    Column("time_flagged_s", Type.DOUBLE, "seconds of the window in which it was flagged"),
    Column("flagged_at_end", Type.BOOLEAN, "it is flagged still at the end of the window"),
)


def flapping(parts: DataFrame, span: Span) -> DataFrame:
    """Return one row for each broker that went down in the span; the score is 0 at its beginning."""
    spells = _spells(_scored(runs(parts, span).filter("is_change AND NOT up AND sure_us > 0")), span)
    flagged_us = F.coalesce(F.col("to_us") - F.col("from_us"), F.lit(0))
    return spells.groupBy(*BROKER).agg(
        F.sum("downs").alias("transitions"),
        F.max("highest.score").alias("peak"),
        F.timestamp_micros(F.max_by("highest.start_us", F.struct("highest.score", -F.col("spell")))).alias("peak_time"),
        (F.sum(flagged_us) / 1e6).alias("time_flagged_s"),
        F.max(F.col("from_us").isNotNull() & (F.col("to_us") == span.end_us)).alias("flagged_at_end"),
    )


def _scored(downs: DataFrame) -> DataFrame:
    """Add the score right after each time that a broker went down."""
    recent = Window.partitionBy(*BROKER).orderBy("start_us").rangeBetween(-_REMEMBERED_US, 0)
    so_far = downs.withColumn("recent_us", F.collect_list("start_us").over(recent))
    return so_far.withColumn("score", F.aggregate("recent_us", F.lit(0.0), _add_faded)).drop("recent_us")


def _add_faded(total: SparkColumn, at_us: SparkColumn) -> SparkColumn:
    return total + F.exp((at_us - F.col("start_us")) / float(TAU_US))


def _spells(scored: DataFrame, span: Span) -> DataFrame:
    """Put times together between which the score never fades to CLEAR_BELOW.

    Each spell has `downs`, its highest score, and `from_us` and `to_us`: from its first score above FLAG_ABOVE, if
    there is one, until it has faded.
    """
    in_order = Window.partitionBy(*BROKER).orderBy("start_us")
    up_to_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # Right after a broker went down the score may be below the threshold still: 1 is the least.
    fades_us = F.greatest(F.log(F.col("score") / CLEAR_BELOW), F.lit(0.0)) * TAU_US
    timed = scored.withColumn("clear_us", F.col("start_us") + F.round(fades_us).cast("bigint"))
    begins = (F.lag("clear_us").over(in_order) <= F.col("start_us")).cast("bigint")
    numbered = timed.withColumn("begins", begins).withColumn(
        "spell", F.coalesce(F.sum("begins").over(up_to_now), F.lit(0))
    )
    return numbered.groupBy(*BROKER, "spell").agg(
        F.count_if(F.lit(True)).alias("downs"),
        F.max_by(F.struct("score", "start_us"), F.struct("score", -F.col("start_us"))).alias("highest"),
        F.min(F.when(F.col("score") > FLAG_ABOVE, F.col("start_us"))).alias("from_us"),
        F.least(F.max("clear_us"), F.lit(span.end_us)).alias("to_us"),
    )


JOB: Final = Job(
    id="A3",
    name="flapping",
    question="Which brokers leave and come back so often that they should be put aside?",
    inputs=AVAILABILITY_INPUTS,
    parts_of=availability_parts,
    result_of=flapping,
    part_columns=STATE_PARTS,
    columns=COLUMNS,
    order=("peak DESC",),
    parts_id="A1",
)
