"""How a set is changed: decided, stored and reported, by a controller that leads."""

from collections.abc import Callable
from typing import Final, NamedTuple

from controller.config import ControllerConfig
from controller.decisions.membership import check_cluster
from controller.decisions.recovery import Recovery
from controller.failover.events import Effect, FailureDetectionSuspended, StoreFailed
from controller.failover.fences import Fences
from controller.failover.group import Group
from controller.failure_detection.detector import FailureDetector
from controller.failure_detection.heartbeats import BrokerKey, HeartbeatTable, LastHeartbeat
from controller.refusals import NotLeader, NotStoredNow
from controller.sets.broker_set import BrokerSet
from controller.sets.stored_set import Reply, SetDecision, StoredSet
from remoting.clock import Clock
from remoting.protocol.errors import RequestRefused
from serving.telemetry.events import Emit
from store.store import COMMIT_S, Changed, Deposed, SetStore, StoreError

#: After that long for one change, brokers may only seem silent.
_SLOW_STORE_MS: Final = 1_000
#: A store that stays slow must not keep failed brokers from being judged for ever.
_SUSPEND_AGAIN_MS: Final = 10_000


class ClusterState(NamedTuple):
    """What this controller knows, what is stored, what its brokers have sent, who leads, and what it acts with."""

    store: SetStore
    group: Group
    live: HeartbeatTable
    detector: FailureDetector
    recovery: Recovery
    fences: Fences
    clock: Clock
    #: The configuration in force.
    config: Callable[[], ControllerConfig]
    #: Carries out what follows from a decision.
    perform: Callable[[Effect], None]
    emit: Emit
    #: Starts what nobody waits for.
    start: Callable[..., object]

    def last_reports(self, broker_set: BrokerSet) -> dict[int, LastHeartbeat]:
        """Return what the brokers of a set reported last, failed ones too, by broker id."""
        found: dict[int, LastHeartbeat] = {}
        for broker_id in broker_set.replicas:
            key = BrokerKey(broker_set.broker_name, broker_id)
            heartbeat = self.live.get(key) or self.detector.last_of_failed(key)
            if heartbeat is not None:
                found[broker_id] = heartbeat
        return found


class SetWriter:
    """Changes stored sets, and suspends failure detection while the store is slow."""

    def __init__(self, state: ClusterState) -> None:
        self._store, self._group, self._detector = state.store, state.group, state.detector
        self._clock, self._emit = state.clock, state.emit
        self._suspended_ms = self._clock.now_ms() - _SUSPEND_AGAIN_MS

    def suspend_failure_detection(self, now_ms: int, held_ms: int) -> None:
        """Judge nobody for a round of heartbeats, because something was held up for so long."""
        self._suspended_ms = now_ms
        self._detector.suspend(now_ms)
        self._emit(FailureDetectionSuspended(held_ms=held_ms))

    def check_cluster(self, broker_name: str, cluster: str) -> None:
        """Raise NotLeader, or SetUnknown if the set is one of another cluster."""
        self._group.check_leads()
        broker_set = self._store.get(broker_name)
        if broker_set is not None:
            check_cluster(broker_set, cluster)

    async def change(
        self, broker_name: str, decide: Callable[[StoredSet], SetDecision[Reply]], within_s: float = COMMIT_S
    ) -> Changed[Reply]:
        """Store what `decide` makes of a set; raises what it raises, NotLeader, or NotStoredNow."""
        group, store, clock = self._group, self._store, self._clock
        group.check_leads()
        began_ms = clock.now_ms()
        try:
            changed = await store.change(broker_name, decide, within_s)
        except Deposed:
            raise NotLeader(None) from None
        except RequestRefused:
            group.check_leads()
            raise
        except StoreError as error:
            self._emit(StoreFailed(broker=broker_name, error=str(error)))
            raise NotStoredNow(broker_name, str(error)) from error
        else:
            # Only a commit proves that nobody else led: what was found as wanted, or refused, may have changed since.
            if changed.before == changed.after:
                group.check_leads()
            return changed
        finally:
            ended_ms = clock.now_ms()
            if ended_ms - began_ms > _SLOW_STORE_MS and ended_ms - self._suspended_ms > _SUSPEND_AGAIN_MS:
                self.suspend_failure_detection(ended_ms, ended_ms - began_ms)


def present(broker_set: BrokerSet | None) -> BrokerSet:
    assert broker_set is not None, "the decision was made on a set, or began one"
    return broker_set
