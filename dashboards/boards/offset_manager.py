"""For operators: who leads, are brokers read, what is to be repaired, and is anything late, refused or in doubt."""

from typing import Final

from dashboards.boards import server_rows
from dashboards.boards.shared import FAILOVERS, MANAGER, PLANE, grown_of_each, now_of_each, of_each
from dashboards.grafana import Board, Word, bad_above, good_from, lines, row, states, worse_above
from dashboards.promql import BY_INSTANCE, quantiles, rate

_PREFIX: Final = "rocketmq_offset_manager_"
_ROLES: Final = (Word(0, "following", "blue"), Word(1, "loading", "orange"), Word(2, "leading", "green"))

_WHO: Final = row(
    "Who leads, and whom it follows",
    states(
        "Role of each manager",
        "One leads and answers; the others send clients to it. loading for longer than seconds: the store does not "
        "answer.",
        now_of_each(f"{_PREFIX}role"),
        words=_ROLES,
        width=12,
    ),
    lines(
        "Changes of the leader",
        "Times that a manager began or ceased to lead. A restart makes one.",
        grown_of_each(f"{_PREFIX}leader_changes_total"),
        limits=worse_above(2, 5),
        width=12,
    ),
    states(
        "Masters are known",
        "1 while controllers or NameServers answer. At 0 nothing is written to brokers. Always 0 where neither "
        "controllers nor NameServers are configured.",
        now_of_each(f"{_PREFIX}masters_known"),
        limits=good_from(1),
    ),
    lines(
        "Broker sets that are followed",
        "By whether they have a master.",
        now_of_each(f"{_PREFIX}followed_sets", "master"),
    ),
    lines(
        "Changes of masters",
        "As each manager saw them, by kind.",
        grown_of_each(f"{_PREFIX}master_changes_total", "kind"),
    ),
)

_READINGS: Final = row(
    "Offsets at brokers",
    lines(
        "Read broker sets",
        "fresh: read within three periods. stale: it has a master, and no such reading; after a failover now its "
        "groups read again more than a period.",
        now_of_each(f"{_PREFIX}readings_sets").named("fresh"),
        now_of_each(f"{_PREFIX}readings_stale_sets").named("stale"),
    ),
    lines(
        "Readings of masters",
        "By result, a second. One for each set and period is usual.",
        of_each(f"{_PREFIX}readings_total", "result"),
    ),
    lines(
        "Replicas that copy no offsets",
        "Those of 5.5.0: after their promotion groups read all again that they have. Update them to 5.5.1. `rmq "
        "offsets status` names them.",
        now_of_each(f"{_PREFIX}readings_replicas_without_copies"),
        limits=bad_above(1),
    ),
    lines(
        "Queues whose offsets jumped",
        "Back, or further forward than a group reads, by cause. failover, restart and lost: nobody has wanted it. "
        "`rmq offsets jumps` names the groups.",
        grown_of_each(f"{_PREFIX}offset_jumps_total", "cause"),
    ),
    lines(
        "Messages that jumps cost",
        "By cause, at most: read again, and passed unread.",
        *(
            grown_of_each(f"{_PREFIX}jump_messages_{words}_total", "cause").named(words)
            for words in ("again", "skipped")
        ),
    ),
    lines(
        "Size of all readings on disk",
        "At readingsBytesMax the oldest are deleted.",
        now_of_each(f"{_PREFIX}readings_file_bytes"),
    ),
)

_REPAIRS: Final = row(
    "Repairs and restores",
    lines(
        "Offsets to repair",
        "What `rmq offsets repair RUN` would write, by the newest run of each broker set, and the sets that it is "
        "about.",
        now_of_each(f"{_PREFIX}offsets_to_repair").named("offsets"),
        now_of_each(f"{_PREFIX}sets_to_repair").named("sets"),
        limits=bad_above(1),
    ),
    lines(
        "Repaired offsets",
        "By outcome. pushed and set back were written; not proved and failed: `rmq offsets repairs RUN` says why.",
        grown_of_each(f"{_PREFIX}repaired_offsets_total", "outcome"),
    ),
    lines(
        "Runs of repairs",
        "By result, and those under way. incomplete: nothing, or not all, was decided.",
        grown_of_each(f"{_PREFIX}repair_runs_total", "result"),
        now_of_each(f"{_PREFIX}repairs_running").named("running"),
    ),
    lines(
        "Messages of repairs that were only reported",
        "Read again, and those that groups may skip as the end of a log is lost.",
        grown_of_each(f"{_PREFIX}messages_read_again_total").named("read again"),
        grown_of_each(f"{_PREFIX}messages_behind_lost_total").named("may be skipped"),
        limits=bad_above(1),
    ),
    lines(
        "Seconds to the first write",
        "From the notice of a promotion, all runs together.",
        grown_of_each(f"{_PREFIX}repair_first_write_seconds_sum"),
    ),
    lines(
        "Restored offsets",
        "Restores, imports and undoes of operators, by status.",
        grown_of_each(f"{_PREFIX}restored_offsets_total", "status"),
    ),
)

_ORDER: Final = row(
    "Orderly groups",
    lines(
        "Two holders of one queue",
        "Pairs of clients that hold one queue at a time: its messages are consumed out of order. Now, and those that "
        "were found.",
        now_of_each(f"{_PREFIX}broker_lock_overlaps").named("now"),
        grown_of_each(f"{_PREFIX}broker_lock_overlaps_found_total").named("found"),
        limits=bad_above(1),
    ),
    lines(
        "Holders",
        "Clients of orderly groups, the queues that they hold, and what found no room.",
        now_of_each(f"{_PREFIX}broker_lock_clients").named("clients"),
        now_of_each(f"{_PREFIX}broker_locks_held").named("held queues"),
        now_of_each(f"{_PREFIX}holders_left_out").named("left out"),
    ),
    lines(
        "Replayed and released locks",
        "Locks of holders at new masters by outcome, the seconds until they were granted, locks given up, and clients "
        "that did not answer.",
        grown_of_each(f"{_PREFIX}broker_lock_replays_total", "outcome"),
        grown_of_each(f"{_PREFIX}broker_lock_replay_seconds_sum").named("seconds"),
        grown_of_each(f"{_PREFIX}broker_locks_released_total").named("released"),
        grown_of_each(f"{_PREFIX}holder_query_failures_total").named("without an answer"),
    ),
)

_COMMITS: Final = row(
    "Offsets that clients commit here",
    lines(
        "Stored offsets",
        "One for each queue that a group consumes; at offsetsMax further ones are refused.",
        now_of_each(f"{_PREFIX}offsets"),
    ),
    lines(
        "Entries by result",
        "Of commits and of what operators do. stale is usual after a reset; refused entries can never be stored.",
        of_each(f"{_PREFIX}results_total", "operation", "status"),
    ),
    lines(
        "Refused, unreadable or lost",
        "Commits that were answered 429 because etcd lags, a second; stored rows that cannot be read, whose queues "
        "are unavailable until an operator restores or deletes them; and transactions behind a damaged part of the "
        "local file, since the start: their groups go on at older offsets (commits_lost).",
        rate(f"{_PREFIX}commits_refused_total", BY_INSTANCE, by="instance").named("refused"),
        now_of_each(f"{_PREFIX}unreadable_rows").named("unreadable rows"),
        now_of_each(f"{_PREFIX}lost_commits_total").named("lost transactions"),
        unit="short",
        limits=bad_above(0.001),
    ),
)

_STORE: Final = row(
    "Between the local file and etcd",
    lines(
        "Queues that etcd lacks",
        "Acknowledged offsets that only the local file has. At dirtyKeysMax commits are refused.",
        now_of_each(f"{_PREFIX}dirty_offsets"),
        limits=worse_above(50_000, 150_000),
    ),
    lines(
        "Age of the oldest of them",
        "Usually below a second. If it grows, etcd does not take what is flushed.",
        now_of_each(f"{_PREFIX}oldest_dirty_seconds"),
        limits=worse_above(5, 30),
    ),
    lines(
        "Duration of writes to etcd",
        "p50 and p99.",
        *quantiles(f"{_PREFIX}flush_duration_seconds", BY_INSTANCE, 0.5, 0.99, by="instance"),
        limits=worse_above(0.25, 1),
    ),
    lines(
        "Flushed",
        "Offsets and rows that etcd got. Many offsets of one row are one write.",
        of_each(f"{_PREFIX}flushed_offsets_total").named("offsets"),
        of_each(f"{_PREFIX}flushed_rows_total").named("rows"),
    ),
    lines(
        "Failed flushes, and offsets from the local file",
        "Each flush that failed is tried again. At a start etcd gets what only the local file has: offsets that would "
        "have been lost otherwise.",
        grown_of_each(f"{_PREFIX}flush_failures_total").named("failed"),
        grown_of_each(f"{_PREFIX}compensated_offsets_total").named("from the local file"),
    ),
    lines(
        "Calls to etcd",
        "By operation and result. All of this row is empty with the embedded store.",
        of_each(f"{_PREFIX}store_calls_total", "operation", "result"),
    ),
)

BOARD: Final = Board(
    uid="rmq-offset-manager",
    title="RocketMQ / Offset manager",
    question="Are the offsets of groups safe, and did any jump?",
    when_red="`rmq offsets status` says what jumped, and the one command that repairs it: docs/offset-repairs.md. No "
    "leader: check etcd first; do not delete storePath, which has acknowledged commits. Pages: `OffsetsToRepair`, "
    "`OffsetRepairIncomplete`, `OffsetsBehindLostLog`, `OffsetReadingsStale`, `OrderedQueueHeldTwice`, "
    "`OffsetManagerNoLeader`, `OffsetFlushFailing`, `OffsetStoreBehind`, `OffsetRowsUnreadable`.",
    variables=(PLANE, MANAGER),
    annotations=(FAILOVERS,),
    rows=(
        _WHO,
        _READINGS,
        _REPAIRS,
        _ORDER,
        _COMMITS,
        _STORE,
        server_rows.http_process(_PREFIX),
        server_rows.history(),
    ),
)
