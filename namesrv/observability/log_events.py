"""Every event that only a NameServer logs: its name, level, keys, meaning, and what to do.

Events of any server are in `serving/logging/server_events.py`. `docs/logs.md` is this catalogue as a page:
`python -m namesrv.observability.log_events > docs/logs.md` writes it, and a test compares.
"""

import sys
from typing import Final

from namesrv.settings.config import NAMESRV
from serving.logging import server_events
from serving.logging.events import error, events_in, info, log_page, warning

_WHO: Final = ("cluster", "broker", "broker_id", "addr")
_CHANGES: Final = ("topics_added", "topics_removed", "queues_changed", "perms_changed", "sample_topics")
_LEFT: Final = (*_WHO, "reason", "silent_ms", "heartbeat_timeout_ms", "was_master", "set_removed", *_CHANGES)

# The server itself

SCAN_SKIPPED: Final = warning(
    "scan_skipped",
    ("late_ms",),
    "The process paused for `late_ms`: brokers seem expired, so none is removed for one scan interval.",
    "Find what paused the process: no processor time, swapping, a paused machine.",
)

ROUTE_WORKER_ENDED: Final = error(
    "route_worker_ended",
    ("reason", "pid", "exit_code", "connections"),
    "A route worker ended (`exited`), was ended as it no longer reported (`silent`), or could not be started "
    "(`not_started`; `exit_code` is the error number). Its `connections` clients connect again; another is started.",
    "Nothing once. If it happens again: `exited` with -9 is mostly lack of memory, with 75 this process stood still; "
    "`silent` is lack of processor time; `not_started` is lack of memory, processes or files.",
)

COLD_START_BEGAN: Final = info(
    "cold_start_began",
    ("peers", "brokers"),
    "After the start, `brokers` brokers that `peers` list have not registered here yet: clients get them all the same.",
    "Nothing, unless `peers` is empty: then clients get registered brokers alone; see `peer_ignored`.",
)
COLD_START_ENDED: Final = info(
    "cold_start_ended",
    ("reason", "brokers", "learned_answers", "duration_ms"),
    "From now on clients get registered brokers alone: all have `registered`, or the `time` is over, or there is no "
    "other server (`alone`), or this one was `stopped`. `learned_answers` route queries were answered with brokers "
    "that peers know.",
    "If `brokers` is not 0: so many are registered at peers and not here; name this server in their namesrvAddr.",
)
PEER_IGNORED: Final = warning(
    "peer_ignored",
    ("peer", "error"),
    "A NameServer of the option `peers` does not answer, or is not believed; it is asked again at the next look.",
    "Start it, or correct `peers`: all of them have to serve the same brokers.",
)

PEER_DIFFERS: Final = warning(
    "peer_differs",
    ("differences", "sample"),
    "NameServers of the option `peers` have known other brokers or topics of a set than this server for a minute; "
    "`sample` names those that are new, of all `differences`.",
    "Follow the runbook NameServerViewsDiffer.",
)

# Brokers

BROKER_REGISTERED: Final = info(
    "broker_registered",
    (
        *_WHO,
        "topics",
        "ignored_topics",
        "heartbeat_timeout_ms",
        "data_version",
        "set_added",
        "master_changed",
        *_CHANGES,
    ),
    "A broker registered for the first time since the start or since it left.",
    "Nothing, unless `ignored_topics` is not 0: see `broker_topics_ignored`.",
)
BROKER_TOPICS_CHANGED: Final = info(
    "broker_topics_changed",
    (*_WHO, "topics", "ignored_topics", "data_version", "master_changed", *_CHANGES),
    "A registration changed the routes: topics, queues, permissions or the master's address.",
)
BROKER_TOPICS_IGNORED: Final = warning(
    "broker_topics_ignored",
    (*_WHO, "topics", "ignored_topics", "data_version"),
    "A registration changed nothing; `ignored_topics` topics, mappings or filter servers were left out.",
    "Delete them on the broker if a name is empty, too long or has hidden characters, an entry exceeds 56 KiB, "
    "or an address is invalid. Otherwise the host already has `topicSetsPerHostMax` sets in these topics: raise it if "
    "they are yours.",
)
REGISTRATION_CONFLICTED: Final = warning(
    "registration_conflicted",
    (*_WHO, "state_version", "holder_addr", "holder_state_version"),
    "A registration was refused: a live broker with a newer state holds its broker id.",
    "Two processes use one brokerName and brokerId. Stop the wrong one.",
)
BROKER_SUPERSEDED: Final = warning(
    "broker_superseded",
    (*_WHO, "former_addr", "silent_ms", "topics", "data_version", *_CHANGES),
    "A broker registered from another address under the id of a live one, which left the routes.",
    "Nothing after a move. Otherwise two processes use one brokerName and brokerId: stop the wrong one.",
)
BROKER_UNREGISTERED: Final = info("broker_unregistered", _LEFT, "A broker unregistered and left the routes.")
BROKER_EXPIRED: Final = warning(
    "broker_expired",
    _LEFT,
    "A broker sent no heartbeat within its timeout and left the routes.",
    "Check the broker: it is stopped, paused by garbage collection, or cut off.",
)
BROKER_DISCONNECTED: Final = warning(
    "broker_disconnected",
    _LEFT,
    "A broker disconnected without unregistering; it left the routes at once.",
    "Check the broker: its process was killed, or its network failed.",
)
BROKER_EVICTED: Final = warning(
    "broker_evicted",
    _LEFT,
    "A member left its set: it requested a broker id that a broker with a newer state holds.",
    "Two processes use one brokerName and brokerId. Stop the wrong one.",
)
REGISTRATION_IGNORED: Final = info(
    "registration_ignored",
    _WHO,
    "A registration was ignored: its connection is closed, and the broker has registered over another.",
)
UNREGISTRATION_IGNORED: Final = info(
    "unregistration_ignored",
    ("cluster", "broker", "addr"),
    "An unregistration was ignored: the broker has registered over a newer connection since.",
)
TOPICS_NOT_COPIED: Final = error(
    "topics_not_copied",
    ("broker", "topics", "sample_topics"),
    "The new master of a set lacks `topics` topics that the set's routes have: it had not copied them yet when it "
    "took over. Clients get the routes, and the broker refuses their messages.",
    "Create the topics again on that set, or delete them; follow the runbook TopicsLost.",
)
BROKER_SET_STORE_FAILED: Final = warning(
    "broker_set_store_failed",
    ("error",),
    "The file of the broker sets that are registered or away cannot be read or written; after a restart it is "
    "not known which of them are missing.",
    "`error` names the file, which is beside kvConfigPath, and the reason; repair it. Writing is tried again "
    "by itself.",
)
MIN_BROKER_ID_NOTIFIED: Final = info(
    "min_broker_id_notified",
    ("broker", "broker_id", "addr", "offline_addr", "ha_addr", "recipients", "reached"),
    "The smallest broker id of a set changed; `reached` of its members were notified.",
)
MIN_BROKER_ID_NOTIFICATION_FAILED: Final = warning(
    "min_broker_id_notification_failed",
    ("broker", "broker_id", "addr", "error"),
    "A member could not be notified of the new smallest broker id; it learns of it by its own poll.",
    "Nothing, unless it repeats: then this host cannot connect to the broker's address.",
)

# What operators change

TOPICS_CHANGED: Final = info(
    "topics_changed",
    ("command", "target", "clusters", "brokers", *_CHANGES),
    "A request changed routes: topics were added or deleted, or write permission was revoked or granted.",
    audit=True,
)
KV_CHANGED: Final = info(
    "kv_changed",
    ("namespace", "key", "old", "new"),
    "A request put a KV entry, or deleted it (`new` is null).",
    audit=True,
)
KV_STORE_FAILED: Final = error(
    "kv_store_failed",
    ("error",),
    "A KV change was refused because its file could not be written; nothing changed.",
    "`error` names the file and the reason, often a full disk or missing rights; repair it and try again.",
    audit=True,
)

ROLE_ADDRESSES_LOADED: Final = info(
    "role_addresses_loaded",
    ("source", "rules", "digest"),
    "The rules of role addresses were read and are in force: at their next poll clients get those addresses "
    "that lead to their brokers.",
    "Compare `digest` with the other NameServers: it must be the same everywhere.",
    audit=True,
)
ROLE_ADDRESSES_REFUSED: Final = error(
    "role_addresses_refused",
    ("source", "problems"),
    "The file of role addresses has mistakes, so the former rules stay in force; after a start, none.",
    "Correct the file; each of `problems` has its line. It is read again by itself.",
    audit=True,
)
ROLE_ADDRESS_IGNORED: Final = error(
    "role_address_ignored",
    ("broker", "addr", "owner", "line"),
    "A role address is the own address of a broker of `owner`, so the rule is not applied: the address would never "
    "move.",
    "Give the address of a proxy, or one that moves with the role, or stop the broker that registers with it.",
)

ROLE_ADDRESS_APPLIED: Final = info(
    "role_address_applied",
    ("broker", "broker_id", "addr"),
    "A role address leads to its broker: clients get it from now on.",
)
ROLE_ADDRESS_NOT_APPLIED: Final = error(
    "role_address_not_applied",
    ("broker", "broker_id", "addr", "error"),
    "A role address does not lead to its broker, so clients do not get it; it is checked again within 10 s.",
    "Let the proxy lead there, or open the network, or give `verify = false` where a NameServer cannot reach "
    "it. A broker that denies the request needs brokerAccessKey and the address in brokerAccessAddresses.",
)
ROLE_ADDRESS_FAILING: Final = error(
    "role_address_failing",
    ("broker", "broker_id", "addr", "error"),
    "A role address that clients have has not led to its broker for 15 s; they keep it.",
    "Follow the runbook RoleAddressFailing: repair the proxy, or remove the rule on all NameServers.",
)
ROLE_ADDRESS_RECOVERED: Final = info(
    "role_address_recovered", ("broker", "broker_id", "addr"), "A role address leads to its broker again."
)
ROLE_ADDRESS_MOVED: Final = info(
    "role_address_moved",
    ("broker", "broker_id", "addr", "leads_to", "former_addr"),
    "A new connection to a role address reached the broker that is registered now, for the first time since it "
    "registered: clients that connect reach it too.",
)
ROLE_ADDRESS_STORE_FAILED: Final = error(
    "role_address_store_failed",
    ("error",),
    "The file of role addresses that clients get cannot be read or written; they still get them. After a "
    "restart each is checked first, and clients get real addresses until then.",
    "`error` names the file, which is beside kvConfigPath, and the reason; repair it. Writing is tried again "
    "by itself.",
)

# Watchers of routes and brokers

WATCHER_REFUSED: Final = warning(
    "watcher_refused",
    ("watch", "peer", "watchers_max"),
    "A client that wants to watch `routes` or the `cluster` was answered 503: routeWatchersMax is reached, and no "
    "other host has more watchers.",
    "Find out which client holds so many, or raise routeWatchersMax; a watcher takes about 30 KiB.",
)
WATCHER_STALLED: Final = warning(
    "watcher_stalled",
    ("watch", "peer", "sample_topics"),
    "The connection of a watcher was closed: it read nothing for 60 s.",
    "Check the client, which hangs; when it reconnects it gets what it missed, or is told of a gap.",
)

_OWN_LIFE: Final = (SCAN_SKIPPED, COLD_START_BEGAN, COLD_START_ENDED, PEER_IGNORED, PEER_DIFFERS)
#: These events and those of any server, in the order of the page.
EVENTS: Final = (
    *server_events.LIFE,
    *_OWN_LIFE,
    *server_events.MEANS,
    *(event for event in events_in(globals()) if event not in _OWN_LIFE),
    *server_events.SETTINGS,
    *server_events.TRAFFIC,
)


def as_markdown() -> str:
    """Return the catalogue as the page `docs/logs.md`."""
    return log_page(NAMESRV, EVENTS, "namesrv/observability/log_events.py")


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
