"""Writes of the offset manager at brokers: previewed, confirmed, done, with what became of each queue."""

import asyncio
import os
import re
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypedDict, TypeVar, Unpack

import click
import msgspec

from remoting.background_tasks import start_task
from rmq.cli.moments import unix_ms_of
from rmq.cli.options import ChangeCommand, SiteCommand
from rmq.cli.session import OperatorSession, operator_name, with_session
from rmq.commands.completion import broker_names, cluster_names, group_names, topic_names
from rmq.failures import CommandFailed, PartlyDone, UnknownName, WrongUse
from rmq.output.formats import rows_of
from rmq.site.http_api import ApiRequest, Document, call, offset_managers, path_of
from rmq.site.offset_documents import (
    FILE_TIMEOUT_S,
    REPAIR_TIMEOUT_S,
    RESTORE_TIMEOUT_S,
    RepairRow,
    RestoreDocument,
    RestoredRow,
    SetPage,
)
from serving.shapes.offsets import (
    FILE_BYTES_MAX,
    ApplyBody,
    Dialect,
    ExportAnswer,
    ExportBody,
    HolderListing,
    ImportBody,
    ManagerView,
    OrderlyGroupListing,
    OverlapListing,
    RepairedQueueView,
    RepairListing,
    RepairQueues,
    RestoreBody,
    TopicGroupListing,
    UndoBody,
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
WOULD_CHANGE = "would change"
#: Outcomes that leave messages to be read again, or skipped.
_LEFT = ("failed", "not proved")
_FORMER: Literal["former"] = "former"
_EXISTS: Final = "{} exists: name another file, or add --overwrite"
_DIALECT = click.option(
    "--dialect",
    type=click.Choice(("broker", "client")),
    default="broker",
    show_default=True,
    help="consumerOffset.json of a broker, or offsets.json of a client",
)
_GROUP = click.option("--group", metavar="NAME", shell_complete=group_names, help="of this group")
_FILE_BROKER = click.option("--broker", metavar="BROKER", shell_complete=broker_names, help="of this broker set")
_FILE_CLUSTER = click.option(
    "--cluster", metavar="NAME", default="DefaultCluster", show_default=True, shell_complete=cluster_names
)
_NAMESPACE = click.option("--namespace", metavar="NAME", default="", help="of the manager's own offsets")


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


@click.command("repairs", cls=SiteCommand)
@click.argument("run", type=click.IntRange(1), required=False)
@with_session
async def show_repairs(session: OperatorSession, run: int | None) -> None:
    """List what was decided after masters changed, the newest first, or the queues of one run that were not right."""
    if run is not None:
        found = await _queues(session, run)
        rows = [queue for page in found for queue in page.queues]
        session.show(rows, RepairedQueueView)
        if not rows and not found[0].run.problem:
            session.note(f"all queues of run {run} were right already")
        if problem := found[0].run.problem:
            session.note(problem)
        return
    listed = await manager_answer(session, ApiRequest(path_of("offsets", "repairs"), RepairListing))
    if not listed.runs:
        await check_follows(session)
    session.show(rows_of(RepairRow, listed.runs), RepairRow)
    if listed.running:
        session.note(f"{listed.running} repairs are under way: for two minutes members that come back are looked for")


@click.command("repair", cls=ChangeCommand)
@click.argument("run", type=click.IntRange(1))
@click.option(
    "--allow-back",
    is_flag=True,
    help="also groups that have gone on since, behind a lost end: they read that again",
)
@with_session
async def repair(session: OperatorSession, run: int, *, allow_back: bool) -> None:
    """Write what a run would change. The manager decides anew: this shows what it would write now, and asks."""

    def request(*, is_preview: bool) -> ApiRequest[RepairQueues]:
        path = path_of("offsets", "repairs", str(run), "apply")
        body = ApplyBody(writer=operator_name(), dry_run=is_preview, allow_back=allow_back)
        return ApiRequest(path, RepairQueues, {}, "POST", body, timeout_s=REPAIR_TIMEOUT_S, is_preview=is_preview)

    preview = await with_clock(manager_answer(session, request(is_preview=True)), "looking at brokers")
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
            f"Write {count} offsets to {preview.run.broker_name} ({preview.run.address})? Then {back} messages are read"
            f" again; otherwise {preview.run.messages_again - back} are, and up to {preview.run.messages_skipped} are"
            " skipped."
        )
    else:
        session.confirm(f"End run {run}, so that nothing waits for it any more?")
    done = (await with_clock(manager_answer(session, request(is_preview=False)), "writing offsets")).run
    session.show(rows_of(RepairRow, [done]), RepairRow)
    if left := {outcome: done.counts[outcome] for outcome in _LEFT if outcome in done.counts}:
        text = ", ".join(f"{count} {outcome}" for outcome, count in left.items())
        kind = PartlyDone if done.counts.keys() - set(_LEFT) else CommandFailed
        raise kind(f"{text}: `rmq offsets repairs {run}` says why")


async def _queues(session: OperatorSession, run: int) -> list[RepairQueues]:
    return await pages(session, path_of("offsets", "repairs", str(run)), RepairQueues)


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


class ExportOptions(TypedDict):
    """What `export` takes beside the file."""

    dialect: Dialect
    source: Literal["manager", "readings"]
    cluster: str
    namespace: str
    broker: str | None
    group: str | None
    topic: str | None
    overwrite: bool


class ImportOptions(TypedDict):
    """What `import` takes beside the file."""

    dialect: Dialect
    target: Literal["manager", "broker"]
    cluster: str
    namespace: str
    broker: str | None
    group: str | None
    allow_back: bool
    allow_unproved: bool
    pulls: bool


@click.command("export", cls=SiteCommand)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@_DIALECT
@click.option(
    "--source",
    type=click.Choice(("manager", "readings")),
    default="readings",
    show_default=True,
    help="the manager's own offsets, or those that the master had at the last reading",
)
@_GROUP
@click.option("--topic", metavar="NAME", shell_complete=topic_names, help="only of this topic")
@_FILE_BROKER
@_FILE_CLUSTER
@_NAMESPACE
@click.option("--overwrite", is_flag=True, help="a file that exists is replaced")
@with_session
async def export_offsets(session: OperatorSession, file: str, **chosen: Unpack[ExportOptions]) -> None:
    """Write offsets to a file as brokers or clients have it; - is standard output."""
    if not chosen["overwrite"]:
        _check_free(file)
    body = ExportBody(
        dialect=chosen["dialect"],
        source=chosen["source"],
        cluster=chosen["cluster"],
        namespace=chosen["namespace"],
        broker_name=chosen["broker"],
        group=chosen["group"],
        topic=chosen["topic"],
    )
    request = ApiRequest(
        path_of("offsets", "export"), ExportAnswer, {}, "POST", body, timeout_s=FILE_TIMEOUT_S, is_preview=True
    )
    found = await manager_answer(session, request)
    _write(file, found.file, overwrites=chosen["overwrite"])
    for text in found.unavailable:
        session.note(f"not in the file: {text}")
    session.note(f"{found.offsets} offsets in {file}")
    if found.unavailable:
        raise PartlyDone(f"{len(found.unavailable)} offsets are not in the file")


@click.command("import", cls=ChangeCommand)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@_DIALECT
@click.option(
    "--target",
    type=click.Choice(("manager", "broker")),
    required=True,
    help="into the manager's own offsets, or to the masters of the broker sets",
)
@_GROUP
@_FILE_BROKER
@_FILE_CLUSTER
@_NAMESPACE
@click.option("--allow-back", is_flag=True, help="offsets may go back: messages are read again")
@click.option("--allow-unproved", is_flag=True, help="also where messages that nobody has read may be skipped")
@click.option("--pulls", is_flag=True, help="the group pulls, and does not pop, whatever its members show")
@with_session
async def import_offsets(session: OperatorSession, file: str, **chosen: Unpack[ImportOptions]) -> None:
    """Store the offsets of a file of a broker or client, at brokers or in the manager; - is standard input."""
    text = _read(file)
    writer = operator_name()

    def body_of(is_preview: bool) -> ImportBody:  # noqa: FBT001  # as BodyOf has it
        return ImportBody(
            writer=writer,
            dialect=chosen["dialect"],
            file=text,
            cluster=chosen["cluster"],
            namespace=chosen["namespace"],
            broker_name=chosen["broker"] or "",
            group=chosen["group"] or "",
            target=chosen["target"],
            dry_run=is_preview,
            allow_back=chosen["allow_back"],
            allow_unproved=chosen["allow_unproved"],
            pulls=chosen["pulls"],
        )

    where = "at brokers" if chosen["target"] == "broker" else "in the offset manager"
    await write_offsets(
        session,
        path_of("offsets", "import"),
        body_of,
        timeout_s=FILE_TIMEOUT_S,
        question=f"Store the offsets of {file} {where}",
    )


def _read(file: str) -> bytes:
    def read(opened: BinaryIO) -> bytes:
        return opened.read(FILE_BYTES_MAX + 1)

    try:
        if file == "-":
            text = read(sys.stdin.buffer)
        else:
            with Path(file).open("rb") as opened:
                text = read(opened)
    except OSError as error:
        raise WrongUse(f"{file} cannot be read: {error.strerror or error}") from None
    if len(text) > FILE_BYTES_MAX:
        raise WrongUse(f"{file} has more than {FILE_BYTES_MAX} bytes, which is more than the offset manager takes")
    return text


def _check_free(file: str) -> None:
    if file != "-" and Path(file).is_file():
        raise WrongUse(_EXISTS.format(file))


def _write(file: str, text: bytes, *, overwrites: bool) -> None:
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
        raise WrongUse(_EXISTS.format(file)) from None
    except OSError as error:
        # Also where its reader has gone: these are no lines of which somebody has enough.
        raise WrongUse(f"{file} cannot be written: {error.strerror or error}") from None


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
