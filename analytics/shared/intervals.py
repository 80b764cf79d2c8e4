"""Arithmetic of intervals: tables with `start_us` and `end_us`, Unix us; the end is not part of an interval."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def joined(intervals: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the intervals of each key with those that touch or overlap made one."""
    in_order = Window.partitionBy(*keys).orderBy("start_us", "end_us")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    up_to_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    covered_us = F.max("end_us").over(before)
    is_new = F.when(covered_us.isNull() | (F.col("start_us") > covered_us), 1).otherwise(0)
    return (
        intervals.filter("start_us < end_us")
        .select(*keys, "start_us", "end_us", is_new.alias("_is_new"))
        .select(*keys, "start_us", "end_us", F.sum("_is_new").over(up_to_now).alias("_number"))
        .groupBy(*keys, "_number")
        .agg(F.min("start_us").alias("start_us"), F.max("end_us").alias("end_us"))
        .select(*keys, "start_us", "end_us")
    )


def levels(intervals: DataFrame, keys: Sequence[str], counters: Sequence[str]) -> DataFrame:
    """Cut time, for each key, wherever an interval begins or ends; return the sums of all that cover each piece."""
    begin = F.struct(F.col("start_us").alias("_us"), *counters)
    end = F.struct(F.col("end_us").alias("_us"), *((-F.col(name)).alias(name) for name in counters))
    # Not a union of both: what the intervals are made of would be planned, and mostly done, twice.
    both = intervals.select(*keys, F.inline(F.array(begin, end)))
    steps = both.groupBy(*keys, "_us").agg(*(F.sum(name).alias(name) for name in counters))
    in_order = Window.partitionBy(*keys).orderBy("_us")
    up_to_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return steps.select(
        *keys,
        F.col("_us").alias("start_us"),
        F.lead("_us").over(in_order).alias("end_us"),
        *(F.sum(name).over(up_to_now).alias(name) for name in counters),
    ).filter("end_us IS NOT NULL")


def clipped(intervals: DataFrame, start_us: int, end_us: int) -> DataFrame:
    """Return the intervals as far as they lie in a window."""
    within = intervals.withColumns(
        {"start_us": F.greatest("start_us", F.lit(start_us)), "end_us": F.least("end_us", F.lit(end_us))}
    )
    return within.filter("start_us < end_us")


def overlaps(left: DataFrame, right: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return where intervals of both tables with equal keys overlap, with the columns of both.

    The right table is sent to all: it has to be small.
    """
    renamed = right.withColumnsRenamed({"start_us": "_start_us", "end_us": "_end_us"})
    both = left.join(F.broadcast(renamed), list(keys), "inner").filter("start_us < _end_us AND _start_us < end_us")
    return both.withColumns(
        {"start_us": F.greatest("start_us", "_start_us"), "end_us": F.least("end_us", "_end_us")}
    ).drop("_start_us", "_end_us")
