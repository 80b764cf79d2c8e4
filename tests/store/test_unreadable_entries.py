"""A set whose entry cannot be read is refused, with the reason, until it can be; the others know nothing of it."""

import json

import pytest
from fakes.in_process_controller import SET, InProcessController
from peers.wire import SUCCESS

from remoting.protocol.codes import RequestCode
from store.store import VersionedEntry

PROBLEM = "etcd: the entry at /rmq-controller/g/sets/broker-a cannot be read"


@pytest.fixture
async def controller(tmp_path):
    async with InProcessController(tmp_path) as controller:
        await controller.a_set(1, 2, name="other")
        await controller.a_set(1, 2)
        controller.store.entry_changed(SET, VersionedEntry(revision=99, problem=PROBLEM))
        yield controller


def next_id(controller, name):
    return controller.request(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, {"clusterName": "C", "brokerName": name})


def sync_state(controller, name):
    return controller.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {}, json.dumps([name]).encode())


REQUESTS = {
    "its next id": next_id,
    "its members": sync_state,
    "its master": lambda controller, name: controller.info(name),
    "a start": lambda controller, name: controller.register(2, name=name),
    "an id": lambda controller, name: controller.apply(3, name=name),
    "an election": lambda controller, name: controller.elect(2, name=name, designate=True),
    "a report": lambda controller, name: controller.report([1], epoch=2, name=name),
    "a cleaning": lambda controller, name: controller.clean("2", name=name, living=True),
}


@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=REQUESTS.keys())
async def test_requests_for_an_unreadable_set_are_refused_and_no_others(controller, request_of):
    refused = await request_of(controller, SET)
    # Not 2008 or 2015: a broker that hears that there is no set begins anew.
    assert (refused.code, PROBLEM in refused.remark) == (1, True)
    assert (await request_of(controller, "other")).code == SUCCESS


async def test_set_is_served_again_once_its_entry_is_readable(controller):
    controller.store.entry_changed(SET, VersionedEntry(controller.store.entry("other"), 100))
    assert (await controller.info()).code == SUCCESS
