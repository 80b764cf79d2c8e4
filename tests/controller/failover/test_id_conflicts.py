"""Two brokers with one id: a disk that was copied, or an identity that is older than its set."""

import pytest
from fakes.in_process_controller import CLUSTER, SET, at

from remoting.protocol.codes import RequestCode, ResponseCode

COPY = 50


@pytest.fixture
async def controller(controller):
    await controller.a_set(1, 2)
    await controller.pass_ms(3_000, beating=(1, 2))
    return controller


async def register(controller, broker_id, over=COPY):
    fields = {"clusterName": CLUSTER, "brokerName": SET, "brokerId": broker_id, "brokerAddress": at(COPY)}
    return await controller.request(RequestCode.CONTROLLER_REGISTER_BROKER, fields, over=over)


@pytest.mark.parametrize("broker_id", [1, 2])
async def test_registration_with_the_id_of_a_living_broker_is_refused(controller, broker_id):
    before = controller.stored()
    answer = await register(controller, broker_id)
    assert answer.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert f"another broker with the id {broker_id} is alive at {at(broker_id)}" in answer.remark
    assert controller.stored() == before
    assert controller.live.of_set(SET)[broker_id].awaits_heartbeat is False


async def test_registration_from_another_address_succeeds_after_the_connection_closed(controller):
    controller.control.monitor.connection_lost(1)
    assert (await register(controller, 1)).code == 0
    assert controller.stored().replicas[1].address == at(COPY)


async def test_registration_from_another_address_succeeds_after_a_missed_heartbeat(controller):
    await controller.pass_ms(2_500, beating=(2,))
    assert (await register(controller, 1)).code == 0


async def test_registration_from_another_address_succeeds_over_the_own_connection(controller):
    assert (await register(controller, 1, over=1)).code == 0
