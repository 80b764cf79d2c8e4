"""The row that all servers have alike about what they record, each instance by itself."""

from typing import Final

from dashboards.boards.shared import grown_of_each, now_of_each, of_each, quantile_of_each
from dashboards.panels import Kind, Panel, Query, Row, bad_above, good_from, worse_above
from dashboards.promql import WINDOW

_HISTORY: Final = "rocketmq_history_"


def history() -> Row:
    """Return how recording does; all servers call its metrics alike."""
    return Row("What is recorded", (*_events(), *_segments()))


def _events() -> tuple[Panel, ...]:
    dropped = now_of_each(f"{_HISTORY}events_dropped_total").expr
    return (
        Panel(
            kind=Kind.STATES,
            title="Recording",
            description="1 while events reach the disk. 0 where recording is off, and with a full or missing disk: "
            "serving goes on, and the time counts as unobserved.",
            limits=good_from(1),
            queries=(now_of_each(f"{_HISTORY}recording"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Events recorded",
            description="By family. Heartbeats are most of it.",
            unit="ops",
            queries=(of_each(f"{_HISTORY}events_total", "family"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Events lost",
            description="Because they came faster than they were written. Heartbeats go first; changes of state have "
            "room of their own.",
            unit="ops",
            limits=bad_above(0.001),
            queries=(Query(f"rate({dropped}[{WINDOW}])"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Events that wait",
            description="Between the server and its writer, which takes them four times a second.",
            limits=worse_above(10_000, 50_000),
            queries=(now_of_each(f"{_HISTORY}queue_events"),),
        ),
    )


def _segments() -> tuple[Panel, ...]:
    since = now_of_each(f"{_HISTORY}oldest_unsealed_timestamp_seconds").expr
    return (
        Panel(
            kind=Kind.LINES,
            title="Duration of writes, p99",
            description="A slow disk fills the queue.",
            unit="s",
            limits=worse_above(0.5, 2),
            queries=(quantile_of_each(0.99, f"{_HISTORY}write_duration_seconds"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Bytes written",
            description="To the segments, before they are compacted.",
            unit="binBps",
            queries=(of_each(f"{_HISTORY}written_bytes_total"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Age of the oldest open segment",
            description="Segments are sealed after five minutes or 64 MB. One that is much older is not being sealed, "
            "and no analysis sees it.",
            unit="s",
            limits=worse_above(600, 900),
            queries=(Query(f"time() - ({since} > 0)", "{{instance}}"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Files deleted by the server",
            description="Because they were very old, or all of them too large, whether anybody had read them or not. "
            "Who ingests them deletes them long before: anything but 0 means that nobody does.",
            limits=bad_above(1),
            queries=(grown_of_each(f"{_HISTORY}deleted_files_total", "reason"),),
        ),
    )
