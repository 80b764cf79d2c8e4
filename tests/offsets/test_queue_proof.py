"""The two searches in a queue, against every queue of some messages: what they prove is true, and as much as can be."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.proof import Proved, QueuePlace, first_behind, proved_offset


class Queue:
    """A queue whose messages lie at some places of the log; the first ones have expired."""

    def __init__(self, places, min_offset=0):
        self.places, self.min_offset, self.looks = places, min_offset, 0

    async def place_of(self, offset):
        self.looks += 1
        is_there = self.min_offset <= offset < len(self.places)
        return QueuePlace(self.places[offset] if is_there else None, self.min_offset, len(self.places))

    def proved(self, wanted, first_end, second_end):
        return asyncio.run(proved_offset(self.place_of, wanted, first_end, second_end))

    def behind(self, from_offset, place):
        return asyncio.run(first_behind(self.place_of, from_offset, place))


@st.composite
def queues(draw):
    gaps = draw(st.lists(st.integers(1, 5), max_size=40))
    places = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    return Queue(places, draw(st.integers(0, len(places))))


@given(queues(), st.integers(0, 45), st.integers(0, 150), st.integers(0, 30))
def test_every_message_before_a_proved_offset_lies_below_the_first_end(queue, wanted, first_end, more):
    found = queue.proved(wanted, first_end, first_end + more)
    if found.until is None:
        return
    assert found.until <= wanted
    assert all(place < first_end for place in queue.places[queue.min_offset : found.until])
    # And no greater offset could be proved.
    later = queue.places[max(found.until, queue.min_offset) : wanted]
    assert not later or later[0] >= first_end


@given(queues(), st.integers(1, 45), st.integers(0, 150), st.integers(0, 30))
def test_nothing_is_proved_of_a_queue_whose_message_came_after_the_reading(queue, wanted, first_end, more):
    found = queue.proved(wanted, first_end, first_end + more)
    if wanted > len(queue.places) or (wanted > queue.min_offset and queue.places[wanted - 1] >= first_end + more):
        assert found.until is None


@given(queues(), st.integers(0, 45), st.integers(0, 150))
def test_the_first_offset_behind_a_place_is_the_end_of_what_lies_before_it(queue, from_offset, place):
    found = queue.behind(from_offset, place)
    before = [offset for offset, at in enumerate(queue.places) if at < place]
    if from_offset <= queue.min_offset:
        assert found == from_offset
    else:
        assert found == min(from_offset, max(len(before), queue.min_offset))


def test_an_offset_of_a_busy_queue_costs_few_looks():
    queue = Queue(list(range(1_000_000)))
    assert queue.proved(999_000, first_end=998_990, second_end=1_000_000).until == 998_990
    assert queue.looks < 12
    queue.looks = 0
    assert queue.proved(1_000, first_end=998_990, second_end=1_000_000) == Proved(1_000, "", 1_000)
    assert queue.looks == 1


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(10, 10, id="a lower one needs no look"),
        pytest.param(12, 10, id="one that was there too, is proved as far"),
        pytest.param(13, None, id="a higher one has to be looked at"),
    ],
)
def test_a_proof_counts_for_lower_offsets_of_its_queue(wanted, expected):
    found = Proved(10, "", was_there_until=12).at(wanted)
    assert (found.until if found else None) == expected
