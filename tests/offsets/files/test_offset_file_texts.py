"""Offset files of brokers of all releases, of RocksDB and of clients, and what is refused of them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.files import json_text, offset_files
from offsets.files.json_text import (
    DEPTH_MAX,
    TEXT_BYTES_MAX,
    JsonObject,
    ObjectMember,
    OffsetFileError,
    OtherNumber,
    decode_text,
    parse_json,
)
from offsets.files.offset_files import (
    ClientQueue,
    FileRecord,
    broker_file,
    client_file,
    read_broker_file,
    read_client_file,
    read_records,
    records,
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
RECORD = FileRecord(b"TopicTest@g1", b'{"offsetTable":{"0":5,"1":6}}')

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9).filter(str.strip)
TOPICS = NAMES.filter(lambda name: "@" not in name)
GROUPS = NAMES.filter(lambda name: not name.endswith("@broadcast"))
QUEUE_IDS, OFFSETS = st.integers(0, QUEUES_MAX - 1), st.integers(0, OFFSET_MAX)
TABLES = st.dictionaries(st.builds(QueueKey, GROUPS, TOPICS, QUEUE_IDS), OFFSETS, max_size=5)
CLIENT_TABLES = st.dictionaries(st.builds(ClientQueue, NAMES, NAMES, QUEUE_IDS), OFFSETS, max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=10,
)


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
    assert broker_file(read_broker_file(OF_4_9).offsets) == OF_4_9


@given(TABLES)
def test_file_of_a_broker_and_its_records_are_read_as_they_were_written(offsets):
    assert read_broker_file(broker_file(offsets)) == (offsets, [])
    assert read_records(records(offsets)) == (offsets, [])


@given(TABLES)
def test_standard_json_with_quoted_queue_ids_is_read_too(offsets):
    tables = {}
    for (group, topic, queue_id), offset in offsets.items():
        tables.setdefault(f"{topic}@{group}", {})[queue_id] = offset
    assert read_broker_file(json.dumps({"offsetTable": tables}).encode()).offsets == offsets


@pytest.mark.parametrize("data", [OF_4_9, OF_5_5, OF_CLIENT])
def test_file_that_is_cut_anywhere_cannot_be_used(data):
    read = read_client_file if data is OF_CLIENT else read_broker_file
    for cut in range(len(data)):
        with pytest.raises(OffsetFileError):
            read(data[:cut])


@pytest.mark.parametrize(
    "data", [b"{}", b'{"offsetTable":[]}', b"null", b'{"offsetTable":{},"offsetTable":{}}', b"{1:2}"]
)
def test_broken_file_is_not_used_at_all(data):
    for read in (read_broker_file, read_client_file):
        with pytest.raises(OffsetFileError):
            read(data)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('"t@g":{0:-1}', "queue 0 has offset -1"),
        ('"t@g":{0:1,1:1.5}', "offset 1.5"),
        ('"t@g":{0:true}', "no number"),
        ('"t@g":{-1:5}', "queue id -1"),
        ('"t@g":{1024:5}', "queue id 1024"),
        ('"t@g":{"x":5}', "no whole number"),
        ('"t@g":{0:5,0:6}', "queue 0 occurs twice"),
        ('"t@g":{0:5,"0":6}', "queue 0 occurs twice"),
        ('"t@g":7', "no offsets by queue id"),
        ('"t":{0:5}', "no @"),
        ('"@g":{0:5}', "no topic"),
        ('"t@ ":{0:5}', "no group"),
        (f'"{"t" * 256}@g":{{0:5}}', "256 characters"),
        ('"t@\\ud800":{0:5}', "half a character"),
        ("7:{0:5}", "the key is no string"),
        ('"t@g@broadcast":{0:5}', "broadcasting"),
        ('"%LMQ%t@g":{0:5}', "light queues"),
    ],
)
def test_odd_entry_of_a_broker_is_refused_whole_with_its_place_and_others_are_used(entry, reason):
    offsets, problems = read_broker_file(file_of(f'"t@other":{{0:1}},\n {entry}'))
    assert offsets == {QueueKey("other", "t", 0): 1}
    (problem,) = problems
    assert problem.startswith("line 2, column ")
    assert reason in problem


def test_entry_that_occurs_twice_is_refused_both_times_and_light_queues_are_named():
    offsets, problems = read_broker_file(
        b'{"lmqOffsetTable":{"%LMQ%x@%LMQ%x":10},"offsetTable":{"t@g":{0:5},"t@g":{0:6}}}'
    )
    assert offsets == {}
    assert ["more than once" in each for each in problems] == [True, True, False]
    assert "light queues" in problems[2]


def test_problems_are_listed_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(offset_files, "PROBLEMS_MAX", 2)
    problems = read_broker_file(file_of(",".join(f'"t{number}":{{0:5}}' for number in range(5)))).problems
    assert (len(problems), problems[-1]) == (3, "and 3 more")
    odd = [FileRecord(b"t%d" % number, RECORD.value) for number in range(5)]
    assert read_records(odd).problems[-1] == "and 3 more"


@pytest.mark.parametrize("key", [QueueKey("g", "a@b", 0), QueueKey("g@broadcast", "t", 0)])
def test_name_that_would_be_read_as_another_one_is_not_written(key):
    for write in (broker_file, records):
        with pytest.raises(ValueError, match="would be read as another one"):
            write({key: 5})


def test_record_is_read_and_written_as_a_broker_has_it():
    offsets = {QueueKey("g1", "TopicTest", 0): 5, QueueKey("g1", "TopicTest", 1): 6}
    assert read_records([RECORD]) == (offsets, [])
    assert records(offsets) == [RECORD]
    with pytest.raises(OffsetFileError, match="record 1: 'TopicTest@g1' occurs twice"):
        read_records([RECORD, RECORD])


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        (b"t", RECORD.value, "record 0: 't': the key has no @"),
        (b"t@\xff", RECORD.value, "no UTF-8"),
        (b"t@g", b"{}", "record 0: 't@g': offsetTable is missing"),
        (b"t@g", b'{"offsetTable":{"0":-5}}', "record 0: 't@g': queue 0 has offset -5"),
        (b"t@g", RECORD.value[:-1], "ends in the middle"),
    ],
)
def test_odd_record_is_a_problem_and_others_are_used(key, value, problem):
    found = read_records([FileRecord(key, value), RECORD])
    assert len(found.offsets) == 2
    assert problem in found.problems[0]


# Clients


def test_file_of_a_client_has_the_offset_of_each_queue_and_is_written_again_to_the_byte():
    read = read_client_file(OF_CLIENT)
    assert read == ({ClientQueue("TopicTest", "broker-a", 3): 1470, ClientQueue("TopicTest", "broker-a", 2): 1471}, [])
    assert client_file(read.offsets) == OF_CLIENT


@given(CLIENT_TABLES)
def test_file_of_a_client_is_read_as_it_was_written_also_with_keys_in_strings(offsets):
    assert read_client_file(client_file(offsets)) == (offsets, [])
    keys = {
        json.dumps({"topic": queue.topic, "queueId": queue.queue_id, "brokerName": queue.broker_name}): offset
        for queue, offset in offsets.items()
    }
    assert read_client_file(json.dumps({"offsetTable": keys}).encode()).offsets == offsets


GOOD = '{"brokerName":"b","queueId":1,"topic":"t"}'


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (f"{GOOD}:-1", "offset -1"),
        (f"{GOOD}:{2**63}", f"offset {2**63}"),
        (f"{GOOD}:null", "no number"),
        ('{"queueId":1,"topic":"t"}:5', "no brokerName"),
        ('{"brokerName":"b","queueId":1,"topic":" "}:5', "no topic"),
        ('{"brokerName":"b","topic":"t"}:5', "no whole number"),
        ('{"brokerName":"b","queueId":-1,"topic":"t"}:5', "queue id -1"),
        ('{"brokerName":"b","queueId":1,"queueId":1,"topic":"t"}:5', "field twice"),
        (f'{{"brokerName":"b","queueId":1,"topic":"{"t" * 256}"}}:5', "256 characters"),
        ('"no queue":5', "key is no queue"),
        (f'"{{{"0:0," * 1_000}1:1}}":5', "key is no queue: it has 4005 characters"),
        ('{"brokerName":"\\udfff","queueId":1,"topic":"t"}:5', "half a character"),
        ("7:5", "key is no queue"),
    ],
)
def test_odd_entry_of_a_client_is_refused_with_its_reason_and_the_others_are_used(entry, reason):
    offsets, problems = read_client_file(file_of(f'{entry},{{"brokerName":"other","queueId":0,"topic":"t"}}:1'))
    assert offsets == {ClientQueue("t", "other", 0): 1}
    assert [reason in problem for problem in problems] == [True]


def test_queue_that_occurs_twice_is_refused_both_times():
    same = '{"topic":"t","queueId":1,"brokerName":"b"}'
    offsets, problems = read_client_file(file_of(f"{GOOD}:5,{same}:6"))
    assert (offsets, ["more than once" in problem for problem in problems]) == ({}, [True, True])


# JSON of fastjson


def plain(node):
    """Return what json.loads would."""
    if isinstance(node, JsonObject):
        return {member.key: plain(member.value) for member in node.members}
    return [plain(each) for each in node] if isinstance(node, list) else node


@given(value=VALUES, indent=st.sampled_from([None, 2, "\t"]), ascii_only=st.booleans())
def test_standard_json_is_read_as_json_reads_it(value, indent, ascii_only):
    assert plain(parse_json(json.dumps(value, indent=indent, ensure_ascii=ascii_only))) == value


def test_keys_are_integers_and_objects_and_may_come_twice():
    inner = JsonObject([ObjectMember("q", 0, 2)])
    assert parse_json('{{"q":0}:7,1:8,"1":9}') == JsonObject(
        [ObjectMember(inner, 7, 1), ObjectMember(1, 8, 11), ObjectMember("1", 9, 15)]
    )
    assert [member.value for member in parse_json('{"a":1,"a":2}').members] == [1, 2]


@pytest.mark.parametrize("text", ["1.5", "1e3", "123456789012345678901", "-0.0"])
def test_number_that_is_no_offset_stays_text(text):
    assert parse_json(text) == OtherNumber(text)


def test_control_characters_in_strings_are_taken_as_fastjson_does():
    assert parse_json('"a\\t\tb\\n"') == "a\t\tb\n"


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ("", 1, 1, "ends in the middle"),
        ("{", 1, 2, "ends in the middle"),
        ('{"a":\n\t"b', 2, 2, "inside of a string"),
        ('{"a" 1}', 1, 6, "colon after a key is missing"),
        ('{"a":1\n"b":2}', 2, 1, "comma or the end of an object is missing"),
        ("[1 2]", 1, 4, "comma or the end of an array is missing"),
        ('{"a":oops}', 1, 6, "neither a string"),
        ("{} {}", 1, 4, "something follows"),
        ('["\\x"]', 1, 2, "unknown escape"),
        ("[" * (DEPTH_MAX + 1), 1, DEPTH_MAX + 1, "inside each other"),
    ],
)
def test_broken_text_is_an_error_with_its_place(text, line, column, what):
    with pytest.raises(OffsetFileError, match=f"^line {line}, column {column}: .*{what}"):
        parse_json(text)


def test_bytes_that_are_no_utf_8_or_too_many_are_refused_before_they_are_read():
    with pytest.raises(OffsetFileError, match="line 2, column 2: byte 3 is no UTF-8"):
        decode_text('{\n"ü'.encode()[:-1] + b"\xff")
    with pytest.raises(OffsetFileError, match="67108865 bytes, of which 67108864 are allowed"):
        decode_text(bytes(TEXT_BYTES_MAX + 1))


@pytest.mark.parametrize("text", ["{0:0,1:1,2:2}", "[0,1,2]", '{"a":[0],"b":1}', '{"a":{0:0,1:1}}'])
def test_text_of_too_many_members_is_refused_before_its_end(text, monkeypatch):
    monkeypatch.setattr(json_text, "MEMBERS_MAX", 3)
    parse_json(text)
    monkeypatch.setattr(json_text, "MEMBERS_MAX", 2)
    with pytest.raises(OffsetFileError, match="more than 2 members of objects and elements of arrays"):
        parse_json(text)
