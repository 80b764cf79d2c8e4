"""One run of a command: its site, its output, and whether changes are confirmed."""

import asyncio
import getpass
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import update_wrapper
from typing import Any, Final

import click
import msgspec

from rmq.cli.options import WATCH_OPTION, ChangeCommand, given_options
from rmq.cli.printed_output import PrintedOutput, style_of
from rmq.cli.profiles import settings_in
from rmq.failures import CommandFailed, ExitCode, PartlyDone, WrongUse
from rmq.output.formats import rendered
from rmq.output.printable import printable
from rmq.site.changes import ChangeRow, SiteChange, carry_out, check
from rmq.site.settings import SiteSettings
from rmq.site.site import Site

SessionWork = Callable[["OperatorSession"], Coroutine[Any, Any, None]]
#: What servers take of it.
_CHARACTERS_MAX: Final = 255


class NotConfirmed(CommandFailed):
    exit_code = ExitCode.INTERRUPTED


class OperatorSession:
    def __init__(self, site: Site, options: Mapping[str, str], output: PrintedOutput) -> None:
        self.site = site
        self._options = options
        self._output = output

    @property
    def is_dry_run(self) -> bool:
        return "dry_run" in self._options

    @property
    def is_watched(self) -> bool:
        return WATCH_OPTION in self._options

    @property
    def is_table(self) -> bool:
        return style_of(self._options).output_format == "table"

    def show(self, rows: Sequence[msgspec.Struct], kind: type[msgspec.Struct], *, is_partial: bool = False) -> None:
        """Write rows to standard output. `is_partial`: servers that did not answer may have more."""
        self._output.show(rows, kind, is_partial=is_partial)

    def note(self, text: str) -> None:
        self._output.note(text)

    def note_odd_rows(self) -> None:
        """Name the servers of whose answers something was left out until now."""
        for address, sentence in self.site.odd.items():
            self.note(f"{address}: {sentence}")
        self.site.odd.clear()

    def changes_with_brokers(self) -> None:
        """State that the rows change only as brokers register or leave: --watch need not poll our NameServers."""
        self._output.follows = ()

    def changes_with_routes(self, topics: Sequence[str]) -> None:
        """State that the rows change only with the routes of these topics."""
        self._output.follows = topics

    async def change(self, stages: Sequence[Sequence[SiteChange]], question: str, refusals: Iterable[str] = ()) -> None:
        """Show what becomes of the changes, after the question is answered with yes; with --dry-run only check them.

        `refusals` are sentences why servers will refuse the changes, as far as is known before. Raises CommandFailed if
        not all are done, or would be.
        """
        if self.is_dry_run:
            result = await check(self.site, stages, [*refusals])
        else:
            self.confirm(question)
            result = await carry_out(self.site, stages)
        self.show(result.rows, ChangeRow)
        if result.failure is not None:
            raise result.failure

    def preview(self, rows: Sequence[msgspec.Struct], kind: type[msgspec.Struct]) -> None:
        """Write rows to standard error, as a table, where a question to the operator follows."""
        if "yes" not in self._options and sys.stdin.isatty():
            style = msgspec.structs.replace(style_of(self._options), output_format="table", has_header=True)
            click.echo(rendered(rows, kind, style), nl=False, err=True)

    def confirm(self, question: str) -> None:
        """Return if the operator wants it; raises NotConfirmed, and WrongUse where nobody can be prompted."""
        self.note_odd_rows()
        if "yes" in self._options:
            return
        if not sys.stdin.isatty():
            raise WrongUse(f"{question} Add --yes to do it, or --dry-run to see the changes")
        # asyncio only notes a first Ctrl-C, and this would go on to wait for an answer, and take it.
        noting = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            is_wanted = click.confirm(printable(question), err=True)
        finally:
            signal.signal(signal.SIGINT, noting)
        if not is_wanted:
            raise NotConfirmed("nothing was changed")


def with_session(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Return a command that runs a coroutine with a session, and closes its connections at the end."""

    def run(*args: Any, **named: Any) -> None:
        context = click.get_current_context()
        options = given_options(context)
        output = PrintedOutput(style_of(options), is_change=isinstance(context.command, ChangeCommand))
        asyncio.run(_run(settings_in(context), options, output, lambda session: function(session, *args, **named)))

    # The parameters that click's decorators add stay those of the function.
    return update_wrapper(run, function)


async def _run(settings: SiteSettings, options: Mapping[str, str], output: PrintedOutput, work: SessionWork) -> None:
    site = Site(settings, is_change=isinstance(click.get_current_context().command, ChangeCommand))
    try:
        if WATCH_OPTION in options:
            await _watch(site, options, work)
        else:
            await _read(site, options, output, work)
    finally:
        await site.close()


async def _read(site: Site, options: Mapping[str, str], output: PrintedOutput, work: SessionWork) -> None:
    """Do the work; a view of a site of which a server is silent is no whole one, and a note stands beside a change."""
    site.silent.clear()
    site.odd.clear()
    session = OperatorSession(site, options, output)
    try:
        await work(session)
    except CommandFailed as failure:
        for address, reason in site.silent.items():
            if address not in str(failure):
                output.note(f"{address}: {reason}")
        raise
    finally:
        session.note_odd_rows()
    if site.silent:
        silent = "; ".join(f"{address}: {reason}" for address, reason in site.silent.items())
        if not isinstance(click.get_current_context().command, ChangeCommand):
            raise PartlyDone(f"{silent}: what only it knows is not shown")
        output.note(silent)


async def _watch(site: Site, options: Mapping[str, str], work: SessionWork) -> None:
    from rmq.cli.watch import watch  # noqa: PLC0415  # 15 ms, and most commands run once

    async def take(output: PrintedOutput) -> None:
        await _read(site, options, output, work)

    await watch(site.settings, style_of(options), take)


def operator_name() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run under an id that has no name.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"[:_CHARACTERS_MAX]
