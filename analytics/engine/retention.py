"""Forgets what is old: whole days, oldest first, and nothing that has not been read yet."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from analytics.engine.parts import parts_of
from analytics.engine.registry import MODULES
from analytics.engine.runner import RESULTS
from analytics.ingest.closing import REMEMBERED_DAYS, closings_of
from analytics.ingest.ingest import STORED_HISTORY, Places
from analytics.ingest.landing import by_hour, family_landing, landing_path
from analytics.ingest.manifest import Day, Days, delete_day, family_folder, load_days, save_day
from analytics.shared.days import DAY_US, HOUR_US, date_at, span_of
from analytics.spark.failures import Failures
from analytics.spark.progress import Progress
from history.columns import RowFamily
from history.schemas import FAMILIES, HEARTBEAT_FAMILIES

#: Landing files are kept for so long after their day: heartbeats are most of the bytes.
LANDING_KEPT_US: Final[Mapping[str, int]] = MappingProxyType(
    dict.fromkeys(FAMILIES, 30 * DAY_US) | dict.fromkeys(HEARTBEAT_FAMILIES, 48 * HOUR_US)
)

#: Rows are kept for so long after their day.
CURATED_KEPT_US: Final = 30 * DAY_US

#: The oldest day whose rows are there remembers so many days before it; one day more, for it is not over at once.
CLOSINGS_KEPT_US: Final = CURATED_KEPT_US + (REMEMBERED_DAYS + 2) * DAY_US

#: Parts are kept for so long after their day, and as long it stays known what the day consisted of.
PARTS_KEPT_US: Final = 400 * DAY_US


class DeletedCounts(NamedTuple):
    """What was deleted."""

    landing_files: int
    curated_days: int
    part_days: int


def delete_expired(places: Places, now_us: int, show: Progress) -> DeletedCounts:
    """Delete what is too old.

    A family whose manifests cannot be read keeps what it has, and no other one does; raises SomeFailed at the end.
    """
    landed: list[str] = []
    rows: list[str] = []
    parts = 0
    failures = Failures(show)
    with places.stored.writing(RESULTS), places.stored.writing(STORED_HISTORY):
        for family in FAMILIES.values():
            with failures.collecting(family.name, message=f"{family.name}: failed"):
                days = load_days(places.stored, family.name)
                landed.extend(_delete_landing(places, family, days, now_us))
                rows.extend(_delete_rows(places, family, days, now_us))
                closings_of(places.stored, family).drop(before=date_at(now_us - CLOSINGS_KEPT_US))
        for job_id in MODULES:
            name = f"parts of {job_id}"
            with failures.collecting(name, message=f"{name}: failed"):
                parts += parts_of(places.stored, job_id).drop(before=date_at(now_us - PARTS_KEPT_US))
    done = DeletedCounts(len(landed), len(rows), parts)
    show(f"deleted: {done.landing_files} landing files, rows of {done.curated_days} days, parts of {parts} days")
    failures.raise_if_any()
    return done


def _is_older(date: str, kept_us: int, now_us: int) -> bool:
    return span_of(date).end_us + kept_us <= now_us


def _delete_landing(places: Places, family: RowFamily, days: Days, now_us: int) -> Iterator[str]:
    """Delete landing files of old days that have been read as they are now, and what came too late to be read.

    Yields each when it is deleted.
    """
    for (date, hour), files in by_hour(places.landing.files(family_landing(family.name))).items():
        if not _is_older(date, LANDING_KEPT_US[family.name], now_us):
            continue
        day = days.get(date, Day())
        read = set(day.hours[hour].files) if hour in day.hours else set()
        for file in files:
            if day.deleted or file in read:
                path = landing_path(family.name, date, hour, file.name)
                places.landing.delete(path)
                yield path
        # Not with what is in it: a server that died may have left a file there that it seals when it starts again.
        places.landing.delete_empty_folder(f"{family_landing(family.name)}/date={date}/hour={hour}")
        places.landing.delete_empty_folder(f"{family_landing(family.name)}/date={date}")


def _delete_rows(places: Places, family: RowFamily, days: Days, now_us: int) -> Iterator[str]:
    for date, day in days.items():
        if _is_older(date, CURATED_KEPT_US, now_us) and not day.deleted:
            # First the manifest: who reads it must not look for files that are gone.
            save_day(places.stored, family.name, date, day.emptied())
            places.stored.delete(f"{family_folder(family.name)}/date={date}")
            yield date
        if _is_older(date, PARTS_KEPT_US, now_us):
            delete_day(places.stored, family.name, date)
