"""What benchmarks find in records of groups: each planted duplicate, skip, inversion and shared queue."""

import math

import pytest
from peers.delivery import Acknowledged, Consumed

from benchmarks.group_deliveries import (
    Delivered,
    GroupDeliveries,
    MessageCounts,
    delivered,
    rates,
    seconds_of_traffic,
    went_on_ms,
)


def sent(number, *, unix_ms=0, queue=0, producer="p0"):
    message = f"{producer}:{number}"
    return Acknowledged(unix_ms, producer, message, "-", number, "broker-a", queue, number)


def got(number, *, unix_ms=0, queue=0, client="c0", key="-", producer="p0"):
    return Consumed(unix_ms, "group", client, f"{producer}:{number}", key, number, "broker-a", queue, number, 0)


def counted(*messages):
    counts = MessageCounts()
    for each in messages:
        counts.add(each)
    return counts


def deliveries(*consumed):
    group = GroupDeliveries()
    group.add(consumed)
    return group


def test_messages_are_counted_by_producer_and_number():
    counts = MessageCounts()
    assert [counts.add("p0:7"), counts.add("p0:7"), counts.add("p1:7"), counts.add("p0:20000")] == [0, 1, 0, 0]
    assert counts.total == 3
    assert "p0:7" in counts
    assert "p0:6" not in counts
    assert "p2:7" not in counts


def test_message_that_comes_often_is_still_one():
    counts = counted(*["p0:1"] * 300)
    assert counts.add("p0:1") == 255
    assert counts.total == 1


def test_message_that_comes_again_is_counted_in_its_queue_and_window():
    group = deliveries(got(0), got(1), got(1), got(2, queue=1))
    assert group.window.repeated == {("broker-a", 0): 1}
    group.begin_window()
    assert group.window.repeated == {}
    group.add([got(0), got(3), got(2, queue=1), got(2, queue=1)])
    assert group.window.repeated == {("broker-a", 0): 1, ("broker-a", 1): 2}
    assert group.repeated == 4


def test_messages_in_order_are_neither_repeated_nor_inverted():
    group = deliveries(*(got(number, key="k") for number in range(100)))
    assert (group.repeated, group.inversions) == (0, 0)
    assert group.window.shared() == set()


def test_first_delivery_after_a_later_one_of_its_key_is_an_inversion():
    group = deliveries(got(0, key="k"), got(2, key="k"), got(1, key="k"), got(3, key="k"))
    assert (group.inversions, group.window.inversions) == (1, 1)
    group.begin_window()
    group.add([got(10, key="other"), got(9, key="k"), got(8, key="k")])
    assert (group.inversions, group.window.inversions) == (2, 1)


def test_what_comes_again_or_has_no_key_is_no_inversion():
    group = deliveries(got(0, key="k"), got(1, key="k"), got(0, key="k"), got(9), got(8))
    assert group.inversions == 0


def test_queue_is_shared_if_a_client_goes_on_after_another_one_had_begun():
    one_after_another = deliveries(got(0, client="a"), got(1, client="a"), got(2, client="b"))
    assert one_after_another.window.shared() == set()
    both = deliveries(got(0, client="a"), got(1, client="b"), got(2, client="a"), got(3, queue=1, client="b"))
    assert both.window.shared() == {("broker-a", 0)}


def test_what_can_be_read_and_never_came_is_skipped_and_what_cannot_be_read_is_lost():
    acknowledged = counted("p0:0", "p0:1", "p0:2", "p1:0")
    stored = ["p0:0", "p0:1", "p1:0", "p1:1", "p1:1"]
    received = deliveries(got(0), got(2), got(0, producer="p1")).received
    assert delivered(acknowledged, stored, received) == Delivered(stored=4, skipped=2, lost=1)


def test_nothing_is_skipped_or_lost_if_all_that_is_stored_came():
    acknowledged = counted(*(f"p0:{number}" for number in range(10_000)))
    stored = [f"p0:{number}" for number in range(10_000)]
    received = deliveries(*(got(number) for number in range(10_000))).received
    assert delivered(acknowledged, stored, received) == Delivered(stored=10_000, skipped=0, lost=0)


def test_rates_are_those_of_the_time_before_a_moment():
    before = [sent(number, unix_ms=1000 + number, queue=number % 2) for number in range(1000)]
    others = [sent(2000, unix_ms=500), sent(2001, unix_ms=2000)]
    assert rates([*before, *others], until_ms=2000, seconds=1) == {("broker-a", 0): 500, ("broker-a", 1): 500}


def test_seconds_of_traffic_are_those_of_the_queue_that_was_set_back_most():
    queue_rates = {("broker-a", 0): 100.0, ("broker-a", 1): 10.0}
    assert seconds_of_traffic({("broker-a", 0): 200, ("broker-a", 1): 50}, queue_rates) == 5
    assert seconds_of_traffic({}, queue_rates) == 0
    assert seconds_of_traffic({("broker-a", 2): 1}, queue_rates) == math.inf


@pytest.mark.parametrize("after_ms", [1000, 1500])
def test_queue_goes_on_with_the_first_message_that_was_acknowledged_after_the_moment(after_ms):
    acknowledged = [sent(0, unix_ms=900), sent(1, unix_ms=2000), sent(2, unix_ms=2100), sent(3, unix_ms=2200, queue=1)]
    consumed = [got(0, unix_ms=1900), got(1, unix_ms=2050), got(2, unix_ms=2150)]
    assert went_on_ms(acknowledged, consumed, after_ms=after_ms) == {("broker-a", 0): 2050}
