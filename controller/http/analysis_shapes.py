"""Bodies of the HTTP answers with results of the Spark analyses; `openapi.py` describes them from here."""

import msgspec


class AnalysisItem(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The newest result of one analysis; times are `2026-11-21T20:00:00.123456Z`."""

    #: A1 to A16.
    job: str
    #: As it is in paths: `availability`.
    name: str
    question: str
    window_start: str
    window_end: str
    finished_at: str
    #: Rows of the result; the first 10,000 can be read here, all of them from its Parquet files.
    row_count: int


class AnalysisListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The newest results, by their job."""

    #: Whether `analyticsDir` is set: without it there are no results here.
    is_configured: bool
    items: list[AnalysisItem]
    #: Files that cannot be read, and why.
    problems: dict[str, str]


class AnalysisColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the rows."""

    name: str
    #: As Spark SQL names it: string, bigint, double, boolean, timestamp, array<bigint>, array<string>.
    type: str
    doc: str


class AnalysisRows(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A page of the rows of a result, those that matter most first."""

    result: AnalysisItem
    columns: list[AnalysisColumn]
    #: Rows of the filter.
    total: int
    next_cursor: str | None
    #: Objects with every column; times are `2026-11-21T20:00:00.123456Z`.
    items: list[msgspec.Raw]
