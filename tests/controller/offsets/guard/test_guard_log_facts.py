"""What the answers of a new master prove about its log."""

from dataclasses import replace

import pytest

from controller.offsets.guard.boundaries import CLOCK_MARGIN_MS, EpochBoundary, boundary_of_start
from controller.offsets.guard.log_facts import (
    NO_BOUNDARY,
    MasterLog,
    SavedMoment,
    are_epochs_enough,
    boundary_of,
    can_pop,
    decisive_place,
    facts_of,
    is_dispatched,
)
from controller.offsets.guard.rules import LogFacts, Tail
from remoting.admin.brokers import BrokerRuntime
from remoting.admin.log_epochs import LogEpoch, LogEpochs
from remoting.admin.stored_messages import StoredMessage

NOW_MS = 1_700_000_000_000


def a_moment(epoch=1, *, log_end=None, was_restarted=False, boot=None):
    return SavedMoment(epoch=epoch, unix_ms=NOW_MS, was_restarted=was_restarted, log_end=log_end, boot_unix_ms=boot)


def a_runtime(*, version="V5_5_0", boot=NOW_MS + 60_000, end=900, behind=0, begin=0):
    return BrokerRuntime(
        version=version,
        boot_unix_ms=boot,
        commit_log_min_offset=begin,
        commit_log_max_offset=end,
        dispatch_behind_bytes=behind,
        put_tps=None,
        delay_levels={},
    )


def a_message(stored):
    return StoredMessage(
        queue_id=0,
        queue_offset=0,
        physical_offset=0,
        length=1,
        body_crc=0,
        topic="t",
        store_unix_ms=stored,
        born_unix_ms=stored,
    )


def a_log(*epochs, first=None, **runtime):
    listed = tuple(LogEpoch(epoch=epoch, start_offset=start) for epoch, start in epochs)
    found = LogEpochs(broker_name="b", broker_id=0, epochs=listed, max_offset=900) if epochs else None
    return MasterLog(runtime=a_runtime(**runtime), epochs=found, decisive=None if first is None else a_message(first))


def test_next_epoch_parts_the_log():
    assert boundary_of(a_moment(), a_log((1, 0), (2, 500))) == EpochBoundary(old_below=500, new_from=500)


@pytest.mark.parametrize(
    ("log", "first"),
    [
        (a_log((1, 200), (3, 500)), 200),
        # What lies before has expired.
        (a_log((1, 200), (3, 500), begin=300), 300),
        (a_log((1, 200), (3, 500), begin=500), None),
        (a_log((1, 200), (2, 500)), None),
        # There are no later epochs: the very first message shows whether the store was emptied.
        (a_log(), 0),
        (a_log((1, 200)), 0),
        (a_log(begin=100), None),
        (a_log(end=0), None),
    ],
)
def test_message_decides_about_the_part_before_a_gap_in_the_epochs_or_about_the_store(log, first):
    assert decisive_place(a_moment(), log.epochs, log.runtime) == first


def test_gap_in_the_epochs_is_no_doubt_where_the_part_began_long_before_the_mirror_had_read():
    exact = EpochBoundary(old_below=500, new_from=500)
    doubtful = EpochBoundary(old_below=200, new_from=500)
    long_ago, just_now = NOW_MS - CLOCK_MARGIN_MS - 1, NOW_MS - CLOCK_MARGIN_MS
    for stored, boundary in ((long_ago, exact), (just_now, doubtful)):
        assert boundary_of(a_moment(), a_log((1, 200), (3, 500), first=stored)) == boundary
    assert boundary_of(a_moment(), a_log((1, 200), (3, 500))) == doubtful


@pytest.mark.parametrize(
    ("log", "is_enough"),
    [
        (a_log((1, 0), (2, 500)), True),
        (a_log((1, 0), (3, 500)), False),
        (a_log((1, 0)), False),
        (a_log(), False),
    ],
)
def test_epochs_without_a_gap_need_nothing_else(log, is_enough):
    assert are_epochs_enough(a_moment(), log.epochs) == is_enough


def test_log_of_which_nothing_but_the_next_epoch_is_requested_parts_there():
    alone = MasterLog(runtime=None, epochs=a_log((1, 0), (2, 500)).epochs)
    assert boundary_of(a_moment(), alone) == EpochBoundary(old_below=500, new_from=500)


def test_start_of_the_broker_parts_a_log_without_a_later_epoch():
    by_start = boundary_of_start(NOW_MS, NOW_MS + 60_000)
    assert boundary_of(a_moment(None), a_log()) == by_start
    assert boundary_of(a_moment(1), a_log((1, 0))) == by_start


def test_broker_that_ran_already_when_the_offsets_were_read_proves_nothing():
    for boot in (None, NOW_MS - 3_600_000, NOW_MS - 1, NOW_MS + CLOCK_MARGIN_MS):
        assert boundary_of(a_moment(None), a_log(boot=boot)) is NO_BOUNDARY


def test_later_start_at_the_same_address_parts_the_log_however_soon_it_came():
    for epoch, epochs in ((None, ()), (1, ((1, 0),))):
        found = boundary_of(a_moment(epoch, boot=NOW_MS - 3_600_000), a_log(*epochs, boot=NOW_MS + 2000))
        assert found == boundary_of_start(NOW_MS, NOW_MS + 2000, NOW_MS - 3_600_000)
        assert found is not None
    same = a_moment(None, boot=NOW_MS - 3_600_000)
    assert boundary_of(same, a_log(boot=NOW_MS - 3_600_000)) is NO_BOUNDARY


@pytest.mark.parametrize(
    ("log_end", "end", "tail"),
    [(None, 900, Tail.MAY_BE_LOST), (900, 900, Tail.MAY_BE_LOST), (901, 900, Tail.LOST), (901, None, Tail.MAY_BE_LOST)],
)
def test_log_that_ends_after_a_start_before_it_had_ended_has_lost_its_tail(log_end, end, tail):
    found = facts_of(a_moment(None, log_end=log_end), a_log(end=end), Tail.MAY_BE_LOST, is_recent=True, has_pulls=False)
    assert (found.tail, found.has_saved_log) == (tail, False)


def test_shorter_log_of_a_broker_whose_start_proves_nothing_is_no_lost_tail():
    """It may be a slave without a controller, and nothing is proved of its messages."""
    moment, log = a_moment(None, log_end=1000), a_log(boot=NOW_MS - 1, end=900)
    assert facts_of(moment, log, Tail.MAY_BE_LOST, is_recent=True, has_pulls=False).tail is Tail.MAY_BE_LOST


def test_log_that_ends_in_an_earlier_epoch_than_that_of_the_offsets_proves_nothing():
    assert boundary_of(a_moment(3), a_log((1, 0), (2, 500))) is NO_BOUNDARY


def test_what_a_master_that_was_started_again_has_stored_after_the_reading_is_not_proved_to_be_old():
    moment = a_moment(was_restarted=True, log_end=500)
    log = a_log((1, 0), (2, 500))
    assert boundary_of(moment, log).old_stored_before_ms == NOW_MS - CLOCK_MARGIN_MS
    assert not facts_of(moment, log, Tail.KEPT, is_recent=True, has_pulls=False).has_saved_log


@pytest.mark.parametrize(
    ("log_end", "facts"),
    [
        (None, LogFacts(tail=Tail.KEPT)),
        (500, LogFacts(tail=Tail.KEPT, has_saved_log=True)),
        (501, LogFacts(tail=Tail.LOST)),
    ],
)
def test_end_of_the_old_log_shows_whether_all_that_was_saved_is_in_the_new_one(log_end, facts):
    moment = a_moment(log_end=log_end)
    assert facts_of(moment, a_log((1, 0), (2, 500)), Tail.KEPT, is_recent=False, has_pulls=False) == facts


def is_emptied(moment, log):
    return facts_of(moment, log, Tail.MAY_BE_LOST, is_recent=True, has_pulls=False).is_emptied


def test_store_whose_log_begins_in_a_later_epoch_was_emptied():
    assert is_emptied(a_moment(), a_log((2, 0)))
    assert not is_emptied(a_moment(), a_log((1, 0), (2, 500)))
    # The head has expired.
    assert not is_emptied(a_moment(), a_log((2, 500)))


def test_store_whose_first_message_came_after_the_start_was_emptied():
    moment, boot = a_moment(None), NOW_MS + 60_000
    assert is_emptied(moment, a_log(boot=boot, first=boot))
    assert is_emptied(moment, a_log(boot=boot, end=0))
    assert not is_emptied(moment, a_log(boot=boot, first=boot - 1))
    assert not is_emptied(moment, a_log(boot=boot))
    assert not is_emptied(moment, a_log(boot=boot, begin=100, first=boot))
    # It was there when the mirror read the offsets: the clock of the broker is behind.
    assert not is_emptied(moment, a_log(boot=NOW_MS - 5, first=NOW_MS - 1))


def test_store_whose_first_message_is_still_to_come_was_not_emptied():
    """Its clock was ahead, and was set right as it was started."""
    boot = NOW_MS + 60_000
    log = replace(a_log(boot=boot, first=boot + 40_000), latest_unix_ms=boot + 20_000)
    assert not is_emptied(a_moment(None), log)
    assert is_emptied(a_moment(None), replace(log, latest_unix_ms=boot + 40_000))


def test_store_that_was_emptied_shows_it_also_where_the_broker_was_started_right_after_the_reading():
    moment, boot = a_moment(None, boot=NOW_MS - 3_600_000), NOW_MS + 2000
    assert is_emptied(moment, a_log(boot=boot, first=boot + 1))
    assert is_emptied(moment, a_log(boot=boot, end=0))
    assert not is_emptied(moment, a_log(boot=boot, first=boot - 1))
    # The clock of the manager is ahead.
    assert not is_emptied(moment, a_log(boot=NOW_MS - 2000, first=NOW_MS - 1))


@pytest.mark.parametrize(("version", "can"), [("V4_9_7", False), ("V5_0_0", True), ("V5_5_0", True), (None, True)])
def test_brokers_of_5_pop_and_those_of_4_do_not(version, can):
    assert can_pop(a_log(version=version)) == can
    assert can_pop(MasterLog(runtime=None, epochs=None))


def test_log_is_dispatched_once_its_former_end_is_in_the_queues():
    assert not is_dispatched(a_runtime(end=1000, behind=200), 900)
    assert is_dispatched(a_runtime(end=1100, behind=200), 900)
    assert is_dispatched(a_runtime(end=900, behind=-8), 900)
    assert is_dispatched(a_runtime(end=None), 900)
