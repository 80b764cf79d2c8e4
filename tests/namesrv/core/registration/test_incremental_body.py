"""Texts of registrations that are known again: what is read of them is what decoding all of it would give."""

import json
import zlib

import pytest
from builders import text_of
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from namesrv.core.registration import accepted_topics, incremental_body
from namesrv.core.tables.topic_table import TopicSettings
from namesrv.core.values.cooperative import run_to_completion
from remoting.protocol.codec import decode_body
from remoting.protocol.shapes.namesrv import RegisterBrokerBody

#: Some of these fill a block.
LONG = "x" * 900


def crc32(text):
    return zlib.crc32(text) & 0x7FFFFFFF


def read(text, *previous):
    return run_to_completion(incremental_body.read_table(text, zlib.crc32(text), *previous))


def all_of(text):
    """Return the settings of all topics by decoding the whole text."""
    table = decode_body(RegisterBrokerBody, text).topic_config_serialize_wrapper.topic_config_table
    return {
        topic: TopicSettings(each.perm, each.read_queue_nums, each.write_queue_nums, each.topic_sys_flag)
        for topic, each in table.items()
    }


MANY = {f"{number}{LONG}": 6 for number in range(200)}


def test_a_text_is_read_as_decoding_it_gives():
    text = text_of(MANY, counter=7, mappings={"static": {"bname": "a", "topic": "static"}})
    found = read(text)
    decoded = decode_body(RegisterBrokerBody, text).topic_config_serialize_wrapper
    wrapper = found.envelope.topic_config_serialize_wrapper
    assert found.topics == all_of(text)
    assert wrapper.topic_queue_mapping_info_map == decoded.topic_queue_mapping_info_map
    assert (wrapper.data_version, found.reported.topics) == (decoded.data_version, 200)
    assert len(found.reported.blocks) > 2


def test_the_text_of_a_4_x_broker_is_read_too():
    body = {"filterServerList": [], "topicConfigSerializeWrapper": {"dataVersion": {"counter": 1}}}
    body["topicConfigSerializeWrapper"]["topicConfigTable"] = {"T": {"perm": 4, "topicName": "T"}}
    found = read(json.dumps(body, separators=(",", ":")).encode())
    assert found.topics["T"].perm == 4


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(json.loads(text_of({"a": 6}))).encode(),
        text_of({}),
        text_of({"a": 6})[:-2],
        text_of({"a": 6}) + b"}",
        text_of({"a": 6}, attributes={"x": {"y": "z"}}).replace(b'"perm":6', b'"perm":"6"'),
        text_of({"a": 6}).replace(b'"perm":6', b'"perm":2147483648'),
        text_of({"a": 6}).replace(b'"topicName":"a"', b'"topicName":"b"'),
        text_of({"a": 6}).replace(b'"topicConfigTable":{', b'"more":{"topicConfigTable":{}},"topicConfigTable":{'),
        text_of({"a": 6}).replace(b'"topicConfigTable":{', b'"topicConfigTable":{,'),
        b"",
        b"\xff" * 100,
    ],
    ids=range(11),
)
def test_a_text_that_brokers_do_not_write_is_left_to_the_decoder(text):
    assert read(text) is None


def test_a_text_is_repeated_whatever_time_it_names():
    first = read(text_of(MANY)).reported
    for again in (text_of(MANY), text_of(MANY, time=5), text_of(MANY, time=1_700_000_030_000)):
        assert first.is_unchanged(again, 0)
        assert first.is_unchanged(again, crc32(again))
        assert not first.is_unchanged(again, crc32(again) ^ 1)


@pytest.mark.parametrize(
    "text",
    [
        text_of(MANY, counter=2),
        text_of(MANY | {f"1{LONG}": 4}),
        text_of(dict(list(MANY.items())[1:])),
        text_of(MANY, mappings={"static": {"topic": "static"}}),
        text_of(MANY)[:-1] + b" ",
        text_of(MANY, time="x"),
        b"",
    ],
    ids=range(7),
)
def test_a_text_that_differs_in_anything_else_is_no_repetition(text):
    assert not read(text_of(MANY)).reported.is_unchanged(text, 0)


@pytest.mark.parametrize("where", [0, 100, 199])
def test_of_a_change_only_its_neighbourhood_is_read(where):
    before = read(text_of(MANY)).reported
    topic = f"{where}{LONG}"
    found = read(text_of(MANY | {topic: 4}, counter=2), before, MANY)
    assert found.topics[topic].perm == 4
    assert len(found.topics) < 80
    assert found.envelope.topic_config_serialize_wrapper.data_version.counter == 2


def test_last_of_two_entries_of_a_topic_counts():
    text = text_of(MANY)
    before = read(text).reported
    again = b'{"perm":2,"topicName":"1%b"}' % LONG.encode()
    for twice in (
        text.replace(b'"topicConfigTable":{', b'"topicConfigTable":{"1%b":%b,' % (LONG.encode(), again)),
        text.replace(
            b'},"topicQueueMappingDetailMap"', b',"1%b":%b},"topicQueueMappingDetailMap"' % (LONG.encode(), again)
        ),
    ):
        found = read(twice, before, MANY)
        assert found.topics == all_of(twice)


def test_names_of_topics_that_stay_are_kept_once():
    before = read(text_of(MANY)).reported
    again = read(text_of(dict.fromkeys(MANY, 12345)), before, MANY).reported
    names, names_again = ([name for block in each.blocks for name in block.topics] for each in (before, again))
    assert all(name is former for name, former in zip(names_again, names, strict=True))


def test_blocks_that_fit_but_for_a_missing_comma_are_no_table():
    text = text_of(MANY)
    before = read(text).reported
    broken = text.replace(b'},"100', b'}"100')
    assert read(broken, before, MANY) is None


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_checksum_of_two_texts_follows_from_those_of_each(first, second):
    together = accepted_topics.combined_crc32(zlib.crc32(first), zlib.crc32(second), len(second))
    assert together == zlib.crc32(first + second)


class Registrations(RuleBasedStateMachine):
    """A broker changes its topics now and then; what is read of its texts is applied to what was known."""

    @initialize()
    def start(self):
        self.topics = dict(list(MANY.items())[:100])
        self.counter = 0
        self.known, self.reported = {}, None

    @rule(number=st.integers(0, 220), perm=st.sampled_from([2, 4, 6]))
    def change(self, number, perm):
        self.topics[f"{number}{LONG}"] = perm

    @rule(number=st.integers(0, 99))
    def delete(self, number):
        self.topics.pop(f"{number}{LONG}", None)

    @rule(name=st.text(min_size=1, max_size=5))
    def name_a_topic_as_no_broker_would(self, name):
        self.topics[name] = 6

    @rule()
    def shuffle(self):
        self.topics = dict(sorted(self.topics.items(), key=lambda item: hash(item[0])))

    @invariant()
    def topics_of_incremental_and_full_decoding_are_equal(self):
        self.counter += 1
        text = text_of(self.topics, counter=self.counter)
        found = read(text, self.reported, self.known)
        everything = all_of(text)
        if found is None:
            self.known, self.reported = everything, None
            return
        self.known |= found.topics
        self.reported = found.reported
        assert {topic: self.known[topic] for topic in everything} == everything
        assert self.reported == read(text).reported or self.reported.topics == len(everything)
        assert self.reported.is_unchanged(text_of(self.topics, counter=self.counter, time=3), 0)


def test_random_changes_are_found_as_decoding_everything_finds_them():
    run_state_machine_as_test(Registrations, settings=settings(max_examples=20, stateful_step_count=15, deadline=None))
