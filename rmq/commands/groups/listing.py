"""`rmq group list`."""

from typing import ClassVar

import click
import msgspec

from remoting.admin.groups import configured_groups
from remoting.protocol.group_kinds import is_system_group
from rmq.cli.options import ListCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import cluster_names
from rmq.failures import WrongUse
from rmq.output.patterns import matches
from rmq.output.rows import RowKey
from rmq.site.brokers import check_gaps
from rmq.site.group_lag import GroupLag, Unknown, read_lags, unread
from rmq.site.groups import Masters, masters_of
from rmq.site.site import check_complete, check_requests


class GroupRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group, and on how many masters it has a configuration."""

    row_key: ClassVar[RowKey] = ("group",)

    group: str
    masters: int


class LongGroupRow(GroupRow, frozen=True, kw_only=True, rename="camel"):
    """The same with who consumes, and how far they are."""

    #: `unknown` where a master did not answer.
    clients: int | Unknown
    #: CONSUME_PASSIVELY of push consumers, CONSUME_ACTIVELY of pull consumers, CONSUME_POP.
    consume_type: str | None
    #: CLUSTERING or BROADCASTING.
    message_model: str | None
    #: Messages not consumed, where that is known; `unknown` instead of 0 with unknown queues, or if a set is lacking.
    lag: int | Unknown
    #: Queues of which it is not known.
    unknown_queues: int
    #: Messages a second.
    consume_tps: float | None


@click.command("list", cls=ListCommand)
@click.argument("pattern", required=False)
@click.option("--cluster", metavar="NAME", shell_complete=cluster_names, help="only at masters of this cluster")
@click.option("--all", "-a", "shows_all", is_flag=True, help="groups of brokers and tools too")
@click.option("--long", "-l", "is_long", is_flag=True, help="with members, type, lag and rate (203, 208, 43)")
@with_session
async def list_groups(
    session: OperatorSession, pattern: str | None, cluster: str | None, *, shows_all: bool, is_long: bool
) -> None:
    """List the groups that masters have a configuration of (201), whose names contain PATTERN or match it.

    Where a set is away, or has no master, groups may be missing, and the exit code is 7.
    """
    if is_long and session.is_watched:
        raise WrongUse("--long sends three requests for each group: watch the names without it")
    masters = await masters_of(session.site, cluster)
    answers = await session.site.answers((each.address for each in masters.found), configured_groups())
    counts: dict[str, int] = {}
    for name in (name for each in answers if each.error is None for name in each.result):
        if (shows_all or not is_system_group(name)) and matches(name, pattern):
            counts[name] = counts.get(name, 0) + 1
    if not is_long:
        rows = [GroupRow(group=name, masters=count) for name, count in sorted(counts.items())]
        is_partial = bool(masters.gaps) or any(each.error is not None for each in answers)
        session.show(rows, GroupRow, is_partial=is_partial)
        check_complete(answers, "masters")
    else:
        at = [place for place, each in zip(masters.found, answers, strict=True) if each.error is None]
        gaps = [*masters.gaps, *(unread(*each) for each in zip(masters.found, answers, strict=True) if each[1].error)]
        read = await read_lags(session.site, Masters(at, gaps), list(counts), None)
        session.show([_long_row(name, count, read[name]) for name, count in sorted(counts.items())], LongGroupRow)
        check_requests([*answers, *(answer for each in read.values() for answer in each.answers)])
    check_gaps(masters.gaps, "their groups are not shown")


def _long_row(group: str, masters: int, read: GroupLag) -> LongGroupRow:
    rates = [each.result.consume_tps for each in read.progress if each.error is None]
    connections = [each.result for each in read.connections if each.error is None and each.result is not None]
    clients = {client.client_id for each in connections for client in each.clients}
    first = next(iter(connections), None)
    known_rates = [each for each in rates if each is not None]
    return LongGroupRow(
        group=group,
        masters=masters,
        clients=len(clients) if all(each.error is None for each in read.connections) else "unknown",
        consume_type=first.consume_type if first else None,
        message_model=first.message_model if first else None,
        lag="unknown" if read.lag is None else read.lag,
        unknown_queues=read.unknown_queues,
        consume_tps=sum(known_rates) if known_rates else None,
    )
