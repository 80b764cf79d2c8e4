"""Reads what was recorded of topics: their samples, and how many queues they had at first."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from controller.scaling.autoscaler.dry_run import RecordedSample
from history.landing import lines_of, sealed_files
from history.schemas import OFFSET_SAMPLE, ROUTE_SNAPSHOT
from history.times import unix_us

#: Rows of one round of a sampler are written within this time.
ROUND_MS: Final = 5_000


class TopicNotRecorded(Exception):
    """The history does not have what is needed; the text says what, and what to do."""


class RecordedCounts(NamedTuple):
    """How a topic was when it was seen first."""

    #: Of sets that differ, the most.
    queues_per_set: int
    sets: int


class _SampleRow(msgspec.Struct):
    event_time: datetime
    topic: str
    cluster: str | None = None
    group: str | None = None
    max_offset: int | None = None
    consumer_offset: int | None = None
    consumers: int | None = None
    tps: float | None = None


class _QueuesRow(msgspec.Struct):
    event_time: datetime
    event_type: str
    snapshot_id: str | None = None
    scope: str | None = None
    broker_names: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    read: int | None = None


_decode_sample: Final = msgspec.json.Decoder(_SampleRow).decode
_decode_queues: Final = msgspec.json.Decoder(_QueuesRow).decode


def samples_of(folder: Path, topic: str, first: datetime, last: datetime) -> dict[str, list[RecordedSample]]:
    """Return the readable samples of a topic by cluster, in the order of time; those of a round at one moment."""
    found: defaultdict[str, list[RecordedSample]] = defaultdict(list)
    for line in _lines(folder, OFFSET_SAMPLE.name, topic, first, last):
        try:
            row = _decode_sample(line)
        except msgspec.DecodeError:
            continue
        if row.topic == topic and first <= row.event_time <= last:
            found[row.cluster or ""].append(
                RecordedSample(
                    unix_us(row.event_time) // 1000,
                    topic,
                    row.group,
                    row.max_offset,
                    row.consumer_offset,
                    row.consumers,
                    row.tps,
                )
            )
    return {cluster: list(_in_rounds(samples)) for cluster, samples in found.items()}


def _in_rounds(samples: Iterable[RecordedSample]) -> Iterator[RecordedSample]:
    """Yield the samples in the order of time, each with the moment at which its round began."""
    began_ms, groups = 0, set[str | None]()
    for sample in sorted(samples, key=lambda each: each.unix_ms):
        if sample.unix_ms - began_ms > ROUND_MS or sample.group in groups:
            began_ms, groups = sample.unix_ms, set()
        groups.add(sample.group)
        yield sample._replace(unix_ms=began_ms)


def counts_of(folder: Path, topic: str, first: datetime, last: datetime) -> RecordedCounts:
    """Return the queues of a topic in the first snapshot that has it; raises TopicNotRecorded."""
    rows: list[_QueuesRow] = []
    for line in _lines(folder, ROUTE_SNAPSHOT.name, topic, first, last):
        try:
            row = _decode_queues(line)
        except msgspec.DecodeError:
            continue
        # A snapshot of all routes has the topic once for each set.
        if row.scope == "all" and topic in row.topics and row.event_time >= first:
            rows.append(row)
    if not rows:
        raise TopicNotRecorded(
            f"no snapshot of routes has {topic} between {first.isoformat()} and {last.isoformat()}: "
            "give its queues with --queues and --sets"
        )
    snapshot_id = min(rows, key=lambda each: each.event_time).snapshot_id
    counts = {name: row.read or 0 for row in rows if row.snapshot_id == snapshot_id for name in row.broker_names}
    return RecordedCounts(max(counts.values()), len(counts))


def _lines(folder: Path, family: str, topic: str, first: datetime, last: datetime) -> Iterator[bytes]:
    """Yield the lines that name the topic; some of them may be about another one."""
    name = msgspec.json.encode(topic)
    for path in sealed_files(folder, family, first, last):
        yield from (line for line in lines_of(path) if name in line)
