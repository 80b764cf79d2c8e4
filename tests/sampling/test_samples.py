"""Answers of brokers become rows: ends, what groups have consumed, and messages a second."""

from hypothesis import given
from hypothesis import strategies as st

from history.rows import Moment, RowMaker
from sampling.samples import Master, Members, OffsetSample, Progress, Samples, SetAnswer

A, B = Master("c", "a", "a:1"), Master("c", "b", "b:1")
NOBODY = {}


def told(master, end, *, at_ms=0, **progress):
    known = {group: Progress(*offsets) for group, offsets in progress.items()}
    return SetAnswer(master=master, end=end, at_ms=at_ms, progress=known)


def silent(master):
    return SetAnswer(master=master)


def test_the_first_sample_has_no_rate_and_the_next_ones_have():
    samples = Samples()
    assert samples.take("t", [told(A, 100), told(B, 50)], NOBODY) == [OffsetSample("c", "t", max_offset=150)]
    (row,) = samples.take("t", [told(A, 160, at_ms=60_000), told(B, 53, at_ms=30_000)], NOBODY)
    assert (row.max_offset, row.tps) == (213, 1.0 + 0.1)


def test_a_group_has_a_row_of_its_own_which_repeats_the_rate():
    samples = Samples()
    samples.take("t", [told(A, 0)], NOBODY)
    members = {("a:1", "g"): Members(frozenset({"x", "y"})), ("b:1", "g"): Members(frozenset({"y", "z"}))}
    rows = samples.take("t", [told(A, 10, at_ms=1000, g=(9, 4)), told(B, 5, g=(5, 5))], members)
    assert rows == [
        OffsetSample("c", "t", max_offset=15, tps=10.0),
        OffsetSample("c", "t", "g", max_offset=14, consumer_offset=9, consumers=3, tps=10.0),
    ]


def test_a_group_on_one_set_only_is_not_behind_on_the_others():
    _, row = Samples().take("t", [told(A, 10, g=(10, 10)), told(B, 1000)], NOBODY)
    assert (row.max_offset, row.consumer_offset) == (10, 10)


def test_members_that_no_broker_told_are_not_known_and_none_that_were_told_are_none():
    answers = [told(A, 1, g=(1, 1), h=(1, 1))]
    _, unknown, none = Samples().take("t", answers, {("a:1", "h"): Members()})
    assert (unknown.consumers, none.consumers) == (None, 0)


def test_offsets_of_a_broadcasting_group_say_nothing():
    members = {("a:1", "g"): Members(frozenset({"x"}), is_broadcasting=True)}
    _, row = Samples().take("t", [told(A, 10, g=(10, 0))], members)
    assert (row.max_offset, row.consumer_offset, row.consumers) == (10, None, 1)


def test_a_set_that_does_not_answer_leaves_the_end_unknown_and_costs_only_its_own_messages():
    samples = Samples()
    samples.take("t", [told(A, 0), told(B, 0)], NOBODY)
    (row,) = samples.take("t", [told(A, 10, at_ms=1000), silent(B)], NOBODY)
    assert (row.max_offset, row.tps) == (None, 10.0)
    (row,) = samples.take("t", [told(A, 20, at_ms=2000), told(B, 40, at_ms=2000)], NOBODY)
    assert (row.max_offset, row.tps) == (60, 10.0 + 20.0)


def test_no_row_tells_of_a_topic_of_which_nobody_answered():
    samples = Samples()
    assert samples.take("t", [silent(A), SetAnswer(master=Master("c", "no-master", None))], NOBODY) == []
    assert samples.take("t", [], NOBODY) == []


def test_an_end_that_went_back_has_no_rate_and_the_next_one_is_compared_with_it():
    samples = Samples()
    samples.take("t", [told(A, 100)], NOBODY)
    (row,) = samples.take("t", [told(A, 10, at_ms=1000)], NOBODY)
    assert (row.max_offset, row.tps) == (10, None)
    (row,) = samples.take("t", [told(A, 15, at_ms=2000)], NOBODY)
    assert row.tps == 5.0


def test_two_answers_at_the_same_moment_have_no_rate():
    samples = Samples()
    samples.take("t", [told(A, 100)], NOBODY)
    (row,) = samples.take("t", [told(A, 110)], NOBODY)
    assert row.tps is None


def test_a_set_that_left_the_route_begins_anew():
    samples = Samples()
    samples.take("t", [told(A, 0), told(B, 0)], NOBODY)
    samples.take("t", [told(A, 0, at_ms=1000)], NOBODY)
    (row,) = samples.take("t", [told(A, 0, at_ms=2000), told(B, 1000, at_ms=2000)], NOBODY)
    assert row.tps == 0.0


def test_clusters_and_topics_are_apart():
    samples = Samples()
    other = Master("other", "o", "o:1")
    rows = samples.take("t", [told(A, 1), told(other, 2)], NOBODY)
    assert [(row.cluster, row.max_offset) for row in rows] == [("c", 1), ("other", 2)]
    assert samples.take("u", [told(A, 9, at_ms=1000)], NOBODY) == [OffsetSample("c", "u", max_offset=9)]


@given(st.lists(st.integers(min_value=0, max_value=10**6), min_size=2, max_size=20))
def test_rates_add_up_to_the_messages_that_came(counts):
    samples, end, came = Samples(), 0, 0.0
    samples.take("t", [told(A, 0)], NOBODY)
    for second, count in enumerate(counts, start=1):
        end += count
        (row,) = samples.take("t", [told(A, end, at_ms=second * 1000)], NOBODY)
        came += row.tps
    assert came == sum(counts)


def test_a_sample_is_written_as_a_row_of_its_family():
    (row,) = OffsetSample("c", "t", "g", 10, 9, 2, 1.5).rows(RowMaker("s", 1, "sampler"), Moment(5, 6))
    assert row.family.name == "offset_sample"
    told_columns = {name: value for name, value in row.columns.items() if name in {"cluster", "source", "ns_id"}}
    assert told_columns == {"cluster": "c", "source": "sampler", "ns_id": "s"}
    assert [row.columns[column.name] for column in row.family.columns] == ["t", "g", 10, 9, 2, 1.5]
