"""Every metric of an offset manager: its name, type, labels and meaning.

Metrics of any server are in `serving/metrics/families.py`. `docs/offset-manager-metrics.md` is this catalogue as a
page: `python -m controller.offsets.observability.metric_catalogue > docs/offset-manager-metrics.md` writes it, and a
test compares. `metrics.py` reads each.
"""

import sys
from typing import Final

from controller.offsets.config import OFFSET_MANAGER
from serving.metrics.families import FamilyMaker, HttpServerFamilies, MetricFamily, metric_page

_MAKE: Final = FamilyMaker(OFFSET_MANAGER.metric_prefix)

SERVER: Final = HttpServerFamilies(OFFSET_MANAGER)

# Who leads

ROLE: Final = _MAKE.gauge("role", "0 following, 1 loading, 2 leading: only the leader answers.")
LEADER_CHANGES: Final = _MAKE.counter("leader_changes", "Times that this manager began or ceased to lead.")

# Offsets; of a manager that does not lead all gauges are 0

OFFSETS: Final = _MAKE.gauge("offsets", "Stored offsets, one for each queue that a group consumes.")
UNREADABLE_ROWS: Final = _MAKE.gauge(
    "unreadable_rows",
    "Stored rows, of a group in a topic on a broker set, that cannot be read: answered unavailable.",
)
RESULTS: Final = _MAKE.counter("results", "Entries of requests by operation and result.", "operation", "status")
FREEZES: Final = _MAKE.gauge("freezes", "Operations that have frozen offsets.")

# Locks of orderly groups

LOCKS: Final = _MAKE.gauge("locks", "Queues that are locked.")
LOCK_SESSIONS: Final = _MAKE.gauge("lock_sessions", "Open sessions of clients.")
LOCK_RESULTS: Final = _MAKE.counter(
    "lock_results", "Queues that clients wanted or gave up, by result.", "operation", "status"
)
LOCK_SESSIONS_EXPIRED: Final = _MAKE.counter(
    "lock_sessions_expired", "Sessions that ended because their clients did not renew them."
)

# Between the journal and the store

DIRTY_OFFSETS: Final = _MAKE.gauge("dirty_offsets", "Queues whose newest offsets the store does not have yet.")
OLDEST_DIRTY: Final = _MAKE.gauge("oldest_dirty_seconds", "For how long the oldest of them waits; 0 if there is none.")
FLUSHED_OFFSETS: Final = _MAKE.counter("flushed_offsets", "Offsets written to the store.")
FLUSHED_ROWS: Final = _MAKE.counter("flushed_rows", "Rows written to the store.")
FLUSH_DURATION: Final = _MAKE.histogram("flush_duration_seconds", "Duration of writes to the store.")
FLUSH_FAILURES: Final = _MAKE.counter("flush_failures", "Flushes that failed; each is tried again.")
COMMITS_REFUSED: Final = _MAKE.counter(
    "commits_refused", "Requests answered 429 because the store lacks `dirtyKeysMax` queues."
)
COMPENSATED_OFFSETS: Final = _MAKE.counter(
    "compensated_offsets", "Acknowledged offsets that the store got from the journal at the begin of a term."
)
STORE_CALLS: Final = _MAKE.counter("store_calls", "Calls to etcd, by operation and result.", "operation", "result")

# Brokers

FOLLOWED_SETS: Final = _MAKE.gauge(
    "followed_sets", "Broker sets that are followed, by whether they have a master.", "master"
)
MASTERS_KNOWN: Final = _MAKE.gauge(
    "masters_known", "1 while a controller or NameServer has answered lately, 0 while it is not known who is master."
)
MASTER_CHANGES: Final = _MAKE.counter("master_changes", "What happened to masters of broker sets.", "kind")
RESTORED_QUEUES: Final = _MAKE.counter(
    "restored_queues", "Queues that restores, imports and undoes covered at brokers, by result.", "operation", "status"
)
UNSIGNED_REQUESTS: Final = _MAKE.counter(
    "unsigned_requests",
    "Requests that this manager sent unsigned, although it has keys, because `brokerAccessAddresses` does not name the "
    "address.",
)

# The guard

GUARD_RUNS: Final = _MAKE.counter(
    "guard_runs",
    "Runs of the guard at brokers that became master or started again.",
    "cause",
    "result",
)
GUARD_OFFSETS: Final = _MAKE.counter(
    "guard_offsets", "Offsets of groups in queues that the guard has looked at.", "action", "reason", "outcome"
)
GUARD_MEMBER_RESETS: Final = _MAKE.counter(
    "guard_member_resets",
    "Groups whose members were sent back after a lost tail, as they came to the new master.",
    "result",
)
GUARD_SETS: Final = _MAKE.gauge("guard_sets", "Broker sets that the guard is at, or that wait for it.", "state")
GUARD_DURATION: Final = _MAKE.histogram("guard_duration_seconds", "Duration of runs of the guard.")
# Locks at brokers, of groups that are declared orderly

BROKER_LOCKS_HELD: Final = _MAKE.gauge(
    "broker_locks_held", "Queues that clients have locked at brokers, by their last answers."
)
BROKER_LOCK_CLIENTS: Final = _MAKE.gauge(
    "broker_lock_clients", "Clients of orderly groups that are connected to brokers."
)
BROKER_LOCK_OVERLAPS: Final = _MAKE.gauge(
    "broker_lock_overlaps", "Queues that two clients hold at brokers at the same time: pairs of clients."
)
BROKER_LOCK_OVERLAPS_FOUND: Final = _MAKE.counter("broker_lock_overlaps_found", "Overlaps that were found.")
BROKER_LOCK_REPLAYS: Final = _MAKE.counter(
    "broker_lock_replays", "Locks of holders at new masters, by what became of them.", "outcome"
)
BROKER_LOCK_REPLAY_DURATION: Final = _MAKE.histogram(
    "broker_lock_replay_seconds", "Time from a promotion, as it was noticed here, until a lock of a holder was granted."
)
BROKER_LOCKS_RELEASED: Final = _MAKE.counter(
    "broker_locks_released", "Locks that were given up for clients that are lost, or lost the queue after a replay."
)
HOLDER_QUERY_FAILURES: Final = _MAKE.counter(
    "holder_query_failures", "Queries of clients about their queues that were not answered in time, or not readably."
)
HOLDERS_LEFT_OUT: Final = _MAKE.gauge(
    "holders_left_out",
    "What is beyond the limits: `groups` that are declared and not polled; since this manager leads, `members` that "
    "brokers listed and `answers` of clients that found no room.",
    "what",
)

# The mirror of brokers' offsets

MIRRORED_SETS: Final = _MAKE.gauge(
    "mirrored_sets",
    "Broker sets by the state of their mirror: fresh; stale after three periods without a reading, or when none was "
    "read since the start; absent when nobody shows the set any more.",
    "state",
)
MIRROR_AGE: Final = _MAKE.gauge(
    "mirror_age_max_seconds", "How long ago the oldest mirror was read of all that somebody shows."
)
MIRRORED_ENTRIES: Final = _MAKE.gauge("mirrored_entries", "Groups in topics on broker sets that the mirror has.")
MIRROR_POLLS: Final = _MAKE.counter("mirror_polls", "Readings of masters' offsets.", "result")
MIRROR_UNUSABLE_ENTRIES: Final = _MAKE.counter(
    "mirror_unusable_entries", "Entries of brokers that became no offsets of a group in a topic."
)
REGRESSIONS: Final = _MAKE.counter("offset_regressions", "Offsets at brokers that went back, by cause.", "cause")
REGRESSED_MESSAGES: Final = _MAKE.counter(
    "regressed_messages",
    "Messages that groups would read again because their offsets went back, by cause; without those of queues that "
    "lost their offset.",
    "cause",
)
MIRROR_STORES: Final = _MAKE.counter("mirror_stores", "Writes to mirror.db.", "result")
MIRROR_FILE_BYTES: Final = _MAKE.gauge(
    "mirror_file_bytes",
    "What is in use of mirror.db, at most `mirrorBytesMax` and the newest offsets.",
)

FAMILIES: Final[tuple[MetricFamily, ...]] = (
    *SERVER.life,
    ROLE,
    LEADER_CHANGES,
    OFFSETS,
    UNREADABLE_ROWS,
    RESULTS,
    FREEZES,
    LOCKS,
    LOCK_SESSIONS,
    LOCK_RESULTS,
    LOCK_SESSIONS_EXPIRED,
    DIRTY_OFFSETS,
    OLDEST_DIRTY,
    FLUSHED_OFFSETS,
    FLUSHED_ROWS,
    FLUSH_DURATION,
    FLUSH_FAILURES,
    COMMITS_REFUSED,
    COMPENSATED_OFFSETS,
    STORE_CALLS,
    FOLLOWED_SETS,
    MASTERS_KNOWN,
    MASTER_CHANGES,
    RESTORED_QUEUES,
    UNSIGNED_REQUESTS,
    GUARD_RUNS,
    GUARD_OFFSETS,
    GUARD_MEMBER_RESETS,
    GUARD_SETS,
    GUARD_DURATION,
    BROKER_LOCKS_HELD,
    BROKER_LOCK_CLIENTS,
    BROKER_LOCK_OVERLAPS,
    BROKER_LOCK_OVERLAPS_FOUND,
    BROKER_LOCK_REPLAYS,
    BROKER_LOCK_REPLAY_DURATION,
    BROKER_LOCKS_RELEASED,
    HOLDER_QUERY_FAILURES,
    HOLDERS_LEFT_OUT,
    MIRRORED_SETS,
    MIRROR_AGE,
    MIRRORED_ENTRIES,
    MIRROR_POLLS,
    MIRROR_UNUSABLE_ENTRIES,
    REGRESSIONS,
    REGRESSED_MESSAGES,
    MIRROR_STORES,
    MIRROR_FILE_BYTES,
    *SERVER.traffic,
    *SERVER.history,
)

_LABELS: Final = """`operation` of results: commit, seed, reset, undo, clone, delete, fence; `status`: ok, present,
absent, stale, fenced, unknown, refused. Of restored queues: restore, import, undo, and the `status` of the answers. Of
locks: acquire (granted, held_by, frozen, refused) and release (released, not_held, kept). `outcome` of replays:
granted, held_by_another, unanswered, unconfirmed. `master` of sets: yes, no; `kind` of changes: found, gained, moved,
address_changed, restarted, lost, removed. Of guard_runs `cause` is the kind of change, or new_run; `result`: complete;
ended, as the master has changed again, the set was removed or nobody knew who is master; failed, and another one
follows; given_up, and none does; not_decided, as none could begin within ten minutes. `action`, `reason` and `outcome`
of guard_offsets: [offsets](offsets.md#the-guard). `result` of guard_member_resets: sent, refused. `state` of
guard_sets: running, waiting.
`state` of mirrors: fresh, stale, absent; `result`: ok, failed; `cause`: role_change, restart, disk_replaced (nobody
wanted these), operator_reset, guard, guard_or_rewind, rewind, deleted.
Groups, topics and clients are no labels: the API shows them."""


def as_markdown() -> str:
    """Return the catalogue as the page `docs/offset-manager-metrics.md`."""
    return metric_page(OFFSET_MANAGER, FAMILIES, "controller/offsets/observability/metric_catalogue.py", _LABELS)


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
