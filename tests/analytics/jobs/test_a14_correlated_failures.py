import pyarrow as pa
import pytest
from hand_tables import MINUTE_US, MONDAY_US, days

from analytics.jobs.a14_correlated_failures import BROKERS_DOWN_MAX, JOB
from analytics.shared.broker_states import STATE_PARTS
from analytics.spark.schemas import struct_of


def minute(number):
    return MONDAY_US + number * MINUTE_US


@pytest.mark.parametrize(("count", "joint"), [(BROKERS_DOWN_MAX, 3), (BROKERS_DOWN_MAX + 1, 2)])
def test_a_minute_in_which_very_many_brokers_are_down_counts_for_nothing(spark, count, joint):
    """Two of them are down for two minutes more."""
    keys = [f"broker-{number:03}" for number in range(count)]
    reported = [{"kind": "watched", "since_us": 0, "at_us": 9}]
    reported += [{"kind": "up", "broker_name": key, "at_us": at} for key in keys for at in (0, 4)]
    reported += [{"kind": "down", "broker_name": key, "at_us": 3} for key in keys]
    reported += [
        {"kind": kind, "broker_name": key, "at_us": at} for key in keys[:2] for kind, at in (("down", 6), ("up", 8))
    ]
    rows = [
        {"cluster": "c", "ns_id": "ns-1", "broker_id": 0, "planned": False}
        | {**each, "at_us": minute(each["at_us"]), "since_us": minute(each.get("since_us", each["at_us"]))}
        for each in reported
    ]
    columns = {column.name: [row.get(column.name) for row in rows] for column in STATE_PARTS}
    pair = JOB.result(spark.createDataFrame(pa.table(columns), struct_of(STATE_PARTS)), days(1)).first()
    assert (pair.broker_a, pair.broker_b) == ("broker-000:0", "broker-001:0")
    assert (pair.joint_minutes, pair.minutes_a, pair.jaccard) == (joint, joint, 1)
