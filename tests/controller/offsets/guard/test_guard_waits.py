"""Brokers that do not serve yet, turns, and what becomes too old meanwhile: fake masters on loopback."""

import asyncio

import pytest
from guarded_sets import KEY, GuardedSets, a_master, eventually, guarded_sets

from controller.offsets.app import guard_turns, guarding
from controller.offsets.guard_runs.occasions import OUTDATED_MS
from controller.offsets.http.guard_views import GuardViews
from remoting.background_tasks import BackgroundTasks
from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(guarding, "LOOK_S", 0.02)


async def test_brokers_that_do_not_answer_take_few_connections_at_once():
    class Hangs:
        under_way = 0

        async def invoke(self, *_):
            self.under_way += 1
            await asyncio.Event().wait()

    hangs = Hangs()
    async with BackgroundTasks(lambda *_: None) as tasks:
        sets = GuardedSets(hangs, tasks)
        for number in range(300):
            sets.mirror.read({KEY: {0: 80}}, name=f"b{number}")
            sets.elect(f"127.0.0.1:{number + 2}", 2, name=f"b{number}")
        await eventually(lambda: hangs.under_way >= 256)
        await asyncio.sleep(0.1)
        assert (hangs.under_way, sets.guarding.waiting) == (256, 300)
        sets.guarding.stop()


async def test_sets_are_guarded_at_the_same_time_and_one_that_hangs_holds_up_none(monkeypatch):
    monkeypatch.setattr(guard_turns, "RUNS_MAX", 2)
    hangs, *others = (a_master({KEY: {0: 60}}) for _ in range(4))
    for number, each in enumerate([hangs, *others]):
        each.name = f"b{number}"
    hangs.silent = BrokerRequestCode.GET_ALL_CONSUMER_OFFSET
    async with guarded_sets(hangs, *others) as sets:
        for each in (hangs, *others):
            sets.mirror.read({KEY: {0: 80}}, name=each.name)
            sets.elect(each.peer.address, 2, name=each.name)
        await sets.ended(3)
        assert (sets.guarding.running, sets.guarding.waiting) == (1, 0)
        sets.remove("b0")
        assert (sets.guarding.running, sets.guarding.waiting) == (1, 0)
    assert [each.written for each in others] == [[("commit", KEY, 0, 80)]] * 3


async def test_brokers_that_do_not_serve_yet_hold_up_no_other_and_are_guarded_once_they_do(monkeypatch):
    monkeypatch.setattr(guard_turns, "RUNS_MAX", 1)
    slave, busy, hangs, serves = (a_master({KEY: {0: 60}}) for _ in range(4))
    for number, each in enumerate([slave, busy, hangs, serves]):
        each.name = f"b{number}"
    slave.broker_id = 2
    busy.first = {RequestCode.GET_BROKER_EPOCH_CACHE: [ResponseCode.SYSTEM_BUSY] * 10_000}
    hangs.silent = RequestCode.GET_BROKER_EPOCH_CACHE
    async with guarded_sets(slave, busy, hangs, serves) as sets:
        for each in (slave, busy, hangs, serves):
            sets.mirror.read({KEY: {0: 80}}, name=each.name)
            sets.elect(each.peer.address, 2, name=each.name)
        await sets.ended()
        assert [each.written for each in (slave, busy, hangs, serves)] == [[], [], [], [("commit", KEY, 0, 80)]]
        assert (sets.guarding.running, sets.guarding.waiting) == (0, 3)
        slave.broker_id, busy.first = 0, {}
        await sets.ended(3)
        assert [each.written for each in (slave, busy)] == [[("commit", KEY, 0, 80)]] * 2
        sets.remove("b2")
    assert sets.events("guard_run_failed") == []


async def test_broker_that_serves_late_is_not_taken_for_one_that_was_promoted_just_now():
    master = a_master({KEY: {0: 60}})
    master.broker_id = 2
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(master.peer.address, 2)
        await eventually(lambda: master.peer.received)
        sets.clock.pass_ms(21_000)
        master.broker_id = 0
        run = await sets.ended()
    assert master.written == []
    assert [(each.action, each.reason, each.offset) for each in run.offsets] == [("report", "may_be_reset", 80)]


async def test_change_of_the_master_while_its_broker_does_not_serve_yet_is_guarded_at_the_next_one():
    second, third = a_master({KEY: {0: 60}}), a_master({KEY: {0: 50}}, epochs=((1, 0), (2, None), (3, None)))
    second.broker_id = 2
    async with guarded_sets(second, third) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(second.peer.address, 2)
        await eventually(lambda: second.peer.received)
        sets.elect(third.peer.address, 3, broker_id=3)
        await sets.ended()
    assert third.written == [("commit", KEY, 0, 80)]
    assert sets.events("guard_run_failed") == []


async def test_broker_that_does_not_serve_for_ten_minutes_is_reported_as_not_decided_with_what_it_answered():
    master = a_master({KEY: {0: 60}})
    master.broker_id = 2
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(master.peer.address, 2)
        await eventually(lambda: master.peer.received)
        sets.clock.pass_ms(OUTDATED_MS + 1)
        run = await sets.ended()
        await asyncio.sleep(0.1)
    assert (run.result, "brokerId 2: it is no master" in run.report.failure) == ("not_decided", True)
    assert GuardViews(sets.guarding, "act").guard_runs(None).runs[0].result == "not_decided"
    # It took no time.
    assert sum(sets.counters.seconds.buckets) == 0
    assert [each["result"] for each in sets.events("guard_run_failed")] == ["not_decided"]
    assert sets.counters.runs.counts()["found", "not_decided"] == 1


async def test_change_of_the_master_that_was_not_decided_is_reported_once_and_never_written_later():
    master = a_master({KEY: {0: 60}})
    async with guarded_sets(master) as sets:
        sets.serves = False
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(master.peer.address, 2)
        for _ in range(3):
            await asyncio.sleep(0.1)
            sets.clock.pass_ms(OUTDATED_MS + 1)
        await asyncio.sleep(0.1)
        sets.serves = True
        await asyncio.sleep(0.1)
        assert [each["result"] for each in sets.events("guard_run_failed")] == ["not_decided"]
        # Until the mirror reads it, which ends the matter.
        sets.mirror.read({KEY: {0: 60}}, address=master.peer.address, epoch=2)
        await eventually(lambda: not sets.mirror.has_former())
    assert master.peer.received == []


async def test_broker_whose_messages_do_not_get_into_their_queues_is_reported_as_not_decided():
    master = a_master({KEY: {0: 60}})
    master.epochs, master.behind_bytes = None, 500
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}}, epoch=None)
        sets.elect(master.peer.address, None)
        await eventually(lambda: master.peer.count(BrokerRequestCode.GET_BROKER_RUNTIME_INFO) > 1)
        sets.clock.pass_ms(OUTDATED_MS + 1)
        run = await sets.ended()
    assert (run.result, "dispatchBehindBytes=500" in run.report.failure) == ("not_decided", True)
    assert master.written == []


async def test_what_is_too_old_once_it_is_its_turn_is_not_written(monkeypatch):
    monkeypatch.setattr(guard_turns, "RUNS_MAX", 1)
    hangs, waits = a_master({KEY: {0: 60}}), a_master({KEY: {0: 60}})
    hangs.name, waits.name = "b0", "b1"
    hangs.silent = BrokerRequestCode.GET_ALL_CONSUMER_OFFSET
    async with guarded_sets(hangs, waits) as sets:
        for each in (hangs, waits):
            sets.mirror.read({KEY: {0: 80}}, name=each.name)
        sets.elect(hangs.peer.address, 2, name="b0")
        await eventually(lambda: sets.guarding.running)
        sets.elect(waits.peer.address, 2, name="b1")
        await eventually(lambda: waits.peer.received)
        await asyncio.sleep(0.1)
        sets.clock.pass_ms(OUTDATED_MS + 1)
        sets.remove("b0")
        await eventually(lambda: any(each.result == "not_decided" for each in sets.guarding.runs.runs()))
        (line,) = (each for each in sets.events("guard_run_failed") if each["result"] == "not_decided")
    assert "all turns" in line["error"]
    assert waits.written == []


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, None])
async def test_broker_that_does_not_answer_for_a_moment_in_its_run_is_guarded_in_that_run(code):
    master = a_master({KEY: {0: 60}})
    answered = []

    def pause(requested):
        # The first request is that of the wait for its turn.
        if requested == RequestCode.GET_BROKER_EPOCH_CACHE and not answered:
            answered.append(requested)
            master.first = {requested: [code] * 3} if code else {}
            master.broker_id = 0 if code else 2

    master.then = pause
    async with guarded_sets(master) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(master.peer.address, 2)
        await eventually(lambda: master.peer.count(RequestCode.GET_BROKER_EPOCH_CACHE) > 1)
        master.broker_id = 0
        run = await sets.ended()
    assert (run.result, master.written) == ("complete", [("commit", KEY, 0, 80)])


async def test_change_of_the_master_that_no_manager_could_decide_is_reported_unless_another_one_leads():
    master = a_master({KEY: {0: 60}})
    for other_leads, results in ((False, ["not_decided"]), (True, [])):
        async with guarded_sets(master) as sets:
            sets.serves, sets.other_leads = False, other_leads
            sets.mirror.read({KEY: {0: 80}})
            sets.elect(master.peer.address, 2)
            await asyncio.sleep(0.1)
            sets.clock.pass_ms(OUTDATED_MS + 1)
            await asyncio.sleep(0.1)
            assert [each["result"] for each in sets.events("guard_run_failed")] == results
    assert master.peer.received == []


@pytest.mark.parametrize("looks", [True, False])
async def test_stop_of_the_manager_waits_for_no_broker_that_does_not_serve(looks):
    master = a_master({KEY: {0: 60}})
    master.silent = RequestCode.GET_BROKER_EPOCH_CACHE
    async with guarded_sets(master, looks=looks) as sets:
        sets.mirror.read({KEY: {0: 80}})
        sets.elect(master.peer.address, 2)
        await eventually(lambda: master.peer.received)
    # What waits for ever keeps the process from its end.
    assert sets.guarding.waiting == 1
    assert sets.events("guard_run_failed") == []
