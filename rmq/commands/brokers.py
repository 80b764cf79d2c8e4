"""`rmq cluster` and `rmq broker`."""

from collections.abc import Callable
from typing import ClassVar, Literal

import click
import msgspec

from remoting.admin.admin_request import AdminRequest
from remoting.admin.brokers import BrokerRuntime, broker_facts, broker_runtime
from remoting.admin.name_servers import add_write_perm, wipe_write_perm
from remoting.admin.routes import AwaySet
from remoting.protocol.shapes.route import MASTER_ID
from rmq.cli.options import ChangeCommand, ListCommand, SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.completion import broker_names, cluster_names
from rmq.failures import CommandFailed, PartlyDone, UnknownName, sentence_of, unknown_sentence
from rmq.output.formats import RowKey, row_of
from rmq.site.brokers import (
    BrokerPlace,
    away_sentence,
    check_gaps,
    gaps_in,
    members_at,
    members_of_cluster,
    places,
    set_of,
)
from rmq.site.changes import ChangeRow, at_every_name_server
from rmq.site.http_api import ApiRequest, HttpServers, call, path_of
from rmq.site.site import Answered, check_complete, grouped


class ClusterRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
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
    """List the clusters that NameServers know. Exit code 7 if broker sets are away or have no master."""
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
    broker_addr: str
    name: str
    value: str


@click.command("list", cls=ListCommand)
@click.option("--cluster", metavar="NAME", shell_complete=cluster_names, help="only brokers of this cluster")
@click.option("--no-runtime", is_flag=True, help="show only what NameServers know: send brokers no requests")
@with_session
async def list_brokers(session: OperatorSession, cluster: str | None, *, no_runtime: bool) -> None:
    """List brokers, including those of sets that are away. Exit code 7 if one does not answer."""
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
    """Show what a broker, or each broker of a set, reports about itself (request 28)."""
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
    role = "master" if place.broker_id == MASTER_ID else "slave"
    listed = row_of(BrokerRow, place, broker_addr=place.address, role=role)
    if answer is None:
        return listed
    if answer.error is not None:
        return msgspec.structs.replace(listed, reason=sentence_of(answer.error))
    found = answer.result
    same = {name: getattr(found, name) for name in ("version", "boot_unix_ms", "put_tps", "dispatch_behind_bytes")}
    return msgspec.structs.replace(listed, max_offset=found.commit_log_max_offset, **same)


@click.command("drain-write", cls=ChangeCommand)
@click.argument("broker", shell_complete=broker_names)
@with_session
async def drain_write(session: OperatorSession, broker: str) -> None:
    """Stop producers from sending to a broker set: revoke write permission at every NameServer (request 205).

    Producers follow with their next route, within 30 s; consumers read on. Any change of a topic, or a restart of the
    broker, gives the permission back.
    """
    await _at_all(session, broker, "drain-write", wipe_write_perm)


@click.command("restore-write", cls=ChangeCommand)
@click.argument("broker", shell_complete=broker_names)
@with_session
async def restore_write(session: OperatorSession, broker: str) -> None:
    """Give all topics of a broker set read and write permission, at every NameServer (request 327).

    Read-only topics get it too, until any topic changes or the broker restarts.
    """
    await _at_all(session, broker, "restore-write", add_write_perm)


async def _at_all(
    session: OperatorSession, broker: str, verb: str, request: Callable[[str], AdminRequest[int]]
) -> None:
    # An unknown broker would be answered with 0 topics.
    set_of(await session.site.cluster(), broker)
    wanted = request(broker).mapped(lambda topics: f"{topics} topics")
    changes = at_every_name_server(session.site, f"{verb} {broker}", wanted)
    await session.change([changes], f"{verb} {broker} at {len(changes)} NameServers?")


class AnyAnswer(msgspec.Struct, frozen=True):
    """That a NameServer has done it is all that matters of its answer."""


@click.command("forget", cls=ChangeCommand)
@click.argument("broker")
@with_session
async def forget_set(session: OperatorSession, broker: str) -> None:
    """Make every NameServer forget a decommissioned broker set, which is no longer shown as away.

    Needs --namesrv-http and the admin token. Controllers forget a set with `rmq controller clean`.
    """
    known = await session.site.cluster()
    away = known.away.get(broker)
    if broker in known.broker_sets:
        raise CommandFailed(f"{broker} is registered: there is nothing to forget")
    if away is None:
        raise UnknownName(unknown_sentence("away broker set named", broker, known.away))
    settings, what = session.site.settings, f"forget {broker}"
    if session.is_dry_run:
        request = ApiRequest(path_of("broker-sets", "away"), AnyAnswer, {"limit": "1"})
    else:
        session.confirm(f"Forget {broker}, {away_sentence(away)}?")
        request = ApiRequest(path_of("broker-sets", "away", broker), AnyAnswer, method="DELETE")
    state: Literal["planned", "done"] = "planned" if session.is_dry_run else "done"
    rows: list[ChangeRow] = []
    failures: list[CommandFailed] = []
    for url in settings.namesrv_http:
        try:
            await call(settings, HttpServers((url,), "NameServer", "--namesrv-http"), request)
            rows.append(ChangeRow(address=url, change=what, state=state))
        except UnknownName:
            rows.append(ChangeRow(address=url, change=what, state=state, detail="it did not know the set"))
        except CommandFailed as failure:
            failures.append(failure)
            rows.append(ChangeRow(address=url, change=what, state="failed", detail=str(failure)))
    session.show(rows, ChangeRow)
    if failures:
        raise failures[0] if len(failures) == len(rows) else PartlyDone("; ".join(map(str, failures)))
