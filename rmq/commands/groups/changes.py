"""`rmq group create` and `rmq group delete`, as mqadmin's updateSubGroup and deleteSubGroup send them."""

from typing import TypedDict, Unpack

import click

from remoting.admin.brokers import broker_runtime
from remoting.admin.groups import configured_groups
from remoting.admin.groups import create_group as create_at
from remoting.admin.groups import delete_group as delete_at
from remoting.protocol.shapes.broker_clients import NewSubscriptionGroup
from rmq.cli.options import ChangeCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import broker_names, cluster_names, group_names
from rmq.site.brokers import BrokerPlace, check_gaps, chosen_masters, not_reached
from rmq.site.changes import SiteChange
from rmq.site.groups import check_group

_CLUSTER = click.option(
    "--cluster", metavar="NAME", shell_complete=cluster_names, help="at all masters of this cluster"
)
_BROKER = click.option("--broker", metavar="BROKER|HOST:PORT", shell_complete=broker_names, help="at this master alone")


class GroupCreation(TypedDict):
    """What `create` takes beside the name."""

    cluster: str | None
    broker: str | None
    no_consume: bool
    no_broadcast: bool
    orderly: bool
    retry_queues: int
    retry_max: int


@click.command("create", cls=ChangeCommand)
@click.argument("group")
@_CLUSTER
@_BROKER
@click.option("--no-consume", is_flag=True, help="pulls are refused")
@click.option("--no-broadcast", is_flag=True, help="members that broadcast are refused")
@click.option("--orderly", is_flag=True, help="brokers of 5.x keep the order of messages that are popped")
@click.option("--retry-queues", default=1, show_default=True, type=click.IntRange(0), help="of its retry topic")
@click.option(
    "--retry-max", default=16, show_default=True, type=click.IntRange(-1), help="before the dead-letter topic"
)
@with_session
async def create_group(session: OperatorSession, group: str, **chosen: Unpack[GroupCreation]) -> None:
    """Create a group at masters (request 200). Of one that exists all settings are replaced, after a question."""
    found, gaps = chosen_masters(await session.site.cluster(), chosen["cluster"], chosen["broker"])
    wanted = NewSubscriptionGroup(
        group_name=group,
        consume_enable=not chosen["no_consume"],
        consume_broadcast_enable=not chosen["no_broadcast"],
        consume_message_orderly=chosen["orderly"],
        retry_queue_nums=chosen["retry_queues"],
        retry_max_times=chosen["retry_max"],
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
    check_gaps(gaps, f"group {group} is not created there: create it again once all are back")


@click.command("delete", cls=ChangeCommand)
@click.argument("group", shell_complete=group_names)
@_CLUSTER
@_BROKER
@click.option("--keep-offsets", is_flag=True, help="its offsets stay: a group of this name goes on there")
@with_session
async def delete_group(
    session: OperatorSession, group: str, cluster: str | None, broker: str | None, *, keep_offsets: bool
) -> None:
    """Remove a group from masters, with its offsets (request 207). Its retry and dead-letter topics stay.

    Members that are online may let brokers create it again.
    """
    found, gaps = chosen_masters(await session.site.cluster(), cluster, broker)
    await check_group(session.site, group, found, gaps)
    request = delete_at(group, cleans_offsets=not keep_offsets)
    what = f"group {group}{'' if keep_offsets else ' and its offsets'}"
    changes = [SiteChange(each.address, f"delete {what} on {_name(each)}", request, broker_runtime()) for each in found]
    await session.change([changes], f"Delete {what} on {', '.join(map(_name, found))}?{not_reached(gaps)}")
    check_gaps(gaps, "the group comes back with it")


def _name(place: BrokerPlace) -> str:
    return place.broker_name or place.address
