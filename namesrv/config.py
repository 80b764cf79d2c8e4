"""NameServerConfig: every option of the NameServer with its unit, default and reader.

Answers to Java's `NamesrvConfig`, `NettyServerConfig` and `TlsSystemConfig`, whose property names and defaults are kept
(namesrv.md 5.1 and 5.2, remoting.md 11.3). `config_sources.py` tells where values come from, `config_update.py` how
request 318 changes them, `config_text.py` how they are listed and stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Final, Literal, get_args, get_type_hints

from namesrv.options import (
    INT_MAX,
    AddressList,
    AlwaysFalse,
    FilePath,
    Flag,
    OneOf,
    Option,
    Secret,
    Text,
    Whole,
)
from remoting.properties import Property

TlsMode = Literal["disabled", "permissive", "enforcing"]
ClientAuth = Literal["none", "optional", "require"]
SerializeTypeName = Literal["JSON", "ROCKETMQ"]
LogFormat = Literal["auto", "json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]

#: Unread answers of one connection, in bytes, at which its requests wait, and to which they must fall to go on;
#: in force while the two water marks are not both set.
WRITE_BUFFER_HIGH_BYTES: Final = 1024 * 1024
WRITE_BUFFER_LOW_BYTES: Final = 256 * 1024

_FLAG: Final = Flag()
_PATH: Final = FilePath()
_PORT: Final = Whole(0, 65535)
_AT_LEAST_0: Final = Whole(0, INT_MAX)
_AT_LEAST_1: Final = Whole(1, INT_MAX)
_ANY_NUMBER: Final = Whole()
_NO_CLUSTER_TEST: Final = AlwaysFalse(
    "cluster-test mode is not part of this server; leave it out, or run the Java NameServer for it"
)
_NO_CONTROLLER: Final = AlwaysFalse(
    "the controller is not part of this version; leave it out, and run Java controllers on their own"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerConfig:
    """All options. Each comment names the reader, or says why nobody here reads it."""

    # NamesrvConfig

    #: Only listed: nothing here is looked up in the folder of a RocketMQ installation.
    rocketmq_home: Annotated[
        str,
        Option(
            "rocketmqHome",
            _PATH,
            "Folder of a RocketMQ installation.",
            also=("ROCKETMQ_HOME",),
            has_effect=False,
            remote=False,
        ),
    ] = ""
    #: Read by service.py, which loads it, and settings.py, which saves it.
    kv_config_path: Annotated[
        str, Option("kvConfigPath", FilePath(may_be_blank=False), "File of the KV table.", remote=False)
    ] = "~/namesrv/kvConfig.json"
    #: Read by settings.py, which saves the configuration there after request 318.
    config_store_path: Annotated[
        str,
        Option(
            "configStorePath",
            FilePath(may_be_blank=False),
            "File that takes changes of the configuration; with --config-file, that file.",
            remote=False,
        ),
    ] = "~/namesrv/namesrv.properties"
    #: Cluster-test mode alone reads it.
    product_env_name: Annotated[
        str, Option("productEnvName", Text(), "Unit name of cluster-test mode.", has_effect=False)
    ] = "center"
    #: Always false, so it has no reader.
    cluster_test: Annotated[
        bool, Option("clusterTest", _NO_CLUSTER_TEST, "Cluster-test mode; only false.", has_effect=False)
    ] = False
    #: Read by handlers.py.
    order_message_enable: Annotated[
        bool, Option("orderMessageEnable", _FLAG, "Routes carry the order configuration of their topic.")
    ] = False
    #: Read by handlers.py.
    return_order_topic_config_to_broker: Annotated[
        bool,
        Option("returnOrderTopicConfigToBroker", _FLAG, "Brokers get all order configurations when they register."),
    ] = True
    #: Threads of the Java server.
    client_request_thread_pool_nums: Annotated[
        int, Option("clientRequestThreadPoolNums", _ANY_NUMBER, "Threads for route queries.", has_effect=False)
    ] = 8
    #: Threads of the Java server.
    default_thread_pool_nums: Annotated[
        int, Option("defaultThreadPoolNums", _ANY_NUMBER, "Threads for all other requests.", has_effect=False)
    ] = 16
    #: Requests waiting for threads of the Java server.
    client_request_thread_pool_queue_capacity: Annotated[
        int,
        Option("clientRequestThreadPoolQueueCapacity", _ANY_NUMBER, "Route queries that may wait.", has_effect=False),
    ] = 50000
    #: Requests waiting for threads of the Java server.
    default_thread_pool_queue_capacity: Annotated[
        int,
        Option(
            "defaultThreadPoolQueueCapacity",
            _AT_LEAST_1,
            "Requests other than route queries that may wait; beyond it they are answered SYSTEM_BUSY.",
        ),
    ] = 10000
    #: Read by service.py.
    scan_not_active_broker_interval_ms: Annotated[
        int,
        Option(
            "scanNotActiveBrokerInterval", _AT_LEAST_1, "Time between two looks for silent brokers, in milliseconds."
        ),
    ] = 10_000
    #: Unregistrations waiting for a thread of the Java server; here each is done at once.
    un_register_broker_queue_capacity: Annotated[
        int, Option("unRegisterBrokerQueueCapacity", _ANY_NUMBER, "Unregistrations that may wait.", has_effect=False)
    ] = 3000
    #: Read by route_state.py.
    support_acting_master: Annotated[
        bool, Option("supportActingMaster", _FLAG, "The slave with the lowest broker id stands in for a master.")
    ] = False
    #: Read by queries.py.
    enable_all_topic_list: Annotated[
        bool, Option("enableAllTopicList", _FLAG, "The list of all topics is answered (request 206).")
    ] = True
    #: Read by queries.py.
    enable_topic_list: Annotated[
        bool,
        Option("enableTopicList", _FLAG, "Topic lists by cluster and by unit are answered (requests 224, 311 to 313)."),
    ] = True
    #: Read by route_state.py.
    notify_min_broker_id_changed: Annotated[
        bool,
        Option("notifyMinBrokerIdChanged", _FLAG, "Brokers are told when the lowest broker id of their set changes."),
    ] = False
    #: Always false, so it has no reader.
    enable_controller_in_namesrv: Annotated[
        bool,
        Option(
            "enableControllerInNamesrv",
            _NO_CONTROLLER,
            "A controller in the same process; only false.",
            has_effect=False,
        ),
    ] = False
    #: Read by handlers.py.
    need_wait_for_service: Annotated[
        bool,
        Option("needWaitForService", _FLAG, "Route queries are refused for waitSecondsForService after the start."),
    ] = False
    #: Read by handlers.py.
    wait_for_service_seconds: Annotated[
        int,
        Option("waitSecondsForService", _AT_LEAST_0, "How long brokers have to register after the start, in seconds."),
    ] = 45
    #: Read by route_state.py.
    delete_topic_with_broker_registration: Annotated[
        bool,
        Option(
            "deleteTopicWithBrokerRegistration", _FLAG, "A full registration removes topics the broker no longer has."
        ),
    ] = False
    #: Read by config_update.py.
    config_black_list: Annotated[
        str,
        Option(
            "configBlackList", Text(), "Properties that request 318 may not change, with a ';' between.", remote=False
        ),
    ] = "configBlackList;configStorePath;kvConfigPath"

    # NettyServerConfig

    #: Read by service.py.
    bind_address: Annotated[
        str, Option("bindAddress", Text(may_be_blank=False), "Address on which RocketMQ peers are served.")
    ] = "0.0.0.0"
    #: Read by service.py.
    listen_port: Annotated[
        int, Option("listenPort", _PORT, "Port on which RocketMQ peers are served; 0 for any free port.")
    ] = 9876
    #: Threads of the Java server.
    server_worker_threads: Annotated[
        int, Option("serverWorkerThreads", _ANY_NUMBER, "Threads that read frames.", has_effect=False)
    ] = 8
    #: Threads of the Java server.
    server_callback_executor_threads: Annotated[
        int, Option("serverCallbackExecutorThreads", _ANY_NUMBER, "Threads for callbacks.", has_effect=False)
    ] = 0
    #: Threads of the Java server.
    server_selector_threads: Annotated[
        int, Option("serverSelectorThreads", _ANY_NUMBER, "Threads for sockets.", has_effect=False)
    ] = 3
    #: Limits threads of the Java server; perform.py has a limit of its own.
    server_oneway_semaphore_value: Annotated[
        int, Option("serverOnewaySemaphoreValue", _ANY_NUMBER, "One-way requests of ours under way.", has_effect=False)
    ] = 256
    #: Limits threads of the Java server; we send no request that waits for an answer.
    server_async_semaphore_value: Annotated[
        int, Option("serverAsyncSemaphoreValue", _ANY_NUMBER, "Requests of ours under way.", has_effect=False)
    ] = 64
    #: Read by service.py.
    server_channel_max_idle_time_seconds: Annotated[
        int,
        Option(
            "serverChannelMaxIdleTimeSeconds",
            _AT_LEAST_0,
            "Silence after which a connection is closed, in seconds; 0 for never.",
        ),
    ] = 120
    #: Read by service.py.
    server_socket_snd_buf_bytes: Annotated[
        int, Option("serverSocketSndBufSize", _AT_LEAST_0, "Send buffer of a socket, in bytes; 0 for the system's own.")
    ] = 0
    #: Read by service.py.
    server_socket_rcv_buf_bytes: Annotated[
        int,
        Option("serverSocketRcvBufSize", _AT_LEAST_0, "Receive buffer of a socket, in bytes; 0 for the system's own."),
    ] = 0
    #: Read by write_buffer_bytes.
    write_buffer_high_water_mark_bytes: Annotated[
        int,
        Option(
            "writeBufferHighWaterMark",
            _AT_LEAST_0,
            "Unread answers of a connection at which its requests wait, in bytes; 0 for 1 MiB.",
        ),
    ] = 0
    #: Read by write_buffer_bytes.
    write_buffer_low_water_mark_bytes: Annotated[
        int,
        Option(
            "writeBufferLowWaterMark",
            _AT_LEAST_0,
            "Unread answers of a connection at which its requests go on, in bytes; 0 for 256 KiB.",
        ),
    ] = 0
    #: Read by service.py.
    server_socket_backlog: Annotated[
        int, Option("serverSocketBacklog", _AT_LEAST_1, "Connections that may wait to be accepted.")
    ] = 1024
    #: Threads of the Java server.
    server_netty_worker_group_enable: Annotated[
        bool, Option("serverNettyWorkerGroupEnable", _FLAG, "Frames are read in own threads.", has_effect=False)
    ] = True
    #: Memory of the Java server.
    server_pooled_byte_buf_allocator_enable: Annotated[
        bool, Option("serverPooledByteBufAllocatorEnable", _FLAG, "Buffers are pooled.", has_effect=False)
    ] = True
    #: Read by service.py.
    enable_shutdown_gracefully: Annotated[
        bool, Option("enableShutdownGracefully", _FLAG, "At the stop, peers are sent elsewhere before the close.")
    ] = False
    #: Read by service.py.
    shutdown_wait_time_seconds: Annotated[
        int,
        Option("shutdownWaitTimeSeconds", _AT_LEAST_0, "How long peers have to go elsewhere at the stop, in seconds."),
    ] = 30
    #: Sockets of the Java server.
    use_epoll_native_selector: Annotated[
        bool, Option("useEpollNativeSelector", _FLAG, "Sockets use epoll.", has_effect=False)
    ] = False

    # Ours

    #: Read by service.py.
    http_bind_address: Annotated[
        str, Option("httpBindAddress", Text(may_be_blank=False), "Address of the HTTP views.", remote=False)
    ] = "127.0.0.1"
    #: Read by service.py.
    http_port: Annotated[int, Option("httpPort", _PORT, "Port of the HTTP views and metrics; 0 for none.")] = 9880
    #: Read by http_api.py.
    namesrv_addr_list: Annotated[
        str,
        Option(
            "namesrvAddrList",
            AddressList(),
            "NameServers that /rocketmq/nsaddr tells clients, with a ';' between; blank for this server alone.",
        ),
    ] = ""
    #: Read by service.py.
    serialize_type: Annotated[
        SerializeTypeName,
        Option(
            "serializeType",
            OneOf(get_args(SerializeTypeName)),
            "How headers of answers and of requests of ours are written.",
            also=("rocketmq.serialize.type", "ROCKETMQ_SERIALIZE_TYPE"),
        ),
    ] = "JSON"
    #: Read by service.py.
    frame_bytes_max: Annotated[
        int,
        Option(
            "frameMaxLength",
            Whole(1024, INT_MAX),
            "Longest frame that a peer may send, in bytes.",
            also=("com.rocketmq.remoting.frameMaxLength",),
        ),
    ] = 64 * 1024 * 1024
    #: Read by service.py.
    connections_max: Annotated[
        int, Option("connectionsMax", _AT_LEAST_1, "Connections of RocketMQ peers at one time.")
    ] = 16384
    #: Read by service.py.
    unfinished_bytes_max: Annotated[
        int,
        Option(
            "unfinishedBytesMax",
            Whole(1024, INT_MAX),
            "Frames of all connections that are not whole yet, in bytes; beyond it the largest are closed.",
        ),
    ] = 512 * 1024 * 1024
    #: Read by service.py.
    unread_bytes_max: Annotated[
        int,
        Option(
            "unreadBytesMax",
            Whole(1024, INT_MAX),
            "Answers that all peers have not read yet, in bytes; beyond it those with the most are closed.",
        ),
    ] = 512 * 1024 * 1024
    #: Read by __main__.py.
    log_format: Annotated[
        LogFormat,
        Option("logFormat", OneOf(get_args(LogFormat)), "Log lines; auto is console on a terminal, else json."),
    ] = "auto"
    #: Read by __main__.py.
    log_level: Annotated[LogLevel, Option("logLevel", OneOf(get_args(LogLevel)), "Least level that is logged.")] = (
        "info"
    )

    # TlsSystemConfig; all read by service.py, which hands them to remoting/tls.py

    tls_server_mode: Annotated[
        TlsMode,
        Option(
            "tls.server.mode",
            OneOf(get_args(TlsMode)),
            "Whether peers may (permissive), must (enforcing) or cannot (disabled) use TLS.",
            remote=False,
        ),
    ] = "permissive"
    tls_test_mode_enable: Annotated[
        bool,
        Option(
            "tls.test.mode.enable", _FLAG, "A certificate made at the start, and no peer is verified.", remote=False
        ),
    ] = True
    tls_server_key_path: Annotated[str, Option("tls.server.keyPath", _PATH, "Private key, PEM.", remote=False)] = ""
    tls_server_key_password: Annotated[
        str, Option("tls.server.keyPassword", Secret(), "Password of the private key.", remote=False)
    ] = field(default="", repr=False)
    tls_server_cert_path: Annotated[
        str, Option("tls.server.certPath", _PATH, "Certificate chain, PEM.", remote=False)
    ] = ""
    tls_server_auth_client: Annotated[
        bool, Option("tls.server.authClient", _FLAG, "Certificates of clients are verified.", remote=False)
    ] = False
    tls_server_trust_cert_path: Annotated[
        str, Option("tls.server.trustCertPath", _PATH, "Authorities that clients are verified with, PEM.", remote=False)
    ] = ""
    tls_server_need_client_auth: Annotated[
        ClientAuth,
        Option(
            "tls.server.need.client.auth",
            OneOf(get_args(ClientAuth)),
            "Whether clients are asked for a certificate.",
            remote=False,
        ),
    ] = "none"
    #: Its default is true while tls.server.mode is enforcing (config_sources.py), as with Java since 5.1.4.
    tls_enable: Annotated[
        bool,
        Option("tls.enable", _FLAG, "Requests of ours go over TLS; true if enforcing.", also=("useTLS",), remote=False),
    ] = False
    tls_ciphers: Annotated[str, Option("tls.ciphers", Text(), "Ciphers, with a ',' between.", remote=False)] = ""
    tls_protocols: Annotated[
        str, Option("tls.protocols", Text(), "TLS versions, with a ',' between.", remote=False)
    ] = ""
    tls_client_key_path: Annotated[
        str, Option("tls.client.keyPath", _PATH, "Private key for requests of ours, PEM.", remote=False)
    ] = ""
    tls_client_key_password: Annotated[
        str, Option("tls.client.keyPassword", Secret(), "Password of that private key.", remote=False)
    ] = field(default="", repr=False)
    tls_client_cert_path: Annotated[
        str, Option("tls.client.certPath", _PATH, "Certificate chain for requests of ours, PEM.", remote=False)
    ] = ""
    tls_client_auth_server: Annotated[
        bool, Option("tls.client.authServer", _FLAG, "Brokers that we call are verified.", remote=False)
    ] = False
    tls_client_trust_cert_path: Annotated[
        str, Option("tls.client.trustCertPath", _PATH, "Authorities that brokers are verified with, PEM.", remote=False)
    ] = ""
    #: Read by __main__.py.
    tls_config_file: Annotated[
        str,
        Option("tls.config.file", _PATH, "Further file of tls.* properties; skipped if it is not there.", remote=False),
    ] = "/etc/rocketmq/tls.properties"

    #: What the configuration file holds beyond the options: kept, shown by 319 and written back, as Java does.
    unknown: tuple[Property, ...] = ()

    @property
    def write_buffer_bytes(self) -> tuple[int, int]:
        """Return at how many unread bytes a connection goes on and waits: (low, high); Java's rule, both or none."""
        marks = self.write_buffer_low_water_mark_bytes, self.write_buffer_high_water_mark_bytes
        return marks if all(marks) else (WRITE_BUFFER_LOW_BYTES, WRITE_BUFFER_HIGH_BYTES)


#: Every option by the name of its field, in the order of the fields.
OPTIONS: Final[Mapping[str, Option]] = MappingProxyType(
    {
        name: extra
        for name, hint in get_type_hints(NameServerConfig, include_extras=True).items()
        for extra in get_args(hint)[1:]
        if isinstance(extra, Option)
    }
)

#: The field of every name that a file may give it by.
FIELD_OF_KEY: Final[Mapping[str, str]] = MappingProxyType(
    {key: name for name, option in OPTIONS.items() for key in (option.key, *option.also)}
)
