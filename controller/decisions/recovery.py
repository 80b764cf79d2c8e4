"""Sets of which the store knows less than their brokers: it was lost, or restored from an old backup.

Epochs in logs, and reports of masters, prove it. Such a set waits for heartbeats of all of its brokers, and then the
longest log leads at an epoch that none of them has seen (docs/protocol/controller.md 5.3, 6.3). Claims that prove
nothing are only reported to operators. Kept in memory only.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from controller.decisions.cluster_view import ClusterView
from controller.decisions.membership import WantedSyncStateSet
from controller.failure_detection.heartbeats import BrokerKey, HeartbeatTable, Owner, Source
from controller.sets.broker_set import BrokerSet
from remoting.protocol.addresses import host_number

#: Brokers poll each 5 s; within this time all that live have come.
WAIT_MS: Final = 8_000
#: A master reports each 5 s; one unexpected report is not enough.
_REPORTED_AGAIN_MS: Final = 4_000
#: A broker with a sign of life so long after its last report does not report any more, or somebody else did.
_REPORT_COUNTS_MS: Final = 15_000


class _Report(NamedTuple):
    """A broker that leads has reported epochs that the store does not know."""

    master_epoch: int
    first_ms: int
    last_ms: int
    is_confirmed: bool = False


class Recovery:
    """What is known of sets that have lost their state."""

    def __init__(self, live: HeartbeatTable) -> None:
        self._live = live
        #: Since when a set waits for its brokers.
        self._since_ms: dict[str, int] = {}
        #: By set, then by the broker that reports.
        self._reports: dict[str, dict[int, _Report]] = {}
        #: Since when brokers of a set claim higher epochs that prove nothing.
        self._disputes: dict[str, int] = {}

    def reported(self, broker_set: BrokerSet, wanted: WantedSyncStateSet, source: Source, now_ms: int) -> None:
        """Note a report of the SyncStateSet from where a member's heartbeats come from: it thinks that it leads."""
        name = broker_set.broker_name
        heartbeats = self._live.get(BrokerKey(name, wanted.master))
        is_own = heartbeats is not None and _is_same(heartbeats.own, source)
        if wanted.master not in broker_set.replicas or not is_own:
            return
        reports = self._reports.setdefault(name, {})
        is_ahead = (wanted.master_epoch, wanted.sync_state_set_epoch) > (
            broker_set.master_epoch,
            broker_set.sync_state_set_epoch,
        )
        if not is_ahead:
            reports.pop(wanted.master, None)
        else:
            before = reports.get(wanted.master)
            if before is None or now_ms - before.last_ms > _REPORT_COUNTS_MS:
                before = _Report(wanted.master_epoch, now_ms, now_ms)
            is_confirmed = now_ms - before.first_ms >= _REPORTED_AGAIN_MS
            reports[wanted.master] = _Report(wanted.master_epoch, before.first_ms, now_ms, is_confirmed)
        if not reports:
            del self._reports[name]

    def reported_epochs(self, broker_name: str) -> Mapping[int, int]:
        """Return the master epochs at which members report to lead, and that the store does not know."""
        reports, heartbeats = self._reports.get(broker_name), self._live.of_set(broker_name)
        if reports is None:
            return {}
        for broker_id, each in list(reports.items()):
            if broker_id in heartbeats and heartbeats[broker_id].last_contact_ms - each.last_ms > _REPORT_COUNTS_MS:
                del reports[broker_id]
        return {broker_id: each.master_epoch for broker_id, each in reports.items() if each.is_confirmed}

    def is_behind(self, broker_set: BrokerSet) -> bool:
        return self._view(broker_set).is_ahead_of(broker_set)

    def disputed(self, broker_set: BrokerSet, now_ms: int) -> Mapping[int, int]:
        """Return the claims of higher master epochs that prove nothing, once they have lasted; by broker id."""
        name, claims = broker_set.broker_name, self._view(broker_set).disputes(broker_set)
        if not claims:
            self._disputes.pop(name, None)
            return {}
        since_ms = self._disputes.setdefault(name, now_ms)
        return claims if now_ms - since_ms >= WAIT_MS else {}

    def _view(self, broker_set: BrokerSet) -> ClusterView:
        name = broker_set.broker_name
        return ClusterView(heartbeats=self._live.of_set(name), reported=self.reported_epochs(name))

    def waits(self, broker_set: BrokerSet, now_ms: int) -> bool:
        """Return whether a set that has lost its state waits for its brokers."""
        if not broker_set.is_rebuilding and not self.is_behind(broker_set):
            self.is_well(broker_set.broker_name)
            return False
        return now_ms < self._since_ms.setdefault(broker_set.broker_name, now_ms) + WAIT_MS

    def is_well(self, broker_name: str) -> None:
        """Report that a set waits for nobody: if it loses its state again, it waits anew."""
        self._since_ms.pop(broker_name, None)

    def remove(self, broker_name: str) -> None:
        """Forget what was reported and waited for: a master was elected, or the set is gone."""
        self._since_ms.pop(broker_name, None)
        self._reports.pop(broker_name, None)
        self._disputes.pop(broker_name, None)

    def clear(self) -> None:
        self._since_ms.clear()
        self._reports.clear()
        self._disputes.clear()


def _is_same(own: Owner, source: Source) -> bool:
    """Return whether a request comes over the connection of a broker's heartbeats, or from the same host."""
    host = host_number(source.peer)
    return own.connection_id == source.connection_id or (host != "" and host == host_number(own.peer))
