"""Offset files of brokers of all releases, and what is refused of them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.offsets.entry_keys import EntryKey, EntryKind, OddEntryKey
from controller.offsets.files.broker_file import BrokerOffsets, OffsetsVersion, emit_broker_file, parse_broker_file
from controller.offsets.files.json_text import OffsetFileError
from controller.offsets.values import OFFSET_MAX, QUEUES_MAX

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
OF_5_5_EMPTY = b"""{
\t"dataVersion":{
\t\t"counter":0,
\t\t"stateVersion":0,
\t\t"timestamp":1795718472519
\t},
\t"groupTopicMap":{},
\t"offsetTable":{},
\t"pullOffsetTable":{}
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
\t\t},
\t\t"TopicTest@loud@broadcast":{0:9
\t\t}
\t}
}"""
OF_LMQ = b'{"dataVersion":{"counter":7},"lmqOffsetTable":{"%LMQ%x@%LMQ%x":10},"offsetTable":{"t@g":{0:5}}}'

KEYS = st.builds(
    EntryKey,
    topic=st.text(st.characters(exclude_characters="@", exclude_categories=["Cs"]), min_size=1, max_size=9).filter(
        str.strip
    ),
    group=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9).filter(
        lambda name: name.strip() and not name.endswith("@broadcast")
    ),
    kind=st.sampled_from([EntryKind.CLUSTERING, EntryKind.BROADCAST]),
)
OFFSETS = st.integers(0, OFFSET_MAX)
TABLES = st.dictionaries(KEYS, st.dictionaries(st.integers(0, QUEUES_MAX - 1), OFFSETS, max_size=4), max_size=5)
LMQ_TABLES = st.dictionaries(KEYS.map(lambda key: key._replace(kind=EntryKind.LMQ)), OFFSETS, max_size=3)
CONTENTS = st.builds(
    BrokerOffsets,
    offsets=TABLES,
    version=st.none()
    | st.builds(OffsetsVersion, counter=st.integers(0, 2**63 - 1), state_version=OFFSETS, timestamp=OFFSETS),
    pull_offsets=st.none() | TABLES,
    lmq_offsets=st.none() | LMQ_TABLES,
)


def file_of(table):
    return f'{{"offsetTable":{{{table}}}}}'.encode()


def refusals(table):
    """Return reasons, and what is used even so."""
    read = parse_broker_file(file_of(table))
    return [each.reason for each in read.refused], read.found.offsets


def test_file_of_4_9_has_offsets_alone():
    read = parse_broker_file(OF_4_9)
    assert read.refused == ()
    assert read.found == BrokerOffsets(
        offsets={
            EntryKey("TopicTest", "g1"): {0: 5280, 1: 5312},
            EntryKey("%RETRY%g1", "g1"): {0: 1},
            EntryKey("TopicTest", "loud", EntryKind.BROADCAST): {0: 9},
        }
    )


def test_file_of_5_5_has_a_version_and_positions_pulled_from():
    assert parse_broker_file(OF_5_5).found == BrokerOffsets(
        offsets={EntryKey("set0", "og"): {0: 1111}},
        version=OffsetsVersion(counter=0, timestamp=1795718657471),
        pull_offsets={EntryKey("%RETRY%og", "og"): {0: 0}, EntryKey("set0", "og"): {0: 1111}},
    )


def test_file_with_light_message_queues_has_the_offset_of_each():
    found = parse_broker_file(OF_LMQ).found
    assert found.lmq_offsets == {EntryKey("%LMQ%x", "%LMQ%x", EntryKind.LMQ): 10}
    assert found.offsets == {EntryKey("t", "g"): {0: 5}}


@pytest.mark.parametrize("text", [OF_5_5, OF_5_5_EMPTY, OF_5_1, OF_4_9])
def test_file_of_a_broker_is_written_again_to_the_byte(text):
    assert emit_broker_file(parse_broker_file(text).found) == text


@given(CONTENTS)
def test_file_is_read_as_it_was_written(content):
    assert parse_broker_file(emit_broker_file(content)).found == content


@given(TABLES)
def test_standard_json_is_read_too(table):
    """Tools that change a file write quoted queue ids, as standard JSON wants them."""
    texts = {
        f"{key.topic}@{key.group}{'@broadcast' if key.kind is EntryKind.BROADCAST else ''}": queues
        for key, queues in table.items()
    }
    assert parse_broker_file(json.dumps({"offsetTable": texts}).encode()).found.offsets == table


def test_file_that_is_cut_anywhere_cannot_be_used():
    for cut in range(len(OF_5_5)):
        with pytest.raises(OffsetFileError):
            parse_broker_file(OF_5_5[:cut])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"[]", "line 1, column 1: this is no object"),
        (b"{}", "offsetTable is missing"),
        (b'{"pullOffsetTable":{"t@g":{0:5}}}', "offsetTable is missing"),
        (b'{"offsetTable":null}', "line 1, column 2: offsetTable is no object"),
        (b'{"offsetTable":{},\n"offsetTable":{}}', "line 2, column 1: the field offsetTable occurs twice"),
        (b'{"offsetTable":{},"pullOffsetTable":[]}', "pullOffsetTable is no object"),
        (b'{"offsetTable":{},"dataVersion":7}', "dataVersion is no object"),
        (b'{"offsetTable":{},"dataVersion":{"counter":"x"}}', "dataVersion has no counter"),
        (b'{7:{},"offsetTable":{}}', "name of a field is no string"),
        (b'{"offsetTable":{"t@g":{0:5}}', "ends in the middle"),
        (b'{"offsetTable":{"t@\xff":{0:5}}}', "no UTF-8"),
    ],
)
def test_broken_file_is_not_used_at_all(text, error):
    with pytest.raises(OffsetFileError, match=error):
        parse_broker_file(text)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('"t@g":{0:-1}', f"queue 0 has offset -1: offsets are 0 to {OFFSET_MAX}"),
        (f'"t@g":{{0:5,1:{2**63}}}', f"queue 1 has offset {2**63}"),
        (f'"t@g":{{0:{"9" * 5000}}}', "queue 0 has offset 9999"),
        ('"t@g":{0:1.5}', "queue 0 has offset 1.5: offsets are whole numbers"),
        ('"t@g":{0:"5"}', "queue 0 has no number"),
        ('"t@g":{0:true}', "queue 0 has no number"),
        ('"t@g":{0:null}', "queue 0 has no number"),
        ('"t@g":{-1:5}', "queue id -1 is not one of 0 to"),
        (f'"t@g":{{{QUEUES_MAX}:5}}', f"queue id {QUEUES_MAX} is not"),
        ('"t@g":{"x":5}', "no whole number"),
        ('"t@g":{true:5}', "no whole number"),
        ('"t@g":{0:5,"0":6}', "queue 0 occurs twice"),
        ('"t@g":{"$ref":"$.offsetTable"}', "no whole number"),
        ('"t@g":7', "no offsets by queue id"),
        ('"t":{0:5}', "has no @"),
        ('"@g":{0:5}', "blank topic"),
        ("7:{0:5}", "key is no string"),
    ],
)
def test_odd_entry_is_refused_with_its_reason_and_the_others_are_used(entry, reason):
    reasons, used = refusals(f'{entry},"u@g":{{0:1}}')
    assert len(reasons) == 1
    assert reason in reasons[0]
    assert used == {EntryKey("u", "g"): {0: 1}}


def test_entry_with_one_odd_queue_is_not_taken_in_part():
    reasons, used = refusals('"t@g":{0:5,1:-7,2:9}')
    assert len(reasons) == 1
    assert used == {}


def test_entry_that_occurs_twice_is_refused_both_times():
    reasons, used = refusals('"t@g":{0:5},"u@g":{0:1},"t@g":{0:6}')
    assert reasons == ["it occurs more than once: which one counts is unknown"] * 2
    assert used == {EntryKey("u", "g"): {0: 1}}


def test_refused_entry_says_where_it_is():
    refused = parse_broker_file(OF_4_9.replace(b"{0:1\n", b"{0:-1\n")).refused
    assert [str(each)[:70] for each in refused] == [
        "line 5, column 19: '%RETRY%g1@g1' of offsetTable: queue 0 has offset -1"[:70]
    ]


def test_odd_light_message_queue_is_refused_alone():
    read = parse_broker_file(b'{"offsetTable":{},"lmqOffsetTable":{"%LMQ%x@g":-1,"%LMQ%y@g":{0:1},"%LMQ%z@g":3,"z":1}}')
    assert [each.key for each in read.refused] == ["%LMQ%x@g", "%LMQ%y@g", "z"]
    assert read.found.lmq_offsets == {EntryKey("%LMQ%z", "g", EntryKind.LMQ): 3}


def test_group_without_offsets_has_none_and_not_0():
    assert refusals('"t@g":{}') == ([], {EntryKey("t", "g"): {}})


def test_name_that_no_key_can_hold_is_not_written():
    with pytest.raises(OddEntryKey, match="names with @ cannot be written"):
        emit_broker_file(BrokerOffsets(offsets={EntryKey("a@b", "g"): {0: 1}}))


@pytest.mark.parametrize(
    "content",
    [
        {"offsets": {EntryKey("t", "g", EntryKind.LMQ): {0: 1}}},
        {"offsets": {}, "pull_offsets": {EntryKey("t", "g", EntryKind.LMQ): {0: 1}}},
        {"offsets": {}, "lmq_offsets": {EntryKey("t", "g"): 1}},
    ],
)
def test_key_of_another_table_is_not_written_as_an_ordinary_one(content):
    with pytest.raises(OddEntryKey, match="it would be read as another one"):
        emit_broker_file(BrokerOffsets(**content))


def test_each_of_many_refused_entries_says_its_own_line():
    entries = ",\n".join(f'"t@g{number}":{{0:-1}}' for number in range(20_000))
    refused = parse_broker_file(file_of(entries)).refused
    assert (len(refused), refused[-1].line) == (20_000, 20_000)
