"""The events that any server of this project logs; each server's catalogue takes them up and adds its own."""

from typing import Final

from serving.logging.events import debug, error, events_in, info, warning

# The life of the process

SERVER_STARTED: Final = info("server_started", ("python",), "The process runs.")
SERVER_CONFIGURED: Final = debug(
    "server_configured",
    ("config",),
    "`config` holds every property in force at the start, secrets masked; `-p` prints them too.",
)
OPTION_IGNORED: Final = warning(
    "option_ignored",
    ("property", "path", "line", "reason", "error"),
    "A line of a configuration file has no effect; `error` says why.",
    "Correct or remove the line.",
)
SERVER_READY: Final = info(
    "server_ready", ("addr", "http_addr", "duration_ms"), "The server is ready: brokers and clients are served."
)
SERVER_START_FAILED: Final = error(
    "server_start_failed",
    ("error",),
    "The server cannot start; the process ends.",
    "Correct the file, the port or the option that `error` names, and start it again.",
)
SERVER_DRAINING: Final = info(
    "server_draining",
    ("reason", "connections"),
    "The server has begun to stop: `/readyz` answers 503, and peers are sent to other servers.",
)
SERVER_STOPPED: Final = info("server_stopped", ("duration_ms",), "All connections are closed; the process ends.")
RECORDING_STOPPED: Final = error(
    "recording_stopped",
    ("error",),
    "The history cannot be written. Rows wait in memory up to a limit; those beyond it are lost. Peers are "
    "served as before.",
    "Free space in `historyDir`, or make it writable; the server tries again by itself.",
)
RECORDING_RESUMED: Final = info(
    "recording_resumed", (), "The history is written again. What was lost meanwhile is recorded as unobserved."
)
HISTORY_DELETED: Final = warning(
    "history_deleted",
    ("reason", "files", "bytes"),
    "Files of the history were deleted, ingested or not: older than 31 days (`age`), or all files together "
    "exceeded `historyBytesMax` or half of the disk (`size`).",
    "Run `rmq-analytics ingest` and `compact` each day: `compact` deletes files that are stored as Parquet.",
)
BACKGROUND_TASK_FAILED: Final = error(
    "background_task_failed",
    ("task",),
    "A background task failed. The server continues; a permanent task is started again after 1 s.",
    "A fault of the server: report it, with this line.",
)
SERVER_FAILED: Final = error(
    "server_failed",
    (),
    "An uncaught fault of the server; the process ends with an error.",
    "Start it again, and report the fault with this line.",
)

LIFE: Final = events_in(globals())

# Files and certificates

FILES_LIMITED: Final = warning(
    "files_limited",
    ("connections_max", "limit"),
    "The limit of open files is too low for `connectionsMax`: the server accepts `connections_max` connections.",
    "Raise the limit of open files (`ulimit -Hn`, `LimitNOFILE`), or lower `connectionsMax`.",
)
FILE_EXPOSED: Final = warning(
    "file_exposed",
    ("path", "error"),
    "Any user of this machine may write the configuration at `path`, or read the token in it.",
    "`chmod o-rw` the file; replace a token that others may have read.",
)
LOOPBACK_ADVERTISED: Final = warning(
    "loopback_advertised",
    ("addr", "bind_address"),
    "The server found no address by which others can reach this machine, so it advertises loopback: brokers, clients "
    "and servers on other machines cannot connect to it.",
    "Set `advertisedAddress` to the host:port by which others reach this server.",
)
CERTIFICATE_LOADED: Final = info(
    "certificate_loaded",
    ("certificate", "path", "expires"),
    "A TLS certificate was loaded and is used for new connections: at the start, after its file changed, or at SIGHUP.",
)
CERTIFICATE_LOAD_FAILED: Final = error(
    "certificate_load_failed",
    ("certificate", "path", "error"),
    "A TLS certificate cannot be loaded; the previous one, if any, stays in use.",
    "Repair the file; it is checked twice a second.",
)
HTTP_ADMIN_TOKEN_LOADED: Final = info(
    "http_admin_token_loaded",
    ("path",),
    "The token in a file is in force, at the start or after the file changed. Only the token of `httpAdminTokenFile` "
    "allows changes over HTTP; that of `consoleReadTokenFile` opens the console for reading.",
)
HTTP_ADMIN_TOKEN_LOAD_FAILED: Final = error(
    "http_admin_token_load_failed",
    ("path", "error"),
    "The file of `httpAdminTokenFile`, or another file with a token, is missing or no longer holds a token; the "
    "previous token stays in force.",
    "Write a token into the file, which is read twice a second. To forbid all changes, blank the option and restart.",
)
BROKER_REQUEST_DENIED: Final = warning(
    "broker_request_denied",
    ("addr", "request_code", "signed", "error", "advice"),
    "A broker with ACL refused a request of this process: the request is not `signed`, or the user is unknown there, "
    "has another password, or lacks the right.",
    "Follow the key `advice`: give this process a broker user with the rights that it names, and configure the "
    "addresses of these brokers.",
)
BROKER_REQUEST_NOT_SIGNED: Final = warning(
    "broker_request_not_signed",
    ("addr", "advice"),
    "Requests to this address are not signed: keys are configured, but not for this address. Logged once for each "
    "address.",
    "If it is your broker with ACL, which denies unsigned requests, add the address. Otherwise no keys are disclosed; "
    "find out who registers the address.",
)

MEANS: Final = events_in(globals())[len(LIFE) :]

# What operators change

CONFIG_CHANGED: Final = info(
    "config_changed",
    ("old", "new", "unknown", "in_force", "from_next_start"),
    "A request changed properties, secrets masked; `unknown` ones were ignored. Those `in_force` have effect "
    "now, those `from_next_start` after a restart, and others have no effect here.",
    audit=True,
)
CONFIG_STORE_FAILED: Final = error(
    "config_store_failed",
    ("error",),
    "A change of the configuration was refused because the file could not be written; nothing changed.",
    "`error` names the file and the reason, often a full disk or missing rights; repair it and repeat the change.",
    audit=True,
)
MOUNTED_FILE_STORED: Final = warning(
    "mounted_file_stored",
    ("path",),
    "The file is itself a mount, which a rename cannot replace, so it was overwritten in place. If a crash interrupts "
    "the write, the copy that was synced beside it is used. Logged once for each file.",
    "Mount the folder instead of the file: the copy inside a container is lost with the container.",
)

SETTINGS: Final = events_in(globals())[len(LIFE + MEANS) :]

# Connections and requests

CONNECTION_OPENED: Final = debug("connection_opened", ("peer",), "A peer connected.")
CONNECTION_REFUSED: Final = warning(
    "connection_refused",
    ("peer", "connections_max"),
    "A peer connected beyond `connectionsMax` and was disconnected, because all other connections are closing already.",
    "Find out who holds the connections, or raise `connectionsMax` and the limit of open files.",
)
CONNECTION_PAUSED: Final = warning(
    "connection_paused",
    ("peer", "response_buffer_bytes"),
    "A peer reads none of its responses; the server reads no more requests from it, and disconnects it if that lasts.",
    "Check the peer: it is stopped, or its network is blocked.",
)
CONNECTION_CLOSED: Final = debug("connection_closed", ("peer", "reason"), "A connection ended.")
SLOW_READER_DISCONNECTED: Final = warning(
    "slow_reader_disconnected",
    ("peer", "reason"),
    "A peer was disconnected because it did not read its responses for too long, or had the most unread bytes when "
    "all unread responses exceeded `responseBufferBytesMax`.",
    "Check the peer: it is stopped, or its network is blocked.",
)
FRAME_REJECTED: Final = warning(
    "frame_rejected",
    ("peer", "reason", "error"),
    "A peer sent bytes that are not a RocketMQ frame; its connection was closed.",
    "Find out what connects there: a port scan, another protocol, TLS to a plain port.",
)
REQUEST_REJECTED: Final = warning(
    "request_rejected",
    ("peer", "request_code", "opaque", "reason", "error"),
    "A request was answered with an error: it could not be decoded, or it was not served.",
    "`error` names the field or the problem; check the version of the peer.",
)
REQUEST_FAILED: Final = error(
    "request_failed",
    ("peer", "request_code", "opaque", "exception"),
    "A fault of the server in a request; the peer was answered SYSTEM_ERROR.",
    "Report it, with this line.",
)
HTTP_REQUEST_REJECTED: Final = warning(
    "http_request_rejected",
    ("peer", "error"),
    "A peer was disconnected from the HTTP port: it sent bytes that are not HTTP (answered 400), or did not read its "
    "answers.",
    "Find out what connects there, and whether it hangs.",
)
HTTP_REQUEST_FAILED: Final = error(
    "http_request_failed",
    ("peer", "method", "path", "exception"),
    "A fault of the server in an HTTP request, which was answered 500.",
    "Report it, with this line.",
)
HTTP_ADMIN_DENIED: Final = warning(
    "http_admin_denied",
    ("peer", "method", "path", "reason"),
    "A change over HTTP, or a sign-in to the console, was refused: there is no `httpAdminTokenFile` (`off`), the "
    "request comes from another site (`other_origin`), or its token is missing (`no_token`) or wrong (`wrong_token`).",
    "If the peer is yours, give it the token, especially after a rotation; otherwise find out what it wants.",
)
HTTP_ADMIN_REQUEST_ACCEPTED: Final = info(
    "http_admin_request_accepted",
    ("method", "path", "status"),
    "An HTTP request with the admin token made or started a change.",
    audit=True,
)
CONSOLE_SESSION_OPENED: Final = info(
    "console_session_opened",
    ("rights",),
    "A user signed in to the console of a server, for 8 hours: `read` with the token of `consoleReadTokenFile`, "
    "`change` with that of `httpAdminTokenFile`.",
    audit=True,
)
TOKEN_TRIES_LIMITED: Final = warning(
    "token_tries_limited",
    ("peer",),
    "A sign-in or an Authorization header was answered 429 with its token unchecked: this address, or its IPv6 "
    "network (/64), sent five different wrong tokens within a minute.",
    "Find out who tries tokens there. All users behind a proxy or NAT share its address, and wait too.",
)
LIBRARY_LOGGED: Final = warning(
    "library_logged",
    ("logger", "message", "exception"),
    "A library logged a message, at the level of this line.",
    "Read the message.",
)

TRAFFIC: Final = events_in(globals())[len(LIFE + MEANS + SETTINGS) :]
