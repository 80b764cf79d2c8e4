"""Keys of brokers name a group and a topic, or are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.offsets.entry_keys import EntryKey, EntryKind, OddEntryKey, entry_key_text, parse_entry_key

NAMES = st.text(st.characters(exclude_characters="@", exclude_categories=["Cs"]), min_size=1, max_size=30).filter(
    str.strip
)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("TopicTest@g1", EntryKey("TopicTest", "g1")),
        ("%RETRY%g1@g1", EntryKey("%RETRY%g1", "g1")),
        ("TopicTest@g1@broadcast", EntryKey("TopicTest", "g1", EntryKind.BROADCAST)),
        ("TopicTest@g1@other", EntryKey("TopicTest", "g1@other")),
        ('{"a",@"b}', EntryKey('{"a",', '"b}')),
        ("Bestellungen-ü@组", EntryKey("Bestellungen-ü", "组")),
    ],
)
def test_key_names_a_topic_and_a_group(text, key):
    assert parse_entry_key(text) == key
    assert entry_key_text(key) == text


def test_light_message_queues_have_keys_of_two_parts():
    key = EntryKey("%LMQ%x", "%LMQ%x@broadcast", EntryKind.LMQ)
    assert parse_entry_key("%LMQ%x@%LMQ%x@broadcast", is_lmq=True) == key
    assert entry_key_text(key) == "%LMQ%x@%LMQ%x@broadcast"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("TopicTest", "no @"),
        ("", "no @"),
        ("@g1", "blank topic"),
        ("TopicTest@", "blank group"),
        ("TopicTest@@broadcast", "blank group"),
        (" @g1", "blank topic"),
        (f"{'t' * 256}@g1", "topic of 256 characters"),
        (f"t@{'g' * 256}", "group of 256 characters"),
        ("t@g\ud800", "half a character"),
    ],
)
def test_key_that_names_nobody_is_refused(text, reason):
    with pytest.raises(OddEntryKey, match=reason):
        parse_entry_key(text)


@pytest.mark.parametrize(
    "key", [EntryKey("a@b", "g"), EntryKey("t", "g@broadcast"), EntryKey("t", ""), EntryKey("", "g")]
)
def test_names_that_would_be_read_as_others_are_not_written(key):
    with pytest.raises(OddEntryKey):
        entry_key_text(key)


def test_a_long_key_is_cut_where_it_is_shown():
    with pytest.raises(OddEntryKey) as raised:
        parse_entry_key("x" * 1_000_000)
    assert len(str(raised.value)) < 200


@given(topic=NAMES, group=NAMES, kind=st.sampled_from(EntryKind))
def test_key_is_read_as_it_was_written(topic, group, kind):
    key = EntryKey(topic, group, kind)
    assert parse_entry_key(entry_key_text(key), is_lmq=kind is EntryKind.LMQ) == key
