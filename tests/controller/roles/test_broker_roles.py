"""The roles of brokers, over a controller without sockets: what its knowledge comes to as brokers fail and return."""

import pytest
from fakes.in_process_controller import SET, InProcessController, at

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import ProbeOutcome
from controller.roles.verdict import RoleVerdict
from store.store import ControllerMember

OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")
ONE, TWO = BrokerKey(SET, 1), BrokerKey(SET, 2)
SERVES, FAILED, SUPERSEDED = RoleVerdict.SERVES, RoleVerdict.FAILED, RoleVerdict.SUPERSEDED
HELD, UNKNOWN = RoleVerdict.HELD, RoleVerdict.UNKNOWN


@pytest.fixture
async def controller(controller):
    controller.masters.add(at(1))
    await controller.a_set(1, 2)
    await controller.publish_roles()
    return controller


def verdicts(controller):
    return [controller.roles.answer(key).verdict for key in (ONE, TWO)]


async def test_master_serves_once_it_is_confirmed(tmp_path):
    async with InProcessController(tmp_path) as controller:
        await controller.a_set(1, 2)
        assert verdicts(controller) == [UNKNOWN, SUPERSEDED]
        controller.masters.add(at(1))
        await controller.publish_roles()
        assert verdicts(controller) == [SERVES, SUPERSEDED]


async def test_failed_master_is_superseded_with_the_election_and_its_successor_serves_when_confirmed(controller):
    controller.control.monitor.connection_lost(1)
    assert verdicts(controller) == [UNKNOWN, SUPERSEDED]
    await controller.pass_ms(100)
    (probe,) = controller.take_probes()
    controller.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
    assert verdicts(controller) == [FAILED, SUPERSEDED]
    await controller.done()
    assert verdicts(controller) == [SUPERSEDED, UNKNOWN]
    controller.masters = {at(2)}
    await controller.publish_roles()
    assert verdicts(controller) == [SUPERSEDED, SERVES]
    # The old one returns.
    await controller.heartbeat(1, 2)
    assert verdicts(controller) == [SUPERSEDED, SERVES]


async def test_held_set_is_down_and_as_before_afterwards(controller):
    controller.roles.holds.hold(SET, controller.clock.now_ms() + 300)
    assert verdicts(controller) == [HELD, HELD]
    await controller.pass_ms(300, beating=(1, 2))
    assert verdicts(controller) == [SERVES, SUPERSEDED]


async def test_paused_process_answers_nothing_of_masters_until_it_knows_brokers_again(controller):
    await controller.pass_ms(1_000, beating=(1, 2))
    controller.clock.pass_ms(8_000)
    assert verdicts(controller) == [UNKNOWN, SUPERSEDED]
    await controller.pass_ms(2_000, beating=(1, 2))
    assert verdicts(controller) == [SERVES, SUPERSEDED]


async def test_proof_of_a_higher_epoch_is_doubt_about_the_whole_set(controller):
    await controller.heartbeat(1, 2, epoch=7)
    assert verdicts(controller) == [UNKNOWN, UNKNOWN]


async def test_claim_of_a_broker_out_of_sync_changes_no_verdict(controller):
    await controller.report([1], epoch=2)
    await controller.heartbeat(2, epoch=7)
    assert controller.stored().sync_state_set == {1}
    assert verdicts(controller) == [SERVES, SUPERSEDED]


async def test_expired_lease_and_a_lost_lead_answer_nothing(controller):
    controller.group.leads(controller.clock.now_ms() + 200)
    assert verdicts(controller) == [SERVES, SUPERSEDED]
    controller.clock.pass_ms(201)
    assert verdicts(controller) == [UNKNOWN, UNKNOWN]
    controller.group.follows(OTHER)
    assert verdicts(controller) == [UNKNOWN, UNKNOWN]


async def test_cleared_roles_are_confirmed_anew(controller):
    controller.roles.holds.hold(SET, controller.clock.now_ms() + 300)
    controller.roles.clear()
    assert verdicts(controller) == [UNKNOWN, SUPERSEDED]
    controller.role_changes.repeat(controller.store.sets())
    await controller.publish_roles()
    assert verdicts(controller) == [SERVES, SUPERSEDED]
