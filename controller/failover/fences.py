"""Fences: no successor of a silent master is elected while a host may still lead clients to that one.

A master that is judged failed because it does not answer may only be frozen. One of 5.5.0 that thaws acknowledges alone
what waited at its port, until it learns that another one leads, and the successor does not have that. So the election
waits until each host that checks the role of the failed master was answered `down` and has ended its sessions, within
limits. So too after a living master was cleaned. Nothing waits where nobody checks, or where the master's process is
proven to have ended. Rules only; answers to no class of Java's.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from controller.failure_detection.detector import FailureDetector
from controller.failure_detection.heartbeats import BrokerKey
from controller.sets.broker_set import BrokerSet

#: No election waits for longer after the judgement: a host that is gone or slow must not keep a set without a master.
#: Twice the 200 ms at which agents check, and HAProxy looks for another controller.
FENCE_MS_MAX: Final = 400


class CleanedMaster(NamedTuple):
    """A master that an operator removed from its set while it might live."""

    broker_id: int
    address: str
    cleaned_ms: int
    #: It was known to lead.
    leads: bool


class Fences:
    """Tells which elections wait; reads what is known of failed masters and of hosts that check."""

    def __init__(self, detector: FailureDetector, not_down: Callable[[BrokerKey], Sequence[str]]) -> None:
        """`not_down` returns the hosts that check a broker, and may still have sessions to it."""
        self._detector, self._not_down = detector, not_down
        #: By broker name, one of each stored set at most: until another master is elected.
        self.cleaned: dict[str, CleanedMaster] = {}

    def judged_ms(self, broker_set: BrokerSet) -> int | None:
        """Return when the master was cleaned, or judged failed by its silence; None if it was neither, or is back."""
        if broker_set.master is None:
            cleaned = self.cleaned.get(broker_set.broker_name)
            return cleaned.cleaned_ms if cleaned is not None else None
        failed = self._detector.failed_broker(BrokerKey(broker_set.broker_name, broker_set.master))
        return failed.judged_ms if failed is not None and failed.may_go_on else None

    def awaited(self, broker_set: BrokerSet, now_ms: int) -> Sequence[str]:
        """Return the hosts for which an election of a set waits now; none once FENCE_MS_MAX have passed."""
        judged_ms = self.judged_ms(broker_set)
        return () if judged_ms is None or now_ms - judged_ms >= FENCE_MS_MAX else self.left(broker_set)

    def left(self, broker_set: BrokerSet) -> Sequence[str]:
        """Return the hosts that may still lead clients to the master of a set, whatever the time."""
        name, master = broker_set.broker_name, broker_set.master
        if master is None and name in self.cleaned:
            master = self.cleaned[name].broker_id
        return self._not_down(BrokerKey(name, master)) if master is not None else ()
