"""Which commits, resets and deletions are stored, and what each entry is answered."""

import pytest
from commit_builders import UNIX_MS, a_row, a_table, a_value, a_writer, an_offset, applied

from offsets.commits.rules import (
    OffsetsRefused,
    Status,
    decide_commit,
    decide_deletion,
    decide_reset,
)
from offsets.commits.stored import DELETED, Source
from offsets.commits.table import Scope
from offsets.values import OFFSET_MAX, QUEUES_MAX

OK, STALE, UNKNOWN, REFUSED = Status.OK, Status.STALE, Status.UNKNOWN, Status.REFUSED
BILLING = Scope("DefaultCluster", "", group="billing")


def commit(table, *entries, **writer):
    return decide_commit(table, entries, a_writer(**writer))


def reset(table, *entries, **writer):
    return decide_reset(table, entries, a_writer("alice", **writer))


def statuses(decision):
    return [result.status for result in decision.results]


@pytest.mark.parametrize(
    ("stored", "offset", "epoch", "status", "after"),
    [
        (None, 5, 0, OK, 5),
        (None, 0, 0, OK, 0),
        (a_value(5), 6, 0, OK, 6),
        (a_value(5), 5, 0, OK, 5),
        (a_value(5), 4, 0, STALE, 5),
        (a_value(5, epoch=7), 6, 7, OK, 6),
        (a_value(5, epoch=7), 6, 0, STALE, 5),
        (a_value(5, epoch=7), 6, 8, STALE, 5),
        (a_value(5), 6, -1, REFUSED, 5),
        (None, 6, 7, STALE, None),
        (a_value(DELETED, epoch=7), 3, 7, OK, 3),
        (a_value(DELETED, epoch=7), 3, 0, STALE, None),
    ],
)
def test_commit_is_stored_only_forward_and_only_in_the_present_reset_epoch(stored, offset, epoch, status, after):
    table = a_table({0: stored} if stored else None)
    decision = commit(table, an_offset(offset, epoch=epoch))
    (result,) = applied(table, decision)
    assert result.status is status
    now = table.read(a_row(), 0)
    assert (None if now is None or now.is_deleted else now.offset) == after
    if status is STALE:
        assert result.stored == (None if stored is None or stored.is_deleted else stored)
        assert result.reason


def test_equal_offset_is_ok_and_changes_nothing():
    assert commit(a_table({0: a_value(5)}), an_offset(5)).changes == []


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (an_offset(-1), "negative"),
        (an_offset(OFFSET_MAX + 1), "above"),
        (an_offset(1, QUEUES_MAX), "queue id"),
        (an_offset(1, -1), "queue id"),
        (an_offset(1, row=a_row(group=" ")), "the group is blank"),
        (an_offset(1, row=a_row(broker="")), "the broker name is blank"),
        (an_offset(1, row=a_row(topic="t" * 256)), "256 characters"),
        (an_offset(1, row=a_row(topic="a\x1bb")), "cannot be shown"),
        (an_offset(1, row=a_row(namespace=" ")), "the namespace is blank"),
    ],
)
def test_entry_that_can_never_be_stored_is_refused_by_itself(entry, reason):
    decision = commit(a_table(), entry, an_offset(5, 3))
    assert statuses(decision) == [REFUSED, OK]
    assert reason in decision.results[0].reason
    assert [change.queue_id for change in decision.changes] == [3]


@pytest.mark.parametrize("writer", ["", "  ", "a\nb", "é" * 250])
def test_request_of_a_writer_that_cannot_be_stored_is_refused_as_a_whole(writer):
    with pytest.raises(OffsetsRefused, match="the writer"):
        commit(a_table(), an_offset(1), name=writer)


def test_entries_of_one_queue_count_one_after_the_other_and_become_one_change():
    decision = commit(a_table({0: a_value(5)}), an_offset(9), an_offset(7), an_offset(9), an_offset(12))
    assert statuses(decision) == [OK, STALE, OK, OK]
    (change,) = decision.changes
    assert (change.before.offset, change.after.offset) == (5, 12)


def test_offset_beyond_what_may_be_stored_is_refused_and_others_go_on():
    table = a_table({0: a_value(1), 1: a_value(1)}, offsets_max=3)
    decision = commit(table, an_offset(2), an_offset(2, 2), an_offset(2, 3))
    assert statuses(decision) == [OK, OK, REFUSED]
    table.stage(decision.changes)
    assert statuses(commit(table, an_offset(2, 4))) == [REFUSED], "what is being stored takes its room"
    applied(table, decide_deletion(table, BILLING, a_writer()))
    assert statuses(commit(table, an_offset(2, 5))) == [OK]


def test_nothing_is_decided_on_a_row_that_cannot_be_read_or_is_not_loaded():
    table = a_table()
    table.unreadable[a_row()] = "restore this key"
    assert commit(table, an_offset(1)).results[0].reason == "restore this key"
    assert statuses(commit(table, an_offset(1))) == statuses(reset(table, an_offset(1))) == [UNKNOWN]
    table.is_loaded = False
    assert statuses(commit(table, an_offset(1, row=a_row("other")))) == [UNKNOWN]


def test_reset_goes_back_in_a_new_epoch_and_no_commit_of_the_former_one_undoes_it():
    table = a_table({0: a_value(50)})
    (done,) = applied(table, reset(table, an_offset(10)))
    assert (done.stored.offset, done.stored.source, done.stored.writer) == (10, Source.OPERATOR, "alice")
    assert statuses(commit(table, an_offset(51))) == [STALE]
    assert statuses(commit(table, an_offset(11, epoch=done.stored.reset_epoch))) == [OK]


def test_epoch_has_the_time_and_the_lead_in_it_and_rises_on_any_clock():
    table = a_table(lead=7)
    (first,) = applied(table, reset(table, an_offset(5)))
    assert first.stored.reset_epoch == UNIX_MS * 1000 + 7
    (second,) = applied(table, reset(table, an_offset(5), unix_ms=UNIX_MS - 3_600_000))
    assert second.stored.reset_epoch > first.stored.reset_epoch
    assert second.stored.reset_epoch % 1000 == 7
    (other,) = reset(a_table(lead=8), an_offset(5)).results
    assert other.stored.reset_epoch != first.stored.reset_epoch


def test_deletion_leaves_an_epoch_that_the_next_commit_needs():
    table = a_table({0: a_value(5), 1: a_value(6)})
    decision = decide_deletion(table, BILLING, a_writer("alice"))
    assert [result.stored.offset for result in decision.results] == [5, 6]
    applied(table, decision)
    epoch = table.read(a_row(), 0).reset_epoch
    assert table.read(a_row(), 0).is_deleted
    assert statuses(commit(table, an_offset(9))) == [STALE]
    assert statuses(commit(table, an_offset(3, epoch=epoch))) == [OK]
    assert decide_deletion(table, BILLING, a_writer()).changes == [], "what is deleted is not deleted again"


@pytest.mark.parametrize(
    ("scope", "deleted"),
    [
        ({"group": "billing"}, {("billing", "orders"), ("billing", "refunds")}),
        ({"topic": "orders"}, {("billing", "orders"), ("audit", "orders")}),
        ({"group": "billing", "topic": "orders"}, {("billing", "orders")}),
        ({"group": "billing", "broker_name": "broker-b"}, set()),
        ({"group": "nobody"}, set()),
    ],
)
def test_deletion_is_of_its_scope_alone(scope, deleted):
    table = a_table()
    for group, topic in (("billing", "orders"), ("billing", "refunds"), ("audit", "orders")):
        table.merge(a_row(group, topic), {0: a_value(1)})
    table.merge(a_row(namespace="other"), {0: a_value(1)})
    decision = decide_deletion(table, Scope("DefaultCluster", "", **scope), a_writer())
    assert {(change.name.group, change.name.topic) for change in decision.changes} == deleted


def test_deletion_needs_a_group_or_a_topic_and_rows_that_can_be_read():
    table = a_table({0: a_value(1)})
    with pytest.raises(OffsetsRefused, match="name a group, a topic or both"):
        decide_deletion(table, Scope("DefaultCluster", "", broker_name="broker-a"), a_writer())
    table.unreadable[a_row(topic="refunds")] = "restore this key"
    with pytest.raises(OffsetsRefused, match="restore this key"):
        decide_deletion(table, BILLING, a_writer())


def test_nothing_is_decided_on_a_reset_or_a_deletion_that_is_not_stored_yet():
    table = a_table({0: a_value(5)})
    changes = reset(table, an_offset(2)).changes
    table.stage(changes)
    assert statuses(commit(table, an_offset(6), an_offset(3, epoch=changes[0].after.reset_epoch))) == [UNKNOWN, UNKNOWN]
    assert statuses(reset(table, an_offset(1))) == [UNKNOWN]
    assert statuses(decide_deletion(table, BILLING, a_writer())) == [UNKNOWN]
    table.withdraw(changes)
    assert statuses(commit(table, an_offset(6))) == [OK]


def test_answer_that_names_an_offset_in_flight_waits_for_it_by_storing_it_again():
    table = a_table({0: a_value(5)})
    first = commit(table, an_offset(9))
    table.stage(first.changes)
    equal, lower = commit(table, an_offset(9)), commit(table, an_offset(8))
    assert (statuses(equal), statuses(lower)) == ([OK], [STALE])
    assert [change.after.offset for change in (*equal.changes, *lower.changes)] == [9, 9]
