"""The words of the console: each message is there in both languages, with the same values in it."""

import json
import re
from importlib.resources import files

import pytest

from offsets.sets.followed import MasterChangeKind
from serving.shapes.offsets import JumpCause, Outcome, Status

#: Changes of a master after which nothing is repaired.
NOT_REPAIRED = {MasterChangeKind.ADDRESS_CHANGED, MasterChangeKind.LOST, MasterChangeKind.REMOVED}


def messages(code):
    return json.loads((files("console") / "static" / f"messages.{code}.json").read_text())


def test_languages_have_the_same_messages_with_the_same_values():
    english, chinese = (
        {key: set(re.findall(r"\{\w+\}", text)) for key, text in messages(code).items()} for code in ("en", "zh")
    )
    assert english == chinese


@pytest.mark.parametrize(
    ("prefix", "values"),
    [("status", Status), ("outcome", Outcome), ("cause", JumpCause), ("change", set(MasterChangeKind) - NOT_REPAIRED)],
)
def test_what_an_offset_manager_tells_has_a_label(prefix, values):
    start = f"offsets.{prefix}."
    assert {key.removeprefix(start) for key in messages("en") if key.startswith(start)} == set(values)
