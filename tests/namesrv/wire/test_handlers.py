import asyncio
import json
import zlib

import pytest
from builders import text_of

from namesrv.wire.broker_requests import LARGE_BODY_BYTES
from remoting.protocol.codes import RequestCode, ResponseCode

BROKER = {"brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "clusterName": "DefaultCluster"}
MASTER = BROKER | {"brokerId": "0", "haServerAddr": "10.0.0.1:10912", "enableActingMaster": "false"}
SLAVE = MASTER | {"brokerId": "1", "brokerAddr": "10.0.0.2:10911"}


def body(*topics, counter=1, **settings):
    configs = {
        topic: {"topicName": topic, "perm": 6, "readQueueNums": 8, "writeQueueNums": 8, "topicSysFlag": 0} | settings
        for topic in topics
    }
    wrapper = {
        "dataVersion": {"counter": counter, "stateVersion": 0, "timestamp": 1_700_000_000_000},
        "topicConfigTable": configs,
    }
    return json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).encode()


TOPICS = body("TopicTest", "broker-a")


async def test_a_registered_broker_is_in_the_route_of_its_topics(desk):
    answer = await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    assert (answer.code, answer.ext_fields, answer.body) == (0, {}, b"")
    route = await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})
    assert route.body == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
        b'"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}'
    )


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
async def test_each_client_gets_the_json_it_can_read(desk, version, fields, keys):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    answer = await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"} | fields, version=version)
    assert b'"brokerAddrs":' + keys in answer.body


@pytest.mark.parametrize(("fields", "shown"), [({"topic": "nope"}, "nope"), ({}, "null"), (None, "null")])
async def test_an_unknown_topic_is_answered_17_in_the_words_of_java(desk, fields, shown):
    answer = await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert answer.remark == (
        f"No topic route info in name server for the topic: {shown}\n"
        "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
    )


async def test_a_topic_name_of_a_megabyte_is_not_sent_back_whole(desk):
    answer = await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t" * 1_000_000})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert len(answer.remark) < 1_300


async def test_a_query_after_a_topic_change_answers_with_the_new_route(desk):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})
    changed = body("TopicTest", "broker-a", counter=2, readQueueNums=16)
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, changed)
    answer = await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})
    assert json.loads(answer.body)["queueDatas"][0]["readQueueNums"] == 16


@pytest.mark.parametrize("field", ["brokerName", "brokerAddr", "clusterName", "brokerId"])
async def test_a_registration_without_identity_names_what_is_missing_and_changes_nothing(desk, field):
    fields = {key: value for key, value in MASTER.items() if key != field}
    answer = await desk.ask(RequestCode.REGISTER_BROKER, fields, TOPICS)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert field in answer.remark
    assert len(desk.state.tables.brokers) == 0
    assert len(desk.state.tables.live) == 0


@pytest.mark.parametrize("broker_id", ["", "one", "1.5", "9223372036854775808", " 1"])
async def test_a_broker_id_that_is_no_number_counts_as_missing(desk, broker_id):
    answer = await desk.ask(RequestCode.REGISTER_BROKER, MASTER | {"brokerId": broker_id}, TOPICS)
    assert "brokerId" in answer.remark


@pytest.mark.parametrize("field", ["clusterName", "brokerName", "brokerAddr"])
async def test_a_name_that_no_broker_can_have_is_refused_before_it_is_kept(desk, field):
    answer = await desk.ask(RequestCode.REGISTER_BROKER, MASTER | {field: "x" * 1025}, TOPICS)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"REGISTER_BROKER: {field} has 1025 characters, more than 1024"
    assert (await desk.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'


async def test_a_single_topic_with_a_name_that_no_broker_takes_is_refused(desk):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    queues = json.dumps({"queueDatas": [{"brokerName": "broker-a", "perm": 6}]}).encode()
    answer = await desk.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "x" * 1025}, queues)
    assert (answer.code, "topic has 1025 characters" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)


async def test_other_requests_are_answered_while_a_very_long_registration_is_taken_and_all_of_it_counts(desk):
    names = [f"{number}-{'x' * 200}" for number in range(6_000)]
    long, other = body(*names), SLAVE | {"brokerName": "broker-b", "brokerAddr": "10.0.0.9:1", "brokerId": "0"}
    assert len(long) > LARGE_BODY_BYTES
    taking = asyncio.create_task(desk.ask(RequestCode.REGISTER_BROKER, MASTER, long))
    await asyncio.sleep(0)
    assert (await desk.ask(RequestCode.REGISTER_BROKER, other, TOPICS)).code == 0
    assert not taking.done()
    assert (
        await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": names[0]})
    ).code == ResponseCode.TOPIC_NOT_EXIST
    assert (await taking).code == 0
    for topic in (names[0], names[-1]):
        assert (await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})).code == 0


async def test_a_wrong_checksum_refuses_the_registration_in_the_words_of_java(desk):
    answer = await desk.ask(RequestCode.REGISTER_BROKER, MASTER | {"bodyCrc32": "1"}, TOPICS)
    assert (answer.code, answer.remark, answer.ext_fields) == (ResponseCode.SYSTEM_ERROR, "crc32 not match", {})
    assert len(desk.state.tables.brokers) == 0


async def test_the_right_checksum_is_taken(desk):
    crc32 = zlib.crc32(TOPICS) & 0x7FFFFFFF
    answer = await desk.ask(RequestCode.REGISTER_BROKER, MASTER | {"bodyCrc32": str(crc32)}, TOPICS)
    assert answer.code == 0


async def test_one_topic_from_an_unknown_broker_is_refused_and_leaves_nothing(desk):
    answer = await desk.ask(RequestCode.REGISTER_BROKER, MASTER, body("TopicTest"))
    assert (answer.code, answer.remark, answer.ext_fields) == (1, "register broker failed", {})
    assert (await desk.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'


async def test_a_slave_learns_where_its_living_master_is(desk):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    answer = await desk.ask(RequestCode.REGISTER_BROKER, SLAVE, TOPICS)
    assert answer.ext_fields == {"haServerAddr": "10.0.0.1:10912", "masterAddr": "10.0.0.1:10911"}


async def test_a_slave_whose_master_left_learns_of_none(desk):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    await desk.ask(RequestCode.UNREGISTER_BROKER, MASTER)
    answer = await desk.ask(RequestCode.REGISTER_BROKER, SLAVE, TOPICS)
    assert answer.ext_fields == {}


async def test_a_registration_right_behind_an_unregistration_stands(desk):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    await desk.ask(RequestCode.UNREGISTER_BROKER, MASTER)
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    assert (await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})).code == 0


async def test_an_unregistered_broker_leaves_the_routes_at_once(desk):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    answer = await desk.ask(RequestCode.UNREGISTER_BROKER, MASTER)
    assert (answer.code, answer.ext_fields) == (0, None)
    assert (await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})).code == 17


async def test_a_registration_is_answered_with_the_order_topics(desk):
    await desk.ask(
        RequestCode.PUT_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": "TopicTest", "value": "broker-a:4"}
    )
    answer = await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    assert json.loads(answer.body) == {"table": {"TopicTest": "broker-a:4"}}


async def test_order_topics_stay_here_when_brokers_shall_not_get_them(make_desk):
    desk = make_desk(return_order_topic_config_to_broker=False)
    await desk.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"})
    assert (await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)).body == b""


async def test_a_route_shows_the_order_configuration_as_soon_as_it_is_put(make_desk):
    desk = make_desk(order_message_enable=True)
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    query = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"}
    assert b"orderTopicConf" not in (await desk.ask(*query)).body
    entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": "TopicTest"}
    await desk.ask(RequestCode.PUT_KV_CONFIG, entry | {"value": "broker-a:4"})
    assert json.loads((await desk.ask(*query)).body)["orderTopicConf"] == "broker-a:4"
    await desk.ask(RequestCode.DELETE_KV_CONFIG, entry)
    assert b"orderTopicConf" not in (await desk.ask(*query)).body


async def test_a_data_version_query_tells_whether_topics_changed_and_keeps_the_broker_alive(desk):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    desk.clock.pass_ms(100_000)
    same = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
    answer = await desk.ask(RequestCode.QUERY_DATA_VERSION, MASTER, same)
    assert (answer.ext_fields, answer.body) == ({"changed": "false"}, same)
    other = await desk.ask(RequestCode.QUERY_DATA_VERSION, MASTER, b'{"counter":2,"timestamp":1}')
    assert (other.ext_fields, other.body) == ({"changed": "true"}, same)
    desk.clock.pass_ms(100_000)
    assert desk.state.scan(desk.clock.now_ms()).events == ()


async def test_a_data_version_query_of_an_unknown_broker_asks_it_to_register(desk):
    answer = await desk.ask(RequestCode.QUERY_DATA_VERSION, MASTER)
    assert (answer.code, answer.ext_fields, answer.body) == (0, {"changed": "true"}, b"")


async def test_a_data_version_that_is_no_json_is_refused(desk):
    assert (await desk.ask(RequestCode.QUERY_DATA_VERSION, MASTER, b"[")).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("fields", [BROKER, {key: value for key, value in BROKER.items() if key != "brokerName"}])
async def test_a_heartbeat_keeps_a_broker_alive_with_or_without_its_name(desk, fields):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    desk.clock.pass_ms(100_000)
    assert (await desk.ask(RequestCode.BROKER_HEARTBEAT, fields)).code == 0
    desk.clock.pass_ms(100_000)
    assert desk.state.scan(desk.clock.now_ms()).events == ()


async def test_a_heartbeat_of_an_unknown_broker_makes_no_entry(desk):
    assert (await desk.ask(RequestCode.BROKER_HEARTBEAT, BROKER)).code == 0
    assert len(desk.state.tables.live) == 0


async def test_a_heartbeat_without_address_is_refused(desk):
    answer = await desk.ask(RequestCode.BROKER_HEARTBEAT, {"clusterName": "C"})
    assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_write_permission_is_taken_and_given_back(desk):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    wiped = await desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert wiped.ext_fields == {"wipeTopicCount": "2"}
    route = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"}
    assert json.loads((await desk.ask(*route)).body)["queueDatas"][0]["perm"] == 4
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    assert json.loads((await desk.ask(*route)).body)["queueDatas"][0]["perm"] == 4
    added = await desk.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert added.ext_fields == {"addTopicCount": "2"}
    assert json.loads((await desk.ask(*route)).body)["queueDatas"][0]["perm"] == 6


async def test_a_change_of_one_topic_ends_what_an_operator_set_for_all_topics_of_the_broker_however_many_it_has(desk):
    # So many that of a text that is known only the part is read that differs.
    topics = {f"topic-{number:03}": 6 for number in range(500)}
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, text_of(topics))
    await desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    first = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "topic-000"}
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, text_of(topics))
    assert json.loads((await desk.ask(*first)).body)["queueDatas"][0]["perm"] == 4
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, text_of(topics | {"topic-499": 4}, counter=2))
    assert json.loads((await desk.ask(*first)).body)["queueDatas"][0]["perm"] == 6


@pytest.mark.parametrize(
    ("code", "field"),
    [
        (RequestCode.WIPE_WRITE_PERM_OF_BROKER, "wipeTopicCount"),
        (RequestCode.ADD_WRITE_PERM_OF_BROKER, "addTopicCount"),
    ],
)
@pytest.mark.parametrize("fields", [{"brokerName": "nobody"}, None])
async def test_write_permission_of_an_unknown_broker_counts_no_topics(desk, code, field, fields):
    assert (await desk.ask(code, fields)).ext_fields == {field: "0"}


async def test_a_deleted_topic_leaves_the_lists_until_its_broker_registers_again(desk):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    await desk.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "TopicTest", "clusterName": "DefaultCluster"})
    assert (await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})).code == 17
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    assert (await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})).code == 0


async def test_a_single_topic_can_be_registered_for_a_known_broker(desk):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    queue = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}
    route = json.dumps({"brokerDatas": [], "filterServerTable": {}, "queueDatas": [queue]}).encode()
    assert (await desk.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "New"}, route)).code == 0
    answer = await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "New"})
    assert json.loads(answer.body)["queueDatas"] == [queue]


@pytest.mark.parametrize(("fields", "text"), [(None, b""), ({"topic": "T"}, b""), (None, b'{"queueDatas":[]}')])
async def test_a_single_topic_registration_that_says_nothing_succeeds_as_in_java(desk, fields, text):
    assert (await desk.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, fields, text)).code == 0


async def test_a_single_topic_registration_that_is_no_json_is_refused(desk):
    answer = await desk.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "T"}, b"[")
    assert answer.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(("mode", "queues"), [("true", []), ("TRUE", []), ("1", ["broker-a"]), (None, ["broker-a"])])
async def test_a_client_with_a_zone_sees_the_queues_of_its_zone(desk, mode, queues):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER | {"__ZONE_NAME": "z1"}, TOPICS)
    zone = {"__ZONE_NAME": "z2"} | ({"__ZONE_MODE": mode} if mode else {})
    answer = await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"} | zone)
    assert answer.code == 0
    assert [each["brokerName"] for each in json.loads(answer.body.replace(b"{0:", b'{"0":'))["queueDatas"]] == queues


async def test_a_zone_is_answered_in_the_old_dialect_and_without_regard_to_case(desk):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER | {"__ZONE_NAME": "z1"}, TOPICS)
    fields = {"topic": "TopicTest", "__ZONE_MODE": "true", "__ZONE_NAME": "Z1"}
    answer = await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
    assert b'{0:"10.0.0.1:10911"}' in answer.body
    unknown = await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields | {"topic": "nope"})
    assert unknown.code == 17


async def test_routes_wait_until_brokers_had_time_to_register(make_desk):
    desk = make_desk(need_wait_for_service=True)
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    query = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"}
    answer = await desk.ask(*query)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "name server not ready")
    desk.clock.pass_ms(45_000)
    assert (await desk.ask(*query)).code == 0
    assert (await desk.ask(*query)).code == 0


async def test_an_unknown_request_is_told_so(desk):
    answer = await desk.ask(9999)
    assert (answer.code, answer.remark) == (3, " request type 9999 not supported")


async def test_route_queries_are_counted_by_how_they_end(desk):
    await desk.ask(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})
    await desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "nope"})
    counts = desk.route_counters
    assert (sum(counts.found.buckets), counts.not_found, counts.error) == (1, 1, 0)
    assert counts.found.total > 0
