"""Request code -> handler, and the longest body of each request.

Answers to the `switch` of `DefaultRequestProcessor` and to `ClientRequestProcessor`. A new request code takes four
steps: its number in `remoting/protocol/codes.py`, its header in `remoting/protocol/shapes/namesrv.py`, its handler in
one of the three files named `..._requests.py` beside this one, its line in this table. Its body may have 4 KiB unless
`BODY_LIMITS` says otherwise.
"""

from collections.abc import Callable
from typing import Final

from namesrv.wire.broker_requests import BrokerRequestHandler
from namesrv.wire.operator_requests import OperatorRequestHandler
from namesrv.wire.route_requests import RouteRequestHandler
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import CodeNotSupported
from remoting.protocol.shapes.route import SYS_FLAG_UNIT, SYS_FLAG_UNIT_SUB
from remoting.server.limits import UNLIMITED, BodyLimits
from remoting.server.observer import Peer
from remoting.server.request_processor import Answer

#: In bytes: a registration may be as long as a frame; a single topic and changed properties get what they can need; the
#: others have some hundred bytes or none.
BODY_LIMITS: Final = BodyLimits(
    other=4 * 1024,
    by_code={
        RequestCode.REGISTER_BROKER: UNLIMITED,
        RequestCode.REGISTER_TOPIC_IN_NAMESRV: 64 * 1024,
        RequestCode.UPDATE_NAMESRV_CONFIG: 64 * 1024,
    },
)

#: Codes that only brokers send: a connection that brings one is a broker's. Clients and tools send the others too.
BROKER_CODES: Final = frozenset(
    {
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.BROKER_HEARTBEAT,
    }
)


Handler = Callable[[RemotingCommand, Peer], Answer]


class RequestTable:
    def __init__(
        self, brokers: BrokerRequestHandler, routes: RouteRequestHandler, operators: OperatorRequestHandler
    ) -> None:
        self._handlers: dict[int, Handler] = {
            RequestCode.PUT_KV_CONFIG: operators.put_kv,
            RequestCode.GET_KV_CONFIG: operators.get_kv,
            RequestCode.DELETE_KV_CONFIG: operators.delete_kv,
            RequestCode.REGISTER_BROKER: brokers.register,
            RequestCode.UNREGISTER_BROKER: brokers.unregister,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: routes.topic_route,
            RequestCode.GET_BROKER_CLUSTER_INFO: routes.cluster_info,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: operators.wipe_write_perm,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: operators.all_topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: operators.delete_topic,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: brokers.register_topic,
            RequestCode.GET_KVLIST_BY_NAMESPACE: operators.kv_namespace,
            RequestCode.GET_TOPICS_BY_CLUSTER: operators.topics_of_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: operators.system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: operators.topics_with_flag(lambda flag: bool(flag & SYS_FLAG_UNIT)),
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: operators.topics_with_flag(
                lambda flag: bool(flag & SYS_FLAG_UNIT_SUB)
            ),
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: operators.topics_with_flag(
                lambda flag: flag & (SYS_FLAG_UNIT | SYS_FLAG_UNIT_SUB) == SYS_FLAG_UNIT_SUB
            ),
            RequestCode.UPDATE_NAMESRV_CONFIG: operators.update_config,
            RequestCode.GET_NAMESRV_CONFIG: operators.get_config,
            RequestCode.QUERY_DATA_VERSION: brokers.query_data_version,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: operators.add_write_perm,
            RequestCode.GET_BROKER_MEMBER_GROUP: brokers.member_group,
            RequestCode.BROKER_HEARTBEAT: brokers.heartbeat,
            RequestCode.WATCH_ROUTE_FETCHES: routes.watch_fetches,
        }

    def dispatch(self, request: RemotingCommand, connection: Peer) -> Answer:
        """Answer one request; raises RequestRefused or BodyError for what cannot be answered.

        The answer is awaitable where it waits for the disk (KV, configuration) or for a turn of the cooperative runner.
        """
        handler = self._handlers.get(request.code)
        if handler is None:
            raise CodeNotSupported(request.code)
        return handler(request, connection)
