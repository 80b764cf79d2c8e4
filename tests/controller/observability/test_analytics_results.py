"""What the Spark analyses have published, as Prometheus sees it at the controller."""

import json
from datetime import UTC, datetime

import pytest

from controller.observability.analytics_results import AnalysisResult, ResultsReader, samples


def a_result(name, *rows, **values):
    defaults = {"finished_at": datetime(2026, 11, 21, 20, tzinfo=UTC), "duration_seconds": 2.5, "input_rows": 7}
    return AnalysisResult(name=name, rows=list(rows), **(defaults | values))


def shown(*results):
    prefix = "rocketmq_analytics_"
    return {(each.family.name.removeprefix(prefix), each.labels): each.value for each in samples(results)}


def of_broker(broker_id, **values):
    return {"cluster": "C", "broker_name": "broker-a", "broker_id": broker_id, **values}


def test_each_result_has_its_time_input_rows_and_duration():
    found = shown(a_result("restart_storms"))
    assert found == {
        ("last_success_timestamp_seconds", ("restart_storms",)): 1_795_291_200,
        ("run_duration_seconds", ("restart_storms",)): 2.5,
        ("input_rows", ("restart_storms",)): 7,
    }


@pytest.mark.parametrize(
    ("name", "column", "metric", "value"),
    [
        ("availability", "availability", "broker_availability_ratio", 0.25),
        ("flapping", "peak", "flapping_score", 0.75),
        ("timeout_recommendation", "recommended_timeout_s", "recommended_timeout_seconds", 0.75),
        ("heartbeat_gaps", "miss_ratio", "missed_heartbeat_ratio", 0.75),
    ],
)
def test_set_has_the_value_of_its_worst_broker(name, column, metric, value):
    rows = [of_broker(0, **{column: 0.75}), of_broker(1, **{column: 0.25}), of_broker(2, **{column: None})]
    assert shown(a_result(name, *rows))[metric, ("C", "broker-a")] == value


@pytest.mark.parametrize("name", ["timeout_recommendation", "heartbeat_gaps"])
def test_rows_with_too_little_history_have_no_series(name):
    column = {"timeout_recommendation": "recommended_timeout_s", "heartbeat_gaps": "miss_ratio"}[name]
    few = of_broker(0, confidence="low", **{column: 3.0})
    enough = {**of_broker(1, confidence="high", **{column: 0.5}), "broker_name": "broker-b"}
    found = shown(a_result(name, few, enough))
    assert {labels for _, labels in found} == {(name,), ("C", "broker-b")}


def a_move(now, proposed):
    return {"kind": "proposal", "write_now": now, "write_proposed": proposed}


def test_divergence_is_summed_days_left_are_the_minimum_and_proposals_are_counted():
    found = shown(
        a_result("divergence", {"seconds": 2.5}, {"seconds": 1}, {"seconds": None}),
        a_result("capacity", *({"resource": "topics", "days_left": days} for days in (90, 30, None))),
        a_result("queue_balance", a_move(8, 11), a_move(2, 3), a_move(12, 8), {"kind": "broker"}),
        a_result("queue_scaling", {"kind": "topic", "verdict": "grow"}, {"kind": "proposal", "verdict": "grow"}),
    )
    assert found["divergence_seconds", ()] == 3.5
    assert found["capacity_days_left", ("topics",)] == 30
    kinds = {labels[0]: value for (name, labels), value in found.items() if name == "queue_recommendations"}
    assert kinds == {"move": 4, "grow": 1, "shrink": 0}


def test_phases_of_failovers_are_shown_by_cluster():
    lead = {"kind": "phase", "cluster": "C", "phase": "lead", "p95_s": 0.3}
    failover = {"kind": "failover", "cluster": "C", "phase": None, "p95_s": None}
    found = shown(a_result("failover_timeline", lead, lead | {"cluster": "D", "p95_s": None}, failover))
    assert {labels: value for (name, labels), value in found.items() if name == "failover_phase_seconds"} == {
        ("C", "lead"): 0.3
    }


def test_proposals_of_a_truncated_result_are_not_counted():
    found = shown(
        a_result("queue_balance", a_move(1, 2), row_count=10_001),
        a_result("queue_scaling", {"kind": "topic", "verdict": "grow"}, row_count=10_001),
        a_result("divergence", {"seconds": 2.5}, row_count=10_001),
    )
    assert not [name for name, _ in found if name == "queue_recommendations"]
    assert found["divergence_seconds", ()] == 2.5


def test_changed_file_is_read_again_and_a_broken_one_keeps_its_last_values(tmp_path):
    reader = ResultsReader(tmp_path)
    assert reader.read() == ()
    place = tmp_path / "results/latest"
    place.mkdir(parents=True)
    path = place / "flapping.json"
    result = {"name": "flapping", "finished_at": "2026-11-21T20:00:00Z", "duration_seconds": 1, "input_rows": 1}
    path.write_text(json.dumps(result | {"version": 1, "rows": [of_broker(0, peak=4.0)]}))
    assert {each.value for each in reader.read() if each.labels == ("C", "broker-a")} == {4.0}
    path.write_text("{")
    assert {each.value for each in reader.read() if each.labels == ("C", "broker-a")} == {4.0}
    path.write_text(json.dumps(result | {"rows": [of_broker(0, peak=5.0)]}))
    assert {each.value for each in reader.read() if each.labels == ("C", "broker-a")} == {5.0}


def test_deleted_file_has_no_series_and_a_missing_folder_keeps_its_results(tmp_path):
    reader = ResultsReader(tmp_path)
    place = tmp_path / "results/latest"
    place.mkdir(parents=True)
    result = {"finished_at": "2026-11-21T20:00:00Z", "duration_seconds": 1, "input_rows": 1, "rows": []}
    for name in ("flapping", "capacity"):
        (place / f"{name}.json").write_text(json.dumps(result | {"name": name}))
    (place / ".capacity.json.tmp").write_text("{")
    (place / "deep.json").write_text("[" * 100_000)
    names = {"flapping", "capacity"}
    assert {each.labels[0] for each in reader.read()} == names
    tmp_path.rename(tmp_path.with_name("away"))
    assert {each.labels[0] for each in reader.read()} == names
    tmp_path.with_name("away").rename(tmp_path)
    (place / "capacity.json").unlink()
    assert {each.labels[0] for each in reader.read()} == {"flapping"}
