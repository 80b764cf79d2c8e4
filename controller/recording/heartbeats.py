"""Hands over to the recorder the heartbeats of members, some of them summed up by the minute."""

from collections.abc import Iterable

from controller.failover.events import BrokerFailed, BrokersCleaned, BrokerSetExpired
from controller.failure_detection.heartbeats import BrokerKey, LastHeartbeat
from controller.sets.broker_set import BrokerSet
from history.heartbeats import Heartbeat, HeartbeatAggregator
from history.recorder import Recorder
from history.rows import BrokerRef, Moment
from remoting.clock import SystemClock
from serving.telemetry.events import Event


class HeartbeatRecording:
    """The heartbeats that are recorded."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._clock = SystemClock()
        self._heartbeats = HeartbeatAggregator()

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

    def follow(self, event: Event) -> None:
        """End the minutes of brokers that have failed, or belong to their set no longer."""
        match event:
            case BrokerFailed(broker_set=BrokerSet() as broker_set, key=key):
                self._remove(broker_set, [key.broker_id])
            case BrokersCleaned(before=broker_set, gone=broker_ids):
                self._remove(broker_set, broker_ids)
            case BrokerSetExpired(broker_set=broker_set):
                self._remove(broker_set, broker_set.replicas)

    def _remove(self, broker_set: BrokerSet, broker_ids: Iterable[int]) -> None:
        for broker_id in broker_ids:
            moment = Moment(self._clock.unix_us(), self._clock.mono_us())
            for summary in self._heartbeats.remove(broker_set.cluster, broker_set.broker_name, broker_id, moment):
                self._recorder.enqueue_heartbeat(summary)
