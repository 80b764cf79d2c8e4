"""Why a broker is suspected of having failed, what a probe of its port has shown, and what follows.

Source: docs/protocol/controller.md 3 and 6.1. Pure values; `detector.py` judges.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from controller.failure_detection.heartbeats import BrokerKey, LastHeartbeat, Source
from controller.failure_detection.hosts import Silence

#: How long a silent broker has to answer our probe. One that was paused for 2 s, a second after a heartbeat, goes on
#: before the probe and answers within some ms. A slave takes over only between two waits of a second for its frozen
#: master: if notified within the third second it leads at its end, if later at that of the fourth.
ANSWER_MS: Final = 300
#: How soon a broker is probed again that neither refused nor answered; doubled up to the longest.
_PROBE_AGAIN_MS: Final = 50
PROBE_AGAIN_MS_MAX: Final = 400
#: How soon one is probed again that would have failed if not so many others were silent too.
_PROBE_SUSPENDED_MS: Final = 2_000


class SuspicionReason(Enum):
    """Why a broker is suspect or failed; the values are labels of metrics."""

    CLOSED = "channel_closed"
    SILENT = "timeout"
    NO_CONTACT_YET = "unheard"


class ProbeOutcome(Enum):
    ANSWERED = "answered"
    #: Nothing listens at its port: its process has ended.
    REFUSED = "refused"
    NO_ANSWER = "no_answer"
    #: Another broker answers at its port.
    ANOTHER = "another_broker"
    #: This process could not probe, for want of files or memory: nothing follows for the broker.
    NOT_PROBED = "not_asked"


#: Results that prove a failure at once; a cut network causes none of them.
PROOFS: Final = frozenset({ProbeOutcome.REFUSED, ProbeOutcome.ANOTHER})
_OUTCOME_TEXTS: Final = {
    ProbeOutcome.REFUSED: "its port refuses connections",
    ProbeOutcome.ANOTHER: "another broker answers at its port",
    ProbeOutcome.NO_ANSWER: "it does not answer",
}


def hide_probes(text: str) -> str:
    """Replace what a probe has shown by the one sentence that does not tell an open port from a closed one."""
    for outcome in PROOFS:
        text = text.replace(_OUTCOME_TEXTS[outcome], _OUTCOME_TEXTS[ProbeOutcome.NO_ANSWER])
    return text


class Probe(NamedTuple):
    """A broker to probe; `FailureDetector.probed` takes the result."""

    key: BrokerKey
    timeout_ms: int


class BrokerFailure(NamedTuple):
    key: BrokerKey
    why: SuspicionReason
    #: The result of the last probe.
    outcome: ProbeOutcome
    last: LastHeartbeat
    suspected_ms: int
    judged_ms: int
    #: So long a silence was waited for; None if it was not silence that made it suspect.
    timeout_ms: int | None = None

    @property
    def silent_ms(self) -> int | None:
        """For how long it had been silent; None if it has sent nothing since this controller started."""
        if self.why is SuspicionReason.NO_CONTACT_YET:
            return None
        return self.judged_ms - self.last.last_contact_ms

    @property
    def reason(self) -> str:
        began = {
            SuspicionReason.CLOSED: "its connection closed",
            SuspicionReason.SILENT: "its heartbeats stopped",
            SuspicionReason.NO_CONTACT_YET: "it has sent no heartbeat since this controller started",
        }[self.why]
        lasted = "" if self.silent_ms is None else f"; last contact {self.silent_ms} ms before"
        return f"{began} and {_OUTCOME_TEXTS[self.outcome]}{lasted}"


class HostsChangeKind(Enum):
    """What is reported of hosts that fell silent together."""

    SILENT = "silent"
    BACK = "back"
    GIVEN_UP = "given_up"


class HostsChange(NamedTuple):
    """What happened to most hosts, how many were silent then, and for how long."""

    event: HostsChangeKind
    silence: Silence
    silent_ms: int


@dataclass(slots=True)
class Suspicion:
    """Why one broker is suspect, and when it is probed and judged."""

    why: SuspicionReason
    since_ms: int
    #: Then it has failed, unless a sign of life comes.
    deadline_ms: int
    probe_at_ms: int
    #: So long a silence is waited for in all, where silence is the reason.
    timeout_ms: int | None = None
    pause_ms: int = _PROBE_AGAIN_MS
    outcome: ProbeOutcome | None = None
    #: Its last heartbeat, if it was counted as failed before.
    last: LastHeartbeat | None = None

    def take(self, outcome: ProbeOutcome, now_ms: int) -> None:
        self.outcome = None if outcome is ProbeOutcome.NOT_PROBED else outcome
        is_suspended = outcome is ProbeOutcome.NO_ANSWER and now_ms > self.deadline_ms + _PROBE_SUSPENDED_MS
        self.probe_at_ms = now_ms + (_PROBE_SUSPENDED_MS if is_suspended else self.pause_ms)
        self.pause_ms = min(2 * self.pause_ms, PROBE_AGAIN_MS_MAX)

    def begin_again(self, from_ms: int, deadline_ms: int = 0) -> None:
        """Ignore earlier probes: the broker has the time of a new suspect, or until a later deadline."""
        self.outcome = None
        self.probe_at_ms = from_ms
        self.deadline_ms = max(self.deadline_ms, from_ms + ANSWER_MS, deadline_ms)


#: What comes in the name of a failed broker from one host is believed after so long without a longer pause: the broker
#: may have moved to another address of its machine. So many hosts are remembered, the latest.
CLAIMED_MS: Final = 10_000
_CLAIM_PAUSE_MS: Final = 6_000
_CLAIMS_MAX: Final = 4
#: How many failed brokers are remembered, the last ones.
_FAILED_MAX: Final = 20_000


class FailedBroker(NamedTuple):
    """A broker that was in contact once and has failed."""

    judged_ms: int
    last: LastHeartbeat
    outcome: ProbeOutcome
    #: The hosts from which something came in its name that may be somebody else's, since when, and when last.
    claims: Mapping[str, tuple[int, int]] = {}

    @property
    def may_go_on(self) -> bool:
        """Whether it may only be frozen, or cut off: nothing proves that its process has ended."""
        return self.outcome is ProbeOutcome.NO_ANSWER


class FailedBrokers(dict[BrokerKey, FailedBroker]):
    """Failed brokers by key, the last _FAILED_MAX of them."""

    def add(self, key: BrokerKey, failed: FailedBroker) -> None:
        """Remember a broker as failed, and drop the oldest where there are too many."""
        while len(self) >= _FAILED_MAX:
            del self[next(iter(self))]
        self[key] = failed

    def drop_unproven(self, since_ms: int) -> None:
        """Drop brokers judged since then for want of an answer only: this controller was cut off."""
        dropped = [key for key, each in self.items() if each.outcome not in PROOFS and each.judged_ms >= since_ms]
        for key in dropped:
            del self[key]

    def take_claim(self, key: BrokerKey, source: Source, now_ms: int) -> bool:
        """Record what came in a failed broker's name; returns whether it is believed: from one host for CLAIMED_MS."""
        failed = self.get(key)
        if failed is None:
            return False
        host = source.peer.rpartition(":")[0]
        going_on = {name: times for name, times in failed.claims.items() if now_ms - times[1] <= _CLAIM_PAUSE_MS}
        since_ms, _ = going_on.pop(host, (now_ms, now_ms))
        latest = dict(list(going_on.items())[1 - _CLAIMS_MAX :])
        self[key] = failed._replace(claims=latest | {host: (since_ms, now_ms)})
        return now_ms - since_ms > CLAIMED_MS


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
        """End a probe; return whether it is about this suspicion: no contact and no suspension came in between."""
        probe = self._open.pop(key, None)
        return suspicion is not None and probe is not None and probe.suspicion is suspicion

    def remove(self, key: BrokerKey) -> None:
        self._open.pop(key, None)

    def clear(self) -> None:
        self._open.clear()
