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

from analytics.engine.inputs import Stored, ingredients, inputs_of, is_known, rows_at_most
from analytics.ingest.curated import append_table
from analytics.shared.days import date_at
from analytics.shared.job import Job, Span
from analytics.spark.schemas import in_columns, no_rows, struct_of
from analytics.spark.storage import ManifestMissing, Storage, UnreadableFile

PARTS: Final = "parts/v1"


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
    """Make the parts of those days that have none, or others than they should; return those of all days.

    Raises ManifestMissing if there are parts, and no manifest of them.
    """
    _prepare(stored.storage, job.id)
    _sweep(stored.storage, job.id, kept)
    known = dict(kept)
    for day in days:
        date = date_at(day.start_us)
        before = known.get(date)
        if not is_due(stored, job, day, before):
            continue
        known[date] = _write_day(stored, job, day)
        _save(stored.storage, job.id, known)
        for path in before.paths if before else ():
            stored.storage.delete(path)
    return known


def is_due(stored: Stored, job: Job, day: Span, before: DayParts | None) -> bool:
    """Return whether a day's parts have to be made: its rows are there, and they are not what they were made of."""
    if not rows_at_most(stored, job, day) or not is_known(stored, job, day):
        return False
    return before is None or before.recipe != recipe(stored, job, day)


def recipe(stored: Stored, job: Job, day: Span) -> str:
    """Return what changes whenever a day's parts have to be made again."""
    # With another version of the analysis its parts are others too, whatever they are made of.
    columns = [(column.name, column.type.value) for column in job.part_columns]
    described = json.dumps([ingredients(stored, job, day), columns, _code(job.parts.__module__)])
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
    """Return the parts of a span, made of its rows just now."""
    return job.parts(inputs_of(stored, job, span), span).select(*in_columns(job.part_columns))


def read_parts(spark: SparkSession, storage: Storage, job: Job, kept: Iterable[DayParts]) -> DataFrame:
    """Return kept parts; columns that came later than a day are null."""
    schema = struct_of(job.part_columns)
    uris = [storage.uri(path) for parts in kept for path in parts.paths]
    return spark.read.schema(schema).parquet(*uris) if uris else no_rows(spark, schema)


def drop_parts(storage: Storage, job_id: str, before: str) -> int:
    """Forget the parts that an analysis has of days before this one; return how many days there were."""
    known = _load(storage, job_id)
    old = [date for date in known if date < before]
    left = {date: known[date] for date in known if date not in old}
    if old:
        _save(storage, job_id, left)
    for date in old:
        storage.delete(f"{_folder(job_id)}/date={date}")
    if storage.exists(_manifest(job_id)):
        _sweep(storage, job_id, left)
    return len(old)


def _prepare(storage: Storage, job_id: str) -> None:
    """Make a manifest before the first parts; what a first run leaves that is killed is known by it."""
    if storage.exists(_manifest(job_id)):
        return
    if storage.files(_folder(job_id)):
        raise ManifestMissing(_manifest(job_id), _folder(job_id))
    _save(storage, job_id, {})


def _sweep(storage: Storage, job_id: str, kept: Mapping[str, DayParts]) -> None:
    """Delete what runs have left that were killed."""
    counting = {path for parts in kept.values() for path in parts.paths}
    for file in storage.files(_folder(job_id)):
        if file.path not in counting:
            storage.delete(file.path)


def _load(storage: Storage, job_id: str) -> dict[str, DayParts]:
    content = storage.read(_manifest(job_id))
    try:
        return msgspec.json.decode(content, type=dict[str, DayParts]) if content is not None else {}
    except msgspec.DecodeError as why:
        raise UnreadableFile(_manifest(job_id), why) from why


def _save(storage: Storage, job_id: str, kept: Mapping[str, DayParts]) -> None:
    storage.write(_manifest(job_id), msgspec.json.encode(dict(sorted(kept.items()))))


def _write_day(stored: Stored, job: Job, day: Span) -> DayParts:
    folder = f"{_folder(job.id)}/date={date_at(day.start_us)}"
    stored.storage.delete(f"{folder}/_temporary")
    # The parts of a day are small: one file. A shuffle makes it, so that what comes before has all cores.
    made = make_parts(stored, job, day).repartition(1)
    paths = append_table(made, stored.storage, folder)
    return DayParts(recipe=recipe(stored, job, day), input_rows=rows_at_most(stored, job, day), paths=tuple(paths))


def _folder(job_id: str) -> str:
    return f"{PARTS}/job={job_id}"


def _manifest(job_id: str) -> str:
    return f"{PARTS}/_manifest/{job_id}.json"
