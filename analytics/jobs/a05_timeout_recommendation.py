"""A5: how long NameServers should bear with each broker's silence before they give it up.

The least timeout that gives up a living broker at most once in 30 days, with 95 % confidence; if
nothing is so sure, the one that costs least. Beside it: what phi-accrual would do with the same intervals. A NameServer
gives a silent broker up when its timeout is over, not at a scan after it, so that a failure is noticed after the
timeout.

A broker that pauses misses heartbeats to all NameServers at once. So gaps and days are divided by the mean number of
watching NameServers: 30 days at three NameServers are 30 days of evidence. For a broker that sends heartbeats to only
some of them that understates the evidence.
"""

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.shared.broker_states import BROKER
from analytics.shared.heartbeats.gap_histogram import GAP_KEYS, Periods, added_up, period_of_most
from analytics.shared.heartbeats.timeout_evidence import (
    FAILURE,
    GAP,
    PARTS,
    PHI,
    PHI_DEVIATIONS,
    PHI_THRESHOLDS,
    SILENCE_INPUTS,
    WATCHED,
    silence_parts,
)
from analytics.shared.job import Job, Span
from analytics.shared.rates import poisson_upper
from analytics.shared.rows import BROKER_COLUMNS
from history.columns import Column, Type

#: What can be recommended, in seconds.
GRID_S: Final = (3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 90, 105, 120, 135, 150, 165, 180)

#: No broker is given up before so many of its heartbeats did not come.
PERIODS_MIN: Final = 3

#: The period of a broker is not known more exactly: 30,001 ms must not rule out three times 30 s.
PERIOD_TOLERANCE: Final = 0.02

#: So many living brokers may be given up in a day: one in 30 days.
FALSE_ALARMS_A_DAY: Final = 1 / 30

#: What it costs to give up a living broker, in seconds of delay after a real failure: its clients reconnect.
FALSE_ALARM_COST_S: Final = 60.0

#: With less evidence nothing is recommended with more than low confidence: a week.
EVIDENCE_DAYS_MIN: Final = 7.0

_DAY_MS: Final = 86_400_000

#: So many thresholds an interval may have reached.
_ALARMS: Final = range(1, len(PHI_THRESHOLDS) + 1)

COLUMNS: Final = (
    *BROKER_COLUMNS,
    Column("period_ms", Type.DOUBLE, "ms between its heartbeats, as in A2; null with too little history"),
    Column("current_timeout_s", Type.DOUBLE, "timeout that was in force last"),
    Column("current_fp_day", Type.DOUBLE, "times a day that it expires alive with that timeout"),
    Column(
        "recommended_timeout_s",
        Type.DOUBLE,
        "recommended timeout; null where the period is not known; "
        "up to 30 s too long for brokers that let a slave act for their master and were given up "
        "alive: NameServers record when they registered again, not when they send heartbeats again",
    ),
    Column("fp_day", Type.DOUBLE, "times a day that it would be given up alive"),
    Column("fp_day_upper", Type.DOUBLE, "fp_day is below it with 95 %; what all NameServers see at once counts once"),
    Column("delay_s", Type.DOUBLE, "mean seconds from a failure until it expires"),
    Column("phi_threshold", Type.LONG, "recommended threshold of phi-accrual; null where it could judge nothing"),
    Column("phi_fp_day", Type.DOUBLE, "times a day that phi-accrual would give it up alive"),
    Column("phi_delay_s", Type.DOUBLE, "mean seconds from a failure until phi-accrual gives it up"),
    Column("failures", Type.LONG, "removals of the broker that were not false alarms, at all NameServers"),
    Column("evidence_days", Type.DOUBLE, "days that it was watched, by how many NameServers ever"),
    Column("confidence", Type.STRING, "high: sure with 95 %; medium: enough evidence to compare costs; low: less"),
)


def timeout_recommendation(parts: DataFrame, _span: Span, periods: Periods = MappingProxyType({})) -> DataFrame:
    """Return one row for each broker with at least two heartbeats; `periods` are the configured ones."""
    brokers = (
        _watched(parts.filter(F.col("what") == GAP), periods)
        .join(_separation(parts), list(BROKER), "left")
        .crossJoin(F.broadcast(_servers(parts)))
        .withColumns(
            {
                "failures": F.greatest(F.coalesce("failures", F.lit(0)), F.lit(0)),
                "evidence_days": F.col("days") / F.col("servers"),
            }
        )
    )
    choices = brokers.withColumns({"fixed": _fixed_choices(), "phi": _phi_choices()})
    chosen = choices.withColumns({name: _best(F.col(name)) for name in ("fixed", "phi")})
    return chosen.withColumns(_recommended())


def _recommended() -> dict[str, SparkColumn]:
    comparable = F.col("period_ms").isNotNull() & (F.col("evidence_days") >= EVIDENCE_DAYS_MIN)
    return {
        "current_fp_day": F.try_divide(_longer_than(F.col("current_timeout_s")), F.col("days")),
        "recommended_timeout_s": F.col("fixed.setting"),
        **{name: F.col(f"fixed.{name}") for name in ("fp_day", "fp_day_upper", "delay_s")},
        "phi_threshold": F.col("phi.setting"),
        **{f"phi_{name}": F.col(f"phi.{name}") for name in ("fp_day", "delay_s")},
        "confidence": F.when(F.col("fixed.sure"), "high").when(comparable, "medium").otherwise("low"),
    }


# What is known of each broker


def _watched(gaps: DataFrame, periods: Periods) -> DataFrame:
    """Return each broker's histogram as sums: for each timeout of the grid the silences that were longer.

    `gaps` holds the long silences themselves, for timeouts that are not of the grid.
    """
    longer = (F.sum(F.when(F.col("gap_ms") > limit_s * 1000, F.col("n")).otherwise(0)) for limit_s in GRID_S)
    long_ones = F.when((F.col("gap_ms") > GRID_S[0] * 1000) & (F.col("n") > 0), F.struct("gap_ms", "n"))
    sums = (
        added_up(gaps, periods)
        .groupBy(*GAP_KEYS)
        .agg(
            F.array(*longer).alias("false_alarms"),
            F.collect_list(long_ones).alias("gaps"),
            F.sum("sum_ms").alias("sum_ms"),
            period_of_most().alias("period_ms"),
        )
    )
    return sums.select(*BROKER, "false_alarms", "gaps", "period_ms", (F.col("sum_ms") / _DAY_MS).alias("days"))


def _separation(parts: DataFrame) -> DataFrame:
    """Return what the other rows hold: the timeout that was in force last, failures, and what phi-accrual judged.

    For each threshold: how many intervals of a living broker reached it; and what was usual.
    """
    in_force_us = F.when((F.col("what") == GAP) & F.col("timeout_ms").isNotNull(), F.col("last_us"))
    phi_n = F.when(F.col("what") == PHI, F.col("n"))
    reached = (F.sum(F.when(F.col("alarms") >= count, phi_n).otherwise(0)) for count in _ALARMS)
    return parts.groupBy(*BROKER).agg(
        (F.max_by("timeout_ms", in_force_us) / 1000).alias("current_timeout_s"),
        F.sum(F.when(F.col("what") == FAILURE, F.col("n"))).alias("failures"),
        F.array(*reached).alias("phi_alarms"),
        (F.sum(F.when(F.col("what") == PHI, F.col("sum_ms"))) / _DAY_MS).alias("phi_days"),
        F.try_divide(F.sum("mean_sum_ms"), F.sum(phi_n)).alias("phi_mean_ms"),
        F.try_divide(F.sum("deviation_sum_ms"), F.sum(phi_n)).alias("phi_deviation_ms"),
    )


def _servers(parts: DataFrame) -> DataFrame:
    """Return how many NameServers watched in the mean, one if that is unknown: one row."""
    mine = F.col("what") == WATCHED
    n, minutes = (F.sum(F.when(mine, F.col(name))) for name in ("n", "minutes"))
    return parts.agg(F.greatest(F.round(F.try_divide(n, minutes)), F.lit(1.0)).alias("servers"))


def _longer_than(timeout_s: SparkColumn) -> SparkColumn:
    """Return how many silences of a living broker were longer than any timeout."""
    longer = F.filter("gaps", lambda gap: gap["gap_ms"] > timeout_s * 1000)
    return F.aggregate(longer, F.lit(0).cast("bigint"), lambda total, gap: total + gap["n"])


# Choosing. What each setting would do is one expression over an array of them: Spark plans it once.


def _fixed_choices() -> SparkColumn:
    """Return what each timeout of the grid from three periods on would do; beyond the grid, what these would do."""
    grid = _array(GRID_S)
    least_s = F.col("period_ms") * PERIODS_MIN / 1000
    long_enough = F.filter(grid, lambda limit_s: limit_s * (1 + PERIOD_TOLERANCE) >= least_s)
    settings = F.when(F.size(long_enough) > 0, long_enough).when(least_s.isNotNull(), F.array(least_s))

    def choice(limit_s: SparkColumn) -> SparkColumn:
        place = (F.array_position(grid, limit_s) - 1).cast("int")
        # Null outside of the grid.
        alarms = F.get("false_alarms", place)
        return _choice(limit_s, F.coalesce(alarms, _longer_than(limit_s)), limit_s, F.col("days"))

    return F.transform(settings, choice)


def _phi_choices() -> SparkColumn:
    """Return what each threshold of phi-accrual would do; null where it could judge nothing."""
    deviations = _array(PHI_DEVIATIONS)

    def choice(threshold: SparkColumn, number: SparkColumn) -> SparkColumn:
        limit_ms = F.col("phi_mean_ms") + F.get(deviations, number) * F.col("phi_deviation_ms")
        return _choice(threshold, F.get("phi_alarms", number), limit_ms / 1000, F.col("phi_days"))

    return F.when(F.col("phi_days") > 0, F.transform(_array(PHI_THRESHOLDS), choice))


def _array(numbers: Sequence[float]) -> SparkColumn:
    return F.array(*(F.lit(float(number)) for number in numbers))


def _choice(setting: SparkColumn, alarms: SparkColumn, delay_s: SparkColumn, days: SparkColumn) -> SparkColumn:
    """Return what a setting would do; `alarms` and `days` are those of all NameServers together."""
    upper = F.try_divide(poisson_upper(F.ceil(alarms / F.col("servers"))), days / F.col("servers"))
    return F.struct(
        F.coalesce(upper <= FALSE_ALARMS_A_DAY, F.lit(False)).alias("sure"),
        (alarms * FALSE_ALARM_COST_S + F.col("failures") * delay_s).alias("cost_s"),
        setting.alias("setting"),
        F.try_divide(alarms.cast("double"), days).alias("fp_day"),
        upper.alias("fp_day_upper"),
        delay_s.alias("delay_s"),
    )


def _best(choices: SparkColumn) -> SparkColumn:
    """Return the first choice that is sure; if none is, the one that costs least, of equal ones the first."""
    sure = F.get(F.filter(choices, lambda choice: choice["sure"]), F.lit(0))
    return F.coalesce(sure, F.array_min(choices))


JOB: Final = Job(
    id="A5",
    name="timeout_recommendation",
    question="How long should NameServers bear with each broker's silence before they give it up?",
    inputs=SILENCE_INPUTS,
    parts_of=silence_parts,
    result_of=timeout_recommendation,
    part_columns=PARTS,
    columns=COLUMNS,
    order=("abs(recommended_timeout_s - current_timeout_s) DESC NULLS LAST",),
)


def with_periods(periods: Periods) -> Job:
    """Return the analysis with brokers configured so."""
    return JOB._replace(result_of=partial(timeout_recommendation, periods=periods))
