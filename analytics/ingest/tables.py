"""Writes a table into a folder that has others already, and tells which files it has become."""

from collections.abc import Iterable
from typing import Final
from uuid import uuid4

from pyspark.sql import DataFrame

from analytics.spark.storage import Storage

#: What Hadoop's name of a file begins with.
_BASENAME: Final = "mapreduce.output.basename"


def append(rows: DataFrame, storage: Storage, folder: str, by: Iterable[str] = ()) -> list[str]:
    """Write rows as Parquet files, in a folder below for each value of `by`; return their paths.

    The files have a name of this write's own. A process that is killed may go on writing for a moment, by its Java:
    what it leaves must not be taken for ours.
    """
    mark = f"part-{uuid4().hex}"
    writer = rows.write.mode("append").option(_BASENAME, mark)
    writer.partitionBy(*by).parquet(storage.uri(folder))
    return [file.path for file in storage.files(folder) if file.path.rpartition("/")[2].startswith(mark)]
