"""Static topics: which broker set holds which of their logical queues."""

import pytest
from builders import BROKER, a_mapping
from route_states import remove_topics

from namesrv.core.tables.topic_table import MappingTable


@pytest.fixture
def table():
    return MappingTable()


def test_an_ordinary_topic_has_no_mapping(table):
    assert table.of_topic("TopicTest") is None
    assert table.of_broker(BROKER) == {}


def test_every_set_of_a_static_topic_has_a_mapping_of_its_own(table):
    mine, other = a_mapping(curr_id_map={0: 0}), a_mapping(broker_name="broker-b", curr_id_map={1: 0})
    table.put(BROKER, {"TopicTest": mine})
    table.put("broker-b", {"TopicTest": other})
    assert table.of_topic("TopicTest") == {BROKER: mine, "broker-b": other}
    assert len(table) == 1


def test_a_set_answers_for_the_static_topics_it_registered(table):
    table.put(BROKER, {"A": a_mapping(topic="A"), "B": a_mapping(topic="B")})
    table.put("broker-b", {"C": a_mapping(topic="C")})
    assert set(table.of_broker(BROKER)) == {"A", "B"}


def test_a_newer_mapping_takes_the_place_of_the_older(table):
    table.put(BROKER, {"TopicTest": a_mapping(epoch=1)})
    table.put(BROKER, {"TopicTest": a_mapping(epoch=2)})
    assert table.of_topic("TopicTest") == {BROKER: a_mapping(epoch=2)}


def test_a_set_that_leaves_a_static_topic_leaves_it_to_the_others(table):
    table.put(BROKER, {"TopicTest": a_mapping()})
    table.put("broker-b", {"TopicTest": a_mapping(broker_name="broker-b")})
    remove_topics(table, BROKER, ["TopicTest"])
    assert table.of_topic("TopicTest") == {"broker-b": a_mapping(broker_name="broker-b")}
    assert table.of_broker(BROKER) == {}


def test_a_topic_is_ordinary_again_once_its_last_set_has_left_it(table):
    table.put(BROKER, {"TopicTest": a_mapping(), "Other": a_mapping(topic="Other")})
    remove_topics(table, BROKER, ["unknown", "TopicTest"])
    assert table.of_topic("TopicTest") is None
    assert table.of_broker(BROKER) == {"Other": a_mapping(topic="Other")}


def test_a_set_cannot_take_away_the_mapping_of_another(table):
    table.put("broker-b", {"TopicTest": a_mapping(broker_name="broker-b")})
    table.put(BROKER, {"Other": a_mapping(topic="Other")})
    remove_topics(table, BROKER, ["TopicTest", "unknown"])
    remove_topics(table, "stranger", ["TopicTest"])
    assert table.of_topic("TopicTest") == {"broker-b": a_mapping(broker_name="broker-b")}
    assert table.of_topic("Other") == {BROKER: a_mapping(topic="Other")}


def test_a_set_that_goes_with_all_it_registered_leaves_nothing_behind(table):
    table.put(BROKER, {"A": a_mapping(topic="A"), "B": a_mapping(topic="B")})
    remove_topics(table, BROKER, list(table.of_broker(BROKER)))
    assert (len(table), table.of_broker(BROKER), table.of_topic("A")) == (0, {}, None)
