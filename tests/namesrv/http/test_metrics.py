"""What the values of the metrics say."""

import asyncio
import time

import pytest
from builders import CLUSTER, a_broker_set, topic_configs
from clusters import register
from fakes.site import Site
from prometheus_client.parser import text_string_to_metric_families
from route_states import lose_connection

from namesrv.core.role_addresses.checks import FAILING_AFTER_MS, RoleAddressUse
from namesrv.core.role_addresses.documents import rules_of_toml
from namesrv.settings.kv_config import KvConfig
from remoting.server.observer import CloseReason, ConnectionKind, Rejection
from remoting.server.statistics import LATENCY_BOUNDS_NS
from serving.metrics.counters import BROKERS_MAX, OTHER
from serving.metrics.health import Serving
from serving.metrics.server_counters import LATENCY_S


@pytest.fixture
async def site():
    site = Site()
    yield site
    site.logs.close(1)


def scrape(site):
    """Return the samples of a scrape: name and labels -> value."""
    text = b"".join(site.metrics.pieces()).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples, name, **labels):
    return samples.get(("rocketmq_namesrv_" + name, frozenset(labels.items())))


async def test_scrape_has_the_state_of_the_server(site):
    site.settings.kv = KvConfig().with_value("a", "1", "x").with_value("a", "2", "x").with_value("b", "1", "x")
    starting = scrape(site)
    assert (value(starting, "ready"), value(starting, "draining"), value(starting, "kv_entries")) == (0, 0, 3)
    site.health.serving = Serving.READY
    assert value(scrape(site), "ready") == 1
    site.health.serving = Serving.DRAINING
    assert (value(scrape(site), "ready"), value(scrape(site), "draining")) == (0, 1)


async def test_away_sets_and_lost_topics_are_counted_by_cluster(site):
    both = topic_configs("A", "Orders")
    register(site.state, topics=both)
    register(site.state, broker_id=1, connection_id=2, topics=both)
    lose_connection(site.state, 1, 0)
    assert value(scrape(site), "away_broker_sets", cluster=CLUSTER) == 0
    assert value(scrape(site), "lost_topics", cluster=CLUSTER) == 0
    register(site.state, address="broker-a-1:10911", connection_id=2, topics=topic_configs("A", "B"))
    site.state.lost_topics.report(10_000)
    for broker_set, unix_ms in ((a_broker_set(broker_name="broker-b", cluster="Gone"), 0), (None, 60_000)):
        site.state.away_sets.observe("broker-b", broker_set, is_unregistered=False, unix_ms=unix_ms)
    samples = scrape(site)
    assert value(samples, "away_broker_sets", cluster="Gone") == 1
    assert value(samples, "away_broker_sets", cluster=CLUSTER) == 0
    assert value(samples, "lost_topics", cluster=CLUSTER) == 1


async def test_traffic_is_labelled_with_names_of_codes(site):
    statistics = site.statistics
    statistics.count_finished(105, 0)
    statistics.prepared[105] += 1
    statistics.count_finished(105, 17)
    statistics.count_finished(4711, 3)
    statistics.count_finished(105, 4711)
    statistics.count_finished(105, 4712)
    statistics.latencies_of(105).add(300_000, 2)
    statistics.connections[ConnectionKind.BROKER] = 4
    statistics.closed[CloseReason.IDLE] = 5
    statistics.rejected[Rejection.BAD_FRAME] = 6
    statistics.received_bytes = 7
    samples = scrape(site)

    def requests(code, result):
        return value(samples, "requests_total", request_code=code, response_code=result)

    assert requests("get_routeinfo_by_topic", "success") == 2
    assert requests("get_routeinfo_by_topic", "topic_not_exist") == 1
    assert requests("get_routeinfo_by_topic", "unknown") == 2
    assert requests("unknown", "request_code_not_supported") == 1
    assert requests("register_broker", "success") == 0

    def duration(suffix, **labels):
        name = f"request_duration_seconds_{suffix}"
        return value(samples, name, request_code="get_routeinfo_by_topic", **labels)

    assert (duration("bucket", le="0.00025"), duration("bucket", le="0.0005"), duration("count")) == (0, 2, 2)
    assert duration("sum") == pytest.approx(0.0006)
    assert value(samples, "connections", kind="broker") == 4
    assert value(samples, "connections_closed_total", reason="idle") == 5
    assert value(samples, "requests_rejected_total", reason="bad_frame") == 6
    assert value(samples, "received_bytes_total") == 7


def test_latencies_are_counted_in_the_exposed_buckets():
    assert [bound / 1e9 for bound in LATENCY_BOUNDS_NS] == list(LATENCY_S)


async def test_route_queries_are_exposed_by_result(site):
    site.route_counts.found.observe(300)
    site.route_counts.not_found = 2
    site.route_counts.error = 3
    site.state.route_cache.misses = 1
    samples = scrape(site)
    ended = {each: value(samples, "route_queries_total", result=each) for each in ("found", "not_found", "error")}
    assert ended == {"found": 1, "not_found": 2, "error": 3}
    assert value(samples, "route_response_bytes_bucket", le="256.0") == 0
    assert value(samples, "route_response_bytes_bucket", le="512.0") == 1
    assert value(samples, "route_response_bytes_sum") == 300
    assert value(samples, "route_cache_events_total", result="miss") == 1


async def test_broker_series_exist_while_the_broker_is_registered(site):
    register(site.state, "broker-a", now_ms=site.clock.now_ms(), heartbeat_timeout_ms=10_000)
    last_heartbeat_s = site.clock.unix_ms() / 1000
    site.clock.pass_ms(5_000)
    samples = scrape(site)
    who = {"cluster": CLUSTER, "broker": "broker-a", "broker_id": "0"}
    assert value(samples, "broker_last_heartbeat_timestamp_seconds", **who) == last_heartbeat_s
    assert value(samples, "broker_heartbeat_timeout_seconds", **who) == 10
    assert value(samples, "broker_info", **who, version="5.5.0") == 1
    assert value(samples, "active_brokers", cluster=CLUSTER, role="master") == 1
    lose_connection(site.state, 1, site.clock.now_ms())
    gone = scrape(site)
    assert value(gone, "broker_info", **who, version="5.5.0") is None
    assert value(gone, "active_brokers", cluster=CLUSTER, role="master") is None


async def test_brokers_beyond_the_limit_share_their_worst_values(site):
    now_ms = site.clock.now_ms()
    for number in range(BROKERS_MAX + 3):
        silent_ms = 7_000 if number == BROKERS_MAX + 1 else 0
        register(site.state, f"broker-{number}", now_ms=now_ms - silent_ms, topics=topic_configs("a", "b"))
    samples = scrape(site)
    others = {"cluster": OTHER, "broker": OTHER, "broker_id": OTHER}
    last = value(samples, "broker_last_heartbeat_timestamp_seconds", **others)
    assert last == site.clock.unix_ms() / 1000 - 7
    assert value(samples, "broker_info", **others, version=OTHER) == 1
    assert value(samples, "label_overflow_total", metric="rocketmq_namesrv_broker_info") == 3


async def test_label_that_would_break_the_text_is_escaped(site):
    register(site.state, 'b"\\\n', cluster="{}")
    samples = scrape(site)
    assert value(samples, "active_brokers", cluster="{}", role="master") == 1
    assert any(("broker", 'b"\\\n') in labels for _, labels in samples)


async def test_scrapes_at_the_same_time_share_one_rendering(site, monkeypatch):
    renderings = []
    pieces = site.metrics.pieces

    def counted(process):
        renderings.append(1)
        return pieces(process)

    monkeypatch.setattr(site.metrics, "pieces", counted)
    texts = await asyncio.gather(*(site.metrics.text() for _ in range(5)))
    assert len(renderings) == 1
    assert len(set(texts)) == 1


async def test_text_is_rendered_again_after_a_pause(site):
    first = await site.metrics.text()
    site.health.serving = Serving.READY
    deadline = time.perf_counter() + 30
    while (text := await site.metrics.text()) == first or b"ready 1.0" not in text:
        assert time.perf_counter() < deadline
        await asyncio.sleep(0.01)


async def test_role_addresses_are_in_the_metrics_with_their_digest(site):
    role_addresses = site.state.role_addresses
    samples = scrape(site)
    assert value(samples, "role_addresses_info", digest=role_addresses.rules.digest) == 1
    assert value(samples, "role_address_rules") == 0
    site.state.role_addresses.replace(
        rules_of_toml('[[roleAddress]]\nset = "broker-a"\nmaster = "10.9.0.5:10911"\n'), 0
    )
    role_addresses.problem = "line 3"
    samples = scrape(site)
    assert value(samples, "role_addresses_info", digest=role_addresses.rules.digest) == 1
    assert value(samples, "role_address_rules") == 1
    assert [value(samples, "role_address_problems", kind=kind) for kind in ("file", "loop")] == [1, 0]


async def test_addresses_that_clients_do_not_get_or_that_fail_are_in_the_metrics(site):
    for number in range(3):
        register(site.state, f"broker-{number}", address=f"10.0.0.{number}:10911")
    rules = "".join(
        f'[[roleAddress]]\nset = "broker-{number}"\nmaster = "10.9.0.{number}:10911"\n' for number in range(5)
    )
    role_addresses = site.state.role_addresses
    failing = RoleAddressUse("broker-0", 0, "10.9.0.0:10911")
    role_addresses.checks.restore([failing])
    role_addresses.replace(rules_of_toml(rules), 0)
    role_addresses.answered(failing, "connection refused", 0, 0)
    role_addresses.answered(failing, "connection refused", FAILING_AFTER_MS, 0)
    role_addresses.answered(RoleAddressUse("broker-1", 0, "10.9.0.1:10911"), "connection refused", 0, 0)
    samples = scrape(site)
    kinds = ("file", "loop", "waiting", "refused", "failing")
    assert [value(samples, "role_address_problems", kind=kind) for kind in kinds] == [0, 0, 3, 1, 1]
