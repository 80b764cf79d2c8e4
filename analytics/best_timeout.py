"""A5: how long NameServers should bear with each broker's silence before they give it up.

The least timeout that gives up a living broker at most once in 30 days, so surely that it can be said with 95 %; if
nothing is so sure, the one that costs least. Beside it: what phi-accrual would do with the same intervals. Days are
counted at each NameServer: three of them see 90 days in a month.
"""

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.gap_histogram import GAP_KEYS, added_up, usual_period_ms
from analytics.job import Job, Span
from analytics.rates import poisson_upper
from analytics.schemas import in_columns
from analytics.silences import FAILURE, GAP, PARTS, PHI, PHI_DEVIATIONS, PHI_THRESHOLDS, SILENCE_INPUTS, silence_parts
from history.schemas import Column, Type

#: What can be recommended, in seconds.
GRID_S: Final = (3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 90, 105, 120, 135, 150, 165, 180)

#: No broker is given up before so many of its beats did not come.
PERIODS_MIN: Final = 3

#: Servers look for silent brokers each 5 s, so a removal is half of that late in the mean.
SCAN_S: Final = 5.0

#: So many living brokers may be given up in a day: one in 30 days.
FALSE_ALARMS_A_DAY: Final = 1 / 30

#: What it costs to give up a living broker, in seconds of delay after a real failure: its clients reconnect.
FALSE_ALARM_COST_S: Final = 60.0

#: With less evidence nothing is recommended with more than low confidence: a week at three NameServers.
EVIDENCE_DAYS_MIN: Final = 21.0

_DAY_MS: Final = 86_400_000

_BROKER: Final = ("cluster", "broker_name", "broker_id")

COLUMNS: Final = (
    Column("broker_name", Type.STRING, "broker set"),
    Column("broker_id", Type.LONG, "broker id in its set"),
    Column("period_ms", Type.DOUBLE, "ms between its beats as a rule"),
    Column("current_timeout_s", Type.DOUBLE, "timeout that was in force last"),
    Column("current_fp_day", Type.DOUBLE, "times a day that it is given up alive with that timeout"),
    Column("best_timeout_s", Type.DOUBLE, "recommended timeout"),
    Column("fp_day", Type.DOUBLE, "times a day that it would be given up alive"),
    Column("fp_day_upper", Type.DOUBLE, "that number is below it with 95 %"),
    Column("delay_s", Type.DOUBLE, "mean seconds from a failure until it is given up"),
    Column("phi_threshold", Type.LONG, "recommended threshold of phi-accrual; null where it could judge nothing"),
    Column("phi_fp_day", Type.DOUBLE, "times a day that phi-accrual would give it up alive"),
    Column("phi_delay_s", Type.DOUBLE, "mean seconds from a failure until phi-accrual gives it up"),
    Column("failures", Type.LONG, "removals of the broker that were not false alarms, at all NameServers"),
    Column("evidence_days", Type.DOUBLE, "days that it was watched, at all NameServers"),
    Column(
        "confidence", Type.STRING, "high: sure with 95 %; medium: enough evidence to compare costs; low: too little"
    ),
)


def best_timeout(parts: DataFrame, _span: Span) -> DataFrame:
    """Return one row for each broker that beat at least twice."""
    brokers = (
        _watched(parts.filter(F.col("what") == GAP))
        .join(_current(parts), list(_BROKER), "left")
        .join(_failed(parts), list(_BROKER), "left")
        .join(_phi(parts), list(_BROKER), "left")
        .withColumn("failures", F.greatest(F.coalesce("failures", F.lit(0)), F.lit(0)))
    )
    fixed, phi = _best(_fixed_choices()), _best(_phi_choices())
    chosen = brokers.withColumns({"fixed": fixed, "phi": F.when(F.col("phi_days") > 0, phi)})
    return chosen.select(*_BROKER, *_told()).select("cluster", *in_columns(COLUMNS))


def _told() -> list[SparkColumn]:
    timeout_s = F.col("fixed.setting")
    sure = F.col("fixed.sure")
    least_s = F.col("period_ms") * PERIODS_MIN / 1000
    confidence = F.when(sure, "high").when(F.col("evidence_days") >= EVIDENCE_DAYS_MIN, "medium").otherwise("low")
    # A broker that beats so rarely that the grid ends before three of its periods.
    best_s = F.greatest(timeout_s, least_s)
    return [
        F.col("period_ms"),
        F.col("current_timeout_s"),
        F.try_divide(_longer_than(F.col("current_timeout_s")), F.col("evidence_days")).alias("current_fp_day"),
        best_s.alias("best_timeout_s"),
        F.col("fixed.fp_day").alias("fp_day"),
        F.col("fixed.fp_day_upper").alias("fp_day_upper"),
        (best_s + SCAN_S / 2).alias("delay_s"),
        F.col("phi.setting").alias("phi_threshold"),
        F.col("phi.fp_day").alias("phi_fp_day"),
        F.col("phi.delay_s").alias("phi_delay_s"),
        F.col("failures"),
        F.col("evidence_days"),
        confidence.alias("confidence"),
    ]


# What is known of each broker


def _watched(gaps: DataFrame) -> DataFrame:
    """Return each broker's histogram as sums: for each timeout of the grid the silences that were longer.

    `gaps` holds the long silences themselves, for timeouts that are not of the grid.
    """
    longer = (F.sum(F.when(F.col("gap_ms") > limit_s * 1000, F.col("n")).otherwise(0)) for limit_s in GRID_S)
    long_ones = F.when((F.col("gap_ms") > GRID_S[0] * 1000) & (F.col("n") > 0), F.struct("gap_ms", "n"))
    sums = (
        added_up(gaps)
        .groupBy(*GAP_KEYS)
        .agg(
            F.array(*longer).alias("false_alarms"),
            F.collect_list(long_ones).alias("gaps"),
            *(F.sum(name).alias(name) for name in ("n", "sum_ms", "uncounted_n", "period_sum_ms")),
            F.max("p50_ms").alias("p50_ms"),
        )
    )
    return sums.select(
        *_BROKER,
        "false_alarms",
        "gaps",
        usual_period_ms(F.col("p50_ms")).alias("period_ms"),
        (F.col("sum_ms") / _DAY_MS).alias("evidence_days"),
    )


def _current(parts: DataFrame) -> DataFrame:
    """Return the timeout that was in force last."""
    known = parts.filter((F.col("what") == GAP) & F.col("timeout_ms").isNotNull())
    latest_ms = F.max_by("timeout_ms", "last_us")
    return known.groupBy(*_BROKER).agg((latest_ms / 1000).alias("current_timeout_s"))


def _failed(parts: DataFrame) -> DataFrame:
    return parts.filter(F.col("what") == FAILURE).groupBy(*_BROKER).agg(F.sum("n").alias("failures"))


def _phi(parts: DataFrame) -> DataFrame:
    """Return for each threshold how many intervals of a living broker reached it, and what was usual."""
    reached = (
        F.sum(F.when(F.col("alarms") >= count, F.col("n")).otherwise(0)) for count in range(1, len(PHI_THRESHOLDS) + 1)
    )
    judged = parts.filter(F.col("what") == PHI).groupBy(*_BROKER)
    return judged.agg(
        F.array(*reached).alias("phi_alarms"),
        (F.sum("sum_ms") / _DAY_MS).alias("phi_days"),
        F.try_divide(F.sum("mean_sum_ms"), F.sum("n")).alias("phi_mean_ms"),
        F.try_divide(F.sum("deviation_sum_ms"), F.sum("n")).alias("phi_deviation_ms"),
    )


def _longer_than(timeout_s: SparkColumn) -> SparkColumn:
    """Return how many silences of a living broker were longer than any timeout."""
    longer = F.filter("gaps", lambda gap: gap["gap_ms"] > timeout_s * 1000)
    return F.aggregate(longer, F.lit(0).cast("bigint"), lambda total, gap: total + gap["n"])


# Choosing


def _fixed_choices() -> list[SparkColumn]:
    """Return what each timeout of the grid would do; null for those that are too short for the broker's period."""
    least_s = F.col("period_ms") * PERIODS_MIN / 1000
    return [
        F.when(
            (F.lit(limit_s) >= least_s) | F.lit(limit_s == GRID_S[-1]),
            _choice(
                F.lit(float(limit_s)),
                F.get("false_alarms", F.lit(number)),
                F.lit(limit_s + SCAN_S / 2),
                F.col("evidence_days"),
            ),
        )
        for number, limit_s in enumerate(GRID_S)
    ]


def _phi_choices() -> list[SparkColumn]:
    """Return what each threshold of phi-accrual would do."""
    return [
        _choice(
            F.lit(float(threshold)),
            F.get("phi_alarms", F.lit(number)),
            (F.col("phi_mean_ms") + deviations * F.col("phi_deviation_ms")) / 1000 + SCAN_S / 2,
            F.col("phi_days"),
        )
        for number, (threshold, deviations) in enumerate(zip(PHI_THRESHOLDS, PHI_DEVIATIONS, strict=True))
    ]


def _choice(setting: SparkColumn, alarms: SparkColumn, delay_s: SparkColumn, days: SparkColumn) -> SparkColumn:
    upper = F.try_divide(poisson_upper(alarms), days)
    return F.struct(
        F.coalesce(upper <= FALSE_ALARMS_A_DAY, F.lit(False)).alias("sure"),
        (alarms * FALSE_ALARM_COST_S + F.col("failures") * delay_s).alias("cost_s"),
        setting.alias("setting"),
        F.try_divide(alarms.cast("double"), days).alias("fp_day"),
        upper.alias("fp_day_upper"),
        delay_s.alias("delay_s"),
    )


def _best(choices: list[SparkColumn]) -> SparkColumn:
    """Return the first choice that is sure; if none is, the one that costs least, of equal ones the first."""
    known = F.array_compact(F.array(*choices))
    sure = F.get(F.filter(known, lambda choice: choice["sure"]), F.lit(0))
    return F.coalesce(sure, F.array_min(known))


JOB: Final = Job(
    id="A5",
    name="best_timeout",
    question="How long should NameServers bear with each broker's silence before they give it up?",
    inputs=SILENCE_INPUTS,
    parts=silence_parts,
    result=best_timeout,
    part_columns=PARTS,
    columns=COLUMNS,
)
