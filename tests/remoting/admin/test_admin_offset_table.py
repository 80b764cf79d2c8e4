"""The offsets of many topics in one answer of a broker."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoting.admin.offset_table import SLICE_ENTRIES, OffsetTable, all_offsets
from remoting.admin.offsets import offsets_of_topic
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError

OF_5_5 = (
    b'{"dataVersion":{"counter":0},"groupTopicMap":{"readers-1":["orders"]},'
    b'"offsetTable":{"orders@readers-1":{0:5,1:7},"orders@loud@broadcast":{0:9},"orders-2@x":{0:1},'
    b'"payments@readers-1":{0:3}},"pullOffsetTable":{"orders@readers-1":{0:50}}}'
)


def found(body, *topics):
    return [each for each in OffsetTable(body).of_topics(topics) if each is not None]


def test_offsets_of_wanted_topics_are_read_and_no_others():
    assert found(OF_5_5, "orders", "payments") == [
        ("orders", "readers-1", {0: 5, 1: 7}),
        ("payments", "readers-1", {0: 3}),
    ]


def test_request_has_no_fields():
    wanted = all_offsets()
    assert (wanted.request.code, wanted.request.ext_fields) == (43, None)
    assert wanted.read_response(RemotingCommand(0, body=OF_5_5)).body == OF_5_5


def test_caller_gets_a_turn_after_each_slice():
    table = {f"t{number}@g": {"0": number} for number in range(2 * SLICE_ENTRIES)}
    pieces = list(OffsetTable(json.dumps({"offsetTable": table}).encode()).of_topics(["t7"]))
    assert pieces == [("t7", "g", {0: 7}), None, None]


@pytest.mark.parametrize("body", [b'{"offsetTable":{}}', b'{ "offsetTable" : { } , "x":{"orders@g":{0:1}}}'])
def test_broker_without_offsets_has_an_empty_table(body):
    assert found(body, "orders") == []


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"offsetTable":{"orders@g":{0:1}', b'{"offsetTable":{"orders@g":3}}', OF_5_5[:150]]
)
def test_text_that_is_cut_or_no_table_is_an_error(body):
    with pytest.raises(BodyError):
        found(body, "orders")


def test_offset_that_is_no_number_is_an_error():
    with pytest.raises(BodyError, match="offsets of topic orders are not readable"):
        found(b'{"offsetTable":{"orders@g":{0:x}}}', "orders")


NAMES = st.text(min_size=1).filter(lambda name: "@" not in name)


@given(groups=st.dictionaries(NAMES, st.dictionaries(st.integers(0, 9), st.integers(0, 2**60), min_size=1)))
def test_both_ways_of_reading_agree_whatever_groups_are_called(groups):
    table = {f"orders@{group}": {str(queue): at for queue, at in each.items()} for group, each in groups.items()}
    body = json.dumps({"offsetTable": table, "pullOffsetTable": table}, ensure_ascii=False).encode()
    expected = offsets_of_topic("orders").read_response(RemotingCommand(0, body=body)).by_group
    assert {each.group: each.offsets for each in found(body, "orders")} == expected
