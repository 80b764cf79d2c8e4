"""One Spark for all tests of this folder: it takes ten seconds to start."""

import os

import pytest
from peers.programs import cannot_run

from analytics.cli.session import NoJava, start_session

# Tests are over before a JVM would have compiled anything well, and small enough for the simplest of collectors.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC")

CONF = {
    "spark.sql.shuffle.partitions": "2",
    # Each sort and aggregation holds a page from its start, of 32 MB by default: a hundred of them fill the heap.
    "spark.buffer.pageSize": "1m",
    "spark.default.parallelism": "2",
    # Tables of a few hundred rows: compiling a plan, and planning each stage anew, would take longer than the work.
    # Processes that tests start have Spark's own settings (test_spark_cluster.py, test_killed_ingest.py).
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    # Rows that come from a test would be worked on while the plan is made, again and again, and not by two cores.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    # A machine that has other things to do lets Spark wait; it must not take itself for dead.
    "spark.executor.heartbeatInterval": "60s",
    "spark.network.timeout": "3600s",
}


@pytest.fixture(scope="session")
def spark():
    try:
        session = start_session("local[2]", CONF, driver_memory="2g", app_name="tests")
    except NoJava as why:
        cannot_run(str(why))
    yield session
    session.stop()
