"""NameServerConfig: every option of the NameServer with its unit, default and reader.

Answers to Java's `NamesrvConfig`, whose property names and defaults are kept (docs/protocol/namesrv.md 5.1 and 5.2,
docs/protocol/remoting.md 11.3). What any server has stands in `serving/config/server_config.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

from remoting.protocol.codes import NAMESRV_REQUESTS
from serving.config.options import (
    INT_MAX,
    KEEPS_OUT,
    LISTENS,
    NAMES_A_FILE,
    AddressList,
    AlwaysFalse,
    Closed,
    FilePath,
    Fixed,
    Flag,
    Only,
    Option,
    Text,
    Whole,
    Within,
    unused,
)
from serving.config.server_config import (
    ConfigBlackList,
    ConfigStorePath,
    FrameBytesMax,
    HttpPort,
    ListenPort,
    ServerConfig,
)
from serving.config.server_kind import ServerKind

_FLAG: Final = Flag()
_AT_LEAST_0: Final = Whole(0, INT_MAX)
_AT_LEAST_1: Final = Whole(1, INT_MAX)
_ANY_NUMBER: Final = Whole()
_LISTS: Final = Closed("it decides whether tools see topics, and whether anybody may ask for the longest answers")
_ORDER: Final = Closed("it decides which queues clients and brokers use for order topics")
_START: Final = Closed("it refuses all route queries after a start, or answers them before brokers are back")
_NO_CLUSTER_TEST: Final = AlwaysFalse(
    "cluster-test mode is not part of this server; leave it out, or run the Java NameServer for it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerConfig(ServerConfig):
    """All options; a comment says why nobody here reads one."""

    config_store_path: ConfigStorePath = "~/namesrv/namesrv.properties"
    config_black_list: ConfigBlackList = "configBlackList;configStorePath;kvConfigPath"
    listen_port: ListenPort = 9876
    http_port: HttpPort = 9880
    #: A broker of 200,000 topics registers in one frame.
    frame_bytes_max: FrameBytesMax = 64 * 1024 * 1024

    # NamesrvConfig

    kv_config_path: Annotated[
        str, Option("kvConfigPath", FilePath(may_be_blank=False), "File of the KV table.", NAMES_A_FILE)
    ] = "~/namesrv/kvConfig.json"
    #: Cluster-test mode alone reads it.
    product_env_name: Annotated[str, unused("productEnvName", Text(), "Unit name of cluster-test mode.")] = "center"
    #: Always false, so it has no reader.
    cluster_test: Annotated[bool, unused("clusterTest", _NO_CLUSTER_TEST, "Cluster-test mode; only false.")] = False
    order_message_enable: Annotated[
        bool,
        Option(
            "orderMessageEnable", _FLAG, "Routes carry the order configuration of their topic.", _ORDER, at_once=True
        ),
    ] = False
    return_order_topic_config_to_broker: Annotated[
        bool,
        Option(
            "returnOrderTopicConfigToBroker",
            _FLAG,
            "Brokers get all order configurations when they register.",
            _ORDER,
            at_once=True,
        ),
    ] = True
    #: Threads of the Java server.
    client_request_thread_pool_nums: Annotated[
        int, unused("clientRequestThreadPoolNums", _ANY_NUMBER, "Threads for route queries.")
    ] = 8
    #: Threads of the Java server.
    default_thread_pool_nums: Annotated[
        int, unused("defaultThreadPoolNums", _ANY_NUMBER, "Threads for all other requests.")
    ] = 16
    #: Requests waiting for threads of the Java server.
    client_request_thread_pool_queue_capacity: Annotated[
        int, unused("clientRequestThreadPoolQueueCapacity", _ANY_NUMBER, "Route queries that may wait.")
    ] = 50000
    #: Requests waiting for threads of the Java server.
    default_thread_pool_queue_capacity: Annotated[
        int,
        Option(
            "defaultThreadPoolQueueCapacity",
            _AT_LEAST_1,
            "Requests other than route queries that may wait; beyond it they are answered SYSTEM_BUSY.",
            KEEPS_OUT,
        ),
    ] = 10000
    scan_not_active_broker_interval_ms: Annotated[
        int,
        Option(
            "scanNotActiveBrokerInterval",
            _AT_LEAST_1,
            "Time between two looks for silent brokers, in milliseconds.",
            Within(Whole(1_000, 10_000), "longer keeps silent brokers in routes, shorter takes the processor"),
            at_once=True,
        ),
    ] = 10_000
    #: Unregistrations waiting for a thread of the Java server; here each is done at once.
    un_register_broker_queue_capacity: Annotated[
        int, unused("unRegisterBrokerQueueCapacity", _ANY_NUMBER, "Unregistrations that may wait.")
    ] = 3000
    support_acting_master: Annotated[
        bool,
        Option(
            "supportActingMaster",
            _FLAG,
            "The slave with the lowest broker id stands in for a master.",
            Within(Only(True), "without it nobody stands in for a master"),
            at_once=True,
        ),
    ] = False
    enable_all_topic_list: Annotated[
        bool,
        Option("enableAllTopicList", _FLAG, "The list of all topics is answered (request 206).", _LISTS, at_once=True),
    ] = True
    enable_topic_list: Annotated[
        bool,
        Option(
            "enableTopicList",
            _FLAG,
            "Topic lists by cluster and by unit are answered (requests 224, 311 to 313).",
            _LISTS,
            at_once=True,
        ),
    ] = True
    notify_min_broker_id_changed: Annotated[
        bool,
        Option(
            "notifyMinBrokerIdChanged",
            _FLAG,
            "Brokers are notified when the lowest broker id of their set changes.",
            Closed("it decides which notifications brokers get, and slaves act on them"),
            at_once=True,
        ),
    ] = False
    enable_controller_in_namesrv: Annotated[
        bool,
        Option(
            "enableControllerInNamesrv",
            _FLAG,
            "A controller runs in the same process, with its properties in the same file.",
            Fixed("it starts another server"),
        ),
    ] = False
    need_wait_for_service: Annotated[
        bool,
        Option(
            "needWaitForService",
            _FLAG,
            "Route queries are refused for waitSecondsForService after the start.",
            _START,
            at_once=True,
        ),
    ] = False
    wait_for_service_seconds: Annotated[
        int,
        Option(
            "waitSecondsForService",
            _AT_LEAST_0,
            "How long brokers have to register after the start, in seconds.",
            _START,
            at_once=True,
        ),
    ] = 45
    delete_topic_with_broker_registration: Annotated[
        bool,
        Option(
            "deleteTopicWithBrokerRegistration",
            _FLAG,
            "A full registration removes topics the broker no longer has.",
            Closed("it takes topics out of routes where brokers register them in parts"),
            at_once=True,
        ),
    ] = False

    # Ours

    brokers_max: Annotated[
        int,
        Option(
            "brokersMax",
            _AT_LEAST_1,
            "Brokers that are kept; beyond it new ones are answered 1, but each connection may have 8 all the same.",
            KEEPS_OUT,
            at_once=True,
        ),
    ] = 100_000
    brokers_per_connection_max: Annotated[
        int,
        Option(
            "brokersPerConnectionMax",
            _AT_LEAST_1,
            "Brokers that may register over one connection, as those of a BrokerContainer do; new ones beyond it are "
            "answered 1.",
            KEEPS_OUT,
            at_once=True,
        ),
    ] = 1024
    topic_bytes_max: Annotated[
        int,
        Option(
            "topicBytesMax",
            Whole(0, 1 << 50),
            "Bytes of memory that the topics of all sets may take: of a host half of it, of a connection an eighth. "
            "Registrations beyond it are answered 1; 0 for a quarter of the memory, at least 256 MiB.",
            KEEPS_OUT,
        ),
    ] = 0
    topic_sets_per_host_max: Annotated[
        int,
        Option(
            "topicSetsPerHostMax",
            _AT_LEAST_1,
            "Broker sets that one host may have in a topic; later ones are registered without it. For each of them the "
            "host may add 1 KiB to a route.",
            KEEPS_OUT,
            at_once=True,
        ),
    ] = 512
    controller_listen_port: Annotated[
        int,
        Option(
            "controllerListenPort",
            Whole(0, 65535),
            "With enableControllerInNamesrv: port of the controller for brokers.",
            LISTENS,
        ),
    ] = 9878
    controller_http_port: Annotated[
        int,
        Option(
            "controllerHttpPort", Whole(0, 65535), "With enableControllerInNamesrv: port of its HTTP side.", LISTENS
        ),
    ] = 9881
    namesrv_addr_list: Annotated[
        str,
        Option(
            "namesrvAddrList",
            AddressList(),
            "NameServers that /rocketmq/nsaddr returns to clients, with a ';' between; blank for this server alone.",
            Fixed("it sends clients to other servers"),
            at_once=True,
        ),
    ] = ""

    role_address_file: Annotated[
        str,
        Option(
            "roleAddressFile",
            FilePath(),
            "TOML file with role addresses, which clients get in routes instead of the brokers' own; read again when "
            "it changes; blank for none.",
            NAMES_A_FILE,
        ),
    ] = ""
    member_port: Annotated[
        int,
        Option(
            "memberPort",
            Whole(0, 65535),
            "Second port for RocketMQ peers, where routes always have the brokers' own addresses; 0 for none.",
            LISTENS,
        ),
    ] = 0
    lookup_port: Annotated[
        int,
        Option(
            "lookupPort",
            Whole(0, 65535),
            "Another HTTP port, for /rocketmq/nsaddr alone, at httpBindAddress; 0 for none, and none if httpPort is 0.",
            LISTENS,
        ),
    ] = 0
    route_watchers_max: Annotated[
        int,
        Option(
            "routeWatchersMax",
            Whole(0, 65535),
            "Clients that may watch routes or brokers at a time (/v1/routes/watch, /v1/cluster/watch), a connection "
            "each; beyond it they are answered 503; 0 for none.",
            KEEPS_OUT,
        ),
    ] = 1024
    route_watch_topics_max: Annotated[
        int,
        Option(
            "routeWatchTopicsMax", Whole(1, 10_000), "Topics that one client may watch over a connection.", KEEPS_OUT
        ),
    ] = 100
    route_watch_changes_max: Annotated[
        int,
        Option(
            "routeWatchChangesMax",
            _AT_LEAST_1,
            "Latest changes of watched routes, and of brokers, that are kept for clients that were cut off.",
            KEEPS_OUT,
        ),
    ] = 10_000
    route_watch_bytes_max: Annotated[
        int,
        Option(
            "routeWatchBytesMax",
            _AT_LEAST_1,
            "Bytes of these changes, of routes and of brokers each; the oldest go first.",
            KEEPS_OUT,
        ),
    ] = 16 * 1024 * 1024

    @property
    def role_address_store_path(self) -> str:
        """Where the role addresses stand that clients get: beside the KV table."""
        return f"{self.kv_config_path}.roleAddresses"

    @property
    def broker_set_store_path(self) -> str:
        """Where the broker sets stand that are registered or away: as above."""
        return f"{self.kv_config_path}.brokerSets"

    @property
    def has_others_properties(self) -> bool:
        """Whether there is a controller, whose properties in the file are not this server's to change."""
        return self.enable_controller_in_namesrv


def _conflicts(config: NameServerConfig) -> Iterator[tuple[str, str]]:
    others = {config.listen_port: "listenPort", config.http_port: "httpPort"}
    if config.enable_controller_in_namesrv:
        others |= {
            config.controller_listen_port: "controllerListenPort",
            config.controller_http_port: "controllerHttpPort",
        }
    for field, port, key in (
        ("member_port", config.member_port, "memberPort"),
        ("lookup_port", config.lookup_port, "lookupPort"),
    ):
        if port and port in others:
            yield field, f"another port than {others[port]}"
        others[port] = key


#: The NameServer, as everything in `serving/` takes it.
NAMESRV: Final = ServerKind(
    name="NameServer",
    program="rmq-namesrv",
    variable_prefix="RMQ_NAMESRV_",
    metric_prefix="rocketmq_namesrv_",
    id_key="ns_id",
    id_meaning="Host name and port of this NameServer.",
    requests=NAMESRV_REQUESTS,
    config_class=NameServerConfig,
    conflicts=_conflicts,
)
