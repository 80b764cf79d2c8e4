"""What holds for any command, any bytes and any cut of them."""

import json
import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from remoting.protocol.codec import decode_body, decode_fields, encode_fields
from remoting.protocol.codes import LANGUAGES, SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, FrameError
from remoting.protocol.fastjson import Dialect, encode, parse, with_quoted_integer_keys
from remoting.protocol.frame import encode as frame_of
from remoting.protocol.frame_reader import CommandReader
from remoting.protocol.shapes.namesrv import RegisterBrokerBody, RegisterBrokerRequestHeader
from remoting.protocol.shapes.route import TopicQueueMappingInfo

# Other tests may keep the machine busy for longer than the deadline of an example.
UNHURRIED = settings(deadline=None)

# A lone surrogate cannot be written as UTF-8, so no command holds one.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)

COMMANDS = st.builds(
    RemotingCommand,
    code=INT16,
    opaque=INT32,
    flag=INT32,
    language=st.sampled_from(LANGUAGES),
    version=INT16,
    remark=st.none() | TEXTS,
    ext_fields=st.none() | st.dictionaries(TEXTS, TEXTS, max_size=4),
    body=st.binary(max_size=30),
)

# Strings that look like keys, quotes and comments to a reader that does not know where it is.
TRICKY_TEXTS = st.text(st.sampled_from("{}[]:,0123456789-\"'\\/* \n\u00e9"), max_size=12)

# What a reader of fastjson's JSON must tell apart, in any order.
JSON_TOKENS = st.sampled_from(
    [
        *"{}[]:,\"'\\/ \n\t01-.e",
        *('"a"', "'b'", '"\\u00e9"', "word", "null", "true", "NaN", "12", "-3", "1.5", "{1:", ",-2:", "/*", "*/", "//"),
        *('"code":', '"opaque":"7"', '"extFields":{', '"language":', "\ud83d\ude00", "\x00", "\ufeff", "99999999999"),
    ]
).map(lambda token: token.encode("utf-8", "surrogatepass"))

JSON_LIKE = st.lists(JSON_TOKENS, max_size=25).map(b"".join)


def json_values(keys):
    """JSON values whose maps have these keys."""
    leaves = st.none() | st.booleans() | INT64 | TRICKY_TEXTS
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
    )


@st.composite
def pieces(draw, data):
    """Return `data` cut anywhere, possibly into empty chunks."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@st.composite
def streams(draw):
    """Frames of all sorts one after the other: good ones, ones with a good prefix only, and garbage."""
    kinds = st.sampled_from(SerializeType)
    framed = st.tuples(st.sampled_from([0, 1, 2, 255]), st.binary(max_size=40) | JSON_LIKE, st.binary(max_size=5))
    good = st.builds(frame_of, COMMANDS, kinds)
    parts = st.lists(good | good | framed.map(a_frame) | st.builds(damaged, good, INT32), max_size=4)
    return b"".join(draw(parts)) + draw(st.binary(max_size=12))


def a_frame(parts):
    kind, header, body = parts
    return struct.pack(">II", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def damaged(frame, number):
    """Return `frame` with one byte behind its prefix replaced."""
    at = 8 + number % (len(frame) - 8)
    return frame[:at] + bytes([number >> 8 & 0xFF]) + frame[at + 1 :]


def play(chunks, frame_bytes_max=200):
    """Return what a reader makes of the chunks, and why it gave up, if it did; it never keeps more than its limit."""
    reader = CommandReader(frame_bytes_max)
    commands = []
    for chunk in chunks:
        commands += reader.receive(chunk)
        assert reader.partial_frame_bytes <= frame_bytes_max
    assert reader.error is None or isinstance(reader.error, FrameError)
    return commands, repr(reader.error), reader.partial_frame_bytes


# Frames


@UNHURRIED
@given(st.data(), st.lists(COMMANDS, max_size=3))
def test_a_command_survives_a_json_header_however_its_bytes_are_cut(data, commands):
    chunks = data.draw(pieces(b"".join(frame_of(command) for command in commands)))
    assert play(chunks, 2**24) == (commands, "None", 0)


@UNHURRIED
@given(st.data(), st.lists(COMMANDS, max_size=3))
def test_a_command_survives_a_binary_header_but_for_empty_strings(data, commands):
    chunks = data.draw(pieces(b"".join(frame_of(command, SerializeType.ROCKETMQ) for command in commands)))
    assert play(chunks, 2**24) == ([without_empty_strings(command) for command in commands], "None", 0)


def without_empty_strings(command):
    fields = {key: value for key, value in (command.ext_fields or {}).items() if key}
    kept = {key: value for key, value in fields.items() if value}
    return RemotingCommand(
        command.code,
        command.opaque,
        command.flag,
        command.language,
        command.version,
        command.remark or None,
        kept if fields else None,
        command.body,
    )


@UNHURRIED
@given(st.data(), streams())
def test_any_bytes_in_any_cut_are_commands_or_an_error_and_the_cut_does_not_matter(data, stream):
    assert play(data.draw(pieces(stream))) == play([stream])


@UNHURRIED
@given(JSON_LIKE)
def test_any_header_text_is_a_command_or_an_error(header):
    commands, error, _ = play([a_frame((0, b"{" + header + b"}", b""))], 2**24)
    assert len(commands) == (error == "None")


# JSON


@UNHURRIED
@given(JSON_LIKE | st.binary(max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        parse(text)
    except BodyError as error:
        assert len(str(error)) < 200  # noqa: PT017  # most of these texts are refused, but not all


@UNHURRIED
@given(JSON_LIKE | st.binary(max_size=40))
def test_any_body_is_read_or_refused(text):
    for shape in (RegisterBrokerBody, list[str]):
        try:
            assert decode_body(shape, text) is not None
        except BodyError as error:
            assert len(str(error)) < 200  # noqa: PT017  # as above


@UNHURRIED
@given(json_values(TRICKY_TEXTS))
def test_standard_json_is_read_as_it_is_but_for_nulls_in_objects(value):
    text = json.dumps(value, ensure_ascii=False).encode()
    assert with_quoted_integer_keys(text) == text
    assert parse(text) == without_nulls(value)


@UNHURRIED
@given(json_values(INT32))
def test_text_with_bare_integer_keys_is_the_standard_text_once_they_are_quoted(value):
    assert with_quoted_integer_keys(encode(value, Dialect.BARE_INTEGER_KEYS)) == encode(value, Dialect.STANDARD)


@UNHURRIED
@given(json_values(TRICKY_TEXTS), st.sampled_from([b"/*", b"// {1:\n", b"/* \"',}1:*/", b" \t\r\n"]))
def test_blanks_and_comments_around_every_mark_change_nothing(value, filling):
    text = b"".join(spread(json.dumps(value), filling if filling != b"/*" else b"/**/"))
    assert parse(text) == without_nulls(value)


@UNHURRIED
@given(json_values(TRICKY_TEXTS))
def test_single_quotes_are_as_good_as_double_ones(value):
    text = b"".join(single_quoted(json.dumps(value, ensure_ascii=False).encode()))
    assert parse(text) == without_nulls(value)


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def spread(text, filling):
    """Yield JSON text with `filling` around every mark outside its strings."""
    for mark, in_string in characters(text.encode()):
        yield mark if in_string or mark not in b"{}[]:," else filling + mark + filling


def single_quoted(text):
    """Yield JSON text with its strings in single quotes."""
    for mark, in_string in characters(text):
        if mark == b'"':
            yield b"'"
        elif in_string and mark in (b"'", b'\\"'):
            yield b"\\'" if mark == b"'" else b'"'
        else:
            yield mark


def characters(text):
    """Yield each byte or escape of JSON text, and whether it is inside a string (quotes are not)."""
    in_string, at = False, 0
    while at < len(text):
        size = 2 if text[at : at + 1] == b"\\" else 1
        mark = text[at : at + size]
        if mark == b'"':
            in_string = not in_string
        yield mark, in_string and mark != b'"'
        at += size


# Shapes


@UNHURRIED
@given(st.dictionaries(st.sampled_from(["brokerId", "bodyCrc32", "compressed", "brokerName"]) | TEXTS, TEXTS))
def test_any_fields_can_be_read(fields):
    header = decode_fields(RegisterBrokerRequestHeader, fields)
    assert header.broker_name == fields.get("brokerName")


@UNHURRIED
@given(
    st.builds(
        RegisterBrokerRequestHeader,
        broker_name=st.none() | TEXTS,
        broker_id=st.none() | INT64,
        enable_acting_master=st.none() | st.booleans(),
        compressed=st.booleans(),
        body_crc32=INT32,
    )
)
def test_fields_that_were_written_are_read_back(header):
    assert decode_fields(RegisterBrokerRequestHeader, encode_fields(header)) == header


@UNHURRIED
@given(st.dictionaries(INT32, INT32, max_size=6), TRICKY_TEXTS, INT64)
def test_a_mapping_is_read_in_either_dialect(curr_id_map, topic, epoch):
    mapping = TopicQueueMappingInfo(bname="b", curr_id_map=curr_id_map, topic=topic, epoch=epoch)
    for dialect in Dialect:
        assert decode_body(TopicQueueMappingInfo, encode(mapping, dialect)) == mapping
