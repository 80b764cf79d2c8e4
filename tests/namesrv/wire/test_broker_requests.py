"""What brokers send."""

import asyncio
import json
import zlib

import pytest
from broker_messages import BROKER, MASTER, SLAVE, TOPICS, registration_body
from route_states import expire

from namesrv.wire.broker_requests import LARGE_BODY_BYTES
from remoting.protocol.codes import RequestCode, ResponseCode


async def test_registered_broker_is_in_the_routes_of_its_topics(desk):
    answer = await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    assert (answer.code, answer.ext_fields, answer.body) == (0, {}, b"")
    route = await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})
    assert route.body == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
        b'"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}'
    )


@pytest.mark.parametrize("field", ["brokerName", "brokerAddr", "clusterName", "brokerId"])
async def test_registration_without_identity_is_refused_with_the_missing_field(desk, field):
    fields = {key: value for key, value in MASTER.items() if key != field}
    answer = await desk.request(RequestCode.REGISTER_BROKER, fields, TOPICS)
    missing = f"REGISTER_BROKER needs the header field {field}, which is missing or not readable"
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, missing)
    assert len(desk.state.tables.brokers) == 0
    assert len(desk.state.tables.live) == 0


@pytest.mark.parametrize("broker_id", ["", "one", "1.5", "9223372036854775808", " 1"])
async def test_broker_id_that_is_no_number_counts_as_missing(desk, broker_id):
    answer = await desk.request(RequestCode.REGISTER_BROKER, MASTER | {"brokerId": broker_id}, TOPICS)
    assert "brokerId" in answer.remark


@pytest.mark.parametrize("field", ["clusterName", "brokerName", "brokerAddr"])
async def test_registration_with_a_too_long_name_is_refused_and_changes_nothing(desk, field):
    answer = await desk.request(RequestCode.REGISTER_BROKER, MASTER | {field: "x" * 1025}, TOPICS)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"REGISTER_BROKER: {field} has 1025 characters, more than 1024"
    assert (
        await desk.request(RequestCode.GET_BROKER_CLUSTER_INFO)
    ).body == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'


async def test_single_topic_with_a_too_long_name_is_refused(desk):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    queues = json.dumps({"queueDatas": [{"brokerName": "broker-a", "perm": 6}]}).encode()
    answer = await desk.request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "x" * 1025}, queues)
    assert (answer.code, "topic has 1025 characters" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)


async def test_long_registration_delays_no_other_request_and_is_applied_whole(desk):
    names = [f"{number}-{'x' * 200}" for number in range(6_000)]
    long, other = (
        registration_body(*names),
        SLAVE | {"brokerName": "broker-b", "brokerAddr": "10.0.0.9:1", "brokerId": "0"},
    )
    assert len(long) > LARGE_BODY_BYTES
    taking = asyncio.create_task(desk.request(RequestCode.REGISTER_BROKER, MASTER, long))
    await asyncio.sleep(0)
    assert (await desk.request(RequestCode.REGISTER_BROKER, other, TOPICS)).code == 0
    assert not taking.done()
    assert (
        await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": names[0]})
    ).code == ResponseCode.TOPIC_NOT_EXIST
    assert (await taking).code == 0
    for topic in (names[0], names[-1]):
        assert (await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})).code == 0


async def test_registration_with_a_wrong_checksum_is_refused_with_the_text_of_java(desk):
    answer = await desk.request(RequestCode.REGISTER_BROKER, MASTER | {"bodyCrc32": "1"}, TOPICS)
    assert (answer.code, answer.remark, answer.ext_fields) == (ResponseCode.SYSTEM_ERROR, "crc32 not match", {})
    assert len(desk.state.tables.brokers) == 0


async def test_registration_with_the_right_checksum_is_accepted(desk):
    crc32 = zlib.crc32(TOPICS) & 0x7FFFFFFF
    answer = await desk.request(RequestCode.REGISTER_BROKER, MASTER | {"bodyCrc32": str(crc32)}, TOPICS)
    assert answer.code == 0


async def test_single_topic_from_an_unknown_broker_is_refused_and_changes_nothing(desk):
    answer = await desk.request(RequestCode.REGISTER_BROKER, MASTER, registration_body("TopicTest"))
    assert (answer.code, answer.remark, answer.ext_fields) == (1, "register broker failed", {})
    assert (
        await desk.request(RequestCode.GET_BROKER_CLUSTER_INFO)
    ).body == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'


async def test_registered_slave_gets_the_address_of_its_master(desk):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    answer = await desk.request(RequestCode.REGISTER_BROKER, SLAVE, TOPICS)
    assert answer.ext_fields == {"haServerAddr": "10.0.0.1:10912", "masterAddr": "10.0.0.1:10911"}


async def test_slave_of_a_newer_epoch_gets_no_ha_address_until_its_master_has_registered(desk):
    """A slave that hears first of an election must not replicate from the former master, which lives."""
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, registration_body("A", "B", state_version=1))
    newer = registration_body("A", "B", state_version=2)
    for _ in range(2):
        answer = await desk.request(RequestCode.REGISTER_BROKER, SLAVE, newer)
        assert answer.ext_fields == {"masterAddr": "10.0.0.1:10911"}

    await desk.request(RequestCode.REGISTER_BROKER, MASTER, newer)
    answer = await desk.request(RequestCode.REGISTER_BROKER, SLAVE, newer)
    assert answer.ext_fields == {"haServerAddr": "10.0.0.1:10912", "masterAddr": "10.0.0.1:10911"}


async def test_unregistered_broker_leaves_the_routes_at_once(desk):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    answer = await desk.request(RequestCode.UNREGISTER_BROKER, MASTER)
    assert (answer.code, answer.ext_fields) == (0, None)
    assert (await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})).code == 17


async def test_registration_response_has_the_order_topics(desk):
    await desk.request(
        RequestCode.PUT_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": "TopicTest", "value": "broker-a:4"}
    )
    answer = await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    assert json.loads(answer.body) == {"table": {"TopicTest": "broker-a:4"}}


async def test_registration_response_has_no_order_topics_if_the_option_is_off(make_desk):
    desk = make_desk(return_order_topic_config_to_broker=False)
    await desk.request(
        RequestCode.PUT_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"}
    )
    assert (await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)).body == b""


async def test_data_version_query_compares_versions_and_refreshes_the_broker(desk):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    desk.clock.pass_ms(100_000)
    same = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
    answer = await desk.request(RequestCode.QUERY_DATA_VERSION, MASTER, same)
    assert (answer.ext_fields, answer.body) == ({"changed": "false"}, same)
    other = await desk.request(RequestCode.QUERY_DATA_VERSION, MASTER, b'{"counter":2,"timestamp":1}')
    assert (other.ext_fields, other.body) == ({"changed": "true"}, same)
    desk.clock.pass_ms(100_000)
    assert expire(desk.state, desk.clock.now_ms()).events == ()


async def test_data_version_of_an_unknown_broker_has_changed(desk):
    answer = await desk.request(RequestCode.QUERY_DATA_VERSION, MASTER)
    assert (answer.ext_fields, answer.body) == ({"changed": "true"}, b"")


async def test_data_version_that_is_no_json_is_refused(desk):
    assert (await desk.request(RequestCode.QUERY_DATA_VERSION, MASTER, b"[")).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("fields", [BROKER, {key: value for key, value in BROKER.items() if key != "brokerName"}])
async def test_heartbeat_refreshes_a_broker_with_or_without_its_name(desk, fields):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    desk.clock.pass_ms(100_000)
    assert (await desk.request(RequestCode.BROKER_HEARTBEAT, fields)).code == 0
    desk.clock.pass_ms(100_000)
    assert expire(desk.state, desk.clock.now_ms()).events == ()


async def test_heartbeat_without_address_is_refused(desk):
    answer = await desk.request(RequestCode.BROKER_HEARTBEAT, {"clusterName": "C"})
    assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_single_topic_is_registered_for_a_known_broker(desk):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, TOPICS)
    queue = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}
    route = json.dumps({"brokerDatas": [], "filterServerTable": {}, "queueDatas": [queue]}).encode()
    assert (await desk.request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "New"}, route)).code == 0
    answer = await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "New"})
    assert json.loads(answer.body)["queueDatas"] == [queue]


@pytest.mark.parametrize(("fields", "text"), [(None, b""), ({"topic": "T"}, b""), (None, b'{"queueDatas":[]}')])
async def test_empty_single_topic_registration_succeeds_as_in_java(desk, fields, text):
    assert (await desk.request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, fields, text)).code == 0


async def test_single_topic_registration_that_is_no_json_is_refused(desk):
    answer = await desk.request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "T"}, b"[")
    assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_members_of_a_set_are_answered_with_their_addresses(desk):
    await desk.request(RequestCode.REGISTER_BROKER, MASTER, registration_body("A", "B"))
    fields = {"clusterName": "C", "brokerName": "broker-a"}
    answer = await desk.request(RequestCode.GET_BROKER_MEMBER_GROUP, fields)
    assert (answer.code, answer.remark) == (0, "not set any response code")
    group = b'{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"C"}'
    assert answer.body == b'{"brokerMemberGroup":' + group + b"}"


async def test_unknown_set_has_no_members(desk):
    answer = await desk.request(RequestCode.GET_BROKER_MEMBER_GROUP, {"clusterName": "C", "brokerName": "nobody"})
    assert json.loads(answer.body)["brokerMemberGroup"]["brokerAddrs"] == {}
    assert (await desk.request(RequestCode.GET_BROKER_MEMBER_GROUP)).code == 0
