"""`rmq group restore`, `rmq offsets restore` and `rmq offsets undo`, by the offset manager."""

from typing import Literal, TypedDict, Unpack

import click

from rmq.cli.moments import unix_ms_of
from rmq.cli.operator_name import operator_name
from rmq.cli.options import ChangeCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import broker_names, cluster_names, group_names, topic_names
from rmq.commands.offsets.asking import write_offsets
from rmq.site.http_api import path_of
from rmq.site.offset_documents import RESTORE_TIMEOUT_S
from serving.shapes.offsets import RestoreBody, UndoBody

_FORMER: Literal["former"] = "former"


class RestoreChoice(TypedDict):
    """What a restore takes beside the group."""

    topic: str | None
    broker: str | None
    cluster: str
    moment: str
    allow_back: bool
    allow_unproved: bool
    over_resets: bool
    pulls: bool


_TOPIC = click.option("--topic", metavar="NAME", shell_complete=topic_names, help="only in this topic")
_BROKER = click.option("--broker", metavar="BROKER", shell_complete=broker_names, help="only on this broker set")
_CLUSTER = click.option(
    "--cluster", metavar="NAME", default="DefaultCluster", show_default=True, shell_complete=cluster_names
)
_MOMENT = click.option(
    "--moment",
    metavar="TIME|former",
    required=True,
    help="what brokers had then; former: before the last change of the master",
)
_BACK = click.option("--allow-back", is_flag=True, help="offsets may go back: messages are read again")
_UNPROVED = click.option(
    "--allow-unproved", is_flag=True, help="also where messages that nobody has read may be skipped"
)
_RESETS = click.option("--over-resets", is_flag=True, help="also what somebody has set or deleted since")
_PULLS = click.option("--pulls", is_flag=True, help="the group pulls, and does not pop, whatever its members show")


@click.command("restore", cls=ChangeCommand)
@click.argument("group", shell_complete=group_names)
@_TOPIC
@_BROKER
@_CLUSTER
@_MOMENT
@_BACK
@_UNPROVED
@_RESETS
@_PULLS
@with_session
async def restore_group(session: OperatorSession, group: str, **chosen: Unpack[RestoreChoice]) -> None:
    """Write the offsets of a group at brokers again that they had at a moment (offset manager).

    TIME is 2026-11-27T10:00:00Z. The column why says what a queue lacks.
    """
    await _restore(session, group, chosen)


@click.command("restore", cls=ChangeCommand)
@click.option("--group", metavar="NAME", shell_complete=group_names, help="only of this group")
@_TOPIC
@_BROKER
@_CLUSTER
@_MOMENT
@_BACK
@_UNPROVED
@_RESETS
@_PULLS
@with_session
async def restore_offsets(session: OperatorSession, group: str | None, **chosen: Unpack[RestoreChoice]) -> None:
    """Write the offsets of all groups of a cluster again that brokers had at a moment, or of those that are named.

    TIME is 2026-11-27T10:00:00Z. The column why says what a queue lacks.
    """
    await _restore(session, group, chosen)


@click.command("undo", cls=ChangeCommand)
@click.argument("operation")
@click.option("--force", is_flag=True, help="also queues that have moved since, or were reset again")
@_UNPROVED
@click.option("--pulls", is_flag=True, help="all its groups pull, and do not pop, whatever their members show")
@with_session
async def undo_operation(
    session: OperatorSession, operation: str, *, force: bool, allow_unproved: bool, pulls: bool
) -> None:
    """Bring back what brokers showed before a restore, an import or an undo, by its id."""
    writer = operator_name()

    def body_of(is_preview: bool) -> UndoBody:  # noqa: FBT001  # as BodyOf has it
        return UndoBody(
            writer=writer,
            operation_id=operation,
            dry_run=is_preview,
            force=force,
            allow_unproved=allow_unproved,
            pulls=pulls,
        )

    question = f"Undo operation {operation}"
    await write_offsets(session, path_of("offsets", "undo"), body_of, timeout_s=RESTORE_TIMEOUT_S, question=question)


async def _restore(session: OperatorSession, group: str | None, chosen: RestoreChoice) -> None:
    writer = operator_name()
    moment = _FORMER if chosen["moment"] == _FORMER else unix_ms_of(chosen["moment"], "--moment")

    def body_of(is_preview: bool) -> RestoreBody:  # noqa: FBT001  # as BodyOf has it
        return RestoreBody(
            writer=writer,
            cluster=chosen["cluster"],
            group=group,
            topic=chosen["topic"],
            broker_name=chosen["broker"],
            moment=moment,
            dry_run=is_preview,
            allow_back=chosen["allow_back"],
            allow_unproved=chosen["allow_unproved"],
            over_resets=chosen["over_resets"],
            pulls=chosen["pulls"],
        )

    what = f"group {group}" if group else f"all groups of {chosen['cluster']}"
    await write_offsets(
        session,
        path_of("offsets", "restore"),
        body_of,
        timeout_s=RESTORE_TIMEOUT_S,
        question=f"Restore {what} to {chosen['moment']}",
    )
