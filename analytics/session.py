"""Starts Spark with the settings that every job relies on: UTC, quiet, and on loopback where one machine does it all.

Settings that the results depend on are fixed here; what depends on the size of the machine or the cluster is asked for.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

#: Holds log4j2.properties.
CONF_FOLDER: Final = Path(__file__).parent / "spark_conf"

LOOPBACK: Final = "127.0.0.1"

#: What no site should change: the results, or the format of what is stored, would be others.
_FIXED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.sql.ansi.enabled": "true",
        # Otherwise `hour=05` is read as the number 5.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # A filter that reaches into the reader would let torn lines pass uncounted.
        "spark.sql.json.filterPushdown.enabled": "false",
        # What counts as written stands in a manifest; a file that says so too would only be one more.
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    }
)

#: Good for one machine; a cluster is told better ones by `--conf`.
_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # 200, Spark's own default, is made of empty tasks here.
        "spark.sql.shuffle.partitions": "4",
        # Thousands of small files of one hour each: up to here the driver lists them faster than a job would.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "5000",
        # Landing files are small; with the default of 4 MB each a task would get thirty of them at most.
        "spark.sql.files.openCostInBytes": "1048576",
    }
)


class NoJava(Exception):
    """Spark needs a Java that is not there; the text says what to install."""

    def __init__(self) -> None:
        super().__init__(
            "no Java found, and Spark needs one: install a JDK 17 or newer "
            "(Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME to where it is"
        )


class SparkOptions(NamedTuple):
    """How Spark is started."""

    #: `local[2]`: two cores of this machine; `spark://host:port` and others: a cluster.
    master: str = "local[*]"
    #: Memory of the process that drives, and of all the work with a local master.
    driver_memory: str = "3g"
    app_name: str = "rmq-analytics"
    #: More settings, by their Spark names.
    conf: Mapping[str, str] = MappingProxyType({})

    @property
    def is_local(self) -> bool:
        """Whether this machine does it all."""
        return self.master.startswith("local")


def start_session(options: SparkOptions) -> SparkSession:
    """Start Spark, 5 to 10 s of work, or return the session there is; raises NoJava.

    With a local master nothing listens on an outside address.
    """
    _require_java()
    # Read by the JVM when it starts.
    os.environ.setdefault("SPARK_CONF_DIR", str(CONF_FOLDER))
    # Python workers are of this environment, not of the first Python on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if options.is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    builder = SparkSession.Builder().master(options.master).appName(options.app_name)
    for key, value in _settings(options).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _settings(options: SparkOptions) -> dict[str, str]:
    here = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK} if options.is_local else {}
    return {**_DEFAULTS, **here, "spark.driver.memory": options.driver_memory, **options.conf, **_FIXED}


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise NoJava
