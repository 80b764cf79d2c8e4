"""Locks on queues."""

import json

from remoting.admin.locks import lock_queues, unlock_queues
from remoting.admin.message_queues import MessageQueue
from remoting.protocol.command import RemotingCommand

FIRST, SECOND = (MessageQueue(topic="TopicTest", broker_name="broker-a", queue_id=i) for i in (0, 1))


def test_lock_is_requested_of_this_broker_alone():
    request = lock_queues("10.0.0.9@4711", "g1", [SECOND, FIRST]).request
    assert request.code == 41
    assert json.loads(request.body) == {
        "clientId": "10.0.0.9@4711",
        "consumerGroup": "g1",
        "mqSet": [
            {"brokerName": "broker-a", "queueId": 0, "topic": "TopicTest"},
            {"brokerName": "broker-a", "queueId": 1, "topic": "TopicTest"},
        ],
        "onlyThisBroker": True,
    }
    unlock = unlock_queues("10.0.0.9@4711", "g1", [SECOND, FIRST])
    assert (unlock.request.code, unlock.request.body) == (42, request.body)
    assert unlock.read_response(RemotingCommand(0)) is None


def test_locked_queues_are_those_in_the_answer():
    body = b'{"lockOKMQSet":[{"brokerName":"broker-a","queueId":0,"topic":"TopicTest"}]}'
    wanted = lock_queues("c", "g1", [FIRST, SECOND])
    assert wanted.read_response(RemotingCommand(0, body=body)) == {FIRST}
    assert wanted.read_response(RemotingCommand(0, body=b'{"lockOKMQSet":[]}')) == set()
