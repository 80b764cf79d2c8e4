"""Objects and integers as keys, as fastjson writes them, become standard JSON."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoting.protocol.errors import BodyError
from remoting.protocol.object_keys import with_quoted_keys


def plain(text):
    return msgspec.json.decode(with_quoted_keys(text.encode()))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{{"q":0}:7}', {'{"q":0}': 7}),
        ('{"t":{{"q":0}:{"m":1},{"q":1}:{"m":2}},"p":3}', {"t": {'{"q":0}': {"m": 1}, '{"q":1}': {"m": 2}}, "p": 3}),
        ('{{"q":0} : 7}', {'{"q":0}': 7}),
        ('{"t":{}}', {"t": {}}),
        ('[{"a":1},{"b":{"c":2}}]', [{"a": 1}, {"b": {"c": 2}}]),
        ('{"{\\"q\\":0}":7}', {'{"q":0}': 7}),
        ('{0:5280,-1 : 5312,"2":3}', {"0": 5280, "-1": 5312, "2": 3}),
        ('{"a":{0:{"b":1}},"t{1:2":[3,4]}', {"a": {"0": {"b": 1}}, "t{1:2": [3, 4]}),
        ("7", 7),
    ],
)  # fmt: skip
def test_keys_become_strings_and_all_else_stays(text, value):
    assert plain(text) == value


@given(st.lists(st.text(), unique=True))
def test_names_with_any_characters_survive(names):
    queues = [msgspec.json.encode({"topic": name}) for name in names]
    text = b'{"offsetTable":{' + b",".join(b"%b:%d" % (queue, at) for at, queue in enumerate(queues)) + b"}}"
    table = msgspec.json.decode(with_quoted_keys(text))["offsetTable"]
    assert {msgspec.json.decode(key)["topic"]: at for key, at in table.items()} == {
        name: at for at, name in enumerate(names)
    }


@given(st.binary())
def test_invalid_json_raises_no_other_error(text):
    try:
        assert isinstance(with_quoted_keys(text), bytes)
    except BodyError:
        assert b"}" in text


def test_key_that_is_not_utf_8_is_refused():
    with pytest.raises(BodyError):
        with_quoted_keys(b'{{"q":"\xff"}:7}')
