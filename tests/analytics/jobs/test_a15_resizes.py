from datetime import UTC, datetime

import pytest
from hand_tables import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    MONDAY_US,
    SECOND_US,
    days,
    found,
    found_by_day,
    in_order,
    row,
    tables,
)

from analytics.jobs.a15_resizes import JOB
from analytics.shared.job import Span

#: An hour of the first day at which resizes of these tests are stored.
NOON = 12 * HOUR_US


def event(event_type, at_us, step, *, of="orders", created_us=NOON, former=None, s=None, sets=None, **values):
    """One row of `scaling`; `sets`: by broker set its cluster, write queues and target."""
    sets = sets or {"broker-a": ("c", 4, 8), "broker-b": ("c", 4, 8)}
    return row(
        event_type,
        at_us,
        source="controller",
        operation_id=f"{of}.{created_us}",
        topic=of,
        step=step,
        former_step=former,
        duration_ms=None if s is None else round(s * 1000),
        created_time=MONDAY_US + created_us,
        broker_names=list(sets),
        set_clusters=[each[0] for each in sets.values()],
        set_writes=[each[1] for each in sets.values()],
        set_targets=[each[2] for each in sets.values()],
        **{"kind": "grow", "reopened": 0, **values},
    )


def grown(at_us=NOON, **values):
    """A resize that takes five minutes, four of them in one phase."""
    about = {"created_us": at_us, **values}
    return [
        event("plan", at_us, "PLANNED", **about),
        event("step_started", at_us + 30 * SECOND_US, "SEED", former="PLANNED", s=30, **about),
        event("step_started", at_us + 270 * SECOND_US, "WATCH", former="SEED", s=240, evidence=["seeded"], **about),
        event("verified", at_us + 300 * SECOND_US, "DONE", former="WATCH", s=30, **about),
    ]


def sample(at_us, tps, *, topic="orders", **values):
    return row("sample", at_us, source="sampler", topic=topic, tps=tps, **values)


def of_group(at_us, lag, *, group="readers", **values):
    return sample(at_us, None, group=group, max_offset=1_000_000, consumer_offset=1_000_000 - lag, **values)


def results(spark, *, scaling=(), samples=(), decisions=(), span=None):
    inputs = tables(spark, scaling=scaling, offset_sample=samples, scaling_decision=decisions)
    return found(JOB, inputs, span or days(1))


def of_kind(rows, kind):
    return [each for each in rows if each["kind"] == kind]


def utc(at_us):
    return datetime.fromtimestamp((MONDAY_US + at_us) / 1e6, UTC).replace(tzinfo=None)


def naive(moment):
    return moment and moment.astimezone(UTC).replace(tzinfo=None)


@pytest.fixture(scope="module")
def finished(spark):
    """A grow that is done, with samples of its topic, and of one group, around it."""
    samples = [
        # 29 minutes before it, during it, and 29 after it; one is too early, and one too late.
        *(sample(NOON - n * MINUTE_US, 100.0) for n in (31, 29, 1)),
        *(sample(NOON + n * MINUTE_US, 300.0) for n in (1, 2)),
        *(sample(NOON + 5 * MINUTE_US + n * MINUTE_US, 480.0) for n in (0, 29, 30)),
        of_group(NOON - 2 * MINUTE_US, 500, consumers=8),
        of_group(NOON - MINUTE_US, 700, consumers=9),
        of_group(NOON + MINUTE_US, 900, consumers=9),
        of_group(NOON + 6 * MINUTE_US, 0, consumers=16),
        sample(NOON - MINUTE_US, 9_999.0, topic="payments"),
        sample(NOON - MINUTE_US, 9_999.0, cluster="other"),
    ]
    return results(spark, scaling=grown(requested_by="autoscaler", reason="clients without a queue"), samples=samples)


def test_resize_that_is_done_shows_what_it_changed_and_how_long_it_took(finished):
    (operation,) = of_kind(finished, "operation")
    assert operation["cluster"] == "c"
    assert (operation["topic"], operation["resize"], operation["result"]) == ("orders", "grow", "done")
    assert (operation["sets"], operation["write_from"], operation["write_to"]) == (2, 8, 16)
    assert (operation["phase"], operation["seconds"]) == ("DONE", 300.0)
    assert (naive(operation["created"]), naive(operation["ended"])) == (utc(NOON), utc(NOON + 300 * SECOND_US))
    assert (operation["requested_by"], operation["reason"]) == ("autoscaler", "clients without a queue")


def test_longest_phase_is_named_with_what_ended_it(finished):
    (operation,) = of_kind(finished, "operation")
    assert (operation["longest_phase"], operation["longest_s"], operation["evidence"]) == ("SEED", 240.0, ["seeded"])


def test_time_of_a_resize_is_that_of_its_phases(finished):
    phases = {each["phase"]: (each["entries"], each["seconds"]) for each in of_kind(finished, "phase")}
    assert phases == {"PLANNED": (1, 30.0), "SEED": (1, 240.0), "WATCH": (1, 30.0)}


def test_rates_are_those_of_the_half_hours_before_and_after_and_of_the_time_between(finished):
    (operation,) = of_kind(finished, "operation")
    assert [operation[f"samples_{window}"] for window in ("before", "during", "after")] == [2, 2, 2]
    assert [operation[f"tps_{window}"] for window in ("before", "during", "after")] == [100.0, 300.0, 480.0]
    assert (operation["queue_tps_before"], operation["queue_tps_after"]) == (12.5, 30.0)


def test_group_shows_how_far_behind_it_was(finished):
    (group,) = of_kind(finished, "group")
    assert (group["group"], group["operation_id"], group["result"]) == ("readers", f"orders.{NOON}", "done")
    assert [group[f"lag_{window}"] for window in ("before", "during", "after")] == [600.0, 900.0, 0.0]
    assert [group[f"lag_max_{window}"] for window in ("before", "during", "after")] == [700, 900, 0]
    assert [group[f"consumers_{window}"] for window in ("before", "during", "after")] == [9, 9, 16]


def test_resize_without_samples_has_no_rates_instead_of_zeros(spark):
    (operation,) = of_kind(results(spark, scaling=grown()), "operation")
    assert [operation[f"samples_{window}"] for window in ("before", "during", "after")] == [0, 0, 0]
    assert [operation[f"tps_{window}"] for window in ("before", "during", "after")] == [None] * 3
    assert (operation["queue_tps_before"], operation["queue_tps_after"]) == (None, None)


def test_lag_of_an_unknown_offset_is_unknown(spark):
    unknown = sample(NOON - MINUTE_US, None, group="readers", max_offset=5, consumers=1)
    (group,) = of_kind(results(spark, scaling=grown(), samples=[unknown]), "group")
    assert (group["lag_before"], group["lag_max_before"], group["consumers_before"]) == (None, None, 1)


def test_offset_beyond_the_end_is_no_negative_lag(spark):
    (group,) = of_kind(results(spark, scaling=grown(), samples=[of_group(NOON, -7)]), "group")
    assert (group["lag_during"], group["lag_max_during"]) == (0.0, 0)


def test_minute_that_two_samplers_saw_counts_once(spark):
    samples = [sample(NOON + at_us, tps) for at_us, tps in ((0, 10.0), (SECOND_US, 30.0), (MINUTE_US, 50.0))]
    (operation,) = of_kind(results(spark, scaling=grown(), samples=samples), "operation")
    assert (operation["samples_during"], operation["tps_during"]) == (2, 40.0)


def test_rate_of_a_topic_is_taken_from_rows_of_groups_where_it_has_no_own(spark):
    samples = [sample(NOON, 70.0, group=name) for name in ("readers", "writers")]
    (operation,) = of_kind(results(spark, scaling=grown(), samples=samples), "operation")
    assert (operation["samples_during"], operation["tps_during"]) == (1, 70.0)


@pytest.mark.parametrize(("event_type", "result"), [("rolled_back", "aborted"), ("rejected", "rejected")])
def test_resize_that_was_not_done_keeps_its_queues(spark, event_type, result):
    end = event(event_type, NOON + MINUTE_US, "END", former="PLANNED", s=60, problem="an operator's wish")
    samples = [sample(NOON + 2 * MINUTE_US, 80.0)]
    rows = results(spark, scaling=[*grown()[:1], end], samples=samples)
    (operation,) = of_kind(rows, "operation")
    assert (operation["result"], operation["problem"]) == (result, "an operator's wish")
    assert operation["queue_tps_after"] == 10.0


def test_undone_grow_is_shown_as_it_was_planned(spark):
    back = {"broker-a": ("c", 8, 4), "broker-b": ("c", 8, 4)}
    undone = [
        *grown()[:2],
        event("step_started", NOON + MINUTE_US, "WRITE_DOWN", former="SEED", s=30, kind="shrink", sets=back),
        event("rolled_back", NOON + 2 * MINUTE_US, "ABORTED", former="WRITE_DOWN", s=60, kind="shrink", sets=back),
    ]
    (operation,) = of_kind(results(spark, scaling=undone), "operation")
    assert (operation["resize"], operation["write_from"], operation["write_to"]) == ("grow", 8, 16)


def test_blocked_resize_runs_until_the_end_of_the_window_and_names_what_it_waits_for(spark):
    blocked = event("step_started", NOON + HOUR_US, "BLOCKED", former="PLANNED", s=3600, problem="readers is behind")
    rows = results(spark, scaling=[*grown()[:1], blocked], samples=[sample(DAY_US - MINUTE_US, 5.0)])
    (operation,) = of_kind(rows, "operation")
    assert (operation["result"], operation["phase"], operation["ended"]) == ("running", "BLOCKED", None)
    assert operation["seconds"] == 12 * 3600
    assert (operation["longest_phase"], operation["longest_s"]) == ("BLOCKED", 11 * 3600.0)
    assert operation["evidence"] == ["readers is behind"]
    assert (operation["samples_during"], operation["tps_during"]) == (1, 5.0)


def test_phase_that_was_entered_again_counts_each_time(spark):
    again = [
        *grown()[:1],
        event("step_started", NOON + 10 * SECOND_US, "DRAIN", former="PLANNED", s=10),
        event("step_started", NOON + 40 * SECOND_US, "REOPEN", former="DRAIN", s=30, reopened=1),
        event("step_started", NOON + 50 * SECOND_US, "DRAIN", former="REOPEN", s=10, reopened=1),
        event("verified", NOON + 100 * SECOND_US, "DONE", former="DRAIN", s=50, reopened=1),
    ]
    rows = results(spark, scaling=again)
    (operation,) = of_kind(rows, "operation")
    phases = {each["phase"]: (each["entries"], each["seconds"]) for each in of_kind(rows, "phase")}
    assert operation["reopened"] == 1
    assert (operation["longest_phase"], operation["longest_s"]) == ("DRAIN", 50.0)
    assert phases["DRAIN"] == (2, 80.0)


def test_resize_over_two_clusters_is_shown_for_each(spark):
    sets = {"a": ("east", 4, 8), "b": ("west", 6, 12), "c": ("west", 6, 12)}
    samples = [sample(NOON - MINUTE_US, tps, cluster=name) for name, tps in (("east", 8.0), ("west", 24.0))]
    rows = of_kind(results(spark, scaling=grown(sets=sets), samples=samples), "operation")
    shown = {
        each["cluster"]: (each["sets"], each["write_from"], each["write_to"], each["queue_tps_before"]) for each in rows
    }
    assert shown == {"east": (1, 4, 8, 2.0), "west": (2, 12, 24, 2.0)}


def test_resize_over_midnight_has_the_samples_of_both_days(spark):
    at_us = DAY_US - 2 * MINUTE_US
    samples = [sample(at_us + n * MINUTE_US, float(n + 50)) for n in (-40, -20, 0, 1, 2, 4, 6, 20)]
    groups = [of_group(at_us + n * MINUTE_US, 10 * (n + 50), consumers=n + 50) for n in (-20, 1, 3, 20)]
    inputs = tables(spark, scaling=grown(at_us), offset_sample=[*samples, *groups])
    rows = found(JOB, inputs, days(2))
    (operation,) = of_kind(rows, "operation")
    assert [operation[f"samples_{window}"] for window in ("before", "during", "after")] == [1, 4, 2]
    assert in_order(found_by_day(JOB, inputs, days(2))) == in_order(rows)


def test_resize_stored_after_midnight_has_the_samples_of_the_evening(spark):
    at_us = DAY_US + MINUTE_US
    inputs = tables(spark, scaling=grown(at_us), offset_sample=[sample(DAY_US - 20 * MINUTE_US, 7.0)])
    (operation,) = of_kind(found_by_day(JOB, inputs, days(2)), "operation")
    assert (operation["samples_before"], operation["tps_before"]) == (1, 7.0)


def test_decisions_are_counted_by_topic_verdict_and_finding(spark):
    def decision(event_type, at_us, finding=None, topic="orders"):
        return row(event_type, at_us, cluster=None, source="controller", topic=topic, finding=finding)

    decisions = [
        decision("proposed", NOON, "clients_without_queue"),
        decision("proposed", DAY_US + NOON, "clients_without_queue"),
        decision("proposed", NOON, "writes_near_limit"),
        decision("resized", NOON + MINUTE_US, "clients_without_queue"),
        decision("refused", NOON, "clients_without_queue", topic="payments"),
        decision("kept", NOON),
    ]
    inputs = tables(spark, scaling_decision=decisions)
    rows = found(JOB, inputs, days(2))
    counts = {(each["topic"], each["verdict"], each["finding"]): each["decisions"] for each in rows}
    assert counts == {
        ("orders", "proposed", "clients_without_queue"): 2,
        ("orders", "proposed", "writes_near_limit"): 1,
        ("orders", "resized", "clients_without_queue"): 1,
        ("payments", "refused", "clients_without_queue"): 1,
        ("orders", "kept", None): 1,
    }
    (twice,) = (each for each in rows if each["decisions"] == 2)
    assert (naive(twice["first"]), naive(twice["last"])) == (utc(NOON), utc(DAY_US + NOON))
    assert in_order(found_by_day(JOB, inputs, days(2))) == in_order(rows)


def test_resize_that_ended_before_the_window_is_not_in_it(spark):
    rows = results(spark, scaling=grown(NOON), samples=[sample(DAY_US, 1.0)], span=Span(*days(1, first=1)))
    assert rows == []
