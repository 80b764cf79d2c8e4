"""`rmq scaling list`, `show`, `abort`, `resume`, `waive` and `give-up`."""

from collections.abc import Callable, Iterator
from typing import ClassVar, Final, Literal

import click
import msgspec

from rmq.cli.operator_name import operator_name
from rmq.cli.options import ChangeCommand, ListCommand, SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import broker_names, group_names, topic_names
from rmq.failures import CommandFailed
from rmq.output.rows import RowKey
from rmq.site.http_api import ApiRequest, Document, call, controllers, path_of
from rmq.site.scaling_documents import ENDED_PHASES, PLAN_TIMEOUT_S
from serving.shapes.scaling import (
    GivenUpSet,
    OperationListing,
    OperationView,
    ResizeCommand,
    WaivedGroup,
)

_LIMIT: Final = "1000"


class ShownResizeRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A resize of a topic."""

    row_key: ClassVar[RowKey] = ("id",)

    id: str
    topic: str
    kind: str
    #: BLOCKED and CONFLICT: somebody has to act; DONE, ABORTED, REJECTED: ended.
    phase: str
    phase_since_unix_ms: int
    #: Of the sets, read and write queues before it -> at its end.
    queues: dict[str, str]
    #: It goes back to the numbers before it, or has done so.
    is_undone: bool
    requested_by: str | None
    reason: str | None
    problem: str | None


class ChangedResizeRow(ShownResizeRow, frozen=True, kw_only=True):
    """A resize after a command, or as it would be."""

    state: Literal["planned", "done"]


class StepRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A phase of a resize."""

    phase: str
    state: Literal["ended", "present"]
    began_unix_ms: int
    ended_unix_ms: int | None
    #: What was seen in it, or what it waits for.
    text: str | None


async def controller_answer(session: OperatorSession, request: ApiRequest[Document]) -> Document:
    """Return what the controller that leads answers; raises CommandFailed."""
    settings = session.site.settings
    return await call(settings, controllers(settings), request)


async def operations(session: OperatorSession, prefix: str | None) -> OperationListing:
    """Return operations of topics whose names begin so."""
    parameters = {"limit": _LIMIT} | ({"prefix": prefix} if prefix else {})
    return await controller_answer(session, ApiRequest(path_of("scaling", "operations"), OperationListing, parameters))


async def resize_beside(session: OperatorSession, topic: str) -> str:
    """Return what the question before a change of a topic says of its resize; blank where no controller knows one."""
    if "controller_http" in session.site.settings.defaults and not session.site.knows_controllers:
        return ""
    try:
        found = (await operations(session, topic)).operations
    except CommandFailed:
        return ""
    under_way = (each for each in found if each.topic == topic and each.phase not in ENDED_PHASES)
    return "".join(f" Resize {each.id} of it is under way, in {each.phase}." for each in under_way)


def operation_row(found: OperationView) -> ShownResizeRow:
    """Return a resize as a row."""
    return ShownResizeRow(
        id=found.id,
        topic=found.topic,
        kind=found.kind,
        phase=found.phase,
        phase_since_unix_ms=found.phase_since_unix_ms,
        queues={
            each.broker_name: f"{each.read_before}/{each.write_before}->{each.target}/{each.target}"
            for each in found.sets
        },
        is_undone=found.is_undone,
        requested_by=found.requested_by or None,
        reason=found.reason or None,
        problem=found.problem or None,
    )


@click.command("list", cls=ListCommand)
@click.argument("prefix", required=False, metavar="[TOPIC]", shell_complete=topic_names)
@with_session
async def list_operations(session: OperatorSession, prefix: str | None) -> None:
    """List resizes of topics whose names begin with TOPIC: those under way, then those that have ended."""
    found = await operations(session, prefix)
    session.show([operation_row(each) for each in found.operations], ShownResizeRow, is_partial=bool(found.problems))
    if len(found.operations) < found.total:
        session.note(f"{len(found.operations)} of {found.total} are shown")
    if found.problems:
        raise CommandFailed("; ".join(f"{name} cannot be read: {problem}" for name, problem in found.problems.items()))


@click.command("show", cls=SiteCommand)
@click.argument("operation", metavar="ID")
@with_session
async def show_operation(session: OperatorSession, operation: str) -> None:
    """Show the phases of a resize: what was seen in each, and what the present one waits for."""
    found = await controller_answer(session, ApiRequest(path_of("scaling", "operations", operation), OperationView))
    session.show(list(_steps(found)), StepRow)


@click.command("abort", cls=ChangeCommand)
@click.argument("operation", metavar="ID")
@click.option("--reason", default="", help="shown with the operation")
@with_session
async def abort(session: OperatorSession, operation: str, reason: str) -> None:
    """Undo a resize; what that leaves behind is in its phases."""
    await _change(
        session, operation, "abort", ResizeCommand(reason=reason), lambda topic: f"Undo the resize of {topic}"
    )


@click.command("resume", cls=ChangeCommand)
@click.argument("operation", metavar="ID")
@click.option("--reason", default="", help="shown with the operation")
@with_session
async def resume(session: OperatorSession, operation: str, reason: str) -> None:
    """Go on with a resize that is BLOCKED, or in CONFLICT."""
    await _change(session, operation, "resume", ResizeCommand(reason=reason), lambda topic: f"Resize {topic} further")


@click.command("waive", cls=ChangeCommand)
@click.argument("operation", metavar="ID")
@click.argument("group", shell_complete=group_names)
@with_session
async def waive(session: OperatorSession, operation: str, group: str) -> None:
    """Give up what a group has not consumed of the queues that a resize drops."""
    await _change(
        session,
        operation,
        "waive",
        WaivedGroup(group=group),
        lambda topic: f"Give up what {group} has not consumed in the queues of {topic} that are dropped",
    )


@click.command("give-up", cls=ChangeCommand)
@click.argument("operation", metavar="ID")
@click.argument("broker_name", metavar="SET", shell_complete=broker_names)
@click.option("--reason", default="", help="recorded with the operation")
@with_session
async def give_up(session: OperatorSession, operation: str, broker_name: str, reason: str) -> None:
    """Go on without a broker set that was decommissioned, or replaced by an empty one."""
    await _change(
        session,
        operation,
        "give-up",
        GivenUpSet(broker_name=broker_name, requested_by=operator_name(), reason=reason),
        lambda topic: f"Resize {topic} without {broker_name}",
    )


async def _change(
    session: OperatorSession,
    operation: str,
    verb: str,
    body: ResizeCommand | WaivedGroup | GivenUpSet,
    question: Callable[[str], str],
) -> None:
    path = path_of("scaling", "operations", operation)
    if session.is_dry_run:
        body = msgspec.structs.replace(body, dry_run=True)
    else:
        found = await controller_answer(session, ApiRequest(path, OperationView))
        session.confirm(f"{question(found.topic)} (it is in phase {found.phase})?")
    # Controllers look at brokers and clients first.
    request = ApiRequest(
        f"{path}/{verb}", OperationView, {}, "POST", body, timeout_s=PLAN_TIMEOUT_S, is_preview=session.is_dry_run
    )
    row = operation_row(await controller_answer(session, request))
    state: Literal["planned", "done"] = "planned" if session.is_dry_run else "done"
    session.show([ChangedResizeRow(**msgspec.structs.asdict(row), state=state)], ChangedResizeRow)


def _steps(found: OperationView) -> Iterator[StepRow]:
    for each in found.steps:
        text = "; ".join(each.evidence) or None
        yield StepRow(
            phase=each.phase,
            state="ended",
            began_unix_ms=each.began_unix_ms,
            ended_unix_ms=each.ended_unix_ms,
            text=text,
        )
    yield StepRow(
        phase=found.phase,
        state="present",
        began_unix_ms=found.phase_since_unix_ms,
        ended_unix_ms=None,
        text="; ".join(found.waits_for) or found.problem or None,
    )
