"""NameServerConfig: every option of the NameServer with its unit, default and reader.

Answers to Java's `NamesrvConfig`, whose property names and defaults are kept (docs/protocol/namesrv.md 5.1 and 5.2,
docs/protocol/remoting.md 11.3). What any server has stands in `serving/config/server_config.py`.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

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
    OneOf,
    Text,
    Whole,
    Within,
    described,
    option,
    unused,
)
from serving.config.server_config import (
    CONFIG_BLACK_LIST,
    CONFIG_STORE_PATH,
    FRAME_BYTES_MAX,
    HTTP_PORT,
    LISTEN_PORT,
    ServerConfig,
)
from serving.config.server_kind import ServerKind

#: After each change every worker asks for the new route once: beyond eight that fills the server's core.
ROUTE_WORKERS_MAX: Final = 8
AUTO: Final = "auto"

_FLAG: Final = Flag()
_AT_LEAST_0: Final = Whole(0, INT_MAX)
_AT_LEAST_1: Final = Whole(1, INT_MAX)
_ANY_NUMBER: Final = Whole()
_LISTS: Final = Closed("it decides whether tools see topics, and whether anyone may request the longest answers")
_ORDER: Final = Closed("it decides which queues clients and brokers use for order topics")
_START: Final = Closed("it refuses all route queries after a start, or answers them before brokers are back")
_NO_CLUSTER_TEST: Final = AlwaysFalse(
    "cluster-test mode is not part of this server; leave it out, or run the Java NameServer for it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerConfig(ServerConfig):
    """All options; a comment says why nobody here reads one."""

    config_store_path: str = described("~/namesrv/namesrv.properties", CONFIG_STORE_PATH)
    config_black_list: str = described("configBlackList;configStorePath;kvConfigPath", CONFIG_BLACK_LIST)
    listen_port: int = described(9876, LISTEN_PORT)
    http_port: int = described(9880, HTTP_PORT)
    #: A broker of 200,000 topics registers in one frame.
    frame_bytes_max: int = described(64 * 1024 * 1024, FRAME_BYTES_MAX)

    # NamesrvConfig

    kv_config_path: str = option(
        "~/namesrv/kvConfig.json", "kvConfigPath", FilePath(may_be_blank=False), "File of the KV table.", NAMES_A_FILE
    )
    #: Cluster-test mode alone reads it.
    product_env_name: str = unused("center", "productEnvName", Text(), "Unit name of cluster-test mode.")
    #: Always false, so it has no reader.
    cluster_test: bool = unused(False, "clusterTest", _NO_CLUSTER_TEST, "Cluster-test mode; only false.")
    order_message_enable: bool = option(
        False, "orderMessageEnable", _FLAG, "Routes include the order configuration of the topic.", _ORDER, at_once=True
    )
    return_order_topic_config_to_broker: bool = option(
        True,
        "returnOrderTopicConfigToBroker",
        _FLAG,
        "Send all order configurations to brokers when they register.",
        _ORDER,
        at_once=True,
    )
    #: Threads of the Java server.
    client_request_thread_pool_nums: int = unused(
        8, "clientRequestThreadPoolNums", _ANY_NUMBER, "Threads for route queries."
    )
    #: Threads of the Java server.
    default_thread_pool_nums: int = unused(16, "defaultThreadPoolNums", _ANY_NUMBER, "Threads for all other requests.")
    #: Requests waiting for threads of the Java server.
    client_request_thread_pool_queue_capacity: int = unused(
        50000, "clientRequestThreadPoolQueueCapacity", _ANY_NUMBER, "Limit of waiting route queries."
    )
    #: Requests waiting for threads of the Java server.
    default_thread_pool_queue_capacity: int = option(
        10000,
        "defaultThreadPoolQueueCapacity",
        _AT_LEAST_1,
        "Limit of waiting requests; beyond that, they are answered SYSTEM_BUSY. Route queries wait only after a start "
        "with `peers`, and then in half of the places.",
        KEEPS_OUT,
    )
    scan_not_active_broker_interval_ms: int = option(
        10_000,
        "scanNotActiveBrokerInterval",
        _AT_LEAST_1,
        "Interval between scans for silent brokers, in milliseconds.",
        Within(Whole(1_000, 10_000), "longer keeps silent brokers in routes, shorter takes CPU time"),
        at_once=True,
    )
    #: Unregistrations waiting for a thread of the Java server; here each is done at once.
    un_register_broker_queue_capacity: int = unused(
        3000, "unRegisterBrokerQueueCapacity", _ANY_NUMBER, "Limit of waiting unregistrations."
    )
    support_acting_master: bool = option(
        False,
        "supportActingMaster",
        _FLAG,
        "The slave with the lowest broker id acts for an absent master.",
        Within(OneOf(("true",)), "without it no slave acts for an absent master"),
        at_once=True,
    )
    enable_all_topic_list: bool = option(
        True, "enableAllTopicList", _FLAG, "Answer the list of all topics (request 206).", _LISTS, at_once=True
    )
    enable_topic_list: bool = option(
        True,
        "enableTopicList",
        _FLAG,
        "Answer topic lists by cluster and by unit (requests 224, 311 to 313).",
        _LISTS,
        at_once=True,
    )
    notify_min_broker_id_changed: bool = option(
        False,
        "notifyMinBrokerIdChanged",
        _FLAG,
        "Notify brokers when the lowest broker id of their set changes.",
        Closed("it decides which notifications brokers get, and slaves act on them"),
        at_once=True,
    )
    enable_controller_in_namesrv: bool = option(
        False,
        "enableControllerInNamesrv",
        _FLAG,
        "Run a controller in the same process, with its properties in the same file.",
        Fixed("it starts another server"),
    )
    need_wait_for_service: bool = option(
        False,
        "needWaitForService",
        _FLAG,
        "Refuse route queries for waitSecondsForService after the start.",
        _START,
        at_once=True,
    )
    wait_for_service_seconds: int = option(
        45,
        "waitSecondsForService",
        _AT_LEAST_0,
        "Seconds that brokers have to register after the start.",
        _START,
        at_once=True,
    )
    delete_topic_with_broker_registration: bool = option(
        False,
        "deleteTopicWithBrokerRegistration",
        _FLAG,
        "A full registration removes topics that the broker no longer has.",
        Closed("it takes topics out of routes where brokers register them in parts"),
        at_once=True,
    )

    # Ours

    brokers_max: int = option(
        100_000,
        "brokersMax",
        _AT_LEAST_1,
        "Limit of brokers; beyond that, new ones are refused (code 1), except for the first 8 of a connection.",
        KEEPS_OUT,
        at_once=True,
    )
    brokers_per_connection_max: int = option(
        1024,
        "brokersPerConnectionMax",
        _AT_LEAST_1,
        "Limit of brokers registered over one connection, as by a BrokerContainer; beyond that, new ones are "
        "refused (code 1).",
        KEEPS_OUT,
        at_once=True,
    )
    topic_bytes_max: int = option(
        0,
        "topicBytesMax",
        Whole(0, 1 << 50),
        "Memory for the topics of all sets, in bytes; one host may use half of it, one connection an eighth. Beyond "
        "that, registrations are refused (code 1); 0: a quarter of the memory, at least 256 MiB.",
        KEEPS_OUT,
    )
    topic_sets_per_host_max: int = option(
        512,
        "topicSetsPerHostMax",
        _AT_LEAST_1,
        "Limit of broker sets that one host may have in a topic; further ones register without it. Each may add 1 "
        "KiB to a route.",
        KEEPS_OUT,
        at_once=True,
    )
    controller_listen_port: int = option(
        9878,
        "controllerListenPort",
        Whole(0, 65535),
        "With enableControllerInNamesrv: port of the controller for brokers.",
        LISTENS,
    )
    controller_http_port: int = option(
        9881, "controllerHttpPort", Whole(0, 65535), "With enableControllerInNamesrv: its HTTP port.", LISTENS
    )
    namesrv_addr_list: str = option(
        "",
        "namesrvAddrList",
        AddressList(),
        "NameServers that /rocketmq/nsaddr returns to clients, separated by ';'; blank: this server.",
        Fixed("it sends clients to other servers"),
        at_once=True,
    )

    peers: str = option(
        "",
        "peers",
        AddressList(),
        "Other NameServers of these brokers, ours or Java's, separated by ';'. After its start this server answers "
        "route queries with what they know of brokers that have not registered here yet, for 120 s at most; blank: "
        "off.",
        Fixed("it decides whose routes clients get"),
    )

    role_address_file: str = option(
        "",
        "roleAddressFile",
        FilePath(),
        "TOML file with role addresses, which replace brokers' addresses in routes for clients; read again when it "
        "changes; blank: off.",
        NAMES_A_FILE,
    )
    member_port: int = option(
        0,
        "memberPort",
        Whole(0, 65535),
        "Second port for RocketMQ peers, where routes always have the brokers' own addresses; 0: off.",
        LISTENS,
    )
    lookup_port: int = option(
        0,
        "lookupPort",
        Whole(0, 65535),
        "Second HTTP port at httpBindAddress, for /rocketmq/nsaddr only; 0: off; needs httpPort.",
        LISTENS,
    )
    route_workers: str = option(
        "0",
        "routeWorkers",
        OneOf((*map(str, range(ROUTE_WORKERS_MAX + 1)), AUTO)),
        "Processes that answer route queries beside this one; auto: one for each core but one; 0: none. Linux only.",
        Fixed("it decides how much of the machine the server takes"),
    )
    route_watchers_max: int = option(
        1024,
        "routeWatchersMax",
        Whole(0, 65535),
        "Limit of clients that watch routes or brokers (/v1/routes/watch, /v1/cluster/watch), one connection each; "
        "beyond that, they are answered 503; 0: off.",
        KEEPS_OUT,
    )
    route_watch_topics_max: int = option(
        100, "routeWatchTopicsMax", Whole(1, 10_000), "Limit of topics per watching connection.", KEEPS_OUT
    )
    route_watch_changes_max: int = option(
        10_000,
        "routeWatchChangesMax",
        _AT_LEAST_1,
        "Number of recent changes of watched routes, and of brokers, kept for clients that reconnect.",
        KEEPS_OUT,
    )
    route_watch_bytes_max: int = option(
        16 * 1024 * 1024,
        "routeWatchBytesMax",
        _AT_LEAST_1,
        "Memory for these changes, in bytes, for routes and for brokers each; the oldest go first.",
        KEEPS_OUT,
    )

    @property
    def route_worker_count(self) -> int:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        return min(cores - 1, ROUTE_WORKERS_MAX) if self.route_workers == AUTO else int(self.route_workers)

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
    if config.route_worker_count and config.serialize_type != "JSON":
        yield "route_workers", "0 with this serializeType: workers answer with JSON headers alone"
    if config.route_worker_count and not hasattr(os, "memfd_create"):
        yield "route_workers", "0: workers need Linux (memfd_create)"
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
