"""The timeline of a broker, in order: last heartbeat, expiry, election, registrations of the new master."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from history.columns import WATCHES_NO_BROKERS
from history.past.rows import History, StoredRow, as_written
from history.schemas import BROKER_STATE, CONTROLLER, NS_LIFECYCLE, NS_TICK, SCALING, UNOBSERVED_AFTER_MS
from history.times import time_text, unix_us
from remoting.protocol.shapes.history import PastEvent

#: Matches the line of a tick after an unobserved pause; may match too often.
_PAUSE: Final = re.compile(rb'"interval_ms":\d{5}')
#: What happened, by event type, as a sentence of the row's columns.
SENTENCES: Final = {
    "registered_first": "registers: {role} {broker_id} at {broker_addr}, {topics} topics",
    "changed": "registers again: {topics_added} topics added, {topics_removed} removed, {topics_changed} changed",
    "address_changed": "broker {broker_id} is at {broker_addr} now, not at {former_addr}",
    "role_changed": "{broker_addr} is broker {broker_id} ({role}) now",
    "unregistered": "{role} {broker_id} unregisters",
    "expired": "{role} {broker_id} expires: no heartbeat for {silent_ms} ms, its timeout is {timeout_ms} ms",
    "channel_closed": "{role} {broker_id} leaves: its connection ended, last heartbeat {silent_ms} ms before",
    "conflict": "broker {broker_id} at {broker_addr} is refused: {reason}",
    "perm_wiped": "an operator changes its permissions: {reason}",
    "failure_detected": "broker {broker_id} failed: {reason}",
    "election_started": "an election begins: {reason}",
    "elected": "election ends ({result}): {elected}, epoch {master_epoch}, {before}; {reason}",
    "sync_set_changed": "SyncStateSet is {sync_state_set} now",
    "role_notified": "broker {broker_id} was notified of its role: {result} after {duration_ms} ms",
    "master_changed": "{master}, epoch {master_epoch}, {former}",
    "master_serves": "master {new_master} serves, {duration_ms} ms after it was elected",
    "hold_ended": "a switchover held clients back for {duration_ms} ms",
    "registered": "broker {broker_id} starts at {broker_addr}",
    "plan": "a resize of {topic} is planned ({kind}, by {requested_by}): {from_write} to {to_write} queues in all",
    "step_started": "the resize of {topic} goes from {former_step} to {step} after {duration_ms} ms",
    "verified": "the resize of {topic} is done: it has {to_write} queues in all",
    "rolled_back": "the resize of {topic} is undone: {problem}",
    "rejected": "the resize of {topic} is rejected: {problem}",
    "started": "this server starts; the previous process was watching until {unobserved_from} at least",
    "stopping": "this server stops",
    "clock_set": "the clock of this server is set {reason}",
    "recording_resumed": "this server records again: {reason} since {unobserved_from}, {dropped} in number",
    "tick": "this server was paused for {interval_ms} ms, and observed nothing",
    "cold_start_began": "clients get what other NameServers know of brokers that have not registered here: {reason}",
    "cold_start_ended": "clients get registered brokers alone: {reason}",
    "leader_gained": "this controller leads: {reason}",
    "leader_lost": "this controller no longer leads: {reason}",
    "etcd_lost": "this controller's store does not answer: {reason}",
    "etcd_restored": "this controller's store answers again",
}

#: Words for a column of masters, where null is a fact.
_MASTER: Final = {"elected": "master {new_master}", "master": "master {new_master} at {broker_addr}"}
_NO_MASTER: Final = {"elected": "no master", "master": "no master"}
_FORMER: Final = {"before": "was {old_master}", "former": "was {old_master} at {former_addr}"}
_NO_FORMER: Final = {"before": "no master before", "former": "no master before"}
_FIRST_START: Final = "this server starts; what it was before is not in the history"
_LAST_HEARTBEAT: Final = "last_heartbeat"
#: Events of a broker's own heartbeat.
_BY_HEARTBEAT: Final = frozenset({"registered_first", "changed", "address_changed", "role_changed", "registered"})


def timeline(rows: Iterable[StoredRow]) -> list[PastEvent]:
    """Return the lines in order of time; of one moment, in the order in which each server recorded them."""
    events: list[tuple[int, PastEvent]] = []
    last_us: dict[tuple[str, int | None], int] = {}
    for row in sorted(rows, key=lambda each: each.unix_us):
        who = (row.ns_id, row.broker_id)
        if row.event_type in _BY_HEARTBEAT:
            last_us[who] = row.unix_us
        events += _events(row, last_us.get(who, 0))
    return [event for _, event in sorted(events, key=lambda each: each[0])]


def _events(row: StoredRow, last_heartbeat_us: int) -> Iterator[tuple[int, PastEvent]]:
    sentence = SENTENCES.get(row.event_type)
    if sentence is None:
        return
    if row.event_type == "started" and row.unobserved_from is None:
        sentence = _FIRST_START
    if row.last_heartbeat_time is not None:
        # `silent_ms` is rounded: without this the last heartbeat might precede the registration.
        last_us = max(last_heartbeat_us, row.unix_us - (row.silent_ms or 0) * 1000)
        yield _event(row, last_us, _LAST_HEARTBEAT, f"last heartbeat of broker {row.broker_id}")
    columns = {name: getattr(row, name) for name in StoredRow.__struct_fields__}
    if row.unobserved_from is not None:
        columns["unobserved_from"] = time_text(unix_us(row.unobserved_from))
    if row.event_type == "step_started" and row.problem is not None:
        sentence = f"{sentence}: {{problem}}"
    texts = {name: "unknown" if value is None else value for name, value in columns.items()}
    masters = _NO_MASTER if row.new_master is None else _MASTER
    former = _NO_FORMER if row.old_master is None else _FORMER
    texts |= {name: words.format(**texts) for name, words in (masters | former).items()}
    yield _event(row, row.unix_us, row.event_type, sentence.format(**texts))


def _event(row: StoredRow, at_us: int, event: str, sentence: str) -> tuple[int, PastEvent]:
    unix_ms = at_us // 1000
    return at_us, PastEvent(unix_ms=unix_ms, ns_id=row.ns_id, event=event, broker_id=row.broker_id, sentence=sentence)


def broker_rows(history: History, broker_name: str, first: datetime, last: datetime) -> list[StoredRow]:
    """Return the rows about a broker set, snapshots of it included."""
    name = as_written(broker_name)
    return [
        row
        for family in (BROKER_STATE.name, CONTROLLER.name, SCALING.name)
        for row in history.rows(family, first, last, None, lambda line: name in line)
        if row.broker_name == broker_name or broker_name in row.broker_names
    ]


def server_rows(history: History, first: datetime, last: datetime) -> list[StoredRow]:
    """Return the lifecycle of servers that watch brokers, and their pauses: no event then means nothing."""
    lifecycle = history.rows(NS_LIFECYCLE.name, first, last)
    return [*(row for row in lifecycle if row.source not in WATCHES_NO_BROKERS), *_pauses(history, first, last)]


def _pauses(history: History, first: datetime, last: datetime) -> Iterator[StoredRow]:
    ticks = history.rows(NS_TICK.name, first, last, None, lambda line: _PAUSE.search(line) is not None)
    return (row for row in ticks if (row.interval_ms or 0) > UNOBSERVED_AFTER_MS)
