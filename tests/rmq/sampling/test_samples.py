"""Answers of brokers become rows: ends, what groups have consumed, and messages a second."""

from hypothesis import given
from hypothesis import strategies as st

from remoting.admin.groups import GroupClient, GroupConnections
from rmq.sampling.samples import GroupProgress, Master, OffsetSample, Samples, SetResponse

A, B = Master("c", "a", "a:1"), Master("c", "b", "b:1")
NOBODY = {}


def reported(master, end, *, at_ms=0, **progress):
    known = {group: GroupProgress(*offsets) for group, offsets in progress.items()}
    return SetResponse(master=master, end=end, at_ms=at_ms, progress=known)


def members(*names, model="CLUSTERING"):
    return GroupConnections(clients=tuple(GroupClient(client_id=name) for name in names), message_model=model)


def silent(master):
    return SetResponse(master=master)


def test_rate_is_known_from_the_second_sample_on():
    samples = Samples()
    assert samples.take("t", [reported(A, 100), reported(B, 50)], NOBODY) == [OffsetSample("c", "t", max_offset=150)]
    (row,) = samples.take("t", [reported(A, 160, at_ms=60_000), reported(B, 53, at_ms=30_000)], NOBODY)
    assert (row.max_offset, row.tps) == (213, 1.0 + 0.1)


def test_group_row_repeats_the_rate_of_its_topic():
    samples = Samples()
    samples.take("t", [reported(A, 0)], NOBODY)
    known = {("a:1", "g"): members("x", "y"), ("b:1", "g"): members("y", "z")}
    rows = samples.take("t", [reported(A, 10, at_ms=1000, g=(9, 4)), reported(B, 5, g=(5, 5))], known)
    assert rows == [
        OffsetSample("c", "t", max_offset=15, tps=10.0),
        OffsetSample("c", "t", "g", max_offset=14, consumer_offset=9, consumers=3, tps=10.0),
    ]


def test_group_on_one_set_has_no_lag_on_the_others():
    _, row = Samples().take("t", [reported(A, 10, g=(10, 10)), reported(B, 1000)], NOBODY)
    assert (row.max_offset, row.consumer_offset) == (10, 10)


def test_unknown_members_are_null_and_no_members_are_zero():
    answers = [reported(A, 1, g=(1, 1), h=(1, 1))]
    _, unknown, none = Samples().take("t", answers, {("a:1", "h"): members()})
    assert (unknown.consumers, none.consumers) == (None, 0)


def test_broadcasting_group_has_no_consumer_offset():
    known = {("a:1", "g"): members("x", model="BROADCASTING")}
    _, row = Samples().take("t", [reported(A, 10, g=(10, 0))], known)
    assert (row.max_offset, row.consumer_offset, row.consumers) == (10, None, 1)


def test_silent_set_leaves_the_end_unknown_and_its_rate_out():
    samples = Samples()
    samples.take("t", [reported(A, 0), reported(B, 0)], NOBODY)
    (row,) = samples.take("t", [reported(A, 10, at_ms=1000), silent(B)], NOBODY)
    assert (row.max_offset, row.tps) == (None, 10.0)
    (row,) = samples.take("t", [reported(A, 20, at_ms=2000), reported(B, 40, at_ms=2000)], NOBODY)
    assert (row.max_offset, row.tps) == (60, 10.0 + 20.0)


def test_topic_without_any_response_has_no_row():
    samples = Samples()
    assert samples.take("t", [silent(A), SetResponse(master=Master("c", "no-master", None))], NOBODY) == []
    assert samples.take("t", [], NOBODY) == []


def test_decreased_end_has_no_rate_and_is_the_base_of_the_next():
    samples = Samples()
    samples.take("t", [reported(A, 100)], NOBODY)
    (row,) = samples.take("t", [reported(A, 10, at_ms=1000)], NOBODY)
    assert (row.max_offset, row.tps) == (10, None)
    (row,) = samples.take("t", [reported(A, 15, at_ms=2000)], NOBODY)
    assert row.tps == 5.0


def test_two_responses_at_one_moment_have_no_rate():
    samples = Samples()
    samples.take("t", [reported(A, 100)], NOBODY)
    (row,) = samples.take("t", [reported(A, 110)], NOBODY)
    assert row.tps is None


def test_set_that_left_the_route_starts_without_a_rate():
    samples = Samples()
    samples.take("t", [reported(A, 0), reported(B, 0)], NOBODY)
    samples.take("t", [reported(A, 0, at_ms=1000)], NOBODY)
    (row,) = samples.take("t", [reported(A, 0, at_ms=2000), reported(B, 1000, at_ms=2000)], NOBODY)
    assert row.tps == 0.0


def test_clusters_and_topics_have_separate_rows():
    samples = Samples()
    other = Master("other", "o", "o:1")
    rows = samples.take("t", [reported(A, 1), reported(other, 2)], NOBODY)
    assert [(row.cluster, row.max_offset) for row in rows] == [("c", 1), ("other", 2)]
    assert samples.take("u", [reported(A, 9, at_ms=1000)], NOBODY) == [OffsetSample("c", "u", max_offset=9)]


@given(st.lists(st.integers(min_value=0, max_value=10**6), min_size=2, max_size=20))
def test_rates_add_up_to_the_received_messages(counts):
    samples, end, came = Samples(), 0, 0.0
    samples.take("t", [reported(A, 0)], NOBODY)
    for second, count in enumerate(counts, start=1):
        end += count
        (row,) = samples.take("t", [reported(A, end, at_ms=second * 1000)], NOBODY)
        came += row.tps
    assert came == sum(counts)
