"""A message that was looked at shows the age of others by their places in the log."""

from dataclasses import replace

import pytest
from guard_logs import BOOT_MS, NEW_MS, OLD_MS, READ_MS, message

from controller.offsets.guard.boundaries import Age, boundary_of_start
from controller.offsets.guard.log_places import LogPlaces

LATEST_MS = NEW_MS + 20_000


def of_looks(*looks):
    """Return what looks at messages show, each as place and store time."""
    places = LogPlaces(replace(boundary_of_start(READ_MS, BOOT_MS), latest_unix_ms=LATEST_MS))
    for place, stored in looks:
        places.age_of(message(physical=place, stored=stored))
    return places


def test_messages_before_old_ones_behind_new_ones_and_between_late_ones_need_no_look():
    places = of_looks((300, OLD_MS), (200, OLD_MS), (500, READ_MS), (600, READ_MS), (800, NEW_MS), (900, NEW_MS))
    assert [places.age_at(each) for each in (100, 300, 301, 499, 500, 550, 600, 601, 799, 800, 1000)] == [
        *(Age.OLD, Age.OLD, None, None, Age.LATE, Age.LATE, Age.LATE, None, None, Age.NEW, Age.NEW)
    ]
    assert places.age_of(message(physical=250)) is Age.OLD
    assert places.age_of(message(physical=400)) is Age.UNKNOWN


def test_store_time_of_a_message_counts_more_than_its_place():
    places = of_looks((300, OLD_MS))
    assert places.age_of(message(physical=200, stored=NEW_MS)) is Age.NEW


@pytest.mark.parametrize(
    "looks",
    [
        ((300, OLD_MS), (200, READ_MS)),
        ((200, NEW_MS), (300, OLD_MS)),
        ((200, NEW_MS), (300, READ_MS)),
        # Still to come.
        ((300, OLD_MS), (900, LATEST_MS + 1)),
    ],
)
def test_places_show_nothing_once_a_clock_was_set(looks):
    places = of_looks(*looks)
    assert places.is_contradicted
    assert [places.age_at(each) for each in (100, 250, 1000)] == [None, None, None]
    assert places.age_of(message(physical=100)) is Age.UNKNOWN


def test_message_without_a_store_time_shows_nothing_of_others():
    places = of_looks((300, None))
    assert not places.is_contradicted
    assert [places.age_at(each) for each in (100, 300, 500)] == [None, None, None]
