"""One change of each set waits, the latest; one call of a set at a time; growing waits after failures."""

from callback_builders import a_change, a_master

from controller.callbacks.pending import RETRY_MS, DueChange, PendingChanges

NOW_MS = 50


def due(pending, now_ms, count=100):
    return [
        (each.change.broker_name, each.change.master_epoch, each.attempt) for each in pending.take_due(now_ms, count)
    ]


def test_offered_change_is_due_at_once_and_once():
    pending = PendingChanges()
    assert pending.offer(a_change(), 0)
    assert pending.take_due(0, 1) == [DueChange(a_change(), 1)]
    assert due(pending, 1_000_000) == []
    pending.delivered(a_change())
    assert len(pending) == 0
    assert pending.oldest_ms is None


def test_same_or_an_earlier_change_is_not_delivered_beside_one_that_waits():
    pending = PendingChanges()
    pending.offer(a_change(), 0)
    assert not pending.offer(a_change(unix_ms=5), 1)
    assert not pending.offer(a_change(master_epoch=5), 1)
    assert due(pending, 1) == [("broker-a", 6, 1)]


def test_later_change_takes_the_place_of_one_that_waits():
    pending = PendingChanges()
    pending.offer(a_change(), 0)
    assert pending.offer(a_change(master_epoch=8), 5)
    assert due(pending, 5) == [("broker-a", 8, 1)]
    assert len(pending) == 1
    # The set waits since its first change.
    assert pending.oldest_ms == 0


def test_another_address_in_the_same_epoch_takes_the_place_of_a_change():
    pending = PendingChanges()
    pending.offer(a_change(), 0)
    moved = a_change(new=a_master()._replace(address="10.0.0.9:1"))
    assert pending.offer(moved, 0)
    assert pending.take_due(0, 9) == [DueChange(moved, 1)]


def test_later_change_waits_for_the_call_of_an_earlier_one():
    pending = PendingChanges()
    pending.offer(a_change(), 0)
    due(pending, 0)
    pending.offer(a_change(master_epoch=7), 10)
    assert due(pending, 10) == []
    pending.delivered(a_change())
    assert pending.oldest_ms == 10
    assert due(pending, 20) == [("broker-a", 7, 1)]


def test_failed_call_of_an_earlier_change_is_not_repeated():
    pending = PendingChanges()
    pending.offer(a_change(), 0)
    due(pending, 0)
    pending.offer(a_change(master_epoch=7), 10)
    assert pending.failed(a_change(), "status 1", 20) == 0
    assert due(pending, 20) == [("broker-a", 7, 1)]
    (undelivered,) = pending
    assert (undelivered.failures, undelivered.error, undelivered.since_ms) == (0, "", 0)


def test_waits_after_failures_grow_up_to_a_minute():
    pending = PendingChanges()
    pending.offer(a_change(), 0)
    now_ms = 0
    for attempt in range(1, len(RETRY_MS) + 3):
        assert due(pending, now_ms - 1) == []
        assert due(pending, now_ms) == [("broker-a", 6, attempt)]
        now_ms += pending.failed(a_change(), "status 1", now_ms)
    (undelivered,) = pending
    assert (undelivered.failures, undelivered.error) == (len(RETRY_MS) + 2, "status 1")
    assert pending.oldest_ms == 0
    assert tuple(sorted(RETRY_MS)) == RETRY_MS
    assert RETRY_MS[-1] == 60_000


def test_later_change_does_not_wait_for_the_retry_of_an_earlier_one():
    pending = PendingChanges()
    pending.offer(a_change(), 0)
    due(pending, 0)
    pending.failed(a_change(), "status 1", 0)
    pending.offer(a_change(master_epoch=7), 10)
    assert due(pending, 10) == [("broker-a", 7, 1)]
    # The retry of the earlier one is not left behind.
    pending.delivered(a_change(master_epoch=7))
    assert due(pending, 1_000_000) == []


def test_sets_that_are_due_for_longest_come_first_and_no_more_than_wanted():
    pending = PendingChanges()
    for number in range(5):
        pending.offer(a_change(broker_name=f"b{number}"), number)
    assert due(pending, 10, 2) == [("b0", 6, 1), ("b1", 6, 1)]
    assert sum(each.is_running for each in pending) == 2
    assert due(pending, 10, 0) == []
    assert [name for name, *_ in due(pending, 10, 9)] == ["b2", "b3", "b4"]


def test_set_that_changes_again_and_again_while_all_calls_are_busy_needs_no_more_memory():
    pending = PendingChanges()
    for epoch in range(1, 1000):
        pending.offer(a_change(master_epoch=epoch), epoch)
    assert len(pending._due) == 1
    assert due(pending, 1000) == [("broker-a", 999, 1)]
    for epoch in range(1000, 2000):
        pending.offer(a_change(master_epoch=epoch), epoch)
    assert len(pending._due) == 0
    pending.delivered(a_change(master_epoch=999))
    assert due(pending, 2000) == [("broker-a", 1999, 1)]


def test_dropped_change_is_not_delivered_and_a_new_one_of_its_set_is():
    pending = PendingChanges()
    pending.offer(a_change(), 0)
    due(pending, 0)
    pending.drop(a_change())
    assert (len(pending), pending.oldest_ms) == (0, None)
    assert pending.offer(a_change(), 5)
    assert due(pending, 5) == [("broker-a", 6, 1)]


def test_cleared_changes_are_not_delivered():
    pending = PendingChanges()
    pending.offer(a_change(), 0)
    pending.clear()
    assert due(pending, 0) == []
    assert len(pending) == 0


# Sets that were never served


def offer(pending, *names, host="", now_ms=0):
    for name in names:
        pending.offer(a_change(broker_name=name), now_ms, host)


def names_due(pending, now_ms=NOW_MS, count=100):
    return [name for name, *_ in due(pending, now_ms, count)]


def test_sets_that_were_served_before_go_first():
    pending = PendingChanges()
    offer(pending, "new-1", "new-2", host="a")
    offer(pending, "new-3", host="b")
    offer(pending, "served-1", "served-2", now_ms=9)
    assert names_due(pending, count=1) == ["served-1"]
    assert names_due(pending) == ["served-2", "new-1", "new-3"]


def test_new_sets_of_a_host_have_one_call_at_a_time_and_hosts_take_turns():
    pending = PendingChanges()
    offer(pending, *(f"a{number}" for number in range(400)), host="a")
    offer(pending, *(f"b{number}" for number in range(3)), host="b", now_ms=7)
    offer(pending, "c0", host="c", now_ms=8)
    assert names_due(pending, count=1) == ["a0"]
    for ended, following in (("a0", "b0"), ("b0", "c0"), ("c0", "a1"), ("a1", "b1"), ("b1", "a2")):
        pending.delivered(a_change(broker_name=ended))
        assert names_due(pending, count=1) == [following]
    assert names_due(pending) == ["b2"]


def test_new_set_whose_call_failed_or_that_was_dropped_lets_the_next_of_its_host_go():
    pending = PendingChanges()
    offer(pending, "a0", "a1", "a2", host="a")
    assert names_due(pending) == ["a0"]
    assert pending.failed(a_change(broker_name="a0"), "status 1", NOW_MS) == RETRY_MS[0]
    assert names_due(pending) == ["a1"]
    pending.drop(a_change(broker_name="a1"))
    assert names_due(pending) == ["a2"]
    assert names_due(pending, NOW_MS + RETRY_MS[0]) == []
    pending.delivered(a_change(broker_name="a2"))
    assert names_due(pending, NOW_MS + RETRY_MS[0]) == ["a0"]


def test_new_set_that_was_delivered_goes_first_with_its_next_change():
    pending = PendingChanges()
    offer(pending, "a0", "a1", host="a")
    assert names_due(pending) == ["a0"]
    pending.offer(a_change(broker_name="a0", master_epoch=9), 20, "a")
    pending.delivered(a_change(broker_name="a0"))
    assert names_due(pending) == ["a0", "a1"]


def test_new_sets_whose_hosts_are_unknown_wait_for_none_of_them():
    pending = PendingChanges()
    offer(pending, "x", "y")
    assert names_due(pending) == ["x", "y"]


def test_next_leader_is_not_held_up_by_calls_that_were_given_up():
    pending = PendingChanges()
    offer(pending, "a0", "a1", host="a")
    assert names_due(pending) == ["a0"]
    pending.clear()
    offer(pending, "a0", "a1", host="a")
    assert names_due(pending) == ["a0"]
