"""What follows from findings; properties hold for any policy and any signals."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from signal_builders import NOW_MS, a_group, a_set, a_topic

from controller.scaling.autoscaler.daily_peaks import DAY_MS, TrafficForecast
from controller.scaling.autoscaler.decision import RAMP_MS, Evidence, KnownResizes, PastResize, decide
from controller.scaling.autoscaler.diagnosis import diagnose, foretold
from controller.scaling.autoscaler.findings import AnalysisOutlook, Finding, FindingKind
from controller.scaling.autoscaler.policies import PolicyMode, ScalingPolicy
from controller.scaling.resize.observation import GroupKind

AUTO = ScalingPolicy(topic="orders", queues_min=4, queues_max=64, mode=PolicyMode.AUTO)
WEEK = TrafficForecast(days=7, peak_tps=1000.0, peak_clients=4, queue_tps=500.0)
QUIET = a_topic(
    sets={"broker-a": a_set(queues=32, write_tps=1.0)},
    groups={"billing": a_group(clients=4, queues=32, lag=0, trend=0)},
)


def evidence_of(signals, resizes=(), resizes_known_since_ms=0, **other) -> Evidence:
    seen = diagnose(signals, 30_000)
    known = KnownResizes(resizes, resizes_known_since_ms)
    return Evidence(signals=signals, seen=seen, held=seen, resizes=known, **other)


def verdict(signals=None, policy=AUTO, **other):
    return decide(policy, evidence_of(signals or a_topic(), **other), NOW_MS)


def ended(hours_ago: float, before: int = 4, after: int = 8) -> PastResize:
    begun = NOW_MS - int(hours_ago * 3_600_000)
    return PastResize(begun, begun + 90_000, before, after)


def test_finding_that_held_grows_to_what_is_needed():
    grown = verdict()
    # 16 queues would carry it, but leave four of the 12 consumers twice the load of the others.
    assert (grown.before, grown.target, grown.mode) == (8, 32, PolicyMode.AUTO)
    assert "4 have none" in grown.reason


def test_finding_that_has_not_held_for_the_window_changes_nothing():
    signals = a_topic()
    found = decide(AUTO, Evidence(signals=signals, seen=diagnose(signals, 30_000)), NOW_MS)
    assert found.target is None
    assert found.reason.startswith("not for 45 s yet: group billing: 12 consumers")


@pytest.mark.parametrize("mode", [PolicyMode.PROPOSE, PolicyMode.APPROVE])
def test_other_modes_leave_it_to_operators(mode):
    grown = verdict(policy=msgspec.structs.replace(AUTO, mode=mode))
    assert grown.is_change
    assert grown.mode is mode


def test_ramp_goes_to_the_top_at_once():
    group = a_group(clients=32, queues=4)
    steep = verdict(a_topic(sets={"broker-a": a_set(queues=4)}, groups={"billing": group}), put_slope=5.0)
    assert steep.target == 32


def uneven_topic():
    group = a_group(clients=12, queues=16, lag=0, trend=0.0)
    behind = a_group(queues=8, lag=5000, trend=20.0).queues
    group = replace(group, queues=(*behind, *group.queues[8:]))
    return a_topic(sets={"broker-a": a_set(queues=16)}, groups={"billing": group})


def test_uneven_queues_grow_to_a_count_that_is_even():
    assert verdict(uneven_topic()).target == 32


def test_uneven_queues_do_not_grow_where_no_count_is_even():
    kept = verdict(uneven_topic(), policy=msgspec.structs.replace(AUTO, queues_max=17))
    assert kept.target is None
    assert "no count up to 17 is even" in kept.reason


def test_growth_beyond_the_policy_ends_at_its_max():
    assert verdict(policy=msgspec.structs.replace(AUTO, queues_max=10)).target == 10


def test_topic_at_its_max_stays_and_the_reason_names_the_limit():
    at_max = verdict(policy=msgspec.structs.replace(AUTO, queues_max=8))
    assert at_max.target is None
    assert "max of the policy is 8" in at_max.reason


def test_count_is_that_of_each_set():
    sets = {"broker-a": a_set(queues=4), "broker-b": a_set(queues=4)}
    group = a_group(clients=12, queues=8)
    assert verdict(a_topic(sets=sets, groups={"billing": group})).target == 16


def test_no_resize_while_one_runs():
    assert verdict(resizes=(PastResize(NOW_MS - 5 * DAY_MS, None, 4, 8),)).reason == "a resize from 4 to 8 queues runs"


def test_no_resize_during_the_cooldown():
    assert verdict(resizes=(ended(0.1),)).target is None
    assert verdict(resizes=(ended(0.3),)).target is not None


def test_clock_that_was_set_back_waits():
    assert verdict(resizes=(ended(-5),)).target is None


def test_ramp_takes_at_most_two_resizes():
    third = verdict(resizes=(ended(5), ended(1)))
    assert third.target is None
    assert "it grew 2 times within 6 hours, an operator decides" in third.reason


def test_ramp_of_which_former_resizes_may_be_forgotten_is_left_to_an_operator():
    unknown = verdict(resizes_known_since_ms=NOW_MS - RAMP_MS // 2)
    assert unknown.target is None
    assert "not all resizes of the last 6 hours are known, an operator decides" in unknown.reason
    assert verdict(resizes_known_since_ms=NOW_MS - RAMP_MS).target is not None


def test_slow_broker_is_a_reason_against_growth():
    slow = verdict(a_topic(sets={"broker-a": a_set(queue_wait_ms=500.0)}))
    assert slow.target is None
    assert "slow as a whole" in slow.reason


@pytest.mark.parametrize(
    ("is_ordered", "is_static", "kind"),
    [
        (True, False, GroupKind.CONCURRENT),
        (None, False, GroupKind.CONCURRENT),
        (False, True, GroupKind.CONCURRENT),
        (False, None, GroupKind.CONCURRENT),
        (False, False, GroupKind.ORDERLY),
    ],
)
def test_topic_that_may_have_an_order_or_a_mapping_is_only_proposed_for(is_ordered, is_static, kind):
    found = verdict(a_topic(is_ordered=is_ordered, is_static=is_static, groups={"billing": a_group(kind)}))
    assert found.is_change
    assert found.mode is PolicyMode.PROPOSE


def test_growth_is_only_proposed_while_the_servers_near_their_limits():
    assert verdict(outlook=AnalysisOutlook(days_left=3.0)).mode is PolicyMode.PROPOSE


def test_week_that_needed_less_shrinks():
    shrunk = verdict(QUIET, forecast=WEEK)
    assert (shrunk.before, shrunk.target) == (32, 8)
    assert "the last 7 days had 1000 messages/s and 4 consumers" in shrunk.reason


@pytest.mark.parametrize(
    ("signals", "other", "why"),
    [
        (QUIET, {"forecast": WEEK, "resizes": (ended(23),)}, "it was resized within a day"),
        (QUIET, {"forecast": WEEK, "resizes": (ended(23, 64, 32),)}, "it was resized within a day"),
        # It was blocked for days.
        (
            QUIET,
            {"forecast": WEEK, "resizes": (PastResize(NOW_MS - 3 * DAY_MS, NOW_MS - DAY_MS // 2, 4, 32),)},
            "it was resized within a day",
        ),
        (
            QUIET,
            {"forecast": WEEK, "resizes_known_since_ms": NOW_MS - DAY_MS // 2},
            "not all resizes of the last day are known",
        ),
        (QUIET, {"forecast": replace(WEEK, days=6)}, "6 of the last 7 days are known"),
        (QUIET, {"forecast": replace(WEEK, peak_tps=20.0)}, "it is not a quiet hour"),
        (QUIET, {"forecast": WEEK, "outlook": AnalysisOutlook(verdict="wait")}, "A9 states wait"),
        (replace(QUIET, is_static=True), {"forecast": WEEK}, "static topics cannot"),
    ],
)
def test_shrink_waits_for_what_makes_it_safe(signals, other, why):
    kept = verdict(signals, **other)
    assert kept.target is None
    assert why in kept.reason


def test_peak_of_the_week_with_its_reserve_has_to_fit():
    assert verdict(QUIET, forecast=replace(WEEK, peak_tps=10_000.0)).target is None


def test_sets_that_differ_do_not_shrink():
    sets = {"broker-a": a_set(queues=32, write_tps=1.0), "broker-b": a_set(queues=16, write_tps=1.0)}
    assert "its sets have different counts" in verdict(replace(QUIET, sets=sets), forecast=WEEK).reason


def test_daily_peak_is_grown_for_before_it_comes():
    signals = a_topic(sets={"broker-a": a_set(write_tps=10.0)}, groups={"billing": a_group(clients=4, lag=0, trend=0)})
    week = replace(WEEK, expected_tps=3000.0, expected_clients=24, queue_tps=100.0)
    seen = tuple(foretold(signals, 0.0, week, AnalysisOutlook()))
    grown = decide(AUTO, Evidence(signals=signals, seen=seen, held=seen, forecast=week), NOW_MS)
    assert [each.kind for each in seen] == [FindingKind.DAILY_PEAK_AHEAD]
    assert grown.target == 64


def test_proposal_of_the_analysis_alone_is_only_proposed():
    outlook = AnalysisOutlook(verdict="grow", queues_proposed=32)
    seen = tuple(foretold(QUIET, 0.0, WEEK, AnalysisOutlook(verdict="grow", queues_proposed=64)))
    found = decide(AUTO, Evidence(signals=QUIET, seen=seen, held=seen, outlook=outlook), NOW_MS)
    assert (found.target, found.mode) == (64, PolicyMode.PROPOSE)
    assert "only foretold by A9" in found.reason


# Properties

POLICIES = st.builds(
    lambda least, more, step, mode: ScalingPolicy(
        topic="orders", queues_min=least, queues_max=min(1024, least + more), step=step, mode=mode
    ),
    st.integers(1, 64),
    st.integers(0, 960),
    st.floats(1.05, 8.0),
    st.sampled_from(PolicyMode),
)
RATES = st.one_of(st.none(), st.floats(0, 1e5))
GROUPS = st.builds(
    a_group,
    st.sampled_from([None, *GroupKind]),
    st.one_of(st.none(), st.integers(0, 100)),
    st.integers(0, 8),
    st.one_of(st.none(), st.integers(0, 10**6)),
    st.one_of(st.none(), st.floats(-1e4, 1e4)),
    RATES,
)
SETS = st.builds(
    a_set, st.integers(1, 1024), st.tuples(RATES, RATES), queue_tps_limit=RATES, queue_wait_ms=RATES, put_tps=RATES
)
FORECASTS = st.builds(
    TrafficForecast,
    days=st.integers(0, 7),
    peak_tps=RATES,
    peak_clients=st.one_of(st.none(), st.integers(0, 100)),
    expected_tps=RATES,
    expected_clients=st.one_of(st.none(), st.integers(0, 100)),
    queue_tps=RATES,
)
RESIZES = st.lists(st.builds(ended, st.floats(0, 80), st.integers(1, 64), st.integers(1, 64)), max_size=4).map(tuple)
EVIDENCE = st.builds(
    lambda sets, groups, flags, slope, forecast, resizes: evidence_of(
        a_topic(
            sets={f"broker-{n}": each for n, each in enumerate(sets)},
            groups={f"group-{n}": each for n, each in enumerate(groups)},
            is_ordered=flags[0],
            is_static=flags[1],
        ),
        put_slope=slope,
        forecast=forecast,
        resizes=resizes,
    ),
    st.lists(SETS, max_size=3),
    st.lists(GROUPS, max_size=3),
    st.tuples(st.sampled_from([None, False, True]), st.sampled_from([None, False, True])),
    st.floats(-100, 100),
    FORECASTS,
    RESIZES,
)


@given(POLICIES, EVIDENCE)
def test_whatever_is_seen_limits_pauses_and_orders_are_kept(policy, evidence):
    found = decide(policy, evidence, NOW_MS)
    assert found.reason
    if found.is_change and found.mode is PolicyMode.AUTO:
        assert policy.mode is PolicyMode.AUTO
        assert (evidence.signals.is_ordered, evidence.signals.is_static) == (False, False)
    if found.target is not None:
        assert policy.queues_min <= found.target <= policy.queues_max
        assert found.target != found.before
        resizes = evidence.resizes.of_topic
        if found.target < found.before:
            assert all(NOW_MS - each.begun_unix_ms >= DAY_MS for each in resizes)
        else:
            grown = [each for each in resizes if each.after > each.before]
            assert sum(NOW_MS - each.begun_unix_ms < RAMP_MS for each in grown) < 2
    # A set that did not answer changes nothing.
    sets = {**evidence.signals.sets, "broker-z": replace(a_set(), write_queues=None)}
    assert decide(policy, replace(evidence, signals=replace(evidence.signals, sets=sets)), NOW_MS).target is None


def test_finding_of_a_group_with_missing_data_does_not_hide_what_another_needs():
    groups = {"billing": a_group(), "stock": a_group(clients=None)}
    assert verdict(a_topic(groups=groups)).is_change


def test_missing_rates_of_the_topic_are_a_reason_against_growth():
    missing = Finding(kind=FindingKind.MISSING_DATA, sentence="the write rates are not known")
    evidence = evidence_of(a_topic())
    assert decide(AUTO, replace(evidence, seen=(*evidence.seen, missing)), NOW_MS).target is None


@pytest.mark.parametrize("limit", [0.0, 5e-324, 1e-300])
def test_limit_that_is_measured_as_nothing_breaks_nothing(limit):
    signals = a_topic(sets={"broker-a": a_set(queue_tps_limit=limit)}, groups={})
    assert verdict(signals).target in {None, AUTO.queues_max}


@pytest.mark.parametrize("queue_tps", [5e-324, 1e-300])
def test_queue_that_carries_hardly_anything_breaks_nothing(queue_tps):
    forecast = replace(WEEK, queue_tps=queue_tps, expected_tps=1e5, expected_clients=100)
    assert verdict(QUIET, forecast=forecast).target is None
    assert list(foretold(QUIET, 0.0, forecast, AnalysisOutlook()))
