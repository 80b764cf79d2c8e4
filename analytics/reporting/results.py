"""Published results as the report reads them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from analytics.reporting.figures import Figure, Lane, Mark
from analytics.reporting.page import Section, Table
from analytics.reporting.wording import Row, counted, time_text, unix_s

#: So many things are in a plot.
SHOWN: Final = 12


class JobResult(NamedTuple):
    """One result: what `results/latest/<name>.json` holds."""

    job_id: str
    name: str
    question: str
    window_start: str
    window_end: str
    finished_at: str
    input_rows: int
    rows: tuple[Row, ...]
    #: Days of its window that had rows.
    history_days: int

    @property
    def window(self) -> tuple[float, float]:
        """Its beginning and end, Unix s."""
        start, end = unix_s(self.window_start), unix_s(self.window_end)
        assert start is not None, "each result has a window"
        assert end is not None, "each result has a window"
        return start, end

    @property
    def days(self) -> float:
        """How long its window is."""
        start, end = self.window
        return (end - start) / 86_400

    def of_kind(self, kind: str) -> list[Row]:
        """Return its rows of one kind."""
        return [row for row in self.rows if row.get("kind") == kind]

    def source(self) -> str:
        """Return from what it was made, and when."""
        return (
            f"{time_text(self.window_start)} to {time_text(self.window_end)} UTC; "
            f"{counted(self.input_rows, 'recorded row')}; worked out {time_text(self.finished_at)}"
        )

    def section(self, title: str, answer: str, figures: Sequence[Figure], *tables: Table) -> Section:
        """Return its section of the report."""
        return Section(self.job_id, title, self.question, answer, tuple(figures), tables, self.source())


def lanes_of(marks: Iterable[tuple[str, Mark]]) -> list[Lane]:
    """Return the lanes of the first labels, each with all of its marks."""
    by_label: defaultdict[str, list[Mark]] = defaultdict(list)
    for label, mark in marks:
        by_label[label].append(mark)
    return [Lane(label, tuple(each)) for label, each in list(by_label.items())[:SHOWN]]
