"""The list of all clusters and broker sets (106): what one change of a set costs, and that nobody is told what was."""

import asyncio
import json
import time

from builders import a_registration
from route_states import lose_connection, register_broker

from namesrv.core import cluster_info, fitting, routes
from namesrv.core.values.cooperative import BATCH_TOPICS
from remoting.protocol.codes import RequestCode
from remoting.protocol.fastjson import Dialect, encode

#: More than are told at once.
MANY = BATCH_TOPICS + 100


def register(desk, *numbers, **values):
    for number in numbers:
        named = a_registration(broker_name=f"broker-{number}", connection_id=100 + number // 1000, topics={}, **values)
        register_broker(desk.state, named, now_ms=0)


async def answered(desk, connection=1):
    return (await desk.request(RequestCode.GET_BROKER_CLUSTER_INFO, connection=connection)).body


def encoded_whole(desk):
    """Return the answer as it would be if all of it were encoded now."""
    brokers = desk.state.tables.brokers
    return encode(
        {
            "brokerAddrTable": {data.broker_name: routes.broker_data(data) for data in brokers.sets()},
            "clusterAddrTable": {cluster: list(names) for cluster, names in brokers.clusters().items()},
        },
        Dialect.BARE_INTEGER_KEYS,
    )


async def test_after_a_change_of_one_set_the_answer_does_not_cost_what_all_sets_cost(desk):
    register(desk, *range(20_000))
    await answered(desk)
    took_ms = []
    for number in range(20_000, 20_003):
        register(desk, number)
        began = time.process_time()
        body = await answered(desk)
        took_ms.append(1000 * (time.process_time() - began))
        assert body == encoded_whole(desk)
    assert min(took_ms) < 80


async def test_text_of_few_and_many_sets_is_the_same(desk):
    for count in (3, MANY):
        register(desk, *range(count))
        register(desk, 1, broker_id=2, zone_name='zone "1"', cluster="Ünder")
        register(desk, 2, cluster="Moved", address="10.2.2.2:10911")
        lose_connection(desk.state, 100, now_ms=1)
        register(desk, *range(5, 0, -1))
        assert await answered(desk) == encoded_whole(desk)


async def test_request_after_a_change_gets_a_text_with_it(desk):
    register(desk, *range(MANY))
    asking = [asyncio.create_task(answered(desk, number)) for number in range(3)]
    await asyncio.sleep(0)
    register(desk, MANY)
    asking.append(asyncio.create_task(answered(desk, 9)))
    bodies = await asyncio.gather(*asking)
    assert f'"broker-{MANY}"'.encode() in bodies[-1]
    assert bodies[-1] == encoded_whole(desk)


async def test_requests_that_wait_when_a_text_is_begun_share_it(desk):
    register(desk, *range(MANY))
    bodies = await asyncio.gather(*(answered(desk, number) for number in range(5)))
    assert bodies == [encoded_whole(desk)] * 5
    assert desk.state.cluster_info.builds == 1


async def test_of_a_list_that_no_peer_would_read_each_host_has_its_share(desk, monkeypatch):
    register(desk, *range(1000, 1040), network="10.6.6.6")
    register(desk, 1, network="10.9.9.9")
    monkeypatch.setattr(cluster_info, "TEXT_BYTES_MAX", 3000)
    monkeypatch.setattr(fitting, "ANSWER_BYTES_MAX", 3000)
    body = await answered(desk)
    named = json.loads(body.replace(b"{0:", b'{"0":'))
    assert "broker-1" in named["brokerAddrTable"]
    assert 1 < len(named["brokerAddrTable"]) < 10
    assert set(*named["clusterAddrTable"].values()) == named["brokerAddrTable"].keys()
    lose_connection(desk.state, 101, now_ms=1)
    assert await answered(desk) == encoded_whole(desk)
