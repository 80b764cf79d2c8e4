"""`rmq topic list`, `route` and `show`, and `rmq watch`."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, NoReturn, TypeVar

import click
import msgspec

from remoting.admin.message_queues import MessageQueue
from remoting.admin.name_servers import topics_of_cluster
from remoting.admin.routes import ClusterBrokers, TopicRoute, all_topics, route_of, topic_owners
from remoting.admin.topics import (
    QueueOffsets,
    TopicDefinition,
    all_topic_definitions,
    queue_offsets,
    topic_definition,
    topic_definition_of_all,
)
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import NotSupported, Refused
from remoting.protocol.topic_kinds import TopicKind, kind_of
from rmq.cli.options import ListCommand, SiteCommand, WatchCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.completion import cluster_names, topic_names
from rmq.failures import CommandFailed, NotSupportedThere, PartlyDone, WrongUse, failure_of_all, sentence_of
from rmq.output.formats import RowKey, row_of
from rmq.output.printable import matches
from rmq.site.brokers import Gap, check_cluster, check_gaps, gaps_in, masters, members_of_cluster, not_found, places
from rmq.site.site import Answered, Site, both, check_complete, check_requests

_MISSING: Final = "topics that only these sets have are missing"
#: The kind of a topic that is listed, from it and the names of clusters and broker sets; None: it is not.
Wanted = Callable[[str, Container[str]], str | None]
Found = TypeVar("Found")
#: `routeWatchTopicsMax` of a NameServer.
TOPICS_MAX: Final = 100


class TopicNameRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    row_key: ClassVar[RowKey] = ("topic",)

    topic: str
    kind: str


class TopicRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
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
@click.option("--all", "-a", "shows_all", is_flag=True, help="include system, retry and dead-letter topics")
@click.option("--long", "-l", "is_long", is_flag=True, help="a row for each master, with queue numbers (request 21)")
@with_session
async def list_topics(
    session: OperatorSession, pattern: str | None, cluster: str | None, *, shows_all: bool, is_long: bool
) -> None:
    """List topics whose names contain PATTERN, or match it where it has * or ?.

    Topics that exist only on sets that are away are missing; the exit code is then 7.
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


class RouteRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the queues of a topic are on one broker set, and which NameServers tell clients so."""

    row_key: ClassVar[RowKey] = ("topic", "broker_name")

    topic: str
    broker_name: str
    cluster: str | None
    read_queue_nums: int
    write_queue_nums: int
    #: Bits: 4 read, 2 write, 1 inherit.
    perm: int
    #: By broker id; none while no broker of the set is alive.
    broker_addrs: dict[str, str] | None
    order_topic_conf: str | None
    #: None where all that answer agree.
    only_at: list[str] | None = None


def route_rows(topic: str, answers: Sequence[Answered[TopicRoute]]) -> list[RouteRow]:
    """Return the rows that NameServers answer, by broker names; `only_at` where not all that answer have one."""
    routes = {each.address: _rows_of(topic, each.result) for each in answers if each.error is None}
    rows = _merged(routes, len(routes) + sum(map(is_unknown_topic, answers)))
    rows.sort(key=lambda row: (row.broker_name, row.only_at or []))
    return rows


def is_unknown_topic(answer: Answered[TopicRoute]) -> bool:
    return isinstance(answer.error, Refused) and answer.error.code == ResponseCode.TOPIC_NOT_EXIST


def _merged(routes: Mapping[str, list[RouteRow]], whole: int) -> list[RouteRow]:
    """Return each row once; one that not all of the NameServers have names those that do."""
    rows: list[RouteRow] = []
    for each in (row for found in routes.values() for row in found):
        if each not in rows:
            rows.append(each)
    owners = [[address for address, found in routes.items() if row in found] for row in rows]
    return [
        row if len(addresses) == whole else msgspec.structs.replace(row, only_at=addresses)
        for row, addresses in zip(rows, owners, strict=True)
    ]


def _rows_of(topic: str, route: TopicRoute) -> list[RouteRow]:
    rows = []
    for name, queues in sorted(route.queues.items()):
        broker_set = route.broker_sets.get(name)
        more = {
            "topic": topic,
            "broker_name": name,
            "cluster": broker_set.cluster if broker_set else None,
            "broker_addrs": {str(key): each for key, each in broker_set.addresses.items()} if broker_set else None,
            "order_topic_conf": route.order_conf or None,
        }
        rows.append(row_of(RouteRow, queues, **more))
    return rows


class TopicShownRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A topic at one master, or one queue of it."""

    broker_name: str
    read_queue_nums: int | None = None
    write_queue_nums: int | None = None
    perm: int | None = None
    order: bool | None = None
    attributes: dict[str, str] | None = None
    #: Only of a row for a queue.
    queue_id: int | None = None
    min_offset: int | None = None
    max_offset: int | None = None
    #: Between both offsets; some may be deleted already.
    messages: int | None = None
    last_stored_unix_ms: int | None = None
    reason: str | None = None


@click.command("route", cls=ListCommand)
@click.argument("topic", shell_complete=topic_names)
@with_session
async def show_route(session: OperatorSession, topic: str) -> None:
    """Show the route of a topic at every NameServer (105). If they differ, `onlyAt` names those that have a row."""
    session.changes_with_routes([topic])
    site = session.site
    answers, brokers = await both(_routes_of(site, topic), site.cluster())
    if all(each.error is not None for each in answers):
        await _raise_unknown(site, topic, answers, gaps_in(brokers))
    session.show(route_rows(topic, answers), RouteRow)
    without = [each.address for each in answers if is_unknown_topic(each)]
    if without:
        session.note(f"{', '.join(without)} has no route of {topic}")
    check_complete([each for each in answers if not is_unknown_topic(each)], "NameServers")
    routed = [each.result for each in answers if each.error is None]
    check_gaps(_gaps_beside(routed, brokers), f"their queues of {topic} are not shown")


@click.command("show", cls=SiteCommand)
@click.argument("topic", shell_complete=topic_names)
@click.option("--queues", "shows_queues", is_flag=True, help="a row for each queue")
@with_session
async def show_topic(session: OperatorSession, topic: str, *, shows_queues: bool) -> None:
    """Show a topic at each master of its route: its configuration (request 351) and offsets (202).

    A set that is away or has no master is shown with the reason.
    """
    route, gaps = await route_at_first(session.site, topic)
    names = {
        address: name
        for name, each in sorted(route.broker_sets.items())
        if (address := each.master_address) is not None
    }
    definitions = await definitions_at(session.site, list(names), topic)
    offsets = await session.site.answers(names, queue_offsets(topic))
    rows: list[TopicShownRow] = []
    for definition, ends in zip(definitions, offsets, strict=True):
        name = names[definition.address]
        if ends.error is not None or definition.error is not None:
            error = definition.error or ends.error
            rows.append(TopicShownRow(broker_name=name, reason=sentence_of(error) if error else None))
        else:
            rows += _queue_rows(name, ends.result) if shows_queues else [_row(name, definition.result, ends.result)]
    rows += [TopicShownRow(broker_name=each.broker_name, reason=each.reason) for each in gaps]
    session.show(rows, TopicShownRow)
    check_requests([*definitions, *offsets])
    check_gaps(gaps, f"their part of {topic} is unknown")


async def route_at_first(site: Site, topic: str) -> tuple[TopicRoute, list[Gap]]:
    """Return the route of a topic from the first NameServer that has one, and the sets that may have it too.

    Those cannot be asked. Raises UnknownName, which is NotShownNow where there are such sets.
    """
    answers, brokers = await both(_routes_of(site, topic), site.cluster())
    route = await _first_route(site, topic, answers, brokers)
    return route, _gaps_beside([route], brokers)


async def check_has_route(site: Site, topic: str, brokers: ClusterBrokers) -> None:
    """Raise as `route_at_first` unless a NameServer has a route of the topic; `brokers` are those of the site."""
    await _first_route(site, topic, await _routes_of(site, topic), brokers)


async def _routes_of(site: Site, topic: str) -> list[Answered[TopicRoute]]:
    return await site.peer_answers(site.settings.namesrv, route_of(topic))


async def _first_route(
    site: Site, topic: str, answers: Sequence[Answered[TopicRoute]], brokers: ClusterBrokers
) -> TopicRoute:
    found = next((each for each in answers if each.error is None), None)
    if found is None:
        await _raise_unknown(site, topic, answers, gaps_in(brokers))
    return found.result


async def _raise_unknown(
    site: Site, topic: str, answers: Sequence[Answered[TopicRoute]], gaps: Collection[Gap]
) -> NoReturn:
    """Raise why nobody has a route of the topic: UnknownName with names like it, or who did not answer."""
    if not any(map(is_unknown_topic, answers)):
        raise failure_of_all([(each.address, each.error) for each in answers if each.error is not None])
    try:
        names = (await site.first_answer(all_topics())).result
    except CommandFailed:
        # With enableAllTopicList=false no NameServer lists them.
        names = frozenset()
    raise not_found("topic", topic, names - {topic}, gaps)


def _gaps_beside(routes: Iterable[TopicRoute], brokers: ClusterBrokers) -> list[Gap]:
    """Return the sets that cannot be asked, of the clusters that have the topic."""
    sets = [each for route in routes for each in route.broker_sets.values()]
    clusters = {each.cluster for each in sets}
    # A NameServer that has just started has them in routes, of its peers, and not among its brokers.
    present = {each.broker_name for each in sets if each.master_address is not None}
    gaps = gaps_in(brokers)
    return [each for each in gaps if each.broker_name not in present and (each.cluster in clusters or not each.cluster)]


async def definitions_at(site: Site, addresses: list[str], topic: str) -> list[Answered[TopicDefinition | None]]:
    """Return what masters have of a topic, None where one does not have it."""
    answers = await site.answers(addresses, topic_definition(topic))
    # Brokers before 5.0 have no request for one topic.
    return [
        await site.answer_of(each.address, topic_definition_of_all(topic))
        if isinstance(each.error, NotSupported)
        else each
        for each in answers
    ]


def _row(name: str, definition: TopicDefinition | None, ends: Mapping[MessageQueue, QueueOffsets]) -> TopicShownRow:
    if definition is None:
        return TopicShownRow(broker_name=name, reason="this broker does not have the topic")
    stored = [each.last_stored_unix_ms for each in ends.values() if each.last_stored_unix_ms is not None]
    messages = sum(each.max_offset - (each.min_offset or 0) for each in ends.values())
    more = {"order": definition.is_order, "attributes": dict(definition.attributes) or None, "messages": messages}
    last_unix_ms = max(stored, default=None)
    return row_of(TopicShownRow, definition, broker_name=name, last_stored_unix_ms=last_unix_ms, **more)


def _queue_rows(name: str, ends: Mapping[MessageQueue, QueueOffsets]) -> Iterator[TopicShownRow]:
    for queue, each in sorted(ends.items(), key=lambda item: item[0].queue_id):
        messages = each.max_offset - (each.min_offset or 0)
        yield row_of(TopicShownRow, each, broker_name=name, queue_id=queue.queue_id, messages=messages)


@click.command("watch", cls=WatchCommand)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=topic_names)
@with_session
async def watch_routes(session: OperatorSession, topics: Sequence[str]) -> None:
    """Watch the routes of topics, including topics that do not exist yet.

    Our NameServers push changes; Java's are read every 2 s. -o jsonl and csv write a line for each change.
    """
    names = list(dict.fromkeys(topics))
    if len(names) > TOPICS_MAX:
        raise WrongUse(f"{len(names)} topics are more than {TOPICS_MAX}: watch the rest with a second command")
    session.changes_with_routes(names)
    servers = session.site.settings.namesrv
    answers = await session.site.answers_to((server, route_of(name)) for name in names for server in servers)
    failed = [each for each in answers if each.error is not None and not is_unknown_topic(each)]
    if len(failed) == len(answers):
        raise failure_of_all([(each.address, each.error) for each in failed[: len(servers)] if each.error is not None])
    rows = [
        row
        for number, name in enumerate(names)
        for row in route_rows(name, answers[number * len(servers) : (number + 1) * len(servers)])
    ]
    session.show(rows, RouteRow)
    if away := sorted({each.address for each in failed}):
        raise PartlyDone(f"no answer of {', '.join(away)}")
