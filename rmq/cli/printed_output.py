"""Output of a command that shows its rows once: to standard output, and sentences to standard error."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import cast

import click
import msgspec

from rmq.cli.command_line import drop_output
from rmq.output.formats import OutputFormat, Style, rendered
from rmq.output.printable import printable


class PrintedOutput:
    #: Topics with whose routes alone the rows change, none if with brokers alone; None: also otherwise. For --watch.
    follows: Sequence[str] | None = None

    def __init__(self, style: Style, *, is_change: bool = False) -> None:
        self._style = style
        #: Whoever reads may leave: what became of the change is in the exit code and in sentences all the same.
        self._is_change = is_change

    def show(self, rows: Sequence[msgspec.Struct], kind: type[msgspec.Struct], *, is_partial: bool = False) -> None:  # noqa: ARG002  # who reads sees it by the sentence that follows
        """Write rows to standard output. `is_partial`: servers that did not answer may have more."""
        try:
            click.echo(rendered(rows, kind, self._style), nl=False)
        except BrokenPipeError:
            if not self._is_change:
                raise
            drop_output()

    def note(self, text: str) -> None:
        click.echo(f"rmq: {printable(text)}", err=True)


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
