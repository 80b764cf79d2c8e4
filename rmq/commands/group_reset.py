"""`rmq group reset`, as mqadmin's resetOffsetByTime, but shown before it is done."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, Literal, NamedTuple

import click
import msgspec

from remoting.admin.admin_request import AdminRequest
from remoting.admin.configuration import server_config
from remoting.admin.message_queues import MessageQueue
from remoting.admin.offset_table import GroupTopicName, offsets_of_groups
from remoting.admin.offsets import (
    RESETS_ON_SERVER,
    OffsetCommit,
    commit_offset,
    max_offset,
    min_offset,
    offset_at,
    reset_members,
    reset_offset,
)
from remoting.admin.routes import TopicRoute
from remoting.admin.topics import QueueOffsets, queue_offsets
from remoting.protocol.errors import RemotingError
from remoting.protocol.shapes.route import MASTER_ID
from rmq.cli.moments import unix_ms_of
from rmq.cli.options import ChangeCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.completion import broker_names, group_names, topic_names
from rmq.commands.topics import route_at_first
from rmq.failures import (
    WHILE_INTERRUPTED,
    CommandFailed,
    Interrupted,
    NotReachable,
    PartlyDone,
    UnknownName,
    WrongUse,
    failure_of,
    sentence_of,
    state_of,
    unknown_sentence,
)
from rmq.site.brokers import BrokerPlace, check_gaps, not_reached, queue_ids
from rmq.site.groups import check_group, connections_at
from rmq.site.site import Found, Site, at_once

_NOT_STORED: Final = "an earlier reset of this queue still waits for the group's next pull"
_NOT_RESET: Final = "the group is not reset there"


class TargetKind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    OFFSET = "offset"


class ResetTarget(NamedTuple):
    kind: TargetKind
    #: Unix ms, or an offset; 0 of the ends.
    value: int = 0


class WantedReset(NamedTuple):
    group: str
    topic: str
    target: ResetTarget
    #: None: all of them.
    queue_id: int | None


class ResetWay(Enum):
    #: 15 and 222 for each queue.
    RESET = "reset"
    #: 222 for the topic: members that are online are sent to a moment.
    MEMBERS = "members"
    #: 15 for each queue.
    COMMIT = "commit"


class QueueFacts(NamedTuple):
    queue_id: int
    #: None: none is stored.
    old: int | None
    min_offset: int
    max_offset: int
    #: By the broker, for a time (29); None for other targets.
    at_time: int | None = None
    #: Unix ms; None of an empty queue.
    last_stored_unix_ms: int | None = None


class ResetRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    broker_name: str
    queue_id: int
    #: Blank: none is stored.
    old: int | None
    new: int
    #: Blank where it is not known: without an offset before.
    messages_again: int | None
    messages_skipped: int | None
    way: str
    #: `planned`: with --dry-run. `unknown`: it was sent, and no answer came. `not_sent`: a request before it failed.
    state: Literal["planned", "done", "failed", "unknown", "not_sent"] = "planned"
    detail: str | None = None


class BrokerReset(NamedTuple):
    broker_name: str
    address: str
    way: ResetWay
    rows: list[ResetRow]


def target_of(text: str) -> ResetTarget:
    """Return what `--to` says; raises WrongUse."""
    if text in (TargetKind.EARLIEST.value, TargetKind.LATEST.value):
        return ResetTarget(TargetKind(text))
    if text.isascii() and text.isdigit():
        if int(text) >= 1 << 63:
            raise WrongUse(f"--to: {text} is greater than any offset")
        return ResetTarget(TargetKind.OFFSET, int(text))
    try:
        return ResetTarget(TargetKind.TIME, unix_ms_of(text, "--to"))
    except WrongUse:
        raise WrongUse(
            f"--to: {text} is not earliest, latest, an offset, or a time such as 2026-11-27T10:00:00Z"
        ) from None


def way_at(broker_name: str, wanted: WantedReset, *, resets_on_server: bool, is_online: bool) -> ResetWay:
    """Return what a broker is sent; raises WrongUse where it cannot be."""
    if resets_on_server:
        return ResetWay.RESET
    if not is_online:
        return ResetWay.COMMIT
    if wanted.target.kind is TargetKind.OFFSET or wanted.queue_id is not None:
        raise WrongUse(
            f"{broker_name} can move online members only to a time, in all queues of the topic (before 5.1, or "
            "useServerSideResetOffset=false): stop them, or reset to a time, earliest or latest, without --queue"
        )
    return ResetWay.MEMBERS


def moment_of(target: ResetTarget) -> int:
    """Return the timestamp that members are sent to (222); -1 is the end."""
    return {TargetKind.EARLIEST: 0, TargetKind.LATEST: -1}.get(target.kind, target.value)


def planned_row(broker_name: str, facts: QueueFacts, target: ResetTarget, way: ResetWay) -> ResetRow:
    """Return what a reset does to a queue; raises WrongUse for an offset that the queue does not have."""
    new = _new_offset(broker_name, facts, target)
    is_known = facts.old is not None
    old = max(facts.old or 0, facts.min_offset)
    return ResetRow(
        broker_name=broker_name,
        queue_id=facts.queue_id,
        old=facts.old,
        new=new,
        messages_again=max(0, min(old, facts.max_offset) - max(new, facts.min_offset)) if is_known else None,
        messages_skipped=max(0, new - old) if is_known else None,
        way=way.value,
    )


def _new_offset(broker_name: str, facts: QueueFacts, target: ResetTarget) -> int:
    match target.kind:
        case TargetKind.EARLIEST:
            return facts.min_offset
        case TargetKind.LATEST:
            return facts.max_offset
        case TargetKind.TIME:
            # Up to 4.9 a broker answers its last message where there is none so late.
            is_after_all = facts.last_stored_unix_ms is not None and facts.last_stored_unix_ms < target.value
            at_time = facts.max_offset if is_after_all else facts.at_time or 0
            return min(max(at_time, facts.min_offset), facts.max_offset)
        case TargetKind.OFFSET:
            if not facts.min_offset <= target.value <= facts.max_offset:
                raise WrongUse(
                    f"--to: queue {facts.queue_id} of {broker_name} has offsets from {facts.min_offset} to "
                    f"{facts.max_offset}, not {target.value}; a time is written as 2026-11-27T10:00:00Z"
                )
            return target.value


def masters_in(route: TopicRoute, broker: str | None) -> list[BrokerPlace]:
    """Return the masters of a route, or of one broker set of it; raises UnknownName where a set has none."""
    if broker is not None and broker not in route.queues:
        raise UnknownName(unknown_sentence("broker set of this topic", broker, route.queues))
    found = []
    for name in sorted(route.queues if broker is None else {broker}):
        broker_set = route.broker_sets.get(name)
        if broker_set is None or broker_set.master_address is None:
            raise NotReachable(
                f"{name} has no master now, so the group cannot be reset there; choose another set with --broker"
            )
        found.append(BrokerPlace(broker_set.cluster, name, MASTER_ID, broker_set.master_address))
    return found


async def plan_reset(
    site: Site, wanted: WantedReset, found: Sequence[BrokerPlace], route: TopicRoute
) -> list[BrokerReset]:
    """Return what is planned at each master; raises CommandFailed."""
    ways = await _ways(site, wanted, found)
    planned = []
    for place, way in zip(found, ways, strict=True):
        routed = queue_ids(place.broker_name, route.queues[place.broker_name].read_queue_nums)
        facts = await _facts_at(site, wanted, place.address, routed)
        rows = [planned_row(place.broker_name, each, wanted.target, way) for each in facts]
        planned.append(BrokerReset(place.broker_name, place.address, way, rows))
    return planned


async def _ways(site: Site, wanted: WantedReset, found: Sequence[BrokerPlace]) -> list[ResetWay]:
    addresses = [each.address for each in found]
    options = [await site.call(address, server_config("broker")) for address in addresses]
    connections = await connections_at(site, addresses, wanted.group)
    for each in connections:
        if each.error is not None:
            raise failure_of(each.error, each.address)
        if each.result is not None and each.result.is_broadcasting:
            raise CommandFailed(f"the members of {wanted.group} broadcast: they keep their offsets themselves")
    is_online = any(each.result is not None for each in connections)
    return [
        way_at(
            place.broker_name,
            wanted,
            resets_on_server=table.get(RESETS_ON_SERVER, "").lower() == "true",
            is_online=is_online,
        )
        for place, table in zip(found, options, strict=True)
    ]


async def _facts_at(site: Site, wanted: WantedReset, address: str, routed: Iterable[int]) -> list[QueueFacts]:
    stored = await site.call(address, offsets_of_groups([wanted.group]))
    old = stored.get(GroupTopicName(wanted.group, wanted.topic), {})
    found = await site.call(address, queue_offsets(wanted.topic))
    ends = {queue.queue_id: each for queue, each in found.items()}
    known = sorted({*ends, *routed})
    if wanted.queue_id is not None:
        if wanted.queue_id not in known:
            raise UnknownName(f"the topic has no queue {wanted.queue_id} there, only 0 to {len(known) - 1}")
        known = [wanted.queue_id]
    facts = await _facts_of(site, wanted, address, {each: ends.get(each) for each in known})
    return [each._replace(old=old.get(each.queue_id)) for each in facts]


async def _facts_of(
    site: Site, wanted: WantedReset, address: str, ends: Mapping[int, QueueOffsets | None]
) -> list[QueueFacts]:
    # Brokers up to 5.2 leave out queues that are only read from.
    missing = [each for each, found in ends.items() if found is None or found.min_offset is None]
    begins = await _results(site, address, [min_offset(wanted.topic, each) for each in missing])
    lasts = await _results(site, address, [max_offset(wanted.topic, each) for each in missing])
    facts = {
        queue_id: QueueFacts(queue_id, None, begin or 0, max(begin or 0, last))
        for queue_id, begin, last in zip(missing, begins, lasts, strict=True)
    }
    for queue_id, each in ends.items():
        if each is not None and each.min_offset is not None:
            limits = each.min_offset, each.max_offset
            facts[queue_id] = QueueFacts(queue_id, None, *limits, last_stored_unix_ms=each.last_stored_unix_ms)
    if wanted.target.kind is not TargetKind.TIME:
        return [facts[each] for each in ends]
    found = await _results(site, address, [offset_at(wanted.topic, each, wanted.target.value) for each in ends])
    return [facts[queue_id]._replace(at_time=offset) for queue_id, offset in zip(ends, found, strict=True)]


async def _results(site: Site, address: str, requests: Sequence[AdminRequest[Found]]) -> list[Found]:
    """Return what a broker answers to each of these; raises CommandFailed if it fails once."""
    answers = await site.answers_to((address, each) for each in requests)
    for each in answers:
        if each.error is not None:
            raise failure_of(each.error, address)
    return [each.result for each in answers]


class ResetOutcome(NamedTuple):
    row: ResetRow
    error: RemotingError | None = None


async def carry_out_all(site: Site, wanted: WantedReset, planned: Sequence[BrokerReset]) -> list[ResetOutcome]:
    """Reset at one broker after the other, and return what became of each queue.

    After a broker at which a request failed, or where the operator interrupted it, nothing more is sent.
    """
    outcomes: list[ResetOutcome] = []
    for broker in planned:
        if any(each.row.state == "unknown" or each.error is not None for each in outcomes):
            outcomes += [ResetOutcome(msgspec.structs.replace(row, state="not_sent")) for row in broker.rows]
            continue
        try:
            outcomes += await carry_out(site, wanted, broker)
        except asyncio.CancelledError:
            outcomes += [
                ResetOutcome(msgspec.structs.replace(row, state="unknown", detail=WHILE_INTERRUPTED))
                for row in broker.rows
            ]
    return outcomes


async def carry_out(site: Site, wanted: WantedReset, broker: BrokerReset) -> list[ResetOutcome]:
    """Reset the queues that are planned at a broker, and return what became of each."""
    if broker.way is ResetWay.MEMBERS:
        request = reset_members(wanted.group, wanted.topic, moment_of(wanted.target))
        answer = await site.answer_of(broker.address, request)
        if answer.error is not None:
            return [_failed(row, answer.error) for row in broker.rows]
        if answer.result is not None:
            return [_sent(row, wanted.topic, answer.result) for row in broker.rows]
        # The members have left meanwhile.
    return await at_once(_reset(site, wanted, broker, row) for row in broker.rows)


def failure_in(outcomes: Sequence[ResetOutcome]) -> CommandFailed | None:
    """Return how the command fails; None if all queues are reset."""
    done = sum(each.row.state == "done" for each in outcomes)
    if done == len(outcomes):
        return None
    text = f"{done} of {len(outcomes)} queues are reset: check `rmq group offsets` and repeat it"
    if any(each.row.state == "unknown" and each.error is None for each in outcomes):
        return Interrupted(text)
    if done:
        return PartlyDone(text)
    first = next((each for each in outcomes if each.error is not None), None)
    if first is None or first.error is None:
        return CommandFailed(text)
    return failure_of(first.error, first.row.broker_name)


async def _reset(site: Site, wanted: WantedReset, broker: BrokerReset, row: ResetRow) -> ResetOutcome:
    of_queue = wanted.group, wanted.topic, row.queue_id, row.new
    # Also before a reset: not every release shows a reset in its table at once.
    requests = [commit_offset(*of_queue)]
    if broker.way is ResetWay.RESET:
        requests.append(reset_offset(*of_queue).mapped(lambda _: OffsetCommit.STORED))
    became = OffsetCommit.STORED
    for number, request in enumerate(requests):
        answer = await site.answer_of(broker.address, request)
        if answer.error is not None:
            return _half_done(row, answer.error) if number else _failed(row, answer.error)
        became = answer.result
    if became is OffsetCommit.RESET_PENDING:
        return ResetOutcome(msgspec.structs.replace(row, state="failed", detail=_NOT_STORED))
    return ResetOutcome(msgspec.structs.replace(row, state="done"))


def _sent(row: ResetRow, topic: str, offsets: Mapping[MessageQueue, int]) -> ResetOutcome:
    queue = MessageQueue(topic=topic, broker_name=row.broker_name, queue_id=row.queue_id)
    if (offset := offsets.get(queue)) is None:
        detail = "the broker skipped it: it resets only write queues"
        return ResetOutcome(msgspec.structs.replace(row, state="failed", detail=detail))
    detail = f"members move to {offset} within 15 s"
    return ResetOutcome(msgspec.structs.replace(row, state="done", new=offset, detail=detail))


def _half_done(row: ResetRow, error: RemotingError) -> ResetOutcome:
    detail = f"its offset is stored (15), but the reset (222) failed: {sentence_of(error)}"
    return ResetOutcome(msgspec.structs.replace(row, state="unknown", detail=detail), error)


def _failed(row: ResetRow, error: RemotingError) -> ResetOutcome:
    state, detail = state_of(error)
    return ResetOutcome(msgspec.structs.replace(row, state=state, detail=detail), error)


@click.command("reset", cls=ChangeCommand)
@click.argument("group", shell_complete=group_names)
@click.option("--topic", metavar="NAME", required=True, shell_complete=topic_names, help="in this topic")
@click.option("--to", "target", metavar="earliest|latest|TIME|OFFSET", required=True, help="the new position")
@click.option("--broker", metavar="BROKER", shell_complete=broker_names, help="only on this broker set")
@click.option("--queue", metavar="ID", type=click.IntRange(0), help="only this queue; with --broker")
@with_session
async def reset_group(
    session: OperatorSession, group: str, topic: str, target: str, broker: str | None, queue: int | None
) -> None:
    """Move a group to another offset of a topic: messages are read again or skipped.

    TIME is 2026-11-27T10:00:00Z, or mqadmin's 2026-11-27#10:00:00:000 in the zone of this machine; a number is an
    offset. Brokers with useServerSideResetOffset (the default from 5.2 on) move members with their next pull (15, 222).
    Others move online members only to a time (222), within 15 s; if none is online, the offsets are committed (15).
    """
    if queue is not None and broker is None:
        raise WrongUse("--queue needs --broker: each broker set has queues with this id")
    wanted = WantedReset(group, topic, target_of(target), queue)
    route, beside = await route_at_first(session.site, wanted.topic)
    found = masters_in(route, broker)
    gaps = beside if broker is None else []
    await check_group(session.site, group, found, gaps)
    planned = await plan_reset(session.site, wanted, found, route)
    rows = [row for each in planned for row in each.rows]
    if session.is_dry_run:
        session.show(rows, ResetRow)
        check_gaps(gaps, _NOT_RESET)
        return
    session.preview(rows, ResetRow)
    session.confirm(f"{_question(wanted, rows)}{not_reached(gaps)}")
    outcomes = await carry_out_all(session.site, wanted, planned)
    session.show([each.row for each in outcomes], ResetRow)
    if (failure := failure_in(outcomes)) is not None:
        raise failure
    check_gaps(gaps, _NOT_RESET)


def _question(wanted: WantedReset, rows: Sequence[ResetRow]) -> str:
    again = sum(row.messages_again or 0 for row in rows)
    skipped = sum(row.messages_skipped or 0 for row in rows)
    without = sum(row.old is None for row in rows)
    unknown = f", and {without} queues have no offset yet" if without else ""
    return (
        f"Reset group {wanted.group} in {len(rows)} queues of topic {wanted.topic}: "
        f"{again} messages are read again, {skipped} are skipped{unknown}?"
    )
