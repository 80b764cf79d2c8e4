"""Why an operation on offsets is refused as a whole; nothing of it is done."""


class OffsetsRefused(Exception):
    """The sentence says what is wrong and what to do."""


class TooManyEntries(OffsetsRefused):
    """A request has more entries than one decision may take."""

    def __init__(self, entries: int, entries_max: int) -> None:
        self.entries, self.entries_max = entries, entries_max
        super().__init__(f"{entries} entries in one request, at most {entries_max} are allowed: split it")


class WriterRefused(OffsetsRefused):
    """The name of who changes offsets cannot be stored with them."""


class TooManyRows(OffsetsRefused):
    """An operation covers more offsets than one decision may change."""

    def __init__(self, rows_max: int) -> None:
        self.rows_max = rows_max
        super().__init__(f"this covers more than {rows_max} offsets: name a topic or a broker, and go on with the next")


class RowsUnavailable(OffsetsRefused):
    """Offsets that the operation covers cannot be read now."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"nothing was changed: {reason}")


class PageExpired(OffsetsRefused):
    """Deleted offsets were cleared away between two pages, and the cursor with them."""

    def __init__(self) -> None:
        super().__init__(
            "the page cursor is older than the last cleaning of the table: begin with the first page again"
        )


class ScopeTooWide(OffsetsRefused):
    """An operation that must be explicit names neither a group nor a topic."""

    def __init__(self) -> None:
        super().__init__("name a group, a topic or both: offsets are not deleted by cluster or broker alone")


class CloneRefused(OffsetsRefused):
    """A group cannot be cloned as requested."""


class FreezeRefused(OffsetsRefused):
    """A freeze cannot be made, or has ended."""
