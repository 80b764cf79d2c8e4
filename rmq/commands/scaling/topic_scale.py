"""`rmq topic scale`: a resize by our controllers, which move queues only once clients have noticed."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypedDict, Unpack

import click
import msgspec

from rmq.cli.operator_name import operator_name
from rmq.cli.options import ChangeCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import group_names, topic_names
from rmq.commands.scaling.operations import ShownResizeRow, controller_answer, operation_row
from rmq.commands.topic_views import route_at_first
from rmq.failures import CommandFailed, ExitCode, Interrupted, NotReachable
from rmq.site.brokers import check_gaps
from rmq.site.http_api import ApiRequest, NotAnsweredNow, path_of
from rmq.site.scaling_documents import ENDED_PHASES, PLAN_TIMEOUT_S, STOPPED_PHASES, PlanDocument
from serving.shapes.scaling import OperationView, ResizeOptions, ResizeRequest

_LOOK_S: Final = 1.0
#: How long controllers may be away, or without a leader, while a resize is waited for.
_AWAY_S: Final = 60.0
_WAYS_BACK: Final = frozenset({"REOPEN", "ROLLBACK"})


class NotResized(CommandFailed):
    """The plan has problems, or the resize has ended otherwise than wanted."""

    exit_code = ExitCode.REFUSED


class PlanRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of a plan."""

    #: `set`: queues; `phase`: what happens; `group`: who consumes; `warning`, `problem`.
    what: Literal["set", "phase", "group", "warning", "problem"]
    name: str
    text: str
    at_least_ms: int | None = None


class ScaleOptions(TypedDict):
    """What `scale` takes beside the topic."""

    queues: int
    ordered: Literal["pause", "gate"] | None
    equalise: bool
    ignore_unassigned: bool
    ignore_message_type: bool
    waived: tuple[str, ...]
    reason: str
    waits: bool


@click.command("scale", cls=ChangeCommand)
@click.argument("topic", shell_complete=topic_names)
@click.option("--queues", required=True, type=click.IntRange(1), help="read and write queues of each broker set")
@click.option(
    "--ordered",
    type=click.Choice(("pause", "gate")),
    help="of a topic whose messages have an order: pause writes until all is consumed, or lock new queues until then",
)
@click.option("--equalise", is_flag=True, help="broker sets with different numbers get the same one")
@click.option("--ignore-unassigned", is_flag=True, help="grow although clients may not get the new queues")
@click.option("--ignore-message-type", is_flag=True, help="resize a topic of message type PRIORITY or LITE")
@click.option(
    "--waive", "waived", multiple=True, metavar="GROUP", shell_complete=group_names, help="do not wait for it"
)
@click.option("--reason", default="", help="shown with the operation")
@click.option("--wait", "waits", is_flag=True, help="wait for its end; phases are shown as they come")
@with_session
async def scale_topic(session: OperatorSession, topic: str, **chosen: Unpack[ScaleOptions]) -> None:
    """Change the number of queues of a topic without losing messages (HTTP of our controllers).

    It shows the plan first: what changes, how long it takes at least, who is in the way. `rmq scaling show` follows it.
    """
    body = ResizeRequest(
        topic=topic,
        queues=chosen["queues"],
        ordered=chosen["ordered"] or "",
        equalise=chosen["equalise"],
        options=ResizeOptions(
            waived_groups=chosen["waived"],
            ignore_unassigned=chosen["ignore_unassigned"],
            ignore_message_type=chosen["ignore_message_type"],
        ),
        requested_by=operator_name(),
        reason=chosen["reason"],
    )
    plan = await plan_of(session, body)
    if plan.kind is None:
        with contextlib.suppress(NotReachable):
            _, gaps = await route_at_first(session.site, topic)
            check_gaps(gaps, f"the queues of {topic} there are not known")
    rows = _rows(plan)
    if session.is_dry_run or plan.problems:
        session.show(rows, PlanRow)
        check_plan(plan)
        return
    session.preview(rows, PlanRow)
    session.confirm(
        f"Resize topic {topic} to {body.queues} queues on each of {len(plan.sets)} broker sets, "
        f"in {plan.at_least_ms / 1000:.0f} s or more?"
    )
    path = path_of("scaling", "operations")
    started = await controller_answer(
        session, ApiRequest(path, OperationView, {}, "POST", body, timeout_s=PLAN_TIMEOUT_S)
    )
    if chosen["waits"]:
        session.note(f"{topic}: resize {started.id} is started")
    ended = await _ended(session, started) if chosen["waits"] else started
    session.show([operation_row(ended)], ShownResizeRow)
    if chosen["waits"] and ended.phase != "DONE":
        raise NotResized(f"{topic}: the resize is {ended.phase}{': ' if ended.problem else ''}{ended.problem}")


async def plan_of(session: OperatorSession, body: ResizeRequest) -> PlanDocument:
    """Return what a resize would do."""
    path = path_of("scaling", "plan")
    request = ApiRequest(path, PlanDocument, {}, "POST", body, timeout_s=PLAN_TIMEOUT_S, is_preview=True)
    return await controller_answer(session, request)


def check_plan(plan: PlanDocument) -> None:
    """Raise NotResized if the resize would be refused."""
    if plan.problems:
        raise NotResized(f"{plan.topic} cannot be resized: {'; '.join(plan.problems)}")


async def _ended(session: OperatorSession, operation: OperationView) -> OperationView:
    """Wait until a resize has ended, or somebody has to act; a controller that is away for a moment is waited for."""
    path = path_of("scaling", "operations", operation.id)
    advice = f"the resize goes on without this command: rmq scaling show {operation.id}"
    session.note(f"{operation.topic}: {operation.phase}")
    loop = asyncio.get_running_loop()
    answered_s = loop.time()
    while operation.phase not in ENDED_PHASES | STOPPED_PHASES:
        before = operation
        try:
            await asyncio.sleep(_LOOK_S)
            operation = await controller_answer(session, ApiRequest(path, OperationView))
        except asyncio.CancelledError:
            raise Interrupted(f"{advice}; to undo it: rmq scaling abort {operation.id}") from None
        except (NotReachable, NotAnsweredNow) as failure:
            if loop.time() - answered_s > _AWAY_S:
                raise type(failure)(f"{failure}; {advice}") from None
        else:
            answered_s = loop.time()
        for text in _entered(before, operation):
            session.note(f"{operation.topic}: {text}")
    return operation


def _entered(before: OperationView, now: OperationView) -> Iterator[str]:
    """Yield the phases since `before`, with the reason of each that is a step back."""
    begun = [*((each.phase, each.began_unix_ms) for each in now.steps), (now.phase, now.phase_since_unix_ms)]
    phases = [phase for phase, _ in begun]
    known = (before.phase, before.phase_since_unix_ms)
    # Of very many steps those in the middle are not stored.
    first = begun.index(known) if known in begun else max(len(now.steps) - 1, 0)
    for step, phase in list(zip(now.steps, phases[1:], strict=True))[first:]:
        is_undo = phase in _WAYS_BACK or (now.kind, phase) == ("grow", "WRITE_DOWN")
        is_back = is_undo or phases.index(phase) < phases.index(step.phase)
        yield f"{phase}: {'; '.join(step.evidence)}" if is_back else phase


def _rows(plan: PlanDocument) -> Sequence[PlanRow]:
    rows = [
        PlanRow(
            what="set",
            name=each.broker_name,
            text=f"read {each.read} -> {each.target}, write {each.write} -> {each.target}",
        )
        for each in plan.sets
    ]
    rows += [
        PlanRow(what="phase", name=each.phase, text=each.text, at_least_ms=each.at_least_ms) for each in plan.steps
    ]
    for group in plan.groups:
        text = f"{group.kind}, {group.clients} members"
        if plan.kind in {"shrink", "ordered"}:
            text += f", {'unknown' if group.lag is None else group.lag} messages to consume first"
        rows.append(PlanRow(what="group", name=group.group, text=f"{text}: {group.note}" if group.note else text))
    rows += [PlanRow(what="warning", name=plan.topic, text=text) for text in plan.warnings]
    rows += [PlanRow(what="problem", name=plan.topic, text=text) for text in plan.problems]
    return rows
