"""Route queries and the list of clusters."""

import json

import pytest
from broker_messages import MASTER, TOPICS, registration_body
from builders import a_broker_set

from remoting.protocol.codes import RequestCode, ResponseCode


@pytest.mark.parametrize(
    ("version", "fields", "keys"),
    [
        (317, {}, b'{0:"10.0.0.1:10911"}'),
        (400, {}, b'{0:"10.0.0.1:10911"}'),
        (401, {}, b'{"0":"10.0.0.1:10911"}'),
        (-1, {}, b'{0:"10.0.0.1:10911"}'),
        (317, {"acceptStandardJsonOnly": "true"}, b'{"0":"10.0.0.1:10911"}'),
    ],
)
async def test_route_response_is_in_the_json_dialect_of_the_client(desk, version, fields, keys):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    answer = await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"} | fields, version=version)
    assert b'"brokerAddrs":' + keys in answer.body


@pytest.mark.parametrize(("fields", "shown"), [({"topic": "nope"}, "nope"), ({}, "null"), (None, "null")])
async def test_unknown_topic_is_answered_17_with_the_text_of_java(desk, fields, shown):
    answer = await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert answer.remark == (
        f"No topic route info in name server for the topic: {shown}\n"
        "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
    )


async def test_very_long_topic_name_is_shortened_in_the_response(desk):
    answer = await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t" * 1_000_000})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert f"topic: {'t' * 1024}\n" in answer.remark


async def test_changed_topic_is_in_the_next_route_response(desk):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})
    changed = registration_body("TopicTest", "broker-a", counter=2, readQueueNums=16)
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, changed)
    answer = await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})
    assert json.loads(answer.body)["queueDatas"][0]["readQueueNums"] == 16


async def test_route_response_follows_the_order_configuration(make_desk):
    desk = make_desk(order_message_enable=True)
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    query = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"}
    assert b"orderTopicConf" not in (await desk.request(*query)).body
    entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": "TopicTest"}
    await desk.request(RequestCode.PUT_KV_CONFIG, entry | {"value": "broker-a:4"})
    assert json.loads((await desk.request(*query)).body)["orderTopicConf"] == "broker-a:4"
    await desk.request(RequestCode.DELETE_KV_CONFIG, entry)
    assert b"orderTopicConf" not in (await desk.request(*query)).body


@pytest.mark.parametrize(("mode", "queues"), [("true", []), ("TRUE", []), ("1", ["broker-a"]), (None, ["broker-a"])])
async def test_client_with_a_zone_gets_the_queues_of_its_zone(desk, mode, queues):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER | {"__ZONE_NAME": "z1"}, TOPICS)
    zone = {"__ZONE_NAME": "z2"} | ({"__ZONE_MODE": mode} if mode else {})
    answer = await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"} | zone)
    assert answer.code == 0
    assert [each["brokerName"] for each in json.loads(answer.body.replace(b"{0:", b'{"0":'))["queueDatas"]] == queues


async def test_zone_route_is_in_the_old_dialect_and_ignores_case(desk):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER | {"__ZONE_NAME": "z1"}, TOPICS)
    fields = {"topic": "TopicTest", "__ZONE_MODE": "true", "__ZONE_NAME": "Z1"}
    answer = await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
    assert b'{0:"10.0.0.1:10911"}' in answer.body
    unknown = await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields | {"topic": "nope"})
    assert unknown.code == 17


async def test_route_query_is_refused_until_brokers_had_time_to_register(make_desk):
    desk = make_desk(need_wait_for_service=True)
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    query = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"}
    answer = await desk.request(*query)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "name server not ready")
    desk.clock.pass_ms(45_000)
    assert (await desk.request(*query)).code == 0
    assert (await desk.request(*query)).code == 0


async def test_route_queries_are_counted_by_result(desk):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})
    await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "nope"})
    counts = desk.route_counters
    assert (sum(counts.found.buckets), counts.not_found, counts.error) == (1, 1, 0)
    assert counts.found.sum > 0


async def test_cluster_info_has_sets_that_are_away_and_lost_topics_for_who_asks_for_them(desk):
    gaps = {"withAwayBrokerSets": "true"}
    body = (await desk.request(RequestCode.GET_BROKER_CLUSTER_INFO, gaps)).body
    assert json.loads(body) == {
        "brokerAddrTable": {},
        "clusterAddrTable": {},
        "awayBrokerSets": [],
        "lostTopics": [],
        "staleReplicas": [],
    }
    slave = MASTER | {"brokerId": "1", "brokerAddr": "10.0.0.2:10911"}
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, registration_body("A", "B", "Orders"))
    await desk.request(RequestCode.REGISTER_BROKER, slave, registration_body("A", "B"))
    await desk.request(RequestCode.REGISTER_BROKER, slave | {"brokerId": "0"}, registration_body("A", "B", counter=2))
    desk.clock.pass_ms(10_000)
    desk.state.lost_topics.report(desk.clock.now_ms())
    away = a_broker_set(broker_name="broker-b", cluster="C")
    for broker_set, unix_ms in ((away, 0), (None, 60_000)):
        desk.state.away_sets.observe("broker-b", broker_set, is_unregistered=True, unix_ms=unix_ms)
    plain = (await desk.request(RequestCode.GET_BROKER_CLUSTER_INFO)).body
    body = (await desk.request(RequestCode.GET_BROKER_CLUSTER_INFO, gaps)).body
    assert body.startswith(plain[:-1] + b',"awayBrokerSets":[{"cluster":"C","brokerName":"broker-b",')
    shown = json.loads(body.replace(b"{0:", b'{"0":'))
    assert shown["awayBrokerSets"] == [
        {
            "cluster": "C",
            "brokerName": "broker-b",
            "awaySinceUnixMs": 60_000,
            "wasUnregistered": True,
            "brokerAddrs": {"0": "broker-b-0:10911"},
        }
    ]
    ((lost),) = shown["lostTopics"]
    assert (lost["brokerName"], lost["count"], lost["topics"]) == ("broker-a", 1, ["Orders"])
    assert lost["sinceUnixMs"] == desk.clock.unix_ms() - 10_000


async def test_cluster_info_is_in_the_dialect_of_java_and_follows_every_change(desk):
    empty = b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
    assert (await desk.request(RequestCode.GET_BROKER_CLUSTER_INFO)).body == empty
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, registration_body("A", "B"))
    assert (await desk.request(RequestCode.GET_BROKER_CLUSTER_INFO)).body == (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a",'
        b'"cluster":"DefaultCluster","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
    )
    await desk.request(RequestCode.UNREGISTER_BROKER, MASTER)
    assert (await desk.request(RequestCode.GET_BROKER_CLUSTER_INFO)).body == empty
