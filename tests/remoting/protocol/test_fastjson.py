"""Texts as the Java side writes and reads them. Where only some releases read a text, the test says which."""

import json
from contextlib import suppress

import pytest

from remoting.protocol.errors import BodyError
from remoting.protocol.fastjson import (
    BARE_KEYS_BYTES_MAX,
    PARSE_BYTES_MAX,
    Dialect,
    encode,
    parse,
    with_quoted_integer_keys,
)
from remoting.protocol.shapes.route import BrokerData

A_BROKER = BrokerData(
    broker_addrs={0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}, broker_name="broker-a", cluster="DefaultCluster"
)


# Writing


def test_broker_ids_are_bare_for_requesters_that_know_only_fastjson():
    assert encode(A_BROKER, Dialect.BARE_INTEGER_KEYS) == (
        b'{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a",'
        b'"cluster":"DefaultCluster","enableActingMaster":false}'
    )


def test_broker_ids_are_quoted_for_requesters_of_standard_json():
    assert encode(A_BROKER, Dialect.STANDARD) == (
        b'{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"broker-a",'
        b'"cluster":"DefaultCluster","enableActingMaster":false}'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([{1: 2}, {"a": {-1: [{5: None}]}}], b'[{1:2},{"a":{-1:[{5:null}]}}]'),
        ({1: {2: {3: "x"}}}, b'{1:{2:{3:"x"}}}'),
        ({}, b"{}"),
        ({"a": {}}, b'{"a":{}}'),
        ([], b"[]"),
        ("text", b'"text"'),
        ({"b": 1, "a": 2}, b'{"b":1,"a":2}'),
    ],
)
def test_bare_keys_are_written_wherever_a_map_is_keyed_by_integers(value, text):
    assert encode(value, Dialect.BARE_INTEGER_KEYS) == text


@pytest.mark.parametrize("dialect", Dialect)
def test_text_is_raw_utf8_with_the_escapes_of_java_5_5(dialect):
    value = "caf\u00e9 \u4e2d \u2028 \x7f <>&'/ \" \\ \b\t\n\f\r \x01"
    # 5.5.0 answered these characters like this; fastjson 1 (until 5.3) escapes \u007F and \u2028 as well.
    assert encode([value], dialect) == (
        '["caf\u00e9 \u4e2d \u2028 \x7f <>&\'/ \\" \\\\ \\b\\t\\n\\f\\r \\u0001"]'.encode()
    )


# Reading


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{0:"a",1:"b"}', {"0": "a", "1": "b"}),
        (b"{-1:1}", {"-1": 1}),
        (b'{0:"a","1":"b"}', {"0": "a", "1": "b"}),
        (b'{ 0 : "a" , -1 :"b"}', {"0": "a", "-1": "b"}),
        (b'[{1:{2:3}},{"a":{4:5}}]', [{"1": {"2": 3}}, {"a": {"4": 5}}]),
        (b'{1:"a","1":"b"}', {"1": "b"}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":"1"}\n', {"a": "1"}),
        (b' \t\r\n{"a":1} \n', {"a": 1}),
        (b"[1,2]", [1, 2]),
        (b"1.5", 1.5),
        (b'"x"', "x"),
        (b"null", None),
    ],
)
def test_what_real_peers_write_is_read(text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":null,"b":1}', {"b": 1}),
        (b'{"a":[null,{"b":null}]}', {"a": [None, {}]}),
        (b'{1:null,"c":{"d":null,"e":"null"}}', {"c": {"e": "null"}}),
        (b"[null]", [None]),
    ],
)
def test_a_null_in_an_object_is_absent_and_one_in_a_list_stays(text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":"x,5:y"}', {"a": "x,5:y"}),
        (b'{"a":"{1:2}"}', {"a": "{1:2}"}),
        (b'{7:"{1:\\"{2:","b,-3 :":"\\\\",4:5}', {"7": '{1:"{2:', "b,-3 :": "\\", "4": 5}),
        (b'{"a":"\\\\",5:"b"}', {"a": "\\", "5": "b"}),
        (b'{"a":"/* no comment */ // \'"}', {"a": "/* no comment */ // '"}),
        (b"{'a':'x,5:y{1:'}", {"a": "x,5:y{1:"}),
    ],
)
def test_what_looks_like_a_key_inside_a_string_is_left_alone(text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # All fastjson releases.
        (b"{'a':'b'}", {"a": "b"}),
        (b"{'a\"b\\'c\\\"d':1}", {'a"b\'c"d': 1}),
        (b'{"a":1,}', {"a": 1}),
        (b"[1,2,]", [1, 2]),
        (b'{"a":1,/* note, }*/"b":2//end\n}', {"a": 1, "b": 2}),
        (b'{"a":"b\tc\nd\x01"}', {"a": "b\tc\nd\x01"}),
        (b'{"a":"b\tc\\n\\u00e9\\\\"}', {"a": "b\tc\n\u00e9\\"}),
        # fastjson 1 only: 5.4 and later close the connection.
        (b"{a:1,b_2 : 'c',$ref:\"d\"}", {"a": 1, "b_2": "c", "$ref": "d"}),
        (b"{1:1,'2':2,}", {"1": 1, "2": 2}),
    ],
)
def test_the_liberties_of_fastjson_are_read(text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"  ",
        b"{",
        b"}",
        b"{]",
        b'{"a"}',
        b'{"a":}',
        b"{,:1}",
        b"{[:1}",
        b"{1:2:3}",
        b'{"a":1}x',
        b'{"a":1}{}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\xff"}',
        b"{'a':'\xff'}",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b"{a:b}",
        b"[1 2]",
        b"[tr/**/ue]",
        b'["a" "b"]',
        b'{"a":"b',
        b"{'a':'b",
        b"{'a':'b\\q'}",
        b"/* open",
        b'{"a":1}/',
        b"#",
        b"\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_no_json_even_for_java_is_refused(text):
    with pytest.raises(BodyError, match="not readable as JSON"):
        parse(text)


def test_the_refusal_names_the_place_in_the_text_as_received():
    with pytest.raises(BodyError, match=r"^not readable as JSON: JSON is malformed: .* \(byte 8\)$"):
        parse(b'{"a":1  ;"b":2}')


@pytest.mark.parametrize("open_text", [b"[", b'{"a":', b"{1:", b"[{'a':", b'{"a":[null,'])
def test_deep_nesting_is_refused_not_a_crash(open_text):
    with pytest.raises(BodyError, match="not readable as JSON"):
        parse(open_text * 100_000)


@pytest.mark.parametrize(
    ("open_text", "close_text"), [(b"[", b"]"), (b'{"a":', b"}"), (b"{1:", b"}"), (b"{'a':", b"}")]
)
class TestNesting:
    def test_four_hundred_levels_are_read(self, open_text, close_text):
        depth = 400
        value = parse(open_text * depth + b"[null]" + close_text * depth)
        for _ in range(depth):
            [value] = value.values() if isinstance(value, dict) else value
        assert value == [None]

    def test_any_depth_is_read_or_refused(self, open_text, close_text):
        for depth in [*range(450, 1020, 7), 5000]:
            with suppress(BodyError):
                assert parse(open_text * depth + b"[null]" + close_text * depth)


def test_liberties_are_read_up_to_their_limit():
    text = b"{'a':'%b'}"
    fitting = PARSE_BYTES_MAX - len(text % b"")
    assert parse(text % (b"x" * fitting)) == {"a": "x" * fitting}
    with pytest.raises(BodyError):
        parse(text % (b"x" * (fitting + 1)))


def test_bare_integer_keys_next_to_strings_that_look_like_keys_are_quoted_up_to_their_limit():
    value = dict.fromkeys(range(BARE_KEYS_BYTES_MAX // 20), "{1:,2:")
    text = encode(value, Dialect.BARE_INTEGER_KEYS)
    assert PARSE_BYTES_MAX < len(text) < BARE_KEYS_BYTES_MAX
    assert json.loads(with_quoted_integer_keys(text)) == {str(key): item for key, item in value.items()}


def test_text_is_held_as_plain_values_only_up_to_a_limit():
    assert parse(b" " * (PARSE_BYTES_MAX - 2) + b"{}") == {}
    with pytest.raises(BodyError, match=f"over {PARSE_BYTES_MAX} bytes"):
        parse(b" " * (PARSE_BYTES_MAX - 1) + b"{}")


@pytest.mark.parametrize(
    "unit",
    [b",1:", b"{", b"[", b"a ", b"a:", b",]", b"{}", b'"', b"'", b"\\", b"/*", b"//", b"/**/", b",1", b", ", b"-"],
)
def test_repeated_nonsense_is_refused_without_effort(unit):
    """Each would take minutes if any of its bytes were looked at again for every other one."""
    with pytest.raises(BodyError):
        parse(b"{" + unit * (PARSE_BYTES_MAX // len(unit) - 1))
