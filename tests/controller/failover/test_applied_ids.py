"""Ids that were applied for and never used: they take no place, are given out once, and their brokers get in late."""

import pytest
from fakes.in_process_controller import CLUSTER, SET, at

from controller.decisions import membership
from controller.decisions.membership import APPLICANTS_MAX
from controller.sets.stored_set import decode_stored_set
from remoting.protocol.codes import RequestCode

UNKNOWN_BROKER = 2010
INVALID = 2005
LATE = 3
HOUR_MS = 3_600_000


@pytest.fixture
async def controller(controller):
    await controller.a_set(1, 2)
    return controller


async def next_id(controller):
    fields = {"clusterName": CLUSTER, "brokerName": SET}
    answer = await controller.request(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, fields)
    return int(answer.ext_fields["nextBrokerId"])


async def apply_for(controller, ids, host="10.6.6.6"):
    """Let a stranger apply for one id after another."""
    before, controller.peer_host = controller.peer_host, host
    begin = await next_id(controller)
    codes = {(await controller.apply(i)).code for i in range(begin, begin + ids)}
    controller.peer_host = before
    return codes


async def apply_and_be_displaced(controller):
    """Let broker 3 apply, and others after it until its place is gone."""
    assert (await controller.apply(LATE)).code == 0
    await apply_for(controller, APPLICANTS_MAX)
    assert LATE not in controller.stored().replicas


async def test_thousands_of_applications_leave_room_for_a_broker(controller):
    assert await apply_for(controller, 2_500) == {0}
    assert len(controller.stored().replicas) == 2 + APPLICANTS_MAX
    new = await next_id(controller)
    assert new == 2_503
    assert (await controller.apply(new)).code == (await controller.register(new)).code == 0
    await apply_for(controller, APPLICANTS_MAX)
    assert {1, 2, new} < controller.stored().replicas.keys()


async def test_id_whose_place_went_to_another_is_not_given_out_again(controller):
    await apply_and_be_displaced(controller)
    assert (await controller.apply(LATE, code="another")).code == 2014
    assert await next_id(controller) == LATE + APPLICANTS_MAX + 1


@pytest.mark.parametrize("days", [0, 30])
async def test_broker_that_registers_after_its_place_went_to_another_is_a_member_out_of_sync(controller, days):
    await apply_and_be_displaced(controller)
    controller.restart()
    await controller.store.load()
    controller.clock.pass_ms(days * 24 * HOUR_MS + HOUR_MS)
    await controller.heartbeat(1, 2)
    answer = await controller.register(LATE)
    assert (answer.code, answer.ext_fields["masterBrokerId"]) == (0, "1")
    assert controller.stored().replicas[LATE].address == at(LATE)
    assert controller.stored().sync_state_set == {1, 2}
    # From now on it keeps its place.
    controller.restart()
    await apply_for(controller, 2 * APPLICANTS_MAX)
    assert LATE in controller.stored().replicas


async def test_late_broker_is_not_elected_whatever_it_has_and_enters_the_sync_state_set_as_any_other(controller):
    await apply_and_be_displaced(controller)
    await controller.register(LATE)
    await controller.heartbeat(LATE, epoch=9, maxOffset=10**9)
    await controller.report([1], epoch=2)
    await controller.pass_ms(3_000, beating=(1, 2, LATE))
    await controller.lose(1)
    await controller.pass_ms(5_000, beating=(2, LATE))
    assert (await controller.elect(LATE)).code == 2012
    assert controller.stored().master is None
    await controller.register(1)
    await controller.heartbeat(1)
    assert (await controller.elect(1)).code == 0
    stored = controller.stored()
    report = [1, LATE], stored.master_epoch, stored.sync_state_set_epoch
    answer = await controller.report(report[0], master_epoch=report[1], epoch=report[2])
    assert answer.code == 0
    assert controller.stored().sync_state_set == {1, LATE}


async def test_late_broker_of_a_set_without_a_first_master_can_lead_it(controller):
    name = "new"
    for broker_id in range(1, APPLICANTS_MAX + 2):
        await controller.apply(broker_id, name=name)
    assert 1 not in controller.stored(name).replicas
    assert (await controller.register(1, name=name)).code == 0
    await controller.heartbeat(1, name=name, epoch=-1, maxOffset=0)
    assert (await controller.elect(1, name=name)).code == 0
    assert controller.stored(name).master == 1


async def test_second_broker_under_the_id_of_a_late_one_is_refused_while_that_one_lives(controller):
    await apply_and_be_displaced(controller)
    await controller.register(LATE)
    await controller.heartbeat(LATE)
    await controller.pass_ms(3_000, beating=(1, 2, LATE))
    fields = {"clusterName": CLUSTER, "brokerName": SET, "brokerId": LATE, "brokerAddress": at(60)}
    answer = await controller.request(RequestCode.CONTROLLER_REGISTER_BROKER, fields, over=60)
    assert answer.code == UNKNOWN_BROKER
    assert controller.stored().replicas[LATE].address == at(LATE)


async def test_id_that_nobody_applied_for_is_not_registered(controller):
    await apply_for(controller, APPLICANTS_MAX)
    for broker_id in (await next_id(controller), 0, 10**12):
        assert (await controller.register(broker_id)).code == UNKNOWN_BROKER


async def test_broker_that_registered_once_keeps_its_place_for_ever_under_this_leader_and_the_next(controller):
    await controller.apply(LATE)
    await controller.register(LATE)
    controller.restart()
    controller.clock.pass_ms(90 * 24 * HOUR_MS)
    await apply_for(controller, 2 * APPLICANTS_MAX)
    assert LATE in controller.stored().replicas


async def test_applicants_leave_all_places_of_a_set_to_brokers_that_register(controller, monkeypatch):
    monkeypatch.setattr(membership, "REPLICAS_MAX", 5)
    await apply_for(controller, APPLICANTS_MAX)
    assert [code for code, _ in await fill(controller, None, 4)] == [INVALID]


async def test_broker_in_sync_keeps_its_place_without_another_write(controller):
    assert controller.stored().applied_ids == ()


async def test_cleaned_broker_does_not_come_back(controller):
    await controller.a_set(1, 2, name="other")
    await controller.apply(LATE)
    await controller.apply(LATE + 1)
    await controller.register(LATE + 1)
    await controller.pass_ms(20_000, beating=(1, 2))
    # One of them never registered.
    assert (await controller.clean(f"{LATE};{LATE + 1}")).code == 0
    await apply_for(controller, APPLICANTS_MAX + 1)
    for broker_id in (LATE, LATE + 1):
        assert (await controller.register(broker_id)).code == UNKNOWN_BROKER


async def test_applicant_of_a_cleaned_set_does_not_come_back(controller):
    await apply_and_be_displaced(controller)
    assert (await controller.clean(living=True)).code == 0
    assert (await controller.register(LATE)).code == UNKNOWN_BROKER
    await apply_for(controller, 1)
    assert (await controller.register(LATE)).code == UNKNOWN_BROKER


async def test_late_broker_is_not_adopted_into_the_sync_state_set_of_a_set_that_is_rebuilt(controller):
    await controller.settings.update_config(b"adoptUnknownBrokers=true")
    name = "lost"
    assert (await controller.register(5, name=name)).code == 0
    for broker_id in range(6, 6 + APPLICANTS_MAX + 1):
        assert (await controller.apply(broker_id, name=name)).code == 0
    assert (await controller.register(6, name=name)).code == 0
    rebuilt = controller.stored(name)
    assert (rebuilt.is_rebuilding, rebuilt.sync_state_set, 6 in rebuilt.replicas) == (True, {5}, True)
    # One that has an id from elsewhere is.
    assert (await controller.register(2, name=name)).code == 0
    assert controller.stored(name).sync_state_set == {5, 2}


async def test_broker_gets_in_where_the_store_was_put_back_to_before_it_registered(controller):
    await controller.apply(LATE)
    before = controller.store.entry(SET)
    await controller.register(LATE)
    await controller.heartbeat(LATE, epoch=1)
    await controller.report([1, 2, LATE], epoch=2)
    await apply_for(controller, APPLICANTS_MAX)
    await controller.backend.commit(SET, before, (await controller.backend.read(SET)).revision)
    await controller.store.load()
    controller.restart()
    await apply_for(controller, APPLICANTS_MAX)
    assert LATE not in controller.stored().replicas
    await controller.heartbeat(1, 2)
    assert (await controller.register(LATE)).code == 0
    assert controller.stored().sync_state_set == {1, 2}


# Shares of hosts


async def fill(controller, host, brokers):
    """Let brokers of one host apply and register; returns the codes of the applications that were refused."""
    controller.peer_host, refused = host, []
    for _ in range(brokers):
        broker_id = await next_id(controller)
        answer = await controller.apply(broker_id)
        if answer.code == 0:
            assert (await controller.register(broker_id)).code == 0
        else:
            refused.append((answer.code, answer.remark))
    controller.peer_host = None
    return refused


async def test_registered_brokers_of_one_host_leave_places_for_those_of_others(controller, monkeypatch):
    monkeypatch.setattr(membership, "REPLICAS_MAX", 10)
    monkeypatch.setattr(membership, "REPLICAS_OF_HOST_MAX", 5)
    refused = await fill(controller, "10.6.6.6", 9)
    assert len(refused) == 4
    assert refused[0] == (
        INVALID,
        f"{SET} has 5 brokers that came from 10.6.6.6, 5 are allowed; clean those that are gone",
    )
    # The next leader knows, too.
    await controller.pass_ms(1_000)
    controller.restart()
    await controller.store.load()
    assert len(await fill(controller, "10.6.6.6", 1)) == 1
    assert await fill(controller, "10.0.0.77", 2) == []
    assert len(await fill(controller, "10.0.0.77", 2)) == 1


async def test_late_brokers_get_no_more_places_than_others(controller, monkeypatch):
    monkeypatch.setattr(membership, "REPLICAS_OF_HOST_MAX", 5)
    await apply_for(controller, APPLICANTS_MAX + 20)
    controller.peer_host = "10.6.6.6"
    codes = [(await controller.register(broker_id)).code for broker_id in range(3, 13)]
    assert codes == [0] * 5 + [INVALID] * 5


async def test_share_of_a_host_is_that_of_its_connections_and_not_of_what_they_name(controller, monkeypatch):
    monkeypatch.setattr(membership, "REPLICAS_OF_HOST_MAX", 2)
    assert await fill(controller, "10.6.6.6", 2) == []
    controller.forwarded_host = "10.0.0.1"
    assert len(await fill(controller, "10.6.6.6", 1)) == 1


async def test_adopted_brokers_of_one_host_leave_places_for_others(controller, monkeypatch):
    monkeypatch.setattr(membership, "REPLICAS_OF_HOST_MAX", 2)
    await controller.settings.update_config(b"adoptUnknownBrokers=true")
    controller.peer_host = "10.6.6.6"
    assert [(await controller.register(broker_id)).code for broker_id in (11, 12, 13)] == [0, 0, INVALID]


# Entries that were stored before


def test_entry_without_hosts_and_applied_ids_is_read_and_its_members_have_registered():
    replica = '{"address":"10.0.0.1:1","check_code":"10.0.0.1:1;7"}'
    text = f'{{"format":1,"broker_set":{{"broker_name":"b","cluster":"C","replicas":{{"1":{replica}}}}},"floor":{{}}}}'
    broker_set = decode_stored_set(text).broker_set
    assert (broker_set.replicas[1].host, broker_set.applied_ids, broker_set.applicants) == ("", (), frozenset())
