"""`rmq offsets sets`, `jumps`, `operations`, `lag` and `groups`."""

import click

from rmq.cli.options import ListCommand, SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import broker_names, cluster_names, group_names, topic_names
from rmq.commands.offsets.asking import check_follows, manager_answer, pages
from rmq.failures import PartlyDone, first_of
from rmq.output.rows import rows_of
from rmq.site.http_api import ApiRequest, path_of
from rmq.site.offset_documents import JumpPage, JumpRow, LagRow, OperationRow, SetPage, SetRow
from serving.shapes.offsets import KeptOperationListing, LagListing, TopicGroupListing, TopicGroupView

_CAUSES = ("failover", "restart", "lost", "reset", "deleted")
#: The manager reads brokers for 20 s at most.
_LAG_TIMEOUT_S = 30.0


@click.command("sets", cls=ListCommand)
@with_session
async def list_sets(session: OperatorSession) -> None:
    """List how fresh the readings of each broker set are, since when they are kept, and which replicas copy offsets."""
    rows = [row for page in await pages(session, path_of("offsets", "sets"), SetPage) for row in page.sets]
    if not rows:
        await check_follows(session)
    session.show(rows, SetRow)


@click.command("jumps", cls=SiteCommand)
@click.option("--group", metavar="NAME", shell_complete=group_names, help="only of this group")
@click.option("--topic", metavar="NAME", shell_complete=topic_names, help="only in this topic")
@click.option("--broker", metavar="BROKER", shell_complete=broker_names, help="only on this broker set")
@click.option("--cause", type=click.Choice(_CAUSES), help="only for this cause")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 1000), help="rows at most")
@with_session
async def list_jumps(
    session: OperatorSession, group: str | None, topic: str | None, broker: str | None, cause: str | None, limit: int
) -> None:
    """List offsets that went back at brokers, or forward to where nothing was read, the newest first.

    failover, restart: the new master had older offsets. lost: its log has lost its end too. reset, deleted: somebody
    did that.
    """
    wanted = {"group": group, "topic": topic, "broker": broker, "cause": cause, "limit": str(limit)}
    parameters = {name: value for name, value in wanted.items() if value}
    found = await manager_answer(session, ApiRequest(path_of("offsets", "jumps"), JumpPage, parameters))
    if not found.jumps:
        await check_follows(session)
    session.show(found.jumps, JumpRow)


@click.command("operations", cls=SiteCommand)
@with_session
async def list_operations(session: OperatorSession) -> None:
    """List the restores, imports and undoes at brokers that can be undone, the newest first."""
    found = await manager_answer(session, ApiRequest(path_of("offsets", "operations"), KeptOperationListing))
    session.show(rows_of(OperationRow, found.operations), OperationRow)


@click.command("lag", cls=SiteCommand)
@click.argument("group", shell_complete=group_names)
@click.option("--topic", metavar="NAME", shell_complete=topic_names, help="only in this topic")
@click.option("--cluster", metavar="NAME", default="DefaultCluster", show_default=True, shell_complete=cluster_names)
@click.option("--namespace", metavar="NAME", default="", help="of the manager's own offsets")
@with_session
async def show_lag(session: OperatorSession, group: str, topic: str | None, cluster: str, namespace: str) -> None:
    """Show how far a group is behind in each queue, with the offsets that it commits to the offset manager.

    `rmq group lag` asks brokers alone, and shows who holds each queue.
    """
    wanted = {"group": group, "topic": topic, "cluster": cluster, "namespace": namespace}
    parameters = {name: value for name, value in wanted.items() if value}
    request = ApiRequest(path_of("offsets", "lag"), LagListing, parameters, timeout_s=_LAG_TIMEOUT_S)
    found = await manager_answer(session, request)
    if not found.queues and not found.unavailable:
        await check_follows(session)
        session.note(f"{group} has no offset in {cluster}, at brokers and in the offset manager")
    session.show(rows_of(LagRow, found.queues), LagRow, is_partial=bool(found.unavailable))
    for problem in found.unavailable:
        session.note(f"{problem.broker_name}: {problem.reason}")
    if found.known_lag is not None:
        session.note(f"{found.known_lag} messages" + (f", and {found.unknown} queues unknown" if found.unknown else ""))
    if found.unavailable:
        raise PartlyDone(f"not known: {first_of(problem.broker_name for problem in found.unavailable)}")


@click.command("groups", cls=ListCommand)
@click.argument("topic", shell_complete=topic_names)
@with_session
async def list_groups(session: OperatorSession, topic: str) -> None:
    """List the groups that have offsets in a topic at brokers: they read it, or have read it."""
    found = await pages(session, path_of("offsets", "groups"), TopicGroupListing, {"topic": topic})
    rows = [row for page in found for row in page.groups]
    if not rows:
        await check_follows(session)
        session.note(f"no group has an offset in {topic}, at the brokers that `rmq offsets sets` lists")
    session.show(rows, TopicGroupView)
