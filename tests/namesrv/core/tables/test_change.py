"""What a change keeps, and that topics which are set alike share one value."""

import pytest
from builders import BROKER, a_broker_set, queue_datas

from namesrv.core.tables.change import OLD_QUEUES_MAX, RouteTables, SetChange, applied_change, without_write


def test_topics_that_were_set_alike_share_one_value_so_that_a_million_cost_little():
    cleared = dict(without_write(queue_datas("A") | queue_datas("B")))
    assert cleared["A"] is cleared["B"]


@pytest.mark.parametrize(("topics", "kept"), [(OLD_QUEUES_MAX, OLD_QUEUES_MAX), (OLD_QUEUES_MAX + 1, 0)])
def test_what_a_change_replaces_is_recorded_unless_it_is_more_than_anybody_wants_to_see(topics, kept):
    tables = RouteTables()
    names = [f"t{number}" for number in range(topics)]
    tables.topics.put(BROKER, queue_datas(*names))
    change = SetChange(broker_set=a_broker_set(), removed_topics=tuple(names))
    assert len(applied_change(tables, change).old_queues) == kept
