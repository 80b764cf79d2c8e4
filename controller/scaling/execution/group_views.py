"""The consumer groups of a topic, over all its masters: who is connected, and which queues they consume."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from controller.scaling.execution.requests import FAILURES, ClientQueries, ClientRound, Requests
from controller.scaling.resize.observation import ClientView, ConsumedQueue, GroupKind, GroupView
from controller.scaling.resize.operation import QueueId
from remoting.admin.clients import RunningConsumer
from remoting.admin.groups import GroupConnections, connections_of_group, groups_of_topic
from remoting.background_tasks import all_results
from remoting.protocol.shapes.broker_clients import SYSTEM_GROUP_PREFIX, TOOL_GROUP
from store.document_store import DocumentStore
from store.documents import DocumentKind
from store.store import StoreError

#: Later releases may know further kinds: they are kept.
_decode: Final = msgspec.json.Decoder(dict[str, str]).decode
_KINDS: Final = {kind.value: kind for kind in GroupKind}
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class GroupKinds:
    """How the groups of topics consumed when they were seen last: nobody else can tell of a group that is offline.

    One document for each topic, written when a kind is new: the next leader loads them with the operations.
    """

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        #: One write at a time: those of an autoscaler that begins to look are many, and elections use the store too.
        #: No round waits for another one's.
        self._write = asyncio.Lock()

    async def with_last(
        self, topic: str, views: Sequence[GroupView], *, is_whole: bool = False
    ) -> tuple[GroupView, ...]:
        """Return the groups of a topic, those that are offline with their last kinds; store the kinds that are new.

        Groups that are not among views of all masters (`is_whole`) go with the next write: a document has as many as a
        topic may have.
        """
        reported = {view.name: view.reported_kind for view in views}
        seen = {name: kind.value for name, kind in reported.items() if kind is not None}

        def decide(stored: bytes | None) -> bytes:
            kept = {name: kind for name, kind in _kinds(stored).items() if name in reported or not is_whole}
            return _encode(kept | seen)

        known: Mapping[str, str] = {}
        # Without the store kinds are unknown, which is a reason for care. What was not stored is seen again.
        with contextlib.suppress(StoreError):
            known = _kinds(self._documents.get(DocumentKind.GROUP_KINDS, topic))
            if not seen.items() <= known.items() and not self._write.locked():
                async with self._write:
                    await self._documents.change(DocumentKind.GROUP_KINDS, topic, decide)
        last = {name: _KINDS.get(kind) for name, kind in known.items()}
        return tuple(view if view.is_online else replace(view, last_kind=last.get(view.name)) for view in views)


def _kinds(stored: bytes | None) -> Mapping[str, str]:
    try:
        return {} if stored is None else _decode(stored)
    except msgspec.DecodeError:
        # It is written anew.
        return {}


#: Groups of one topic; each costs requests to every broker in each round.
GROUPS_MAX: Final = 500

_ACTIVELY: Final = "CONSUME_ACTIVELY"
_POP: Final = "CONSUME_POP"
_RETRY_PREFIX: Final = "%RETRY%"


class ConnectedMembers(NamedTuple):
    """Who is connected of a group, as brokers answer it."""

    group: str
    client_ids: Sequence[str]
    is_broadcasting: bool


#: Chooses of a group those clients that are queried: each costs the client a request.
ClientChoice = Callable[[ConnectedMembers], Collection[str]]


class GroupObserver:
    def __init__(self, requests: Requests, clients: ClientQueries, kinds: GroupKinds) -> None:
        self._requests = requests
        self._clients = clients
        self._kinds = kinds

    async def views(
        self,
        topic: str,
        masters: Collection[str],
        stored: Iterable[str],
        clients: ClientChoice,
        *,
        is_whole: bool,
    ) -> tuple[tuple[GroupView, ...] | None, list[str]]:
        """Return all groups, None if a master did not answer; and what is missing. `is_whole`: no other set has any.

        Groups are those with subscriptions on any master, and those with `stored` offsets: one that left years ago is
        among them.
        """
        missing: list[str] = []
        listed = await all_results(self._listed(each, topic, missing) for each in masters)
        names = sorted(
            {name for each in listed for name in each}
            | {name for name in stored if name != TOOL_GROUP and not name.startswith(SYSTEM_GROUP_PREFIX)}
        )
        if len(names) > GROUPS_MAX:
            missing.append(f"{topic} has {len(names)} groups, more than {GROUPS_MAX}: delete those that are not used")
        if missing:
            return None, missing
        turns = self._clients.begin_round()
        views = await all_results(self._group(each, topic, masters, missing, clients, turns) for each in names)
        if missing:
            return None, missing
        return await self._kinds.with_last(topic, views, is_whole=is_whole), missing

    async def _listed(self, master: str, topic: str, missing: list[str]) -> tuple[str, ...]:
        try:
            return await self._requests.call(master, groups_of_topic(topic))
        except FAILURES as error:
            missing.append(f"groups at {master}: {error}")
            return ()

    async def _group(
        self,
        name: str,
        topic: str,
        masters: Collection[str],
        missing: list[str],
        choose: ClientChoice,
        turns: ClientRound,
    ) -> GroupView:
        found: dict[str, GroupConnections] = {}
        choosing: dict[str, GroupConnections] = {}
        for master in masters:
            try:
                connections = await self._requests.call(master, connections_of_group(name))
            except FAILURES as error:
                missing.append(f"members of {name} at {master}: {error}")
                continue
            if connections is not None and topic in connections.subscriptions:
                found[master] = connections
            elif connections is not None and _chooses(connections):
                # It has offsets of the topic, as it would not be listed otherwise.
                choosing[master] = connections
        if not (found := found or choosing):
            return GroupView(name=name, kind=GroupKind.OFFLINE)
        where = {client.client_id: master for master, each in found.items() for client in each.clients}
        is_broadcasting = any(each.is_broadcasting for each in found.values())
        chosen = choose(ConnectedMembers(name, sorted(where), is_broadcasting))
        answers = await all_results(self._clients.running(turns, where[each], name, each) for each in chosen)
        running: Mapping[str, RunningConsumer | None] = dict(zip(chosen, answers, strict=True))
        known = [each for each in running.values() if each is not None]
        kind = _kind(found.values(), known, is_answered=len(known) == len(running))
        if found is choosing and kind is GroupKind.PULL:
            kind = GroupKind.ASSIGNED
        members = tuple(ClientView(client_id=each, queues=_queues(running.get(each), topic)) for each in sorted(where))
        return GroupView(name=name, kind=kind, clients=members)


def _chooses(connections: GroupConnections) -> bool:
    """Return whether members pull queues that no subscription shows; one that subscribes elsewhere pulls only that."""
    is_subscribed = any(not topic.startswith(_RETRY_PREFIX) for topic in connections.subscriptions)
    return connections.consume_type == _ACTIVELY and not is_subscribed


def _kind(
    connections: Collection[GroupConnections], running: Collection[RunningConsumer], *, is_answered: bool
) -> GroupKind:
    """Return how a group consumes; `is_answered`: every member that was queried has answered."""
    if any(each.is_broadcasting for each in connections):
        return GroupKind.BROADCAST
    types = {each.consume_type for each in connections} | {each.consume_type for each in running}
    if _POP in types or any(each.pop_queues for each in running):
        return GroupKind.POP
    if any(each.is_orderly for each in running):
        return GroupKind.ORDERLY
    if any(each.consume_type == _ACTIVELY for each in connections):
        return GroupKind.PULL
    return GroupKind.CONCURRENT if is_answered else GroupKind.UNKNOWN


def _queues(running: RunningConsumer | None, topic: str) -> dict[QueueId, ConsumedQueue] | None:
    if running is None:
        return None
    return {
        QueueId(queue.broker_name, queue.queue_id): ConsumedQueue(
            commit_offset=held.commit_offset if held.commit_offset is not None else -1, cached=held.cached_messages or 0
        )
        for queue, held in running.queues.items()
        if queue.topic == topic and not held.is_dropped
    }
