"""The catalogue of an agent's log events, its page, and the code that writes them."""

import ast
import re
from pathlib import Path

import pytest

from role_agent import events
from role_agent.events import EVENTS

ROOT = Path(__file__).parents[2]


def test_the_page_is_the_catalogue():
    page = (ROOT / "docs" / "role-agent-logs.md").read_text()
    assert page == events.as_markdown(), "python -m role_agent.events > docs/role-agent-logs.md"


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_each_event_has_a_meaning_and_advice(event):
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", event.name)
    assert event.meaning.endswith(".")
    assert event.advice.endswith(".")
    assert event.level == "info" or event.advice != "Nothing."
    assert "|" not in event.meaning + event.advice


def test_every_event_is_written_somewhere_with_its_name():
    used = {
        node.attr
        for path in (ROOT / "role_agent").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    constants = {name: each for name, each in vars(events).items() if isinstance(each, events.AgentEvent)}
    assert {name for name in constants if name not in used} == set()
    assert {name.lower() for name in constants} == {event.name for event in EVENTS}
