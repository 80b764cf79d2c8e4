"""The bridge from the recorded columns to Spark's types."""

from pyspark.sql.types import ArrayType, LongType, TimestampType

from analytics.spark.schemas import CORRUPT, SPARK_TYPES, in_columns, line_schema, row_schema, struct_of
from history.columns import Column, Type
from history.schemas import FAMILIES, HEARTBEAT_SUMMARY


def test_every_type_of_the_history_has_a_spark_type():
    assert set(SPARK_TYPES) == set(Type)


def test_the_name_of_each_spark_type_is_the_one_written_in_the_history():
    assert {kind: spark_type.simpleString() for kind, spark_type in SPARK_TYPES.items()} == {
        kind: kind.value for kind in Type
    }


def test_rows_have_the_columns_of_the_envelope_and_of_their_family_in_order():
    for family in FAMILIES.values():
        assert row_schema(family).fieldNames() == [column.name for column in family.all_columns]
        assert line_schema(family).fieldNames() == [*row_schema(family).fieldNames(), CORRUPT]


def test_columns_are_nullable_so_that_old_files_can_lack_them():
    schema = row_schema(HEARTBEAT_SUMMARY)
    assert all(field.nullable for field in schema)
    assert schema["minute"].dataType == TimestampType()
    assert schema["hist"].dataType == ArrayType(LongType())


def test_a_table_is_brought_into_its_published_columns(spark):
    published = (Column("b", Type.LONG, ""), Column("a", Type.STRING, ""))
    table = spark.sql("select 'x' a, cast(1 as int) b, 2 c").select(*in_columns(published))
    assert table.schema.simpleString() == struct_of(published).simpleString()


def test_the_session_keeps_utc_and_text_partitions(spark, tmp_path):
    stamp = spark.sql("select date_format(timestamp'2026-11-21T05:00:00Z', 'HH') h").first().h
    assert stamp == "05"
    spark.range(1).selectExpr("id", "'05' hour").write.partitionBy("hour").parquet(str(tmp_path / "t"))
    assert spark.read.parquet(str(tmp_path / "t")).first().hour == "05"
