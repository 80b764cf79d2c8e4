"""`rmq broker list` and `rmq broker show`."""

from typing import ClassVar, Literal

import click
import msgspec

from remoting.admin.brokers import BrokerRuntime, broker_facts, broker_runtime
from remoting.admin.routes import AwaySet
from remoting.protocol.shapes.route import MASTER_ID
from rmq.cli.options import ListCommand, SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import broker_names, cluster_names
from rmq.failures import sentence_of
from rmq.output.rows import RowKey
from rmq.site.brokers import (
    BrokerPlace,
    away_sentence,
    check_gaps,
    gaps_in,
    members_at,
    members_of_cluster,
    places,
)
from rmq.site.site import Answered, check_complete


class BrokerRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A broker: where a NameServer lists it, and what it reports itself."""

    row_key: ClassVar[RowKey] = ("broker_addr",)

    cluster: str
    broker_name: str
    broker_id: int
    broker_addr: str
    role: Literal["master", "slave"]
    version: str | None = None
    boot_unix_ms: int | None = None
    #: Messages a second over the last 10 s.
    put_tps: float | None = None
    #: Where its log ends.
    max_offset: int | None = None
    dispatch_behind_bytes: int | None = None
    #: Its set is away: no broker of it is registered.
    away_since_unix_ms: int | None = None
    #: Why it did not answer.
    reason: str | None = None


class FactRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that a broker reports about itself."""

    broker_addr: str
    name: str
    value: str


@click.command("list", cls=ListCommand)
@click.option("--cluster", metavar="NAME", shell_complete=cluster_names, help="only brokers of this cluster")
@click.option("--no-runtime", is_flag=True, help="only what the NameServer knows: no request to a broker")
@with_session
async def list_brokers(session: OperatorSession, cluster: str | None, *, no_runtime: bool) -> None:
    """List brokers, and those that sets had which are away. With one that does not answer the exit code is 7."""
    brokers = await session.site.cluster()
    found = members_of_cluster(brokers, cluster) if cluster else places(brokers)
    gone = [each for each in brokers.away.values() if cluster in (None, each.cluster)]
    away = [row for each in gone for row in _away_rows(each)]
    if no_runtime:
        session.changes_with_brokers()
        session.show([*(_row(each, None) for each in found), *away], BrokerRow)
    else:
        answers = await session.site.answers((each.address for each in found), broker_runtime())
        rows = [_row(each, answer) for each, answer in zip(found, answers, strict=True)]
        session.show([*rows, *away], BrokerRow)
        check_complete(answers, "brokers")
    check_gaps(gaps_in(brokers, cluster))


@click.command("show", cls=SiteCommand)
@click.argument("broker", metavar="BROKER|HOST:PORT", shell_complete=broker_names)
@with_session
async def show_broker(session: OperatorSession, broker: str) -> None:
    """Show what the brokers of a set, or the one at an address, report about themselves (request 28)."""
    found = members_at(await session.site.cluster(), broker)
    answers = await session.site.answers((each.address for each in found), broker_facts())
    rows = [
        FactRow(broker_addr=each.address, name=name, value=value.strip())
        for each in answers
        if each.error is None
        for name, value in sorted(each.result.items())
    ]
    if rows:
        session.show(rows, FactRow)
    check_complete(answers, "brokers")


def _away_rows(away: AwaySet) -> list[BrokerRow]:
    rows = [
        _row(BrokerPlace(away.cluster, away.broker_name, *each), None) for each in sorted(away.broker_addrs.items())
    ]
    more = {"away_since_unix_ms": away.away_since_unix_ms, "reason": away_sentence(away)}
    return [msgspec.structs.replace(row, **more) for row in rows]


def _row(place: BrokerPlace, answer: Answered[BrokerRuntime] | None) -> BrokerRow:
    listed = BrokerRow(
        cluster=place.cluster,
        broker_name=place.broker_name,
        broker_id=place.broker_id,
        broker_addr=place.address,
        role="master" if place.broker_id == MASTER_ID else "slave",
    )
    if answer is None:
        return listed
    if answer.error is not None:
        return msgspec.structs.replace(listed, reason=sentence_of(answer.error))
    runtime = answer.result
    return msgspec.structs.replace(
        listed,
        version=runtime.version,
        boot_unix_ms=runtime.boot_unix_ms,
        put_tps=runtime.put_tps,
        max_offset=runtime.commit_log_max_offset,
        dispatch_behind_bytes=runtime.dispatch_behind_bytes,
    )
