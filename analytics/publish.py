"""Publishes results: as Parquet for those who compute on, and as `latest/<job name>.json` for everybody else.

`results/v1/job=A2/` holds the rows of the newest result, and `results/latest/heartbeat_gaps.json` tells of the same
one: a JSON object whose keys stay what they are (README.md has them all). It is replaced as a whole, last of all.
"""

from typing import Final, NamedTuple

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.days import iso
from analytics.job import RESULT_COLUMNS, Job, Span
from analytics.progress import unix_us
from analytics.schemas import in_columns, struct_of
from analytics.storage import Storage
from analytics.tables import append
from history.schemas import Column

RESULTS: Final = "results/v1"
LATEST: Final = "results/latest"

#: Version of the shape of latest.json. Keys may be added under the same one.
LATEST_VERSION: Final = 1

#: So many rows are in latest.json; all of them are in Parquet.
ROWS_IN_JSON_MAX: Final = 10_000

_TIMES: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'", "ignoreNullFields": "false"}


class LatestColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the rows."""

    name: str
    #: As Spark SQL names it: string, bigint, double, boolean, timestamp, array<bigint>, array<string>.
    type: str
    doc: str


class Latest(msgspec.Struct, frozen=True, kw_only=True):
    """What `latest.json` holds. Times are `2026-11-21T20:00:00.123456Z`."""

    version: int = LATEST_VERSION
    job: str
    name: str
    question: str
    run_id: str
    window_start: str
    window_end: str
    started_at: str
    finished_at: str
    duration_seconds: float
    #: Recorded rows that the result was made of, also those whose parts were kept from former runs.
    input_rows: int
    #: Days of the window whose rows were there.
    days: int
    columns: tuple[LatestColumn, ...]
    row_count: int
    #: Fewer than `row_count` if there are very many.
    rows: tuple[msgspec.Raw, ...]
    #: The Parquet files with all rows, below the output folder.
    files: tuple[str, ...]


class Made(NamedTuple):
    """How a result came about."""

    run_id: str
    span: Span
    input_rows: int
    days: int
    started_us: int


def results_folder(job: Job) -> str:
    """Return where the newest result of a job is."""
    return f"{RESULTS}/job={job.id}"


def latest_path(job: Job) -> str:
    """Return where the newest result is told of."""
    return f"{LATEST}/{job.name}.json"


def result_columns(job: Job) -> tuple[Column, ...]:
    """Return the columns of a job's published rows."""
    return RESULT_COLUMNS + job.columns


def published(result: DataFrame, job: Job, run_id: str, span: Span) -> DataFrame:
    """Return the result with the columns that each has."""
    start, end = (F.timestamp_micros(F.lit(each)) for each in span)
    told = result.withColumns({"run_id": F.lit(run_id), "window_start": start, "window_end": end})
    return told.select(*in_columns(result_columns(job)))


def publish(spark: SparkSession, storage: Storage, job: Job, result: DataFrame, made: Made) -> Latest:
    """Write a result, make it the newest one, and delete the one before."""
    folder = results_folder(job)
    storage.delete(f"{folder}/_temporary")
    before = {file.path for file in storage.files(folder)}
    # One file keeps the order that the analysis gave its rows.
    rows = published(result, job, made.run_id, made.span).coalesce(1)
    files = tuple(append(rows, storage, folder))
    table = spark.read.schema(struct_of(result_columns(job))).parquet(*(storage.uri(path) for path in files))
    latest = _latest(table, job, made, files)
    storage.write(latest_path(job), msgspec.json.format(msgspec.json.encode(latest), indent=1))
    for path in before:
        storage.delete(path)
    return latest


def _latest(table: DataFrame, job: Job, made: Made, files: tuple[str, ...]) -> Latest:
    as_json = table.select(F.to_json(F.struct(*table.columns), _TIMES).alias("row"))
    rows = as_json.limit(ROWS_IN_JSON_MAX).collect()
    finished_us = unix_us()
    return Latest(
        job=job.id,
        name=job.name,
        question=job.question,
        run_id=made.run_id,
        window_start=iso(made.span.start_us),
        window_end=iso(made.span.end_us),
        started_at=iso(made.started_us),
        finished_at=iso(finished_us),
        duration_seconds=(finished_us - made.started_us) / 1e6,
        input_rows=made.input_rows,
        days=made.days,
        columns=tuple(LatestColumn(name=each.name, type=each.type.value, doc=each.doc) for each in result_columns(job)),
        row_count=len(rows) if len(rows) < ROWS_IN_JSON_MAX else table.count(),
        rows=tuple(msgspec.Raw(row.row.encode()) for row in rows),
        files=files,
    )
