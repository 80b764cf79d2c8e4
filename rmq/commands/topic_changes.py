"""`rmq topic create` and `rmq topic delete`, as mqadmin's updateTopic and deleteTopic send them."""

from collections.abc import Sequence
from typing import Final, TypedDict, Unpack

import click

from remoting.admin.name_servers import delete_topic_route, put_kv
from remoting.admin.routes import ClusterBrokers, order_conf
from remoting.admin.topics import TopicDefinition, update_topic
from remoting.admin.topics import delete_topic as topic_at_broker
from remoting.protocol.shapes.namesrv import ORDER_TOPIC_CONFIG
from rmq.cli.options import ChangeCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import broker_names, cluster_names, topic_names
from rmq.commands.topic_views import route_at_first
from rmq.failures import NotReachable, UnknownName, WrongUse
from rmq.site.brokers import BrokerPlace, check_gaps, gaps_in, masters, members_at, members_of_cluster
from rmq.site.changes import SiteChange

_PERMS: Final = {"r": 4, "w": 2, "rw": 6}
_REMOVES: Final = "-"


class CreateOptions(TypedDict):
    """What `create` takes beside the name."""

    cluster: str | None
    broker: str | None
    read: int
    write: int
    perm: str
    order: bool
    attributes: tuple[str, ...]


@click.command("create", cls=ChangeCommand)
@click.argument("topic")
@click.option("--cluster", metavar="NAME", shell_complete=cluster_names, help="on all masters of this cluster")
@click.option("--broker", metavar="BROKER|HOST:PORT", shell_complete=broker_names, help="on this master alone")
@click.option("--read", "-r", default=8, show_default=True, type=click.IntRange(1), help="queues to read from")
@click.option("--write", "-w", default=8, show_default=True, type=click.IntRange(1), help="queues to write to")
@click.option("--perm", default="rw", show_default=True, type=click.Choice(tuple(_PERMS)), help="permission")
@click.option("--order", is_flag=True, help="an order topic: its order configuration is set at every NameServer")
@click.option("--attribute", "-a", "attributes", multiple=True, metavar="NAME=VALUE|-NAME", help="for brokers of 5.x")
@with_session
async def create_topic(session: OperatorSession, topic: str, **chosen: Unpack[CreateOptions]) -> None:
    """Create a topic on masters (request 17). Of one that exists the configuration is replaced, after a question."""
    site = session.site
    found = _chosen_masters(await site.cluster(), chosen["cluster"], chosen["broker"])
    read, write, perm = chosen["read"], chosen["write"], chosen["perm"]
    wanted = TopicDefinition(
        topic=topic, read_queue_nums=read, write_queue_nums=write, perm=_PERMS[perm], is_order=chosen["order"]
    )
    request = update_topic(wanted, _attribute_changes(chosen["attributes"])).mapped(lambda _: "")
    names = [each.broker_name or each.address for each in found]
    what = f"topic {topic} with {read} read and {write} write queues, permission {perm}"
    stages = [[SiteChange(each.address, f"{what} on {name}", request) for each, name in zip(found, names, strict=True)]]
    if chosen["order"]:
        if unnamed := [each.address for each in found if not each.broker_name]:
            raise UnknownName(f"no NameServer lists {unnamed[0]}: an order configuration needs the name of its set")
        conf = ";".join(f"{name}:{write}" for name in sorted(set(names)))
        if chosen["broker"]:
            # Other broker sets of the topic keep what they have.
            conf = merged_order_conf((await site.first_answer(order_conf(topic))).result or "", conf)
        stages.append(_order_conf_changes(site.settings.namesrv, topic, conf))
    verb = "Replace the configuration of" if await _exists(session, topic) else "Create"
    question = f"{verb} {what} on {', '.join(names)}?"
    await session.change(stages, question)


@click.command("delete", cls=ChangeCommand)
@click.argument("topic", shell_complete=topic_names)
@click.option("--cluster", metavar="NAME", shell_complete=cluster_names, required=True, help="of this cluster")
@with_session
async def delete_topic(session: OperatorSession, topic: str, cluster: str) -> None:
    """Remove a topic with its messages from the masters of a cluster (215), then from all NameServers (216).

    Where a master fails nothing is sent to NameServers: it would bring the topic back with its next registration. So
    do sets that are away, or have no master: they are named, and the exit code is 7.
    """
    site = session.site
    brokers = await site.cluster()
    found = masters(members_of_cluster(brokers, cluster))
    if not found:
        raise NotReachable(f"cluster {cluster} has no master now: its topics cannot be deleted")
    gaps = gaps_in(brokers, cluster)
    await route_at_first(site, topic)
    removed = topic_at_broker(topic).mapped(lambda _: "")
    unrouted = delete_topic_route(topic, cluster).mapped(lambda _: "")
    at_brokers = [SiteChange(each.address, f"delete topic {topic} on {each.broker_name}", removed) for each in found]
    at_name_servers = [SiteChange(each, f"delete route of {topic}", unrouted) for each in site.settings.namesrv]
    beside = f" Not reached: {'; '.join(map(str, gaps))}." if gaps else ""
    question = f"Delete topic {topic} with all its messages on {', '.join(each.broker_name for each in found)}?{beside}"
    await session.change([at_brokers, at_name_servers], question)
    check_gaps(gaps, f"{topic} comes back with it, if it has it")


def merged_order_conf(present: str, more: str) -> str:
    """Return the order configuration with the entries of `more` in the place of those of the same broker sets."""
    entries = dict(each.partition(":")[::2] for each in (*present.split(";"), *more.split(";")) if each)
    return ";".join(f"{name}:{queues}" for name, queues in sorted(entries.items()))


def _chosen_masters(brokers: ClusterBrokers, cluster: str | None, broker: str | None) -> list[BrokerPlace]:
    if (cluster is None) == (broker is None):
        raise WrongUse("name either --cluster or --broker")
    found = masters(members_of_cluster(brokers, cluster) if cluster else members_at(brokers, broker or ""))
    if not found:
        raise UnknownName(f"{cluster or broker} has no master now: only masters create topics")
    return found


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


def _order_conf_changes(name_servers: Sequence[str], topic: str, conf: str) -> list[SiteChange]:
    request = put_kv(ORDER_TOPIC_CONFIG, topic, conf).mapped(lambda _: "")
    return [SiteChange(each, f"order configuration of {topic}: {conf}", request) for each in name_servers]


async def _exists(session: OperatorSession, topic: str) -> bool:
    try:
        await route_at_first(session.site, topic)
    except UnknownName:
        return False
    return True
