"""For operators: who keeps offsets and locks, and is anything of them late, refused or in doubt."""

from typing import Final

from dashboards.boards import history_row, server_rows
from dashboards.boards.offset_repairs import REPAIRS
from dashboards.boards.shared import FAILOVERS, MANAGER, PLANE, grown_of_each, now_of_each, of_each, quantile_of_each
from dashboards.panels import Board, Kind, Panel, Query, Row, Word, bad_above, good_from, worse_above
from dashboards.promql import BY_INSTANCE, rate

_PREFIX: Final = "rocketmq_offset_manager_"
_ROLES: Final = (Word(0, "following", "blue"), Word(1, "loading", "orange"), Word(2, "leading", "green"))

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
            description="1 while controllers or NameServers answer. At 0 nothing is done at brokers: nobody knows who "
            "is master. Always 0 where neither controllers nor NameServers are configured.",
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

_MIRROR: Final = Row(
    "Offsets at brokers",
    (
        Panel(
            kind=Kind.LINES,
            title="Queues that went back",
            description="By cause. role_change, restart and disk_replaced: nobody has wanted it, and groups read "
            "again; see /v1/offsets/regressions. Each manager mirrors for itself and counts the same.",
            queries=(grown_of_each(f"{_PREFIX}offset_regressions_total", "cause"),),
            width=12,
        ),
        Panel(
            kind=Kind.LINES,
            title="Messages that are read again",
            description="By cause, at most: what the guard or an operator gives back is counted too.",
            queries=(grown_of_each(f"{_PREFIX}regressed_messages_total", "cause"),),
            width=12,
        ),
        Panel(
            kind=Kind.LINES,
            title="Mirrored broker sets",
            description="By state. stale: not read for three periods, so what its master knows of offsets is lost with "
            "it. absent: nobody shows the set any more.",
            queries=(now_of_each(f"{_PREFIX}mirrored_sets", "state"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Age of the oldest mirror",
            description="Of all sets that somebody shows. Usually below mirrorPeriodMs.",
            unit="s",
            limits=worse_above(15, 60),
            queries=(now_of_each(f"{_PREFIX}mirror_age_max_seconds"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Readings and writes",
            description="Readings of masters, and writes to mirror.db, by result.",
            unit="ops",
            queries=(
                of_each(f"{_PREFIX}mirror_polls_total", "result"),
                of_each(f"{_PREFIX}mirror_stores_total", "result"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Mirrored entries",
            description="Groups in topics on broker sets; and entries that became no offsets, as their keys or values "
            "cannot be read.",
            queries=(
                Query(now_of_each(f"{_PREFIX}mirrored_entries").expr, "{{instance}} entries"),
                Query(grown_of_each(f"{_PREFIX}mirror_unusable_entries_total").expr, "{{instance}} unusable"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Size of mirror.db",
            description="What is in use of it, at most mirrorBytesMax and the newest offsets.",
            unit="bytes",
            queries=(now_of_each(f"{_PREFIX}mirror_file_bytes"),),
        ),
    ),
)

_OFFSETS: Final = Row(
    "Offsets and locks of clients",
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
            description="Of commits and of what operators do. stale is usual after a reset; fenced names a client that "
            "lost its lock; refused entries can never be stored.",
            unit="ops",
            queries=(of_each(f"{_PREFIX}results_total", "operation", "status"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Refused or unreadable",
            description="Commits that were answered 429 because the store lags, a second; and stored rows that cannot "
            "be read, whose queues are unavailable until an operator restores or deletes them.",
            limits=bad_above(0.001),
            queries=(
                Query(rate(f"{_PREFIX}commits_refused_total", BY_INSTANCE, by="instance"), "{{instance}} refused"),
                Query(now_of_each(f"{_PREFIX}unreadable_rows").expr, "{{instance}} unreadable rows"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Locks, sessions and freezes",
            description="Queues that are locked, open sessions of clients, and operations that have frozen offsets.",
            queries=tuple(
                Query(now_of_each(f"{_PREFIX}{name}").expr, f"{{{{instance}}}} {words}")
                for name, words in (("locks", "locks"), ("lock_sessions", "sessions"), ("freezes", "freezes"))
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Locks by result",
            description="Queues that clients wanted or gave up. held_by is usual while a group rebalances.",
            unit="ops",
            queries=(of_each(f"{_PREFIX}lock_results_total", "operation", "status"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Sessions that expired",
            description="Clients that did not renew: they died, or were paused for longer than their ttl.",
            queries=(grown_of_each(f"{_PREFIX}lock_sessions_expired_total"),),
        ),
    ),
)

_STORE: Final = Row(
    "Between the journal and the store",
    (
        Panel(
            kind=Kind.LINES,
            title="Queues that the store lacks",
            description="Acknowledged offsets that only the journal has. At dirtyKeysMax commits are refused.",
            limits=worse_above(50_000, 150_000),
            queries=(now_of_each(f"{_PREFIX}dirty_offsets"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Age of the oldest of them",
            description="Usually below a second. If it grows, the store does not take what is flushed.",
            unit="s",
            limits=worse_above(5, 30),
            queries=(now_of_each(f"{_PREFIX}oldest_dirty_seconds"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Duration of writes to the store",
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
            description="Offsets and rows that the store got. Many offsets of one row are one write.",
            unit="ops",
            queries=(
                Query(of_each(f"{_PREFIX}flushed_offsets_total").expr, "{{instance}} offsets"),
                Query(of_each(f"{_PREFIX}flushed_rows_total").expr, "{{instance}} rows"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Failed flushes, and offsets from the journal",
            description="Each flush that failed is tried again. At the begin of a term the store gets what only the "
            "journal has: offsets that would have been lost otherwise.",
            queries=(
                Query(grown_of_each(f"{_PREFIX}flush_failures_total").expr, "{{instance}} failed"),
                Query(grown_of_each(f"{_PREFIX}compensated_offsets_total").expr, "{{instance}} from the journal"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Calls to etcd",
            description="By operation and result. Empty with the embedded store.",
            unit="ops",
            queries=(of_each(f"{_PREFIX}store_calls_total", "operation", "result"),),
        ),
    ),
)

BOARD: Final = Board(
    uid="rmq-offset-manager",
    title="RocketMQ / Offset manager",
    question="Are offsets and locks kept, and did any go back?",
    when_red="Offsets went back: `curl MANAGER:9883/v1/offsets/regressions`, docs/offset-repairs.md. No leader: check "
    "the store first; `/v1/manager` has the role and what the store lacks, which is in the journal: do not delete its "
    "folder. Pages: `OffsetsRegressed`, `OffsetGuardFailed`, `OffsetGuardFound`, `OffsetMirrorStale`, "
    "`OffsetManagerNoLeader`, `OffsetFlushFailing`, `OffsetJournalBehind`, `OffsetRowsUnreadable`.",
    variables=(PLANE, MANAGER),
    annotations=(FAILOVERS,),
    rows=(
        _WHO,
        _MIRROR,
        REPAIRS,
        _OFFSETS,
        _STORE,
        server_rows.http_process(_PREFIX),
        history_row.history(),
    ),
)
