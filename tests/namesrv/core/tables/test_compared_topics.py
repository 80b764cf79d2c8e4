"""Which topics of a set change, and in how many ways."""

import pytest
from builders import a_queue_data

from namesrv.core.tables.topic_table import QueueChanges, QueueTransition, compare_topics
from namesrv.core.values import cooperative
from namesrv.core.values.cooperative import run_to_completion

FEW, MANY = a_queue_data(read_queue_nums=4), a_queue_data(read_queue_nums=8)


def changes(before, wanted):
    return run_to_completion(compare_topics(before, wanted.items()))


def test_topics_that_change_alike_are_one_move():
    found = changes(dict.fromkeys("AB", FEW), dict.fromkeys("ABC", MANY))
    assert found == QueueChanges(
        dict.fromkeys("ABC", MANY), (QueueTransition(FEW, MANY, 2), QueueTransition(None, MANY, 1))
    )


@pytest.mark.parametrize(("topics", "rests"), [(0, 0), (10, 1), (11, 2)])
def test_many_topics_are_compared_in_parts(monkeypatch, topics, rests):
    monkeypatch.setattr(cooperative, "BATCH_TOPICS", 10)
    steps = compare_topics({}, {str(number): FEW for number in range(topics)}.items())
    assert len(list(steps)) == rests
    assert changes({}, {str(number): FEW for number in range(topics)}).transitions == (
        (QueueTransition(None, FEW, topics),) if topics else ()
    )
