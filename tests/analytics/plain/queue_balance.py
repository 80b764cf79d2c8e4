"""A8 queue balance, without its proposals: how full each set is at the end of the window, how uneven each topic."""

from collections import Counter, defaultdict
from statistics import mean, pstdev
from typing import Any, NamedTuple

from plain.spans import Span
from plain.uptime import TIMEOUT_US
from plain.watching import Row, Rows, boots, number, servers

Answer = dict[str, Any]

WRITABLE = 2

#: Java's TopicValidator has them; brokers make them for themselves and their groups.
SYSTEM_TOPICS = {
    "TBW102",
    "SCHEDULE_TOPIC_XXXX",
    "BenchmarkTest",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
    "CHECKPOINT_TOPIC",
}
OF_SYSTEM = ("rmq_sys_", "%RETRY%", "%DLQ%")


class Queues(NamedTuple):
    """A topic on a set."""

    read: int
    write: int
    perm: int


#: Set -> topic -> queues.
Routes = dict[str, dict[str, Queues]]


def queue_balance(rows: Rows, window: Span) -> list[Answer]:
    """A8: one row for each set and one for each topic."""
    routes, clusters = routes_at(rows, window[1])
    found: list[Answer] = []
    led = _led(rows, window[1])
    for cluster in sorted(set(clusters.values())):
        of_cluster = {
            name: {topic: queues for topic, queues in routes[name].items() if not _is_of_system(topic, cluster, name)}
            for name in led
            if clusters[name] == cluster and any(map(_written, routes.get(name, {}).values()))
        }
        found += [*_sets(cluster, of_cluster), *_topics(cluster, of_cluster)]
    return found


def _is_of_system(topic: str, cluster: str, broker_name: str) -> bool:
    of_brokers = (cluster, broker_name, f"{cluster}_REPLY_TOPIC")
    return topic in SYSTEM_TOPICS or topic in of_brokers or topic.startswith(OF_SYSTEM)


def routes_at(rows: Rows, at_us: int) -> tuple[Routes, dict[str, str]]:
    """Return the routes as most NameServers have them at a moment, and the cluster of each set."""
    past = {family: [row for row in reported if row["event_time"] < at_us] for family, reported in rows.items()}
    names = servers(past)
    # Who has just started may not have heard of everything; where nobody else is there, it counts.
    warm = [ns_id for ns_id in names if boots(past, ns_id)[-1].start_us <= at_us - TIMEOUT_US] or names
    views = [_routes_of(past, ns_id) for ns_id in warm]
    clusters = {row["broker_name"]: row["cluster"] for row in past["broker_state"] if "cluster" in row}
    names = {name for view in views for name in view}
    found: Routes = {}
    for name in names:
        tables = Counter(tuple(sorted(view.get(name, {}).items())) for view in views)
        table, _ = tables.most_common(1)[0]
        if table:
            found[name] = dict(table)
    return found, clusters


def _led(rows: Rows, at_us: int) -> list[str]:
    """Return the sets that have a master, for most NameServers that know the set since their last start."""
    last: dict[tuple[str, str], Row] = {}
    for row in sorted(rows["broker_state"], key=number):
        if row.get("set_ids") is not None and row["event_time"] < at_us:
            last[row["broker_name"], row["ns_id"]] = row
    newest = {ns_id: boots(rows, ns_id)[-1].boot_id for ns_id in servers(rows)}
    views: dict[str, list[bool]] = defaultdict(list)
    for (name, ns_id), row in last.items():
        if row["boot_id"] == newest[ns_id]:
            views[name].append(0 in row["set_ids"])
    return sorted(name for name, votes in views.items() if 2 * sum(votes) > len(votes))


def _routes_of(rows: Rows, ns_id: str) -> Routes:
    """Replay what a NameServer wrote of its routes: what it learned since its last start."""
    found: Routes = defaultdict(dict)
    own = [row for row in [*rows["route_change"], *rows["route_snapshot"]] if row["ns_id"] == ns_id]
    own.sort(key=number)
    boot_id = own[-1]["boot_id"] if own else None
    whole = {row["snapshot_id"] for row in own if row["event_type"] == "finished"}
    snapshot_id = None
    for row in own:
        if row["boot_id"] != boot_id:
            continue
        if row["event_type"] == "queues" and row["scope"] == "all" and row["snapshot_id"] in whole:
            if row["snapshot_id"] != snapshot_id:
                found, snapshot_id = defaultdict(dict), row["snapshot_id"]
            for name in row["broker_names"]:
                found[name] |= {topic: Queues(row["read"], row["write"], row["perm"]) for topic in row["topics"]}
        else:
            _change_all(found, row)
    return found


def _change_all(routes: Routes, row: Row) -> None:
    """Apply one change, or the many of one cause."""
    if row["event_type"] == "queues" and row["scope"] == "change":
        reported = {f"new_{column}": row.get(column) for column in Queues._fields}
        for name in row["broker_names"]:
            for topic in row["topics"]:
                _change(routes[name], {**reported, "topic": topic})
    elif row["event_type"] == "topic_changed" and row["kind"] not in ("order", "mapping"):
        _change(routes[row["broker_name"]], row)


def _change(table: dict[str, Queues], row: Row) -> None:
    if row.get("new_read") is None:
        table.pop(row["topic"], None)
    else:
        table[row["topic"]] = Queues(row["new_read"], row["new_write"], row["new_perm"])


def _written(queues: Queues) -> int:
    return queues.write if queues.perm & WRITABLE else 0


def _sets(cluster: str, routes: Routes) -> list[Answer]:
    counts = {name: sum(_written(queues) for queues in table.values()) for name, table in routes.items()}
    if not any(counts.values()):
        return []
    total, usual = sum(counts.values()), mean(counts.values())
    return [
        {
            "kind": "broker",
            "cluster": cluster,
            "broker_name": name,
            "queues": count,
            "share": count / total,
            "ratio": count / usual,
            "max_mean": max(counts.values()) / usual,
            "cv": pstdev(counts.values()) / usual,
            "gini": gini(list(counts.values())),
        }
        for name, count in counts.items()
    ]


def gini(counts: list[int]) -> float:
    """Return the mean difference of any two, as a share of twice the mean: 0 if all are equal."""
    return sum(abs(one - other) for one in counts for other in counts) / (2 * len(counts) * sum(counts))


def _topics(cluster: str, routes: Routes) -> list[Answer]:
    """Return topics that have not as many queues on each set; a set that has a topic not has no queue of it."""
    found = []
    for topic in sorted({topic for table in routes.values() for topic in table}):
        counts = [_written(table[topic]) if topic in table else 0 for table in routes.values()]
        if max(counts) > min(counts):
            spread = max(counts) - min(counts)
            found.append({"kind": "topic", "cluster": cluster, "topic": topic, "queues": sum(counts), "spread": spread})
    return found
