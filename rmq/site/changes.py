"""A change as a list of requests: shown first, then carried out, with what became of each."""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from remoting.admin.admin_request import AdminRequest
from remoting.admin.routes import cluster_brokers
from remoting.protocol.errors import RemotingError
from rmq.failures import (
    WHILE_INTERRUPTED,
    CommandFailed,
    Interrupted,
    PartlyDone,
    failure_of_all,
    sentence_of,
    state_of,
)
from rmq.site.site import Site


class SiteChange(NamedTuple):
    address: str
    #: For people: "create topic Orders on broker-a".
    what: str
    #: A text in its result is shown beside "done".
    request: AdminRequest[Any]
    #: A read that the same server has to answer before it could do it.
    check: AdminRequest[Any]


def at_every_name_server(site: Site, what: str, request: AdminRequest[Any]) -> list[SiteChange]:
    return [SiteChange(each, what, request, cluster_brokers()) for each in site.settings.namesrv]


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    address: str
    change: str
    #: `planned`: with --dry-run; `failed` then: it would be. `unknown`: it was sent, and no answer came.
    #: `not_sent`: a request before it failed.
    state: Literal["planned", "done", "failed", "unknown", "not_sent"]
    detail: str | None = None


class CarriedOut(NamedTuple):
    rows: list[ChangeRow]
    #: None if all are done.
    failure: CommandFailed | None


async def check(site: Site, stages: Sequence[Sequence[SiteChange]], refusals: Sequence[str]) -> CarriedOut:
    """Send the checks of the changes in their place; `refusals` say why servers would refuse them all the same."""
    changes = [change for stage in stages for change in stage]
    answers = await site.answers_to((change.address, change.check) for change in changes)
    rows = []
    for change, answer in zip(changes, answers, strict=True):
        reasons = [*([sentence_of(answer.error)] if answer.error is not None else []), *refusals]
        state: Literal["failed", "planned"] = "failed" if reasons else "planned"
        detail = "; ".join(reasons) or None
        rows.append(ChangeRow(address=change.address, change=change.what, state=state, detail=detail))
    if refusals:
        return CarriedOut(rows, CommandFailed(f"it would be refused: {'; '.join(refusals)}"))
    errors = [(answer.address, answer.error) for answer in answers if answer.error is not None]
    if errors and len(errors) < len(rows):
        return CarriedOut(rows, PartlyDone(f"{len(errors)} of {len(rows)} changes would fail"))
    return CarriedOut(rows, failure_of_all(errors) if errors else None)


async def carry_out(site: Site, stages: Sequence[Sequence[SiteChange]]) -> CarriedOut:
    """Send the changes of each stage at once; after a stage with a failure nothing more is sent.

    Whoever interrupts it gets to see what is done by then: it ends at once, and raises nothing.
    """
    rows: list[ChangeRow] = []
    errors: list[tuple[str, RemotingError]] = []
    interrupted: Interrupted | None = None
    for stage in stages:
        if errors or interrupted is not None:
            rows += [ChangeRow(address=each.address, change=each.what, state="not_sent") for each in stage]
            continue
        try:
            answers = await site.answers_to((each.address, each.request) for each in stage)
        except asyncio.CancelledError:
            interrupted = Interrupted("interrupted before all answers had come")
            rows += [
                ChangeRow(address=each.address, change=each.what, state="unknown", detail=WHILE_INTERRUPTED)
                for each in stage
            ]
            continue
        for change, answer in zip(stage, answers, strict=True):
            if answer.error is not None:
                errors.append((change.address, answer.error))
                rows.append(_failed_row(change, answer.error))
            else:
                row = ChangeRow(address=change.address, change=change.what, state="done", detail=answer.result or None)
                rows.append(row)
    return CarriedOut(rows, interrupted or _failure(rows, errors))


def _failed_row(change: SiteChange, error: RemotingError) -> ChangeRow:
    state, detail = state_of(error)
    return ChangeRow(address=change.address, change=change.what, state=state, detail=detail)


def _failure(rows: Sequence[ChangeRow], errors: Sequence[tuple[str, RemotingError]]) -> CommandFailed | None:
    if not errors:
        return None
    done = sum(each.state == "done" for each in rows)
    if not done:
        return failure_of_all(errors)
    return PartlyDone(f"{done} of {len(rows)} changes are done; failed at {', '.join(each for each, _ in errors)}")
