"""The bridge from Python to Spark's Java: what is known of it is not asked for again."""

from typing import Any, Final

from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import SparkSession

#: Spark's Python asks for one of these whenever it makes a column or a table, thirty thousand times in a run. For a
#: name without a package Java looks through all its three hundred files each time.
_CLASSES: Final = (
    "functions",
    "PythonUtils",
    "PythonSQLUtils",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.expressions.Window",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.classic.SparkSession$",
)


class _Known(JavaClass):  # type: ignore[misc]  # see above
    """A class of Java whose static members are looked up once."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        setattr(self, name, found)
        return found


def remember_classes(spark: SparkSession) -> None:
    """Look up once the classes that columns and tables are made by."""
    jvm: Any = spark._jvm  # noqa: SLF001  (Spark has no other way to its bridge)
    for name in _CLASSES:
        found = getattr(jvm, name)
        setattr(jvm, name, _Known(found._fqn, found._gateway_client))  # noqa: SLF001  (see above)
