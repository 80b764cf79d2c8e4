"""Log events and metrics of the offset manager are what it declares, and what it serves."""

import re
import sys
from pathlib import Path
from subprocess import run

import pytest
from peers.jars import REPOSITORY
from peers.offset_managers import OffsetManager
from prometheus_client.parser import text_string_to_metric_families

import offsets
from offsets.catalogues import DECLARED, EVENTS, FAMILIES, MODULES
from offsets.config import OFFSET_MANAGER
from serving.logging.events import Level, common_keys
from serving.telemetry.events import Counter, Event, Gauge, Timer


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    manager = OffsetManager(tmp_path_factory.mktemp("manager")).start()
    text = manager.get("/metrics").body["text"]
    assert manager.process.stop() == 0
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_every_module_that_declares_something_is_collected():
    """Modules are found by their text: importing all of them would load what only some managers need."""
    declaring = re.compile(r"^class \w+\(Event\b|^[A-Z_]+: Final = (Counter|Timer|Gauge)\(", re.MULTILINE)
    root = Path(offsets.__file__).parent
    found = {
        ".".join(("offsets", *path.relative_to(root).with_suffix("").parts))
        for path in root.rglob("*.py")
        if declaring.search(path.read_text())
    }
    assert found == {module.__name__ for module in MODULES}
    declared = {
        value for module in MODULES for value in vars(module).values() if isinstance(value, Counter | Gauge | Timer)
    }
    assert declared == {*DECLARED.metrics}


def test_no_name_is_declared_twice():
    for names in ([event.name for event in EVENTS], [family.name for family in FAMILIES]):
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_every_event_has_a_name_a_meaning_and_advice(event):
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", event.name)
    assert event.meaning.endswith(".")
    assert event.advice.endswith(".")
    assert event.level is not Level.ERROR or event.advice != "Nothing."
    assert not {key.name for key in common_keys(OFFSET_MANAGER)} - {"exception"} & set(event.keys)


@pytest.mark.parametrize("event", DECLARED.events, ids=lambda event: event.__name__)
def test_what_an_event_counts_is_declared(event):
    assert issubclass(event, Event)
    assert event.__doc__


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_metric_is_served_with_its_labels(scraped, family):
    served = scraped[family.name.removesuffix("_total") if family.kind == "counter" else family.name]
    assert served.type == family.kind
    labels = {name for sample in served.samples for name in sample.labels} - {"le"}
    assert labels <= set(family.labels)


def test_no_metric_is_served_that_the_page_does_not_have(scraped):
    known = {family.name.removesuffix("_total") for family in FAMILIES}
    assert {name for name in scraped if name.startswith("rocketmq_")} <= known


@pytest.mark.parametrize("page", ["logs", "metrics"])
def test_the_pages_are_written_from_the_declarations(page):
    command = [sys.executable, "-m", "offsets.catalogues", page]
    text = run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert (REPOSITORY / "docs" / f"offset-manager-{page}.md").read_text() == text
