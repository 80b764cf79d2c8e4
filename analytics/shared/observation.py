"""When each server was watching: what its ticks and its lifecycle prove. All other time says nothing about brokers.

A piece of time is known to be observed only at its end, by the next tick. So the pieces of a day are those that end in
it, and the first of them may begin some seconds before midnight; the pieces of all days join without a seam.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.intervals import clipped, joined, levels
from analytics.shared.job import Inputs, Span
from history.schemas import TICK_INTERVAL_MS, UNOBSERVED_AFTER_MS

#: A piece of time, from `start_us` to `end_us`, in which the server was watching.
WATCHED = "watched"
#: One in which it could not record who came and left, whatever ticks say.
BLIND = "blind"

_UNOBSERVED_AFTER_US = UNOBSERVED_AFTER_MS * 1000

#: A tick after a process pause came so much later than due: no shorter interval spans a pause.
_PAUSE_SHORTEST_MS = UNOBSERVED_AFTER_MS - TICK_INTERVAL_MS

#: Why recording resumed, as history/server_rows.py has it.
_HEARTBEATS_MISSING = "heartbeats are missing"


def lost_states() -> Column:
    """Return whether a row of `ns_lifecycle` reports missing changes of brokers.

    Where only heartbeats are missing, all is known about who came and left.
    """
    resumed = F.col("event_type") == "recording_resumed"
    return resumed & ~F.col("reason").eqNullSafe(_HEARTBEATS_MISSING)


def observed_pieces(inputs: Inputs, span: Span) -> DataFrame:
    """Return what became known in the span about when servers watched: ns_id, source, kind, start_us, end_us."""
    marks = _marks(inputs)
    ended = (F.col("end_us") >= span.start_us) & (F.col("end_us") < span.end_us)
    watched = joined(_between_marks(marks).filter(ended), ["ns_id", "source"]).withColumn("kind", F.lit(WATCHED))
    blind = marks.filter(ended & F.col("blind_from_us").isNotNull()).select(
        "ns_id", "source", F.col("blind_from_us").alias("start_us"), "end_us", F.lit(BLIND).alias("kind")
    )
    return watched.unionByName(blind).select("ns_id", "source", "kind", "start_us", "end_us")


def observed_times(pieces: DataFrame, span: Span) -> DataFrame:
    """Return when each server was watching within the span: ns_id, start_us, end_us; none of them touch."""
    counted = pieces.select(
        "ns_id",
        "start_us",
        "end_us",
        (F.col("kind") == WATCHED).cast("bigint").alias("watched"),
        (F.col("kind") == BLIND).cast("bigint").alias("blind"),
    )
    seen = levels(counted, ["ns_id"], ["watched", "blind"]).filter("watched > 0 AND blind = 0")
    return joined(clipped(seen, span.start_us, span.end_us), ["ns_id"])


def _marks(inputs: Inputs) -> DataFrame:
    """Return when servers are known to have been there, `end_us`, and what is known of the time before."""
    nothing = F.lit(None).cast("bigint")
    who: list[Column | str] = ["ns_id", "source", "boot_id", "mono_us", F.unix_micros("event_time").alias("end_us")]
    ticks = inputs["ns_tick"].select(
        *who, (F.col("interval_ms") * 1000).alias("interval_us"), nothing.alias("blind_from_us")
    )
    # By two times, one of which is wrong.
    lifecycle = (
        inputs["ns_lifecycle"]
        .filter(~F.col("event_type").eqNullSafe("clock_set"))
        .select(
            *who,
            nothing.alias("interval_us"),
            F.when(lost_states(), F.unix_micros("unobserved_from")).alias("blind_from_us"),
        )
    )
    return ticks.unionByName(lifecycle)


def _between_marks(marks: DataFrame) -> DataFrame:
    """Return the time before each mark, up to the mark before it, where that is short enough to have been watched.

    The first mark of a process that is known, if it is a tick, has the time since the one before.
    """
    process = Window.partitionBy("ns_id", "boot_id").orderBy("mono_us", "end_us")
    pause_us = F.coalesce(F.col("mono_us") - F.lag("mono_us").over(process), "interval_us")
    before_us = F.coalesce(F.lag("end_us").over(process), F.col("end_us") - F.col("interval_us"))
    timed = marks.select("ns_id", "source", before_us.alias("start_us"), "end_us", pause_us.alias("pause_us"))
    return timed.filter((F.col("pause_us") <= _UNOBSERVED_AFTER_US) & (F.col("start_us") < F.col("end_us")))


def without_process_pauses(
    rows: DataFrame, ticks: DataFrame, longest_ms: Column, since_us: Column, until_us: Column
) -> DataFrame:
    """Return the rows whose time contains no pause of the process that wrote them.

    A paused process receives the heartbeats of all its brokers late at once; its next tick shows the pause.
    `longest_ms` is the longest interval of a row; `since_us` and `until_us` bound its time, by the monotonic clock.
    Pauses are few and broadcast; rows of short intervals are not compared with them at all.
    """
    pauses = ticks.filter(F.col("interval_ms") > UNOBSERVED_AFTER_MS).select(
        F.xxhash64("boot_id").alias("_process"),
        (F.col("mono_us") - F.col("interval_ms") * 1000).alias("_from_us"),
        F.col("mono_us").alias("_to_us"),
    )
    process = F.when(longest_ms > _PAUSE_SHORTEST_MS, F.xxhash64("boot_id"))
    overlap = (process == F.col("_process")) & (since_us < F.col("_to_us")) & (until_us > F.col("_from_us"))
    return rows.join(F.broadcast(pauses), overlap, "left_anti")
