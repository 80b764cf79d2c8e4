"""What looks show of the end of the log that was read."""

from dataclasses import replace

import pytest
from guard_logs import BOOT_MS, NEW_MS, OLD_MS, READ_MS, message

from controller.offsets.guard.boundaries import EpochBoundary, boundary_of_start
from controller.offsets.guard.lost_tail import MESSAGE_BYTES_MIN, LostTail
from controller.offsets.guard.queue_view import QueueView

BY_START = replace(boundary_of_start(READ_MS, BOOT_MS), log_end=10_000)
NEW = message(physical=9000, stored=NEW_MS)


def a_view(*, old_until, new_from, max_offset=200):
    return QueueView(min_offset=0, max_offset=max_offset, old_until=old_until, late_from=new_from, new_from=new_from)


#: Of a queue with 100 old messages, and of one where that is not known.
ENDED, OPEN = a_view(old_until=100, new_from=100), a_view(old_until=50, new_from=100)


def is_proved(*looks, boundary=BY_START, has_saved_log=False):
    """Return what looks prove, each as a message, the highest saved offset of its queue, and its view."""
    lost_tail = LostTail(boundary, has_saved_log)
    for each in looks:
        lost_tail.looked(*each)
    return lost_tail.is_proved


def test_new_message_before_the_end_of_the_former_log_proves_it():
    assert is_proved((NEW, 0, OPEN))
    assert not is_proved((NEW._replace(physical_offset=10_000), 0, OPEN))
    assert not is_proved((NEW._replace(store_unix_ms=READ_MS), 0, OPEN))


@pytest.mark.parametrize("stored", [OLD_MS, READ_MS])
def test_new_message_proves_nothing_where_one_of_the_former_log_lies_behind_it(stored):
    """A clock was set back."""
    behind = (message(physical=9500, stored=stored), 0, OPEN)
    assert not is_proved((NEW, 0, OPEN), behind)
    assert not is_proved(behind, (NEW, 0, OPEN))
    before = (message(physical=8000, stored=stored), 0, OPEN)
    assert is_proved((NEW, 0, OPEN), before)


@pytest.mark.parametrize(
    ("saved", "view", "proved"),
    [
        (101, ENDED, True),
        (100, ENDED, False),
        (150, OPEN, False),
        # A queue without any message is most often that of a topic that was deleted.
        (101, a_view(old_until=0, new_from=0, max_offset=0), False),
    ],
)
def test_saved_offset_behind_the_old_messages_of_its_queue_proves_it(saved, view, proved):
    by_epoch = EpochBoundary(old_below=5000, new_from=5000)
    assert is_proved((message(physical=4000), saved, view), boundary=by_epoch) == proved
    assert not is_proved((message(physical=4000), saved, view), boundary=by_epoch, has_saved_log=True)


def test_saved_offset_proves_nothing_where_the_log_had_no_room_for_so_many_messages():
    """A queue that shows where that log went on decides, whichever is looked at first."""
    behind = (message(physical=3000, stored=OLD_MS), 110, ENDED)
    room = 10 * MESSAGE_BYTES_MIN
    for place, proved in ((10_000 - room - 1, True), (10_000 - room, False), (12_000, False)):
        kept = (message(physical=place, stored=READ_MS), 0, OPEN)
        assert is_proved(behind, kept) == is_proved(kept, behind) == proved
    assert is_proved(behind)
    assert is_proved((None, 110, ENDED))
    # The smallest one counts.
    assert is_proved((None, 10**6, ENDED), behind)
    assert not is_proved((None, 10**6, ENDED))
    assert is_proved((None, 10**6, ENDED), boundary=replace(BY_START, log_end=None))
