"""A14: which brokers fail together, as if they shared a rack, a switch or a power line.

Two brokers are alike in the minutes in which they are down: the minutes in which both are, as a part of those in which
at least one of them is. A broker is down in a minute that a time down of A1 touches. Times after a good-bye were
planned and count for nothing, and so do minutes in which very many brokers are down at once.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.broker_states import AVAILABILITY_INPUTS, BROKER, STATE_PARTS, availability_parts
from analytics.shared.days import DAY_US, MINUTE_US
from analytics.shared.job import Job, Span
from analytics.shared.uptime_intervals import times_down
from history.columns import Column, Type

#: Pairs that are less alike are left out.
JACCARD_MIN: Final = 0.1

#: So many pairs are reported, the most alike first.
PAIRS_MAX: Final = 10_000

#: A broker that is down longer in a day says nothing by it, and would meet everybody.
DOWN_MINUTES_MAX: Final = 720

#: If more brokers are down in a minute, something larger than a rack has failed, and the pairs would be too many.
BROKERS_DOWN_MAX: Final = 500

COLUMNS: Final = (
    Column("broker_a", Type.STRING, "one broker: <broker set>:<broker id>"),
    Column("broker_b", Type.STRING, "the other one"),
    Column("cluster_b", Type.STRING, "its cluster"),
    Column("jaccard", Type.DOUBLE, "0: never down together, 1: always"),
    Column("joint_minutes", Type.LONG, "minutes in which both were down"),
    Column("joint_outages", Type.LONG, "how many times that was; with one it may be chance"),
    Column("minutes_a", Type.LONG, "minutes in which the one was down"),
    Column("minutes_b", Type.LONG, "minutes in which the other was"),
)


def result(parts: DataFrame, span: Span) -> DataFrame:
    """Return the pairs of brokers that are down together, the most alike first."""
    down = _few(_minutes(times_down(parts, span))).localCheckpoint()
    sizes = down.groupBy("cluster", "broker").agg(F.count(F.lit(1)).alias("minutes"))
    of_a = sizes.select(*(F.col(name).alias(f"{name}_a") for name in ("cluster", "broker", "minutes")))
    of_b = sizes.select(*(F.col(name).alias(f"{name}_b") for name in ("cluster", "broker", "minutes")))
    joint = F.col("joint_minutes")
    alike = (
        _joint(down)
        .join(of_a, ["cluster_a", "broker_a"], "inner")
        .join(of_b, ["cluster_b", "broker_b"], "inner")
        .withColumn("jaccard", joint / (F.col("minutes_a") + F.col("minutes_b") - joint))
        .withColumn("cluster", F.col("cluster_a"))
    )
    best = alike.where(F.col("jaccard") >= JACCARD_MIN).orderBy(
        F.desc("jaccard"), F.desc(joint), "broker_a", "broker_b"
    )
    return best.limit(PAIRS_MAX)


def _minutes(times: DataFrame) -> DataFrame:
    """Return the minutes that these times touch."""
    first = F.floor(F.col("start_us") / MINUTE_US)
    last = F.floor((F.col("end_us") - 1) / MINUTE_US)
    return times.select(*BROKER, F.explode(F.sequence(first, last)).alias("minute")).distinct()


def _few(minutes: DataFrame) -> DataFrame:
    """Return the minutes that say something, `cluster`, `broker` and `minute`: not those of what is down for long."""
    day = F.floor(F.col("minute") * MINUTE_US / DAY_US)
    of_day = F.count(F.lit(1)).over(Window.partitionBy(*BROKER, day))
    brief = minutes.withColumn("of_day", of_day).where(F.col("of_day") <= DOWN_MINUTES_MAX)
    of_minute = F.count(F.lit(1)).over(Window.partitionBy("minute"))
    few = brief.withColumn("of_minute", of_minute).where(F.col("of_minute") <= BROKERS_DOWN_MAX)
    broker = F.concat_ws(":", "broker_name", F.col("broker_id").cast("string")).alias("broker")
    return few.select("cluster", broker, "minute")


def _joint(down: DataFrame) -> DataFrame:
    """Return the minutes, and the runs of minutes, that each two brokers share."""
    a = down.select(F.col("cluster").alias("cluster_a"), F.col("broker").alias("broker_a"), "minute")
    b = down.select(F.col("cluster").alias("cluster_b"), F.col("broker").alias("broker_b"), "minute")
    pair = ["cluster_a", "broker_a", "cluster_b", "broker_b"]
    before = F.struct("cluster_a", "broker_a") < F.struct("cluster_b", "broker_b")
    shared = a.join(b, "minute", "inner").where(before)
    gap = F.col("minute") - F.lag("minute").over(Window.partitionBy(*pair).orderBy("minute"))
    begins = shared.withColumn("begins", F.coalesce(gap, F.lit(2)) > 1)
    return begins.groupBy(*pair).agg(
        F.count(F.lit(1)).alias("joint_minutes"), F.count_if("begins").alias("joint_outages")
    )


JOB: Final = Job(
    id="A14",
    name="correlated_failures",
    question="Which brokers fail together, as if they shared a rack, a switch or a power line?",
    inputs=AVAILABILITY_INPUTS,
    parts_of=availability_parts,
    result_of=result,
    part_columns=STATE_PARTS,
    columns=COLUMNS,
    order=("jaccard DESC", "joint_minutes DESC"),
    parts_id="A1",
)
