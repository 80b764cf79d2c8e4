"""Which topics of a set change, and in how many ways."""

import pytest
from builders import a_queue_data

from namesrv.core.tables import topic_table
from namesrv.core.tables.topic_table import QueueChanges, QueueTransition, compare_topics, queue_changes

FEW, MANY = a_queue_data(read_queue_nums=4), a_queue_data(read_queue_nums=8)


def test_topics_that_change_alike_are_one_move():
    found = queue_changes(dict.fromkeys("AB", FEW), dict.fromkeys("ABC", MANY).items())
    assert found == QueueChanges(
        dict.fromkeys("ABC", MANY), (QueueTransition(FEW, MANY, 2), QueueTransition(None, MANY, 1))
    )


def test_topics_that_change_alike_need_not_be_neighbours():
    before, wanted = {"A": FEW, "B": MANY, "C": FEW}, {"A": MANY, "B": a_queue_data(read_queue_nums=8), "C": MANY}
    assert queue_changes(before, wanted.items()) == QueueChanges(
        {"A": MANY, "C": MANY}, (QueueTransition(FEW, MANY, 2),)
    )


@pytest.mark.parametrize(("topics", "rests"), [(0, 0), (10, 1), (11, 2)])
def test_many_topics_are_compared_in_parts(monkeypatch, topics, rests):
    monkeypatch.setattr(topic_table, "BATCH_TOPICS", 10)
    wanted = {str(number): FEW for number in range(topics)}.items()
    assert len(list(compare_topics({}, wanted, lambda queues: queues))) == rests
    assert queue_changes({}, wanted).transitions == ((QueueTransition(None, FEW, topics),) if topics else ())
