"""`rmq offsets status`: one look at the offset managers, what they read, what jumped and what waits for a repair."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import click
import msgspec

from rmq.cli.options import ListCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.offsets.asking import follows_nobody, pages
from rmq.commands.offsets.repairs import WOULD_CHANGE
from rmq.failures import CommandFailed, NotReachable, PartlyDone, first_of
from rmq.output.rows import RowKey, iso_time
from rmq.site.http_api import ApiRequest, HttpServers, call, offset_managers, path_of
from rmq.site.offset_documents import JumpPage, JumpRow, SetPage, SetRow
from serving.shapes.offsets import ManagerView, RepairListing, RepairView

Kind = Literal["manager", "brokerSet", "replica", "jumps", "repair"]
State = Literal[
    "leads",
    "loading",
    "follows",
    "follows_nobody",
    "failed",
    "fresh",
    "stale",
    "no_master",
    "copies_nothing",
    "jumped",
    "would_change",
    "not_proved",
]
#: States that need nobody.
_WELL: frozenset[State] = frozenset({"leads", "follows", "fresh", "jumped"})
#: Jumps that are looked at, and for how long they are told.
_JUMPS = 1000
_TOLD_MS = 24 * 3_600_000


class OffsetStatusRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An offset manager, a broker set, a replica, the jumps of one cause, or the repair of a set."""

    row_key: ClassVar[RowKey] = ("kind", "name")

    kind: Kind
    #: Of a repair: the number of its run.
    name: str
    #: `follows_nobody`: it reads no broker. `failed`: no answer; of a repair: offsets that it could not write.
    #: `stale`: the last reading is older than three periods. `copies_nothing`: the replica has no new offsets of its
    #: master. `would_change`: `rmq offsets repair RUN` writes it. `not_proved`: nothing is proved to be right.
    state: State
    detail: str


@click.command("status", cls=ListCommand)
@with_session
async def show_status(session: OperatorSession) -> None:
    """Show whom the offset manager follows, how fresh its readings are, what jumped, and what would be repaired.

    Jumps are those of the last day, repairs the newest one of each broker set.
    """
    settings = session.site.settings
    rows: list[OffsetStatusRow] = []
    found: list[tuple[HttpServers, ManagerView]] = []
    failures: list[CommandFailed] = []
    named = offset_managers(settings)
    for url in named.urls:
        server = HttpServers((url,), named.kind, named.option)
        try:
            manager = await call(settings, server, ApiRequest(path_of("manager"), ManagerView))
        except CommandFailed as failure:
            failures.append(failure)
            rows.append(OffsetStatusRow(kind="manager", name=url, state="failed", detail=str(failure)))
        else:
            found.append((server, manager))
            rows.append(_manager_row(manager))
    if not found:
        raise failures[0] if len(failures) == 1 else NotReachable("; ".join(map(str, failures)))
    leader = next((server for server, manager in found if manager.role == "leading"), None)
    if leader is not None:
        sets = [row for page in await pages(session, path_of("offsets", "sets"), SetPage) for row in page.sets]
        limit = {"limit": str(_JUMPS)}
        jumps = await call(settings, leader, ApiRequest(path_of("offsets", "jumps"), JumpPage, limit))
        repairs = await call(settings, leader, ApiRequest(path_of("offsets", "repairs"), RepairListing))
        rows += _set_rows(sets)
        rows += _jump_rows(jumps.jumps, max((row.read_unix_ms or 0 for row in sets), default=0))
        rows += _repair_rows(repairs)
    session.show(rows, OffsetStatusRow, is_partial=leader is None)
    for _, manager in found:
        if sentence := follows_nobody(manager):
            session.note(sentence)
    if leader is None:
        raise PartlyDone(_no_leader(found[0][1], named.option))
    if wrong := [f"{row.kind} {row.name}" for row in rows if row.state not in _WELL]:
        raise PartlyDone(f"not well: {first_of(wrong)}")


def _no_leader(manager: ManagerView, option: str) -> str:
    if manager.role == "loading":
        return f"{manager.address} reads what its store has: repeat it in some seconds"
    if manager.leader_address:
        return f"the offset manager at {manager.leader_address} leads: name it with {option}"
    return "no offset manager leads at present"


def _manager_row(manager: ManagerView) -> OffsetStatusRow:
    state: State = "leads" if manager.role == "leading" else "loading" if manager.role == "loading" else "follows"
    detail = [
        f"follows {manager.follows.replace('_', ' ')}",
        f"{manager.broker_sets_with_master} of {manager.broker_sets} broker sets have a master",
    ]
    if manager.follows == "nobody":
        state, detail = "follows_nobody", ["start it with --namesrv-addr or --controller-http-addr"]
    elif not manager.masters_known:
        state, detail[:] = "stale", [f"{detail[0]}, and none of them answers"]
    if manager.role == "following":
        detail.append(f"the leader is {manager.leader_address or 'unknown'}")
    if manager.offsets or manager.store != "embedded":
        detail.append(f"{manager.offsets} offsets of clients, {manager.dirty_keys} not in {manager.store} yet")
    if manager.last_flush_error:
        detail.append(manager.last_flush_error)
    return OffsetStatusRow(kind="manager", name=manager.address, state=state, detail="; ".join(detail))


def _set_rows(sets: Sequence[SetRow]) -> Iterator[OffsetStatusRow]:
    for row in sets:
        state: State = "fresh" if row.fresh else "no_master" if row.master is None else "stale"
        detail = f"{row.groups} groups in topics"
        if not row.fresh:
            detail = "never read" if row.read_unix_ms is None else f"last read {iso_time(row.read_unix_ms)}"
        if row.problem:
            detail += f"; {row.problem}"
        yield OffsetStatusRow(kind="brokerSet", name=row.broker_name, state=state, detail=detail)
    for row in sets:
        for replica in row.replicas:
            if replica.problem:
                detail = f"replica of {row.broker_name}; {replica.problem}"
                yield OffsetStatusRow(kind="replica", name=replica.address, state="failed", detail=detail)
            elif replica.copies is False:
                detail = f"replica of {row.broker_name}; slaves of 5.5.0 copy no offsets: update it to 5.5.1"
                yield OffsetStatusRow(kind="replica", name=replica.address, state="copies_nothing", detail=detail)


def _jump_rows(jumps: Sequence[JumpRow], now_unix_ms: int) -> Iterator[OffsetStatusRow]:
    """Yield the jumps of the last day, by cause."""
    told = [jump for jump in jumps if jump.unix_ms > now_unix_ms - _TOLD_MS]
    for cause in dict.fromkeys(jump.cause for jump in told):
        of_cause = [jump for jump in told if jump.cause == cause]
        groups = len({jump.group for jump in of_cause})
        again = sum(jump.messages_again for jump in of_cause)
        skipped = sum(jump.messages_skipped for jump in of_cause)
        removed = sum(jump.removed for jump in of_cause)
        detail = (
            f"{groups} groups, {again} messages read again, {skipped} passed unread, {removed} queues without an"
            f" offset since; last {of_cause[0].group}: rmq offsets jumps --cause {cause}"
        )
        yield OffsetStatusRow(kind="jumps", name=cause, state="jumped", detail=detail)


def _repair_rows(repairs: RepairListing) -> Iterator[OffsetStatusRow]:
    newest: dict[tuple[str, str], RepairView] = {}
    for run in repairs.runs:
        newest.setdefault((run.cluster, run.broker_name), run)
    for run in newest.values():
        if row := _repair_row(run):
            yield row


def _repair_row(run: RepairView) -> OffsetStatusRow | None:
    """Return what is left of a run; None if all is right or was written."""
    counts = {outcome: run.counts.get(outcome, 0) for outcome in (WOULD_CHANGE, "failed", "not proved")}
    text = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    advice = f"rmq offsets repairs {run.number}"
    state: State
    if counts[WOULD_CHANGE]:
        state, advice = "would_change", f"rmq offsets repair {run.number}"
        text += f"; until then {run.messages_again} messages are read again, and up to {run.messages_skipped} skipped"
    elif counts["failed"] or run.problem:
        state = "failed"
    elif counts["not proved"]:
        state = "not_proved"
    else:
        return None
    detail = f"{run.broker_name}, {run.cause}: {'; '.join(filter(None, (text, run.problem)))}: {advice}"
    return OffsetStatusRow(kind="repair", name=str(run.number), state=state, detail=detail)
