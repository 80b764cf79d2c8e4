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


def read_all(body, known=()):
    """Return keys and values, skipping entries whose texts are known."""
    reader, found = OffsetTable(body).reader(), []
    while True:
        if (text := next((each for each in known if reader.skip(each)), None)) is not None:
            found.append(text)
        elif (entry := reader.next_entry()) is None:
            break
        else:
            found.append((entry.key, entry.value))
    for _ in reader.check_end():
        pass
    return found


def test_entry_whose_text_is_known_is_skipped():
    known = [b'"orders@readers-1":{0:5,1:7}', b'"payments@readers-1":{0:3}']
    assert read_all(OF_MANY, known) == [
        known[0],
        (b"orders@loud@broadcast", b"{0:9}"),
        (b"orders-2@x", b"{0:1}"),
        known[1],
    ]


@pytest.mark.parametrize(
    "known", [b'"orders@readers-1":{0:5}', b'"orders@r":{0:5,1:7}', b'"orders@readers-1":{0:5,1:6}']
)
def test_entry_with_another_text_is_not_skipped(known):
    assert read_all(OF_MANY, [known])[0] == (b"orders@readers-1", b"{0:5,1:7}")


@pytest.mark.parametrize("body", [OF_4_9, OF_5_5, OF_MANY])
def test_answer_that_is_cut_anywhere_is_an_error(body):
    for cut in range(len(body)):
        with pytest.raises(BodyError):
            read_all(body[:cut])


@pytest.mark.parametrize(
    "other", [7, "x", "}", '{"', [], [{"a": {"b": [{}]}}], {"{": {"}": {'"': "\\"}}}, {"a": '\\"'}]
)
def test_whatever_follows_the_table_is_read_to_its_end(other):
    text = json.dumps({"offsetTable": {"t@g": {0: 5}}, "other": other, "last": 0})
    assert read_all(text.encode()) == [(b"t@g", b'{"0": 5}')]


def test_end_of_a_long_answer_is_found_in_slices():
    pulled = ",".join(f'"t{number}@g":{{0:5}}' for number in range(10 * SLICE_ENTRIES))
    reader = OffsetTable(f'{{"offsetTable":{{}},"pullOffsetTable":{{{pulled}}}}}'.encode()).reader()
    assert reader.next_entry() is None
    assert len(list(reader.check_end())) > 10


def test_broker_without_light_message_queues_has_no_table_of_them():
    assert OffsetTable(OF_5_5).lmq_reader() is None
    assert OffsetTable(b'{"lmqOffsetTable":{"a@b":7},"offsetTable":{}}').lmq_reader().next_entry().value == b"7"


def pulled(body):
    found = OffsetTable(body).pulled_of_topics(["orders"])
    return None if found is None else [each for each in found if each is not None]


def test_pulled_positions_are_read_as_offsets_are():
    body = (
        b'{"offsetTable":{"orders@readers-1":{1:1}},'
        b'"pullOffsetTable":{"orders@readers-1":{0:5,1:6},"orders@loud@broadcast":{0:9},"payments@x":{0:1}}}'
    )
    assert pulled(body) == [("orders", "readers-1", {0: 5, 1: 6}, False), ("orders", "loud", {0: 9}, True)]


def test_broker_that_does_not_say_what_was_pulled_differs_from_one_from_which_nothing_was():
    assert pulled(OF_4_9) is None
    assert pulled(b'{"offsetTable":{},"pullOffsetTable":{}}') == []


@pytest.mark.parametrize(
    "body",
    [
        # A group of this name, in a table that leads from groups to topics.
        b'{"groupTopicMap":{"pullOffsetTable":["orders"]},"offsetTable":{"orders@pullOffsetTable":{0:5}}%b}',
        b'{"offsetTable":{"orders@\\"pullOffsetTable\\":{":{0:5}}%b}',
        b'{"lmqOffsetTable":{"pullOffsetTable":5},"offsetTable":{"orders@g":{0:5}}%b}',
    ],
)
def test_name_like_that_of_the_pulled_positions_is_not_taken_for_them(body):
    assert pulled(body % b"") is None
    assert pulled(body % b',"pullOffsetTable":{"orders@g":{0:7}}') == [("orders", "g", {0: 7}, False)]


def test_offsets_of_groups_are_read_in_each_topic_and_those_of_broadcasting_members_are_none():
    body = (
        b'{"offsetTable":{"orders@g":{0:5,1:0},"payments@g":{3:7},"orders@g@broadcast":{0:1},"orders@other":{0:9},'
        b'"orders@gg":{0:9},"broken@g":{0:"x"}}}'
    )
    answer = offsets_of_groups(["g", "absent"]).read_response(RemotingCommand(0, body=body))

    assert answer == {("g", "orders"): {0: 5, 1: 0}, ("g", "payments"): {3: 7}}
