"""`rmq history`: what was, from the files that our servers record; no server is needed for it.

Modules that need asyncio are not imported here: files are read without it, and it takes 90 ms.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, Self

import click
import msgspec

from history.past.moments import Moments, NotRecorded
from history.past.queries import DEFAULT_FOLDER, NoHistory, body_line, open_history, span_of, time_in, timeline_of
from history.past.rows import History
from remoting.clock import SystemClock
from remoting.protocol.shapes.history import PastRoute
from remoting.protocol.shapes.route import BrokerData, QueueData, TopicRouteData
from rmq.cli.options import SiteCommand, given_options
from rmq.cli.printed_output import PrintedOutput, style_of
from rmq.cli.profiles import settings_in
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
        from rmq.commands import completion  # noqa: PLC0415  # it needs asyncio

        found: list[str] = getattr(completion, name)(context, parameter, begin)
        return found

    return complete


def _time(_: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    try:
        return None if text is None else time_in(text)
    except ValueError as error:
        raise WrongUse(f"{parameter.opts[0]}: {error}") from None


_FROM: Final = click.option("--from", "first", metavar="TIME", callback=_time, help="UTC (an hour before --to)")
_TO: Final = click.option("--to", "last", metavar="TIME", callback=_time, help="UTC, such as 2026-11-21T20:00:00 (now)")
_AT: Final = click.option("--at", metavar="TIME", callback=_time, help="UTC, such as 2026-11-21T20:00:00 (now)")
_DIFF: Final = click.option("--diff", "other", metavar="TIME", callback=_time, help="show the differences to this time")


@click.command("timeline", cls=SiteCommand)
@click.argument("broker", shell_complete=_completed("broker_names"))
@_FROM
@_TO
@click.pass_context
def show_timeline(context: click.Context, broker: str, first: datetime | None, last: datetime | None) -> None:
    """Show what happened to a broker, in order: registrations, silences, elections, resizes.

    Includes the times in which a server was not watching.
    """
    with _HistoryRun(context) as run:
        try:
            span = span_of(first, last, _now())
        except ValueError as error:
            raise WrongUse(str(error)) from None
        events, nothing = timeline_of(run.history, broker, *span)
        if events:
            rows = [TimelineRow(time_unix_ms=each.unix_ms, ns_id=each.ns_id, event=each.sentence) for each in events]
            run.output.show(rows, TimelineRow)
        if nothing:
            raise UnknownName(nothing)


@click.command("route", cls=SiteCommand)
@click.argument("topic", shell_complete=_completed("topic_names"))
@_AT
@_DIFF
@click.option("--ns-id", metavar="HOST_PORT", help="only what this NameServer served")
@click.option("--body", "shows_body", is_flag=True, help="print the body as served, a line for each NameServer")
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

    `doubt` says why a route may have been different: a NameServer was down, or its rows are missing.
    """
    if shows_body and other:
        raise WrongUse("--body shows one moment: leave out --diff")
    with _HistoryRun(context) as run:
        moments = Moments(run.history, _now())
        seen = moments.seen(topic, at or _now(), ns_id)
        if shows_body:
            click.echo("\n".join(map(body_line, seen)))
        elif other is None:
            run.output.show([row for each in seen for row in past_route_rows(topic, each)], PastRouteRow)
        else:
            _show_difference(run.output, topic, seen, moments.seen(topic, other, ns_id))


def _show_difference(
    output: PrintedOutput, topic: str, before: Sequence[PastRoute], after: Sequence[PastRoute]
) -> None:
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
            self.output.note(f"{self.history.unreadable} unreadable lines are left out")
        if isinstance(error, NotRecorded):
            raise UnknownName(str(error)) from None
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise CommandFailed(str(error)) from None


class PastRouteRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A broker set in the route of a topic, as one NameServer served it."""

    ns_id: str
    topic: str
    #: Only with --diff: what `removed` shows was so at --at, what `added` shows at --diff.
    change: Literal["removed", "added"] | None = None
    #: `no_route`: no broker had the topic. `not_known`: the history does not reach back to what was served.
    state: Literal["served", "no_route", "not_known"] = "served"
    broker_name: str | None = None
    cluster: str | None = None
    read_queue_nums: int | None = None
    write_queue_nums: int | None = None
    #: Bits: 4 read, 2 write, 1 inherit.
    perm: int | None = None
    topic_sys_flag: int | None = None
    #: By broker id.
    broker_addrs: dict[str, str] | None = None
    zone_name: str | None = None
    enable_acting_master: bool | None = None
    filter_servers: list[str] | None = None
    order_topic_conf: str | None = None
    #: Of a static topic: logical queue id -> queue id on the broker.
    queue_mapping: dict[str, str] | None = None
    #: Why it may have been otherwise.
    doubt: str | None = None


def differences(topic: str, before: Sequence[PastRoute], after: Sequence[PastRoute]) -> list[PastRouteRow]:
    """Return the rows that only one of two moments has, by NameServer; doubts make no difference."""
    rows: list[PastRouteRow] = []
    tables = [
        {
            each.ns_id: [msgspec.structs.replace(row, doubt=None) for row in past_route_rows(topic, each)]
            for each in known
        }
        for known in (before, after)
    ]
    for ns_id in sorted({*tables[0], *tables[1]}):
        former, later = (table.get(ns_id, []) for table in tables)
        rows += [msgspec.structs.replace(row, change="removed") for row in former if row not in later]
        rows += [msgspec.structs.replace(row, change="added") for row in later if row not in former]
    return rows


def past_route_rows(topic: str, seen: PastRoute) -> list[PastRouteRow]:
    """Return the route that one NameServer served; a row without a broker set if there was none."""
    doubt = seen.doubt or None
    if seen.route is None:
        return [PastRouteRow(ns_id=seen.ns_id, topic=topic, state="not_known" if doubt else "no_route", doubt=doubt)]
    route = seen.route
    sets = {each.broker_name: each for each in route.broker_datas}
    queues = {each.broker_name: each for each in route.queue_datas}
    return [_row(topic, seen, name, sets.get(name), queues.get(name)) for name in dict.fromkeys([*sets, *queues])]


def _row(topic: str, seen: PastRoute, name: str, members: BrokerData | None, queues: QueueData | None) -> PastRouteRow:
    route = seen.route
    assert route is not None, "only a route has broker sets"
    order_conf = route.order_topic_conf
    row = PastRouteRow(
        ns_id=seen.ns_id,
        topic=topic,
        broker_name=name,
        order_topic_conf=order_conf if isinstance(order_conf, str) else None,
        queue_mapping=_mapping(route, name),
        doubt=seen.doubt or None,
    )
    if members is not None:
        row = msgspec.structs.replace(row, **_of_members(route, members))
    if queues is not None:
        sys_flag = queues.topic_sys_flag or None
        more = {name: getattr(queues, name) for name in ("read_queue_nums", "write_queue_nums", "perm")}
        row = msgspec.structs.replace(row, topic_sys_flag=sys_flag, **more)
    return row


def _of_members(route: TopicRouteData, members: BrokerData) -> Mapping[str, object]:
    addresses = members.broker_addrs
    servers = [each for address in addresses.values() for each in route.filter_server_table.get(address, ())]
    return {
        "cluster": members.cluster,
        "broker_addrs": {str(key): each for key, each in addresses.items()},
        "zone_name": members.zone_name if isinstance(members.zone_name, str) else None,
        "enable_acting_master": members.enable_acting_master or None,
        "filter_servers": servers or None,
    }


def _mapping(route: TopicRouteData, name: str) -> dict[str, str] | None:
    mappings = route.topic_queue_mapping_by_broker
    found = mappings.get(name) if isinstance(mappings, dict) else None
    if found is None or not isinstance(found.curr_id_map, dict):
        return None
    return {str(logical): str(queue_id) for logical, queue_id in found.curr_id_map.items()}
