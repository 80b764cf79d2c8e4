"""`rmq cluster`."""

from typing import ClassVar

import click
import msgspec

from remoting.protocol.shapes.route import MASTER_ID
from rmq.cli.options import ListCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.output.rows import RowKey
from rmq.site.brokers import check_gaps, gaps_in, places
from rmq.site.site import grouped


class ClusterRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A cluster, as NameServers know it together."""

    row_key: ClassVar[RowKey] = ("cluster",)

    cluster: str
    broker_sets: int
    brokers: int
    masters: int
    #: Sets of which only slaves are alive.
    without_master: list[str] | None
    #: Sets of which no broker is registered now, and since when the first of them is not.
    away: list[str] | None
    away_since_unix_ms: int | None


@click.command("list", cls=ListCommand)
@with_session
async def list_clusters(session: OperatorSession) -> None:
    """List clusters, as NameServers know them together. With sets that are away the exit code is 7."""
    session.changes_with_brokers()
    brokers = await session.site.cluster()
    members = grouped(places(brokers), lambda each: each.cluster)
    gone = grouped(sorted(brokers.away.values(), key=lambda each: each.broker_name), lambda each: each.cluster)
    rows = []
    for cluster in sorted({*brokers.clusters, *members, *gone}):
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
                away=[each.broker_name for each in gone.get(cluster, []) if not each.is_starting] or None,
                away_since_unix_ms=min(
                    (each.away_since_unix_ms for each in gone.get(cluster, []) if each.away_since_unix_ms is not None),
                    default=None,
                ),
            )
        )
    session.show(rows, ClusterRow)
    check_gaps(gaps_in(brokers))
