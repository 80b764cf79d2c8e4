"""Declared groups on a real etcd: only the manager that leads changes them, and the next one has them."""

import asyncio

import pytest
from orderly_builders import CLUSTER, ORDERLY
from peers.etcd import running_etcd

from offsets.etcd_lead import EtcdLead
from offsets.order.declared import Declared
from offsets.order.declared_in_etcd import DeclaredKey
from offsets.order.holders import OrderlyGroup
from remoting.clock import BootClock
from store.etcd.client import EtcdOptions
from store.store import ControllerMember, Deposed, EntryMoved

pytestmark = pytest.mark.etcd

OTHER = OrderlyGroup(CLUSTER, "g2")


async def until(holds):
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def test_leader_alone_changes_the_groups_and_the_next_one_has_them(tmp_path):
    with running_etcd(tmp_path) as etcd:
        told, clock = [], BootClock()
        options = EtcdOptions(endpoints=tuple(etcd.endpoints), group="order")
        leads = [EtcdLead(options, clock, told.append, lambda *fault: told.append(fault)) for _ in range(2)]
        stores = [DeclaredKey(lead, clock) for lead in leads]
        one, two = (Declared(store, told.append) for store in stores)
        leads[0].start(ControllerMember(id="one", address="10.0.0.1:1"))
        await until(leads[0].is_leading)
        leads[1].start(ControllerMember(id="two", address="10.0.0.2:1"))
        assert await one.declare(ORDERLY, "alice")
        _, revision = await stores[0].read()
        assert await one.declare(OTHER, "alice")
        with pytest.raises(EntryMoved):
            await stores[0].write(b"[]", revision)
        with pytest.raises(Deposed):
            await two.declare(OrderlyGroup(CLUSTER, "g3"), "bob")
        # The key of a lead that another one has followed.
        own_key = leads[0].own_key()
        leads[0].pass_on()
        await until(leads[1].is_leading)
        leads[0].own_key = lambda: own_key
        with pytest.raises(Deposed, match="two at"):
            await one.undeclare(ORDERLY, "alice")
        await two.load()
        assert two.groups == one.groups == {ORDERLY, OTHER}
        assert await two.undeclare(ORDERLY, "bob")
        for lead in leads:
            await lead.resign()
            await lead.close()
