"""Changes of masters are collected in the order in which they were stored."""

import asyncio

from controller_builders import CLUSTER, SET, a_set, an_address
from fakes.clock import FakeClock
from fakes.in_process_controller import InProcessController, at
from msgspec.structs import replace

from controller.roles.changes import RoleChange, RoleChanges, RoleHolder

ONE, TWO = RoleHolder(1, an_address(1)), RoleHolder(2, an_address(2))


def changes():
    clock = FakeClock()
    return RoleChanges(clock), clock.unix_ms()


def test_only_changes_of_a_master_are_collected():
    collected, unix_ms = changes()
    first = a_set(master=1, master_epoch=5)
    collected.set_changed(None, first)
    collected.set_changed(first, replace(first, sync_state_set=frozenset({1})))
    second = first.with_master(2)
    collected.set_changed(first, second)
    third = second.with_master(None)
    collected.set_changed(second, third)
    assert collected.take() == [
        RoleChange(CLUSTER, SET, 5, None, ONE, unix_ms),
        RoleChange(CLUSTER, SET, 6, ONE, TWO, unix_ms),
        RoleChange(CLUSTER, SET, 7, TWO, None, unix_ms),
    ]
    assert collected.take() == []


def test_master_at_another_address_and_a_removed_set_are_changes():
    collected, unix_ms = changes()
    before = a_set(master=1, master_epoch=5)
    moved = before.with_replica(1, replace(before.replicas[1], address="10.0.0.99:30911"))
    collected.set_changed(before, moved)
    collected.set_changed(moved, None)
    there = RoleHolder(1, "10.0.0.99:30911")
    assert collected.take() == [
        RoleChange(CLUSTER, SET, 5, ONE, there, unix_ms),
        RoleChange(CLUSTER, SET, 5, there, None, unix_ms),
    ]


def test_new_leader_repeats_the_master_of_each_set():
    collected, unix_ms = changes()
    sets = [a_set(master=1, master_epoch=5), a_set(broker_name="broker-b", master=None)]
    collected.repeat(sets)
    assert collected.take() == [RoleChange(CLUSTER, SET, 5, None, ONE, unix_ms, is_repeated=True)]


async def test_who_waits_goes_on_with_the_next_change():
    collected, _ = changes()
    waiting = asyncio.create_task(collected.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    collected.set_changed(None, a_set())
    await asyncio.wait_for(waiting, 20)
    collected.take()
    again = asyncio.create_task(collected.wait())
    await asyncio.sleep(0)
    assert not again.done()
    again.cancel()


async def test_store_reports_elections_in_order(tmp_path):
    async with InProcessController(tmp_path) as controller:
        await controller.a_set(1, 2)
        await controller.lose(1)
        taken = controller.role_changes.take()
    assert [(each.master_epoch, each.old, each.new) for each in taken] == [
        (1, None, RoleHolder(1, at(1))),
        (2, RoleHolder(1, at(1)), RoleHolder(2, at(2))),
    ]
