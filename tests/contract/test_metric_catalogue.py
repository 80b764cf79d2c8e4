"""The catalogue of metrics, its page, a live scrape, and the limits on it."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest
from builders import topic_configs
from clusters import register
from fakes.site import Site
from peers.programs import require
from prometheus_client.parser import text_string_to_metric_families

from namesrv.core.tables.live_table import LiveKey
from namesrv.core.values.cooperative import run_to_completion
from namesrv.core.values.effects import HeartbeatKind
from namesrv.observability import metric_catalogue
from namesrv.observability.metric_catalogue import FAMILIES

ROOT = Path(__file__).parents[2]
SERIES_MAX = 5000
BROKERS = 300
TOPICS = 10_000

#: What no label may hold, since there are too many of it or peers choose it.
FORBIDDEN_LABELS = {"topic", "group", "queue", "client", "addr", "address", "peer", "node_id"}


@pytest.fixture
async def site():
    async with Site() as site:
        yield site


def families_of(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def parsed_name(family):
    """Return the name that the parser gives a family: without `_total`."""
    return family.name.removesuffix("_total") if family.kind == "counter" else family.name


def lively(site):
    """Let everything happen that has labels of its own."""
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


def test_the_page_is_the_catalogue():
    page = (ROOT / "docs/metrics.md").read_text()
    assert page == metric_catalogue.as_markdown(), "python -m namesrv.observability.metric_catalogue > docs/metrics.md"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_each_metric_has_a_conventional_name_and_a_sentence(family):
    assert re.fullmatch(r"rocketmq_(namesrv|http|history)_[a-z0-9_]+", family.name)
    assert family.name.endswith("_total") == (family.kind == "counter")
    assert family.meaning.endswith(".")
    assert not FORBIDDEN_LABELS & set(family.labels)
    assert "|" not in family.meaning


async def test_scrape_has_exactly_the_families_of_the_catalogue(site):
    lively(site)
    status, text = await site.get("/metrics")
    assert status == 200
    found = {name: family for name, family in families_of(text).items() if not name.startswith("process_")}
    assert set(found) == {parsed_name(family) for family in FAMILIES}
    for family in FAMILIES:
        scraped = found[parsed_name(family)]
        assert (scraped.type, scraped.documentation) == (family.kind, family.meaning)


async def test_every_series_has_the_labels_of_the_catalogue(site):
    lively(site)
    await site.get("/healthz")
    found = families_of((await site.get("/metrics"))[1])
    for family in FAMILIES:
        samples = found[parsed_name(family)].samples
        assert samples, family.name
        for sample in samples:
            assert set(sample.labels) - {"le"} == set(family.labels), sample


async def test_every_series_occurs_once(site):
    lively(site)
    _, text = await site.get("/metrics")
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(set(series)) == len(series)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells about processes in /proc")
async def test_scrape_has_the_memory_of_the_process(site):
    _, text = await site.get("/metrics")
    assert families_of(text)["process_resident_memory_bytes"].samples[0].value > 0


async def test_promtool_accepts_a_live_scrape(site):
    require("promtool")
    lively(site)
    await site.get("/healthz")
    _, text = await site.get("/metrics")
    process = await asyncio.create_subprocess_exec(
        "promtool", "check", "metrics", stdin=PIPE, stdout=PIPE, stderr=STDOUT
    )
    findings, _ = await process.communicate(text.encode())
    assert (process.returncode, findings) == (0, b"")


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
    register_last = register(site.state, "broker-a", cluster="lasting", now_ms=site.clock.now_ms())
    site.record(register_last)
    _, text = await site.get("/metrics")
    found = families_of(text)
    for family in ("heartbeats", "registrations", "unregistrations", "route_changes"):
        clusters = {sample.labels["cluster"] for sample in found[f"rocketmq_namesrv_{family}"].samples}
        assert {"lasting", "cluster-99"} <= clusters, family
        assert "__other__" not in clusters
        assert len(clusters) <= 20


async def test_size_of_a_scrape_is_bounded_with_invented_names(site):
    for number in range(2000):
        # As many as one connection may have come over it.
        fields = {"cluster": f"cluster-{number}", "topics": topic_configs("a", "b"), "connection_id": number // 1000}
        registered = register(site.state, f"broker-{number}", **fields)
        site.record(registered)
        site.statistics.count_finished(number, number)
    _, text = await site.get("/metrics")
    series = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(series) < 2 * SERIES_MAX
    found = families_of(text)
    overflow = {sample.labels["metric"]: sample.value for sample in found["rocketmq_namesrv_label_overflow"].samples}
    assert overflow["rocketmq_namesrv_broker_info"] == 1000
    assert overflow["rocketmq_namesrv_active_brokers"] > 0
    active = found["rocketmq_namesrv_active_brokers"].samples
    assert sum(sample.value for sample in active) == 2000
