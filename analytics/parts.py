"""The parts of whole days, kept: made once, and made again only when the day's rows or the analysis have changed."""

import hashlib
import inspect
import json
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.days import date_at
from analytics.inputs import Stored, ingredients, inputs_of, is_known, rows_at_most
from analytics.job import Job, Span
from analytics.jobs import MODULES
from analytics.schemas import in_columns, no_rows, struct_of
from analytics.storage import Storage
from analytics.tables import append

PARTS: Final = "parts/v1"

#: The column that the runner adds to parts: their day, as `2026-11-21`.
DATE: Final = "date"


class DayParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one day."""

    #: What they were made of and by; other parts are due when this changes.
    recipe: str
    input_rows: int
    paths: tuple[str, ...]


def load_parts(storage: Storage, job: Job) -> dict[str, DayParts]:
    """Return which days have parts."""
    return _load(storage, job.id)


def keep_parts(stored: Stored, job: Job, days: Iterable[Span], kept: Mapping[str, DayParts]) -> dict[str, DayParts]:
    """Make the parts of those days that have none, or others than they should; return those of all days."""
    counting = {path for parts in kept.values() for path in parts.paths}
    known = dict(kept)
    for day in days:
        date = date_at(day.start_us)
        before = known.get(date)
        if not is_due(stored, job, day, before):
            continue
        known[date] = _write_day(stored, job, day, counting)
        counting |= set(known[date].paths)
        _save(stored.storage, job.id, known)
        for path in before.paths if before else ():
            stored.storage.delete(path)
    return known


def is_due(stored: Stored, job: Job, day: Span, before: DayParts | None) -> bool:
    """Tell whether a day's parts have to be made: its rows are there, and they are not what they were made of."""
    if not rows_at_most(stored, job, day) or not is_known(stored, job, day):
        return False
    return before is None or before.recipe != recipe(stored, job, day)


def recipe(stored: Stored, job: Job, day: Span) -> str:
    """Return what changes whenever a day's parts have to be made again."""
    # With another version of the analysis its parts are others too, whatever they are made of.
    columns = [(column.name, column.type.value) for column in job.part_columns]
    told = json.dumps([ingredients(stored, job, day), columns, _code(job.parts.__module__)])
    return hashlib.sha256(told.encode()).hexdigest()


@cache
def _code(module: str) -> str:
    """Return a hash of the source of a module and of all modules of this package that it has anything from."""
    seen: set[str] = set()
    found = {module}
    while found:
        seen |= found
        held = (value for name in found for value in vars(sys.modules[name]).values())
        sources = {str(getattr(value, "__module__", None)) for value in held}
        found = {name for name in sources if name.startswith("analytics.")} - seen
    source = "".join(inspect.getsource(sys.modules[name]) for name in sorted(seen))
    return hashlib.sha256(source.encode()).hexdigest()


def make_parts(stored: Stored, job: Job, span: Span) -> DataFrame:
    """Return the parts of a span of one day, made of its rows just now."""
    made = job.parts(inputs_of(stored, job, span), span).select(*in_columns(job.part_columns))
    return made.withColumn(DATE, F.lit(date_at(span.start_us)))


def read_parts(spark: SparkSession, storage: Storage, job: Job, kept: Iterable[DayParts]) -> DataFrame:
    """Return kept parts; columns that came later than a day are null."""
    schema = struct_of(job.part_columns).add(DATE, "string")
    uris = [storage.uri(path) for parts in kept for path in parts.paths]
    if not uris:
        return no_rows(spark, schema)
    return spark.read.schema(schema).option("basePath", storage.uri(_folder(job.id))).parquet(*uris)


def drop_parts(storage: Storage, before: str) -> int:
    """Forget the parts of days before this one, of all jobs; return how many days there were."""
    count = 0
    for job_id in MODULES:
        known = _load(storage, job_id)
        old = [date for date in known if date < before]
        if old:
            _save(storage, job_id, {date: known[date] for date in known if date not in old})
        for date in old:
            storage.delete(f"{_folder(job_id)}/date={date}")
        count += len(old)
    return count


def _load(storage: Storage, job_id: str) -> dict[str, DayParts]:
    content = storage.read(_manifest(job_id))
    return msgspec.json.decode(content, type=dict[str, DayParts]) if content else {}


def _save(storage: Storage, job_id: str, kept: Mapping[str, DayParts]) -> None:
    """Make these the parts that count."""
    storage.write(_manifest(job_id), msgspec.json.encode(dict(sorted(kept.items()))))


def _write_day(stored: Stored, job: Job, day: Span, counting: set[str]) -> DayParts:
    folder = f"{_folder(job.id)}/date={date_at(day.start_us)}"
    for file in stored.storage.files(folder):
        # Of a run that was killed.
        if file.path not in counting:
            stored.storage.delete(file.path)
    stored.storage.delete(f"{folder}/_temporary")
    # The parts of a day are small: one file. A shuffle makes it, so that what comes before has all cores.
    made = make_parts(stored, job, day).drop(DATE).repartition(1)
    paths = append(made, stored.storage, folder)
    return DayParts(recipe=recipe(stored, job, day), input_rows=rows_at_most(stored, job, day), paths=tuple(paths))


def _folder(job_id: str) -> str:
    return f"{PARTS}/job={job_id}"


def _manifest(job_id: str) -> str:
    return f"{PARTS}/_manifest/{job_id}.json"
