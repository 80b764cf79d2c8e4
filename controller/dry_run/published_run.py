"""The result of a dry run: rows and columns in the shape that the report reads, `analytics/README.md`. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from controller.scaling.autoscaler.decision import ScalingVerdict
from controller.scaling.autoscaler.dry_run import DryRunStart, RecordedSample
from controller.scaling.autoscaler.policies import ScalingPolicy
from history.columns import Column, Type
from history.times import time_text

#: Below the output folder of the analyses.
DRY_RUN: Final = "results/dry-run/scaling_dry_run.json"
HOUR_MS: Final = 3_600_000

QUESTION: Final = "What would the policies of queue scaling have done?"

COLUMNS: Final = (
    Column("kind", Type.STRING, "topic; change: a resize that would have been; kept: why there was none; hour"),
    Column("cluster", Type.STRING, "cluster that the topic was sampled in"),
    Column("topic", Type.STRING, "the topic"),
    Column("policy", Type.STRING, "the topic or pattern of the policy that holds for it"),
    Column("mode", Type.STRING, "topic: that of the policy; change: that of the decision, which may be more careful"),
    Column("sets", Type.LONG, "topic: broker sets"),
    Column("queues_before", Type.LONG, "topic: queues on each set at first; change: before it"),
    Column("queues_after", Type.LONG, "topic: queues on each set at last; change: after it"),
    Column("changes", Type.LONG, "topic: resizes that would have been"),
    Column("samples", Type.LONG, "topic: rows that the run was made of"),
    Column("finding", Type.STRING, "change, kept: the kind of what was found first; null: nothing was"),
    Column("reason", Type.STRING, "change: why; kept: the last reason"),
    Column("times", Type.LONG, "kept: how often it came to that"),
    Column("time", Type.TIMESTAMP, "change: when; hour: its beginning"),
    Column("tps", Type.DOUBLE, "hour: most messages that came in a second"),
    Column("queues", Type.LONG, "hour: queues on each set at its end"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRun:
    cluster: str
    policy: ScalingPolicy
    start: DryRunStart
    samples: Sequence[RecordedSample]
    verdicts: Sequence[ScalingVerdict]

    @property
    def changes(self) -> list[ScalingVerdict]:
        return [each for each in self.verdicts if each.is_change]

    def rows(self) -> Iterator[dict[str, Any]]:
        who = {"cluster": self.cluster or None, "topic": self.samples[0].topic}
        for row in (self._of_topic(), *self._of_changes(), *self._of_kept(), *self._of_hours()):
            yield {column.name: None for column in COLUMNS} | who | row

    def _of_topic(self) -> dict[str, Any]:
        changes = self.changes
        before = self.start.queues_per_set
        return {
            "kind": "topic",
            "policy": self.policy.topic,
            "mode": self.policy.mode.value,
            "sets": self.start.sets,
            "queues_before": before,
            "queues_after": changes[-1].target if changes else before,
            "changes": len(changes),
            "samples": len(self.samples),
        }

    def _of_changes(self) -> Iterator[dict[str, Any]]:
        for each in self.changes:
            yield {
                "kind": "change",
                "policy": self.policy.topic,
                "mode": each.mode.value,
                "queues_before": each.before,
                "queues_after": each.target,
                "finding": _finding(each),
                "reason": each.reason,
                "time": time_text(each.unix_ms * 1000),
            }

    def _of_kept(self) -> Iterator[dict[str, Any]]:
        kept = [each for each in self.verdicts if not each.is_change]
        reasons = {_finding(each): each.reason for each in kept}
        for finding, times in Counter(map(_finding, kept)).items():
            yield {"kind": "kept", "finding": finding, "times": times, "reason": reasons[finding]}

    def _of_hours(self) -> Iterator[dict[str, Any]]:
        rates: dict[int, float] = {}
        for sample in self.samples:
            if sample.tps is not None:
                hour = sample.unix_ms // HOUR_MS
                rates[hour] = max(sample.tps, rates.get(hour, 0.0))
        queues, changes = self.start.queues_per_set, self.changes
        for hour, tps in sorted(rates.items()):
            while changes and changes[0].unix_ms < (hour + 1) * HOUR_MS:
                queues = changes.pop(0).target or queues
            yield {"kind": "hour", "time": time_text(hour * HOUR_MS * 1000), "tps": tps, "queues": queues}


def _finding(verdict: ScalingVerdict) -> str | None:
    return verdict.findings[0].kind.value if verdict.findings else None


def document_of(runs: Iterable[TopicRun], window_us: tuple[int, int], made_us: tuple[int, int]) -> bytes:
    """Return the result as it is stored; `window_us`: its beginning and end, `made_us`: those of the run, Unix us."""
    runs = list(runs)
    rows: list[Mapping[str, Any]] = [row for run in runs for row in run.rows()]
    days = {sample.unix_ms // (24 * HOUR_MS) for run in runs for sample in run.samples}
    started_us, finished_us = made_us
    return msgspec.json.encode(
        {
            "version": 1,
            "job": "dry-run",
            "name": "scaling_dry_run",
            "question": QUESTION,
            "run_id": time_text(started_us),
            "window_start": time_text(window_us[0]),
            "window_end": time_text(window_us[1]),
            "started_at": time_text(started_us),
            "finished_at": time_text(finished_us),
            "duration_seconds": (finished_us - started_us) / 1e6,
            "input_rows": sum(len(run.samples) for run in runs),
            "days": len(days),
            "columns": [{"name": each.name, "type": each.type.value, "doc": each.doc} for each in COLUMNS],
            "row_count": len(rows),
            "rows": rows,
            "files": [],
        }
    )
