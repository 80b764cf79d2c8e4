"""The requests that only ask: lists, members, configuration, KV. Routes, the busiest question, are in `handlers.py`."""

from collections.abc import Callable, Iterable

from msgspec import UNSET, UnsetType

from namesrv.core import routes
from namesrv.core.route_state import RouteState
from namesrv.core.values.cooperative import CooperativeTask, in_batches
from namesrv.refusals import KvNamespaceNotFound, ListDisabled, QueryNotFound
from namesrv.settings.durable_settings import Settings
from remoting.protocol.codec import decode_fields
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.namesrv import (
    BrokerMemberGroup,
    BrokerNameHeader,
    ClusterHeader,
    GetBrokerMemberGroupBody,
    KvConfigHeader,
    KvTable,
    NamespaceHeader,
    TopicList,
)
from remoting.protocol.shapes.route import SYS_FLAG_UNIT, SYS_FLAG_UNIT_SUB


class Queries:
    """Answers questions from the tables; changes nothing."""

    def __init__(self, state: RouteState, settings: Settings) -> None:
        self._state = state
        self._tables = state.tables
        self._settings = settings
        #: Request code -> the method that answers it.
        self.table: dict[int, Callable[[RemotingCommand], RemotingCommand]] = {
            RequestCode.GET_KV_CONFIG: self._kv_value,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._all_topics,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._kv_namespace,
            RequestCode.GET_TOPICS_BY_CLUSTER: self._topics_by_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._system_topics,
            RequestCode.GET_NAMESRV_CONFIG: self._config,
            RequestCode.GET_BROKER_MEMBER_GROUP: self._member_group,
        }
        #: The same for what may take long where there are very many topics.
        self.long: dict[int, Callable[[RemotingCommand], CooperativeTask[RemotingCommand]]] = {
            RequestCode.GET_UNIT_TOPIC_LIST: self._unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._unit_sub_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._unit_sub_ununit_topics,
        }

    def _kv_value(self, request: RemotingCommand) -> RemotingCommand:
        header = decode_fields(KvConfigHeader, request.ext_fields)
        value = self._settings.kv.get(header.namespace, header.key)
        if value is None:
            raise QueryNotFound(header.namespace, header.key)
        return request.reply(ext_fields={"value": value})

    def _kv_namespace(self, request: RemotingCommand) -> RemotingCommand:
        namespace = decode_fields(NamespaceHeader, request.ext_fields).namespace
        table = self._settings.kv.namespace(namespace)
        if table is None:
            raise KvNamespaceNotFound(namespace)
        return request.reply(body=encode(KvTable(table=dict(table)), Dialect.STANDARD))

    def cluster_info(self, request: RemotingCommand) -> CooperativeTask[RemotingCommand]:
        """Answer all clusters and broker sets; what has changed until now is told, however late that is."""
        return self._cluster_info_since(request, self._state.cluster_info.changes)

    def _cluster_info_since(self, request: RemotingCommand, changes: int) -> CooperativeTask[RemotingCommand]:
        return request.reply(body=(yield from self._state.cluster_info.since(changes)))

    def _member_group(self, request: RemotingCommand) -> RemotingCommand:
        header = decode_fields(BrokerNameHeader, request.ext_fields)
        broker_set = self._tables.brokers.get(header.broker_name or "")
        group = BrokerMemberGroup(
            broker_addrs=routes.broker_data(broker_set).broker_addrs if broker_set else {},
            broker_name=_unless_none(header.broker_name),
            cluster=_unless_none(header.cluster_name),
        )
        # Java forgets to clear the text that every new answer has.
        return request.reply(
            remark="not set any response code",
            body=encode(GetBrokerMemberGroupBody(broker_member_group=group), Dialect.BARE_INTEGER_KEYS),
        )

    def _all_topics(self, request: RemotingCommand) -> RemotingCommand:
        if not self._settings.config.enable_all_topic_list:
            raise ListDisabled
        return _topic_list(request, self._tables.topics.topics())

    def _topics_by_cluster(self, request: RemotingCommand) -> RemotingCommand:
        self._check_topic_list()
        cluster = decode_fields(ClusterHeader, request.ext_fields).cluster
        return _topic_list(request, routes.topics_of_cluster(self._tables, cluster or ""))

    def _system_topics(self, request: RemotingCommand) -> RemotingCommand:
        brokers = self._tables.brokers
        names = [*brokers.clusters(), *(broker_set.broker_name for broker_set in brokers.sets())]
        members = (member.address for broker_set in brokers.sets() for member in broker_set.members.values())
        body = TopicList(broker_addr=_unless_none(next(members, None)), topic_list=names)
        return request.reply(body=encode(body, Dialect.STANDARD))

    def _unit_topics(self, request: RemotingCommand) -> CooperativeTask[RemotingCommand]:
        return self._topics_with_flag(request, lambda flag: bool(flag & SYS_FLAG_UNIT))

    def _unit_sub_topics(self, request: RemotingCommand) -> CooperativeTask[RemotingCommand]:
        return self._topics_with_flag(request, lambda flag: bool(flag & SYS_FLAG_UNIT_SUB))

    def _unit_sub_ununit_topics(self, request: RemotingCommand) -> CooperativeTask[RemotingCommand]:
        return self._topics_with_flag(
            request, lambda flag: flag & (SYS_FLAG_UNIT | SYS_FLAG_UNIT_SUB) == SYS_FLAG_UNIT_SUB
        )

    def _topics_with_flag(
        self, request: RemotingCommand, wanted: Callable[[int], bool]
    ) -> CooperativeTask[RemotingCommand]:
        """Answer the topics whose first queues have the flag, as Java looks at one entry of each topic."""
        self._check_topic_list()
        topics = self._tables.topics
        found: list[str] = []
        # A copy: topics come and go while others are served in between.
        for part in in_batches(list(topics.topics())):
            found += (
                topic for topic in part if (queues := topics.first_queues_of(topic)) and wanted(queues.topic_sys_flag)
            )
            yield
        return _topic_list(request, found)

    def _check_topic_list(self) -> None:
        if not self._settings.config.enable_topic_list:
            raise ListDisabled

    def _config(self, request: RemotingCommand) -> RemotingCommand:
        return request.reply(body=self._settings.listing())


def _topic_list(request: RemotingCommand, topics: Iterable[str]) -> RemotingCommand:
    return request.reply(body=encode(TopicList(topic_list=list(topics)), Dialect.STANDARD))


def _unless_none(text: str | None) -> str | UnsetType:
    return UNSET if text is None else text
