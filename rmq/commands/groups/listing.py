"""`rmq group list`."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import click
import msgspec

from remoting.admin.groups import ConsumeStats, GroupConnections, configured_groups
from remoting.protocol.group_kinds import is_system_group
from rmq.cli.options import ListCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import cluster_names
from rmq.failures import WrongUse
from rmq.output.patterns import matches
from rmq.output.rows import RowKey
from rmq.site.groups import (
    StoredOffsets,
    Unknown,
    masters_of,
    members_of,
    progress_at,
    progress_in,
    shows_zeros,
    stored_at,
    total_lag,
)
from rmq.site.site import Answered, Site, check_complete, check_requests


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
    #: Messages not consumed, in all queues with a stored offset; `unknown` without any of these, or where a master did
    #: not answer.
    lag: int | Unknown
    #: Queues of which it is not known.
    unknown_queues: int
    #: Messages a second.
    consume_tps: float | None


class _ReadGroup(NamedTuple):
    """What masters answer about a group."""

    connections: Sequence[Answered[GroupConnections | None]]
    progress: Sequence[Answered[ConsumeStats]]
    #: By address.
    stored: Mapping[str, StoredOffsets]

    def all_answers(self) -> list[Answered[Any]]:
        return [*self.connections, *self.progress]


@click.command("list", cls=ListCommand)
@click.argument("pattern", required=False)
@click.option("--cluster", metavar="NAME", shell_complete=cluster_names, help="only at masters of this cluster")
@click.option("--all", "-a", "shows_all", is_flag=True, help="groups of brokers and tools too")
@click.option("--long", "-l", "is_long", is_flag=True, help="with members, type, lag and rate (203, 208, 43)")
@with_session
async def list_groups(
    session: OperatorSession, pattern: str | None, cluster: str | None, *, shows_all: bool, is_long: bool
) -> None:
    """List the groups that masters have a configuration of (201), whose names contain PATTERN or match it."""
    if is_long and session.is_watched:
        raise WrongUse("--long sends three requests for each group: watch the names without it")
    addresses = [each.address for each in await masters_of(session.site, cluster)]
    answers = await session.site.answers(addresses, configured_groups())
    counts: dict[str, int] = {}
    for name in (name for each in answers if each.error is None for name in each.result):
        if (shows_all or not is_system_group(name)) and matches(name, pattern):
            counts[name] = counts.get(name, 0) + 1
    if not is_long:
        rows = [GroupRow(group=name, masters=count) for name, count in sorted(counts.items())]
        session.show(rows, GroupRow, is_partial=any(each.error is not None for each in answers))
        check_complete(answers, "masters")
        return
    reached = [each.address for each in answers if each.error is None]
    found = await _read(session.site, reached, list(counts))
    session.show([_long_row(name, count, found[name]) for name, count in sorted(counts.items())], LongGroupRow)
    of_groups = [answer for each in found.values() for answer in each.all_answers()]
    check_requests([*answers, *of_groups])


async def _read(site: Site, addresses: Sequence[str], groups: Sequence[str]) -> dict[str, _ReadGroup]:
    connections = await members_of(site, addresses, groups)
    progress: dict[str, list[Answered[ConsumeStats]]] = {group: [] for group in groups}
    for group, answer in await progress_at(site, addresses, groups, None):
        progress[group].append(answer)
    unclear = {
        group
        for group, answers in progress.items()
        if any(each.error is None and shows_zeros(each.result) for each in answers)
    }
    stored = await stored_at(site, addresses, unclear) if unclear else {}
    return {group: _ReadGroup(connections[group], progress[group], stored) for group in groups}


def _long_row(group: str, masters: int, read: _ReadGroup) -> LongGroupRow:
    progress = [(each.address, each.result) for each in read.progress if each.error is None]
    queues = [each for address, found in progress for each in progress_in(group, found, read.stored.get(address))]
    lag, unknown = total_lag(queues)
    rates = [found.consume_tps for _, found in progress if found.consume_tps is not None]
    connections = [each.result for each in read.connections if each.error is None and each.result is not None]
    clients = {client.client_id for each in connections for client in each.clients}
    first = next(iter(connections), None)
    return LongGroupRow(
        group=group,
        masters=masters,
        clients=len(clients) if all(each.error is None for each in read.connections) else "unknown",
        consume_type=first.consume_type if first else None,
        message_model=first.message_model if first else None,
        lag="unknown" if len(queues) == unknown or len(progress) < len(read.progress) else lag,
        unknown_queues=unknown,
        consume_tps=sum(rates) if rates else None,
    )
