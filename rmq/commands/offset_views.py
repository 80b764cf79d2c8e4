"""`rmq offsets`: what the offset manager knows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import click
import msgspec
from msgspec.structs import asdict

from rmq.cli.options import ChangeCommand, ListCommand, SiteCommand
from rmq.cli.session import OperatorSession, operator_name, with_session
from rmq.commands.completion import broker_names, cluster_names, group_names, topic_names
from rmq.failures import CommandFailed, NotReachable, PartlyDone, first_of
from rmq.output.formats import RowKey, iso_time, row_type, rows_of
from rmq.site.http_api import ApiRequest, Document, HttpServers, call, offset_managers, path_of
from serving.shapes.offsets import (
    GroupBody,
    HolderListing,
    Jump,
    JumpCause,
    JumpListing,
    KeptOperationListing,
    KeptOperationView,
    LagListing,
    LagView,
    ManagerView,
    OrderlyAnswer,
    OrderlyGroupListing,
    OrderlyGroupView,
    OverlapListing,
    OverlapView,
    ReadSetListing,
    RepairedQueueView,
    RepairListing,
    RepairQueues,
    RepairView,
    SetStatus,
    TopicGroupListing,
    TopicGroupView,
)

WOULD_CHANGE = "would change"
#: The manager reads brokers for 20 s at most.
_LAG_TIMEOUT_S = 30.0
_GROUP = click.argument("group", shell_complete=group_names)
_CLUSTER = click.option(
    "--cluster", metavar="NAME", default="DefaultCluster", show_default=True, shell_complete=cluster_names
)
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
RepairRow = row_type(
    RepairView,
    *("number", "cluster", "broker_name", "address", "cause", "began_unix_ms", "took_ms", "parted_at", "counts"),
    *("messages_again", "messages_skipped", "problem", "applied_unix_ms", "applied_by"),
)
OperationRow = row_type(KeptOperationView, "operation_id", "kind", "writer", "unix_ms", "queues", "finished", "undoes")
LagRow = row_type(
    LagView,
    *("topic", "broker_name", "queue_id", "lag", "committed_offset", "max_offset", "committed_in", "reason"),
)
SetRow = row_type(
    SetStatus,
    *("cluster", "broker_name", "master", "fresh", "read_unix_ms", "oldest_unix_ms"),
    *("groups", "left_out", "fingerprints", "replicas", "problem"),
    key=("cluster", "broker_name"),
)
JumpRow = row_type(
    Jump,
    *("unix_ms", "cause", "group", "topic", "broker_name", "queue_count"),
    *("messages_again", "messages_skipped", "removed", "queues"),
)


class HeldQueueRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    client_id: str
    topic: str
    broker_name: str
    queue_id: int
    #: `held`, `expired`, or `dropped`: the client is giving it up.
    state: str
    locked_unix_ms: int | None
    replayed_unix_ms: int | None


async def manager_answer(session: OperatorSession, request: ApiRequest[Document]) -> Document:
    """Return what the offset manager that leads answers; raises CommandFailed."""
    settings = session.site.settings
    return await call(settings, offset_managers(settings), request)


async def pages(
    session: OperatorSession, path: str, shape: type[Document], parameters: Mapping[str, str] = {}
) -> list[Document]:
    """Return all pages of a listing; raises CommandFailed."""
    found: list[Document] = []
    cursor: Mapping[str, str] = {}
    while not found or cursor:
        found.append(await manager_answer(session, ApiRequest(path, shape, {**parameters, **cursor})))
        following: str | None = getattr(found[-1], "next_cursor", None)
        cursor = {} if following is None else {"cursor": following}
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
        f"the offset manager at {manager.address} has no source of masters, so it reads no broker: start it with"
        " --namesrv-addr or --controller-http-addr"
    )


@click.command("repairs", cls=SiteCommand)
@click.argument("run", type=click.IntRange(1), required=False)
@with_session
async def show_repairs(session: OperatorSession, run: int | None) -> None:
    """List the repair runs after changes of masters, newest first, or the queues of one run that were not right."""
    if run is not None:
        found = await pages(session, path_of("offsets", "repairs", str(run)), RepairQueues)
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
        session.note(f"{listed.running} repairs are running: they watch for returning members for two minutes")


@click.command("sets", cls=ListCommand)
@with_session
async def list_sets(session: OperatorSession) -> None:
    """List the age of the readings of each broker set, how far back they go, and which replicas copy offsets."""
    rows = [row for page in await pages(session, path_of("offsets", "sets"), ReadSetListing) for row in page.sets]
    if not rows:
        await check_follows(session)
    session.show(rows_of(SetRow, rows), SetRow)


@click.command("jumps", cls=SiteCommand)
@click.option("--group", metavar="NAME", shell_complete=group_names, help="only of this group")
@click.option("--topic", metavar="NAME", shell_complete=topic_names, help="only in this topic")
@click.option("--broker", metavar="BROKER", shell_complete=broker_names, help="only on this broker set")
@click.option("--cause", type=click.Choice([cause.value for cause in JumpCause]), help="only for this cause")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 1000), help="maximum number of rows")
@with_session
async def list_jumps(
    session: OperatorSession, group: str | None, topic: str | None, broker: str | None, cause: str | None, limit: int
) -> None:
    """List offsets that went back at brokers, or further forward than can have been read, newest first.

    failover, restart: the new master had older offsets. lost: its log has lost its end too. reset, deleted: set or
    deleted while the master ran.
    """
    wanted = {"group": group, "topic": topic, "broker": broker, "cause": cause, "limit": str(limit)}
    parameters = {name: value for name, value in wanted.items() if value}
    found = await manager_answer(session, ApiRequest(path_of("offsets", "jumps"), JumpListing, parameters))
    if not found.jumps:
        await check_follows(session)
    session.show(rows_of(JumpRow, found.jumps), JumpRow)


@click.command("operations", cls=SiteCommand)
@with_session
async def list_operations(session: OperatorSession) -> None:
    """List the restores, imports and undoes at brokers that can be undone, newest first."""
    found = await manager_answer(session, ApiRequest(path_of("offsets", "operations"), KeptOperationListing))
    session.show(rows_of(OperationRow, found.operations), OperationRow)


@click.command("lag", cls=SiteCommand)
@click.argument("group", shell_complete=group_names)
@click.option("--topic", metavar="NAME", shell_complete=topic_names, help="only in this topic")
@_CLUSTER
@click.option("--namespace", metavar="NAME", default="", help="of the manager's own offsets")
@with_session
async def show_lag(session: OperatorSession, group: str, topic: str | None, cluster: str, namespace: str) -> None:
    """Show the lag of a group in each queue, including offsets that it commits to the offset manager.

    `rmq group lag` uses only offsets at brokers, and shows which member holds each queue.
    """
    wanted = {"group": group, "topic": topic, "cluster": cluster, "namespace": namespace}
    parameters = {name: value for name, value in wanted.items() if value}
    request = ApiRequest(path_of("offsets", "lag"), LagListing, parameters, timeout_s=_LAG_TIMEOUT_S)
    found = await manager_answer(session, request)
    if not found.queues and not found.unavailable:
        await check_follows(session)
        session.note(f"{group} has no offset in {cluster}, neither at brokers nor in the offset manager")
    session.show(rows_of(LagRow, found.queues), LagRow, is_partial=bool(found.unavailable))
    for problem in found.unavailable:
        session.note(f"{problem.broker_name}: {problem.reason}")
    if found.known_lag is not None:
        session.note(
            f"{found.known_lag} messages"
            + (f", and an unknown number in {found.unknown} queues" if found.unknown else "")
        )
    if found.unavailable:
        raise PartlyDone(f"unknown: {first_of(problem.broker_name for problem in found.unavailable)}")


@click.command("groups", cls=ListCommand)
@click.argument("topic", shell_complete=topic_names)
@with_session
async def list_groups(session: OperatorSession, topic: str) -> None:
    """List the groups that read, or have read, a topic: those with offsets at brokers."""
    found = await pages(session, path_of("offsets", "groups"), TopicGroupListing, {"topic": topic})
    rows = [row for page in found for row in page.groups]
    if not rows:
        await check_follows(session)
        session.note(f"no group has an offset in {topic}, at the broker sets that `rmq offsets sets` lists")
    session.show(rows, TopicGroupView)


@click.command("orderly", cls=ListCommand)
@with_session
async def list_orderly(session: OperatorSession) -> None:
    """List the groups declared orderly: the manager watches which client holds which of their queues."""
    found = await pages(session, path_of("locks", "orderly-groups"), OrderlyGroupListing)
    session.show([row for page in found for row in page.groups], OrderlyGroupView)


@click.command("overlaps", cls=ListCommand)
@with_session
async def list_overlaps(session: OperatorSession) -> None:
    """List queues of declared groups that two clients hold at the same time: both may consume them."""
    found = await pages(session, path_of("locks", "overlaps"), OverlapListing)
    session.show([row for page in found for row in page.overlaps], OverlapView)


@click.command("holders", cls=SiteCommand)
@_GROUP
@_CLUSTER
@with_session
async def list_holders(session: OperatorSession, group: str, cluster: str) -> None:
    """List which client holds which queue of a declared group, by the last answers of its clients."""
    found = await pages(session, path_of("locks", "holders"), HolderListing, {"group": group, "cluster": cluster})
    holders = [holder for page in found for holder in page.holders]
    rows = [HeldQueueRow(client_id=holder.client_id, **asdict(queue)) for holder in holders for queue in holder.queues]
    session.show(rows, HeldQueueRow)
    if not found[0].is_declared:
        session.note(
            f"{group} is not declared orderly, so its clients are not asked: rmq offsets declare-orderly {group}"
        )
    elif found[0].kind == "concurrent":
        session.note(f"a client is not orderly, so no lock is replayed: rmq offsets undeclare {group}")
    else:
        session.note(f"clients of {group} that brokers list: {found[0].members}")


@click.command("declare-orderly", cls=ChangeCommand)
@_GROUP
@_CLUSTER
@with_session
async def declare_orderly(session: OperatorSession, group: str, cluster: str) -> None:
    """Declare a group orderly. Concurrent consumers must not be: locks send their retries to the dead letters."""
    await _change(session, "declare-orderly", group, cluster)


@click.command("undeclare", cls=ChangeCommand)
@_GROUP
@_CLUSTER
@with_session
async def undeclare(session: OperatorSession, group: str, cluster: str) -> None:
    """Withdraw the declaration of an orderly group: its lock holders are no longer watched."""
    await _change(session, "undeclare", group, cluster)


async def _change(session: OperatorSession, what: str, group: str, cluster: str) -> None:
    if session.is_dry_run:
        session.show([OrderlyGroupView(cluster=cluster, group=group)], OrderlyGroupView)
        return
    session.confirm(f"{what.replace('-orderly', '').capitalize()} group {group} of {cluster}?")
    wanted = GroupBody(writer=operator_name(), cluster=cluster, group=group)
    request = ApiRequest(path_of("locks", what), OrderlyAnswer, {}, "POST", wanted)
    if not (await manager_answer(session, request)).changed:
        session.note("already so: nothing to change")


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
    """Show the offset managers, the age of their readings, recent jumps, and pending repairs.

    Jumps are those of the last day; repairs are the newest of each broker set.
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
        sets = [row for page in await pages(session, path_of("offsets", "sets"), ReadSetListing) for row in page.sets]
        limit = {"limit": str(_JUMPS)}
        jumps = await call(settings, leader, ApiRequest(path_of("offsets", "jumps"), JumpListing, limit))
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
        return f"{manager.address} is loading its store: try again in a few seconds"
    if manager.leader_address:
        return f"the offset manager at {manager.leader_address} leads: give its address with {option}"
    return "no offset manager leads now"


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


def _set_rows(sets: Sequence[SetStatus]) -> Iterator[OffsetStatusRow]:
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


def _jump_rows(jumps: Sequence[Jump], now_unix_ms: int) -> Iterator[OffsetStatusRow]:
    """Yield the jumps of the last day, by cause."""
    told = [jump for jump in jumps if jump.unix_ms > now_unix_ms - _TOLD_MS]
    for cause in dict.fromkeys(jump.cause for jump in told):
        of_cause = [jump for jump in told if jump.cause == cause]
        groups = len({jump.group for jump in of_cause})
        again = sum(jump.messages_again for jump in of_cause)
        skipped = sum(jump.messages_skipped for jump in of_cause)
        removed = sum(jump.removed for jump in of_cause)
        detail = (
            f"{groups} groups, {again} messages read again, {skipped} skipped unread, {removed} queues without an"
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
