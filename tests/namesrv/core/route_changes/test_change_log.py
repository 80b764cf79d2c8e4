"""The numbered changes of followed keys: what is kept, what goes, and who is woken."""

from namesrv.core import change_log
from namesrv.core.change_log import UNWATCHED_MS_MAX, ChangeLog, WatchCursor


def a_log(*keys, changes_max=100, bytes_max=1000):
    log, cursor = ChangeLog(changes_max, bytes_max), WatchCursor(keys, 0)
    for key in keys:
        log.watch(key, cursor)
    return log, cursor


def append(log, key, text=b"x"):
    return log.append(key, lambda number: b"%d:%s" % (number, text))


def kept(log, key, number=0):
    return [change.text for change in log.after(key, number)]


def test_changes_are_kept_in_order_and_read_after_a_number():
    log, _ = a_log("a", "b")
    for key in "aabab":
        append(log, key)
    assert kept(log, "a") == [b"3:x", b"4:x", b"6:x"]
    assert kept(log, "a", 3) == [b"4:x", b"6:x"]
    assert kept(log, "b", 7) == []


def test_oldest_change_of_any_key_goes_first_and_its_key_knows():
    log, _ = a_log("a", "b", changes_max=2)
    for key in "abb":
        append(log, key)
    assert (kept(log, "a"), kept(log, "b")) == ([], [b"4:x", b"5:x"])
    assert (log.get("a").complete_since, log.get("b").complete_since) == (3, 2)


def test_changes_have_a_limit_in_bytes():
    log, _ = a_log("a", bytes_max=10)
    for _ in range(3):
        append(log, "a", b"123")
    assert kept(log, "a") == [b"3:123", b"4:123"][-2:]


def test_change_that_is_longer_than_the_limit_is_not_kept():
    log, _ = a_log("a", bytes_max=10)
    append(log, "a", b"1" * 20)
    assert kept(log, "a") == []
    assert log.get("a").complete_since == log.number


def test_only_watchers_that_had_nothing_to_read_are_returned():
    log, cursor = a_log("a")
    assert append(log, "a") == [cursor]
    assert append(log, "a") == []


def test_key_is_followed_for_a_while_after_its_last_watcher_left():
    log, cursor = a_log("a")
    log.unwatch("a", cursor, now_ms=0)
    append(log, "a")
    log.end_unwatched(UNWATCHED_MS_MAX - 1)
    assert kept(log, "a") == [b"2:x"]
    log.end_unwatched(UNWATCHED_MS_MAX)
    assert log.get("a") is None


def test_watched_key_is_followed_for_good():
    log, cursor = a_log("a")
    log.unwatch("a", cursor, now_ms=0)
    log.watch("a", cursor)
    log.end_unwatched(10 * UNWATCHED_MS_MAX)
    assert log.get("a") is not None


def test_keys_that_nobody_watches_have_a_limit(monkeypatch):
    monkeypatch.setattr(change_log, "UNWATCHED_KEYS_MAX", 2)
    log, cursor = a_log("a", "b", "c")
    for key in "bca":
        log.unwatch(key, cursor, now_ms=0)
    assert set(log.keys) == {"c", "a"}


def test_key_that_is_followed_anew_is_not_complete_for_who_read_before():
    log, cursor = a_log("a")
    read_to = log.number
    log.unwatch("a", cursor, now_ms=0)
    log.end_unwatched(UNWATCHED_MS_MAX)
    log.watch("a", cursor)
    assert log.get("a").complete_since > read_to
    assert kept(log, "a") == []


def test_old_change_of_a_key_that_is_followed_anew_takes_none_of_its_new_ones():
    log, cursor = a_log("a", changes_max=2)
    append(log, "a", b"old")
    log.unwatch("a", cursor, now_ms=0)
    log.end_unwatched(UNWATCHED_MS_MAX)
    log.watch("a", cursor)
    append(log, "a", b"new")
    append(log, "a", b"newer")
    assert kept(log, "a") == [b"4:new", b"5:newer"]
