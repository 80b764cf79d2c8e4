"""A6 divergence: when NameServers that were watching told different things about one broker.

A NameServer that has just started knows no broker. Until a broker registers it is cold about it, and does not differ.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Hashable
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from plain.heartbeat_gaps import PROMISED_MS, Configured
from plain.spans import Span, clipped, common, covers, joined, without
from plain.uptime import TIMEOUT_US, Key, key_of
from plain.watching import Boot, Row, Rows, boots, number, servers, watched

Answer = dict[str, Any]

#: So long NameServers may differ: nobody tells all of them at once.
GRACE_US = 2_000_000
#: Of a data version, so many periods: a beat may bring it.
GRACE_PERIODS = 1.5


class Reported(NamedTuple):
    """What a NameServer answers about a broker; None: it has it not."""

    address: str | None = None
    version: tuple[int, ...] | None = None


ABSENT = Reported()

#: What is compared: of two answers that differ in it, NameServers differ. None: nothing to compare.
KINDS: dict[str, Callable[[Reported], Hashable | None]] = {
    "presence": lambda reported: reported.address is not None,
    "address": lambda reported: reported.address,
    "version": lambda reported: reported.version,
}


def divergence(rows: Rows, window: Span, configured: Configured = lambda key, kind: None) -> list[Answer]:
    """A6: one row for each time that NameServers differed for longer than they may."""
    names = servers(rows)
    seen = {ns_id: clipped(watched(rows, ns_id), *window) for ns_id in names}
    keys = sorted({key_of(row) for row in rows["broker_state"] if row.get("broker_id") is not None})
    changes = {ns_id: _changes(rows, ns_id) for ns_id in names}
    found: list[Answer] = []
    lacking: list[tuple[Boot, Key, Span]] = []
    witnessed: set[tuple[Boot, Key]] = set()
    for key in keys:
        period_ms = configured(key, "register") or PROMISED_MS["register"]
        reported = {ns_id: _of_key(changes[ns_id], key) for ns_id in names}
        cold = {ns_id: _cold(rows, ns_id, reported[ns_id], window[1]) for ns_id in names}
        warm = {ns_id: without(seen[ns_id], [spell.span for spell in cold[ns_id]]) for ns_id in names}
        for ns_id in names:
            for spell in cold[ns_id]:
                spans = _lacked(spell, ns_id, reported, seen, warm)
                lacking += [(spell.boot, key, span) for span in joined([span for span, _ in spans])]
                if any(is_seen for _, is_seen in spans):
                    witnessed.add((spell.boot, key))
        for kind, view in KINDS.items():
            grace_us = int(GRACE_PERIODS * period_ms * 1000) if kind == "version" else GRACE_US
            spans = _differing(reported, warm, view)
            found += [_answer(key, kind, span, reported, warm, view) for span in spans if span[1] - span[0] > grace_us]
    lacking = [each for each in lacking if each[2][1] - each[2][0] > GRACE_US]
    return [*found, *_colds(rows, lacking, witnessed), *_compared(keys, changes, seen)]


def _compared(
    keys: list[Key], changes: dict[str, list[tuple[int, Key | None, Reported]]], seen: dict[str, list[Span]]
) -> list[Answer]:
    """Return of each cluster which NameServers told of it, and how long two of them were watching."""
    found = []
    for cluster in sorted({key.cluster for key in keys}):
        names = [
            ns_id
            for ns_id, own in changes.items()
            if seen[ns_id] and any(key is not None and key.cluster == cluster for _, key, _ in own)
        ]
        pairs = [common(seen[one], seen[other]) for one, other in combinations(names, 2)]
        together = joined([span for spans in pairs for span in spans])
        row = dict.fromkeys(("broker_name", "broker_id", "ns_id", "start_time"))
        compared_s = sum(end - begin for begin, end in together) / 1e6
        found.append(row | {"cluster": cluster, "kind": "compared", "sides": [names], "compared_s": compared_s})
    return found


class Spell(NamedTuple):
    """A NameServer had not heard of a broker since its start."""

    boot: Boot
    span: Span
    #: It had the broker when it was there last, and heard of it again.
    had: bool


def _cold(rows: Rows, ns_id: str, reported: list[tuple[int, Reported]], end_us: int) -> list[Spell]:
    """Return when a NameServer was cold about a broker: from its start until it heard of it, if that was soon."""
    found = []
    own = boots(rows, ns_id)
    for boot, after in zip(own, [*own[1:], None], strict=True):
        until_us = after.start_us if after else end_us
        first = [at_us for at_us, answer in reported if boot.start_us <= at_us < until_us and answer != ABSENT]
        before = [answer for at_us, answer in reported if at_us < boot.start_us]
        first_heartbeat_us = min(first, default=None)
        is_soon = (until_us if first_heartbeat_us is None else first_heartbeat_us) <= boot.start_us + TIMEOUT_US
        if _has_started(rows, boot) and is_soon:
            span = (_serves_from(rows, boot), until_us if first_heartbeat_us is None else first_heartbeat_us)
            found.append(Spell(boot, span, first_heartbeat_us is not None and before[-1:] not in ([], [ABSENT])))
    return found


def _has_started(rows: Rows, boot: Boot) -> bool:
    own = [row for row in rows["ns_lifecycle"] if row["boot_id"] == boot.boot_id]
    return any(row["event_type"] == "started" for row in own)


def _lacked(
    spell: Spell,
    ns_id: str,
    reported: dict[str, list[tuple[int, Reported]]],
    seen: dict[str, list[Span]],
    warm: dict[str, list[Span]],
) -> list[tuple[Span, bool]]:
    """Return when of a cold spell the broker was there: another one had it, or nobody else knew, and it did before.

    With each: whether another one had it.
    """
    edges = {at_us for own in reported.values() for at_us, _ in own}
    edges |= {edge for spans in warm.values() for span in spans for edge in span}
    found = []
    for begin, end in common([spell.span], seen[ns_id]):
        moments = [begin, *sorted(edge for edge in edges if begin < edge < end), end]
        for one, next_us in pairwise(moments):
            others = {other: own for other, own in reported.items() if other != ns_id}
            views = _views(others, warm, KINDS["presence"], one)
            if any(views.values()) or (not views and spell.had):
                found.append(((one, next_us), any(views.values())))
    return found


def _colds(rows: Rows, lacking: list[tuple[Boot, Key, Span]], witnessed: set[tuple[Boot, Key]]) -> list[Answer]:
    """Return one row for each start of a NameServer and cluster whose brokers it lacked."""
    by_start: dict[tuple[Boot, str], list[tuple[Key, Span]]] = defaultdict(list)
    for boot, key, span in lacking:
        by_start[boot, key.cluster].append((key, span))
    found = []
    for (boot, cluster), each in by_start.items():
        begin, end = min(span[0] for _, span in each), max(span[1] for _, span in each)
        least, most = _not_found(rows, boot, end)
        found.append(
            {
                "cluster": cluster,
                "broker_name": None,
                "broker_id": None,
                "kind": "cold",
                "ns_id": boot.ns_id,
                "start_time": begin,
                "end_time": end,
                "seconds": (end - begin) / 1e6,
                "lacked": sorted({f"{key.broker_name}:{key.broker_id}" for key, _ in each}),
                "lacked_seen": len({key for key, _ in each if (boot, key) in witnessed}),
                "not_found_min": least,
                "not_found_max": most,
            }
        )
    return found


def _not_found(rows: Rows, boot: Boot, at_us: int) -> tuple[int | None, int | None]:
    """Return how many questions a process had answered with "no such topic" by then, at least and at most."""
    ticks = {
        row["event_time"]: row["not_found_total"]
        for row in rows["ns_tick"]
        if row["boot_id"] == boot.boot_id and "not_found_total" in row
    }
    if not ticks:
        return None, None
    later = [count for moment, count in ticks.items() if moment >= at_us]
    return max((count for moment, count in ticks.items() if moment <= at_us), default=0), min(later, default=None)


def _changes(rows: Rows, ns_id: str) -> list[tuple[int, Key | None, Reported]]:
    """Return when the answers of a NameServer changed, and to what; without a broker: about all of them."""
    found: list[tuple[int, Key | None, Reported]] = []
    for boot in boots(rows, ns_id):
        found.append((_serves_from(rows, boot), None, ABSENT))
        own = [row for family in ("broker_state", "heartbeat") for row in rows[family]]
        held: dict[Key, Reported] = {}
        of_boot = [row for row in own if row["boot_id"] == boot.boot_id]
        shown = _shown(of_boot)
        for row in sorted(of_boot, key=number):
            for key, reported in _after(row, held, shown.get(row["event_time"])):
                held[key] = reported
                found.append((row["event_time"], key, reported))
    return found


def _serves_from(rows: Rows, boot: Boot) -> int:
    """Return from when on a NameServer answers; it knows no broker then, and may refuse questions for a while."""
    own = [row for row in rows["ns_lifecycle"] if row["boot_id"] == boot.boot_id and row["event_type"] == "configured"]
    reported = json.loads(own[0]["detail"]) if own else {}
    wait_s = reported["waitSecondsForService"] if reported.get("needWaitForService") else 0
    return boot.start_us + wait_s * 1_000_000


def _shown(rows: list[Row]) -> dict[int, set[tuple[str, str]]]:
    """Return which sets each snapshot shows, by its time: there are no others then."""
    found: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for row in rows:
        if row["event_type"] == "snapshot":
            found[row["event_time"]].add((row["cluster"], row["broker_name"]))
    return found


def _after(row: Row, held: dict[Key, Reported], shown: set[tuple[str, str]] | None) -> list[tuple[Key, Reported]]:
    """Return what a NameServer answers after an event about the brokers of its set."""
    found: dict[Key, Reported] = {}
    if row["event_type"] == "snapshot" and shown:
        found |= {key: ABSENT for key in held if key[:2] not in shown}
    if row.get("broker_id") is not None:
        key = key_of(row)
        found[key] = _after_own(row, held.get(key, ABSENT))
    if row.get("set_ids") is not None:
        place = (row["cluster"], row["broker_name"])
        members = dict(zip(row["set_ids"], row["set_addrs"], strict=True))
        found |= {key: ABSENT for key in held if key[:2] == place and key.broker_id not in members}
        for broker_id, address in members.items():
            key = Key(*place, broker_id)
            found[key] = found.get(key, held.get(key, ABSENT))._replace(address=address)
    return [(key, reported) for key, reported in found.items() if reported != held.get(key)]


def _after_own(row: Row, before: Reported) -> Reported:
    version = _version(row) or before.version
    match row["event_type"]:
        case "unregistered" | "expired" | "channel_closed":
            return ABSENT
        case "registered_first" | "changed" | "address_changed" | "role_changed":
            return Reported(row.get("broker_addr", before.address), version)
        case "heartbeat" if before != ABSENT:
            return before._replace(version=version)
    return before


def _version(row: Row) -> tuple[int, ...] | None:
    if "dv_counter" not in row:
        return None
    return row["dv_counter"], row["dv_timestamp"], row["dv_state_version"]


def _of_key(changes: list[tuple[int, Key | None, Reported]], key: Key) -> list[tuple[int, Reported]]:
    return [(at_us, reported) for at_us, about, reported in changes if about in (key, None)]


def _at(reported: list[tuple[int, Reported]], at_us: int) -> Reported | None:
    """Return the answer at a moment; None before the first one."""
    past = [answer for since_us, answer in reported if since_us <= at_us]
    return past[-1] if past else None


def _views(
    reported: dict[str, list[tuple[int, Reported]]],
    seen: dict[str, list[Span]],
    view: Callable[[Reported], Hashable | None],
    at_us: int,
) -> dict[str, Hashable]:
    """Return what each NameServer that watches says at a moment."""
    found = {}
    for ns_id, own in reported.items():
        answer = _at(own, at_us) if covers(seen[ns_id], at_us) else None
        if answer is not None and (seen_as := view(answer)) is not None:
            found[ns_id] = seen_as
    return found


def _differing(
    reported: dict[str, list[tuple[int, Reported]]],
    seen: dict[str, list[Span]],
    view: Callable[[Reported], Hashable | None],
) -> list[Span]:
    edges = {at_us for own in reported.values() for at_us, _ in own}
    edges |= {edge for spans in seen.values() for span in spans for edge in span}
    moments = sorted(edges)
    found: list[Span] = []
    for begin, end in pairwise(moments):
        if len(set(_views(reported, seen, view, begin).values())) > 1:
            if found and found[-1][1] == begin:
                found[-1] = (found[-1][0], end)
            else:
                found.append((begin, end))
    return found


def _answer(
    key: Key,
    kind: str,
    span: Span,
    reported: dict[str, list[tuple[int, Reported]]],
    seen: dict[str, list[Span]],
    view: Callable[[Reported], Hashable | None],
) -> Answer:
    views = _views(reported, seen, view, span[0] + GRACE_US)
    sides: dict[Hashable, list[str]] = defaultdict(list)
    for ns_id, seen_as in views.items():
        sides[seen_as].append(ns_id)
    return {
        **key._asdict(),
        "kind": kind,
        "start_time": span[0],
        "end_time": span[1],
        "seconds": (span[1] - span[0]) / 1e6,
        "sides": sorted(sorted(side) for side in sides.values()),
    }
