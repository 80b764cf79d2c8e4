"""Why a broker is suspected of having failed, what a probe of its port has shown, and what follows.

Source: docs/protocol/controller.md 3 and 6.1. Pure values; `detector.py` judges.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from controller.failure_detection.heartbeats import BrokerKey, LastHeartbeat
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
    """The result of a probe."""

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
    """A broker has failed."""

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
        """Why it counts as failed, for operators."""
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
        """Take the result of a probe."""
        self.outcome = None if outcome is ProbeOutcome.NOT_PROBED else outcome
        is_suspended = outcome is ProbeOutcome.NO_ANSWER and now_ms > self.deadline_ms + _PROBE_SUSPENDED_MS
        self.probe_at_ms = now_ms + (_PROBE_SUSPENDED_MS if is_suspended else self.pause_ms)
        self.pause_ms = min(2 * self.pause_ms, PROBE_AGAIN_MS_MAX)

    def begin_again(self, from_ms: int, deadline_ms: int = 0) -> None:
        """Ignore earlier probes: the broker has the time of a new suspect, or until a later deadline."""
        self.outcome = None
        self.probe_at_ms = from_ms
        self.deadline_ms = max(self.deadline_ms, from_ms + ANSWER_MS, deadline_ms)
