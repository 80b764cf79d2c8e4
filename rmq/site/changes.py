"""A change as a list of requests: shown first, then carried out, with what became of each."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from remoting.admin.admin_request import AdminRequest
from remoting.protocol.errors import RemotingError
from rmq.failures import CommandFailed, PartlyDone, failure_of_all, is_outcome_unknown, sentence_of
from rmq.site.site import Site


class SiteChange(NamedTuple):
    """One request that changes something."""

    address: str
    #: For people: "create topic Orders on broker-a".
    what: str
    #: Its result is what is shown beside "done"; blank for nothing.
    request: AdminRequest[str]


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of one request."""

    address: str
    change: str
    #: `planned`: with --dry-run. `unknown`: it was sent, and no answer came. `not_sent`: a request before it failed.
    state: Literal["planned", "done", "failed", "unknown", "not_sent"]
    detail: str | None = None


class CarriedOut(NamedTuple):
    """What became of all requests."""

    rows: list[ChangeRow]
    #: None if all are done.
    failure: CommandFailed | None


async def carry_out(site: Site, stages: Sequence[Sequence[SiteChange]]) -> CarriedOut:
    """Send the changes of each stage at once; after a stage with a failure nothing more is sent."""
    rows: list[ChangeRow] = []
    errors: list[tuple[str, RemotingError]] = []
    for stage in stages:
        if errors:
            rows += [ChangeRow(address=each.address, change=each.what, state="not_sent") for each in stage]
            continue
        answers = await site.answers_to((each.address, each.request) for each in stage)
        for change, answer in zip(stage, answers, strict=True):
            if answer.error is not None:
                errors.append((change.address, answer.error))
                rows.append(_failed_row(change, answer.error))
            else:
                row = ChangeRow(address=change.address, change=change.what, state="done", detail=answer.result or None)
                rows.append(row)
    return CarriedOut(rows, _failure(rows, errors))


def _failed_row(change: SiteChange, error: RemotingError) -> ChangeRow:
    if is_outcome_unknown(error):
        detail = f"{sentence_of(error)}; it may be done all the same: look before you repeat it"
        return ChangeRow(address=change.address, change=change.what, state="unknown", detail=detail)
    return ChangeRow(address=change.address, change=change.what, state="failed", detail=sentence_of(error))


def _failure(rows: Sequence[ChangeRow], errors: Sequence[tuple[str, RemotingError]]) -> CommandFailed | None:
    if not errors:
        return None
    done = sum(each.state == "done" for each in rows)
    if not done:
        return failure_of_all(errors)
    return PartlyDone(f"{done} of {len(rows)} changes are done; failed at {', '.join(each for each, _ in errors)}")
