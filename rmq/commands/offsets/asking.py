"""Asks the offset manager that leads; and a write at brokers: previewed, confirmed, done, with what became of it."""

import asyncio
import re
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

import click
import msgspec

from remoting.background_tasks import start_task
from rmq.cli.session import OperatorSession
from rmq.failures import CommandFailed, PartlyDone, UnknownName
from rmq.site.http_api import ApiRequest, Document, call, offset_managers, path_of
from rmq.site.offset_documents import RestoreDocument, RestoredRow, SetPage
from serving.shapes.offsets import (
    HolderListing,
    ManagerView,
    OrderlyGroupListing,
    OverlapListing,
    RepairQueues,
    TopicGroupListing,
)

#: Statuses of queues that are as they were wanted.
_DONE: Final = frozenset({"done", "right already"})
_READY: Final = "would change"
#: How often the time that passes is written.
_TICK_S: Final = 1.0
_ERASED_LINE: Final = "\r\x1b[K"
#: The flag that overrides a reason, as the API spells it.
_FLAG: Final = re.compile(r"\((\w+)\)$")

#: Makes a body with `dryRun` or without.
BodyOf = Callable[[bool], msgspec.Struct]
AnyPage = TypeVar(
    "AnyPage", SetPage, RepairQueues, HolderListing, OrderlyGroupListing, OverlapListing, TopicGroupListing
)


async def manager_answer(session: OperatorSession, request: ApiRequest[Document]) -> Document:
    """Return what the offset manager that leads answers; raises CommandFailed."""
    settings = session.site.settings
    return await call(settings, offset_managers(settings), request)


async def pages(
    session: OperatorSession, path: str, shape: type[AnyPage], parameters: Mapping[str, str] = {}
) -> list[AnyPage]:
    """Return all pages of a listing; raises CommandFailed."""
    found = [await manager_answer(session, ApiRequest(path, shape, parameters))]
    while (cursor := found[-1].next_cursor) is not None:
        found.append(await manager_answer(session, ApiRequest(path, shape, {**parameters, "cursor": cursor})))
    return found


async def check_follows(session: OperatorSession) -> None:
    """Raise CommandFailed if the manager follows no brokers: then it has nothing to list, whatever happened."""
    manager = await manager_answer(session, ApiRequest(path_of("manager"), ManagerView))
    if sentence := follows_nobody(manager):
        raise CommandFailed(sentence)


def follows_nobody(manager: ManagerView) -> str:
    """Return what to do about a manager that follows no brokers; blank for any other."""
    if manager.follows != "nobody":
        return ""
    return (
        f"the offset manager at {manager.address} follows nobody, so it reads no broker: start it with --namesrv-addr"
        " or --controller-http-addr"
    )


async def write_offsets(
    session: OperatorSession, path: str, body_of: BodyOf, *, timeout_s: float, question: str
) -> None:
    """Show what a request would write, ask, send it, and show what became of each queue; raises CommandFailed."""

    def request(*, is_preview: bool) -> ApiRequest[RestoreDocument]:
        body = body_of(is_preview)
        return ApiRequest(path, RestoreDocument, {}, "POST", body, timeout_s=timeout_s, is_preview=is_preview)

    try:
        preview = await with_clock(manager_answer(session, request(is_preview=True)), "looking at brokers")
    except UnknownName:
        await check_follows(session)
        raise
    _note(session, preview)
    is_ready = _READY in preview.counts
    if session.is_dry_run or not is_ready:
        session.show(preview.queues, RestoredRow)
        if not is_ready:
            _check_nothing_left(preview)
            session.note("nothing is to be written")
        return
    session.preview(preview.queues, RestoredRow)
    session.confirm(f"{question} {_summary(preview)}?")
    done = await with_clock(manager_answer(session, request(is_preview=False)), "writing offsets")
    session.show(done.queues, RestoredRow)
    if done.operation_id:
        session.note(f"to undo it: rmq offsets undo {done.operation_id}")
    _check_done(done)


def _summary(preview: RestoreDocument) -> str:
    ready = [queue for queue in preview.queues if queue.status == _READY]
    again = sum(queue.messages_again or 0 for queue in ready)
    never = sum(queue.messages_never or 0 for queue in ready)
    others = ", ".join(f"{count} {status}" for status, count in sorted(preview.counts.items()) if status != _READY)
    text = f"in {len(ready)} queues: {again} messages are read again, {never} are passed over"
    return f"{text}; others stay ({others})" if others else text


def _note(session: OperatorSession, answer: RestoreDocument) -> None:
    for problem in answer.problems:
        session.note(f"{problem.broker_name}: {problem.reason}")
    for text in answer.unused:
        session.note(f"not used: {text}")


def _check_nothing_left(preview: RestoreDocument) -> None:
    """Raise CommandFailed if nothing can be written although something is not as it was wanted."""
    left = {status: count for status, count in preview.counts.items() if status not in _DONE}
    if not preview.counts and not preview.problems:
        raise UnknownName(
            "the offset manager knows no offsets of these names: look at --cluster and the others, and at"
            " `rmq offsets sets` for the broker sets that it reads"
        )
    if left or preview.problems:
        if not left:
            raise CommandFailed("nothing can be written: no offsets of that moment are known, as said above")
        text = ", ".join(f"{count} {status}" for status, count in sorted(left.items()))
        names = {match[1] for queue in preview.queues if (match := _FLAG.search(queue.why))}
        flags = ", ".join(
            "--" + re.sub("[A-Z]", lambda letter: "-" + letter[0].lower(), name) for name in sorted(names)
        )
        advice = f", and {flags} would override that" if flags else ""
        raise CommandFailed(f"nothing can be written: {text}; the column why says what is missing{advice}")


def _check_done(done: RestoreDocument) -> None:
    count = sum(number for status, number in done.counts.items() if status in _DONE)
    total = sum(done.counts.values())
    if count < total or done.problems:
        kind = PartlyDone if count else CommandFailed
        raise kind(f"{count} of {total} queues are as wanted; the rows say why the others are not")


async def with_clock(work: Coroutine[Any, Any, Document], what: str) -> Document:
    """Wait for an answer; meanwhile a terminal shows how long it takes."""
    if not sys.stderr.isatty():
        return await work
    task = start_task(work)
    began = time.perf_counter()
    try:
        while not (await asyncio.wait({task}, timeout=_TICK_S))[0]:
            click.echo(f"\rrmq: {what}, {time.perf_counter() - began:.0f} s", nl=False, err=True)
    except asyncio.CancelledError:
        # Interrupted; its request knows what may be done all the same.
        task.cancel()
        await asyncio.wait({task})
    if time.perf_counter() - began > _TICK_S:
        click.echo(_ERASED_LINE, nl=False, err=True)
    return task.result()
