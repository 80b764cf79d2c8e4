"""How a set is changed: decided, stored and reported, by a controller that leads."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from controller.config import ControllerConfig
from controller.decisions.membership import Applicant, Cleaning, Registrant, check_cluster
from controller.decisions.recovery import Recovery
from controller.decisions.sync_state import WantedSyncStateSet
from controller.failover.effects import Effect
from controller.failover.election_log import ElectionRecord
from controller.failover.fences import Fences
from controller.failover.group import Group
from controller.failure_detection.detector import FailureDetector
from controller.failure_detection.heartbeats import BrokerKey, HeartbeatTable, LastHeartbeat
from controller.failure_detection.suspicion import BrokerFailure, HostsChange
from controller.refusals import NotLeader, NotStoredNow
from controller.sets.broker_set import BrokerSet
from controller.sets.stored_set import Reply, SetDecision, StoredSet
from remoting.clock import Clock
from remoting.protocol.errors import RequestRefused
from store.store import COMMIT_S, Changed, Deposed, SetStore, StoreError

#: After that long for one change, brokers may only seem silent.
_SLOW_STORE_MS: Final = 1_000
#: A store that stays slow must not keep failed brokers from being judged for ever.
_SUSPEND_AGAIN_MS: Final = 10_000


class FailoverObserver(Protocol):
    """Learns what happened to sets and brokers, to log and count it."""

    def id_applied(self, applicant: Applicant, changed: Changed[None]) -> None:
        """Report that a broker has an id."""

    def broker_started(self, registrant: Registrant, changed: Changed[None]) -> None:
        """Report that a broker started, and what that changed."""

    def sync_state_set_altered(self, wanted: WantedSyncStateSet, changed: Changed[None]) -> None:
        """Report that a master reported another SyncStateSet."""

    def set_expired(self, broker_set: BrokerSet) -> None:
        """Report that a set was forgotten that never had a master."""

    def cleaned(self, wanted: Cleaning, changed: Changed[None]) -> None:
        """Report that an operator removed brokers, or a set."""

    def election_held(self, record: ElectionRecord, *, is_new: bool, seconds: float) -> None:
        """Report how an election ended; not `is_new` if it only ended as the one before."""

    def master_epoch_disputed(self, broker_set: BrokerSet, claims: Mapping[int, int]) -> None:
        """Report that brokers claim higher master epochs than the stored one, by broker id, and are not followed."""

    def role_notification_resent(self, broker_set: BrokerSet) -> None:
        """Report that a set is notified once more who leads it."""

    def broker_failed(self, failure: BrokerFailure, broker_set: BrokerSet | None) -> None:
        """Report that a broker has failed; None: of no set that is known here."""

    def broker_suspected(self, key: BrokerKey, broker_set: BrokerSet | None) -> None:
        """Report that the connection of a broker closed."""

    def store_failed(self, broker_name: str, error: StoreError) -> None:
        """Report that a change could not be stored."""

    def failure_detection_suspended(self, held_ms: int) -> None:
        """Report that this process was paused, or its store did not answer."""

    def hosts_changed(self, news: HostsChange) -> None:
        """Report that most hosts of brokers are silent, or no longer."""

    def brokers_unreachable(self, key: BrokerKey, broker_set: BrokerSet | None, brokers: int) -> None:
        """Report that so many brokers send heartbeats and cannot be reached, this one among them."""


class ClusterState(NamedTuple):
    """What this controller knows: what is stored, what its brokers have sent, and who leads."""

    store: SetStore
    group: Group
    live: HeartbeatTable
    detector: FailureDetector
    recovery: Recovery
    fences: Fences

    def last_reports(self, broker_set: BrokerSet) -> dict[int, LastHeartbeat]:
        """Return what the brokers of a set reported last, failed ones too, by broker id."""
        found: dict[int, LastHeartbeat] = {}
        for broker_id in broker_set.replicas:
            key = BrokerKey(broker_set.broker_name, broker_id)
            heartbeat = self.live.get(key) or self.detector.last_of_failed(key)
            if heartbeat is not None:
                found[broker_id] = heartbeat
        return found


class FailoverRuntime(NamedTuple):
    """What this controller acts with."""

    clock: Clock
    #: The configuration in force.
    config: Callable[[], ControllerConfig]
    #: Carries out what follows from a decision.
    perform: Callable[[Effect], None]
    observer: FailoverObserver
    #: Starts what nobody waits for.
    start: Callable[..., object]


class SetWriter:
    """Changes stored sets, and suspends failure detection while the store is slow."""

    def __init__(self, state: ClusterState, runtime: FailoverRuntime) -> None:
        self._store, self._group, self._detector = state.store, state.group, state.detector
        self._clock, self._observer = runtime.clock, runtime.observer
        self._suspended_ms = self._clock.now_ms() - _SUSPEND_AGAIN_MS

    def suspend_failure_detection(self, now_ms: int, held_ms: int) -> None:
        """Judge nobody for a round of heartbeats, because something was held up for so long."""
        self._suspended_ms = now_ms
        self._detector.suspend(now_ms)
        self._observer.failure_detection_suspended(held_ms)

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
            self._observer.store_failed(broker_name, error)
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
    """Return a set that must be there."""
    assert broker_set is not None, "the decision was made on a set, or began one"
    return broker_set
