"""`rmq group list`, `show`, `connections`, `lag` and `offsets`, `create` and `delete`."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import click
import msgspec

from remoting.admin.brokers import broker_runtime
from remoting.admin.groups import GroupClient, GroupConnections, GroupDefinition, configured_groups, group_definition
from remoting.admin.groups import create_group as create_at
from remoting.admin.groups import delete_group as delete_at
from remoting.admin.message_queues import MessageQueue
from remoting.admin.offset_table import offsets_of_groups
from remoting.protocol.group_kinds import is_system_group
from remoting.protocol.releases import release_name
from remoting.protocol.shapes.broker_clients import NewSubscriptionGroup
from rmq.cli.options import ChangeCommand, ListCommand, SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.completion import broker_names, cluster_names, group_names, topic_names
from rmq.failures import WrongUse, sentence_of
from rmq.output.formats import RowKey
from rmq.output.printable import matches
from rmq.site.brokers import (
    BrokerPlace,
    check_gaps,
    chosen_masters,
    gaps_in,
    masters,
    members_of_cluster,
    not_reached,
    places,
)
from rmq.site.changes import SiteChange
from rmq.site.groups import (
    GroupLag,
    LagRow,
    Masters,
    Unknown,
    check_group,
    connections_at,
    held_queues,
    masters_of,
    read_lags,
    unread,
)
from rmq.site.site import Answered, check_complete, check_requests

#: Of pop consumers: all queues of a broker set.
_ALL_QUEUES = -1
_AT_CLUSTER = click.option(
    "--cluster", metavar="NAME", shell_complete=cluster_names, help="at all masters of this cluster"
)
_BROKER = click.option("--broker", metavar="BROKER|HOST:PORT", shell_complete=broker_names, help="only at this master")
_CLUSTER = click.option("--cluster", metavar="NAME", shell_complete=cluster_names, help="only at its masters")
_TOPIC = click.option("--topic", metavar="NAME", shell_complete=topic_names, help="only this topic")


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
@click.option("--all", "-a", "shows_all", is_flag=True, help="include groups of brokers and tools")
@click.option("--long", "-l", "is_long", is_flag=True, help="with members, type, lag and rate (203, 208, 43)")
@with_session
async def list_groups(
    session: OperatorSession, pattern: str | None, cluster: str | None, *, shows_all: bool, is_long: bool
) -> None:
    """List the groups that masters have settings of (201) and whose names contain or match PATTERN.

    If a set is away or has no master, groups may be missing, and the exit code is 7.
    """
    if is_long and session.is_watched:
        raise WrongUse("--long sends three requests for each group: leave it out to watch the names")
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


class GroupShownRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group at one broker: its settings, and how many members are connected to a master."""

    broker_name: str
    #: 0 of a master.
    broker_id: int
    consume_enable: bool | None = None
    consume_broadcast_enable: bool | None = None
    consume_message_orderly: bool | None = None
    retry_queue_nums: int | None = None
    retry_max_times: int | None = None
    consume_timeout_minute: int | None = None
    attributes: dict[str, str] | None = None
    clients: int | None = None
    consume_type: str | None = None
    message_model: str | None = None
    reason: str | None = None


class ConnectionRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    client_id: str
    client_addr: str | None
    language: str | None
    version: str | None
    #: Masters that it is connected to.
    broker_names: list[str]


class SubscriptionRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a group takes of a topic, as the newest of its members has it."""

    topic: str
    expression: str | None
    expression_type: str | None
    #: Where several have different ones.
    broker_names: list[str]


@click.command("show", cls=SiteCommand)
@click.argument("group", shell_complete=group_names)
@_CLUSTER
@with_session
async def show_group(session: OperatorSession, group: str, cluster: str | None) -> None:
    """Show the settings of a group at each master that has it (201), its members there (203), and slaves without it."""
    brokers = await session.site.cluster()
    found, gaps = members_of_cluster(brokers, cluster) if cluster else places(brokers), gaps_in(brokers, cluster)
    definitions = await session.site.answers((each.address for each in found), group_definition(group))
    at = dict(zip(found, definitions, strict=True))
    having = [each for each in masters(found) if at[each].error is not None or at[each].result is not None]
    if not having:
        await check_group(session.site, group, masters(found), gaps)
    connections = await connections_at(session.site, [each.address for each in having], group)
    connected = dict(zip(having, connections, strict=True))
    sets = {each.broker_name for each in having}
    rows = [_shown(place, at[place], connected.get(place)) for place in found if place.broker_name in sets]
    session.show(rows, GroupShownRow)
    check_requests([*definitions, *connections])
    check_gaps(gaps, "their part of the group is not shown")


@click.command("connections", cls=SiteCommand)
@click.argument("group", shell_complete=group_names)
@_CLUSTER
@click.option("--subscriptions", "shows_subscriptions", is_flag=True, help="show their subscriptions instead")
@with_session
async def show_connections(
    session: OperatorSession, group: str, cluster: str | None, *, shows_subscriptions: bool
) -> None:
    """Show the members of a group that are connected to masters (203), or what they subscribe to."""
    found, gaps = await masters_of(session.site, cluster)
    answers = await connections_at(session.site, [each.address for each in found], group)
    at = [
        (place.broker_name, answer.result)
        for place, answer in zip(found, answers, strict=True)
        if answer.error is None and answer.result is not None
    ]
    if not at:
        await check_group(session.site, group, found, gaps)
    if shows_subscriptions:
        session.show(_subscriptions(at), SubscriptionRow)
    else:
        session.show(_connections(at), ConnectionRow)
    if not at:
        session.note(f"no member of {group} is connected")
    check_complete(answers, "masters")
    check_gaps(gaps, "members connected only there are not shown")


def _shown(
    place: BrokerPlace,
    definition: Answered[GroupDefinition | None],
    connected: Answered[GroupConnections | None] | None,
) -> GroupShownRow:
    found, error = definition.found, definition.error
    if found is None:
        reason = "not copied" if error is None else sentence_of(error)
        return GroupShownRow(broker_name=place.broker_name, broker_id=place.broker_id, reason=reason)
    members, error = (connected.found, connected.error) if connected is not None else (None, None)
    count = None if connected is None or error is not None else len(members.clients) if members else 0
    return GroupShownRow(
        broker_name=place.broker_name,
        broker_id=place.broker_id,
        consume_enable=found.is_consume_enabled,
        consume_broadcast_enable=found.is_broadcast_enabled,
        consume_message_orderly=found.is_orderly,
        retry_queue_nums=found.retry_queue_nums,
        retry_max_times=found.retry_max_times,
        consume_timeout_minute=found.consume_timeout_minutes,
        attributes=dict(found.attributes) or None,
        clients=count,
        consume_type=members.consume_type if members else None,
        message_model=members.message_model if members else None,
        reason=None if error is None else sentence_of(error),
    )


def _connections(at: Sequence[tuple[str, GroupConnections]]) -> list[ConnectionRow]:
    brokers: dict[str, list[str]] = {}
    members: dict[str, GroupClient] = {}
    for name, found in at:
        for each in found.clients:
            brokers.setdefault(each.client_id, []).append(name)
            members.setdefault(each.client_id, each)
    return [
        ConnectionRow(
            client_id=client_id,
            client_addr=each.address,
            language=each.language,
            version=None if each.version is None else release_name(each.version) or str(each.version),
            broker_names=brokers[client_id],
        )
        for client_id, each in sorted(members.items())
    ]


def _subscriptions(at: Sequence[tuple[str, GroupConnections]]) -> list[SubscriptionRow]:
    brokers: dict[tuple[str, str, str], list[str]] = {}
    for name, found in at:
        for topic, each in found.subscriptions.items():
            brokers.setdefault((topic, each.expression or "", each.expression_type or ""), []).append(name)
    return [
        SubscriptionRow(topic=topic, expression=expression or None, expression_type=kind or None, broker_names=names)
        for (topic, expression, kind), names in sorted(brokers.items())
    ]


class StoredOffsetRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    topic: str
    broker_name: str
    queue_id: int
    offset: int


@click.command("lag", cls=SiteCommand)
@click.argument("group", shell_complete=group_names)
@_TOPIC
@_CLUSTER
@click.option("--no-clients", is_flag=True, help="do not ask members which queues they hold")
@with_session
async def show_lag(
    session: OperatorSession, group: str, topic: str | None, cluster: str | None, *, no_clients: bool
) -> None:
    """Show the lag of a group in each queue (208), and which member holds it (203, 307).

    A lag is unknown, not 0, if the group has stored no offset (43), if its members broadcast, and if a broker set is
    away or has no master. Queues that a topic no longer has are shown while they hold messages (321).
    """
    site = session.site
    masters = await masters_of(site, cluster)
    read = (await read_lags(site, masters, [group], topic))[group]
    if not read.queues:
        await check_group(site, group, masters.found, masters.gaps)
    holders = {} if no_clients or not read.queues else await _holders(session, group, read.connections)
    lacking = [LagRow(topic, each.broker_name, None, reason=each.reason) for each in read.gaps]
    session.show([*(_with_clients(each, holders) for each in read.queues), *lacking], LagRow)
    if session.is_table:
        session.note(f"{group}: {_summary(read)}")
    check_requests(read.answers)
    check_gaps(read.gaps, f"the lag of {group} there is unknown")


@click.command("offsets", cls=SiteCommand)
@click.argument("group", shell_complete=group_names)
@_TOPIC
@_CLUSTER
@with_session
async def show_offsets(session: OperatorSession, group: str, topic: str | None, cluster: str | None) -> None:
    """Show the offsets that masters have stored of a group (43), including queues that no longer exist."""
    found, gaps = await masters_of(session.site, cluster)
    answers = await session.site.answers((each.address for each in found), offsets_of_groups([group]))
    rows: list[StoredOffsetRow] = [
        StoredOffsetRow(topic=key.topic, broker_name=place.broker_name, queue_id=queue_id, offset=offset)
        for place, answer in zip(found, answers, strict=True)
        if answer.error is None
        for key, offsets in answer.result.items()
        if topic in (None, key.topic)
        for queue_id, offset in offsets.items()
    ]
    if not rows:
        await check_group(session.site, group, found, gaps)
        session.note(f"no master has an offset of {group}" + (f" in {topic}" if topic else ""))
    rows.sort(key=lambda row: (row.topic, row.broker_name, row.queue_id))
    session.show(rows, StoredOffsetRow)
    check_complete(answers, "masters")
    check_gaps(gaps, "offsets stored there are not shown")


async def _holders(
    session: OperatorSession, group: str, connections: Sequence[Answered[GroupConnections | None]]
) -> Mapping[MessageQueue, Sequence[str]]:
    held = await held_queues(session.site, group, connections)
    if held.unknown:
        session.note(f"members that did not say which queues they hold: {', '.join(held.unknown)}")
    return held.clients


def _with_clients(row: LagRow, holders: Mapping[MessageQueue, Sequence[str]]) -> LagRow:
    if row.topic is None or row.broker_name is None or row.queue_id is None:
        return row
    queue = MessageQueue(topic=row.topic, broker_name=row.broker_name, queue_id=row.queue_id)
    of_set = MessageQueue(topic=row.topic, broker_name=row.broker_name, queue_id=_ALL_QUEUES)
    clients = [*holders.get(queue, ()), *holders.get(of_set, ())]
    return msgspec.structs.replace(row, clients=clients or None)


def _summary(read: GroupLag) -> str:
    """Return the lag in words; one that lacks a set is no number."""
    known = f"{sum(read.known)} messages in {_count(len(read.known))}"
    if read.lag is not None and not read.unknown_queues:
        return f"{known} not consumed"
    unknown = [_count(read.unknown_queues)] if read.unknown_queues else []
    unknown += [f"all of {each.broker_name}" for each in read.gaps]
    parts = [f"Known: {known}."] if read.known else []
    if not read.queues:
        at = " at the sets that answer" if read.gaps else ""
        parts.append(f"No offset is stored, and no member consumes a topic{at}.")
    parts += [f"Unknown: {', and '.join(unknown)}."] if unknown else []
    return " ".join([f"lag {'unknown' if read.lag is None else f'at least {read.lag}'}.", *parts])


def _count(queues: int) -> str:
    return f"{queues} queue{'' if queues == 1 else 's'}"


@click.command("create", cls=ChangeCommand)
@click.argument("group")
@_AT_CLUSTER
@_BROKER
@click.option("--no-consume", is_flag=True, help="pulls are refused")
@click.option("--no-broadcast", is_flag=True, help="members that broadcast are refused")
@click.option("--orderly", is_flag=True, help="keep the order of popped messages (brokers of 5.x)")
@click.option("--retry-queues", default=1, show_default=True, type=click.IntRange(0), help="of its retry topic")
@click.option(
    "--retry-max", default=16, show_default=True, type=click.IntRange(-1), help="before the dead-letter topic"
)
@with_session
async def create_group(
    session: OperatorSession,
    group: str,
    cluster: str | None,
    broker: str | None,
    *,
    no_consume: bool,
    no_broadcast: bool,
    orderly: bool,
    retry_queues: int,
    retry_max: int,
) -> None:
    """Create a group at masters (request 200), or replace all settings of an existing one."""
    found, gaps = chosen_masters(await session.site.cluster(), cluster, broker)
    wanted = NewSubscriptionGroup(
        group_name=group,
        consume_enable=not no_consume,
        consume_broadcast_enable=not no_broadcast,
        consume_message_orderly=orderly,
        retry_queue_nums=retry_queues,
        retry_max_times=retry_max,
    )
    request = create_at(wanted)
    answers = await session.site.answers((each.address for each in found), configured_groups())
    exists = any(each.error is None and group in each.result for each in answers)
    changes = [
        SiteChange(each.address, f"create group {group} on {_name(each)}", request, broker_runtime()) for each in found
    ]
    is_known = all(each.error is None for each in answers)
    verb = "Replace all settings of" if exists else "Create" if is_known else "Create, or replace all settings of,"
    await session.change([changes], f"{verb} group {group} on {', '.join(map(_name, found))}?{not_reached(gaps)}")
    check_gaps(gaps, f"group {group} was not created there: repeat this when all sets are back")


@click.command("delete", cls=ChangeCommand)
@click.argument("group", shell_complete=group_names)
@_AT_CLUSTER
@_BROKER
@click.option("--keep-offsets", is_flag=True, help="keep its offsets for a group of the same name")
@with_session
async def delete_group(
    session: OperatorSession, group: str, cluster: str | None, broker: str | None, *, keep_offsets: bool
) -> None:
    """Remove a group from masters, with its offsets (request 207). Its retry and dead-letter topics stay.

    Brokers may create it again for members that are online.
    """
    found, gaps = chosen_masters(await session.site.cluster(), cluster, broker)
    await check_group(session.site, group, found, gaps)
    request = delete_at(group, cleans_offsets=not keep_offsets)
    what = f"group {group}{'' if keep_offsets else ' and its offsets'}"
    changes = [SiteChange(each.address, f"delete {what} on {_name(each)}", request, broker_runtime()) for each in found]
    await session.change([changes], f"Delete {what} on {', '.join(map(_name, found))}?{not_reached(gaps)}")
    check_gaps(gaps, "the group returns with them")


def _name(place: BrokerPlace) -> str:
    return place.broker_name or place.address
