"""What Arrow calls the types of the history's columns; needs no Spark."""

import pyarrow as pa

from history.columns import Type

ARROW_TYPES = {
    Type.STRING: pa.string(),
    Type.LONG: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Type.LONGS: pa.list_(pa.int64()),
    Type.DOUBLES: pa.list_(pa.float64()),
    Type.STRINGS: pa.list_(pa.string()),
}
