"""`rmq status`: one look at everything that the site has."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import click
import msgspec

from remoting.admin.brokers import BrokerRuntime, broker_runtime
from remoting.admin.controllers import ReportedBrokerSet, ReportedMetadata, controller_metadata
from remoting.admin.routes import AwaySet, ClusterBrokers, all_topics, registered_and_away
from remoting.protocol.errors import InvokeError, RemotingError
from remoting.protocol.topic_kinds import TopicKind, kind_of
from rmq.cli.options import ListCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.failures import CommandFailed, PartlyDone, failure_of_all, first_of, sentence_of
from rmq.output.formats import RowKey
from rmq.site.brokers import BrokerPlace, away_sentence, merged, places, stored_away
from rmq.site.site import Answered, Site, both, leader_in

Kind = Literal["namesrv", "controller", "broker", "brokerSet"]
State = Literal[
    "ok",
    "differs",
    "no_brokers",
    "no_master",
    "under_replicated",
    "lost_topics",
    "lacks_topics",
    "away",
    "starting",
    "unknown",
    "failed",
]


class StatusRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    row_key: ClassVar[RowKey] = ("kind", "name")

    kind: Kind
    name: str
    #: `differs`: from the first NameServer that answers. `no_brokers`: none is registered there. `no_master`: only
    #: slaves are alive. `under_replicated`: a broker of the set is not alive or not in sync, as the controller knows.
    #: `lost_topics`: routes have topics that its master does not. `lacks_topics`: a slave has not copied the newest
    #: topics of its master. `away`: no broker of the set is registered; of a broker: it is not registered nor alive.
    #: `starting`: it was registered before the NameServer started, and may only not have registered again.
    #: `unknown`: no NameServer answers. `failed`: no answer; of a set: from its master.
    state: State
    away_since_unix_ms: int | None = None
    detail: str


@click.command("status", cls=ListCommand)
@with_session
async def show_status(session: OperatorSession) -> None:
    """Check that NameServers, controllers and brokers answer and agree, and that each broker set is complete.

    Sets that are away are shown for a day, or until `rmq broker forget`; those that controllers have stored, until
    `rmq controller clean`. A controller missing at the default address is no failure.
    """
    site = session.site
    (clusters, topics), controllers = await site.beside(
        both(
            site.peer_answers(site.settings.namesrv, registered_and_away()),
            site.peer_answers(site.settings.namesrv, all_topics()),
        ),
        site.peer_answers(site.settings.controller, controller_metadata()),
        [site.unanswered(each) for each in site.settings.controller],
    )
    answered = [each.result for each in clusters if each.error is None]
    if answered and "controller" in site.settings.defaults and all(_is_lost(each) for each in controllers):
        controllers = []
    known = merged(answered)
    found = places(known)
    leader = leader_in(controllers) if site.knows_controllers else None
    brokers, stored = await site.beside(
        site.answers((each.address for each in found), broker_runtime()),
        _stored_sets(site, leader, known),
        "no answer",
    )
    controller_rows = {each.address: _controller_row(each) for each in controllers}
    if isinstance(stored, str):
        detail = f"leads, but does not list its broker sets: {stored}"
        controller_rows[leader or ""] = StatusRow(kind="controller", name=leader or "", state="failed", detail=detail)
        stored = {}
    rows = [*_name_server_rows(clusters, topics), *controller_rows.values()]
    if answered:
        away = stored_away(known, stored)
        silent = {each.address for each in brokers if _is_lost(each)}
        rows += _set_rows(known, away, stored, silent)
        rows += [_broker_row(place, each, known) for place, each in zip(found, brokers, strict=True)]
        rows += _missing_rows({each.address for each in found}, away, stored)
    else:
        rows += _stored_rows(stored)
    # Without a NameServer nobody knows which brokers there are.
    session.show(rows, StatusRow, is_partial=not answered)
    if not answered:
        raise failure_of_all([(each.address, each.error) for each in clusters if each.error is not None])
    if wrong := [row.name for row in rows if row.state != "ok"]:
        raise PartlyDone(f"not well: {first_of(wrong)}")


def _name_server_rows(
    clusters: Sequence[Answered[ClusterBrokers]], topics: Sequence[Answered[frozenset[str]]]
) -> Iterator[StatusRow]:
    first = next((each.result for each in clusters if each.error is None), None)
    for known, named in zip(clusters, topics, strict=True):
        if known.error is not None:
            yield _failed("namesrv", known.address, known.error)
            continue
        # `enableAllTopicList` may be false: the number of topics is then unknown.
        count = "topics not listed" if named.error is not None else f"{_count(named.result, known.result)} topics"
        brokers = sum(len(each.addresses) for each in known.result.broker_sets.values())
        state: State = "differs" if known.result != first else "ok" if brokers else "no_brokers"
        detail = f"{len(known.result.clusters)} clusters, {brokers} brokers, {count}"
        yield StatusRow(kind="namesrv", name=known.address, state=state, detail=detail)


def _count(topics: Collection[str], brokers: ClusterBrokers) -> int:
    """Return how many topics `topic list` shows."""
    owners = brokers.topic_owners
    return sum(kind_of(topic, owners) is TopicKind.NORMAL for topic in topics)


def _is_lost(answer: Answered[Any]) -> bool:
    return isinstance(answer.error, InvokeError)


async def _stored_sets(site: Site, leader: str | None, known: ClusterBrokers) -> Mapping[str, ReportedBrokerSet] | str:
    """Return what the leading controller has stored, or why it does not say that; nothing without a leader."""
    if leader is None:
        return {}
    try:
        found = await site.stored_sets(leader)
        return await site.named_sets(leader, sorted(known.broker_sets)) if found is None else found
    except CommandFailed as failure:
        return str(failure)


def _controller_row(answer: Answered[ReportedMetadata]) -> StatusRow:
    if answer.error is not None:
        return _failed("controller", answer.address, answer.error)
    leader = answer.result.controller_leader_address
    role = "leads" if answer.result.is_leader else f"leader is {leader}" if leader else "no leader"
    return StatusRow(kind="controller", name=answer.address, state="ok" if leader else "failed", detail=role)


def _set_rows(
    known: ClusterBrokers,
    away: Mapping[str, AwaySet],
    stored: Mapping[str, ReportedBrokerSet],
    silent: Collection[str],
) -> Iterator[StatusRow]:
    for name in sorted({*known.broker_sets, *away}):
        state, since_unix_ms, detail = _set_state(name, known, away.get(name), stored.get(name))
        if state != "no_master" and name in known.broker_sets and known.broker_sets[name].master_address in silent:
            state, detail = "failed", f"{detail}; its master does not answer"
        election = stored[name].last_election if name in stored else None
        if election and state in ("away", "no_master"):
            detail += f"; last election: {election}"
        yield StatusRow(kind="brokerSet", name=name, state=state, away_since_unix_ms=since_unix_ms, detail=detail)


def _set_state(
    name: str, known: ClusterBrokers, gone: AwaySet | None, at_controller: ReportedBrokerSet | None
) -> tuple[State, int | None, str]:
    """Return the state of a set, since when it is away, and a sentence."""
    if gone is not None:
        brokers = f"{len(gone.broker_addrs)} brokers in {gone.cluster or 'an unknown cluster'}"
        if gone.is_starting and (at_controller is None or at_controller.alive):
            alive = "" if at_controller is None else f"; {_heartbeats(at_controller)}"
            return "starting", None, f"{away_sentence(gone)}, {brokers}{alive}"
        how = "shut down cleanly" if gone.was_unregistered else "no broker is registered"
        return "away", gone.away_since_unix_ms, f"{how}, {brokers}"
    listed = known.broker_sets[name]
    detail = f"{len(listed.addresses)} brokers in {listed.cluster}"
    if listed.master_address is None or (at_controller is not None and not at_controller.has_living_master):
        return "no_master", None, detail
    lacking = () if at_controller is None else at_controller.lacking
    if lacking:
        texts = (f"broker {each.broker_id} is not {'in sync' if each.is_alive else 'alive'}" for each in lacking)
        return "under_replicated", None, f"{detail}; {', '.join(texts)}"
    if (lost := known.lost_topics.get(name)) is not None:
        text = f"{lost.count} topics missing on its master: {', '.join(lost.topics)}"
        return "lost_topics", None, f"{detail}; {text}"
    return "ok", None, detail


def _missing_rows(
    registered: set[str], away: Mapping[str, AwaySet], stored: Mapping[str, ReportedBrokerSet]
) -> Iterator[StatusRow]:
    """Yield the brokers that NameServers had of sets that are away, and those that controllers miss."""
    missing = {address: (name, i) for name, gone in away.items() for i, address in gone.broker_addrs.items()}
    dead = {
        each.address: (name, each.broker_id)
        for name, at_controller in stored.items()
        for each in at_controller.replicas
        if not each.is_alive
    }
    for address, (name, broker_id) in sorted((missing | dead).items(), key=lambda item: item[1]):
        if address not in registered:
            gone = away.get(name)
            state: State = "starting" if gone is not None and gone.is_starting and address not in dead else "away"
            since = gone.away_since_unix_ms if gone is not None else None
            detail = f"{name} {broker_id}, not registered"
            yield StatusRow(kind="broker", name=address, state=state, away_since_unix_ms=since, detail=detail)


def _stored_rows(stored: Mapping[str, ReportedBrokerSet]) -> Iterator[StatusRow]:
    """Yield what the controller says of sets while no NameServer answers: its word alone makes none of them `ok`."""
    nobody = "no NameServer answers"
    for name, found in sorted(stored.items()):
        yield StatusRow(kind="brokerSet", name=name, state="unknown", detail=f"{nobody}; {_heartbeats(found)}")
    for name, found in sorted(stored.items()):
        for each in found.replicas:
            heard = (
                "the controller has its heartbeats"
                if each.is_alive
                else "the controller has none of its heartbeats either"
            )
            detail = f"{name} {each.broker_id}; {nobody}, {heard}"
            state: State = "unknown" if each.is_alive else "away"
            yield StatusRow(kind="broker", name=each.address, state=state, detail=detail)


def _heartbeats(found: ReportedBrokerSet) -> str:
    return f"the controller has heartbeats of {len(found.alive)} of {len(found.replicas)} brokers"


def _broker_row(place: BrokerPlace, answer: Answered[BrokerRuntime], known: ClusterBrokers) -> StatusRow:
    if answer.error is not None:
        return _failed("broker", place.address, answer.error)
    rate = answer.result.put_tps
    detail = f"{place.broker_name} {place.broker_id}, {answer.result.version or 'unknown release'}"
    detail += f", {rate:.1f} messages/s" if rate is not None else ""
    if place.address in known.stale_replicas:
        detail += "; it has not copied the newest topics of its master"
        return StatusRow(kind="broker", name=place.address, state="lacks_topics", detail=detail)
    return StatusRow(kind="broker", name=place.address, state="ok", detail=detail)


def _failed(kind: Kind, name: str, error: RemotingError) -> StatusRow:
    return StatusRow(kind=kind, name=name, state="failed", detail=sentence_of(error))
