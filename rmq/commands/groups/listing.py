"""`rmq group list`."""

from collections.abc import Mapping, Sequence

import click
import msgspec

from remoting.admin.groups import ConsumeStats, GroupConnections, configured_groups
from remoting.protocol.group_kinds import is_system_group
from rmq.cli.options import SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import cluster_names
from rmq.output.patterns import matches
from rmq.site.groups import (
    GroupInQueue,
    Unknown,
    masters_of,
    members_of,
    progress_at,
    progress_in,
    shows_zeros,
    stored_at,
    total_lag,
)
from rmq.site.site import Site, check_complete


class GroupRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group, and on how many masters it has a configuration."""

    group: str
    masters: int


class LongGroupRow(GroupRow, frozen=True, kw_only=True, rename="camel"):
    """The same with who consumes, and how far they are."""

    clients: int
    #: CONSUME_PASSIVELY of push consumers, CONSUME_ACTIVELY of pull consumers, CONSUME_POP.
    consume_type: str | None
    #: CLUSTERING or BROADCASTING.
    message_model: str | None
    #: Messages not consumed, in all queues with a stored offset; `unknown` without any of these.
    lag: int | Unknown
    #: Queues of which it is not known.
    unknown_queues: int
    #: Messages a second.
    consume_tps: float | None


@click.command("list", cls=SiteCommand)
@click.argument("pattern", required=False)
@click.option("--cluster", metavar="NAME", shell_complete=cluster_names, help="only at masters of this cluster")
@click.option("--all", "-a", "shows_all", is_flag=True, help="groups of brokers and tools too")
@click.option("--long", "-l", "is_long", is_flag=True, help="with members, type, lag and rate (203, 208, 43)")
@with_session
async def list_groups(
    session: OperatorSession, pattern: str | None, cluster: str | None, *, shows_all: bool, is_long: bool
) -> None:
    """List the groups that masters have a configuration of (201), whose names contain PATTERN or match it."""
    addresses = [each.address for each in await masters_of(session.site, cluster)]
    answers = await session.site.answers(addresses, configured_groups())
    counts: dict[str, int] = {}
    for name in (name for each in answers if each.error is None for name in each.result):
        if (shows_all or not is_system_group(name)) and matches(name, pattern):
            counts[name] = counts.get(name, 0) + 1
    if is_long:
        reached = [each.address for each in answers if each.error is None]
        session.show(await _long_rows(session.site, reached, dict(sorted(counts.items()))), LongGroupRow)
    else:
        session.show([GroupRow(group=name, masters=count) for name, count in sorted(counts.items())], GroupRow)
    check_complete(answers, "masters")


async def _long_rows(site: Site, addresses: Sequence[str], counts: Mapping[str, int]) -> list[LongGroupRow]:
    connections = await members_of(site, addresses, counts)
    progress: dict[str, dict[str, ConsumeStats]] = {group: {} for group in counts}
    for group, answer in await progress_at(site, addresses, counts, None):
        if answer.error is None:
            progress[group][answer.address] = answer.result
    unclear = {group for group, found in progress.items() if any(map(shows_zeros, found.values()))}
    stored = await stored_at(site, addresses, unclear) if unclear else {}
    rows = []
    for group, count in counts.items():
        queues = [
            queue
            for address, each in progress[group].items()
            for queue in progress_in(group, each, stored.get(address))
        ]
        rates = [each.consume_tps for each in progress[group].values() if each.consume_tps is not None]
        rows.append(_long_row(GroupRow(group=group, masters=count), connections[group], queues, rates))
    return rows


def _long_row(
    group: GroupRow, connections: Sequence[GroupConnections], queues: Sequence[GroupInQueue], rates: Sequence[float]
) -> LongGroupRow:
    lag, unknown = total_lag(queues)
    first = next(iter(connections), None)
    return LongGroupRow(
        group=group.group,
        masters=group.masters,
        clients=len({client.client_id for each in connections for client in each.clients}),
        consume_type=first.consume_type if first else None,
        message_model=first.message_model if first else None,
        lag="unknown" if len(queues) == unknown else lag,
        unknown_queues=unknown,
        consume_tps=sum(rates) if rates else None,
    )
