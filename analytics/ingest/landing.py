"""What the servers have written, and which of it has not been read yet. Decides only; `storage` lists, `ingest` reads.

A landing file is `landing/v1/family=F/date=YYYY-MM-DD/hour=HH/<ns_id>-<boot_ms>-<seq>.jsonl`, or `.jsonl.gz`. Its
folder is the hour of its first row, UTC; it may hold a few minutes of the next one.
"""

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from analytics.ingest.manifest import WHOLE_DAY, Day, Days, LandedFile
from analytics.spark.storage import StoredFile

LANDING: Final = "landing/v1"

_PATH: Final = re.compile(
    rf"{LANDING}/family=(?P<family>\w+)/date=(?P<date>\d{{4}}-\d\d-\d\d)/hour=(?P<hour>[01]\d|2[0-3])/"
    r"(?P<name>[^/]+\.jsonl(\.gz)?)"
)

#: The same for Hadoop's file systems, of the name alone.
PATH_GLOB: Final = "*.{jsonl,jsonl.gz}"

#: So many bytes of landing are read in one go; a crash costs no more than that, and memory needs no more.
BATCH_BYTES_MAX: Final = 2 * 1024**3

#: A line has at least so many bytes, compressed ones too.
LINE_BYTES_LEAST: Final = 40

_UNPACKED_AT_ONCE: Final = 1024**2

#: One task of Spark writes so much of an hour, in bytes of landing; larger hours are written in pieces.
PIECE_BYTES: Final = 512 * 1024**2


#: Day and hour -> its landing files.
LandedHours = Mapping[tuple[str, str], list[LandedFile]]


class How(Enum):
    """How new landing files come into their hour."""

    #: All that the hour was made of is still there: it is made anew. Whatever was wrong before is healed.
    REBUILD = auto()
    #: Some of it is gone or has become less, or the day is compacted: rows that are not there yet are added.
    ADD = auto()


class HourWork(NamedTuple):
    """One hour that has to be read."""

    date: str
    hour: str
    how: How
    #: What to read: with REBUILD all files of the hour, with ADD the new ones.
    files: tuple[LandedFile, ...]

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(file.size for file in self.files)


def family_landing(family: str) -> str:
    """Return where a family's landing files are."""
    return f"{LANDING}/family={family}"


def landing_path(family: str, date: str, hour: str, name: str) -> str:
    """Return where a landing file is."""
    return f"{family_landing(family)}/date={date}/hour={hour}/{name}"


def by_hour(files: Iterable[StoredFile]) -> LandedHours:
    """Return the landing files among these by day and hour; what has another name is not one."""
    hours: dict[tuple[str, str], list[LandedFile]] = {}
    for file in files:
        if match := _PATH.fullmatch(file.path):
            landed = LandedFile(match["name"], file.size, file.modified_ms)
            hours.setdefault((match["date"], match["hour"]), []).append(landed)
    return hours


def work_to_do(landed: LandedHours, days: Days) -> list[HourWork]:
    """Return the hours with files that were not read yet, or have changed since, in order.

    Days that retention has emptied stay so: what lands for them is too late.
    """
    work = []
    for (date, hour), files in sorted(landed.items()):
        day = days.get(date, Day())
        known = set(day.hours[hour].files) if hour in day.hours else set()
        present = set(files)
        if day.deleted or present <= known:
            continue
        sizes = {file.name: file.size for file in present}
        # A file that is shorter than it was, of a restore that broke off, must not take stored rows away.
        whole = WHOLE_DAY not in day.stored and all(sizes.get(file.name, -1) >= file.size for file in known)
        how, read = (How.REBUILD, present) if whole else (How.ADD, present - known)
        work.append(HourWork(date, hour, how, tuple(sorted(read))))
    return work


def batches(work: Iterable[HourWork], bytes_max: int = BATCH_BYTES_MAX) -> Iterator[list[HourWork]]:
    """Group hours that are read in the same way and are not too much at once; an hour is never divided."""
    batch: list[HourWork] = []
    for hour in work:
        full = sum(each.size for each in batch) + hour.size > bytes_max
        if batch and (full or batch[0].how is not hour.how):
            yield batch
            batch = []
        batch.append(hour)
    if batch:
        yield batch


def unpacks(content: bytes) -> bool:
    """Return whether a compressed file is whole."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            while file.read(_UNPACKED_AT_ONCE):
                pass
    except (EOFError, OSError, zlib.error):
        return False
    return True


def pieces(work: Iterable[HourWork]) -> int:
    """Return into how many pieces each hour is written, so that the largest one fits tasks of a usual size."""
    return 1 + max(hour.size for hour in work) // PIECE_BYTES
