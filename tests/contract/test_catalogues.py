"""The catalogues of all servers, of options, log events and metrics: their pages, what tells them, a live scrape."""

import ast
import asyncio
import dataclasses
import re
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest
from builders import topic_configs
from clusters import register
from fakes.in_process_controller import InProcessController
from fakes.site import Site
from msgspec import structs
from peers.offset_managers import OffsetManager
from peers.programs import require
from prometheus_client.parser import text_string_to_metric_families

from controller.config import CONTROLLER
from controller.failover.events import BROKERS_FAILED, FAILOVERS
from controller.observability import log_events as of_controllers
from controller.observability import metric_catalogue as controller_metrics
from controller.observability.analytics_results import Sample
from controller.role_probe.events import LAST_GAP
from namesrv.core.cold_start import ColdStart
from namesrv.core.peer_views import LASTING_MS, Differences, PeerViews, ViewDigests, differences
from namesrv.core.tables.live_table import LiveKey
from namesrv.core.values.cooperative import run_to_completion
from namesrv.core.values.effects import HeartbeatKind
from namesrv.observability import log_events as of_name_servers
from namesrv.observability import metric_catalogue as namesrv_metrics
from namesrv.settings.config import NAMESRV
from offsets import catalogues as of_offset_managers
from offsets.config import OFFSET_MANAGER
from serving.config.options import FilePath, Fixed, Secret, text_of
from serving.logging import server_events
from serving.logging.events import Level, LogEvent, common_keys
from serving.telemetry.events import Count, Counted, Measure

ROOT = Path(__file__).parents[2]
EVENTS = {NAMESRV: of_name_servers.EVENTS, CONTROLLER: of_controllers.EVENTS, OFFSET_MANAGER: of_offset_managers.EVENTS}
FAMILIES = {
    "namesrv": namesrv_metrics.FAMILIES,
    "controller": controller_metrics.FAMILIES,
    "offsets": of_offset_managers.FAMILIES,
}
#: Page -> what writes it.
PAGES = {
    "logs": of_name_servers.as_markdown,
    "metrics": namesrv_metrics.as_markdown,
    "controller-logs": of_controllers.as_markdown,
    "controller-metrics": controller_metrics.as_markdown,
    "offset-manager-logs": of_offset_managers.logs,
    "offset-manager-metrics": of_offset_managers.metrics,
}
#: What declares events, by package.
MODULES = {"controller": of_controllers.MODULES, "offsets": of_offset_managers.MODULES}
DECLARED = (of_controllers.DECLARED, of_offset_managers.DECLARED)
CONSTANTS = {
    name: value
    for catalogue in (server_events, of_name_servers)
    for name, value in vars(catalogue).items()
    if isinstance(value, LogEvent)
}
SERIES_MAX = 5000
BROKERS = 300
TOPICS = 10_000
#: What no label may hold, since there are too many of it or peers choose it.
FORBIDDEN_LABELS = {"topic", "group", "queue", "client", "addr", "address", "peer", "node_id", "controller_id"}


def sources(*packages):
    return [path for package in packages for path in (ROOT / package).rglob("*.py")]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_its_catalogue(page):
    assert (ROOT / "docs" / f"{page}.md").read_text() == PAGES[page](), "see the head of the page for what writes it"


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.program)
def test_each_event_has_a_name_a_meaning_and_advice(kind):
    for event in EVENTS[kind]:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", event.name)
        assert event.meaning.endswith("."), event.name
        assert event.advice.endswith("."), event.name
        assert event.level is not Level.ERROR or event.advice != "Nothing.", event.name
        assert not {key.name for key in common_keys(kind)} - {"exception"} & set(event.keys), event.name
        assert "|" not in event.meaning + event.advice, event.name
    assert len({event.name for event in EVENTS[kind]}) == len(EVENTS[kind])


def test_each_constant_is_named_for_its_event_and_each_event_of_a_name_server_is_on_its_page():
    assert {event.name.upper(): event for event in CONSTANTS.values()} == CONSTANTS
    assert set(CONSTANTS.values()) == set(EVENTS[NAMESRV])


def test_every_event_is_told_somewhere():
    used = set()
    for path in sources("namesrv", "controller", "offsets", "serving"):
        if path.name == "server_events.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(attr=name) | ast.Name(id=name):
                    used.add(name)
    told = {event.__name__ for declared in DECLARED for event in declared.events}
    assert (told | CONSTANTS.keys()) - used == set()


def test_nothing_is_printed_or_logged_past_the_catalogues():
    allowed = {ROOT / "serving" / name for name in ("logging/logs.py", "http/server.py")}
    for path in {*sources("namesrv", "controller", "serving", "remoting")} - allowed:
        assert not re.search(r"^import logging|getLogger|structlog", path.read_text(), re.MULTILINE), path


@pytest.mark.parametrize("package", MODULES)
def test_every_module_that_declares_something_is_collected(package):
    """One of its events would raise KeyError otherwise."""
    declaring = re.compile(r"^class \w+\(Event\b|^[A-Z_]+: Final = (Counter|Timer|Gauge)\(", re.MULTILINE)
    found = {path for path in sources(package) if declaring.search(path.read_text())}
    assert found == {Path(module.__file__) for module in MODULES[package]}


@pytest.mark.parametrize("server", FAMILIES)
def test_each_metric_has_a_conventional_name_and_a_sentence(server):
    for family in FAMILIES[server]:
        assert re.fullmatch(
            r"rocketmq_(namesrv|controller|offset_manager|http|history|analytics)_[a-z0-9_]+", family.name
        )
        assert family.name.endswith("_total") == (family.kind == "counter")
        assert family.meaning.endswith("."), family.name
        assert not FORBIDDEN_LABELS & set(family.labels), family.name
        assert "|" not in family.meaning, family.name
    assert len({family.name for family in FAMILIES[server]}) == len(FAMILIES[server])


# Options


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.program)
def test_each_option_has_a_default_that_its_kind_allows_a_name_of_its_own_and_a_sentence(kind):
    options = kind.options.values()
    for name, option in kind.options.items():
        default = getattr(kind.defaults, name)
        assert option.kind.value_of(text_of(default)) == default, name
        assert option.explanation.endswith("."), name
        assert "%" not in option.explanation, f"{name}: argparse would take it for a format"
    assert len({each.argument for each in options}) == len({each.variable for each in options}) == len(options)
    assert len(kind.field_of_key) == sum(1 + len(each.also) for each in options)


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.program)
def test_no_request_may_change_a_file_or_a_secret_or_where_a_server_listens(kind):
    for option in kind.options.values():
        if isinstance(option.kind, FilePath | Secret) or option.key.startswith("tls."):
            assert isinstance(option.by_request, Fixed), option.key
        if option.key.lower().endswith(("bindaddress", "listenport", "httpport")):
            assert isinstance(option.by_request, Fixed), option.key


@pytest.mark.parametrize("kind", [NAMESRV, CONTROLLER], ids=lambda kind: kind.program)
def test_every_field_but_what_the_file_holds_is_an_option(kind):
    of_the_file = {"unknown", "stored", "others_keys"}
    assert {each.name for each in dataclasses.fields(kind.defaults)} == {*kind.options, *of_the_file}


# Live scrapes


@pytest.fixture
async def site():
    async with Site() as site:
        yield site


async def scrape_of_a_name_server(site):
    """Let everything happen that has labels of its own, and return the text."""
    now_ms = site.clock.now_ms()
    for name in ("broker-a", "broker-b"):
        site.record(register(site.state, name, now_ms=now_ms))
    key = LiveKey("broker-a", "broker-a-0:10911")
    site.record(site.state.heartbeat("DefaultCluster", key, HeartbeatKind.HEARTBEAT, now_ms + 50_000))
    site.counters.certificate_expiry["server"] = 2e9
    site.logs._limits.suppressed["broker_expired"] += 1
    site.statistics.count_finished(105, 0)
    site.statistics.count_finished(9999, 4321)
    site.statistics.latencies_of(105).add(1_000_000, 1)
    other, now_ms = "10.0.0.9:9876", site.clock.now_ms()
    peers = PeerViews(ColdStart(site.state.tables, [other], now_ms), ViewDigests(site.state.tables), Differences())
    peers.digests.changed("broker-a")
    run_to_completion(peers.digests.update(now_ms))
    found = differences(site.state.tables, {}, {}, {})
    peers.differences.put(other, found, now_ms - LASTING_MS)
    site.metrics._sources = structs.replace(site.metrics._sources, peers=peers)
    await site.get("/healthz")
    return (await site.get("/metrics"))[1]


async def scrape_of_a_controller(controller):
    """Do the same there, and have every line that it writes looked up in the catalogue."""
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
        Sample(family, tuple(family.labels), 1.0) for family in controller_metrics.ANALYTICS_RESULTS
    )
    controller.probe_measures = (Measure(LAST_GAP, 1.5, ("C", "broker-a")),)
    await controller.get("/healthz")
    text = (await controller.get("/metrics"))[1]
    controller.control.monitor.connection_lost(2)
    await controller.register(2)
    await controller.clean("1", living=True)
    events = {event.name: event for event in EVENTS[CONTROLLER]}
    own = {"timestamp", "level", "event", "exception", "audit", "peer", "request_code", "opaque"}
    lines = controller.lines.decoded()
    assert {line["event"] for line in lines} >= {"broker_id_applied", "broker_started", "master_elected"}
    assert {line["event"] for line in lines} >= {"broker_suspected", "master_restarted", "brokers_cleaned"}
    for line in lines:
        assert line.keys() - own <= set(events[line["event"]].keys), line
    return text


@pytest.fixture
async def scrapes(tmp_path, site):
    """Server -> its metrics once everything has happened."""
    async with InProcessController(tmp_path) as controller:
        manager = await asyncio.to_thread(OffsetManager(tmp_path).start)
        texts = {
            "namesrv": await scrape_of_a_name_server(site),
            "controller": await scrape_of_a_controller(await controller.serve_http()),
            "offsets": (await asyncio.to_thread(manager.get, "/metrics")).body["text"],
        }
        assert await asyncio.to_thread(manager.process.stop) == 0
        yield texts


def families_of(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


async def test_a_scrape_has_exactly_the_families_and_labels_of_the_catalogue(scrapes):
    for server, text in scrapes.items():
        found = {name: family for name, family in families_of(text).items() if not name.startswith("process_")}
        # The parser names counters without their suffix.
        known = {each.name.removesuffix("_total" * (each.kind == "counter")): each for each in FAMILIES[server]}
        assert found.keys() == known.keys()
        for name, family in known.items():
            scraped = found[name]
            assert (scraped.type, scraped.documentation) == (family.kind, family.meaning)
            assert scraped.samples or server == "offsets", name
            for sample in scraped.samples:
                assert set(sample.labels) - {"le"} == set(family.labels), sample
        series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
        assert len(set(series)) == len(series)


async def test_promtool_accepts_a_live_scrape(scrapes):
    require("promtool")
    # A forecast is in days, as people plan.
    expected = {"controller": ['rocketmq_analytics_capacity_days_left use base unit "seconds" instead of "days"']}
    for server in ("namesrv", "controller"):
        process = await asyncio.create_subprocess_exec(
            "promtool", "check", "metrics", stdin=PIPE, stdout=PIPE, stderr=STDOUT
        )
        findings, _ = await process.communicate(scrapes[server].encode())
        assert findings.decode().splitlines() == expected.get(server, [])


async def test_a_scrape_of_300_brokers_with_10000_topics_stays_small(site):
    everywhere = topic_configs(*(f"topic-{number}" for number in range(TOPICS)))
    for number in range(BROKERS):
        site.record(register(site.state, f"broker-{number}", topics=everywhere, now_ms=site.clock.now_ms()))
    await site.get("/v1/clusters")
    _, text = await site.get("/metrics")
    series = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(series) < SERIES_MAX
    found = families_of(text)
    kinds = {sample.labels["kind"]: sample.value for sample in found["rocketmq_namesrv_topics"].samples}
    assert kinds["normal"] == TOPICS
    queues = {sample.labels["access"]: sample.value for sample in found["rocketmq_namesrv_queues"].samples}
    assert queues == {"read": BROKERS * TOPICS * 16, "write": BROKERS * TOPICS * 16}


async def test_removed_clusters_leave_their_series_to_later_ones(site):
    for number in range(100):
        now_ms = site.clock.now_ms()
        key = LiveKey("broker-a", "broker-a-0:10911")
        site.record(register(site.state, "broker-a", cluster=f"cluster-{number}", now_ms=now_ms))
        site.record(site.state.heartbeat(f"cluster-{number}", key, HeartbeatKind.HEARTBEAT, now_ms))
        site.record(run_to_completion(site.state.expiry_steps(now_ms + 1_000_000)))
    site.record(register(site.state, "broker-a", cluster="lasting", now_ms=site.clock.now_ms()))
    found = families_of((await site.get("/metrics"))[1])
    for family in ("heartbeats", "registrations", "unregistrations", "route_changes"):
        clusters = {sample.labels["cluster"] for sample in found[f"rocketmq_namesrv_{family}"].samples}
        assert {"lasting", "cluster-99"} <= clusters, family
        assert "__other__" not in clusters
        assert len(clusters) <= 20


async def test_size_of_a_scrape_is_bounded_with_invented_names(site):
    for number in range(2000):
        # As many as one connection may have come over it.
        fields = {"cluster": f"cluster-{number}", "topics": topic_configs("a", "b"), "connection_id": number // 1000}
        site.record(register(site.state, f"broker-{number}", **fields))
        site.statistics.count_finished(number, number)
    _, text = await site.get("/metrics")
    assert len([line for line in text.splitlines() if not line.startswith("#")]) < 2 * SERIES_MAX
    found = families_of(text)
    overflow = {sample.labels["metric"]: sample.value for sample in found["rocketmq_namesrv_label_overflow"].samples}
    assert overflow["rocketmq_namesrv_broker_info"] == 1000
    assert overflow["rocketmq_namesrv_active_brokers"] > 0
    assert sum(sample.value for sample in found["rocketmq_namesrv_active_brokers"].samples) == 2000
