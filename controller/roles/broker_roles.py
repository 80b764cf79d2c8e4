"""The roles of brokers as this controller knows them at the moment: gathers the facts for `verdict.py`."""

from typing import NamedTuple

from controller.failover.requests import BrokerRequests
from controller.failure_detection.heartbeats import BrokerKey
from controller.roles.checkers import RoleCheckers
from controller.roles.holds import RoleHolds
from controller.roles.serving import ServingConfirmations
from controller.roles.verdict import RoleAnswer, RoleFacts, verdict_of
from controller.sets.broker_set import BrokerSet
from remoting.clock import Clock


class SetRoles(NamedTuple):
    """The roles in one set."""

    broker_set: BrokerSet
    #: Its master has changed to master and has not failed since, and this controller knows it.
    is_confirmed: bool
    #: Until when a switchover holds it, monotonic ms; None if none does.
    held_until_ms: int | None
    #: By broker id.
    answers: dict[int, RoleAnswer]


class BrokerRoles:
    """Answers who serves, on this controller's knowledge; in doubt it answers UNKNOWN."""

    def __init__(
        self,
        control: BrokerRequests,
        serving: ServingConfirmations,
        holds: RoleHolds,
        checkers: RoleCheckers,
        clock: Clock,
    ) -> None:
        self._control, self._clock = control, clock
        self.serving, self.holds, self.checkers = serving, holds, checkers

    def answer(self, key: BrokerKey) -> RoleAnswer:
        """Return the verdict on a broker."""
        control, now_ms = self._control, self._clock.now_ms()
        # What this process knew before a pause may be over.
        control.monitor.check_process_pause(now_ms)
        name, detector = key.broker_name, control.detector
        broker_set = control.store.get(name)
        facts = RoleFacts(
            broker_set=broker_set,
            leads=control.group.is_leader,
            is_held=self.holds.is_held(name, now_ms),
            judges=detector.judges(now_ms),
            is_behind=broker_set is not None and control.is_behind(broker_set),
            has_failed=detector.failed_broker(key) is not None,
            is_trusted=key.broker_id in detector.trusted(name, now_ms),
            is_confirmed=broker_set is not None and self.serving.is_confirmed(broker_set),
        )
        return verdict_of(key.broker_id, facts)

    def of_set(self, broker_set: BrokerSet) -> SetRoles:
        """Return the verdicts on all brokers of a set."""
        name, master = broker_set.broker_name, broker_set.master
        has_failed = master is not None and self._control.detector.failed_broker(BrokerKey(name, master)) is not None
        return SetRoles(
            broker_set=broker_set,
            is_confirmed=self.serving.is_confirmed(broker_set) and not has_failed,
            held_until_ms=self.holds.held_until_ms(name, self._clock.now_ms()),
            answers={broker_id: self.answer(BrokerKey(name, broker_id)) for broker_id in broker_set.replicas},
        )

    def clear(self) -> None:
        """Forget what only the leading controller knows: another one leads."""
        self.serving.clear()
        self.holds.clear()
        self.checkers.clear()
