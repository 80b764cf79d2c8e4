"""Forgets what is old: whole days, oldest first, and nothing that has not been read yet."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from analytics.closing import REMEMBERED_DAYS, drop_closings
from analytics.days import date_at, span_of
from analytics.ingest import STORED_HISTORY, Places
from analytics.landing import by_hour, family_landing, landing_path
from analytics.manifest import Day, Days, delete_day, family_folder, load_days, save_day
from analytics.parts import drop_parts
from analytics.progress import Progress
from analytics.runner import RESULTS
from history.schemas import FAMILIES, Family

_HOUR_US: Final = 3_600_000_000
_DAY_US: Final = 24 * _HOUR_US

#: Landing files are kept for so long after their day: heartbeats are most of the bytes.
LANDING_KEPT_US: Final[Mapping[str, int]] = MappingProxyType(
    dict.fromkeys(FAMILIES, 30 * _DAY_US) | {"heartbeat": 48 * _HOUR_US, "heartbeat_summary": 48 * _HOUR_US}
)

#: Rows are kept for so long after their day.
CURATED_KEPT_US: Final = 30 * _DAY_US

#: The oldest day whose rows are there remembers so many days before it; one day more, for it is not over at once.
CLOSINGS_KEPT_US: Final = CURATED_KEPT_US + (REMEMBERED_DAYS + 2) * _DAY_US

#: Parts are kept for so long after their day, and as long it stays known what the day consisted of.
PARTS_KEPT_US: Final = 400 * _DAY_US


class Forgotten(NamedTuple):
    """What was deleted."""

    landing_files: int
    curated_days: int
    part_days: int


def forget(places: Places, now_us: int, say: Progress) -> Forgotten:
    """Delete what is too old."""
    with places.stored.writing(RESULTS), places.stored.writing(STORED_HISTORY):
        files = curated = 0
        for family in FAMILIES.values():
            days = load_days(places.stored, family.name)
            files += _forget_landing(places, family, days, now_us)
            curated += _forget_rows(places, family, days, now_us)
            drop_closings(places.stored, family, before=date_at(now_us - CLOSINGS_KEPT_US))
        parts = drop_parts(places.stored, before=date_at(now_us - PARTS_KEPT_US))
    done = Forgotten(files, curated, parts)
    say(f"deleted: {files} landing files, rows of {curated} days, parts of {parts} days")
    return done


def _is_older(date: str, kept_us: int, now_us: int) -> bool:
    return span_of(date).end_us + kept_us <= now_us


def _forget_landing(places: Places, family: Family, days: Days, now_us: int) -> int:
    """Delete landing files of old days that have been read as they are now, and what came too late to be read."""
    count = 0
    for (date, hour), files in by_hour(places.landing.files(family_landing(family.name))).items():
        if not _is_older(date, LANDING_KEPT_US[family.name], now_us):
            continue
        day = days.get(date, Day())
        read = set(day.hours[hour].files) if hour in day.hours else set()
        for file in files:
            if day.deleted or file in read:
                places.landing.delete(landing_path(family.name, date, hour, file.name))
                count += 1
        # Not with what is in it: a server that died may have left a file there that it seals when it starts again.
        places.landing.delete_empty_folder(f"{family_landing(family.name)}/date={date}/hour={hour}")
        places.landing.delete_empty_folder(f"{family_landing(family.name)}/date={date}")
    return count


def _forget_rows(places: Places, family: Family, days: Days, now_us: int) -> int:
    count = 0
    for date, day in days.items():
        if _is_older(date, PARTS_KEPT_US, now_us):
            delete_day(places.stored, family.name, date)
        elif _is_older(date, CURATED_KEPT_US, now_us) and not day.deleted:
            # First the manifest: who reads it must not look for files that are gone.
            save_day(places.stored, family.name, date, day.emptied())
            places.stored.delete(f"{family_folder(family.name)}/date={date}")
            count += 1
    return count
