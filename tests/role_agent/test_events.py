"""The catalogue of an agent's log events, its page, and the code that writes them."""

import ast
import re
from pathlib import Path

import pytest

from role_agent import events
from role_agent.events import AgentEvent

ROOT = Path(__file__).parents[2]


def test_the_page_is_the_catalogue():
    page = (ROOT / "docs" / "role-agent-logs.md").read_text()
    assert page == events.as_markdown(), "python -m role_agent.events > docs/role-agent-logs.md"


@pytest.mark.parametrize("event", AgentEvent, ids=lambda event: event.key)
def test_each_event_has_a_meaning_and_advice(event):
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", event.key)
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
    assert {event.name for event in AgentEvent} - used == set()
