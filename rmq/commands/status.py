"""`rmq status`: one look at everything that the site has."""

from collections.abc import Collection, Sequence
from typing import ClassVar, Literal

import click
import msgspec

from remoting.admin.brokers import BrokerRuntime, broker_runtime
from remoting.admin.controllers import ReportedMetadata, controller_metadata
from remoting.admin.routes import ClusterBrokers, all_topics, cluster_brokers
from remoting.protocol.errors import InvokeError, RemotingError
from remoting.protocol.shapes.route import MASTER_ID
from remoting.protocol.topic_kinds import TopicKind, kind_of
from rmq.cli.options import ListCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.failures import PartlyDone, failure_of_all, sentence_of
from rmq.output.rows import RowKey
from rmq.site.brokers import BrokerPlace, places
from rmq.site.site import Answered, Site, grouped


class StatusRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One server, or one broker set."""

    row_key: ClassVar[RowKey] = ("kind", "name")

    kind: Literal["namesrv", "controller", "broker", "brokerSet"]
    name: str
    #: `differs`: from the first NameServer that answers. `no_master`: only slaves are alive.
    state: Literal["ok", "differs", "no_master", "failed"]
    detail: str


@click.command("status", cls=ListCommand)
@with_session
async def show_status(session: OperatorSession) -> None:
    """Show whether NameServers, controllers and brokers answer, agree, and each broker set has a master.

    A controller is looked for at its default address too; where none is there, that is no failure.
    """
    site = session.site
    clusters = await site.answers(site.settings.namesrv, cluster_brokers())
    topics = await site.answers([each.address for each in clusters if each.error is None], all_topics())
    rows = _name_server_rows(clusters, topics)
    first = next((each.result for each in clusters if each.error is None), None)
    rows += await _controller_rows(site)
    found = places(first) if first is not None else []
    rows += _set_rows(found)
    brokers = await site.answers((each.address for each in found), broker_runtime())
    rows += [_broker_row(place, answer) for place, answer in zip(found, brokers, strict=True)]
    # Without a NameServer nobody knows which brokers there are.
    session.show(rows, StatusRow, is_partial=first is None)
    if first is None:
        raise failure_of_all([(each.address, each.error) for each in clusters if each.error is not None])
    if wrong := [row.name for row in rows if row.state != "ok"]:
        raise PartlyDone(f"not well: {', '.join(wrong)}")


def _name_server_rows(
    clusters: Sequence[Answered[ClusterBrokers]], topics: Sequence[Answered[frozenset[str]]]
) -> list[StatusRow]:
    first = next((each.result for each in clusters if each.error is None), None)
    named_by = {each.address: each for each in topics}
    rows = []
    for known in clusters:
        if known.error is not None:
            rows.append(_failed("namesrv", known.address, known.error))
            continue
        named = named_by[known.address]
        # `enableAllTopicList` may be false: the number of topics is then unknown.
        count = "topics not listed" if named.error is not None else f"{_count(named.result, known.result)} topics"
        brokers = sum(len(each.addresses) for each in known.result.broker_sets.values())
        state: Literal["ok", "differs"] = "ok" if known.result == first else "differs"
        detail = f"{len(known.result.clusters)} clusters, {brokers} brokers, {count}"
        rows.append(StatusRow(kind="namesrv", name=known.address, state=state, detail=detail))
    return rows


def _count(topics: Collection[str], brokers: ClusterBrokers) -> int:
    """Return how many topics `topic list` shows."""
    owners = brokers.topic_owners
    return sum(kind_of(topic, owners) is TopicKind.NORMAL for topic in topics)


async def _controller_rows(site: Site) -> list[StatusRow]:
    answers = await site.answers(site.settings.controller, controller_metadata())
    if "controller" in site.settings.defaults and all(isinstance(each.error, InvokeError) for each in answers):
        return []
    return [_controller_row(each) for each in answers]


def _controller_row(answer: Answered[ReportedMetadata]) -> StatusRow:
    if answer.error is not None:
        return _failed("controller", answer.address, answer.error)
    leader = answer.result.controller_leader_address
    role = "leads" if answer.result.is_leader else f"leader is {leader}" if leader else "nobody leads"
    return StatusRow(kind="controller", name=answer.address, state="ok" if leader else "failed", detail=role)


def _set_rows(found: list[BrokerPlace]) -> list[StatusRow]:
    rows = []
    for (cluster, name), members in grouped(found, lambda each: (each.cluster, each.broker_name)).items():
        has_master = any(each.broker_id == MASTER_ID for each in members)
        detail = f"{len(members)} brokers in {cluster}"
        rows.append(StatusRow(kind="brokerSet", name=name, state="ok" if has_master else "no_master", detail=detail))
    return rows


def _broker_row(place: BrokerPlace, answer: Answered[BrokerRuntime]) -> StatusRow:
    if answer.error is not None:
        return _failed("broker", place.address, answer.error)
    rate = answer.result.put_tps
    detail = f"{place.broker_name} {place.broker_id}, {answer.result.version or 'unknown release'}"
    detail += f", {rate:.1f} messages/s" if rate is not None else ""
    return StatusRow(kind="broker", name=place.address, state="ok", detail=detail)


def _failed(kind: Literal["namesrv", "controller", "broker"], name: str, error: RemotingError) -> StatusRow:
    return StatusRow(kind=kind, name=name, state="failed", detail=sentence_of(error))
