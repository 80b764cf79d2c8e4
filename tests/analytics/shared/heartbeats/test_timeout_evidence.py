"""What of the history tells good timeouts from bad ones."""

import math
import statistics
from collections import Counter
from random import Random

import pytest
from hand_tables import HOUR_US, MINUTE_US, SECOND_US, days, row, tables

from analytics.shared.heartbeats.timeout_evidence import (
    PARTS,
    PHI_DEVIATION_MIN_MS,
    PHI_DEVIATIONS,
    PHI_INTERVALS,
    PHI_INTERVALS_MIN,
    SILENCE_INPUTS,
    silence_parts,
)
from analytics.spark.schemas import shaped


def heartbeats(broker, gaps_ms, *, first_us=0, source="namesrv", broker_id=0, boot="ns-1-1"):
    """A broker's beats with these gaps between them, all within one process of the server."""
    at_us, rows = first_us, []
    for gap_ms in gaps_ms:
        at_us += gap_ms * 1000
        rows.append(
            row(
                "heartbeat",
                at_us,
                mono_us=at_us,
                broker_name=broker,
                broker_id=broker_id,
                boot_id=boot,
                interval_ms=gap_ms,
                period_ms=30_000,
                timeout_ms=120_000,
                source=source,
            )
        )
    return rows


def a_state(what, at_us, broker, *, boot="ns-1-1", **values):
    return row(what, at_us, mono_us=at_us, broker_name=broker, broker_id=0, boot_id=boot, **values)


def gone_and_back(broker, silent_ms, away_us, *, what="expired", boots=("ns-1-1", "ns-1-1"), addresses=(None, None)):
    """Removed after so long a silence, and registered again so much later."""
    return [
        a_state(what, HOUR_US, broker, silent_ms=silent_ms, boot=boots[0], broker_addr=addresses[0]),
        a_state("registered_first", HOUR_US + away_us, broker, boot=boots[1], broker_addr=addresses[1]),
    ]


#: A process of a server that stood still for a minute, soon after the first hour.
STOOD = "ns-1-9"


def a_tick(at_us, *, interval_ms=10_000, boot="ns-1-1", server="ns-1", **values):
    return row("tick", at_us, mono_us=at_us, interval_ms=interval_ms, boot_id=boot, ns_id=server, **values)


def uneven_gaps():
    random = Random("phi")
    gaps_ms = [int(random.gauss(30_000, 1_500)) for _ in range(600)]
    for position, gap_ms in {100: 36_000, 300: 40_000, 420: 90_000, 470: 52_000}.items():
        gaps_ms[position] = gap_ms
    return gaps_ms


@pytest.fixture(scope="module")
def parts(spark):
    inputs = tables(
        spark,
        heartbeat=[
            *heartbeats("uneven", uneven_gaps()),
            *heartbeats("exact", [*[30_000] * 10, 90_000, 90_001, 120_000, 120_001]),
            *heartbeats("late", [30_000] * 100, first_us=23 * HOUR_US),
            *heartbeats("controlled", [30_000] * 100, source="controller"),
            # All is as with the other one, but that its server stood still.
            *heartbeats(
                "stood-by", [30_000] * 60 + [85_000] + [5_000] + [30_000] * 9, first_us=HOUR_US // 2, boot=STOOD
            ),
            *heartbeats("watched", [30_000] * 60 + [85_000] + [5_000] + [30_000] * 9, first_us=HOUR_US // 2),
            *heartbeats("of-nobody", [30_000] * 60, source=None),
            *heartbeats("without-id", [30_000] * 60, broker_id=-1),
        ],
        broker_state=[
            *gone_and_back("slow", 121_000, 20 * SECOND_US),
            *gone_and_back("slow-at-last", 122_000, 58 * SECOND_US),
            *gone_and_back("dead", 121_000, 5 * MINUTE_US),
            *gone_and_back("crashed", 10_000, 20 * SECOND_US, what="channel_closed"),
            *gone_and_back("restarted-server", 121_000, 20 * SECOND_US, boots=("ns-1-1", "ns-1-2")),
            *gone_and_back("stood-by", 121_000, 30 * SECOND_US, boots=(STOOD, STOOD)),
            *gone_and_back("moved", 121_000, 20 * SECOND_US, addresses=("one:10911", "two:10911")),
            *gone_and_back("stayed", 121_000, 20 * SECOND_US, addresses=("one:10911", "one:10911")),
            *(each | {"source": None} for each in gone_and_back("of-nobody", 121_000, 20 * MINUTE_US)),
            a_state("expired", HOUR_US, "without-id", silent_ms=121_000) | {"broker_id": -1},
            *gone_and_back("planned", 1_000, 20 * SECOND_US, what="unregistered"),
        ],
        ns_tick=[
            a_tick(HOUR_US + 84 * SECOND_US, interval_ms=65_000, boot=STOOD),
            *(a_tick(at_us, source=None) for at_us in (5 * HOUR_US, 5 * HOUR_US + 10 * SECOND_US)),
            *(a_tick(5 * HOUR_US + number * MINUTE_US, server="ns-2") for number in range(3)),
            *(a_tick(5 * HOUR_US, server=name, source="controller") for name in ("c-1", "c-2")),
            a_tick(25 * HOUR_US),
        ],
    )
    made = silence_parts({name: inputs[name] for name in SILENCE_INPUTS}, days(1))
    return [each.asDict() for each in shaped(made, PARTS).collect()]


def of(parts, broker, what):
    return [each for each in parts if each["broker_name"] == broker and each["what"] == what]


@pytest.mark.parametrize(("limit_s", "longer"), [(30, 4), (90, 3), (105, 2), (120, 1), (135, 0)])
def test_intervals_longer_than_a_timeout_are_counted_to_the_millisecond(parts, limit_s, longer):
    assert sum(each["n"] for each in of(parts, "exact", "gap") if each["gap_ms"] > limit_s * 1000) == longer


def test_a_broker_that_came_back_soon_after_it_was_given_up_was_slow(parts):
    (gap,) = of(parts, "slow", "gap")
    assert (gap["gap_ms"], gap["n"]) == (141_000, 1)
    assert sum(each["n"] for each in of(parts, "slow", "failure")) == 0
    assert [each["gap_ms"] for each in of(parts, "slow-at-last", "gap")] == [180_000]
    assert [each["gap_ms"] for each in of(parts, "stayed", "gap")] == [141_000]


@pytest.mark.parametrize("broker", ["dead", "moved", "restarted-server"])
def test_other_removals_without_heartbeats_are_failures(parts, broker):
    assert of(parts, broker, "gap") == []
    assert sum(each["n"] for each in of(parts, broker, "failure")) == 1


@pytest.mark.parametrize("broker", ["planned", "crashed", "without-id"])
def test_unregistrations_closed_connections_and_brokers_without_id_are_no_timeout_evidence(parts, broker):
    assert [each for each in parts if each["broker_name"] == broker] == []


def test_intervals_across_a_process_pause_are_left_out(parts):
    assert max(each["gap_ms"] for each in of(parts, "watched", "gap")) == 85_000
    assert sum(each["n"] for each in of(parts, "watched", "phi")) == 71 - PHI_INTERVALS_MIN
    assert {each["gap_ms"] for each in of(parts, "stood-by", "gap")} <= {5_000, 30_000}
    assert sum(each["n"] for each in of(parts, "stood-by", "gap")) == 70
    assert all(each["alarms"] == 0 for each in of(parts, "stood-by", "phi"))
    # It was given up meanwhile and came back at once: neither slow nor dead.
    assert sum(each["n"] for each in of(parts, "stood-by", "failure")) == 0


def test_rows_without_a_server_kind_belong_to_name_servers(parts):
    assert [sum(each["n"] for each in of(parts, "of-nobody", what)) for what in ("gap", "phi", "failure")] == [
        60,
        10,
        1,
    ]


def test_minutes_are_counted_in_which_name_servers_watched(parts):
    (watched,) = [each for each in parts if each["what"] == "watched"]
    assert (watched["n"], watched["minutes"]) == (5, 4)


def phi_alarms(gaps_ms):
    """How many thresholds each interval reaches, worked out one by one."""
    counted = Counter()
    for position in range(PHI_INTERVALS_MIN, len(gaps_ms)):
        before = gaps_ms[max(0, position - PHI_INTERVALS) : position]
        deviation = max(statistics.pstdev(before), PHI_DEVIATION_MIN_MS)
        reached = (gaps_ms[position] - statistics.fmean(before)) / deviation
        counted[sum(reached > limit for limit in PHI_DEVIATIONS)] += 1
    return counted


def test_phi_judges_each_interval_by_the_two_hundred_before_it(parts):
    expected = phi_alarms(uneven_gaps())
    judged = of(parts, "uneven", "phi")
    assert {each["alarms"]: each["n"] for each in judged} == expected
    assert len(expected) >= 3
    assert sum(each["mean_sum_ms"] for each in judged) / expected.total() == pytest.approx(30_000, rel=0.02)


def test_thresholds_are_those_of_the_normal_distribution():
    for phi, deviations in zip(range(4, 17), PHI_DEVIATIONS, strict=True):
        assert -math.log10(0.5 * math.erfc(deviations / math.sqrt(2))) == pytest.approx(phi, abs=1e-6)


def test_only_heartbeats_to_name_servers_of_the_span_are_judged(parts):
    assert not [each for each in parts if each["broker_name"] == "controlled"]
    assert sum(each["n"] for each in of(parts, "late", "gap")) == 100
    assert sum(each["n"] for each in of(parts, "late", "phi")) == 50
