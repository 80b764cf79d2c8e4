"""Groups and their members in the answers of brokers."""

import pytest

from remoting.admin.groups import (
    GroupClient,
    TopicSubscription,
    configured_groups,
    connections_of_group,
    create_group,
    delete_group,
    group_definition,
    groups_of_topic,
    lag_of_group,
    progress_of_group,
)
from remoting.admin.message_queues import MessageQueue
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError
from remoting.protocol.group_kinds import is_system_group
from remoting.protocol.shapes.broker_clients import NewSubscriptionGroup

CONNECTIONS = (
    b'{"connectionSet":[{"clientAddr":"127.0.0.1:34070","clientId":"192.0.2.2@12796#1492356266922","language":"JAVA",'
    b'"version":407}],"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY","messageModel":'
    b'"CLUSTERING","subscriptionTable":{"orders":{"classFilterMode":false,"codeSet":[],"expressionType":"TAG",'
    b'"subString":"*","subVersion":1795580133830,"tagsSet":[],"topic":"orders"}}}'
)
GROUP = (
    b'{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"groupName":'
    b'"readers-1","notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
    b'"whichBrokerWhenConsumeSlowly":1}'
)
LAG = (
    b'{"consumeTps":12.5,"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"TopicTest"}:{"brokerOffset":5280,'
    b'"consumerOffset":5279,"lastTimestamp":1700000000000,"pullOffset":5280}}}'
)


def found(wanted, body):
    return wanted.read_response(RemotingCommand(0, body=body))


def test_groups_of_brokers_and_tools_are_left_out():
    body = b'{"groupList":["TOOLS_CONSUMER","b","CID_RMQ_SYS_TRANS","a"]}'
    assert found(groups_of_topic("orders"), body) == ("a", "b")


def test_connected_members_have_their_addresses_and_subscriptions():
    connections = found(connections_of_group("readers-1"), CONNECTIONS)
    assert connections.clients == (
        GroupClient(client_id="192.0.2.2@12796#1492356266922", address="127.0.0.1:34070", language="JAVA", version=407),
    )
    assert connections.subscriptions == {"orders": TopicSubscription(expression="*", expression_type="TAG")}
    assert (connections.consume_type, connections.is_broadcasting) == ("CONSUME_PASSIVELY", False)
    broadcasting = found(connections_of_group("g"), CONNECTIONS.replace(b"CLUSTERING", b"BROADCASTING"))
    assert broadcasting.is_broadcasting


def test_group_without_connected_members_is_none():
    answer = RemotingCommand(206, remark="the consumer group[readers-1] not online")
    assert connections_of_group("readers-1").read_response(answer) is None


def test_lag_of_a_group_is_by_queue():
    [(queue, lag)] = found(lag_of_group("g", "TopicTest"), LAG).items()
    assert queue == MessageQueue(topic="TopicTest", broker_name="broker-a", queue_id=0)
    assert (lag.broker_offset, lag.consumer_offset, lag.pull_offset) == (5280, 5279, 5280)
    assert lag.last_consumed_unix_ms == 1_700_000_000_000


def test_lag_of_an_old_broker_has_no_position_pulled_from():
    text = LAG.replace(b',"pullOffset":5280', b"").replace(b"1700000000000", b"0")
    [lag] = found(lag_of_group("g"), text).values()
    assert (lag.pull_offset, lag.last_consumed_unix_ms) == (None, None)
    assert lag_of_group("g").request.ext_fields == {"consumerGroup": "g"}


def test_missing_offset_of_a_group_is_an_error_and_not_zero():
    with pytest.raises(BodyError):
        found(lag_of_group("g"), LAG.replace(b'"consumerOffset":5279,', b""))


def test_settings_of_a_group_that_a_broker_does_not_have_are_none():
    text = b'{"dataVersion":{"counter":1},"subscriptionGroupTable":{"readers-1":%b}}' % GROUP
    settings = found(group_definition("readers-1"), text)
    assert (settings.group, settings.is_consume_enabled, settings.retry_queue_nums) == ("readers-1", True, 1)
    # 4.9 has no such setting.
    assert settings.is_orderly is None
    assert found(group_definition("nobody"), text) is None


def test_configured_groups_are_all_that_a_broker_has():
    body = b'{"dataVersion":{},"subscriptionGroupTable":{"readers-1":' + GROUP + b',"CID_RMQ_SYS_TRANS":{}}}'
    assert found(configured_groups(), body) == {"readers-1", "CID_RMQ_SYS_TRANS"}


def test_answer_without_groups_is_not_taken_for_none():
    with pytest.raises(BodyError):
        found(configured_groups(), b"{}")


def test_progress_has_the_rate_beside_the_queues():
    progress = found(progress_of_group("g"), LAG)

    assert (progress.consume_tps, len(progress.queues)) == (12.5, 1)
    assert found(progress_of_group("g"), b'{"offsetTable":{}}').consume_tps is None


def test_groups_are_created_with_javas_defaults_and_deleted_with_their_offsets_or_without():
    created = create_group(NewSubscriptionGroup(group_name="g", retry_max_times=3)).request
    assert created.code == 200
    for part in (b'"groupName":"g"', b'"retryMaxTimes":3', b'"retryQueueNums":1', b'"consumeEnable":true'):
        assert part in created.body
    deleted = delete_group("g", cleans_offsets=True).request
    assert (deleted.code, deleted.ext_fields) == (
        207,
        {"groupName": "g", "cleanOffset": "true", "removeOffset": "true"},
    )


@pytest.mark.parametrize(
    ("group", "is_system"),
    [("TOOLS_CONSUMER", True), ("CID_RMQ_SYS_TRANS", True), ("CID_ONSAPI_PULL", True), ("g", False)],
)
def test_groups_of_brokers_are_known_by_their_names(group, is_system):
    assert is_system_group(group) is is_system
