"""A2: intervals between beats and beats that did not come, against those that were dropped."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from hand_tables import HOUR_US, SECOND_US, found, row, tables
from synthetic.frames import frames
from synthetic.generator import generate
from synthetic.plan import (
    HOUR,
    MINUTE,
    MONDAY,
    Broker,
    BrokerKey,
    Downtime,
    Outage,
    Plan,
    Plant,
    Server,
    three_servers,
)

from analytics.jobs.a02_heartbeat_gaps import HEARTBEATS_LEAST, JOB, with_periods
from analytics.shared.job import Span

SLOW = Broker(key=BrokerKey("slow"), drop=0.1, jitter_ms=400)
BAD = Broker(key=BrokerKey("bad"), drop=0.3)
QUICK = Broker(key=BrokerKey("quick"), period_ms=1_000, timeout_ms=10_000, jitter_ms=20, drop=0.02)


def four_digits(gap_ms):
    step = 10 ** max(0, len(str(gap_ms)) - 4)
    return -(-gap_ms // step) * step


def quantile(values, share):
    """The least value that so large a share does not exceed."""
    return sorted(values)[math.ceil(len(values) * share) - 1]


@pytest.fixture(scope="module")
def history():
    servers = list(three_servers())
    servers[1] = replace(servers[1], downtimes=(Downtime(MONDAY + HOUR, MONDAY + 80 * MINUTE, clean=False),))
    # A release that did not know periods yet.
    servers[2] = replace(servers[2], lacks=frozenset({"period_ms"}), schema_version=0)
    # Its summaries would lack them too, which is not what this is about.
    controller = Server(name="controller-0", source="controller")
    plan = Plan(end_us=MONDAY + 5 * HOUR, brokers=(SLOW, BAD), servers=(*servers, controller))
    return generate(
        plan.with_plants(Plant(outages=(Outage(BAD.key, MONDAY + 3 * HOUR, MONDAY + 3 * HOUR + 5 * MINUTE),)))
    )


def by_hand(broker, what, ended_s, interval_ms, **values):
    """An interval, or a minute of quick beats, that ended so many seconds after three hours."""
    at_us = 3 * HOUR_US + ended_s * SECOND_US
    who = {"broker_name": broker, "broker_id": 0, "boot_id": "ns-9-1", "timeout_ms": 120_000, "kind": "register"}
    return row(what, at_us, **{"mono_us": at_us, "interval_ms": interval_ms, "period_ms": 30_000, **who, **values})


def a_minute(ended_s, longest_ms, boot):
    """A summary of 40 beats, the longest of which came that late; it is told a second after its minute."""
    reported = by_hand("quick-by-hand", "summary", ended_s + 1, None, boot_id=boot, period_ms=1_000, kind="heartbeat")
    hist = [0] * 5 + [39 if longest_ms > 1_500 else 40] + [0] * 10
    minute = {
        "minute": reported["event_time"] - 61 * SECOND_US,
        "n": 40,
        "missed": longest_ms // 1_000 - 1,
        "hist": hist,
    }
    del reported["interval_ms"]
    return reported | minute | {"interval_max_ms": longest_ms, "interval_sum_ms": 40_000}


def stood_still():
    """A server that stood still from 5 to 70 s after three hours, and another one that did not."""
    boots = {"late": "ns-9-1", "really-late": "ns-8-1"}
    heartbeats = [
        by_hand(broker, "heartbeat", ended_s, interval_ms, boot_id=boot)
        for broker, boot in boots.items()
        for ended_s, interval_ms in ((-30, 30_000), (0, 30_000), (71, 71_000), (90, 19_000), (120, 30_000))
    ]
    return {
        "heartbeat": [
            *heartbeats,
            by_hand("late", "heartbeat", 150, 30_000, source=None),
            by_hand("without-id", "heartbeat", 0, 30_000, broker_id=-1),
            # The longest of each minute of the quick one.
            *(
                by_hand("quick-by-hand", "gap", ended_s, longest_ms, boot_id=boot, period_ms=1_000, kind="heartbeat")
                for ended_s, longest_ms, boot in ((60, 20_000, "ns-9-1"), (71, 66_000, "ns-9-1"), (70, 3_000, "ns-8-1"))
            ),
        ],
        # The minute that the standstill lay in, that of the first beat after it, and one later; all of another server.
        "heartbeat_summary": [
            *(
                a_minute(ended_s, longest_ms, "ns-9-1")
                for ended_s, longest_ms in ((60, 20_000), (75, 66_000), (300, 1_000))
            ),
            a_minute(75, 3_000, "ns-8-1"),
        ],
        "ns_tick": [by_hand(None, "tick", 70, 65_000), by_hand(None, "tick", 70, 10_000, boot_id="ns-8-1")],
    }


@pytest.fixture(scope="module")
def result(spark, history):
    for family, rows in stood_still().items():
        history.rows[family] += rows
    quick = generate(Plan(end_us=MONDAY + HOUR, brokers=(QUICK,), servers=three_servers()[:2]))
    for family in ("heartbeat", "heartbeat_summary"):
        history.rows[family] += quick.rows[family]
    history.truth.drops += quick.truth.drops
    # The quick one registers each second.
    job = with_periods({("quick", "register"): 1_000})
    rows = found(job, frames(spark, history.rows), Span(MONDAY, MONDAY + 5 * HOUR))
    return {row["broker_name"]: row for row in rows}


def intervals(history, broker):
    rows = history.rows["heartbeat"]
    return [row["interval_ms"] for row in rows if row["broker_name"] == broker and "interval_ms" in row]


@pytest.mark.parametrize("broker", ["slow", "bad", "quick"])
def test_missed_heartbeats_are_exactly_the_dropped_ones(history, result, broker):
    dropped = Counter(drop.broker.broker_name for drop in history.truth.drops)
    assert result[broker]["missed"] == dropped[broker] > 100
    assert result[broker]["miss_ratio"] == pytest.approx(dropped[broker] / (dropped[broker] + result[broker]["n"]))


@pytest.mark.parametrize("broker", ["slow", "bad"])
def test_quantiles_are_those_of_the_intervals_to_four_digits(history, result, broker):
    kept = [four_digits(each) for each in intervals(history, broker)]
    row = result[broker]
    assert row["n"] == len(kept)
    for name, share in {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}.items():
        assert row[name] == quantile(kept, share)
    assert row["mad_ms"] == quantile([abs(each - row["p50_ms"]) for each in kept], 0.5)


def test_the_longest_interval_and_the_mean_are_exact(history, result):
    exact = intervals(history, "slow")
    assert result["slow"]["max_ms"] == max(exact)
    assert result["slow"]["mean_ms"] == pytest.approx(sum(exact) / len(exact))
    assert result["slow"]["period_ms"] == pytest.approx(30_000, rel=0.02)


def test_an_outage_of_broker_or_server_is_no_long_interval(history, result):
    # The broker was away for five minutes, and one server for twenty.
    assert result["bad"]["max_ms"] < 5 * 60_000
    assert result["slow"]["max_ms"] < 5 * 60_000


def test_summaries_count_as_the_heartbeats_they_summarise(history, result):
    summaries = [row for row in history.rows["heartbeat_summary"] if row["broker_name"] == "quick"]
    row = result["quick"]
    assert row["n"] == sum(each["n"] for each in summaries)
    assert row["max_ms"] == max(each["interval_max_ms"] for each in summaries)
    assert row["mean_ms"] == pytest.approx(sum(each["interval_sum_ms"] for each in summaries) / row["n"])
    # As fine as their bins.
    assert 900 <= row["p50_ms"] <= 1_100
    # Late ones have rows, and are exact.
    late = sorted(intervals(history, "quick"))
    assert row["p999_ms"] == four_digits(late[-(row["n"] - math.ceil(row["n"] * 0.999)) - 1])


def test_what_came_late_because_the_server_stood_still_is_left_out(result):
    assert (result["late"]["n"], result["late"]["max_ms"], result["late"]["missed"]) == (5, 30_000, 0)
    assert (result["really-late"]["n"], result["really-late"]["max_ms"], result["really-late"]["missed"]) == (
        5,
        71_000,
        2,
    )
    # Of four minutes two are left.
    assert (result["quick-by-hand"]["n"], result["quick-by-hand"]["missed"]) == (80, 2)


def test_rows_without_a_server_kind_belong_to_name_servers(history, result):
    assert result["late"]["source"] == "namesrv"


def test_a_broker_that_waits_for_its_id_is_none_yet(result):
    assert "without-id" not in result


# Intervals that were seen, or might be

#: Broker -> the beats that ended its intervals: their kind, and how long these were.
SEEN = {
    # Of real brokers: they register at once when a topic changes, and one was stopped for 40 s right after that.
    "grown": [("register", 265, 10_113, 1_855, 190, 6_336, 3_677, 29_999)],
    "stopped": [("register", 307, 42, 40_195, 19_297, 29_998)],
    "stopped-later": [("register", 14_575, 27_517, 22_452, 582, 8_258, 64_653, 6_047, 18_007, 29_997)],
    # A process that starts is held up for half a second.
    "starting": [("controller", 1_572, 1_032, 1_117, 823, 1_045)],
    "lossy": [("controller", *[1_000] * 50, 2_010, *[1_000] * 50, 3_000)],
    # Between two changes of topics one beat was lost.
    "changed": [("register", 30_000, 10_000, 50_000, 12_000, 18_000)],
    # It is configured otherwise.
    "slow-by-file": [("register", *[60_000] * 30, 120_000)],
    "quick-by-file": [("register", *[20_000] * 20, 36_000)],
    # Its topics change each ten minutes.
    "slow-and-changed": [("register", *([60_000] * 5 + [25_000, 35_000] + [60_000] * 4) * 10)],
    "slow-and-lossy": [("register", *([60_000] * 8 + [120_000]) * 3)],
    "lossy-by-promise": [("register", *([30_000] * 3 + [60_000]) * 10)],
    # Of six minutes, of which two servers tell.
    "slow-and-new": [("register", *[60_000] * 10)],
    # A period of 20 s with lost beats, and one of 60 s with changes of topics at any time: who is to tell?
    "lossy-quick": [("register", *([20_000] * 8 + [40_000]) * 3)],
    "always-changed": [("register", *[40_000, 45_000, 8_000, 50_000, 55_000, 38_000, 60_000, 5_000] * 4)],
    # Nothing but changes, each 9 s; then a silence of two servers.
    "silent-once": [("register", *[9_000] * 60, 60_000, 60_000)],
    # Both kinds, in one stream.
    "both": [("data_version", 1_000, 700), ("register", 300), ("data_version", 4_000)],
}

PERIODS = {("slow-by-file", "register"): 60_000, ("quick-by-file", "register"): 20_000, (None, "data_version"): 2_000}


def seen_heartbeats():
    return [
        by_hand(broker, "heartbeat", number, interval_ms, kind=kind)
        for broker, kinds in SEEN.items()
        for number, (kind, interval_ms) in enumerate((kind, each) for kind, *all_ in kinds for each in all_)
    ]


def a_burst():
    """Topics come one after another, and for a while the server takes a broker for a quick one: rows of a real one."""
    hist = [0] * 16
    hist[11] = 1
    minute = {"minute": MONDAY + 3 * HOUR_US, "n": 1, "missed": 29, "hist": hist, "period_ms": 1_000}
    sums = {"interval_max_ms": 29_998, "interval_sum_ms": 29_998}
    late = by_hand("burst", "gap", 50, 29_998, period_ms=1_000)
    summary = by_hand("burst", "summary", 61, None, **minute, **sums)
    del summary["interval_ms"]
    return [*(by_hand("burst", "heartbeat", number, 1_000) for number in range(5)), late], [summary]


@pytest.fixture(scope="module")
def reported(spark):
    """Broker -> what is told of it, without and with options."""
    late, summaries = a_burst()
    inputs = tables(spark, heartbeat=[*seen_heartbeats(), *late], heartbeat_summary=summaries)
    jobs = {"usual": JOB, "configured": with_periods(PERIODS)}
    span = Span(MONDAY, MONDAY + 5 * HOUR)
    return {how: {row["broker_name"]: row for row in found(job, inputs, span)} for how, job in jobs.items()}


@pytest.mark.parametrize(
    ("broker", "missed"),
    [("grown", 0), ("stopped", 1), ("stopped-later", 1), ("starting", 0), ("lossy", 3), ("changed", 1), ("burst", 0)],
)
def test_heartbeat_is_missed_if_none_arrived_when_one_was_due(reported, broker, missed):
    assert reported["usual"][broker]["missed"] == missed


def test_period_is_the_default_of_the_kind_of_heartbeats(reported):
    periods = {broker: row["period_ms"] for broker, row in reported["usual"].items()}
    assert {name: periods[name] for name in ("grown", "stopped", "burst", "starting", "both")} == {
        **dict.fromkeys(("grown", "stopped", "burst"), 30_000),
        **dict.fromkeys(("starting", "both"), 1_000),
    }


def test_the_quicker_of_two_kinds_counts(reported):
    assert reported["usual"]["both"]["missed"] == 3
    assert reported["configured"]["both"]["missed"] == 1


def test_options_set_the_heartbeat_period_of_a_broker(reported):
    assert reported["usual"]["quick-by-file"]["missed"] == 0
    row = reported["configured"]["quick-by-file"]
    assert (row["period_ms"], row["missed"]) == (20_000, 1)


@pytest.mark.parametrize(
    ("broker", "period_ms", "missed"),
    [("slow-and-changed", 60_000, 0), ("slow-and-lossy", 60_000, 3), ("lossy-by-promise", 30_000, 10)],
)
def test_the_length_that_most_intervals_have_is_the_period(reported, broker, period_ms, missed):
    assert (reported["usual"][broker]["period_ms"], reported["usual"][broker]["missed"]) == (period_ms, missed)


@pytest.mark.parametrize("broker", ["slow-and-new", "lossy-quick", "always-changed", "silent-once"])
def test_broker_without_a_known_period_misses_no_heartbeat(reported, broker):
    row = reported["usual"][broker]
    assert (row["period_ms"], row["missed"], row["miss_ratio"], row["confidence"]) == (None, None, None, "low")


@pytest.mark.parametrize("how", ["usual", "configured"])
def test_broker_with_fewer_heartbeats_than_its_default_has_another_period(reported, how):
    row = reported[how]["slow-by-file"]
    assert (row["period_ms"], row["missed"]) == (60_000, 1)


def test_the_longest_interval_of_a_minute_is_exact(reported):
    assert reported["usual"]["burst"]["max_ms"] == 29_998


def test_few_heartbeats_give_no_share_of_missed_ones(reported):
    sure = {broker for broker, row in reported["usual"].items() if row["confidence"] == "high"}
    assert sure == {"lossy", "slow-and-changed"}
    assert all(
        row["n"] + (row["missed"] or 0) < HEARTBEATS_LEAST
        for name, row in reported["usual"].items()
        if name not in sure
    )
