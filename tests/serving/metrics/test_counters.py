"""Counts and their limits."""

import pytest

from remoting.server.statistics import Histogram
from serving.metrics.counters import LABEL_CHARS_MAX, OTHER, CounterTable, HistogramTable


def test_known_label_sets_start_at_zero():
    tally = CounterTable(known=[("peer",), ("idle",)])
    tally.add(("idle",), 2)
    assert tally.counts() == {("peer",): 0, ("idle",): 2}


def test_a_new_cluster_gets_all_values_of_the_last_label_at_zero():
    tally = CounterTable(label_sets_max=10, peer_labels=1, each=("first", "changed"))
    tally.add(("c1", "first"))
    assert tally.counts() == {("c1", "first"): 1, ("c1", "changed"): 0}


def test_label_sets_beyond_the_limit_are_folded_and_counted():
    tally = CounterTable(label_sets_max=2, peer_labels=1)
    for cluster in ("a", "b", "c", "d", "a"):
        tally.add((cluster, "x"))
    assert tally.counts() == {("a", "x"): 2, ("b", "x"): 1, (OTHER, "x"): 2}
    assert tally.guard.folded == 2


def test_a_name_that_is_too_long_is_folded():
    tally = CounterTable(label_sets_max=100, peer_labels=1)
    tally.add(("a" * LABEL_CHARS_MAX,))
    tally.add(("a" * (LABEL_CHARS_MAX + 1),))
    assert set(tally.counts()) == {("a" * LABEL_CHARS_MAX,), (OTHER,)}


def test_labels_that_no_peer_names_have_no_limit():
    tally = CounterTable()
    for number in range(100):
        tally.add((str(number),))
    assert len(tally.counts()) == 100
    assert tally.guard.folded == 0


def test_removed_label_set_starts_at_zero_again():
    tally = CounterTable(label_sets_max=1, peer_labels=1)
    tally.add(("a",), 5)
    tally.remove(("a",))
    tally.remove(("never",))
    tally.add(("b",))
    assert tally.counts() == {("b",): 1}


def test_a_value_on_a_bound_belongs_to_the_bucket_below():
    histogram = Histogram((1, 5))
    for value in (0, 1, 2, 5, 6):
        histogram.observe(value)
    assert (histogram.buckets, histogram.sum) == ([2, 2, 1], 14)


def test_histograms_beyond_the_limit_are_folded():
    table = HistogramTable((1,), label_sets_max=1, peer_labels=1)
    for cluster in ("a", "b", "c"):
        table.observe((cluster,), 0.5)
    assert {labels: each.buckets for labels, each in table.histograms().items()} == {("a",): [1, 0], (OTHER,): [2, 0]}
    assert table.guard.folded == 2


def test_known_histograms_start_empty():
    assert HistogramTable((1,), known=[("x",)]).histograms()["x",].buckets == [0, 0]


def test_a_cluster_without_members_keeps_its_counts_until_another_needs_the_place():
    living = {"a", "b"}
    tally = CounterTable(label_sets_max=4, peer_labels=1, each=("x", "y"), living=lambda: living)
    tally.add(("a", "x"))
    tally.add(("b", "x"))
    tally.add(("c", "x"))
    assert tally.counts()[OTHER, "x"] == 1
    living.remove("a")
    assert tally.counts()["a", "x"] == 1
    living.add("d")
    tally.add(("d", "y"), 3)
    assert tally.counts() == {
        ("b", "x"): 1,
        ("b", "y"): 0,
        (OTHER, "x"): 1,
        (OTHER, "y"): 0,
        ("d", "x"): 0,
        ("d", "y"): 3,
    }
    assert tally.guard.folded == 1


def test_histograms_of_a_cluster_without_members_make_room_too():
    living = {"a"}
    table = HistogramTable((1,), label_sets_max=1, peer_labels=1, living=lambda: living)
    for cluster in ("a", "b", "a"):
        table.observe((cluster,), 0.5)
    living.clear()
    # As the next scrape does.
    table.histograms()
    table.observe(("c",), 0.5)
    assert {labels: sum(each.buckets) for labels, each in table.histograms().items()} == {(OTHER,): 1, ("c",): 1}


@pytest.mark.parametrize("kind", ["tally", "histograms"])
def test_thousands_that_find_no_place_cost_one_look_until_the_next_scrape(kind):
    looks = []

    def living():
        looks.append(1)
        return {str(number) for number in range(1000)}

    limits = {"label_sets_max": 10, "peer_labels": 1, "living": living}
    if kind == "tally":
        tally = CounterTable(**limits)
        count, read, guard = tally.add, tally.counts, tally.guard
    else:
        table = HistogramTable((1,), **limits)
        count, read, guard = (lambda labels: table.observe(labels, 0.5)), table.histograms, table.guard
    for _ in range(2):
        for number in range(1000):
            count((str(number),))
        assert len(read()) == 11
    assert (len(looks), guard.folded) == (2, 1980)
