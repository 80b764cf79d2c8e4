"""`rmq group show` and `rmq group connections`."""

from collections.abc import Sequence

import click
import msgspec

from remoting.admin.groups import GroupClient, GroupConnections, GroupDefinition, group_definition
from remoting.protocol.releases import release_name
from rmq.cli.options import SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import cluster_names, group_names
from rmq.failures import sentence_of
from rmq.site.brokers import BrokerPlace, check_gaps, gaps_in, masters, members_of_cluster, places
from rmq.site.groups import check_group, connections_at, masters_of
from rmq.site.site import Answered, check_complete, check_requests


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
    """A member of a group."""

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


_CLUSTER = click.option("--cluster", metavar="NAME", shell_complete=cluster_names, help="only at its masters")


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
    check_gaps(gaps, "what they have of the group is not shown")


@click.command("connections", cls=SiteCommand)
@click.argument("group", shell_complete=group_names)
@_CLUSTER
@click.option("--subscriptions", "shows_subscriptions", is_flag=True, help="what they subscribe to, in place of them")
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
    check_gaps(gaps, "members that only they have are not shown")


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
