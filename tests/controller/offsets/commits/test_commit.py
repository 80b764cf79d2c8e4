"""Which commits are stored."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from offset_builders import Offsets, Tokens, a_queue, an_offset

from controller.offsets.commits.commit import CommitEntry
from controller.offsets.commits.entry_checks import ENTRIES_MAX
from controller.offsets.commits.freezes import Freeze, FreezeChange, FreezeTable
from controller.offsets.commits.refusals import TooManyEntries, WriterRefused
from controller.offsets.commits.results import OffsetNotFound, OffsetStatus
from controller.offsets.values import OFFSET_MAX, QUEUES_MAX, OffsetSource

OK, STALE, FENCED, UNKNOWN, REFUSED = (
    OffsetStatus.OK,
    OffsetStatus.STALE,
    OffsetStatus.FENCED,
    OffsetStatus.UNKNOWN,
    OffsetStatus.REFUSED,
)


def test_first_commit_of_a_queue_is_stored_with_its_writer():
    offsets = Offsets()
    assert offsets.commit(17).status is OK
    assert offsets.read() == an_offset(17)


@settings(max_examples=100)
@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=20))
def test_commits_in_any_order_leave_the_highest_offset(sent):
    offsets = Offsets()
    for offset in sent:
        offsets.commit(offset)
    assert offsets.read().offset == max(sent)


def test_lower_offset_is_refused_with_what_is_stored():
    offsets = Offsets()
    offsets.commit(100)
    result = offsets.commit(60)
    assert (result.status, result.stored.offset) == (STALE, 100)
    assert "60 is below the stored 100" in result.reason


def test_equal_offset_changes_nothing_and_is_well():
    offsets = Offsets()
    offsets.commit(100)
    decision = offsets.decide_commits(CommitEntry(a_queue(), 100), writer="client-2")
    assert (decision.results[0].status, decision.changes) == (OK, ())


def test_commit_made_before_a_reset_is_refused_after_it():
    offsets = Offsets()
    offsets.commit(100)
    offsets.reset(40)
    replayed = offsets.commit(101, epoch=0)
    assert (replayed.status, replayed.stored.offset) == (STALE, 40)
    assert offsets.read().offset == 40


def test_client_that_has_read_the_reset_commits_on_it():
    offsets = Offsets()
    offsets.commit(100)
    offsets.reset(40)
    assert offsets.commit(41, epoch=offsets.read().reset_epoch).status is OK


def test_commit_of_an_epoch_that_never_was_is_refused():
    offsets = Offsets()
    offsets.commit(100)
    assert offsets.commit(200, epoch=7).status is STALE
    assert offsets.commit(200, a_queue(1), epoch=7).status is STALE
    assert offsets.commit(200, epoch=-1).status is REFUSED
    assert offsets.read().offset == 100


def test_policy_applied_to_an_absent_offset_loses_against_a_seed():
    offsets = Offsets()
    assert offsets.read() == OffsetNotFound()
    offsets.seed(0)
    # The client found nothing, began at the end of the queue, and commits that.
    late = offsets.commit(5_000, epoch=0)
    assert (late.status, late.stored.offset) == (STALE, 0)


def test_each_entry_of_a_batch_has_its_own_result():
    offsets = Offsets()
    offsets.commit(100)
    results = offsets.commits(
        CommitEntry(a_queue(0), 60),
        CommitEntry(a_queue(1), 5),
        CommitEntry(a_queue(2), -1),
        CommitEntry(a_queue(1, group="audit"), 9),
    )
    assert [each.status for each in results] == [STALE, OK, REFUSED, OK]


def test_entries_of_one_queue_count_one_after_the_other():
    offsets = Offsets()
    entries = [CommitEntry(a_queue(), each) for each in (5, 9, 7)]
    decision = offsets.decide_commits(*entries)
    assert [each.status for each in decision.results] == [OK, OK, STALE]
    assert [(each.before, each.after.offset) for each in decision.changes] == [(None, 9)]


def test_request_with_too_many_entries_is_refused_as_a_whole():
    offsets = Offsets()
    with pytest.raises(TooManyEntries, match="10001 entries in one request, at most 10000"):
        offsets.commits(*[CommitEntry(a_queue(), each) for each in range(ENTRIES_MAX + 1)])
    assert offsets.read() == OffsetNotFound()


def test_ten_thousand_queues_in_one_request_are_stored():
    offsets = Offsets()
    keys = [a_queue(each % 1000, topic=f"orders-{each // 1000}") for each in range(ENTRIES_MAX)]
    results = offsets.commits(*[CommitEntry(key, 5) for key in keys])
    assert {each.status for each in results} == {OK}
    assert offsets.table.count == ENTRIES_MAX


@pytest.mark.parametrize(
    ("key", "offset", "reason"),
    [
        (a_queue(), -1, "offset -1 is negative"),
        (a_queue(), OFFSET_MAX + 1, "is above"),
        (a_queue(-1), 0, "queue id -1 is not in"),
        (a_queue(QUEUES_MAX), 0, f"queue id {QUEUES_MAX} is not in 0 to {QUEUES_MAX - 1}"),
        (a_queue(group=""), 0, "the group is blank"),
        (a_queue(topic="  "), 0, "the topic is blank"),
        (a_queue(broker_name=""), 0, "the broker name is blank"),
        (a_queue(cluster=""), 0, "the cluster is blank"),
        (a_queue(namespace=" "), 0, "the namespace is blank"),
        (a_queue(group="g" * 256), 0, "the group has 256 characters"),
        (a_queue(topic="a\nb"), 0, "cannot be shown"),
        (a_queue(topic="a\ud800"), 0, "cannot be shown"),
    ],
)
def test_bad_entry_is_refused_with_what_is_wrong(key, offset, reason):
    offsets = Offsets()
    result = offsets.commit(offset, key)
    assert result.status is REFUSED
    assert reason in result.reason
    assert offsets.table.count == 0


@pytest.mark.parametrize(
    ("writer", "match"),
    [("", "the writer is blank"), ("w" * 256, "the writer has 256 characters"), ("a\ud800", "cannot be shown")],
)
def test_writer_that_cannot_be_stored_is_refused_with_all_its_entries(writer, match):
    offsets = Offsets()
    with pytest.raises(WriterRefused, match=match):
        offsets.commit(5, writer=writer)
    assert offsets.read() == OffsetNotFound()


@pytest.mark.parametrize("name", ['{"a":1}', "topic@group", "Zähler", "订单", "%RETRY%billing", "a" * 255])
def test_odd_names_are_names(name):
    offsets = Offsets()
    assert offsets.commit(3, a_queue(topic=name)).status is OK
    assert offsets.read(a_queue(topic=name)).offset == 3


def test_highest_offset_and_queue_are_stored():
    offsets = Offsets()
    assert offsets.commit(OFFSET_MAX, a_queue(QUEUES_MAX - 1)).status is OK


def test_full_table_refuses_new_queues_and_takes_commits_on_those_it_has():
    offsets = Offsets(rows_max=2)
    results = offsets.commits(*[CommitEntry(a_queue(each), 1) for each in range(3)])
    assert [each.status for each in results] == [OK, OK, REFUSED]
    assert "2 offsets are stored, as many as allowed" in results[2].reason
    assert offsets.commit(2).status is OK


def test_row_that_is_not_loaded_yet_is_neither_stored_nor_refused():
    offsets = Offsets(is_loaded=False)
    assert offsets.commit(5).status is UNKNOWN
    offsets.table.load(a_queue().of, {0: an_offset(100)})
    assert offsets.commit(5).status is STALE


def test_row_that_the_store_cannot_read_is_not_overwritten():
    offsets = Offsets()
    offsets.table.mark_unreadable(a_queue().of, "row /x is damaged")
    result = offsets.commit(5)
    assert (result.status, result.reason) == (UNKNOWN, "row /x is damaged")


class TestTokens:
    def test_paused_holder_is_fenced_when_another_client_holds_the_queue(self):
        offsets = Offsets(tokens=Tokens({a_queue(): 5}))
        assert offsets.commit(100, token=5).status is OK
        offsets.tokens = Tokens({a_queue(): 6})
        resumed = offsets.commit(150, token=5)
        assert (resumed.status, resumed.stored.offset) == (FENCED, 100)
        assert "token 5 is below 6" in resumed.reason
        assert offsets.read().offset == 100

    def test_paused_holder_stays_fenced_after_its_successor_has_left(self):
        offsets = Offsets(tokens=Tokens({a_queue(): 6}))
        offsets.commit(100, token=6)
        offsets.tokens = Tokens(last=6)
        assert offsets.commit(150, token=5).status is FENCED

    def test_token_is_seen_even_if_the_offset_is_the_same(self):
        offsets = Offsets(tokens=Tokens({a_queue(): 5}))
        offsets.commit(100, token=5)
        offsets.tokens = Tokens({a_queue(): 6})
        assert offsets.commit(100, token=6).status is OK
        offsets.tokens = Tokens(last=6)
        assert offsets.commit(101, token=5).status is FENCED

    def test_token_is_seen_even_if_the_offset_is_refused(self):
        offsets = Offsets(tokens=Tokens({a_queue(): 6}))
        offsets.table.load(a_queue().of, {0: an_offset(100, token=5)})
        assert offsets.commit(60, token=6).status is STALE
        assert offsets.read() == an_offset(100, token=6)

    def test_client_without_the_lock_is_fenced_while_another_holds_it(self):
        offsets = Offsets(tokens=Tokens({a_queue(): 5}))
        result = offsets.commit(100)
        assert (result.status, result.reason[:19]) == (FENCED, "the queue is locked")

    def test_group_that_has_stopped_using_locks_commits_without_them(self):
        offsets = Offsets(tokens=Tokens(last=6))
        offsets.commit(100, token=6)
        assert offsets.commit(101).status is OK
        assert offsets.read().token == 6

    def test_forged_token_is_refused_and_fences_nobody(self):
        offsets = Offsets(tokens=Tokens({a_queue(): 5}, last=9))
        assert offsets.commit(100, token=6).status is REFUSED
        assert offsets.commit(100, a_queue(1), token=10).status is REFUSED
        assert offsets.commit(100, token=-1).status is REFUSED
        assert offsets.commit(100, token=5).status is OK

    def test_what_a_broker_has_stored_passes_locks(self):
        offsets = Offsets(tokens=Tokens({a_queue(): 5}))
        offsets.commit(100, token=5)
        assert offsets.commit(120, source=OffsetSource.MIRROR, writer="10.0.0.1:10911").status is OK
        assert (offsets.read().offset, offsets.read().token) == (120, 5)

    def test_commit_for_a_queue_that_the_client_does_not_own_any_more_is_not_stored(self):
        offsets = Offsets(tokens=Tokens({a_queue(0): 5, a_queue(1): 6}))
        offsets.commits(CommitEntry(a_queue(0), 10, token=5), CommitEntry(a_queue(1), 10, token=6))
        offsets.tokens = Tokens({a_queue(0): 5, a_queue(1): 7})
        results = offsets.commits(CommitEntry(a_queue(0), 20, token=5), CommitEntry(a_queue(1), 20, token=6))
        assert [each.status for each in results] == [OK, FENCED]
        assert offsets.read(a_queue(1)).offset == 10


class TestFreezes:
    def frozen(self, lease_ms=60_000):
        freezes = FreezeTable()
        freeze = Freeze(operation="op-1", reason="moves", keys=frozenset({a_queue(0)}), lease_ms=lease_ms)
        freezes.apply(FreezeChange("op-1", None, freeze), 0)
        return Offsets(freezes=freezes)

    def test_commits_on_a_frozen_queue_are_fenced_with_the_operation(self):
        results = self.frozen().commits(CommitEntry(a_queue(0), 5), CommitEntry(a_queue(1), 5))
        assert [each.status for each in results] == [FENCED, OK]
        assert results[0].reason == "frozen by operation op-1: moves; repeat it when the operation has ended"

    def test_freeze_of_an_operation_that_is_gone_ends_with_its_lease(self):
        offsets = self.frozen()
        assert offsets.commit(5, now_ms=60_000).status is FENCED
        assert offsets.commit(5, now_ms=60_001).status is OK

    def test_what_a_broker_has_stored_passes_freezes(self):
        assert self.frozen().commit(5, source=OffsetSource.MIRROR).status is OK


class TestInFlight:
    """Answers that name an offset which is still being stored wait for it."""

    def stage(self, offsets, *entries):
        decision = offsets.decide_commits(*entries)
        offsets.table.stage(decision.changes)
        return decision

    def test_commits_are_decided_on_those_that_are_being_stored(self):
        offsets = Offsets()
        self.stage(offsets, CommitEntry(a_queue(), 10))
        assert self.stage(offsets, CommitEntry(a_queue(), 8)).results[0].status is STALE

    def test_equal_commit_waits_until_the_first_one_is_durable(self):
        offsets = Offsets()
        self.stage(offsets, CommitEntry(a_queue(), 10))
        second = self.stage(offsets, CommitEntry(a_queue(), 10))
        assert [(each.before.offset, each.after.offset) for each in second.changes] == [(10, 10)]

    @pytest.mark.parametrize("entry", [CommitEntry(a_queue(), 8), CommitEntry(a_queue(), 12, 3)])
    def test_refusal_that_names_the_stored_offset_waits_for_it(self, entry):
        offsets = Offsets()
        self.stage(offsets, CommitEntry(a_queue(), 10))
        refused = self.stage(offsets, entry)
        assert refused.results[0].stored.offset == 10
        assert [each.key for each in refused.changes] == [a_queue()]
