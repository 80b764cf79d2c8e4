"""Probes of suspected brokers that are under way: at most so many at a time, masters first."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import ANSWER_MS, PROBE_AGAIN_MS_MAX, Probe, ProbeOutcome, Suspicion

#: How long after its timeout the result of a probe may still be reported; after that it counts as no answer.
_REPORT_MS: Final = 1_000
#: How many brokers are probed at a time, and how many of them newly between two looks: thousands of probes at once
#: would hold up this process until their answers are too late.
PROBES_MAX: Final = 400
NEW_PROBES_MAX: Final = 64


class _OpenProbe(NamedTuple):
    """A broker is being probed; each has one probe at a time."""

    #: Why it is probed: a broker that made contact meanwhile, and is suspect again, has another suspicion.
    suspicion: Suspicion
    #: Then no result will be reported any more.
    until_ms: int


class OpenProbes:
    """Probes whose results are still to be reported."""

    def __init__(self, is_master: Callable[[BrokerKey], bool]) -> None:
        """`is_master` is true of a broker that leads its set: masters are probed before all others."""
        self._is_master = is_master
        self._open: dict[BrokerKey, _OpenProbe] = {}
        self._new = 0

    def begin_look(self) -> None:
        """Allow NEW_PROBES_MAX new probes until the next look."""
        self._new = 0

    def start(self, due: list[BrokerKey], suspicions: Mapping[BrokerKey, Suspicion], now_ms: int) -> list[Probe]:
        """Return the probes of those brokers that have a place now; `due` is sorted if not all have."""
        places = min(NEW_PROBES_MAX - self._new, PROBES_MAX - len(self._open))
        if places < len(due):
            due.sort(key=self._is_master, reverse=True)
            due = due[: max(places, 0)]
        self._new += len(due)
        return [self._start(key, suspicions[key], now_ms) for key in due]

    def _start(self, key: BrokerKey, suspicion: Suspicion, now_ms: int) -> Probe:
        timeout_ms = ANSWER_MS
        if suspicion.outcome is not None:
            timeout_ms = max(min(suspicion.deadline_ms - now_ms, ANSWER_MS), PROBE_AGAIN_MS_MAX)
        self._open[key] = _OpenProbe(suspicion, now_ms + timeout_ms + _REPORT_MS)
        return Probe(key, timeout_ms)

    def is_open(self, key: BrokerKey) -> bool:
        """Return whether a broker is being probed."""
        return key in self._open

    def awaits_result(self, key: BrokerKey, suspicion: Suspicion, now_ms: int) -> bool:
        """Return whether a result is still to be reported; a probe whose result never comes has no answer."""
        probe = self._open.get(key)
        if probe is None or now_ms < probe.until_ms:
            return probe is not None
        del self._open[key]
        if probe.suspicion is suspicion:
            suspicion.take(ProbeOutcome.NO_ANSWER, now_ms)
        return False

    def end(self, key: BrokerKey, suspicion: Suspicion | None) -> bool:
        """End a probe; return whether its result is about this suspicion.

        It is not if the broker made contact meanwhile, or failure detection was suspended.
        """
        probe = self._open.pop(key, None)
        return suspicion is not None and probe is not None and probe.suspicion is suspicion

    def remove(self, key: BrokerKey) -> None:
        """Ignore the result of a probe."""
        self._open.pop(key, None)

    def clear(self) -> None:
        """Ignore the results of all probes."""
        self._open.clear()
