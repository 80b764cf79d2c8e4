"""Brokers that a test registers at NameServers, and what they answer."""

import json
import socket
import urllib.request
from urllib.parse import quote

from answering_peer import answer
from peers.scripted import Line, ScriptedBroker
from peers.waiting import wait_until

RUNTIME = 28
TOPIC_CONFIG = 351
TOPIC_CONFIGS = 21
TOPIC_STATS = 202
UPDATE_TOPIC = 17
DELETE_TOPIC = 215
GET_CONFIG = 26
UPDATE_CONFIG = 25
MAX_OFFSET = 30
MIN_OFFSET = 31

SYSTEM_TOPICS = ["TBW102", "SELF_TEST_TOPIC"]
ODD_NAMES = ['it\'s "quoted"', "<script>alert(1)</script>", "订单主题", "x" * 255, "a\u3164b", "=cmd|calc", "a b"]


#: Answer of a NameServer that lists one broker (106).
SITE = answer(
    {
        "brokerAddrTable": {"a": {"cluster": "C", "brokerName": "a", "brokerAddrs": {"0": "127.0.0.1:1"}}},
        "clusterAddrTable": {"C": ["a"]},
    }
)


def topic_config(name, queues):
    return {"topicName": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}


def broker_answers():
    """What a broker of 5.5.0 answers that has the topic Orders with two queues."""
    ends = ",".join(
        f'{{"brokerName":"broker-a","queueId":{queue},"topic":"Orders"}}:'
        f'{{"lastUpdateTimestamp":1700000000000,"maxOffset":{10 + queue},"minOffset":2}}'
        for queue in range(2)
    )
    runtime = {"brokerVersionDesc": "V5_5_0", "bootTimestamp": "1700000000000", "putTps": "1.5 1 1"}
    return {
        RUNTIME: answer({"table": runtime}),
        TOPIC_CONFIG: answer(topic_config("Orders", 2)),
        TOPIC_CONFIGS: answer({"topicConfigTable": {"Orders": topic_config("Orders", 2)}}),
        TOPIC_STATS: answer(f'{{"offsetTable":{{{ends}}}}}'),
        UPDATE_TOPIC: answer(),
        DELETE_TOPIC: answer(),
        GET_CONFIG: answer("flushDiskType=ASYNC_FLUSH\nsslPassword=hush\n"),
        UPDATE_CONFIG: answer(),
    }


ADMIN_TOKEN = "a-token-of-the-tests"


def admin_token(folder):
    """Return the file with the token of changes by HTTP."""
    file = folder / "admin-token"
    file.write_text(ADMIN_TOKEN)
    file.chmod(0o600)
    return file


def forget_away(server):
    """Let a NameServer forget the sets of tests before, once their connections have ended."""
    at = f"http://127.0.0.1:{server.http_port}/v1"
    url = f"{at}/broker-sets/away"
    wait_until(lambda: not _items(f"{at}/brokers"), seconds=20, what="the brokers of tests before have left")
    for each in _items(url):
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        path = f"{url}/{quote(each['brokerName'], safe='')}"
        request = urllib.request.Request(path, method="DELETE", headers=headers)
        urllib.request.urlopen(request, timeout=20).close()


def _items(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return json.loads(answer.read())["items"]


def register(server, name, address, topics, *, broker_id=0):
    """Register a broker at a NameServer, over a connection that stays; returns it."""
    line = Line(socket.create_connection(("127.0.0.1", server.port)))
    broker = ScriptedBroker(
        line, name, address=address, broker_id=broker_id, cluster="DefaultCluster", timeout_ms=600_000
    )
    # Of an unknown broker a single topic is no registration.
    broker.register(dict.fromkeys([*SYSTEM_TOPICS, *topics], 2))
    return broker
