"""`rmq controller status` and `rmq controller sets`."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import click
import msgspec

from remoting.admin.controllers import ReportedBrokerSet, ReportedMetadata, controller_metadata
from rmq.cli.options import ListCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import broker_names
from rmq.failures import UnknownName, sentence_of
from rmq.output.rows import RowKey
from rmq.site.nearest import unknown_sentence
from rmq.site.site import Answered, check_complete


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


@click.command("status", cls=ListCommand)
@with_session
async def show_controllers(session: OperatorSession) -> None:
    """Show the controllers and who leads (request 1005)."""
    answers = await session.site.peer_answers(session.site.controllers, controller_metadata())
    session.show([_controller_row(each) for each in answers], ControllerRow)
    check_complete(answers, "controllers")


@click.command("sets", cls=ListCommand)
@click.argument("brokers", nargs=-1, metavar="[BROKER]…", shell_complete=broker_names)
@with_session
async def list_sets(session: OperatorSession, brokers: Sequence[str]) -> None:
    """List broker sets with masters and SyncStateSets, by the leading controller (request 1006).

    Without names all that it has stored, away or not. A Java controller lists none: those that NameServers know.
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
        raise UnknownName(unknown_sentence("broker set at this controller named", unknown[0], ()))


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
