"""The events that any server of this project logs; each server's catalogue takes them up and adds its own."""

from typing import Final

from serving.logging.events import Level, LogEvent, events_in

# The life of the process

SERVER_STARTED: Final = LogEvent(
    name="server_started",
    level=Level.INFO,
    keys=("python",),
    meaning="The process runs.",
)
SERVER_CONFIGURED: Final = LogEvent(
    name="server_configured",
    level=Level.DEBUG,
    keys=("config",),
    meaning="`config` holds every property in force at the start, secrets masked; `-p` prints them too.",
)
OPTION_IGNORED: Final = LogEvent(
    name="option_ignored",
    level=Level.WARNING,
    keys=("property", "path", "line", "reason", "error"),
    meaning="A line of a configuration file has no effect; `error` says why.",
    advice="Correct or remove the line.",
)
SERVER_READY: Final = LogEvent(
    name="server_ready",
    level=Level.INFO,
    keys=("addr", "http_addr", "duration_ms"),
    meaning="The server is ready: brokers and clients are served.",
)
SERVER_START_FAILED: Final = LogEvent(
    name="server_start_failed",
    level=Level.ERROR,
    keys=("error",),
    meaning="The server cannot start; the process ends.",
    advice="Correct the file, the port or the option that `error` names, and start it again.",
)
SERVER_DRAINING: Final = LogEvent(
    name="server_draining",
    level=Level.INFO,
    keys=("reason", "connections"),
    meaning="The stop has begun: `/readyz` answers 503, and peers are sent to other servers.",
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
    meaning="The history cannot be written. Rows wait in memory up to a limit; those beyond it are lost. Peers are "
    "served as before.",
    advice="Free space in `historyDir`, or make it writable; the server tries again by itself.",
)
RECORDING_RESUMED: Final = LogEvent(
    name="recording_resumed",
    level=Level.INFO,
    meaning="The history is written again. What was lost meanwhile is recorded as unobserved.",
)
HISTORY_DELETED: Final = LogEvent(
    name="history_deleted",
    level=Level.WARNING,
    keys=("reason", "files", "bytes"),
    meaning="Files of the history were deleted, ingested or not: older than 31 days (`age`), or all files together "
    "exceeded `historyBytesMax` or half of the disk (`size`).",
    advice="Run `rmq-analytics ingest` and `compact` each day: `compact` deletes files that are stored as Parquet.",
)
BACKGROUND_TASK_FAILED: Final = LogEvent(
    name="background_task_failed",
    level=Level.ERROR,
    keys=("task",),
    meaning="A background task failed. The server goes on; a task that runs for ever is started again after 1 s.",
    advice="A fault of the server: report it, with this line.",
)
SERVER_FAILED: Final = LogEvent(
    name="server_failed",
    level=Level.ERROR,
    meaning="A fault of the server that nothing catches; the process ends with an error.",
    advice="Start it again, and report the fault with this line.",
)

LIFE: Final = events_in(globals())

# Files and certificates

FILES_LIMITED: Final = LogEvent(
    name="files_limited",
    level=Level.WARNING,
    keys=("connections_max", "limit"),
    meaning="The limit of open files is too low for `connectionsMax`: the server accepts `connections_max` "
    "connections.",
    advice="Raise the limit of open files (`ulimit -Hn`, `LimitNOFILE`), or lower `connectionsMax`.",
)
FILE_EXPOSED: Final = LogEvent(
    name="file_exposed",
    level=Level.WARNING,
    keys=("path", "error"),
    meaning="Any user of this machine may write the configuration at `path`, or read the token in it.",
    advice="`chmod o-rw` the file; replace a token that others may have read.",
)
LOOPBACK_ADVERTISED: Final = LogEvent(
    name="loopback_advertised",
    level=Level.WARNING,
    keys=("addr", "bind_address"),
    meaning="The server found no address at which others reach this machine, so it advertises loopback: brokers, "
    "clients and servers on other machines cannot connect to it.",
    advice="Set `advertisedAddress` to the host:port at which others reach this server.",
)
CERTIFICATE_LOADED: Final = LogEvent(
    name="certificate_loaded",
    level=Level.INFO,
    keys=("certificate", "path", "expires"),
    meaning="A TLS certificate was loaded and is used for new connections: at the start, after its file changed, or "
    "at SIGHUP.",
)
CERTIFICATE_LOAD_FAILED: Final = LogEvent(
    name="certificate_load_failed",
    level=Level.ERROR,
    keys=("certificate", "path", "error"),
    meaning="A TLS certificate cannot be loaded; the previous one, if any, stays in use.",
    advice="Repair the file; it is checked twice a second.",
)
HTTP_ADMIN_TOKEN_LOADED: Final = LogEvent(
    name="http_admin_token_loaded",
    level=Level.INFO,
    keys=("path",),
    meaning="The token of a file is in force, at the start or after the file changed: with that of "
    "`httpAdminTokenFile`, and no other token, HTTP requests may change something; that of `consoleReadTokenFile` "
    "opens the console for reading.",
)
HTTP_ADMIN_TOKEN_LOAD_FAILED: Final = LogEvent(
    name="http_admin_token_load_failed",
    level=Level.ERROR,
    keys=("path", "error"),
    meaning="The file of `httpAdminTokenFile`, or another file with a token, is gone or holds no token any more; the "
    "previous token stays in force.",
    advice="Write a token into the file, which is read twice a second. To let nobody change anything, blank the option "
    "and restart.",
)
BROKER_REQUEST_DENIED: Final = LogEvent(
    name="broker_request_denied",
    level=Level.WARNING,
    keys=("addr", "request_code", "signed", "error", "advice"),
    meaning="A broker with ACL refused a request of this process: the request is not `signed`, or the broker does not "
    "know the user, has another password for it, or does not permit it to do this.",
    advice="Do what the key `advice` says: give this process a user of the brokers with the rights that it names, and "
    "name the addresses of these brokers.",
)
BROKER_REQUEST_NOT_SIGNED: Final = LogEvent(
    name="broker_request_not_signed",
    level=Level.WARNING,
    keys=("addr", "advice"),
    meaning="Requests to this address are not signed: keys are set, but the operator does not name this address. "
    "Logged once for each address.",
    advice="Name the address if it is a broker of yours with ACL, which otherwise denies these requests; unsigned "
    "requests give nothing away to anybody else. Find out who registers addresses that you do not know.",
)

MEANS: Final = events_in(globals())[len(LIFE) :]

# What operators change

CONFIG_CHANGED: Final = LogEvent(
    name="config_changed",
    level=Level.INFO,
    audit=True,
    keys=("old", "new", "unknown", "in_force", "from_next_start"),
    meaning="A request changed properties, secrets masked; `unknown` ones were ignored. Those `in_force` have effect "
    "now, those `from_next_start` after a restart, and others have no effect here.",
)
CONFIG_STORE_FAILED: Final = LogEvent(
    name="config_store_failed",
    level=Level.ERROR,
    audit=True,
    keys=("error",),
    meaning="A change of the configuration was refused because the file could not be written; nothing changed.",
    advice="`error` names the file and the reason, often a full disk or missing rights; repair it and repeat the "
    "change.",
)
MOUNTED_FILE_STORED: Final = LogEvent(
    name="mounted_file_stored",
    level=Level.WARNING,
    keys=("path",),
    meaning="The file is a mount of its own, which no rename can replace: it was overwritten in place, after a copy "
    "was synced beside it, which is used if a crash interrupts the write. Logged once for each file.",
    advice="Mount the folder instead of the file: the copy inside a container is lost with the container.",
)

SETTINGS: Final = events_in(globals())[len(LIFE + MEANS) :]

# Connections and requests

CONNECTION_OPENED: Final = LogEvent(
    name="connection_opened", level=Level.DEBUG, keys=("peer",), meaning="A peer connected."
)
CONNECTION_REFUSED: Final = LogEvent(
    name="connection_refused",
    level=Level.WARNING,
    keys=("peer", "connections_max"),
    meaning="A peer connected beyond `connectionsMax` and was disconnected, because all other connections are closing "
    "already.",
    advice="Find out who holds the connections, or raise `connectionsMax` and the limit of open files.",
)
CONNECTION_PAUSED: Final = LogEvent(
    name="connection_paused",
    level=Level.WARNING,
    keys=("peer", "response_buffer_bytes"),
    meaning="A peer reads none of its responses; the server reads no more requests from it, and disconnects it if "
    "that lasts.",
    advice="Check the peer: it is stopped, or its network is blocked.",
)
CONNECTION_CLOSED: Final = LogEvent(
    name="connection_closed", level=Level.DEBUG, keys=("peer", "reason"), meaning="A connection ended."
)
SLOW_READER_DISCONNECTED: Final = LogEvent(
    name="slow_reader_disconnected",
    level=Level.WARNING,
    keys=("peer", "reason"),
    meaning="A peer was disconnected because it did not read its responses for too long, or had the most of them "
    "unread when all together exceeded `responseBufferBytesMax`.",
    advice="Check the peer: it is stopped, or its network is blocked.",
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
    meaning="A request was answered with an error: it could not be decoded, or it was not served.",
    advice="`error` names the field or the problem; check the version of the peer.",
)
REQUEST_FAILED: Final = LogEvent(
    name="request_failed",
    level=Level.ERROR,
    keys=("peer", "request_code", "opaque", "exception"),
    meaning="A fault of the server in a request; the peer was answered SYSTEM_ERROR.",
    advice="Report it, with this line.",
)
HTTP_REQUEST_REJECTED: Final = LogEvent(
    name="http_request_rejected",
    level=Level.WARNING,
    keys=("peer", "error"),
    meaning="A peer was disconnected from the HTTP port: it sent bytes that are no HTTP, and was answered 400, or did "
    "not read its answers.",
    advice="Find out what connects there, and whether it hangs.",
)
HTTP_REQUEST_FAILED: Final = LogEvent(
    name="http_request_failed",
    level=Level.ERROR,
    keys=("peer", "method", "path", "exception"),
    meaning="A fault of the server in an HTTP request, which was answered 500.",
    advice="Report it, with this line.",
)
HTTP_ADMIN_DENIED: Final = LogEvent(
    name="http_admin_denied",
    level=Level.WARNING,
    keys=("peer", "method", "path", "reason"),
    meaning="An HTTP request that would change something, or a sign-in to the console, was refused: there is no "
    "`httpAdminTokenFile` (`off`), it comes from a page of another site (`other_origin`), or it shows no token "
    "(`no_token`) or another one (`wrong_token`).",
    advice="Give the token to a peer of yours, after a rotation above all; find out what any other one wants.",
)
HTTP_ADMIN_REQUEST_ACCEPTED: Final = LogEvent(
    name="http_admin_request_accepted",
    level=Level.INFO,
    audit=True,
    keys=("method", "path", "status"),
    meaning="An HTTP request with the admin token changed something, or began to.",
)
CONSOLE_SESSION_OPENED: Final = LogEvent(
    name="console_session_opened",
    level=Level.INFO,
    audit=True,
    keys=("rights",),
    meaning="Somebody signed in to the console of a server, for 8 hours: `read` with the token of "
    "`consoleReadTokenFile`, `change` with that of `httpAdminTokenFile`.",
)
TOKEN_TRIES_LIMITED: Final = LogEvent(
    name="token_tries_limited",
    level=Level.WARNING,
    keys=("peer",),
    meaning="A token, at a sign-in or in Authorization, was answered 429 unread: within a minute this address, or its "
    "IPv6 network (/64), showed five different wrong ones.",
    advice="Find out who tries tokens there. All users behind a proxy or NAT share its address, and wait too.",
)
LIBRARY_LOGGED: Final = LogEvent(
    name="library_logged",
    level=Level.WARNING,
    keys=("logger", "message", "exception"),
    meaning="A library logged a message, at the level of this line.",
    advice="Read the message.",
)

TRAFFIC: Final = events_in(globals())[len(LIFE + MEANS + SETTINGS) :]
