"""`rmq group lag` and `rmq group offsets`."""

from collections.abc import Mapping, Sequence

import click
import msgspec

from remoting.admin.groups import GroupConnections
from remoting.admin.message_queues import MessageQueue
from remoting.admin.offset_table import offsets_of_groups
from rmq.cli.options import SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import cluster_names, group_names, topic_names
from rmq.site.groups import (
    GroupInQueue,
    Unknown,
    check_group,
    connections_at,
    held_queues,
    masters_of,
    progress_at,
    progress_in,
    shows_zeros,
    stored_at,
    total_lag,
)
from rmq.site.site import Answered, check_complete, check_requests

#: Of pop consumers: all queues of a broker set.
_ALL_QUEUES = -1


class LagRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a group is in one queue."""

    topic: str
    broker_name: str
    queue_id: int
    #: The next offset to be written.
    broker_offset: int
    #: The next offset to consume; blank if none is stored.
    consumer_offset: int | None
    #: Messages not consumed. `unknown` is not 0.
    diff: int | Unknown
    #: Members that hold the queue; several may, for a moment or of a broadcasting group.
    clients: list[str] | None
    #: When the message before `consumerOffset` was stored.
    last_consumed_unix_ms: int | None
    reason: str | None


class StoredOffsetRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An offset that a master has stored."""

    topic: str
    broker_name: str
    queue_id: int
    offset: int


_CLUSTER = click.option("--cluster", metavar="NAME", shell_complete=cluster_names, help="only at its masters")
_TOPIC = click.option("--topic", metavar="NAME", shell_complete=topic_names, help="only this topic")


@click.command("lag", cls=SiteCommand)
@click.argument("group", shell_complete=group_names)
@_TOPIC
@_CLUSTER
@click.option("--no-clients", is_flag=True, help="without who holds which queue: no request to a member")
@with_session
async def show_lag(
    session: OperatorSession, group: str, topic: str | None, cluster: str | None, *, no_clients: bool
) -> None:
    """Show how far a group is in each queue (208), and which member holds it (203, 307).

    The lag of a queue in which the group has stored no offset is unknown, not 0 (43 shows which).
    """
    site = session.site
    found = await masters_of(site, cluster)
    addresses = [each.address for each in found]
    answers = [answer for _, answer in await progress_at(site, addresses, [group], topic)]
    open_at = [each.address for each in answers if each.error is None and shows_zeros(each.result)]
    stored = await stored_at(site, open_at, [group]) if open_at else {}
    queues = [
        queue
        for each in answers
        if each.error is None
        for queue in progress_in(group, each.result, stored.get(each.address))
    ]
    if not queues:
        await check_group(site, group, found)
    connections = [] if no_clients or not queues else await connections_at(site, addresses, group)
    holders = await _holders(session, group, connections)
    session.show([_row(each, holders) for each in sorted(queues, key=lambda each: each.queue)], LagRow)
    _note_total(session, group, queues)
    check_requests([*answers, *connections])


@click.command("offsets", cls=SiteCommand)
@click.argument("group", shell_complete=group_names)
@_TOPIC
@_CLUSTER
@with_session
async def show_offsets(session: OperatorSession, group: str, topic: str | None, cluster: str | None) -> None:
    """Show the offsets that masters have stored of a group (43), also of queues that are not there any more."""
    found = await masters_of(session.site, cluster)
    answers = await session.site.answers((each.address for each in found), offsets_of_groups([group]))
    rows: list[StoredOffsetRow] = [
        StoredOffsetRow(topic=key.topic, broker_name=place.broker_name, queue_id=queue_id, offset=offset)
        for place, answer in zip(found, answers, strict=True)
        if answer.error is None
        for key, offsets in answer.result.items()
        if topic in (None, key.topic)
        for queue_id, offset in offsets.items()
    ]
    if not rows:
        await check_group(session.site, group, found)
        session.note(f"no master has an offset of {group}" + (f" in {topic}" if topic else ""))
    rows.sort(key=lambda row: (row.topic, row.broker_name, row.queue_id))
    session.show(rows, StoredOffsetRow)
    check_complete(answers, "masters")


async def _holders(
    session: OperatorSession, group: str, connections: Sequence[Answered[GroupConnections | None]]
) -> Mapping[MessageQueue, Sequence[str]]:
    held = await held_queues(session.site, group, connections)
    if held.unknown:
        session.note(f"members that did not answer what they hold: {', '.join(held.unknown)}")
    return held.clients


def _row(found: GroupInQueue, holders: Mapping[MessageQueue, Sequence[str]]) -> LagRow:
    queue = found.queue
    of_set = MessageQueue(topic=queue.topic, broker_name=queue.broker_name, queue_id=_ALL_QUEUES)
    clients = [*holders.get(queue, ()), *holders.get(of_set, ())]
    return LagRow(
        topic=queue.topic,
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        broker_offset=found.lag.broker_offset,
        consumer_offset=found.consumer_offset,
        diff="unknown" if found.diff is None else found.diff,
        clients=clients or None,
        last_consumed_unix_ms=found.lag.last_consumed_unix_ms,
        reason=found.reason,
    )


def _note_total(session: OperatorSession, group: str, queues: Sequence[GroupInQueue]) -> None:
    if not session.is_table:
        return
    lag, unknown = total_lag(queues)
    text = f"{group}: {lag} messages behind in {len(queues) - unknown} queues"
    session.note(text + (f", and {unknown} queues of which that is unknown" if unknown else ""))
