"""The words of the console: each message is there in both languages, with the same values in it."""

import json
import re
from importlib.resources import files


def messages(code):
    return json.loads((files("console") / "static" / f"messages.{code}.json").read_text())


def test_languages_have_the_same_messages_with_the_same_values():
    english, chinese = (
        {key: set(re.findall(r"\{\w+\}", text)) for key, text in messages(code).items()} for code in ("en", "zh")
    )
    assert english == chinese
