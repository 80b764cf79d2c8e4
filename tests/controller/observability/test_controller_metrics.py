"""What the values of a controller's metrics say."""

import msgspec
from controller_builders import a_set, an_address
from controller_builders import replicas as members
from fakes.in_process_controller import CLUSTER, SET, at
from prometheus_client.parser import text_string_to_metric_families
from resize_builders import CREATED_UNIX_MS, a_resize, went

from controller.failover.events import BROKERS_FAILED, ELECTIONS, FAILOVERS, BrokerProbed
from controller.failure_detection.heartbeats import BrokerKey, LastHeartbeat
from controller.failure_detection.suspicion import PROOFS, ProbeOutcome
from controller.observability.analytics_results import Sample
from controller.observability.metric_catalogue import ANALYTICS_RESULTS, FAMILIES
from controller.role_probe.events import LAST_GAP
from controller.sets.stored_set import StoredSet
from serving.metrics.counters import BROKERS_MAX, CLUSTERS_MAX, OTHER
from serving.shapes.scaling import ResizeKind, ResizePhase
from serving.telemetry.events import Count, Counted, Measure
from store.store import ControllerMember, VersionedEntry

OTHER_CONTROLLER = ControllerMember(id="n1", address="10.0.0.2:9878")
OF_SETS = (
    "active_brokers",
    "broker_sets",
    "replicas",
    "sync_state_set_size",
    "master_epoch",
    "broker_last_heartbeat_timestamp_seconds",
)
OF_RESIZES = (
    "resizes",
    "resize_phase_since_timestamp_seconds",
    "resizes_overdue",
    "resize_writes_paused_since_timestamp_seconds",
)


def parsed_name(family):
    """Return the name that the parser gives a family: without `_total`."""
    return family.name.removesuffix("_total") if family.kind == "counter" else family.name


def families(controller):
    """Return the families of the text that a scrape gets, by name."""
    text = b"".join(controller.metrics.pieces()).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def scrape(controller):
    """Return the samples that a scrape would show: name and labels -> value."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families(controller).values()
        for sample in family.samples
    }


def value(samples, name, **labels):
    return samples.get(("rocketmq_controller_" + name, frozenset(labels.items())))


def states(samples, cluster=CLUSTER):
    return [
        value(samples, "broker_sets", cluster=cluster, state=state)
        for state in ("healthy", "under_replicated", "no_master")
    ]


def stored(controller, broker_set):
    """Let a set be known, as another controller has left it."""
    controller.store.entry_changed(broker_set.broker_name, VersionedEntry(StoredSet(broker_set=broker_set), 1))


# The text


async def test_first_scrape_has_all_families_and_counters_at_zero(controller):
    found = families(controller)
    for family in FAMILIES:
        assert parsed_name(family) in found, family.name
    samples = scrape(controller)
    for outcome in set(ProbeOutcome) - PROOFS:
        assert value(samples, "probes_total", outcome=outcome.value) == 0
    for result in ("ok", "refused", "failed", "superseded"):
        assert value(samples, "role_notifications_total", result=result) == 0
    for phase in ("detect", "judge", "fence", "commit", "notify", "total"):
        assert value(samples, "failover_phase_duration_seconds_count", phase=phase) == 0
    for result in ("new_master_elected", "keep_current_master", "no_master_elected"):
        assert value(samples, "election_duration_seconds_count", election_result=result) == 0


async def test_every_family_has_values_after_a_failover(controller):
    await controller.a_set(1, 2)
    await controller.elect(2, designate=True)
    await controller.pass_ms(500, beating=(1, 2))
    controller.control.monitor.connection_lost(2)
    await controller.pass_ms(100)
    (probe,) = controller.take_probes()
    controller.telemetry.emit(BrokerProbed(outcome=ProbeOutcome.REFUSED))
    controller.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
    await controller.done()
    await controller.settings.update_config(b"enableElectUncleanMaster=true")
    controller.results = tuple(Sample(family, tuple(family.labels), 1.0) for family in ANALYTICS_RESULTS)
    controller.probe_measures = (Measure(LAST_GAP, 1.5, (CLUSTER, SET)),)
    found = families(controller)
    empty = {family.name for family in FAMILIES if not found[parsed_name(family)].samples}
    # There is no certificate, no line was held back, and nobody asked over HTTP.
    assert empty == {
        "rocketmq_controller_tls_certificate_expiry_timestamp_seconds",
        "rocketmq_controller_log_suppressed_total",
        "rocketmq_http_requests_total",
        "rocketmq_http_request_duration_seconds",
    }


# The server and its group


async def test_requests_are_counted_by_the_names_of_their_codes(controller):
    controller.statistics.count_finished(1004, 0)
    controller.statistics.count_finished(105, 3)
    samples = scrape(controller)

    def requests(code, result):
        return value(samples, "requests_total", request_code=code, response_code=result)

    assert requests("controller_get_replica_info", "success") == 1
    assert requests("controller_elect_master", "success") == 0
    # A request of NameServers.
    assert requests("unknown", "request_code_not_supported") == 1


async def test_role_has_the_numbers_of_java_and_leader_changes_are_counted(controller):
    samples = scrape(controller)
    assert (value(samples, "role"), value(samples, "leader_changes_total")) == (3, 1)
    controller.group.follows(OTHER_CONTROLLER)
    samples = scrape(controller)
    assert (value(samples, "role"), value(samples, "leader_changes_total")) == (2, 2)
    controller.group.follows(None)
    assert value(scrape(controller), "role") == 1


# Sets and brokers


async def test_set_has_series_for_brokers_sync_state_set_and_master_epoch(controller):
    await controller.a_set(1, 2)
    await controller.a_set(1, 2, 3, name="broker-b", in_sync=[1])
    samples = scrape(controller)
    which = {"cluster": CLUSTER, "broker": SET}
    assert value(samples, "active_brokers", **which) == 2
    assert value(samples, "replicas", **which) == 2
    assert value(samples, "sync_state_set_size", **which) == 2
    assert value(samples, "master_epoch", **which) == 1
    which["broker"] = "broker-b"
    assert [value(samples, name, **which) for name in ("replicas", "sync_state_set_size")] == [3, 1]
    assert states(samples) == [1, 1, 0]


async def test_last_heartbeat_of_each_broker_is_in_unix_seconds(controller):
    await controller.a_set(1, 2)
    controller.clock.pass_ms(1_500)
    await controller.heartbeat(1)
    last_heartbeat_s = controller.clock.unix_ms() / 1000
    controller.clock.pass_ms(700)
    samples = scrape(controller)
    which = {"cluster": CLUSTER, "broker": SET}
    name = "broker_last_heartbeat_timestamp_seconds"
    assert value(samples, name, **which, broker_id="1") == last_heartbeat_s
    assert value(samples, name, **which, broker_id="2") == last_heartbeat_s - 1.5


async def test_state_of_a_set_follows_its_brokers(controller):
    await controller.a_set(1, 2)
    assert states(scrape(controller)) == [1, 0, 0]
    await controller.pass_ms(500, beating=(1, 2))
    controller.control.monitor.connection_lost(1)
    await controller.pass_ms(100)
    samples = scrape(controller)
    assert value(samples, "suspect_brokers") == 1
    (probe,) = controller.take_probes()
    controller.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
    await controller.done()
    samples = scrape(controller)
    which = {"cluster": CLUSTER, "broker": SET}
    assert (value(samples, "suspect_brokers"), states(samples)) == (0, [0, 1, 0])
    assert (value(samples, "active_brokers", **which), value(samples, "replicas", **which)) == (1, 2)
    assert value(samples, "master_epoch", **which) == 2
    assert value(samples, "brokers_failed_total", cluster=CLUSTER, reason="channel_closed") == 1
    assert value(samples, "failovers_total", cluster=CLUSTER, cause="channel_closed", outcome="failed_over") == 1
    elected = {"cluster": CLUSTER, "broker": SET, "election_result": "new_master_elected"}
    # The first master, and the one after it.
    assert value(samples, "election_total", **elected) == 2
    assert value(samples, "election_duration_seconds_count", election_result="new_master_elected") == 2
    for phase in ("detect", "judge"):
        assert value(samples, "failover_phase_duration_seconds_count", phase=phase) == 1


async def test_cleaned_set_has_no_series(controller):
    await controller.a_set(1)
    await controller.clean(living=True)
    samples = scrape(controller)
    assert states(samples) == [None, None, None]
    assert value(samples, "replicas", cluster=CLUSTER, broker=SET) is None


async def test_non_members_are_in_no_series(controller):
    await controller.a_set(1)
    for key in (BrokerKey(SET, 99), BrokerKey("made-up", 1)):
        controller.control.heartbeat(
            CLUSTER, key, LastHeartbeat(controller.clock.now_ms(), connection_id=50, address="10.9.9.9:1")
        )
    controller.control.monitor.connection_lost(50)
    samples = scrape(controller)
    assert value(samples, "active_brokers", cluster=CLUSTER, broker=SET) == 1
    assert value(samples, "active_brokers", cluster=CLUSTER, broker="made-up") is None
    last = {"cluster": CLUSTER, "broker": SET, "broker_id": "99"}
    assert value(samples, "broker_last_heartbeat_timestamp_seconds", **last) is None
    assert value(samples, "suspect_brokers") == 0


async def test_follower_has_no_series_of_sets_and_resizes_under_way(controller):
    await controller.a_set(1, 2)
    controller.resizes = (went(a_resize(), ResizePhase.DRAIN),)
    controller.group.follows(OTHER_CONTROLLER)
    names = {name.removeprefix("rocketmq_controller_") for name, _ in scrape(controller)}
    assert names.isdisjoint({*OF_SETS, *OF_RESIZES})
    assert names >= {"role", "resizes_reopened_total"}


async def test_leader_with_an_expired_lease_has_no_series_of_sets(controller):
    await controller.a_set(1, 2)
    controller.group.leads(controller.clock.now_ms())
    assert states(scrape(controller)) == [1, 0, 0]
    controller.clock.pass_ms(1)
    assert states(scrape(controller)) == [None, None, None]


# Queue scaling


async def test_resizes_of_a_leader_without_any_are_at_zero(controller):
    samples = scrape(controller)
    phases = {phase.value for phase in ResizePhase} - {"DONE", "ABORTED", "REJECTED"}
    for name in ("resizes", "resize_phase_since_timestamp_seconds"):
        assert {value(samples, name, phase=phase) for phase in phases} == {0}
    for name in ("resizes_overdue", "resize_writes_paused_since_timestamp_seconds"):
        assert value(samples, name) == 0
    for result in ("done", "aborted", "rejected"):
        assert value(samples, "resizes_ended_total", result=result) == 0
    for kind in ResizeKind:
        assert value(samples, "resize_duration_seconds_count", kind=kind.value) == 0
    for result in ("done", "failed"):
        assert value(samples, "resize_actions_total", result=result) == 0
    for name in ("resizes_reopened_total", "resize_conflicts_total", "resize_rounds_failed_total"):
        assert value(samples, name) == 0


async def test_resizes_are_counted_by_phase_with_the_oldest_of_each(controller):
    drained = went(a_resize(), ResizePhase.PRECHECK, ResizePhase.DRAIN)
    controller.resizes = (
        drained,
        went(a_resize(topic="Orders"), ResizePhase.DRAIN),
        went(a_resize(topic="Bills"), ResizePhase.BLOCKED),
    )
    samples = scrape(controller)
    assert [value(samples, "resizes", phase=phase) for phase in ("DRAIN", "BLOCKED", "QUIESCE")] == [2, 1, 0]
    since = "resize_phase_since_timestamp_seconds"
    assert value(samples, since, phase="DRAIN") == CREATED_UNIX_MS / 1000 + 60
    assert value(samples, since, phase="QUIESCE") == 0


async def test_overdue_resizes_are_counted_by_wall_time(controller):
    quick = went(a_resize(), ResizePhase.WRITE_DOWN)
    now_ms = controller.clock.unix_ms()
    controller.resizes = tuple(
        msgspec.structs.replace(quick, topic=topic, phase_since_unix_ms=now_ms - since_ms)
        for topic, since_ms in (("TopicTest", 0), ("Orders", 3_600_000))
    )
    assert value(scrape(controller), "resizes_overdue") == 1


async def test_ordered_topic_without_writes_has_its_beginning_as_a_timestamp(controller):
    controller.resizes = (went(a_resize(kind=ResizeKind.ORDERED), ResizePhase.PAUSE, ResizePhase.QUIESCE),)
    since = value(scrape(controller), "resize_writes_paused_since_timestamp_seconds")
    assert since == CREATED_UNIX_MS / 1000 + 60


# Limits


async def test_sets_beyond_the_limit_share_series(controller):
    for number in range(BROKERS_MAX + 3):
        stored(controller, a_set(broker_name=f"broker-{number}", cluster=CLUSTER))
    samples = scrape(controller)
    rest = {"cluster": OTHER, "broker": OTHER}
    assert value(samples, "replicas", **rest) == 9
    assert value(samples, "replicas", cluster=CLUSTER, broker="broker-7") == 3
    assert value(samples, "label_overflow_total", metric="rocketmq_controller_replicas") == 3
    assert states(samples) == [0, 0, BROKERS_MAX + 3]


async def test_shared_series_beyond_the_limit_has_the_longest_silence(controller):
    now_ms = controller.clock.now_ms()
    for number in range(BROKERS_MAX + 3):
        name = f"broker-{number}"
        stored(controller, a_set(broker_name=name, cluster=CLUSTER, replicas=members(1)))
        silent_ms = 7_000 if number == BROKERS_MAX + 1 else 0
        last_heartbeat = LastHeartbeat(now_ms - silent_ms, address=an_address(1))
        controller.control.heartbeat(CLUSTER, BrokerKey(name, 1), last_heartbeat)
    samples = scrape(controller)
    last = value(samples, "broker_last_heartbeat_timestamp_seconds", cluster=OTHER, broker=OTHER, broker_id=OTHER)
    assert last == controller.clock.unix_ms() / 1000 - 7


async def test_clusters_beyond_the_limit_do_not_move_sets_of_clusters_with_series(controller):
    for number in range(5 * (CLUSTERS_MAX + 2)):
        cluster = f"cluster-{number % (CLUSTERS_MAX + 2)}"
        stored(controller, a_set(broker_name=f"broker-{number}", cluster=cluster))
    samples = scrape(controller)
    for number in range(CLUSTERS_MAX):
        assert states(samples, f"cluster-{number}") == [0, 0, 5]
    assert states(samples, OTHER) == [0, 0, 10]
    assert states(samples, f"cluster-{CLUSTERS_MAX}") == [None, None, None]


def count(controller, counter, *labels):
    controller.telemetry.emit(Counted(count=Count(counter, labels)))


async def test_elections_of_sets_beyond_the_limit_share_series(controller):
    for number in range(BROKERS_MAX + 5):
        count(controller, ELECTIONS, CLUSTER, f"broker-{number}", "new_master_elected")
    for number in range(400):
        count(controller, FAILOVERS, f"cluster-{number}", "timeout", "failed_over")
        count(controller, BROKERS_FAILED, f"cluster-{number}", "timeout")
    samples = scrape(controller)
    elected = {"election_result": "new_master_elected"}
    assert value(samples, "election_total", cluster=OTHER, broker=OTHER, **elected) == 5
    assert value(samples, "brokers_failed_total", cluster=OTHER, reason="timeout") == 400 - 2 * CLUSTERS_MAX
    assert value(samples, "failovers_total", cluster=OTHER, cause="timeout", outcome="failed_over") > 0
    for family in ("election_total", "brokers_failed_total", "failovers_total"):
        assert value(samples, "label_overflow_total", metric=f"rocketmq_controller_{family}") > 0, family


async def test_addresses_are_in_no_label(controller):
    await controller.a_set(1, 2)
    shown = " ".join(value for _, labels in scrape(controller) for _, value in labels)
    assert at(1).partition(":")[0] not in shown
