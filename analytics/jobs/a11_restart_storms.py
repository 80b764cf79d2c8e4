"""A11: when many brokers registered at once, and whether it hurt.

A storm is a run of first registrations of a cluster with no pause of a minute, by five brokers or a tenth of them,
whichever is more. A NameServer that has just started, or had lost its network, gets the first registration of every
broker while another one has known them all along: such a run has a cause of its own, since no broker was restarted.
"""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.broker_states import (
    BROKER,
    STATE_INPUTS,
    STATE_PARTS,
    actual_states,
    of_name_servers,
    state_parts,
)
from analytics.shared.days import DAY_US, HOUR_US, MINUTE_US
from analytics.shared.job import Inputs, Job, Span
from analytics.shared.rows import of_kind, of_span, timed
from analytics.shared.state_points import UP
from analytics.spark.schemas import shaped, united
from history.columns import Column, Type
from history.schemas import TICK_INTERVAL_MS

#: A pause that ends a run of registrations.
PAUSE: Final = "60 seconds"

#: So many brokers make a storm, or this part of the cluster if that is more.
BROKERS_MIN: Final = 5
SHARE_MIN: Final = 0.1

#: For so long after its start a NameServer gets first registrations of brokers that were there all along.
AFTER_START_US: Final = 2 * MINUTE_US

#: A broker that starts registers with all NameServers within that; one that has it for longer had it all along.
ALL_ALONG_US: Final = MINUTE_US

PART_COLUMNS: Final = (
    # How brokers stood that registered; of the same columns are `registration`, `tick` and `known`, three kinds more.
    *STATE_PARTS,
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
    """Return first registrations, who had these brokers, the ticks that follow, and which brokers are known."""
    mine = of_name_servers(inputs, STATE_INPUTS)
    states, ticks = mine["broker_state"], of_span(mine["ns_tick"], span)
    registrations = _with_cause(_registrations(timed(states)), mine["ns_lifecycle"])
    frames = {
        "registration": of_span(registrations, span),
        "tick": _ticks_after(ticks, states),
        "known": _reported(of_span(states, span)).unionByName(_standing(states, ticks, span)).distinct(),
    }
    seen = state_parts({**mine, "broker_state": _of_sets(states, registrations, span)}, _with_time_before(span))
    return united([shaped(frames, PART_COLUMNS), seen])


def _with_time_before(span: Span) -> Span:
    """Return the span with so much before it that it shows who had a broker all along at its beginning."""
    return Span(span.start_us - 2 * ALL_ALONG_US, span.end_us)


def _registrations(states: DataFrame) -> DataFrame:
    return states.where("event_type = 'registered_first'").withColumn("address", F.col("broker_addr"))


def _of_sets(states: DataFrame, registrations: DataFrame, span: Span) -> DataFrame:
    """Return the rows of sets that registered, also just before: on the next day a NameServer gives a broker up.

    Others are not needed, nor those that registered with a NameServer because it had just started.
    """
    lately = registrations.where((F.col("at_us") >= span.start_us - HOUR_US) & (F.col("cause") == "brokers"))
    return states.join(F.broadcast(lately.select("broker_name").distinct()), "broker_name", "left_semi")


def _with_cause(registrations: DataFrame, lifecycle: DataFrame) -> DataFrame:
    """Return the registrations with their cause: whether the NameServer began to watch just before."""
    started = timed(lifecycle.where("event_type = 'started'"))
    starts = started.groupBy("ns_id").agg(F.collect_set("at_us").alias("starts_us"))
    at_us = F.col("at_us")
    just_started = F.exists("starts_us", lambda us: (us <= at_us) & (at_us < us + AFTER_START_US))
    cause = F.when(F.coalesce(just_started, F.lit(False)), F.lit("namesrv")).otherwise(F.lit("brokers"))
    return registrations.join(F.broadcast(starts), "ns_id", "left").withColumn("cause", cause)


def _ticks_after(ticks: DataFrame, states: DataFrame) -> DataFrame:
    """Return the ticks up to two minutes after a registration: no others can lie in a storm."""
    minute = F.floor(F.col("at_us") / MINUTE_US)
    first = timed(states).where("event_type = 'registered_first'").select(minute.alias("minute")).distinct()
    soon = first.select(F.explode(F.sequence("minute", F.col("minute") + 2)).alias("minute"))
    return ticks.withColumn("minute", minute).join(F.broadcast(soon), "minute", "left_semi")


def _reported(states: DataFrame) -> DataFrame:
    """Return the brokers that have rows, by day."""
    day = F.floor(F.col("at_us") / DAY_US).alias("day")
    own = states.where("broker_id IS NOT NULL").select("cluster", "broker_name", "broker_id", day)
    return own.unionByName(states.select(_cluster(), "broker_name", F.explode("set_ids").alias("broker_id"), day))


def _cluster() -> Expression:
    """Return the cluster of a set, which may change without a word of its brokers."""
    return F.coalesce("cluster", "set_cluster").alias("cluster")


def _standing(states: DataFrame, ticks: DataFrame, span: Span) -> DataFrame:
    """Return the members of sets by the last row of each NameServer, by day, though no row is of that day.

    The word of a process that does not tick any more counts for nothing.
    """
    process = Window.partitionBy("ns_id", "boot_id", "broker_name").orderBy("at_us", "event_id")
    last_known = timed(states).where((F.col("at_us") < span.end_us) & F.col("set_ids").isNotNull())
    times = {
        "from_us": F.greatest("at_us", F.lit(span.start_us)),
        "until_us": F.coalesce(F.lead("at_us").over(process), F.lit(span.end_us)),
    }
    first, last = (F.floor(us / DAY_US) for us in (F.col("from_us"), F.col("until_us") - 1))
    daily = (
        last_known.withColumns(times)
        .where("from_us < until_us")
        .select(
            "ns_id", "boot_id", _cluster(), "broker_name", "set_ids", F.explode(F.sequence(first, last)).alias("day")
        )
    )
    watched = ticks.select("ns_id", "boot_id", F.floor(F.col("at_us") / DAY_US).alias("day")).distinct()
    believed = daily.join(F.broadcast(watched), ["ns_id", "boot_id", "day"], "left_semi")
    return believed.select("cluster", "broker_name", F.explode("set_ids").alias("broker_id"), "day")


def result(parts: DataFrame, span: Span) -> DataFrame:
    """Return the storms, each with what it did to the NameServers."""
    registrations = _judged(of_kind(parts, "registration"), actual_states(parts, _with_time_before(span)))
    storms = storms_of(registrations, of_kind(parts, "known")).localCheckpoint()
    ticks = of_kind(parts, "tick").select("ns_id", "at_us", "loop_lag_ms", "requests_rejected")
    # What a tick counts happened before it.
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
    return storms.join(felt, ["cluster", "cause", "start_us"], "left").withColumns(
        {"start": F.timestamp_micros("start_us"), "end": F.timestamp_micros("end_us")}
    )


def _judged(registrations: DataFrame, seen: DataFrame) -> DataFrame:
    """Return the registrations with their causes; `seen`: `actual_states`, what other NameServers saw of the brokers.

    A broker that one of them had all along was not restarted: the NameServer had lost it. It had none that registered
    no more, though it gave it up later.
    """
    had = F.struct("ns_id", "address", "start_us", "end_us")
    up = seen.where(F.col("state") == UP).groupBy(*BROKER).agg(F.collect_list(had).alias("had"))
    all_along = F.coalesce(F.exists("had", _had_all_along), F.lit(False))
    cause = F.when(all_along, F.lit("namesrv")).otherwise(F.col("cause"))
    return registrations.join(up, list(BROKER), "left").withColumn("cause", cause).drop("had")


def _had_all_along(piece: Expression) -> Expression:
    """Return whether another NameServer had the process that registered, where it was known, for more than a minute."""
    at_us = F.col("at_us")
    is_other = piece["ns_id"] != F.col("ns_id")
    is_same = F.coalesce(piece["address"] == F.col("address"), F.lit(True))
    return is_other & is_same & (piece["start_us"] < at_us - ALL_ALONG_US) & (at_us < piece["end_us"])


def storms_of(registrations: DataFrame, known: DataFrame) -> DataFrame:
    """Return the runs of registrations that are storms, with `start_us` and `end_us`.

    A broker is known by its address here: in controller mode its id is negative until it has its role, and changes with
    it, so that two NameServers may get one process with two ids.
    """
    place = F.coalesce("address", F.col("broker_id").cast("string"))
    runs = (
        registrations.withColumn("at", F.timestamp_micros("at_us"))
        .groupBy("cluster", "cause", F.session_window("at", PAUSE).alias("run"))
        .agg(
            F.min("at_us").alias("start_us"),
            F.max("at_us").alias("end_us"),
            F.count_distinct("broker_name", place).alias("brokers"),
            F.count(F.lit(1)).alias("registrations"),
            F.array_sort(F.collect_set("ns_id")).alias("namesrvs"),
        )
    )
    # The most that a day knew: brokers that came and went for good do not make a cluster larger.
    daily = (
        known.where("broker_id >= 0")
        .groupBy("cluster", "day")
        .agg(F.count_distinct("broker_name", "broker_id").alias("n"))
    )
    sizes = daily.groupBy("cluster").agg(F.max("n").alias("reported"))
    measured = (
        runs.join(F.broadcast(sizes), "cluster", "left")
        .withColumn("known", F.greatest("reported", "brokers"))
        .withColumns(
            {"share": F.try_divide("brokers", "known"), "seconds": (F.col("end_us") - F.col("start_us")) / 1e6}
        )
    )
    threshold = F.greatest(F.lit(BROKERS_MIN), SHARE_MIN * F.col("known"))
    return measured.where(F.col("brokers") >= threshold)


JOB: Final = Job(
    id="A11",
    name="restart_storms",
    question="When did many brokers register at once, and did it hurt?",
    inputs=STATE_INPUTS,
    parts_of=parts,
    result_of=result,
    part_columns=PART_COLUMNS,
    columns=COLUMNS,
    order=("brokers DESC",),
)
