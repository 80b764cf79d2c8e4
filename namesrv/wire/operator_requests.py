"""Requests of operators' tools: topics and permissions, KV, configuration, lists of topics.

Answers that wait are awaitable: for the disk, or for a turn of the cooperative runner where there are very many topics.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from msgspec import UNSET, UnsetType

from namesrv.core import fitting, routes
from namesrv.core.route_state import RouteState
from namesrv.core.values.cooperative import CooperativeTask, in_batches
from namesrv.core.values.effects import RouteOutcome
from namesrv.refusals import KvNamespaceNotFound, ListDisabled, QueryNotFound
from namesrv.settings.durable_settings import DurableSettings
from namesrv.wire.cooperative_runner import CooperativeRunner
from remoting.protocol.codec import decode_fields
from remoting.protocol.command import RemotingCommand
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.namesrv import (
    BrokerNameHeader,
    ClusterHeader,
    KvConfigHeader,
    KvTable,
    NamespaceHeader,
    TopicHeader,
    TopicList,
)
from remoting.server.observer import Peer

#: A longer list of names is cut to what fits of each host: no peer reads a frame of more than 16 MiB.
LIST_BYTES_MAX: Final = 15 * 1024 * 1024

Answer = RemotingCommand | Awaitable[RemotingCommand]


class OperatorRequestHandler:
    def __init__(
        self,
        state: RouteState,
        settings: DurableSettings,
        runner: CooperativeRunner,
        perform: Callable[[RouteOutcome[Any]], None],
    ) -> None:
        """Pass every outcome to `perform`, which runs its effects once the reply has left."""
        self._state = state
        self._tables = state.tables
        self._settings = settings
        self._runner = runner
        self._perform = perform

    # KV and configuration

    async def put_kv(self, request: RemotingCommand, peer: Peer) -> RemotingCommand:
        """Put a KV entry; answered once it is on disk."""
        header = decode_fields(KvConfigHeader, request.ext_fields)
        await self._settings.put_kv(header.namespace, header.key, header.value, peer.network)
        return request.reply()

    def get_kv(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        """Answer the value of a KV entry; raises QueryNotFound."""
        header = decode_fields(KvConfigHeader, request.ext_fields)
        value = self._settings.kv.get(header.namespace, header.key)
        if value is None:
            raise QueryNotFound(header.namespace, header.key)
        return request.reply(ext_fields={"value": value})

    async def delete_kv(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        """Delete a KV entry; answered once that is on disk."""
        header = decode_fields(KvConfigHeader, request.ext_fields)
        await self._settings.delete_kv(header.namespace, header.key)
        return request.reply()

    def kv_namespace(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        """Answer all entries of a KV namespace; raises KvNamespaceNotFound."""
        namespace = decode_fields(NamespaceHeader, request.ext_fields).namespace
        table = self._settings.kv.namespace(namespace)
        if table is None:
            raise KvNamespaceNotFound(namespace)
        return request.reply(body=encode(KvTable(table=dict(table)), Dialect.STANDARD))

    async def update_config(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        """Change properties of the configuration; answered once they are on disk."""
        if request.body:
            await self._settings.update_config(request.body)
        return request.reply()

    def get_config(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        """Answer all properties, secrets masked; a body has properties that the sender may want to change."""
        return request.reply(body=self._settings.listing(request.body))

    # Topics and permissions

    def wipe_write_perm(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        """Take write permission from all topics of a broker set; answers how many."""
        return self._set_perm(request, self._state.wipe_write_perm, "wipeTopicCount")

    def add_write_perm(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        """Give write permission to all topics of a broker set; answers how many."""
        return self._set_perm(request, self._state.add_write_perm, "addTopicCount")

    def _set_perm(
        self, request: RemotingCommand, change: Callable[[str], RouteOutcome[int]], field: str
    ) -> RemotingCommand:
        outcome = change(decode_fields(BrokerNameHeader, request.ext_fields).broker_name or "")
        self._perform(outcome)
        return request.reply(ext_fields={field: str(outcome.reply)})

    def delete_topic(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        """Remove a topic from one cluster, or from all."""
        header = decode_fields(TopicHeader, request.ext_fields)
        self._perform(self._state.delete_topic(header.topic or "", header.cluster_name))
        return request.reply()

    # Lists of topics

    def all_topics(self, request: RemotingCommand, peer: Peer) -> Answer:
        """Answer all topics; raises ListDisabled."""
        if not self._settings.config.enable_all_topic_list:
            raise ListDisabled
        return self._topic_list(request, peer, self._tables.topics.topics())

    def topics_of_cluster(self, request: RemotingCommand, peer: Peer) -> Answer:
        """Answer the topics of a cluster; raises ListDisabled."""
        self._check_topic_list()
        cluster = decode_fields(ClusterHeader, request.ext_fields).cluster
        return self._topic_list(request, peer, routes.topics_of_cluster(self._tables, cluster or ""))

    def system_topics(self, request: RemotingCommand, peer: Peer) -> Answer:
        """Answer the names of clusters and broker sets, which are topics too, and the address of one broker."""
        brokers = self._tables.brokers
        members = (member.address for broker_set in brokers.sets() for member in broker_set.members.values())
        return self._topic_list(request, peer, brokers.topic_owners(), next(members, UNSET))

    def topics_with_flag(self, is_wanted: Callable[[int], bool]) -> Callable[[RemotingCommand, Peer], Answer]:
        """Return what answers the topics whose system flag is wanted; that raises ListDisabled."""

        def answer(request: RemotingCommand, peer: Peer) -> Answer:
            self._check_topic_list()
            return self._runner.run(self._list_topics_with_flag(request, is_wanted), peer.id, 0)

        return answer

    def _list_topics_with_flag(
        self, request: RemotingCommand, is_wanted: Callable[[int], bool]
    ) -> CooperativeTask[RemotingCommand]:
        """Answer the topics whose first queues have the flag, as Java looks at one entry of each topic."""
        topics = self._tables.topics
        found: list[str] = []
        # A copy: topics come and go while others are served in between.
        for part in in_batches(list(topics.topics())):
            found += (
                topic
                for topic in part
                if (queues := topics.first_queues_of(topic)) and is_wanted(queues.topic_sys_flag)
            )
            yield
        return (yield from self._listed(request, found))

    def _check_topic_list(self) -> None:
        if not self._settings.config.enable_topic_list:
            raise ListDisabled

    def _topic_list(
        self, request: RemotingCommand, peer: Peer, topics: Iterable[str], broker_addr: str | UnsetType = UNSET
    ) -> Answer:
        steps = self._listed(request, list(topics), broker_addr)
        try:
            next(steps)
        except StopIteration as whole:
            answer: RemotingCommand = whole.value
            return answer
        return self._runner.run(steps, peer.id, 0)

    def _listed(
        self, request: RemotingCommand, topics: list[str], broker_addr: str | UnsetType = UNSET
    ) -> CooperativeTask[RemotingCommand]:
        """Return a list of topics, at once, or what of it fits of each host."""
        # What is far too long is not even encoded.
        if sum(map(len, topics)) + 3 * len(topics) <= LIST_BYTES_MAX:
            body = encode(TopicList(broker_addr=broker_addr, topic_list=topics), Dialect.STANDARD)
            if len(body) <= LIST_BYTES_MAX:
                return request.reply(body=body)
        fit = yield from fitting.fitting(topics, lambda topic: [(self._host_of(topic), None, len(topic.encode()) + 3)])
        return request.reply(body=encode(TopicList(broker_addr=broker_addr, topic_list=list(fit)), Dialect.STANDARD))

    def _host_of(self, topic: str) -> str:
        """Return the host that had a topic first, or has a set of this name."""
        names = self._tables.topics.holders_of(topic) or (topic,)
        broker_set = self._tables.brokers.get(names[0])
        return broker_set.network if broker_set else ""
