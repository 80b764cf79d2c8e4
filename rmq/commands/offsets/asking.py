"""A restore, undo or import: previewed, confirmed, done, and what became of each queue."""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import click
import msgspec

from remoting.background_tasks import start_task
from rmq.cli.session import OperatorSession
from rmq.failures import CommandFailed, PartlyDone, UnknownName
from rmq.site.http_api import ApiRequest, Document, call, offset_managers
from rmq.site.offset_documents import RestoreDocument, RestoredRow

#: Statuses of queues that are as they were wanted.
_DONE: Final = frozenset({"restored", "unchanged", "ok"})
_READY: Final = frozenset({"ready"})
#: How often the time that passes is written.
_TICK_S: Final = 1.0
_ERASED_LINE: Final = "\r\x1b[K"

#: Makes a body with `dryRun` or without.
BodyOf = Callable[[bool], msgspec.Struct]


async def manager_answer(session: OperatorSession, request: ApiRequest[Document]) -> Document:
    """Return what the offset manager that leads answers; raises CommandFailed."""
    settings = session.site.settings
    return await call(settings, offset_managers(settings), request)


async def write_offsets(
    session: OperatorSession, path: str, body_of: BodyOf, *, timeout_s: float, question: str
) -> None:
    """Show what a request would write, ask, send it, and show what became of each queue; raises CommandFailed."""

    def request(*, is_preview: bool) -> ApiRequest[RestoreDocument]:
        body = body_of(is_preview)
        return ApiRequest(path, RestoreDocument, {}, "POST", body, timeout_s=timeout_s, is_preview=is_preview)

    preview = await _with_clock(manager_answer(session, request(is_preview=True)), "looking at brokers")
    _note(session, preview)
    is_ready = bool(_READY & set(preview.counts))
    if session.is_dry_run or not is_ready:
        session.show(preview.queues, RestoredRow)
        if not is_ready:
            _check_nothing_left(preview)
            session.note("nothing is to be written")
        return
    session.preview(preview.queues, RestoredRow)
    session.confirm(f"{question} {_summary(preview)}?")
    done = await _with_clock(manager_answer(session, request(is_preview=False)), "writing offsets")
    session.show(done.queues, RestoredRow)
    if done.operation_id:
        session.note(f"to undo it: rmq offsets undo {done.operation_id}")
    _check_done(done)


def _summary(preview: RestoreDocument) -> str:
    ready = [each for each in preview.queues if each.status in _READY]
    again = sum(each.messages_again or 0 for each in ready)
    skipped = sum(each.messages_skipped or 0 for each in ready)
    others = ", ".join(f"{count} {status}" for status, count in sorted(preview.counts.items()) if status not in _READY)
    text = f"in {len(ready)} queues: {again} messages are read again, {skipped} are skipped"
    return f"{text}; others stay ({others})" if others else text


def _note(session: OperatorSession, answer: RestoreDocument) -> None:
    for each in answer.problems:
        session.note(f"{each.broker_name}: {each.reason}")
    for text in answer.unused:
        session.note(f"not used: {text}")


def _check_nothing_left(preview: RestoreDocument) -> None:
    """Raise CommandFailed if nothing can be written although something is not as it was wanted."""
    left = {status: count for status, count in preview.counts.items() if status not in _DONE}
    if not preview.counts and not preview.problems:
        raise UnknownName(
            "the offset manager knows no offsets of these names: look at --cluster and the others, and at"
            " `rmq offsets mirror` for the broker sets that it follows"
        )
    if left or preview.problems:
        text = ", ".join(f"{count} {status}" for status, count in sorted(left.items())) or "no offsets are known"
        raise CommandFailed(f"nothing can be written: {text}; the rows and docs/offset-restores.md say why")


def _check_done(done: RestoreDocument) -> None:
    count = sum(number for status, number in done.counts.items() if status in _DONE)
    total = sum(done.counts.values())
    if count < total or done.problems:
        kind = PartlyDone if count else CommandFailed
        raise kind(f"{count} of {total} queues are as wanted; the rows say why the others are not")


async def _with_clock(work: Coroutine[Any, Any, Document], what: str) -> Document:
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
