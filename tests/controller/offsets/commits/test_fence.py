"""The token of a forced release in the stored offset."""

import pytest
from msgspec.structs import replace
from offset_builders import Offsets, Tokens, a_queue, a_scope, a_writer

from controller.offsets.commits.commit import CommitEntry
from controller.offsets.commits.delete import decide_deletion
from controller.offsets.commits.entry_checks import ENTRIES_MAX
from controller.offsets.commits.fence import Fence, decide_fence
from controller.offsets.commits.freezes import Freeze, decide_freeze
from controller.offsets.commits.refusals import TooManyEntries
from controller.offsets.commits.results import OffsetStatus


def fence(offsets, token, key=None):
    return decide_fence(offsets.table, [Fence(key or a_queue(), token)], a_writer())


def test_former_holder_is_fenced_for_good_and_the_offset_stays_as_it_is():
    offsets = Offsets(tokens=Tokens(last=9))
    offsets.commit(100, token=5)
    before = offsets.read()
    assert offsets.store(fence(offsets, 7))[0].status is OffsetStatus.OK
    assert offsets.read() == replace(before, token=7)
    assert offsets.commit(101, token=5).status is OffsetStatus.FENCED
    assert offsets.commit(101, token=8).status is OffsetStatus.OK


def test_higher_token_stays():
    offsets = Offsets(tokens=Tokens(last=9))
    offsets.commit(100, token=8)
    assert fence(offsets, 7).changes == ()
    assert fence(offsets, 7).results[0].status is OffsetStatus.OK


def test_answer_waits_for_an_offset_that_is_being_stored():
    offsets = Offsets(tokens=Tokens(last=9))
    offsets.commit(100, token=7)
    offsets.table.stage(offsets.decide_commits(CommitEntry(a_queue(), 101, 0, 8)).changes)
    assert [each.after.token for each in fence(offsets, 7).changes] == [8]


def test_queue_without_an_offset_stays_without_one():
    offsets = Offsets()
    decision = fence(offsets, 7)
    assert (decision.changes, decision.results[0].status) == ((), OffsetStatus.ABSENT)


def test_offset_that_is_being_deleted_may_be_there_again():
    offsets = Offsets()
    offsets.commit(100)
    offsets.table.stage(decide_deletion(offsets.table, offsets.freezes, a_scope("billing"), a_writer()).changes)
    assert fence(offsets, 7).results[0].status is OffsetStatus.UNKNOWN


def test_row_that_cannot_be_read_now_is_unknown():
    assert fence(Offsets(is_loaded=False), 7).results[0].status is OffsetStatus.UNKNOWN


def test_freeze_does_not_stop_it():
    offsets = Offsets(tokens=Tokens(last=9))
    offsets.commit(100)
    freeze = Freeze(operation="op-1", reason="queues grow", scopes=(a_scope("billing"),))
    offsets.freezes.apply(decide_freeze(offsets.freezes, freeze), 0)
    assert fence(offsets, 7).results[0].status is OffsetStatus.OK


def test_bad_queue_and_too_many_queues_are_refused():
    assert fence(Offsets(), 7, a_queue(-1)).results[0].status is OffsetStatus.REFUSED
    with pytest.raises(TooManyEntries):
        decide_fence(Offsets().table, [Fence(a_queue(), 1)] * (ENTRIES_MAX + 1), a_writer())
