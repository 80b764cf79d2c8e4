"""Turns what is found about holders at brokers into log lines, counts and rows."""

from controller.offsets.locks.overlaps import ClosedOverlap, OpenOverlap, Overlap
from controller.offsets.locks.poll_schedule import ClientQuery
from controller.offsets.locks.replay import ReplayReport
from controller.offsets.locks.replay_rules import ReplayOutcome, Unlock
from controller.offsets.observability import holding_log_events as catalogue
from controller.offsets.observability.holding_counters import HoldingCounters
from controller.offsets.recording.offset_recorder import OffsetRecorder
from serving.logging.logs import Logs


class HoldingEventLog:
    """Observes the holders of all clusters."""

    def __init__(self, logs: Logs, counters: HoldingCounters, recorder: OffsetRecorder) -> None:
        self._logs = logs
        self._counters = counters
        self._recorder = recorder

    def of_cluster(self, cluster: str) -> "ClusterLockLog":
        """Return what observes one cluster."""
        return ClusterLockLog(cluster, self._logs, self._counters, self._recorder)

    def groups_left_out(self, groups: int) -> None:
        """Log that not all declared groups are polled."""
        self._logs.write(catalogue.ORDERLY_GROUPS_LEFT_OUT, groups=groups)


class ClusterLockLog:
    """Observes the holders of one cluster."""

    def __init__(self, cluster: str, logs: Logs, counters: HoldingCounters, recorder: OffsetRecorder) -> None:
        self._cluster = cluster
        self._logs = logs
        self._counters = counters
        self._recorder = recorder

    def overlap_opened(self, overlap: OpenOverlap) -> None:
        """Log and count that two clients hold one queue."""
        self._counters.overlaps += 1
        self._logs.write(catalogue.BROKER_LOCK_OVERLAP, **self._names(overlap.overlap))
        self._recorder.overlap_changed(self._cluster, overlap)

    def overlap_closed(self, overlap: ClosedOverlap) -> None:
        """Log that one of them does not hold it any more."""
        self._logs.write(
            catalogue.BROKER_LOCK_OVERLAP_ENDED,
            **self._names(overlap.overlap),
            reason=overlap.why.value,
            duration_ms=overlap.until_ms - overlap.since_ms,
        )
        self._recorder.overlap_changed(self._cluster, overlap)

    def locks_replayed(self, report: ReplayReport) -> None:
        """Log what became of the locks at a new master, and count each."""
        for each in report.results:
            self._counters.replays.add((each.outcome.value,))
            if each.outcome is ReplayOutcome.GRANTED:
                self._counters.replay_seconds.observe(each.elapsed_ms / 1000)
        self._recorder.replayed(self._cluster, report)
        self._logs.write(
            catalogue.BROKER_LOCKS_REPLAYED,
            cluster=self._cluster,
            broker=report.promotion.broker_name,
            addr=report.promotion.address,
            granted=report.count(ReplayOutcome.GRANTED),
            held_by_another=report.count(ReplayOutcome.HELD_BY_ANOTHER),
            unanswered=report.count(ReplayOutcome.UNANSWERED),
            unconfirmed=report.count(ReplayOutcome.UNCONFIRMED),
            late=report.late,
            duration_ms=report.elapsed_ms,
        )

    def locks_released(self, unlock: Unlock) -> None:
        """Log and count locks that a master has given up."""
        self._counters.released += len(unlock.queues)
        self._logs.write(
            catalogue.BROKER_LOCKS_RELEASED,
            cluster=self._cluster,
            group=unlock.member.group,
            client=unlock.member.client_id,
            broker=unlock.broker_name,
            queues=len(unlock.queues),
        )

    def client_silent(self, _query: ClientQuery, _error: Exception) -> None:
        """Count a client that has not answered."""
        self._counters.query_failures += 1

    def _names(self, overlap: Overlap) -> dict[str, object]:
        (group, queue), clients = overlap
        return {
            "cluster": self._cluster,
            "group": group,
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue_id": queue.queue_id,
            "clients": list(clients),
        }
