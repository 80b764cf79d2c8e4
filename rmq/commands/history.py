"""`rmq history`: what was, from the files that our servers record; no server is needed for it.

Modules that need asyncio are not imported here: files are read without it, and it takes 90 ms.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Self

import click
import msgspec

from history.past.moments import Moments, NotRecorded, Seen
from history.past.queries import DEFAULT_FOLDER, NoHistory, body_line, open_history, span_of, time_in, timeline_of
from history.past.rows import History
from remoting.clock import SystemClock
from rmq.cli.options import SiteCommand, given_options
from rmq.cli.printed_output import PrintedOutput, style_of
from rmq.cli.run_settings import settings_in
from rmq.commands.past_routes import PastRouteRow, differences, past_route_rows
from rmq.failures import CommandFailed, UnknownName, WrongUse


class TimelineRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that happened to a broker, or a time in which a server did not watch."""

    time_unix_ms: int
    #: The server that recorded it, as host_port.
    ns_id: str
    event: str


def _completed(name: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return what completes a name of the site, imported when a shell wants it."""

    def complete(context: click.Context, parameter: click.Parameter, begin: str) -> list[str]:
        from rmq.commands import live_names  # noqa: PLC0415  # it needs asyncio

        found: list[str] = getattr(live_names, name)(context, parameter, begin)
        return found

    return complete


def _time(_: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    try:
        return None if text is None else time_in(text)
    except ValueError as error:
        raise WrongUse(f"{parameter.opts[0]}: {error}") from None


_FROM: Final = click.option("--from", "first", metavar="TIME", callback=_time, help="an hour before --to")
_TO: Final = click.option("--to", "last", metavar="TIME", callback=_time, help="UTC, 2026-11-21T20:00:00 (now)")
_AT: Final = click.option("--at", metavar="TIME", callback=_time, help="UTC, 2026-11-21T20:00:00 (now)")
_DIFF: Final = click.option(
    "--diff", "other", metavar="TIME", callback=_time, help="show what was different at this time"
)


@click.command("timeline", cls=SiteCommand)
@click.argument("broker", shell_complete=_completed("broker_names"))
@_FROM
@_TO
@click.pass_context
def show_timeline(context: click.Context, broker: str, first: datetime | None, last: datetime | None) -> None:
    """Show what happened to a broker, in order: registrations, silences, elections, resizes.

    Times in which a server did not watch are among it.
    """
    with _HistoryRun(context) as run:
        try:
            span = span_of(first, last, _now())
        except ValueError as error:
            raise WrongUse(str(error)) from None
        found = timeline_of(run.history, broker, *span)
        rows = [
            TimelineRow(time_unix_ms=each.unix_us // 1000, ns_id=each.ns_id, event=each.sentence)
            for each in found.events
        ]
        if rows:
            run.output.show(rows, TimelineRow)
        if found.nothing:
            raise UnknownName(found.nothing)


@click.command("route", cls=SiteCommand)
@click.argument("topic", shell_complete=_completed("topic_names"))
@_AT
@_DIFF
@click.option("--ns-id", metavar="HOST_PORT", help="only what this NameServer served")
@click.option("--body", "shows_body", is_flag=True, help="the body as it was served, a line for each NameServer")
@click.pass_context
def show_past_route(
    context: click.Context,
    topic: str,
    *,
    at: datetime | None,
    other: datetime | None,
    ns_id: str | None,
    shows_body: bool,
) -> None:
    """Show the route of a topic as each NameServer served it at a time.

    `doubt` says where it may have been otherwise: a NameServer was down, or its rows are missing.
    """
    if shows_body and other:
        raise WrongUse("--body shows one moment: leave --diff out")
    with _HistoryRun(context) as run:
        moments = Moments(run.history, _now())
        seen = moments.seen(topic, at or _now(), ns_id)
        if shows_body:
            click.echo("\n".join(map(body_line, seen)))
        elif other is None:
            run.output.show([row for each in seen for row in past_route_rows(topic, each)], PastRouteRow)
        else:
            _show_difference(run.output, topic, seen, moments.seen(topic, other, ns_id))


def _show_difference(output: PrintedOutput, topic: str, before: Sequence[Seen], after: Sequence[Seen]) -> None:
    for when, known in (("before", before), ("after", after)):
        for each in known:
            if each.doubt:
                output.note(f"{when}, {each.ns_id}: {each.doubt}")
    rows = differences(topic, before, after)
    if not rows:
        output.note("no difference")
    output.show(rows, PastRouteRow)


def _now() -> datetime:
    return datetime.fromtimestamp(SystemClock().unix_us() / 1e6, UTC)


class _HistoryRun:
    """The history of one run; what cannot be read of it is a failure, or a sentence at the end."""

    history: History

    def __init__(self, context: click.Context) -> None:
        self.output = PrintedOutput(style_of(given_options(context)))
        self._folder = settings_in(context).history or DEFAULT_FOLDER

    def __enter__(self) -> Self:
        try:
            self.history = open_history(self._folder)
        except NoHistory as error:
            raise WrongUse(str(error)) from None
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self.history.unreadable:
            self.output.note(f"{self.history.unreadable} lines cannot be read and are left out")
        if isinstance(error, NotRecorded):
            raise UnknownName(str(error)) from None
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise CommandFailed(str(error)) from None
