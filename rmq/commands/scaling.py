"""`rmq scaling` and `rmq topic scale`: resizes of topics by our controllers."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, Literal

import click
import msgspec

from rmq.cli.options import ChangeCommand, ListCommand, SiteCommand
from rmq.cli.session import OperatorSession, operator_name, with_session
from rmq.commands.completion import broker_names, group_names, topic_names
from rmq.commands.topics import route_at_first
from rmq.failures import CommandFailed, ExitCode, Interrupted, NotReachable, UnknownName, unknown_sentence
from rmq.output.formats import RowKey, row_of
from rmq.site.brokers import check_gaps
from rmq.site.http_api import ApiRequest, Document, NotAnsweredNow, call, controllers, path_of
from serving.shapes.scaling import (
    FINISHED,
    NEEDS_OPERATOR,
    DecisionListing,
    DecisionView,
    GivenUpSet,
    OperationListing,
    OperationView,
    OperatorReason,
    ProposalListing,
    ProposalView,
    ResizeCommand,
    ResizeOptions,
    ResizePlan,
    ResizeRequest,
    WaivedGroup,
)

_LIMIT: Final = "1000"
_ID = click.argument("operation", metavar="ID")
_REASON = click.option("--reason", default="", help="shown with the operation")
#: Controllers look at brokers and clients first.
PLAN_TIMEOUT_S: Final = 60.0
_LOOK_S: Final = 1.0
#: How long controllers may be away, or without a leader, while a resize is waited for.
_AWAY_S: Final = 60.0
_WAYS_BACK: Final = frozenset({"REOPEN", "ROLLBACK"})
_TOPIC = click.argument("prefix", required=False, metavar="[TOPIC]", shell_complete=topic_names)


class ShownResizeRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
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


async def _get(session: OperatorSession, shape: type[Document], *parts: str, **parameters: str) -> Document:
    return await controller_answer(session, ApiRequest(path_of("scaling", *parts), shape, parameters))


async def _listed(session: OperatorSession, shape: type[Document], what: str, prefix: str | None) -> Document:
    return await _get(session, shape, what, limit=_LIMIT, **({"prefix": prefix} if prefix else {}))


async def _post(
    session: OperatorSession,
    shape: type[Document],
    body: msgspec.Struct,
    *parts: str,
    timeout_s: float | None = PLAN_TIMEOUT_S,
    is_preview: bool = False,
) -> Document:
    request = ApiRequest(path_of("scaling", *parts), shape, {}, "POST", body, timeout_s, is_preview=is_preview)
    return await controller_answer(session, request)


async def resize_beside(session: OperatorSession, topic: str) -> str:
    """Return what the question before a change of a topic says of its resize; blank where no controller knows one."""
    if "controller_http" in session.site.settings.defaults and not session.site.knows_controllers:
        return ""
    try:
        found = (await _listed(session, OperationListing, "operations", topic)).operations
    except CommandFailed:
        return ""
    under_way = (each for each in found if each.topic == topic and each.phase not in FINISHED)
    return "".join(f" Resize {each.id} of it is under way, in {each.phase}." for each in under_way)


def operation_row(found: OperationView) -> ShownResizeRow:
    queues = {
        each.broker_name: f"{each.read_before}/{each.write_before}->{each.target}/{each.target}" for each in found.sets
    }
    texts = {name: getattr(found, name) or None for name in ("requested_by", "reason", "problem")}
    return row_of(ShownResizeRow, found, queues=queues, **texts)


@click.command("list", cls=ListCommand)
@click.argument("prefix", required=False, metavar="[TOPIC]", shell_complete=topic_names)
@with_session
async def list_operations(session: OperatorSession, prefix: str | None) -> None:
    """List resizes of topics whose names begin with TOPIC, running ones first."""
    found = await _listed(session, OperationListing, "operations", prefix)
    session.show([operation_row(each) for each in found.operations], ShownResizeRow, is_partial=bool(found.problems))
    if len(found.operations) < found.total:
        session.note(f"{len(found.operations)} of {found.total} are shown")
    if found.problems:
        raise CommandFailed("; ".join(f"{name} cannot be read: {problem}" for name, problem in found.problems.items()))


@click.command("show", cls=SiteCommand)
@_ID
@with_session
async def show_operation(session: OperatorSession, operation: str) -> None:
    """Show the phases of a resize, the evidence of each, and what the present one waits for."""
    found = await _get(session, OperationView, "operations", operation)
    session.show(list(_steps(found)), StepRow)


@click.command("abort", cls=ChangeCommand)
@_ID
@_REASON
@with_session
async def abort(session: OperatorSession, operation: str, reason: str) -> None:
    """Undo a resize. Its phases show what remains."""
    await _change(session, operation, "abort", ResizeCommand(reason=reason), ("Undo the resize of ", ""))


@click.command("resume", cls=ChangeCommand)
@_ID
@_REASON
@with_session
async def resume(session: OperatorSession, operation: str, reason: str) -> None:
    """Resume a resize that is BLOCKED or in CONFLICT."""
    await _change(session, operation, "resume", ResizeCommand(reason=reason), ("Resume the resize of ", ""))


@click.command("waive", cls=ChangeCommand)
@_ID
@click.argument("group", shell_complete=group_names)
@with_session
async def waive(session: OperatorSession, operation: str, group: str) -> None:
    """Give up the messages that a group has not consumed in the queues that a resize drops."""
    question = (f"Give up the messages that {group} has not consumed in dropped queues of ", "")
    await _change(session, operation, "waive", WaivedGroup(group=group), question)


@click.command("give-up", cls=ChangeCommand)
@_ID
@click.argument("broker_name", metavar="SET", shell_complete=broker_names)
@click.option("--reason", default="", help="recorded with the operation")
@with_session
async def give_up(session: OperatorSession, operation: str, broker_name: str, reason: str) -> None:
    """Continue a resize without a broker set that was decommissioned, or replaced by an empty one."""
    body = GivenUpSet(broker_name=broker_name, requested_by=operator_name(), reason=reason)
    await _change(session, operation, "give-up", body, ("Continue the resize of ", f" without {broker_name}"))


async def _change(
    session: OperatorSession,
    operation: str,
    verb: str,
    body: ResizeCommand | WaivedGroup | GivenUpSet,
    question: tuple[str, str],
) -> None:
    """Ask, with the topic between the parts of the question, and send the command."""
    if session.is_dry_run:
        body = msgspec.structs.replace(body, dry_run=True)
    else:
        found = await _get(session, OperationView, "operations", operation)
        session.confirm(f"{found.topic.join(question)} (it is in phase {found.phase})?")
    changed = await _post(session, OperationView, body, "operations", operation, verb, is_preview=session.is_dry_run)
    row = operation_row(changed)
    state = "planned" if session.is_dry_run else "done"
    session.show([row_of(ChangedResizeRow, row, state=state)], ChangedResizeRow)


def _steps(found: OperationView) -> Iterator[StepRow]:
    for each in found.steps:
        text = "; ".join(each.evidence) or None
        yield row_of(StepRow, each, state="ended", text=text)
    text = "; ".join(found.waits_for) or found.problem or None
    began_unix_ms = found.phase_since_unix_ms
    yield row_of(StepRow, found, state="present", began_unix_ms=began_unix_ms, ended_unix_ms=None, text=text)


class VerdictRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    topic: str
    decided_unix_ms: int
    mode: str
    outcome: str
    #: Of each broker set; blank: unknown, or nothing is to change.
    queues: int | None
    target: int | None
    reason: str
    problem: str | None
    findings: list[str] | None


class HindranceRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    topic: str
    #: Of an operation; blank: of the autoscaler.
    id: str | None
    phase: str
    kind: Literal["waits_for", "problem", "refused"]
    hindrance: str


@click.command("proposals", cls=SiteCommand)
@with_session
async def list_proposals(session: OperatorSession) -> None:
    """List resizes that the autoscaler proposes and that wait for approval."""
    session.show(await _proposals(session), ProposalView)


@click.command("decisions", cls=SiteCommand)
@_TOPIC
@with_session
async def list_decisions(session: OperatorSession, prefix: str | None) -> None:
    """List the autoscaler's verdict on each topic with a policy, and its reasons."""
    found = await _listed(session, DecisionListing, "decisions", prefix)
    session.show([_decision_row(each) for each in found.decisions], VerdictRow)
    if found.left_out:
        session.note(f"{found.left_out} topics with a policy are not watched: there are too many")


@click.command("hindrances", cls=SiteCommand)
@_TOPIC
@with_session
async def list_hindrances(session: OperatorSession, prefix: str | None) -> None:
    """List what resizes wait for, and why resizes of the autoscaler were refused."""
    rows = []
    for each in (await _listed(session, OperationListing, "operations", prefix)).operations:
        if each.phase in FINISHED:
            continue
        rows += [row_of(HindranceRow, each, kind="waits_for", hindrance=text) for text in each.waits_for]
        if each.problem:
            rows.append(row_of(HindranceRow, each, kind="problem", hindrance=each.problem))
    for decision in (await _listed(session, DecisionListing, "decisions", prefix)).decisions:
        if decision.problem:
            refused = {"id": None, "phase": decision.outcome, "kind": "refused", "hindrance": decision.problem}
            rows.append(row_of(HindranceRow, decision, **refused))
    session.show(rows, HindranceRow)


@click.command("approve", cls=ChangeCommand)
@click.argument("proposal", metavar="ID")
@_REASON
@with_session
async def approve(session: OperatorSession, proposal: str, reason: str) -> None:
    """Start a resize that the autoscaler proposes."""
    found = await _proposal(session, proposal)
    if session.is_dry_run:
        session.show([found], ProposalView)
        check_plan(await plan_of(session, ResizeRequest(topic=found.topic, queues=found.target)))
        return
    session.confirm(f"Resize topic {found.topic} from {found.before} to {found.target} queues on each broker set?")
    started = await _post(session, OperationView, OperatorReason(reason=reason), "proposals", proposal, "approve")
    session.show([operation_row(started)], ShownResizeRow)


@click.command("dismiss", cls=ChangeCommand)
@click.argument("proposal", metavar="ID")
@_REASON
@with_session
async def dismiss(session: OperatorSession, proposal: str, reason: str) -> None:
    """Reject a proposal; the same number of queues is not proposed again for a day."""
    found = await _proposal(session, proposal)
    if session.is_dry_run:
        session.show([found], ProposalView)
        return
    session.confirm(f"Dismiss the proposal of {found.target} queues for topic {found.topic}?")
    body = OperatorReason(reason=reason)
    given_up = await _post(session, ProposalView, body, "proposals", proposal, "dismiss", timeout_s=None)
    session.show([given_up], ProposalView)


async def _proposals(session: OperatorSession) -> list[ProposalView]:
    return (await _get(session, ProposalListing, "proposals")).proposals


async def _proposal(session: OperatorSession, proposal: str) -> ProposalView:
    found = {each.id: each for each in await _proposals(session)}
    if proposal not in found:
        raise UnknownName(unknown_sentence("proposal", proposal, found))
    return found[proposal]


def _decision_row(found: DecisionView) -> VerdictRow:
    sentences = [finding.sentence for finding in found.findings]
    more = {"decided_unix_ms": found.unix_ms, "problem": found.problem or None, "findings": sentences or None}
    return row_of(VerdictRow, found, **more)


class NotResized(CommandFailed):
    """The plan has problems, or the resize has ended otherwise than wanted."""

    exit_code = ExitCode.REFUSED


class PlanRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    #: `set`: queues; `phase`: what happens; `group`: who consumes; `warning`, `problem`.
    what: Literal["set", "phase", "group", "warning", "problem"]
    name: str
    text: str
    at_least_ms: int | None = None


@click.command("scale", cls=ChangeCommand)
@click.argument("topic", shell_complete=topic_names)
@click.option("--queues", required=True, type=click.IntRange(1), help="read and write queues of each broker set")
@click.option(
    "--ordered",
    type=click.Choice(("pause", "gate")),
    help="for ordered messages: until all are consumed, pause writes, or lock the new queues",
)
@click.option("--equalise", is_flag=True, help="give all broker sets the same number")
@click.option("--ignore-unassigned", is_flag=True, help="grow even if clients may not get the new queues")
@click.option("--ignore-message-type", is_flag=True, help="resize a topic of message type PRIORITY or LITE")
@click.option(
    "--waive",
    "waived_groups",
    multiple=True,
    metavar="GROUP",
    shell_complete=group_names,
    help="do not wait for this group",
)
@_REASON
@click.option("--wait", "waits", is_flag=True, help="wait for the end, and show each phase")
@with_session
async def scale_topic(
    session: OperatorSession,
    topic: str,
    *,
    queues: int,
    ordered: Literal["pause", "gate"] | None,
    equalise: bool,
    reason: str,
    waits: bool,
    **ignored: Any,
) -> None:
    """Change the number of queues of a topic without losing messages (HTTP of our controllers).

    Shows the plan first: changes, minimum duration, hindrances. `rmq scaling show` shows the progress.
    """
    body = ResizeRequest(
        topic=topic,
        queues=queues,
        ordered=ordered or "",
        equalise=equalise,
        options=ResizeOptions(**ignored),
        requested_by=operator_name(),
        reason=reason,
    )
    plan = await plan_of(session, body)
    if plan.kind is None:
        with contextlib.suppress(NotReachable):
            _, gaps = await route_at_first(session.site, topic)
            check_gaps(gaps, f"the queues of {topic} there are unknown")
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
    started = await _post(session, OperationView, body, "operations")
    if not waits:
        session.show([operation_row(started)], ShownResizeRow)
        return
    session.note(f"{topic}: resize {started.id} has started")
    ended = await _ended(session, started)
    session.show([operation_row(ended)], ShownResizeRow)
    if ended.phase != "DONE":
        raise NotResized(f"{topic}: the resize is {ended.phase}{': ' if ended.problem else ''}{ended.problem}")


async def plan_of(session: OperatorSession, body: ResizeRequest) -> ResizePlan:
    return await _post(session, ResizePlan, body, "plan", is_preview=True)


def check_plan(plan: ResizePlan) -> None:
    if plan.problems:
        raise NotResized(f"{plan.topic} cannot be resized: {'; '.join(plan.problems)}")


async def _ended(session: OperatorSession, operation: OperationView) -> OperationView:
    """Wait until a resize has ended, or somebody has to act; a controller that is away for a moment is waited for."""
    advice = f"the resize continues without this command: rmq scaling show {operation.id}"
    session.note(f"{operation.topic}: {operation.phase}")
    loop = asyncio.get_running_loop()
    answered_s = loop.time()
    while operation.phase not in FINISHED | NEEDS_OPERATOR:
        before = operation
        try:
            await asyncio.sleep(_LOOK_S)
            operation = await _get(session, OperationView, "operations", operation.id)
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


def _rows(plan: ResizePlan) -> Sequence[PlanRow]:
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
