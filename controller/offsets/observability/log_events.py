"""Every event that an offset manager logs: its name, level, keys, meaning, and what to do about it.

Events of any server are in `serving/logging/server_events.py`. `docs/offset-manager-logs.md` is this catalogue as a
page: `python -m controller.offsets.observability.log_events > docs/offset-manager-logs.md` writes it, and a test
compares.
"""

import sys
from typing import Final

from controller.offsets.config import OFFSET_MANAGER
from controller.offsets.observability.guard_log_events import GUARD
from controller.offsets.observability.holding_log_events import HOLDING
from controller.offsets.observability.mirror_log_events import MIRROR
from controller.offsets.observability.restore_log_events import RESTORES
from controller.offsets.observability.topology_log_events import TOPOLOGY
from serving.logging import server_events
from serving.logging.events import Level, LogEvent, log_page

MANAGER_LEADS: Final = LogEvent(
    name="manager_leads",
    level=Level.INFO,
    keys=("offsets", "unreadable_rows", "duration_ms"),
    meaning="This offset manager leads: it has loaded all offsets and answers for them.",
)
MANAGER_FOLLOWS: Final = LogEvent(
    name="manager_follows",
    level=Level.WARNING,
    keys=("leader",),
    meaning="This offset manager no longer leads and answers 503 with the address of the one that does.",
    advice="None if another one leads; otherwise check etcd.",
)
OFFSETS_LOAD_FAILED: Final = LogEvent(
    name="offsets_load_failed",
    level=Level.ERROR,
    keys=("error",),
    meaning="The offsets could not be loaded; that is tried again. Until then reads answer `unavailable`, changes 503.",
    advice="Check the disk, or etcd. Where the error names the journal, do what it says.",
)
OFFSETS_COMPENSATED: Final = LogEvent(
    name="offsets_compensated",
    level=Level.INFO,
    keys=("pushed", "unchanged"),
    meaning="The journal held acknowledged offsets of so many queues that the store did not have (`pushed`), and of so "
    "many that it had; the store has all of them now.",
)
STORE_PUT_BACK: Final = LogEvent(
    name="store_put_back",
    level=Level.ERROR,
    keys=("offsets",),
    meaning="The store was put back to an older state. It got the newer offsets of so many queues from this manager.",
    advice="Find out who restored the store.",
)
OFFSET_FLUSH_FAILED: Final = LogEvent(
    name="offset_flush_failed",
    level=Level.ERROR,
    keys=("error",),
    meaning="Acknowledged offsets could not be written to the store; that is tried again. They are safe in the journal "
    "of this manager. Beyond `dirtyKeysMax` queues further commits are refused.",
    advice="Check the disk, or etcd.",
)
OFFSET_FLUSH_RECOVERED: Final = LogEvent(
    name="offset_flush_recovered",
    level=Level.INFO,
    keys=("failures",),
    meaning="Offsets are written to the store again, after so many attempts that failed.",
)
OFFSET_ROW_UNWRITABLE: Final = LogEvent(
    name="offset_row_unwritable",
    level=Level.ERROR,
    keys=("group", "topic", "broker", "error"),
    meaning="The stored offsets of a group in a topic cannot be read, or are too many for one write. They are answered "
    "`unavailable`, and nothing is written over them.",
    advice="Do what `error` says, then restart the manager.",
)
FOREIGN_KEY_FOUND: Final = LogEvent(
    name="foreign_key_found",
    level=Level.WARNING,
    keys=("error",),
    meaning="The store holds a key that is not this program's.",
    advice="Delete the key, once you know whose it is.",
)
COMMITS_REFUSED: Final = LogEvent(
    name="commits_refused",
    level=Level.WARNING,
    keys=("dirty_keys",),
    meaning="Commits are answered 429: the store lacks the offsets of so many queues, all that `dirtyKeysMax` allows.",
    advice="Check why the store is slow; raise `dirtyKeysMax` if there is memory.",
)
OFFSETS_CHANGED: Final = LogEvent(
    name="offsets_changed",
    level=Level.INFO,
    keys=("operation", "writer", "queues", "groups", "topics"),
    meaning="An operator has seeded, reset, cloned or deleted the offsets of so many queues; `groups` and `topics` "
    "name up to ten of them.",
    audit=True,
)
OFFSETS_FROZEN: Final = LogEvent(
    name="offsets_frozen",
    level=Level.INFO,
    keys=("operation", "reason", "lease_ms", "scopes", "queues"),
    meaning="An operation has frozen offsets: commits are answered `fenced` until it thaws them or its lease ends.",
    audit=True,
)
OFFSETS_THAWED: Final = LogEvent(
    name="offsets_thawed",
    level=Level.INFO,
    keys=("operation", "reason"),
    meaning="The freeze of an operation has ended: `requested`, or `expired` because the operation did not renew it.",
    advice="If it expired, find out what became of the operation.",
    audit=True,
)
LOCK_FORCED: Final = LogEvent(
    name="lock_forced",
    level=Level.WARNING,
    keys=("writer", "group", "topic", "broker", "queue_id", "token"),
    meaning="An operator has taken a queue from its holder; commits with a token below this one are `fenced`.",
    audit=True,
)
ORDERLY_CHANGED: Final = LogEvent(
    name="orderly_changed",
    level=Level.INFO,
    keys=("writer", "group", "orderly"),
    meaning="A group was declared orderly and may have locks, or may not any more.",
    audit=True,
)
LOCK_SESSIONS_EXPIRED: Final = LogEvent(
    name="lock_sessions_expired",
    level=Level.WARNING,
    keys=("sessions",),
    meaning="So many clients did not renew their sessions: others may have their queues now.",
    advice="Find out whether these clients have crashed, or were paused.",
)
JOURNAL_HANDED_OVER: Final = LogEvent(
    name="journal_handed_over",
    level=Level.INFO,
    keys=("leader", "settled", "left"),
    meaning="This manager follows, and its journal held offsets that it had acknowledged when it led. The leader has "
    "so many of them, or newer ones (`settled`). Those that it did not take (`left`), because their queues are frozen "
    "or locked by others, are tried again.",
)
JOURNAL_HANDOVER_FAILED: Final = LogEvent(
    name="journal_handover_failed",
    level=Level.WARNING,
    keys=("leader", "error"),
    meaning="The leader did not take all that the journal of this manager holds; what it refused is tried again "
    "each 10 s.",
    advice="Check the leader's `advertisedAddress`, and that both managers have the same `clientTokenFile`.",
)
STORE_CALLS_FAILING: Final = LogEvent(
    name="store_calls_failing",
    level=Level.ERROR,
    keys=("operation", "error"),
    meaning="Calls of this kind to etcd fail; logged once per kind until one succeeds. While `look`, `grant`, "
    "`campaign` and `renew` fail no manager can lead.",
    advice="Check etcd. Offset managers need no restart.",
)
STORE_CALLS_ANSWERED: Final = LogEvent(
    name="store_calls_answered",
    level=Level.INFO,
    keys=("operation", "silent_ms"),
    meaning="etcd answers calls of this kind again.",
)
OFFSETS_LEFT_DIRTY: Final = LogEvent(
    name="offsets_left_dirty",
    level=Level.ERROR,
    keys=("dirty_keys",),
    meaning="The manager ends, and the store lacks the newest offsets of so many queues. They are in the journal: the "
    "next start of this manager writes them, once it leads.",
    advice="Start this manager again on the same storePath as soon as the store can be reached.",
)

EVENTS: Final = (
    server_events.SERVER_STARTED,
    server_events.SERVER_CONFIGURED,
    server_events.OPTION_IGNORED,
    server_events.SERVER_READY,
    server_events.SERVER_START_FAILED,
    server_events.SERVER_DRAINING,
    server_events.SERVER_STOPPED,
    server_events.BACKGROUND_TASK_FAILED,
    server_events.SERVER_FAILED,
    server_events.LOOPBACK_ADVERTISED,
    server_events.HTTP_ADMIN_TOKEN_LOADED,
    server_events.HTTP_ADMIN_TOKEN_LOAD_FAILED,
    MANAGER_LEADS,
    MANAGER_FOLLOWS,
    OFFSETS_LOAD_FAILED,
    OFFSETS_COMPENSATED,
    STORE_PUT_BACK,
    OFFSET_FLUSH_FAILED,
    OFFSET_FLUSH_RECOVERED,
    OFFSET_ROW_UNWRITABLE,
    FOREIGN_KEY_FOUND,
    COMMITS_REFUSED,
    OFFSETS_CHANGED,
    OFFSETS_FROZEN,
    OFFSETS_THAWED,
    LOCK_FORCED,
    ORDERLY_CHANGED,
    LOCK_SESSIONS_EXPIRED,
    JOURNAL_HANDED_OVER,
    JOURNAL_HANDOVER_FAILED,
    STORE_CALLS_FAILING,
    STORE_CALLS_ANSWERED,
    OFFSETS_LEFT_DIRTY,
    *RESTORES,
    *TOPOLOGY,
    *GUARD,
    *HOLDING,
    *MIRROR,
    server_events.BROKER_REQUEST_DENIED,
    server_events.BROKER_REQUEST_NOT_SIGNED,
    server_events.HTTP_REQUEST_REJECTED,
    server_events.HTTP_REQUEST_FAILED,
    server_events.HTTP_ADMIN_DENIED,
    server_events.HTTP_ADMIN_REQUEST_ACCEPTED,
    server_events.FILE_EXPOSED,
    server_events.TOKEN_TRIES_LIMITED,
    server_events.LIBRARY_LOGGED,
)


def as_markdown() -> str:
    """Return the catalogue as the page `docs/offset-manager-logs.md`."""
    return log_page(OFFSET_MANAGER, EVENTS, "controller/offsets/observability/log_events.py")


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
