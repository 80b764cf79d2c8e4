"""`rmq topic route` and `rmq topic show`."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NoReturn, TypeVar

import click
import msgspec

from remoting.admin.message_queues import MessageQueue
from remoting.admin.routes import ClusterBrokers, TopicRoute, all_topics, route_of
from remoting.admin.topics import (
    QueueOffsets,
    TopicDefinition,
    queue_offsets,
    topic_definition,
    topic_definition_of_all,
)
from remoting.protocol.errors import NotSupported
from rmq.cli.options import ListCommand, SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import topic_names
from rmq.commands.route_rows import RouteRow, is_unknown_topic, route_rows
from rmq.failures import CommandFailed, failure_of_all, sentence_of
from rmq.site.brokers import Gap, check_gaps, gaps_in, not_found
from rmq.site.site import Answered, Site, both, check_complete, check_requests

Found = TypeVar("Found")


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
    """Show the route of a topic at every NameServer (request 105). Where they differ, `onlyAt` names who has what."""
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
    """Show a topic at each master of its route: configuration (request 351), and where its queues end (202).

    A set that is away, or without a master, has its reason: what it has of the topic is not known.
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
    check_gaps(gaps, f"what they have of {topic} is not known")


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
    clusters = {each.cluster for route in routes for each in route.broker_sets.values()}
    return [each for each in gaps_in(brokers) if each.cluster in clusters or not each.cluster]


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
    return TopicShownRow(
        broker_name=name,
        read_queue_nums=definition.read_queue_nums,
        write_queue_nums=definition.write_queue_nums,
        perm=definition.perm,
        order=definition.is_order,
        attributes=dict(definition.attributes) or None,
        messages=sum(each.max_offset - (each.min_offset or 0) for each in ends.values()),
        last_stored_unix_ms=max(stored, default=None),
    )


def _queue_rows(name: str, ends: Mapping[MessageQueue, QueueOffsets]) -> Iterator[TopicShownRow]:
    for queue, each in sorted(ends.items(), key=lambda item: item[0].queue_id):
        yield TopicShownRow(
            broker_name=name,
            queue_id=queue.queue_id,
            min_offset=each.min_offset,
            max_offset=each.max_offset,
            messages=each.max_offset - (each.min_offset or 0),
            last_stored_unix_ms=each.last_stored_unix_ms,
        )
