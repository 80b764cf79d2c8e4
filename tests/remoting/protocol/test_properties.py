"""Texts and what java.util.Properties of JDK 17 makes of them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoting.protocol.properties import (
    TEXT_BYTES_MAX,
    PropertiesError,
    Property,
    file_text,
    listing_text,
    parse,
    text_with,
)

# A lone surrogate cannot leave the process as UTF-8, so none is ever written.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def as_mapping(properties):
    return {each.key: each.value for each in properties}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (b"", {}),
        (b"listenPort=9876\n", {"listenPort": "9876"}),
        (b"listenPort = 9876", {"listenPort": "9876"}),
        (b"listenPort:9876\r\nbindAddress\t127.0.0.1\r\n", {"listenPort": "9876", "bindAddress": "127.0.0.1"}),
        (b"a=1\rb=2", {"a": "1", "b": "2"}),
        (b"key", {"key": ""}),
        (b"=value", {"": "value"}),
        (b"key= = value", {"key": "= value"}),
        (b"key  value with blanks  ", {"key": "value with blanks  "}),
        (b"\t\f key=v", {"key": "v"}),
        (b"# a=1\n  ! b=2\nc=#3", {"c": "#3"}),
        (b"# continued \\\na=1", {"a": "1"}),
        (b"k\\=e\\:y\\ =v\\=w", {"k=e:y ": "v=w"}),
        (b"path=C\\:\\\\rocketmq\\n\\t\\r\\f\\z", {"path": "C:\\rocketmq\n\t\r\fz"}),
        (b"euro=\\u20AC \\ud83d\\ude80", {"euro": "€ 🚀"}),
        (b"half=\\ud83d!", {"half": "\ufffd!"}),
        (b"latin=caf\xe9", {"latin": "café"}),
        ("utf8=café".encode(), {"utf8": "cafÃ©"}),
        (b"a=1\na=2", {"a": "2"}),
    ],
)
def test_text_is_read_as_java_reads_it(text, read):
    assert as_mapping(parse(text)) == read


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (b"list=a,\\\n     b,\\\r\n     c\nnext=1", [Property("list", "a,b,c", 1), Property("next", "1", 4)]),
        (b"a=1\\\\\nb=2", [Property("a", "1\\", 1), Property("b", "2", 2)]),
        (b"a=1\\\n# no comment", [Property("a", "1# no comment", 1)]),
        (b"a=1\\\n\nb=2", [Property("a", "1", 1), Property("b", "2", 3)]),
        (b"a=1\\", [Property("a", "1", 1)]),
        (b"a=1\\\n", [Property("a", "1", 1)]),
        (b"\\\n\\\na=1\n\\", [Property("a", "1", 3)]),
    ],
)
def test_a_backslash_at_the_end_continues_a_line_and_the_line_number_is_the_first_one(text, read):
    assert parse(text) == read


@pytest.mark.parametrize("escape", [b"\\u", b"\\u12", b"\\u12g4", b"\\uu0041"])
def test_a_broken_unicode_escape_is_named_with_its_line(escape):
    with pytest.raises(PropertiesError) as caught:
        parse(b"# first\na=1\nb=" + escape)
    assert caught.value.line == 3
    assert str(caught.value) == "line 3: \\u must be followed by four hexadecimal digits"


def test_a_text_over_the_limit_is_refused_and_one_at_the_limit_is_read_at_once():
    hard = b"\\\\" * (TEXT_BYTES_MAX // 2)
    assert parse(hard)[0].key == "\\" * (TEXT_BYTES_MAX // 2)
    with pytest.raises(PropertiesError, match=f"more than the limit of {TEXT_BYTES_MAX}"):
        parse(hard + b"a")


def test_the_listing_is_sorted_and_nothing_in_it_is_escaped():
    assert listing_text({"kvConfigPath": "C:\\kv", "Z": "", "bindAddress": "0.0.0.0"}) == (
        "Z=\nbindAddress=0.0.0.0\nkvConfigPath=C:\\kv\n"
    )


def test_the_file_text_is_sorted_and_escaped_only_where_it_must_be():
    assert file_text({"b": "0.0.0.0:9876; x = #y", "a b=#!": " é\\🚀\n\x00"}) == (
        "a\\ b\\=\\#\\!=\\ \\u00e9\\\\\\ud83d\\ude80\\n\\u0000\nb=0.0.0.0:9876; x = #y\n"
    )


@given(st.dictionaries(TEXTS, TEXTS, max_size=5))
def test_what_is_written_to_a_file_is_read_back_unchanged(items):
    text = file_text(items)
    assert as_mapping(parse(text.encode("ascii"))) == items
    assert [each.key for each in parse(text.encode("ascii"))] == sorted(items)


@given(st.lists(st.sampled_from([b"a", b"=", b" ", b"\\", b"\n", b"\r", b"#", b"u", b"\\u0041", b"\xff"])))
def test_any_bytes_are_read_or_refused_with_a_line(pieces):
    text = b"".join(pieces)
    lines = len(re.split(rb"\r\n|\r|\n", text))
    try:
        numbers = [each.line for each in parse(text)]
    except PropertiesError as error:
        numbers = [error.line]
    assert numbers == sorted(set(numbers))
    assert all(1 <= number <= lines for number in numbers)


# Changed text


def changed(text, *names, **values):
    return text_with(text, values, lambda name: "a" if name in names else name)


def test_a_changed_value_stands_where_the_old_one_stood_and_a_new_one_last():
    assert changed(b"# x\n\n a : 1\nb=2 # no comment\n", a="7", c="8") == b"# x\n\na=7\nb=2 # no comment\nc=8\n"


def test_lines_of_all_names_of_a_property_become_one():
    assert changed(b"A=1\r\nb=2\r\na=\\\r\n 3\r\n", "A", a="7") == b"a=7\r\nb=2\r\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", b"a=7\n"),
        (b"# x", b"# x\na=7\n"),
        (b"b=\\", b"b=\\\n\na=7\n"),
        (b"b=\\\n", b"b=\\\n\na=7\n"),
        (b"# \xe9\n", b"# \xe9\na=7\n"),
    ],
)
def test_what_stands_last_does_not_take_a_new_line_for_its_own(text, expected):
    assert changed(text, a="7") == expected


@given(
    st.text("ab=: \\#!\r\n\u00e9", max_size=30).map(lambda text: text.encode("iso-8859-1")),
    st.dictionaries(st.sampled_from(["a", "b", "", "c d"]), st.text(" a\\#\n\u20ac", max_size=4), max_size=3),
)
def test_a_changed_text_means_the_same_but_for_the_changes(text, values):
    before = [(each.key, each.value) for each in parse(text)]
    after = [(each.key, each.value) for each in parse(text_with(text, values, str))]
    assert dict(after) == dict(before) | values
    assert [each for each in after if each[0] not in values] == [each for each in before if each[0] not in values]
