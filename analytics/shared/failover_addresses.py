"""When the role addresses of a set led to its new master: what NameServers found that connected to them.

A NameServer that clients get an address from connects to it again and again (docs/role-addresses.md). The first
connection that reached the new master shows that the address leads there by then; nobody else connects as clients do.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.shared.failovers import soon_after
from analytics.shared.rows import timed


def given_at_elections(addresses: DataFrame, events: DataFrame) -> DataFrame:
    """Return, for each election, the role addresses that clients of each NameServer got then; `at_us` is its moment."""
    elections = events.where("event_type = 'elected'").select(
        "cluster", "broker_name", F.col("at_us").alias("elected_us")
    )
    states = timed(addresses).where("event_type IN ('given', 'withdrawn')")
    earlier = states.join(F.broadcast(elections.distinct()), ["cluster", "broker_name"], "inner").where(
        "at_us <= elected_us"
    )
    order = F.struct("at_us", "event_id")
    last = earlier.groupBy("cluster", "broker_name", "ns_id", "role_address", "elected_us").agg(
        F.max_by("event_type", order).alias("last"),
        F.max_by("began_us", order).alias("began_us"),
        F.max_by("is_checked", order).alias("is_checked"),
    )
    return last.where("last = 'given'").withColumn("at_us", F.col("elected_us"))


def led(elected: DataFrame, ticks: DataFrame, given: DataFrame, moves: DataFrame, within_us: int) -> DataFrame:
    """Return, by failover, `led`: role addresses with us after the election, in order; and `not_led`: the others.

    `all_checked_led`: those to which a NameServer connects are all in `led`. Of the others no NameServer can see it.
    Addresses count that clients got from a NameServer that was there then: its process ticked within `within_us` after
    the election. Of several NameServers the first that was led to the new master shows that the address led there.
    """
    of_elected = elected.select("failover_id", "cluster", "broker_name", F.col("elected").alias("at_us"))
    got = given.select("cluster", "broker_name", "ns_id", "began_us", "role_address", "is_checked", "at_us")
    seen_us = F.col("tick_us") - F.col("at_us")
    expected = (
        of_elected.join(got, ["cluster", "broker_name", "at_us"], "inner")
        .join(ticks.select("ns_id", "began_us", F.col("at_us").alias("tick_us")), ["ns_id", "began_us"], "inner")
        .where((seen_us >= 0) & (seen_us <= within_us))
        .groupBy("failover_id", "role_address")
        .agg(F.bool_or("is_checked").alias("is_checked"))
    )
    first = (
        soon_after(elected, moves)
        # A first check after a start, or of a new rule, shows nothing of the failover.
        .where("r.former_addr IS NOT NULL AND r.began_us <= f.elected")
        .groupBy("f.failover_id", "r.role_address")
        .agg(F.min("after_us").alias("after_us"))
    )
    is_led = F.col("after_us").isNotNull()
    return (
        expected.join(first, ["failover_id", "role_address"], "left")
        .groupBy("failover_id")
        .agg(
            F.array_sort(F.collect_list(F.when(is_led, F.struct("after_us", "role_address")))).alias("led"),
            F.array_sort(F.collect_list(F.when(~is_led, F.col("role_address")))).alias("not_led"),
            F.bool_and(is_led | ~F.col("is_checked")).alias("all_checked_led"),
        )
    )
