"""A9: which topics need more or fewer queues.

What a topic needs is measured over a day: what 95 % of its minutes can do with, and a queue for each consumer of its
largest group. It grows if three of the last seven days needed much more than there is, to what the third of them
needed; it shrinks only if all seven are known and none needed nearly as much, to what the neediest needed, and only
while nothing is left to consume. So the counts proposed satisfy the rule that proposed them: the next run proposes
nothing.

Only queues that may be written count, and only those change: a set whose write permission was wiped is left alone.
"""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.days import DAY_US, MINUTE_US
from analytics.shared.job import Inputs, Job, Span
from analytics.shared.queues.layout import queues_now, routes_now, sets_now
from analytics.shared.queues.proposals import PROPOSAL_COLUMNS, groups_of_days, with_steps
from analytics.shared.queues.snapshots import QUEUE_INPUTS, QUEUE_PART_COLUMNS, queue_parts
from analytics.shared.rows import of_kind, of_span
from analytics.spark.schemas import Frames
from history.columns import Column, Type

#: Messages a second that one queue shall carry.
QUEUE_TPS_TARGET: Final = 500

#: A topic has at least so many queues in all, and at most so many on one set.
QUEUES_MIN: Final = 4
SET_QUEUES_MAX: Final = 128

#: A day counts if it differs by so much from what there is.
DIFFERENCE_MIN: Final = 0.3

#: So many of the last days have to agree that it is too little; all of them that it is too much.
DAYS_AGREEING: Final = 3
DAYS: Final = 7

#: A day of which less was sampled is no evidence: the first hours of today would pass for a day without load.
MINUTES_MIN: Final = 720

PART_COLUMNS: Final = (
    *QUEUE_PART_COLUMNS,
    Column("day", Type.LONG, "day: days since 1970"),
    Column("minutes", Type.LONG, "day: minutes that were sampled"),
    Column("p95_tps", Type.DOUBLE, "day: 95 % of the minutes had no more messages a second"),
    Column("consumers", Type.LONG, "day: members of the largest group, in 95 % of the minutes no more"),
    Column("lag", Type.LONG, "day: messages not consumed by the group most behind, the least of its last hour"),
    Column("groups", Type.STRINGS, "day: consumer groups that were sampled"),
)

_DAY_COLUMNS: Final = ("cluster", "topic", "day", "minutes", "p95_tps", "consumers", "lag", "groups")

COLUMNS: Final = (
    Column("kind", Type.STRING, "topic: what it needs; proposal: what to change on one set"),
    Column("verdict", Type.STRING, "grow, shrink, keep, or wait: it would shrink, but has messages left"),
    Column("sets", Type.LONG, "sets that the topic may be written on"),
    Column("queues_now", Type.LONG, "its write queues on all of them"),
    Column("queues_proposed", Type.LONG, "the same after the change; those of now if nothing is proposed"),
    Column("days", Type.LONG, "days of the last seven of which at least half was sampled"),
    Column("days_differing", Type.LONG, "how many of them differ so much"),
    Column("p95_tps", Type.DOUBLE, "messages a second of the neediest day"),
    Column("consumers", Type.LONG, "members of its largest group on that of these days which had most"),
    Column("lag", Type.LONG, "messages not consumed on the last day; null if no group was sampled"),
    *PROPOSAL_COLUMNS,
)


def parts(inputs: Inputs, span: Span) -> Frames:
    """Return the last snapshot of each NameServer and day, what changed since, and what topics needed each day."""
    return {**queue_parts(inputs, span), "day": _days(of_span(inputs["offset_sample"], span))}


def _days(samples: DataFrame) -> DataFrame:
    """Return one row per topic and day; of several that sampled the same minute the highest counts."""
    minute = F.floor(F.col("at_us") / MINUTE_US)
    timed = samples.withColumn("minute", minute).withColumn("day", F.floor(F.col("at_us") / DAY_US))
    by_minute = timed.groupBy("cluster", "topic", "day", "minute").agg(
        F.max(F.when(F.col("group").isNull(), F.col("tps"))).alias("topic_tps"),
        F.max("tps").alias("any_tps"),
        F.max(F.when(F.col("group").isNotNull(), F.col("consumers"))).alias("consumers"),
        F.collect_set("group").alias("groups"),
    )
    rate = F.coalesce("topic_tps", "any_tps")
    needs = by_minute.groupBy("cluster", "topic", "day").agg(
        F.count(rate).alias("minutes"),
        F.percentile(rate, F.lit(0.95)).alias("p95_tps"),
        F.ceil(F.percentile("consumers", F.lit(0.95))).alias("consumers"),
        groups_of_days().alias("groups"),
    )
    return needs.join(_lags(timed), ["cluster", "topic", "day"], "left")


def _lags(samples: DataFrame) -> DataFrame:
    """Return what the group most behind has left: a group is behind only if it did not catch up within an hour."""
    of_groups = samples.where(F.col("group").isNotNull() & F.col("consumer_offset").isNotNull())
    of_day = Window.partitionBy("cluster", "topic", "day")
    last_hour = of_groups.withColumn("last", F.max("minute").over(of_day)).where(F.col("minute") > F.col("last") - 60)
    left = F.greatest(F.col("max_offset") - F.col("consumer_offset"), F.lit(0))
    least = last_hour.groupBy("cluster", "topic", "day", "group").agg(F.min(left).alias("lag"))
    return least.groupBy("cluster", "topic", "day").agg(F.max("lag").alias("lag"))


def result(parts: DataFrame, span: Span) -> Frames:  # noqa: ARG001 - the last days count, whatever the span
    """Return what each sampled topic needs, and the changes of each set that follow from it."""
    days = of_kind(parts, "day").select(*_DAY_COLUMNS).where(F.col("minutes") >= MINUTES_MIN)
    sampled = days.select("cluster", "topic").distinct()
    routes = routes_now(parts)
    present = queues_now(routes, sets_now(routes)).where("written > 0")
    queues = present.join(F.broadcast(sampled), ["cluster", "topic"], "left_semi").localCheckpoint()
    topics = verdicts(_present_counts(queues), _last_days(days)).localCheckpoint()
    proposals = with_steps(_proposed(queues, topics))
    return {"topic": topics, "proposal": proposals}


def _present_counts(queues: DataFrame) -> DataFrame:
    return queues.groupBy("cluster", "topic").agg(
        F.count(F.lit(1)).alias("sets"),
        F.sum("written").alias("queues_now"),
        F.array_sort(F.collect_list("written")).alias("counts"),
        F.bool_or("is_fixed").alias("is_fixed"),
    )


def _last_days(days: DataFrame) -> DataFrame:
    """Return the last seven days, counted back from the newest of the cluster."""
    newest = F.max("day").over(Window.partitionBy("cluster"))
    return days.withColumn("newest", newest).where(F.col("day") > F.col("newest") - DAYS)


def needed(p95_tps: Expression, consumers: Expression, sets: Expression) -> Expression:
    """Return how many queues a topic needs: as many on each of its sets."""
    by_load = F.ceil(p95_tps / QUEUE_TPS_TARGET)
    alone = F.greatest(by_load, F.coalesce(consumers, F.lit(0)), F.lit(QUEUES_MIN))
    return (F.least(F.ceil(alone / sets), F.lit(SET_QUEUES_MAX)) * sets).cast("bigint")


def verdicts(present: DataFrame, days: DataFrame) -> DataFrame:
    """Return one row per topic: what is there, what is needed, and what follows.

    `present` has sets, queues_now and the counts of each set, `days` p95_tps, consumers, lag and groups of each day.
    """
    need = needed(F.col("p95_tps"), F.col("consumers"), F.col("sets"))
    daily = days.join(F.broadcast(present), ["cluster", "topic"], "inner").withColumn("need", need)
    now = F.col("queues_now")
    more, less = F.col("need") > now * (1 + DIFFERENCE_MIN), F.col("need") < now * (1 - DIFFERENCE_MIN)
    topics = daily.groupBy("cluster", "topic", "sets", "queues_now", "counts", "is_fixed").agg(
        F.count(F.lit(1)).alias("days"),
        F.count_if(more).alias("days_more"),
        F.count_if(less).alias("days_less"),
        F.max("p95_tps").alias("p95_tps"),
        F.max("consumers").alias("consumers"),
        F.max_by("lag", "day").alias("lag"),
        F.sort_array(F.collect_list("need"), asc=False).alias("needs"),
        groups_of_days().alias("groups"),
    )
    return _judged(topics)


def _judged(topics: DataFrame) -> DataFrame:
    days, now = F.col("days"), F.col("queues_now")
    grows = F.col("days_more") >= DAYS_AGREEING
    could_shrink = (days == DAYS) & (F.col("days_less") == days)
    drained = F.coalesce(F.col("lag"), F.lit(1)) == 0
    verdict = (
        F.when(F.col("is_fixed"), "keep")
        .when(grows, "grow")
        .when(could_shrink & drained, "shrink")
        .when(could_shrink, "wait")
        .otherwise("keep")
    )
    grown, shrunk = F.col("verdict") == "grow", F.col("verdict") == "shrink"
    level = F.when(grown, _level_that_suffices(F.get("needs", F.lit(DAYS_AGREEING - 1)))).when(
        shrunk, (F.get("needs", F.lit(0)) / F.col("sets")).cast("bigint")
    )
    differing = F.greatest("days_more", "days_less")
    return (
        topics.withColumn("verdict", verdict)
        .withColumn("level", level)
        .withColumn(
            "queues_proposed",
            F.when(grown, _raised_to(F.col("level"))).when(shrunk, F.col("level") * F.col("sets")).otherwise(now),
        )
        .withColumn("days_differing", differing)
        .withColumn("confidence", differing / F.greatest(days, F.lit(DAYS)))
        .withColumn("reason", _reason())
    )


def _level_that_suffices(need: Expression) -> Expression:
    """Return to how many queues a topic's sets must be raised so that it has what it needs; some may have more.

    As many as if all were alike would be too many where one has them already, and the next run would take them back.
    """
    alike = (need / F.col("sets")).cast("bigint")
    levels = F.sequence(F.lit(1).cast("bigint"), alike)
    return F.get(F.filter(levels, lambda level: _raised_to(level) >= need), F.lit(0))


def _raised_to(level: Expression) -> Expression:
    """Return how many queues a topic has if each of its sets has at least so many."""
    return F.aggregate("counts", F.lit(0).cast("bigint"), lambda total, count: total + F.greatest(count, level))


def _reason() -> Expression:
    needs = F.format_string("%.0f messages a second at most on a day", "p95_tps")
    unread = F.format_string("%d messages are not consumed yet", "lag")
    lag = F.when(F.col("lag").isNull(), "nobody knows what is left").otherwise(unread)
    verdict = F.col("verdict")
    tail = (
        F.when(F.col("is_fixed"), "; it has an order or is static, so it is left alone")
        .when(verdict == "wait", F.concat(F.lit("; "), lag))
        .otherwise("")
    )
    consumers = F.format_string(", %d consumers", F.coalesce("consumers", F.lit(0)))
    days = F.format_string("; %d of %d days differ by 30 %% and more", "days_differing", "days")
    return F.concat(needs, consumers, days, tail)


def _proposed(queues: DataFrame, topics: DataFrame) -> DataFrame:
    """Return the change of each set: one that grows takes nothing away anywhere, one that shrinks has alike sets after.

    So a set of a topic that shrinks may get more queues, where others had nearly all of them.
    """
    changing = topics.where(F.col("level").isNotNull()).drop("is_fixed")
    grows = F.col("verdict") == "grow"
    counted = queues.join(F.broadcast(changing), ["cluster", "topic"], "inner").withColumn(
        "write_proposed", F.when(grows, F.greatest("level", "write_now")).otherwise(F.col("level"))
    )
    taken = F.col("write_proposed") < F.col("write_now")
    # The neediest topics come first; of one topic the sets that get queues before those that lose some.
    order = Window.partitionBy("cluster").orderBy(F.desc(grows), F.desc("p95_tps"), "topic", taken, "broker_name")
    return (
        counted.withColumn(
            "read_proposed", F.when(taken, F.col("write_proposed")).otherwise(F.greatest("read_now", "write_proposed"))
        )
        .where("write_proposed != write_now")
        .withColumn("position", F.row_number().over(order))
    )


JOB: Final = Job(
    id="A9",
    name="queue_scaling",
    question="Which topics need more or fewer queues?",
    inputs=("offset_sample", *QUEUE_INPUTS),
    parts_of=parts,
    result_of=result,
    part_columns=PART_COLUMNS,
    columns=COLUMNS,
    order=("kind = 'proposal' DESC", "position ASC NULLS LAST", "verdict = 'keep' ASC", "p95_tps DESC NULLS LAST"),
)
