"""`rmq offsets export` and `rmq offsets import`: offsets as files of brokers and clients."""

import os
import sys
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypedDict, Unpack

import click

from rmq.cli.operator_name import operator_name
from rmq.cli.options import ChangeCommand, SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import broker_names, cluster_names, group_names, topic_names
from rmq.commands.offsets.asking import manager_answer, write_offsets
from rmq.failures import PartlyDone, WrongUse
from rmq.site.http_api import ApiRequest, path_of
from rmq.site.offset_documents import FILE_TIMEOUT_S
from serving.shapes.offsets import FILE_BYTES_MAX, Dialect, ExportAnswer, ExportBody, ImportBody

_EXISTS: Final = "{} exists: name another file, or add --overwrite"

_DIALECT = click.option(
    "--dialect",
    type=click.Choice(("broker", "client")),
    default="broker",
    show_default=True,
    help="consumerOffset.json of a broker, or offsets.json of a client",
)
_GROUP = click.option("--group", metavar="NAME", shell_complete=group_names, help="of this group")
_BROKER = click.option("--broker", metavar="BROKER", shell_complete=broker_names, help="of this broker set")
_CLUSTER = click.option(
    "--cluster", metavar="NAME", default="DefaultCluster", show_default=True, shell_complete=cluster_names
)
_NAMESPACE = click.option("--namespace", metavar="NAME", default="", help="of the manager's own offsets")


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
@_BROKER
@_CLUSTER
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
@_BROKER
@_CLUSTER
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
