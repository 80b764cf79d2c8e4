"""Frames as peers send them and as we do, byte for byte. E1 to E12 are worked examples of the protocol notes.

Examples and table rows were produced by, or sent to, running Java NameServers: 5.5.0, and a release with fastjson 1.
"""

import gc
import struct

import pytest
from golden_frames import exchanges
from listening import E1, E4, E6, E11

from remoting.protocol.codes import LANGUAGES, SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import FrameError, FrameTooLarge, HeaderError
from remoting.protocol.frame import (
    EXT_FIELDS_MAX,
    FRAME_BYTES_MAX_DEFAULT,
    HEADER_BYTES_MAX,
    decode,
    decode_header,
    decode_pieces,
    encode,
)
from remoting.protocol.frame_reader import CommandReader, FrameReader

JSON, BINARY = SerializeType.JSON, SerializeType.ROCKETMQ

V5_3_3, V5_5_0 = 479, 513

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


def a_frame(header, body=b"", *, kind=0):
    header = header.encode() if isinstance(header, str) else header
    return struct.pack(">II", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def received(data, *, frame_bytes_max=FRAME_BYTES_MAX_DEFAULT):
    """Return the only command in `data`, which must be nothing but that."""
    reader = CommandReader(frame_bytes_max)
    [command] = reader.receive(data)
    assert reader.error is None
    assert reader.partial_frame_bytes == 0
    return command


def a_json_frame(**values):
    """A frame whose header has these values, written as JSON already."""
    return a_frame("{" + ",".join(f'"{key}":{text}' for key, text in values.items()) + "}")


def rejected(data):
    """Return why the connection closes over `data`, before anything was received."""
    reader = CommandReader()
    assert reader.receive(data) == []
    assert reader.partial_frame_bytes == 0
    assert reader.error is not None
    return reader.error


def a_command(code, opaque, **fields):
    """One as the Java peers of the examples, release 5.3.3, send it."""
    return RemotingCommand(**{"code": code, "opaque": opaque, "language": "JAVA", "version": V5_3_3} | fields)


# The worked examples that the recording below does not have

E3 = bytes.fromhex("00000070 0000006c") + (
    b'{"code":105,"language":"GO","version":317,"opaque":3,"flag":0,"remark":"","extFields":{"topic":"TopicTest"}}'
)
E5 = (
    bytes.fromhex("00000099 01000095 0011 00 01df 00000001 00000001 00000080")
    + b"No topic route info in name server for the topic: t"
    + FAQ.encode()
    + bytes(4)
)
E12 = a_frame(
    b'{"code":905,"extFields":{"offlineBrokerAddr":"127.0.0.1:21001","minBrokerAddr":"127.0.0.1:21002",'
    b'"minBrokerId":"1"},"flag":2,"language":"JAVA","opaque":15,"serializeTypeCurrentRPC":"JSON","version":479}'
)

JAVA_EXAMPLES = {
    "E4 route request, binary": (E4, BINARY, a_command(105, 9, ext_fields={"topic": "TopicTest"})),
    "E5 no route, binary": (
        E5,
        BINARY,
        a_command(17, 1, flag=1, remark="No topic route info in name server for the topic: t" + FAQ),
    ),
    "E11 unknown request": (E11, JSON, a_command(9999, 8)),
    "E12 notification": (
        E12,
        JSON,
        a_command(
            905,
            15,
            flag=2,
            ext_fields={
                "offlineBrokerAddr": "127.0.0.1:21001",
                "minBrokerAddr": "127.0.0.1:21002",
                "minBrokerId": "1",
            },
        ),
    ),
}


@pytest.mark.parametrize(("data", "kind", "command"), JAVA_EXAMPLES.values(), ids=JAVA_EXAMPLES)
def test_what_java_sent_is_received(data, kind, command):
    assert received(data) == command
    assert list((received(data).ext_fields or {}).items()) == list((command.ext_fields or {}).items())


@pytest.mark.parametrize(("data", "kind", "command"), JAVA_EXAMPLES.values(), ids=JAVA_EXAMPLES)
def test_we_send_what_java_would(data, kind, command):
    assert encode(command, kind) == data


def test_what_the_go_client_sends_is_received():
    assert received(E3) == RemotingCommand(
        105, 3, language="GO", version=317, remark="", ext_fields={"topic": "TopicTest"}
    )


def test_what_the_cpp_client_sends_with_a_newline_in_the_header_is_received():
    fields = {"AccessKey": "", "OnsChannel": "", "Signature": "", "topic": "Nope"}
    assert received(E6) == RemotingCommand(105, 4, language="CPP", version=333, remark="", ext_fields=fields)


# The recording


@pytest.mark.parametrize("peer", sorted({exchange.peer for exchange in exchanges()}))
def test_recorded_frames_are_received_and_sent_to_the_byte(peer):
    for exchange in exchanges():
        if exchange.peer != peer:
            continue
        recorded = [(exchange.request, exchange.request_header, exchange.serialize_type)]
        if exchange.answer is not None:
            recorded.append((exchange.answer, exchange.answer_header, JSON))
        for data, header, kind in recorded:
            command = received(data)
            assert as_recorded(command, kind) == header, exchange
            assert encode(command, kind) == data, exchange


def as_recorded(command, kind):
    """Return the header as the recorder wrote it down: absent keys left out, a binary language as its number."""
    header = {
        "code": command.code,
        "extFields": command.ext_fields,
        "flag": command.flag,
        "language": command.language,
        "opaque": command.opaque,
        "remark": command.remark,
        "version": command.version,
    }
    if kind is BINARY:
        header |= {"extFields": command.ext_fields or {}, "language": LANGUAGES.index(command.language)}
    else:
        header["serializeTypeCurrentRPC"] = "JSON"
    return {key: value for key, value in header.items() if value is not None}


# Frames


def test_frames_in_one_chunk_are_received_in_order():
    reader = CommandReader()
    assert [command.opaque for command in reader.receive(E1 + E3 + E4 + E6)] == [9, 3, 9, 4]


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 5, 7, 64, 139, 140, 1000])
def test_frames_are_received_in_any_chunks(chunk_bytes):
    data = E1 + E4 + E5 + E6
    reader = CommandReader()
    commands = []
    for at in range(0, len(data), chunk_bytes):
        commands += reader.receive(data[at : at + chunk_bytes])
    assert commands == CommandReader().receive(data)
    assert len(commands) == 4
    assert reader.partial_frame_bytes == 0


def test_partial_frame_is_kept_until_its_end():
    reader = CommandReader()
    assert reader.receive(E1 + E4[:-1]) == [received(E1)]
    assert reader.partial_frame_bytes == len(E4) - 1
    assert reader.receive(b"") == []
    assert reader.receive(E4[-1:] + E6[:3]) == [received(E4)]
    assert reader.partial_frame_bytes == 3


@pytest.mark.parametrize("serialize_type", [JSON, BINARY])
@pytest.mark.parametrize("chunk_bytes", [5, 100, 4095, 4096, 7000, 30_000])
@pytest.mark.parametrize("topic_chars", [5, 6000])
def test_a_long_frame_is_the_same_in_whatever_pieces_it_comes(serialize_type, chunk_bytes, topic_chars):
    command = a_command(103, 5, ext_fields={"topic": "t" * topic_chars}, body=bytes(range(256)) * 80)
    data = encode(command, serialize_type) + E1
    reader = CommandReader()
    commands = []
    for at in range(0, len(data), chunk_bytes):
        commands += reader.receive(data[at : at + chunk_bytes])
    assert commands == [received(encode(command, serialize_type)), received(E1)]


def test_a_long_frame_that_ends_with_its_piece_is_followed_by_others():
    command = a_command(103, 5, body=bytes(20_000))
    data = encode(command)
    reader = CommandReader()
    for _ in range(2):
        assert reader.receive(data[:8000]) == []
        assert reader.receive(data[8000:]) == [received(data)]
        assert reader.receive(E1) == [received(E1)]
        assert reader.partial_frame_bytes == 0


def test_a_long_frame_in_pieces_whose_header_is_longer_than_it_ends_the_stream():
    data = struct.pack(">II", 20_004, 30_000) + bytes(20_000)
    reader = CommandReader()
    assert reader.receive(data[:9000]) + reader.receive(data[9000:]) == []
    assert "does not fit" in str(reader.error)


def test_long_frame_in_small_pieces_is_not_read_again_for_each():
    """Otherwise this takes minutes."""
    data = a_frame("{}", bytes(16_000_000))
    reader = CommandReader()
    commands = []
    for at in range(0, len(data), 500):
        commands += reader.receive(data[at : at + 500])
    assert len(commands) == 1


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        ("00000000", "a frame length of 0 is below the 4 bytes of the header word"),
        ("00000003", "a frame length of 3 is below the 4 bytes of the header word"),
        ("ffffffff", "a frame length of -1 is below the 4 bytes of the header word"),
        ("80000000", "a frame length of -2147483648 is below the 4 bytes of the header word"),
        ("00fffffd", "a frame of 16777217 bytes is over the limit of 16777216 (frameMaxLength)"),
        ("7fffffff", "a frame of 2147483651 bytes is over the limit of 16777216 (frameMaxLength)"),
    ],
)
def test_an_impossible_length_closes_as_soon_as_it_is_read(length, reason):
    assert str(rejected(bytes.fromhex(length))) == reason


def test_frame_of_the_longest_length_is_received():
    body = bytes(16_777_216 - 8 - 2)
    data = a_frame("{}", body)
    reader = CommandReader()
    assert reader.receive(data[:-1]) == []
    assert reader.partial_frame_bytes == 16_777_215
    assert reader.receive(data[-1:]) == [RemotingCommand(0, language=None, version=0, body=body)]


def test_the_limit_can_be_set():
    assert received(E1, frame_bytes_max=139).opaque == 9
    reader = CommandReader(138)
    assert reader.receive(E1) == []
    assert isinstance(reader.error, FrameTooLarge)
    assert (reader.error.frame_bytes, reader.error.frame_bytes_max) == (139, 138)


def test_a_header_longer_than_its_frame_closes():
    assert (
        str(rejected(bytes.fromhex("00000008 00000005") + b"{}  ")) == "a header of 5 bytes does not fit a frame of 8"
    )


@pytest.mark.parametrize("kind", [2, 3, 127, 255])
def test_an_unknown_serialization_type_closes(kind):
    assert str(rejected(a_frame('{"code":105}', kind=kind))) == (
        f"serialization type {kind} is unknown; 0 (JSON) and 1 (ROCKETMQ) exist"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        bytes.fromhex("16030100a5010000a10303"),
        b"*1\r\n$4\r\nPING\r\n",
        bytes.fromhex("00000023 0012 0003 00000000 000c") + b"kafka-client" + bytes(20),
    ],
    ids=["HTTP/2", "HTTP/1", "TLS", "Redis", "Kafka"],
)
def test_another_protocol_closes(data):
    assert isinstance(rejected(data), FrameError)


def test_frames_before_invalid_bytes_are_received_and_none_after():
    reader = CommandReader()
    assert reader.receive(E1 + a_frame("junk") + E4) == [received(E1)]
    error = reader.error
    assert isinstance(error, HeaderError)
    assert reader.receive(E4) == []
    assert reader.partial_frame_bytes == 0
    assert reader.error is error


# JSON headers

ROUTE_OF_T = RemotingCommand(105, 7, language="JAVA", version=513, ext_fields={"topic": "T"})

ACCEPTED = {
    "as Java writes it": (
        '{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,'
        '"serializeTypeCurrentRPC":"JSON","version":513}'
    ),
    "a serialization type that is none": (
        '{"serializeTypeCurrentRPC":"ROCKETMQ","code":105,"extFields":{"topic":"T"},"language":"JAVA","opaque":7,'
        '"version":513}'
    ),
    "numbers as strings": (
        '{"code":"105","opaque":"+7","flag":"0","version":"513","language":"JAVA","extFields":{"topic":"T"}}'
    ),
    "the language as a number": '{"code":105,"opaque":7,"version":513,"language":0,"extFields":{"topic":"T"}}',
    "nulls": (
        '{"code":105,"opaque":7,"version":513,"language":"JAVA","flag":null,"remark":null,'
        '"extFields":{"topic":"T","x":null}}'
    ),
    "unknown keys": (
        '{"code":105,"opaque":7,"version":513,"language":"JAVA","extFields":{"topic":"T"},"x":[{"y":null}],"z":1.5}'
    ),
    "single quotes": "{'code':105,'opaque':7,'version':513,'language':'JAVA','extFields':{'topic':'T'}}",
    "trailing commas": '{"code":105,"opaque":7,"version":513,"language":"JAVA","extFields":{"topic":"T",},}',
    "blanks and newlines around": (
        '\n {"code": 105, "opaque":7,\r\n"version":513,"language":"JAVA","extFields":{ "topic" : "T"}} \t\n'
    ),
    "comments": (
        '{"code":105,/* the route */"opaque":7,"version":513,"language":"JAVA",// of\n"extFields":{"topic":"T"}}'
    ),
    "duplicate keys": (
        '{"code":1,"opaque":7,"version":513,"language":"JAVA","code":105,"extFields":{"topic":"S","topic":"T"}}'
    ),
    "fractions": '{"code":105.9,"opaque":7.1,"version":513.0,"language":"JAVA","extFields":{"topic":"T"}}',
    # fastjson 1 only; 5.4 and later close the connection.
    "unquoted keys": '{code:105,opaque:7,version:513,language:"JAVA",extFields:{topic:"T"}}',
    "bare integer keys in an unknown value": (
        '{"code":105,"opaque":7,"version":513,"language":"JAVA","extFields":{"topic":"T"},"x":{1:{-2:3}}}'
    ),
}


@pytest.mark.parametrize("header", ACCEPTED.values(), ids=ACCEPTED)
def test_a_header_is_received_in_every_spelling_that_java_accepts(header):
    assert received(a_frame(header)) == ROUTE_OF_T


def test_an_empty_object_is_request_0():
    assert received(a_frame("{}")) == RemotingCommand(0, language=None, version=0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("12", "12"),
        ("-1.5", "-1.5"),
        ("true", "true"),
        ('{"b":1,"a":[1,null,"x"]}', '{"b":1,"a":[1,null,"x"]}'),
        ("9" * 40, "9" * 40),
        ('""', ""),
        ('"caf\u00e9 \\u00e9\\n"', "caf\u00e9 \u00e9\n"),
        ('"a\tb"', "a\tb"),
    ],
)
def test_any_value_of_a_field_becomes_text(value, text):
    assert received(a_json_frame(extFields=f'{{"topic":{value}}}')).ext_fields == {"topic": text}


@pytest.mark.parametrize(("value", "text"), [("1", "1"), ("{}", "{}"), ('""', ""), ('"r"', "r"), ("null", None)])
def test_any_remark_becomes_text(value, text):
    assert received(a_json_frame(code='"1"', remark=value)).remark == text


@pytest.mark.parametrize(("value", "number"), [("true", 1), ("1e2", 100), ("-0.5", 0), ("null", 0)])
def test_number_is_read_as_java_reads_it(value, number):
    assert received(a_json_frame(code=value)).code == number


@pytest.mark.parametrize("opaque", [0, -1, 2**31 - 1, -(2**31)])
def test_every_opaque_of_32_bits_is_received(opaque):
    assert received(a_json_frame(opaque=opaque)).opaque == opaque
    assert received(a_json_frame(opaque=f'"{opaque}"')).opaque == opaque


@pytest.mark.parametrize(
    ("value", "language"),
    [("13", "NODE_JS"), ('"GO"', "GO"), ('"COBOL"', None), ('""', None), ('"9"', None), ("null", None)],
)
def test_unknown_language_is_none(value, language):
    assert received(a_json_frame(language=value)).language == language


def test_an_older_sender_may_leave_out_everything_but_the_code():
    assert received(a_frame('{"code":206}')) == RemotingCommand(206, 0, 0, None, 0, None, None, b"")


CLOSED = {
    "empty": (b"", "the header is not readable as JSON: Input data was truncated"),
    "blanks": (b"    ", "the header is not readable as JSON: Input data was truncated"),
    "null": (b"null", "the header is JSON, but not an object"),
    "list": (b"[]", "the header is JSON, but not an object"),
    "string": (b'"code"', "the header is JSON, but not an object"),
    "no JSON": (b"code=105", "the header is not readable as JSON: JSON is malformed: invalid character (byte 0)"),
    "text after the object": (b'{"code":105}x', "JSON is malformed: trailing characters"),
    "byte order mark": (b'\xef\xbb\xbf{"code":105}', "JSON is malformed: invalid character (byte 0)"),
    "invalid UTF-8": (b'{"extFields":{"topic":"\xff"}}', "can't decode byte 0xff"),
    "NaN": (b'{"code":NaN}', "JSON is malformed: invalid character (byte 8)"),
    "fields as a string": (b'{"extFields":"topic"}', "extFields is not an object"),
    "fields as a list": (b'{"extFields":[]}', "extFields is not an object"),
    "fields as a number": (b'{"extFields":1}', "extFields is not an object"),
    "code of two words": (b'{"code":10 5}', "JSON is malformed: expected ',' or '}' (byte 11)"),
    "code as text": (b'{"code":"abc"}', "code is not a number of 32 bits"),
    "code with blanks": (b'{"code":" 105"}', "code is not a number of 32 bits"),
    "code with underscore": (b'{"code":"1_0"}', "code is not a number of 32 bits"),
    "code in Arabic digits": ('{"code":"\u0663"}'.encode(), "code is not a number of 32 bits"),
    "code as a list": (b'{"code":["105"]}', "code is not a number of 32 bits"),
    "code too large": (b'{"code":2147483648}', "code is not a number of 32 bits"),
    "code far too large": (b'{"code":' + b"9" * 5000 + b"}", "Integer value out of range"),
    "code far too large, as text": (b'{"code":"' + b"9" * 5000 + b'"}', "code is not a number of 32 bits"),
    "code too large a fraction": (b'{"code":1e300}', "code is not a number of 32 bits"),
    "code beyond all fractions": (b'{"code":1e999}', "Number out of range"),
    "opaque too large": (b'{"opaque":2147483648}', "opaque is not a number of 32 bits"),
    "opaque too small": (b'{"opaque":-2147483649}', "opaque is not a number of 32 bits"),
    "opaque too large, as text": (b'{"opaque":"99999999999"}', "opaque is not a number of 32 bits"),
    "flag too large": (b'{"flag":4294967296}', "flag is not a number of 32 bits"),
    "version too large": (b'{"version":4294967296}', "version is not a number of 32 bits"),
    "language 14": (b'{"language":14}', "language is neither a name nor a number below 14"),
    "language -1": (b'{"language":-1}', "language is neither a name nor a number below 14"),
    "language true": (b'{"language":true}', "language is neither a name nor a number below 14"),
    "language as a list": (b'{"language":[1]}', "language is neither a name nor a number below 14"),
    "language far too large": (b'{"language":' + b"9" * 4000 + b"}", "neither a name nor a number"),
    "nested 20,000 deep": (b'{"x":' + b"[" * 20_000, "the header is not readable as JSON: nested too deeply"),
    "fields nested 5,000 deep": (b'{"extFields":{"topic":' + b'{"a":' * 5000, "the header is not readable as JSON"),
}


@pytest.mark.parametrize(("header", "reason"), CLOSED.values(), ids=CLOSED)
def test_a_header_that_java_cannot_read_closes_with_a_short_reason(header, reason):
    error = rejected(a_frame(header))
    assert isinstance(error, HeaderError)
    assert reason in str(error)
    assert len(str(error)) < 200


def test_fields_nested_to_any_depth_are_received_or_close():
    for depth in range(420, 1020, 5):
        reader = CommandReader()
        fields = '{"topic":' + "[" * depth + "]" * depth + "}"
        commands = reader.receive(a_json_frame(extFields=fields))
        assert bool(commands) == (reader.error is None)


# Binary headers


def an_entry(key, value, *, key_bytes=None, value_bytes=None):
    key_bytes = len(key) if key_bytes is None else key_bytes
    value_bytes = len(value) if value_bytes is None else value_bytes
    return struct.pack(">h", key_bytes) + key + struct.pack(">i", value_bytes) + value


TOPIC = an_entry(b"topic", b"TT")


def a_binary_frame(fields=TOPIC, *, fields_bytes=None, remark=b"", remark_bytes=None, tail=b"", body=b"", **numbers):
    given = {"code": 105, "language": 0, "version": 513, "opaque": 7, "flag": 0} | numbers
    header = struct.pack(">hBhii", *given.values())
    header += struct.pack(">i", len(remark) if remark_bytes is None else remark_bytes) + remark
    header += struct.pack(">i", len(fields) if fields_bytes is None else fields_bytes) + fields
    return a_frame(header + tail, body, kind=1)


def a_route_request(fields={"topic": "TT"}, **others):  # noqa: B006  # never changed
    return RemotingCommand(**{"code": 105, "opaque": 7, "ext_fields": fields} | others)


BINARY_ACCEPTED = {
    "one field": (a_binary_frame(), a_route_request()),
    "the shortest": (a_binary_frame(b""), a_route_request(None)),
    "a body": (a_binary_frame(body=b"B"), a_route_request(body=b"B")),
    "a remark": (a_binary_frame(remark="h\u00e9".encode()), a_route_request(remark="h\u00e9")),
    "a duplicate key, the last one wins": (
        a_binary_frame(an_entry(b"topic", b"S") + TOPIC),
        a_route_request(),
    ),
    "an empty value, which is null": (a_binary_frame(an_entry(b"topic", b"")), a_route_request({})),
    "an empty key, which is null": (a_binary_frame(an_entry(b"", b"x") + TOPIC), a_route_request()),
    "a negative map length": (a_binary_frame(b"", fields_bytes=-1), a_route_request(None)),
    "bytes after a map of negative length": (a_binary_frame(fields_bytes=-1), a_route_request(None)),
    "bytes after the map": (a_binary_frame(tail=b"xyz"), a_route_request()),
    "bytes after the map, and a body": (a_binary_frame(tail=b"xyz", body=b"B"), a_route_request(body=b"B")),
    "a value that ends after its map": (a_binary_frame(fields_bytes=len(TOPIC) - 1), a_route_request()),
    "invalid UTF-8": (
        a_binary_frame(an_entry(b"topic", b"a\xff\xe2\x82b\xf0\x9f")),
        a_route_request({"topic": "a\ufffd\ufffdb\ufffd"}),
    ),
    "a zero byte": (a_binary_frame(an_entry(b"topic", b"a\0b")), a_route_request({"topic": "a\0b"})),
    "an unknown language": (a_binary_frame(language=200), a_route_request(language=None)),
    "the first unknown language": (a_binary_frame(language=14), a_route_request(language=None)),
    "the last known language": (a_binary_frame(language=13), a_route_request(language="NODE_JS")),
    "negative numbers": (
        a_binary_frame(code=-3, version=-1, opaque=-(2**31), flag=-1),
        a_route_request(code=-3, version=-1, opaque=-(2**31), flag=-1),
    ),
}


@pytest.mark.parametrize(("data", "command"), BINARY_ACCEPTED.values(), ids=BINARY_ACCEPTED)
def test_a_binary_header_is_received_as_java_reads_it(data, command):
    assert received(data) == command


BINARY_CLOSED = {
    "no header": (a_frame(b"", kind=1), "a ROCKETMQ header of 0 bytes ends too early"),
    "20 bytes": (a_frame(a_binary_frame(b"")[8:28], kind=1), "a ROCKETMQ header of 20 bytes ends too early"),
    "20 bytes and a body": (a_frame(a_binary_frame(b"")[8:28], bytes(20), kind=1), "of 20 bytes ends too early"),
    "negative remark": (a_binary_frame(remark_bytes=-1), "a string of -1 bytes does not fit a header of 34"),
    "remark too long": (a_binary_frame(remark_bytes=1000), "a string of 1000 bytes does not fit a header of 34"),
    "remark into the body": (
        a_frame(a_binary_frame(b"", remark=b"hello")[8:27], b"llo" + bytes(4), kind=1),
        "a string of 5 bytes does not fit a header of 19",
    ),
    "map too long": (a_binary_frame(fields_bytes=1000), "extFields of 1000 bytes do not fit a header of 34"),
    "map into the body": (a_binary_frame(fields_bytes=14, body=b"x" * 100), "extFields of 14 bytes do not fit"),
    "map of one byte": (a_binary_frame(b"\0"), "a ROCKETMQ header of 22 bytes ends too early"),
    "key without a value": (a_binary_frame(b"\0\x05topic"), "a ROCKETMQ header of 28 bytes ends too early"),
    "negative key": (a_binary_frame(an_entry(b"topic", b"x", key_bytes=-1)), "a string of -1 bytes"),
    "negative value": (a_binary_frame(an_entry(b"topic", b"x", value_bytes=-1)), "a string of -1 bytes"),
    "value into the body": (
        a_binary_frame(an_entry(b"topic", b"x", value_bytes=2), body=b"BODY"),
        "a string of 2 bytes does not fit a header of 33",
    ),
    "value longer than its map": (
        a_binary_frame(an_entry(b"topic", b"x" * 30), fields_bytes=12),
        "a string of 30 bytes does not fit a header of 62",
    ),
}


@pytest.mark.parametrize(("data", "reason"), BINARY_CLOSED.values(), ids=BINARY_CLOSED)
def test_a_binary_header_that_java_cannot_read_closes(data, reason):
    error = rejected(data)
    assert isinstance(error, HeaderError)
    assert reason in str(error)


def test_a_binary_header_of_empty_entries_does_not_hold_the_server():
    entry = an_entry(b"", b"")
    assert received(a_binary_frame(entry * EXT_FIELDS_MAX)).ext_fields == {}
    error = rejected(a_binary_frame(entry * 40_000))
    assert str(error) == "a header of more than 10000 extFields"


def test_a_json_header_has_the_same_limit_of_fields():
    def with_fields(count):
        return encode(RemotingCommand(105, ext_fields={str(number): "x" for number in range(count)}))

    assert len(received(with_fields(EXT_FIELDS_MAX)).ext_fields) == EXT_FIELDS_MAX
    assert str(rejected(with_fields(EXT_FIELDS_MAX + 1))) == "a header of more than 10000 extFields"


@pytest.mark.parametrize("bytes_there", [8, 100_000])
def test_header_over_the_limit_closes_before_its_end(bytes_there):
    long = HEADER_BYTES_MAX + 1
    assert str(rejected(a_frame(b" " * long)[:bytes_there])) == f"a header of {long} bytes is over the limit of 262144"


# Refusing by length


def a_choosy_reader(bodies_max):
    """A reader that wants no longer bodies."""

    def refuse(data, length):
        request = decode_header(data, length)
        return request if request.left_out_bytes > bodies_max else None

    return FrameReader(decode, decode_pieces, refuse=refuse)


@pytest.mark.parametrize("piece_bytes", [1, 7, 100, 65_536, 10_000_000])
def test_frame_with_a_refused_body_is_skipped(piece_bytes):
    reader = a_choosy_reader(100_000)
    data = E1 + a_frame('{"code":217,"opaque":4}', bytes(300_000 if piece_bytes > 1 else 100_001)) + E4
    received_ones, kept = [], 0
    for at in range(0, len(data), piece_bytes):
        received_ones += reader.receive(data[at : at + piece_bytes])
        kept = max(kept, reader.partial_frame_bytes)
    assert [(each.code, each.opaque) for each in received_ones] == [(105, 9), (217, 4), (105, received(E4).opaque)]
    if piece_bytes < 10_000_000:
        assert received_ones[1].left_out_bytes >= 100_001
        assert (received_ones[1].body, reader.partial_frame_bytes) == (b"", 0)
        assert kept <= len(E1) + piece_bytes


def test_frame_with_an_accepted_body_is_received():
    reader = a_choosy_reader(100_000)
    data = a_frame('{"code":103}', bytes(range(250)) * 400)
    pieces = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    (request,) = [each for piece in pieces for each in reader.receive(piece)]
    assert (request.body, request.left_out_bytes) == (bytes(range(250)) * 400, 0)


def test_long_frame_with_an_invalid_header_closes_before_its_end():
    reader = a_choosy_reader(100_000)
    assert reader.receive(a_frame("junk", bytes(200_000))[:100]) == []
    assert isinstance(reader.error, HeaderError)


# Sending


@pytest.mark.parametrize("kind", SerializeType)
def test_a_topic_name_as_long_as_a_header_may_be_is_carried(kind):
    command = RemotingCommand(105, ext_fields={"topic": "t" * (HEADER_BYTES_MAX - 200)})
    assert received(encode(command, kind)) == command


@pytest.mark.parametrize(
    "fields",
    [
        {"flag": 3},
        {"language": "GO"},
        {"language": None},
        {"version": 317},
        {"remark": ""},
        {"ext_fields": {}},
        {"code": 1},
    ],
)
def test_an_answer_that_differs_from_the_usual_success_carries_the_difference(fields):
    command = RemotingCommand(**{"code": 0, "opaque": 3, "flag": 1} | fields)
    assert received(encode(command)) == command


def test_a_success_of_ours_is_that_of_java_5_5_0():
    assert encode(RemotingCommand(105, -3).reply(body=b"B")) == a_frame(
        '{"code":0,"flag":1,"language":"JAVA","opaque":-3,"serializeTypeCurrentRPC":"JSON","version":513}', b"B"
    )


def test_unknown_language_is_sent_as_none_or_other():
    command = RemotingCommand(1, language=None)
    assert b"language" not in encode(command)
    assert received(encode(command, BINARY)).language == "OTHER"


def test_empty_strings_get_lost_in_a_binary_header_only():
    command = RemotingCommand(105, remark="", ext_fields={"topic": "", "": "x", "a": "b"})
    assert received(encode(command)) == command
    assert received(encode(command, BINARY)) == RemotingCommand(105, ext_fields={"a": "b"})
    assert received(encode(RemotingCommand(105, ext_fields={}), BINARY)).ext_fields is None


@pytest.mark.parametrize(
    "fields", [{"code": 32768}, {"code": -32769}, {"version": 32768}, {"opaque": 2**31}, {"flag": 2**31}]
)
def test_a_number_that_a_binary_header_cannot_carry_is_not_sent(fields):
    with pytest.raises(HeaderError, match=f"{next(iter(fields))} {next(iter(fields.values()))}.* does not fit"):
        encode(RemotingCommand(**{"code": 105} | fields), BINARY)


def test_a_field_name_that_a_binary_header_cannot_carry_is_not_sent():
    assert received(encode(RemotingCommand(105, ext_fields={"k" * 32767: "v"}), BINARY)).ext_fields == {
        "k" * 32767: "v"
    }
    with pytest.raises(HeaderError, match="the field name of 32768 bytes does not fit a ROCKETMQ header"):
        encode(RemotingCommand(105, ext_fields={"k" * 32768: "v"}), BINARY)


@pytest.mark.parametrize("kind", SerializeType)
def test_a_header_beyond_24_bits_is_not_sent(kind):
    with pytest.raises(HeaderError, match=r"a header of \d+ bytes is over the limit of 16777215"):
        encode(RemotingCommand(105, remark="r" * 2**24), kind)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 3),
        a_frame("{}")[:7] + b"\xff" + b"{}",
        a_frame('{"code":'),
        a_frame("{}", kind=1),
        struct.pack(">II", 1024 * 1024, 512 * 1024) + b"{}",
    ],
)
def test_a_reader_that_met_an_error_goes_with_its_connection(data):
    """An error with its traceback holds the reader that holds it, and all that was read, until a collection."""
    gc.collect()
    gc.disable()
    try:
        reader = CommandReader()
        assert reader.receive(data) == []
        assert reader.error is not None
        del reader
        assert gc.collect() == 0
    finally:
        gc.enable()
