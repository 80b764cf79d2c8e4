"""What is told of the roles of brokers: lines of the log, metrics, and rows `controller` of the history.

Checks come a thousand times a second and are only counted; a line tells that an answer is another one than before.
What a new leader repeats is not recorded again: the leader before has seen it, or nobody has.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from controller.failover.events import FAILOVER_PHASES, SetRow
from controller.failure_detection.heartbeats import BrokerKey
from controller.roles.changes import RoleChange
from controller.roles.verdict import RoleAnswer, RoleVerdict
from controller.sets.broker_set import BrokerSet
from history.rows import BrokerRef
from serving.telemetry.events import Count, Counter, Emit, Event, Gauge, Observation

ROLE_CHECKS: Final = Counter(
    "role_checks",
    "Answers at roleCheckPort, by verdict: serves, failed, superseded, held, unknown of a broker; leads or follows of "
    "this controller; invalid of what was no check.",
    ("verdict",),
    known=tuple((verdict,) for verdict in (*RoleVerdict, "leads", "follows", "invalid")),
)
MASTERS_WAITS: Final = Gauge("masters_waits", "Requests at /v1/masters that wait for a change.")


class MasterServes(Event, frozen=True, kw_only=True):
    """An elected master accepts messages, `duration_ms` after its election was stored; role checks answer `up` for it
    from now on. With `repeated` a new leader found it in this state."""

    keys = ("cluster", "broker", "broker_id", "addr", "master_epoch", "duration_ms", "repeated")
    change: RoleChange
    after_ms: int

    def line(self) -> Mapping[str, object]:
        change = self.change
        assert change.new is not None, "somebody serves"
        return {
            "cluster": change.cluster,
            "broker": change.broker_name,
            "broker_id": change.new.broker_id,
            "addr": change.new.address,
            "master_epoch": change.master_epoch,
            "duration_ms": self.after_ms,
            "repeated": change.is_repeated,
        }

    def observed(self) -> Iterator[Observation]:
        if not self.change.is_repeated:
            yield Observation(FAILOVER_PHASES, self.after_ms / 1000, ("serve",))

    def rows(self) -> Iterator[SetRow]:
        if not self.change.is_repeated:
            columns = {**_columns(self.change), "duration_ms": self.after_ms}
            yield SetRow("master_serves", _broker(self.change), columns)


class RoleAnswerChanged(Event, frozen=True, kw_only=True):
    """The answer to role checks of a broker changed: proxies end its sessions at `failed`, `superseded` and `held`, and
    send clients to it at `serves`. Uncertain answers change nothing there and are not logged."""

    keys = ("cluster", "broker", "broker_id", "addr", "master_epoch", "old", "new")
    key: BrokerKey
    broker_set: BrokerSet | None
    answer: RoleAnswer
    old: RoleVerdict

    def line(self) -> Mapping[str, object]:
        broker_set = self.broker_set
        replica = broker_set.replicas.get(self.key.broker_id) if broker_set is not None else None
        return {
            "cluster": broker_set.cluster if broker_set is not None else None,
            "broker": self.key.broker_name,
            "broker_id": self.key.broker_id,
            "addr": replica.address if replica is not None else None,
            "master_epoch": self.answer.master_epoch,
            "old": self.old.value,
            "new": self.answer.verdict.value,
        }


class RoleChecked(Event, frozen=True, kw_only=True):
    """The role of a broker was checked."""

    level = None
    key: BrokerKey
    answer: RoleAnswer

    def counted(self) -> tuple[Count]:
        return (Count(ROLE_CHECKS, (self.answer.verdict,)),)


class MasterChanged(Event, frozen=True, kw_only=True):
    """A set has another master, or none, or its master another address; the new one may still be a slave."""

    level = None
    change: RoleChange
    #: How long ago it was stored: what was while the server started is told once it is ready.
    ago_ms: int

    def rows(self) -> Iterator[SetRow]:
        if not self.change.is_repeated:
            yield SetRow("master_changed", _broker(self.change), _columns(self.change), self.ago_ms)


class HoldEnded(Event, frozen=True, kw_only=True):
    """A switchover held a set for so long, and does so no more; the line about the switchover says that too."""

    level = None
    broker_set: BrokerSet
    held_ms: int

    def rows(self) -> tuple[SetRow]:
        found = self.broker_set
        columns = {"master_epoch": found.master_epoch, "new_master": found.master, "duration_ms": self.held_ms}
        broker = BrokerRef(found.cluster, found.broker_name, found.master, found.master_address)
        return (SetRow("hold_ended", broker, columns),)


class RoleAnswers:
    """Follows checks, and tells of a broker whose answer is another one than before."""

    def __init__(self, emit: Emit, broker_set: Callable[[str], BrokerSet | None]) -> None:
        self._emit, self._broker_set = emit, broker_set
        #: The last certain verdicts of stored brokers, by broker name and id.
        self._verdicts: dict[str, dict[int, RoleVerdict]] = {}

    def follow(self, event: Event) -> None:
        match event:
            case RoleChecked(key=key, answer=answer) if answer.verdict is not RoleVerdict.UNKNOWN:
                self._take(key, answer)
            case MasterChanged(change=change) if change.new is None and self._broker_set(change.broker_name) is None:
                self._verdicts.pop(change.broker_name, None)

    def _take(self, key: BrokerKey, answer: RoleAnswer) -> None:
        known = self._verdicts.setdefault(key.broker_name, {})
        before = known.get(key.broker_id)
        # Anybody can check an id that its set does not have.
        if before is not answer.verdict and (answer.is_member or before is not None):
            known[key.broker_id] = answer.verdict
            if before is not None:
                found = self._broker_set(key.broker_name)
                self._emit(RoleAnswerChanged(key=key, broker_set=found, answer=answer, old=before))


def _broker(change: RoleChange) -> BrokerRef:
    broker_id, address = change.new or (None, None)
    return BrokerRef(change.cluster, change.broker_name, broker_id, address)


def _columns(change: RoleChange) -> dict[str, object]:
    return {
        "failover_id": f"{change.cluster}/{change.broker_name}/{change.master_epoch}",
        "master_epoch": change.master_epoch,
        "old_master": change.old.broker_id if change.old is not None else None,
        "new_master": change.new.broker_id if change.new is not None else None,
        "former_addr": change.old.address if change.old is not None else None,
    }
