"""Hands over to the recorder what a controller sees: failures, elections, roles, SyncStateSets and heartbeats.

Only values that nobody changes later are handed over; they become rows in the recorder's thread.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from controller.decisions.election import ElectionResult
from controller.decisions.membership import Registrant
from controller.failover.effects import NotifyRoleChanged, Recipient
from controller.failover.election_log import ElectionRecord, NotificationResult
from controller.failure_detection.heartbeats import BrokerKey, LastHeartbeat
from controller.failure_detection.suspicion import BrokerFailure
from controller.sets.broker_set import BrokerSet
from history.heartbeats import Heartbeat, HeartbeatAggregator
from history.recorder import Recorder
from history.rows import BrokerRef, HistoryRow, Moment, RowMaker
from history.schemas import CONTROLLER
from history.server_rows import LifecycleEvent
from remoting.clock import SystemClock


class SetEvent(NamedTuple):
    """An event of a set or a broker."""

    event_type: str
    broker: BrokerRef
    columns: Mapping[str, object]
    #: How long before it was enqueued.
    ago_ms: int = 0

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        """Yield one row."""
        ago_us = self.ago_ms * 1000
        then = Moment(moment.unix_us - ago_us, moment.mono_us - ago_us)
        columns = dict(self.columns)
        if isinstance(silent_ms := columns.get("silent_ms"), int):
            columns["last_heartbeat_time"] = then.unix_us - silent_ms * 1000
        yield maker.row(CONTROLLER, self.event_type, then, self.broker, **columns)


class SetRecorder:
    """What is recorded of broker sets."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._clock = SystemClock()
        self._heartbeats = HeartbeatAggregator()

    # The controller itself

    def leadership(self, event_type: str, reason: str) -> None:
        """Record that this controller gained or lost the leadership."""
        self._recorder.enqueue(LifecycleEvent(event_type, reason=reason))

    # Brokers

    def record_heartbeat(self, cluster: str, key: BrokerKey, last: LastHeartbeat, before: LastHeartbeat | None) -> None:
        """Record a heartbeat, or what its minute comes to."""
        heartbeat = Heartbeat(
            Moment(self._clock.unix_us(), self._clock.mono_us()),
            BrokerRef(cluster, key.broker_name, key.broker_id, last.address),
            "controller",
            None if before is None or before.awaits_heartbeat else last.last_contact_ms - before.last_contact_ms,
            last.timeout_ms,
            max_offset=last.max_offset,
            epoch=last.epoch,
        )
        for each in self._heartbeats.add(heartbeat):
            self._recorder.enqueue_heartbeat(each)

    def broker_started(self, registrant: Registrant) -> None:
        """Record that a broker started."""
        broker = BrokerRef(registrant.cluster, registrant.broker_name, registrant.broker_id, registrant.address)
        self._recorder.enqueue(SetEvent("registered", broker, {}))

    def broker_failed(self, failure: BrokerFailure, broker_set: BrokerSet) -> None:
        """Record a failed broker."""
        replica = broker_set.replicas.get(failure.key.broker_id)
        address = replica.address if replica is not None else None
        broker = BrokerRef(broker_set.cluster, failure.key.broker_name, failure.key.broker_id, address)
        columns = {
            "reason": failure.reason,
            "cause": failure.why.value,
            "silent_ms": failure.silent_ms,
            "duration_ms": failure.judged_ms - failure.suspected_ms,
            "timeout_ms": failure.timeout_ms,
            "master_epoch": broker_set.master_epoch,
        }
        # An election is timed from here: it would seem to begin before the failure if the loop was busy in between.
        ago_ms = max(0, self._clock.now_ms() - failure.judged_ms)
        self._recorder.enqueue(SetEvent("failure_detected", broker, columns, ago_ms))
        self._remove_heartbeats(broker_set, failure.key.broker_id)

    def cleaned(self, broker_set: BrokerSet, broker_ids: Iterable[int]) -> None:
        """Remove the heartbeats of brokers that no longer belong to the set."""
        for broker_id in broker_ids:
            self._remove_heartbeats(broker_set, broker_id)

    def _remove_heartbeats(self, broker_set: BrokerSet, broker_id: int) -> None:
        moment = Moment(self._clock.unix_us(), self._clock.mono_us())
        for summary in self._heartbeats.remove(broker_set.cluster, broker_set.broker_name, broker_id, moment):
            self._recorder.enqueue_heartbeat(summary)

    # Sets

    def sync_state_set_altered(self, broker_set: BrokerSet) -> None:
        """Record the SyncStateSet."""
        columns = {
            "master_epoch": broker_set.master_epoch,
            "sync_state_set_epoch": broker_set.sync_state_set_epoch,
            "sync_state_set": sorted(broker_set.sync_state_set),
            "new_master": broker_set.master,
        }
        broker = BrokerRef(broker_set.cluster, broker_set.broker_name)
        self._recorder.enqueue(SetEvent("sync_set_changed", broker, columns))

    def election_held(self, record: ElectionRecord) -> None:
        """Record an election, with its beginning."""
        master = record.new_master
        address = next((each.address for each in record.reports if each.broker_id == master), None)
        broker = BrokerRef(record.cluster, record.broker_name, master, address)
        is_new = record.result is ElectionResult.NEW_MASTER
        common = {
            "failover_id": _failover_id(record) if is_new else None,
            "cause": record.cause.trigger.value,
            "old_master": record.old_master,
        }
        began = {**common, "reason": record.cause.why}
        commit_ms = record.phases.commit_ms
        self._recorder.enqueue(
            SetEvent("election_started", BrokerRef(record.cluster, record.broker_name), began, commit_ms)
        )
        columns = {
            **common,
            "result": record.reported_result.value,
            "reason": record.reason,
            "new_master": record.new_master,
            "master_epoch": record.master_epoch,
            "sync_state_set_epoch": record.sync_state_set_epoch,
            "duration_ms": commit_ms,
            "bytes_at_stake": record.bytes_at_stake,
        }
        self._recorder.enqueue(SetEvent("elected", broker, columns))

    def role_notified(
        self,
        effect: NotifyRoleChanged,
        recipient: Recipient,
        notified: NotificationResult,
        record: ElectionRecord | None,
    ) -> None:
        """Record whether a broker confirmed its role."""
        cluster = record.cluster if record is not None else None
        columns = {
            "failover_id": _failover_id(record) if record is not None else None,
            "result": notified.result,
            "duration_ms": notified.after_ms,
            "master_epoch": effect.master_epoch,
            "new_master": effect.master.broker_id,
        }
        broker = BrokerRef(cluster, effect.broker_name, recipient.broker_id, recipient.address)
        self._recorder.enqueue(SetEvent("role_notified", broker, columns))


def _failover_id(record: ElectionRecord) -> str:
    return f"{record.cluster}/{record.broker_name}/{record.master_epoch}"
