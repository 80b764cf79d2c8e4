import msgspec
import pytest
from fakes import recorded_rows

from controller.scaling.execution.events import RECORDED_CHARS_MAX, ResizeCreated, phase_entered
from controller.scaling.resize.operation import QueueCounts, ResizeOperation, SetResize
from controller.scaling.rules.commands import aborted
from serving.shapes.scaling import ResizeKind, ResizePhase

CREATED_MS = 1_772_409_600_000


def an_operation(**values):
    sets = (
        SetResize(broker_name="broker-a", cluster="east", before=QueueCounts(8, 8), target=4),
        SetResize(broker_name="broker-b", cluster="east", before=QueueCounts(8, 6), target=4),
    )
    defaults = {
        "id": "orders.1",
        "topic": "orders",
        "kind": ResizeKind.SHRINK,
        "sets": sets,
        "phase": ResizePhase.PLANNED,
        "phase_since_unix_ms": CREATED_MS,
        "created_unix_ms": CREATED_MS,
        "requested_by": "an operator",
        "reason": "too many queues",
    }
    return ResizeOperation(**(defaults | values))


@pytest.fixture
def recorded(tmp_path):
    """From an event to the rows that land."""
    return lambda event: recorded_rows.recorded_events(tmp_path, "scaling", [event])


def test_new_operation_is_recorded_with_what_it_changes_on_each_set(recorded):
    (row,) = recorded(ResizeCreated(operation=an_operation()))
    assert (row["event_type"], row["step"], row["kind"], row["topic"]) == ("plan", "PLANNED", "shrink", "orders")
    assert (row["from_read"], row["from_write"], row["to_read"], row["to_write"]) == (16, 14, 8, 8)
    assert (row["broker_names"], row["set_clusters"]) == (["broker-a", "broker-b"], ["east", "east"])
    assert (row["set_reads"], row["set_writes"], row["set_targets"]) == ([8, 8], [8, 6], [4, 4])
    assert (row["cluster"], row["requested_by"], row["reason"]) == ("east", "an operator", "too many queues")
    assert row["created_time"] == "2026-03-02T00:00:00.000000Z"
    assert "former_step" not in row


def test_phase_is_recorded_with_how_long_the_one_before_took_and_what_ended_it(recorded):
    before = msgspec.structs.replace(an_operation(phase=ResizePhase.DRAIN), waited_ms=60_000)
    after = before.entered(ResizePhase.CONFIRM, CREATED_MS + 75_000, ["every group has consumed everything"])
    (row,) = recorded(phase_entered(before, after))
    assert (row["event_type"], row["former_step"], row["step"]) == ("step_started", "DRAIN", "CONFIRM")
    assert (row["duration_ms"], row["waited_ms"]) == (75_000, 60_000)
    assert row["evidence"] == ["every group has consumed everything"]


@pytest.mark.parametrize(
    ("phase", "event_type"),
    [
        (ResizePhase.DONE, "verified"),
        (ResizePhase.ABORTED, "rolled_back"),
        (ResizePhase.REJECTED, "rejected"),
        (ResizePhase.BLOCKED, "step_started"),
    ],
)
def test_end_of_an_operation_has_an_event_type_of_its_own(recorded, phase, event_type):
    before = an_operation(phase=ResizePhase.WATCH)
    after = before.entered(phase, CREATED_MS + 1, problem="a group does not consume")
    (row,) = recorded(phase_entered(before, after))
    assert (row["event_type"], row["step"]) == (event_type, phase.value)
    assert row["problem"] == "a group does not consume"


def test_grow_on_its_way_back_is_recorded_with_what_was_requested(recorded):
    sets = (SetResize(broker_name="broker-a", cluster="east", before=QueueCounts(4, 4), target=8),)
    back = aborted(an_operation(kind=ResizeKind.GROW, sets=sets, phase=ResizePhase.VERIFY, reached=2), CREATED_MS, "")
    (row,) = recorded(phase_entered(back, back.entered(ResizePhase.ABORTED, CREATED_MS + 1)))
    assert (row["event_type"], row["kind"], row["from_read"], row["to_read"]) == ("rolled_back", "grow", 4, 8)
    assert row["problem"] == "aborted by the operator"


def test_operation_of_two_clusters_has_no_single_one(recorded):
    sets = tuple(
        SetResize(broker_name=name, cluster=name, before=QueueCounts(4, 4), target=8) for name in ("east", "west")
    )
    (row,) = recorded(ResizeCreated(operation=an_operation(sets=sets)))
    assert "cluster" not in row
    assert row["set_clusters"] == ["east", "west"]


def test_long_sentences_are_cut(recorded):
    before = an_operation()
    after = before.entered(ResizePhase.BLOCKED, CREATED_MS + 1, ["x" * 9_999], problem="y" * 9_999)
    (row,) = recorded(phase_entered(before, after))
    assert (len(row["evidence"][0]), len(row["problem"])) == (RECORDED_CHARS_MAX, RECORDED_CHARS_MAX)


def test_clock_of_the_leader_before_that_is_ahead_makes_no_negative_duration(recorded):
    before = an_operation(phase=ResizePhase.DRAIN, phase_since_unix_ms=CREATED_MS + 5_000)
    after = before.entered(ResizePhase.CONFIRM, CREATED_MS)
    (row,) = recorded(phase_entered(before, after))
    assert row["duration_ms"] == 0
