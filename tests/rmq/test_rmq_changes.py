"""What changed between two readings of rows, and the picture of them in a terminal."""

from typing import ClassVar

import msgspec
import pytest

from rmq.cli.watch import changes_between, keyed, picture, rendered_changes
from rmq.output.formats import Style

NOW = 1_800_000_000_000


class QueueRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    row_key: ClassVar = ("topic", "broker_names")

    topic: str
    broker_names: list[str] | None = None
    queues: int = 4


class PlainRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str


def changes(before, after):
    return changes_between(keyed(before), keyed(after), NOW)


def kinds(before, after):
    return [(each.type, each.object.topic, each.object.queues) for each in changes(before, after)]


def test_rows_are_added_modified_and_deleted_by_their_keys():
    before = [QueueRow(topic="a"), QueueRow(topic="b"), QueueRow(topic="c")]
    after = [QueueRow(topic="d"), QueueRow(topic="b", queues=8), QueueRow(topic="c")]

    assert kinds(before, after) == [("DELETED", "a", 4), ("ADDED", "d", 4), ("MODIFIED", "b", 8)]
    assert kinds(after, after) == []


def test_rows_with_the_same_key_are_counted():
    """As where two NameServers tell different routes of a topic."""
    one, two = QueueRow(topic="a"), QueueRow(topic="a", queues=8)

    assert kinds([one], [one, two]) == [("ADDED", "a", 8)]
    assert kinds([one, two], [one]) == [("DELETED", "a", 8)]


def test_keys_may_be_lists():
    assert kinds([QueueRow(topic="a", broker_names=["x"])], [QueueRow(topic="a", broker_names=["y"])]) == [
        ("DELETED", "a", 4),
        ("ADDED", "a", 4),
    ]


def test_rows_without_a_key_are_never_modified():
    assert [each.type for each in changes([PlainRow(name="a")], [PlainRow(name="b")])] == ["DELETED", "ADDED"]


@pytest.mark.parametrize(
    ("output_format", "text"),
    [
        ("jsonl", '{"type":"ADDED","seenUnixMs":1800000000000,"object":{"topic":"a","brokerNames":null,"queues":4}}\n'),
        ("csv", "type,seen,topic,brokerNames,queues\nADDED,2027-01-15T08:00:00.000Z,a,,4\n"),
        ("table", "type   seen                      topic  queues\nADDED  2027-01-15T08:00:00.000Z  a           4\n"),
    ],
)
def test_changes_are_written_in_each_form(output_format, text):
    found = changes([], [QueueRow(topic="a")])

    assert rendered_changes(found, QueueRow, Style(output_format=output_format)) == text


@pytest.mark.parametrize("height", [1, 2, 5, 6, 24])
@pytest.mark.parametrize("width", [5, 80])
def test_picture_is_never_higher_than_a_window_that_has_six_lines(height, width):
    rows = [QueueRow(topic=f"topic-{number}") for number in range(10_000)]
    lines = picture(rows, QueueRow, Style(width=width), ["state", "a\x1b[2Jwarning"], height)

    assert len(lines) <= max(height, 6)
    assert lines[:3] == ["state", r"a\x1b[2Jwarning", ""]
    assert lines[-1].startswith("… 10000 rows in all")


def test_picture_of_what_fits_has_all_of_it():
    lines = picture([QueueRow(topic="a")], QueueRow, Style(width=80), ["state"], 24)

    assert lines == ["state", "", "topic  queues", "a           4"]
