"""A queue is searched for the first new message with few looks."""

from dataclasses import replace

import pytest
from guard_logs import BOOT_MS, READ_MS, Queue
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.offsets.guard.boundaries import EpochBoundary, boundary_of_start
from controller.offsets.guard.queue_view import QueueLook, QueueView, first_view


def boundary_of(queue):
    return EpochBoundary(old_below=queue.parts_at, new_from=queue.parts_at)


def searched(queue, highest, *, boundary=None, is_late_enough=True):
    """Return the view of a queue after all looks that are needed for offsets up to `highest`, and their number."""
    boundary = boundary or boundary_of(queue)
    view, looks = first_view(highest - 1, queue.look(highest - 1), boundary), 1
    while (offset := view.next_look(highest, is_late_enough=is_late_enough)) is not None:
        view = view.looked(offset, queue.look(offset), boundary)
        looks += 1
    return view, looks


def test_one_old_message_proves_all_before_it():
    view, looks = searched(Queue(old=1000, new=50), 1000)
    assert (view.old_until, looks) == (1000, 1)


def test_end_of_the_old_messages_is_found_near_the_end_of_a_long_queue_with_few_looks():
    view, looks = searched(Queue(old=10_000_000, new=300), 10_000_300)
    assert view.end_of_old == 10_000_000
    assert looks <= 20


def test_offset_beyond_the_end_of_a_queue_without_new_messages_leads_to_its_end():
    view, _ = searched(Queue(old=100, new=0), 150)
    assert view.end_of_old == view.max_offset == 100


def test_queue_whose_old_messages_have_expired_begins_with_new_ones():
    view, _ = searched(Queue(old=100, new=50, expired=120), 150)
    assert view.end_of_old == view.min_offset == 120


def test_empty_queue_needs_no_more_looks():
    view, looks = searched(Queue(old=0, new=0), 70)
    assert (view.end_of_old, looks) == (0, 1)


def test_message_on_no_side_ends_the_search_and_what_was_proved_before_counts():
    queue = Queue(old=100, new=100)
    vague = EpochBoundary(old_below=50 * 100, new_from=150 * 100)
    view, _ = searched(queue, 200, boundary=vague)
    assert view.is_blocked
    assert view.end_of_old is None
    assert view.old_until <= 50
    assert view.new_from >= 150


def test_late_message_ends_the_search_where_it_does_not_matter_when_late_ones_begin():
    by_start = boundary_of_start(READ_MS, BOOT_MS)
    view, looks = searched(Queue(old=1000, late=100, new=0), 1100, boundary=by_start)
    assert (view.late_from, view.begin_of_late, view.end_of_old, looks) == (1099, None, None, 1)


def test_begin_of_late_messages_is_found_near_the_end_of_a_long_queue_with_few_looks():
    by_start = boundary_of_start(READ_MS, BOOT_MS)
    queue = Queue(old=10_000_000, late=200, new=100)
    view, looks = searched(queue, 10_000_300, boundary=by_start, is_late_enough=False)
    assert (view.begin_of_late, view.end_of_old) == (10_000_000, None)
    assert looks <= 20


@pytest.mark.parametrize("hint", [0, 500, 999, 1000, 1001, 1100, 1299, 1300, 4000])
def test_place_that_the_broker_names_is_proved_and_not_believed(hint):
    queue, by_start = Queue(old=1000, late=100, new=200), boundary_of_start(READ_MS, BOOT_MS)
    view = replace(first_view(1299, queue.look(1299), by_start), hint=hint)
    looks = 0
    while (offset := view.next_look(1300, is_late_enough=False)) is not None:
        view = view.looked(offset, queue.look(offset), by_start)
        looks += 1
    assert view.begin_of_late == 1000
    if hint == 1000:
        assert looks == 2


def test_queue_in_which_nothing_is_proved_has_no_begin_of_late_messages():
    view, looks = searched(
        Queue(old=100, new=0), 100, boundary=EpochBoundary(old_below=0, new_from=None), is_late_enough=False
    )
    assert (view.begin_of_late, looks) == (None, 1)


def test_late_messages_that_expire_during_the_search_lead_to_the_beginning_of_the_queue():
    view = QueueView(min_offset=0, max_offset=100, old_until=0, late_from=30, new_from=60)
    expired = QueueLook(message=None, min_offset=40, max_offset=100)
    later = view.looked(20, expired, boundary_of_start(READ_MS, BOOT_MS))
    assert (later.begin_of_late, later.end_of_old) == (40, None)


def test_message_that_cannot_be_read_ends_the_search():
    unreadable = QueueLook(message=None, min_offset=0, max_offset=100)
    view = first_view(50, unreadable, EpochBoundary(old_below=0, new_from=0))
    assert view.is_blocked


def test_messages_that_expire_during_the_search_count_as_old():
    view = QueueView(min_offset=0, max_offset=100, old_until=0, late_from=60, new_from=60)
    later = view.looked(
        20, QueueLook(message=None, min_offset=40, max_offset=100), EpochBoundary(old_below=0, new_from=0)
    )
    assert (later.min_offset, later.old_until, later.is_blocked) == (40, 40, False)


@settings(max_examples=100)
@given(old=st.integers(0, 3000), new=st.integers(0, 3000), expired=st.integers(0, 6000), highest=st.integers(1, 8000))
def test_search_finds_the_first_new_message_or_proves_that_nothing_new_matters(old, new, expired, highest):
    queue = Queue(old=old, new=new, expired=min(expired, old + new))
    view, looks = searched(queue, highest)
    assert view.min_offset <= view.old_until <= view.new_from <= view.max_offset
    assert view.old_until <= max(old, queue.expired)
    if highest > view.old_until:
        assert view.end_of_old == max(old, queue.expired)
    assert looks <= 2 * (old + new).bit_length() + 3


@settings(max_examples=100)
@given(
    old=st.integers(0, 3000),
    late=st.integers(0, 300),
    new=st.integers(0, 3000),
    expired=st.integers(0, 6000),
    highest=st.integers(1, 8000),
)
def test_search_behind_late_messages_finds_the_last_old_one(old, late, new, expired, highest):
    queue = Queue(old=old, late=late, new=new, expired=min(expired, old + late + new))
    view, looks = searched(queue, highest, boundary=boundary_of_start(READ_MS, BOOT_MS), is_late_enough=False)
    assert view.min_offset <= view.old_until <= view.late_from <= view.new_from <= view.max_offset
    begin = max(old, queue.expired)
    assert view.old_until <= begin
    if highest > view.old_until:
        assert view.begin_of_late == begin
    assert view.new_from >= min(old + late, view.max_offset)
    assert looks <= 2 * queue.end.bit_length() + 3
