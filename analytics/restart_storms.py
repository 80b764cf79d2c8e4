"""A11: when many brokers registered at once, and whether it hurt.

A storm is a run of first registrations of a cluster with no pause of a minute, by five brokers or a tenth of them,
whichever is more. A NameServer that has just started, or had lost its network, hears everybody for the first time while
the others have known them all along: such a run has a cause of its own, since no broker was restarted.
"""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.job import Inputs, Job, Span
from analytics.rows import CLUSTER, DAY_US, KIND, MINUTE_US, of_kind, of_kinds, of_span, shaped, timed
from history.schemas import TICK_INTERVAL_MS, Column, Type

#: A pause that ends a run of registrations.
PAUSE: Final = "60 seconds"

#: So many brokers make a storm, or this part of the cluster if that is more.
BROKERS_MIN: Final = 5
SHARE_MIN: Final = 0.1

#: For so long after its start a NameServer hears brokers for the first time that were there all along.
AFTER_START_US: Final = 2 * MINUTE_US

PART_COLUMNS: Final = (
    KIND,
    CLUSTER,
    Column("broker_name", Type.STRING, "registration, known: broker set"),
    Column("broker_id", Type.LONG, "registration, known: broker id"),
    Column("ns_id", Type.STRING, "registration, tick, served: the NameServer"),
    Column("at_us", Type.LONG, "registration, tick: when, Unix us"),
    Column("cause", Type.STRING, "registration: brokers, or namesrv where the NameServer had just started"),
    Column("loop_lag_ms", Type.DOUBLE, "tick: the longest time that its event loop was held"),
    Column("requests_rejected", Type.LONG, "tick: requests turned away since the tick before"),
    Column("day", Type.LONG, "known: days since 1970"),
)

COLUMNS: Final = (
    Column("cause", Type.STRING, "brokers: they were restarted; namesrv: a NameServer was, or had lost its network"),
    Column("start", Type.TIMESTAMP, "first registration"),
    Column("end", Type.TIMESTAMP, "last registration"),
    Column("seconds", Type.DOUBLE, "s from the first to the last"),
    Column("brokers", Type.LONG, "different brokers that registered"),
    Column("registrations", Type.LONG, "their registrations, on all NameServers"),
    Column("known", Type.LONG, "brokers that the cluster has"),
    Column("share", Type.DOUBLE, "part of them that registered, 0 to 1"),
    Column("loop_lag_max_ms", Type.DOUBLE, "the longest time that an event loop was held meanwhile"),
    Column("rejected", Type.LONG, "requests that NameServers turned away meanwhile"),
    Column("namesrvs", Type.STRINGS, "NameServers on which they registered"),
)


def parts(inputs: Inputs, span: Span) -> DataFrame:
    """Return first registrations, the ticks that follow them, which brokers are known, and to whom."""
    states = inputs["broker_state"].where(_of_namesrv())
    ticks = of_span(inputs["ns_tick"], span).where(_of_namesrv())
    frames = {
        "registration": _with_cause(
            of_span(states, span).where("event_type = 'registered_first'"), inputs["ns_lifecycle"]
        ),
        "tick": _ticks_after(ticks, states),
        "known": _told(of_span(states, span)).unionByName(_standing(states, ticks, span)).distinct(),
        "served": states.where("cluster IS NOT NULL").select("cluster", "ns_id").distinct(),
    }
    return of_kinds(frames, PART_COLUMNS)


def _of_namesrv() -> Expression:
    return F.coalesce(F.col("source"), F.lit("namesrv")) == "namesrv"


def _with_cause(registrations: DataFrame, lifecycle: DataFrame) -> DataFrame:
    """Return the registrations with their cause: whether the NameServer began to watch just before."""
    starts = timed(lifecycle.where("event_type = 'started'")).select(
        F.col("ns_id").alias("started_id"), F.col("at_us").alias("started_us")
    )
    since = F.col("at_us") - F.col("started_us")
    just_started = [F.col("ns_id") == F.col("started_id"), since >= 0, since < AFTER_START_US]
    late = registrations.join(F.broadcast(starts), just_started, "left_semi").withColumn("cause", F.lit("namesrv"))
    usual = registrations.join(F.broadcast(starts), just_started, "left_anti").withColumn("cause", F.lit("brokers"))
    return late.unionByName(usual)


def _ticks_after(ticks: DataFrame, states: DataFrame) -> DataFrame:
    """Return the ticks up to two minutes after a registration: no others can lie in a storm."""
    minute = F.floor(F.col("at_us") / MINUTE_US)
    first = timed(states).where("event_type = 'registered_first'").select(minute.alias("minute")).distinct()
    soon = first.select(F.explode(F.sequence("minute", F.col("minute") + 2)).alias("minute"))
    return ticks.withColumn("minute", minute).join(F.broadcast(soon), "minute", "left_semi")


def _told(states: DataFrame) -> DataFrame:
    """Return the brokers that something was told of, by day."""
    day = F.floor(F.col("at_us") / DAY_US).alias("day")
    own = states.where("broker_id IS NOT NULL").select("cluster", "broker_name", "broker_id", day)
    return own.unionByName(states.select(_cluster(), "broker_name", F.explode("set_ids").alias("broker_id"), day))


def _cluster() -> Expression:
    """Return the cluster of a set, which may change without a word of its brokers."""
    return F.coalesce("cluster", "set_cluster").alias("cluster")


def _standing(states: DataFrame, ticks: DataFrame, span: Span) -> DataFrame:
    """Return the members of sets by the last word of each NameServer, by day, though nothing was told of them that day.

    The word of a process that does not tick any more counts for nothing.
    """
    process = Window.partitionBy("ns_id", "boot_id", "broker_name").orderBy("at_us", "event_id")
    said = timed(states).where((F.col("at_us") < span.end_us) & F.col("set_ids").isNotNull())
    times = {
        "from_us": F.greatest("at_us", F.lit(span.start_us)),
        "until_us": F.coalesce(F.lead("at_us").over(process), F.lit(span.end_us)),
    }
    first, last = (F.floor(us / DAY_US) for us in (F.col("from_us"), F.col("until_us") - 1))
    daily = (
        said.withColumns(times)
        .where("from_us < until_us")
        .select(
            "ns_id", "boot_id", _cluster(), "broker_name", "set_ids", F.explode(F.sequence(first, last)).alias("day")
        )
    )
    watched = ticks.select("ns_id", "boot_id", F.floor(F.col("at_us") / DAY_US).alias("day")).distinct()
    believed = daily.join(F.broadcast(watched), ["ns_id", "boot_id", "day"], "left_semi")
    return believed.select("cluster", "broker_name", F.explode("set_ids").alias("broker_id"), "day")


def result(parts: DataFrame, span: Span) -> DataFrame:  # noqa: ARG001 - what the parts tell of is the span
    """Return the storms, each with what it did to the NameServers."""
    watchers = _watchers(of_kind(parts, "tick"), of_kind(parts, "served"))
    registrations = _judged(of_kind(parts, "registration"), watchers)
    storms = storms_of(registrations, of_kind(parts, "known")).localCheckpoint()
    ticks = of_kind(parts, "tick").select("ns_id", "at_us", "loop_lag_ms", "requests_rejected")
    # What a tick tells of happened before it.
    within = [
        F.array_contains("namesrvs", F.col("tick_ns_id")),
        F.col("tick_us") >= F.col("start_us"),
        F.col("tick_us") < F.col("end_us") + TICK_INTERVAL_MS * 1000,
    ]
    felt = (
        storms.join(ticks.withColumnsRenamed({"ns_id": "tick_ns_id", "at_us": "tick_us"}), within, "inner")
        .groupBy("cluster", "cause", "start_us")
        .agg(F.max("loop_lag_ms").alias("loop_lag_max_ms"), F.sum("requests_rejected").alias("rejected"))
    )
    whole = storms.join(felt, ["cluster", "cause", "start_us"], "left").withColumns(
        {"start": F.timestamp_micros("start_us"), "end": F.timestamp_micros("end_us")}
    )
    return shaped(whole, (CLUSTER, *COLUMNS))


def _watchers(ticks: DataFrame, served: DataFrame) -> DataFrame:
    """Return how many NameServers of each cluster were there, by minute: they ticked in it and in the next one."""
    ticked = ticks.select("ns_id", F.floor(F.col("at_us") / MINUTE_US).alias("minute")).distinct()
    stayed = ticked.join(
        ticked.select("ns_id", (F.col("minute") - 1).alias("minute")), ["ns_id", "minute"], "left_semi"
    )
    of_cluster = stayed.join(F.broadcast(served.select("ns_id", "cluster").distinct()), "ns_id", "inner")
    return of_cluster.groupBy("cluster", "minute").agg(F.count(F.lit(1)).alias("watchers"))


def _judged(registrations: DataFrame, watchers: DataFrame) -> DataFrame:
    """Return the registrations with what caused them, by all NameServers that were watching.

    A broker that was restarted registers with most of them; where most had it all along, the others had lost it.
    """
    runs = (
        registrations.withColumn("at", F.timestamp_micros("at_us"))
        .groupBy("cluster", "broker_name", "broker_id", F.session_window("at", PAUSE).alias("run"))
        .agg(
            F.floor(F.min("at_us") / MINUTE_US).alias("minute"),
            F.size(F.collect_set("ns_id")).alias("heard"),
            F.collect_list(F.struct("ns_id", "at_us", "cause")).alias("each"),
        )
    )
    told = runs.join(F.broadcast(watchers), ["cluster", "minute"], "left").withColumn("each", F.explode("each"))
    by_few = F.coalesce(F.col("heard") * 2 <= F.col("watchers"), F.lit(False))
    cause = F.when(by_few, F.lit("namesrv")).otherwise(F.col("each.cause"))
    return told.select("cluster", "broker_name", "broker_id", "each.ns_id", "each.at_us", cause.alias("cause"))


def storms_of(registrations: DataFrame, known: DataFrame) -> DataFrame:
    """Return the runs of registrations that are storms, with `start_us` and `end_us`."""
    broker = F.struct("broker_name", "broker_id")
    runs = (
        registrations.withColumn("at", F.timestamp_micros("at_us"))
        .groupBy("cluster", "cause", F.session_window("at", PAUSE).alias("run"))
        .agg(
            F.min("at_us").alias("start_us"),
            F.max("at_us").alias("end_us"),
            F.size(F.collect_set(broker)).alias("brokers"),
            F.count(F.lit(1)).alias("registrations"),
            F.array_sort(F.collect_set("ns_id")).alias("namesrvs"),
        )
    )
    # The most that a day knew: brokers that came and went for good do not make a cluster larger.
    daily = known.groupBy("cluster", "day").agg(F.count_distinct("broker_name", "broker_id").alias("known"))
    sizes = daily.groupBy("cluster").agg(F.max("known").alias("known"))
    measured = runs.join(F.broadcast(sizes), "cluster", "left").withColumns(
        {
            "share": F.try_divide("brokers", "known"),
            "seconds": (F.col("end_us") - F.col("start_us")) / 1e6,
        }
    )
    threshold = F.greatest(F.lit(BROKERS_MIN), SHARE_MIN * F.coalesce("known", F.lit(0)))
    return measured.where(F.col("brokers") >= threshold)


JOB: Final = Job(
    id="A11",
    name="restart_storms",
    question="When did many brokers register at once, and did it hurt?",
    inputs=("broker_state", "ns_tick", "ns_lifecycle"),
    parts=parts,
    result=result,
    part_columns=PART_COLUMNS,
    columns=COLUMNS,
    order=("brokers DESC",),
)
