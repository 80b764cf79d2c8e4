"""JSON of fastjson is read with positions; broken text says where it is broken."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.offsets.files import json_text
from controller.offsets.files.json_text import (
    DEPTH_MAX,
    TEXT_BYTES_MAX,
    JsonObject,
    ObjectMember,
    OffsetFileError,
    OtherNumber,
    decode_text,
    parse_json,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=10,
)


def plain(node):
    """Return what json.loads would."""
    if isinstance(node, JsonObject):
        return {member.key: plain(member.value) for member in node.members}
    return [plain(each) for each in node] if isinstance(node, list) else node


@given(value=VALUES, indent=st.sampled_from([None, 2, "\t"]), ascii_only=st.booleans())
def test_standard_json_is_read_as_json_reads_it(value, indent, ascii_only):
    assert plain(parse_json(json.dumps(value, indent=indent, ensure_ascii=ascii_only))) == value


def test_keys_are_integers_and_objects():
    inner = JsonObject([ObjectMember("q", 0, 2)])
    assert parse_json('{{"q":0}:7,1:8,"1":9}') == JsonObject(
        [ObjectMember(inner, 7, 1), ObjectMember(1, 8, 11), ObjectMember("1", 9, 15)]
    )


def test_member_that_occurs_twice_is_there_twice():
    assert [each.value for each in parse_json('{"a":1,"a":2}').members] == [1, 2]


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
    with pytest.raises(OffsetFileError, match=what) as raised:
        parse_json(text)
    assert (raised.value.line, raised.value.column) == (line, column)
    assert str(raised.value).startswith(f"line {line}, column {column}: ")


def test_bytes_that_are_no_utf_8_are_an_error_with_their_place():
    with pytest.raises(OffsetFileError, match="line 2, column 2: byte 3 is no UTF-8"):
        decode_text('{\n"ü'.encode()[:-1] + b"\xff")


def test_text_above_the_limit_is_refused_before_it_is_read():
    with pytest.raises(OffsetFileError, match="67108865 bytes, of which 67108864 are allowed"):
        decode_text(bytes(TEXT_BYTES_MAX + 1))


@pytest.mark.parametrize("text", ["{0:0,1:1,2:2}", "[0,1,2]", '{"a":[0],"b":1}', '{"a":{0:0,1:1}}'])
def test_text_of_too_many_members_is_refused_before_its_end(text, monkeypatch):
    monkeypatch.setattr(json_text, "MEMBERS_MAX", 3)
    parse_json(text)
    monkeypatch.setattr(json_text, "MEMBERS_MAX", 2)
    with pytest.raises(OffsetFileError, match="more than 2 members of objects and elements of arrays"):
        parse_json(text)


@given(VALUES.filter(lambda value: isinstance(value, dict | list | str)), st.data())
def test_text_that_is_cut_is_an_error(value, data):
    text = json.dumps(value)
    with pytest.raises(OffsetFileError):
        parse_json(text[: data.draw(st.integers(0, len(text) - 1))])
