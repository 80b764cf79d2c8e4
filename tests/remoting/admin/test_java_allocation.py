"""The strategies of allocation against those of Java's client, and allocateMQ against mqadmin, over random cases."""

import contextlib
import json
import random
import re
import socket
from functools import partial

import pytest
from peers.jars import V5_5
from peers.java import start_java
from peers.lab import Lab
from peers.scripted import Line, ScriptedBroker
from peers.waiting import wait_until

from remoting.admin.allocation import (
    as_allocate_mq,
    by_average,
    by_circle,
    by_consistent_hash,
    by_machine_room,
    by_nearby_room,
)
from remoting.admin.message_queues import MessageQueue

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

CASES = 400
ROOMS = ["r1", "r2", "r3"]
SOON_S = 300


def first_part(name):
    return name.split("-")[0]


def nearby(strategy):
    return partial(
        by_nearby_room,
        strategy=strategy,
        room_of_queue=lambda queue: first_part(queue.broker_name),
        room_of_client=first_part,
    )


STRATEGIES = {
    "AVG": by_average,
    "AVG_BY_CIRCLE": by_circle,
    "CONSISTENT_HASH": by_consistent_hash,
    "MACHINE_ROOM": partial(by_machine_room, rooms=["r1", "r2"]),
    "MACHINE_ROOM_NEARBY-AVG": nearby(by_average),
    "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE": nearby(by_circle),
    "MACHINE_ROOM_NEARBY-CONSISTENT_HASH": nearby(by_consistent_hash),
}


def a_case(rng):
    """Return queues of brokers in rooms or with any names, and clients of which some are listed twice."""
    between = rng.choice(["-", "@", "@@", "-b@"])
    brokers = {f"{rng.choice(ROOMS)}{between}{rng.randrange(20)}" for _ in range(rng.randrange(1, 6))}
    queues = [
        MessageQueue(topic="orders", broker_name=broker, queue_id=queue)
        for broker in sorted(brokers)
        for queue in range(rng.randrange(1, 14))
    ]
    clients = [f"{rng.choice(ROOMS)}-10.0.0.{rng.randrange(30)}@{rng.randrange(3)}" for _ in range(rng.randrange(1, 9))]
    rng.shuffle(queues)
    return rng.choice(sorted(STRATEGIES)), queues, clients


def as_json(strategy, queues, clients):
    names = [{"topic": each.topic, "brokerName": each.broker_name, "queueId": each.queue_id} for each in queues]
    return json.dumps({"strategy": strategy, "queues": names, "clients": clients, "rooms": ["r1", "r2"]})


def as_texts(allocation):
    return {client: [f"{each.broker_name}:{each.queue_id}" for each in share] for client, share in allocation.items()}


def test_shares_are_those_that_java_clients_compute(tmp_path):
    rng = random.Random(20_6)
    cases = [a_case(rng) for _ in range(CASES)]
    java = start_java("allocations", V5_5, "Allocations", [], folder=tmp_path, logging="logback-silent.xml")
    try:
        for case in cases:
            java.write_line(as_json(*case))
        answers = lambda: re.findall(r"^SHARES (.*)\n", java.text(), re.MULTILINE)  # noqa: E731
        wait_until(lambda: len(answers()) == CASES, seconds=SOON_S, what="all cases are answered")
        found = [json.loads(answer) for answer in answers()]
    finally:
        java.kill()
    assert {case[0] for case in cases} == set(STRATEGIES)
    for (strategy, queues, clients), shares in zip(cases, found, strict=True):
        assert as_texts(STRATEGIES[strategy](queues, clients)) == shares, (strategy, queues, clients)


@pytest.mark.soak
def test_allocate_mq_prints_what_mqadmin_prints(tmp_path):
    rng = random.Random(6)
    topics = {
        "TopicTest": {"broker-a": 8},
        "orders": {"broker-a": 16, "broker-b": 5, "c": 40},
        "%RETRY%billing": {f"b{rng.randrange(1000)}": rng.randrange(1, 30) for _ in range(6)},
    }
    with contextlib.closing(Lab(tmp_path)) as lab, contextlib.ExitStack() as lines:
        namesrv, tool = lab.name_server(), lab.mqadmin()
        for port, broker in enumerate(sorted({name for counts in topics.values() for name in counts}), 20_000):
            line = lines.enter_context(contextlib.closing(Line(socket.create_connection(("127.0.0.1", namesrv.port)))))
            counts = {topic: counts[broker] for topic, counts in topics.items() if broker in counts}
            # One topic alone is taken from a broker that is registered already.
            ScriptedBroker(line, broker, address=f"127.0.0.1:{port}").register(counts | {"own": 1})
        for topic in topics:
            route = namesrv.caller.route(topic)["queueDatas"]
            queues = [
                MessageQueue(topic=topic, broker_name=each["brokerName"], queue_id=queue)
                for each in route
                for queue in range(each["readQueueNums"])
            ]
            for addresses in (["10.0.0.1", "10.0.0.2", "10.0.0.3"], ["b", "a"], ["one"]):
                assert as_texts(as_allocate_mq(queues, addresses)) == printed(tool, namesrv, topic, addresses)


def printed(tool, namesrv, topic, addresses):
    """Return what the command prints; on a busy machine it has no answer of the NameServer at first."""
    words = ["allocateMQ", "-t", topic, "-i", ",".join(addresses)]

    def found():
        return re.search(r"^{.*$", tool.run(*words, namesrv=[namesrv.address], seconds=SOON_S), re.MULTILINE)

    result = json.loads(wait_until(found, seconds=SOON_S, what="allocateMQ prints a result")[0])["result"]
    return {name: [f"{each['brokerName']}:{each['queueId']}" for each in share] for name, share in result.items()}
