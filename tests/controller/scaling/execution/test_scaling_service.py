"""Who may plan and start resizes, and when operations are known."""

import pytest
from fakes.scaled_topic import TOPIC, ScaledBroker, scaling_site
from fakes.scaling_controller import OTHER, ScalingController
from resize_builders import a_resize

from controller.scaling.execution.operations import OperationExists
from serving.shapes.scaling import ResizePhase, ResizeRequest
from store.store import StoreError

REQUEST = ResizeRequest(topic=TOPIC, queues=8)


@pytest.fixture
async def site():
    async with scaling_site(ScaledBroker()) as site:
        yield site


@pytest.fixture
async def controller(site, tmp_path):
    controller = ScalingController(tmp_path, lambda: site.addresses)
    controller.lead()
    yield controller
    controller.group.follows(OTHER)
    await controller.scaling.look()
    await controller.client.close()
    await controller.backend.close()


async def test_leader_is_ready_once_it_has_loaded_all_operations(controller):
    assert not controller.scaling.is_ready
    with pytest.raises(StoreError, match="operations are being loaded: try again in a second"):
        controller.scaling.check_leads()
    controller.backend.fails_to_load = True
    await controller.scaling.look()
    assert not controller.scaling.is_ready
    controller.backend.fails_to_load = False
    await controller.scaling.look()
    assert controller.scaling.is_ready
    controller.scaling.check_leads()


async def test_leader_of_a_new_term_loads_what_others_have_stored(controller):
    await controller.scaling.look()
    controller.group.follows(OTHER)
    assert not controller.scaling.is_ready
    await controller.scaling.look()
    ended = a_resize(phase=ResizePhase.DONE)
    await controller.scaling.operations.end(ended)
    controller.lead()
    assert not controller.scaling.is_ready
    await controller.scaling.look()
    assert controller.scaling.is_ready
    assert [each.id for each in controller.scaling.operations.ended()] == [ended.id]
    assert controller.scaling.operations.find_ended(ended.id) == ended


async def test_started_operation_is_stored_and_reported_once(controller):
    await controller.scaling.look()
    started = await controller.scaling.start(REQUEST)
    assert started.phase is ResizePhase.PLANNED
    assert started.id.startswith("TopicTest.")
    with pytest.raises(OperationExists):
        await controller.scaling.start(REQUEST)
    assert controller.listener.created == [started.id]
    assert controller.scaling.find(started.id) == started


async def test_start_that_cannot_be_stored_starts_nothing(controller):
    await controller.scaling.look()
    controller.backend.fails = True
    with pytest.raises(StoreError):
        await controller.scaling.start(REQUEST)
    assert (controller.scaling.operations.under_way(), controller.listener.created) == ([], [])
