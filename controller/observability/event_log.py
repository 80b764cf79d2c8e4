"""Turns what happened to sets and brokers into log lines and counts; the one place that decides which.

Heartbeats and polls are only counted. Every election is one line, and those that end as the one before are none.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from controller.config import CONTROLLER, ControllerConfig
from controller.decisions.election import ElectionResult
from controller.decisions.membership import Applicant, Cleaning, Registrant
from controller.decisions.sync_state import WantedSyncStateSet
from controller.failover.effects import NotifyRoleChanged, Recipient
from controller.failover.election_log import LOSSES, CandidateReport, ElectionRecord, NotificationResult
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import PROOFS, BrokerFailure, HostsChange, HostsChangeKind, ProbeOutcome
from controller.observability import log_events as catalogue
from controller.observability.counters import FAILED_OVER, SetCounters
from controller.sets.broker_set import BrokerSet
from controller.sets.events import MasterLost, ReplicaAdopted
from remoting.protocol.codes import CONTROLLER_REQUESTS, RequestCode
from serving.logging.events import LogEvent
from serving.logging.logs import Logs
from serving.process.event_log import ServerEventLog
from store.store import Changed, ControllerMember, StoreError

if TYPE_CHECKING:
    from controller.recording.set_recorder import SetRecorder

#: Only brokers send these; operators' tools send the others too.
BROKER_CODES = frozenset(
    {
        RequestCode.BROKER_HEARTBEAT,
        RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
        RequestCode.CONTROLLER_REGISTER_BROKER,
        RequestCode.CONTROLLER_GET_REPLICA_INFO,
        RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
        RequestCode.CONTROLLER_APPLY_BROKER_ID,
    }
    & frozenset(CONTROLLER_REQUESTS)
)


class ControllerEventLog(ServerEventLog[ControllerConfig]):
    """Observes the whole controller."""

    _counters: SetCounters

    def __init__(
        self, logs: Logs, counters: SetCounters, config: ControllerConfig, history: "SetRecorder | None" = None
    ) -> None:
        """Take the configuration in force, to log later what changed of it; no `history`: nothing is recorded."""
        super().__init__(CONTROLLER, logs, counters, config)
        self._history = history

    # Leadership and store

    def leadership_gained(self, group: str, duration_ms: int, broker_sets: int) -> None:
        """Log and record that this controller leads."""
        if self._history is not None:
            self._history.leadership("leader_gained", group)
        self._logs.write(catalogue.LEADERSHIP_GAINED, group=group, duration_ms=duration_ms, broker_sets=broker_sets)

    def leadership_lost(self, group: str, leader: ControllerMember | None) -> None:
        """Log and record that this controller no longer leads."""
        if self._history is not None:
            self._history.leadership("leader_lost", group)
        self._logs.write(
            catalogue.LEADERSHIP_LOST,
            group=group,
            leader=None if leader is None else f"{leader.id} at {leader.address}",
        )

    def store_failed(self, broker_name: str, error: StoreError) -> None:
        """Log a change that could not be stored."""
        self._logs.write(catalogue.STORE_FAILED, broker=broker_name, error=str(error))

    def store_call(self, kind: str, result: str, seconds: float) -> None:
        """Count one call to the store."""
        self._counters.store_calls.add((kind, result))
        self._counters.store_durations.observe((kind,), seconds)

    def store_file_removed(self, error: str) -> None:
        """Log that the file of the embedded store is gone."""
        self._logs.write(catalogue.STORE_FILE_REMOVED, error=error)

    def store_file_unseen(self, error: str) -> None:
        """Log that nobody can check whether the file exists."""
        self._logs.write(catalogue.STORE_FILE_UNSEEN, error=error)

    def store_calls_failing(self, kind: str, error: str) -> None:
        """Log and record that calls to the store fail."""
        if self._history is not None:
            self._history.leadership("etcd_lost", error)
        self._logs.write(catalogue.STORE_CALLS_FAILING, operation=kind, error=error)

    def store_calls_answered(self, kind: str, silent_ms: int) -> None:
        """Log and record that calls to the store succeed again."""
        if self._history is not None:
            self._history.leadership("etcd_restored", kind)
        self._logs.write(catalogue.STORE_CALLS_ANSWERED, operation=kind, silent_ms=silent_ms)

    def failure_detection_suspended(self, held_ms: int) -> None:
        """Log and count a process pause, or a slow store."""
        self._counters.failure_detection_suspensions += 1
        self._logs.write(catalogue.FAILURE_DETECTION_SUSPENDED, held_ms=held_ms)

    def hosts_changed(self, news: HostsChange) -> None:
        """Log that most hosts of brokers are silent, or no longer."""
        silence = news.silence
        self._counters.silent_hosts = silence.silent if news.event is HostsChangeKind.SILENT else 0
        if news.event is HostsChangeKind.BACK:
            self._logs.write(catalogue.HEARTBEATS_RESUMED, gap_ms=news.silent_ms)
            return
        event = catalogue.HOSTS_SILENT if news.event is HostsChangeKind.SILENT else catalogue.SILENT_HOSTS_GIVEN_UP
        self._logs.write(event, silent_hosts=silence.silent, other_hosts=silence.hosts, silent_ms=news.silent_ms)

    def brokers_unreachable(self, key: BrokerKey, broker_set: BrokerSet | None, brokers: int) -> None:
        """Log that brokers send heartbeats and cannot be reached."""
        self._logs.write(catalogue.BROKERS_UNREACHABLE, brokers=brokers, **_who(key, broker_set))

    # Brokers

    def id_applied(self, applicant: Applicant, changed: Changed[None]) -> None:
        """Log a broker's id, once."""
        if changed.before == changed.after:
            return
        self._logs.write(
            catalogue.BROKER_ID_APPLIED,
            cluster=applicant.cluster,
            broker=applicant.broker_name,
            broker_id=applicant.broker_id,
            addr=applicant.address,
            set_added=changed.before is None,
        )

    def broker_started(self, registrant: Registrant, changed: Changed[None]) -> None:
        """Log a broker's start."""
        before, after = changed.before, changed.after
        assert after is not None, "only members start"
        is_unchanged = before is not None and before.differs_only_in_log_ends(after)
        if is_unchanged and after.is_rebuilding:
            # It has not started: while its set is put together its polls are answered so that it registers again.
            return
        old = before.replicas.get(registrant.broker_id) if before is not None else None
        who = {
            "cluster": after.cluster,
            "broker": after.broker_name,
            "broker_id": registrant.broker_id,
            "addr": registrant.address,
        }
        events = changed.decision.events
        if self._history is not None:
            self._history.broker_started(registrant)
        moved = old is not None and old.address != registrant.address
        self._logs.write(
            catalogue.BROKER_STARTED,
            **who,
            old_addr=old.address if old and moved else None,
            adopted=after.replicas[registrant.broker_id].is_adopted,
        )
        is_new = any(isinstance(event, ReplicaAdopted) for event in events)
        if not is_new and any(isinstance(event, MasterLost) for event in events):
            self._logs.write(catalogue.MASTER_RESTARTED, **who, **_epochs(after))

    def broker_suspected(self, key: BrokerKey, broker_set: BrokerSet | None) -> None:
        """Log a closed connection of a broker."""
        self._logs.write(catalogue.BROKER_SUSPECTED, **_who(key, broker_set))

    def broker_failed(self, failure: BrokerFailure, broker_set: BrokerSet | None) -> None:
        """Log the failure of a broker, count and record it."""
        if self._history is not None and broker_set is not None:
            self._history.broker_failed(failure, broker_set)
        self._counters.brokers_failed.add((broker_set.cluster if broker_set is not None else "", failure.why.value))
        self._logs.write(
            catalogue.BROKER_FAILED,
            **_who(failure.key, broker_set),
            reason=failure.reason,
            evidence=failure.why.value,
            silent_ms=failure.silent_ms,
            suspected_ms=failure.judged_ms - failure.suspected_ms,
        )

    def broker_probed(self, outcome: ProbeOutcome) -> None:
        """Count a probe of a broker; anybody may read metrics, so a closed port counts as one without an answer."""
        self._counters.probes.add(((ProbeOutcome.NO_ANSWER if outcome in PROOFS else outcome).value,))

    def sync_state_set_altered(self, wanted: WantedSyncStateSet, changed: Changed[None]) -> None:
        """Log and record a new SyncStateSet."""
        before, after = changed.before, changed.after
        assert before is not None, "a set was altered"
        assert after is not None, "as above"
        if self._history is not None:
            self._history.sync_state_set_altered(after)
        self._logs.write(
            catalogue.SYNC_STATE_SET_ALTERED,
            cluster=after.cluster,
            broker=after.broker_name,
            master=wanted.master,
            old=sorted(before.sync_state_set),
            new=sorted(after.sync_state_set),
            **_epochs(after),
        )

    def set_expired(self, broker_set: BrokerSet) -> None:
        """Log that a set expired that never had a master."""
        if self._history is not None:
            self._history.cleaned(broker_set, broker_set.replicas)
        self._logs.write(
            catalogue.BROKER_SET_EXPIRED,
            cluster=broker_set.cluster,
            broker=broker_set.broker_name,
            broker_ids=sorted(broker_set.replicas),
        )

    def cleaned(self, wanted: Cleaning, changed: Changed[None]) -> None:
        """Log what an operator removed."""
        before, after = changed.before, changed.after
        assert before is not None, "a set was cleaned"
        gone = before.replicas.keys() - (after.replicas.keys() if after is not None else set())
        if self._history is not None:
            self._history.cleaned(before, gone)
        self.audit(
            catalogue.BROKERS_CLEANED,
            cluster=before.cluster,
            broker=wanted.broker_name,
            broker_ids=sorted(gone),
            set_removed=after is None,
            was_master=before.master in gone,
        )

    # Elections

    def election_held(self, record: ElectionRecord, *, is_new: bool, seconds: float) -> None:
        """Log an election with its reason."""
        counters = self._counters
        result = record.reported_result
        counters.elections.add((record.cluster, record.broker_name, result.value))
        counters.election_durations.observe((result.value,), seconds)
        if not is_new:
            return
        if self._history is not None:
            self._history.election_held(record)
        if record.cause.trigger in LOSSES:
            counters.failovers.add(
                (record.cluster, record.cause.evidence or record.cause.trigger.value, _outcome(record))
            )
        phases = record.phases
        lasted = {
            "detect": phases.suspect_ms,
            "judge": phases.judge_ms,
            "fence": phases.fence_ms,
            "commit": phases.commit_ms,
        }
        for phase, lasted_ms in lasted.items():
            if lasted_ms is not None:
                counters.failover_phases.observe((phase,), lasted_ms / 1000)
        self._logs.write(_event_of(record), **_election_keys(record))
        for each in record.reports:
            if each.lost_bytes and each.in_sync:
                self._log_shrank(record, each)

    def _log_shrank(self, record: ElectionRecord, report: CandidateReport) -> None:
        self._counters.logs_shrunk.add((record.cluster,))
        self._logs.write(
            catalogue.LOG_SHRANK,
            election=record.number,
            cluster=record.cluster,
            broker=record.broker_name,
            broker_id=report.broker_id,
            addr=report.address,
            max_offset=report.max_offset,
            lost_bytes=report.lost_bytes,
            new_master=record.new_master,
        )

    def master_epoch_disputed(self, broker_set: BrokerSet, claims: Mapping[int, int]) -> None:
        """Log brokers that claim a higher master epoch than the stored one without proof."""
        self._logs.write(
            catalogue.MASTER_EPOCH_DISPUTED,
            cluster=broker_set.cluster,
            broker=broker_set.broker_name,
            master=broker_set.master,
            sync_state_set=sorted(broker_set.sync_state_set),
            claims=[
                {"broker_id": i, "addr": broker_set.replicas[i].address, "epoch": claims[i]} for i in sorted(claims)
            ],
            **_epochs(broker_set),
        )

    def role_notification_resent(self, broker_set: BrokerSet) -> None:
        """Log that the role notification of a set is resent."""
        self._logs.write(
            catalogue.ROLE_NOTIFICATION_RESENT,
            cluster=broker_set.cluster,
            broker=broker_set.broker_name,
            master=broker_set.master,
            **_epochs(broker_set),
        )

    def role_notified(
        self,
        effect: NotifyRoleChanged,
        recipient: Recipient,
        notified: NotificationResult,
        record: ElectionRecord | None,
    ) -> None:
        """Count and record the result of a role notification."""
        counters = self._counters
        counters.notifications.add((notified.result,))
        if self._history is not None:
            self._history.role_notified(effect, recipient, notified, record)
        if notified.result == "ok" and recipient.broker_id == effect.master.broker_id:
            counters.failover_phases.observe(("notify",), notified.after_ms / 1000)
            if record is not None and record.phases.suspect_ms is not None:
                counters.failover_phases.observe(("total",), (record.phases.total_ms + notified.after_ms) / 1000)

    def role_notification_failed(self, effect: NotifyRoleChanged, recipient: Recipient, tries: int, error: str) -> None:
        """Log that a broker did not confirm its role."""
        self._logs.write(
            catalogue.ROLE_NOTIFICATION_FAILED,
            broker=effect.broker_name,
            broker_id=recipient.broker_id,
            addr=recipient.address,
            master_epoch=effect.master_epoch,
            sync_state_set_epoch=effect.sync_state_set_epoch,
            tries=tries,
            error=error,
        )


def _who(key: BrokerKey, broker_set: BrokerSet | None) -> dict[str, object]:
    replica = broker_set.replicas.get(key.broker_id) if broker_set is not None else None
    return {
        "cluster": broker_set.cluster if broker_set is not None else None,
        "broker": key.broker_name,
        "broker_id": key.broker_id,
        "addr": replica.address if replica is not None else None,
        "was_master": broker_set is not None and broker_set.master == key.broker_id,
    }


def _epochs(broker_set: BrokerSet) -> dict[str, object]:
    return {"master_epoch": broker_set.master_epoch, "sync_state_set_epoch": broker_set.sync_state_set_epoch}


def _outcome(record: ElectionRecord) -> str:
    return FAILED_OVER if record.result is ElectionResult.NEW_MASTER else record.result.value


def _event_of(record: ElectionRecord) -> LogEvent:
    result = record.reported_result
    if result is ElectionResult.NOBODY:
        return catalogue.ELECTION_FAILED
    if result is ElectionResult.KEPT:
        return catalogue.MASTER_KEPT
    return catalogue.UNCLEAN_MASTER_ELECTED if record.is_unclean else catalogue.MASTER_ELECTED


def _election_keys(record: ElectionRecord) -> dict[str, object]:
    keys: dict[str, object] = {
        "election": record.number,
        "cluster": record.cluster,
        "broker": record.broker_name,
        "trigger": record.cause.trigger.value,
        "cause": record.cause.why,
        "reason": record.reason,
        "old_master": record.old_master,
        "new_master": record.new_master,
        "master_epoch": record.master_epoch,
        "sync_state_set_epoch": record.sync_state_set_epoch,
        "candidates": [
            {
                "broker_id": each.broker_id,
                "in_sync": each.in_sync,
                "epoch": each.epoch,
                "max_offset": each.max_offset,
                "verdict": each.verdict.value,
            }
            for each in record.reports
        ],
        "suspect_ms": record.phases.suspect_ms,
        "judge_ms": record.phases.judge_ms,
        "fence_ms": record.phases.fence_ms,
        "commit_ms": record.phases.commit_ms,
    }
    if record.reported_result is ElectionResult.NOBODY or record.is_unclean:
        keys["bytes_at_stake"] = record.bytes_at_stake
    if record.advice:
        keys["advice"] = record.advice
    if record.force:
        keys["force"] = record.force
    return keys
