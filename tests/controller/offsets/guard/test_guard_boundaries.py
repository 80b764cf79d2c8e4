"""Which messages are old is decided by the place in the log, or by when they were stored."""

from dataclasses import replace

import pytest
from guard_logs import message

from controller.offsets.guard.boundaries import (
    CLOCK_MARGIN_MS,
    LATE_MAX_MS,
    Age,
    EpochBoundary,
    boundary_of_epochs,
    boundary_of_start,
    doubtful_from,
)
from remoting.admin.log_epochs import LogEpoch


def epochs(*starts):
    return [LogEpoch(epoch=epoch, start_offset=start) for epoch, start in starts]


def certain(found, saved_epoch):
    return boundary_of_epochs(found, saved_epoch, is_doubtful=False)


def test_messages_before_the_next_epoch_are_old_and_those_from_it_on_are_new():
    boundary = certain(epochs((1, 0), (2, 500)), 1)
    assert [boundary.age_of(message(physical=each)) for each in (0, 499, 500, 900)] == [
        Age.OLD,
        Age.OLD,
        Age.NEW,
        Age.NEW,
    ]


def test_messages_of_every_later_master_are_new_for_offsets_of_an_early_epoch():
    """The mirror has not read the second master: what that one wrote says nothing of offsets of the first one."""
    found = epochs((1, 0), (2, 500), (3, 900))
    assert certain(found, 1) == EpochBoundary(old_below=500, new_from=500)
    assert certain(found, 2) == EpochBoundary(old_below=900, new_from=900)


def test_log_without_a_later_epoch_proves_only_what_was_before_the_epoch():
    assert certain(epochs((1, 0), (2, 500)), 2) == EpochBoundary(old_below=500, new_from=None)
    assert certain([], 2) == EpochBoundary(old_below=0, new_from=None)


def test_log_that_begins_with_a_later_epoch_has_no_old_messages_but_before_it():
    assert certain(epochs((4, 0)), 3) == EpochBoundary(old_below=0, new_from=0)


def test_messages_of_a_doubtful_part_are_on_no_side():
    boundary = boundary_of_epochs(epochs((1, 0), (3, 500), (5, 900)), 3, is_doubtful=True)
    assert [boundary.age_of(message(physical=each)) for each in (499, 500, 899, 900)] == [
        Age.OLD,
        Age.UNKNOWN,
        Age.UNKNOWN,
        Age.NEW,
    ]


@pytest.mark.parametrize(
    ("found", "saved_epoch", "doubtful"),
    [
        # The very next epoch is noted.
        (epochs((1, 0), (2, 500)), 1, None),
        # Epoch 2 had no master, or one that began where epoch 1 did.
        (epochs((1, 0), (3, 500)), 1, 0),
        (epochs((1, 100), (4, 500)), 2, 100),
        # The part is empty.
        (epochs((1, 500), (3, 500)), 1, None),
        (epochs((3, 500)), 1, None),
        (epochs((1, 0)), 1, None),
    ],
)
def test_part_before_a_gap_in_the_epochs_is_doubtful(found, saved_epoch, doubtful):
    assert doubtful_from(found, saved_epoch) == doubtful


def test_messages_stored_between_the_reading_of_the_offsets_and_the_start_are_late():
    boundary = boundary_of_start(100_000, 300_000)
    old_until, new_from = 100_000 - CLOCK_MARGIN_MS, 300_000 + CLOCK_MARGIN_MS + 1
    stored = (old_until - 1, old_until, 100_000 + LATE_MAX_MS, 100_000 + LATE_MAX_MS + 1)
    stored += (299_999, 300_000, new_from - 1, new_from)
    ages = [boundary.age_of(message(stored=each)) for each in stored]
    assert ages == [*(Age.OLD, Age.LATE, Age.LATE, Age.UNKNOWN), *(Age.UNKNOWN, Age.LATE, Age.LATE, Age.NEW)]


def test_store_time_that_is_still_to_come_is_on_no_side():
    by_start = replace(boundary_of_start(100_000, 300_000), latest_unix_ms=400_000)
    by_epoch = EpochBoundary(old_below=500, new_from=500, old_stored_before_ms=350_000, latest_unix_ms=400_000)
    assert [by_start.age_of(message(stored=each)) for each in (400_000, 400_001)] == [Age.NEW, Age.UNKNOWN]
    assert [by_epoch.age_of(message(stored=each)) for each in (400_000, 400_001)] == [Age.LATE, Age.UNKNOWN]
    # It was in the log before the start.
    assert [by_start.is_former(message(stored=each)) for each in (299_999, 300_000, 400_001)] == [True, False, True]


def test_new_message_before_the_end_of_the_former_log_shows_a_loss():
    boundary = replace(boundary_of_start(100_000, 300_000), log_end=500)
    looks = ((499, 305_001), (500, 305_001), (499, 305_000), (499, None))
    assert [boundary.shows_loss(message(physical=place, stored=stored)) for place, stored in looks] == [
        *(True, False, False, False)
    ]
    assert not replace(boundary, log_end=None).shows_loss(message(physical=1, stored=305_001))


def test_message_without_its_store_time_is_on_no_side_of_a_start():
    assert boundary_of_start(100_000, 300_000).age_of(message()) is Age.UNKNOWN


@pytest.mark.parametrize(("boot", "parts"), [(-50_000, False), (CLOCK_MARGIN_MS, False), (CLOCK_MARGIN_MS + 1, True)])
def test_start_parts_nothing_unless_it_came_after_the_offsets_were_read(boot, parts):
    assert (boundary_of_start(100_000, 100_000 + boot) is not None) == parts


@pytest.mark.parametrize("boot", [1 - CLOCK_MARGIN_MS, 0, 1000, CLOCK_MARGIN_MS, 60_000])
def test_later_start_at_the_same_address_parts_the_log_also_within_the_margin_around_the_reading(boot):
    boundary = boundary_of_start(100_000, 100_000 + boot, 40_000)
    assert boundary.boot_unix_ms == 100_000 + boot
    ages = [boundary.age_of(message(stored=100_000 + boot + each)) for each in (-10, 1)]
    assert ages == [Age.LATE if boot > 10 - CLOCK_MARGIN_MS else Age.OLD, Age.NEW]


@pytest.mark.parametrize(
    ("boot", "former_boot"),
    [
        # The process that was read.
        (100_000, 100_000),
        # The clock was set back.
        (100_000, 101_000),
        # A slave that has got the address, and ran before the offsets were read: what it copied is not new.
        (100_000 - CLOCK_MARGIN_MS, 40_000),
    ],
)
def test_start_at_the_same_address_parts_nothing_where_the_broker_may_have_run_when_it_was_read(boot, former_boot):
    assert boundary_of_start(100_000, boot, former_boot) is None


def test_messages_before_the_next_epoch_are_old_only_if_they_were_stored_before_a_limit():
    boundary = EpochBoundary(old_below=500, new_from=500, old_stored_before_ms=100_000)
    looks = ((400, 99_999), (400, 100_000), (400, None), (500, 99_999))
    ages = [boundary.age_of(message(physical=place, stored=stored)) for place, stored in looks]
    assert ages == [Age.OLD, Age.LATE, Age.UNKNOWN, Age.NEW]
    assert boundary.needs_store_time
