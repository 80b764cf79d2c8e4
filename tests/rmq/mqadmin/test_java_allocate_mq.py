"""allocateMQ against mqadmin, over random cases."""

import contextlib
import json
import random
import re
import socket

import pytest
from peers.lab import Lab
from peers.scripted import Line, ScriptedBroker
from peers.waiting import wait_until

from remoting.admin.message_queues import MessageQueue
from rmq.mqadmin.topics import as_allocate_mq

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

SOON_S = 300


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


def as_texts(allocation):
    return {client: [f"{each.broker_name}:{each.queue_id}" for each in share] for client, share in allocation.items()}


def printed(tool, namesrv, topic, addresses):
    """Return what the command prints; on a busy machine it has no answer of the NameServer at first."""
    words = ["allocateMQ", "-t", topic, "-i", ",".join(addresses)]

    def found():
        return re.search(r"^{.*$", tool.run(*words, namesrv=[namesrv.address], seconds=SOON_S), re.MULTILINE)

    result = json.loads(wait_until(found, seconds=SOON_S, what="allocateMQ prints a result")[0])["result"]
    return {name: [f"{each['brokerName']}:{each['queueId']}" for each in share] for name, share in result.items()}
