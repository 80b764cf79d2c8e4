"""The events that any server of this project logs; each server's catalogue takes them up and adds its own."""

from typing import Final

from serving.logging.events import Level, LogEvent

# The life of the process

SERVER_STARTED: Final = LogEvent(
    name="server_started",
    level=Level.INFO,
    keys=("python", "config"),
    meaning="The process runs; `config` holds every property in force, secrets masked.",
)
OPTION_IGNORED: Final = LogEvent(
    name="option_ignored",
    level=Level.WARNING,
    keys=("property", "path", "line", "reason", "error"),
    meaning="A line of a configuration file changes nothing.",
    advice="Correct or remove the line.",
)
SERVER_READY: Final = LogEvent(
    name="server_ready",
    level=Level.INFO,
    keys=("addr", "http_addr", "duration_ms"),
    meaning="Brokers and clients are served.",
)
SERVER_START_FAILED: Final = LogEvent(
    name="server_start_failed",
    level=Level.ERROR,
    keys=("error",),
    meaning="The server cannot start and ends.",
    advice="The error names the file, the port or the option.",
)
SERVER_DRAINING: Final = LogEvent(
    name="server_draining",
    level=Level.INFO,
    keys=("reason", "connections"),
    meaning="The stop has begun: unready, and peers are sent elsewhere.",
)
SERVER_STOPPED: Final = LogEvent(
    name="server_stopped",
    level=Level.INFO,
    keys=("duration_ms",),
    meaning="All connections are closed; the process ends.",
)
RECORDING_STOPPED: Final = LogEvent(
    name="recording_stopped",
    level=Level.ERROR,
    keys=("error",),
    meaning="The history cannot be written; what happens waits in memory as far as there is room. Serving goes on.",
    advice="Make room in `historyDir`, or make it writable; recording goes on by itself.",
)
RECORDING_RESUMED: Final = LogEvent(
    name="recording_resumed",
    level=Level.INFO,
    keys=(),
    meaning="The history is written again; what found no room meanwhile is recorded as unobserved.",
)
HISTORY_DELETED: Final = LogEvent(
    name="history_deleted",
    level=Level.WARNING,
    keys=("reason", "files", "bytes"),
    meaning="History is deleted, read or not: over 31 days (age), over `historyBytesMax` or half of its disk (size).",
    advice="Run `rmq-analytics ingest` and `compact` each day: compact deletes what is stored as Parquet.",
)
CHORE_FAILED: Final = LogEvent(
    name="chore_failed",
    level=Level.ERROR,
    keys=("chore",),
    meaning="A background task failed, which ends nothing else; what runs for ever begins again after a second.",
    advice="A fault of the server: report it with the line.",
)
SERVER_FAILED: Final = LogEvent(
    name="server_failed",
    level=Level.ERROR,
    keys=(),
    meaning="A fault of the server that nothing catches; the process ends with an error.",
    advice="Start it again, and report it with the line.",
)

# Files and certificates

FILES_LIMITED: Final = LogEvent(
    name="files_limited",
    level=Level.WARNING,
    keys=("connections_max", "limit"),
    meaning="The process may open fewer files than connectionsMax needs, so it takes fewer connections.",
    advice="Raise the limit of open files (ulimit -Hn, LimitNOFILE), or lower connectionsMax.",
)
LOOPBACK_ADVERTISED: Final = LogEvent(
    name="loopback_advertised",
    level=Level.WARNING,
    keys=("addr", "bind_address"),
    meaning="A controller found no address at which others reach this machine and tells brokers that of loopback: "
    "those of other machines do not find it.",
    advice="Set advertisedAddress to the host:port at which brokers reach this controller.",
)
CERTIFICATE_LOADED: Final = LogEvent(
    name="certificate_loaded",
    level=Level.INFO,
    keys=("certificate", "path", "expires"),
    meaning="A TLS certificate is in use from now on: at the start, after its file changed, or after SIGHUP.",
)
CERTIFICATE_LOAD_FAILED: Final = LogEvent(
    name="certificate_load_failed",
    level=Level.ERROR,
    keys=("certificate", "path", "error"),
    meaning="A TLS certificate cannot be read; the one before, if there was one, stays in use.",
    advice="Repair the file; it is looked at twice a second.",
)
BROKER_REQUEST_DENIED: Final = LogEvent(
    name="broker_request_denied",
    level=Level.WARNING,
    keys=("addr", "request_code", "signed", "error", "advice"),
    meaning="A broker with ACL does not take a request of this process: it is not `signed`, or the broker does not "
    "know the user, has another password for it, or does not let it do this.",
    advice="Do what the key `advice` says: give this process a user of the brokers with the rights that it needs, and "
    "the addresses of the brokers that it is for.",
)
BROKER_REQUEST_NOT_SIGNED: Final = LogEvent(
    name="broker_request_not_signed",
    level=Level.WARNING,
    keys=("addr", "advice"),
    meaning="There are keys, but requests go to this address unsigned: it is none of those that the operator names. "
    "Told once of each address.",
    advice="Name it, if it is a broker of yours with ACL, which else denies those requests; a stranger who registered "
    "it does no harm with them. Find out who registers addresses that you do not know.",
)

# What operators change

CONFIG_CHANGED: Final = LogEvent(
    name="config_changed",
    level=Level.INFO,
    audit=True,
    keys=("old", "new", "unknown", "in_force", "from_next_start"),
    meaning="Properties have new values, secrets masked; `unknown` ones were left aside. Those `in_force` count now, "
    "those `from_next_start` when the server is started again, and others have no effect here.",
)
CONFIG_STORE_FAILED: Final = LogEvent(
    name="config_store_failed",
    level=Level.ERROR,
    audit=True,
    keys=("error",),
    meaning="A change of the configuration was refused because its file could not be written; nothing changed.",
    advice="The error names the file and the reason, often a full disk or missing rights.",
)
MOUNTED_FILE_STORED: Final = LogEvent(
    name="mounted_file_stored",
    level=Level.WARNING,
    keys=("path",),
    meaning="The file is a mount of its own, so that nothing can be renamed to it: it was written in place, after a "
    "whole copy beside it, which counts if a crash cuts the write short. One line for each file.",
    advice="Mount the folder instead of the file: a copy inside a container goes with it.",
)

# Connections and requests

CONNECTION_OPENED: Final = LogEvent(
    name="connection_opened",
    level=Level.DEBUG,
    keys=("peer",),
    meaning="A peer connected.",
)
CONNECTION_REFUSED: Final = LogEvent(
    name="connection_refused",
    level=Level.WARNING,
    keys=("peer", "connections_max"),
    meaning="A peer connected beyond connectionsMax and was closed, since all other connections are about to end.",
    advice="Find out who holds the connections, or raise connectionsMax and the limit of open files.",
)
CONNECTION_PAUSED: Final = LogEvent(
    name="connection_paused",
    level=Level.WARNING,
    keys=("peer", "unread_bytes"),
    meaning="A peer takes none of its answers; nothing more is read from it, and if it stays so it is disconnected.",
    advice="Look at the peer: stopped, or behind a blocked network.",
)
CONNECTION_CLOSED: Final = LogEvent(
    name="connection_closed",
    level=Level.DEBUG,
    keys=("peer", "reason"),
    meaning="A connection ended.",
)
SLOW_READER_DISCONNECTED: Final = LogEvent(
    name="slow_reader_disconnected",
    level=Level.WARNING,
    keys=("peer", "reason"),
    meaning="A peer left its answers unread for too long, or the most of all beyond unreadBytesMax: disconnected.",
    advice="Look at the peer: stopped, or behind a blocked network.",
)
FRAME_REJECTED: Final = LogEvent(
    name="frame_rejected",
    level=Level.WARNING,
    keys=("peer", "reason", "error"),
    meaning="A peer sent bytes that are no RocketMQ frame; its connection was closed.",
    advice="Find out what connects there: a port scan, another protocol, TLS to a plain port.",
)
REQUEST_REJECTED: Final = LogEvent(
    name="request_rejected",
    level=Level.WARNING,
    keys=("peer", "request_code", "opaque", "reason", "error"),
    meaning="A request was answered with an error because it could not be read, or was not served.",
    advice="The error names the field or the problem; look at the peer's version.",
)
REQUEST_FAILED: Final = LogEvent(
    name="request_failed",
    level=Level.ERROR,
    keys=("peer", "request_code", "opaque", "exception"),
    meaning="A request met a fault of this server; the peer was answered SYSTEM_ERROR.",
    advice="Report it with the line.",
)
HTTP_REQUEST_REJECTED: Final = LogEvent(
    name="http_request_rejected",
    level=Level.WARNING,
    keys=("peer", "error"),
    meaning="A peer sent bytes to the HTTP port that are no HTTP; it was answered 400 and disconnected.",
    advice="Find out what connects there.",
)
HTTP_REQUEST_FAILED: Final = LogEvent(
    name="http_request_failed",
    level=Level.ERROR,
    keys=("peer", "method", "path", "exception"),
    meaning="An HTTP request met a fault of this server and was answered 500.",
    advice="Report it with the line.",
)
LIBRARY_LOGGED: Final = LogEvent(
    name="library_logged",
    level=Level.WARNING,
    keys=("logger", "message", "exception"),
    meaning="A library said something; the line has the library's own level.",
    advice="Read the message.",
)

LIFE: Final = (
    SERVER_STARTED,
    OPTION_IGNORED,
    SERVER_READY,
    SERVER_START_FAILED,
    SERVER_DRAINING,
    SERVER_STOPPED,
    RECORDING_STOPPED,
    RECORDING_RESUMED,
    HISTORY_DELETED,
    CHORE_FAILED,
    SERVER_FAILED,
)
MEANS: Final = (
    FILES_LIMITED,
    LOOPBACK_ADVERTISED,
    CERTIFICATE_LOADED,
    CERTIFICATE_LOAD_FAILED,
    BROKER_REQUEST_DENIED,
    BROKER_REQUEST_NOT_SIGNED,
)
SETTINGS: Final = (
    CONFIG_CHANGED,
    CONFIG_STORE_FAILED,
    MOUNTED_FILE_STORED,
)
TRAFFIC: Final = (
    CONNECTION_OPENED,
    CONNECTION_REFUSED,
    CONNECTION_PAUSED,
    CONNECTION_CLOSED,
    SLOW_READER_DISCONNECTED,
    FRAME_REJECTED,
    REQUEST_REJECTED,
    REQUEST_FAILED,
    HTTP_REQUEST_REJECTED,
    HTTP_REQUEST_FAILED,
    LIBRARY_LOGGED,
)
