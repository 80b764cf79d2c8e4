"""What a controller does without a request: it probes suspect brokers, and elects masters for sets that lost theirs.

Answers to `BrokerHeartbeatManager`'s scan and to the scan for inactive masters. Who has failed is decided in
`detector.py`; every controller looks at brokers, only the leader at sets.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec.structs import replace

from controller.decisions.known_log_ends import known_log_ends
from controller.decisions.membership import decide_expiry, never_led
from controller.failover import events
from controller.failover.election_log import Cause, Trigger
from controller.failover.election_runner import ElectionRunner
from controller.failover.election_starter import ElectionStarter
from controller.failover.events import CheckReachability, ProbeBroker
from controller.failover.set_writer import ClusterState, SetWriter
from controller.failure_detection.heartbeats import UNKNOWN, BrokerKey, LastHeartbeat, Source
from controller.failure_detection.senders import Reachability, Senders
from controller.failure_detection.suspicion import PROOFS, BrokerFailure, HostsChangeKind, Probe, ProbeOutcome
from controller.sets.broker_set import BrokerSet, SyncStateSetAltered
from controller.sets.stored_set import Reply, SetDecision, StoredSet
from remoting.protocol.errors import RequestRefused

#: How often the log ends of a set are stored while they move. Changes of masters and SyncStateSets store them too.
STORED_AGAIN_MS: Final = 30_000
#: How far apart such writes are on average, however many sets there are: with more than 300, turns come later.
WRITE_APART_MS: Final = 100
#: Most of them that are under way.
_WRITES_MAX: Final = 10


class LogEndKeeper:
    """Knows what is to be stored of log ends, and stores it now and then."""

    def __init__(self, state: ClusterState, writer: SetWriter) -> None:
        self._state, self._writer = state, writer
        self._clock, self._start = state.clock, state.start
        #: What the process before reported of brokers that have started again, until it is stored.
        self._former: dict[BrokerKey, LastHeartbeat] = {}
        #: When the log ends of a set were looked at last.
        self._looked_ms: dict[str, int] = {}
        #: Sets whose log ends are to be stored, the first to come first.
        self._due: dict[str, None] = {}
        self._written_ms = 0
        self._writes = 0

    def restarts(self, key: BrokerKey) -> None:
        """Keep what a member has reported: another process begins, and its log may be another one."""
        reported = self._state.live.get(key) or self._state.detector.last_of_failed(key)
        if reported is not None and reported.max_offset != UNKNOWN:
            self._former[key] = reported

    def added_to(self, decision: SetDecision[Reply], entry: StoredSet) -> SetDecision[Reply]:
        """Return a decision on a set that also stores what is known of its log ends."""
        if entry.broker_set is None:
            return decision
        members = [each.members for each in decision.events if isinstance(each, SyncStateSetAltered)]
        joined = frozenset().union(*members) - entry.broker_set.sync_state_set
        known = known_log_ends(entry.broker_set, self._last_reports(entry.broker_set), joined)
        return replace(decision, events=(*known, *decision.events))

    def stored(self, key: BrokerKey) -> None:
        """Drop what the former process of a broker reported: it is stored."""
        self._former.pop(key, None)

    def failed(self, broker_name: str) -> None:
        """Store the log ends of a set with its next look: a broker has failed, and may come back without its log."""
        self._looked_ms[broker_name] = self._clock.now_ms() - STORED_AGAIN_MS

    def look_at(self, broker_set: BrokerSet) -> None:
        """Let the log ends of a set be stored if they have moved and its time has come; to be called by the leader."""
        name, now_ms = broker_set.broker_name, self._clock.now_ms()
        if now_ms < self._looked_ms.setdefault(name, now_ms) + STORED_AGAIN_MS or name in self._due:
            return
        self._looked_ms[name] = now_ms
        if known_log_ends(broker_set, self._last_reports(broker_set)):
            self._due[name] = None

    def store_due(self) -> None:
        """Store the log ends of sets whose turn it is in the background; to be called some times a second."""
        now_ms = self._clock.now_ms()
        self._written_ms = max(self._written_ms, now_ms - WRITE_APART_MS * _WRITES_MAX)
        while self._due and self._writes < _WRITES_MAX and now_ms - self._written_ms >= WRITE_APART_MS:
            self._written_ms += WRITE_APART_MS
            self._writes += 1
            name = next(iter(self._due))
            del self._due[name]
            self._start(self._store(name))

    async def _store(self, broker_name: str) -> None:
        try:
            nothing: SetDecision[None] = SetDecision(reply=None)
            await self._writer.change(broker_name, lambda entry: self.added_to(nothing, entry))
        except RequestRefused:
            return  # It is reported, and due again.
        finally:
            self._writes -= 1

    def _last_reports(self, broker_set: BrokerSet) -> dict[int, LastHeartbeat]:
        found = self._state.last_reports(broker_set)
        for broker_id in found:
            former = self._former.get(BrokerKey(broker_set.broker_name, broker_id))
            if former is not None:
                found[broker_id] = former
        return found

    def remove(self, broker_set: BrokerSet) -> None:
        self._looked_ms.pop(broker_set.broker_name, None)
        self._due.pop(broker_set.broker_name, None)
        for broker_id in broker_set.replicas:
            self.stored(BrokerKey(broker_set.broker_name, broker_id))

    def clear(self) -> None:
        self._former.clear()
        self._looked_ms.clear()
        self._due.clear()


#: How often brokers are looked at, and for how long a process pause may hold that up.
LOOK_MS: Final = 50
_PAUSE_MS: Final = 700
#: More pauses within this time do not suspend failure detection: else no broker would ever fail.
_PAUSES_MAX: Final = 5
_PAUSES_WITHIN_MS: Final = 30_000
#: How many brokers are probed for their reachability between two looks.
REACHABILITY_CHECKS_MAX: Final = 10
#: How often it is reported that brokers cannot be reached.
_UNREACHED_REPORTED_MS: Final = 60_000
#: Looks at sets that are well go round: so many at a time, or this part of them if that is more.
SETS_AT_ONCE: Final = 100
_SHARES: Final = 12
#: However many sets there are, no look goes over more than twice as many: these, and these that were not well.
_SETS_AT_ONCE_MAX: Final = 1_000
#: Beyond so many sets, one that never had a master is forgotten after so long without a living broker; so many at a
#: time. Its broker has an id, and applies for none again: below the limit it may come as late as it wants to.
SETS_NEVER_EXPIRED: Final = 10_000
EXPIRES_MS: Final = 21_600_000
_EXPIRIES_AT_ONCE: Final = 20


class Monitor:
    def __init__(
        self,
        state: ClusterState,
        writer: SetWriter,
        elections: ElectionRunner,
        reachability: Reachability,
    ) -> None:
        self._store, self._group, self._live = state.store, state.group, state.live
        self._detector, self._recovery = state.detector, state.recovery
        self._clock, self._config, self._emit = state.clock, state.config, state.emit
        #: How many hosts are silent while masters are left alone because of that.
        self.silent_hosts = 0
        self._perform, self._start = state.perform, state.start
        self._writer, self._elections, self._reach = writer, elections, reachability
        self.log_ends = LogEndKeeper(state, writer)
        #: Where a member is that was reached, None if that is not known for certain.
        self.found_host = reachability.found_host
        self.senders = Senders(self._live, self._detector, reachability)
        self._starter = ElectionStarter(state, elections, self._look_at_set)
        #: Sets that needed something when they were looked at last, and the sets that are still to be looked at.
        self._unwell: OrderedDict[str, None] = OrderedDict()
        #: Sets that never had a master: since when none of their brokers is in contact.
        self._idle_since_ms: dict[str, int] = {}
        self._expiring: set[str] = set()
        self._round: Iterator[str] = iter(())
        #: Of each set the brokers that claim a higher master epoch than the stored one, and prove nothing by it.
        self._disputed: dict[str, frozenset[int]] = {}
        #: None before the first look.
        self._looked_ms: int | None = None
        #: When the last pauses of this process ended.
        self._pauses_ms: deque[int] = deque(maxlen=_PAUSES_MAX)
        self._reachability_checks = 0
        self._unreached_reported_ms = state.clock.now_ms() - _UNREACHED_REPORTED_MS

    @property
    def disputed_sets(self) -> int:
        return len(self._disputed)

    def clear_sets(self) -> None:
        self._disputed.clear()
        self._starter.clear()
        self._idle_since_ms.clear()

    def remove_set(self, broker_name: str) -> None:
        self._disputed.pop(broker_name, None)
        self._starter.remove(broker_name)

    def check_process_pause(self, now_ms: int) -> None:
        """Suspend failure detection if this process was paused; to be called before any request is taken."""
        if self._looked_ms is None:
            return
        held_ms = now_ms - self._looked_ms - LOOK_MS
        if held_ms <= _PAUSE_MS:
            return
        self._looked_ms = now_ms
        self._detector.after_pause(now_ms)
        pauses = self._pauses_ms
        if len(pauses) < _PAUSES_MAX or now_ms - pauses[0] > _PAUSES_WITHIN_MS:
            pauses.append(now_ms)
            self._writer.suspend_failure_detection(now_ms, held_ms)

    def connection_lost(self, connection_id: int) -> None:
        now_ms = self._clock.now_ms()
        self.check_process_pause(now_ms)
        self.senders.connection_lost(connection_id)
        suspects = self._detector.connection_lost(connection_id, now_ms)
        for key in suspects:
            # Non-members can be thousands over one connection, and a line for each holds everybody up.
            if self._store.address_of(key) is not None:
                self._emit(events.BrokerSuspected(key=key, broker_set=self._store.get(key.broker_name)))
        # Thousands of connections can close at once: each time only these are looked at.
        self._probe(self._detector.probes_for(suspects, now_ms))

    def take_over(self) -> None:
        """Begin to lead: silent masters are probed, and not only waited for."""
        now_ms = self._clock.now_ms()
        for broker_set in self._store.sets():
            for broker_id in broker_set.sync_state_set:
                key = BrokerKey(broker_set.broker_name, broker_id)
                self._detector.expect_host(key, broker_set.replicas[broker_id].address, now_ms)
            if broker_set.master is not None:
                key = BrokerKey(broker_set.broker_name, broker_set.master)
                self._detector.expect(key, now_ms)

    def look_at_brokers(self) -> None:
        """Probe suspects, and act on failed brokers; to be called each LOOK_MS."""
        now_ms = self._clock.now_ms()
        self.check_process_pause(now_ms)
        self._looked_ms = now_ms
        self._reachability_checks = 0
        probes, failures = self._detector.look(now_ms, self._config().suspect_timeout_ms)
        for news in self._detector.take_changes():
            self.silent_hosts = news.silence.silent if news.event is HostsChangeKind.SILENT else 0
            self._emit(events.hosts_changed(news))
        self._probe(probes)
        self._handle_failed(failures)
        self._starter.look_at_fences(now_ms)

    def probed(self, key: BrokerKey, outcome: ProbeOutcome, peer: str = "") -> None:
        """Take the result of a probe; `peer` is the other end of that connection, if that is known."""
        now_ms = self._clock.now_ms()
        self.check_process_pause(now_ms)
        address = self._store.address_of(key)
        if address is not None:
            if outcome is ProbeOutcome.ANSWERED:
                self._reach.reached(key, address, peer)
            elif outcome in PROOFS and not self._is_proof(key, address, now_ms):
                outcome = ProbeOutcome.NO_ANSWER
            if outcome is ProbeOutcome.NO_ANSWER:
                self._reach.no_response(key)
        self._handle_failed(self._detector.probed(key, outcome, now_ms))

    def is_somebody_else(self, key: BrokerKey, address: str, source: Source) -> bool:
        """Return whether what comes from there is no sign of life of a member; probe a failed one."""
        now_ms = self._clock.now_ms()
        if self._live.get(key) is not None:
            return self.senders.is_from_elsewhere(key, address, source, now_ms)
        if not self.senders.is_failed_from_elsewhere(key, address, source) or self._detector.take_claim(
            key, source, now_ms
        ):
            return False
        self._probe(self._detector.probe_failed(key, now_ms))
        return True

    def check_reachability(self, key: BrokerKey, address: str) -> None:
        """Probe whether a member that sends heartbeats is reachable; to be called before its heartbeat is taken."""
        failed_broker = self._detector.failed_broker(key)
        if failed_broker is not None and failed_broker.outcome is ProbeOutcome.REFUSED:
            # It lives, and has not started anew: something else has refused.
            self._reach.remove(key)
        if (
            failed_broker is not None
            and self._group.is_leader
            and (broker_set := self._store.get(key.broker_name)) is not None
        ):
            self._elections.notify_returned(broker_set, key.broker_id)
        if self._reach.found_host(key, address) is not None:
            return
        # A broker that took a notification at its host's name is probed all the same: only so its address is known.
        now_ms = self._clock.now_ms()
        if self._reachability_checks >= REACHABILITY_CHECKS_MAX:
            self._reach.record_contact(key, now_ms)
        elif self._reach.begin(key, address, now_ms):
            self._reachability_checks += 1
            self._perform(CheckReachability(key=key, address=address))
            self._report_unreached(now_ms)

    def remove(self, key: BrokerKey) -> None:
        self._detector.remove(key)
        self._reach.remove(key)
        self.senders.remove(key)
        self.log_ends.stored(key)

    def look_at_sets(self) -> None:
        """Find masters where none could be found when they were lost; to be called some times a second."""
        if not self._group.is_leader:
            return
        now_ms = self._clock.now_ms()
        self._starter.drop_ended_pauses(now_ms)
        for name in self._next_names():
            self._unwell.pop(name, None)
            if (broker_set := self._store.get(name)) is not None:
                self._look_at_set(broker_set, now_ms)
        self.log_ends.store_due()

    def _next_names(self) -> set[str]:
        """Return the sets whose turn it is: of thousands those that were not well, and a share of the others."""
        share = min(max(SETS_AT_ONCE, len(self._store) // _SHARES + 1), _SETS_AT_ONCE_MAX)
        names = set(islice(self._round, share))
        if len(names) < share:
            self._round = iter(self._store.names())
            names.update(islice(self._round, share - len(names)))
        # A set that was not well and is not so again goes to the end: thousands take turns.
        return names.union(islice(self._unwell, _SETS_AT_ONCE_MAX))

    def _look_at_set(self, broker_set: BrokerSet, now_ms: int) -> None:
        self._elections.resend_unconfirmed_role(broker_set)
        self._elections.confirmations.query_if_due(broker_set)
        self.log_ends.look_at(broker_set)
        if self._is_well(broker_set):
            self._recovery.is_well(broker_set.broker_name)
            self._disputed.pop(broker_set.broker_name, None)
            self._starter.end_wait(broker_set.broker_name)
            return
        if self._is_idle(broker_set, now_ms):
            return
        self._report_disputed(broker_set, now_ms)
        self._unwell[broker_set.broker_name] = None
        if not self._starter.is_paused(broker_set.broker_name) and not self._elections.is_running(
            broker_set.broker_name
        ):
            cause = self._need(broker_set, now_ms)
            if cause is not None:
                self._begin_election(broker_set, cause)
            else:
                self._starter.end_wait(broker_set.broker_name)

    def _report_disputed(self, broker_set: BrokerSet, now_ms: int) -> None:
        """Report once which brokers claim to know more than the store, where that proves nothing."""
        name, claims = broker_set.broker_name, self._recovery.disputed(broker_set, now_ms)
        if not claims:
            self._disputed.pop(name, None)
        elif self._disputed.get(name) != (brokers := frozenset(claims)):
            self._disputed[name] = brokers
            self._emit(events.MasterEpochDisputed(broker_set=broker_set, claims=claims))

    def _is_well(self, broker_set: BrokerSet) -> bool:
        heartbeats = self._live.of_set(broker_set.broker_name)
        if broker_set.master not in heartbeats or broker_set.is_rebuilding:
            return False
        if self._recovery.reported_epochs(broker_set.broker_name):
            return False
        return all(each.epoch <= broker_set.master_epoch for each in heartbeats.values())

    def _is_idle(self, broker_set: BrokerSet, now_ms: int) -> bool:
        """Return whether a set waits for its first broker; of very many those that wait for long are forgotten."""
        name = broker_set.broker_name
        if self._live.of_set(name) or not never_led(self._store.entry(name)):
            self._idle_since_ms.pop(name, None)
            return False
        since_ms = self._idle_since_ms.setdefault(name, now_ms)
        if now_ms - since_ms > EXPIRES_MS and self._is_over_limit() and name not in self._expiring:
            self._expiring.add(name)
            self._start(self._expire(name))
        return True

    def _is_over_limit(self) -> bool:
        going = len(self._expiring)
        return going < _EXPIRIES_AT_ONCE and len(self._store) - going > SETS_NEVER_EXPIRED

    async def _expire(self, name: str) -> None:
        try:
            changed = await self._writer.change(name, lambda entry: decide_expiry(entry, self._live.of_set(name)))
        except RequestRefused:
            return
        finally:
            self._expiring.discard(name)
            self._idle_since_ms.pop(name, None)
        if changed.before is not None and changed.after is None:
            for broker_id in changed.before.replicas:
                self.remove(BrokerKey(name, broker_id))
            self._recovery.remove(name)
            self._elections.remove(name)
            self.log_ends.remove(changed.before)
            self._emit(events.BrokerSetExpired(broker_set=changed.before))

    def _is_proof(self, key: BrokerKey, address: str, now_ms: int) -> bool:
        """Return whether a refusal comes from the broker's host: not from a firewall, or a host of another network.

        Of one that made no contact since the start it counts once brokers had the time to find this controller.
        """
        if self._reach.has_reached(key, address):
            return True
        is_overdue = self._detector.is_without_contact(key) and self._detector.have_arrived(key.broker_name, now_ms)
        return is_overdue and self._reach.has_reached_any

    def _report_unreached(self, now_ms: int) -> None:
        if now_ms - self._unreached_reported_ms < _UNREACHED_REPORTED_MS:
            return
        if unreached := self._reach.unreached:
            self._unreached_reported_ms = now_ms
            first = unreached[0]
            broker_set = self._store.get(first.broker_name)
            self._emit(events.BrokersUnreachable(key=first, broker_set=broker_set, brokers=len(unreached)))

    def _probe(self, probes: Iterable[Probe]) -> None:
        for probe in probes:
            address = self._store.address_of(probe.key)
            if address is None:
                # A broker of no set is not probed: anybody can name any address in a heartbeat.
                self.probed(probe.key, ProbeOutcome.NO_ANSWER)
            else:
                self._perform(ProbeBroker(probe=probe, address=address, report=self.probed))

    def _need(self, broker_set: BrokerSet, now_ms: int) -> Cause | None:
        """Return why a set has to get a master now, None if it has one or cannot have one."""
        if self._recovery.waits(broker_set, now_ms):
            return None
        if self._recovery.is_behind(broker_set):
            return Cause(trigger=Trigger.STORE_BEHIND, why="the brokers know a higher epoch than the store")
        # The first that requests an election leads a set that never had a master.
        if not broker_set.is_elected:
            return None
        trusted = self._detector.electable(broker_set.broker_name, now_ms).keys() & broker_set.replicas.keys()
        if broker_set.master is not None:
            return self._need_for(broker_set.broker_name, broker_set.master, now_ms) if trusted else None
        # An election outside the SyncStateSet needs a request: nobody's messages are given up without one.
        electable = trusted & broker_set.sync_state_set
        return Cause(trigger=Trigger.NO_MASTER, why="the set has no master, and one can lead") if electable else None

    def _need_for(self, broker_name: str, master: int, now_ms: int) -> Cause | None:
        key = BrokerKey(broker_name, master)
        if not self._detector.is_lost(key, now_ms):
            return None
        failed_broker = self._detector.failed_broker(key)
        if failed_broker is None:
            why = f"master {master} has sent no heartbeat since this controller started"
            return Cause(trigger=Trigger.NO_MASTER_HEARTBEAT, why=why)
        return Cause(
            trigger=Trigger.MASTER_FAILED,
            why=f"master {master} failed",
            last_contact_ms=failed_broker.last.last_contact_ms if failed_broker.last.made_contact else None,
            judged_ms=failed_broker.judged_ms,
        )

    def _handle_failed(self, failures: list[BrokerFailure]) -> None:
        for each in failures:
            broker_set = self._store.get(each.key.broker_name)
            if broker_set is None or each.key.broker_id not in broker_set.replicas:
                continue
            ago_ms = max(0, self._clock.now_ms() - each.judged_ms)
            self._emit(events.BrokerFailed(key=each.key, broker_set=broker_set, failure=each, ago_ms=ago_ms))
            self.log_ends.failed(broker_set.broker_name)
            if broker_set.master == each.key.broker_id and self._group.is_leader:
                cause = Cause(
                    trigger=Trigger.MASTER_FAILED,
                    why=f"master {each.key.broker_id} failed: {each.reason}",
                    last_contact_ms=None if each.silent_ms is None else each.last.last_contact_ms,
                    suspected_ms=each.suspected_ms,
                    judged_ms=each.judged_ms,
                    evidence=each.why.value,
                )
                self._begin_election(broker_set, cause)

    def _begin_election(self, broker_set: BrokerSet, cause: Cause) -> None:
        self._unwell[broker_set.broker_name] = None
        self._starter.begin(broker_set, cause)
