"""An answer with a row that cannot be read: the others are read, and the row is named, for whoever takes such notes."""

import contextlib
import json

import pytest

from remoting.admin.admin_request import left_out
from remoting.admin.controllers import broker_sets_of
from remoting.admin.group_views import subscription_groups_view
from remoting.admin.groups import connections_of_group, progress_of_group
from remoting.admin.name_servers import kv_namespace
from remoting.admin.offset_table import offsets_of_groups
from remoting.admin.routes import all_topics, cluster_brokers, route_of
from remoting.admin.topics import all_topic_definitions, queue_offsets
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError

SET = {"brokerName": "a", "cluster": "c", "brokerAddrs": {"0": "10.0.0.1:10911"}}
TOPIC = {"topicName": "t", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "order": False}
QUEUES = {"brokerName": "a", "perm": 6, "readQueueNums": 4, "writeQueueNums": 4, "topicSysFlag": 0}
QUEUE = json.dumps({"topic": "t", "brokerName": "a", "queueId": 0})
CLIENT = {"clientId": "1", "clientAddr": "1.1.1.1:1", "language": "JAVA", "version": 1}
ENDS = {"minOffset": 0, "maxOffset": 5, "lastUpdateTimestamp": 1}
LAG = {"brokerOffset": 5, "consumerOffset": 4, "lastTimestamp": 1}
REPLICAS = {"masterEpoch": 1, "syncStateSetEpoch": 1, "inSyncReplicas": [], "notInSyncReplicas": []}


def beside(good, odd, name="odd"):
    return {"good": good, name: odd}


ANSWERS = {
    "106": (
        cluster_brokers(),
        {"brokerAddrTable": beside(SET, SET | {"cluster": None}), "clusterAddrTable": {"c": ["a", None], "d": 1}},
        ["brokerAddrTable.odd", "clusterAddrTable.c.1", "clusterAddrTable.d"],
    ),
    "105": (
        route_of("t"),
        {"brokerDatas": [SET, {"brokerName": 5}], "queueDatas": [QUEUES, []], "filterServerTable": {}},
        ["brokerDatas.1", "queueDatas.1"],
    ),
    "206": (all_topics(), {"topicList": ["t", None, {}]}, ["topicList.1", "topicList.2"]),
    "219": (kv_namespace("n"), {"table": beside("1", [])}, ["table.odd"]),
    "21": (all_topic_definitions(), {"topicConfigTable": beside(TOPIC, TOPIC | {"perm": "x"})}, ["odd"]),
    "201": (subscription_groups_view(), {"subscriptionGroupTable": beside({"groupName": "g"}, 1)}, ["odd"]),
    "202": (queue_offsets("t"), {"offsetTable": {QUEUE: ENDS, "odd": ENDS}}, ["odd"]),
    "43": (
        offsets_of_groups(["g"]),
        {"offsetTable": {"t@g": {"0": 5}, "odd@g": {"0": "x"}}},
        ["offsets of topic odd are not readable: "],
    ),
    "203": (
        connections_of_group("g"),
        {
            "connectionSet": [CLIENT, CLIENT | {"clientId": None}],
            "subscriptionTable": {},
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        },
        ["connectionSet.1"],
    ),
    "208": (progress_of_group("g"), {"consumeTps": 0, "offsetTable": {QUEUE: LAG, "odd": LAG}}, ["odd"]),
    "1006": (
        broker_sets_of(),
        {"replicasInfoTable": beside(REPLICAS, "x")},
        ["replicasInfoTable.odd"],
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("padding", [0, 5 * 1024 * 1024])
def test_odd_rows_are_left_out_and_named_and_the_others_are_read(name, padding):
    wanted, body, places = ANSWERS[name]
    answer = RemotingCommand(0, body=json.dumps(body).encode() + b" " * padding)
    odd = []

    assert wanted.read_response(answer, odd)
    assert len(odd) == len(places)
    assert all(map(str.startswith, odd, places))
    # Readers of 43 have always gone on: no other row says that an offset is stored.
    with pytest.raises(BodyError) if name != "43" else contextlib.nullcontext():
        wanted.read_response(answer)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"clusterAddrTable":{}}', b'{"brokerAddrTable":[]}', b"\xff"])
def test_answer_that_is_no_such_table_is_unreadable_as_a_whole(body):
    with pytest.raises(BodyError):
        cluster_brokers().read_response(RemotingCommand(0, body=body), [])


def test_sentence_names_some_rows_and_counts_all():
    assert left_out(["a\n", *"bcd"]) == "rows of the answer that cannot be read are left out (4): 'a\\n', 'b', 'c'"
    assert len(left_out(["x" * 10**6])) < 200
