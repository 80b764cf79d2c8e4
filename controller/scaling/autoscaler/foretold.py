"""Needs that are not there yet: where a ramp leads, the peak of each day, and what the analysis A9 proposes. Pure.

More queues do not help with messages that wait in the old ones already: only growth before a lag is in time.
"""

from collections.abc import Iterator
from typing import Final

from controller.scaling.autoscaler.daily_peaks import AHEAD_MS, DAYS_AGREEING, TrafficForecast
from controller.scaling.autoscaler.decision import AnalysisOutlook
from controller.scaling.autoscaler.diagnosis import has_hot_queue
from controller.scaling.autoscaler.findings import Finding, FindingKind
from controller.scaling.autoscaler.needs import GROW_RESERVE, RAMP_AHEAD_S, carrying, ramped_tps
from controller.scaling.autoscaler.progress import totals_of
from controller.scaling.autoscaler.signals import GroupSignals, TopicSignals

#: A peak is ahead only if so many times more than now is expected.
PEAK_FACTOR: Final = 1.1

#: A ramp is steep if it leads to so many times what comes in now, and matters from so many messages a second on.
RAMP_FACTOR_MIN: Final = 1.5
RAMP_TPS_MIN: Final = 20.0


def foretold(
    signals: TopicSignals, put_slope: float, forecast: TrafficForecast, outlook: AnalysisOutlook
) -> Iterator[Finding]:
    """Yield what will be needed soon; nothing while the present count or rate is unknown."""
    queues, put_tps = signals.queues, signals.put_tps
    if queues is None or put_tps is None:
        return
    ahead = ramped_tps(put_tps, put_slope)
    needs = list(_peak(queues, put_tps, forecast))
    if put_tps >= RAMP_TPS_MIN and ahead >= RAMP_FACTOR_MIN * put_tps:
        for name, group in signals.groups.items():
            needs += _ramp(name, group, (queues, put_tps, ahead), forecast)
    if needs and not has_hot_queue(signals):
        yield from needs
    proposed = outlook.queues_proposed
    if outlook.verdict == "grow" and proposed is not None and proposed > queues:
        yield Finding(
            kind=FindingKind.ANALYSIS_PROPOSES_MORE,
            sentence=f"A9 proposes {proposed} queues in all, there are {queues}",
            numbers={"queues": proposed},
        )


def _ramp(
    name: str, group: GroupSignals, ramp: tuple[int, float, float], forecast: TrafficForecast
) -> Iterator[Finding]:
    """Yield a group whose clients have too few queues for where the ramp leads."""
    queues, put_tps, ahead = ramp
    totals, without, holding = totals_of(group), group.clients_without_queue(queues), group.holding(queues)
    if totals is None or not without or not holding or group.clients is None:
        return
    # Where no group was ever too slow, a queue is known to carry what it carries now, and no more.
    queue_tps = max(forecast.queue_tps or 0.0, totals.consume_tps / holding)
    if queue_tps > 0 and ahead * GROW_RESERVE > queue_tps * queues:
        yield Finding(
            kind=FindingKind.RAMP_AHEAD,
            subject=name,
            sentence=f"group {name}: {len(group.clients)} consumers, {queues} queues: {without} have none, and "
            f"{put_tps:.0f} messages/s become {ahead:.0f} within {RAMP_AHEAD_S:.0f} s",
            numbers={"clients": len(group.clients), "queues": queues, "queue_tps": queue_tps, "expected_tps": ahead},
        )


def _peak(queues: int, put_tps: float, forecast: TrafficForecast) -> Iterator[Finding]:
    expected, clients, queue_tps = forecast.expected_tps, forecast.expected_clients, forecast.queue_tps
    if expected is None or clients is None or not queue_tps or expected < PEAK_FACTOR * put_tps:
        return
    # More queues than clients would carry no more.
    need = min(carrying(expected * GROW_RESERVE, queue_tps), clients)
    if need > queues:
        yield Finding(
            kind=FindingKind.DAILY_PEAK_AHEAD,
            sentence=f"{expected:.0f} messages/s and {clients} consumers came on {DAYS_AGREEING} days and more of the "
            f"last ones, within {AHEAD_MS // 60_000} minutes of this time of day; a queue carries {queue_tps:.0f}",
            numbers={"expected_tps": expected, "clients": clients, "queue_tps": queue_tps, "queues": queues},
        )
