"""Offset files of brokers of all releases and of clients, and what is refused of them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets import offset_files
from offsets.offset_files import (
    ClientQueue,
    OffsetFileError,
    broker_file,
    client_file,
    read_broker_file,
    read_client_file,
)
from offsets.values import OFFSET_MAX, QUEUES_MAX, QueueKey

#: Written by a broker of release 5.5.0.
OF_5_5 = b"""{
\t"dataVersion":{
\t\t"counter":0,
\t\t"stateVersion":0,
\t\t"timestamp":1795718657471
\t},
\t"groupTopicMap":{
\t\t"og":[
\t\t\t"set0"
\t\t]
\t},
\t"offsetTable":{
\t\t"set0@og":{
\t\t\t0:1111
\t\t}
\t},
\t"pullOffsetTable":{
\t\t"%RETRY%og@og":{
\t\t\t0:0
\t\t},
\t\t"set0@og":{
\t\t\t0:1111
\t\t}
\t}
}"""
#: Written by one of release 5.1.4.
OF_5_1 = b"""{
\t"dataVersion":{
\t\t"counter":1,
\t\t"stateVersion":1,
\t\t"timestamp":1795719730007
\t},
\t"groupTopicMap":{
\t\t"idle-readers":["pair"]
\t},
\t"offsetTable":{
\t\t"pair@idle-readers":{0:20
\t\t}
\t}
}"""
OF_4_9 = b"""{
\t"offsetTable":{
\t\t"TopicTest@g1":{0:5280,1:5312
\t\t},
\t\t"%RETRY%g1@g1":{0:1
\t\t}
\t}
}"""
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
TOPICS = NAMES.filter(lambda name: "@" not in name and not name.startswith("%LMQ%"))
GROUPS = NAMES.filter(lambda name: not name.endswith("@broadcast"))
QUEUE_IDS, OFFSETS = st.integers(0, QUEUES_MAX - 1), st.integers(0, OFFSET_MAX)
TABLES = st.dictionaries(st.builds(QueueKey, GROUPS, TOPICS, QUEUE_IDS), OFFSETS, max_size=5)
CLIENT_TABLES = st.dictionaries(st.builds(ClientQueue, NAMES, NAMES, QUEUE_IDS), OFFSETS, max_size=5)


def file_of(entries):
    return f'{{"offsetTable":{{{entries}}}}}'.encode()


# Brokers


@pytest.mark.parametrize(
    ("data", "offsets"),
    [
        (
            OF_4_9,
            {
                QueueKey("g1", "TopicTest", 0): 5280,
                QueueKey("g1", "TopicTest", 1): 5312,
                QueueKey("g1", "%RETRY%g1", 0): 1,
            },
        ),
        (OF_5_1, {QueueKey("idle-readers", "pair", 0): 20}),
        (OF_5_5, {QueueKey("og", "set0", 0): 1111}),
        (file_of(""), {}),
    ],
)
def test_file_of_a_broker_has_offsets_whatever_its_release(data, offsets):
    assert read_broker_file(data) == (offsets, [])


def test_file_of_4_9_is_written_again_to_the_byte():
    assert broker_file(read_broker_file(OF_4_9)[0]) == (OF_4_9, [])


@given(TABLES)
def test_file_of_a_broker_is_read_as_it_was_written(offsets):
    assert read_broker_file(broker_file(offsets)[0]) == (offsets, [])


@given(TABLES)
def test_standard_json_with_quoted_queue_ids_is_read_too(offsets):
    tables = {}
    for (group, topic, queue_id), offset in offsets.items():
        tables.setdefault(f"{topic}@{group}", {})[queue_id] = offset
    assert read_broker_file(json.dumps({"offsetTable": tables}).encode())[0] == offsets


@pytest.mark.parametrize("data", [OF_4_9, OF_5_5, OF_CLIENT])
def test_file_that_is_cut_anywhere_cannot_be_used(data):
    read = read_client_file if data is OF_CLIENT else read_broker_file
    for cut in range(len(data)):
        with pytest.raises(OffsetFileError):
            read(data[:cut])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"offsetTable":[]}',
        b"null",
        b"{1:2}",
        b"[" * 100_000,
        b'{"offsetTable":{"t@\xff":{0:5}}}',
        b'{"a":"' + b'\\"' * 1_000_000,
    ],
    ids=lambda data: data[:20],
)
def test_broken_file_is_not_used_at_all(data):
    for read in (read_broker_file, read_client_file):
        with pytest.raises(OffsetFileError):
            read(data)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('"t@g":{0:-1}', ">= 0"),
        ('"t@g":{0:1,1:1.5}', "`int`"),
        ('"t@g":{0:9223372036854775808}', "`int`"),
        ('"t@g":{0:true}', "`int`"),
        ('"t@g":{-1:5}', ">= 0"),
        ('"t@g":{1024:5}', "<= 1023"),
        ('"t@g":{"x":5}', "`int`"),
        ('"t@g":7', "`object`"),
        ('"t":{0:5}', "no @"),
        ('"@g":{0:5}', "topic is blank"),
        ('"t@ ":{0:5}', "group is blank"),
        (f'"{"t" * 256}@g":{{0:5}}', "255 characters"),
        ("7:{0:5}", "no @"),
        ('"t@g@broadcast":{0:5}', "broadcasting"),
        ('"%LMQ%t@g":{0:5}', "light queues"),
    ],
)
def test_odd_entry_of_a_broker_is_refused_whole_and_others_are_used(entry, reason):
    offsets, problems = read_broker_file(file_of(f'"t@other":{{0:1}},\n {entry}'))
    assert offsets == {QueueKey("other", "t", 0): 1}
    (problem,) = problems
    assert problem.startswith(("'t", "'@", "'7'", "'%"))
    assert reason in problem


def test_of_a_queue_that_occurs_twice_the_last_offset_counts_as_in_java_and_light_queues_are_counted():
    offsets, problems = read_broker_file(b'{"lmqOffsetTable":{"%LMQ%x@%LMQ%x":10},"offsetTable":{"t@g":{0:5,0:6}}}')
    assert offsets == {QueueKey("g", "t", 0): 6}
    assert problems == ["1 offsets of light queues: they are not imported"]


def test_problems_are_listed_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(offset_files, "PROBLEMS_MAX", 2)
    problems = read_broker_file(file_of(",".join(f'"t{number}":{{0:5}}' for number in range(5))))[1]
    assert (len(problems), problems[-1]) == (3, "and 3 more")


@pytest.mark.parametrize("key", [QueueKey("g", "a@b", 0), QueueKey("g@broadcast", "t", 0)])
def test_name_that_would_be_read_as_another_one_is_not_written(key):
    file, (left_out,) = broker_file({key: 5, QueueKey("g", "t", 0): 7})
    assert read_broker_file(file)[0] == {QueueKey("g", "t", 0): 7}
    assert key.topic in left_out


# Clients


def test_file_of_a_client_has_the_offset_of_each_queue_and_is_written_again_to_the_byte():
    read = read_client_file(OF_CLIENT)
    assert read == ({ClientQueue("TopicTest", "broker-a", 3): 1470, ClientQueue("TopicTest", "broker-a", 2): 1471}, [])
    assert client_file(read[0]) == OF_CLIENT


@given(CLIENT_TABLES)
def test_file_of_a_client_is_read_as_it_was_written_also_with_keys_in_strings(offsets):
    assert read_client_file(client_file(offsets)) == (offsets, [])
    keys = {
        json.dumps({"topic": queue.topic, "queueId": queue.queue_id, "brokerName": queue.broker_name}): offset
        for queue, offset in offsets.items()
    }
    assert read_client_file(json.dumps({"offsetTable": keys}).encode())[0] == offsets


GOOD = '{"brokerName":"b","queueId":1,"topic":"t"}'


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (f"{GOOD}:-1", ">= 0"),
        (f"{GOOD}:{2**63}", "`int`"),
        (f"{GOOD}:null", "`int`"),
        ('{"queueId":1,"topic":"t"}:5', "`brokerName`"),
        ('{"brokerName":"b","queueId":1,"topic":" "}:5', "topic is blank"),
        ('{"brokerName":"b","topic":"t"}:5', "`queueId`"),
        ('{"brokerName":"b","queueId":-1,"topic":"t"}:5', ">= 0"),
        (f'{{"brokerName":"b","queueId":1,"topic":"{"t" * 256}"}}:5', "255 characters"),
        ('"no queue":5', "malformed"),
        ("7:5", "`object`"),
    ],
)
def test_odd_entry_of_a_client_is_refused_with_its_reason_and_the_others_are_used(entry, reason):
    offsets, problems = read_client_file(file_of(f'{entry},{{"brokerName":"other","queueId":0,"topic":"t"}}:1'))
    assert offsets == {ClientQueue("t", "other", 0): 1}
    assert [reason in problem for problem in problems] == [True], problems
