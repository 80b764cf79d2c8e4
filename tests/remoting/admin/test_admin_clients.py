"""What single clients do, in the answers of brokers."""

import pytest

from remoting.admin.clients import RUNNING_BYTES_MAX, producers, running_consumer
from remoting.admin.message_queues import MessageQueue
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, Refused

RUNNING = (
    b'{"mqPopTable":{{"brokerName":"b1","queueId":-1,"topic":"popped"}:{"droped":false,"lastPopTimestamp":0,'
    b'"waitAckCount":3}},"mqTable":{{"brokerName":"b1","queueId":0,"topic":"orders"}:{"cachedMsgCount":2,'
    b'"cachedMsgMaxOffset":11,"cachedMsgMinOffset":10,"cachedMsgSizeInMiB":0,"commitOffset":10,"droped":false,'
    b'"lastConsumeTimestamp":0,"lastLockTimestamp":1700000000000,"lastPullTimestamp":0,"locked":true,'
    b'"transactionMsgCount":1,"transactionMsgMaxOffset":0,"transactionMsgMinOffset":0,"tryUnlockTimes":0}},'
    b'"properties":{"PROP_CONSUMEORDERLY":"true","PROP_CONSUME_TYPE":"CONSUME_PASSIVELY","PROP_CLIENT_VERSION":'
    b'"V5_5_0","PROP_CONSUMER_START_TIMESTAMP":"1795580133585"},"statusTable":{},"subscriptionSet":[{"topic":"orders"}]}'
)
PRODUCERS = (
    b'{"data":{"senders":[{"clientId":"192.0.2.2@14351#1","language":"JAVA","lastUpdateTimestamp":1795580210231,'
    b'"remoteIP":"/127.0.0.1:50450","version":513}]}}'
)


def found(wanted, body):
    return wanted.read_response(RemotingCommand(0, body=body))


def test_consumer_reports_the_queues_that_it_holds():
    running = found(running_consumer("g", "c"), RUNNING)
    [(queue, held)] = running.queues.items()
    assert queue == MessageQueue(topic="orders", broker_name="b1", queue_id=0)
    assert (held.commit_offset, held.cached_messages, held.messages_in_work) == (10, 2, 1)
    assert (held.is_locked, held.is_dropped) == (True, False)
    assert (held.last_lock_unix_ms, held.last_pull_unix_ms) == (1_700_000_000_000, None)
    [(popped, pop)] = running.pop_queues.items()
    assert (popped.queue_id, pop.wait_ack_count, pop.is_dropped) == (-1, 3, False)


def test_consumer_reports_how_it_consumes():
    running = found(running_consumer("g", "c"), RUNNING)
    assert (running.topics, running.is_orderly) == ({"orders"}, True)
    assert (running.consume_type, running.client_version) == ("CONSUME_PASSIVELY", "V5_5_0")
    assert running.started_unix_ms == 1_795_580_133_585


def test_what_a_consumer_does_not_report_is_none():
    text = b'{"mqTable":{{"brokerName":"b1","queueId":0,"topic":"orders"}:{"commitOffset":-1}},"properties":{}}'
    running = found(running_consumer("g", "c"), text)
    [held] = running.queues.values()
    assert (held.commit_offset, held.cached_messages, held.is_locked) == (None, None, None)
    assert (running.is_orderly, running.consume_type) == (None, None)


def test_answer_without_queues_is_an_error_and_not_a_consumer_that_holds_none():
    with pytest.raises(BodyError):
        found(running_consumer("g", "c"), b'{"properties":{}}')


@pytest.mark.parametrize("code", [1, 207])
def test_consumer_that_does_not_answer_is_refused(code):
    with pytest.raises(Refused) as refused:
        running_consumer("g", "c").read_response(RemotingCommand(code, remark="The Consumer <g> <c> not online"))
    assert refused.value.code == code


def test_producers_have_their_group_and_last_heartbeat():
    [(group, [producer])] = found(producers(), PRODUCERS).items()
    assert (group, producer.client_id) == ("senders", "192.0.2.2@14351#1")
    assert (producer.remote_ip, producer.version) == ("/127.0.0.1:50450", 513)
    assert producer.last_update_timestamp == 1_795_580_210_231


def test_answer_of_a_client_that_is_far_too_long_is_not_read():
    with pytest.raises(BodyError, match=f"of which {RUNNING_BYTES_MAX} are read"):
        found(running_consumer("g", "c"), b" " * (RUNNING_BYTES_MAX + 1))
