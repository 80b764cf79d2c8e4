"""What is found of a topic, whether more queues would help, how long a finding has held, and where rates go."""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean
from typing import Final, NamedTuple


class Effect(StrEnum):
    """What more queues would do; the values are shown to operators."""

    HELP = "queues help"
    DO_NOT_HELP = "queues do not help"
    UNKNOWN = "unknown"
    NOT_NEEDED = "not needed"


class FindingKind(StrEnum):
    """What can be found; the values are shown to operators."""

    CLIENTS_WITHOUT_QUEUE = "clients_without_queue"
    ORDERLY_QUEUES_AT_LIMIT = "orderly_queues_at_limit"
    UNEVEN_QUEUES = "uneven_queues"
    WRITES_NEAR_LIMIT = "writes_near_limit"
    RAMP_AHEAD = "ramp_ahead"
    DAILY_PEAK_AHEAD = "daily_peak_ahead"
    ANALYSIS_PROPOSES_MORE = "analysis_proposes_more"
    SLOW_LISTENER = "slow_listener"
    HOT_KEY = "hot_key"
    SLOW_BROKER = "slow_broker"
    OFFSETS_STAND_STILL = "offsets_stand_still"
    NO_CLIENTS = "no_clients"
    SHARED_QUEUES = "shared_queues"
    MISSING_DATA = "missing_data"
    CALM = "calm"


_EFFECTS = {
    FindingKind.CLIENTS_WITHOUT_QUEUE: Effect.HELP,
    FindingKind.ORDERLY_QUEUES_AT_LIMIT: Effect.HELP,
    FindingKind.UNEVEN_QUEUES: Effect.HELP,
    FindingKind.WRITES_NEAR_LIMIT: Effect.HELP,
    FindingKind.RAMP_AHEAD: Effect.HELP,
    FindingKind.DAILY_PEAK_AHEAD: Effect.HELP,
    FindingKind.ANALYSIS_PROPOSES_MORE: Effect.HELP,
    FindingKind.MISSING_DATA: Effect.UNKNOWN,
    FindingKind.CALM: Effect.NOT_NEEDED,
}


class FindingKey(NamedTuple):
    """The same finding at another moment has the same key."""

    kind: FindingKind
    #: The group, or the broker set; blank for the topic.
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    kind: FindingKind
    #: The group, or the broker set, that it is about; blank for the topic.
    subject: str = ""
    #: What was seen, with the numbers.
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def effect(self) -> Effect:
        return _EFFECTS.get(self.kind, Effect.DO_NOT_HELP)

    @property
    def key(self) -> FindingKey:
        return FindingKey(self.kind, self.subject)


class AnalysisOutlook(NamedTuple):
    """What the newest results of A9 and A12 tell of a topic; None where there is no result."""

    #: Verdict of A9: grow, shrink, keep or wait.
    verdict: str | None = None
    #: Queues on all sets that A9 proposes.
    queues_proposed: int | None = None
    #: The fewest days that A12 gives any resource.
    days_left: float | None = None


#: A finding holds while it was seen in this share of the samples since it began.
SEEN_SHARE: Final = 0.8

#: One sample proves nothing, nor do two.
SAMPLES_MIN: Final = 3

#: From so many samples on, older ones count half.
SAMPLES_COUNTED: Final = 40

#: After so long without a sample everything begins anew.
GAP_MS_MAX: Final = 5 * 60_000

#: Findings of a topic that are followed.
FINDINGS_MAX: Final = 64

#: The newest write rates, which a ramp is seen by, and the older ones, which it is compared with; fewer give no ramp.
RATES_MAX: Final = 5
OLDER_RATES_MAX: Final = 60
OLDER_RATES_MIN: Final = 3

#: How closely they have to follow a line: their correlation with time.
LINE_MIN: Final = 0.9

#: A ramp leads to so many times the highest of the older rates: what only goes up and down does not.
NEW_HIGH_FACTOR: Final = 1.2


@dataclass(slots=True)
class _FindingRun:
    since_ms: int
    seen: float = 0.0
    samples: float = 0.0
    is_seen_now: bool = True

    def add(self, *, is_seen: bool) -> None:
        self.is_seen_now = is_seen
        self.samples += 1
        self.seen += is_seen
        if self.samples >= SAMPLES_COUNTED:
            self.samples, self.seen = self.samples / 2, self.seen / 2

    @property
    def is_over(self) -> bool:
        return self.seen < SEEN_SHARE * self.samples


class SignalWindow:
    """The runs of findings of one topic; bounded, whatever the window."""

    def __init__(self) -> None:
        self._runs: dict[FindingKey, _FindingRun] = {}
        self._last_ms: int | None = None
        self._times = array("q")
        self._rates = array("d")
        self._older = array("d")

    def add(self, unix_ms: int, keys: Iterable[FindingKey], put_tps: float | None) -> None:
        """Take one sample; after a gap, or if the clock went back, everything begins anew."""
        if self._last_ms is not None and not 0 < unix_ms - self._last_ms <= GAP_MS_MAX:
            self._runs.clear()
            del self._times[:], self._rates[:], self._older[:]
        self._last_ms = unix_ms
        seen = set(keys)
        for key, run in list(self._runs.items()):
            run.add(is_seen=key in seen)
            if run.is_over:
                del self._runs[key]
        for key in seen - self._runs.keys():
            if len(self._runs) < FINDINGS_MAX:
                self._runs[key] = _FindingRun(unix_ms, seen=1, samples=1)
        self._add_rate(unix_ms, put_tps)

    def _add_rate(self, unix_ms: int, put_tps: float | None) -> None:
        if put_tps is None:
            return
        self._times.append(unix_ms)
        self._rates.append(put_tps)
        if len(self._times) > RATES_MAX:
            self._older.append(self._rates[0])
            del self._times[0], self._rates[0], self._older[:-OLDER_RATES_MAX]

    def holds(self, key: FindingKey, window_ms: int) -> bool:
        """Return whether a finding is seen now, and has held for the window."""
        run = self._runs.get(key)
        if run is None or self._last_ms is None or not run.is_seen_now:
            return False
        return run.samples >= SAMPLES_MIN and self._last_ms - run.since_ms >= window_ms

    def put_slope(self) -> float:
        """Return how many messages/s each second adds; 0 unless the rates lie on a line that leads above older ones."""
        if len(self._older) < OLDER_RATES_MIN or self._rates[-1] <= NEW_HIGH_FACTOR * max(self._older):
            return 0.0
        seconds = [(each - self._times[0]) / 1000 for each in self._times]
        middle, mean = fmean(seconds), fmean(self._rates)
        together = sum((x - middle) * (y - mean) for x, y in zip(seconds, self._rates, strict=True))
        spread, height = sum((x - middle) ** 2 for x in seconds), sum((y - mean) ** 2 for y in self._rates)
        is_line = together**2 >= LINE_MIN**2 * spread * height
        return together / spread if spread > 0 and is_line else 0.0
