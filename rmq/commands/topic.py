"""`rmq topic list`."""

from collections.abc import Callable, Container
from typing import ClassVar, Final

import click
import msgspec

from remoting.admin.name_servers import topics_of_cluster
from remoting.admin.routes import all_topics, topic_owners
from remoting.admin.topics import all_topic_definitions
from remoting.protocol.topic_kinds import TopicKind, kind_of
from rmq.cli.options import ListCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import cluster_names
from rmq.failures import NotSupportedThere
from rmq.output.patterns import matches
from rmq.output.rows import RowKey
from rmq.site.brokers import check_cluster, check_gaps, gaps_in, masters, members_of_cluster, places
from rmq.site.site import both, check_complete

_MISSING: Final = "topics that only they have are not shown"
#: The kind of a topic that is listed, from it and the names of clusters and broker sets; None: it is not.
Wanted = Callable[[str, Container[str]], str | None]


class TopicNameRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A topic by its name alone."""

    row_key: ClassVar[RowKey] = ("topic",)

    topic: str
    kind: str


class TopicRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A topic at one master."""

    row_key: ClassVar[RowKey] = ("topic", "broker_name")

    topic: str
    kind: str
    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    #: Bits: 4 read, 2 write, 1 inherit.
    perm: int
    order: bool
    attributes: dict[str, str] | None


@click.command("list", cls=ListCommand)
@click.argument("pattern", required=False)
@click.option("--cluster", metavar="NAME", shell_complete=cluster_names, help="only topics of this cluster")
@click.option("--all", "-a", "shows_all", is_flag=True, help="system, retry and dead-letter topics too")
@click.option("--long", "-l", "is_long", is_flag=True, help="a row for each master, with queues (request 21)")
@with_session
async def list_topics(
    session: OperatorSession, pattern: str | None, cluster: str | None, *, shows_all: bool, is_long: bool
) -> None:
    """List topics whose names contain PATTERN, or match it where it has * or ?.

    Topics that only a set has which is away are not listed: the exit code is then 7.
    """

    def kind_if_wanted(topic: str, owners: Container[str]) -> str | None:
        kind = kind_of(topic, owners)
        return kind.value if (shows_all or kind is TopicKind.NORMAL) and matches(topic, pattern) else None

    if is_long:
        await _list_long(session, cluster, kind_if_wanted)
        return
    request = topics_of_cluster(cluster) if cluster else all_topics()
    found, brokers = await both(session.site.first_answer(request), session.site.cluster())
    if cluster:
        check_cluster(brokers, cluster)
    try:
        owners = await session.site.call(found.address, topic_owners())
    except NotSupportedThere:
        owners = frozenset()
    kinds = ((topic, kind_if_wanted(topic, owners)) for topic in sorted(found.result))
    session.show([TopicNameRow(topic=topic, kind=kind) for topic, kind in kinds if kind], TopicNameRow)
    check_gaps(gaps_in(brokers, cluster), _MISSING)


async def _list_long(session: OperatorSession, cluster: str | None, kind_if_wanted: Wanted) -> None:
    brokers = await session.site.cluster()
    found = masters(members_of_cluster(brokers, cluster) if cluster else places(brokers))
    answers = await session.site.answers((each.address for each in found), all_topic_definitions())
    rows: list[TopicRow] = [
        TopicRow(
            topic=each.topic,
            kind=kind,
            broker_name=place.broker_name,
            read_queue_nums=each.read_queue_nums,
            write_queue_nums=each.write_queue_nums,
            perm=each.perm,
            order=each.is_order,
            attributes=dict(each.attributes) or None,
        )
        for place, answer in zip(found, answers, strict=True)
        if answer.error is None
        for each in answer.result.values()
        if (kind := kind_if_wanted(each.topic, brokers.topic_owners))
    ]
    rows.sort(key=lambda row: (row.topic, row.broker_name))
    session.show(rows, TopicRow, is_partial=any(each.error is not None for each in answers))
    check_complete(answers, "masters")
    check_gaps(gaps_in(brokers, cluster), _MISSING)
