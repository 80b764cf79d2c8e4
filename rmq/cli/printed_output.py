"""Output of a command that shows its rows once: to standard output, and sentences to standard error."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import click
import msgspec

from rmq.cli.standard_streams import drop_output
from rmq.output.formats import OutputFormat, Style, rendered
from rmq.output.printable import printable


class CommandOutput(Protocol):
    """Takes what a command has to show."""

    def show(self, rows: Sequence[msgspec.Struct], kind: type[msgspec.Struct], *, is_partial: bool = False) -> None:
        """Show rows of one kind. `is_partial`: servers that did not answer may have more."""

    def note(self, text: str) -> None:
        """Show a sentence beside the rows."""

    def follow_brokers(self) -> None:
        """Take notice that the rows change only as brokers register or leave."""

    def follow_routes(self, topics: Sequence[str]) -> None:
        """Take notice that the rows change only with the routes of these topics."""


class PrintedOutput:
    """Writes at once."""

    def __init__(self, style: Style, *, is_change: bool = False) -> None:
        self._style = style
        #: Whoever reads may leave: what became of the change is in the exit code and in sentences all the same.
        self._is_change = is_change

    def show(self, rows: Sequence[msgspec.Struct], kind: type[msgspec.Struct], *, is_partial: bool = False) -> None:  # noqa: ARG002  # who reads sees it by the sentence that follows
        """Write rows to standard output."""
        try:
            click.echo(rendered(rows, kind, self._style), nl=False)
        except BrokenPipeError:
            if not self._is_change:
                raise
            drop_output()

    def note(self, text: str) -> None:
        """Write a sentence to standard error."""
        click.echo(f"rmq: {printable(text)}", err=True)

    def follow_brokers(self) -> None:
        """Do nothing: the rows are shown once."""

    def follow_routes(self, topics: Sequence[str]) -> None:
        """Do nothing, as above."""


def style_of(options: Mapping[str, str]) -> Style:
    """Return how this run writes, by its options, the environment and the terminal."""
    is_terminal = sys.stdout.isatty()
    colours = {"always": True, "never": False}
    by_default = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(
        output_format=cast("OutputFormat", options.get("output", "table")),
        has_header="no_header" not in options,
        has_colour=colours.get(options.get("color", "auto"), by_default),
        width=os.get_terminal_size(sys.stdout.fileno()).columns or None if is_terminal else None,
    )
