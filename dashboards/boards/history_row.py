"""The row that all servers have alike about what they record, each instance by itself."""

from typing import Final

from dashboards.boards.shared import grown_of_each, now_of_each, of_each, quantile_of_each
from dashboards.grafana import Row, bad_above, good_from, lines, states, worse_above
from dashboards.promql import WINDOW, Query

_HISTORY: Final = "rocketmq_history_"


def history() -> Row:
    """Return how recording does; all servers call its metrics alike."""
    dropped = now_of_each(f"{_HISTORY}events_dropped_total")
    since = now_of_each(f"{_HISTORY}oldest_unsealed_timestamp_seconds")
    panels = (
        states(
            "Recording",
            "1 while events reach the disk. 0 where recording is off, and with a full or missing disk: "
            "serving goes on, and the time counts as unobserved.",
            now_of_each(f"{_HISTORY}recording"),
            limits=good_from(1),
        ),
        lines(
            "Events recorded",
            "By family. Heartbeats are most of it.",
            of_each(f"{_HISTORY}events_total", "family"),
            unit="ops",
        ),
        lines(
            "Events lost",
            "Because they came faster than they were written. Heartbeats go first; changes of state have "
            "room of their own.",
            Query(f"rate({dropped}[{WINDOW}])"),
            unit="ops",
            limits=bad_above(0.001),
        ),
        lines(
            "Events that wait",
            "Between the server and its writer, which takes them four times a second.",
            now_of_each(f"{_HISTORY}queue_events"),
            limits=worse_above(10_000, 50_000),
        ),
        lines(
            "Duration of writes, p99",
            "A slow disk fills the queue.",
            quantile_of_each(0.99, f"{_HISTORY}write_duration_seconds"),
            unit="s",
            limits=worse_above(0.5, 2),
        ),
        lines(
            "Bytes written",
            "To the segments, before they are compacted.",
            of_each(f"{_HISTORY}written_bytes_total"),
            unit="binBps",
        ),
        lines(
            "Age of the oldest open segment",
            "Segments are sealed after five minutes or 64 MB. One that is much older is not being sealed, "
            "and no analysis sees it.",
            Query(f"time() - ({since} > 0)", since.legend),
            unit="s",
            limits=worse_above(600, 900),
        ),
        lines(
            "Files deleted by the server",
            "Because they were very old, or all of them too large, whether anybody had read them or not. "
            "Who ingests them deletes them long before: anything but 0 means that nobody does.",
            grown_of_each(f"{_HISTORY}deleted_files_total", "reason"),
            limits=bad_above(1),
        ),
    )
    return Row("What is recorded", panels)
