"""Starts Spark with the settings that every job relies on: UTC, quiet, and on loopback where one machine does it all.

Settings that the results depend on are fixed here; what depends on the size of the machine or the cluster is an option.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pyspark.sql import SparkSession

from analytics.cli.options import WrongOptions
from analytics.spark.bridge import remember_classes

#: Holds log4j2.properties.
CONF_FOLDER: Final = Path(__file__).parents[1] / "spark_conf"

LOOPBACK: Final = "127.0.0.1"

_NONE: Final[Mapping[str, str]] = MappingProxyType({})

#: What no site should change: the results, or the format of what is stored, would be others.
_FIXED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        # Otherwise `hour=05` is read as the number 5.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # A filter that reaches into the reader would let torn lines pass uncounted.
        "spark.sql.json.filterPushdown.enabled": "false",
        # What cannot be read must be noticed, not be missing.
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
        # What counts as written stands in a manifest; a file that says so too would only be one more.
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    }
)

_DRIVER_JAVA: Final = "spark.driver.extraJavaOptions"

#: Options of Java on which the results depend too; a site may add others to them.
_JAVA_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {_DRIVER_JAVA: "-Duser.timezone=UTC", "spark.executor.extraJavaOptions": "-Duser.timezone=UTC"}
)

#: Good for one machine; a cluster gets better ones by `--conf`.
_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # The plans of a thousand queries, which Spark keeps for a page that nobody looks at, fill a small heap.
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "100",
        # To note where each column was written down would take half of the time in which plans are made.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Small ones are put together again as far as there are cores; of 200, the default, most are empty here.
        "spark.sql.shuffle.partitions": "32",
        # Thousands of small files of one hour each: up to here the driver lists them faster than a job would.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "5000",
        # Landing files are small; with the default of 4 MB each a task would get thirty of them at most.
        "spark.sql.files.openCostInBytes": "1048576",
    }
)


#: A run is many short plans and few long loops. Where two cores do it all, the second of Java's compilers, which makes
#: everything fast from early on, takes more time than it gives back: it begins ten times later. So does a collector of
#: garbage that works beside the work.
_OF_ONE_MACHINE: Final = (
    "-XX:+UseParallelGC -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)

#: A small history is over before the second compiler has made anything faster, and leaves little garbage.
_OF_ONE_MACHINE_AND_LITTLE: Final = (
    "-XX:+UseSerialGC -XX:NewSize=256m -XX:MetaspaceSize=256m -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
)

#: Options of a machine for each Java. Two collectors are more than it takes.
_TUNED_BY: Final = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")


class NoJava(Exception):
    """Spark needs a Java that is not there; the text says what to install."""

    def __init__(self) -> None:
        super().__init__(
            "no Java found, and Spark needs one: install a JDK 17 or newer "
            "(Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME to where it is"
        )


def start_session(
    master: str,
    conf: Mapping[str, str] = _NONE,
    *,
    driver_memory: str = "3g",
    app_name: str = "rmq-analytics",
    small: bool = False,
) -> SparkSession:
    """Start Spark, 5 to 10 s of work, or return the session there is; raises NoJava, and WrongOptions.

    With a local master nothing listens on an outside address. `driver_memory` is that of the process that drives, and
    with a local master of all the work; `conf`: more settings, by their Spark names; `small`: the history is.
    """
    settings = spark_settings(master, {"spark.driver.memory": driver_memory, **conf}, small=small)
    _require_java()
    # Read by the JVM when it starts.
    os.environ.setdefault("SPARK_CONF_DIR", str(CONF_FOLDER))
    # Python workers are of this environment, not of the first Python on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if _is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    builder = SparkSession.Builder().master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    remember_classes(session)
    return session


def spark_settings(master: str = "local[*]", conf: Mapping[str, str] = _NONE, *, small: bool = False) -> dict[str, str]:
    """Return all settings of a session by their Spark names; raises WrongOptions for one that no site may change."""
    for key, value in conf.items():
        if _FIXED.get(key, value) != value:
            raise WrongOptions(f"--conf {key}={value}: it is fixed at {_FIXED[key]}, results would differ")
    # Java goes by the last one of two that contradict each other.
    java = {key: f"{conf.get(key, '')} {ours}".strip() for key, ours in _JAVA_OPTIONS.items()}
    here = {}
    if _is_local(master):
        here = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
        tuned = _DRIVER_JAVA in conf or any(name in os.environ for name in _TUNED_BY)
        if not tuned:
            best = _OF_ONE_MACHINE_AND_LITTLE if small else _OF_ONE_MACHINE
            java[_DRIVER_JAVA] = f"{best} {java[_DRIVER_JAVA]}"
    return {**_DEFAULTS, **here, **conf, **_FIXED, **java}


def _is_local(master: str) -> bool:
    """Return whether this machine does all the work."""
    return master.startswith("local")


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise NoJava
