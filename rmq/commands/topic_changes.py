"""`rmq topic create` and `rmq topic delete`, as mqadmin's updateTopic and deleteTopic send them."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import click

from remoting.admin.brokers import broker_runtime
from remoting.admin.name_servers import delete_topic_route, put_kv
from remoting.admin.offsets import max_offset, min_offset
from remoting.admin.routes import ClusterBrokers, order_conf
from remoting.admin.topics import TopicDefinition, update_topic
from remoting.admin.topics import delete_topic as topic_at_broker
from remoting.protocol.shapes.namesrv import ORDER_TOPIC_CONFIG
from remoting.protocol.topic_kinds import TopicKind, kind_of
from rmq.cli.options import ChangeCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.completion import broker_names, cluster_names, topic_names
from rmq.commands.scaling import resize_beside
from rmq.commands.topics import check_has_route, definitions_at
from rmq.failures import CommandFailed, UnknownName, WrongUse, failure_of_all, is_cut_off
from rmq.site.brokers import BrokerPlace, check_gaps, chosen_masters, not_reached
from rmq.site.changes import SiteChange, at_every_name_server
from rmq.site.site import Site, both, check_requests

_PERMS: Final = {"r": 4, "w": 2, "rw": 6}
_REMOVES: Final = "-"
#: What Java's TopicValidator takes.
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")


class TopicPlace(NamedTuple):
    #: "broker-a: 4/4 -> 2/2 queues", or the master's name alone.
    text: str
    is_new: bool = True
    loses_queues: bool = False


@click.command("create", cls=ChangeCommand)
@click.argument("topic")
@click.option("--cluster", metavar="NAME", shell_complete=cluster_names, help="on all masters of this cluster")
@click.option("--broker", metavar="BROKER|HOST:PORT", shell_complete=broker_names, help="only on this master")
@click.option("--read", "-r", default=8, show_default=True, type=click.IntRange(1), help="queues to read from")
@click.option("--write", "-w", default=8, show_default=True, type=click.IntRange(1), help="queues to write to")
@click.option("--perm", default="rw", show_default=True, type=click.Choice(tuple(_PERMS)), help="permission")
@click.option("--order", is_flag=True, help="an ordered topic: also set its order configuration at every NameServer")
@click.option("--attribute", "-a", "attributes", multiple=True, metavar="NAME=VALUE|-NAME", help="for brokers of 5.x")
@click.option("--drop-queues", is_flag=True, help="allow an existing topic to lose queues with their messages")
@with_session
async def create_topic(
    session: OperatorSession,
    topic: str,
    cluster: str | None,
    broker: str | None,
    *,
    read: int,
    write: int,
    perm: str,
    order: bool,
    attributes: Sequence[str],
    drop_queues: bool,
) -> None:
    """Create a topic on masters (request 17), or replace the configuration of an existing one.

    Refuses to drop queues, because their messages could not be read any more; `rmq topic scale` waits until they are.
    """
    site = session.site
    brokers, resize = await both(site.cluster(), resize_beside(session, topic))
    found, gaps = chosen_masters(brokers, cluster, broker)
    wanted = TopicDefinition(
        topic=topic, read_queue_nums=read, write_queue_nums=write, perm=_PERMS[perm], is_order=order
    )
    request = update_topic(wanted, _attribute_changes(attributes))
    names = [each.broker_name or each.address for each in found]
    what = f"topic {topic} with {read} read and {write} write queues, permission {perm}"
    places = await _places(site, found, wanted)
    if (losing := [each.text for each in places if each.loses_queues]) and not drop_queues:
        raise CommandFailed(
            f"topic {topic} exists and would lose queues ({'; '.join(losing)}): use rmq topic scale {topic} "
            f"--queues {read}, which waits until their messages are read, or add --drop-queues"
        )
    stages = [
        [
            SiteChange(each.address, f"{what} on {place.text}", request, broker_runtime())
            for each, place in zip(found, places, strict=True)
        ]
    ]
    if order:
        if unnamed := [each.address for each in found if not each.broker_name]:
            raise UnknownName(f"no NameServer lists {unnamed[0]}: an order configuration needs the name of its set")
        conf = ";".join(f"{name}:{write}" for name in sorted(set(names)))
        if broker or gaps:
            # Other broker sets of the topic keep what they have.
            conf = merged_order_conf((await site.first_answer(order_conf(topic))).result or "", conf)
        request = put_kv(ORDER_TOPIC_CONFIG, topic, conf)
        stages.append(at_every_name_server(site, f"order configuration of {topic}: {conf}", request))
    verb = "Create" if all(each.is_new for each in places) else "Replace the configuration of"
    question = f"{verb} {what} on {'; '.join(each.text for each in places)}?{not_reached(gaps)}{resize}"
    await session.change(stages, question, _refusals(topic, brokers))
    check_gaps(gaps, f"{topic} was not created there: repeat this when all sets are back")


@click.command("delete", cls=ChangeCommand)
@click.argument("topic", shell_complete=topic_names)
@click.option("--cluster", metavar="NAME", shell_complete=cluster_names, required=True, help="from this cluster")
@with_session
async def delete_topic(session: OperatorSession, topic: str, cluster: str) -> None:
    """Remove a topic with its messages from the masters of a cluster (215), then from all NameServers (216).

    If a master fails, NameServers keep the route, because the topic would return. Sets that are away or have no master
    are named (exit code 7): the topic returns with them.
    """
    site = session.site
    brokers, resize = await both(site.cluster(), resize_beside(session, topic))
    found, gaps = chosen_masters(brokers, cluster, None)
    await check_has_route(site, topic, brokers)
    at_brokers = [
        SiteChange(
            each.address, f"delete topic {topic} on {each.broker_name}", topic_at_broker(topic), broker_runtime()
        )
        for each in found
    ]
    at_name_servers = at_every_name_server(site, f"delete route of {topic}", delete_topic_route(topic, cluster))
    names = ", ".join(each.broker_name for each in found)
    question = f"Delete topic {topic} with all its messages on {names}?{not_reached(gaps)}{resize}"
    await session.change([at_brokers, at_name_servers], question, _refusals(topic, brokers))
    check_gaps(gaps, f"if {topic} is there, it returns with them")


def merged_order_conf(present: str, more: str) -> str:
    """Return the order configuration with the entries of `more` in the place of those of the same broker sets."""
    entries = dict(each.partition(":")[::2] for each in (*present.split(";"), *more.split(";")) if each)
    return ";".join(f"{name}:{queues}" for name, queues in sorted(entries.items()))


def _attribute_changes(texts: Sequence[str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if equals and name:
            changes[name] = value
        elif text.startswith(_REMOVES) and len(text) > 1:
            changes[text.removeprefix(_REMOVES)] = None
        else:
            raise WrongUse(f"--attribute: {text} is neither NAME=VALUE nor -NAME")
        if "," in text or "=" in value:
            raise WrongUse(f"--attribute: {text} has a comma or a second equals sign, which brokers cannot take")
    return changes


def _refusals(topic: str, brokers: ClusterBrokers) -> Iterator[str]:
    """Yield why brokers refuse to create or delete a topic of this name."""
    if not _NAME.fullmatch(topic):
        yield f"{topic} is not a topic name, which has 1 to 127 letters, digits, %, |, - and _"
    if kind_of(topic, brokers.topic_owners) is TopicKind.SYSTEM:
        yield f"{topic} is a system topic, which brokers create themselves"


async def _places(site: Site, found: Sequence[BrokerPlace], wanted: TopicDefinition) -> list[TopicPlace]:
    """Return what becomes of the topic at each master; raises CommandFailed if one does not tell what it has.

    One to which nothing gets through loses nothing.
    """
    read, write = wanted.read_queue_nums, wanted.write_queue_nums
    answers = await definitions_at(site, [each.address for each in found], wanted.topic)
    errors = [(each.address, each.error) for each in answers if each.error is not None]
    if unknown := [(address, error) for address, error in errors if not is_cut_off(error)]:
        raise failure_of_all(unknown)
    places = []
    for place, answer in zip(found, answers, strict=True):
        name, before = place.broker_name or place.address, answer.found
        if before is None:
            places.append(TopicPlace(name))
            continue
        text = f"{name}: {before.read_queue_nums}/{before.write_queue_nums} -> {read}/{write} queues"
        if dropped := range(read, before.read_queue_nums):
            messages = await _messages_in(site, place.address, wanted.topic, dropped)
            text += f", {messages} messages in the dropped queues"
        places.append(TopicPlace(text, is_new=False, loses_queues=bool(dropped)))
    return places


async def _messages_in(site: Site, address: str, topic: str, queue_ids: range) -> int:
    ends = await site.answers_to((address, max_offset(topic, queue_id)) for queue_id in queue_ids)
    begins = await site.answers_to((address, min_offset(topic, queue_id)) for queue_id in queue_ids)
    check_requests([*ends, *begins])
    pairs = zip(ends, begins, strict=True)
    return sum(end.result - (end.result if begin.result is None else begin.result) for end, begin in pairs)
