"""Hands over to the recorder what a controller sees: deaths, elections, roles, who is in sync, and heartbeats.

Only values that nobody changes later are handed over; they become rows in the recorder's thread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from controller.decisions.election import ElectionResult
from controller.decisions.membership import Registrant
from controller.failover.effects import NotifyRoleChanged, Recipient
from controller.failover.election_log import ElectionRecord, NotificationResult
from controller.failure_detection.detector import BrokerFailure
from controller.failure_detection.heartbeats import BrokerKey, HeartbeatTable, LastHeartbeat
from controller.sets.broker_set import BrokerSet
from history.heartbeats import Beat, Beats
from history.recorder import Recorder
from history.rows import Moment, Row, RowMaker, Who
from history.schemas import CONTROLLER
from history.server_rows import Life
from remoting.clock import SystemClock


class Told(NamedTuple):
    """Something happened to a set or a broker."""

    event_type: str
    who: Who
    columns: Mapping[str, object]
    #: How long before it was told.
    ago_ms: int = 0

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[Row]:
        """Yield one row."""
        ago_us = self.ago_ms * 1000
        then = Moment(moment.unix_us - ago_us, moment.mono_us - ago_us)
        columns = dict(self.columns)
        if isinstance(silent_ms := columns.get("silent_ms"), int):
            columns["last_heartbeat_time"] = then.unix_us - silent_ms * 1000
        yield maker.row(CONTROLLER, self.event_type, then, self.who, **columns)


class SetHistory:
    """What is recorded of broker sets."""

    def __init__(
        self,
        recorder: Recorder,
        live: HeartbeatTable,
        address_of: Callable[[BrokerKey], str | None],
        etcd_bytes: Callable[[], int | None],
    ) -> None:
        self._recorder = recorder
        self._etcd_bytes = etcd_bytes
        self._address_of = address_of
        self._live = live
        self._clock = SystemClock()
        self._beats = Beats()

    def measure(self) -> dict[str, int | float | None]:
        """Return what this controller hears, and how large its etcd is, by column of a tick."""
        return {"brokers": self._live.brokers, "etcd_db_bytes": self._etcd_bytes()}

    # The controller itself

    def leadership(self, event_type: str, reason: str) -> None:
        """Record that this controller leads, or does no longer."""
        self._recorder.note(Life(event_type, reason=reason))

    # Brokers

    def beat(self, cluster: str, key: BrokerKey, heard: LastHeartbeat, before: LastHeartbeat | None) -> None:
        """Record a heartbeat as far as that is worth it."""
        beat = Beat(
            Moment(self._clock.unix_us(), self._clock.mono_us()),
            Who(cluster, key.broker_name, key.broker_id, heard.address),
            "controller",
            None if before is None or before.awaits_heartbeat else heard.last_contact_ms - before.last_contact_ms,
            heard.timeout_ms,
            max_offset=heard.max_offset,
            epoch=heard.epoch,
        )
        for noted in self._beats.take(beat):
            self._recorder.note_beat(noted)

    def broker_started(self, registrant: Registrant) -> None:
        """Record that a broker started."""
        who = Who(registrant.cluster, registrant.broker_name, registrant.broker_id, registrant.address)
        self._recorder.note(Told("registered", who, {}))

    def broker_failed(self, dead: BrokerFailure, broker_set: BrokerSet) -> None:
        """Record a death."""
        replica = broker_set.replicas.get(dead.key.broker_id)
        address = replica.address if replica is not None else None
        who = Who(broker_set.cluster, dead.key.broker_name, dead.key.broker_id, address)
        columns = {
            "reason": dead.reason,
            "cause": dead.why.value,
            "silent_ms": dead.judged_ms - dead.last.last_contact_ms,
            "duration_ms": dead.judged_ms - dead.suspected_ms,
            "timeout_ms": dead.timeout_ms,
            "master_epoch": broker_set.master_epoch,
        }
        # An election counts from there: it would seem to begin before the death if the loop was busy in between.
        ago_ms = max(0, self._clock.now_ms() - dead.judged_ms)
        self._recorder.note(Told("failure_detected", who, columns, ago_ms))
        self._forget(broker_set, dead.key.broker_id)

    def cleaned(self, broker_set: BrokerSet, broker_ids: Iterable[int]) -> None:
        """Wait for no more heartbeats of brokers that belong to the set no longer."""
        for broker_id in broker_ids:
            self._forget(broker_set, broker_id)

    def _forget(self, broker_set: BrokerSet, broker_id: int) -> None:
        moment = Moment(self._clock.unix_us(), self._clock.mono_us())
        for summary in self._beats.forget(broker_set.cluster, broker_set.broker_name, broker_id, moment):
            self._recorder.note_beat(summary)

    # Sets

    def sync_state_set_altered(self, broker_set: BrokerSet) -> None:
        """Record who is in sync."""
        columns = {
            "master_epoch": broker_set.master_epoch,
            "sync_state_set_epoch": broker_set.sync_state_set_epoch,
            "sync_state_set": sorted(broker_set.sync_state_set),
            "new_master": broker_set.master,
        }
        who = Who(broker_set.cluster, broker_set.broker_name)
        self._recorder.note(Told("sync_set_changed", who, columns))

    def election_held(self, record: ElectionRecord) -> None:
        """Record an election, with its beginning."""
        master = record.new_master
        address = self._address_of(BrokerKey(record.broker_name, master)) if master is not None else None
        who = Who(record.cluster, record.broker_name, master, address)
        is_new = record.result is ElectionResult.NEW_MASTER
        common = {
            "failover_id": _failover_id(record) if is_new else None,
            "cause": record.cause.trigger.value,
            "old_master": record.old_master,
        }
        began = {**common, "reason": record.cause.why}
        commit_ms = record.phases.commit_ms
        self._recorder.note(Told("election_started", Who(record.cluster, record.broker_name), began, commit_ms))
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
        self._recorder.note(Told("elected", who, columns))

    def role_notified(
        self,
        effect: NotifyRoleChanged,
        recipient: Recipient,
        notified: NotificationResult,
        record: ElectionRecord | None,
    ) -> None:
        """Record whether a broker knows its role."""
        cluster = record.cluster if record is not None else None
        columns = {
            "failover_id": _failover_id(record) if record is not None else None,
            "result": notified.result,
            "duration_ms": notified.after_ms,
            "master_epoch": effect.master_epoch,
            "new_master": effect.master.broker_id,
        }
        who = Who(cluster, effect.broker_name, recipient.broker_id, recipient.address)
        self._recorder.note(Told("role_notified", who, columns))


def _failover_id(record: ElectionRecord) -> str:
    return f"{record.cluster}/{record.broker_name}/{record.master_epoch}"
