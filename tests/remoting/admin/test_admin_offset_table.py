"""The offsets of topics in one answer of a broker."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoting.admin.offset_table import (
    SLICE_BYTES,
    SLICE_ENTRIES,
    OffsetTable,
    UnreadableOffsets,
    all_offsets,
    offsets_of_groups,
)
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError

OF_4_9 = (
    b'{"offsetTable":{"orders@readers-1":{0:5,1:5,2:5,3:5},"orders@gx":{2:5},"%RETRY%readers-1@readers-1":{0:0},'
    b'"nope@gx":{2:5}}}'
)
#: Its last table has positions pulled from, under the same keys.
OF_5_5 = (
    b'{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":1795580193694},"groupTopicMap":{"readers-1":["orders"]},'
    b'"offsetTable":{"orders@readers-1":{1:1}},"pullOffsetTable":{"orders@readers-1":{0:5,1:5,2:5,3:5}}}'
)
OF_MANY = (
    b'{"offsetTable":{"orders@readers-1":{0:5,1:7},"orders@loud@broadcast":{0:9},"orders-2@x":{0:1},'
    b'"payments@readers-1":{0:3}}}'
)


def pieces(body, *topics):
    return [each for each in OffsetTable(body).of_topics(topics) if each is not None]


def by_group(body, topic="t"):
    return {each.group: each.offsets for each in pieces(body, topic) if not each.is_broadcast}


def test_offsets_of_wanted_topics_are_read_and_no_others():
    assert pieces(OF_MANY, "orders", "payments") == [
        ("orders", "readers-1", {0: 5, 1: 7}, False),
        ("orders", "loud", {0: 9}, True),
        ("payments", "readers-1", {0: 3}, False),
    ]


def test_request_has_no_fields():
    wanted = all_offsets()
    assert (wanted.request.code, wanted.request.ext_fields) == (43, None)
    assert wanted.read_response(RemotingCommand(0, body=OF_5_5)).body == OF_5_5


def test_caller_gets_a_turn_after_each_slice():
    table = {f"t{number}@g": {"0": number} for number in range(2 * SLICE_ENTRIES)}
    found = list(OffsetTable(json.dumps({"offsetTable": table}).encode()).of_topics(["t7"]))
    assert found == [("t7", "g", {0: 7}, False), None, None]


def test_caller_gets_a_turn_sooner_where_what_is_read_is_long():
    queues = {str(queue): 7 for queue in range(SLICE_BYTES // 7)}
    table = {f"t@g{number}": queues for number in range(4)} | {f"u@g{number}": queues for number in range(4)}
    found = list(OffsetTable(json.dumps({"offsetTable": table}).encode()).of_topics(["t"]))
    assert [each and each.group for each in found] == ["g0", None, "g1", None, "g2", None, "g3", None]


def test_offsets_of_a_topic_are_those_of_its_groups():
    assert by_group(OF_4_9, "orders") == {"readers-1": {0: 5, 1: 5, 2: 5, 3: 5}, "gx": {2: 5}}
    assert by_group(OF_4_9, "%RETRY%readers-1") == {"readers-1": {0: 0}}
    assert by_group(OF_4_9, "rders") == {}


def test_positions_pulled_from_do_not_count_as_committed():
    assert by_group(OF_5_5, "orders") == {"readers-1": {1: 1}}
    assert by_group(OF_5_5.replace(b'{"orders@readers-1":{1:1}}', b"{}"), "orders") == {}


def test_offsets_of_broadcasting_groups_are_apart():
    text = b'{"offsetTable":{"t@g@broadcast":{"0":7},"t@g":{0:3}},"lmqOffsetTable":{"t@t":10}}'
    assert pieces(text, "t") == [("t", "g", {0: 7}, True), ("t", "g", {0: 3}, False)]


@given(st.dictionaries(st.text(), st.dictionaries(st.integers(0, 99), st.integers(0, 2**63 - 1)), max_size=5))
def test_names_with_any_characters_do_not_hide_offsets(others):
    """Brokers of 4.9 store an offset for whatever name is sent to them."""
    table = {f"t@{name}": queues for name, queues in others.items() if not name.endswith("@broadcast")}
    hidden = {f'x"{name}"t@g': {0: 1} for name in others}
    every = table | hidden | {"t@": {0: 5}}
    text = json.dumps({"offsetTable": every, "pullOffsetTable": hidden | {"t@x": {0: 6}}}, ensure_ascii=False)
    expected = {key.removeprefix("t@"): queues for key, queues in table.items()} | {"": {0: 5}}
    assert by_group(text.encode(errors="replace")) == expected


@pytest.mark.parametrize("body", [b'{"offsetTable":{}}', b'{ "offsetTable" : { } , "x":{"t@g":{0:1}}}'])
def test_broker_without_offsets_has_an_empty_table(body):
    assert by_group(body) == {}


@pytest.mark.parametrize(
    "text",
    [b"", b"{}", b'{"dataVersion":{}}', b'{"offsetTable":{"t@g":{0:1}', OF_4_9[:60]],
)
def test_text_without_the_table_of_offsets_is_an_error_and_not_empty(text):
    with pytest.raises(BodyError):
        by_group(text)


@pytest.mark.parametrize("value", [b"null", b"[]"])
def test_table_with_something_else_than_offsets_is_an_error(value):
    with pytest.raises(BodyError, match="not readable"):
        by_group(b'{"offsetTable":{"t@g":%b,"u@g":{}}}' % value)


@pytest.mark.parametrize(
    "entry",
    [b'"t@g":{"$ref":"$.offsetTable"}', b'"t@g":{0:x}', b'"t@g\xff":{0:1}', b'"t@g":{0:"\xff"}'],
)
def test_offsets_of_a_group_that_are_not_readable_are_an_error_of_their_topic_alone(entry):
    unreadable, readable = pieces(b'{"offsetTable":{%b,"u@g":{0:1}}}' % entry, "t", "u")
    assert isinstance(unreadable, UnreadableOffsets)
    assert unreadable.topic == "t"
    assert str(unreadable.error).startswith("offsets of topic t are not readable")
    assert readable == ("u", "g", {0: 1}, False)


@pytest.mark.parametrize("cut", [20, 60, len(OF_4_9) - 2])
def test_table_that_is_cut_is_an_error(cut):
    with pytest.raises(BodyError):
        pieces(OF_4_9[:cut], "orders")


@pytest.mark.parametrize(
    "before", [b'"m":{"offsetTable":["orders"]}', b'"m":{"offsetTable":5}', rb'"m":"\"offsetTable\":{"']
)
def test_name_like_that_of_the_table_is_not_taken_for_it(before):
    assert pieces(b'{%b,"offsetTable":{"orders@g":{0:7}}}' % before, "orders") == [("orders", "g", {0: 7}, False)]


def test_offsets_of_groups_are_read_in_each_topic_and_those_of_broadcasting_members_are_none():
    body = (
        b'{"offsetTable":{"orders@g":{0:5,1:0},"payments@g":{3:7},"orders@g@broadcast":{0:1},"orders@other":{0:9},'
        b'"orders@gg":{0:9},"broken@g":{0:"x"}}}'
    )
    answer = offsets_of_groups(["g", "absent"]).read_response(RemotingCommand(0, body=body))

    assert answer == {("g", "orders"): {0: 5, 1: 0}, ("g", "payments"): {3: 7}}
