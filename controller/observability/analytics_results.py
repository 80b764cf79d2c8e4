"""Newest results of the Spark analyses, as a controller shows them to Prometheus: numbers by label. Pure.

What is read is the `latest/<name>.json` that `rmq-analytics run` publishes (analytics/README.md); a column that it does
not have is left out.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from controller.observability import metric_catalogue as catalogue
from controller.scaling.autoscaler.findings import AnalysisOutlook
from serving.metrics.counters import Labels
from serving.metrics.families import MetricFamily


class AnalysisResult(msgspec.Struct):
    """One result; of its keys, those that are shown."""

    name: str
    finished_at: datetime
    duration_seconds: float
    input_rows: int
    rows: list[dict[str, Any]]
    #: How many rows the result has; `rows` are the first of them.
    row_count: int = 0

    @property
    def is_whole(self) -> bool:
        return self.row_count <= len(self.rows)


class Sample(NamedTuple):
    family: MetricFamily
    labels: Labels
    value: float


class _Shown(NamedTuple):
    """How a column of a result becomes a metric of each broker set."""

    family: MetricFamily
    column: str
    #: What stands for the brokers of a set.
    combine: Callable[[float, float], float]


_BY_SET: Final[Mapping[str, _Shown]] = {
    "availability": _Shown(catalogue.AVAILABILITY, "availability", min),
    "flapping": _Shown(catalogue.FLAPPING_SCORE, "peak", max),
    "timeout_recommendation": _Shown(catalogue.RECOMMENDED_TIMEOUT, "recommended_timeout_s", max),
    "heartbeat_gaps": _Shown(catalogue.MISSED_HEARTBEATS, "miss_ratio", max),
}


def samples(results: Iterable[AnalysisResult]) -> Iterator[Sample]:
    for latest in results:
        labels = (latest.name,)
        yield Sample(catalogue.ANALYTICS_LAST_SUCCESS, labels, latest.finished_at.timestamp())
        yield Sample(catalogue.ANALYTICS_DURATION, labels, latest.duration_seconds)
        yield Sample(catalogue.ANALYTICS_INPUT_ROWS, labels, latest.input_rows)
        if latest.name in _BY_SET:
            yield from _of_sets(_BY_SET[latest.name], latest.rows)
        elif latest.name in _BY_NAME:
            yield from _BY_NAME[latest.name](latest.rows)
        elif latest.name in _COUNTED and latest.is_whole:
            # The count of a part would pass for that of all: none is better.
            yield from _COUNTED[latest.name](latest.rows)


def _of_sets(shown: _Shown, rows: list[dict[str, Any]]) -> Iterator[Sample]:
    found: dict[Labels, float] = {}
    for row in rows:
        value = row.get(shown.column)
        # A share of few heartbeats, or a timeout after a day, would be taken for more than it is.
        if isinstance(value, int | float) and row.get("confidence") != "low":
            labels = (str(row.get("cluster") or ""), str(row.get("broker_name") or ""))
            found[labels] = shown.combine(found[labels], value) if labels in found else value
    yield from (Sample(shown.family, labels, value) for labels, value in found.items())


def _days_left(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    found: dict[str, float] = {}
    for row in rows:
        value = row.get("days_left")
        if isinstance(value, int | float):
            resource = str(row.get("resource") or "")
            found[resource] = min(found.get(resource, value), value)
    yield from (Sample(catalogue.CAPACITY_DAYS_LEFT, (resource,), value) for resource, value in found.items())


def _diverging(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    # Of very many rows the longest are there: at least so many seconds, which an alert must not miss.
    seconds = (row.get("seconds") for row in rows)
    yield Sample(catalogue.DIVERGENCE, (), sum(each for each in seconds if isinstance(each, int | float)))


def _phases(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    for row in rows:
        value = row.get("p95_s")
        if row.get("kind") == "phase" and isinstance(value, int | float):
            labels = (str(row.get("cluster") or ""), str(row.get("phase") or ""))
            yield Sample(catalogue.FAILOVER_PHASE, labels, value)


def _moves(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    # A queue that moves is one more somewhere and one less elsewhere.
    more = (_more_queues(row) for row in rows if row.get("kind") == "proposal")
    yield Sample(catalogue.QUEUE_RECOMMENDATIONS, ("move",), sum(more))


def _more_queues(row: Mapping[str, Any]) -> int:
    now, proposed = row.get("write_now"), row.get("write_proposed")
    return max(0, proposed - now) if isinstance(now, int) and isinstance(proposed, int) else 0


def _scalings(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    verdicts = [row.get("verdict") for row in rows if row.get("kind") == "topic"]
    for verdict in ("grow", "shrink"):
        yield Sample(catalogue.QUEUE_RECOMMENDATIONS, (verdict,), verdicts.count(verdict))


_BY_NAME: Final[Mapping[str, Callable[[list[dict[str, Any]]], Iterator[Sample]]]] = {
    "divergence": _diverging,
    "failover_timeline": _phases,
    "capacity": _days_left,
}
_COUNTED: Final[Mapping[str, Callable[[list[dict[str, Any]]], Iterator[Sample]]]] = {
    "queue_balance": _moves,
    "queue_scaling": _scalings,
}


class TopicOutlooks:
    """Looked up by topic; of topics that several clusters have nothing is told, since nobody knows which is meant."""

    def __init__(self, results: Iterable[AnalysisResult] = ()) -> None:
        by_name = {each.name: each.rows for each in results}
        left = [row.get("days_left") for row in by_name.get("capacity", ())]
        self._days_left = min((each for each in left if isinstance(each, int | float)), default=None)
        self._of_topics: dict[str, AnalysisOutlook | None] = {}
        for row in by_name.get("queue_scaling", ()):
            topic, verdict, queues = row.get("topic"), row.get("verdict"), row.get("queues_proposed")
            if row.get("kind") == "topic" and isinstance(topic, str) and isinstance(verdict, str):
                proposed = queues if isinstance(queues, int) else None
                outlook = AnalysisOutlook(verdict, proposed, self._days_left)
                self._of_topics[topic] = None if topic in self._of_topics else outlook

    def of_topic(self, topic: str) -> AnalysisOutlook:
        return self._of_topics.get(topic) or AnalysisOutlook(days_left=self._days_left)


#: Analyses run once a day; a new result shows after so long.
_LOOK_S: Final = 30.0
#: Below the folder that `rmq-analytics` writes to.
_PLACE: Final = "results/latest"
_RESULT_BYTES_MAX: Final = 64 * 1024 * 1024

_decode: Final = msgspec.json.Decoder(AnalysisResult).decode


class ResultsReader:
    def __init__(self, folder: Path) -> None:
        self._folder = folder / _PLACE
        #: File -> when it was written, how long it was and which one as it was read, and its content.
        self._read: dict[Path, tuple[tuple[int, int, int], AnalysisResult]] = {}
        #: What all of them come to, by now.
        self.samples: tuple[Sample, ...] = ()
        #: What A9 and A12 tell of topics, by now.
        self.outlooks = TopicOutlooks()

    async def read_results(self) -> None:
        while True:
            self.samples = await asyncio.to_thread(self.read)
            await asyncio.sleep(_LOOK_S)

    def read(self) -> tuple[Sample, ...]:
        """Return the samples of all results; an unreadable file keeps its last content, a removed one has none."""
        with contextlib.suppress(OSError):
            # A folder that is away for a while, as one of another machine, has not lost its results.
            paths = [each for each in self._folder.iterdir() if each.suffix == ".json"]
            self._read = {path: known for path, known in self._read.items() if path in paths}
            for path in paths:
                # A file of anybody's can be nested more deeply than it can be read.
                with contextlib.suppress(OSError, msgspec.DecodeError, RecursionError):
                    self._read_one(path)
        results = [latest for _, latest in self._read.values()]
        self.outlooks = TopicOutlooks(results)
        return tuple(samples(results))

    def _read_one(self, path: Path) -> None:
        status = path.stat()
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = self._read.get(path)
        if (known is None or known[0] != version) and status.st_size <= _RESULT_BYTES_MAX:
            self._read[path] = (version, _decode(path.read_bytes()))
