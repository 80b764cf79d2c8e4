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
from rmq.site.brokers import check_gaps
from rmq.site.group_lag import GroupLag, LagRow, read_lags
from rmq.site.groups import check_group, held_queues, masters_of
from rmq.site.site import Answered, check_complete, check_requests

#: Of pop consumers: all queues of a broker set.
_ALL_QUEUES = -1


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

    Unknown is not 0: where the group has stored no offset (43 shows that), where its members broadcast, and where a
    broker set is away or has no master. Queues that a topic has no more are shown while they hold messages (321).
    """
    site = session.site
    masters = await masters_of(site, cluster)
    read = (await read_lags(site, masters, [group], topic))[group]
    if not read.queues:
        await check_group(site, group, masters.found, masters.gaps)
    holders = {} if no_clients or not read.queues else await _holders(session, group, read.connections)
    lacking = [LagRow(topic, each.broker_name, None, reason=each.reason) for each in read.gaps]
    session.show([*(_with_clients(each, holders) for each in read.queues), *lacking], LagRow)
    if session.is_table:
        session.note(f"{group}: {_summary(read)}")
    check_requests(read.answers)
    check_gaps(read.gaps, f"what {group} has not consumed there is not known")


@click.command("offsets", cls=SiteCommand)
@click.argument("group", shell_complete=group_names)
@_TOPIC
@_CLUSTER
@with_session
async def show_offsets(session: OperatorSession, group: str, topic: str | None, cluster: str | None) -> None:
    """Show the offsets that masters have stored of a group (43), also of queues that are not there any more."""
    found, gaps = await masters_of(session.site, cluster)
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
        await check_group(session.site, group, found, gaps)
        session.note(f"no master has an offset of {group}" + (f" in {topic}" if topic else ""))
    rows.sort(key=lambda row: (row.topic, row.broker_name, row.queue_id))
    session.show(rows, StoredOffsetRow)
    check_complete(answers, "masters")
    check_gaps(gaps, "offsets that they have stored are not shown")


async def _holders(
    session: OperatorSession, group: str, connections: Sequence[Answered[GroupConnections | None]]
) -> Mapping[MessageQueue, Sequence[str]]:
    held = await held_queues(session.site, group, connections)
    if held.unknown:
        session.note(f"members that did not answer what they hold: {', '.join(held.unknown)}")
    return held.clients


def _with_clients(row: LagRow, holders: Mapping[MessageQueue, Sequence[str]]) -> LagRow:
    if row.topic is None or row.broker_name is None or row.queue_id is None:
        return row
    queue = MessageQueue(topic=row.topic, broker_name=row.broker_name, queue_id=row.queue_id)
    clients = [*holders.get(queue, ()), *holders.get(msgspec.structs.replace(queue, queue_id=_ALL_QUEUES), ())]
    return msgspec.structs.replace(row, clients=clients or None)


def _summary(read: GroupLag) -> str:
    """Return the lag in words; one that lacks a set is no number."""
    known = f"{sum(read.known)} messages in {_count(len(read.known))}"
    if read.lag is not None and not read.unknown_queues:
        return f"{known} not consumed"
    unknown = [_count(read.unknown_queues)] if read.unknown_queues else []
    unknown += [f"all of {each.broker_name}" for each in read.gaps]
    parts = [f"Known: {known}."] if read.known else []
    if not read.queues:
        at = " at the sets that answer" if read.gaps else ""
        parts.append(f"No offset is stored, and no member consumes a topic{at}.")
    parts += [f"Unknown: {', and '.join(unknown)}."] if unknown else []
    return " ".join([f"lag {'unknown' if read.lag is None else f'at least {read.lag}'}.", *parts])


def _count(queues: int) -> str:
    return f"{queues} queue{'' if queues == 1 else 's'}"
