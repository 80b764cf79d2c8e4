"""A broker that registers because it was told to has not started anew, and leads on."""

import pytest
from fakes.in_process_controller import CLUSTER, SET, at

from controller.failover import requests
from remoting.protocol.codes import RequestCode, ResponseCode


@pytest.fixture
async def controller(controller):
    await controller.settings.update_config(b"adoptUnknownBrokers=true")
    return controller


async def poll(controller, broker_id):
    answer = await controller.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": SET}, over=broker_id)
    return answer.code


async def register(controller, broker_id, over):
    fields = {"clusterName": CLUSTER, "brokerName": SET, "brokerId": broker_id, "brokerAddress": at(broker_id)}
    return await controller.request(RequestCode.CONTROLLER_REGISTER_BROKER, fields, over=over)


async def a_lost_set(controller):
    """Two brokers of a set that the store does not know; 1 is elected, and was told to register just before."""
    for broker_id in (1, 2):
        assert await poll(controller, broker_id) == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
        assert (await controller.register(broker_id)).code == 0
        await controller.heartbeat(broker_id, epoch=7, maxOffset=900)
    while controller.stored().master is None:
        assert await poll(controller, 1) == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
        await controller.heartbeat(1, 2, epoch=7, maxOffset=900)
        await controller.pass_ms(500)
    assert controller.stored().master == 1
    return controller.stored().master_epoch


async def test_master_whose_registration_was_requested_before_its_election_stays_master(controller):
    epoch = await a_lost_set(controller)
    answer = await register(controller, 1, over=1)
    assert (answer.code, answer.ext_fields["masterBrokerId"], answer.ext_fields["masterEpoch"]) == (0, "1", str(epoch))
    await controller.pass_ms(500)
    assert (controller.stored().master, controller.stored().master_epoch) == (1, epoch)


async def test_second_registration_of_that_master_ends_its_mastership(controller):
    epoch = await a_lost_set(controller)
    await register(controller, 1, over=1)
    await register(controller, 1, over=1)
    assert controller.stored().master_epoch > epoch


@pytest.mark.parametrize(("over", "later_ms"), [(5, 0), (1, 4_000)])
async def test_registration_over_another_connection_or_later_ends_its_mastership(controller, over, later_ms):
    epoch = await a_lost_set(controller)
    await controller.pass_ms(later_ms, beating=(1, 2))
    await register(controller, 1, over=over)
    assert controller.stored().master_epoch > epoch


async def test_registration_over_a_connection_without_its_heartbeats_ends_its_mastership(controller):
    epoch = await a_lost_set(controller)
    await controller.heartbeat(1, over=5, epoch=7, maxOffset=900)
    await register(controller, 1, over=1)
    assert controller.stored().master_epoch > epoch


async def test_only_the_last_requested_registrations_are_kept(controller, monkeypatch):
    epoch = await a_lost_set(controller)
    monkeypatch.setattr(requests, "_REQUESTED_MAX", 2)
    for over in (20, 21, 1, 22):
        controller.control.registration_requested(SET, over)
    answer = await register(controller, 1, over=1)
    assert answer.ext_fields["masterEpoch"] == str(epoch)
    assert controller.stored().master_epoch == epoch


async def test_connection_belongs_to_a_member_after_its_first_heartbeat(controller):
    await controller.a_set(1)
    await controller.heartbeat(7, name="strange")
    assert [controller.control.is_of_member(number) for number in (1, 7, 8)] == [True, False, False]
