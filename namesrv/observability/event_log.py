"""Turns what happened into log lines and counters: events of the state and of the settings.

It decides which events of `log_events.py` a change becomes; a registration becomes one line, however much it changes.
Heartbeats and unchanged registrations are only counted.
"""

from typing import TYPE_CHECKING, Final

from namesrv.core.change_log import WatchKind
from namesrv.core.role_addresses.checks import AddressMove, CheckChange, CheckState
from namesrv.core.role_addresses.rules import RoleAddressRules
from namesrv.core.role_addresses.state import RoleAddressLoop
from namesrv.core.tables.change import SAMPLE_TOPICS_MAX
from namesrv.core.tables.lost_topics import SetLosses
from namesrv.core.values.effects import (
    BrokerRegistered,
    BrokerRemoved,
    DepartureReason,
    Event,
    NotifyMinBrokerIdChange,
    RegistrationConflicted,
    RegistrationResult,
    RouteChanges,
    StaleRegistration,
    StaleUnregistration,
    TopicsChangedByAdmin,
)
from namesrv.observability import log_events as catalogue
from namesrv.observability.broker_counters import BrokerCounters
from namesrv.settings.config import NAMESRV, NameServerConfig
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import InvokeError
from remoting.server.observer import Peer, Rejection
from serving.config.stored_config import NotStored
from serving.config.table_documents import TablesRefused
from serving.logging.logs import Logs
from serving.process.event_log import ServerEventLog

if TYPE_CHECKING:
    from namesrv.recording.route_recorder import RouteRecorder

_REMOVAL_EVENTS: Final = {
    DepartureReason.REQUEST: catalogue.BROKER_UNREGISTERED,
    DepartureReason.TIMEOUT: catalogue.BROKER_EXPIRED,
    DepartureReason.CHANNEL_CLOSED: catalogue.BROKER_DISCONNECTED,
    DepartureReason.CONFLICT: catalogue.BROKER_EVICTED,
}


class NameServerEventLog(ServerEventLog[NameServerConfig]):
    """Logs, counts and records what happens in a NameServer."""

    _counters: BrokerCounters

    def __init__(
        self, logs: Logs, counters: BrokerCounters, config: NameServerConfig, recorder: "RouteRecorder | None" = None
    ) -> None:
        """Keep `config` to log later what changed of it; without a recorder there is no history."""
        super().__init__(NAMESRV, logs, counters, config)
        self._recorder = recorder

    # Events of the state

    def record(self, events: tuple[Event, ...]) -> None:
        """Log and count the events of one request, scan or lost connection."""
        if self._recorder is not None:
            self._recorder.record(events)
        for event in events:
            self._counters.count(event)
        if registered := [event for event in events if isinstance(event, BrokerRegistered)]:
            removed = [event for event in events if isinstance(event, BrokerRemoved)]
            self._log_registration(registered[0], removed[0] if removed else None)
        elif by_admin := [event for event in events if isinstance(event, TopicsChangedByAdmin)]:
            self._audit_route_changes(by_admin)
        else:
            for event in events:
                self._log_event(event)

    def _log_event(self, event: Event) -> None:
        match event:
            case BrokerRemoved():
                self._log_removal(event)
            case RegistrationConflicted():
                self._log_conflict(event)
            case StaleRegistration():
                self._logs.write(catalogue.REGISTRATION_IGNORED, **_who(event))
            case StaleUnregistration():
                who = {"cluster": event.cluster, "broker": event.broker_name, "addr": event.address}
                self._logs.write(catalogue.UNREGISTRATION_IGNORED, **who)

    def topics_not_copied(self, broker_name: str, losses: SetLosses) -> None:
        """Log what a new master of a set lacks."""
        self._logs.write(
            catalogue.TOPICS_NOT_COPIED,
            broker=broker_name,
            topics=len(losses.topics),
            sample_topics=losses.names[:SAMPLE_TOPICS_MAX],
        )

    def notification_sent(self, effect: NotifyMinBrokerIdChange, reached: int) -> None:
        """Log how many members of a set were notified; the failures are logged already."""
        self._counters.notifications.add(("sent",), reached)
        self._logs.write(
            catalogue.MIN_BROKER_ID_NOTIFIED,
            broker=effect.broker_name,
            broker_id=effect.min_broker_id,
            addr=effect.min_broker_addr,
            offline_addr=effect.offline_broker_addr,
            ha_addr=effect.ha_broker_addr,
            recipients=effect.recipients,
            reached=reached,
        )

    def notification_failed(self, effect: NotifyMinBrokerIdChange, address: str, error: InvokeError) -> None:
        """Log and count a member that could not be notified."""
        self._counters.notifications.add(("failed",))
        self._logs.write(
            catalogue.MIN_BROKER_ID_NOTIFICATION_FAILED,
            broker=effect.broker_name,
            broker_id=effect.min_broker_id,
            addr=address,
            error=str(error),
        )

    # What operators changed

    def kv_changed(self, namespace: str, key: str, before: str | None, after: str | None) -> None:
        """Audit a KV entry that was put or deleted."""
        self._counters.kv_changes.add(("stored",))
        if self._recorder is not None:
            self._recorder.kv_changed(namespace, key, after)
        self.audit(catalogue.KV_CHANGED, namespace=namespace, key=key, old=before, new=after)

    def config_changed(self, changed: tuple[str, ...], unknown: tuple[str, ...], config: NameServerConfig) -> None:
        """Audit and record new values of properties."""
        super().config_changed(changed, unknown, config)
        if self._recorder is not None:
            self._recorder.configured(config)

    def kv_not_stored(self, error: NotStored) -> None:
        """Audit a KV change that could not be written to disk."""
        self._counters.kv_changes.add(("failed",))
        self.audit(catalogue.KV_STORE_FAILED, error=str(error))

    def role_addresses_loaded(self, source: str, rules: RoleAddressRules) -> None:
        """Audit rules that are in force from now on."""
        self.audit(catalogue.ROLE_ADDRESSES_LOADED, source=source, rules=len(rules.rules), digest=rules.digest)

    def role_addresses_refused(self, source: str, refusal: TablesRefused) -> None:
        """Audit a file with mistakes."""
        self.audit(catalogue.ROLE_ADDRESSES_REFUSED, source=source, problems=[str(each) for each in refusal.mistakes])

    def role_address_ignored(self, loop: RoleAddressLoop) -> None:
        """Log a rule that is not applied."""
        keys = {"broker": loop.broker_name, "addr": loop.address, "owner": loop.owner, "line": loop.line}
        self._logs.write(catalogue.ROLE_ADDRESS_IGNORED, **keys)

    def role_address_checked(self, change: CheckChange) -> None:
        """Log whether clients get an address, or that it leads nowhere."""
        check, (broker, broker_id, address) = change.check, change.check.use
        keys: dict[str, object] = {"broker": broker, "broker_id": broker_id, "addr": address}
        match check.state:
            case CheckState.REFUSED:
                self._logs.write(catalogue.ROLE_ADDRESS_NOT_APPLIED, **keys, error=check.problem)
            case CheckState.FAILING:
                self._logs.write(catalogue.ROLE_ADDRESS_FAILING, **keys, error=check.problem)
            case _ if change.before is CheckState.FAILING:
                self._logs.write(catalogue.ROLE_ADDRESS_RECOVERED, **keys)
            case _:
                self._logs.write(catalogue.ROLE_ADDRESS_APPLIED, **keys)

    def role_address_moved(self, move: AddressMove) -> None:
        """Record that an address leads to its broker; log it if it led to another one before."""
        if self._recorder is not None:
            self._recorder.role_address_moved(move)
        if move.former is not None:
            broker, broker_id, address = move.use
            keys = {"broker": broker, "broker_id": broker_id, "addr": address}
            self._logs.write(catalogue.ROLE_ADDRESS_MOVED, **keys, leads_to=move.target, former_addr=move.former)

    def role_address_store_failed(self, error: str) -> None:
        """Log that the addresses that clients get are not in their file."""
        self._logs.write(catalogue.ROLE_ADDRESS_STORE_FAILED, error=error)

    def away_set_store_failed(self, error: str) -> None:
        """Log that the broker sets are not in their file."""
        self._logs.write(catalogue.BROKER_SET_STORE_FAILED, error=error)

    # Watchers

    def watcher_refused(self, kind: WatchKind, client: str, watchers_max: int) -> None:
        """Log a watcher beyond the limit."""
        self._logs.write(catalogue.WATCHER_REFUSED, watch=kind, peer=client, watchers_max=watchers_max)

    def watcher_stalled(self, kind: WatchKind, client: str, keys: tuple[str, ...]) -> None:
        """Log a watcher whose connection was closed because it read nothing."""
        topics = [key for key in keys if key][:SAMPLE_TOPICS_MAX]
        self._logs.write(catalogue.WATCHER_STALLED, watch=kind, peer=client, sample_topics=topics)

    # Requests

    def request_rejected(self, connection: Peer, request: RemotingCommand, reason: Rejection, error: str) -> None:
        """Log a request that was refused; count it if it is a registration."""
        if request.code == RequestCode.REGISTER_BROKER and reason is not Rejection.DRAINING:
            self._counters.registration_rejected((request.ext_fields or {}).get("clusterName", ""))
        super().request_rejected(connection, request, reason, error)

    # Lines

    def _log_registration(self, event: BrokerRegistered, superseded: BrokerRemoved | None) -> None:
        keys = {**_who(event), "topics": event.topics, "data_version": _version(event)}
        if superseded:
            former = {"former_addr": superseded.address, "silent_ms": superseded.silent_ms}
            self._logs.write(catalogue.BROKER_SUPERSEDED, **keys, **former, **_changes(event.changes))
            return
        keys["ignored_topics"] = event.ignored_topics
        if event.result is RegistrationResult.FIRST:
            keys["heartbeat_timeout_ms"] = event.heartbeat_timeout_ms
            keys["set_added"] = event.set_added
            keys["master_changed"] = event.master_changed
            self._logs.write(catalogue.BROKER_REGISTERED, **keys, **_changes(event.changes))
        elif event.changes or event.master_changed:
            keys["master_changed"] = event.master_changed
            self._logs.write(catalogue.BROKER_TOPICS_CHANGED, **keys, **_changes(event.changes))
        elif event.ignored_topics and event.result is RegistrationResult.CHANGED:
            self._logs.write(catalogue.BROKER_TOPICS_IGNORED, **keys)

    def _log_conflict(self, event: RegistrationConflicted) -> None:
        self._logs.write(
            catalogue.REGISTRATION_CONFLICTED,
            **_who(event),
            state_version=event.state_version,
            holder_addr=event.holder_address,
            holder_state_version=event.holder_state_version,
        )

    def _log_removal(self, event: BrokerRemoved) -> None:
        self._logs.write(
            _REMOVAL_EVENTS[event.reason],
            **_who(event),
            reason=event.reason.value,
            silent_ms=event.silent_ms,
            heartbeat_timeout_ms=event.heartbeat_timeout_ms,
            was_master=event.was_master,
            set_removed=event.set_removed,
            **_changes(event.changes),
        )

    def _audit_route_changes(self, events: list[TopicsChangedByAdmin]) -> None:
        """Audit what one request did to all broker sets, as one line."""
        self.audit(
            catalogue.TOPICS_CHANGED,
            command=events[0].request,
            target=events[0].target,
            clusters=sorted({event.cluster for event in events})[:SAMPLE_TOPICS_MAX],
            brokers=len(events),
            **_changes(_summed([event.changes for event in events])),
        )


def _who(event: BrokerRegistered | BrokerRemoved | RegistrationConflicted | StaleRegistration) -> dict[str, object]:
    broker = {"broker": event.broker_name, "broker_id": event.broker_id}
    return {"cluster": event.cluster, **broker, "addr": event.address}


def _version(event: BrokerRegistered) -> dict[str, int]:
    version = event.data_version
    return {"counter": version.counter, "state_version": version.state_version, "timestamp": version.timestamp}


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


def _summed(parts: list[RouteChanges]) -> RouteChanges:
    return RouteChanges(
        topics_added=sum(each.topics_added for each in parts),
        topics_removed=sum(each.topics_removed for each in parts),
        queues=sum(each.queues for each in parts),
        perm=sum(each.perm for each in parts),
        sample=tuple(dict.fromkeys(topic for each in parts for topic in each.sample))[:SAMPLE_TOPICS_MAX],
    )
