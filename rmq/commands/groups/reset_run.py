"""Carries a planned reset out at one master. The edge."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from remoting.admin.message_queues import MessageQueue
from remoting.admin.offsets import OffsetCommit, commit_offset, reset_members, reset_offset
from remoting.protocol.errors import RemotingError
from rmq.commands.groups.reset_plan import BrokerReset, ResetRow, ResetWay, WantedReset, moment_of
from rmq.failures import (
    WHILE_INTERRUPTED,
    CommandFailed,
    Interrupted,
    PartlyDone,
    failure_of_all,
    sentence_of,
    state_of,
)
from rmq.site.site import Site, at_once

_NOT_STORED: Final = "a reset of this queue that was requested before waits for the group's next pull"


class ResetOutcome(NamedTuple):
    """What became of one queue."""

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
    text = f"{done} of {len(outcomes)} queues are reset: look at `rmq group offsets`, and repeat it"
    if any(each.row.state == "unknown" and each.error is None for each in outcomes):
        return Interrupted(text)
    if done:
        return PartlyDone(text)
    first = next((each for each in outcomes if each.error is not None), None)
    if first is None or first.error is None:
        return CommandFailed(text)
    return failure_of_all([(first.row.broker_name, first.error)])


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
        detail = "the broker left it out: it resets only queues that are written to"
        return ResetOutcome(msgspec.structs.replace(row, state="failed", detail=detail))
    detail = f"members go to {offset} within 15 s"
    return ResetOutcome(msgspec.structs.replace(row, state="done", new=offset, detail=detail))


def _half_done(row: ResetRow, error: RemotingError) -> ResetOutcome:
    detail = f"its offset is stored (15), the reset (222) is not: {sentence_of(error)}"
    return ResetOutcome(msgspec.structs.replace(row, state="unknown", detail=detail), error)


def _failed(row: ResetRow, error: RemotingError) -> ResetOutcome:
    state, detail = state_of(error)
    return ResetOutcome(msgspec.structs.replace(row, state=state, detail=detail), error)
