"""Every event that this server logs: its name, level, keys, meaning, and what to do about it.

What any server logs stands in `serving/logging/server_events.py`. `docs/logs.md` is this catalogue as a page:
`python -m namesrv.observability.log_events > docs/logs.md` writes it, and a test compares.
"""

import sys
from typing import Final

from namesrv.settings.config import NAMESRV
from serving.logging import server_events
from serving.logging.events import Level, LogEvent, log_page

_WHO: Final = ("cluster", "broker", "broker_id", "addr")
_CHANGES: Final = ("topics_added", "topics_removed", "queues_changed", "perms_changed", "sample_topics")
_LEFT: Final = (*_WHO, "reason", "silent_ms", "heartbeat_timeout_ms", "was_master", "set_removed", *_CHANGES)

# The server itself

SCAN_SKIPPED: Final = LogEvent(
    name="scan_skipped",
    level=Level.WARNING,
    keys=("late_ms",),
    meaning="The process stood still, so its brokers only seem silent; they get one scan interval to be heard.",
    advice="Find out what held the process: no processor time, swapping, a paused machine.",
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
    meaning="A registration changed nothing, and topics, mappings or filter servers that cannot be any were left out.",
    advice="Delete them on the broker: names that are empty or too long, more than 56 KiB, or no addresses.",
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

#: All of the above and those of any server, in the order of the page.
EVENTS: Final = (
    *server_events.LIFE,
    SCAN_SKIPPED,
    *server_events.MEANS,
    BROKER_REGISTERED,
    BROKER_TOPICS_CHANGED,
    BROKER_TOPICS_IGNORED,
    REGISTRATION_CONFLICTED,
    BROKER_SUPERSEDED,
    BROKER_UNREGISTERED,
    BROKER_EXPIRED,
    BROKER_DISCONNECTED,
    BROKER_EVICTED,
    REGISTRATION_IGNORED,
    UNREGISTRATION_IGNORED,
    MIN_BROKER_ID_NOTIFIED,
    MIN_BROKER_ID_NOTIFICATION_FAILED,
    TOPICS_CHANGED,
    KV_CHANGED,
    KV_STORE_FAILED,
    *server_events.SETTINGS,
    *server_events.TRAFFIC,
)


def as_markdown() -> str:
    """Return the catalogue as the page `docs/logs.md`."""
    return log_page(NAMESRV, EVENTS, "namesrv/observability/log_events.py")


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
