"""Long registrations that are not as most brokers write them: read in pieces, and to the same result as at once."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv.core.registration.accepted_topics import FILTER_SERVERS_MAX
from namesrv.core.registration.body import decode_registration
from namesrv.core.registration.json_body import SKIPPED_BYTES_MAX, VALUE_BYTES_MAX
from namesrv.core.tables.topic_table import TOPICS_MAX
from namesrv.core.values.cooperative import run_to_completion
from namesrv.refusals import RegistrationRefused
from remoting.protocol.fastjson import BARE_KEYS_BYTES_MAX, Dialect, encode

#: Nobody reads this member; with it a body is too long to be decoded at once.
PADDING = {"brokerName": ["x" * 1000, {"a": [1, -2.5e3, True, None]}] * (BARE_KEYS_BYTES_MAX // 1000)}


def decoded(body, *, version=513):
    return run_to_completion(decode_registration(body, crc32=0, compressed=False, version=version, unix_ms=7))


def a_body(topics=None, mappings=None, filter_servers=None, *, dialect=Dialect.STANDARD, **more):
    wrapper = {"topicConfigTable": topics or {}, "topicQueueMappingInfoMap": mappings or {}} | more
    return encode({"topicConfigSerializeWrapper": wrapper, "filterServerList": filter_servers or []}, dialect)


def longer(body):
    """Return the body with another member before the others."""
    return b'{"x":%b,%b' % (encode(PADDING, Dialect.STANDARD), body[1:])


names = st.text(st.sampled_from('ab"\\{}[],:%é \n'), max_size=6)
topic = st.fixed_dictionaries(
    {}, optional={"perm": st.integers(0, 7), "topicName": names, "attributes": st.dictionaries(names, names)}
)
mapping = st.fixed_dictionaries(
    {},
    optional={
        "bname": names,
        "currIdMap": st.dictionaries(st.integers(0, 9), st.integers(0, 9)),
        "epoch": st.just("7"),
    },
)


@given(
    st.dictionaries(names, topic, max_size=5),
    st.dictionaries(names, mapping, max_size=5),
    st.lists(st.sampled_from(["10.0.0.1:80", "x", ""])),
    st.sampled_from(Dialect),
    st.booleans(),
)
def test_a_long_body_decodes_to_what_a_short_one_does(topics, mappings, filter_servers, dialect, has_version):
    version = {"dataVersion": {"counter": 3, "timestamp": 5}} if has_version else {}
    body = a_body(topics, mappings, filter_servers, dialect=dialect, **version)
    assert decoded(longer(body)) == decoded(body)


def test_a_long_wrapper_of_an_old_broker_is_read():
    wrapper = {"padding": PADDING, "topicConfigTable": {"A": {"perm": 4}}, "dataVersion": {"counter": 2}}
    wrapper_read = decoded(encode(wrapper, Dialect.STANDARD), version=36)
    assert (list(wrapper_read.topics), wrapper_read.data_version.counter, wrapper_read.filter_servers) == (
        ["A"],
        2,
        None,
    )


def test_many_topics_and_mappings_with_bare_keys_are_read():
    count = 5000
    topics = {f"topic-{number}": {"perm": number % 8, "attributes": {"+a": "b"}} for number in range(count)}
    mappings = {f"topic-{number}": {"currIdMap": {0: number}, "totalQueues": 1} for number in range(count)}
    wrapper_read = decoded(a_body(topics, mappings, dialect=Dialect.BARE_INTEGER_KEYS))
    assert [wrapper_read.topics[f"topic-{number}"].perm for number in range(count)] == [
        number % 8 for number in range(count)
    ]
    assert [wrapper_read.mappings[f"topic-{number}"].curr_id_map for number in range(count)] == [
        {0: n} for n in range(count)
    ]
    assert wrapper_read.ignored_topics == 0


def test_one_member_that_is_too_long_is_left_out_and_the_others_are_read():
    long_text = "x" * 2000
    topics = {"A": {"perm": 4, "attributes": {"+a": [1] * VALUE_BYTES_MAX}}, "B": {"perm": 2}, long_text: {}}
    mappings = {"M": {"currIdMap": dict.fromkeys(range(20_000), 1)}, "N": {"totalQueues": 3}}
    wrapper_read = decoded(a_body({"B": {"perm": 2}} | topics, mappings, [long_text] * 100))
    assert (list(wrapper_read.topics), list(wrapper_read.mappings), wrapper_read.filter_servers) == (["B"], ["N"], ())
    assert wrapper_read.ignored_topics == 4


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"a":{}}', "an|a comma"),
        (b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"a":{} "b":{}}}}', "a comma"),
        (b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"a" {}}}}', "a key"),
        (b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"a":{"perm":"x"}}}}', "Expected `int`"),
        (b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"a":{}}}}}', "trailing characters"),
        (b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"\\ud800":{}}}}', "not readable as JSON"),
        (b'{"y":' + b"[" * 200 + b'"%b"]}' % (b"x" * 60_000), "too long"),
        (b'{"y":[' + b"[1]," * (SKIPPED_BYTES_MAX // 3) + b"1]}", "too long"),
        (b"{" + b'"y":1,' * 200 + b'"y":1}', "more than 100 members"),
        (b'{"y":' + b"1" * 70_000 + b"}", "a value"),
        (b'{"topicConfigSerializeWrapper":[]}', "Expected `object`"),
    ],
)
def test_a_long_body_that_is_no_registration_is_refused(body, reason):
    with pytest.raises(RegistrationRefused, match=reason):
        decoded(longer(body))


def test_limit_counts_topics_and_mappings_with_repetitions():
    half = TOPICS_MAX // 2 + 1
    table = b'"topicConfigTable":{' + b'"a":{},' * half + b'"b":{}}'
    mappings = b'"topicQueueMappingInfoMap":{' + b'"a":{},' * half + b'"b":{}}'
    with pytest.raises(RegistrationRefused, match=f"more than {TOPICS_MAX} topics and mappings"):
        decoded(b'{"topicConfigSerializeWrapper":{%b,%b}}' % (table, mappings))


def test_a_long_body_whose_checksum_is_another_one_is_refused():
    body = longer(a_body({"A": {}}))
    crc32 = zlib.crc32(body) & 0x7FFFFFFF
    assert run_to_completion(decode_registration(body, crc32=crc32, compressed=False, version=513, unix_ms=0)).topics
    with pytest.raises(RegistrationRefused, match="crc32 not match"):
        run_to_completion(decode_registration(body, crc32=crc32 ^ 1, compressed=False, version=513, unix_ms=0))


@pytest.mark.parametrize("is_long", [False, True])
def test_filter_servers_that_cannot_be_called_or_are_too_many_are_left_out(is_long):
    servers = [f"10.0.0.1:{port}" for port in range(1, 30)] + ["no address", "x:\x01", "h" * 300 + ":1"]
    body = a_body({"A": {}}, filter_servers=servers)
    wrapper_read = decoded(longer(body) if is_long else body)
    assert wrapper_read.filter_servers == tuple(servers[:FILTER_SERVERS_MAX])
    assert wrapper_read.ignored_topics == len(servers) - FILTER_SERVERS_MAX


@pytest.mark.parametrize(
    "texts", [{"bname": "x" * 256}, {"bname": "a\x01b"}, {"scope": "x" * 256}, {"topic": "x" * 1025}]
)
def test_a_mapping_with_texts_that_can_be_no_names_is_left_out(texts):
    wrapper_read = decoded(a_body(mappings={"M": texts, "N": {"bname": "x" * 255}}))
    assert (list(wrapper_read.mappings), wrapper_read.ignored_topics) == (["N"], 1)
