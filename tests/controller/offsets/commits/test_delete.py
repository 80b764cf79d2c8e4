"""Deletions: explicit, by group or topic."""

import pytest
from offset_builders import EPOCH, Offsets, Tokens, a_queue, a_row, a_scope, an_offset

from controller.offsets.commits import delete
from controller.offsets.commits.freezes import Freeze, FreezeChange
from controller.offsets.commits.read_all import read_page
from controller.offsets.commits.refusals import RowsUnavailable, ScopeTooWide, TooManyRows
from controller.offsets.commits.results import OffsetNotFound, OffsetStatus
from controller.offsets.values import DELETED

BILLING, AUDIT, PAYMENTS = a_queue(), a_queue(group="audit"), a_queue(topic="payments")
ON_B = a_queue(broker_name="broker-b")


@pytest.fixture
def offsets():
    offsets = Offsets()
    for number, key in enumerate([BILLING, AUDIT, PAYMENTS, ON_B]):
        offsets.commit(number, key)
    return offsets


@pytest.mark.parametrize(
    ("scope", "left"),
    [
        (a_scope("billing"), [AUDIT]),
        (a_scope(topic="orders"), [PAYMENTS]),
        (a_scope("billing", "orders"), [AUDIT, PAYMENTS]),
        (a_scope("billing", broker_name="broker-b"), [BILLING, AUDIT, PAYMENTS]),
        (a_scope("nobody"), [BILLING, AUDIT, PAYMENTS, ON_B]),
    ],
)
def test_what_the_scope_names_is_deleted_and_nothing_else(offsets, scope, left):
    decision = offsets.delete(scope)
    assert [key for key in (BILLING, AUDIT, PAYMENTS, ON_B) if offsets.read(key) != OffsetNotFound(EPOCH)] == left
    assert [each.after.offset for each in decision.changes] == [DELETED] * (4 - len(left))
    assert offsets.table.count == len(left)


def test_deletion_that_names_neither_group_nor_topic_is_refused(offsets):
    with pytest.raises(ScopeTooWide, match="name a group, a topic or both"):
        offsets.delete(a_scope(broker_name="broker-a"))


def test_commit_from_before_the_deletion_is_refused_and_the_next_ones_begin_above_it(offsets):
    offsets.commit(150, AUDIT)
    offsets.delete(a_scope("audit"))
    late = offsets.commit(160, AUDIT)
    assert (late.status, late.stored) == (OffsetStatus.STALE, None)
    assert late.reason == f"the offset was deleted, and reset epoch 0 is not {EPOCH}, the present one: read it again"
    epoch = offsets.read(AUDIT).reset_epoch
    assert offsets.commit(30, AUDIT, epoch=epoch).status is OffsetStatus.OK
    assert (offsets.read(AUDIT).offset, offsets.read(AUDIT).reset_epoch) == (30, EPOCH)


def test_deleted_offsets_are_in_no_list_and_are_not_deleted_again(offsets):
    offsets.delete(a_scope("billing"))
    assert [key for key, _ in read_page(offsets.table, a_scope()).offsets] == [AUDIT]
    assert offsets.delete(a_scope("billing")).changes == ()


def test_deleted_offset_keeps_its_token_so_that_who_was_fenced_stays_fenced():
    offsets = Offsets(tokens=Tokens(last=9))
    offsets.table.load(a_row(), {0: an_offset(100, token=9)})
    offsets.delete(a_scope("billing"))
    assert offsets.commit(5, epoch=EPOCH, token=8).status is OffsetStatus.FENCED
    assert offsets.commit(5, epoch=EPOCH, token=9).status is OffsetStatus.OK


def test_frozen_queues_stay(offsets):
    freeze = Freeze(operation="op-1", reason="moves", keys=frozenset({BILLING}))
    offsets.freezes.apply(FreezeChange("op-1", None, freeze), 0)
    results = offsets.delete(a_scope("billing", "orders")).results
    assert [each.status for each in results] == [OffsetStatus.OK, OffsetStatus.FENCED]
    assert offsets.read(BILLING).offset == 0


def test_nothing_is_deleted_while_a_row_cannot_be_read(offsets):
    offsets.table.mark_unreadable(a_row(topic="damaged"), "row is damaged")
    with pytest.raises(RowsUnavailable, match="nothing was changed: row is damaged"):
        offsets.delete(a_scope("billing"))
    offsets.delete(a_scope("audit"))
    with pytest.raises(RowsUnavailable, match="being loaded"):
        Offsets(is_loaded=False).delete(a_scope("billing"))


def test_deletion_of_too_many_offsets_is_refused(offsets, monkeypatch):
    monkeypatch.setattr(delete, "ROWS_CHANGED_MAX", 2)
    with pytest.raises(TooManyRows, match="more than 2 offsets: name a topic or a broker"):
        offsets.delete(a_scope("billing"))
    offsets.delete(a_scope("billing", "orders"))
