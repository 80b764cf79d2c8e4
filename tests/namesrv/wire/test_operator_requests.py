"""What operators' tools send."""

import json

import pytest
from broker_messages import MASTER, TOPICS

from remoting.protocol.codes import RequestCode, ResponseCode

UNIT, UNIT_SUB = 1, 2
LISTS_BY_TOPIC = [
    RequestCode.GET_TOPICS_BY_CLUSTER,
    RequestCode.GET_UNIT_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
]


async def register(desk, flags, **fields):
    configs = {topic: {"topicName": topic, "topicSysFlag": flag} for topic, flag in flags.items()}
    body = json.dumps({"topicConfigSerializeWrapper": {"topicConfigTable": configs}}).encode()
    await desk.request(RequestCode.REGISTER_BROKER, MASTER | fields, body)


async def topics(desk, code, **fields):
    return sorted(json.loads((await desk.request(code, fields or None)).body)["topicList"])


async def test_all_topics_are_listed(desk):
    await register(desk, {"A": 0, "B": 0})
    answer = await desk.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert json.loads(answer.body) == {"topicList": ["A", "B"]}


async def test_topics_are_listed_by_cluster(desk):
    await register(desk, {"A": 0, "B": 0})
    other = {"brokerName": "broker-b", "brokerAddr": "10.0.0.9:10911", "clusterName": "Other"}
    await register(desk, {"B": 0, "C": 0}, **other)
    assert await topics(desk, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="Other") == ["B", "C"]
    assert await topics(desk, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="nowhere") == []
    assert await topics(desk, RequestCode.GET_TOPICS_BY_CLUSTER) == []


async def test_unit_topics_are_listed_by_their_flags(desk):
    await register(desk, {"plain": 0, "unit": UNIT, "sub": UNIT_SUB, "both": UNIT | UNIT_SUB})
    assert await topics(desk, RequestCode.GET_UNIT_TOPIC_LIST) == ["both", "unit"]
    assert await topics(desk, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["both", "sub"]
    assert await topics(desk, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["sub"]


class Counting(dict):
    """The topics of one broker set, and how often somebody looked one up."""

    lookups = 0

    def __getitem__(self, topic):
        Counting.lookups += 1
        return super().__getitem__(topic)


@pytest.mark.parametrize("code", LISTS_BY_TOPIC[1:])
async def test_list_of_unit_topics_looks_each_topic_up_once(desk, code):
    for number in range(20):
        broker = {"brokerName": f"broker-{number}", "brokerAddr": f"10.0.0.{number}:10911"}
        await register(desk, {f"topic-{each}": UNIT_SUB for each in range(50)}, **broker)
    by_broker = desk.state.tables.topics._by_broker
    by_broker.update({name: Counting(topics) for name, topics in by_broker.items()})
    Counting.lookups = 0
    assert len(await topics(desk, code)) in (0, 50)
    assert Counting.lookups == 50


@pytest.mark.parametrize("code", LISTS_BY_TOPIC)
async def test_topic_lists_can_be_switched_off(make_desk, code):
    answer = await make_desk(enable_topic_list=False).request(code, {"cluster": "C"})
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "disable")


async def test_list_of_all_topics_has_an_option_of_its_own(make_desk):
    desk = make_desk(enable_all_topic_list=False)
    answer = await desk.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "disable")
    assert (await desk.request(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "C"})).code == 0


async def test_system_topics_are_cluster_and_broker_names_with_one_broker_address(desk):
    assert json.loads((await desk.request(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)).body) == {"topicList": []}
    await register(desk, {"A": 0, "B": 0})
    answer = await desk.request(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    assert json.loads(answer.body) == {"brokerAddr": "10.0.0.1:10911", "topicList": ["DefaultCluster", "broker-a"]}


async def test_stored_kv_entry_is_read_back(desk):
    entry = {"namespace": "NS", "key": "k"}
    assert (await desk.request(RequestCode.PUT_KV_CONFIG, entry | {"value": "v"})).code == 0
    assert (await desk.request(RequestCode.GET_KV_CONFIG, entry)).ext_fields == {"value": "v"}
    listing = await desk.request(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "NS"})
    assert listing.body == b'{"table":{"k":"v"}}'


async def test_deleted_kv_entry_leaves_its_namespace_empty(desk):
    entry = {"namespace": "NS", "key": "k"}
    await desk.request(RequestCode.PUT_KV_CONFIG, entry | {"value": "v"})
    assert (await desk.request(RequestCode.DELETE_KV_CONFIG, entry)).code == 0
    answer = await desk.request(RequestCode.GET_KV_CONFIG, entry)
    assert (answer.code, answer.remark) == (ResponseCode.QUERY_NOT_FOUND, "No config item, Namespace: NS Key: k")
    assert answer.ext_fields == {}
    assert (await desk.request(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "NS"})).body == b'{"table":{}}'


async def test_unknown_kv_namespace_is_not_found(desk):
    answer = await desk.request(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "NS"})
    assert (answer.code, answer.remark) == (ResponseCode.QUERY_NOT_FOUND, "No config item, Namespace: NS")
    assert answer.ext_fields is None
    unnamed = await desk.request(RequestCode.GET_KVLIST_BY_NAMESPACE)
    assert unnamed.remark == "No config item, Namespace: null"
    assert (await desk.request(RequestCode.GET_KV_CONFIG)).remark == "No config item, Namespace: null Key: null"


async def test_the_configuration_is_listed_as_properties(desk):
    lines = (await desk.request(RequestCode.GET_NAMESRV_CONFIG)).body.decode().splitlines()
    assert lines == sorted(lines)
    assert "listenPort=9876" in lines
    assert "scanNotActiveBrokerInterval=10000" in lines


@pytest.mark.parametrize(
    ("proposed", "code"),
    [(b"scanNotActiveBrokerInterval=9000", 0), (b"scanNotActiveBrokerInterval=x", 1), (b"listenPort=1", 16)],
)
async def test_the_configuration_is_not_listed_to_who_proposes_what_would_be_refused(desk, proposed, code):
    answers = [await desk.request(RequestCode.GET_NAMESRV_CONFIG, body=each) for each in (proposed, b"")]
    refused = await desk.request(RequestCode.UPDATE_NAMESRV_CONFIG, body=proposed) if code else answers[0]
    assert (answers[0].code, answers[0].remark, answers[1].code) == (refused.code, refused.remark, 0)
    assert answers[0].code == code
    assert b"scanNotActiveBrokerInterval=10000" in answers[1].body


async def test_write_permission_is_revoked_and_granted_again(desk):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    wiped = await desk.request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert wiped.ext_fields == {"wipeTopicCount": "2"}
    route = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"}
    assert json.loads((await desk.request(*route)).body)["queueDatas"][0]["perm"] == 4
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    assert json.loads((await desk.request(*route)).body)["queueDatas"][0]["perm"] == 4
    added = await desk.request(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert added.ext_fields == {"addTopicCount": "2"}
    assert json.loads((await desk.request(*route)).body)["queueDatas"][0]["perm"] == 6


async def test_deleted_topic_has_no_route_until_its_broker_registers_again(desk):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    await desk.request(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "TopicTest", "clusterName": "DefaultCluster"})
    assert (await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})).code == 17
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    assert (await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})).code == 0
