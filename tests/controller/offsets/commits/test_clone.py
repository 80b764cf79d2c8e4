"""Clones of groups."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from offset_builders import BROKER, CLUSTER, EPOCH, Offsets, a_queue, a_row, a_writer, an_offset

from controller.offsets.commits.clone import CloneRequest, IfExists, decide_clone
from controller.offsets.commits.commit import CommitEntry
from controller.offsets.commits.freezes import Freeze, FreezeChange
from controller.offsets.commits.refusals import CloneRefused, RowsUnavailable
from controller.offsets.commits.results import OffsetNotFound, OffsetStatus


def clone(offsets, if_exists=IfExists.SKIP, to_group="audit", topics=None, operation=""):
    request = CloneRequest(
        cluster=CLUSTER, source_group="billing", to_group=to_group, if_exists=if_exists, topics=topics
    )
    cloned, decision = decide_clone(offsets.table, offsets.freezes, request, a_writer(operation))
    offsets.store(decision)
    return [(each.key.queue_id, each.result.status) for each in cloned]


def the_source(*queue_ids):
    offsets = Offsets()
    for queue_id in queue_ids:
        offsets.commit(100 + queue_id, a_queue(queue_id))
    return offsets


def test_queue_that_is_absent_at_the_source_is_absent_at_the_destination():
    offsets = the_source(0, 2)
    assert clone(offsets) == [(0, OffsetStatus.OK), (2, OffsetStatus.OK)]
    assert offsets.read(a_queue(2, group="audit")).offset == 102
    assert offsets.read(a_queue(1, group="audit")) == OffsetNotFound()


def test_source_stays_as_it_is():
    offsets = the_source(0)
    clone(offsets)
    assert offsets.read(a_queue(0)) == an_offset(100)


def test_commit_that_is_being_stored_is_not_cloned():
    offsets = the_source(0)
    offsets.table.stage(offsets.decide_commits(CommitEntry(a_queue(0), 500)).changes)
    clone(offsets)
    assert offsets.read(a_queue(0, group="audit")).offset == 100


def test_present_offsets_stay_with_skip():
    offsets = the_source(0, 1)
    offsets.commit(7, a_queue(0, group="audit"))
    assert clone(offsets) == [(0, OffsetStatus.PRESENT), (1, OffsetStatus.OK)]
    assert offsets.read(a_queue(0, group="audit")).offset == 7


def test_present_offsets_are_replaced_in_a_new_epoch_with_overwrite():
    offsets = the_source(0)
    offsets.commit(700, a_queue(0, group="audit"))
    clone(offsets, IfExists.OVERWRITE)
    stored = offsets.read(a_queue(0, group="audit"))
    assert (stored.offset, stored.reset_epoch) == (100, EPOCH)
    assert offsets.commit(701, a_queue(0, group="audit"), epoch=0).status is OffsetStatus.STALE


def test_one_present_offset_refuses_the_whole_clone_with_refuse():
    offsets = the_source(0, 1)
    offsets.commit(7, a_queue(1, group="audit"))
    with pytest.raises(CloneRefused, match=f"nothing was cloned: group audit .* queue 1 of orders on {BROKER}"):
        clone(offsets, IfExists.REFUSE)
    assert offsets.read(a_queue(0, group="audit")) == OffsetNotFound()


def test_retry_topics_are_cloned_only_by_name():
    offsets = the_source(0)
    retry = "%RETRY%billing"
    offsets.commit(3, a_queue(topic=retry))
    clone(offsets)
    assert offsets.read(a_queue(topic=retry, group="audit")) == OffsetNotFound()
    clone(offsets, to_group="other", topics=frozenset({retry}))
    assert offsets.read(a_queue(topic=retry, group="other")).offset == 3
    assert offsets.read(a_queue(group="other")) == OffsetNotFound()


def test_group_is_not_cloned_to_itself():
    with pytest.raises(CloneRefused, match="both group billing"):
        clone(the_source(0), to_group="billing")


def test_bad_destination_is_refused():
    with pytest.raises(CloneRefused, match="the group is blank"):
        clone(the_source(0), to_group="")


def test_frozen_destination_is_refused_but_to_its_operation():
    offsets = the_source(0)
    freeze = Freeze(operation="op-1", reason="moves", keys=frozenset({a_queue(group="audit")}))
    offsets.freezes.apply(FreezeChange("op-1", None, freeze), 0)
    with pytest.raises(CloneRefused, match="frozen by operation op-1"):
        clone(offsets)
    assert clone(offsets, operation="op-1") == [(0, OffsetStatus.OK)]


def test_clone_that_does_not_fit_is_refused_as_a_whole():
    offsets = Offsets(rows_max=3)
    offsets.commit(1, a_queue(0))
    offsets.commit(1, a_queue(1))
    with pytest.raises(CloneRefused, match="3 offsets are stored, as many as allowed"):
        clone(offsets)
    assert offsets.table.count == 2


def test_nothing_is_cloned_from_or_to_a_row_that_cannot_be_read():
    offsets = the_source(0)
    offsets.table.mark_unreadable(a_row("billing", "damaged"), "row is damaged")
    with pytest.raises(RowsUnavailable, match="row is damaged"):
        clone(offsets)
    offsets = the_source(0)
    offsets.table.mark_unreadable(a_row("audit"), "row is damaged")
    with pytest.raises(RowsUnavailable, match="nothing was changed: row is damaged"):
        clone(offsets)


@settings(max_examples=60)
@given(
    source=st.dictionaries(st.integers(0, 5), st.integers(0, 50)),
    destination=st.dictionaries(st.integers(0, 5), st.integers(0, 50)),
    if_exists=st.sampled_from([IfExists.SKIP, IfExists.OVERWRITE]),
)
def test_destination_has_what_either_had_and_nothing_else(source, destination, if_exists):
    offsets = Offsets()
    offsets.table.load(a_row("billing"), {queue_id: an_offset(each) for queue_id, each in source.items()})
    offsets.table.load(a_row("audit"), {queue_id: an_offset(each) for queue_id, each in destination.items()})
    clone(offsets, if_exists)
    after = {queue_id: each.offset for queue_id, each in offsets.table.durable_queues_of(a_row("audit")).items()}
    assert after == (source | destination if if_exists is IfExists.SKIP else destination | source)
