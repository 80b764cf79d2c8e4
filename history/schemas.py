"""Columns, types and units of everything that is recorded, for writers and readers alike.

Imports nothing but the standard library, so that Spark workers can import it too. A row is flat: it has the columns of
the envelope and those of its family, each of which may be null. It is written as one line of JSON without its nulls.

How it may change, so that old files stay readable and old readers read new files:

- a column may be added, at the end of its family; then `SCHEMA_VERSION` rises, and `CHANGES` says what came,
- no column is renamed, removed, or gets another type or unit; what is no longer written stays null,
- a new value of an enumeration is an addition too; readers pass over rows whose `event_type` they do not know.

Times of day are UTC and for showing. Durations come from the monotonic clock of the server that saw both ends, never
from the difference of two times of day.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from history.columns import Column, RowFamily, Type
from history.offset_families import LOCK_EVENT, OFFSET_CHANGE_BY_OPERATOR, OFFSET_JUMP, OFFSET_REPAIR

SCHEMA_VERSION: Final = 8

#: Version -> what came with it.
CHANGES: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "the first",
        2: "controller.timeout_ms; route_change has event type `snapshot` for what did not change; "
        "route_snapshot.rows counts rows, which were topics before",
        3: "ns_tick.not_found_total",
        4: "scaling is written, with the columns from `kind` on, and without the event type `step_done`, which nobody "
        "wrote; scaling_decision",
        5: "controller.former_addr; controller has event types `master_changed`, `master_serves` and `hold_ended`",
        6: "role_address",
        7: "offset_regression, offset_change_by_operator, guard_outcome, lock_event; `source` offset-manager",
        8: "offset_jump and offset_repair, in place of offset_regression and guard_outcome of a preview; lock_event "
        "without the event types and columns of lock sessions",
    }
)


#: Upper edges of the bins of `heartbeat_summary.hist`, as multiples of the period; the last bin has no edge.
INTERVAL_BINS: Final = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)

HEARTBEAT: Final = RowFamily(
    "heartbeat",
    (
        Column("kind", Type.STRING, "register, heartbeat, data_version (to a NameServer), or controller"),
        Column("interval_ms", Type.LONG, "ms since the heartbeat before; null at the first one"),
        Column(
            "period_ms", Type.LONG, "usual ms between its heartbeats: the median of the last ones; null while unknown"
        ),
        Column("timeout_ms", Type.LONG, "ms without a heartbeat after which the broker expires"),
        Column("dv_counter", Type.LONG, "counter of the reported data version; null if the heartbeat has none"),
        Column("dv_timestamp", Type.LONG, "Unix ms of that data version"),
        Column("dv_state_version", Type.LONG, "state version of that data version"),
        Column("max_offset", Type.LONG, "end of the broker's log in bytes, if the heartbeat has it (controller)"),
        Column("epoch", Type.LONG, "master epoch of the end of its log, if the heartbeat has it (controller)"),
    ),
    MappingProxyType(
        {
            "heartbeat": "a heartbeat of a broker whose period is 10 s or longer, or unknown",
            "gap": "a heartbeat later than 1.5 periods, of a broker whose heartbeats are summarised",
        }
    ),
)

HEARTBEAT_SUMMARY: Final = RowFamily(
    "heartbeat_summary",
    (
        Column("minute", Type.TIMESTAMP, "the minute, by its beginning"),
        Column("kind", Type.STRING, "as of a heartbeat; the most frequent one of the minute"),
        Column("period_ms", Type.LONG, "usual ms between heartbeats"),
        Column("timeout_ms", Type.LONG, "ms without a heartbeat after which the broker expires"),
        Column("n", Type.LONG, "intervals that ended in the minute, those written as gaps too"),
        Column("missed", Type.LONG, "heartbeats that did not arrive: sum of max(0, round(interval / period) - 1)"),
        Column("late", Type.LONG, "intervals longer than 1.5 periods"),
        Column("interval_min_ms", Type.LONG, "shortest interval"),
        Column("interval_max_ms", Type.LONG, "longest interval"),
        Column("interval_sum_ms", Type.LONG, "sum of the intervals"),
        Column("interval_sumsq_ms2", Type.LONG, "sum of their squares"),
        Column("hist", Type.LONGS, "intervals by length, in the 16 bins of INTERVAL_BINS"),
    ),
    MappingProxyType({"summary": "the heartbeats of one broker in one minute, if its period is shorter than 10 s"}),
)

BROKER_STATE: Final = RowFamily(
    "broker_state",
    (
        Column("reason", Type.STRING, "in a word, where the event type leaves it open"),
        Column("last_heartbeat_time", Type.TIMESTAMP, "when the last heartbeat arrived"),
        Column("silent_ms", Type.LONG, "ms since then"),
        Column("timeout_ms", Type.LONG, "ms without a heartbeat after which it expires"),
        Column("topics", Type.LONG, "topics that it reported"),
        Column("topics_added", Type.LONG, "topics that it added to the routes"),
        Column("topics_removed", Type.LONG, "topics that it removed from them"),
        Column("topics_changed", Type.LONG, "topics with other queues or permissions"),
        Column("dv_counter", Type.LONG, "counter of its data version"),
        Column("dv_timestamp", Type.LONG, "Unix ms of its data version"),
        Column("dv_state_version", Type.LONG, "state version of its data version"),
        Column("role", Type.STRING, "master or slave"),
        Column("former_addr", Type.STRING, "former address of its broker id, or of the broker"),
        Column("set_ids", Type.LONGS, "broker ids of its set from now on; empty if the set was removed"),
        Column("set_addrs", Type.STRINGS, "their addresses, in the same order"),
        Column("set_clusters", Type.STRINGS, "their clusters, in the same order"),
        Column("set_cluster", Type.STRING, "the cluster that the set counts for"),
        Column("zone_name", Type.STRING, "zone of the set from now on"),
        Column("enable_acting_master", Type.BOOLEAN, "the set lets a slave act for the master"),
        Column("filter_servers", Type.STRINGS, "filter servers of the broker"),
    ),
    MappingProxyType(
        {
            "registered_first": "an unknown broker registered",
            "changed": "a registered one has other topics, or its set other members",
            "address_changed": "a broker id has another address from now on",
            "role_changed": "an address has another broker id from now on",
            "unregistered": "it unregistered: a planned stop",
            "expired": "no heartbeat arrived within its timeout",
            "channel_closed": "its connection ended",
            "conflict": "its registration was refused or removed: another broker has its broker id, and a newer state",
            "perm_wiped": "an operator removed the write permission of all its topics, or restored it",
            "snapshot": "the state of the set, as part of a snapshot; nothing changed",
        }
    ),
)

#: So many changed topics of one cause get a row each; more of them get one summary and rows of `route_snapshot`.
ROUTE_CHANGE_ROWS_MAX: Final = 1000

ROUTE_CHANGE: Final = RowFamily(
    "route_change",
    (
        Column("topic", Type.STRING, "the topic; null in a summary"),
        Column("kind", Type.STRING, "what changed of it: added, removed, queues, perm, mapping or order"),
        Column("old_read", Type.LONG, "read queues before; null if the topic is new"),
        Column("old_write", Type.LONG, "write queues before"),
        Column("old_perm", Type.LONG, "permission bits before: 4 read, 2 write"),
        Column("new_read", Type.LONG, "read queues from now on; null if the topic was removed"),
        Column("new_write", Type.LONG, "write queues from now on"),
        Column("new_perm", Type.LONG, "permission bits from now on"),
        Column("topic_sys_flag", Type.LONG, "system flag from now on"),
        Column("detail", Type.STRING, "JSON of a static topic's mapping, or the order configuration, from now on"),
        Column("cause_event_id", Type.STRING, "the event that brought it; null if an operator's command did"),
        Column("changes", Type.LONG, "in a summary: how many topics changed"),
    ),
    MappingProxyType(
        {
            "topic_changed": "one topic on one broker set",
            "snapshot": "a mapping or an order configuration, at a start or in a snapshot; nothing changed",
            "summary": "more topics of one set than get a row each; route_snapshot has them by the same cause_event_id",
        }
    ),
)

ROUTE_SNAPSHOT: Final = RowFamily(
    "route_snapshot",
    (
        Column("snapshot_id", Type.STRING, "the snapshot; rows of an unfinished one count for nothing"),
        Column("scope", Type.STRING, "all: all routes; change: the topics of one summary, as they are from now on"),
        Column("broker_names", Type.STRINGS, "the sets that the row is about"),
        Column("topics", Type.STRINGS, "the topics that it is about, on each of these sets; at most 1,000"),
        Column("read", Type.LONG, "read queues; null where the topics were removed (scope change)"),
        Column("write", Type.LONG, "write queues"),
        Column("perm", Type.LONG, "permission bits"),
        Column("topic_sys_flag", Type.LONG, "system flag"),
        Column("cause_event_id", Type.STRING, "scope change: the event that brought it"),
        Column("rows", Type.LONG, "in `finished`: how many rows the snapshot has; before version 2: topics"),
    ),
    MappingProxyType(
        {"queues": "topics that are alike on sets that are alike", "finished": "the snapshot of scope all is complete"}
    ),
)

ROLE_ADDRESS: Final = RowFamily(
    "role_address",
    (
        Column("role_address", Type.STRING, "host:port that clients get for the master of the set"),
        Column("is_checked", Type.BOOLEAN, "the NameServer connects to it; `leads` is recorded of no other one"),
        Column("former_addr", Type.STRING, "leads: host:port of the master before; null if the process knew none"),
    ),
    MappingProxyType(
        {
            "given": "clients get it from now on, or still do: repeated at each start and with each snapshot",
            "leads": "a new connection to it reached the registered master, for the first time since that registered",
            "withdrawn": "clients do not get it any more",
        }
    ),
)

CONTROLLER: Final = RowFamily(
    "controller",
    (
        Column("failover_id", Type.STRING, "<cluster>/<broker set>/<master epoch> of the new master"),
        Column("master_epoch", Type.LONG, "master epoch"),
        Column("sync_state_set_epoch", Type.LONG, "SyncStateSet epoch"),
        Column("sync_state_set", Type.LONGS, "who is in sync"),
        Column("old_master", Type.LONG, "broker id of the master before; null if there was none"),
        Column("new_master", Type.LONG, "broker id of the elected; null if none was"),
        Column("reason", Type.STRING, "why, in a sentence"),
        Column("cause", Type.STRING, "in a word: what started the election, or the evidence of the broker's failure"),
        Column("result", Type.STRING, "new_master_elected, keep_current_master, no_master_elected; ok or failed"),
        Column("last_heartbeat_time", Type.TIMESTAMP, "when the last heartbeat arrived"),
        Column("silent_ms", Type.LONG, "ms since then"),
        Column("duration_ms", Type.LONG, "ms that the phase took"),
        Column("bytes_at_stake", Type.LONG, "bytes of messages that the elected master may lack"),
        Column("timeout_ms", Type.LONG, "ms without a heartbeat after which a broker counts as failed", since=2),
        Column("former_addr", Type.STRING, "host:port of the master before; null if there was none", since=5),
    ),
    MappingProxyType(
        {
            "failure_detected": "the controller declared a broker failed",
            "election_started": "the set needs a master",
            "elected": "an election ended, with or without a master",
            "sync_set_changed": "the master altered the SyncStateSet",
            "role_notified": "a broker confirmed its role, or did not",
            "registered": "a broker started and registered its address with the controller",
            "master_changed": "another master of the set was stored, or none, or another address of it; role addresses "
            "and callbacks follow",
            "master_serves": "the new master has changed its role and accepts messages, `duration_ms` after that",
            "hold_ended": "a switchover held clients back from the set for `duration_ms`, and does so no more",
        }
    ),
)

SCALING: Final = RowFamily(
    "scaling",
    (
        Column("operation_id", Type.STRING, "the operation"),
        Column("topic", Type.STRING, "the topic"),
        Column("step", Type.STRING, "the phase that it is in from now on: docs/protocol/queue-scaling.md 9"),
        Column("from_read", Type.LONG, "read queues before, of all sets"),
        Column("from_write", Type.LONG, "write queues before, of all sets"),
        Column("to_read", Type.LONG, "read queues wanted, of all sets"),
        Column("to_write", Type.LONG, "write queues wanted, of all sets"),
        Column("reason", Type.STRING, "why it was wanted"),
        Column("kind", Type.STRING, "grow, shrink, ordered or gated; an undone grow is a shrink from then on", since=4),
        Column("former_step", Type.STRING, "the phase that has ended; null in `plan`", since=4),
        Column(
            "duration_ms", Type.LONG, "ms that it took, by the wall clocks of the controllers that led then", since=4
        ),
        Column(
            "waited_ms",
            Type.LONG,
            "ms of these in which no answer was missing, as stored with the operation: each minute",
            since=4,
        ),
        Column("evidence", Type.STRINGS, "what ended it, in sentences: 20 of 500 characters at most", since=4),
        Column("problem", Type.STRING, "why it is blocked, in conflict, rejected or undone", since=4),
        Column("requested_by", Type.STRING, "who wanted it", since=4),
        Column("reopened", Type.LONG, "how often dropped queues were opened again so far", since=4),
        Column("created_time", Type.TIMESTAMP, "when the operation was stored first", since=4),
        Column("broker_names", Type.STRINGS, "the sets that it changes", since=4),
        Column("set_clusters", Type.STRINGS, "their clusters, in the same order", since=4),
        Column("set_reads", Type.LONGS, "their read queues before, in the same order", since=4),
        Column("set_writes", Type.LONGS, "their write queues before, in the same order", since=4),
        Column("set_targets", Type.LONGS, "read and write queues wanted on each, in the same order", since=4),
    ),
    MappingProxyType(
        {
            "plan": "an operation was stored: its plan has no problem",
            "step_started": "it entered a phase",
            "verified": "it is done: brokers and routes show the goal",
            "rolled_back": "it was aborted and undone",
            "rejected": "it was not begun: its check before the start found a problem",
        }
    ),
)

SCALING_DECISION: Final = RowFamily(
    "scaling_decision",
    (
        Column("topic", Type.STRING, "the topic"),
        Column("policy", Type.STRING, "the topic or pattern of the policy that holds for it"),
        Column("mode", Type.STRING, "who decides on a resize: propose, approve or auto"),
        Column("queues", Type.LONG, "queues on each set; null where a set did not answer"),
        Column("target", Type.LONG, "queues wanted on each set; null: nothing is to change"),
        Column("finding", Type.STRING, "what was found, the kind that comes first; null: nothing was"),
        Column("subject", Type.STRING, "the group, or the broker set, that it is about; null: the topic"),
        Column("findings", Type.STRINGS, "the kinds of all that was found"),
        Column("reason", Type.STRING, "why, in a sentence with the numbers"),
        Column("sets", Type.LONG, "broker sets that have the topic"),
        Column("tps", Type.DOUBLE, "messages that come in a second; null if that of a queue is unknown"),
        Column("lag", Type.LONG, "messages not consumed by the group that is most behind; null if unknown"),
        Column("consumers", Type.LONG, "clients of the largest group; null if unknown"),
        Column("operation_id", Type.STRING, "resized: the operation"),
    ),
    MappingProxyType(
        {
            "kept": "nothing is to change",
            "proposed": "another count is proposed, and waits for an operator",
            "approved": "an operator approved a proposal",
            "dismissed": "an operator dismissed a proposal",
            "resized": "a resize was started",
            "refused": "a resize could not be started",
        }
    ),
)

OFFSET_SAMPLE: Final = RowFamily(
    "offset_sample",
    (
        Column("topic", Type.STRING, "the topic"),
        Column("group", Type.STRING, "the consumer group; null in rows about the topic alone"),
        Column("max_offset", Type.LONG, "sum of the ends of its queues, in messages"),
        Column("consumer_offset", Type.LONG, "sum of the group's offsets in them"),
        Column("consumers", Type.LONG, "members of the group that are connected"),
        Column("tps", Type.DOUBLE, "messages that came in a second, since the sample before"),
    ),
    MappingProxyType({"sample": "the offsets of a topic, or of a group on it, at that minute"}),
)

NS_LIFECYCLE: Final = RowFamily(
    "ns_lifecycle",
    (
        Column("reason", Type.STRING, "why"),
        Column("version", Type.STRING, "release that runs"),
        Column("address", Type.STRING, "host:port it serves at"),
        Column("former_boot_id", Type.STRING, "started: the process before, as far as its files are here"),
        Column("unobserved_from", Type.TIMESTAMP, "nothing was recorded from then on, up to this event"),
        Column("dropped", Type.LONG, "events that were lost with it; null if unknown"),
        Column(
            "detail",
            Type.STRING,
            "JSON of the properties that routes depend on (started, configured), or of a clock that was set",
        ),
    ),
    MappingProxyType(
        {
            "started": "a process began to record",
            "ready": "it serves",
            "stopping": "it stops, as requested",
            "configured": "a property that routes depend on was changed",
            "cold_start_began": "clients get brokers that peers know and that have not registered here (NameServer)",
            "cold_start_ended": "clients get registered brokers alone (NameServer)",
            "etcd_lost": "the store does not answer (controller)",
            "etcd_restored": "the store answers again (controller)",
            "leader_gained": "it leads the controllers from now on (controller)",
            "leader_lost": "it no longer leads (controller)",
            "clock_set": "its wall clock was set, found at this moment; two rows, by the time before and after",
            "recording_resumed": "recording had stopped, or dropped events; since `unobserved_from` nothing is certain",
        }
    ),
)

NS_TICK: Final = RowFamily(
    "ns_tick",
    (
        Column("brokers", Type.LONG, "registered brokers"),
        Column("topics", Type.LONG, "topics"),
        Column("queues", Type.LONG, "read queues"),
        Column("resident_memory_bytes", Type.LONG, "resident memory of the process; the routes are most of it"),
        Column("connections", Type.LONG, "connections"),
        Column("loop_lag_ms", Type.DOUBLE, "the longest delay of the event loop since the tick before"),
        Column("etcd_db_bytes", Type.LONG, "size of the store (controller)"),
        Column("requests_rejected", Type.LONG, "requests rejected since the tick before"),
        Column("interval_ms", Type.LONG, "ms since the tick before: the server was watching all that time"),
        Column(
            "not_found_total",
            Type.LONG,
            "route queries that this process has answered with `no such topic` since its start (NameServer)",
            since=3,
        ),
    ),
    MappingProxyType({"tick": "each 10 s: the server was watching; time without ticks is unobserved"}),
)

#: How often a server writes a tick.
TICK_INTERVAL_MS: Final = 10_000

#: A pause between two ticks that is longer was not observed.
UNOBSERVED_AFTER_MS: Final = 25_000

FAMILIES: Final[Mapping[str, RowFamily]] = MappingProxyType(
    {
        family.name: family
        for family in (
            HEARTBEAT,
            HEARTBEAT_SUMMARY,
            BROKER_STATE,
            ROUTE_CHANGE,
            ROUTE_SNAPSHOT,
            ROLE_ADDRESS,
            CONTROLLER,
            SCALING,
            SCALING_DECISION,
            OFFSET_SAMPLE,
            OFFSET_JUMP,
            OFFSET_CHANGE_BY_OPERATOR,
            OFFSET_REPAIR,
            LOCK_EVENT,
            NS_LIFECYCLE,
            NS_TICK,
        )
    }
)

#: Families of heartbeats: most of all rows, and no route depends on them.
HEARTBEAT_FAMILIES: Final = frozenset({HEARTBEAT.name, HEARTBEAT_SUMMARY.name})

#: Families whose files are written compressed: long rows that repeat much.
COMPRESSED: Final = frozenset({ROUTE_SNAPSHOT.name})
