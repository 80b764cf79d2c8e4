"""Makes few large files of the many small ones of a day that is over. What rows there are does not change."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.curated import rows_of, write_hours
from analytics.days import DAY_US, date_at
from analytics.ingest import STORED_HISTORY, Places, sweep
from analytics.lines import SORTED_BY
from analytics.manifest import WHOLE_DAY, Day, load_days, save_day, unit_folder
from analytics.progress import Progress
from history.schemas import FAMILIES, Family

#: A day is compacted when it has been over for so long: most of what comes late has come.
OVER_FOR_US: Final = DAY_US

#: Files of a compacted day are about so large.
FILE_BYTES: Final = 128 * 1024**2


def compact(places: Places, now_us: int, say: Progress) -> int:
    """Compact all days that are over; return how many there were."""
    count = 0
    with places.stored.writing(STORED_HISTORY):
        for family in FAMILIES.values():
            days = load_days(places.stored, family.name)
            sweep(places.stored, family, days)
            due = [date for date, day in days.items() if is_due(date, day, now_us)]
            for date in due:
                _compact_day(places, family, date, days[date])
            if due:
                say(f"{family.name}: {len(due)} days compacted")
            count += len(due)
    return count


def is_due(date: str, day: Day, now_us: int) -> bool:
    """Tell whether a day is over and consists of more than one piece."""
    return date < date_at(now_us - OVER_FOR_US) and bool(day.stored) and set(day.stored) != {WHOLE_DAY}


def _compact_day(places: Places, family: Family, date: str, day: Day) -> None:
    files = (file for unit in day.stored for file in places.stored.files(unit_folder(family.name, date, unit)))
    count = 1 + sum(file.size for file in files) // FILE_BYTES
    rows = _in_files(rows_of(places.spark, places.stored, family, day.parquet_files), count)
    written = write_hours(rows.withColumns({"date": F.lit(date), "hour": F.lit(WHOLE_DAY)}), places.stored, family)
    save_day(places.stored, family.name, date, day.compacted(written.get(f"{date}/{WHOLE_DAY}", [])))
    for path in day.parquet_files:
        places.stored.delete(path)


def _in_files(rows: DataFrame, count: int) -> DataFrame:
    ordered = rows.repartitionByRange(count, *SORTED_BY) if count > 1 else rows.repartition(1)
    return ordered.sortWithinPartitions(*SORTED_BY)
