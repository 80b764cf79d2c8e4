"""What Prometheus can know of: every metric and its labels, by whom serves it."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from controller.observability.metric_catalogue import FAMILIES as CONTROLLER_FAMILIES
from namesrv.observability.metric_catalogue import FAMILIES as NAMESRV_FAMILIES
from offsets.catalogues import FAMILIES as OFFSET_MANAGER_FAMILIES

#: What a Java broker 5.5.0 served, captured; the stub of the live test serves it again.
JAVA_BROKER_SCRAPE = Path(__file__).with_name("java_broker_5.5.0.prom")

OUR_FAMILIES = (*NAMESRV_FAMILIES, *CONTROLLER_FAMILIES, *OFFSET_MANAGER_FAMILIES)

#: Exposed metrics that no panel and no rule uses -> why that is right.
DELIBERATELY_UNUSED = {
    "rocketmq_controller_masters_waits": "Programs past the limit look again by themselves.",
    "rocketmq_controller_role_checks_total": "roleCheckPort is off by default; who sets it watches the proxies.",
    "rocketmq_offset_manager_label_overflow_total": "No peer names a label of its metrics.",
    "rocketmq_offset_manager_log_suppressed_total": "No broker or peer causes many lines of it.",
    "rocketmq_offset_manager_tls_certificate_expiry_timestamp_seconds": "It serves without TLS, behind a proxy.",
    "rocketmq_namesrv_view_changed_timestamp_seconds": "The age of a digest is read beside it, at /v1/peers.",
    "rocketmq_namesrv_view_digest": "Its number says nothing; NameServers compare their topics themselves.",
    "rocketmq_namesrv_watch_events_total": "Each watcher gets as many as its topics change; gaps are shown.",
    "rocketmq_namesrv_watch_topics": "Programs choose what they watch; the number of watchers is shown.",
}

#: Of Prometheus itself, and of its client library in every process.
OF_EVERY_TARGET = {
    "up": set(),
    "ALERTS": {"alertname", "alertstate", "severity", "plane"},
    "process_cpu_seconds_total": set(),
    "process_max_fds": set(),
    "process_open_fds": set(),
    "process_resident_memory_bytes": set(),
    "process_start_time_seconds": set(),
}

#: What Prometheus adds to every series; `plane` as its configuration tells it.
TARGET_LABELS = {"job", "instance", "plane"}


def exposed():
    """Return metric -> labels, of whatever may be scraped."""
    ours = {
        name: labels
        for family in OUR_FAMILIES
        for name, labels in _series(family.name, family.kind, set(family.labels)).items()
    }
    everything = ours | OF_EVERY_TARGET | _of_java_brokers()
    return {name: _scraped(labels) for name, labels in everything.items()}


def own_families():
    """Return the names of the metrics of our servers, as their catalogues have them."""
    return {family.name for family in OUR_FAMILIES}


def _series(name, kind, labels):
    if kind != "histogram":
        return {name: labels}
    return {f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels}


def _scraped(labels):
    """A label that a target has of its own gets a prefix in the metrics that have it too."""
    return {f"exported_{label}" if label in TARGET_LABELS else label for label in labels} | TARGET_LABELS


def _of_java_brokers():
    families = text_string_to_metric_families(JAVA_BROKER_SCRAPE.read_text())
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}
