"""offsets.json of clients."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.offsets.files.client_file import emit_client_file, parse_client_file
from controller.offsets.files.json_text import OffsetFileError
from controller.offsets.values import OFFSET_MAX
from remoting.admin.message_queues import MessageQueue

OF_CLIENT = b"""{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":3,
\t\t\t"topic":"TopicTest"
\t\t}:1470,{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":2,
\t\t\t"topic":"TopicTest"
\t\t}:1471
\t}
}"""
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9).filter(str.strip)
QUEUES = st.builds(MessageQueue, topic=NAMES, broker_name=NAMES, queue_id=st.integers(0, 99))
TABLES = st.dictionaries(QUEUES, st.integers(0, OFFSET_MAX), max_size=5)


def queue(queue_id, topic="TopicTest", broker_name="broker-a"):
    return MessageQueue(topic=topic, broker_name=broker_name, queue_id=queue_id)


def file_of(entries):
    return f'{{"offsetTable":{{{entries}}}}}'.encode()


def test_file_has_the_offset_of_each_queue():
    read = parse_client_file(OF_CLIENT)
    assert read.offsets == {queue(3): 1470, queue(2): 1471}
    assert read.refused == ()


def test_file_of_a_client_is_written_again_to_the_byte():
    assert emit_client_file(parse_client_file(OF_CLIENT).offsets) == OF_CLIENT


@given(TABLES)
def test_file_is_read_as_it_was_written(offsets):
    assert parse_client_file(emit_client_file(offsets)).offsets == offsets


@given(TABLES)
def test_keys_in_strings_are_read_too(offsets):
    keys = {
        json.dumps({"topic": each.topic, "queueId": each.queue_id, "brokerName": each.broker_name}): offset
        for each, offset in offsets.items()
    }
    assert parse_client_file(json.dumps({"offsetTable": keys}).encode()).offsets == offsets


def test_file_that_is_cut_anywhere_cannot_be_used():
    for cut in range(len(OF_CLIENT)):
        with pytest.raises(OffsetFileError):
            parse_client_file(OF_CLIENT[:cut])


@pytest.mark.parametrize("text", [b"{}", b'{"offsetTable":[]}', b"null", b'{"offsetTable":{},"offsetTable":{}}'])
def test_broken_file_is_not_used_at_all(text):
    with pytest.raises(OffsetFileError):
        parse_client_file(text)


GOOD = '{"brokerName":"b","queueId":1,"topic":"t"}'


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (f"{GOOD}:-1", "offset -1"),
        (f"{GOOD}:{2**63}", f"offset {2**63}"),
        (f"{GOOD}:null", "no number"),
        ('{"queueId":1,"topic":"t"}:5', "no brokerName"),
        ('{"brokerName":"b","queueId":1,"topic":" "}:5', "no topic"),
        ('{"brokerName":"b","topic":"t"}:5', "no whole number as its queueId"),
        ('{"brokerName":"b","queueId":-1,"topic":"t"}:5', "queue id -1"),
        ('{"brokerName":"b","queueId":1,"queueId":1,"topic":"t"}:5', "field twice"),
        (f'{{"brokerName":"b","queueId":1,"topic":"{"t" * 256}"}}:5', "256 characters"),
        ('"no queue":5', "key is no queue"),
        (f'"{{{"0:0," * 1_000}1:1}}":5', "key is no queue: it has 4005 characters"),
        ('{"brokerName":"b","queueId":1,"topic":"\\ud800"}:5', "half a character"),
        ('{"brokerName":"\\udfff","queueId":1,"topic":"t"}:5', "half a character"),
        ("7:5", "key is no queue"),
    ],
)
def test_odd_entry_is_refused_with_its_reason_and_the_others_are_used(entry, reason):
    read = parse_client_file(file_of(f'{entry},{{"brokerName":"other","queueId":0,"topic":"t"}}:1'))
    assert [reason in each.reason for each in read.refused] == [True]
    assert read.offsets == {queue(0, "t", "other"): 1}


def test_queue_that_occurs_twice_is_refused_both_times():
    same = '{"topic":"t","queueId":1,"brokerName":"b"}'
    read = parse_client_file(file_of(f"{GOOD}:5,{same}:6"))
    assert [each.reason[:29] for each in read.refused] == ["the queue occurs more than on"] * 2
    assert read.offsets == {}
