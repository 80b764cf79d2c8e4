"""Who was deposed while a request waited does not answer from what it knew: another controller may have changed it."""

import asyncio

import pytest
from fakes.control_room import SET, ControlRoom
from linearizability.answers import NOT_LEADER
from peers.wire import SUCCESS

from controller.storage.store import ControllerMember, Deposed

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
async def room(tmp_path):
    async with ControlRoom(tmp_path) as room:
        room.backend = SlowShared(room.backend)
        room.store._backend = room.backend
        await room.a_set(1, 2)
        yield room


async def answered_after_a_deposition(room, request):
    """Ask while an earlier change of the set waits for the store, and depose the controller meanwhile."""
    room.backend.free.clear()
    earlier = asyncio.create_task(room.apply(3))
    await asyncio.sleep(0)
    asked = asyncio.create_task(request)
    await asyncio.sleep(0)
    await room.beat(2)  # who starts and asks for a master is waited for until its first heartbeat
    for _ in range(5):
        await asyncio.sleep(0)
    room.group.follows(OTHER)
    room.backend.is_led_by_other = True
    room.backend.free.set()
    assert (await earlier).code == NOT_LEADER
    return await asked


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(lambda room: room.register(2), id="a broker that starts, as it is known"),
        pytest.param(lambda room: room.elect(2), id="a broker that asks for a master where one leads"),
        pytest.param(lambda room: room.apply(2), id="a broker that applies again for what it has"),
        pytest.param(lambda room: room.apply(9), id="a broker that is refused an id"),
        pytest.param(lambda room: room.report([1, 2], epoch=1), id="a master whose report is refused"),
        pytest.param(lambda room: room.clean("7"), id="an operator who is refused"),
    ],
)
async def test_request_without_a_commit_is_not_answered_by_a_deposed_controller(room, request_of):
    answer = await answered_after_a_deposition(room, request_of(room))
    assert answer.code == NOT_LEADER
    assert OTHER.address in answer.remark


async def test_committed_request_is_answered_although_the_controller_is_deposed_afterwards(room):
    room.backend.free.clear()
    asked = asyncio.create_task(room.apply(3))
    for _ in range(5):
        await asyncio.sleep(0)
    room.group.follows(OTHER)
    room.backend.free.set()
    assert (await asked).code == SUCCESS
    assert 3 in room.stored(SET).replicas
