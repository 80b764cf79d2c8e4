"""The catalogues of the offset manager's log events and metrics, their pages, and what it serves."""

import re
from pathlib import Path

import pytest
from peers.offset_managers import OffsetManager, an_entry
from prometheus_client.parser import text_string_to_metric_families

from controller.offsets.config import OFFSET_MANAGER
from controller.offsets.observability import log_events, metric_catalogue
from controller.offsets.observability.log_events import EVENTS
from controller.offsets.observability.metric_catalogue import FAMILIES
from serving.logging.events import Level, LogEvent, common_keys

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    manager = OffsetManager(tmp_path_factory.mktemp("manager")).start()
    manager.commit(an_entry(1))
    text = manager.get("/metrics").body["text"]
    assert manager.process.stop() == 0
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_the_log_page_is_the_catalogue():
    page = (ROOT / "docs/offset-manager-logs.md").read_text()
    command = "python -m controller.offsets.observability.log_events > docs/offset-manager-logs.md"
    assert page == log_events.as_markdown(), command


def test_the_metric_page_is_the_catalogue():
    page = (ROOT / "docs/offset-manager-metrics.md").read_text()
    command = "python -m controller.offsets.observability.metric_catalogue > docs/offset-manager-metrics.md"
    assert page == metric_catalogue.as_markdown(), command


def test_every_event_of_the_manager_is_on_the_page():
    own = {each for each in vars(log_events).values() if isinstance(each, LogEvent)}
    assert own <= set(EVENTS)
    assert len({each.name for each in EVENTS}) == len(EVENTS)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_each_event_has_a_meaning_and_advice(event):
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", event.name)
    assert event.meaning.endswith(".")
    assert event.advice.endswith(".")
    assert event.level is not Level.ERROR or event.advice != "Nothing."
    assert not {key.name for key in common_keys(OFFSET_MANAGER)} - {"exception"} & set(event.keys)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_each_metric_is_served_with_its_labels(scraped, family):
    served = scraped[family.name.removesuffix("_total") if family.kind == "counter" else family.name]
    assert served.type == family.kind
    labels = {name for sample in served.samples for name in sample.labels} - {"le"}
    assert labels <= set(family.labels)


def test_no_metric_is_served_that_the_page_does_not_have(scraped):
    known = {each.name.removesuffix("_total") for each in FAMILIES}
    assert {name for name in scraped if name.startswith("rocketmq_")} <= known
