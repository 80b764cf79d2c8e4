"""`rmq offsets orderly`, `declare-orderly`, `undeclare`, `holders` and `overlaps`: queue locks over a failover."""

import click
from msgspec.structs import asdict

from rmq.cli.operator_name import operator_name
from rmq.cli.options import ChangeCommand, ListCommand, SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import cluster_names, group_names
from rmq.commands.offsets.asking import manager_answer, pages
from rmq.site.http_api import ApiRequest, path_of
from rmq.site.offset_documents import HeldQueueRow
from serving.shapes.offsets import (
    GroupBody,
    HolderListing,
    OrderlyAnswer,
    OrderlyGroupListing,
    OrderlyGroupView,
    OverlapListing,
    OverlapView,
)

_GROUP = click.argument("group", shell_complete=group_names)
_CLUSTER = click.option(
    "--cluster", metavar="NAME", default="DefaultCluster", show_default=True, shell_complete=cluster_names
)


@click.command("orderly", cls=ListCommand)
@with_session
async def list_orderly(session: OperatorSession) -> None:
    """List the groups that are declared orderly: the manager watches who holds their queues."""
    found = await pages(session, path_of("locks", "orderly-groups"), OrderlyGroupListing)
    session.show([row for page in found for row in page.groups], OrderlyGroupView)


@click.command("overlaps", cls=ListCommand)
@with_session
async def list_overlaps(session: OperatorSession) -> None:
    """List queues of declared groups that two clients hold at the same time: both may consume them."""
    found = await pages(session, path_of("locks", "overlaps"), OverlapListing)
    session.show([row for page in found for row in page.overlaps], OverlapView)


@click.command("holders", cls=SiteCommand)
@_GROUP
@_CLUSTER
@with_session
async def list_holders(session: OperatorSession, group: str, cluster: str) -> None:
    """List which client holds which queue of a declared group, by the last answers of its clients."""
    found = await pages(session, path_of("locks", "holders"), HolderListing, {"group": group, "cluster": cluster})
    holders = [holder for page in found for holder in page.holders]
    rows = [HeldQueueRow(client_id=holder.client_id, **asdict(queue)) for holder in holders for queue in holder.queues]
    session.show(rows, HeldQueueRow)
    if not found[0].is_declared:
        session.note(
            f"{group} is not declared orderly, so its clients are not asked: rmq offsets declare-orderly {group}"
        )
    elif found[0].kind == "concurrent":
        session.note(f"a client is not orderly, so no lock is replayed: rmq offsets undeclare {group}")
    else:
        session.note(f"clients of {group} that brokers list: {found[0].members}")


@click.command("declare-orderly", cls=ChangeCommand)
@_GROUP
@_CLUSTER
@with_session
async def declare_orderly(session: OperatorSession, group: str, cluster: str) -> None:
    """Declare a group orderly. Never one with concurrent consumers: a lock makes dead letters of their retries."""
    await _change(session, "declare-orderly", group, cluster)


@click.command("undeclare", cls=ChangeCommand)
@_GROUP
@_CLUSTER
@with_session
async def undeclare(session: OperatorSession, group: str, cluster: str) -> None:
    """Take the declaration of an orderly group back: its holders are not watched any more."""
    await _change(session, "undeclare", group, cluster)


async def _change(session: OperatorSession, what: str, group: str, cluster: str) -> None:
    if session.is_dry_run:
        session.show([OrderlyGroupView(cluster=cluster, group=group)], OrderlyGroupView)
        return
    session.confirm(f"{what.replace('-orderly', '').capitalize()} group {group} of {cluster}?")
    wanted = GroupBody(writer=operator_name(), cluster=cluster, group=group)
    request = ApiRequest(path_of("locks", what), OrderlyAnswer, {}, "POST", wanted)
    if not (await manager_answer(session, request)).changed:
        session.note("it was so already")
