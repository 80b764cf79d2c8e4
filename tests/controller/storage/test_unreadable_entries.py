"""A set whose entry cannot be read is refused, with the reason, until it can be; the others know nothing of it."""

import json

import pytest
from fakes.control_room import SET, ControlRoom
from peers.wire import SUCCESS

from controller.storage.store import VersionedEntry
from remoting.protocol.codes import RequestCode

PROBLEM = "etcd: the entry at /rmq-controller/g/sets/broker-a cannot be read"


@pytest.fixture
async def room(tmp_path):
    async with ControlRoom(tmp_path) as room:
        await room.a_set(1, 2, name="other")
        await room.a_set(1, 2)
        room.store.entry_changed(SET, VersionedEntry(revision=99, problem=PROBLEM))
        yield room


def next_id(room, name):
    return room.ask(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, {"clusterName": "C", "brokerName": name})


def sync_state(room, name):
    return room.ask(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {}, json.dumps([name]).encode())


ASKED = {
    "its next id": next_id,
    "its members": sync_state,
    "its master": lambda room, name: room.info(name),
    "a start": lambda room, name: room.register(2, name=name),
    "an id": lambda room, name: room.apply(3, name=name),
    "an election": lambda room, name: room.elect(2, name=name, designate=True),
    "a report": lambda room, name: room.report([1], epoch=2, name=name),
    "a cleaning": lambda room, name: room.clean("2", name=name, living=True),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED.keys())
async def test_requests_for_an_unreadable_set_are_refused_and_no_others(room, asked):
    refused = await asked(room, SET)
    # Not 2008 or 2015: a broker that hears that there is no set begins anew.
    assert (refused.code, PROBLEM in refused.remark) == (1, True)
    assert (await asked(room, "other")).code == SUCCESS


async def test_set_is_served_again_once_its_entry_is_readable(room):
    room.store.entry_changed(SET, VersionedEntry(room.store.entry("other"), 100))
    assert (await room.info()).code == SUCCESS
