"""What is read in the answers of NameServers and brokers; the bodies are those of a broker 5.5.0, as it sent them."""

import pytest

from remoting.protocol.command import RemotingCommand
from rmq.sampling.samples import GroupProgress, Master, ends_of, masters_of, members_of, progress_of

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
CLIENT = "192.0.2.2@5158#74623868463747"
MEMBERS = (
    b'{"connectionSet":[{"clientAddr":"127.0.0.1:34786","clientId":"192.0.2.2@5158#74623868463747","language":"JAVA",'
    b'"version":513}],"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY",'
    b'"messageModel":"CLUSTERING","subscriptionTable":{"%RETRY%grp-1":{"classFilterMode":false,"codeSet":[],'
    b'"expressionType":"TAG","subString":"*","subVersion":1795317839071,"tagsSet":[],"topic":"%RETRY%grp-1"}}}'
)


@pytest.mark.parametrize(
    ("wanted", "body", "taken"),
    [
        (masters_of("orders"), ROUTE, (Master("DefaultCluster", "b1", "127.0.0.1:20070"),)),
        (masters_of("orders"), ROUTE.replace(b'{"0":', b'{"1":'), (Master("DefaultCluster", "b1", None),)),
        (ends_of("orders"), TOPIC_STATS, 30),
        (ends_of("orders"), b'{"offsetTable":{}}', 0),
        (progress_of("grp-1", "orders"), CONSUME_STATS, GroupProgress(30, 14)),
        (
            progress_of("grp-1", "orders"),
            CONSUME_STATS.replace(b'rOffset":0,"last', b'rOffset":-1,"last'),
            GroupProgress(30, 14),
        ),
        (progress_of("grp-1", "orders"), b'{"consumeTps":0.0,"offsetTable":{}}', None),
    ],
)
def test_what_is_taken_of_an_answer(wanted, body, taken):
    assert wanted.read_response(RemotingCommand(0, body=body)) == taken


@pytest.mark.parametrize(("model", "is_broadcasting"), [(b"CLUSTERING", False), (b"BROADCASTING", True)])
def test_members_are_known_with_how_they_consume(model, is_broadcasting):
    members = members_of("grp-1").read_response(RemotingCommand(0, body=MEMBERS.replace(b"CLUSTERING", model)))
    assert [each.client_id for each in members.clients] == [CLIENT]
    assert members.is_broadcasting is is_broadcasting


def test_offline_group_has_no_members():
    answer = RemotingCommand(206, remark="the consumer group[grp-1] not online")
    assert members_of("grp-1").read_response(answer).clients == ()
