"""`rmq cluster`."""

from typing import ClassVar

import click
import msgspec

from remoting.protocol.shapes.route import MASTER_ID
from rmq.cli.options import ListCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.output.rows import RowKey
from rmq.site.brokers import places
from rmq.site.site import grouped


class ClusterRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A cluster, as one NameServer knows it."""

    row_key: ClassVar[RowKey] = ("cluster",)

    cluster: str
    broker_sets: int
    brokers: int
    masters: int
    #: Sets of which only slaves are alive.
    without_master: list[str] | None


@click.command("list", cls=ListCommand)
@with_session
async def list_clusters(session: OperatorSession) -> None:
    """List clusters, as the first NameServer that answers knows them."""
    session.changes_with_brokers()
    brokers = await session.site.cluster()
    members = grouped(places(brokers), lambda each: each.cluster)
    rows = []
    for cluster in sorted({*brokers.clusters, *members}):
        found = members.get(cluster, [])
        with_master = {each.broker_name for each in found if each.broker_id == MASTER_ID}
        without = sorted({each.broker_name for each in found} - with_master)
        rows.append(
            ClusterRow(
                cluster=cluster,
                broker_sets=len({each.broker_name for each in found}),
                brokers=len(found),
                masters=len(with_master),
                without_master=without or None,
            )
        )
    session.show(rows, ClusterRow)
