"""What a real HAProxy makes of role checks with our configuration: who is served, what ends, what stays as it was."""

import asyncio
import time

import pytest
from haproxy_config_peer import FAILED, SERVES, SUPERSEDED, UNKNOWN, WAIT_S, Proxied, eventually
from peers.programs import require

from controller.failure_detection.heartbeats import BrokerKey

#: How soon established sessions to a demoted master end.
ENDS_S = 1.0


@pytest.fixture(autouse=True)
def _haproxy():
    require("haproxy")


@pytest.fixture
async def proxied(tmp_path):
    async with Proxied(tmp_path) as proxied:
        yield proxied


async def up(proxied, one=SERVES, two=SUPERSEDED):
    """Let the controllers answer so, and wait until HAProxy acts on it."""
    proxied.answer(one, two)
    await served_by(proxied, "one" if one is SERVES else "two")


async def served_by(proxied, wanted):
    async with asyncio.timeout(WAIT_S):
        while await proxied.who() != wanted:
            await asyncio.sleep(0.01)


async def test_fresh_haproxy_serves_nobody_until_a_master_is_known(proxied):
    proxied.answer(UNKNOWN, SUPERSEDED)
    session = await proxied.connect()
    asking = asyncio.create_task(session.ask())
    await proxied.controller.checks(5)
    assert await proxied.haproxy.states() == {"broker_1": "MAINT", "broker_2": "MAINT"}
    assert not asking.done()
    proxied.answer(SERVES, SUPERSEDED)
    assert await asking == "one"


async def test_doubt_and_silence_change_nothing(proxied):
    await up(proxied)
    session = await proxied.connect()
    assert await session.ask() == "one"
    proxied.answer(UNKNOWN, UNKNOWN)
    await proxied.controller.checks(10)
    assert (await session.ask(), await proxied.who()) == ("one", "one")
    proxied.controller.leads = False
    await asyncio.sleep(1)
    assert (await session.ask(), await proxied.who()) == ("one", "one")
    proxied.controller.fall_silent()
    await asyncio.sleep(2)
    assert (await session.ask(), await proxied.who()) == ("one", "one")


async def test_role_change_ends_sessions_and_new_connections_wait_for_the_new_master(proxied):
    await up(proxied)
    session = await proxied.connect()
    assert await session.ask() == "one"
    proxied.answer(SUPERSEDED, UNKNOWN)
    began = time.perf_counter()
    await session.ended()
    assert time.perf_counter() - began < ENDS_S
    session = await proxied.connect()
    asking = asyncio.create_task(session.ask())
    await proxied.controller.checks(5)
    assert not asking.done()
    proxied.answer(SUPERSEDED, SERVES)
    assert await asking == "two"
    # The old one is back, and stays where it was put.
    assert await proxied.who() == "two"


async def test_connections_wait_while_a_killed_master_is_not_replaced(proxied):
    await up(proxied)
    session = await proxied.connect()
    assert await session.ask() == "one"
    proxied.one.kill()
    proxied.answer(UNKNOWN, SUPERSEDED)
    await session.ended()
    session = await proxied.connect()
    asking = asyncio.create_task(session.ask())
    await proxied.controller.checks(2)
    proxied.answer(FAILED, SUPERSEDED)
    await proxied.controller.checks(2)
    proxied.answer(SUPERSEDED, UNKNOWN)
    await proxied.controller.checks(2)
    assert not asking.done()
    proxied.answer(SUPERSEDED, SERVES)
    assert await asking == "two"


async def test_checks_follow_the_lead_from_one_controller_to_another(tmp_path):
    async with Proxied(tmp_path, controllers=3) as proxied:
        first, second, third = proxied.controllers
        second.leads = third.leads = False
        await up(proxied)
        # The first is cut off and has not noticed: its answers are in doubt, and nothing changes.
        first.answers = {}
        await first.checks(3)
        assert await proxied.who() == "one"
        first.fall_silent()
        third.leads = True
        proxied.answer(SUPERSEDED, SERVES)
        await served_by(proxied, "two")
        await third.checks(3)
        second.checked.clear()
        await third.checks(3)
        assert not second.checked


async def test_haproxy_that_crashed_serves_again_with_the_first_answer(proxied):
    await up(proxied)
    await proxied.haproxy.stop()
    await proxied.haproxy.start()
    assert await proxied.who() == "one"


async def test_haproxy_restarted_while_controllers_are_silent_goes_on_with_the_saved_states(proxied):
    await up(proxied, SUPERSEDED, SERVES)
    await proxied.controller.checks(3)
    await proxied.haproxy.save_states()
    proxied.controller.fall_silent()
    await proxied.haproxy.stop()
    await proxied.haproxy.start()
    assert await proxied.who() == "two"
    states = await proxied.haproxy.states()
    assert states["broker_1"] in {"DOWN (agent)", "MAINT"}
    # What controllers answer later counts.
    proxied.controller.speak_again()
    await up(proxied, SERVES, SUPERSEDED)


async def test_saved_states_lead_to_the_master_of_the_last_failover_and_not_to_a_former_one(proxied):
    """HAProxy takes a server that was down for one that is up, where it is not in maintenance."""
    await up(proxied)
    await up(proxied, SUPERSEDED, SERVES)
    await proxied.haproxy.save_states()
    proxied.controller.fall_silent()
    await proxied.haproxy.stop()
    await proxied.haproxy.start()
    assert await proxied.who() == "two"
    assert (await proxied.haproxy.states())["broker_1"] == "MAINT"
    proxied.controller.speak_again()
    await up(proxied)


async def test_sessions_of_the_process_before_a_reload_end(proxied):
    await up(proxied)
    session = await proxied.connect()
    assert await session.ask() == "one"
    await proxied.haproxy.save_states()
    await proxied.haproxy.reload()
    await session.ended()
    assert await proxied.who() == "one"
    # The new process acts on role changes.
    session = await proxied.connect()
    assert await session.ask() == "one"
    proxied.answer(SUPERSEDED, SERVES)
    await session.ended()
    assert await proxied.who() == "two"


@pytest.mark.parametrize("name", ['q"u\\o$te', "a b", "brøker", "a#b", "%[src]", "a'b/c"])
async def test_brokers_are_checked_under_their_names_whatever_those_are(tmp_path, name):
    async with Proxied(tmp_path, set_name=name) as proxied:
        await eventually(lambda: len(proxied.controller.checked) > 3, "brokers are checked")
        assert {event.key for event in proxied.controller.checked} == {BrokerKey(name, 1), BrokerKey(name, 2)}
