"""What is read in the answers of NameServers and brokers; the bodies are those of a broker 5.5.0, as it sent them."""

import pytest

from remoting.admin.groups import groups_of_topic
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, Refused
from rmq.sampling.samples import GroupMembers, GroupProgress, Master, ends_of, masters_of, members_of, progress_of

# Asked for a topic with 30 messages, of which a group of one had told 14; queues in the order they came.
ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:20070"},"brokerName":"b1","cluster":"DefaultCluster",'
    b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"b1","perm":6,"readQueueNums":4,'
    b'"topicSysFlag":0,"writeQueueNums":4}]}'
)
TOPIC_STATS = (
    b'{"offsetTable":{{"brokerName":"b1","queueId":2,"topic":"orders"}:{"lastUpdateTimestamp":1795317836714,'
    b'"maxOffset":7,"minOffset":0},{"brokerName":"b1","queueId":3,"topic":"orders"}:{"lastUpdateTimestamp":'
    b'1795317836735,"maxOffset":7,"minOffset":0},{"brokerName":"b1","queueId":0,"topic":"orders"}:'
    b'{"lastUpdateTimestamp":1795317836757,"maxOffset":8,"minOffset":0},{"brokerName":"b1","queueId":1,"topic":'
    b'"orders"}:{"lastUpdateTimestamp":1795317836781,"maxOffset":8,"minOffset":0}},"topicPutTps":3.0}'
)
CONSUME_STATS = (
    b'{"consumeTps":3.0,"offsetTable":{{"brokerName":"b1","queueId":2,"topic":"orders"}:{"brokerOffset":7,'
    b'"consumerOffset":0,"lastTimestamp":0,"pullOffset":7},{"brokerName":"b1","queueId":3,"topic":"orders"}:'
    b'{"brokerOffset":7,"consumerOffset":0,"lastTimestamp":0,"pullOffset":7},{"brokerName":"b1","queueId":0,"topic":'
    b'"orders"}:{"brokerOffset":8,"consumerOffset":8,"lastTimestamp":1795317836757,"pullOffset":8},{"brokerName":'
    b'"b1","queueId":1,"topic":"orders"}:{"brokerOffset":8,"consumerOffset":6,"lastTimestamp":1795317836605,'
    b'"pullOffset":8}}}'
)
GROUPS = b'{"groupList":["grp-1"]}'
MEMBERS = (
    b'{"connectionSet":[{"clientAddr":"127.0.0.1:34786","clientId":"192.0.2.2@5158#74623868463747","language":"JAVA",'
    b'"version":513}],"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY",'
    b'"messageModel":"CLUSTERING","subscriptionTable":{"%RETRY%grp-1":{"classFilterMode":false,"codeSet":[],'
    b'"expressionType":"TAG","subString":"*","subVersion":1795317839071,"tagsSet":[],"topic":"%RETRY%grp-1"}}}'
)


def found(sample_request, body):
    return sample_request.read_response(RemotingCommand(0, body=body))


def test_requests_have_the_codes_and_fields_of_the_protocol():
    to_send = [ends_of("t"), groups_of_topic("t"), progress_of("g", "t"), members_of("g")]
    assert [(each.request.code, each.request.ext_fields) for each in to_send] == [
        (202, {"topic": "t"}),
        (300, {"topic": "t"}),
        (208, {"consumerGroup": "g", "topic": "t"}),
        (203, {"consumerGroup": "g"}),
    ]
    route = masters_of("t").request
    assert (route.code, route.ext_fields["topic"], route.ext_fields["acceptStandardJsonOnly"]) == (105, "t", "true")


def test_route_contains_the_master_of_each_set():
    assert found(masters_of("orders"), ROUTE) == (Master("DefaultCluster", "b1", "127.0.0.1:20070"),)


def test_set_without_a_master_has_no_address():
    assert found(masters_of("orders"), ROUTE.replace(b'{"0":', b'{"1":')) == (Master("DefaultCluster", "b1", None),)


def test_end_of_a_topic_is_the_sum_of_its_queues():
    assert found(ends_of("orders"), TOPIC_STATS) == 30
    assert found(ends_of("orders"), b'{"offsetTable":{}}') == 0


def test_progress_of_a_group_is_the_sum_of_its_offsets():
    assert found(progress_of("grp-1", "orders"), CONSUME_STATS) == GroupProgress(30, 14)


def test_negative_offset_counts_as_zero():
    stats = CONSUME_STATS.replace(b'"consumerOffset":0', b'"consumerOffset":-1')
    assert found(progress_of("grp-1", "orders"), stats) == GroupProgress(30, 14)


def test_empty_table_means_no_progress_not_zero():
    assert found(progress_of("grp-1", "orders"), b'{"consumeTps":0.0,"offsetTable":{}}') is None


def test_groups_of_brokers_and_tools_are_left_out():
    assert found(groups_of_topic("orders"), GROUPS) == ("grp-1",)
    assert found(groups_of_topic("orders"), b'{"groupList":["TOOLS_CONSUMER","b","CID_RMQ_SYS_TRANS","a"]}') == (
        "a",
        "b",
    )


def test_members_of_a_group_are_their_client_ids():
    assert found(members_of("grp-1"), MEMBERS) == GroupMembers(frozenset({"192.0.2.2@5158#74623868463747"}))
    assert found(members_of("grp-1"), MEMBERS.replace(b"CLUSTERING", b"BROADCASTING")).is_broadcasting


def test_offline_group_has_no_members():
    answer = RemotingCommand(206, remark="the consumer group[grp-1] not online")
    assert members_of("grp-1").read_response(answer) == GroupMembers()


def test_other_codes_raise_refused_with_the_remark():
    answer = RemotingCommand(17, remark="topic[nope] not exist\n")
    with pytest.raises(Refused, match=r"^code 17: topic\[nope\] not exist$"):
        ends_of("nope").read_response(answer)
    with pytest.raises(Refused, match=r"^code 1: no remark$"):
        ends_of("nope").read_response(RemotingCommand(1))


@pytest.mark.parametrize("sample_request", [ends_of("t"), progress_of("g", "t"), masters_of("t"), members_of("g")])
def test_unreadable_body_raises_body_error(sample_request):
    with pytest.raises(BodyError):
        found(sample_request, b'{"offsetTable":[')
