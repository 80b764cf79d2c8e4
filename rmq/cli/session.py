"""One run of a command: its site, its output, and whether changes are confirmed."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, cast

import click
import msgspec

from rmq.cli.options import given_options
from rmq.cli.profiles import profile_of
from rmq.failures import CommandFailed, ExitCode, WrongUse
from rmq.output.formats import OutputFormat, Style, rendered
from rmq.output.printable import printable
from rmq.site.changes import ChangeRow, SiteChange, carry_out
from rmq.site.settings import SiteSettings, settings_of
from rmq.site.site import Site

Arguments = ParamSpec("Arguments")


class NotConfirmed(CommandFailed):
    """The operator did not want the change."""

    exit_code = ExitCode.INTERRUPTED


class OperatorSession:
    """What a command works with."""

    def __init__(self, site: Site, options: Mapping[str, str], style: Style) -> None:
        self.site = site
        self.style = style
        self._options = options

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is sent that changes anything."""
        return "dry_run" in self._options

    def show(self, rows: Sequence[msgspec.Struct], kind: type[msgspec.Struct]) -> None:
        """Write rows to standard output."""
        click.echo(rendered(rows, kind, self.style), nl=False)

    def note(self, text: str) -> None:
        """Write a sentence beside the output, to standard error."""
        click.echo(f"rmq: {printable(text)}", err=True)

    async def change(self, stages: Sequence[Sequence[SiteChange]], question: str) -> None:
        """Show what becomes of the changes, after the question is answered with yes; with --dry-run only show them.

        Raises CommandFailed if not all are done.
        """
        if self.is_dry_run:
            planned = [ChangeRow(address=e.address, change=e.what, state="planned") for stage in stages for e in stage]
            self.show(planned, ChangeRow)
            return
        self.confirm(question)
        result = await carry_out(self.site, stages)
        self.show(result.rows, ChangeRow)
        if result.failure is not None:
            raise result.failure

    def preview(self, rows: Sequence[msgspec.Struct], kind: type[msgspec.Struct]) -> None:
        """Write rows to standard error, as a table, where the operator is about to be asked."""
        if "yes" not in self._options and sys.stdin.isatty():
            style = msgspec.structs.replace(self.style, output_format="table", has_header=True)
            click.echo(rendered(rows, kind, style), nl=False, err=True)

    def confirm(self, question: str) -> None:
        """Return if the operator wants it; raises NotConfirmed, and WrongUse where nobody can be prompted."""
        if "yes" in self._options:
            return
        if not sys.stdin.isatty():
            raise WrongUse(f"{question} Add --yes to do it, or --dry-run to see what would be sent")
        if not click.confirm(printable(question), err=True):
            raise NotConfirmed("nothing was changed")


def settings_in(context: click.Context) -> SiteSettings:
    """Return the settings of the command at hand; raises CommandFailed."""
    options = given_options(context)
    return settings_of(options, os.environ, profile_of(options.get("profile"), os.environ))


def with_session(
    function: Callable[Concatenate[OperatorSession, Arguments], Coroutine[Any, Any, None]],
) -> Callable[Arguments, None]:
    """Return a command that runs a coroutine with a session, and closes its connections at the end."""

    def run(*args: Arguments.args, **named: Arguments.kwargs) -> None:
        context = click.get_current_context()
        options = given_options(context)
        asyncio.run(_run(settings_in(context), options, lambda session: function(session, *args, **named)))

    # The parameters that click's decorators add stay those of the function.
    return update_wrapper(run, function)


async def _run(
    settings: SiteSettings, options: Mapping[str, str], work: Callable[[OperatorSession], Coroutine[Any, Any, None]]
) -> None:
    site = Site(settings)
    try:
        await work(OperatorSession(site, options, _style(options)))
    finally:
        await site.close()


def _style(options: Mapping[str, str]) -> Style:
    is_terminal = sys.stdout.isatty()
    colours = {"always": True, "never": False}
    output_format = cast("OutputFormat", options.get("output", "table"))
    by_default = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(
        output_format=output_format,
        has_header="no_header" not in options,
        has_colour=colours.get(options.get("color", "auto"), by_default),
        width=os.get_terminal_size(sys.stdout.fileno()).columns or None if is_terminal else None,
    )
