"""When nobody can send to a queue any more."""

from dataclasses import replace

import pytest
from scaling_builders import BROKER, a_shrink, delayed, observed, with_set

from controller.scaling.resize.observation import LateSources, LogPosition, StaleProducers
from controller.scaling.resize.operation import LateMark, QueueId, QueueOffset, ResizePhase
from controller.scaling.rules.quiet import (
    FETCHED_SHARE,
    grown,
    late_arrivals,
    late_marks_of,
    producers_wait,
    undispatched,
)

SHRINK = a_shrink(ResizePhase.LATE)
SHOWN = observed(SHRINK, 1)


def test_wait_is_shorter_once_all_producers_have_the_new_route():
    waits = SHRINK.waits
    assert producers_wait(SHRINK, SHOWN) == (waits.producers_ms, ())
    fetched = replace(SHOWN, producers=StaleProducers(is_complete=True, addresses=("10.0.0.7",)))
    assert producers_wait(SHRINK, fetched) == (
        waits.producers_ms // FETCHED_SHARE,
        ("producers at 10.0.0.7 have not fetched the new route",),
    )


def test_queue_that_lost_messages_has_changed_too():
    confirmed = (QueueOffset(BROKER, 2, 5),)
    assert grown(confirmed, {QueueId(BROKER, 2): 5}) == ()
    assert grown(confirmed, {QueueId(BROKER, 2): 4}) == ("queue broker-a/2 ended at 5 and ends at 4",)


def test_commit_log_has_to_be_dispatched_up_to_the_mark():
    assert undispatched(SHOWN, {BROKER: 100}) == ()
    behind = with_set(SHOWN, log=LogPosition(end=120, dispatched=99))
    assert undispatched(behind, {BROKER: 100}) == ("broker-a has not dispatched its commit log up to 100",)


def test_only_levels_with_undelivered_messages_are_marked():
    assert late_marks_of(with_set(SHOWN, late=delayed(3, 5, 5))) == ()
    assert late_marks_of(with_set(SHOWN, late=delayed(3, 4, 5))) == (LateMark(BROKER, 3, 5),)


@pytest.mark.parametrize(
    ("late", "limit_ms", "text"),
    [
        (LateSources(levels={}, timed=2, half_messages=0), SHRINK.waits.timed_ms, "2 timed messages"),
        (LateSources(levels={}, timed=0, half_messages=3), SHRINK.waits.transaction_ms, "3 transactional messages"),
        (
            LateSources(levels={}, timed=0, half_messages=3, transaction_ms=1_000_000),
            1_000_000,
            "3 transactional messages",
        ),
        (
            LateSources(levels={}, timed=0, half_messages=0, rocksdb_half_messages=8),
            SHRINK.waits.transaction_ms,
            "8 transactional messages in RocksDB, decided or not",
        ),
    ],
)
def test_messages_that_come_all_the_time_count_for_their_longest_delay(late, limit_ms, text):
    pending = with_set(SHOWN, late=late)
    assert text in late_arrivals(SHRINK, pending, limit_ms - 1)[0]
    assert late_arrivals(SHRINK, pending, limit_ms) == ()


def test_unknown_delays_are_waited_for():
    assert late_arrivals(SHRINK, with_set(SHOWN, late=None), 10**9) == (
        "broker-a does not answer which messages are delayed",
    )
