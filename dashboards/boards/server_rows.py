"""Rows that servers have alike: requests, connections, the process, what they record.

Everything is shown for each instance: one that is ill must not hide behind the others.
"""

from typing import Final

from dashboards.boards.shared import grown_of_each, now_of_each, of_each, quantile_of_each
from dashboards.grafana import (
    Json,
    Row,
    TableColumn,
    bad_above,
    better_above,
    good_from,
    heatmap,
    lines,
    row,
    states,
    table,
    worse_above,
)
from dashboards.promql import BY_INSTANCE, WINDOW, Query, over, quantile, quantiles, rate

_DAY_S: Final = 86_400
_MIB: Final = 1 << 20


def requests(prefix: str, *, slow_s: tuple[float, float]) -> Row:
    """Return rate, errors and duration of requests; `slow_s` is when a p99 is amber and red, in seconds."""
    failed = f'{BY_INSTANCE}, response_code!="success"'
    duration = f"{prefix}request_duration_seconds"
    panels = (
        lines(
            "Requests by code",
            "Finished requests a second. A code that nobody knows counts as unknown.",
            of_each(f"{prefix}requests_total", "request_code"),
        ),
        lines(
            "Answers other than success",
            "By what was answered. A route that is not found is no fault: clients ask for topics that they are about "
            "to create. system_error is one.",
            rate(f"{prefix}requests_total", failed, by="instance, request_code, response_code"),
        ),
        lines(
            "Turned away",
            "Frames and requests that were not carried out, and connections beyond the limit. Anything but 0 over "
            "minutes has a sender that should be found: see the log, or the page RequestsRejected.",
            of_each(f"{prefix}requests_rejected_total", "reason"),
            limits=bad_above(1),
        ),
        lines(
            "Duration, by instance",
            "From the whole frame read until the answer was handed to the socket: p50, p99 and p99.9.",
            *quantiles(duration, BY_INSTANCE, 0.5, 0.99, 0.999, by="instance"),
            limits=worse_above(*slow_s),
        ),
        lines(
            "Duration p99, by code",
            "Which request is slow. Registrations of brokers with many topics take longest.",
            quantile(0.99, duration, BY_INSTANCE, by="request_code"),
            limits=worse_above(*slow_s),
        ),
        heatmap(
            "Durations of all requests",
            "How many requests took how long. Two bands mean two kinds of requests.",
            over("sum", f"increase({duration}_bucket{{{BY_INSTANCE}}}[{WINDOW}])", "le"),
        ),
    )
    return row("Requests", *panels)


def connections(prefix: str) -> Row:
    """Return who is connected, and what goes over the connections."""
    panels = (
        lines(
            "Open connections",
            "By what the other end has shown itself to be. A fall at one moment on every server is the network; on "
            "one server it is that server.",
            now_of_each(f"{prefix}connections", "kind"),
        ),
        lines(
            "Connections that ended",
            "And why. error and slow_reader are worth a look at the log.",
            of_each(f"{prefix}connections_closed_total", "reason"),
        ),
        lines(
            "Bytes",
            "Read from peers, and handed to the sockets.",
            of_each(f"{prefix}received_bytes_total").named("received"),
            of_each(f"{prefix}sent_bytes_total").named("sent"),
        ),
        lines(
            "Requests in flight",
            "Accepted and not answered yet. A level that stays means that handlers wait for something.",
            now_of_each(f"{prefix}requests_in_flight"),
            limits=worse_above(100, 1000),
        ),
        lines(
            "Peers that do not read",
            "Connections that are not read because their response buffers are full, and how often that began a second.",
            now_of_each(f"{prefix}connections_paused").named("paused now"),
            of_each(f"{prefix}connection_pauses_total").named("pauses a second"),
            limits=bad_above(10),
        ),
        lines(
            "Bytes held for peers",
            "Frames that are not whole yet, and answers that peers have not taken. Both are limited; this is memory "
            "that peers hold.",
            now_of_each(f"{prefix}partial_frame_bytes").named("partial frames"),
            now_of_each(f"{prefix}response_buffer_bytes").named("response buffers"),
            limits=worse_above(64 * _MIB, 256 * _MIB),
        ),
    )
    return row("Connections", *panels)


def process(prefix: str) -> Row:
    """Return how the process itself does."""
    certificates = table(
        "Certificates",
        "How long the TLS certificates in use are still good. Empty where none is configured.",
        now_of_each(f"{prefix}tls_certificate_expiry_timestamp_seconds").then("- time()"),
        columns=(
            TableColumn("instance", "Instance"),
            TableColumn("certificate", "Certificate"),
            TableColumn("Value", "Good for", "s", better_above(14 * _DAY_S, 30 * _DAY_S)),
        ),
    )
    kept_back = lines(
        "Log lines kept back",
        "By the limits on lines of one kind, by event; and lines lost because the output did not take them. What is "
        "kept back often tells who is flapping.",
        of_each(f"{prefix}log_suppressed_total", "event"),
        of_each(f"{prefix}log_lines_dropped_total").named("lost"),
        limits=worse_above(1, 10),
    )
    folded_names = lines(
        "Names beyond the limit",
        "Values of cluster or broker that have no series of their own, because there are too many. Their numbers are "
        "still in the sums, as __other__.",
        of_each(f"{prefix}label_overflow_total", "metric"),
        limits=bad_above(0.001),
    )
    settings = lines(
        "Changes of the configuration",
        "Failed ones could not be written to disk, and nothing changed.",
        grown_of_each(f"{prefix}config_changes_total", "result"),
    )
    log = (_log_lines(prefix), kept_back, folded_names)
    return row("Process", *_machine(prefix), certificates, *log, *_http(), settings, _unsigned(prefix))


def http_process(prefix: str) -> Row:
    """Return the same of a server that is reached over HTTP alone.

    It has no certificate, no peer names a label, and few lines are kept back.
    """
    return row("Process", *_machine(prefix), _log_lines(prefix), *_http(), _unsigned(prefix))


def _machine(prefix: str) -> tuple[Json, ...]:
    open_files, most_files = now_of_each("process_open_fds"), now_of_each("process_max_fds")
    ready, draining = now_of_each(f"{prefix}ready"), now_of_each(f"{prefix}draining")
    return (
        lines(
            "Event loop lag",
            "How late a timer of 100 ms came: p50 and p99. While it is late nobody is answered.",
            *quantiles(f"{prefix}event_loop_lag_seconds", BY_INSTANCE, 0.5, 0.99, by="instance"),
            limits=worse_above(0.05, 0.2),
        ),
        lines(
            "CPU",
            "Share of one processor. The event loop has one; near 1 requests queue.",
            of_each("process_cpu_seconds_total"),
            unit="percentunit",
            limits=worse_above(0.7, 0.9),
        ),
        lines(
            "Memory",
            "Resident memory. It grows with topics times brokers, and with response buffers.",
            now_of_each("process_resident_memory_bytes"),
            limits=worse_above(1024 * _MIB, 2048 * _MIB),
        ),
        lines(
            "Open files",
            "Share of the files that the process may open; each connection takes one.",
            open_files.then(f"/ {most_files}"),
            unit="percentunit",
            limits=worse_above(0.7, 0.9),
        ),
        states(
            "Ready",
            "1 while peers are served; less when the stop has begun.",
            ready.then(f"- {draining}"),
            limits=good_from(1),
        ),
        lines(
            "Failed background tasks",
            "By task. Each is a fault of the server, logged as background_task_failed; it goes on.",
            grown_of_each(f"{prefix}background_task_failures_total", "task"),
            limits=bad_above(1),
        ),
    )


def _log_lines(prefix: str) -> Json:
    return lines(
        "Log lines",
        "Lines a second by level. Errors are faults that somebody has to look at.",
        of_each(f"{prefix}log_events_total", "level"),
        limits=worse_above(10, 50),
    )


def _http() -> tuple[Json, ...]:
    return (
        lines(
            "HTTP requests",
            "Probes, views and scrapes, by path template and class of the status.",
            rate("rocketmq_http_requests_total", BY_INSTANCE, by="method, route, status"),
        ),
        lines(
            "HTTP duration p99",
            "By path template. /metrics takes longest: some milliseconds for each thousand series.",
            quantile(0.99, "rocketmq_http_request_duration_seconds", BY_INSTANCE, by="method, route"),
            limits=worse_above(0.5, 2),
        ),
        lines(
            "Denied changes over HTTP",
            "Requests that would change something without the token of httpAdminTokenFile (no_token, wrong_token), "
            "from a page of another site (other_origin), or while there is no token (off). The log names who sent "
            "them (http_admin_denied).",
            grown_of_each("rocketmq_http_admin_requests_denied_total", "reason"),
        ),
    )


def _unsigned(prefix: str) -> Json:
    return lines(
        "Unsigned requests",
        "To addresses that brokerAccessAddresses does not name, although there are keys: a broker that was forgotten, "
        "or a stranger. The log names each (broker_request_not_signed).",
        grown_of_each(f"{prefix}unsigned_requests_total"),
    )


# What is recorded

_HISTORY: Final = "rocketmq_history_"


def history() -> Row:
    """Return how recording does, each instance by itself; all servers call its metrics alike."""
    dropped = now_of_each(f"{_HISTORY}events_dropped_total")
    since = now_of_each(f"{_HISTORY}oldest_unsealed_timestamp_seconds")
    panels = (
        states(
            "Recording",
            "1 while events reach the disk. 0 where recording is off, and with a full or missing disk: serving goes "
            "on, and the time counts as unobserved.",
            now_of_each(f"{_HISTORY}recording"),
            limits=good_from(1),
        ),
        lines("Events recorded", "By family. Heartbeats are most of it.", of_each(f"{_HISTORY}events_total", "family")),
        lines(
            "Events lost",
            "Because they came faster than they were written. Heartbeats go first; changes of state have room of "
            "their own.",
            Query(f"rate({dropped}[{WINDOW}])"),
            unit="ops",
            limits=bad_above(0.001),
        ),
        lines(
            "Events that wait",
            "Between the server and its writer, which takes them four times a second.",
            now_of_each(f"{_HISTORY}queue_events"),
            limits=worse_above(10_000, 50_000),
        ),
        lines(
            "Duration of writes, p99",
            "A slow disk fills the queue.",
            quantile_of_each(0.99, f"{_HISTORY}write_duration_seconds"),
            limits=worse_above(0.5, 2),
        ),
        lines(
            "Bytes written", "To the segments, before they are compacted.", of_each(f"{_HISTORY}written_bytes_total")
        ),
        lines(
            "Age of the oldest open segment",
            "Segments are sealed after five minutes or 64 MB. One that is much older is not being sealed, and no "
            "analysis sees it.",
            Query(f"time() - ({since} > 0)", since.legend),
            unit="s",
            limits=worse_above(600, 900),
        ),
        lines(
            "Files deleted by the server",
            "Because they were very old, or all of them too large, whether anybody had read them or not. Who ingests "
            "them deletes them long before: anything but 0 means that nobody does.",
            grown_of_each(f"{_HISTORY}deleted_files_total", "reason"),
            limits=bad_above(1),
        ),
    )
    return row("What is recorded", *panels)
