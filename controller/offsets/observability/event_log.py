"""Turns what happens in an offset manager into log lines, counts and rows of the history.

It decides which. Commits are only counted; every change by an operator is one line.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Final

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.commits.freezes import Freeze
from controller.offsets.commits.results import STORED, OffsetResult, OffsetStatus
from controller.offsets.locks.sessions.acquire import AcquireResult
from controller.offsets.locks.sessions.handover import ReleaseResult
from controller.offsets.observability import log_events as catalogue
from controller.offsets.observability.counters import OffsetCounters
from controller.offsets.recording.offset_recorder import OffsetRecorder
from controller.offsets.storage.observer import WriteBehindObserver
from controller.offsets.values import GroupTopic, QueueKey
from serving.logging.logs import Logs

#: So many groups and topics stand in one line.
_NAMES_MAX: Final = 10


class OffsetEventLog(WriteBehindObserver):
    """Observes the service and the store."""

    def __init__(self, logs: Logs, counters: OffsetCounters, recorder: OffsetRecorder | None = None) -> None:
        self._logs = logs
        self._recorder = recorder or OffsetRecorder()
        self._counters = counters
        self._flush_failures = 0

    # The service

    def leadership_gained(self, offsets: int, unreadable: int, duration_ms: int) -> None:
        """Log that this manager answers."""
        self._counters.leader_changes += 1
        self._logs.write(catalogue.MANAGER_LEADS, offsets=offsets, unreadable_rows=unreadable, duration_ms=duration_ms)
        self._recorder.leadership("leader_gained", f"{offsets} offsets loaded")

    def leadership_lost(self, leader_address: str) -> None:
        """Log that this manager answers no more."""
        self._counters.leader_changes += 1
        self._logs.write(catalogue.MANAGER_FOLLOWS, leader=leader_address or None)
        self._recorder.leadership("leader_lost", leader_address)

    def load_failed(self, error: str) -> None:
        """Log that the offsets could not be loaded."""
        self._logs.write(catalogue.OFFSETS_LOAD_FAILED, error=error)

    def results(self, operation: str, results: Sequence[OffsetResult]) -> None:
        """Count what became of the entries of a request."""
        # Nearly all of them are this one: a hash of each would cost as much as the commit.
        others = [each.status for each in results if each is not STORED]
        self._counters.results.add((operation, OffsetStatus.OK.value), len(results) - len(others))
        for status, count in Counter(others).items():
            self._counters.results.add((operation, status.value), count)

    def changed_by_operator(self, operation: str, writer: str, changes: Sequence[OffsetChange]) -> None:
        """Log a change that is no commit."""
        groups = dict.fromkeys(each.key.of.group for each in changes)
        topics = dict.fromkeys(each.key.of.topic for each in changes)
        self._logs.write(
            catalogue.OFFSETS_CHANGED,
            operation=operation,
            writer=writer,
            queues=len(changes),
            groups=list(islice(groups, _NAMES_MAX)),
            topics=list(islice(topics, _NAMES_MAX)),
        )
        self._recorder.changed_in_manager(operation, writer, changes)

    def frozen(self, freeze: Freeze) -> None:
        """Log a freeze."""
        self._logs.write(
            catalogue.OFFSETS_FROZEN,
            operation=freeze.operation,
            reason=freeze.reason,
            lease_ms=freeze.lease_ms,
            scopes=len(freeze.scopes),
            queues=len(freeze.keys),
        )

    def thawed(self, operation: str, *, is_expired: bool) -> None:
        """Log the end of a freeze."""
        reason = "expired" if is_expired else "requested"
        self._logs.write(catalogue.OFFSETS_THAWED, operation=operation, reason=reason)

    # Locks

    def acquired(self, results: Sequence[AcquireResult]) -> None:
        """Count queues that a session wanted."""
        for each in results:
            self._counters.lock_results.add(("acquire", each.status.value))

    def released(self, results: Sequence[ReleaseResult]) -> None:
        """Count queues that a session gave up."""
        for each in results:
            self._counters.lock_results.add(("release", each.status.value))

    def lock_forced(self, writer: str, key: QueueKey, token: int) -> None:
        """Log that an operator has taken a queue from its holder."""
        of = key.of
        self._logs.write(
            catalogue.LOCK_FORCED,
            writer=writer,
            group=of.group,
            topic=of.topic,
            broker=of.broker_name,
            queue_id=key.queue_id,
            token=token,
        )
        self._recorder.lock_forced(writer, key)

    def orderly_changed(self, writer: str, group: str, *, is_orderly: bool) -> None:
        """Log that a group may have locks, or may not any more."""
        self._logs.write(catalogue.ORDERLY_CHANGED, writer=writer, group=group, orderly=is_orderly)

    def sessions_expired(self, sessions: int) -> None:
        """Count sessions that were not renewed, and log them."""
        self._counters.sessions_expired += sessions
        self._logs.write(catalogue.LOCK_SESSIONS_EXPIRED, sessions=sessions)
        self._recorder.sessions_expired(sessions)

    # The store

    def rows_flushed(self, rows: int, keys: int, seconds: float) -> None:
        """Count one write to the store."""
        self._counters.flushed_rows += rows
        self._counters.flushed_offsets += keys
        self._counters.flush_seconds.observe(seconds)
        if self._flush_failures:
            self._logs.write(catalogue.OFFSET_FLUSH_RECOVERED, failures=self._flush_failures)
            self._flush_failures = 0

    def flush_failed(self, error: str) -> None:
        """Count a flush that failed, and log it."""
        self._counters.flush_failures += 1
        self._flush_failures += 1
        self._logs.write(catalogue.OFFSET_FLUSH_FAILED, error=error)

    def compensated(self, pushed: int, unchanged: int) -> None:
        """Log what the journal had newer than the store."""
        self._counters.compensated_offsets += pushed
        if pushed or unchanged:
            self._logs.write(catalogue.OFFSETS_COMPENSATED, pushed=pushed, unchanged=unchanged)

    def put_back(self, keys: int) -> None:
        """Log that the store was put back to an older state."""
        self._logs.write(catalogue.STORE_PUT_BACK, offsets=keys)

    def row_unwritable(self, of: GroupTopic, problem: str) -> None:
        """Log a row that cannot be read or written."""
        self._logs.write(
            catalogue.OFFSET_ROW_UNWRITABLE, group=of.group, topic=of.topic, broker=of.broker_name, error=problem
        )

    def foreign_key(self, problem: str) -> None:
        """Log a key that is not ours."""
        self._logs.write(catalogue.FOREIGN_KEY_FOUND, error=problem)

    def commits_refused(self, dirty_keys: int) -> None:
        """Count a request that was refused for want of room, and log it."""
        self._counters.commits_refused += 1
        self._logs.write(catalogue.COMMITS_REFUSED, dirty_keys=dirty_keys)

    def left_dirty(self, dirty_keys: int) -> None:
        """Log that the manager ends before the store has everything."""
        self._logs.write(catalogue.OFFSETS_LEFT_DIRTY, dirty_keys=dirty_keys)

    def handed_over(self, leader: str, settled: int, left: int) -> None:
        """Log that the leader has what the journal of this follower held."""
        self._logs.write(catalogue.JOURNAL_HANDED_OVER, leader=leader, settled=settled, left=left)

    def handover_failed(self, leader: str, error: str) -> None:
        """Log that it did not take it."""
        self._logs.write(catalogue.JOURNAL_HANDOVER_FAILED, leader=leader, error=error)

    # etcd

    def store_call(self, kind: str, result: str, _: float) -> None:
        """Count one call."""
        self._counters.store_calls.add((kind, result))

    def store_calls_failing(self, kind: str, error: str) -> None:
        """Log that calls fail."""
        self._logs.write(catalogue.STORE_CALLS_FAILING, operation=kind, error=error)

    def store_calls_answered(self, kind: str, silent_ms: int) -> None:
        """Log that they succeed again."""
        self._logs.write(catalogue.STORE_CALLS_ANSWERED, operation=kind, silent_ms=silent_ms)
