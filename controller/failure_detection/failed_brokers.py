"""Brokers that have failed, and what comes in their names since: another process may use their ids."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from controller.failure_detection.heartbeats import BrokerKey, LastHeartbeat, Source
from controller.failure_detection.suspicion import PROOFS, ProbeOutcome

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
        """Record that something came in the name of a failed broker; return whether that is believed by now.

        That is when it has come from one host for CLAIMED_MS: what became of the set is decided by then.
        """
        failed = self.get(key)
        if failed is None:
            return False
        host = source.peer.rpartition(":")[0]
        going_on = {name: times for name, times in failed.claims.items() if now_ms - times[1] <= _CLAIM_PAUSE_MS}
        since_ms, _ = going_on.pop(host, (now_ms, now_ms))
        latest = dict(list(going_on.items())[1 - _CLAIMS_MAX :])
        self[key] = failed._replace(claims=latest | {host: (since_ms, now_ms)})
        return now_ms - since_ms > CLAIMED_MS
