"""Every event that this server logs: its name, level, keys, meaning, and what to do about it.

A name says what happened, `noun_verb_past`; what it happened to stands in the keys. `docs/logs.md` is this catalogue as
a page: `python -m namesrv.event_catalogue > docs/logs.md` writes it, and a test compares.
"""

import sys
from enum import IntEnum
from typing import Final

import msgspec


class Level(IntEnum):
    """How much an event matters; the numbers are those of the standard library."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40

    @property
    def word(self) -> str:
        """Return the level as log lines and options spell it."""
        return self.name.lower()


class LogEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of line."""

    name: str
    level: Level
    #: Keys that the line has beside those of every line; one may be missing where it would say nothing.
    keys: tuple[str, ...] = ()
    meaning: str
    #: What an operator does about it.
    advice: str = "Nothing."
    #: A change that somebody asked for: the line also has `audit`, `peer`, `request_code` and `opaque`.
    audit: bool = False


class Key(msgspec.Struct, frozen=True):
    """A key that any line may have."""

    name: str
    meaning: str


#: The keys of every line, in this order.
COMMON_KEYS: Final = (
    Key("timestamp", "UTC, ISO 8601 with milliseconds."),
    Key("level", "debug, info, warning or error."),
    Key("event", "A name of the table below."),
    Key("ns_id", "Host name and port of this NameServer."),
    Key("version", "Version of this NameServer."),
    Key("suppressed", "So many lines of the same event and broker or peer were left out before this one."),
    Key("lines_dropped", "So many lines were lost before this one because the output did not take them."),
    Key("exception", "What was raised and where, without local variables."),
)

_WHO: Final = ("cluster", "broker", "broker_id", "addr")
_CHANGES: Final = ("topics_added", "topics_removed", "queues_changed", "perms_changed", "sample_topics")
_LEFT: Final = (*_WHO, "reason", "silent_ms", "heartbeat_timeout_ms", "was_master", "set_removed", *_CHANGES)

# The server itself

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
CHORE_FAILED: Final = LogEvent(
    name="chore_failed",
    level=Level.ERROR,
    keys=("chore",),
    meaning="Something the server does at intervals failed; it is begun again after a second.",
    advice="A fault of the server: report it with the line.",
)
SERVER_FAILED: Final = LogEvent(
    name="server_failed",
    level=Level.ERROR,
    keys=(),
    meaning="A fault of the server that nothing catches; the process ends with an error.",
    advice="Start it again, and report it with the line.",
)
SCAN_SKIPPED: Final = LogEvent(
    name="scan_skipped",
    level=Level.WARNING,
    keys=("late_ms",),
    meaning="The process stood still, so its brokers only seem silent; they get one scan interval to be heard.",
    advice="Find out what held the process: no processor time, swapping, a paused machine.",
)
FILES_LIMITED: Final = LogEvent(
    name="files_limited",
    level=Level.WARNING,
    keys=("connections_max", "limit"),
    meaning="The process may open fewer files than connectionsMax needs, so it takes fewer connections.",
    advice="Raise the limit of open files (ulimit -Hn, LimitNOFILE), or lower connectionsMax.",
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

# Brokers

BROKER_REGISTERED: Final = LogEvent(
    name="broker_registered",
    level=Level.INFO,
    keys=(
        *_WHO,
        "topics",
        "ignored_topics",
        "heartbeat_timeout_ms",
        "data_version",
        "set_added",
        "master_changed",
        *_CHANGES,
    ),
    meaning="A broker registered for the first time since the start or since it left.",
    advice="Nothing, unless `ignored_topics` is not 0: those topics have names that cannot be topics.",
)
BROKER_TOPICS_CHANGED: Final = LogEvent(
    name="broker_topics_changed",
    level=Level.INFO,
    keys=(*_WHO, "topics", "ignored_topics", "data_version", "master_changed", *_CHANGES),
    meaning="A registration changed the routes: topics, queues, permissions or the master's address.",
)
BROKER_TOPICS_IGNORED: Final = LogEvent(
    name="broker_topics_ignored",
    level=Level.WARNING,
    keys=(*_WHO, "topics", "ignored_topics", "data_version"),
    meaning="A registration changed nothing, and topics of it were left out because their names cannot be topics.",
    advice="Delete those topics on the broker: empty names, or more than 1024 characters.",
)
REGISTRATION_CONFLICTED: Final = LogEvent(
    name="registration_conflicted",
    level=Level.WARNING,
    keys=(*_WHO, "state_version", "holder_addr", "holder_state_version"),
    meaning="A registration was turned away: a live broker with a newer state holds its broker id.",
    advice="Two processes use one brokerName and brokerId. Stop the wrong one.",
)
BROKER_SUPERSEDED: Final = LogEvent(
    name="broker_superseded",
    level=Level.WARNING,
    keys=(*_WHO, "former_addr", "silent_ms", "topics", "data_version", *_CHANGES),
    meaning="A broker registered from another address under the id of one that had not left.",
    advice="Nothing after a move. Otherwise two processes use one brokerName and brokerId.",
)
BROKER_UNREGISTERED: Final = LogEvent(
    name="broker_unregistered",
    level=Level.INFO,
    keys=_LEFT,
    meaning="A broker left at its own request.",
)
BROKER_EXPIRED: Final = LogEvent(
    name="broker_expired",
    level=Level.WARNING,
    keys=_LEFT,
    meaning="A broker was silent for longer than its timeout and left the routes.",
    advice="Look at the broker: stopped, paused by garbage collection, or cut off.",
)
BROKER_DISCONNECTED: Final = LogEvent(
    name="broker_disconnected",
    level=Level.WARNING,
    keys=_LEFT,
    meaning="The connection of a broker closed without a farewell; it left the routes at once.",
    advice="Look at the broker: killed, or its network went.",
)
BROKER_EVICTED: Final = LogEvent(
    name="broker_evicted",
    level=Level.WARNING,
    keys=_LEFT,
    meaning="A member of a set left it by asking for a broker id that another, with a newer state, holds.",
    advice="Two processes use one brokerName and brokerId. Stop the wrong one.",
)
REGISTRATION_IGNORED: Final = LogEvent(
    name="registration_ignored",
    level=Level.INFO,
    keys=_WHO,
    meaning="A registration came late: its connection is gone, and the broker is known over another.",
)
UNREGISTRATION_IGNORED: Final = LogEvent(
    name="unregistration_ignored",
    level=Level.INFO,
    keys=("cluster", "broker", "addr"),
    meaning="An unregistration came late, after the broker had registered over a younger connection.",
)
MIN_BROKER_ID_NOTIFIED: Final = LogEvent(
    name="min_broker_id_notified",
    level=Level.INFO,
    keys=("broker", "broker_id", "addr", "offline_addr", "ha_addr", "recipients", "reached"),
    meaning="The members of a set were told which of them has the smallest broker id now; `reached` of them got it.",
)
MIN_BROKER_ID_NOTIFICATION_FAILED: Final = LogEvent(
    name="min_broker_id_notification_failed",
    level=Level.WARNING,
    keys=("broker", "broker_id", "addr", "error"),
    meaning="One member could not be told of a new smallest broker id; it finds out by its own poll.",
    advice="Nothing once. If it repeats, this host cannot connect to the broker's address.",
)

# What operators change

TOPICS_CHANGED: Final = LogEvent(
    name="topics_changed",
    level=Level.INFO,
    audit=True,
    keys=("command", "target", "clusters", "brokers", *_CHANGES),
    meaning="A command changed routes: topics deleted or added, write permission taken or given.",
)
KV_CHANGED: Final = LogEvent(
    name="kv_changed",
    level=Level.INFO,
    audit=True,
    keys=("namespace", "key", "old", "new"),
    meaning="A KV entry was put, or deleted (`new` is null).",
)
KV_STORE_FAILED: Final = LogEvent(
    name="kv_store_failed",
    level=Level.ERROR,
    audit=True,
    keys=("error",),
    meaning="A KV change was refused because its file could not be written; nothing changed.",
    advice="The error names the file and the reason, often a full disk or missing rights.",
)
CONFIG_CHANGED: Final = LogEvent(
    name="config_changed",
    level=Level.INFO,
    audit=True,
    keys=("old", "new", "unknown"),
    meaning="Properties have new values, secrets masked; `unknown` ones were left aside.",
)
CONFIG_STORE_FAILED: Final = LogEvent(
    name="config_store_failed",
    level=Level.ERROR,
    audit=True,
    keys=("error",),
    meaning="A change of the configuration was refused because its file could not be written; nothing changed.",
    advice="The error names the file and the reason, often a full disk or missing rights.",
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
    meaning="A peer connected beyond connectionsMax and was closed.",
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

#: All of the above, in their order.
EVENTS: Final = tuple(each for each in list(globals().values()) if isinstance(each, LogEvent))


def as_markdown() -> str:
    """Return the catalogue as the page `docs/logs.md`."""
    head = [
        "# Log events",
        "",
        "One line per fact that an operator would put in a timeline, on standard output; none per heartbeat, query or",
        "topic. Written from `namesrv/event_catalogue.py`; do not edit.",
        "",
        "Lines of one event about one broker or peer are limited to 5 at once and then one each 10 s; those left out",
        "are counted in `rocketmq_namesrv_log_suppressed_total` and in the next line's `suppressed`. Errors are never",
        "lost: what was held back comes as one line 10 s later. Debug and audit lines are not limited that way.",
        "",
        "## Keys of every line",
        "",
        "| key | meaning |",
        "|---|---|",
        *(f"| `{key.name}` | {key.meaning} |" for key in COMMON_KEYS),
        "",
        "## Events",
        "",
        "Events marked *audit* are changes that somebody asked for: they also have `audit`, and `peer`, `request_code`",
        "and `opaque` of the request. They are written at every `logLevel`.",
        "",
        "| event | level | keys | meaning | what to do |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*head, *map(_row, EVENTS)]) + "\n"


def _row(event: LogEvent) -> str:
    keys = ", ".join(f"`{key}`" for key in event.keys)
    level = f"{event.level.word}, *audit*" if event.audit else event.level.word
    return f"| `{event.name}` | {level} | {keys} | {event.meaning} | {event.advice} |"


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
