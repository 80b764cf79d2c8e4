"""Makes few large files of the many small ones of a day that is over. What rows there are does not change."""

from collections.abc import Iterable
from functools import reduce
from operator import xor
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.ingest.curated import facts_of, rows_of, write_hours
from analytics.ingest.ingest import STORED_HISTORY, Places, sweep
from analytics.ingest.lines import SORTED_BY
from analytics.ingest.manifest import WHOLE_DAY, Day, family_folder, load_days, save_day
from analytics.shared.days import DAY_US, date_at
from analytics.spark.failures import Failures
from analytics.spark.progress import Progress
from analytics.spark.storage import BadStorage
from history.columns import RowFamily
from history.schemas import FAMILIES

#: A day is compacted when it has been over for so long: most of what comes late has come.
OVER_FOR_US: Final = DAY_US

#: Files of a compacted day are about so large.
FILE_BYTES: Final = 128 * 1024**2


class RowsDiffer(BadStorage):
    """The large files of a day have not the rows of its small ones, which stay."""

    def __init__(self, family: str, date: str, *, stored: int, written: int) -> None:
        self.family, self.date, self.stored, self.written = family, date, stored, written
        super().__init__(
            f"{family} of {date} has {stored} rows, and compacted {written} or others: its files stay as they are"
        )


def compact(places: Places, now_us: int, show: Progress) -> int:
    """Compact all days that are over; return how many there were. Raises SomeFailed at the end if some of them failed.

    What failed is as it was, and keeps no other day and no other family waiting.
    """
    count = 0
    failures = Failures(show)
    with places.stored.writing(STORED_HISTORY):
        for family in FAMILIES.values():
            with failures.collecting(family.name, message=f"{family.name}: failed"):
                count += _compact_family(places, family, now_us, failures, show)
    failures.raise_if_any()
    return count


def _compact_family(places: Places, family: RowFamily, now_us: int, failures: Failures, show: Progress) -> int:
    days = load_days(places.stored, family.name)
    sweep(places.stored, family, days)
    due = [date for date, day in days.items() if is_due(date, day, now_us)]
    done = 0
    for date in due:
        with failures.collecting(f"{family.name} {date}"):
            _compact_day(places, family, date, days[date])
            done += 1
    if due:
        show(f"{family.name}: {done} of {len(due)} days compacted")
    return done


def is_due(date: str, day: Day, now_us: int) -> bool:
    """Return whether a day is over and consists of more than one piece."""
    return date < date_at(now_us - OVER_FOR_US) and bool(day.stored) and set(day.stored) != {WHOLE_DAY}


def _compact_day(places: Places, family: RowFamily, date: str, day: Day) -> None:
    files = places.stored.files(f"{family_folder(family.name)}/date={date}")
    count = 1 + sum(file.size for file in files) // FILE_BYTES
    rows = _in_files(rows_of(places.spark, places.stored, family, day.parquet_files), count)
    written = write_hours(rows.withColumns({"date": F.lit(date), "hour": F.lit(WHOLE_DAY)}), places.stored, family)
    paths = written.get(f"{date}/{WHOLE_DAY}", [])
    _check(places, family, date, day, paths)
    save_day(places.stored, family.name, date, day.compacted(paths))
    for path in day.parquet_files:
        places.stored.delete(path)


def _check(places: Places, family: RowFamily, date: str, day: Day, paths: Iterable[str]) -> None:
    """Raise RowsDiffer unless these files have all rows of a day, and no others."""
    found = facts_of(places.spark, places.stored, family, paths)
    rows, digest = found.get(f"{date}/{WHOLE_DAY}", (0, 0))
    if (rows, digest) != (day.rows, reduce(xor, (hour.digest for hour in day.hours.values()), 0)):
        raise RowsDiffer(family.name, date, stored=day.rows, written=rows)


def _in_files(rows: DataFrame, count: int) -> DataFrame:
    ordered = rows.repartitionByRange(count, *SORTED_BY) if count > 1 else rows.repartition(1)
    return ordered.sortWithinPartitions(*SORTED_BY)
