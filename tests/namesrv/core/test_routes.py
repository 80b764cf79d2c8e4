"""What a requester in a zone sees of a route; what is in it, is in `test_route_model.py`."""

import pytest
from builders import BROKER, TOPIC, a_broker_set
from route_tables import route_tables

from namesrv.core import routes


@pytest.mark.parametrize(
    ("zone_name", "broker_ids", "seen"),
    [
        ("zone-1", (0,), [BROKER]),
        ("ZONE-1", (0,), [BROKER]),
        ("zone-2", (0,), []),
        (None, (0,), []),
        ("zone-2", (1,), [BROKER]),
        (None, (1,), [BROKER]),
    ],
)
@pytest.mark.parametrize("zone", ["zone-1", "Zone-1"])
def test_a_zone_sees_its_own_masters_in_any_case_and_every_set_without_a_master(zone_name, broker_ids, seen, zone):
    tables = route_tables(a_broker_set(zone_name=zone_name, broker_ids=broker_ids))
    route = routes.route_of(tables, TOPIC, support_acting_master=False, order_topic_conf=None)
    visible = routes.in_zone(route, zone)
    assert [data.broker_name for data in visible.broker_datas] == seen
    assert [data.broker_name for data in visible.queue_datas] == seen
