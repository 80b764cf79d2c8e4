"""The guard after changes of masters: real connections to fake masters, from what the mirror had read."""

import asyncio

import pytest
from guarded_sets import KEY, OLD_ADDRESS, a_master, eventually, guarded_sets, set_name

from controller.offsets.app import guarding
from controller.offsets.entry_keys import EntryKey
from controller.offsets.guard.rules import Tail
from controller.offsets.mirror.regressions import Reset, SetQueue
from controller.offsets.mirror.saved_offsets import UnusableOffsets
from remoting.protocol.codes import BrokerRequestCode, ResponseCode

QUEUE = SetQueue(set_name(), EntryKey("orders", "g"), 0)


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(guarding, "LOOK_S", 0.02)


async def test_new_master_gets_the_offsets_that_the_mirror_had_read_of_the_old_one():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.elect(OLD_ADDRESS, 1, broker_id=1)
        sets.mirror.read({KEY: {0: 80}})
        sets.clock.pass_ms(12_000)
        await asyncio.sleep(0.1)
        sets.elect(master.peer.address, 2)
        run = await sets.ended()
    assert master.written == [("commit", KEY, 0, 80)]
    assert (run.cause, run.is_recent, run.moment.epoch, run.moment.was_restarted) == ("moved", True, 1, False)
    (summary,) = sets.events("offsets_guarded")
    assert (summary["broker"], summary["push"], summary["stored"], summary["unwritten"]) == ("b", 1, 1, 0)
    (line,) = sets.events("group_guarded")
    assert (line["group"], line["saved"], line["old_offset"], line["new_offset"]) == ("g", 80, 60, 80)
    assert sets.counters.offsets.counts()["push", "behind", "stored"] == 1


async def test_resets_while_the_manager_was_down_are_not_undone_by_a_failover_after_its_start():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.clock.pass_ms(3_600_000)
        sets.elect(OLD_ADDRESS, 1, broker_id=1)
        await asyncio.sleep(0.1)
        # It fails before the mirror has read it.
        sets.elect(None, 1)
        sets.clock.pass_ms(15_000)
        sets.elect(master.peer.address, 2)
        run = await sets.ended()
    assert master.written == []
    assert [(each.action, each.reason, each.offset) for each in run.offsets] == [("report", "may_be_reset", 80)]


@pytest.mark.parametrize(("passed_ms", "written"), [(40_000, [("commit", KEY, 0, 80)]), (300_000, [])])
async def test_group_without_members_is_raised_within_a_minute_where_the_broker_cannot_pop(passed_ms, written):
    master = a_master({}, epochs=None)
    master.clients, master.version = {}, "V4_9_7"
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}}, epoch=None)
        sets.clock.pass_ms(passed_ms)
        sets.elect(master.peer.address, None)
        await sets.ended()
    assert master.written == written


async def test_group_with_members_is_raised_however_long_its_set_was_without_a_master():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.elect(OLD_ADDRESS, 1, broker_id=1)
        sets.mirror.read({KEY: {0: 80}})
        sets.clock.pass_ms(15_000)
        sets.elect(None, 1)
        sets.clock.pass_ms(300_000)
        await asyncio.sleep(0.1)
        sets.elect(master.peer.address, 2)
        run = await sets.ended()
    assert run.is_recent
    assert master.written == [("commit", KEY, 0, 80)]


async def test_guard_that_only_reports_shows_what_it_would_write():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master, mode="report") as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(master.peer.address, 2)
        run = await sets.ended()
    assert master.written == []
    assert [(each.action, each.outcome, each.shown, each.offset) for each in run.offsets] == [
        ("push", "withheld", 60, 80)
    ]


async def test_reading_of_the_new_master_in_between_changes_nothing_of_what_is_written():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(OLD_ADDRESS, 1, broker_id=1)
        # The mirror knows the new master by the same answer of the controller, and may be first.
        sets.mirror.read({KEY: {0: 60}}, address=master.peer.address, epoch=2)
        sets.elect(master.peer.address, 2)
        await sets.ended()
        assert master.written == [("commit", KEY, 0, 80)]
        assert sets.mirror.has_former()
        sets.clock.pass_ms(5_000)
        sets.mirror.read({KEY: {0: 80}}, address=master.peer.address, epoch=2)
        await eventually(lambda: not sets.mirror.has_former())
        assert len(sets.guarding.runs.runs()) == 1


@pytest.mark.parametrize(("tail", "written"), [(Tail.MAY_BE_LOST, ["commit"]), (Tail.LOST, ["commit", "reset"])])
async def test_reset_of_long_ago_is_not_undone_by_a_slave_that_has_copied_nothing_since(tail, written):
    """As one of 5.5.0: its table is of when it was master itself, between where the group was and where it is now."""
    master = a_master({KEY: {0: 50}})
    async with guarded_sets(master, tail=tail) as sets:
        for offset in (90, 40, 45):
            sets.mirror.read({KEY: {0: offset}})
            sets.clock.pass_ms(600_000 if offset == 40 else 5_000)
        sets.elect(master.peer.address, 2)
        run = await sets.ended()
    assert run.is_recent
    assert master.written == [(each, KEY, 0, 45) for each in written]


async def test_group_that_has_gone_past_where_it_was_before_a_reset_keeps_what_it_has_read_at_the_new_master():
    master = a_master({KEY: {0: 97}})
    async with guarded_sets(master) as sets:
        for offset in (90, 40, 95):
            sets.mirror.read({KEY: {0: offset}})
        sets.elect(master.peer.address, 2)
        run = await sets.ended()
    assert (master.written, list(run.offsets)) == ([], [])


async def test_deletion_that_a_slave_does_not_know_of_is_reported():
    deleted_everywhere = "orders@h"
    master = a_master({KEY: {0: 50}})
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 50}, deleted_everywhere: {0: 50}})
        sets.mirror.read({})
        sets.clock.pass_ms(600_000)
        sets.mirror.read({})
        sets.elect(master.peer.address, 2)
        run = await sets.ended()
    assert master.written == []
    found = [(each.group, each.action, each.reason, each.saved, each.offset) for each in run.offsets]
    assert found == [("g", "report", "rewound", None, None)]


async def test_second_failover_ends_the_run_and_begins_from_the_same_offsets():
    second, third = a_master({KEY: {0: 60}}), a_master({KEY: {0: 50}}, epochs=((1, 0), (2, None), (3, None)))
    second.silent = BrokerRequestCode.QUERY_CONSUME_QUEUE
    async with guarded_sets(second, third) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(second.peer.address, 2)
        await eventually(lambda: second.peer.count(second.silent))
        sets.mirror.read({KEY: {0: 60}}, address=second.peer.address, epoch=2)
        sets.elect(third.peer.address, 3, broker_id=3)
        run = await sets.ended(2)
    assert second.written == []
    assert third.written == [("commit", KEY, 0, 80)]
    assert run.moment.epoch == 1
    cut = sets.guarding.runs.runs()[1]
    assert (cut.result, cut.report.failure.startswith("the master has changed again")) == ("ended", True)
    assert sets.events("guard_run_failed") == []
    assert [each["result"] for each in sets.events("offsets_guarded")] == ["ended", "complete"]


async def test_failover_after_the_mirror_has_read_what_a_run_did_begins_from_that():
    second, third = a_master({KEY: {0: 60}}), a_master({KEY: {0: 50}}, epochs=((1, 0), (2, 0), (3, None)))
    async with guarded_sets(second, third) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(second.peer.address, 2)
        await sets.ended()
        sets.clock.pass_ms(1000)
        sets.mirror.read({KEY: {0: 90}}, address=second.peer.address, epoch=2)
        sets.elect(third.peer.address, 3, broker_id=3)
        run = await sets.ended(2)
    assert third.written == [("commit", KEY, 0, 90)]
    assert run.moment.epoch == 2


async def test_reading_from_before_the_run_is_not_taken_for_a_later_one_where_the_clock_is_set_back():
    second, third = a_master({KEY: {0: 60}}), a_master({KEY: {0: 50}}, epochs=((1, 0), (2, None), (3, None)))
    async with guarded_sets(second, third) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.mirror.read({KEY: {0: 60}}, address=second.peer.address, epoch=2)
        sets.clock.set_back_ms(60_000)
        sets.elect(second.peer.address, 2)
        await sets.ended()
        sets.elect(third.peer.address, 3, broker_id=3)
        run = await sets.ended(2)
    assert third.written == [("commit", KEY, 0, 80)]
    assert run.moment.epoch == 1


async def test_rewind_at_a_master_that_is_elected_again_is_not_undone():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.elect(master.peer.address, 1)
        sets.mirror.read({KEY: {0: 80}}, address=master.peer.address, epoch=1)
        sets.elect(None, 1)
        sets.clock.pass_ms(15_000)
        sets.elect(master.peer.address, 2)
        await asyncio.sleep(0.1)
        assert (sets.guarding.waiting, master.peer.received) == (1, [])
        sets.mirror.read({KEY: {0: 60}}, address=master.peer.address, epoch=2)
        await eventually(lambda: not sets.mirror.has_former())
        assert (sets.guarding.waiting, sets.guarding.running) == (0, 0)
    assert master.peer.received == []


async def test_master_that_is_elected_after_its_restart_is_guarded_once_the_mirror_shows_its_start():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.elect(master.peer.address, 1)
        sets.mirror.read({KEY: {0: 80}}, address=master.peer.address, epoch=1)
        sets.elect(master.peer.address, 2)
        sets.mirror.read({KEY: {0: 60}}, address=master.peer.address, epoch=2, boot_ms=1)
        await sets.ended()
    assert master.written == [("commit", KEY, 0, 80)]


async def test_master_that_is_killed_after_its_run_and_starts_again_is_guarded_from_the_same_offsets():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(master.peer.address, 2)
        await sets.ended()
        master.offsets = {KEY: {0: 60}}
        sets.clock.pass_ms(8_000)
        boot_ms = sets.clock.unix_ms() - 5_000
        sets.mirror.read({KEY: {0: 60}}, address=master.peer.address, epoch=2, boot_ms=boot_ms)
        await sets.ended(2)
        sets.clock.pass_ms(1_000)
        sets.mirror.read({KEY: {0: 80}}, address=master.peer.address, epoch=2, boot_ms=boot_ms)
        await eventually(lambda: not sets.mirror.has_former())
    assert master.written == [("commit", KEY, 0, 80)] * 2


async def test_failover_that_no_manager_has_guarded_is_not_settled_by_time():
    third = a_master({KEY: {0: 50}}, epochs=((1, 0), (2, None), (3, None)))
    for other_leads, saved_epoch in ((False, 1), (True, 2)):
        async with guarded_sets(third) as sets:
            sets.serves, sets.other_leads = False, other_leads
            sets.mirror.read({KEY: {0: 80}})
            sets.elect("127.0.0.1:2", 2)
            await asyncio.sleep(0.1)
            sets.clock.pass_ms(31_000)
            sets.mirror.read({KEY: {0: 60}}, address="127.0.0.1:2", epoch=2)
            sets.elect(third.peer.address, 3, broker_id=3)
            sets.serves = True
            run = await sets.ended()
            assert run.moment.epoch == saved_epoch


async def test_run_begins_once_it_is_known_who_is_master():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.masters.fresh = False
        sets.elect(master.peer.address, 2)
        await asyncio.sleep(0.1)
        assert (sets.guarding.waiting, master.peer.received) == (1, [])
        sets.masters.fresh = True
        await sets.ended()
    assert master.written == [("commit", KEY, 0, 80)]


async def test_offsets_that_four_runs_have_not_set_right_are_kept_for_the_next_master():
    second, third = a_master({KEY: {0: 60}}), a_master({KEY: {0: 50}}, epochs=((1, 0), (2, None), (3, None)))
    second.name = "other"
    async with guarded_sets(second, third) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(second.peer.address, 2)
        for runs in range(1, 5):
            await sets.ended(runs)
            sets.clock.pass_ms(2_000)
        sets.mirror.read({KEY: {0: 60}}, address=second.peer.address, epoch=2)
        await asyncio.sleep(0.1)
        assert sets.mirror.has_former()
        sets.elect(third.peer.address, 3, broker_id=3)
        run = await sets.ended(5)
    assert run.moment.epoch == 1
    assert third.written == [("commit", KEY, 0, 80)]


async def test_restart_within_an_epoch_that_only_the_mirror_shows_is_guarded_by_store_times():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.elect(master.peer.address, 2)
        sets.mirror.read({KEY: {0: 80}}, address=master.peer.address, epoch=2, boot_ms=1)
        sets.clock.pass_ms(8000)
        sets.mirror.read({KEY: {0: 60}}, address=master.peer.address, epoch=2, boot_ms=sets.clock.unix_ms() - 3000)
        run = await sets.ended()
    assert (run.cause, run.moment.was_restarted, run.is_recent) == ("new_run", True, True)


async def test_manager_that_does_not_serve_writes_nothing_and_does_it_once_it_serves():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.serves = False
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(master.peer.address, 2)
        await asyncio.sleep(0.1)
        assert (sets.guarding.waiting, master.peer.received) == (1, [])
        sets.clock.pass_ms(60_000)
        sets.serves = True
        run = await sets.ended()
    # A minute later somebody may have reset the group there.
    assert master.written == []
    assert [(each.action, each.reason, each.offset) for each in run.offsets] == [("report", "may_be_reset", 80)]


async def test_restore_that_the_mirror_has_not_read_when_the_master_fails_is_not_undone():
    other = "orders@h"
    master = a_master({KEY: {0: 60}, other: {0: 60}})
    master.clients = {"g": "pulls", "h": "pulls"}
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}, other: {0: 80}})
        sets.clock.pass_ms(2000)
        sets.mirror.resets.note(QUEUE, Reset(10, sets.clock.unix_ms()))
        sets.elect(master.peer.address, 2)
        run = await sets.ended()
    assert master.written == [("commit", other, 0, 80)]
    found = {each.group: (each.action, each.reason, each.offset) for each in run.offsets}
    assert found["g"] == ("report", "may_be_reset", 10)


@pytest.mark.parametrize("planned_ms", [0, 5_000])
async def test_restore_after_the_last_look_of_a_run_is_not_overwritten_whenever_it_was_planned(planned_ms):
    other = "orders@h"
    master = a_master({KEY: {0: 60}, other: {0: 60}})
    master.clients = {"g": "pulls", "h": "pulls"}
    async with guarded_sets(master) as sets:
        looks = []

        def restore(code):
            looks.append(code)
            if looks.count(BrokerRequestCode.GET_ALL_CONSUMER_OFFSET) == 2 and master.offsets[KEY] == {0: 60}:
                sets.mirror.resets.note(QUEUE, Reset(10, sets.clock.unix_ms() - planned_ms))
                master.offsets[KEY] = {0: 10}

        master.then = restore
        sets.mirror.read({KEY: {0: 80}, other: {0: 80}})
        sets.elect(master.peer.address, 2)
        run = await sets.ended()
    assert master.written == [("commit", other, 0, 80)]
    found = {each.group: (each.action, each.outcome, each.detail) for each in run.offsets}
    assert found["g"][:2] == ("push", "moved_on")
    assert "an operator has reset it" in found["g"][2]
    assert found["h"] == ("push", "stored", "")


async def test_restore_between_a_commit_and_the_reset_that_was_to_follow_is_not_overwritten():
    master = a_master({KEY: {0: 130}}, new=10)
    async with guarded_sets(master) as sets:

        def restore(code):
            if code == BrokerRequestCode.UPDATE_CONSUMER_OFFSET:
                sets.mirror.resets.note(QUEUE, Reset(10, sets.clock.unix_ms()))

        master.then = restore
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(master.peer.address, 2)
        run = await sets.ended()
    assert master.written == [("commit", KEY, 0, 80)]
    assert [each.outcome for each in run.offsets] == ["moved_on"]


async def test_offsets_that_a_busy_broker_did_not_take_are_written_by_another_run():
    master = a_master({KEY: {0: 60}})
    master.first = {BrokerRequestCode.UPDATE_CONSUMER_OFFSET: [ResponseCode.SYSTEM_BUSY] * 21}
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(master.peer.address, 2)
        first = await sets.ended()
        sets.clock.pass_ms(2_000)
        second = await sets.ended(2)
        (line,) = sets.events("guard_run_failed")
    assert (first.result, second.result) == ("failed", "complete")
    assert "has not taken all offsets: code 2" in line["error"]
    assert master.written == [("commit", KEY, 0, 80)]


async def test_manager_that_ceases_to_serve_during_a_run_writes_no_more():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master, looks=False) as sets:
        sets.mirror.read({KEY: {0: 80}})

        def depose(code):
            if code == BrokerRequestCode.QUERY_CONSUME_QUEUE:
                sets.serves = False

        master.then = depose
        sets.elect(master.peer.address, 2)
        run = await sets.ended()
        assert master.written == []
        assert (run.offsets[0].outcome, run.result) == ("role_changed", "ended")
        assert sets.guarding.waiting == 1


async def test_offsets_are_written_later_where_nobody_knew_for_a_moment_who_is_master():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})

        def cut_off(code):
            if code == BrokerRequestCode.QUERY_CONSUME_QUEUE:
                sets.masters.fresh = False

        master.then = cut_off
        sets.elect(master.peer.address, 2)
        await sets.ended()
        assert master.written == []
        master.then = lambda _: None
        sets.masters.fresh = True
        sets.clock.pass_ms(2_000)
        await sets.ended(2)
    assert master.written == [("commit", KEY, 0, 80)]


async def test_broker_that_fails_again_and_again_is_left_after_four_runs():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})
        master.name = "other"
        sets.elect(master.peer.address, 2)
        for runs in range(1, 5):
            await sets.ended(runs)
            sets.clock.pass_ms(2_000)
        await asyncio.sleep(0.1)
    failed = sets.events("guard_run_failed")
    assert [(each["run"], each["result"]) for each in failed] == [
        (1, "failed"),
        (2, "failed"),
        (3, "failed"),
        (4, "given_up"),
    ]
    assert master.written == []


async def test_run_that_a_fault_of_this_manager_ends_has_failed_and_the_fault_is_logged_too():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.mirror.spoil()
        sets.elect(master.peer.address, 2)
        run = await sets.ended()
        await eventually(lambda: sets.failures)
        (fault,), sets.failures = sets.failures, []
    assert isinstance(fault, UnusableOffsets)
    assert (run.result, sets.guarding.waiting, master.written) == ("failed", 1, [])
    (line,) = sets.events("guard_run_failed")
    assert "a fault of this manager" in line["error"]
    assert str(fault) in line["error"]
    assert sets.counters.runs.counts()[run.cause.value, "failed"] == 1


async def test_master_that_was_found_in_the_run_that_was_read_is_left_alone():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}}, address=master.peer.address, epoch=2)
        sets.elect(master.peer.address, 2)
        await asyncio.sleep(0.1)
        assert sets.guarding.waiting == 0
    assert master.peer.received == []


async def test_guard_that_is_off_requests_nothing_and_lets_the_mirror_forget():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master, mode="off") as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(master.peer.address, 2)
        sets.mirror.read({KEY: {0: 60}}, address=master.peer.address, epoch=2)
        await eventually(lambda: not sets.mirror.has_former())
    assert master.peer.received == []


async def test_what_groups_have_committed_at_a_master_in_between_is_guarded_where_the_process_before_is_master_again():
    master = a_master({KEY: {0: 80}})
    master.epochs = None
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}}, address=master.peer.address, epoch=None)
        sets.mirror.read({KEY: {0: 95}}, epoch=None)
        sets.mirror.read({KEY: {0: 80}}, address=master.peer.address, epoch=None)
        sets.elect(master.peer.address, None)
        run = await sets.ended()
    assert [(each.saved, each.shown) for each in run.offsets] == [(95, 80)]


async def test_set_that_is_removed_is_forgotten():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.serves = False
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(master.peer.address, 2)
        sets.remove()
        assert sets.guarding.waiting == 0


async def test_failovers_that_no_run_has_dealt_with_before_a_restart_are_decided_as_without_it():
    third = a_master({KEY: {0: 50}}, epochs=((1, 0), (2, None), (3, None)))
    for restarts, is_read in ((False, False), (True, False), (True, True)):
        third.offsets, third.written[:] = {KEY: {0: 50}}, []
        async with guarded_sets(third) as sets:
            sets.serves = False
            sets.mirror.read({KEY: {0: 80}})
            if not restarts:
                sets.elect("127.0.0.1:2", 2)
            sets.mirror.read({KEY: {0: 60}}, address="127.0.0.1:2", epoch=2)
            if is_read:
                sets.mirror.read({KEY: {0: 50}}, address=third.peer.address, epoch=3)
            if restarts:
                sets.mirror.restart()
            sets.elect(third.peer.address, 3, broker_id=3)
            sets.serves = True
            run = await sets.ended()
        assert (run.moment.epoch, third.written) == (1, [("commit", KEY, 0, 80)])


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(("later", "safe"), [({KEY: {0: 30}}, 30), ({}, 0)])
async def test_what_a_tool_has_set_back_at_a_master_that_no_run_has_guarded_is_not_undone(restarts, later, safe):
    third = a_master({KEY: {0: 30}}, epochs=((1, 0), (2, None), (3, None)))
    async with guarded_sets(third) as sets:
        sets.serves = False
        sets.mirror.read({KEY: {0: 80}})
        if not restarts:
            sets.elect("127.0.0.1:2", 2)
        sets.clock.pass_ms(2_000)
        sets.mirror.read({KEY: {0: 90}}, address="127.0.0.1:2", epoch=2)
        sets.clock.pass_ms(2_000)
        sets.mirror.read(later, address="127.0.0.1:2", epoch=2)
        if restarts:
            sets.mirror.restart()
        sets.elect(third.peer.address, 3, broker_id=3)
        sets.serves = True
        run = await sets.ended()
    assert (run.moment.epoch, run.is_recent, third.written) == (1, True, [])
    assert [(each.action, each.reason, each.offset) for each in run.offsets] == [("report", "may_be_reset", safe)]


async def test_failover_before_a_long_stop_of_the_manager_is_reported_with_what_was_saved_first():
    third = a_master({KEY: {0: 50}}, epochs=((1, 0), (2, None), (3, None)))
    async with guarded_sets(third) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.mirror.read({KEY: {0: 60}}, address="127.0.0.1:2", epoch=2)
        sets.mirror.restart()
        sets.clock.pass_ms(60_000)
        sets.elect(third.peer.address, 3, broker_id=3)
        run = await sets.ended()
    assert third.written == []
    assert [(each.action, each.reason, each.saved, each.offset) for each in run.offsets] == [
        ("report", "may_be_reset", 80, 80)
    ]


async def test_offset_that_the_guard_sets_back_is_known_before_it_leaves():
    master = a_master({KEY: {0: 130}}, new=10)
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})
        known = []
        master.then = lambda code: known.append((code, list(sets.mirror.set_back)))
        sets.elect(master.peer.address, 2)
        await sets.ended()
    set_back = (str(set_name()), KEY, 0, 80)
    assert ("commit", KEY, 0, 80) in master.written
    assert [set_back in each for code, each in known if code == BrokerRequestCode.UPDATE_CONSUMER_OFFSET] == [True]


async def test_offset_that_the_guard_pushes_is_not_known_as_one_that_goes_back():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(master.peer.address, 2)
        await sets.ended()
    assert (master.written, sets.mirror.set_back) == ([("commit", KEY, 0, 80)], [])
