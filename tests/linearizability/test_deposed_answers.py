"""Who was deposed while a request waited does not answer from what it knew: another controller may have changed it."""

import asyncio

import pytest
from fakes.in_process_controller import SET, InProcessController
from linearizability.answers import NOT_LEADER
from peers.wire import SUCCESS

from store.store import ControllerMember, Deposed

OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")


class SlowShared:
    """A store that takes its time for each commit, and by then takes nothing of a controller that was deposed."""

    def __init__(self, backend):
        self._backend = backend
        self.load, self.read, self.close = backend.load, backend.read, backend.close
        self.free = asyncio.Event()
        self.free.set()
        self.is_led_by_other = False

    async def commit(self, broker_name, entry, revision):
        await self.free.wait()
        if self.is_led_by_other:
            raise Deposed("n1 leads instead")
        return await self._backend.commit(broker_name, entry, revision)


@pytest.fixture
async def controller(tmp_path):
    async with InProcessController(tmp_path) as controller:
        controller.backend = SlowShared(controller.backend)
        controller.store._backend = controller.backend
        await controller.a_set(1, 2)
        yield controller


async def answered_after_a_deposition(controller, request):
    """Ask while an earlier change of the set waits for the store, and depose the controller meanwhile."""
    controller.backend.free.clear()
    earlier = asyncio.create_task(controller.apply(3))
    await asyncio.sleep(0)
    answering = asyncio.create_task(request)
    await asyncio.sleep(0)
    await controller.heartbeat(2)  # who starts and asks for a master is waited for until its first heartbeat
    for _ in range(5):
        await asyncio.sleep(0)
    controller.group.follows(OTHER)
    controller.backend.is_led_by_other = True
    controller.backend.free.set()
    assert (await earlier).code == NOT_LEADER
    return await answering


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(lambda controller: controller.register(2), id="a broker that starts, as it is known"),
        pytest.param(lambda controller: controller.elect(2), id="a broker that asks for a master where one leads"),
        pytest.param(lambda controller: controller.apply(2), id="a broker that applies again for what it has"),
        pytest.param(lambda controller: controller.apply(9), id="a broker that is refused an id"),
        pytest.param(lambda controller: controller.report([1, 2], epoch=1), id="a master whose report is refused"),
        pytest.param(lambda controller: controller.clean("7"), id="an operator who is refused"),
    ],
)
async def test_request_without_a_commit_is_not_answered_by_a_deposed_controller(controller, request_of):
    answer = await answered_after_a_deposition(controller, request_of(controller))
    assert answer.code == NOT_LEADER
    assert OTHER.address in answer.remark


async def test_committed_request_is_answered_although_the_controller_is_deposed_afterwards(controller):
    controller.backend.free.clear()
    answering = asyncio.create_task(controller.apply(3))
    for _ in range(5):
        await asyncio.sleep(0)
    controller.group.follows(OTHER)
    controller.backend.free.set()
    assert (await answering).code == SUCCESS
    assert 3 in controller.stored(SET).replicas
