"""Whether a topic is in need, and whether more queues would help it. Pure.

They help where parallel work is limited by the number of queues: clients without a queue, an orderly group that is at
its limit in each queue, writes near what a queue takes. They do not help where something else is slow.
"""

from collections.abc import Iterator
from statistics import fmean
from typing import Final

from controller.scaling.autoscaler.daily_peaks import AHEAD_MS, DAYS_AGREEING, TrafficForecast
from controller.scaling.autoscaler.findings import AnalysisOutlook, Finding, FindingKind
from controller.scaling.autoscaler.needs import GROW_RESERVE, RAMP_AHEAD_S, carrying, is_balanced, ramped_tps
from controller.scaling.autoscaler.signals import BrokerLoad, GroupProgressTotals, GroupSignals, TopicSignals, totals_of
from controller.scaling.resize.observation import GroupKind

#: A queue is hot if so many times more comes into it than into the others on average, and at least so much.
HOT_FACTOR: Final = 3.0
HOT_TPS_MIN: Final = 10.0

#: So much of what is left has to be in some queues, for them to be the reason.
REASON_SHARE: Final = 0.5

#: So many of the queues of an orderly group have to fall behind.
QUEUES_AT_LIMIT_SHARE: Final = 0.8

#: So much of what a queue takes at most may come in.
QUEUE_WRITES_SHARE: Final = 0.8

#: A broker is slow as a whole: so much of its limit, or requests that wait so long.
BROKER_WRITES_SHARE: Final = 0.9
QUEUE_WAIT_MS_MAX: Final = 100.0


def diagnose(signals: TopicSignals, behind_ms: int) -> tuple[Finding, ...]:
    """Return what is found; a group needs help if it is `behind_ms` behind, or on the way there."""
    missing = list(_missing(signals))
    found = [*missing, *_slow_brokers(signals)]
    if not missing:
        found += _near_limits(signals)
    for name, group in signals.groups.items():
        found += _of_group(signals, name, group, behind_ms)
    if not found:
        sentence = f"no group is behind, {signals.put_tps or 0.0:.0f} messages/s come in"
        found.append(Finding(kind=FindingKind.CALM, sentence=sentence))
    return tuple(found)


def _missing(signals: TopicSignals) -> Iterator[Finding]:
    for name, each in signals.sets.items():
        if each.read_queues is None or each.write_queues is None:
            yield _missing_data(name, f"broker set {name}: its master did not answer")
    if not signals.sets:
        yield _missing_data("", "no broker set of the topic is known")
    elif signals.put_tps is None:
        yield _missing_data("", "the write rates are not known")


def _missing_data(subject: str, sentence: str) -> Finding:
    return Finding(kind=FindingKind.MISSING_DATA, subject=subject, sentence=sentence)


def _slow_brokers(signals: TopicSignals) -> Iterator[Finding]:
    for name, each in signals.sets.items():
        if slow := _slowness(each.load):
            yield Finding(
                kind=FindingKind.SLOW_BROKER,
                subject=name,
                sentence=f"broker set {name} is slow as a whole: {slow}",
                numbers={"queue_wait_ms": each.load.queue_wait_ms or 0.0, "put_tps": each.load.put_tps or 0.0},
            )


def _slowness(load: BrokerLoad) -> str:
    if load.queue_wait_ms is not None and load.queue_wait_ms >= QUEUE_WAIT_MS_MAX:
        return f"requests wait {load.queue_wait_ms:.0f} ms"
    if load.is_page_cache_busy:
        return "its page cache is busy"
    if load.put_tps is not None and load.put_tps_limit and load.put_tps >= BROKER_WRITES_SHARE * load.put_tps_limit:
        return f"{load.put_tps:.0f} of at most {load.put_tps_limit:.0f} messages/s come in"
    return ""


def _near_limits(signals: TopicSignals) -> Iterator[Finding]:
    """Yield the broker sets whose queues each take nearly what a queue takes at most."""
    for name, each in signals.sets.items():
        limit = each.load.queue_tps_limit
        rates = [rate for rate in each.write_tps[: each.write_queues] if rate is not None]
        if not limit or not rates or fmean(rates) < QUEUE_WRITES_SHARE * limit or _hot(rates) is not None:
            continue
        yield Finding(
            kind=FindingKind.WRITES_NEAR_LIMIT,
            subject=name,
            sentence=f"broker set {name}: {fmean(rates):.0f} messages/s come into each of {len(rates)} queues, "
            f"of at most {limit:.0f}",
            numbers={"queue_tps": limit * QUEUE_WRITES_SHARE, "queues": len(rates), "write_tps": fmean(rates)},
        )


def _hot(rates: list[float]) -> int | None:
    if len(rates) < 2:  # noqa: PLR2004 - one queue has no others
        return None
    position = max(range(len(rates)), key=rates.__getitem__)
    others = (sum(rates) - rates[position]) / (len(rates) - 1)
    is_hot = rates[position] >= HOT_TPS_MIN and rates[position] > HOT_FACTOR * others
    return position if is_hot else None


def has_hot_queue(signals: TopicSignals) -> bool:
    """Return whether much more comes into one queue than into the others: a key, or few, that no queue can share."""
    rates = [rate for each in signals.sets.values() for rate in each.write_tps if rate is not None]
    return _hot(rates) is not None


def _of_group(signals: TopicSignals, name: str, group: GroupSignals, behind_ms: int) -> Iterator[Finding]:
    if group.kind is GroupKind.BROADCAST:
        # Its members hold their offsets themselves, and each gets all messages.
        return
    totals = totals_of(group)
    if group.kind is None or totals is None or group.clients is None:
        yield _missing_data(name, f"group {name}: {_what_is_missing(group)} not known")
    elif totals.needs_help(behind_ms):
        yield _reason(signals, name, group, totals)


def _what_is_missing(group: GroupSignals) -> str:
    if group.kind is None:
        return "its kind is"
    if group.clients is None:
        return "its clients are"
    return "its lag or its rates are"


def _reason(signals: TopicSignals, name: str, group: GroupSignals, totals: GroupProgressTotals) -> Finding:
    clients = len(group.clients or ())
    queues = signals.queues or len(group.queues)
    state = f"group {name}: {clients} consumers, {queues} queues"
    holding, without = group.holding(queues) or 0, group.clients_without_queue(queues) or 0
    numbers = {
        "clients": clients,
        "queues": queues,
        "clients_without_queue": without,
        "lag": totals.lag,
        "lag_trend": totals.lag_trend,
        "consume_tps": totals.consume_tps,
        "queue_tps": totals.consume_tps / max(1, holding),
    }
    kind, why = _kind_and_why(signals, group, totals, without)
    return Finding(kind=kind, subject=name, sentence=f"{state}: {why}; {totals.sentence}", numbers=numbers)


def _kind_and_why(
    signals: TopicSignals, group: GroupSignals, totals: GroupProgressTotals, without: int
) -> tuple[FindingKind, str]:
    if elsewhere := _not_for_lack_of_queues(signals, group, totals):
        return elsewhere
    if without > 0:
        return FindingKind.CLIENTS_WITHOUT_QUEUE, f"{without} have none"
    if group.kind is GroupKind.ORDERLY and totals.growing_queues >= QUEUES_AT_LIMIT_SHARE * len(group.queues):
        return FindingKind.ORDERLY_QUEUES_AT_LIMIT, f"orderly, and behind in {totals.growing_queues} of them"
    if more := _clients_with_more(group, totals):
        return FindingKind.UNEVEN_QUEUES, f"{more} hold more queues than the others, and only they are behind"
    return FindingKind.SLOW_LISTENER, "each consumer has a queue, so they are too slow or too few"


def _clients_with_more(group: GroupSignals, totals: GroupProgressTotals) -> int:
    """Return how many clients hold one queue more than the others, if nobody else is behind; else 0."""
    queues, clients = len(group.queues), len(group.clients or ())
    gives_queues = group.kind is not None and group.kind.gives_queues_to_clients
    if not gives_queues or queues <= clients or is_balanced(queues, clients):
        return 0
    share, more = divmod(queues, clients)
    return more if totals.lagging_queues <= more * (share + 1) else 0


def _not_for_lack_of_queues(
    signals: TopicSignals, group: GroupSignals, totals: GroupProgressTotals
) -> tuple[FindingKind, str] | None:
    if not group.clients:
        return FindingKind.NO_CLIENTS, "none of its clients is online"
    if totals.still_lag >= REASON_SHARE * totals.lag:
        return FindingKind.OFFSETS_STAND_STILL, f"its offset stands still in {totals.still_queues} queues"
    if hot := _hot_queue(signals, group, totals):
        return FindingKind.HOT_KEY, hot
    if group.kind is GroupKind.POP:
        return FindingKind.SHARED_QUEUES, "pop clients share all queues, so they are too slow or too few"
    return None


def _hot_queue(signals: TopicSignals, group: GroupSignals, totals: GroupProgressTotals) -> str:
    """Return which queue gets most of what comes in, and holds most of what is left."""
    lags = {(each.broker_name, each.queue_id): each.lag or 0 for each in group.queues}
    queues = [
        (name, queue_id, rate)
        for name, each in signals.sets.items()
        for queue_id, rate in enumerate(each.write_tps)
        if rate is not None
    ]
    position = _hot([rate for _, _, rate in queues])
    if position is None:
        return ""
    name, queue_id, rate = queues[position]
    if lags.get((name, queue_id), 0) < REASON_SHARE * totals.lag:
        return ""
    return f"queue {queue_id} of {name} gets {rate:.0f} messages/s, many times more than others: one key, or few"


#: A peak is ahead only if so many times more than now is expected.
PEAK_FACTOR: Final = 1.1

#: A ramp is steep if it leads to so many times what comes in now, and matters from so many messages a second on.
RAMP_FACTOR_MIN: Final = 1.5
RAMP_TPS_MIN: Final = 20.0


def foretold(
    signals: TopicSignals, put_slope: float, forecast: TrafficForecast, outlook: AnalysisOutlook
) -> Iterator[Finding]:
    """Yield what will be needed soon; nothing while the present count or rate is unknown.

    More queues do not help with messages that wait in the old ones already: only growth before a lag is in time.
    """
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
