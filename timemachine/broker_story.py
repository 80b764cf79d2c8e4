"""The story of a broker, in order: last beat, expiry, election, who sees the new master, back again. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from history.times import time_text, unix_us
from timemachine.rows import Row

#: What happened, by event type, as a sentence of the row's columns.
_SENTENCES: Final = {
    "registered_first": "registers: {role} {broker_id} at {broker_addr}, {topics} topics",
    "changed": "says something else: {topics_added} topics more, {topics_removed} less, {topics_changed} changed",
    "address_changed": "broker {broker_id} is at {broker_addr} now, not at {former_addr}",
    "role_changed": "{broker_addr} is broker {broker_id} ({role}) now",
    "unregistered": "{role} {broker_id} says good-bye",
    "expired": "{role} {broker_id} is given up: silent for {silent_ms} ms, {timeout_ms} ms are allowed",
    "channel_closed": "{role} {broker_id} is gone: its connection ended, last heard {silent_ms} ms before",
    "conflict": "broker {broker_id} at {broker_addr} is turned away: {reason}",
    "perm_wiped": "an operator changes its permissions: {reason}",
    "failure_detected": "broker {broker_id} is dead: {reason}",
    "election_started": "an election begins: {reason}",
    "elected": "election ends ({result}): master {new_master}, epoch {master_epoch}, was {old_master}; {reason}",
    "sync_set_changed": "in sync are {sync_state_set} now",
    "role_notified": "broker {broker_id} is told its role: {result} after {duration_ms} ms",
    "registered": "broker {broker_id} starts at {broker_addr}",
    "started": "this server starts; the one before it was watching until {unobserved_from}",
    "stopping": "this server stops",
    "clock_set": "the clock of this server is set {reason}",
    "recording_resumed": "this server goes on recording: {reason} since {unobserved_from}, {dropped} in number",
    "tick": "this server goes on: it stood still for {interval_ms} ms, and saw nothing",
    "leader_gained": "this controller leads: {reason}",
    "leader_lost": "this controller leads no longer: {reason}",
    "etcd_lost": "this controller's store does not answer: {reason}",
    "etcd_restored": "this controller's store answers again",
}

_FIRST_START: Final = "this server starts; what it was before is not in the history"
#: What a broker's own beat brings about.
_BY_A_BEAT: Final = frozenset({"registered_first", "changed", "address_changed", "role_changed", "registered"})


class Moment(NamedTuple):
    """One line of the story."""

    unix_us: int
    ns_id: str
    sentence: str


def story(rows: Iterable[Row]) -> list[Moment]:
    """Return the lines of a story in order of time; of one moment, in the order in which each server saw it."""
    told: list[Moment] = []
    heard: dict[tuple[str, int | None], int] = {}
    for row in sorted(rows, key=lambda each: each.unix_us):
        who = (row.ns_id, row.broker_id)
        if row.event_type in _BY_A_BEAT:
            heard[who] = row.unix_us
        told += _moments(row, heard.get(who, 0))
    return sorted(told, key=lambda each: each.unix_us)


def _moments(row: Row, heard_us: int) -> Iterator[Moment]:
    sentence = _SENTENCES.get(row.event_type)
    if sentence is None:
        return
    if row.event_type == "started" and row.unobserved_from is None:
        sentence = _FIRST_START
    if row.last_heartbeat_time is not None:
        # Silence is counted in whole ms: without this a broker might beat before it registers.
        last_us = max(heard_us, row.unix_us - (row.silent_ms or 0) * 1000)
        yield Moment(last_us, row.ns_id, f"last beat of broker {row.broker_id}")
    said = {name: getattr(row, name) for name in Row.__struct_fields__}
    if row.unobserved_from is not None:
        said["unobserved_from"] = time_text(unix_us(row.unobserved_from))
    shown = {name: "-" if value is None else value for name, value in said.items()}
    yield Moment(row.unix_us, row.ns_id, sentence.format(**shown))
