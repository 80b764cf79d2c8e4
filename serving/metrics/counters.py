"""Counts of what happens: plain numbers that any part of the server touches in passing and a scrape reads.

prometheus-client's own counters would cost more at every touch, and their import would delay the start; `exposition.py`
turns these into families at a scrape. Label values come from peers, so each table of counts has a limit.
"""

from collections.abc import Callable, Container, Iterable, Mapping, MutableMapping
from typing import Any, Final

from remoting.server.statistics import Histogram

#: Stands for all label values beyond a limit.
OTHER: Final = "__other__"

#: A longer name from a peer is folded into `__other__`; RocketMQ's own names stay far below.
LABEL_CHARS_MAX: Final = 255

#: Clusters and broker sets that get series of their own.
CLUSTERS_MAX: Final = 20
BROKERS_MAX: Final = 1000

Labels = tuple[str, ...]

#: Returns the clusters that have members now.
Living = Callable[[], Container[str]]


class _Everything(Container[str]):
    def __contains__(self, _: object) -> bool:
        return True


def everything() -> Container[str]:
    """Return what has every cluster: for what is counted for good."""
    return _Everything()


class LabelGuard:
    """Decides which label sets get series of their own: the first so many with values of a sensible length.

    What was counted of a cluster stays after its last member is gone, so that its end shows in a rate, until another
    cluster needs the place. If it comes back later it starts at 0, which Prometheus takes as a restart.
    """

    def __init__(self, label_sets_max: int, peer_labels: int, living: Living = everything) -> None:
        #: So many values were folded into `__other__`.
        self.folded = 0
        self._label_sets_max = label_sets_max
        #: So many of the leading labels are named by peers; those after them have few values.
        self._peer_labels = peer_labels
        self._living = living
        #: No place was left, nor could one be freed, when that was looked at since the table was read.
        self._is_full = False

    @property
    def has_limit(self) -> bool:
        """Whether peers name any of the labels."""
        return self._peer_labels > 0

    def admit(self, labels: Labels, present: int) -> Labels:
        """Return `labels`, or what stands for them when `present` label sets are there already."""
        mine = self._peer_labels
        if mine == 0 or (present < self._label_sets_max and all(len(each) <= LABEL_CHARS_MAX for each in labels)):
            return labels
        self.folded += 1
        return (OTHER,) * mine + labels[mine:]

    def admit_into(self, table: MutableMapping[Labels, Any], labels: Labels) -> Labels:
        """As `admit` for a new label set of `table`; frees the place of a cluster without members where none is left.

        The first label is the cluster. Where all have members the others are folded without a look until the table is
        read again: they can be thousands, and a look goes over all sets.
        """
        if not self._peer_labels or len(table) < self._label_sets_max:
            return self.admit(labels, 0)
        if not self._is_full:
            self._free_a_place(table)
            # What is folded takes no place from others.
            self._is_full = sum(each[0] != OTHER for each in table) >= self._label_sets_max
        return self.admit(labels, self._label_sets_max if self._is_full else 0)

    def look_again(self) -> None:
        """Look for a place again for the next that needs one."""
        self._is_full = False

    def _free_a_place(self, table: MutableMapping[Labels, Any]) -> None:
        """Remove all label sets of the cluster that came first of those without members."""
        living = self._living()
        removed = next((each[0] for each in table if each[0] != OTHER and each[0] not in living), None)
        if removed is not None:
            for labels in [each for each in table if each[0] == removed]:
                del table[labels]


class CounterTable:
    def __init__(
        self,
        *,
        label_sets_max: int = 1,
        peer_labels: int = 0,
        known: Iterable[Labels] = (),
        each: Iterable[str] = (),
        living: Living = everything,
    ) -> None:
        """Start with the `known` label sets at 0.

        With `each`, the values of the last label, all of them start at 0 as soon as one is counted: a rate misses a
        counter that is born at 1.
        """
        self.guard = LabelGuard(label_sets_max, peer_labels, living)
        self._counts: dict[Labels, int] = dict.fromkeys(known, 0)
        self._each = tuple(each)

    def counts(self) -> Mapping[Labels, int]:
        """Return the counts by label values; not to be changed."""
        self.guard.look_again()
        return self._counts

    def add(self, labels: Labels, amount: int = 1) -> None:
        if labels not in self._counts:
            labels = self._admitted(labels)
        self._counts[labels] += amount

    def remove(self, labels: Labels) -> None:
        """Remove a label set whose subject was removed; it starts at 0 when it comes back."""
        self._counts.pop(labels, None)
        self.guard.look_again()

    def _admitted(self, labels: Labels) -> Labels:
        admitted = self.guard.admit_into(self._counts, labels)
        for last in self._each:
            self._counts.setdefault((*admitted[:-1], last), 0)
        self._counts.setdefault(admitted, 0)
        return admitted


class HistogramTable:
    def __init__(
        self,
        bounds: tuple[float, ...],
        *,
        label_sets_max: int = 1,
        peer_labels: int = 0,
        known: Iterable[Labels] = (),
        living: Living = everything,
    ) -> None:
        self.guard = LabelGuard(label_sets_max, peer_labels, living)
        self._make: Callable[[], Histogram] = lambda: Histogram(bounds)
        self._histograms = {labels: self._make() for labels in known}

    def histograms(self) -> Mapping[Labels, Histogram]:
        """Return the histograms by label values; not to be changed."""
        self.guard.look_again()
        return self._histograms

    def observe(self, labels: Labels, value: float) -> None:
        histogram = self._histograms.get(labels)
        if histogram is None:
            admitted = self.guard.admit_into(self._histograms, labels)
            histogram = self._histograms.setdefault(admitted, self._make())
        histogram.observe(value)
