"""How many queues are needed, and which count of a policy gives as many. Pure."""

import math
from collections.abc import Callable
from typing import Final

from controller.scaling.autoscaler.daily_peaks import TrafficForecast
from controller.scaling.autoscaler.findings import Finding, FindingKind
from controller.scaling.autoscaler.policies import ScalingPolicy
from controller.scaling.autoscaler.signals import TopicSignals

#: Growing leaves so much space above what is expected, shrinking more: what fits after it must not grow again.
GROW_RESERVE: Final = 1.25
SHRINK_RESERVE: Final = 1.5
CLIENTS_RESERVE: Final = 1.25

#: Where no group was ever too slow, a queue is taken to carry so many messages a second.
QUEUE_TPS_TARGET: Final = 500.0

#: What is measured of a queue counts as no less.
QUEUE_TPS_MIN: Final = 0.01

#: A ramp is taken to go on for so long, and to at most so many times what comes in now.
RAMP_AHEAD_S: Final = 300.0
RAMP_FACTOR_MAX: Final = 2.0

#: Clients are being added while so many times more than now is expected: so many times those of now may find a queue.
RISE_FACTOR: Final = 1.1
CLIENTS_FACTOR: Final = 2

#: The client with the most queues may have so many times the average.
IMBALANCE_MAX: Final = 1.25


def ramped_tps(put_tps: float, put_slope: float) -> float:
    """Return the write rate at the top of the ramp, as far as one can see."""
    return min(put_tps + max(0.0, put_slope) * RAMP_AHEAD_S, put_tps * RAMP_FACTOR_MAX)


def queues_needed(finding: Finding, signals: TopicSignals, expected_tps: float, forecast: TrafficForecast) -> int:
    """Return how many queues on all sets a finding that growth helps calls for, at the top of the ramp."""
    numbers = finding.numbers
    if finding.kind is FindingKind.ANALYSIS_PROPOSES_MORE:
        return int(numbers["queues"])
    if finding.kind is FindingKind.UNEVEN_QUEUES:
        return int(numbers["queues"]) + 1
    if finding.kind is FindingKind.WRITES_NEAR_LIMIT:
        # The number is of one set, and all sets get as many.
        share = numbers["write_tps"] * numbers["queues"] / max(1.0, signals.put_tps or 0.0)
        return carrying(expected_tps * share * GROW_RESERVE, numbers["queue_tps"]) * len(signals.sets)
    queue_tps, clients = numbers["queue_tps"], int(numbers["clients"])
    by_load = carrying(expected_tps * GROW_RESERVE, queue_tps)
    if finding.kind is FindingKind.ORDERLY_QUEUES_AT_LIMIT:
        # Each queue has a thread, whoever holds it.
        return by_load
    if expected_tps <= RISE_FACTOR * (signals.put_tps or 0.0):
        # More queues than clients would carry no more.
        return clients
    clients_soon = max(clients * CLIENTS_FACTOR, forecast.expected_clients or 0)
    return max(clients, min(by_load, clients_soon))


def carrying(tps: float, queue_tps: float) -> int:
    """Return how many queues carry a rate; queues that carry hardly anything count as `QUEUE_TPS_MIN` each."""
    return math.ceil(tps / max(queue_tps, QUEUE_TPS_MIN))


def queues_of_week(forecast: TrafficForecast) -> int:
    """Return how many queues on all sets the last days needed, with a reserve."""
    by_load = carrying((forecast.peak_tps or 0.0) * SHRINK_RESERVE, forecast.queue_tps or QUEUE_TPS_TARGET)
    return max(by_load, math.ceil((forecast.peak_clients or 0) * CLIENTS_RESERVE), 1)


def is_balanced(queues: int, clients: int) -> bool:
    """Return whether queues can be given to clients about evenly: with 16 queues, four of 12 clients have two."""
    if clients < 1 or queues < 1:
        return True
    return math.ceil(queues / clients) * clients <= IMBALANCE_MAX * queues


def raised(policy: ScalingPolicy, count: int, need: int, is_even: Callable[[int], bool]) -> int:
    """Return the count, multiplied by the step until it is enough and even, or else enough, within the policy."""
    enough = [each for each in _multiples(policy, count) if each >= need]
    if not enough:
        return policy.queues_max
    return next((each for each in enough if is_even(each)), enough[0])


def _multiples(policy: ScalingPolicy, count: int) -> list[int]:
    multiples, target = [], float(count)
    while target <= policy.queues_max:
        multiples.append(max(policy.queues_min, math.ceil(target)))
        target *= policy.step
    return [each for each in multiples if each <= policy.queues_max]


def lowered(policy: ScalingPolicy, count: int, need: int, is_even: Callable[[int], bool]) -> int:
    """Return the count, divided by the step while it is enough, within the limits of the policy.

    The least count that is even; if none is, the count stays. One above the policy's max shrinks to it or below.
    """
    target, least = count, max(need, policy.queues_min)
    lower = math.ceil(count / policy.step)
    best = count
    while least <= lower < target:
        target = lower
        if is_even(target):
            best = target
        lower = math.ceil(target / policy.step)
    return best if best <= policy.queues_max else count
