"""`rmq controller`: who leads, broker sets, elections; `elect` and `clean` as mqadmin sends them."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import ClassVar, Final, Literal

import click
import msgspec

from remoting.admin.configuration import server_config
from remoting.admin.controllers import (
    ElectionAnswer,
    ReportedBrokerSet,
    ReportedMetadata,
    clean_broker_data,
    controller_metadata,
    elect_master,
)
from remoting.protocol.errors import BodyError
from rmq.cli.options import ChangeCommand, ListCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.completion import broker_names, cluster_names
from rmq.failures import UnknownName, WrongUse, sentence_of, unknown_sentence
from rmq.output.formats import RowKey, row_of, row_type, rows_of
from rmq.site.changes import SiteChange
from rmq.site.http_api import ApiRequest, call, controllers
from rmq.site.site import Answered, Site, check_complete

#: As many as a controller keeps.
_ELECTIONS_MAX: Final = 1_000
_UNCLEAN: Final = "enableElectUncleanMaster"
_CLUSTER: Final = click.option(
    "--cluster",
    metavar="NAME",
    shell_complete=cluster_names,
    help="its cluster; needed if a Java controller leads and no NameServer knows the set",
)


class ControllerRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    row_key: ClassVar[RowKey] = ("address",)

    address: str
    role: Literal["leader", "follower", "failed"]
    group: str | None = None
    leader_id: str | None = None
    leader_address: str | None = None
    peers: str | None = None
    reason: str | None = None


class ReplicaRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One broker of a set, as the leading controller knows it."""

    row_key: ClassVar[RowKey] = ("broker_name", "broker_id")

    broker_name: str
    master_epoch: int
    sync_state_set_epoch: int
    broker_id: int
    broker_address: str
    role: Literal["master", "slave"]
    in_sync: bool
    alive: bool


@click.command("status", cls=ListCommand)
@with_session
async def show_controllers(session: OperatorSession) -> None:
    """Show the controllers, and which of them leads (request 1005)."""
    answers = await session.site.peer_answers(session.site.controllers, controller_metadata())
    session.show([_controller_row(each) for each in answers], ControllerRow)
    check_complete(answers, "controllers")


@click.command("sets", cls=ListCommand)
@click.argument("brokers", nargs=-1, metavar="[BROKER]…", shell_complete=broker_names)
@with_session
async def list_sets(session: OperatorSession, brokers: Sequence[str]) -> None:
    """List broker sets with masters and SyncStateSets, from the leading controller (request 1006).

    Without names: all stored sets; from a Java controller, those that NameServers know.
    """
    site = session.site
    leader = await site.leading_controller()
    found = await site.named_sets(leader, brokers) if brokers else await site.stored_sets(leader)
    if found is None:
        found = await site.named_sets(leader, sorted((await site.cluster()).broker_sets))
    unknown = [name for name in brokers if name not in found]
    if found or not unknown:
        session.show([row for name in sorted(found) for row in _replica_rows(name, found[name])], ReplicaRow)
    if unknown:
        raise UnknownName(unknown_sentence("broker set stored by this controller named", unknown[0], ()))


def _controller_row(answer: Answered[ReportedMetadata]) -> ControllerRow:
    if answer.error is not None:
        return ControllerRow(address=answer.address, role="failed", reason=sentence_of(answer.error))
    found = answer.result
    role = "leader" if found.is_leader else "follower"
    leader = {"leader_id": found.controller_leader_id, "leader_address": found.controller_leader_address}
    return row_of(ControllerRow, found, address=answer.address, role=role, **leader)


def _replica_rows(name: str, found: ReportedBrokerSet) -> list[ReplicaRow]:
    return [
        ReplicaRow(
            broker_name=name,
            master_epoch=found.master_epoch,
            sync_state_set_epoch=found.sync_state_set_epoch,
            broker_id=each.broker_id,
            broker_address=each.address,
            role="master" if each.broker_id == found.master_broker_id else "slave",
            in_sync=each.is_in_sync,
            alive=each.is_alive,
        )
        for each in found.replicas
    ]


@cache
def _election_row() -> type[msgspec.Struct]:
    """Return the type of rows about elections, or several in a row that ended alike."""
    from serving.shapes.controller import ElectionView  # noqa: PLC0415  # 6 ms, and the other commands do without

    shown = ("unix_ms", "broker_name", "result", "old_master", "new_master", "master_epoch", "times", "cause", "reason")
    return row_type(ElectionView, *shown, "advice", "force", key=("unix_ms", "broker_name"))


@click.command("elections", cls=ListCommand)
@click.argument("broker", required=False, shell_complete=broker_names)
@with_session
async def list_elections(session: OperatorSession, broker: str | None) -> None:
    """List the last elections of one or all broker sets, newest first (HTTP of our controllers).

    If no broker was elected, `advice` names those to start; the command in `force` makes one master and loses messages.
    """
    parameters = {"limit": str(_ELECTIONS_MAX)} | ({"prefix": broker} if broker is not None else {})
    from serving.shapes.controller import ElectionListing  # noqa: PLC0415  # as above

    settings = session.site.settings
    page = await call(settings, controllers(settings), ApiRequest("/v1/elections", ElectionListing, parameters))
    rows = [each for each in page.elections if broker in (None, each.broker_name)]
    if broker is not None and not rows:
        await stored_set(session.site, broker)
    session.show(rows_of(_election_row(), rows), _election_row())


@click.command("elect", cls=ChangeCommand)
@click.argument("broker", shell_complete=broker_names)
@click.argument("broker_id", type=click.IntRange(0))
@_CLUSTER
@with_session
async def elect(session: OperatorSession, broker: str, broker_id: int, cluster: str | None) -> None:
    """Make a broker the master of its set (request 1002); BROKER_ID is the id that the controller assigned.

    Refused if it is already master, not alive, or not allowed to lead. For a change without failed sends use a
    switchover of our controllers (docs/role-addresses-switchover.md).
    """
    leader, found = await stored_set(session.site, broker)
    _check_member(broker, found, broker_id)
    cluster = cluster or await _cluster_of(session.site, broker, found)
    request = elect_master(cluster, broker, broker_id).mapped(elected_text)
    change = SiteChange(leader, f"elect broker {broker_id} of {broker}", request, controller_metadata())
    refusals = await _no_election(session.site, leader, found, broker_id) if session.is_dry_run else ()
    now = f"broker {found.master_broker_id}" if found.master_broker_id is not None else "no master"
    await session.change([[change]], f"Make broker {broker_id} the master of {broker} (now {now})?", refusals)


@click.command("clean", cls=ChangeCommand)
@click.argument("broker", shell_complete=broker_names)
@click.argument("broker_ids", nargs=-1, type=click.IntRange(0), metavar="[BROKER_ID]…")
@_CLUSTER
@click.option("--clean-living", is_flag=True, help="also remove brokers that are alive; Java then ignores the ids")
@with_session
async def clean(
    session: OperatorSession, broker: str, broker_ids: Sequence[int], cluster: str | None, *, clean_living: bool
) -> None:
    """Remove brokers of a set, or without ids the whole set, from the controllers (request 1011).

    A removed broker that starts again is refused until you delete its brokerIdentity; it then gets a new id. Refused
    for brokers that are alive.
    """
    leader, found = await stored_set(session.site, broker)
    for broker_id in broker_ids:
        _check_member(broker, found, broker_id)
    cluster = cluster or await _cluster_of(session.site, broker, found)
    request = clean_broker_data(cluster, broker, broker_ids, cleans_living=clean_living)
    what = f"brokers {', '.join(map(str, broker_ids))} of {broker}" if broker_ids else f"the whole set {broker}"
    change = SiteChange(leader, f"remove {what}", request, controller_metadata())
    refusals = _no_cleaning(found, broker_ids, cleans_living=clean_living)
    await session.change([[change]], f"Remove {what} from the controllers?", refusals)


async def _cluster_of(site: Site, broker: str, stored: ReportedBrokerSet) -> str:
    """Return the cluster of a broker set: as a controller of ours has stored it, or as NameServers know it.

    With another one Java's controller takes all its brokers to have failed. Then it does not elect, and it removes
    brokers that are alive (docs/protocol/controller.md 1.10).
    """
    if stored.cluster:
        return stored.cluster
    known = await site.cluster()
    found = known.broker_sets.get(broker) or known.away.get(broker)
    if found is None:
        raise WrongUse(f"no NameServer knows {broker}: give its cluster with --cluster")
    return found.cluster


async def stored_set(site: Site, broker: str) -> tuple[str, ReportedBrokerSet]:
    leader = await site.leading_controller()
    found = (await site.named_sets(leader, [broker])).get(broker)
    if found is None:
        raise UnknownName(f"this controller has stored no broker set {broker}")
    return leader, found


def _check_member(broker: str, found: ReportedBrokerSet, broker_id: int) -> None:
    ids = [str(each.broker_id) for each in found.replicas]
    if str(broker_id) not in ids:
        raise UnknownName(f"{unknown_sentence('broker', str(broker_id), ())} in {broker}, which has {', '.join(ids)}")


async def _no_election(site: Site, leader: str, found: ReportedBrokerSet, broker_id: int) -> list[str]:
    """Return why the controller would not elect a broker."""
    (wanted,) = (each for each in found.replicas if each.broker_id == broker_id)
    if not wanted.is_alive:
        return [f"broker {broker_id} is not alive"]
    if found.master_broker_id == broker_id:
        return [f"broker {broker_id} is already master"]
    if wanted.is_in_sync or (await site.call(leader, server_config("controller"))).get(_UNCLEAN) == "true":
        return []
    return [f"broker {broker_id} is not in the SyncStateSet, and {_UNCLEAN} is false"]


def _no_cleaning(found: ReportedBrokerSet, broker_ids: Sequence[int], *, cleans_living: bool) -> Iterator[str]:
    """Yield why controllers would not remove these brokers, or without ids the whole set."""
    if not broker_ids and found.master_broker_id is not None and not cleans_living:
        yield f"the set has a master, broker {found.master_broker_id}: give ids, or add --clean-living"
    living = [str(each.broker_id) for each in found.replicas if each.is_alive and each.broker_id in broker_ids]
    if living and not cleans_living:
        yield f"brokers {', '.join(living)} are alive: add --clean-living to remove them anyway"
    in_sync = {each.broker_id for each in found.replicas if each.is_in_sync}
    if in_sync and in_sync <= set(broker_ids) and len(set(broker_ids)) < len(found.replicas):
        yield "only these have all messages, so no other could lead: remove the whole set, or elect another first"


def elected_text(elected: ElectionAnswer) -> str:
    """Return who leads now; raises BodyError where the answer does not say it."""
    master = elected.header
    if None in (master.master_broker_id, master.master_address, master.master_epoch):
        raise BodyError("the response names no master")
    return f"master is broker {master.master_broker_id} at {master.master_address}, master epoch {master.master_epoch}"
