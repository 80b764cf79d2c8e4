"""For operators: who leads, are brokers read, what is to be repaired, and is anything late, refused or in doubt."""

from typing import Final

from dashboards.boards import history_row, server_rows
from dashboards.boards.shared import FAILOVERS, MANAGER, PLANE, grown_of_each, now_of_each, of_each, quantile_of_each
from dashboards.panels import Board, Kind, Panel, Query, Row, Word, bad_above, good_from, worse_above
from dashboards.promql import BY_INSTANCE, rate

_PREFIX: Final = "rocketmq_offset_manager_"
_ROLES: Final = (Word(0, "following", "blue"), Word(1, "loading", "orange"), Word(2, "leading", "green"))


def _named(query: Query, words: str) -> Query:
    """Return a query whose legend is the instance with some words."""
    return Query(query.expr, f"{{{{instance}}}} {words}")


_WHO: Final = Row(
    "Who leads, and whom it follows",
    (
        Panel(
            kind=Kind.STATES,
            title="Role of each manager",
            description="One leads and answers; the others send clients to it. loading for longer than seconds: the "
            "store does not answer.",
            words=_ROLES,
            queries=(now_of_each(f"{_PREFIX}role"),),
            width=12,
        ),
        Panel(
            kind=Kind.LINES,
            title="Changes of the leader",
            description="Times that a manager began or ceased to lead. A restart makes one.",
            limits=worse_above(2, 5),
            queries=(grown_of_each(f"{_PREFIX}leader_changes_total"),),
            width=12,
        ),
        Panel(
            kind=Kind.STATES,
            title="Masters are known",
            description="1 while controllers or NameServers answer. At 0 nothing is written to brokers. Always 0 where "
            "neither controllers nor NameServers are configured.",
            limits=good_from(1),
            queries=(now_of_each(f"{_PREFIX}masters_known"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Broker sets that are followed",
            description="By whether they have a master.",
            queries=(now_of_each(f"{_PREFIX}followed_sets", "master"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Changes of masters",
            description="As each manager saw them, by kind.",
            queries=(grown_of_each(f"{_PREFIX}master_changes_total", "kind"),),
        ),
    ),
)

_READINGS: Final = Row(
    "Offsets at brokers",
    (
        Panel(
            kind=Kind.LINES,
            title="Read broker sets",
            description="fresh: read within three periods. stale: it has a master, and no such reading; after a "
            "failover now its groups read again more than a period.",
            queries=(
                _named(now_of_each(f"{_PREFIX}readings_sets"), "fresh"),
                _named(now_of_each(f"{_PREFIX}readings_stale_sets"), "stale"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Readings of masters",
            description="By result, a second. One for each set and period is usual.",
            unit="ops",
            queries=(of_each(f"{_PREFIX}readings_total", "result"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Replicas that copy no offsets",
            description="Those of 5.5.0: after their promotion groups read all again that they have. Update them to "
            "5.5.1. `rmq offsets status` names them.",
            limits=bad_above(1),
            queries=(now_of_each(f"{_PREFIX}readings_replicas_without_copies"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Queues whose offsets jumped",
            description="Back, or further forward than a group reads, by cause. failover, restart and lost: nobody has "
            "wanted it. `rmq offsets jumps` names the groups.",
            queries=(grown_of_each(f"{_PREFIX}offset_jumps_total", "cause"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Messages that jumps cost",
            description="By cause, at most: read again, and passed unread.",
            queries=tuple(
                _named(grown_of_each(f"{_PREFIX}jump_messages_{words}_total", "cause"), f"{{{{cause}}}} {words}")
                for words in ("again", "skipped")
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Size of all readings on disk",
            description="At readingsBytesMax the oldest are deleted.",
            unit="bytes",
            queries=(now_of_each(f"{_PREFIX}readings_file_bytes"),),
        ),
    ),
)

_REPAIRS: Final = Row(
    "Repairs and restores",
    (
        Panel(
            kind=Kind.LINES,
            title="Offsets to repair",
            description="What `rmq offsets repair RUN` would write, by the newest run of each broker set, and the sets "
            "that it is about.",
            limits=bad_above(1),
            queries=(
                _named(now_of_each(f"{_PREFIX}offsets_to_repair"), "offsets"),
                _named(now_of_each(f"{_PREFIX}sets_to_repair"), "sets"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Repaired offsets",
            description="By outcome. pushed and set back were written; not proved and failed: `rmq offsets repairs "
            "RUN` says why.",
            queries=(grown_of_each(f"{_PREFIX}repaired_offsets_total", "outcome"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Runs of repairs",
            description="By result, and those under way. incomplete: nothing, or not all, was decided.",
            queries=(
                grown_of_each(f"{_PREFIX}repair_runs_total", "result"),
                _named(now_of_each(f"{_PREFIX}repairs_running"), "running"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Messages of repairs that were only reported",
            description="Read again, and those that groups may skip as the end of a log is lost.",
            limits=bad_above(1),
            queries=(
                _named(grown_of_each(f"{_PREFIX}messages_read_again_total"), "read again"),
                _named(grown_of_each(f"{_PREFIX}messages_behind_lost_total"), "may be skipped"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Seconds to the first write",
            description="From the notice of a promotion, all runs together.",
            unit="s",
            queries=(grown_of_each(f"{_PREFIX}repair_first_write_seconds_sum"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Restored offsets",
            description="Restores, imports and undoes of operators, by status.",
            queries=(grown_of_each(f"{_PREFIX}restored_offsets_total", "status"),),
        ),
    ),
)

_ORDER: Final = Row(
    "Orderly groups",
    (
        Panel(
            kind=Kind.LINES,
            title="Two holders of one queue",
            description="Pairs of clients that hold one queue at a time: its messages are consumed out of order. Now, "
            "and those that were found.",
            limits=bad_above(1),
            queries=(
                _named(now_of_each(f"{_PREFIX}broker_lock_overlaps"), "now"),
                _named(grown_of_each(f"{_PREFIX}broker_lock_overlaps_found_total"), "found"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Holders",
            description="Clients of orderly groups, the queues that they hold, and what found no room.",
            queries=(
                _named(now_of_each(f"{_PREFIX}broker_lock_clients"), "clients"),
                _named(now_of_each(f"{_PREFIX}broker_locks_held"), "held queues"),
                _named(now_of_each(f"{_PREFIX}holders_left_out"), "left out"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Replayed and released locks",
            description="Locks of holders at new masters by outcome, the seconds until they were granted, locks given "
            "up, and clients that did not answer.",
            queries=(
                grown_of_each(f"{_PREFIX}broker_lock_replays_total", "outcome"),
                _named(grown_of_each(f"{_PREFIX}broker_lock_replay_seconds_sum"), "seconds"),
                _named(grown_of_each(f"{_PREFIX}broker_locks_released_total"), "released"),
                _named(grown_of_each(f"{_PREFIX}holder_query_failures_total"), "without an answer"),
            ),
        ),
    ),
)

_COMMITS: Final = Row(
    "Offsets that clients commit here",
    (
        Panel(
            kind=Kind.LINES,
            title="Stored offsets",
            description="One for each queue that a group consumes; at offsetsMax further ones are refused.",
            queries=(now_of_each(f"{_PREFIX}offsets"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Entries by result",
            description="Of commits and of what operators do. stale is usual after a reset; refused entries can never "
            "be stored.",
            unit="ops",
            queries=(of_each(f"{_PREFIX}results_total", "operation", "status"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Refused, unreadable or lost",
            description="Commits that were answered 429 because etcd lags, a second; stored rows that cannot be "
            "read, whose queues are unavailable until an operator restores or deletes them; and transactions behind a "
            "damaged part of the local file, since the start: their groups go on at older offsets (commits_lost).",
            limits=bad_above(0.001),
            queries=(
                Query(rate(f"{_PREFIX}commits_refused_total", BY_INSTANCE, by="instance"), "{{instance}} refused"),
                _named(now_of_each(f"{_PREFIX}unreadable_rows"), "unreadable rows"),
                _named(now_of_each(f"{_PREFIX}lost_commits_total"), "lost transactions"),
            ),
        ),
    ),
)

_STORE: Final = Row(
    "Between the local file and etcd",
    (
        Panel(
            kind=Kind.LINES,
            title="Queues that etcd lacks",
            description="Acknowledged offsets that only the local file has. At dirtyKeysMax commits are refused.",
            limits=worse_above(50_000, 150_000),
            queries=(now_of_each(f"{_PREFIX}dirty_offsets"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Age of the oldest of them",
            description="Usually below a second. If it grows, etcd does not take what is flushed.",
            unit="s",
            limits=worse_above(5, 30),
            queries=(now_of_each(f"{_PREFIX}oldest_dirty_seconds"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Duration of writes to etcd",
            description="p50 and p99.",
            unit="s",
            limits=worse_above(0.25, 1),
            queries=(
                quantile_of_each(0.5, f"{_PREFIX}flush_duration_seconds", "p50"),
                quantile_of_each(0.99, f"{_PREFIX}flush_duration_seconds", "p99"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Flushed",
            description="Offsets and rows that etcd got. Many offsets of one row are one write.",
            unit="ops",
            queries=(
                Query(of_each(f"{_PREFIX}flushed_offsets_total").expr, "{{instance}} offsets"),
                Query(of_each(f"{_PREFIX}flushed_rows_total").expr, "{{instance}} rows"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Failed flushes, and offsets from the local file",
            description="Each flush that failed is tried again. At a start etcd gets what only the local file "
            "has: offsets that would have been lost otherwise.",
            queries=(
                Query(grown_of_each(f"{_PREFIX}flush_failures_total").expr, "{{instance}} failed"),
                Query(grown_of_each(f"{_PREFIX}compensated_offsets_total").expr, "{{instance}} from the local file"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Calls to etcd",
            description="By operation and result. All of this row is empty with the embedded store.",
            unit="ops",
            queries=(of_each(f"{_PREFIX}store_calls_total", "operation", "result"),),
        ),
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
        history_row.history(),
    ),
)
