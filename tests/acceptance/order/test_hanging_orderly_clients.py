"""Clients that hang take threads of their broker: how many of them the mirror may query."""

import asyncio
import time

import pytest
from measured import note
from orderly_builders import CLUSTER
from peers.waiting import wait_until
from peers.wire import SUCCESS, Caller

from offsets.order.holders import Member, OrderlyGroup
from offsets.order.polling import WAITED_FOR_MAX
from serving.telemetry.events import Counted

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(600)]

GET_MEMBERS = 203
#: More than a broker has threads for administration.
CLIENTS = 18
GROUP = "paused"
ORDERLY = OrderlyGroup(CLUSTER, GROUP)


def test_broker_of_many_clients_that_hang_still_answers(lone):
    # Clients know only brokers of their topics.
    lone.send(GROUP)
    paused = lone.new_traffic("paused")
    ids = [
        paused.receive(f"c{number}", topic=GROUP, group=GROUP, kind="orderly", heartbeat_ms=1000)
        for number in range(CLIENTS)
    ]
    manager, address = lone.manager, lone.broker.address

    def all_listed():
        manager.list_group(address, ORDERLY)
        return [client_id for _, client_id in manager.holders.members_of(ORDERLY)] == sorted(ids)

    wait_until(all_listed, seconds=60, what="all clients are listed")
    paused.process.pause()
    manager.events.clear()

    async def confirm_all():
        await asyncio.gather(*(manager.polling.confirm(Member(ORDERLY, client_id)) for client_id in ids))

    manager.run(confirm_all())
    queried = len(manager.told(Counted))
    assert 0 < queried < 2 * WAITED_FOR_MAX
    began = time.perf_counter()
    assert Caller(address).request(GET_MEMBERS, {"consumerGroup": GROUP}).code == SUCCESS
    took_ms = round((time.perf_counter() - began) * 1000)
    note(
        "clients that hang",
        lone.version,
        f"{lone.version}: {CLIENTS} hang, {queried} queried: their broker answers after {took_ms} ms",
    )
    paused.process.resume()
