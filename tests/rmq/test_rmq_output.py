"""What rows look like as a table, JSON, JSON lines and CSV, whatever is in names."""

import csv
import io
import json

import msgspec
import pytest

from rmq.output.formats import Style, rendered
from rmq.output.printable import printable, terminal_columns


class ARow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    topic_name: str
    queues: int | None = None
    role: str | None = None
    last_stored_unix_ms: int | None = None


ODD = [
    'it\'s "quoted", twice',
    "<script>alert(1)</script>",
    "订单主题",
    "x" * 255,
    "a\x1b[2Jb\nc\td",
    "safe\u202egnp.exe",
]


def table(*rows, **style):
    return rendered(rows, ARow, Style(**style))


def test_columns_of_a_table_are_aligned_numbers_to_the_right():
    shown = table(ARow(topic_name="a", queues=4), ARow(topic_name="long", queues=16))

    assert shown.splitlines() == ["topicName  queues", "a               4", "long           16"]


def test_columns_that_no_row_has_are_left_out():
    assert table(ARow(topic_name="a")) == "topicName\na\n"
    assert table(ARow(topic_name="a"), has_header=False) == "a\n"


def test_without_rows_there_are_the_names_of_columns():
    assert table() == "topicName  queues  role  lastStored\n"
    assert json.loads(table(output_format="json")) == {"items": []}
    assert table(output_format="jsonl") == ""


def test_chinese_names_are_aligned_by_the_columns_that_they_take():
    lines = table(ARow(topic_name="订单", queues=1), ARow(topic_name="abcd", queues=2)).splitlines()

    assert terminal_columns(lines[1]) == terminal_columns(lines[2])
    assert terminal_columns("e\u0301") == 1


@pytest.mark.parametrize("name", ODD)
def test_terminal_gets_no_character_that_it_would_obey(name):
    for shown in (table(ARow(topic_name=name), has_header=False), printable(name) + "\n"):
        assert len(shown.splitlines()) == 1
        assert all(each.isprintable() for each in shown[:-1])


def test_control_characters_and_marks_of_direction_are_shown_as_numbers():
    assert printable("a\x1b[2J\u202e\U000e0001\u2028") == r"a\x1b[2J\u202e\U000e0001\u2028"
    assert printable("Orders\u3164\ufe0f\u034f") == r"Orders\u3164\ufe0f\u034f"
    assert printable("订单 <b> ö") == "订单 <b> ö"


@pytest.mark.parametrize("name", ODD)
def test_json_is_exact(name):
    row = ARow(topic_name=name, queues=1)

    assert json.loads(table(row, output_format="json"))["items"][0]["topicName"] == name
    (line,) = table(row, output_format="jsonl").split("\n")[:-1]
    assert json.loads(line)["topicName"] == name


@pytest.mark.parametrize("name", ODD)
def test_csv_has_one_cell_for_each_name(name):
    (_, cells) = csv.reader(io.StringIO(table(ARow(topic_name=name, queues=1), output_format="csv")))

    assert cells == [printable(name), "1", "", ""]


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_csv_has_no_formula(begin):
    shown = table(ARow(topic_name=f"{begin}cmd|calc"), output_format="csv", has_header=False)

    assert next(csv.reader(io.StringIO(shown)))[0] == printable(f"'{begin}cmd|calc")


def test_csv_has_no_formula_where_a_semicolon_ends_a_cell():
    shown = table(ARow(topic_name="a;=cmd|calc;-1"), output_format="csv", has_header=False)

    assert next(csv.reader(io.StringIO(shown)))[0] == "a;'=cmd|calc;'-1"
    assert table(ARow(topic_name="broker-a:1;broker-b:4"), output_format="csv", has_header=False).startswith(
        "broker-a:1;b"
    )


def test_csv_leaves_negative_numbers_alone():
    assert table(ARow(topic_name="-1.5", queues=-1), output_format="csv", has_header=False) == "-1.5,-1,,\n"


def test_times_are_iso_in_tables_and_unix_ms_in_json():
    row = ARow(topic_name="a", last_stored_unix_ms=1_700_000_000_123)

    assert "2023-11-14T22:13:20.123Z" in table(row)
    assert json.loads(table(row, output_format="json"))["items"][0]["lastStoredUnixMs"] == 1_700_000_000_123
    assert "99999999999999999" in table(ARow(topic_name="a", last_stored_unix_ms=99999999999999999))


def test_narrow_terminal_gets_a_line_for_each_cell_and_nothing_is_cut():
    shown = table(ARow(topic_name="x" * 255, queues=4), ARow(topic_name="y", queues=1), width=80)

    assert shown.splitlines() == ["topicName  " + "x" * 255, "queues     4", "", "topicName  y", "queues     1"]


def test_colours_are_of_roles_and_states_and_only_on_request():
    row = ARow(topic_name="master", role="master")

    assert "\x1b[32mmaster\x1b[0m" in table(row, has_colour=True)
    assert "\x1b" not in table(row)
