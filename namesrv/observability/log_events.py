"""Every event that only a NameServer logs: its name, level, keys, meaning, and what to do.

Events of any server are in `serving/logging/server_events.py`. `docs/logs.md` is this catalogue as a page:
`python -m namesrv.observability.log_events > docs/logs.md` writes it, and a test compares.
"""

import sys
from typing import Final

from namesrv.settings.config import NAMESRV
from serving.logging import server_events
from serving.logging.events import Level, LogEvent, events_in, log_page

_WHO: Final = ("cluster", "broker", "broker_id", "addr")
_CHANGES: Final = ("topics_added", "topics_removed", "queues_changed", "perms_changed", "sample_topics")
_LEFT: Final = (*_WHO, "reason", "silent_ms", "heartbeat_timeout_ms", "was_master", "set_removed", *_CHANGES)

# The server itself

SCAN_SKIPPED: Final = LogEvent(
    name="scan_skipped",
    level=Level.WARNING,
    keys=("late_ms",),
    meaning="The process paused for `late_ms`: brokers seem expired, so none is removed for one scan interval.",
    advice="Find what paused the process: no processor time, swapping, a paused machine.",
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
    advice="Nothing, unless `ignored_topics` is not 0: see `broker_topics_ignored`.",
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
    meaning="A registration changed nothing; `ignored_topics` topics, mappings or filter servers were left out.",
    advice="Delete them on the broker if a name is empty, too long or has hidden characters, an entry exceeds 56 KiB, "
    "or an address is invalid. Otherwise the host already has `topicSetsPerHostMax` sets in these topics: raise it if "
    "they are yours.",
)
REGISTRATION_CONFLICTED: Final = LogEvent(
    name="registration_conflicted",
    level=Level.WARNING,
    keys=(*_WHO, "state_version", "holder_addr", "holder_state_version"),
    meaning="A registration was refused: a live broker with a newer state holds its broker id.",
    advice="Two processes use one brokerName and brokerId. Stop the wrong one.",
)
BROKER_SUPERSEDED: Final = LogEvent(
    name="broker_superseded",
    level=Level.WARNING,
    keys=(*_WHO, "former_addr", "silent_ms", "topics", "data_version", *_CHANGES),
    meaning="A broker registered from another address under the id of a live one, which left the routes.",
    advice="Nothing after a move. Otherwise two processes use one brokerName and brokerId: stop the wrong one.",
)
BROKER_UNREGISTERED: Final = LogEvent(
    name="broker_unregistered", level=Level.INFO, keys=_LEFT, meaning="A broker unregistered and left the routes."
)
BROKER_EXPIRED: Final = LogEvent(
    name="broker_expired",
    level=Level.WARNING,
    keys=_LEFT,
    meaning="A broker sent no heartbeat within its timeout and left the routes.",
    advice="Check the broker: it is stopped, paused by garbage collection, or cut off.",
)
BROKER_DISCONNECTED: Final = LogEvent(
    name="broker_disconnected",
    level=Level.WARNING,
    keys=_LEFT,
    meaning="A broker disconnected without unregistering; it left the routes at once.",
    advice="Check the broker: its process was killed, or its network failed.",
)
BROKER_EVICTED: Final = LogEvent(
    name="broker_evicted",
    level=Level.WARNING,
    keys=_LEFT,
    meaning="A member left its set: it requested a broker id that a broker with a newer state holds.",
    advice="Two processes use one brokerName and brokerId. Stop the wrong one.",
)
REGISTRATION_IGNORED: Final = LogEvent(
    name="registration_ignored",
    level=Level.INFO,
    keys=_WHO,
    meaning="A registration was ignored: its connection is closed, and the broker has registered over another.",
)
UNREGISTRATION_IGNORED: Final = LogEvent(
    name="unregistration_ignored",
    level=Level.INFO,
    keys=("cluster", "broker", "addr"),
    meaning="An unregistration was ignored: the broker has registered over a newer connection since.",
)
TOPICS_NOT_COPIED: Final = LogEvent(
    name="topics_not_copied",
    level=Level.ERROR,
    keys=("broker", "topics", "sample_topics"),
    meaning="The new master of a set lacks `topics` topics that the set's routes have: they were created when it had "
    "not copied them yet. Clients get the routes, and the broker refuses their messages.",
    advice="Create the topics again on that set, or delete them; follow the runbook TopicsLost.",
)
BROKER_SET_STORE_FAILED: Final = LogEvent(
    name="broker_set_store_failed",
    level=Level.WARNING,
    keys=("error",),
    meaning="The file of the broker sets that are registered or away cannot be read or written; after a restart it is "
    "not known which of them are missing.",
    advice="`error` names the file, which is beside kvConfigPath, and the reason; repair it. Writing is tried again "
    "by itself.",
)
MIN_BROKER_ID_NOTIFIED: Final = LogEvent(
    name="min_broker_id_notified",
    level=Level.INFO,
    keys=("broker", "broker_id", "addr", "offline_addr", "ha_addr", "recipients", "reached"),
    meaning="The smallest broker id of a set changed; `reached` of its members were notified.",
)
MIN_BROKER_ID_NOTIFICATION_FAILED: Final = LogEvent(
    name="min_broker_id_notification_failed",
    level=Level.WARNING,
    keys=("broker", "broker_id", "addr", "error"),
    meaning="A member could not be notified of the new smallest broker id; it learns of it by its own poll.",
    advice="Nothing, unless it repeats: then this host cannot connect to the broker's address.",
)

# What operators change

TOPICS_CHANGED: Final = LogEvent(
    name="topics_changed",
    level=Level.INFO,
    audit=True,
    keys=("command", "target", "clusters", "brokers", *_CHANGES),
    meaning="A request changed routes: topics were added or deleted, or write permission was revoked or granted.",
)
KV_CHANGED: Final = LogEvent(
    name="kv_changed",
    level=Level.INFO,
    audit=True,
    keys=("namespace", "key", "old", "new"),
    meaning="A request put a KV entry, or deleted it (`new` is null).",
)
KV_STORE_FAILED: Final = LogEvent(
    name="kv_store_failed",
    level=Level.ERROR,
    audit=True,
    keys=("error",),
    meaning="A KV change was refused because its file could not be written; nothing changed.",
    advice="`error` names the file and the reason, often a full disk or missing rights; repair it and try again.",
)

ROLE_ADDRESSES_LOADED: Final = LogEvent(
    name="role_addresses_loaded",
    level=Level.INFO,
    audit=True,
    keys=("source", "rules", "digest"),
    meaning="The rules of role addresses were read and are in force: at their next poll clients get those addresses "
    "that lead to their brokers.",
    advice="Compare `digest` with that of the other NameServers: it has to be the same everywhere.",
)
ROLE_ADDRESSES_REFUSED: Final = LogEvent(
    name="role_addresses_refused",
    level=Level.ERROR,
    audit=True,
    keys=("source", "problems"),
    meaning="The file of role addresses has mistakes, so the rules before it stay in force, after a start none.",
    advice="Correct the file; each of `problems` has its line. It is read again by itself.",
)
ROLE_ADDRESS_IGNORED: Final = LogEvent(
    name="role_address_ignored",
    level=Level.ERROR,
    keys=("broker", "addr", "owner", "line"),
    meaning="A role address is the own one of a broker of `owner`, so the rule is not applied: it would never move.",
    advice="Give the address of a proxy, or one that moves with the role, or stop the broker that registers with it.",
)

ROLE_ADDRESS_APPLIED: Final = LogEvent(
    name="role_address_applied",
    level=Level.INFO,
    keys=("broker", "broker_id", "addr"),
    meaning="A role address leads to the broker for which it stands: clients get it from now on.",
)
ROLE_ADDRESS_NOT_APPLIED: Final = LogEvent(
    name="role_address_not_applied",
    level=Level.ERROR,
    keys=("broker", "broker_id", "addr", "error"),
    meaning="A role address does not lead to its broker, so clients do not get it; it is checked again within 10 s.",
    advice="Let the proxy lead there, or open the network, or give `verify = false` where a NameServer cannot reach "
    "it. A broker that denies the request needs brokerAccessKey and the address in brokerAccessAddresses.",
)
ROLE_ADDRESS_FAILING: Final = LogEvent(
    name="role_address_failing",
    level=Level.ERROR,
    keys=("broker", "broker_id", "addr", "error"),
    meaning="A role address that clients have has not led to its broker for 15 s; they keep it.",
    advice="Follow the runbook RoleAddressFailing: repair the proxy, or remove the rule on all NameServers.",
)
ROLE_ADDRESS_RECOVERED: Final = LogEvent(
    name="role_address_recovered",
    level=Level.INFO,
    keys=("broker", "broker_id", "addr"),
    meaning="A role address leads to its broker again.",
)
ROLE_ADDRESS_MOVED: Final = LogEvent(
    name="role_address_moved",
    level=Level.INFO,
    keys=("broker", "broker_id", "addr", "leads_to", "former_addr"),
    meaning="A new connection to a role address reached the broker that is registered now, for the first time since it "
    "registered: clients that connect reach it too.",
)
ROLE_ADDRESS_STORE_FAILED: Final = LogEvent(
    name="role_address_store_failed",
    level=Level.ERROR,
    keys=("error",),
    meaning="The file of role addresses that clients get cannot be read or written; they still get them. After a "
    "restart each is checked first, and clients get real addresses until then.",
    advice="`error` names the file, which is beside kvConfigPath, and the reason; repair it. Writing is tried again "
    "by itself.",
)

# Watchers of routes and brokers

WATCHER_REFUSED: Final = LogEvent(
    name="watcher_refused",
    level=Level.WARNING,
    keys=("watch", "peer", "watchers_max"),
    meaning="A client that wants to watch `routes` or the `cluster` was answered 503: all places "
    "of routeWatchersMax are taken, and no other host has more of them.",
    advice="Find who holds so many open, or raise routeWatchersMax; a watcher takes some 30 KiB.",
)
WATCHER_STALLED: Final = LogEvent(
    name="watcher_stalled",
    level=Level.WARNING,
    keys=("watch", "peer", "sample_topics"),
    meaning="The connection of a watcher was closed: it read nothing of what was sent for 60 s.",
    advice="Look at the client, which hangs; when it connects again it gets what it missed, or a gap.",
)

#: These events and those of any server, in the order of the page.
EVENTS: Final = (
    *server_events.LIFE,
    SCAN_SKIPPED,
    *server_events.MEANS,
    *(event for event in events_in(globals()) if event is not SCAN_SKIPPED),
    *server_events.SETTINGS,
    *server_events.TRAFFIC,
)


def as_markdown() -> str:
    """Return the catalogue as the page `docs/logs.md`."""
    return log_page(NAMESRV, EVENTS, "namesrv/observability/log_events.py")


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
