"""How watched rows are shown: redrawn in a terminal, or a line for each change."""

import os
import sys
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Protocol, Self

import click
import msgspec

from rmq.output import screen
from rmq.output.changes import changes_between, rendered_changes
from rmq.output.formats import Style
from rmq.output.printable import printable

_LIVE: Final = "notified of changes"
_POLLED: Final = "read every 2 s"


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Rows as they were read last, and what is to be known about that."""

    kind: type[msgspec.Struct]
    rows: Mapping[Hashable, msgspec.Struct]
    read_unix_ms: int
    #: Sentences about what is missing or failed.
    warnings: tuple[str, ...] = ()
    #: Whether every later reading has failed.
    is_old: bool = False
    #: Whether servers notify of all changes.
    is_live: bool = False


class WatchView(Protocol):
    """Shows readings, one after another."""

    def __enter__(self) -> Self:
        """Prepare the terminal."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""

    def update(self, former: Reading | None, reading: Reading) -> None:
        """Show a reading, and what became of the one before."""


def view_of(style: Style) -> WatchView:
    """Return the view of this run: tables in a terminal that can be redrawn are."""
    is_screen = style.output_format == "table" and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return ScreenView(style) if is_screen else LinesView(style)


class LinesView:
    """Writes a line for each change, and sentences about failures to standard error, each once."""

    def __init__(self, style: Style) -> None:
        self._style = style

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def update(self, former: Reading | None, reading: Reading) -> None:
        """Write what changed."""
        before = {} if former is None else former.rows
        changes = changes_between(before, reading.rows, reading.read_unix_ms)
        if changes or (former is None and self._style.output_format != "jsonl"):
            click.echo(rendered_changes(changes, reading.kind, self._style), nl=False)
            if self._style.output_format == "csv":
                # One header for all.
                self._style = msgspec.structs.replace(self._style, has_header=False)
        self._note(former, reading)

    def _note(self, former: Reading | None, reading: Reading) -> None:
        known = () if former is None else former.warnings
        for each in reading.warnings:
            if each not in known:
                waits = "; trying again every 2 s" if reading.is_old else ""
                click.echo(f"rmq: {printable(each)}{waits}", err=True)
        if former is not None and former.is_old and not reading.is_old:
            click.echo("rmq: answers again", err=True)


class ScreenView:
    """Draws the rows over those before."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._lines: list[str] = []

    def __enter__(self) -> Self:
        """Do nothing yet: a command that fails at once leaves its message where one looks for it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave what was shown last below the command."""
        if self._lines:
            sys.stdout.write(screen.CLOSE + "\n".join([*self._lines, ""]))
            sys.stdout.flush()

    def update(self, former: Reading | None, reading: Reading) -> None:  # noqa: ARG002  # a picture shows what is
        """Draw."""
        size = os.get_terminal_size(sys.stdout.fileno())
        style = msgspec.structs.replace(self._style, width=size.columns or None)
        opening = "" if self._lines else screen.OPEN
        rows = list(reading.rows.values())
        self._lines = screen.picture(rows, reading.kind, style, [_state(reading), *reading.warnings], size.lines)
        sys.stdout.write(opening + screen.drawn(self._lines))
        sys.stdout.flush()


def _state(reading: Reading) -> str:
    read = datetime.fromtimestamp(reading.read_unix_ms // 1000, UTC).isoformat().replace("+00:00", "Z")
    how = _LIVE if reading.is_live else _POLLED
    if reading.is_old:
        return f"OLD, as of {read}: no answer since, {how}"
    return f"{read}  {len(reading.rows)} rows, {how}; Ctrl-C ends"
