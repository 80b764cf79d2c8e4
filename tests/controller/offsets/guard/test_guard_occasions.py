"""When another run of a broker set has begun, how long ago at most, and what the one before it had."""

import json
from dataclasses import replace

import pytest
from guard_logs import READ_MS
from guarded_sets import CLUSTER, set_name

from controller.offsets.entry_keys import EntryKey
from controller.offsets.guard.candidates import SavedQueue, TableKey
from controller.offsets.guard_runs.occasions import (
    OUTDATED_MS,
    RECENT_MS,
    UNSEEN_RESETS_MS,
    UNSEEN_RESTART_MS,
    GuardCause,
    Notice,
    former_reading,
    is_run_of,
    occasion_of,
    oldest_former_reading,
)
from controller.offsets.guard_runs.saved_tables import SavedTableReading
from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror.changes import ReadState
from controller.offsets.mirror.comparison import MasterReading
from controller.offsets.mirror.masters import MasterRun
from controller.offsets.topology.values import SetMaster
from remoting.admin.offset_table import OffsetTable

OLD, NEW = "10.0.0.1:10911", "10.0.0.2:10911"
BOOT_MS = READ_MS - 3_600_000
NOW_MS = 5_000_000


def a_reading(table=None, *, address=OLD, epoch=1, boot_ms=BOOT_MS, unix_ms=READ_MS, requested_ms=0):
    """Return what the mirror has saved of one reading."""
    mirror = BrokerMirror(set_name())
    run = MasterRun(address=address, master_epoch=epoch, boot_unix_ms=boot_ms)
    body = json.dumps({"offsetTable": table or {}}, separators=(",", ":")).encode()
    read = ReadState(run, unix_ms, unix_ms, None)
    mirror.take(MasterReading(read=read, table=OffsetTable(body), requested_ms=requested_ms))
    return mirror.saved


def a_master(*, address=NEW, epoch=2, boot_ms=None):
    return SetMaster(CLUSTER, "b", 2, address, epoch, boot_ms)


def an_occasion(
    *,
    cause=GuardCause.MOVED,
    after_ms=12_000,
    known_ms=None,
    lost_ms=None,
    down_ms=None,
    boot_ms=None,
    master=None,
    rewinds=None,
):
    """Return what is noticed so long after the last reading."""
    notice = Notice(
        cause=cause,
        now_ms=NOW_MS,
        unix_ms=READ_MS + after_ms,
        known_ms=known_ms,
        lost_ms=lost_ms,
        down_ms=down_ms,
        boot_unix_ms=boot_ms,
    )
    saved = a_reading(requested_ms=NOW_MS - after_ms)
    return occasion_of(set_name(), notice, master or a_master(), saved, rewinds or {})


@pytest.mark.parametrize(
    ("run", "master", "is_of"),
    [
        ({}, a_master(address=OLD, epoch=1), True),
        ({}, a_master(address=OLD, epoch=2), False),
        ({}, a_master(address=NEW, epoch=1), False),
        ({"epoch": None}, a_master(address=OLD, epoch=None, boot_ms=BOOT_MS), True),
        ({"epoch": None}, a_master(address=OLD, epoch=None, boot_ms=BOOT_MS + 1), False),
        # The mirror has read the broker after its start before that start was found.
        ({"epoch": None, "boot_ms": BOOT_MS + 1}, a_master(address=OLD, epoch=None, boot_ms=BOOT_MS), True),
    ],
)
def test_run_of_a_master_has_its_address_its_epoch_and_its_start(run, master, is_of):
    assert is_run_of(a_reading(**run).read.run, master) is is_of


def test_reading_of_a_later_epoch_than_that_of_the_master_is_no_former_one():
    assert former_reading(a_master(), a_reading(epoch=3), ()) is None


def test_reading_before_that_of_the_master_is_the_former_one():
    before, of_master = a_reading(), a_reading(address=NEW, epoch=2)
    assert former_reading(a_master(), of_master, (a_reading(), before)) is before
    assert former_reading(a_master(), of_master, ()) is None
    assert former_reading(a_master(), before, ()) is before


def test_first_run_that_was_not_dealt_with_is_the_oldest_former_one_unless_its_memory_lived_on():
    first, again = a_reading(), a_reading(epoch=2)
    second, of_master = a_reading(address="10.0.0.3:10911", epoch=3), a_reading(address=NEW, epoch=4)
    master = a_master(epoch=4)
    assert oldest_former_reading(master, of_master, (first, second)) is first
    assert oldest_former_reading(master, second, (first,)) is first
    assert oldest_former_reading(master, of_master, (first, again, second)) is again
    assert oldest_former_reading(master, first, ()) is first
    assert oldest_former_reading(master, of_master, ()) is None
    assert oldest_former_reading(master, a_reading(epoch=5), (first,)) is None


def test_former_run_of_the_process_that_is_master_again_without_a_controller_was_no_loss():
    first, second, again = (a_reading(address=address, epoch=None) for address in (OLD, NEW, OLD))
    assert oldest_former_reading(a_master(address=OLD, epoch=None), again, (first, second)) is second
    assert oldest_former_reading(a_master(address=NEW, epoch=None), again, (first, second)) is first


def test_promotion_was_after_the_last_reading_of_the_former_master():
    assert an_occasion(after_ms=12_000).age_ms == 12_000
    assert an_occasion(after_ms=12_000).is_recent(NOW_MS)
    assert not an_occasion(after_ms=RECENT_MS + 1).is_recent(NOW_MS)
    assert not an_occasion(after_ms=12_000).is_recent(NOW_MS + 12_000)


def test_promotion_was_after_the_last_answer_of_controllers_that_did_not_have_it():
    assert an_occasion(after_ms=UNSEEN_RESETS_MS, known_ms=NOW_MS - 1000).age_ms == 3_500
    # It is found by the first answer: nobody knows since when it is so.
    assert (
        an_occasion(cause=GuardCause.FOUND, after_ms=UNSEEN_RESETS_MS, known_ms=NOW_MS - 1000).age_ms
        == UNSEEN_RESETS_MS
    )


def test_name_servers_show_a_master_that_has_moved_or_was_restarted_too_late():
    moved = a_master(epoch=None, boot_ms=BOOT_MS)
    assert an_occasion(after_ms=25_000, known_ms=NOW_MS, master=moved).age_ms == 25_000
    restarted = {"cause": GuardCause.RESTARTED, "after_ms": 25_000, "known_ms": NOW_MS}
    assert an_occasion(**restarted, master=moved).age_ms == 25_000
    assert an_occasion(**restarted, boot_ms=READ_MS + 24_000, master=moved).age_ms == 6_000


@pytest.mark.parametrize("cause", list(GuardCause))
def test_former_master_that_was_not_read_up_to_its_end_may_have_had_resets(cause):
    unread = {"cause": cause, "known_ms": NOW_MS, "boot_ms": READ_MS + 3_599_000}
    assert not an_occasion(**unread, after_ms=3_600_000).is_recent(NOW_MS)
    assert not an_occasion(**unread, after_ms=3_600_000, lost_ms=NOW_MS - 60_000).is_recent(NOW_MS)


def test_nobody_has_reset_offsets_while_the_set_was_without_a_master():
    gained = {"cause": GuardCause.GAINED, "known_ms": NOW_MS, "lost_ms": NOW_MS - 60_000}
    assert an_occasion(**gained, after_ms=60_000 + UNSEEN_RESETS_MS).is_recent(NOW_MS)
    assert not an_occasion(**gained, after_ms=60_001 + UNSEEN_RESETS_MS).is_recent(NOW_MS)


def test_nobody_resets_offsets_at_a_master_that_is_gone_though_its_set_keeps_it_until_another_one_is_elected():
    moved = {"known_ms": NOW_MS, "down_ms": NOW_MS - 60_000}
    assert an_occasion(**moved, after_ms=60_000 + UNSEEN_RESETS_MS).is_recent(NOW_MS)
    assert not an_occasion(**moved, after_ms=60_001 + UNSEEN_RESETS_MS).is_recent(NOW_MS)


def test_clock_that_was_set_back_during_a_pause_of_the_manager_bounds_nothing():
    read_before = replace(a_reading(), requested_ms=None)
    notice = Notice(
        cause=GuardCause.MOVED,
        now_ms=NOW_MS,
        unix_ms=READ_MS - 1,
        known_ms=NOW_MS,
        lost_ms=None,
        down_ms=None,
        boot_unix_ms=READ_MS + 60_000,
    )
    occasion = occasion_of(set_name(), notice, a_master(), read_before, {})
    assert (occasion.is_recent(NOW_MS), occasion.moment.was_restarted) == (False, True)


def test_clock_that_was_set_back_makes_no_reading_newer():
    saved = a_reading(requested_ms=NOW_MS - 3_600_000)
    notice = Notice(
        cause=GuardCause.FOUND,
        now_ms=NOW_MS,
        unix_ms=READ_MS + 5,
        known_ms=None,
        lost_ms=None,
        down_ms=None,
        boot_unix_ms=None,
    )
    occasion = occasion_of(set_name(), notice, a_master(), saved, {})
    assert (occasion.is_recent(NOW_MS), occasion.moment.was_restarted) == (False, True)


def test_clock_of_a_broker_that_is_ahead_bounds_nothing():
    assert an_occasion(after_ms=RECENT_MS + 1, boot_ms=READ_MS + 60_000).age_ms == RECENT_MS + 1


def test_restart_was_not_before_the_start_of_the_broker_less_a_margin_for_clocks():
    occasion = an_occasion(cause=GuardCause.NEW_RUN, after_ms=30_000, boot_ms=READ_MS + 28_000)
    assert occasion.age_ms == 7_000


def test_master_of_the_same_epoch_has_been_started_again():
    assert an_occasion(master=a_master(epoch=1), after_ms=1000).moment.was_restarted
    assert not an_occasion(after_ms=UNSEEN_RESTART_MS).moment.was_restarted


def test_former_master_may_have_been_started_again_unseen_where_the_reading_is_old():
    assert an_occasion(after_ms=UNSEEN_RESTART_MS + 1).moment.was_restarted


def test_start_of_the_broker_that_was_read_counts_at_its_own_address_alone():
    assert an_occasion(master=a_master(address=OLD)).moment.boot_unix_ms == BOOT_MS
    assert an_occasion(master=a_master(address=NEW)).moment.boot_unix_ms is None


def test_occasion_is_outdated_after_ten_minutes():
    occasion = an_occasion()
    assert not occasion.is_outdated(NOW_MS + OUTDATED_MS)
    assert occasion.is_outdated(NOW_MS + OUTDATED_MS + 1)


def test_saved_offsets_are_taken_with_what_went_back_and_what_was_deleted():
    saved = a_reading({"orders@g": {0: 5, 1: 7}, "orders@h@broadcast": {0: 1}})
    rewinds = {(EntryKey("orders", group), queue_id): 90 for group, queue_id in (("g", 1), ("g", 2), ("deleted", 0))}
    reading = SavedTableReading(saved, rewinds, {})
    for _ in reading.slices():
        pass
    assert reading.table == {
        TableKey("g", "orders"): {0: SavedQueue(5), 1: SavedQueue(7, 90), 2: SavedQueue(None, 90)},
        TableKey("h", "orders", is_broadcast=True): {0: SavedQueue(1)},
        TableKey("deleted", "orders"): {0: SavedQueue(None, 90)},
    }
