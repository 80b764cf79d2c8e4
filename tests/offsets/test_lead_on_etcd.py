"""Managers on one real etcd: one of them leads, also while others are paused, killed, or cut off from etcd."""

import asyncio

import pytest
from peers.etcd import running_etcd
from peers.offset_managers import OffsetManager
from peers.waiting import wait_until

from offsets.etcd_lead import EtcdLead
from offsets.lead import ManagerFollows, ManagerLeads, NotLeading
from remoting.clock import BootClock
from store.etcd.client import EtcdOptions
from store.store import ControllerMember, Deposed

pytestmark = pytest.mark.etcd


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    with running_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def managers(etcd, tmp_path, request):
    """The one that leads, and the one that follows."""
    options = {"store": "etcd", "etcd_endpoints": ";".join(etcd.endpoints), "manager_group": request.node.name}
    first, second = (OffsetManager(tmp_path, name, **options) for name in ("first", "second"))
    for manager in (first, second):
        manager.options["advertised_address"] = manager.address
    first.start().leading()
    second.start()
    wait_until(lambda: shown(second)["leaderAddress"], seconds=20, what="the second one follows")
    yield first, second
    for manager in (second, first):
        if manager.process.running:
            manager.process.stop()


def shown(manager):
    return manager.get("/v1/manager").body


def test_the_lead_goes_over_from_one_that_stops_and_from_one_that_is_killed(managers):
    first, second = managers
    assert (shown(second)["role"], shown(second)["leaderAddress"]) == ("following", first.address)
    assert second.get("/readyz").status == 200
    assert first.process.stop() == 0
    # It gave the lease back: a follower looks each 1.5 s, and a lease lasts 5 s.
    second.leading(seconds=3)
    first.start()
    wait_until(lambda: shown(first)["leaderAddress"] == second.address, seconds=20, what="the first one follows")
    second.process.kill()
    first.leading()
    assert first.metric("leader_changes_total") == 1


def test_a_paused_leader_leads_no_more_when_it_goes_on(managers):
    first, second = managers
    first.process.pause()
    try:
        second.leading()
    finally:
        first.process.resume()
    # The very first answer after the pause: no message of etcd was read yet.
    assert shown(first)["role"] == "following"
    wait_until(lambda: shown(first)["leaderAddress"] == second.address, seconds=20, what="it knows the leader")


def test_no_manager_leads_while_etcd_is_away_and_one_does_when_it_is_back(managers, etcd):
    first, second = managers
    (member,) = etcd.members
    member.process.pause()
    try:
        wait_until(lambda: shown(first)["role"] == "following", seconds=20, what="the lease ends")
        assert shown(second)["role"] == "following"
    finally:
        member.process.resume()
    wait_until(lambda: first.leads() or second.leads(), seconds=30, what="one leads")
    assert not (first.leads() and second.leads())
    assert [line["operation"] for line in first.events("store_calls_failing")]


async def test_numbers_of_leads_rise_and_only_the_holder_has_the_key_for_writes(etcd):
    told, failed = [], []
    options = EtcdOptions(endpoints=tuple(etcd.endpoints), group="numbers")
    leads = [EtcdLead(options, BootClock(), told.append, lambda *fault: failed.append(fault)) for _ in range(2)]
    one, two = leads

    async def until(holds):
        async with asyncio.timeout(20):
            while not holds():
                await asyncio.sleep(0.01)

    one.start(ControllerMember(id="one", address="10.0.0.1:1"))
    await until(one.is_leading)
    two.start(ControllerMember(id="two", address="10.0.0.2:1"))
    await until(lambda: two.leader is not None)
    number = one.number
    assert (one.own_key().token, two.number) == (number, 0)
    with pytest.raises(Deposed):
        two.own_key()
    with pytest.raises(NotLeading, match=r"10\.0\.0\.1:1"):
        two.check()
    one.pass_on()
    assert not one.is_leading()
    await until(two.is_leading)
    assert two.number > number
    assert two.leads_seen == 2
    assert [type(event) for event in told if isinstance(event, (ManagerLeads, ManagerFollows))] == [
        ManagerLeads,
        ManagerFollows,
        ManagerLeads,
    ]
    for lead in leads:
        await lead.resign()
        await lead.close()
    assert failed == []
