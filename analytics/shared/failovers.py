"""Failovers from the events of controllers: which events belong to one, and when each of its phases began.

The moments are those of the controller; what NameServers saw of them is joined by the analysis (A10). So is when the
role addresses of a set led to its new master: a NameServer that clients get an address from connects to it again and
again (docs/role-addresses.md). The first connection that reached the new master shows that the address leads there by
then; nobody else connects as clients do.
"""

from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.days import MINUTE_US
from analytics.shared.rows import timed

#: A death is dated when it is told, which is after a log line of it; the beginning of its election is computed from a
#: length in whole ms. So a beginning that is so much before the death belongs to it.
ROUNDED_US: Final = 10_000

#: A master deposed by an operator, or on a broker's request, was not detected as dead.
UNDETECTED_CAUSES: Final = ("operator", "switchover", "broker", "manual")

CONTROLLER_EVENTS: Final = ("failure_detected", "election_started", "elected", "role_notified", "master_serves")
_AFTER_ELECTION: Final = ("role_notified", "master_serves")

#: What a NameServer sees so long after the election is another story.
SEEN_WITHIN_US: Final = 10 * MINUTE_US

#: Brokers register some ms after they know their role: by a NameServer whose clock is behind that was so much before
#: the election at most.
SKEW_US: Final = 5_000_000


def keyed(events: DataFrame) -> DataFrame:
    """Return the events with the failover that each belongs to.

    What came before an election may not have known its epoch: it belongs to the next one of its set, and what came
    after it to the last one. Of a set for which nobody was elected, it belongs to `<cluster>/<set>/none`.
    """
    by_set = Window.partitionBy("cluster", "broker_name").orderBy("at_us", _order())
    after = by_set.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    before = by_set.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    own_id = F.concat_ws("/", "cluster", "broker_name", F.col("master_epoch").cast("string"))
    elected = (F.col("event_type") == "elected") & F.col("new_master").isNotNull() & _has_new_master()
    anchor = F.when(elected, F.coalesce("failover_id", own_id))
    is_after = F.col("event_type").isin(*_AFTER_ELECTION)
    nobody = F.concat_ws("/", "cluster", "broker_name", F.lit("none"))
    following, last = F.first("anchor", ignorenulls=True).over(after), F.last("anchor", ignorenulls=True).over(before)
    key = F.when(is_after, last).otherwise(F.coalesce(following, nobody))
    known = F.max("anchor").over(Window.partitionBy("cluster", "broker_name", "failover_id"))
    return (
        events.withColumn("anchor", anchor)
        # An id that no election has is one that was expected, and did not come to be.
        .withColumn("key", F.coalesce(F.when(known.isNotNull(), F.col("failover_id")), key))
        .where(F.col("key").isNotNull())
    )


def _has_new_master() -> Expression:
    return F.coalesce(F.col("result"), F.lit("new_master_elected")) == "new_master_elected"


def _order() -> Expression:
    return F.array_position(F.array(*map(F.lit, CONTROLLER_EVENTS)), F.col("event_type"))


def timelines(events: DataFrame) -> DataFrame:
    """Return one row per failover with its moments in Unix us; first elections of a set are none."""
    event, at_us, is_counted = F.col("event_type"), F.col("at_us"), F.col("since_us") <= F.col("at_us")
    is_anchor, started = F.col("anchor").isNotNull(), event == "election_started"
    confirmed = (event == "role_notified") & (F.coalesce(F.col("result"), F.lit("ok")) == "ok")
    by_master = confirmed & (F.coalesce(F.col("broker_id"), F.col("new_master")) == F.col("new_master"))
    # The master may register another address later, in the same epoch.
    serves = (event == "master_serves") & F.coalesce(F.col("broker_addr") == F.col("new_addr"), F.lit(True))
    grouped = _with_beginnings(events).groupBy("cluster", "broker_name", F.col("key").alias("failover_id"))
    rows = grouped.agg(
        F.max("former").alias("old_master"),
        F.max(F.when(is_anchor, F.col("new_master"))).alias("new_master"),
        F.max("new_addr").alias("new_addr"),
        F.coalesce(F.max("anchor_cause"), F.max(F.when(F.col("failure"), F.col("cause")))).alias("cause"),
        F.max("planned").alias("planned"),
        F.max(F.when(is_anchor, F.col("bytes_at_stake"))).alias("bytes_at_stake"),
        F.count_if((event == "elected") & ~is_anchor & is_counted).alias("attempts"),
        F.count_if(started | (event == "elected")).alias("elections"),
        F.max_by("last_heartbeat_us", F.when(F.col("failure"), at_us)).alias("last_heartbeat"),
        F.max(F.when(F.col("failure"), at_us)).alias("detected"),
        # What it began with was before it, also where its beginning is rounded.
        F.min(F.when(started & (F.col("since_us") <= at_us + ROUNDED_US), F.greatest(at_us, "since_us"))).alias(
            "election_started"
        ),
        F.max(F.when(is_anchor, at_us)).alias("elected"),
        F.min(F.when(by_master, at_us)).alias("notified"),
        F.min(F.when(serves, at_us)).alias("serves"),
    )
    changed = F.col("old_master").isNotNull() & ~F.col("new_master").eqNullSafe(F.col("old_master"))
    return rows.where((F.col("elections") > 0) & (changed | F.col("detected").isNotNull()))


def _with_beginnings(events: DataFrame) -> DataFrame:
    """Return the events with `failure`, whether this is what began their failover, and `since_us`, when that began.

    Slaves die too, and a master may have died and come back before: only the last failure of the former master counts,
    and none where somebody had another master chosen.
    """
    of_key = Window.partitionBy("key")
    is_anchor = F.col("anchor").isNotNull()
    of_anchor = {
        name: F.max(F.when(is_anchor, F.col(name))).over(of_key) for name in ("new_master", "cause", "broker_addr")
    }
    # A set that had lost its master already was not made to leave it, whoever requested a new one.
    deposed = F.max(is_anchor & F.col("old_master").isNotNull()).over(of_key)
    planned = F.coalesce(F.col("anchor_cause").isin(*UNDETECTED_CAUSES), F.lit(False)) & deposed
    of_master = F.col("broker_id").isNull() | (F.col("broker_id") == F.col("former"))
    last = {
        what: F.max(F.when(condition, F.col("at_us"))).over(of_key)
        for what, condition in (("failure", F.col("failure")), ("start", F.col("event_type") == "election_started"))
    }
    return (
        _with_masters(_without_kept_masters(events))
        .withColumn("anchor_cause", of_anchor["cause"])
        .withColumn("planned", planned)
        .withColumn("former", F.max_by("master_before", F.struct(is_anchor, "at_us", _order())).over(of_key))
        .withColumns({"new_master": of_anchor["new_master"], "new_addr": of_anchor["broker_addr"]})
        .withColumn("failure", (F.col("event_type") == "failure_detected") & of_master & ~F.col("planned"))
        .withColumn("since_us", F.coalesce(last["failure"], last["start"]))
    )


def _without_kept_masters(events: DataFrame) -> DataFrame:
    """Return the events without elections that changed nothing, such as a refused request, and without their starts.

    A start belongs to the next end of an election of its set that was held for the same cause.
    """
    # Backwards: Spark computes a frame that ends with the partition anew for each row.
    latest_first = Window.partitionBy("cluster", "broker_name", "cause").orderBy(F.desc("at_us"), _order().desc())
    ends = F.when(F.col("event_type") == "elected", F.coalesce("result", F.lit("")))
    frame = latest_first.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    outcome = F.last(ends, ignorenulls=True).over(frame)
    is_kept = F.col("event_type").isin("election_started", "elected") & outcome.eqNullSafe("keep_current_master")
    return events.withColumn("is_kept", is_kept).where("NOT is_kept").drop("is_kept")


def _with_masters(events: DataFrame) -> DataFrame:
    """Return the events with `master_before`, the last master of the set as far as it was known until then.

    The controller forgets a master whom nobody can follow: the election that ends this has no old master.
    """
    by_set = Window.partitionBy("cluster", "broker_name").orderBy("at_us", _order())
    before = by_set.rowsBetween(Window.unboundedPreceding, -1)
    of_election = F.col("event_type").isin("election_started", "elected")
    led = F.when(of_election, F.coalesce("new_master", "old_master"))
    of_event = F.when(of_election, F.col("old_master"))
    return events.withColumn("master_before", F.coalesce(of_event, F.last(led, ignorenulls=True).over(before)))


def soon_after(elected: DataFrame, rows: DataFrame) -> DataFrame:
    """Return the failovers (`f`) with the rows (`r`) of NameServers about their new masters, and `after_us`.

    `rows` need cluster, broker_name, broker_addr and at_us. Those before the next election of the set count.
    """
    by_set = Window.partitionBy("cluster", "broker_name").orderBy("elected")
    bounds = {"former_us": F.lag("elected").over(by_set), "next_us": F.lead("elected").over(by_set)}
    after_us = F.col("r.at_us") - F.col("f.elected")
    is_new = F.col("f.new_addr") == F.col("r.broker_addr")
    # Clocks differ; but only who is known to be the new one can have been the master by an earlier clock.
    before = (after_us >= -SKEW_US) & is_new & (F.col("r.at_us") > F.coalesce(F.col("f.former_us"), F.lit(0)))
    conditions = (
        F.col("f.cluster") == F.col("r.cluster"),
        F.col("f.broker_name") == F.col("r.broker_name"),
        (after_us >= 0) | before,
        after_us < SEEN_WITHIN_US,
        F.col("r.at_us") < F.coalesce(F.col("f.next_us"), F.lit(2**62)),
        # A former master that comes back may still call itself the master.
        F.coalesce(is_new, F.lit(True)),
    )
    joined = elected.withColumns(bounds).alias("f").join(rows.alias("r"), reduce(and_, conditions), "inner")
    return joined.withColumn("after_us", after_us)


def near_elections(rows: DataFrame, events: DataFrame, until_us: int) -> DataFrame:
    """Return the rows near an election of their set, or near one that may be recorded after `until_us`."""
    elections = events.where("event_type = 'elected'").select("broker_name", F.col("at_us").alias("elected_us"))
    since = F.col("at_us") - F.col("elected_us")
    soon = [rows["broker_name"] == elections["broker_name"], since >= -SKEW_US, since < SEEN_WITHIN_US]
    is_last = F.col("at_us") >= until_us - SKEW_US
    near = rows.where(~is_last).join(F.broadcast(elections), soon, "left_semi")
    return near.unionByName(rows.where(is_last))


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
