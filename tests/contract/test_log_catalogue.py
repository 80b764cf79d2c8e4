"""The catalogue of log events, its page, and the code that writes them."""

import ast
import re
from pathlib import Path

import pytest

from namesrv.observability import log_events
from namesrv.observability.log_events import EVENTS
from namesrv.settings.config import NAMESRV
from serving.logging import server_events
from serving.logging.events import Level, LogEvent, common_keys

ROOT = Path(__file__).parents[2]
CONSTANTS = {
    name: value
    for catalogue in (server_events, log_events)
    for name, value in vars(catalogue).items()
    if isinstance(value, LogEvent)
}
CATALOGUES = {"event_catalogue.py", "server_events.py"}
SOURCES = [path for package in ("namesrv", "serving") for path in (ROOT / package).rglob("*.py")]


def test_every_event_of_the_code_is_on_the_page():
    assert set(CONSTANTS.values()) == set(EVENTS)


def test_the_page_is_the_catalogue():
    page = (ROOT / "docs/logs.md").read_text()
    assert page == log_events.as_markdown(), "python -m namesrv.observability.log_events > docs/logs.md"


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_each_event_has_a_meaning_and_advice(event):
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", event.name)
    assert event.name.endswith(("ed", "ing", "ready")), "noun_verb_past, or the state that began"
    assert event.meaning.endswith(".")
    assert event.advice.endswith(".")
    assert event.level is not Level.ERROR or event.advice != "Nothing."
    assert not {key.name for key in common_keys(NAMESRV)} - {"exception"} & set(event.keys)
    assert "|" not in event.meaning + event.advice


def test_no_two_events_share_a_name_and_each_constant_is_named_for_its_event():
    assert len({event.name for event in EVENTS}) == len(EVENTS)
    for name, event in CONSTANTS.items():
        assert event.name.upper() == name


def test_every_event_is_written_somewhere():
    used = set()
    for path in SOURCES:
        if path.name in CATALOGUES:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(attr=name) | ast.Name(id=name):
                    used.add(name)
    assert CONSTANTS.keys() - used == set()


def test_nothing_is_printed_or_logged_past_the_catalogue():
    allowed = {ROOT / "serving" / name for name in ("logging/logs.py", "http/server.py")}
    for path in [*SOURCES, *(ROOT / "remoting").rglob("*.py")]:
        source = path.read_text()
        if path not in allowed:
            assert not re.search(r"^import logging|getLogger|structlog", source, re.MULTILINE), path
