"""`rmq offsets guard`: what the guard of the offset manager did, or would have done, after failovers and restarts."""

import click
import msgspec

from rmq.cli.options import SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.offsets.asking import manager_answer
from rmq.site.http_api import ApiRequest, path_of
from rmq.site.offset_documents import GuardDocument, GuardedOffsetsPage, GuardedRow, GuardRunDocument


class GuardRunRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One run of the guard at one broker."""

    run: int
    cluster: str
    broker_name: str
    cause: str
    result: str
    began_unix_ms: int
    duration_ms: int
    #: No: it only reports what it would write.
    writes: bool
    #: Offsets by action, reason and outcome.
    offsets: dict[str, int]
    error: str | None


@click.command("guard", cls=SiteCommand)
@click.argument("run", type=click.IntRange(1), required=False)
@with_session
async def show_guard(session: OperatorSession, run: int | None) -> None:
    """List the last runs of the guard, or the offsets that one run has written or reports (docs/offsets.md)."""
    if run is None:
        found = await manager_answer(session, ApiRequest(path_of("offsets", "guard"), GuardDocument))
        session.show([_row(each) for each in found.runs], GuardRunRow)
        return
    rows: list[GuardedRow] = []
    cursor: str | None = ""
    while cursor is not None:
        parameters = {"cursor": cursor} if cursor else {}
        request = ApiRequest(path_of("offsets", "guard", str(run)), GuardedOffsetsPage, parameters)
        page = await manager_answer(session, request)
        rows += page.offsets
        cursor = page.next_cursor
    session.show(rows, GuardedRow)
    if page.left_out:
        session.note(f"{page.left_out} offsets more are not listed")


def _row(found: GuardRunDocument) -> GuardRunRow:
    return GuardRunRow(
        run=found.run,
        cluster=found.cluster,
        broker_name=found.broker_name,
        cause=found.cause,
        result=found.result,
        began_unix_ms=found.began_unix_ms,
        duration_ms=found.duration_ms,
        writes=found.writes,
        offsets={f"{each.action}/{each.reason}/{each.outcome}": each.offsets for each in found.counts},
        error=found.error or None,
    )
