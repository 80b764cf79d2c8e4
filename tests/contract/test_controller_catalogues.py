"""The catalogues of the controller's log events and metrics, their pages, and the code that writes them."""

import ast
import asyncio
import re
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest
from fakes.in_process_controller import InProcessController
from peers.programs import require
from prometheus_client.parser import text_string_to_metric_families

from controller.config import CONTROLLER
from controller.failover.events import BROKERS_FAILED, FAILOVERS
from controller.observability import log_events, metric_catalogue
from controller.observability.analytics_results import Sample
from controller.observability.log_events import DECLARED, EVENTS
from controller.observability.metric_catalogue import FAMILIES
from controller.role_probe.events import LAST_GAP
from serving.logging import server_events
from serving.logging.events import Level, common_keys
from serving.telemetry.events import Count, Counted, Measure

ROOT = Path(__file__).parents[2]
SOURCES = [path for package in ("controller", "serving") for path in (ROOT / package).rglob("*.py")]

#: What no label may hold, since there are too many of it or peers choose it.
FORBIDDEN_LABELS = {"topic", "group", "queue", "client", "addr", "address", "peer", "controller_id"}


@pytest.fixture
async def controller(tmp_path):
    async with InProcessController(tmp_path) as controller:
        yield await controller.serve_http()


async def lively(controller):
    """Let everything happen that has labels of its own."""
    await controller.a_set(1, 2)
    await controller.pass_ms(1000, beating=(1, 2))
    await controller.elect(2, designate=True)
    controller.counters.certificate_expiry["server"] = 2e9
    controller.logs._limits.suppressed["broker_failed"] += 1
    controller.statistics.count_finished(1004, 0)
    controller.statistics.latencies_of(1004).add(1_000_000, 1)
    controller.telemetry.emit(Counted(count=Count(BROKERS_FAILED, ("C", "timeout"))))
    controller.telemetry.emit(Counted(count=Count(FAILOVERS, ("C", "timeout", "failed_over"))))
    controller.results = tuple(
        Sample(family, tuple(family.labels), 1.0) for family in metric_catalogue.ANALYTICS_RESULTS
    )
    controller.probe_measures = (Measure(LAST_GAP, 1.5, ("C", "broker-a")),)
    await controller.get("/healthz")


def families_of(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def parsed_name(family):
    """Return the name that the parser gives a family: without `_total`."""
    return family.name.removesuffix("_total") if family.kind == "counter" else family.name


def test_every_module_that_declares_something_is_collected():
    """One of its events would raise KeyError otherwise."""
    declaring = re.compile(r"^class \w+\(Event\b|^[A-Z_]+: Final = (Counter|Timer|Gauge)\(", re.MULTILINE)
    found = {path for path in (ROOT / "controller").rglob("*.py") if declaring.search(path.read_text())}
    assert found == {Path(module.__file__) for module in log_events.MODULES}
    assert len(FAMILIES) == len(set(FAMILIES))
    assert {metric.family(metric_catalogue.MAKE) for metric in DECLARED.metrics} <= set(FAMILIES)


def test_the_log_page_is_the_catalogue():
    page = (ROOT / "docs/controller-logs.md").read_text()
    assert page == log_events.as_markdown(), "python -m controller.observability.log_events > docs/controller-logs.md"


def test_the_metric_page_is_the_catalogue():
    page = (ROOT / "docs/controller-metrics.md").read_text()
    assert page == metric_catalogue.as_markdown(), (
        "python -m controller.observability.metric_catalogue > docs/controller-metrics.md"
    )


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_each_event_has_a_meaning_and_advice(event):
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", event.name)
    assert event.meaning.endswith(".")
    assert event.advice.endswith(".")
    assert event.level is not Level.ERROR or event.advice != "Nothing."
    assert not {key.name for key in common_keys(CONTROLLER)} - {"exception"} & set(event.keys)
    assert "|" not in event.meaning + event.advice


def test_no_two_events_share_a_name():
    assert len({event.name for event in EVENTS}) == len(EVENTS)


def test_every_event_is_told_somewhere():
    used = set()
    for path in SOURCES:
        if path.name == "server_events.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(attr=name) | ast.Name(id=name):
                    used.add(name)
    told = {event.__name__ for event in DECLARED.events}
    own = {name for name, event in vars(server_events).items() if event in EVENTS}
    assert (told | own) - used == set()


def test_nothing_is_printed_or_logged_past_the_catalogue():
    for path in (ROOT / "controller").rglob("*.py"):
        assert not re.search(r"^import logging|getLogger|structlog", path.read_text(), re.MULTILINE), path


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_each_metric_has_a_conventional_name_and_a_sentence(family):
    assert re.fullmatch(r"rocketmq_(controller|http|history|analytics)_[a-z0-9_]+", family.name)
    assert family.name.endswith("_total") == (family.kind == "counter")
    assert family.meaning.endswith(".")
    assert not FORBIDDEN_LABELS & set(family.labels)
    assert "|" not in family.meaning


async def test_scrape_has_exactly_the_families_of_the_catalogue(controller):
    await lively(controller)
    status, text = await controller.get("/metrics")
    assert status == 200
    found = {name: family for name, family in families_of(text).items() if not name.startswith("process_")}
    assert set(found) == {parsed_name(family) for family in FAMILIES}
    for family in FAMILIES:
        scraped = found[parsed_name(family)]
        assert (scraped.type, scraped.documentation) == (family.kind, family.meaning)


async def test_every_series_has_the_labels_of_the_catalogue_and_occurs_once(controller):
    await lively(controller)
    _, text = await controller.get("/metrics")
    found = families_of(text)
    for family in FAMILIES:
        samples = found[parsed_name(family)].samples
        assert samples, family.name
        for sample in samples:
            assert set(sample.labels) - {"le"} == set(family.labels), sample
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(set(series)) == len(series)


async def test_promtool_accepts_a_live_scrape(controller):
    require("promtool")
    await lively(controller)
    _, text = await controller.get("/metrics")
    process = await asyncio.create_subprocess_exec(
        "promtool", "check", "metrics", stdin=PIPE, stdout=PIPE, stderr=STDOUT
    )
    findings, _ = await process.communicate(text.encode())
    # A forecast is in days, as people plan.
    assert findings.decode().splitlines() == [
        'rocketmq_analytics_capacity_days_left use base unit "seconds" instead of "days"'
    ]


async def test_every_written_line_has_the_keys_of_its_event(controller):
    await lively(controller)
    controller.control.monitor.connection_lost(2)
    await controller.register(2)
    await controller.clean("1", living=True)
    events = {event.name: event for event in EVENTS}
    own = {"timestamp", "level", "event", "exception", "audit", "peer", "request_code", "opaque"}
    written = {line["event"] for line in controller.lines.decoded()}
    assert written >= {"broker_id_applied", "broker_started", "master_elected", "sync_state_set_altered"}
    assert written >= {"broker_suspected", "master_restarted", "brokers_cleaned"}
    for line in controller.lines.decoded():
        assert line.keys() - own <= set(events[line["event"]].keys), line
