"""`rmq controller status` and `rmq controller sets`."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import click
import msgspec

from remoting.admin.controllers import ReportedBrokerSet, ReportedMetadata, broker_sets_of, controller_metadata
from rmq.cli.options import ListCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import broker_names
from rmq.failures import NotReachable, NotSupportedThere, UnknownName, failure_of_all, sentence_of
from rmq.output.rows import RowKey
from rmq.site.nearest import unknown_sentence
from rmq.site.site import Answered, Site, check_complete


class ControllerRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One controller."""

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


class NamedBrokerSet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A broker set in a page, by its name."""

    broker_name: str


class BrokerSetPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of broker sets, as our controllers answer it by HTTP."""

    broker_sets: list[NamedBrokerSet]
    next_cursor: str | None


@click.command("status", cls=ListCommand)
@with_session
async def show_controllers(session: OperatorSession) -> None:
    """Show the controllers and who leads (request 1005)."""
    answers = await session.site.answers(session.site.controllers, controller_metadata())
    session.show([_controller_row(each) for each in answers], ControllerRow)
    check_complete(answers, "controllers")


@click.command("sets", cls=ListCommand)
@click.argument("brokers", nargs=-1, metavar="[BROKER]…", shell_complete=broker_names)
@click.option(
    "--all", "-a", "shows_all", is_flag=True, help="also sets that no NameServer knows (HTTP, our controllers)"
)
@with_session
async def list_sets(session: OperatorSession, brokers: Sequence[str], *, shows_all: bool) -> None:
    """List broker sets with masters and SyncStateSets, by the leading controller (request 1006).

    Without names: those that the NameServers know, as mqadmin does. Sets without a living broker are not among them:
    name them, or take --all.
    """
    names = list(brokers)
    if not names:
        names = await _all_names(session.site) if shows_all else sorted((await session.site.cluster()).broker_sets)
    found = await sets_of(session.site, names) if names else {}
    unknown = [name for name in brokers if name not in found]
    if found or not unknown:
        session.show([row for name in sorted(found) for row in _replica_rows(name, found[name])], ReplicaRow)
    if unknown:
        raise UnknownName(unknown_sentence("broker set at this controller named", unknown[0], ()))


async def leader_of(site: Site) -> str:
    """Return the address of the leading controller; raises CommandFailed."""
    answers = await site.answers(site.controllers, controller_metadata())
    leader = next((each.result.controller_leader_address for each in answers if _names_leader(each)), None)
    if leader:
        return leader
    failed = [(each.address, each.error) for each in answers if each.error is not None]
    if len(failed) == len(answers):
        raise failure_of_all(failed)
    raise NotReachable("no controller leads now")


async def sets_of(site: Site, names: Sequence[str]) -> Mapping[str, ReportedBrokerSet]:
    """Return the broker sets of these names that the leader knows; raises CommandFailed."""
    return await site.call(await leader_of(site), broker_sets_of(names))


def _names_leader(answer: Answered[ReportedMetadata]) -> bool:
    return answer.error is None and bool(answer.result.controller_leader_address)


async def _all_names(site: Site) -> list[str]:
    from rmq.site.http_api import read_controller  # noqa: PLC0415  # 50 ms

    names: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        try:
            parameters = {"cursor": cursor} if cursor else {}
            page = await read_controller(site.settings, "/v1/broker-sets", parameters, BrokerSetPage)
        except NotReachable as error:
            # One that answers remoting, and no HTTP, is one of Java.
            raise NotSupportedThere(
                f"{error}; {await leader_of(site)} leads: a Java controller lists no sets, and ours does by HTTP: "
                "name it with --controller-http"
            ) from None
        names += [each.broker_name for each in page.broker_sets]
        cursor = page.next_cursor
    return names


def _controller_row(answer: Answered[ReportedMetadata]) -> ControllerRow:
    if answer.error is not None:
        return ControllerRow(address=answer.address, role="failed", reason=sentence_of(answer.error))
    found = answer.result
    return ControllerRow(
        address=answer.address,
        role="leader" if found.is_leader else "follower",
        group=found.group,
        leader_id=found.controller_leader_id,
        leader_address=found.controller_leader_address,
        peers=found.peers,
    )


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
