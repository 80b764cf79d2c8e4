"""What lands in the history of an offset manager: one row for a group in a topic on a set, whatever happened to it."""

import pytest
from fakes import recorded_rows

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.entry_keys import EntryKey
from controller.offsets.guard.outcomes import Guarded, GuardReport, Outcome
from controller.offsets.guard.rules import Action, GuardDecision, OffsetCandidate, Reason
from controller.offsets.locks.holders import HeldGroupQueue
from controller.offsets.locks.overlaps import (
    ClientPair,
    ClosedOverlap,
    OpenOverlap,
    Overlap,
    OverlapEnd,
)
from controller.offsets.locks.replay import Promotion, ReplayedQueue, ReplayReport
from controller.offsets.locks.replay_rules import ReplayOutcome
from controller.offsets.mirror.changes import ReadState
from controller.offsets.mirror.masters import MasterRun, SetName
from controller.offsets.mirror.regressions import UNWANTED, Regression, RegressionCause, SetQueue
from controller.offsets.recording.guard_rows import GuardRunRows
from controller.offsets.recording.offset_recorder import OffsetRecorder
from controller.offsets.recording.offset_rows import ChangedOffset, OperatorChange
from controller.offsets.values import DELETED, GroupTopic, QueueKey, StoredOffset
from history.offset_families import OFFSET_REGRESSION, UNWANTED_CAUSES
from remoting.admin.message_queues import MessageQueue

SET = SetName("DefaultCluster", "broker-a")
OLD, NEW = "10.0.0.1:10911", "10.0.0.2:10911"


@pytest.fixture
def recorded(tmp_path):
    """From a family and what is done with an OffsetRecorder to the rows of it that land."""
    return lambda family, work: recorded_rows.recorded(
        tmp_path, family, lambda recorder: work(OffsetRecorder(recorder))
    )


def a_read(address, epoch, requested_ms):
    return ReadState(
        MasterRun(address=address, master_epoch=epoch, boot_unix_ms=1), requested_ms, requested_ms + 10, None
    )


def a_regression(queue_id, before, after, *, topic="orders", cause=RegressionCause.ROLE_CHANGE):
    return Regression(
        queue=SetQueue(SET, EntryKey(topic, "billing"), queue_id),
        cause=cause,
        unix_ms=9_000,
        from_offset=before,
        to_offset=after,
        former=a_read(OLD, 4, 1_000),
        now=a_read(NEW, 5, 6_000),
    )


def a_change(queue_id, before, after):
    def stored(offset):
        return None if offset is None else StoredOffset(offset)

    of = GroupTopic("DefaultCluster", "", "billing", "orders", "broker-a")
    return OffsetChange(QueueKey(of, queue_id), stored(before), stored(after))


def test_regression_is_one_row_for_each_group_topic_and_cause(recorded):
    found = [
        a_regression(0, 900, 400),
        a_regression(1, 700, 650),
        a_regression(2, 80, None),
        a_regression(0, 50, 40, topic="refunds"),
        a_regression(3, 10, 9, cause=RegressionCause.REWIND),
    ]
    first, *others = recorded("offset_regression", lambda history: history.regressed(found))
    assert (first["cluster"], first["broker_name"], first["broker_addr"]) == ("DefaultCluster", "broker-a", NEW)
    assert (first["group"], first["topic"], first["cause"]) == ("billing", "orders", "role_change")
    assert (first["queues"], first["removed"], first["messages_again"]) == (3, 1, 550)
    assert (first["master_epoch"], first["former_addr"], first["interval_ms"]) == (5, OLD, 5_010)
    assert [(row["topic"], row["cause"], row["messages_again"]) for row in others] == [
        ("refunds", "role_change", 10),
        ("orders", "rewind", 1),
    ]


def test_causes_that_are_recorded_are_those_that_the_column_names():
    (doc,) = [column.doc for column in OFFSET_REGRESSION.columns if column.name == "cause"]
    assert all(cause.value in doc for cause in RegressionCause)
    assert set(UNWANTED_CAUSES) == UNWANTED


def test_reset_in_the_manager_counts_messages_again_and_skipped_apart(recorded):
    changes = [a_change(0, 900, 400), a_change(1, 100, 130), a_change(2, None, 5), a_change(3, DELETED, 6)]
    (row,) = recorded(
        "offset_change_by_operator", lambda history: history.changed_in_manager("reset", "alice", changes)
    )
    assert (row["event_type"], row["writer"], row["target"]) == ("reset", "alice", "manager")
    assert (row["queues"], row["created"], row["removed"], row["failed"]) == (4, 2, 0, 0)
    assert (row["messages_again"], row["messages_skipped"]) == (500, 30)
    assert "change_id" not in row


def test_deletion_counts_the_queues_that_have_no_offset_any_more(recorded):
    changes = [a_change(0, 900, DELETED), a_change(1, 100, None)]
    (row,) = recorded(
        "offset_change_by_operator", lambda history: history.changed_in_manager("delete", "alice", changes)
    )
    assert (row["event_type"], row["queues"], row["removed"], row["messages_again"]) == ("delete", 2, 2, 0)


def test_restore_at_a_broker_names_the_change_that_undoes_it_and_what_was_not_changed(recorded):
    offsets = [
        ChangedOffset(SET, "billing", "orders", before=400, after=900),
        ChangedOffset(SET, "billing", "orders", before=400, after=900, is_failed=True),
    ]
    change = OperatorChange("restore", "alice", "broker", change_id="r-7")
    (row,) = recorded("offset_change_by_operator", lambda history: history.changed(change, offsets))
    assert (row["target"], row["change_id"]) == ("broker", "r-7")
    assert (row["queues"], row["failed"], row["messages_skipped"]) == (1, 1, 500)


def guarded(queue_id, action, reason, outcome, *, saved=900, shown=400, offset=None, group="billing"):
    candidate = OffsetCandidate(group=group, topic="orders", queue_id=queue_id, saved=saved, shown=shown)
    decision = GuardDecision(action=action, reason=reason, offset=offset)
    return Guarded(candidate=candidate, decision=decision, outcome=outcome)


def test_run_of_the_guard_is_a_row_for_each_group_and_one_for_the_whole(recorded):
    run = GuardRunRows(SET, NEW, 5)
    for each in (
        guarded(0, Action.PUSH, Reason.BEHIND, Outcome.STORED, offset=900),
        guarded(1, Action.PUSH, Reason.BEHIND, Outcome.MOVED_ON, offset=900),
        guarded(2, Action.SET, Reason.TAIL_LOST, Outcome.STORED, offset=700),
        guarded(3, Action.LEAVE, Reason.UP_TO_DATE, Outcome.NOTHING),
        guarded(4, Action.REPORT, Reason.NO_PROOF, Outcome.NOTHING),
        guarded(5, Action.PUSH, Reason.BEHIND, Outcome.NOT_REACHED, offset=900),
        guarded(0, Action.LEAVE, Reason.NOT_SAVED, Outcome.NOTHING, saved=None, group="audit"),
    ):
        run.guarded("broker-a", each)
    report = GuardReport(broker_name="broker-a", address=NEW, took_ms=1_200, failure="the time was over")
    billing, audit, whole = recorded("guard_outcome", lambda history: history.guard_ended(run, report))
    places = ("pushed", "set_to_max", "left", "reported", "failed")
    assert (billing["event_type"], billing["group"], billing["queues"]) == ("guarded", "billing", 6)
    assert [billing[place] for place in places] == [1, 1, 2, 1, 1]
    assert (billing["messages_spared"], billing["messages_at_risk"]) == (500, 1_000)
    assert billing["reasons"][0] == "push behind 3"
    assert (audit["group"], audit["left"], audit["messages_at_risk"]) == ("audit", 1, 0)
    assert (whole["event_type"], whole["queues"], whole["duration_ms"]) == ("run", 7, 1_200)
    assert (whole["problem"], whole["master_epoch"], whole["broker_addr"]) == ("the time was over", 5, NEW)


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("action", Action)
def test_each_queue_of_a_run_counts_once(action, outcome):
    run = GuardRunRows(SET, NEW, None)
    run.guarded("broker-a", guarded(0, action, Reason.BEHIND, outcome, offset=900))
    (row, _) = run.rows(GuardReport(broker_name="broker-a", address=NEW))
    assert sum(row.columns[place] for place in ("pushed", "set_to_max", "left", "reported", "failed")) == 1


def held(queue_id):
    return HeldGroupQueue("billing", MessageQueue(topic="orders", broker_name="broker-a", queue_id=queue_id))


def test_replayed_locks_are_one_row_for_each_group_and_topic(recorded):
    results = tuple(
        ReplayedQueue(queue=held(number), client_id="c", outcome=outcome, elapsed_ms=elapsed_ms)
        for number, (outcome, elapsed_ms) in enumerate(
            [
                (ReplayOutcome.GRANTED, 120),
                (ReplayOutcome.GRANTED, 310),
                (ReplayOutcome.HELD_BY_ANOTHER, 900),
                (ReplayOutcome.UNCONFIRMED, 0),
            ]
        )
    )
    promotion = Promotion(broker_name="broker-a", address=NEW, former=OLD, promoted_ms=1)
    report = ReplayReport(promotion=promotion, results=results)
    (row,) = recorded("lock_event", lambda history: history.replayed(SET.cluster, report, 5))
    assert (row["event_type"], row["group"], row["topic"], row["broker_addr"]) == ("replayed", "billing", "orders", NEW)
    counts = [row[name] for name in ("queues", "granted", "held_by_another", "unanswered", "unconfirmed")]
    assert counts == [4, 2, 1, 0, 1]
    assert (row["duration_ms"], row["master_epoch"]) == (310, 5)


def test_overlap_of_holders_is_recorded_when_it_begins_and_when_it_ends(recorded):
    overlap = Overlap(held(3), ClientPair("10.0.0.7@1", "10.0.0.8@1"))

    def work(history):
        history.overlap_changed("DefaultCluster", OpenOverlap(overlap=overlap, since_ms=1_000))
        ended = ClosedOverlap(overlap=overlap, since_ms=1_000, until_ms=4_500, why=OverlapEnd.EXPIRED)
        history.overlap_changed("DefaultCluster", ended)

    began, ended = recorded("lock_event", work)
    assert (began["event_type"], began["queue_id"], began["clients"]) == (
        "overlap_began",
        3,
        ["10.0.0.7@1", "10.0.0.8@1"],
    )
    assert (ended["event_type"], ended["duration_ms"], ended["reason"]) == ("overlap_ended", 3_500, "expired")


def test_manager_without_a_history_records_nothing_and_fails_nowhere():
    history = OffsetRecorder()
    history.regressed([a_regression(0, 9, 5)])
    history.sessions_expired(3)
    history.leadership("leader_gained", "")
