"""The KV table and its text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv.settings.kv_config import DamagedKvConfig, KvConfig, decode
from remoting.protocol.shapes.namesrv import ORDER_TOPIC_CONFIG

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TABLES = st.dictionaries(TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3), max_size=3)


def test_an_entry_is_found_in_its_namespace_and_in_no_other():
    kv = KvConfig().with_value("ns", "key", "value")
    assert kv.get("ns", "key") == "value"
    assert kv.get("ns", "other") is None
    assert kv.get("other", "key") is None
    assert kv.namespace("ns") == {"key": "value"}
    assert kv.namespace("other") is None


def test_without_namespace_or_key_nothing_is_found():
    kv = KvConfig().with_value("ns", "key", "value")
    assert (kv.get(None, "key"), kv.get("ns", None), kv.namespace(None)) == (None, None, None)


def test_a_change_leaves_the_table_before_it_as_it_was():
    before = KvConfig().with_value("ns", "key", "1")
    after = before.with_value("ns", "key", "2").with_value("ns", "other", "3")
    assert before.table == {"ns": {"key": "1"}}
    assert after.table == {"ns": {"key": "2", "other": "3"}}
    assert after.without("ns", "key").table == {"ns": {"other": "3"}}
    assert after.table == {"ns": {"key": "2", "other": "3"}}


def test_an_emptied_namespace_stays():
    kv = KvConfig().with_value("ns", "key", "value").without("ns", "key")
    assert kv.namespace("ns") == {}
    assert decode(kv.encode()) == kv


def test_deleting_what_was_never_there_changes_nothing():
    kv = KvConfig().with_value("ns", "key", "value")
    assert kv.without("ns", "other") == kv
    assert kv.without("other", "key") == kv


def test_an_entry_put_without_a_value_is_not_there():
    assert KvConfig().with_value("ns", "key", None).table == {"ns": {}}
    assert KvConfig().with_value("ns", "key", "1").with_value("ns", "key", None).table == {"ns": {}}


def test_the_order_configuration_of_a_topic_is_that_of_its_namespace():
    kv = KvConfig().with_value(ORDER_TOPIC_CONFIG, "T", "broker-a:4;broker-b:4").with_value("ns", "U", "x:1")
    assert kv.order_conf("T") == "broker-a:4;broker-b:4"
    assert kv.order_conf("U") is None
    assert kv.namespace(ORDER_TOPIC_CONFIG) == {"T": "broker-a:4;broker-b:4"}
    assert KvConfig().namespace(ORDER_TOPIC_CONFIG) is None


def test_the_text_is_the_compact_one_of_java_sorted():
    kv = KvConfig().with_value("b", "2", "é").with_value("b", "1", "").with_value("a", "k", '"')
    assert kv.encode() == '{"configTable":{"a":{"k":"\\""},"b":{"1":"","2":"é"}}}'.encode()


@pytest.mark.parametrize("content", [b"", b" \n"])
def test_a_file_without_content_is_the_empty_table(content):
    assert decode(content) == KvConfig()


@pytest.mark.parametrize(
    ("content", "table"),
    [
        (b'{"configTable":{}}', {}),
        (b'{ "other": [1], "configTable": { "ns": { "k": "v" } } }\n', {"ns": {"k": "v"}}),
        (b'{"configTable":{"ns":null,"empty":{}}}', {"empty": {}}),
        (
            b'{"configTable":{"ns":{"n":1.50,"t":true,"f":false,"gone":null}}}',
            {"ns": {"n": "1.50", "t": "true", "f": "false"}},
        ),
    ],
)
def test_what_java_accepts_is_read(content, table):
    assert decode(content).table == table


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"{}",
        b"null",
        b"[]",
        b"\x00\x00\x00",
        b'{"configTable":null}',
        b'{"configTable":[]}',
        b'{"configTable":{"ns":"v"}}',
        b'{"configTable":{"ns":{"k":["v"]}}}',
        b'{"configTable":{"ns":{"k":{"v":1}}}}',
        b'{"configTable":{"ns":{"k":"\\ud800"}}}',
        b'{"configTable":{"ns":{"k":"\xff"}}}',
        b'{"configTable":{"ns":{}}}}',
        b'{"configTable":{"ns":{"k":' + b"[" * 100_000,
    ],
)
def test_damaged_kv_text_is_refused_and_an_empty_one_is_not(content):
    with pytest.raises(DamagedKvConfig) as caught:
        decode(content)
    assert str(caught.value)


@given(TABLES)
def test_what_is_written_is_read_back(table):
    assert decode(KvConfig(table).encode()).table == table


@given(TABLES, st.data())
def test_a_text_that_was_cut_off_is_never_taken_for_a_smaller_table(table, data):
    content = KvConfig(table).encode()
    cut = data.draw(st.integers(1, len(content) - 1))
    with pytest.raises(DamagedKvConfig):
        decode(content[:cut])
