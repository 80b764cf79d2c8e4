"""ServerConfig: every option that any server of this project has, with its unit, default and reader.

Answers to Java's `NettyServerConfig` and `TlsSystemConfig`, and to what `NamesrvConfig` and `ControllerConfig` share;
their property names and defaults are kept. `config_sources.py` tells where values come from, `config_update.py` how a
request changes them, `config_text.py` how they are listed and stored.
"""

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeVar, get_args

from history.room import BYTES_MAX
from remoting.properties import Property
from serving.options import INT_MAX, LONG_MAX, FilePath, Flag, OneOf, Option, Secret, Text, Whole

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

# Options whose default is each server's own.

ConfigStorePath = Annotated[
    str,
    Option(
        "configStorePath",
        FilePath(may_be_blank=False),
        "File that takes changes of the configuration; with --config-file, that file.",
        remote=False,
    ),
]
ConfigBlackList = Annotated[
    str,
    Option("configBlackList", Text(), "Properties that no request may change, with a ';' between.", remote=False),
]
ListenPort = Annotated[
    int, Option("listenPort", _PORT, "Port on which RocketMQ peers are served; 0 for any free port.", remote=False)
]
HttpPort = Annotated[int, Option("httpPort", _PORT, "Port of the HTTP views and metrics; 0 for none.", remote=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Options of any server. Each comment names the reader, or says why nobody here reads it."""

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
    #: Read by stored_config.py, which saves the configuration there after a request.
    config_store_path: ConfigStorePath
    #: Read by config_update.py.
    config_black_list: ConfigBlackList

    # NettyServerConfig

    #: Read by process.py.
    bind_address: Annotated[
        str,
        Option("bindAddress", Text(may_be_blank=False), "Address on which RocketMQ peers are served.", remote=False),
    ] = "0.0.0.0"
    #: Read by process.py.
    listen_port: ListenPort
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
    #: Limits threads of the Java server.
    server_oneway_semaphore_value: Annotated[
        int, Option("serverOnewaySemaphoreValue", _ANY_NUMBER, "One-way requests of ours under way.", has_effect=False)
    ] = 256
    #: Limits threads of the Java server; we send no request that waits for an answer.
    server_async_semaphore_value: Annotated[
        int, Option("serverAsyncSemaphoreValue", _ANY_NUMBER, "Requests of ours under way.", has_effect=False)
    ] = 64
    #: Read by process.py.
    server_channel_max_idle_time_seconds: Annotated[
        int,
        Option(
            "serverChannelMaxIdleTimeSeconds",
            _AT_LEAST_0,
            "Silence after which a connection is closed, in seconds; 0 for never.",
            at_once=True,
        ),
    ] = 120
    #: Read by process.py.
    server_socket_snd_buf_bytes: Annotated[
        int, Option("serverSocketSndBufSize", _AT_LEAST_0, "Send buffer of a socket, in bytes; 0 for the system's own.")
    ] = 0
    #: Read by process.py.
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
    #: Read by process.py.
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
    #: Read by process.py.
    enable_shutdown_gracefully: Annotated[
        bool,
        Option(
            "enableShutdownGracefully", _FLAG, "At the stop, peers are sent elsewhere before the close.", at_once=True
        ),
    ] = False
    #: Read by process.py.
    shutdown_wait_time_seconds: Annotated[
        int,
        Option(
            "shutdownWaitTimeSeconds",
            _AT_LEAST_0,
            "How long peers have to go elsewhere at the stop, in seconds.",
            at_once=True,
        ),
    ] = 30
    #: Sockets of the Java server.
    use_epoll_native_selector: Annotated[
        bool, Option("useEpollNativeSelector", _FLAG, "Sockets use epoll.", has_effect=False)
    ] = False

    # Ours

    #: Read by process.py.
    http_bind_address: Annotated[
        str, Option("httpBindAddress", Text(may_be_blank=False), "Address of the HTTP views.", remote=False)
    ] = "127.0.0.1"
    #: Read by process.py.
    http_port: HttpPort
    #: Read by process.py.
    serialize_type: Annotated[
        SerializeTypeName,
        Option(
            "serializeType",
            OneOf(get_args(SerializeTypeName)),
            "How headers of answers and of requests of ours are written.",
            also=("rocketmq.serialize.type", "ROCKETMQ_SERIALIZE_TYPE"),
        ),
    ] = "JSON"
    #: Read by process.py.
    frame_bytes_max: Annotated[
        int,
        Option(
            "frameMaxLength",
            Whole(1024, INT_MAX),
            "Longest frame that a peer may send, in bytes.",
            also=("com.rocketmq.remoting.frameMaxLength",),
        ),
    ] = 64 * 1024 * 1024
    #: Read by process.py.
    connections_max: Annotated[
        int, Option("connectionsMax", _AT_LEAST_1, "Connections of RocketMQ peers at one time.")
    ] = 16384
    #: Read by process.py.
    unfinished_bytes_max: Annotated[
        int,
        Option(
            "unfinishedBytesMax",
            Whole(1024, INT_MAX),
            "Frames of all connections that are not whole yet, in bytes; beyond it the largest are closed.",
        ),
    ] = 512 * 1024 * 1024
    #: Read by process.py.
    unread_bytes_max: Annotated[
        int,
        Option(
            "unreadBytesMax",
            Whole(1024, INT_MAX),
            "Answers that all peers have not read yet, in bytes; beyond it those with the most are closed.",
        ),
    ] = 512 * 1024 * 1024
    #: Read by start.py.
    log_format: Annotated[
        LogFormat,
        Option("logFormat", OneOf(get_args(LogFormat)), "Log lines; auto is console on a terminal, else json."),
    ] = "auto"
    #: Read by start.py.
    log_level: Annotated[
        LogLevel, Option("logLevel", OneOf(get_args(LogLevel)), "Least level that is logged.", at_once=True)
    ] = "info"

    #: Read by process.py.
    history_dir: Annotated[
        str,
        Option(
            "historyDir",
            _PATH,
            "Folder that takes the history of what this server sees; blank records nothing.",
            remote=False,
        ),
    ] = ""
    #: Read by process.py. It decides what is deleted, so no request changes it.
    history_bytes_max: Annotated[
        int,
        Option(
            "historyBytesMax",
            Whole(64 * 1024 * 1024, LONG_MAX),
            "Files that servers have written below historyDir (landing), together, in bytes, half of the disk at most; "
            "beyond it the oldest are deleted. What rmq-analytics stores is not counted. "
            "Where servers share a folder, the lowest of theirs counts.",
            remote=False,
        ),
    ] = BYTES_MAX

    # TlsSystemConfig; all read by process.py, which hands them to remoting/tls.py

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
    #: Read by start.py.
    tls_config_file: Annotated[
        str,
        Option("tls.config.file", _PATH, "Further file of tls.* properties; skipped if it is not there.", remote=False),
    ] = "/etc/rocketmq/tls.properties"

    #: What the configuration file holds beyond the options: kept, listed and written back, as Java does.
    unknown: tuple[Property, ...] = ()

    @property
    def write_buffer_bytes(self) -> tuple[int, int]:
        """Return at how many unread bytes a connection goes on and waits: (low, high); Java's rule, both or none."""
        marks = self.write_buffer_low_water_mark_bytes, self.write_buffer_high_water_mark_bytes
        return marks if all(marks) else (WRITE_BUFFER_LOW_BYTES, WRITE_BUFFER_HIGH_BYTES)

    @property
    def has_others_properties(self) -> bool:
        """Whether those properties of the file that this server does not have may be another's in the same process."""
        return False


#: The configuration of one server.
Config = TypeVar("Config", bound=ServerConfig)
