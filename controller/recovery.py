"""Sets of which the store knows less than their brokers: it was lost, or restored from an old backup.

Epochs in logs, and what a master reports, tell it. Such a set waits for all of its brokers to be heard, and then the
longest log leads at an epoch that none of them has seen (controller.md sections 5.3, 6.3). Kept in memory only.
"""

from typing import Final, NamedTuple

from controller.broker_set import BrokerSet
from controller.decisions.election import Electorate
from controller.decisions.sync_state import WantedSyncStateSet
from controller.live_table import BrokerKey, LiveTable

#: Brokers poll each 5 s; within this time all that live have come.
WAIT_MS: Final = 8_000
#: A master reports each 5 s; one strange report is not enough.
_REPORTED_AGAIN_MS: Final = 4_000


class _Report(NamedTuple):
    """A master has reported epochs that the store does not know."""

    master_epoch: int
    first_ms: int
    is_confirmed: bool = False


class Recovery:
    """What is known of sets that have lost their state."""

    def __init__(self, live: LiveTable) -> None:
        self._live = live
        #: Since when a set waits for its brokers.
        self._since_ms: dict[str, int] = {}
        self._reports: dict[str, _Report] = {}

    def reported(self, broker_set: BrokerSet, wanted: WantedSyncStateSet, connection_id: int, now_ms: int) -> None:
        """Take note of a report of the SyncStateSet, if it comes from the master over its own connection."""
        name = broker_set.broker_name
        heard = self._live.get(BrokerKey(name, wanted.master))
        is_own = heard is not None and heard.connection_id == connection_id
        if wanted.master != broker_set.master or not is_own:
            return
        is_ahead = (wanted.master_epoch, wanted.sync_state_set_epoch) > (
            broker_set.master_epoch,
            broker_set.sync_state_set_epoch,
        )
        if not is_ahead:
            self._reports.pop(name, None)
            return
        before = self._reports.setdefault(name, _Report(wanted.master_epoch, now_ms))
        if now_ms - before.first_ms >= _REPORTED_AGAIN_MS:
            self._reports[name] = _Report(wanted.master_epoch, before.first_ms, is_confirmed=True)

    def reported_epoch(self, broker_set: BrokerSet) -> int | None:
        """Return the master epoch of a master that knows more than the store; None if none does."""
        report = self._reports.get(broker_set.broker_name)
        return report.master_epoch if report is not None and report.is_confirmed else None

    def is_behind(self, broker_set: BrokerSet) -> bool:
        """Tell whether brokers of a set know more than the store."""
        heard = self._live.of_set(broker_set.broker_name)
        return Electorate(heard=heard, reported_epoch=self.reported_epoch(broker_set)).is_ahead_of(broker_set)

    def waits(self, broker_set: BrokerSet, now_ms: int) -> bool:
        """Tell whether a set that has lost its state waits for its brokers."""
        if not broker_set.is_rebuilding and not self.is_behind(broker_set):
            self._since_ms.pop(broker_set.broker_name, None)
            return False
        return now_ms < self._since_ms.setdefault(broker_set.broker_name, now_ms) + WAIT_MS

    def elected(self, broker_name: str) -> None:
        """Forget what a former master reported."""
        self._reports.pop(broker_name, None)
