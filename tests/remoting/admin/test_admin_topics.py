"""Configuration of topics, as brokers of 4.9.7, 5.1.4 and 5.5.0 sent it."""

import pytest

from remoting.admin.message_queues import MessageQueue
from remoting.admin.topics import (
    QueueOffsets,
    TopicDefinition,
    queue_offsets,
    topic_definition,
    topic_definition_of_all,
    update_topic,
)
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, NotSupported, Refused

OF_5_1 = (
    b'{"attributes":{"message.type":"NORMAL"},"order":true,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG",'
    b'"topicName":"orders","topicSysFlag":0,"writeQueueNums":4}'
)
ALL_OF_4_9 = (
    b'{"dataVersion":{"counter":2,"timestamp":1795580130420},"topicConfigTable":{"SELF_TEST_TOPIC":{"order":false,'
    b'"perm":6,"readQueueNums":1,"topicFilterType":"SINGLE_TAG","topicName":"SELF_TEST_TOPIC","topicSysFlag":0,'
    b'"writeQueueNums":1},"orders":{"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG",'
    b'"topicName":"orders","topicSysFlag":0,"writeQueueNums":4}}}'
)
STATIC = (
    b'{"topicConfigTable":{"orders":{"perm":6,"readQueueNums":8,"topicName":"orders","writeQueueNums":4}},'
    b'"topicQueueMappingDetailMap":{"s":{"currIdMap":{0:0},"hostedQueues":{0:[{"queueId":0}]}}}}'
)
DEFINITION = TopicDefinition(
    topic="orders",
    read_queue_nums=8,
    write_queue_nums=4,
    perm=6,
    is_order=True,
    attributes={"message.type": "NORMAL"},
)


def found(wanted, body):
    return wanted.read_response(RemotingCommand(0, body=body))


def test_topic_of_a_broker_has_all_of_its_configuration():
    assert found(topic_definition("orders"), OF_5_1) == DEFINITION


def test_topic_of_an_old_broker_is_read_among_all():
    old = found(topic_definition_of_all("orders"), ALL_OF_4_9)
    assert old == TopicDefinition(topic="orders", read_queue_nums=8, write_queue_nums=4, perm=6)
    assert found(topic_definition_of_all("nobody-has-it"), ALL_OF_4_9) is None


def test_topic_is_read_beside_static_topics_with_bare_keys():
    assert found(topic_definition_of_all("orders"), STATIC).write_queue_nums == 4


def test_topic_that_a_broker_lacks_is_none():
    answer = RemotingCommand(17, remark="No topic in this broker. topic: orders")
    assert topic_definition("orders").read_response(answer) is None


def test_old_broker_does_not_support_the_request_for_one_topic():
    with pytest.raises(NotSupported, match="request type 351 not supported"):
        topic_definition("orders").read_response(RemotingCommand(3, remark=" request type 351 not supported"))


@pytest.mark.parametrize("member", [b'"perm":6,', b'"readQueueNums":8,', b'"topicName":"orders",'])
def test_missing_count_of_a_topic_is_an_error_and_not_zero(member):
    with pytest.raises(BodyError):
        found(topic_definition("orders"), OF_5_1.replace(member, b""))


def test_changed_topic_is_sent_whole_without_its_attributes():
    request = update_topic(DEFINITION).request
    assert (request.code, request.ext_fields) == (
        17,
        {
            "topic": "orders",
            "defaultTopic": "TBW102",
            "readQueueNums": "8",
            "writeQueueNums": "4",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "true",
        },
    )


def test_changes_of_attributes_have_a_sign():
    request = update_topic(DEFINITION, {"message.type": "FIFO", "cleanup.policy": None}).request
    assert request.ext_fields["attributes"] == "-cleanup.policy,+message.type=FIFO"


@pytest.mark.parametrize("changes", [{"a,b": "c"}, {"a": "b=c"}])
def test_attribute_that_cannot_be_sent_is_refused(changes):
    with pytest.raises(ValueError, match="cannot be sent: a"):
        update_topic(DEFINITION, changes)


def test_refused_change_of_a_topic_has_the_code_and_the_remark():
    with pytest.raises(Refused, match=r"^code 29: The topic\[x\] is conflict with system topic\.$") as refused:
        update_topic(DEFINITION).read_response(
            RemotingCommand(29, remark="The topic[x] is conflict with system topic.")
        )
    assert refused.value.code == 29
    assert update_topic(DEFINITION).read_response(RemotingCommand(0, remark="not set any response code")) is None


def test_unreadable_beginning_of_a_queue_is_none():
    text = (
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{"lastUpdateTimestamp":-1,"maxOffset":0,"minOffset":-1},'
        b'{"brokerName":"b","queueId":1,"topic":"t"}:{"lastUpdateTimestamp":1700000000000,"maxOffset":5280,"minOffset":7}}}'
    )
    assert found(queue_offsets("t"), text) == {
        MessageQueue(topic="t", broker_name="b", queue_id=0): QueueOffsets(
            max_offset=0, min_offset=None, last_stored_unix_ms=None
        ),
        MessageQueue(topic="t", broker_name="b", queue_id=1): QueueOffsets(
            max_offset=5280, min_offset=7, last_stored_unix_ms=1_700_000_000_000
        ),
    }


def test_key_that_is_no_queue_is_refused():
    with pytest.raises(BodyError, match="a key is no queue"):
        found(queue_offsets("t"), b'{"offsetTable":{"orders":{"maxOffset":1}}}')
