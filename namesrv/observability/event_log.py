"""Turns what happened into log lines and counters: events of the state and of the settings.

It decides which events of `log_events.py` a change becomes; a registration becomes one line, however much it changes.
Heartbeats and unchanged registrations are only counted.
"""

from typing import TYPE_CHECKING, Final

from namesrv.core.tables.change import SAMPLE_TOPICS_MAX
from namesrv.core.tables.lost_topics import SetLosses
from namesrv.core.values.effects import (
    BrokerEvent,
    BrokerHeartbeat,
    BrokerRegistered,
    BrokerRemoved,
    DepartureReason,
    Event,
    RegistrationConflicted,
    RegistrationResult,
    RouteChanges,
    StaleRegistration,
    StaleUnregistration,
    TopicsChangedByAdmin,
)
from namesrv.observability import log_events as lines
from namesrv.observability import metric_catalogue as metrics
from namesrv.settings.config import NAMESRV, NameServerConfig
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.server.observer import Peer, Rejection
from serving.config.stored_config import NotStored
from serving.logging.events import LogEvent
from serving.logging.logs import Logs
from serving.metrics.counters import OTHER
from serving.metrics.server_counters import ServerCounters
from serving.process.event_log import ServerEventLog
from serving.telemetry.telemetry import Telemetry

if TYPE_CHECKING:
    from namesrv.recording.route_recorder import RouteRecorder

#: A timeout below this is that of a broker with enableSlaveActingMaster, which sends a heartbeat each second (10 s
#: by default); the others register each 30 s (registerNameServerPeriod) and have 120 s. No request has the period.
_SHORT_TIMEOUT_MS: Final = 30_000
_HEARTBEAT_PERIOD_MS: Final = 1_000
_REGISTRATION_PERIOD_MS: Final = 30_000
_LATE_PERIODS: Final = 1.5

_REMOVAL_EVENTS: Final = {
    DepartureReason.REQUEST: lines.BROKER_UNREGISTERED,
    DepartureReason.TIMEOUT: lines.BROKER_EXPIRED,
    DepartureReason.CHANNEL_CLOSED: lines.BROKER_DISCONNECTED,
    DepartureReason.CONFLICT: lines.BROKER_EVICTED,
}


def is_late(interval_ms: int, heartbeat_timeout_ms: int) -> bool:
    """Return True if a broker with this timeout sent nothing for more than one and a half of its periods."""
    period_ms = _HEARTBEAT_PERIOD_MS if heartbeat_timeout_ms < _SHORT_TIMEOUT_MS else _REGISTRATION_PERIOD_MS
    return interval_ms > _LATE_PERIODS * period_ms


class NameServerEventLog(ServerEventLog[NameServerConfig]):
    """Logs, counts and records what happens in a NameServer."""

    def __init__(
        self,
        logs: Logs,
        counters: ServerCounters,
        telemetry: Telemetry,
        config: NameServerConfig,
        recorder: "RouteRecorder | None" = None,
    ) -> None:
        """Keep `config` to log later what changed of it; without a recorder there is no history."""
        super().__init__(NAMESRV, logs, counters, config)
        self.counts = telemetry.counters
        self._timers = telemetry.timers
        self._changed_topics = telemetry.timers[metrics.REGISTRATION_TOPICS].histograms()[()]
        self._body_bytes = telemetry.timers[metrics.REGISTRATION_BYTES].histograms()[()]
        self.recorder = recorder

    # Events of the state

    def record(self, events: tuple[Event, ...]) -> None:
        """Log and count the events of one request, scan or lost connection."""
        if self.recorder is not None:
            self.recorder.record(events)
        for event in events:
            self._count(event)
        if registered := [event for event in events if isinstance(event, BrokerRegistered)]:
            removed = [event for event in events if isinstance(event, BrokerRemoved)]
            self._log_registration(registered[0], removed[0] if removed else None)
        elif by_admin := [event for event in events if isinstance(event, TopicsChangedByAdmin)]:
            self._audit_route_changes(by_admin)
        else:
            for event in events:
                self._log_event(event)

    def topics_not_copied(self, broker_name: str, losses: SetLosses) -> None:
        names = losses.names[:SAMPLE_TOPICS_MAX]
        self.write(lines.TOPICS_NOT_COPIED, broker=broker_name, topics=len(losses.topics), sample_topics=names)

    def route_worker_ended(self, reason: str, pid: int, exit_code: int, connections: int) -> None:
        keys = {"reason": reason, "pid": pid, "exit_code": exit_code, "connections": connections}
        self.write(lines.ROUTE_WORKER_ENDED, **keys)

    def cold_start(self, event: LogEvent, **keys: object) -> None:
        """Log and record that a cold start began or ended."""
        self.write(event, **keys)
        if self.recorder is not None:
            self.recorder.cold_start(event.name, ", ".join(f"{key} {value}" for key, value in keys.items()))

    # What operators changed

    def kv_changed(self, namespace: str, key: str, before: str | None, after: str | None) -> None:
        self.counts[metrics.KV_CHANGES].add(("stored",))
        if self.recorder is not None:
            self.recorder.kv_changed(namespace, key, after)
        self.write(lines.KV_CHANGED, namespace=namespace, key=key, old=before, new=after)

    def kv_not_stored(self, error: NotStored) -> None:
        self.counts[metrics.KV_CHANGES].add(("failed",))
        self.write(lines.KV_STORE_FAILED, error=str(error))

    def config_changed(self, changed: tuple[str, ...], unknown: tuple[str, ...], config: NameServerConfig) -> None:
        super().config_changed(changed, unknown, config)
        if self.recorder is not None:
            self.recorder.configured(config)

    # Requests

    def request_rejected(self, connection: Peer, request: RemotingCommand, reason: Rejection, error: str) -> None:
        """Log a request that was refused; count it if it is a registration."""
        if request.code == RequestCode.REGISTER_BROKER and reason is not Rejection.DRAINING:
            self._count_rejected((request.ext_fields or {}).get("clusterName", ""))
        super().request_rejected(connection, request, reason, error)

    # Counts

    def _count(self, event: Event) -> None:
        match event:
            case BrokerHeartbeat():
                self._count_heartbeat(event)
            case BrokerRegistered():
                self._count_registration(event)
            case RegistrationConflicted():
                self.counts[metrics.REGISTRATIONS].add((event.cluster, RegistrationResult.CONFLICT.value))
            case StaleRegistration():
                self._count_rejected(event.cluster)
            case BrokerRemoved():
                self._count_removal(event)
            case TopicsChangedByAdmin():
                self._count_changes(event.cluster, event.changes)

    def _count_rejected(self, cluster: str) -> None:
        """Count a registration that was refused or ignored, so it changed nothing."""
        labels = (cluster, RegistrationResult.REJECTED.value)
        registrations = self.counts[metrics.REGISTRATIONS]
        # A refused request may name any cluster; it must not take the place of an existing one.
        registrations.add(labels if labels in registrations.counts() else (OTHER, *labels[1:]))

    def _count_heartbeat(self, event: BrokerHeartbeat) -> None:
        self.counts[metrics.HEARTBEATS].add((event.cluster, event.kind.value))
        late = 0
        if event.interval_ms is not None:
            self._timers[metrics.HEARTBEAT_INTERVAL].observe((event.cluster,), event.interval_ms / 1000)
            late = int(is_late(event.interval_ms, event.heartbeat_timeout_ms))
        if late or event.interval_ms is None:
            # The first heartbeat creates the series, at 0.
            self.counts[metrics.HEARTBEATS_LATE].add((event.cluster, event.broker_name), late)

    def _count_registration(self, event: BrokerRegistered) -> None:
        self.counts[metrics.REGISTRATIONS].add((event.cluster, event.result.value))
        changes = event.changes
        # A topic whose queues and permission changed is one topic.
        self._changed_topics.observe(changes.topics_added + changes.topics_removed + max(changes.queues, changes.perm))
        self._body_bytes.observe(event.body_bytes)
        self._count_changes(event.cluster, changes)
        if event.result is RegistrationResult.FIRST:
            self.counts[metrics.ROUTE_CHANGES].add((event.cluster, "broker_added"))
            self.counts[metrics.UNREGISTRATIONS].add((event.cluster, DepartureReason.REQUEST.value), 0)
        if event.master_changed:
            self.counts[metrics.ROUTE_CHANGES].add((event.cluster, "master"))

    def _count_removal(self, event: BrokerRemoved) -> None:
        reason = event.reason.value
        self.counts[metrics.UNREGISTRATIONS].add((event.cluster, reason))
        if event.reason in (DepartureReason.TIMEOUT, DepartureReason.CHANNEL_CLOSED):
            self._timers[metrics.DETECTION_DELAY].observe((reason,), event.silent_ms / 1000)
        self._count_changes(event.cluster, event.changes)
        self.counts[metrics.ROUTE_CHANGES].add((event.cluster, "broker_removed"))
        # The registration that superseded a master has counted the change of master.
        if event.was_master and event.reason is not DepartureReason.SUPERSEDED:
            self.counts[metrics.ROUTE_CHANGES].add((event.cluster, "master"))
        if event.set_removed:
            self.counts[metrics.HEARTBEATS_LATE].remove((event.cluster, event.broker_name))

    def _count_changes(self, cluster: str, changes: RouteChanges) -> None:
        if not changes:
            return
        counted = (changes.topics_added, changes.topics_removed, changes.queues, changes.perm)
        for kind, amount in zip(metrics.ROUTE_CHANGE_KINDS, counted, strict=False):
            if amount:
                self.counts[metrics.ROUTE_CHANGES].add((cluster, kind), amount)

    # Lines

    def _log_event(self, event: Event) -> None:
        match event:
            case BrokerRemoved():
                self.write(
                    _REMOVAL_EVENTS[event.reason],
                    **_who(event),
                    reason=event.reason.value,
                    silent_ms=event.silent_ms,
                    heartbeat_timeout_ms=event.heartbeat_timeout_ms,
                    was_master=event.was_master,
                    set_removed=event.set_removed,
                    **_changes(event.changes),
                )
            case RegistrationConflicted():
                self.write(
                    lines.REGISTRATION_CONFLICTED,
                    **_who(event),
                    state_version=event.state_version,
                    holder_addr=event.holder_address,
                    holder_state_version=event.holder_state_version,
                )
            case StaleRegistration():
                self.write(lines.REGISTRATION_IGNORED, **_who(event))
            case StaleUnregistration():
                who = {"cluster": event.cluster, "broker": event.broker_name, "addr": event.address}
                self.write(lines.UNREGISTRATION_IGNORED, **who)

    def _log_registration(self, event: BrokerRegistered, superseded: BrokerRemoved | None) -> None:
        if event.result is RegistrationResult.UNCHANGED and not (superseded or event.changes or event.master_changed):
            return
        version = event.data_version
        counted = {"counter": version.counter, "state_version": version.state_version, "timestamp": version.timestamp}
        keys = {**_who(event), "topics": event.topics, "data_version": counted}
        if superseded:
            former = {"former_addr": superseded.address, "silent_ms": superseded.silent_ms}
            self.write(lines.BROKER_SUPERSEDED, **keys, **former, **_changes(event.changes))
            return
        keys["ignored_topics"] = event.ignored_topics
        if event.result is RegistrationResult.FIRST:
            keys["heartbeat_timeout_ms"] = event.heartbeat_timeout_ms
            keys["set_added"] = event.set_added
            keys["master_changed"] = event.master_changed
            self.write(lines.BROKER_REGISTERED, **keys, **_changes(event.changes))
        elif event.changes or event.master_changed:
            keys["master_changed"] = event.master_changed
            self.write(lines.BROKER_TOPICS_CHANGED, **keys, **_changes(event.changes))
        elif event.ignored_topics:
            self.write(lines.BROKER_TOPICS_IGNORED, **keys)

    def _audit_route_changes(self, events: list[TopicsChangedByAdmin]) -> None:
        """Audit what one request did to all broker sets, as one line."""
        parts = [event.changes for event in events]
        summed = RouteChanges(
            topics_added=sum(part.topics_added for part in parts),
            topics_removed=sum(part.topics_removed for part in parts),
            queues=sum(part.queues for part in parts),
            perm=sum(part.perm for part in parts),
            sample=tuple(dict.fromkeys(topic for part in parts for topic in part.sample))[:SAMPLE_TOPICS_MAX],
        )
        self.write(
            lines.TOPICS_CHANGED,
            command=events[0].request,
            target=events[0].target,
            clusters=sorted({event.cluster for event in events})[:SAMPLE_TOPICS_MAX],
            brokers=len(events),
            **_changes(summed),
        )


def _who(event: BrokerEvent) -> dict[str, object]:
    broker = {"broker": event.broker_name, "broker_id": event.broker_id}
    return {"cluster": event.cluster, **broker, "addr": event.address}


def _changes(changes: RouteChanges) -> dict[str, object]:
    if not changes:
        return {}
    return {
        "topics_added": changes.topics_added,
        "topics_removed": changes.topics_removed,
        "queues_changed": changes.queues,
        "perms_changed": changes.perm,
        "sample_topics": changes.sample,
    }
