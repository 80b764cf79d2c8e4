"""The row about what an offset manager does at brokers: the guard, restores, and locks of orderly groups."""

from typing import Final

from dashboards.boards.shared import grown_of_each, now_of_each
from dashboards.panels import Kind, Panel, Query, Row, bad_above

_PREFIX: Final = "rocketmq_offset_manager_"
#: Stands for what has not happened yet, where a metric has no values before.
_OR_NOTHING: Final = " or on () vector(0)"


def _growth(
    title: str, description: str, *metrics: tuple[str, tuple[str, ...]], bad: float | None = None, instead: str = ""
) -> Panel:
    queries = tuple(
        Query(query.expr + instead, f"{query.legend} {name.removesuffix('_total')}")
        for name, labels in metrics
        for query in (grown_of_each(f"{_PREFIX}{name}", *labels),)
    )
    limits = () if bad is None else bad_above(bad)
    return Panel(kind=Kind.LINES, title=title, description=description, queries=queries, limits=limits)


REPAIRS: Final = Row(
    "What is done at brokers",
    (
        _growth(
            "Runs of the guard",
            "By cause and result, and the seconds that they took. failed: nothing, or not all, was decided.",
            ("guard_runs_total", ("cause", "result")),
            ("guard_duration_seconds_sum", ()),
        ),
        _growth(
            "Offsets that the guard looked at",
            "By action, reason and outcome. report: nothing is certain, an operator decides.",
            ("guard_offsets_total", ("action", "reason", "outcome")),
            instead=_OR_NOTHING,
        ),
        _growth(
            "Members that were sent back",
            "Groups whose members were sent back after a lost end of the log, as they came. refused: by the broker, or "
            "somebody else has set the group back.",
            ("guard_member_resets_total", ("result",)),
        ),
        _growth(
            "Restored queues",
            "Restores, imports and undoes of operators, by result.",
            ("restored_queues_total", ("operation", "status")),
        ),
        Panel(
            kind=Kind.LINES,
            title="Guard and holders now",
            description="Sets that the guard is at, or that wait for it; clients of orderly groups and the queues that "
            "they hold; what is beyond the limits of the manager.",
            queries=tuple(
                Query(now_of_each(f"{_PREFIX}{name}", *labels).expr, legend)
                for name, labels, legend in (
                    ("guard_sets", ("state",), "{{instance}} guard {{state}}"),
                    ("broker_locks_held", (), "{{instance}} held queues"),
                    ("broker_lock_clients", (), "{{instance}} clients"),
                    ("holders_left_out", ("what",), "{{instance}} left out {{what}}"),
                )
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Two holders of one queue",
            description="Pairs of clients that hold one queue at a time: its messages are consumed out of order. Now, "
            "and those that were found.",
            limits=bad_above(1),
            queries=(
                Query(now_of_each(f"{_PREFIX}broker_lock_overlaps").expr, "{{instance}} now"),
                Query(grown_of_each(f"{_PREFIX}broker_lock_overlaps_found_total").expr, "{{instance}} found"),
            ),
        ),
        _growth(
            "Replayed and released locks",
            "Locks of holders at new masters by outcome, the seconds until they were granted, locks given up, "
            "and clients that did not answer.",
            ("broker_lock_replays_total", ("outcome",)),
            ("broker_lock_replay_seconds_sum", ()),
            ("broker_locks_released_total", ()),
            ("holder_query_failures_total", ()),
        ),
    ),
)
