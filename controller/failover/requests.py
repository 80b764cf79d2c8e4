"""Requests of brokers and operators to the leading controller: each is decided, stored and reported.

Answers to `ControllerManager` and `ReplicasInfoManager`. Rules are in `decisions/`; every controller listens to
heartbeats, only the leader changes sets.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from controller.decisions.cluster_view import ClusterView
from controller.decisions.election import ElectionRequest
from controller.decisions.membership import (
    ADOPTED_EPOCH_MAX,
    Applicant,
    Cleaning,
    Registrant,
    WantedSyncStateSet,
    decide_adoption,
    decide_alteration,
    decide_cleaning,
    decide_id,
    decide_registration,
)
from controller.failover.election_log import Cause, Trigger
from controller.failover.election_runner import ElectionOutcome, ElectionRunner
from controller.failover.events import BrokerIdApplied, BrokersCleaned, SyncStateSetAltered, broker_started
from controller.failover.monitor import Monitor
from controller.failover.set_writer import ClusterState, SetWriter, present
from controller.failure_detection.detector import HEARTBEAT_OVERDUE_MS
from controller.failure_detection.heartbeats import BrokerKey, LastHeartbeat, Source
from controller.refusals import BrokerIdInUse, LimitReached, NotFromTheMaster
from controller.sets.broker_set import BrokerSet, Replica
from controller.sets.stored_set import SetDecision, StoredSet
from store.store import COMMIT_S

#: So many sets may begin at once from one host, and then one after each of these times.
BURST: Final = 5_000
REFILL_MS: Final = 1_000
#: Hosts that are remembered, the last ones.
HOSTS_MAX: Final = 10_000


class _Budget(NamedTuple):
    """How many sets a host might begin at a moment."""

    sets: int
    at_ms: int


class NewSets:
    def __init__(self) -> None:
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()

    def take(self, host: str, now_ms: int) -> bool:
        """Return whether another set may begin from a host, and count it."""
        budget = self._budgets.pop(host, None) or _Budget(BURST, now_ms)
        refilled = (now_ms - budget.at_ms) // REFILL_MS
        sets = min(BURST, budget.sets + refilled)
        while len(self._budgets) >= HOSTS_MAX:
            self._budgets.popitem(last=False)
        self._budgets[host] = _Budget(max(sets - 1, 0), budget.at_ms + refilled * REFILL_MS)
        return sets > 0


#: Takes the cluster, the broker, its heartbeat, and what was known of the broker before.
HeartbeatRecorder = Callable[[str, BrokerKey, LastHeartbeat, LastHeartbeat | None], None]

#: A starting broker requests an election and sends its first heartbeat at the same time; how long the request waits for
#: that, and for those of the others of a set that never had a master.
HEARTBEAT_AWAITED_S: Final = 1.0
#: How many brokers that belong to no set may have heartbeats here: anybody can send one.
NON_MEMBERS_MAX: Final = 10_000
#: A broker registers at once when it is answered that its set is not known; its requests have 3 s.
REGISTERS_WITHIN_MS: Final = 3_000
#: So many of these answers are remembered.
_REQUESTED_MAX: Final = 10_000
#: Most sets, with the names of cleaned ones, whose epochs and ids are remembered.
SETS_MAX: Final = 100_000


class BrokerRequests:
    """Handles requests; `monitor` does what needs none."""

    def __init__(
        self,
        state: ClusterState,
        writer: SetWriter,
        elections: ElectionRunner,
        monitor: Monitor,
        record_heartbeat: HeartbeatRecorder | None,
    ) -> None:
        self.store, self.group, self.live, self.detector = state.store, state.group, state.live, state.detector
        self._recovery = state.recovery
        self._clock, self._config, self._emit = state.clock, state.config, state.emit
        self._writer, self._elections = writer, elections
        self._log_ends = monitor.log_ends
        self.elections = elections.log
        self.monitor, self._record_heartbeat = monitor, record_heartbeat
        self._new_sets = NewSets()
        #: By broker name and connection: when a broker was answered to register, the last one last.
        self._registrations_requested: OrderedDict[tuple[str, int], int] = OrderedDict()
        #: Who waits for the first heartbeat of a broker that has started.
        self._awaiting: dict[BrokerKey, set[asyncio.Event]] = {}

    # Requests of brokers

    def heartbeat(  # the path of thousands of requests a second, in one piece
        self, cluster: str, key: BrokerKey, heartbeat: LastHeartbeat
    ) -> None:
        broker_set = self.store.get(key.broker_name)
        if broker_set is not None and cluster and cluster != broker_set.cluster:
            return
        # One that claims to be another broker of a known set is a non-member.
        replica = broker_set.replicas.get(key.broker_id) if broker_set is not None else None
        if broker_set is not None and replica is not None and _has_id_conflict(broker_set, replica, heartbeat):
            key, replica = BrokerKey(key.broker_name, -1 - key.broker_id), None
        before = self.live.get(key)
        if broker_set is None or replica is None:
            if before is None and self.live.brokers >= self.store.members + NON_MEMBERS_MAX:
                return
            self.monitor.check_process_pause(heartbeat.last_contact_ms)
            self.detector.heartbeat(key, heartbeat)
        else:
            address = replica.address
            # Thousands come each second, nearly all over the connection of the one before, from where it was reached.
            is_own = before is not None and before.connection_id == heartbeat.connection_id and before.owner is None
            if not is_own and self.monitor.is_somebody_else(
                key, address, Source(heartbeat.connection_id, heartbeat.peer)
            ):
                return
            broker_host = self.monitor.found_host(key, address)
            if before is None or broker_host is None:
                self.monitor.check_reachability(key, address)
                broker_host = self.monitor.senders.broker_host(key, address, heartbeat.peer)
            self.monitor.check_process_pause(heartbeat.last_contact_ms)
            if self._record_heartbeat is not None:
                self._record_heartbeat(broker_set.cluster, key, heartbeat, self.live.get(key))
            self.detector.heartbeat(key, heartbeat, address, broker_host)
        if self._awaiting:
            for waiting in self._awaiting.get(key, ()):
                waiting.set()

    async def apply_id(self, applicant: Applicant) -> BrokerSet:
        self._check_limits(applicant.broker_name, applicant.host)
        changed = await self._writer.change(applicant.broker_name, lambda entry: decide_id(entry, applicant))
        if changed.before != changed.after:
            self._emit(
                BrokerIdApplied(
                    cluster=applicant.cluster,
                    broker=applicant.broker_name,
                    broker_id=applicant.broker_id,
                    addr=applicant.address,
                    set_added=changed.before is None,
                )
            )
        return present(changed.after)

    async def register(self, registrant: Registrant, source: Source) -> BrokerSet:
        key = BrokerKey(registrant.broker_name, registrant.broker_id)
        # A refused request is no sign of life of the broker.
        self._writer.check_cluster(registrant.broker_name, registrant.cluster)
        self._check_is_alone(key, registrant.address, source)
        if self._is_same_process(key, source.connection_id):
            registrant = replace(registrant, is_same_process=True)
            self._record_contact(key, source)
        else:
            if self.store.address_of(key) is not None:
                self._log_ends.restarts(key)
            self._record_restart(key, source)
        adopts = self._config().adopt_unknown_brokers
        if adopts:
            self._check_limits(registrant.broker_name, registrant.host)

        def decide(entry: StoredSet) -> SetDecision[None]:
            if adopts:
                decided = decide_adoption(entry, registrant, self._epoch_seen(entry, registrant))
            else:
                decided = decide_registration(entry, registrant)
            return self._log_ends.added_to(decided, entry)

        changed = await self._writer.change(registrant.broker_name, decide)
        self._log_ends.stored(key)
        after = present(changed.after)
        if changed.before is None or key.broker_id not in changed.before.replicas:
            self._record_restart(key, source)
        self._remove_former_ids(after, registrant.address)
        self.monitor.senders.record_request(key, source)
        self._recovery.waits(after, self._clock.now_ms())
        for event in broker_started(registrant, changed):
            self._emit(event)
        return after

    def _remove_former_ids(self, broker_set: BrokerSet, address: str) -> None:
        """Forget the former ids of a broker that has registered: it must not wait for itself.

        That is an id that it had before its disk was wiped, or one that another broker had reserved.
        """
        for broker_id, heartbeat in list(self.live.of_set(broker_set.broker_name).items()):
            if heartbeat.address == address and broker_id not in broker_set.replicas:
                self.monitor.remove(BrokerKey(broker_set.broker_name, broker_id))

    def _check_is_alone(self, key: BrokerKey, address: str, source: Source) -> None:
        """Raise BrokerIdInUse if requests of a broker with this id come from its host, and this one from elsewhere.

        So too if heartbeats with the stored address come over another connection, and this names another address: both
        would take themselves for the master that the id names. The process that ran before it has closed its
        connection, which makes it suspect, or is silent.
        """
        now_ms, stored = self._clock.now_ms(), self.store.address_of(key)
        if stored is not None and self.monitor.senders.is_request_from_elsewhere(key, stored, source, now_ms):
            raise BrokerIdInUse(key.broker_name, key.broker_id, stored)
        if stored in (None, address):
            return
        heartbeat = self.detector.electable(key.broker_name, now_ms).get(key.broker_id)
        if heartbeat is None or heartbeat.address != stored:
            return
        is_in_contact = now_ms - heartbeat.last_contact_ms <= max(HEARTBEAT_OVERDUE_MS, heartbeat.period_ms * 3 // 2)
        if (
            is_in_contact
            and heartbeat.connection_id != source.connection_id
            and not heartbeat.is_starting
            and heartbeat.period_ms
        ):
            raise BrokerIdInUse(key.broker_name, key.broker_id, heartbeat.address)

    def registration_requested(self, broker_name: str, connection_id: int) -> None:
        """Report that a broker of a known set is answered that it is not known."""
        requested = self._registrations_requested
        requested.pop((broker_name, connection_id), None)
        while len(requested) >= _REQUESTED_MAX:
            requested.popitem(last=False)
        requested[broker_name, connection_id] = self._clock.now_ms()

    def _is_same_process(self, key: BrokerKey, connection_id: int) -> bool:
        """Return whether a broker registers because an answer requested it, and has not started anew.

        It does so once, at once, and over the connection of its heartbeats. The connection alone does not prove it:
        brokers of one container share theirs.
        """
        requested_ms, heartbeat = (
            self._registrations_requested.pop((key.broker_name, connection_id), None),
            self.live.get(key),
        )
        if requested_ms is None or heartbeat is None or self._clock.now_ms() - requested_ms > REGISTERS_WITHIN_MS:
            return False
        is_over_this = heartbeat.connection_id == connection_id and heartbeat.owner is None
        return is_over_this and heartbeat.period_ms > 0 and not (heartbeat.awaits_heartbeat or heartbeat.is_starting)

    async def elect_for_broker(self, cluster: str, key: BrokerKey, source: Source) -> ElectionOutcome:
        """Hold an election because a broker requests one; it is a candidate itself."""
        self._writer.check_cluster(key.broker_name, cluster)
        self._record_contact(key, source)
        began_ms = self._clock.now_ms()
        await self._first_heartbeats(self._awaited(key))
        waited_s = (self._clock.now_ms() - began_ms) / 1000
        cause = Cause(trigger=Trigger.BROKER, why=f"broker {key.broker_id} found no master", broker_id=key.broker_id)
        return await self._elections.elect(
            key.broker_name, ElectionRequest(broker_id=key.broker_id), cause, COMMIT_S - waited_s
        )

    async def alter_sync_state_set(self, wanted: WantedSyncStateSet, source: Source) -> BrokerSet:
        """Store who is in sync, as the master reports it; raises NotFromTheMaster if somebody else does."""
        name, key = wanted.broker_name, BrokerKey(wanted.broker_name, wanted.master)
        if (address := self.store.address_of(key)) is not None:
            senders = self.monitor.senders
            is_from_elsewhere = senders.is_request_from_elsewhere(key, address, source, self._clock.now_ms())
            if is_from_elsewhere or senders.is_failed_from_elsewhere(key, address, source):
                raise NotFromTheMaster(name, wanted.master)
            senders.record_request(key, source)
        if (broker_set := self.store.get(name)) is not None and self.group.is_leader:
            self._recovery.reported(broker_set, wanted, source, self._clock.now_ms())
        self._record_contact(key, source)

        def decide(entry: StoredSet) -> SetDecision[None]:
            decided = decide_alteration(entry, wanted, self.live.alive(name, self._clock.now_ms()))
            return self._log_ends.added_to(decided, entry)

        changed = await self._writer.change(name, decide)
        after = present(changed.after)
        self._emit(SyncStateSetAltered(master=wanted.master, before=present(changed.before), after=after))
        return after

    # Requests of operators

    async def designate(self, cluster: str, broker_name: str, broker_id: int | None, operator: str) -> ElectionOutcome:
        """Make a broker master because an operator wants it; None: whoever is best, if nobody leads."""
        self._writer.check_cluster(broker_name, cluster)
        call = ElectionRequest(broker_id=broker_id, is_designated=broker_id is not None)
        wanted = f"wants broker {broker_id} as master" if broker_id is not None else "wants a master"
        cause = Cause(trigger=Trigger.OPERATOR, why=f"an operator at {operator} {wanted}", broker_id=broker_id)
        return await self._elections.elect(broker_name, call, cause)

    async def switch_over(self, broker_name: str, broker_id: int) -> ElectionOutcome:
        """Make a broker in sync master, in a planned switchover; raises as `ElectionRunner.elect`."""
        cause = Cause(trigger=Trigger.SWITCHOVER, why=f"a switchover to broker {broker_id}", broker_id=broker_id)
        return await self._elections.elect(broker_name, ElectionRequest(broker_id=broker_id, is_designated=True), cause)

    async def switch_back(self, broker_name: str, broker_id: int) -> ElectionOutcome:
        """Make the former master lead again, whose elected successor never served: it has all that was confirmed.

        The SyncStateSet is the successor alone by then. Raises as `ElectionRunner.elect`.
        """
        why = f"back to broker {broker_id}: its successor does not serve"
        cause = Cause(trigger=Trigger.SWITCHOVER, why=why, broker_id=broker_id)
        request = ElectionRequest(broker_id=broker_id, is_designated=True, holds_all=True)
        return await self._elections.elect(broker_name, request, cause)

    async def clean(self, wanted: Cleaning) -> None:
        name = wanted.broker_name

        def decide(entry: StoredSet) -> SetDecision[None]:
            alive = self.live.alive(name, self._clock.now_ms())
            members = entry.broker_set.replicas if entry.broker_set is not None else {}
            awaited = [i for i in members if i not in alive and self.may_live(BrokerKey(name, i))]
            return decide_cleaning(entry, wanted, alive, awaited)

        changed = await self._writer.change(name, decide)
        before = present(changed.before)
        if changed.after is not None:
            self._elections.brokers_cleaned(before, changed.after)
        for broker_id in before.replicas.keys() - (changed.after.replicas if changed.after else {}).keys():
            self.monitor.remove(BrokerKey(name, broker_id))
        if changed.after is None:
            self._recovery.remove(name)
            self._elections.remove(name)
            self._log_ends.remove(before)
            self.monitor.remove_set(name)
        self._emit(BrokersCleaned(before=before, after=changed.after))

    # What is known of sets and brokers

    def is_behind(self, broker_set: BrokerSet) -> bool:
        return broker_set.is_rebuilding or self._recovery.is_behind(broker_set)

    def deposed(self) -> None:
        self._recovery.clear()
        self._elections.deposed()
        self._log_ends.clear()
        self.monitor.clear_sets()

    def is_of_member(self, connection_id: int) -> bool:
        """Return whether a member of a stored set sent its last request over a connection, or owns it."""
        return any(self.store.address_of(key) is not None for key in self.live.connected_over(connection_id))

    def awaits_non_members(self, broker_set: BrokerSet) -> bool:
        """Return whether brokers that are no members yet, and have messages, are to join before anybody leads."""
        if broker_set.is_elected or not self._config().adopt_unknown_brokers:
            return False
        heartbeat = self.live.of_set(broker_set.broker_name)
        # At an id conflict an operator has to choose.
        adoptable = {broker_id: each for broker_id, each in heartbeat.items() if broker_id >= 0}
        return ClusterView(heartbeats=adoptable).has_non_member_logs(broker_set)

    def may_live(self, key: BrokerKey) -> bool:
        """Return whether a broker is alive, as far as known; one that made no contact since the start may be."""
        now_ms = self._clock.now_ms()
        alive = self.live.alive(key.broker_name, now_ms)
        return key.broker_id in alive or not self.detector.is_lost(key, now_ms)

    def _epoch_seen(self, entry: StoredSet, registrant: Registrant) -> int:
        """Return the highest epoch in the logs of a broker and of adopted members, unless it cannot be adopted."""
        heartbeat = self.live.of_set(registrant.broker_name)
        members = entry.broker_set.replicas if entry.broker_set is not None else {}
        others = [each.epoch for i, each in heartbeat.items() if i in members and each.epoch <= ADOPTED_EPOCH_MAX]
        own = heartbeat.get(registrant.broker_id)
        return max(0, *others, own.epoch if own is not None else 0)

    def _check_limits(self, broker_name: str, host: str) -> None:
        self.group.check_leads()
        if self.store.entry(broker_name) != StoredSet():
            return
        if len(self.store) >= SETS_MAX:
            raise LimitReached(f"there are {len(self.store)} sets, {SETS_MAX} are allowed; {broker_name} cannot begin")
        if not self._new_sets.take(host, self._clock.now_ms()):
            raise LimitReached(
                f"{host} has begun {BURST} sets; {broker_name} cannot begin before {REFILL_MS / 1000:g} s have passed"
            )

    def polled(self, broker_set: BrokerSet, source: Source) -> None:
        for broker_id, replica in broker_set.replicas.items():
            self.monitor.senders.record_request_from_host(
                BrokerKey(broker_set.broker_name, broker_id), replica.address, source
            )

    def _record_contact(self, key: BrokerKey, source: Source) -> None:
        address = self.store.address_of(key)
        if address is not None and not self.monitor.is_somebody_else(key, address, source):
            now_ms = self._clock.now_ms()
            # One that was counted as failed may send another request before its heartbeat.
            self.monitor.check_reachability(key, address)
            self.monitor.check_process_pause(now_ms)
            self.detector.contact(
                key, now_ms, source.connection_id, address, self.monitor.senders.broker_host(key, address)
            )

    def _record_restart(self, key: BrokerKey, source: Source) -> None:
        if (address := self.store.address_of(key)) is not None:
            now_ms = self._clock.now_ms()
            self.monitor.check_process_pause(now_ms)
            self.detector.restart(
                key, now_ms, source.connection_id, address, self.monitor.senders.broker_host(key, address)
            )

    def _awaited(self, key: BrokerKey) -> list[BrokerKey]:
        """Return the brokers without a reported log end on which an election that `key` requests depends."""
        broker_set = self.store.get(key.broker_name)
        keys = {key}
        if broker_set is not None and not broker_set.is_elected:
            # The first master must not be an empty one, and the others register in the same moments.
            keys |= {BrokerKey(key.broker_name, broker_id) for broker_id in broker_set.replicas}
        return [each for each in keys if (heartbeat := self.live.get(each)) is not None and heartbeat.awaits_heartbeat]

    async def _first_heartbeats(self, keys: list[BrokerKey]) -> None:
        """Wait, but not for long, for the first heartbeats of brokers that have started."""
        # Two requests of one broker wait side by side.
        waiting = {key: asyncio.Event() for key in keys}
        for key, event in waiting.items():
            self._awaiting.setdefault(key, set()).add(event)
        try:
            async with asyncio.timeout(HEARTBEAT_AWAITED_S):
                for event in waiting.values():
                    await event.wait()
        except TimeoutError:
            return
        finally:
            for key, event in waiting.items():
                self._awaiting[key].discard(event)
                if not self._awaiting[key]:
                    del self._awaiting[key]


def _has_id_conflict(broker_set: BrokerSet, replica: Replica, heartbeat: LastHeartbeat) -> bool:
    """Return whether a new broker has taken the id of the sender, which is older than the store.

    Its heartbeats count as those of a non-member, under an id that nobody has, so that the new one is not elected.
    """
    return heartbeat.address != replica.address and heartbeat.epoch > 0 and not broker_set.is_elected
