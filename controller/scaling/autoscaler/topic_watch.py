"""One topic that a policy is about: what has been seen of it, and what that comes to at each new moment.

It holds a few kB, however long it watches. It reads no clock, and the same signals give the same verdicts.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from controller.scaling.autoscaler.daily_peaks import DailyPeaks
from controller.scaling.autoscaler.decision import Evidence, KnownResizes, ScalingVerdict, decide
from controller.scaling.autoscaler.diagnosis import diagnose, foretold
from controller.scaling.autoscaler.findings import AnalysisOutlook, Finding, FindingKind, SignalWindow
from controller.scaling.autoscaler.policies import ScalingPolicy
from controller.scaling.autoscaler.signals import TopicSignals

#: A topic has to be calm for so long before it shrinks.
CALM_MS: Final = 30 * 60_000

#: Findings of groups that consume as fast as they can.
_SATURATED: Final = frozenset(
    {FindingKind.CLIENTS_WITHOUT_QUEUE, FindingKind.ORDERLY_QUEUES_AT_LIMIT, FindingKind.SLOW_LISTENER}
)
_NO_RESIZES: Final = KnownResizes()
_NO_OUTLOOK: Final = AnalysisOutlook()


class TopicWatch:
    def __init__(self) -> None:
        self._window = SignalWindow()
        self._peaks = DailyPeaks()
        #: An idle topic, and what was found of it.
        self._idle: tuple[TopicSignals, int, tuple[Finding, ...]] | None = None

    def evaluate(
        self,
        signals: TopicSignals,
        policy: ScalingPolicy,
        resizes: KnownResizes = _NO_RESIZES,
        outlook: AnalysisOutlook = _NO_OUTLOOK,
    ) -> ScalingVerdict:
        signals = with_limits(signals, policy)
        put_tps, unix_ms = signals.put_tps, signals.unix_ms
        findings = self._found(signals, policy.behind_ms)
        self._peaks.add(unix_ms, put_tps, most_clients(signals))
        rates = [each.numbers["queue_tps"] for each in findings if each.kind in _SATURATED]
        if rates and min(rates) > 0:
            self._peaks.measured_queue(min(rates))
        forecast = self._peaks.forecast(unix_ms)
        put_slope = self._window.put_slope()
        seen = (*findings, *foretold(signals, put_slope, forecast, outlook))
        self._window.add(unix_ms, [each.key for each in seen], put_tps)
        evidence = Evidence(
            signals=signals,
            seen=seen,
            held=tuple(
                each
                for each in seen
                if self._window.holds(each.key, CALM_MS if each.kind is FindingKind.CALM else policy.window_ms)
            ),
            put_slope=put_slope,
            forecast=forecast,
            resizes=resizes,
            outlook=outlook,
        )
        return decide(policy, evidence, unix_ms)

    def _found(self, signals: TopicSignals, behind_ms: int) -> tuple[Finding, ...]:
        if self._idle is not None:
            idle, idle_behind_ms, findings = self._idle
            if signals.sets is idle.sets and signals.groups is idle.groups and behind_ms == idle_behind_ms:
                return findings
        findings = diagnose(signals, behind_ms)
        self._idle = (signals, behind_ms, findings) if signals.put_tps == 0 else None
        return findings


def with_limits(signals: TopicSignals, policy: ScalingPolicy) -> TopicSignals:
    """Return the signals with what queues and brokers take at most, where the policy says it."""
    if policy.queue_writes_max is None and policy.broker_writes_max is None:
        return signals
    limited = partial(replace, put_tps_limit=policy.broker_writes_max, queue_tps_limit=policy.queue_writes_max)
    return replace(signals, sets={name: replace(each, load=limited(each.load)) for name, each in signals.sets.items()})


def most_clients(signals: TopicSignals) -> int | None:
    """Return the clients of the largest group that gives queues to clients; None if none is known."""
    counts = [
        len(group.clients)
        for group in signals.groups.values()
        if group.clients is not None and group.kind is not None and group.kind.gives_queues_to_clients
    ]
    return max(counts, default=None)
