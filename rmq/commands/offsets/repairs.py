"""`rmq offsets repairs` and `rmq offsets repair`: what was decided after failovers, and the command that writes it."""

import click

from rmq.cli.operator_name import operator_name
from rmq.cli.options import ChangeCommand, SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.offsets.asking import check_follows, manager_answer, pages, with_clock
from rmq.failures import CommandFailed, PartlyDone
from rmq.output.rows import rows_of
from rmq.site.http_api import ApiRequest, path_of
from rmq.site.offset_documents import REPAIR_TIMEOUT_S, RepairRow
from serving.shapes.offsets import ApplyBody, RepairedQueueView, RepairListing, RepairQueues

WOULD_CHANGE = "would change"
#: Outcomes that leave messages to be read again, or skipped.
_LEFT = ("failed", "not proved")


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
