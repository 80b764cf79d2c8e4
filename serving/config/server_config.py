"""ServerConfig: every option that any server of this project has, with its unit, default and reader.

Answers to Java's `NettyServerConfig`, and to what `NamesrvConfig` and `ControllerConfig` share;
their property names and defaults are kept. `sources.py` states where values come from, `update.py` how a
request changes them, `server_kind.py` how they are listed and stored. Those about TLS and keys are
inherited from `security_options.py`.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar, get_args

from remoting.protocol.properties import Property
from remoting.server.limits import ServerLimits
from serving.config.options import (
    INT_MAX,
    KEEPS_OUT,
    LISTENS,
    LONG_MAX,
    NAMES_A_FILE,
    Closed,
    FilePath,
    Fixed,
    Flag,
    OneOf,
    Option,
    Text,
    Whole,
    Within,
    option,
    unused,
)
from serving.config.security_options import SecurityConfig

SerializeTypeName = Literal["JSON", "ROCKETMQ"]
LogFormat = Literal["auto", "json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]

#: The defaults of all limits that are options.
LIMITS: Final = ServerLimits()

_FLAG: Final = Flag()
_PATH: Final = FilePath()
_PORT: Final = Whole(0, 65535)
_AT_LEAST_0: Final = Whole(0, INT_MAX)
_AT_LEAST_1: Final = Whole(1, INT_MAX)
_ANY_NUMBER: Final = Whole()

PERMITS_CHANGES: Final = Fixed("it decides what requests may change")
_SPEED: Final = Closed("it can slow down every connection, or exhaust the memory")
_STOP: Final = Closed("it can make a stop take forever")
_SHARE_IF_0: Final = (
    "0: an eighth of the memory that the process may use, or a sixteenth if NameServer and controller share "
    "the process (64 to 512 MiB)."
)

# Options whose default is each server's own.

CONFIG_STORE_PATH: Final = Option(
    "configStorePath",
    FilePath(may_be_blank=False),
    "File to which requested changes are written; with --config-file, that file.",
    NAMES_A_FILE,
)
CONFIG_BLACK_LIST: Final = Option(
    "configBlackList", Text(), "Properties that requests may not change, separated by ';'.", PERMITS_CHANGES
)
LISTEN_PORT: Final = Option("listenPort", _PORT, "Port for RocketMQ peers; 0: any free port.", LISTENS)
HTTP_PORT: Final = Option("httpPort", _PORT, "Port of the HTTP API and metrics; 0: off.", LISTENS)
FRAME_BYTES_MAX: Final = Option(
    "frameMaxLength",
    Whole(1024, INT_MAX),
    "Longest frame accepted from a peer, in bytes.",
    KEEPS_OUT,
    also=("com.rocketmq.remoting.frameMaxLength",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig(SecurityConfig):
    """Options of any server. A comment names the reader if that is not process.py, or the reason why there is none."""

    #: Only listed: nothing here is looked up in the folder of a RocketMQ installation.
    rocketmq_home: str = option(
        "",
        "rocketmqHome",
        _PATH,
        "Folder of a RocketMQ installation.",
        NAMES_A_FILE,
        also=("ROCKETMQ_HOME",),
        has_effect=False,
    )
    #: Read by stored_config.py, which saves the configuration there after a request.
    config_store_path: str
    #: Read by update.py, as the next one.
    config_black_list: str
    config_white_list: str = option(
        "",
        "configWhiteList",
        Text(),
        "Properties that requests, which need no password, may set to any value, separated by ';'.",
        PERMITS_CHANGES,
    )

    # NettyServerConfig

    bind_address: str = option(
        "0.0.0.0", "bindAddress", Text(may_be_blank=False), "Address to listen on for RocketMQ peers.", LISTENS
    )
    listen_port: int
    #: Threads of the Java server.
    server_worker_threads: int = unused(8, "serverWorkerThreads", _ANY_NUMBER, "Threads that read frames.")
    #: Threads of the Java server.
    server_callback_executor_threads: int = unused(
        0, "serverCallbackExecutorThreads", _ANY_NUMBER, "Threads for callbacks."
    )
    #: Threads of the Java server.
    server_selector_threads: int = unused(3, "serverSelectorThreads", _ANY_NUMBER, "Threads for sockets.")
    #: Limits threads of the Java server.
    server_oneway_semaphore_value: int = unused(
        256, "serverOnewaySemaphoreValue", _ANY_NUMBER, "Limit of one-way requests to peers in flight."
    )
    #: Limits threads of the Java server; we send no request that waits for an answer.
    server_async_semaphore_value: int = unused(
        64, "serverAsyncSemaphoreValue", _ANY_NUMBER, "Limit of requests to peers in flight."
    )
    server_channel_max_idle_time_seconds: int = option(
        round(LIMITS.idle_seconds),
        "serverChannelMaxIdleTimeSeconds",
        _AT_LEAST_0,
        "Seconds after which an idle connection is closed; 0: never.",
        Within(Whole(120, 600), "a lower value disconnects live brokers, a higher one keeps idle peers connected"),
        at_once=True,
    )
    server_socket_snd_buf_bytes: int = option(
        0, "serverSocketSndBufSize", _AT_LEAST_0, "Send buffer of a socket, in bytes; 0: system default.", _SPEED
    )
    server_socket_rcv_buf_bytes: int = option(
        0,
        "serverSocketRcvBufSize",
        _AT_LEAST_0,
        "Receive buffer of a socket, in bytes; 0: system default.",
        _SPEED,
    )
    #: Read by write_buffer_bytes.
    write_buffer_high_water_mark_bytes: int = option(
        0,
        "writeBufferHighWaterMark",
        _AT_LEAST_0,
        "Unread response bytes of a connection at which the server stops reading its requests; 0: 1 MiB.",
        _SPEED,
    )
    #: Read by write_buffer_bytes.
    write_buffer_low_water_mark_bytes: int = option(
        0,
        "writeBufferLowWaterMark",
        _AT_LEAST_0,
        "Unread response bytes of a connection at which the server reads its requests again; 0: 256 KiB.",
        _SPEED,
    )
    server_socket_backlog: int = option(
        LIMITS.backlog, "serverSocketBacklog", _AT_LEAST_1, "Limit of connections that wait to be accepted.", KEEPS_OUT
    )
    #: Threads of the Java server.
    server_netty_worker_group_enable: bool = unused(
        True, "serverNettyWorkerGroupEnable", _FLAG, "Read frames in separate threads."
    )
    #: Memory of the Java server.
    server_pooled_byte_buf_allocator_enable: bool = unused(
        True, "serverPooledByteBufAllocatorEnable", _FLAG, "Pool buffers."
    )
    enable_shutdown_gracefully: bool = option(
        False,
        "enableShutdownGracefully",
        _FLAG,
        "At a stop, send peers to other servers before closing connections.",
        _STOP,
        at_once=True,
    )
    shutdown_wait_time_seconds: int = option(
        30, "shutdownWaitTimeSeconds", _AT_LEAST_0, "Seconds that peers have to leave at a stop.", _STOP, at_once=True
    )
    #: Sockets of the Java server.
    use_epoll_native_selector: bool = unused(False, "useEpollNativeSelector", _FLAG, "Use epoll for sockets.")

    # Ours

    http_bind_address: str = option(
        "127.0.0.1", "httpBindAddress", Text(may_be_blank=False), "Address to listen on for HTTP.", LISTENS
    )
    http_port: int
    serialize_type: SerializeTypeName = option(
        "JSON",
        "serializeType",
        OneOf(get_args(SerializeTypeName)),
        "Format of headers in responses and in requests to brokers.",
        Closed("it can lock out peers that read only the other format"),
        also=("rocketmq.serialize.type", "ROCKETMQ_SERIALIZE_TYPE"),
    )
    frame_bytes_max: int
    connections_max: int = option(
        LIMITS.connections_max, "connectionsMax", _AT_LEAST_1, "Limit of open connections of RocketMQ peers.", KEEPS_OUT
    )
    partial_frame_bytes_max: int = option(
        0,
        "partialFrameBytesMax",
        _AT_LEAST_0,
        "Bytes of incomplete frames on all connections; beyond that, those with the largest are closed; " + _SHARE_IF_0,
        KEEPS_OUT,
    )
    response_buffer_bytes_max: int = option(
        0,
        "responseBufferBytesMax",
        _AT_LEAST_0,
        "Bytes of responses that peers have not read yet; beyond that, connections with the most are closed; "
        + _SHARE_IF_0,
        KEEPS_OUT,
    )
    queued_bytes_max: int = option(
        0,
        "queuedBytesMax",
        _AT_LEAST_0,
        "Bytes of the bodies of queued requests; beyond that, requests are answered SYSTEM_BUSY; " + _SHARE_IF_0,
        KEEPS_OUT,
    )
    #: Read by start.py.
    log_format: LogFormat = option(
        "auto",
        "logFormat",
        OneOf(get_args(LogFormat)),
        "Format of log lines; auto: console on a terminal, otherwise json.",
        Closed("readers of the log may understand one format only"),
    )
    #: Read by start.py.
    log_level: LogLevel = option(
        "info",
        "logLevel",
        OneOf(get_args(LogLevel)),
        "Lowest level to log.",
        Within(OneOf(("info",)), "a higher level hides changes, a lower one fills disks"),
        at_once=True,
    )

    history_dir: str = option("", "historyDir", _PATH, "Folder for the recorded history; blank: off.", NAMES_A_FILE)
    history_bytes_max: int = option(
        16 * 1024**3,
        "historyBytesMax",
        Whole(64 * 1024 * 1024, LONG_MAX),
        "Limit, in bytes, of all files that servers have written below historyDir (landing), at most half of the "
        "disk; beyond that, the oldest are deleted. Files of rmq-analytics do not count. Servers that share a "
        "folder obey the lowest of their limits.",
        Closed("it decides what is deleted"),
    )

    #: What the configuration file holds beyond the options: kept, listed and written back, as Java does.
    unknown: tuple[Property, ...] = ()
    #: What the file gives of the options, and requests have changed: nothing else of the options is written back.
    stored: tuple[Property, ...] = field(default=(), compare=False, repr=False)

    #: Keys of another server in the same process, which reads them from the same file: not this server's to change.
    others_keys: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    @property
    def write_buffer_bytes(self) -> tuple[int, int]:
        """Return the limits of the response buffer of one connection, in bytes: (low, high).

        Java's rule: a water mark has effect only if both are set.
        """
        marks = self.write_buffer_low_water_mark_bytes, self.write_buffer_high_water_mark_bytes
        return marks if all(marks) else (LIMITS.response_buffer_low_bytes, LIMITS.response_buffer_high_bytes)

    @property
    def has_others_properties(self) -> bool:
        """Whether another server is in the same process, which has its own part of the file and of the memory."""
        return False


#: The configuration of one server.
Config = TypeVar("Config", bound=ServerConfig)
