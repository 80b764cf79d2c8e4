"""Hands over to the recorder what an offset manager does and finds. Without a recorder (`historyDir`) it does nothing.

Callers need not know whether anything is recorded; no call waits, and none raises.
"""

from collections.abc import Iterable, Sequence

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.guard.outcomes import GuardReport
from controller.offsets.locks.overlaps import ClosedOverlap, OpenOverlap
from controller.offsets.locks.replay import ReplayReport
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import Regression
from controller.offsets.recording.guard_rows import GuardRunRows
from controller.offsets.recording.lock_rows import expired_sessions_row, forced_release_row, overlap_row, replay_rows
from controller.offsets.recording.offset_rows import (
    ChangedOffset,
    OffsetRow,
    OperatorChange,
    change_rows,
    managed_changes,
    regression_rows,
)
from controller.offsets.values import QueueKey
from history.recorder import Recorder
from history.server_rows import LifecycleEvent


class OffsetRecorder:
    """What is recorded of an offset manager."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        """Take where to record; None records nothing."""
        self._recorder = recorder

    # The manager itself

    def leadership(self, event_type: str, reason: str) -> None:
        """Record `leader_gained` or `leader_lost`."""
        if self._recorder is not None:
            self._recorder.enqueue(LifecycleEvent(event_type, reason=reason or None))

    # Offsets

    def changed_in_manager(self, operation: str, writer: str, changes: Sequence[OffsetChange]) -> None:
        """Record what an operator changed in the manager's own store."""
        change = OperatorChange(operation, writer, "manager")
        self.changed(change, managed_changes(changes))

    def changed(self, change: OperatorChange, offsets: Iterable[ChangedOffset]) -> None:
        """Record what an operator changed, at brokers for example."""
        self._enqueue(change_rows(change, offsets))

    def regressed(self, regressions: Iterable[Regression]) -> None:
        """Record what one reading of a master showed to have gone back."""
        self._enqueue(regression_rows(regressions))

    def guard_ended(self, run: GuardRunRows, report: GuardReport) -> None:
        """Record a run of the guard; `run` has observed it."""
        self._enqueue(run.rows(report))

    # Locks

    def replayed(self, cluster: str, report: ReplayReport, master_epoch: int | None = None) -> None:
        """Record which locks a new master got; None: its epoch is not known."""
        set_name = SetName(cluster, report.promotion.broker_name)
        self._enqueue(replay_rows(set_name, master_epoch, report))

    def overlap_changed(self, cluster: str, change: OpenOverlap | ClosedOverlap) -> None:
        """Record that two clients were proved to hold one queue, or do so no more."""
        self._enqueue([overlap_row(cluster, change)])

    def lock_forced(self, writer: str, key: QueueKey) -> None:
        """Record that an operator took a queue from its holder."""
        self._enqueue([forced_release_row(writer, key)])

    def sessions_expired(self, sessions: int) -> None:
        """Record sessions that were not renewed."""
        self._enqueue([expired_sessions_row(sessions)])

    def _enqueue(self, rows: Iterable[OffsetRow]) -> None:
        if self._recorder is not None:
            for each in rows:
                self._recorder.enqueue(each)
