"""Which happening of a resize becomes which line, and what is only counted."""

import pytest
from fakes.in_process_controller import InProcessController
from msgspec.structs import replace
from resize_builders import a_resize, went

from controller.config import CONTROLLER
from controller.observability.log_events import EVENTS
from controller.scaling.execution.events import (
    ACTIONS,
    CONFLICTS,
    DURATION,
    ENDED,
    PROBLEM_CHARS_MAX,
    REOPENED,
    ROUNDS_FAILED,
    SENTENCE_CHARS_MAX,
    ResizeActionsFailed,
    ResizeCreated,
    ResizeRoundFailed,
    phase_entered,
)
from serving.logging.events import common_keys
from serving.shapes.scaling import FINISHED, ResizePhase
from store.store import OutcomeUnknown

WHICH = {"resize": "resize-1", "topic": "TopicTest", "kind": "shrink"}
RUNNING = went(a_resize(), ResizePhase.PRECHECK, ResizePhase.WRITE_DOWN, ResizePhase.QUIESCE)


class Watched:
    """What is logged and counted of resizes."""

    def __init__(self, controller):
        self.lines = controller.lines
        self.telemetry, self.emit = controller.telemetry, controller.telemetry.emit
        self.clock = controller.clock

    def count(self, counter):
        return self.telemetry.counters[counter].counts()

    def taken(self):
        """Return the new lines by event, without what every line has."""
        lines = self.lines.decoded()
        self.lines.clear()
        for line in lines:
            event = next(each for each in EVENTS if each.name == line["event"])
            assert line["level"] == event.level.word
            assert set(line) <= {*event.keys, *(key.name for key in common_keys(CONTROLLER))}
        return [{key: value for key, value in line.items() if key not in {"timestamp", "level"}} for line in lines]

    def enter(self, resize, phase, evidence=(), **changes):
        """Let a resize enter a phase a minute later, and return it."""
        after = replace(went(resize, phase, evidence=evidence), **changes)
        self.emit(phase_entered(resize, after))
        return after


@pytest.fixture
async def watched(tmp_path):
    async with InProcessController(tmp_path) as controller:
        controller.lines.clear()
        yield Watched(controller)


async def test_new_resize_is_one_line_with_who_wanted_it_and_why(watched):
    watched.emit(ResizeCreated(operation=a_resize(requested_by="alice", reason="sale is over")))
    assert watched.taken() == [
        {
            "event": "resize_created",
            **WHICH,
            "broker_sets": 1,
            "queues": 4,
            "requested_by": "alice",
            "reason": "sale is over",
        }
    ]


async def test_phase_is_one_line_with_how_long_the_former_one_lasted_and_why_it_ended(watched):
    watched.enter(RUNNING, ResizePhase.LATE, ["no message came for 60 s"])
    assert watched.taken() == [
        {
            "event": "resize_phase_entered",
            **WHICH,
            "from_phase": "QUIESCE",
            "to_phase": "LATE",
            "lasted_ms": 60_000,
            "evidence": ["no message came for 60 s"],
            "problem": "",
        }
    ]


async def test_phases_within_a_second_are_all_logged(watched):
    resize = a_resize()
    phases = [ResizePhase.PRECHECK, ResizePhase.SEED, ResizePhase.READ_UP, ResizePhase.ASSIGN, ResizePhase.WRITE_UP]
    phases += [ResizePhase.VERIFY, ResizePhase.DONE]
    for phase in phases:
        resize = watched.enter(resize, phase)
    assert [line["to_phase"] for line in watched.taken()] == [phase.value for phase in phases]


@pytest.mark.parametrize(
    ("phase", "event"),
    [
        (ResizePhase.BLOCKED, "resize_blocked"),
        (ResizePhase.CONFLICT, "resize_conflicted"),
        (ResizePhase.REOPEN, "resize_reopened"),
        (ResizePhase.DONE, "resize_finished"),
        (ResizePhase.ABORTED, "resize_aborted"),
        (ResizePhase.REJECTED, "resize_rejected"),
    ],
)
async def test_phase_in_which_somebody_acts_or_nobody_any_more_has_a_name_of_its_own(watched, phase, event):
    watched.enter(RUNNING, phase, problem="group g is offline")
    (line,) = watched.taken()
    assert (line["event"], line["problem"]) == (event, "group g is offline")
    assert ("duration_ms" in line) == (phase in FINISHED)


async def test_long_evidence_and_problems_are_cut(watched):
    groups = [f"group g{number} {'x' * 400}" for number in range(15)]
    watched.enter(RUNNING, ResizePhase.BLOCKED, groups, problem="; ".join(groups))
    watched.emit(ResizeActionsFailed(operation=RUNNING, failures=tuple(groups)))
    blocked, failed = watched.taken()
    assert {len(each) for each in blocked["evidence"][:-1]} == {SENTENCE_CHARS_MAX}
    assert blocked["evidence"][-1] == f"and {15 - len(blocked['evidence'][:-1])} more"
    assert len(blocked["problem"]) == PROBLEM_CHARS_MAX
    assert (failed["failed"], failed["failures"][-1]) == (15, "and 12 more")


async def test_conflicts_reopened_queues_and_ends_are_counted(watched):
    conflict = watched.enter(RUNNING, ResizePhase.CONFLICT)
    # Resumed by an operator: nothing was opened again.
    reopened = watched.enter(conflict, ResizePhase.REOPEN)
    drained = went(reopened, ResizePhase.QUIESCE, ResizePhase.READ_DOWN)
    reopened = watched.enter(drained, ResizePhase.REOPEN, reopened=1)
    watched.enter(reopened, ResizePhase.DONE)
    watched.enter(RUNNING, ResizePhase.ABORTED)
    assert (watched.count(CONFLICTS), watched.count(REOPENED)) == ({(): 1}, {(): 1})
    assert watched.count(ENDED) == {("aborted",): 1, ("done",): 1, ("rejected",): 0}
    durations = watched.telemetry.timers[DURATION].histograms()
    assert (sum(durations["shrink",].buckets), sum(durations["grow",].buckets)) == (2, 0)
    # Three phases to RUNNING, then six, and then one.
    assert durations["shrink",].sum == 60 * (3 + 5) + 60 * (3 + 1) + 60


async def test_changes_of_brokers_that_fail_are_counted_and_logged(watched):
    watched.emit(ResizeActionsFailed(operation=RUNNING, failures=("10.0.0.1:10911: no answer within 5000 ms",)))
    assert watched.count(ACTIONS) == {("done",): 0, ("failed",): 1}
    assert watched.taken() == [
        {
            "event": "resize_actions_failed",
            **WHICH,
            "phase": "QUIESCE",
            "failed": 1,
            "failures": ["10.0.0.1:10911: no answer within 5000 ms"],
        }
    ]


async def test_failed_round_has_a_traceback_only_if_it_is_a_fault_of_ours(watched):
    watched.emit(ResizeRoundFailed(operation=RUNNING, error=OutcomeUnknown("etcd does not answer"), is_fault=False))
    watched.emit(ResizeRoundFailed(operation=RUNNING, error=KeyError("broker-b"), is_fault=True))
    of_store, ours = watched.taken()
    assert (of_store["event"], of_store["error"]) == ("resize_round_failed", "etcd does not answer")
    assert "exception" not in of_store
    assert ours["exception"]
    assert watched.count(ROUNDS_FAILED) == {(): 2}


async def test_repeated_failures_of_one_resize_leave_the_lines_of_others(watched):
    other = replace(RUNNING, id="resize-2", topic="Orders")
    for _ in range(20):
        watched.emit(ResizeActionsFailed(operation=RUNNING, failures=("no answer",)))
    watched.emit(ResizeActionsFailed(operation=other, failures=("no answer",)))
    topics = [line["topic"] for line in watched.taken()]
    assert topics.count("Orders") == 1
    assert topics.count("TopicTest") == 5
