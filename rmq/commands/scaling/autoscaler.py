"""`rmq scaling proposals`, `approve`, `dismiss`, `decisions` and `hindrances`."""

from typing import Literal

import click
import msgspec

from rmq.cli.options import ChangeCommand, SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import topic_names
from rmq.commands.scaling.operations import ShownResizeRow, controller_answer, operation_row, operations
from rmq.commands.scaling.topic_scale import check_plan, plan_of
from rmq.failures import UnknownName
from rmq.site.http_api import ApiRequest, path_of
from rmq.site.nearest import unknown_sentence
from rmq.site.scaling_documents import ENDED_PHASES, PLAN_TIMEOUT_S
from serving.shapes.scaling import (
    DecisionListing,
    DecisionView,
    OperationView,
    OperatorReason,
    ProposalListing,
    ProposalView,
    ResizeRequest,
)


class VerdictRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the autoscaler makes of a topic."""

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
    """Something that a resize waits for, or that keeps one from its start."""

    topic: str
    #: Of an operation; blank: of the autoscaler.
    id: str | None
    phase: str
    kind: Literal["waits_for", "problem", "refused"]
    hindrance: str


_TOPIC = click.argument("prefix", required=False, metavar="[TOPIC]", shell_complete=topic_names)
_REASON = click.option("--reason", default="", help="shown with the operation")


@click.command("proposals", cls=SiteCommand)
@with_session
async def list_proposals(session: OperatorSession) -> None:
    """List resizes that the autoscaler proposes, and that wait for an operator."""
    session.show((await _proposals(session)).proposals, ProposalView)


@click.command("decisions", cls=SiteCommand)
@_TOPIC
@with_session
async def list_decisions(session: OperatorSession, prefix: str | None) -> None:
    """List what the autoscaler makes of each topic that has a policy, and why."""
    found = await _decisions(session, prefix)
    session.show([_decision_row(each) for each in found.decisions], VerdictRow)
    if found.left_out:
        session.note(f"{found.left_out} topics with a policy are too many to be watched")


@click.command("hindrances", cls=SiteCommand)
@_TOPIC
@with_session
async def list_hindrances(session: OperatorSession, prefix: str | None) -> None:
    """List what resizes wait for, and which proposals of the autoscaler were refused, with the reason."""
    rows = []
    for each in (await operations(session, prefix)).operations:
        if each.phase in ENDED_PHASES:
            continue
        rows += [_hindrance(each, "waits_for", text) for text in each.waits_for]
        if each.problem:
            rows.append(_hindrance(each, "problem", each.problem))
    for decision in (await _decisions(session, prefix)).decisions:
        if decision.problem:
            rows.append(
                HindranceRow(
                    topic=decision.topic,
                    id=None,
                    phase=decision.outcome,
                    kind="refused",
                    hindrance=decision.problem,
                )
            )
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
    path = path_of("scaling", "proposals", proposal, "approve")
    request = ApiRequest(path, OperationView, {}, "POST", OperatorReason(reason=reason), timeout_s=PLAN_TIMEOUT_S)
    started = await controller_answer(session, request)
    session.show([operation_row(started)], ShownResizeRow)


@click.command("dismiss", cls=ChangeCommand)
@click.argument("proposal", metavar="ID")
@_REASON
@with_session
async def dismiss(session: OperatorSession, proposal: str, reason: str) -> None:
    """Give up a proposal; the same count is not proposed again for a day."""
    found = await _proposal(session, proposal)
    if session.is_dry_run:
        session.show([found], ProposalView)
        return
    session.confirm(f"Dismiss the proposal of {found.target} queues for topic {found.topic}?")
    path = path_of("scaling", "proposals", proposal, "dismiss")
    given_up = await controller_answer(
        session, ApiRequest(path, ProposalView, {}, "POST", OperatorReason(reason=reason))
    )
    session.show([given_up], ProposalView)


async def _proposals(session: OperatorSession) -> ProposalListing:
    return await controller_answer(session, ApiRequest(path_of("scaling", "proposals"), ProposalListing))


async def _proposal(session: OperatorSession, proposal: str) -> ProposalView:
    found = {each.id: each for each in (await _proposals(session)).proposals}
    if proposal not in found:
        raise UnknownName(unknown_sentence("proposal", proposal, found))
    return found[proposal]


async def _decisions(session: OperatorSession, prefix: str | None) -> DecisionListing:
    parameters = {"limit": "1000"} | ({"prefix": prefix} if prefix else {})
    return await controller_answer(session, ApiRequest(path_of("scaling", "decisions"), DecisionListing, parameters))


def _decision_row(found: DecisionView) -> VerdictRow:
    return VerdictRow(
        topic=found.topic,
        decided_unix_ms=found.unix_ms,
        mode=found.mode,
        outcome=found.outcome,
        queues=found.queues,
        target=found.target,
        reason=found.reason,
        problem=found.problem or None,
        findings=[each.sentence for each in found.findings] or None,
    )


def _hindrance(found: OperationView, kind: Literal["waits_for", "problem"], text: str) -> HindranceRow:
    return HindranceRow(topic=found.topic, id=found.id, phase=found.phase, kind=kind, hindrance=text)
