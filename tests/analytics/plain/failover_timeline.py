"""A10 failover timelines: the moments of each failover, and what lies between them."""

from typing import Any

from plain.detection_delay import between
from plain.spans import Span
from plain.watching import Row, Rows, boots, servers

Answer = dict[str, Any]

#: Phase -> from which moment to which.
PHASES = {
    "detect": ("last_heartbeat", "detected"),
    "start": ("detected", "election_started"),
    "elect": ("election_started", "elected"),
    "notify": ("elected", "notified"),
    "register": ("elected", "visible_first"),
    "spread": ("visible_first", "visible_last"),
    "total": ("last_heartbeat", "visible_last"),
    "serve": ("elected", "serves"),
    "lead": ("serves", "address_leads"),
    "address_total": ("last_heartbeat", "address_leads"),
}
#: Without `address_leads`: most sets have no role address.
MOMENTS = (
    *("last_heartbeat", "detected", "election_started", "elected", "notified"),
    *("serves", "visible_first", "visible_last"),
)
#: By these a NameServer shows another master. One that has other topics was shown before, unless it is elected again.
SHOWS = ("registered_first", "role_changed", "address_changed")
#: A NameServer that has not shown it by then is missed.
SHOWS_WITHIN_US = 600_000_000


def failover_timeline(rows: Rows, window: Span) -> list[Answer]:
    """A10: one row for each failover, and one for each phase over all failovers of a cluster."""
    elections = [
        row
        for row in rows["controller"]
        if row["event_type"] == "elected"
        and row.get("result") == "new_master_elected"
        and window[0] <= row["event_time"] < window[1]
    ]
    elections.sort(key=lambda row: row["event_time"])
    failovers = [_failover(rows, row, elections) for row in elections if _is_failover(rows, row, elections)]
    return failovers + [
        _phase(cluster, phase, [each for each in failovers if each["cluster"] == cluster])
        for cluster in sorted({each["cluster"] for each in failovers})
        for phase in PHASES
        if any(each[f"{phase}_s"] is not None for each in failovers if each["cluster"] == cluster)
    ]


def _failover(rows: Rows, election: Row, elections: list[Row]) -> Answer:
    own = [row for row in rows["controller"] if row.get("failover_id") == election["failover_id"]]
    own += _deaths(rows, election, elections)
    later = [row["event_time"] for row in elections if _is_next(row, election)]
    visible = _visible(rows, election, min(later, default=1 << 62))
    addresses, checked = _addresses(rows, election, min(later, default=1 << 62))
    led = {address: us for address, us in addresses.items() if us is not None}
    first, last = (min(visible.values()), max(visible.values())) if visible else (None, None)
    moments = {
        "last_heartbeat": _first(own, "failure_detected", "last_heartbeat_time"),
        "detected": _first(own, "failure_detected"),
        "election_started": _first(own, "election_started"),
        "elected": election["event_time"],
        "notified": _first([row for row in own if row.get("result") == "ok"], "role_notified"),
        "serves": _first([row for row in own if row.get("broker_addr") == election["broker_addr"]], "master_serves"),
        "address_leads": max(led.values()) if led and checked <= led.keys() else None,
        "visible_first": first,
        "visible_last": last,
    }
    # The death is dated when it is told, a little late, and the beginning by its length in whole ms.
    if moments["detected"] and moments["election_started"]:
        begun_us = moments["election_started"]
        moments["election_started"] = (
            max(begun_us, moments["detected"]) if begun_us + 10_000 >= moments["detected"] else begun_us
        )
    watching = [ns for ns in servers(rows) if _was_there(rows, ns, election["event_time"])]
    missing = sorted({name.removesuffix("_first").removesuffix("_last") for name in MOMENTS if moments[name] is None})
    missing += [f"visible on {ns}" for ns in watching if ns not in visible]
    missing += [f"role address {address}" for address in addresses if address not in led]
    order = sorted(visible, key=lambda ns: (visible[ns], ns))
    addresses_in_order = sorted(led, key=lambda address: (led[address], address))
    return {
        "kind": "failover",
        "cluster": election["cluster"],
        "broker_name": election["broker_name"],
        "failover_id": election["failover_id"],
        "old_master": election.get("old_master"),
        "new_master": election["new_master"],
        **moments,
        **{f"{phase}_s": _seconds(moments[begin], moments[end]) for phase, (begin, end) in PHASES.items()},
        "namesrvs": order,
        "visible_ms": [(visible[ns] - election["event_time"]) // 1000 for ns in order],
        "slowest_namesrv": order[-1] if order else None,
        "role_addresses": addresses_in_order,
        "role_address_ms": [(led[address] - election["event_time"]) // 1000 for address in addresses_in_order],
        "missing": sorted(missing),
    }


def _is_failover(rows: Rows, election: Row, elections: list[Row]) -> bool:
    """Tell whether a set had a master before: its first election is none."""
    return election.get("old_master") is not None or bool(_deaths(rows, election, elections))


def _deaths(rows: Rows, election: Row, elections: list[Row]) -> list[Row]:
    """Return the last death of the former master since the election before, which does not know what it leads to."""
    earlier = [row["event_time"] for row in elections if _is_next(election, row)]
    deaths = [
        row
        for row in rows["controller"]
        if row["event_type"] == "failure_detected"
        and "failover_id" not in row
        and (row["cluster"], row["broker_name"]) == (election["cluster"], election["broker_name"])
        and row.get("broker_id") == election.get("old_master")
        and max(earlier, default=0) < row["event_time"] <= election["event_time"]
    ]
    return sorted(deaths, key=lambda row: row["event_time"])[-1:]


def _is_next(row: Row, election: Row) -> bool:
    same_set = (row["cluster"], row["broker_name"]) == (election["cluster"], election["broker_name"])
    return same_set and row["event_time"] > election["event_time"]


def _was_there(rows: Rows, ns_id: str, at_us: int) -> bool:
    """Tell whether a process of a NameServer ran at a moment, and told after it that it did; recorded or not."""
    reported = [
        row for row in [*rows["ns_tick"], *_losses(rows)] if row["ns_id"] == ns_id and row["event_time"] >= at_us
    ]
    here = {boot.boot_id for boot in boots(rows, ns_id) if boot.start_us <= at_us}
    return any(row["boot_id"] in here for row in reported)


def _losses(rows: Rows) -> list[Row]:
    """Return the rows that tell that a process could not record for a while."""
    return [row for row in rows["ns_lifecycle"] if row["event_type"] == "recording_resumed"]


def _visible(rows: Rows, election: Row, until_us: int) -> dict[str, int]:
    """Return when each NameServer first showed the elected as master, of those that ran when it was elected.

    Where none of those did, the first of those that started later counts; unless one of those that ran could not
    record meanwhile, which may have shown it.
    """
    at_us = election["event_time"]
    last_us = at_us + SHOWS_WITHIN_US
    shows = (*SHOWS, "changed") if election.get("old_master") == election["new_master"] else SHOWS
    began = {boot.boot_id: boot.start_us for ns in servers(rows) for boot in boots(rows, ns)}
    in_time: dict[str, int] = {}
    late: dict[str, int] = {}
    for row in rows["broker_state"]:
        is_it = (row["broker_name"], row.get("broker_id"), row.get("broker_addr")) == (
            election["broker_name"],
            0,
            election.get("broker_addr"),
        )
        if is_it and row["event_type"] in shows and at_us <= row["event_time"] < min(until_us, last_us):
            found = late if began[row["boot_id"]] > at_us else in_time
            found[row["ns_id"]] = min(found.get(row["ns_id"], row["event_time"]), row["event_time"])
    mute = [row for row in _losses(rows) if row["unobserved_from"] < last_us and row["event_time"] > at_us]
    if in_time or not late or any(began[row["boot_id"]] <= at_us for row in mute if row["source"] == "namesrv"):
        return in_time
    first_us, first = min((shown_us, ns_id) for ns_id, shown_us in late.items())
    return {first: first_us}


def _addresses(rows: Rows, election: Row, until_us: int) -> tuple[dict[str, int | None], set[str]]:
    """Return the role addresses that clients got when the master was elected, and since when each led to it.

    NameServers count whose process was there then and after it; None: none of them saw the address lead there. The
    second are those of them to which at least one of these NameServers connects.
    """
    at_us = election["event_time"]
    of_set = [
        row
        for row in rows["role_address"]
        if (row["cluster"], row["broker_name"]) == (election["cluster"], election["broker_name"])
    ]
    found: dict[str, int | None] = {}
    checked: set[str] = set()
    for ns_id in servers(rows):
        here = {boot.boot_id for boot in boots(rows, ns_id) if boot.start_us <= at_us}
        ticked = {row["boot_id"] for row in rows["ns_tick"] if 0 <= row["event_time"] - at_us <= 60_000_000}
        states: dict[str, Row] = {}
        for row in sorted((row for row in of_set if row["ns_id"] == ns_id), key=lambda row: row["event_time"]):
            if row["event_type"] != "leads" and row["event_time"] <= at_us:
                states[row["role_address"]] = row
        for address, row in states.items():
            if row["event_type"] == "given" and row["boot_id"] in here & ticked:
                found.setdefault(address, None)
                checked |= {address} if row["is_checked"] else set()
    for row in of_set:
        is_move = row["event_type"] == "leads" and "former_addr" in row
        is_soon = at_us <= row["event_time"] < min(until_us, at_us + SHOWS_WITHIN_US)
        if is_move and is_soon and row["broker_addr"] == election["broker_addr"] and row["role_address"] in found:
            known_us = found[row["role_address"]]
            found[row["role_address"]] = min(known_us or row["event_time"], row["event_time"])
    return found, checked


def _first(rows: list[Row], event_type: str, column: str = "event_time") -> int | None:
    return min((row[column] for row in rows if row["event_type"] == event_type and column in row), default=None)


def _seconds(begin_us: int | None, end_us: int | None) -> float | None:
    return None if begin_us is None or end_us is None else (end_us - begin_us) / 1e6


def _phase(cluster: str, phase: str, failovers: list[Answer]) -> Answer:
    lengths = sorted(each[f"{phase}_s"] for each in failovers if each[f"{phase}_s"] is not None)
    return {
        "kind": "phase",
        "cluster": cluster,
        "phase": phase,
        "n": len(lengths),
        "p50_s": between(lengths, 0.5),
        "p95_s": between(lengths, 0.95),
        "max_s": lengths[-1],
    }
