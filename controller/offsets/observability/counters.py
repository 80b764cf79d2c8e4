"""What happened in an offset manager since the start, counted; touched by the loop alone."""

from typing import Final

from controller.offsets.commits.results import OffsetStatus
from controller.offsets.locks.sessions.acquire import AcquireStatus
from controller.offsets.locks.sessions.handover import ReleaseStatus
from controller.offsets.observability.guard_counters import GuardCounters
from controller.offsets.observability.holding_counters import HoldingCounters
from controller.offsets.observability.mirror_counters import MirrorCounters
from controller.offsets.restore.operations import OperationKind
from controller.offsets.restore.values import RestoreStatus
from controller.offsets.topology.values import MasterChangeKind
from serving.metrics.counters import CounterTable, Histogram
from serving.metrics.server_counters import LATENCY_S, ServerCounters

#: What answers results per entry.
_OPERATIONS: Final = ("commit", "seed", "reset", "undo", "clone", "delete", "fence")


class OffsetCounters(ServerCounters):
    """What an offset manager counts."""

    def __init__(self) -> None:
        super().__init__()
        self.leader_changes = 0
        self.results = CounterTable(
            known=[(operation, status.value) for operation in _OPERATIONS for status in OffsetStatus]
        )
        self.lock_results = CounterTable(
            known=[
                *(("acquire", status.value) for status in AcquireStatus),
                *(("release", status.value) for status in ReleaseStatus),
            ]
        )
        self.sessions_expired = 0
        self.flushed_offsets = 0
        self.flushed_rows = 0
        self.flush_seconds = Histogram(LATENCY_S)
        self.flush_failures = 0
        self.commits_refused = 0
        self.compensated_offsets = 0
        self.store_calls = CounterTable()
        self.restored = CounterTable(
            known=[(kind.value, status.value) for kind in OperationKind for status in RestoreStatus]
        )
        #: Of locks at brokers.
        self.holding = HoldingCounters()
        self.mirror = MirrorCounters()
        self.master_changes = CounterTable(known=[(kind.value,) for kind in MasterChangeKind])
        self.guard = GuardCounters()
