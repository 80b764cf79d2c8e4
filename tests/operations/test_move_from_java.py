"""Two real brokers move from the Java controller to ours, also while they serve: same ids and logs, a higher epoch."""

import contextlib
import json

import pytest
from peers.controllers import OurController
from peers.lab import Lab
from peers.servers import registered
from peers.waiting import seconds_until, wait_until

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(600)]

NAME = "moving"
#: Brokers, a store and an election, on a slow machine.
LONG_S = 120


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as made:
        yield made


def complete(controller):
    state = controller.set_state(NAME)
    is_complete = state is not None and state.master is not None and len(state.in_sync) == 2
    return state if is_complete else None


def wait_for_both(controller):
    return wait_until(
        lambda: complete(controller), seconds=LONG_S, what=lambda: f"in sync, not {controller.set_state(NAME)}"
    )


def test_brokers_of_a_java_controller_are_adopted_when_they_start_again(lab, figure):
    namesrv = lab.name_server()
    java = lab.controller("java")
    brokers = [
        lab.broker(NAME, label=f"{NAME}-{age}", namesrv=[namesrv.address], **java.broker_settings())
        for age in ("elder", "younger")
    ]
    for each in brokers:
        each.start().ready()
        wait_until(lambda each=each: has_joined(java, each), seconds=LONG_S, what="it has an id")
    before = wait_for_both(java)
    sent = lab.producer("before", namesrv=[namesrv.address], topic=NAME, count=20).finish()
    assert sent.failures() == []

    for peer in (*brokers, java):
        peer.process.kill()
    ours = lab.kept(OurController(lab.folder, "ours", port=java.port, adoptUnknownBrokers="true")).start()
    for each in brokers:
        each.start()
    figure("a master", seconds_until(lambda: has_master(ours), seconds=LONG_S, what="a master"))
    after = wait_for_both(ours)
    assert after.master_epoch > before.master_epoch
    assert after.addresses == before.addresses
    for each in brokers:
        wait_until(lambda each=each: registered(namesrv, each), seconds=LONG_S, what="it is registered")
    sent = lab.producer("after", namesrv=[namesrv.address], topic=NAME, count=20).finish()
    assert sent.failures() == []


def test_brokers_that_go_on_serving_keep_their_master_when_their_controller_is_replaced(lab, figure):
    namesrv = lab.name_server()
    java = lab.controller("java")
    brokers = [
        lab.broker(NAME, label=f"{NAME}-{age}", namesrv=[namesrv.address], **java.broker_settings())
        for age in ("elder", "younger")
    ]
    for each in brokers:
        each.start().ready()
        wait_until(lambda each=each: has_joined(java, each), seconds=LONG_S, what="it has an id")
    before = wait_for_both(java)
    load = lab.load("moving", namesrv=[namesrv.address], topic=NAME, **{"interval-ms": 2}).ready()

    java.process.kill()
    ours = lab.kept(OurController(lab.folder, "ours", port=java.port, adoptUnknownBrokers="true")).start()
    figure("a master", seconds_until(lambda: has_master(ours), seconds=LONG_S, what="a master"))
    after = wait_for_both(ours)
    assert (after.master, after.addresses) == (before.master, before.addresses)
    assert after.master_epoch > before.master_epoch
    load.wait_for_more(count=100).stop()
    assert {each.port for each in load.acknowledged()} == {port_of(before.addresses[before.master])}
    started = [json.loads(line) for line in ours.process.text().splitlines() if '"broker_started"' in line]
    assert [each["adopted"] for each in started] == [True, True]


def port_of(address):
    return int(address.rpartition(":")[2])


def has_master(controller):
    state = controller.set_state(NAME)
    return state is not None and state.master is not None


def has_joined(controller, broker):
    state = controller.set_state(NAME)
    return state is not None and broker.address in state.addresses.values()
