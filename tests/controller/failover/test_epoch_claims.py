"""What a member's claim of a higher master epoch changes, and what it does not."""

import asyncio

import pytest
from fakes.in_process_controller import SET

from controller.decisions.membership import ADOPTED_EPOCH_MAX, Registrant, decide_adoption
from controller.failover import requests as control_module
from controller.refusals import EpochsUsedUp
from controller.sets.broker_set import RECOVERY_MARGIN, Floor
from controller.sets.stored_set import StoredSet
from remoting.protocol.codes import ResponseCode

FAILED = ResponseCode.CONTROLLER_ELECT_MASTER_FAILED


async def a_healthy_set(controller):
    """1 leads at epoch 1, 1 and 2 are in sync, 3 is not."""
    await controller.a_set(1, 2, 3, in_sync=[1, 2])
    await controller.heartbeat(1, 2)
    await controller.heartbeat(3, epoch=1, maxOffset=0)


async def test_disputed_epoch_is_logged_once_and_counted_until_it_ends(controller):
    await a_healthy_set(controller)
    for _ in range(20):
        await controller.heartbeat(1, 2)
        await controller.heartbeat(3, epoch=2, maxOffset=5)
        await controller.pass_ms(1_000)
    lines = controller.events("master_epoch_disputed")
    assert [(line["broker"], line["master"], line["sync_state_set"]) for line in lines] == [(SET, 1, [1, 2])]
    assert [(each["broker_id"], each["epoch"]) for each in lines[0]["claims"]] == [(3, 2)]
    assert controller.control.monitor.disputed_sets == 1
    await controller.settings.update_config(b"enableElectUncleanMaster=true")
    assert (await controller.elect(3, designate=True)).code == 0
    assert (controller.stored().master, controller.stored().master_epoch) == (3, 3)
    assert controller.events("unclean_master_elected")
    await controller.pass_ms(1_000, beating=(1, 2))
    assert controller.control.monitor.disputed_sets == 0


@pytest.mark.parametrize("how", ["deposed", "cleaned"])
async def test_disputed_sets_end_with_leadership_and_with_cleaning(controller, how):
    await a_healthy_set(controller)
    for _ in range(10):
        await controller.heartbeat(1, 2)
        await controller.heartbeat(3, epoch=2, maxOffset=5)
        await controller.pass_ms(1_000)
    assert controller.control.monitor.disputed_sets == 1
    if how == "deposed":
        controller.control.deposed()
    else:
        assert (await controller.clean(living=True)).code == 0
    assert controller.control.monitor.disputed_sets == 0


# A classic master and its slave that are converted: neither has an epoch, and one of them may be empty


async def joins(controller, *broker_ids):
    for broker_id in broker_ids:
        assert (await controller.apply(broker_id)).code == 0
        assert (await controller.register(broker_id)).code == 0


async def test_first_election_waits_for_the_heartbeat_of_another_registered_member(controller):
    await joins(controller, 1, 2)
    await controller.heartbeat(1, epoch=-1, maxOffset=0)
    requested = asyncio.ensure_future(controller.elect(1))
    await asyncio.sleep(0)
    await controller.heartbeat(2, epoch=-1, maxOffset=900)
    assert (await requested).code == FAILED
    assert controller.stored().master is None


async def test_first_election_waits_for_a_silent_member_only_for_a_limited_time(controller, monkeypatch):
    monkeypatch.setattr(control_module, "HEARTBEAT_AWAITED_S", 0.01)
    await joins(controller, 1, 2)
    await controller.heartbeat(1, epoch=-1, maxOffset=0)
    assert (await controller.elect(1)).code == 0
    assert controller.stored().master == 1


# Adoption


async def test_epoch_of_a_non_member_or_another_connection_does_not_raise_that_of_an_adopted_set(controller):
    await controller.settings.update_config(b"adoptUnknownBrokers=true")
    await controller.heartbeat(9, epoch=2**31 - 1)
    await controller.heartbeat(1, epoch=7)
    assert (await controller.register(1)).code == 0
    assert controller.stored().master_epoch < 2 * RECOVERY_MARGIN
    await controller.heartbeat(1, epoch=2**31 - 1)
    assert (await controller.register(2)).code == 0
    assert controller.stored().master_epoch < 2 * RECOVERY_MARGIN


async def test_adoption_is_refused_before_the_epochs_of_a_set_are_used_up(controller):
    entry = StoredSet(broker_set=None, floor=Floor(master_epoch=ADOPTED_EPOCH_MAX + 2, next_broker_id=3))
    broker_set = decide_adoption(entry, Registrant(cluster="C", broker_name=SET, broker_id=1, address="a:1"), 5)
    assert broker_set.after(entry).broker_set.master_epoch == ADOPTED_EPOCH_MAX + 2
    with pytest.raises(EpochsUsedUp, match="under another name"):
        decide_adoption(
            entry, Registrant(cluster="C", broker_name=SET, broker_id=1, address="a:1"), ADOPTED_EPOCH_MAX + 2
        )
