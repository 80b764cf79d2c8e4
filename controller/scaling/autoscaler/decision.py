"""What follows from what is found: a proposal, or nothing, and why. Pure.

Growing takes one finding that holds for the policy's window; it goes to what is needed at the top of the ramp, as each
resize makes clients exchange queues. Shrinking takes a week that needed less.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controller.scaling.autoscaler.daily_peaks import DAY_MS, DAYS, TrafficForecast
from controller.scaling.autoscaler.findings import AnalysisOutlook, Effect, Finding, FindingKind
from controller.scaling.autoscaler.needs import is_balanced, lowered, queues_needed, queues_of_week, raised, ramped_tps
from controller.scaling.autoscaler.policies import PolicyMode, ScalingPolicy
from controller.scaling.autoscaler.signals import TopicSignals
from controller.scaling.resize.observation import SPECIAL_TYPES, GroupKind

#: One ramp is no longer than this, and takes no more resizes.
RAMP_MS: Final = 6 * 3_600_000
RAMP_RESIZES_MAX: Final = 2

#: No shrink so soon after a growth or a shrink.
SHRINK_PAUSE_MS: Final = DAY_MS

#: Shrinks happen while less than this share of the week's peak comes in.
QUIET_SHARE: Final = 0.5

#: Own resizes of a topic that have to be known: the two of a ramp, and one of a day.
RESIZES_MAX: Final = 16

#: The analysis A12 gives the servers so few days: growth is an operator's decision.
CAPACITY_DAYS_MIN: Final = 7.0


class PastResize(NamedTuple):
    """A resize of the topic that was begun; proposals that nobody carried out are none."""

    begun_unix_ms: int
    #: None while it runs.
    ended_unix_ms: int | None
    #: Queues on each set.
    before: int
    after: int


class KnownResizes(NamedTuple):
    """The resizes of a topic, in the order of their beginning."""

    of_topic: tuple[PastResize, ...] = ()
    #: Those that began before are not all known, as there were too many of all topics. 0: all are known.
    since_unix_ms: int = 0

    def is_whole(self, unix_ms: int, span_ms: int) -> bool:
        return self.since_unix_ms == 0 or unix_ms - self.since_unix_ms >= span_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    signals: TopicSignals
    #: What is found now, and of that what has held for the policy's window, or for the time before a shrink.
    seen: tuple[Finding, ...] = ()
    held: tuple[Finding, ...] = ()
    #: By how many messages/s the write rate grows each second.
    put_slope: float = 0.0
    forecast: TrafficForecast = field(default_factory=TrafficForecast)
    resizes: KnownResizes = field(default_factory=KnownResizes)
    outlook: AnalysisOutlook = field(default_factory=AnalysisOutlook)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingVerdict:
    """What the autoscaler makes of a topic; counts are queues on each broker set."""

    topic: str
    unix_ms: int
    #: Who decides on it: the policy's mode, or a more careful one.
    mode: PolicyMode
    before: int | None
    #: None: nothing is to change.
    target: int | None
    reason: str
    findings: tuple[Finding, ...] = ()

    @property
    def is_change(self) -> bool:
        return self.target is not None


class _Outcome(NamedTuple):
    target: int | None
    reason: str
    is_only_proposed: bool = False


def decide(policy: ScalingPolicy, evidence: Evidence, unix_ms: int) -> ScalingVerdict:
    count = evidence.signals.queues_per_set
    outcome = _outcome(policy, evidence, count, unix_ms)
    mode, reason = policy.mode, outcome.reason
    if outcome.target is not None and mode is not PolicyMode.PROPOSE:
        careful = _why_only_proposed(evidence, count, outcome)
        if careful:
            mode, reason = PolicyMode.PROPOSE, f"{reason}; only proposed: {careful}"
    return ScalingVerdict(
        topic=evidence.signals.topic,
        unix_ms=unix_ms,
        mode=mode,
        before=count,
        target=outcome.target,
        reason=reason,
        findings=evidence.seen,
    )


def _why_only_proposed(evidence: Evidence, count: int | None, outcome: _Outcome) -> str:
    signals = evidence.signals
    is_orderly = any(group.kind is GroupKind.ORDERLY for group in signals.groups.values())
    if signals.is_static is not False:
        return "its queues are mapped by a table, or nobody knows whether they are"
    if signals.is_ordered is not False or is_orderly:
        return "its messages have an order, or nobody knows whether they do"
    days_left, grows = evidence.outlook.days_left, (outcome.target or 0) > (count or 0)
    if grows and days_left is not None and days_left < CAPACITY_DAYS_MIN:
        return f"A12 gives the servers {days_left:.1f} days"
    return "the need was not seen, only foretold by A9" if outcome.is_only_proposed else ""


def _outcome(policy: ScalingPolicy, evidence: Evidence, count: int | None, unix_ms: int) -> _Outcome:
    if count is None:
        return _Outcome(None, _sentences(evidence.seen) or "the queues of the topic are not known")
    if pause := _pause(policy, evidence, unix_ms):
        return _Outcome(None, pause)
    helping = [each for each in evidence.held if each.effect is Effect.HELP]
    if helping:
        return _grown(policy, evidence, count, helping, unix_ms)
    if any(each.kind is FindingKind.CALM for each in evidence.held):
        return _shrunk(policy, evidence, count, unix_ms)
    waiting = [each for each in evidence.seen if each.effect is Effect.HELP]
    if waiting:
        return _Outcome(None, f"not for {policy.window_ms // 1000} s yet: {_sentences(waiting)}")
    return _Outcome(None, _sentences(evidence.seen) or "nothing was found")


def _pause(policy: ScalingPolicy, evidence: Evidence, unix_ms: int) -> str:
    """Return why there is no resize now, whatever is found; blank if there may be one."""
    if special := evidence.signals.special_type:
        return f"its number of queues is an operator's: message.type {special}, {SPECIAL_TYPES[special]}"
    for each in evidence.resizes.of_topic:
        if each.ended_unix_ms is None:
            return f"a resize from {each.before} to {each.after} queues runs"
        if unix_ms - each.ended_unix_ms < policy.cooldown_ms:
            # A clock that was set back shows an end in the future: that waits too.
            return f"a resize ended less than {policy.cooldown_ms // 1000} s ago"
    return ""


def _sentences(findings: Iterable[Finding]) -> str:
    return "; ".join(each.sentence for each in findings)


def _grown(policy: ScalingPolicy, evidence: Evidence, count: int, helping: list[Finding], unix_ms: int) -> _Outcome:
    reason = _sentences(helping)
    if obstacle := _obstacle(evidence):
        return _Outcome(None, f"{obstacle}; so no growth although {reason}")
    if tired := _why_no_further_growth(evidence.resizes, unix_ms):
        return _Outcome(None, f"{tired}, an operator decides: {reason}")
    signals, sets = evidence.signals, max(1, len(evidence.signals.sets))
    expected = expected_tps(evidence)
    need = max(queues_needed(each, signals, expected, evidence.forecast) for each in helping)
    clients = max((int(each.numbers.get("clients", 0)) for each in helping), default=0)
    target = raised(policy, count, math.ceil(need / sets), lambda each: is_balanced(each * sets, clients))
    is_in_vain = all(each.kind is FindingKind.UNEVEN_QUEUES for each in helping)
    if is_in_vain and not is_balanced(target * sets, clients):
        return _Outcome(None, f"no count up to {policy.queues_max} is even: {reason}")
    if target <= count:
        limit = f"max of the policy is {policy.queues_max}" if count >= policy.queues_max else f"{need} queues do"
        return _Outcome(None, f"{count} queues on each set stay, {limit}: {reason}")
    is_foretold = all(each.kind is FindingKind.ANALYSIS_PROPOSES_MORE for each in helping)
    return _Outcome(target, f"{count} to {target} queues on each set, {need} in all are needed: {reason}", is_foretold)


def _why_no_further_growth(resizes: KnownResizes, unix_ms: int) -> str:
    hours = RAMP_MS // 3_600_000
    grown = [each for each in resizes.of_topic if each.after > each.before and unix_ms - each.begun_unix_ms < RAMP_MS]
    if len(grown) >= RAMP_RESIZES_MAX:
        return f"it grew {len(grown)} times within {hours} hours"
    return "" if resizes.is_whole(unix_ms, RAMP_MS) else f"not all resizes of the last {hours} hours are known"


def _obstacle(evidence: Evidence) -> str:
    """Return what makes growth useless or unsafe; blank if nothing does."""
    blocking = [
        each
        for each in evidence.seen
        if each.kind is FindingKind.SLOW_BROKER
        or (each.kind is FindingKind.MISSING_DATA and each.subject not in evidence.signals.groups)
    ]
    return _sentences(blocking)


def expected_tps(evidence: Evidence) -> float:
    """Return the write rate that has to be carried: where the ramp goes, or what the days before foretell."""
    ahead = ramped_tps(evidence.signals.put_tps or 0.0, evidence.put_slope)
    return max(ahead, evidence.forecast.expected_tps or 0.0)


def _shrunk(policy: ScalingPolicy, evidence: Evidence, count: int, unix_ms: int) -> _Outcome:
    calm = _sentences(evidence.seen)
    if obstacle := _shrink_obstacle(evidence, unix_ms):
        return _Outcome(None, f"{calm}; no shrink: {obstacle}")
    need, sets, clients = (
        queues_of_week(evidence.forecast),
        max(1, len(evidence.signals.sets)),
        evidence.forecast.peak_clients,
    )
    target = lowered(policy, count, math.ceil(need / sets), lambda each: is_balanced(each * sets, clients or 0))
    if target >= count:
        return _Outcome(None, f"{calm}; the last {DAYS} days needed {need} queues in all")
    forecast = evidence.forecast
    week = (
        f"the last {DAYS} days had {forecast.peak_tps or 0:.0f} messages/s and {forecast.peak_clients or 0} consumers"
    )
    return _Outcome(target, f"{count} to {target} queues on each set: {week} at most, {need} queues in all carry that")


def _shrink_obstacle(evidence: Evidence, unix_ms: int) -> str:
    signals, forecast, outlook = evidence.signals, evidence.forecast, evidence.outlook
    is_busy = (signals.put_tps or 0.0) > QUIET_SHARE * (forecast.peak_tps or 0.0)
    obstacles = {
        "the topic is not calm": any(each.kind is not FindingKind.CALM for each in evidence.seen),
        "it was resized within a day": any(
            unix_ms - (each.ended_unix_ms or unix_ms) < SHRINK_PAUSE_MS for each in evidence.resizes.of_topic
        ),
        "not all resizes of the last day are known": not evidence.resizes.is_whole(unix_ms, SHRINK_PAUSE_MS),
        "static topics cannot": signals.is_static is not False,
        "its sets have different counts, an operator makes them equal first": not signals.has_equal_sets,
        f"{forecast.days} of the last {DAYS} days are known": forecast.days < DAYS or forecast.peak_tps is None,
        "it is not a quiet hour": is_busy,
        f"A9 states {outlook.verdict}": outlook.verdict in {"grow", "wait"},
    }
    return next((sentence for sentence, is_so in obstacles.items() if is_so), "")
