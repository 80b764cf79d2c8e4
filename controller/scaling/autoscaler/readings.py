"""From what brokers answer about a topic, at one moment after another, to rates and trends.

Rates are those of the last `RATE_SPAN_MS`: clients commit their offsets each 5 s, so shorter spans would jump.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from controller.scaling.autoscaler.signals import (
    BrokerLoad,
    GroupMembers,
    GroupSignals,
    QueueProgress,
    SetSignals,
    TopicSignals,
)

RATE_SPAN_MS: Final = 60_000

#: Readings of a topic that are held, and groups of it that are looked at.
READINGS_MAX: Final = 8
GROUPS_MAX: Final = 64

#: One object for all queues in which nothing happens.
_NONE: Final = 0.0

Offsets = tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReading:
    """What the master of a broker set answered about a topic; offsets are by queue id."""

    read_queues: int | None = None
    write_queues: int | None = None
    max_offsets: Offsets = ()
    load: BrokerLoad = field(default_factory=BrokerLoad)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReading(GroupMembers):
    #: By broker name and queue id.
    offsets: Mapping[str, Offsets] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReading:
    topic: str
    unix_ms: int
    sets: Mapping[str, SetReading] = field(default_factory=dict)
    groups: Mapping[str, GroupReading] = field(default_factory=dict)
    is_ordered: bool | None = None
    is_static: bool | None = None
    special_type: str = ""


class ReadingHistory:
    """The last readings of one topic: as many as its rates need."""

    def __init__(self) -> None:
        self._readings: deque[TopicReading] = deque(maxlen=READINGS_MAX)
        #: What is known of a topic in which nothing has happened for as long as rates look back.
        self._idle: TopicSignals | None = None

    def add(self, reading: TopicReading) -> TopicSignals:
        """Return what is known by now; no rate is known of the first reading, nor after a clock went back."""
        held = self._readings
        if held and reading.unix_ms <= held[-1].unix_ms:
            held.clear()
        while len(held) > 1 and held[1].unix_ms <= reading.unix_ms - RATE_SPAN_MS:
            held.popleft()
        reading = _limited(reading)
        if held and _is_unchanged(held[-1], reading):
            # Most topics are idle: theirs share what they hold.
            reading = replace(held[-1], unix_ms=reading.unix_ms)
        base = held[0] if held else None
        held.append(reading)
        if base is None or base.sets is not reading.sets or base.groups is not reading.groups:
            self._idle = None
            return signals_between(base, reading)
        # Signals of an idle topic are the same objects each time, so that nothing need be found anew.
        idle = self._idle or signals_between(base, reading)
        self._idle = replace(idle, unix_ms=reading.unix_ms)
        return self._idle


def _limited(reading: TopicReading) -> TopicReading:
    if len(reading.groups) <= GROUPS_MAX:
        return reading
    names = sorted(reading.groups)[:GROUPS_MAX]
    return replace(reading, groups={name: reading.groups[name] for name in names})


def _is_unchanged(last: TopicReading, reading: TopicReading) -> bool:
    flags = (reading.is_ordered, reading.is_static, reading.special_type)
    held = (last.is_ordered, last.is_static, last.special_type)
    return held == flags and last.sets == reading.sets and last.groups == reading.groups


def signals_between(base: TopicReading | None, now: TopicReading) -> TopicSignals:
    """Return what is known now, with the rates since an earlier reading."""
    seconds = (now.unix_ms - base.unix_ms) / 1000 if base else 0.0
    before = base if base and seconds > 0 else TopicReading(topic=now.topic, unix_ms=0)
    return TopicSignals(
        topic=now.topic,
        unix_ms=now.unix_ms,
        sets={name: _set_signals(before.sets.get(name), each, seconds) for name, each in now.sets.items()},
        groups={name: _group_signals(name, before, now, seconds) for name in now.groups},
        is_ordered=now.is_ordered,
        is_static=now.is_static,
        special_type=now.special_type,
    )


def _set_signals(before: SetReading | None, now: SetReading, seconds: float) -> SetSignals:
    rates = tuple(
        _rate(_at(before.max_offsets if before else (), queue_id), offset, seconds)
        for queue_id, offset in enumerate(now.max_offsets)
    )
    return SetSignals(read_queues=now.read_queues, write_queues=now.write_queues, write_tps=rates, load=now.load)


def _group_signals(name: str, before: TopicReading, now: TopicReading, seconds: float) -> GroupSignals:
    group, then = now.groups[name], before.groups.get(name)
    queues = []
    for broker_name, broker_set in now.sets.items():
        offsets = group.offsets.get(broker_name, ())
        then_offsets = then.offsets.get(broker_name, ()) if then else ()
        then_set = before.sets.get(broker_name)
        then_ends = then_set.max_offsets if then_set else ()
        for queue_id, end in enumerate(broker_set.max_offsets):
            offset, former = _at(offsets, queue_id), _at(then_offsets, queue_id)
            consumed, written = _rate(former, offset, seconds), _rate(_at(then_ends, queue_id), end, seconds)
            queues.append(
                QueueProgress(
                    broker_name,
                    queue_id,
                    lag=max(0, end - offset) if end is not None and offset is not None else None,
                    lag_trend=_trend(written, consumed),
                    consume_tps=consumed,
                )
            )
    return GroupSignals(kind=group.kind, clients=group.clients, holders=group.holders, queues=tuple(queues))


def _trend(written: float | None, consumed: float | None) -> float | None:
    if written is None or consumed is None:
        return None
    return written - consumed if written != consumed else _NONE


def _at(offsets: Offsets, queue_id: int) -> int | None:
    return offsets[queue_id] if queue_id < len(offsets) else None


def _rate(before: int | None, now: int | None, seconds: float) -> float | None:
    """Return the messages a second; None if an end is unknown, or went back: a topic made anew, a reset, a failover."""
    if before is None or now is None or now < before or seconds <= 0:
        return None
    return (now - before) / seconds if now > before else _NONE
