"""The parts of whole days, kept: made once, and made again only when the day's rows or the analysis have changed."""

import hashlib
import inspect
import json
import sys
from collections.abc import Iterable
from functools import cache
from typing import Final

from pyspark.sql import DataFrame

from analytics.engine.inputs import Stored, ingredients, inputs_of, is_known, rows_at_most
from analytics.ingest.curated import append_table
from analytics.ingest.kept_days import KeptDay, KeptDays
from analytics.shared.days import date_at
from analytics.shared.job import Job, Span
from analytics.spark.schemas import struct_of
from analytics.spark.storage import Storage

PARTS: Final = "parts/v1"


class DayParts(KeptDay, frozen=True, kw_only=True):
    """The parts of one day."""

    #: What they were made of and by; other parts are due when this changes.
    recipe: str
    input_rows: int


def parts_of(storage: Storage, job_id: str) -> KeptDays[DayParts]:
    """Return where the parts of an analysis are kept."""
    return KeptDays(storage, dict[str, DayParts], PARTS, "job", job_id)


def keep_parts(stored: Stored, job: Job, days: Iterable[Span]) -> dict[str, DayParts]:
    """Make the parts of those days that have none, or others than they should; return those of all days.

    Raises ManifestMissing if there are parts, and no manifest of them.
    """
    kept = parts_of(stored.storage, _owner(job))
    with stored.making[_owner(job)]:
        kept.prepare()
        known = kept.load()
        kept.sweep(known)
        for day in days:
            date = date_at(day.start_us)
            before = known.get(date)
            if not is_due(stored, job, day, before):
                continue
            known[date] = _write_day(stored, job, day, f"{kept.folder}/date={date}")
            kept.save(known)
            for path in before.paths if before else ():
                stored.storage.delete(path)
    return known


def _owner(job: Job) -> str:
    """Return the id of the analysis that has the parts of this one."""
    return job.parts_id or job.id


def is_due(stored: Stored, job: Job, day: Span, before: DayParts | None) -> bool:
    """Return whether a day's parts have to be made: its rows are there, and they are not what they were made of."""
    if not rows_at_most(stored, job, day) or not is_known(stored, job, day):
        return False
    return before is None or before.recipe != recipe(stored, job, day)


def recipe(stored: Stored, job: Job, day: Span) -> str:
    """Return what changes whenever a day's parts have to be made again."""
    # With another version of the analysis its parts are others too, whatever they are made of.
    columns = [(column.name, column.type.value) for column in job.part_columns]
    described = json.dumps([ingredients(stored, job, day), columns, _code(job.parts_of.__module__)])
    return hashlib.sha256(described.encode()).hexdigest()


@cache
def _code(module: str) -> str:
    """Return a hash of the source of a module and of all modules of ours that it has anything from."""
    seen: set[str] = set()
    found = {module}
    while found:
        seen |= found
        held = (value for name in found for value in vars(sys.modules[name]).values())
        sources = {str(getattr(value, "__module__", None)) for value in held}
        found = {name for name in sources if name.startswith(("analytics.", "history."))} - seen
    source = "".join(inspect.getsource(sys.modules[name]) for name in sorted(seen))
    return hashlib.sha256(source.encode()).hexdigest()


def make_parts(stored: Stored, job: Job, span: Span) -> DataFrame:
    """Return the parts of a span, made of its rows in this run."""
    key = (_owner(job), span)
    with stored.making[_owner(job)]:
        if key not in stored.tables:
            # Cut from its plan: Spark would analyse all steps to the parts anew for each step of the result, which took
            # half the time of a run. A part that is lost with an executor fails this job, until its next run.
            stored.tables[key] = job.parts(inputs_of(stored, job, span), span).localCheckpoint()
    return stored.tables[key]


def read_parts(stored: Stored, job: Job, kept: Iterable[DayParts]) -> list[DataFrame]:
    """Return kept parts as one table, or none; columns that came later than a day are null."""
    uris = [stored.storage.uri(path) for parts in kept for path in parts.paths]
    return [stored.spark.read.schema(struct_of(job.part_columns)).parquet(*uris)] if uris else []


def _write_day(stored: Stored, job: Job, day: Span, folder: str) -> DayParts:
    stored.storage.delete(f"{folder}/_temporary")
    # The parts of a day are small: one file. A shuffle makes it, so that what comes before has all cores.
    made = job.parts(inputs_of(stored, job, day), day).repartition(1)
    paths = append_table(made, stored.storage, folder)
    return DayParts(recipe=recipe(stored, job, day), input_rows=rows_at_most(stored, job, day), paths=tuple(paths))
