"""The words of the console: each message is there in both languages, with the same values in it."""

import json
import re
from importlib.resources import files

from controller.offsets.restore.values import RestoreStatus


def messages(code):
    return json.loads((files("console") / "static" / f"messages.{code}.json").read_text())


def test_languages_have_the_same_messages_with_the_same_values():
    english, chinese = (
        {key: set(re.findall(r"\{\w+\}", text)) for key, text in messages(code).items()} for code in ("en", "zh")
    )
    assert english == chinese


def test_each_outcome_of_a_restore_has_a_label():
    prefix = "offsets.status."
    labels = {key.removeprefix(prefix) for key in messages("en") if key.startswith(prefix)}
    assert labels == set(RestoreStatus)
