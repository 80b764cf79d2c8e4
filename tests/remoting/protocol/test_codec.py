"""Fields and bodies of requests, read into shapes as a Java server reads them."""

import contextlib

import msgspec
import pytest

from remoting.protocol.codec import decode_body, decode_fields, encode_fields
from remoting.protocol.errors import BodyError
from remoting.protocol.fastjson import BARE_KEYS_BYTES_MAX, PARSE_BYTES_MAX
from remoting.protocol.shapes.broker import NotifyMinBrokerIdChangeRequestHeader
from remoting.protocol.shapes.integers import Int32, Int64
from remoting.protocol.shapes.namesrv import (
    GetRouteInfoRequestHeader,
    RegisterBrokerBody,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    RegisterTopicBody,
)
from remoting.protocol.shapes.route import DataVersion, QueueData, TopicConfig, TopicQueueMappingInfo


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One field of every kind that a header has."""

    a_text: str | None = None
    an_int: Int32 = 5
    a_long: Int64 | None = None
    a_flag: bool = False
    an_optional_flag: bool | None = None


# Fields


def test_the_fields_of_a_registration_are_read():
    fields = {
        "brokerId": "0",
        "bodyCrc32": "128769617",
        "clusterName": "DefaultCluster",
        "brokerAddr": "10.0.0.1:10911",
        "enableActingMaster": "false",
        "haServerAddr": "10.0.0.1:10912",
        "compressed": "false",
        "brokerName": "broker-a",
    }
    assert decode_fields(RegisterBrokerRequestHeader, fields) == RegisterBrokerRequestHeader(
        broker_name="broker-a",
        broker_addr="10.0.0.1:10911",
        cluster_name="DefaultCluster",
        ha_server_addr="10.0.0.1:10912",
        broker_id=0,
        enable_acting_master=False,
        body_crc32=128769617,
    )


@pytest.mark.parametrize("fields", [None, {}, {"AccessKey": "k", "Signature": "", "ns": "x"}])
def test_fields_that_are_missing_have_their_defaults_and_unknown_ones_are_ignored(fields):
    assert decode_fields(Header, fields) == Header()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("TRUE", True),
        ("True", True),
        ("false", False),
        ("1", False),
        ("yes", False),
        ("TRUE ", False),
        (" true", False),
        ("", False),
    ],
)
def test_only_true_in_any_case_is_true(text, value):
    read = decode_fields(Header, {"aFlag": text, "anOptionalFlag": text})
    assert (read.a_flag, read.an_optional_flag) == (value, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("12", 12),
        ("+12", 12),
        ("-12", -12),
        ("-0", 0),
        ("007", 7),
        ("0" * 50 + "7", 7),
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
    ],
)
def test_whole_numbers_are_read(text, value):
    read = decode_fields(Header, {"anInt": text, "aLong": text})
    assert (read.an_int, read.a_long) == (value, value)


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1.0", "1e3", "0x10", "1_000", "+", "-", "--1", "abc", "1L", "\u0663", "9" * 21, "1" * 100_000],
)
def test_a_number_that_java_could_not_parse_is_as_good_as_missing(text):
    assert decode_fields(Header, {"anInt": text, "aLong": text}) == Header()


@pytest.mark.parametrize("text", ["2147483648", "-2147483649", "9223372036854775807", "-9223372036854775808"])
def test_a_number_beyond_32_bits_fits_a_long_only(text):
    assert decode_fields(Header, {"anInt": text, "aLong": text}) == Header(a_long=int(text))


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809"])
def test_a_number_beyond_64_bits_is_as_good_as_missing(text):
    assert decode_fields(Header, {"aLong": text}) == Header()


@pytest.mark.parametrize("text", ["", " ", "null", "12", "caf\u00e9", "x" * 1_000_000])
def test_a_text_is_taken_as_it_is(text):
    assert decode_fields(Header, {"aText": text}) == Header(a_text=text)


def test_fields_are_written_in_the_order_of_the_shape_without_those_that_are_none():
    header = NotifyMinBrokerIdChangeRequestHeader(
        min_broker_id=1, min_broker_addr="127.0.0.1:21002", offline_broker_addr="127.0.0.1:21001"
    )
    assert list(encode_fields(header).items()) == [
        ("offlineBrokerAddr", "127.0.0.1:21001"),
        ("minBrokerAddr", "127.0.0.1:21002"),
        ("minBrokerId", "1"),
    ]


def test_the_answer_to_a_master_has_no_fields_but_the_header_exists():
    assert encode_fields(RegisterBrokerResponseHeader()) == {}


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (False, "false")])
def test_a_boolean_is_written_in_javas_spelling(value, text):
    assert encode_fields(Header(a_flag=value))["aFlag"] == text


def test_what_was_written_is_read_back():
    header = Header(a_text="t", an_int=-3, a_long=2**62, a_flag=True, an_optional_flag=False)
    assert decode_fields(Header, encode_fields(header)) == header


def test_fields_whose_wire_names_do_not_follow_the_rule_are_read():
    header = decode_fields(GetRouteInfoRequestHeader, {"__ZONE_MODE": "true", "__ZONE_NAME": "east", "topic": "T"})
    assert header == GetRouteInfoRequestHeader(topic="T", zone_mode=True, zone_name="east")


# Bodies

A_REGISTRATION = (
    b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":0,'
    b'"timestamp":1700000000000},"topicConfigTable":{"TopicTest":{"attributes":{},"order":false,"perm":6,'
    b'"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"TopicTest","topicSysFlag":0,"writeQueueNums":8}}}}'
)


def test_the_body_of_a_registration_is_read():
    wrapper = decode_body(RegisterBrokerBody, A_REGISTRATION).topic_config_serialize_wrapper
    assert wrapper.data_version == DataVersion(1, 0, 1700000000000)
    assert wrapper.topic_config_table == {
        "TopicTest": TopicConfig(topic_name="TopicTest", read_queue_nums=8, write_queue_nums=8)
    }


def test_a_list_is_a_body_too():
    assert decode_body(list[str], b'["10.0.0.1:8888"]') == ["10.0.0.1:8888"]


@pytest.mark.parametrize(
    ("keys", "read"),
    [
        (b"{0:0,1:1}", {0: 0, 1: 1}),
        (b'{"0":0,"1":1}', {0: 0, 1: 1}),
        (b'{0:0,"1":1}', {0: 0, 1: 1}),
        (b"{-1:-1}", {-1: -1}),
        (b'{0:"0"}', {0: 0}),
        (b'{0:1,"0":2}', {0: 2}),
        (b"{0:null,1:1}", {1: 1}),
        (b"{'0':0,}", {0: 0}),
    ],
)
def test_a_static_topics_queues_are_read_in_every_spelling(keys, read):
    mapping = decode_body(TopicQueueMappingInfo, b'{"bname":"broker-a","currIdMap":%b,"epoch":"7"}' % keys)
    assert (mapping.bname, mapping.curr_id_map, mapping.epoch) == ("broker-a", read, 7)


@pytest.mark.parametrize(
    "body",
    [
        b'{"counter":"5","stateVersion":"0","timestamp":"1700000000000"}',
        b'{"counter":5,"timestamp":1700000000000}\n',
        b'{"counter":5,"stateVersion":null,"timestamp":1700000000000}',
        b'{"timestamp":0,"counter":5,"timestamp":1700000000000}',
        b'{"counter":5,"unknown":{"deep":[1,null,{}]},"timestamp":1700000000000}',
        b'{"counter":5,"unknown":{1:2,-3:{"x":null}},"timestamp":1700000000000}',
        b'{"counter":5,"unknown":{"$ref":"$.topics[0]"},"timestamp":1700000000000}',
        b'{"counter":5,"unknown":"{1:,2:","timestamp":"1700000000000"}',
        b"{counter:5,/* ms */'timestamp':1700000000000,}",
    ],
)
def test_a_data_version_is_read_in_every_spelling(body):
    assert decode_body(DataVersion, body) == DataVersion(5, 0, 1700000000000)


def test_a_reference_in_place_of_a_part_that_nobody_reads_does_no_harm():
    attributes = b'{"$ref":"$.topicConfigSerializeWrapper.topicConfigTable.A.attributes"}'
    body = A_REGISTRATION.replace(b'"attributes":{}', b'"attributes":' + attributes)
    assert decode_body(RegisterBrokerBody, body) == decode_body(RegisterBrokerBody, A_REGISTRATION)


def test_nulls_count_as_absent_in_every_part_of_a_body():
    body = (
        b'{"filterServerList":null,"topicConfigSerializeWrapper":{"topicQueueMappingInfoMap":null,'
        b'"topicConfigTable":{"A":null,"B":{"perm":null,"readQueueNums":4,"topicName":null}}}}'
    )
    assert decode_body(RegisterBrokerBody, body).topic_config_serialize_wrapper.topic_config_table == {
        "B": TopicConfig(read_queue_nums=4)
    }


def test_the_spelling_of_old_releases_is_an_unknown_field():
    body = decode_body(RegisterTopicBody, b'{"queueDatas":[{"brokerName":"b","topicSynFlag":3}]}')
    assert body.queue_datas == [QueueData(broker_name="b")]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not readable as JSON"),
        (b"{", "not readable as JSON"),
        (b'{"counter":1}{}', "trailing characters"),
        (b"\x78\xda\x63\x60", "not readable as JSON"),
        (b'{"counter":"\xff"}', "not readable as JSON"),
        (b'{"counter":' + b"[" * 20_000, "nested too deeply"),
        (b'{"unknown":' + b"[" * 20_000, "nested too deeply"),
        (b"null", "Expected `object`, got `null`"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"counter":"five"}', r"Expected `int`, got `str` - at `\$.counter`"),
        (b'{"counter":{}}', r"Expected `int`, got `object` - at `\$.counter`"),
        (b'{"counter":9223372036854775808}', r"Expected `int` <= 9223372036854775807 - at `\$.counter`"),
        (b'{"counter":"9223372036854775808"}', r"Expected `int` <= 9223372036854775807 - at `\$.counter`"),
        (b'{"counter":' + b"9" * 5000 + b"}", "out of range"),
        (b'{"counter":"' + b"9" * 5000 + b'"}', "out of range"),
    ],
)
def test_a_body_of_another_shape_is_refused_with_the_reason(body, reason):
    with pytest.raises(BodyError, match=reason):
        decode_body(DataVersion, body)


def test_a_body_that_is_not_utf8_is_refused():
    with pytest.raises(BodyError, match="can't decode byte 0xff"):
        decode_body(list[str], b'["\xff"]')


def test_a_null_element_of_a_list_is_refused():
    with pytest.raises(BodyError, match=r"Expected `str`, got `null` - at `\$\[0\]`"):
        decode_body(list[str], b"[null]")


def a_long_body(ending):
    """A body too long to be held as plain values, most of which nobody reads."""
    return b'{"unknown":[' + b"[]," * (PARSE_BYTES_MAX // 3) + b"0]," + ending


def test_a_long_body_with_bare_keys_and_numbers_as_strings_is_read():
    assert decode_body(DataVersion, a_long_body(b'"more":{1:2},"counter":"5"}')) == DataVersion(5)


@pytest.mark.parametrize(
    ("ending", "reason"),
    [(b'"counter":null}', "Expected `int`, got `null`"), (b"'counter':5}", "malformed"), (b'"a":"\xff",b:5}', "b")],
)
def test_a_long_body_has_no_other_liberties(ending, reason):
    with pytest.raises(BodyError, match=reason):
        decode_body(DataVersion, a_long_body(ending))


class Numbered(msgspec.Struct, frozen=True, rename="camel"):
    broker_id: Int64 | None = None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0" * 5000 + "1", 1),
        ("-" + "0" * 5000 + "1", -1),
        ("+" + "0" * 5000, 0),
        ("0" * 1_000_000 + "12", 12),
        ("9" * 5000, None),
        ("1" + "0" * 5000, None),
        ("-" + "9" * 1_000_000, None),
        ("²", None),
        ("1e5000", None),
    ],
    ids=lambda value: str(value)[:5],
)
def test_a_number_of_very_many_digits_is_read_as_java_reads_it(text, number):
    """Python makes no number of over 4,300 digits; `Long.parseLong` counts no zeros in front."""
    assert decode_fields(Numbered, {"brokerId": text}).broker_id == number


@pytest.mark.parametrize("text", ["0" * 5000 + "1", "9" * 5000, "-" + "9" * 5000, '"' + "9" * 5000 + '"', "1e5000"])
def test_a_number_of_very_many_digits_in_a_body_is_read_or_refused(text):
    with contextlib.suppress(BodyError):
        assert decode_body(Numbered, b'{"brokerId":%b}' % text.encode()).broker_id in (1, None)


def test_a_body_beyond_the_limit_of_bare_keys_is_standard_json_or_refused():
    long = b'{"unknown":"' + b"x" * BARE_KEYS_BYTES_MAX + b'","counter":%b}'
    assert decode_body(DataVersion, long % b"5") == DataVersion(5)
    with pytest.raises(BodyError, match=f"of more than {BARE_KEYS_BYTES_MAX} bytes only standard JSON is read"):
        decode_body(DataVersion, long % b'"5"')
