"""Turns what is found about masters, and about whoever tells them, into log lines and counts."""

from collections.abc import Sequence

from controller.offsets.observability import topology_log_events as catalogue
from controller.offsets.observability.counters import OffsetCounters
from controller.offsets.topology.masters import OutdatedSet
from controller.offsets.topology.values import MasterChange
from serving.logging.logs import Logs


class TopologyEventLog:
    """Observes controllers and NameServers."""

    def __init__(self, logs: Logs, counters: OffsetCounters) -> None:
        self._logs = logs
        self._counters = counters

    def leader_followed(self, url: str) -> None:
        """Log which controller leads."""
        self._logs.write(catalogue.CONTROLLER_FOLLOWED, url=url)

    def controller_unusable(self, url: str, problem: str) -> None:
        """Log that a controller does not answer as one that leads."""
        self._logs.write(catalogue.CONTROLLER_UNUSABLE, url=url, error=problem)

    def sets_outdated(self, url: str, outdated: Sequence[OutdatedSet]) -> None:
        """Log that sets went back to an earlier epoch."""
        first = outdated[0]
        self._logs.write(
            catalogue.MASTERS_OUTDATED,
            url=url,
            sets=len(outdated),
            first=first.broker_name,
            epoch=first.answered_epoch,
            known_epoch=first.known_epoch,
        )

    def name_server_unusable(self, address: str, problem: str) -> None:
        """Log that a NameServer does not answer, or not wholly."""
        self._logs.write(catalogue.NAMESRV_UNUSABLE, addr=address, error=problem)

    def masters_changed(self, changes: Sequence[MasterChange]) -> None:
        """Log and count each change."""
        for change in changes:
            self._counters.master_changes.add((change.kind.value,))
            before, after = change.before, change.after
            self._logs.write(
                catalogue.MASTER_CHANGED,
                broker=change.broker_name,
                kind=change.kind.value,
                old_addr=None if before is None else before.address,
                addr=None if after is None else after.address,
                epoch=None if after is None else after.master_epoch,
                since_unix_ms=change.since_unix_ms,
            )
