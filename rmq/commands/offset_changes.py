"""Offsets that the offset manager writes: previewed, confirmed, done, with what became of each queue; and files.

`rmq offsets repair`, `restore`, `undo`, `export` and `import`, and `rmq group restore`.
"""

import asyncio
import os
import re
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import click
from msgspec.structs import replace

from remoting.background_tasks import start_task
from rmq.cli.moments import unix_ms_of
from rmq.cli.options import ChangeCommand, SiteCommand
from rmq.cli.session import OperatorSession, operator_name, with_session
from rmq.commands.completion import broker_names, cluster_names, group_names, topic_names
from rmq.commands.offset_views import WOULD_CHANGE, RepairRow, check_follows, manager_answer
from rmq.failures import CommandFailed, PartlyDone, UnknownName, WrongUse
from rmq.output.formats import rows_of
from rmq.site.http_api import ApiRequest, Document, path_of
from serving.shapes.offsets import (
    DEFAULT_CLUSTER,
    FILE_BYTES_MAX,
    AllowedBody,
    ApplyBody,
    ExportAnswer,
    ExportBody,
    ImportBody,
    RepairedQueueView,
    RepairQueues,
    RestoreAnswer,
    RestoreBody,
    RestoredView,
    UndoBody,
)

#: A restore reads brokers for 12 s, and writes for 18 s; a repair looks at messages for 10 s, and writes.
WRITE_TIMEOUT_S: Final = 60.0
FILE_TIMEOUT_S: Final = 90.0
#: Outcomes of a repair that leave messages to be read again, or skipped.
_LEFT: Final = ("failed", "not proved")
#: Statuses of queues that are as they were wanted.
_DONE: Final = frozenset({"done", "right already"})
#: How often the time that passes is written.
_TICK_S: Final = 1.0
_ERASED_LINE: Final = "\r\x1b[K"
#: The flag that overrides a reason, as the API spells it.
_FLAG: Final = re.compile(r"\((\w+)\)$")

_TOPIC = click.option("--topic", metavar="NAME", shell_complete=topic_names, help="only in this topic")
_BROKER = click.option(
    "--broker", "broker_name", metavar="BROKER", shell_complete=broker_names, help="only on this broker set"
)
_CLUSTER = click.option(
    "--cluster", metavar="NAME", default=DEFAULT_CLUSTER, show_default=True, shell_complete=cluster_names
)
_MOMENT = click.option(
    "--moment",
    metavar="TIME|former",
    required=True,
    help="the moment to restore; former: before the last change of the master",
)
_BACK = click.option("--allow-back", is_flag=True, help="offsets may go back: messages are read again")
_UNPROVED = click.option("--allow-unproved", is_flag=True, help="also where unread messages may be skipped")
_RESETS = click.option("--over-resets", is_flag=True, help="overwrite later resets and deletions")
_PULLS = click.option("--pulls", is_flag=True, help="treat the group as one that pulls, not pops")
_DIALECT = click.option(
    "--dialect",
    type=click.Choice(("broker", "client")),
    default="broker",
    show_default=True,
    help="consumerOffset.json of a broker, or offsets.json of a client",
)
_FILE = click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
_FILE_GROUP = click.option("--group", metavar="NAME", shell_complete=group_names, help="of this group")
_FILE_BROKER = click.option(
    "--broker", "broker_name", metavar="BROKER", shell_complete=broker_names, help="of this broker set"
)
_NAMESPACE = click.option("--namespace", metavar="NAME", default="", help="of the manager's own offsets")


@click.command("repair", cls=ChangeCommand)
@click.argument("run", type=click.IntRange(1))
@click.option(
    "--allow-back",
    is_flag=True,
    help="also groups that have consumed since, after a lost end: they read that again",
)
@with_session
async def repair(session: OperatorSession, run: int, *, allow_back: bool) -> None:
    """Write what a run would change. Shows first what the manager, deciding again, would write now."""
    body = ApplyBody(writer=operator_name(), dry_run=True, allow_back=allow_back)
    request = ApiRequest(
        path_of("offsets", "repairs", str(run), "apply"),
        RepairQueues,
        {},
        "POST",
        body,
        WRITE_TIMEOUT_S,
        is_preview=True,
    )
    preview = await with_clock(manager_answer(session, request), "looking at brokers")
    count = preview.run.counts.get(WOULD_CHANGE, 0)
    if not count:
        counts = ", ".join(f"{number} {outcome}" for outcome, number in preview.run.counts.items())
        session.note(f"run {run} would change nothing now: {counts or 'no offsets'}")
    if session.is_dry_run:
        session.show(preview.queues, RepairedQueueView)
        return
    session.preview(preview.queues, RepairedQueueView)
    if count:
        # A lower offset makes its group read again what it has read since.
        rows = [queue for queue in preview.queues if queue.outcome == WOULD_CHANGE]
        back = sum(row.messages_again for row in rows if (row.offset or 0) < (row.shown or 0))
        session.confirm(
            f"Write {count} offsets to {preview.run.broker_name} ({preview.run.address})? With it {back} messages are"
            f" read again; without it {preview.run.messages_again - back}, and up to {preview.run.messages_skipped} are"
            " skipped."
        )
    else:
        session.confirm(f"Close run {run}, which has nothing left to write?")
    request = request._replace(body=replace(body, dry_run=False), is_preview=False)
    done = (await with_clock(manager_answer(session, request), "writing offsets")).run
    session.show(rows_of(RepairRow, [done]), RepairRow)
    if left := {outcome: done.counts[outcome] for outcome in _LEFT if outcome in done.counts}:
        text = ", ".join(f"{count} {outcome}" for outcome, count in left.items())
        kind = PartlyDone if done.counts.keys() - set(_LEFT) else CommandFailed
        raise kind(f"{text}: `rmq offsets repairs {run}` says why")


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
async def restore_group(session: OperatorSession, group: str, **chosen: Any) -> None:
    """Restore a group's offsets at brokers to those of a former moment (offset manager).

    TIME is 2026-11-27T10:00:00Z. The column why says what a queue lacks.
    """
    await _restore(session, f"group {group}", group=group, **chosen)


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
async def restore_offsets(session: OperatorSession, group: str | None, **chosen: Any) -> None:
    """Restore the offsets of all groups of a cluster, or of those named, to those of a former moment.

    TIME is 2026-11-27T10:00:00Z. The column why says what a queue lacks.
    """
    what = f"group {group}" if group else f"all groups of {chosen['cluster']}"
    await _restore(session, what, group=group, **chosen)


async def _restore(session: OperatorSession, what: str, *, moment: str, **chosen: Any) -> None:
    wanted: Any = moment if moment == "former" else unix_ms_of(moment, "--moment")
    body = RestoreBody(writer=operator_name(), moment=wanted, dry_run=True, **chosen)
    await _write(session, path_of("offsets", "restore"), body, question=f"Restore {what} to {moment}")


@click.command("undo", cls=ChangeCommand)
@click.argument("operation_id", metavar="OPERATION")
@click.option("--force", is_flag=True, help="also queues whose offsets have changed since")
@_UNPROVED
@click.option("--pulls", is_flag=True, help="treat all its groups as ones that pull, not pop")
@with_session
async def undo_operation(session: OperatorSession, **chosen: Any) -> None:
    """Restore the offsets that brokers had before a restore, an import or an undo."""
    body = UndoBody(writer=operator_name(), dry_run=True, **chosen)
    await _write(session, path_of("offsets", "undo"), body, question=f"Undo operation {body.operation_id}")


@click.command("export", cls=SiteCommand)
@_FILE
@_DIALECT
@click.option(
    "--source",
    type=click.Choice(("manager", "readings")),
    default="readings",
    show_default=True,
    help="the manager's own offsets, or those of the masters at the last reading",
)
@_FILE_GROUP
@click.option("--topic", metavar="NAME", shell_complete=topic_names, help="only of this topic")
@_FILE_BROKER
@_CLUSTER
@_NAMESPACE
@click.option("--overwrite", is_flag=True, help="replace an existing file")
@with_session
async def export_offsets(session: OperatorSession, file: str, *, overwrite: bool, **chosen: Any) -> None:
    """Write offsets to a file in the format of brokers or clients; - is standard output."""
    if not overwrite:
        _check_free(file)
    path, body = path_of("offsets", "export"), ExportBody(**chosen)
    request = ApiRequest(path, ExportAnswer, {}, "POST", body, FILE_TIMEOUT_S, is_preview=True)
    found = await manager_answer(session, request)
    _write_file(file, found.file, overwrites=overwrite)
    for text in found.unavailable:
        session.note(f"not in the file: {text}")
    session.note(f"{found.offsets} offsets in {file}")
    if found.unavailable:
        raise PartlyDone(f"{len(found.unavailable)} offsets are not in the file")


@click.command("import", cls=ChangeCommand)
@_FILE
@_DIALECT
@click.option(
    "--target",
    type=click.Choice(("manager", "broker")),
    required=True,
    help="the offsets kept by the manager, or the masters of the broker sets",
)
@_FILE_GROUP
@_FILE_BROKER
@_CLUSTER
@_NAMESPACE
@_BACK
@_UNPROVED
@_PULLS
@with_session
async def import_offsets(
    session: OperatorSession, file: str, *, broker_name: str | None, group: str | None, **chosen: Any
) -> None:
    """Store the offsets from a file of a broker or client at brokers or in the manager; - is standard input."""
    body = ImportBody(
        writer=operator_name(),
        file=_read_file(file),
        broker_name=broker_name or "",
        group=group or "",
        dry_run=True,
        **chosen,
    )
    where = "at brokers" if body.target == "broker" else "in the offset manager"
    question = f"Store the offsets of {file} {where}"
    await _write(session, path_of("offsets", "import"), body, question=question, timeout_s=FILE_TIMEOUT_S)


async def _write(
    session: OperatorSession, path: str, body: AllowedBody, *, question: str, timeout_s: float = WRITE_TIMEOUT_S
) -> None:
    """Show what a dry run would write, ask, send it, and show what became of each queue; raises CommandFailed."""
    request = ApiRequest(path, RestoreAnswer, {}, "POST", body, timeout_s, is_preview=True)
    try:
        preview = await with_clock(manager_answer(session, request), "looking at brokers")
    except UnknownName:
        await check_follows(session)
        raise
    for problem in preview.problems:
        session.note(f"{problem.broker_name}: {problem.reason}")
    for text in preview.unused:
        session.note(f"not used: {text}")
    is_ready = WOULD_CHANGE in preview.counts
    if session.is_dry_run or not is_ready:
        session.show(preview.queues, RestoredView)
        if not is_ready:
            _check_nothing_left(preview)
            session.note("nothing to write")
        return
    session.preview(preview.queues, RestoredView)
    session.confirm(f"{question} {_summary(preview)}?")
    request = request._replace(body=replace(body, dry_run=False), is_preview=False)
    done = await with_clock(manager_answer(session, request), "writing offsets")
    session.show(done.queues, RestoredView)
    if done.operation_id:
        session.note(f"to undo it: rmq offsets undo {done.operation_id}")
    count = sum(number for status, number in done.counts.items() if status in _DONE)
    total = sum(done.counts.values())
    if count < total or done.problems:
        kind = PartlyDone if count else CommandFailed
        raise kind(f"{count} of {total} queues are as wanted; the rows give the reasons for the others")


def _summary(preview: RestoreAnswer) -> str:
    ready = [queue for queue in preview.queues if queue.status == WOULD_CHANGE]
    again = sum(queue.messages_again or 0 for queue in ready)
    never = sum(queue.messages_never or 0 for queue in ready)
    others = ", ".join(
        f"{count} {status}" for status, count in sorted(preview.counts.items()) if status != WOULD_CHANGE
    )
    text = f"in {len(ready)} queues: {again} messages are read again, {never} skipped"
    return f"{text}; the others stay ({others})" if others else text


def _check_nothing_left(preview: RestoreAnswer) -> None:
    """Raise CommandFailed if nothing can be written although something is not as it was wanted."""
    left = {status: count for status, count in preview.counts.items() if status not in _DONE}
    if not preview.counts and not preview.problems:
        raise UnknownName(
            "the offset manager knows no such offsets: check --cluster and the other options, and"
            " `rmq offsets sets` for the broker sets that it reads"
        )
    if left:
        text = ", ".join(f"{count} {status}" for status, count in sorted(left.items()))
        names = {match[1] for queue in preview.queues if (match := _FLAG.search(queue.why))}
        flags = ", ".join(
            "--" + re.sub("[A-Z]", lambda letter: "-" + letter[0].lower(), name) for name in sorted(names)
        )
        advice = f", and {flags} would override that" if flags else ""
        raise CommandFailed(f"nothing can be written: {text}; the column `why` gives the reasons{advice}")
    if preview.problems:
        raise CommandFailed("nothing can be written: no offsets of that moment are known (see above)")


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


def _read_file(file: str) -> bytes:
    try:
        with sys.stdin.buffer if file == "-" else Path(file).open("rb") as opened:
            text = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise WrongUse(f"{file} cannot be read: {error.strerror or error}") from None
    if len(text) > FILE_BYTES_MAX:
        raise WrongUse(f"{file} has more than {FILE_BYTES_MAX} bytes, the limit of the offset manager")
    return text


def _write_file(file: str, text: bytes, *, overwrites: bool) -> None:
    path = Path(file)
    try:
        if file == "-":
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
        elif path.exists() and not path.is_file():
            # A pipe or a device has nothing to lose, and must stay what it is.
            path.write_bytes(text)
        elif overwrites:
            _replace(path.resolve(), text)
        else:
            with path.open("xb") as opened:
                opened.write(text)
    except FileExistsError:
        raise _exists(file) from None
    except OSError as error:
        # Also where its reader has gone: these are no lines of which somebody has enough.
        raise WrongUse(f"{file} cannot be written: {error.strerror or error}") from None


def _check_free(file: str) -> None:
    if file != "-" and Path(file).is_file():
        raise _exists(file)


def _exists(file: str) -> WrongUse:
    return WrongUse(f"{file} exists: name another file, or add --overwrite")


def _replace(path: Path, text: bytes) -> None:
    """Write a file beside it first: one that cannot be written whole leaves the former one."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with beside.open("xb") as opened:
            opened.write(text)
        if path.exists():
            beside.chmod(path.stat().st_mode)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
