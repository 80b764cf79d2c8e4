"""Publishes results: as Parquet for those who compute on, and as `latest/<job name>.json` for everybody else.

`results/v1/job=A2/` holds the rows of the newest result, and `results/latest/heartbeat_gaps.json` describes the same
one: a JSON object whose keys stay what they are (README.md has them all). It is replaced as a whole, last of all.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.shared.days import iso
from analytics.shared.job import RESULT_COLUMNS, Job, Span
from analytics.spark.progress import unix_us
from analytics.spark.schemas import shaped
from analytics.spark.storage import Storage
from history.columns import Column

RESULTS: Final = "results/v1"
LATEST: Final = "results/latest"

#: Version of the shape of latest.json. Keys may be added under the same one.
LATEST_VERSION: Final = 1

#: So many rows are in latest.json; all of them are in Parquet.
ROWS_IN_JSON_MAX: Final = 10_000

#: A row as JSON, while the result is collected.
_AS_JSON: Final = "_as_json"

_TIMES: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'", "ignoreNullFields": "false"}


class LatestColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the rows."""

    name: str
    #: As Spark SQL names it: string, bigint, double, boolean, timestamp, array<bigint>, array<string>.
    type: str
    doc: str


class LatestRun(msgspec.Struct, frozen=True, kw_only=True):
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


def latest_path(job: Job) -> str:
    """Return where the newest result is described."""
    return f"{LATEST}/{job.name}.json"


def result_columns(job: Job) -> tuple[Column, ...]:
    """Return the columns of a job's published rows."""
    return RESULT_COLUMNS + job.columns


def published(result: DataFrame, job: Job, run_id: str, span: Span) -> DataFrame:
    """Return the result with the columns that each has."""
    start, end = (F.timestamp_micros(F.lit(each)) for each in span)
    dated = result.withColumns({"run_id": F.lit(run_id), "window_start": start, "window_end": end})
    return shaped(dated, result_columns(job))


def in_order(rows: DataFrame, job: Job) -> DataFrame:
    """Return rows of one partition in the order in which they are published: the same one each time."""
    names = (f"`{column.name}`" for column in job.columns)
    # SORT BY, unlike ORDER BY, leaves rows in their partition.
    clause = ", ".join((*job.order, "cluster", *names))
    return rows.sparkSession.sql(f"SELECT * FROM {{rows}} SORT BY {clause}", rows=rows)  # noqa: S608  # our own words


def publish(storage: Storage, job: Job, result: DataFrame, made: Made) -> LatestRun:
    """Write a result, make it the newest one, and delete the one before.

    Results are small, so they are collected, in one piece: Spark's way of writing files, and of reading them again for
    their JSON, would take longer than most analyses.
    """
    folder = f"{RESULTS}/job={job.id}"
    before = [file.path for file in storage.files(folder)]
    rows = in_order(published(result, job, made.run_id, made.span).coalesce(1), job)
    # Rows of one partition are numbered from 0.
    is_shown = F.monotonically_increasing_id() < ROWS_IN_JSON_MAX
    as_json = F.when(is_shown, F.to_json(F.struct(*rows.columns), _TIMES))
    table = rows.withColumn(_AS_JSON, as_json).toArrow()
    path = f"{folder}/part-{uuid4().hex}.parquet"
    storage.write(path, _as_parquet(table.drop_columns([_AS_JSON])))
    shown = table[_AS_JSON].slice(0, ROWS_IN_JSON_MAX).to_pylist()
    latest = _latest(job, made, path, table.num_rows, shown)
    storage.write(latest_path(job), msgspec.json.format(msgspec.json.encode(latest), indent=1))
    for old in before:
        storage.delete(old)
    return latest


def _as_parquet(table: pa.Table) -> bytes:
    content = pa.BufferOutputStream()
    pq.write_table(table, content, compression="zstd")
    written: bytes = content.getvalue().to_pybytes()
    return written


def _latest(job: Job, made: Made, path: str, row_count: int, as_json: Sequence[str]) -> LatestRun:
    finished_us = unix_us()
    return LatestRun(
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
        row_count=row_count,
        rows=tuple(msgspec.Raw(row.encode()) for row in as_json),
        files=(path,),
    )
