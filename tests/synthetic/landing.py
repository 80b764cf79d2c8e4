"""Writes rows as the files that servers leave, and what may happen to files on their way."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from history.columns import Type
from history.schemas import FAMILIES
from synthetic.plan import SECOND

Row = dict[str, Any]

#: A file is sealed at this age.
SEGMENT_US = 300 * SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMPS = {
    family.name: tuple(column.name for column in family.all_columns if column.type is Type.TIMESTAMP)
    for family in FAMILIES.values()
}


class Segment(NamedTuple):
    """One file: where it belongs, below the landing folder, and what it holds."""

    path: str
    content: bytes
    event_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What happens to files: each is the share of the files that it happens to."""

    seed: int = 1
    #: Delivered a second time, under another name.
    twice: float = 0
    #: Not there at first; see `Landed.late`.
    late: float = 0
    #: Cut in the middle of its last line.
    torn: float = 0
    #: Its rows are out of order.
    shuffled: float = 0


@dataclass
class Landed:
    """What was written, and the truth about it."""

    files: list[Path] = field(default_factory=list)
    #: Still to come: `deliver` writes them.
    late: list[Segment] = field(default_factory=list)
    #: Of torn lines.
    lost_event_ids: set[str] = field(default_factory=set)
    twice_event_ids: set[str] = field(default_factory=set)


def write_landing(root: Path, rows: dict[str, list[Row]], delivery: Delivery | None = None) -> Landed:
    """Write all rows below `root/landing/v1`, except those of files that are late."""
    delivery = delivery or Delivery()
    random = Random(f"delivery {delivery.seed}")
    landed = Landed()
    for family, of_family in rows.items():
        for segment in segments(family, of_family):
            _land(root, _spoil(segment, delivery, random, landed), delivery, random, landed)
    return landed


def deliver(root: Path, late: Iterable[Segment]) -> list[Path]:
    """Write files that come late; return where."""
    return [_write(root, segment) for segment in late]


def segments(family: str, rows: Iterable[Row]) -> Iterator[Segment]:
    """Yield the files of one family: one for each server's process and five minutes, by the first row's hour."""
    open_rows: dict[str, list[Row]] = {}
    numbers: dict[str, int] = {}
    for row in rows:
        boot_id = row["boot_id"]
        held = open_rows.setdefault(boot_id, [])
        if held and row["event_time"] - held[0]["event_time"] >= SEGMENT_US:
            numbers[boot_id] = numbers.get(boot_id, 0) + 1
            yield _segment(family, boot_id, numbers[boot_id], held)
            open_rows[boot_id] = held = []
        held.append(row)
    for boot_id, held in open_rows.items():
        yield _segment(family, boot_id, numbers.get(boot_id, 0) + 1, held)


def line(family: str, row: Row) -> bytes:
    """Return a row as one line of JSON."""
    moments = {name: moment(row[name]) for name in _TIMESTAMPS[family] if name in row}
    return msgspec.json.encode(row | moments) + b"\n"


def moment(unix_us: int) -> str:
    """Return a time as history files show it."""
    return (_EPOCH + timedelta(microseconds=unix_us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _segment(family: str, boot_id: str, number: int, rows: list[Row]) -> Segment:
    day, hour = moment(rows[0]["event_time"])[:13].split("T")
    path = f"landing/v1/family={family}/date={day}/hour={hour}/{boot_id}-{number}.jsonl"
    return Segment(path, b"".join(line(family, row) for row in rows), tuple(row["event_id"] for row in rows))


def _spoil(segment: Segment, delivery: Delivery, random: Random, landed: Landed) -> Segment:
    lines = segment.content.splitlines(keepends=True)
    pairs = list(zip(lines, segment.event_ids, strict=True))
    if random.random() < delivery.shuffled:
        random.shuffle(pairs)
    content = b"".join(text for text, _ in pairs)
    event_ids = tuple(event_id for _, event_id in pairs)
    if random.random() < delivery.torn:
        landed.lost_event_ids.add(event_ids[-1])
        content = content[: -len(pairs[-1][0]) // 2]
        event_ids = event_ids[:-1]
    return Segment(segment.path, content, event_ids)


def _land(root: Path, segment: Segment, delivery: Delivery, random: Random, landed: Landed) -> None:
    if random.random() < delivery.late:
        landed.late.append(segment)
        return
    landed.files.append(_write(root, segment))
    if random.random() < delivery.twice:
        again = segment._replace(path=segment.path.replace(".jsonl", "9999.jsonl"))
        landed.files.append(_write(root, again))
        landed.twice_event_ids.update(segment.event_ids)


def _write(root: Path, segment: Segment) -> Path:
    path = root / segment.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(segment.content)
    return path
