"""Published results as the report reads them."""

import msgspec

from analytics.reporting.wording import Row, counted, time_text, unix_s, with_clusters


class JobResult(msgspec.Struct, frozen=True):
    """One result: what the report needs of `results/latest/<name>.json`."""

    job: str
    question: str
    window_start: str
    window_end: str
    finished_at: str
    input_rows: int
    #: Days of its window that had rows.
    days: int
    rows: tuple[Row, ...]

    @property
    def window(self) -> tuple[float, float]:
        """Its beginning and end, Unix s."""
        start, end = unix_s(self.window_start), unix_s(self.window_end)
        assert start is not None, "each result has a window"
        assert end is not None, "each result has a window"
        return start, end

    def of_kind(self, kind: str) -> list[Row]:
        """Return its rows of one kind."""
        return [row for row in self.rows if row.get("kind") == kind]

    def source(self) -> str:
        """Return from what it was made, and when."""
        return (
            f"{time_text(self.window_start)} to {time_text(self.window_end)} UTC; "
            f"{counted(self.input_rows, 'recorded row')}; worked out {time_text(self.finished_at)}"
        )


def decoded(content: bytes) -> JobResult:
    """Return the result that a file holds; raises msgspec.DecodeError."""
    result = msgspec.json.decode(content, type=JobResult)
    return msgspec.structs.replace(result, rows=with_clusters(result.rows))
