"""Who speaks for a broker: what heartbeats from other hosts than its own claim does not outlast its return."""

from fakes.in_process_controller import SET

from controller.failure_detection.heartbeats import BrokerKey

ONE = BrokerKey(SET, 1)
#: Connections from the hosts of brokers 1 and 2, and of somebody else.
HOME_OF_ONE, HOME_OF_TWO, OTHER_HOST = 11, 12, 66
CLAIM = {"epoch": 999, "maxOffset": 10**9, "electionPriority": 0}


async def a_set_at_home(controller):
    await controller.a_set(1, 2)
    for _ in range(3):
        await pass_s(controller, 1)
        await controller.heartbeat(1, over=HOME_OF_ONE)
        await controller.heartbeat(2, over=HOME_OF_TWO)


async def pass_s(controller, seconds):
    controller.clock.pass_ms(round(seconds * 1000))
    controller.control.monitor.look_at_brokers()
    await controller.done()


async def test_heartbeats_of_a_non_member_are_ignored_while_the_broker_pauses(controller):
    await a_set_at_home(controller)
    await pass_s(controller, 1.6)
    for _ in range(4):
        await controller.heartbeat(1, over=OTHER_HOST, **CLAIM)
        await pass_s(controller, 0.5)
    last = controller.live.get(ONE)
    assert (last.progress, last.priority) == ((1, 100), 2**31 - 1)


async def test_heartbeat_of_a_failed_broker_counts_at_once_and_those_of_a_non_member_do_not(controller):
    await a_set_at_home(controller)
    for _ in range(12):
        await controller.heartbeat(1, over=OTHER_HOST, **CLAIM)
        await controller.heartbeat(2, over=HOME_OF_TWO)
        await pass_s(controller, 1)
    assert controller.live.get(ONE) is None
    await controller.heartbeat(1, over=HOME_OF_ONE)
    assert controller.live.get(ONE).progress == (1, 100)
    for _ in range(3):
        await controller.heartbeat(1, over=OTHER_HOST, **CLAIM)
        assert controller.live.get(ONE).progress == (1, 100)
        await pass_s(controller, 1)


async def test_heartbeat_over_another_connection_from_the_host_of_the_broker_counts(controller):
    await a_set_at_home(controller)
    controller.peer_host = "10.0.0.11"
    await pass_s(controller, 1.6)
    await controller.heartbeat(1, over=77, maxOffset=90)
    assert controller.live.get(ONE).progress == (1, 90)


async def test_heartbeat_from_the_host_of_the_broker_counts_over_earlier_ones_of_a_non_member(controller):
    await controller.a_set(1, 2)
    for _ in range(3):
        await pass_s(controller, 1)
        await controller.heartbeat(1, over=OTHER_HOST, **CLAIM)
    await controller.heartbeat(1, over=HOME_OF_ONE)
    assert controller.live.get(ONE).progress == (1, 100)
