"""Offsets of queues and groups in the answers of brokers."""

import pytest

from remoting.admin.offsets import (
    OffsetCommit,
    commit_offset,
    committed_offset,
    max_offset,
    min_offset,
    offset_at,
    reset_members,
    reset_offset,
    timed_messages,
)
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, NotSupported, Refused


def found(wanted, body):
    return wanted.read_response(RemotingCommand(0, body=body))


def offset_answer(offset):
    return RemotingCommand(0, ext_fields={"offset": offset})


def test_requests_about_a_queue_name_it():
    to_send = [max_offset("t", 3), min_offset("t", 3), committed_offset("g", "t", 3), commit_offset("g", "t", 3, 9)]
    assert [(each.request.code, each.request.ext_fields) for each in to_send] == [
        (30, {"topic": "t", "queueId": "3"}),
        (31, {"topic": "t", "queueId": "3"}),
        (14, {"consumerGroup": "g", "topic": "t", "queueId": "3", "setZeroIfNotFound": "false"}),
        (15, {"consumerGroup": "g", "topic": "t", "queueId": "3", "commitOffset": "9"}),
    ]


def test_end_of_a_queue_is_the_offset_in_the_answer():
    assert max_offset("t", 0).read_response(offset_answer("9223372036854775807")) == 2**63 - 1


@pytest.mark.parametrize("fields", [None, {}, {"offset": ""}, {"offset": "9223372036854775808"}])
def test_answer_without_a_readable_offset_is_an_error_and_not_zero(fields):
    with pytest.raises(BodyError, match="no readable offset"):
        max_offset("t", 0).read_response(RemotingCommand(0, ext_fields=fields))


def test_beginning_that_a_broker_cannot_read_is_none():
    assert min_offset("t", 0).read_response(offset_answer("-1")) is None
    assert min_offset("t", 0).read_response(offset_answer("0")) == 0


def test_offset_that_is_not_stored_is_none():
    answer = RemotingCommand(22, remark="Not found, do not set to zero, maybe this group boot first")
    assert committed_offset("g", "t", 0).read_response(answer) is None
    assert committed_offset("g", "t", 0).read_response(offset_answer("0")) == 0


def test_commit_during_a_reset_is_not_stored():
    commit = commit_offset("g", "t", 0, 5)
    assert commit.read_response(RemotingCommand(0)) is OffsetCommit.STORED
    pending = RemotingCommand(0, remark="Offset has been previously reset")
    assert commit.read_response(pending) is OffsetCommit.RESET_PENDING


@pytest.mark.parametrize("code", [17, 26, 29])
def test_refused_commit_has_its_code(code):
    with pytest.raises(Refused) as refused:
        commit_offset("g", "t", 0, 5).read_response(RemotingCommand(code, remark="no"))
    assert refused.value.code == code


def test_timed_messages_of_a_topic_are_counted():
    text = b'{"dataVersion":{"counter":0},"timingCount":{"t":{"count":4,"timeStamp":1795580194016}}}'
    assert (found(timed_messages("t"), text), found(timed_messages("u"), text)) == (4, 0)


def test_broker_without_timed_messages_differs_from_one_that_has_none_waiting():
    with pytest.raises(NotSupported):
        timed_messages("t").read_response(RemotingCommand(3, remark=" request type 61 not supported"))
    with pytest.raises(BodyError):
        found(timed_messages("t"), b"{}")


def test_reset_of_a_queue_names_its_offset_and_no_time():
    wanted = reset_offset("g", "t", 3, 9)
    assert (wanted.request.code, wanted.request.ext_fields) == (
        222,
        {"group": "g", "topic": "t", "timestamp": "-1", "isForce": "true", "queueId": "3", "offset": "9"},
    )
    assert wanted.read_response(RemotingCommand(0, body=b'{"offsetTable":{}}')) is None
    with pytest.raises(Refused):
        wanted.read_response(RemotingCommand(1, remark="Target offset 9 is out of range"))


def test_offset_of_a_moment_is_the_offset_in_the_answer():
    wanted = offset_at("t", 3, 1_700_000_000_000)
    fields = {"topic": "t", "queueId": "3", "timestamp": "1700000000000"}
    assert (wanted.request.code, wanted.request.ext_fields) == (29, fields)
    assert wanted.read_response(offset_answer("42")) == 42


def test_members_are_sent_to_a_moment_in_the_queues_that_the_broker_names():
    wanted = reset_members("g", "t", -1)
    fields = {"group": "g", "topic": "t", "timestamp": "-1", "isForce": "true"}
    assert (wanted.request.code, wanted.request.ext_fields) == (222, fields)
    body = b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:42}}'
    assert {queue.queue_id: offset for queue, offset in found(wanted, body).items()} == {0: 42}
    assert wanted.read_response(RemotingCommand(206)) is None
    assert reset_members("g", "t", 5, is_force=False).request.ext_fields["isForce"] == "false"
