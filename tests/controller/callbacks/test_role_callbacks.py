"""At least once, in order of epochs, never an older one, bounded, and by the leader alone."""

import asyncio

import pytest
from callback_builders import a_master
from controller_builders import a_set, replicas
from fakes.called_back import FAILED, CallingController, Receiver
from fakes.scaling_controller import OTHER

from controller.app.service import names_sets
from controller.callbacks.pending import RETRY_MS
from controller.callbacks.role_callback import CallResult
from controller.sets.broker_set import Replica
from controller.sets.stored_set import StoredSet
from store.store import VersionedEntry


def versioned(broker_set, revision=1):
    """Return a set as a store reports it."""
    return VersionedEntry(StoredSet(broker_set=broker_set), revision)


def undelivered(controller):
    """Return how many sets are not delivered, as the metrics have it."""
    (sets, _) = controller.callbacks.measures()
    return sets.value


@pytest.fixture
def receiver():
    return Receiver()


@pytest.fixture
async def controller(receiver, tmp_path):
    async with CallingController(tmp_path, receiver) as controller:
        yield controller


async def test_first_master_of_a_set_is_delivered_without_an_old_one(controller, receiver):
    await controller.put(a_set(master=1, master_epoch=1))
    await controller.settle()
    (callback,) = receiver.calls
    assert (callback.old, callback.change.new, callback.change.master_epoch) == (None, a_master(1), 1)
    assert (callback.skipped, callback.attempt, callback.controller_id) == (None, 1, "n0")
    assert receiver.timeout_s == 10
    assert controller.observer.ended == [(1, CallResult.DELIVERED, 0, 0)]


async def test_set_that_never_had_a_master_is_not_delivered(controller, receiver):
    await controller.put(a_set(master=None, master_epoch=0, is_elected=False))
    await controller.settle()
    assert receiver.calls == []


async def test_each_change_is_delivered_with_the_master_before(controller, receiver):
    for epoch, master in ((1, 1), (2, 2), (3, None), (4, 3)):
        await controller.put(a_set(master=master, master_epoch=epoch))
        await controller.settle()
    changes = [each.change for each in receiver.calls]
    assert [each.master_epoch for each in changes] == [1, 2, 3, 4]
    assert [each.old for each in receiver.calls] == [None, a_master(1), a_master(2), None]
    assert [each.new for each in changes] == [a_master(1), a_master(2), None, a_master(3)]
    assert all(each.skipped is None for each in receiver.calls)


async def test_reason_is_that_of_the_election_or_says_that_it_is_not_known(controller, receiver):
    await controller.put(a_set(master=1, master_epoch=1))
    await controller.settle()
    controller.why = lambda change: f"master 1 failed before epoch {change.master_epoch}"
    await controller.put(a_set(master=2, master_epoch=2))
    await controller.settle()
    controller.why = lambda _: ""
    await controller.put(a_set(master=None, master_epoch=3))
    await controller.settle()
    assert [each.why for each in receiver.calls] == [
        "another controller elected it, or this one before it was started anew",
        "master 1 failed before epoch 2",
        "the master failed or was started anew, and no broker is elected yet",
    ]


async def test_other_changes_of_a_set_are_not_delivered(controller, receiver):
    await controller.put(a_set())
    await controller.settle()
    await controller.put(a_set(sync_state_set=frozenset({1}), sync_state_set_epoch=8))
    await controller.settle()
    assert len(receiver.calls) == 1


async def test_master_that_moves_within_its_epoch_is_delivered_again(controller, receiver):
    await controller.put(a_set())
    await controller.settle()
    await controller.put(a_set(replicas={**replicas(2, 3), 1: Replica("10.0.0.9:30911", "c")}))
    await controller.settle()
    assert [each.change.new.address for each in receiver.calls] == ["10.0.0.1:30911", "10.0.0.9:30911"]
    assert [each.change.master_epoch for each in receiver.calls] == [5, 5]


async def test_failed_call_is_repeated_after_growing_waits(controller, receiver):
    receiver.outcome = lambda callback: FAILED if callback.attempt < 4 else Receiver().outcome(None)
    await controller.put(a_set())
    await controller.settle()
    for wait_ms in RETRY_MS[:3]:
        calls = len(receiver.calls)
        controller.clock.pass_ms(wait_ms - 1)
        await controller.settle()
        assert len(receiver.calls) == calls
        controller.clock.pass_ms(1)
        await controller.settle()
    assert receiver.seen == [("broker-a", 5, attempt) for attempt in (1, 2, 3, 4)]
    assert [retry_ms for *_, retry_ms in controller.observer.ended] == [*RETRY_MS[:3], 0]
    assert undelivered(controller) == 0


async def test_later_change_is_delivered_at_once_and_names_the_epochs_that_were_skipped(controller, receiver):
    await controller.put(a_set(master=1, master_epoch=5))
    await controller.settle()
    receiver.outcome = lambda _: FAILED
    await controller.put(a_set(master=2, master_epoch=6))
    await controller.settle()
    receiver.outcome = Receiver().outcome
    await controller.put(a_set(master=None, master_epoch=7))
    await controller.put(a_set(master=3, master_epoch=8))
    await controller.settle()
    assert receiver.seen == [("broker-a", 5, 1), ("broker-a", 6, 1), ("broker-a", 8, 1)]
    last = receiver.calls[-1]
    assert (last.skipped, last.old, last.change.new) == ((6, 7), a_master(1), a_master(3))


async def test_older_epoch_is_never_delivered_after_a_later_one(controller, receiver):
    receiver.holds = asyncio.Event()
    await controller.put(a_set(master=1, master_epoch=5))
    await controller.until(lambda: receiver.calls)
    receiver.outcome = lambda callback: FAILED if callback.change.master_epoch == 5 else Receiver().outcome(None)
    await controller.put(a_set(master=2, master_epoch=6))
    await controller.callbacks.look()
    assert len(receiver.calls) == 1
    receiver.holds.set()
    await controller.settle()
    controller.clock.pass_ms(1_000_000)
    await controller.settle()
    assert receiver.seen == [("broker-a", 5, 1), ("broker-a", 6, 1)]


async def test_change_that_came_during_a_call_has_the_master_of_that_call_as_the_old_one(controller, receiver):
    receiver.holds = asyncio.Event()
    await controller.put(a_set(master=1, master_epoch=5))
    await controller.until(lambda: receiver.calls)
    await controller.put(a_set(master=2, master_epoch=6))
    await controller.callbacks.look()
    receiver.holds.set()
    await controller.settle()
    assert [(each.change.master_epoch, each.old, each.skipped) for each in receiver.calls] == [
        (5, None, None),
        (6, a_master(1), None),
    ]


async def test_restarted_controller_goes_on_where_it_was(controller, receiver):
    await controller.put(a_set(master=1, master_epoch=5))
    await controller.settle()
    receiver.outcome = lambda _: FAILED
    await controller.put(a_set(master=2, master_epoch=6))
    await controller.put(a_set(broker_name="broker-b"))
    await controller.settle()
    second = await controller.restarted()
    receiver.outcome = Receiver().outcome
    receiver.calls.clear()
    await second.settle()
    assert sorted(receiver.seen) == [("broker-a", 6, 1), ("broker-b", 5, 1)]
    assert next(each for each in receiver.calls if each.change.broker_name == "broker-a").old == a_master(1)
    third = await second.restarted()
    receiver.calls.clear()
    await third.settle()
    assert receiver.calls == []
    await third.end()


async def test_what_others_elected_while_this_controller_did_not_lead_is_delivered(controller, receiver):
    await controller.put(a_set(master=1, master_epoch=5))
    await controller.settle()
    controller.group.follows(OTHER)
    await controller.put(a_set(master=2, master_epoch=9))
    await controller.settle()
    assert len(receiver.calls) == 1
    await controller.lead_again()
    await controller.settle()
    assert receiver.seen[1:] == [("broker-a", 9, 1)]
    assert receiver.calls[-1].skipped == (6, 8)


async def test_controller_that_ceases_to_lead_gives_up_its_calls(controller, receiver):
    receiver.holds = asyncio.Event()
    await controller.put(a_set())
    await controller.until(lambda: receiver.calls)
    controller.group.follows(OTHER)
    await controller.until(lambda: receiver.cancelled)
    assert undelivered(controller) == 0
    assert controller.observer.ended == []


async def test_no_set_is_called_twice_at_a_time_when_the_lead_comes_back_at_once(controller, receiver):
    receiver.holds = asyncio.Event()
    await controller.put(a_set())
    await controller.until(lambda: receiver.calls)
    await controller.lead_again()
    await controller.until(lambda: len(receiver.calls) == 2)
    assert receiver.cancelled == receiver.calls[:1]
    assert receiver.most_at_once == 1
    receiver.holds.set()
    await controller.settle()
    assert receiver.seen == [("broker-a", 5, 1)] * 2


async def test_cut_off_controller_calls_nobody_although_it_was_not_deposed(controller, receiver):
    controller.group.leads(controller.clock.now_ms() + 4_000)
    await controller.settle()
    controller.clock.pass_ms(4_001)
    await controller.put(a_set())
    await controller.settle()
    assert receiver.calls == []
    controller.group.leads(controller.clock.now_ms() + 4_000)
    await controller.settle()
    assert receiver.seen == [("broker-a", 5, 1)]


async def test_three_thousand_sets_that_change_at_once_are_all_delivered_a_few_at_a_time(controller, receiver):
    sets = [a_set(broker_name=f"broker-{number}") for number in range(3_000)]
    await controller.callbacks.look()
    for each in sets:
        controller.store.entry_changed(each.broker_name, versioned(each))
        controller.report(each)
    await controller.callbacks.look()
    assert undelivered(controller) == 3_000
    await controller.settle()
    assert sorted(name for name, *_ in receiver.seen) == sorted(each.broker_name for each in sets)
    assert receiver.most_at_once == controller.calls_max
    assert undelivered(controller) == 0


async def test_change_that_nobody_reported_is_found(controller, receiver):
    await controller.callbacks.look()
    name = "broker-a"
    controller.store.entry_changed(name, versioned(a_set()))
    await controller.settle()
    assert receiver.seen == [(name, 5, 1)]


async def test_set_that_was_cleaned_is_not_called_any_more(controller, receiver):
    receiver.outcome = lambda _: FAILED
    await controller.put(a_set())
    await controller.settle()
    assert undelivered(controller) == 1
    controller.store.entry_changed("broker-a", versioned(None, 9))
    controller.clock.pass_ms(RETRY_MS[0])
    await controller.settle()
    assert undelivered(controller) == 0
    assert len(receiver.calls) == 1


async def test_oldest_change_is_known_by_its_time(controller, receiver):
    receiver.outcome = lambda _: FAILED
    began_ms = controller.clock.now_ms()
    await controller.put(a_set())
    await controller.settle()
    controller.clock.pass_ms(500)
    await controller.put(a_set(broker_name="broker-b"))
    await controller.put(a_set(master_epoch=6))
    await controller.settle()
    since_s = (controller.clock.unix_ms() - controller.clock.now_ms() + began_ms) / 1000
    assert [measure.value for measure in controller.callbacks.measures()] == [2, since_s]


async def test_store_that_fails_delays_no_call_and_is_reported(controller, receiver):
    await controller.callbacks.look()
    controller.backend.fails = True
    await controller.put(a_set())
    await controller.until(lambda: receiver.ended and controller.observer.not_stored)
    assert controller.observer.not_stored[0] == "the disk is full"
    await controller.put(a_set(master=2, master_epoch=6))
    await controller.until(lambda: len(receiver.ended) == 2)
    controller.backend.fails = False
    await controller.until(lambda: not controller.callbacks._delivered.has_unstored)
    again = await controller.restarted()
    await again.settle()
    assert len(receiver.calls) == 2
    await again.end()


async def test_nothing_is_called_until_it_is_known_what_was_delivered(controller, receiver):
    controller.backend.fails_to_load = True
    await controller.put(a_set())
    await controller.callbacks.look()
    assert (receiver.calls, controller.observer.not_stored) == ([], ["the disk is gone"])
    controller.backend.fails_to_load = False
    await controller.settle()
    assert receiver.seen == [("broker-a", 5, 1)]


async def test_fault_of_a_caller_is_a_failed_call_and_is_reported(controller, receiver):
    def fault(_):
        raise RuntimeError("of ours")

    receiver.outcome = fault
    await controller.put(a_set())
    await controller.settle()
    assert [result for _, result, *_ in controller.observer.ended] == [CallResult.FAILED]
    assert [(name, str(error)) for name, error in controller.faults] == [("call", "of ours")]
    (undelivered,) = controller.callbacks.pending
    assert undelivered.error == "a fault: RuntimeError('of ours')"


async def test_unusable_program_is_reported_at_the_start_and_a_stop_gives_up_all(controller, receiver):
    receiver.problem = "there is no program /x"
    receiver.holds = asyncio.Event()
    await controller.put(a_set())
    running = asyncio.ensure_future(controller.callbacks.deliver_role_changes())
    async with asyncio.timeout(30):
        while not receiver.calls:
            await asyncio.sleep(0.01)
    assert controller.observer.unusable == ["there is no program /x"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await asyncio.sleep(0)
    await controller.callbacks.close()
    await asyncio.sleep(0.01)
    assert receiver.cancelled == receiver.calls
    assert receiver.is_closed


async def test_reported_change_is_delivered_without_a_wait_for_the_next_look(controller, receiver):
    running = asyncio.ensure_future(controller.callbacks.deliver_role_changes())
    async with asyncio.timeout(30):
        while not controller.callbacks.is_ready:
            await asyncio.sleep(0.01)
        await controller.put(a_set())
        while not receiver.ended:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_operator_has_sets_called_once_more_and_the_next_leader_knows(controller, receiver):
    for name in ("broker-a", "broker-b", "other"):
        await controller.put(a_set(broker_name=name))
    await controller.put(a_set(broker_name="broker-new", master=None, master_epoch=0, is_elected=False))
    await controller.settle()
    receiver.calls.clear()
    receiver.outcome = lambda callback: (
        FAILED if callback.change.broker_name == "broker-b" else Receiver().outcome(None)
    )
    assert controller.callbacks.redeliver("broker-") == 2
    assert controller.observer.requested == [("broker-", 2)]
    await controller.settle()
    assert sorted(receiver.seen) == [("broker-a", 5, 1), ("broker-b", 5, 1)]
    assert {each.old for each in receiver.calls} == {None}
    again = await controller.restarted()
    receiver.calls.clear()
    await again.settle()
    # What was not taken is not stored as delivered any more.
    assert receiver.seen == [("broker-b", 5, 1)]
    await again.end()


def begun_from(host, **values):
    return a_set(replicas={i: Replica(each.address, "c", host) for i, each in replicas(1, 2, 3).items()}, **values)


async def test_set_that_was_served_does_not_wait_for_the_new_sets_of_a_stranger(controller, receiver):
    await controller.put(begun_from("10.0.0.1", broker_name="real"))
    await controller.settle()
    receiver.calls.clear()
    receiver.holds = asyncio.Event()
    for number in range(50):
        await controller.put(begun_from("10.6.6.6", broker_name=f"made-up-{number}"))
    await controller.until(lambda: receiver.calls)
    await controller.put(begun_from("10.0.0.1", broker_name="real", master=2, master_epoch=6))
    await controller.put(begun_from("10.0.0.2", broker_name="new"))
    # Nothing has ended yet.
    await controller.until(lambda: len(receiver.calls) == 3)
    assert [name for name, *_ in receiver.seen] == ["made-up-0", "real", "new"]
    receiver.holds.set()
    await controller.settle()
    assert len(receiver.ended) == 1 + 50 + 2


async def test_only_named_sets_are_called_and_called_once_more(receiver, tmp_path):
    async with CallingController(tmp_path, receiver, sets="orders; broker-*") as controller:
        for name in ("orders", "orders-2", "broker-a", "made-up"):
            await controller.put(a_set(broker_name=name))
        await controller.settle()
        assert {name for name, *_ in receiver.seen} == {"orders", "broker-a"}
        assert undelivered(controller) == 0
        assert controller.callbacks.redeliver("") == 2
        again = await controller.restarted()
        await again.settle()
        assert {name for name, *_ in receiver.seen} == {"orders", "broker-a"}
        # Sets that are named later are called with their present masters.
        again.sets = ""
        third = await again.restarted()
        await third.settle()
        assert {name for name, *_ in receiver.seen} == {"orders", "orders-2", "broker-a", "made-up"}
        await third.end()


@pytest.mark.parametrize("value", ["", " ; ", "*"])
def test_blank_list_of_sets_names_every_set(value):
    assert names_sets(value)("any")
