"""What a policy would have done: recorded rows of `offset_sample` in, verdicts out. Pure.

The rows tell sums over all queues, and no kinds of groups. So the groups count as those of one kind, all queues as
equally loaded, and a broker as never slow. After a resize that would have been carried out its count holds, while lags
stay as they were recorded: the run tells when and how far it would have resized, not how much that would have helped.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from controller.scaling.autoscaler.decision import RESIZES_MAX, KnownResizes, PastResize, ScalingVerdict
from controller.scaling.autoscaler.policies import ScalingPolicy
from controller.scaling.autoscaler.signals import GroupSignals, QueueProgress, SetSignals, TopicSignals
from controller.scaling.autoscaler.topic_watch import TopicWatch
from controller.scaling.resize.observation import GroupKind

#: Without a sample for so long, rates are not known.
SAMPLE_GAP_MS_MAX: Final = 5 * 60_000

#: How long a resize takes.
RESIZE_MS: Final = 90_000

#: One queue stands for all of them: what is recorded are sums.
_ALL: Final = "all"


class RecordedSample(NamedTuple):
    """The columns of `offset_sample` that count; None as in the rows."""

    unix_ms: int
    topic: str
    group: str | None = None
    max_offset: int | None = None
    consumer_offset: int | None = None
    consumers: int | None = None
    tps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunStart:
    """How the topic was when the samples begin, and what they do not tell."""

    queues_per_set: int
    sets: int = 1
    #: Of all its groups.
    kind: GroupKind = GroupKind.CONCURRENT


def dry_run(samples: Iterable[RecordedSample], policy: ScalingPolicy, start: DryRunStart) -> list[ScalingVerdict]:
    """Return what the policy would have made of a topic whose samples come in the order of time.

    Only the verdicts that differ from the one before are returned: a change, or another kind of finding.
    """
    run = _DryRun(policy, start)
    verdicts: list[ScalingVerdict] = []
    for verdict in run.verdicts(samples):
        if not verdicts or verdict.is_change or _shown(verdict) != _shown(verdicts[-1]):
            verdicts.append(verdict)
    return verdicts


def _shown(verdict: ScalingVerdict) -> object:
    return verdict.target, verdict.before, {each.key for each in verdict.findings}


class _DryRun:
    def __init__(self, policy: ScalingPolicy, start: DryRunStart) -> None:
        self._policy, self._start = policy, start
        self._watch = TopicWatch()
        self._count = start.queues_per_set
        self._resizes: tuple[PastResize, ...] = ()
        self._before: Mapping[str | None, RecordedSample] = {}

    def verdicts(self, samples: Iterable[RecordedSample]) -> Iterator[ScalingVerdict]:
        for unix_ms, rows in groupby(samples, key=lambda each: each.unix_ms):
            now = {each.group: each for each in rows}
            self._end_resizes(unix_ms)
            verdict = self._watch.evaluate(self._signals(now, unix_ms), self._policy, KnownResizes(self._resizes))
            self._before = now
            if verdict.target is not None:
                # Every proposal is taken as carried out.
                resize = PastResize(unix_ms, None, self._count, verdict.target)
                self._resizes = (*self._resizes, resize)[-RESIZES_MAX:]
            yield verdict

    def _end_resizes(self, unix_ms: int) -> None:
        if self._resizes and self._resizes[-1].ended_unix_ms is None:
            last = self._resizes[-1]
            if unix_ms >= last.begun_unix_ms + RESIZE_MS:
                self._resizes = (*self._resizes[:-1], last._replace(ended_unix_ms=unix_ms))
                self._count = last.after

    def _signals(self, now: Mapping[str | None, RecordedSample], unix_ms: int) -> TopicSignals:
        rates = [each.tps for each in now.values() if each.tps is not None]
        # Each queue of each set is taken to get as much.
        share = max(rates) / (self._count * self._start.sets) if rates else None
        each_set = SetSignals(
            read_queues=self._count,
            write_queues=self._count,
            write_tps=(share,) * self._count if share is not None else (),
        )
        topic = next(iter(now.values())).topic
        return TopicSignals(
            topic=topic,
            unix_ms=unix_ms,
            sets={f"{_ALL}-{number}": each_set for number in range(self._start.sets)},
            groups={name: self._group(row) for name, row in now.items() if name is not None},
            is_ordered=self._start.kind is GroupKind.ORDERLY,
            is_static=False,
        )

    def _group(self, row: RecordedSample) -> GroupSignals:
        before = self._before.get(row.group)
        clients = None if row.consumers is None else frozenset(map(str, range(row.consumers)))
        progress = _progress(before, row)
        return GroupSignals(kind=self._start.kind, clients=clients, queues=(progress,))


def _progress(before: RecordedSample | None, row: RecordedSample) -> QueueProgress:
    if row.max_offset is None or row.consumer_offset is None:
        return QueueProgress(_ALL, 0)
    lag = max(0, row.max_offset - row.consumer_offset)
    if before is None or before.max_offset is None or before.consumer_offset is None:
        return QueueProgress(_ALL, 0, lag)
    elapsed_ms = row.unix_ms - before.unix_ms
    consumed, written = row.consumer_offset - before.consumer_offset, row.max_offset - before.max_offset
    if not 0 < elapsed_ms <= SAMPLE_GAP_MS_MAX or consumed < 0 or written < 0:
        return QueueProgress(_ALL, 0, lag)
    seconds = elapsed_ms / 1000
    return QueueProgress(_ALL, 0, lag, (written - consumed) / seconds, consumed / seconds)
