"""`rmq offsets regressions`, `rmq offsets mirror` and `rmq offsets operations`."""

from typing import ClassVar

import click
import msgspec

from rmq.cli.options import ListCommand, SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import broker_names, group_names, topic_names
from rmq.commands.offsets.asking import manager_answer
from rmq.output.rows import RowKey
from rmq.site.http_api import ApiRequest, path_of
from rmq.site.offset_documents import (
    MirrorPage,
    RegressionDocument,
    RegressionPage,
    UndoableDocument,
    UndoableOperations,
)

_CAUSES = (
    "role_change",
    "restart",
    "disk_replaced",
    "operator_reset",
    "guard",
    "guard_or_rewind",
    "rewind",
    "deleted",
)


class RegressionRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An offset that went back at its broker."""

    #: When it was seen.
    seen_unix_ms: int
    cause: str
    group: str
    topic: str
    broker_name: str
    queue_id: int
    from_offset: int
    #: Blank: there is no offset any more.
    to_offset: int | None
    messages_again: int | None
    #: How often it has happened to the queue for this cause.
    times: int
    #: The master that was read before, and the one after.
    before: str
    after: str


class MirrorRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How well the offset manager knows the offsets of a broker set."""

    row_key: ClassVar[RowKey] = ("cluster", "broker_name")

    cluster: str
    broker_name: str
    #: `fresh`, `stale` after three periods without a reading, `absent`: nobody shows the set any more.
    state: str
    entries: int
    age_ms: int | None
    read_unix_ms: int | None
    #: The first moment that can be restored.
    kept_since_unix_ms: int | None
    error: str | None


class OperationRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An operation that can be undone."""

    operation_id: str
    kind: str
    writer: str
    done_unix_ms: int
    queues: int
    finished: bool
    #: The operation that it has undone.
    undoes: str | None


@click.command("regressions", cls=SiteCommand)
@click.option("--group", metavar="NAME", shell_complete=group_names, help="only of this group")
@click.option("--topic", metavar="NAME", shell_complete=topic_names, help="only in this topic")
@click.option("--broker", metavar="BROKER", shell_complete=broker_names, help="only on this broker set")
@click.option("--cause", type=click.Choice(_CAUSES), help="only for this cause")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 1000), help="rows at most")
@with_session
async def list_regressions(
    session: OperatorSession, group: str | None, topic: str | None, broker: str | None, cause: str | None, limit: int
) -> None:
    """List offsets that went back at brokers, the newest first: when, by how much and why."""
    wanted = {"group": group, "topic": topic, "brokerName": broker, "cause": cause, "limit": str(limit)}
    parameters = {name: value for name, value in wanted.items() if value}
    found = await manager_answer(session, ApiRequest(path_of("offsets", "regressions"), RegressionPage, parameters))
    session.show([_regression(each) for each in found.regressions], RegressionRow)


@click.command("mirror", cls=ListCommand)
@with_session
async def list_mirror(session: OperatorSession) -> None:
    """List how fresh what the offset manager has read of each broker set is, and since when it is kept."""
    rows: list[MirrorRow] = []
    cursor: str | None = ""
    while cursor is not None:
        parameters = {"cursor": cursor} if cursor else {}
        page = await manager_answer(session, ApiRequest(path_of("offsets", "mirror"), MirrorPage, parameters))
        rows += [
            MirrorRow(
                cluster=each.cluster,
                broker_name=each.broker_name,
                state=each.state,
                entries=each.entries,
                age_ms=each.age_ms,
                read_unix_ms=each.reading.read_unix_ms if each.reading else None,
                kept_since_unix_ms=each.kept_since_unix_ms,
                error=each.error,
            )
            for each in page.sets
        ]
        cursor = page.next_cursor
    session.show(rows, MirrorRow)


@click.command("operations", cls=SiteCommand)
@with_session
async def list_operations(session: OperatorSession) -> None:
    """List the restores, imports and resets of the offset manager that can be undone, the newest first."""
    found = await manager_answer(session, ApiRequest(path_of("offsets", "operations"), UndoableOperations))
    session.show([_operation(each) for each in found.operations], OperationRow)


def _operation(found: UndoableDocument) -> OperationRow:
    return OperationRow(
        operation_id=found.operation_id,
        kind=found.kind,
        writer=found.writer,
        done_unix_ms=found.unix_ms,
        queues=found.queues,
        finished=found.finished,
        undoes=found.undoes or None,
    )


def _regression(found: RegressionDocument) -> RegressionRow:
    return RegressionRow(
        seen_unix_ms=found.unix_ms,
        cause=found.cause,
        group=found.group,
        topic=found.topic,
        broker_name=found.broker_name,
        queue_id=found.queue_id,
        from_offset=found.from_offset,
        to_offset=found.to_offset,
        messages_again=found.messages_again,
        times=found.times,
        before=found.before.address,
        after=found.after.address,
    )
