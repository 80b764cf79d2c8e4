"""Turns what is answered about roles into log lines and counts. Answers to `RoleListener` and `RoleCheckObserver`.

Checks come a thousand times a second and are only counted; a line tells that an answer is another one than before.
"""

from controller.failure_detection.heartbeats import BrokerKey
from controller.observability import role_log_events as catalogue
from controller.observability.counters import SetCounters
from controller.roles.changes import RoleChange
from controller.roles.verdict import RoleAnswer, RoleVerdict
from controller.sets.broker_set import BrokerSet
from serving.logging.logs import Logs
from store.store import SetStore


class RoleEventLog:
    """Learns when masters serve, and what role checks are answered."""

    def __init__(self, logs: Logs, counters: SetCounters, store: SetStore) -> None:
        """`store` has the addresses of brokers."""
        self._logs = logs
        self._counters = counters
        self._store = store
        #: The last certain verdicts of stored brokers, by broker name and id.
        self._verdicts: dict[str, dict[int, RoleVerdict]] = {}

    def role_changed(self, change: RoleChange) -> None:
        """Forget the verdicts of a set that is gone; elections have a line of their own."""
        if change.new is None and self._store.get(change.broker_name) is None:
            self._verdicts.pop(change.broker_name, None)

    def master_serves(self, change: RoleChange, after_ms: int) -> None:
        """Log that a master takes messages; count how long that took, unless it was found so."""
        assert change.new is not None, "somebody serves"
        if not change.is_repeated:
            self._counters.failover_phases.observe(("serve",), after_ms / 1000)
        self._logs.write(
            catalogue.MASTER_SERVES,
            cluster=change.cluster,
            broker=change.broker_name,
            broker_id=change.new.broker_id,
            addr=change.new.address,
            master_epoch=change.master_epoch,
            duration_ms=after_ms,
            repeated=change.is_repeated,
        )

    def hold_ended(self, broker_set: BrokerSet, held_ms: int) -> None:
        """Do nothing: the line about the switchover has how long it held clients."""

    def role_checked(self, key: BrokerKey, answer: RoleAnswer) -> None:
        """Count a check, and log an answer that is another one than before."""
        self._counters.role_checks.add((answer.verdict,))
        if answer.verdict is RoleVerdict.UNKNOWN:
            return
        known = self._verdicts.setdefault(key.broker_name, {})
        before = known.get(key.broker_id)
        # Anybody can check an id that its set does not have.
        if before is not answer.verdict and (answer.is_member or before is not None):
            known[key.broker_id] = answer.verdict
            if before is not None:
                self._log_change(key, answer, before)

    def leader_checked(self, *, leads: bool) -> None:
        """Count a check of this controller."""
        self._counters.role_checks.add(("leads" if leads else "follows",))

    def role_check_refused(self) -> None:
        """Count what was no check."""
        self._counters.role_checks.add(("invalid",))

    def _log_change(self, key: BrokerKey, answer: RoleAnswer, before: RoleVerdict) -> None:
        broker_set = self._store.get(key.broker_name)
        self._logs.write(
            catalogue.ROLE_ANSWER_CHANGED,
            cluster=broker_set.cluster if broker_set is not None else None,
            broker=key.broker_name,
            broker_id=key.broker_id,
            addr=self._store.address_of(key),
            master_epoch=answer.master_epoch,
            old=before.value,
            new=answer.verdict.value,
        )
