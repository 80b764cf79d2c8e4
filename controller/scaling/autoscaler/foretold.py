"""Needs that are not there yet: the peak of each day, and what the analysis A9 proposes. Pure."""

import math
from collections.abc import Iterator
from typing import Final

from controller.scaling.autoscaler.daily_peaks import AHEAD_MS, DAYS_AGREEING, TrafficForecast
from controller.scaling.autoscaler.decision import GROW_RESERVE, AnalysisOutlook
from controller.scaling.autoscaler.findings import Finding, FindingKind
from controller.scaling.autoscaler.signals import TopicSignals

#: A peak is ahead only if so many times more than now is expected.
PEAK_FACTOR: Final = 1.1


def foretold(signals: TopicSignals, forecast: TrafficForecast, outlook: AnalysisOutlook) -> Iterator[Finding]:
    """Yield what will be needed soon; nothing while the present count or rate is unknown."""
    queues, put_tps = signals.queues, signals.put_tps
    if queues is None or put_tps is None:
        return
    yield from _peak(queues, put_tps, forecast)
    proposed = outlook.queues_proposed
    if outlook.verdict == "grow" and proposed is not None and proposed > queues:
        yield Finding(
            kind=FindingKind.ANALYSIS_PROPOSES_MORE,
            sentence=f"A9 proposes {proposed} queues in all, there are {queues}",
            numbers={"queues": proposed},
        )


def _peak(queues: int, put_tps: float, forecast: TrafficForecast) -> Iterator[Finding]:
    expected, clients, queue_tps = forecast.expected_tps, forecast.expected_clients, forecast.queue_tps
    if expected is None or clients is None or not queue_tps or expected < PEAK_FACTOR * put_tps:
        return
    # More queues than clients would carry no more.
    need = min(math.ceil(expected * GROW_RESERVE / queue_tps), clients)
    if need > queues:
        yield Finding(
            kind=FindingKind.DAILY_PEAK_AHEAD,
            sentence=f"{expected:.0f} messages/s and {clients} consumers came on {DAYS_AGREEING} days and more of the "
            f"last ones, within {AHEAD_MS // 60_000} minutes of this time of day; a queue carries {queue_tps:.0f}",
            numbers={"expected_tps": expected, "clients": clients, "queue_tps": queue_tps, "queues": queues},
        )
