"""What the stored history consists of: for each family and day, which files count and what was read into them.

A manifest is written after the files that it names, as a whole. So what a crash leaves half done is named nowhere: no
reader of a manifest sees it, and the next ingest sweeps it away. This is what makes a row count exactly once.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from analytics.spark.storage import ManifestMissing, Storage, StoredFile, UnreadableFile

#: So many unreadable lines of an hour are kept for people to look at; more are only counted.
CORRUPT_LINES_KEPT: Final = 100

#: The unit of a day that was compacted, beside the hours `00` to `23`.
WHOLE_DAY: Final = "all"


class LandedFile(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A landing file as it was when it was read; one that looks otherwise later is read again."""

    name: str
    size: int
    modified_ms: int


class CorruptLine(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A line that could not be read."""

    file: str
    #: The line, cut where it is very long.
    line: str


class Hour(msgspec.Struct, frozen=True, kw_only=True):
    """What one hour of landing has become."""

    files: tuple[LandedFile, ...] = ()
    rows: int = 0
    #: Changes whenever the rows do, and only then: exclusive or of the hashes of their event ids.
    digest: int = 0
    corrupt_lines: int = 0
    corrupt: tuple[CorruptLine, ...] = ()


class Day(msgspec.Struct, frozen=True, kw_only=True):
    """One family on one day."""

    #: Hour of the landing folder -> what became of it.
    hours: Mapping[str, Hour] = {}
    #: Hour, or WHOLE_DAY -> its Parquet files, as paths of the storage.
    stored: Mapping[str, tuple[str, ...]] = {}
    #: The rows were deleted by retention; what stays describes the day.
    deleted: bool = False

    @property
    def rows(self) -> int:
        """All rows of the day."""
        return sum(hour.rows for hour in self.hours.values())

    @property
    def parquet_files(self) -> tuple[str, ...]:
        """All files of the day."""
        return tuple(path for unit in sorted(self.stored) for path in self.stored[unit])

    def with_hours(self, hours: Mapping[str, Hour], stored: Mapping[str, Iterable[str]]) -> "Day":
        """Return the day with some hours in the place of their former selves."""
        return msgspec.structs.replace(
            self,
            hours={**self.hours, **hours},
            stored={**self.stored, **{unit: tuple(paths) for unit, paths in stored.items()}},
        )

    def compacted(self, paths: Iterable[str]) -> "Day":
        """Return the day with all its rows in these files."""
        return msgspec.structs.replace(self, stored={WHOLE_DAY: tuple(paths)})

    def emptied(self) -> "Day":
        """Return the day without its rows: what it was stays known, which files it was read from does not."""
        bare = {name: msgspec.structs.replace(hour, files=(), corrupt=()) for name, hour in self.hours.items()}
        return Day(hours=bare, deleted=True)


#: Day, `2026-11-21` -> its manifest.
Days = Mapping[str, Day]

CURATED: Final = "curated/v1"
MANIFESTS: Final = f"{CURATED}/_manifest"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Day).decode


def family_folder(family: str) -> str:
    """Return where the rows of a family are."""
    return f"{CURATED}/family={family}"


def _manifest_folder(family: str) -> str:
    # Without the leading underscore of the folder above it, a reader of the whole family would take it for rows.
    return f"{MANIFESTS}/family={family}"


def prepare_manifests(storage: Storage, family: str) -> None:
    """Make the folder of a family's manifests; raises ManifestMissing if there are rows whose manifests were there.

    It is made before the first rows are written. So what a killed first ingest leaves differs from a
    history whose manifests were lost.
    """
    folder, rows = _manifest_folder(family), family_folder(family)
    if storage.exists(folder):
        return
    if storage.files(rows):
        raise ManifestMissing(folder, rows)
    storage.make_folder(folder)


def load_days(storage: Storage, family: str) -> dict[str, Day]:
    """Return the manifests of a family by day, in order; raises UnreadableFile."""
    days = {}
    for file in storage.files(_manifest_folder(family)):
        content = storage.read(file.path)
        date = file.path.rpartition("/")[2].removeprefix("date=").removesuffix(".json")
        if content is not None:
            days[date] = _day_of(file.path, content)
    return days


def _day_of(path: str, content: bytes) -> Day:
    try:
        return _decode(content)
    except msgspec.DecodeError as why:
        raise UnreadableFile(path, why) from why


def save_day(storage: Storage, family: str, date: str, day: Day) -> None:
    """Make a day's manifest the one that counts."""
    storage.write(f"{_manifest_folder(family)}/date={date}.json", _encode(day))


def delete_day(storage: Storage, family: str, date: str) -> None:
    """Forget that there was a day."""
    storage.delete(f"{_manifest_folder(family)}/date={date}.json")


def strays(files: Iterable[StoredFile], days: Days) -> list[str]:
    """Return the Parquet files that no manifest names: what an interrupted run left."""
    named = {path for day in days.values() for path in day.parquet_files}
    return [file.path for file in files if file.path not in named]
