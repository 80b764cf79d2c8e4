"""What an analysis is: from rows of the history to additive parts of a day, and from parts to a published result.

Both steps are pure functions of DataFrames. The parts of one day are kept, so that a report over a month reads thirty
small tables and no heartbeat. A result over any window is made of parts in the same way, whether they come from
storage or were made from raw rows just now; so the two agree.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame

from analytics.spark.schemas import Frames, shaped
from history.columns import Column, Type

#: Family of the history -> its rows, with the columns of `history.schemas`.
Inputs = Mapping[str, DataFrame]


class Span(NamedTuple):
    """A window of time, Unix us; it begins with `start_us` and ends before `end_us`."""

    start_us: int
    end_us: int


#: What each result has beside the columns of its own; the runner puts them in front.
RESULT_COLUMNS = (
    Column("run_id", Type.STRING, "the run that made it"),
    Column("window_start", Type.TIMESTAMP, "beginning of the window"),
    Column("window_end", Type.TIMESTAMP, "end of the window, not included"),
    Column("cluster", Type.STRING, "cluster of the broker; null where a row is about more than one"),
)


class Job(NamedTuple):
    """One analysis."""

    #: A1 to A16.
    id: str
    #: The name of its results: a word of the file system.
    name: str
    #: What it answers, in one sentence.
    question: str
    #: Families of the history that it reads.
    inputs: tuple[str, ...]
    #: From the rows of a span to its additive parts. The inputs also have what is needed of the time before the span:
    #: all of the hour before, and before that the last rows of the keys in `closing.KEYS`. Parts hold nothing
    #: outside of the span.
    parts_of: Callable[[Inputs, Span], Frames]
    #: From the parts of all days of a span to the result.
    result_of: Callable[[DataFrame, Span], Frames]
    #: The parts' columns, `cluster` among them.
    part_columns: tuple[Column, ...]
    #: The result's columns after those of RESULT_COLUMNS.
    columns: tuple[Column, ...]
    #: Which rows come first, as SQL: those that matter most. Of equal ones all columns decide, from the first on.
    order: tuple[str, ...] = ()
    #: Id of the analysis whose parts it shares; its own id without one.
    parts_id: str = ""

    def parts(self, inputs: Inputs, span: Span) -> DataFrame:
        """Return the parts of a span: `part_columns`."""
        return shaped(self.parts_of(inputs, span), self.part_columns)

    def result(self, parts: DataFrame, span: Span) -> DataFrame:
        """Return the result over a span: `cluster` and `columns`."""
        return shaped(self.result_of(parts, span), (RESULT_COLUMNS[-1], *self.columns))
