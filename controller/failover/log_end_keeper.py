"""Stores with each set how much of its log its brokers have, so that a later leader knows what a lost log lacks.

Corresponds to no class of Java's: its controller takes membership of the SyncStateSet for proof.
"""

from typing import Final

from msgspec.structs import replace

from controller.decisions.known_log_ends import known_log_ends
from controller.failover.set_writer import ClusterState, FailoverRuntime, SetWriter
from controller.failure_detection.heartbeats import UNKNOWN, BrokerKey, LastHeartbeat
from controller.sets.broker_set import BrokerSet
from controller.sets.events import SyncStateSetAltered
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

    def __init__(self, state: ClusterState, runtime: FailoverRuntime, writer: SetWriter) -> None:
        self._state, self._writer = state, writer
        self._clock, self._start = runtime.clock, runtime.start
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
        """Forget a set that is gone."""
        self._looked_ms.pop(broker_set.broker_name, None)
        self._due.pop(broker_set.broker_name, None)
        for broker_id in broker_set.replicas:
            self.stored(BrokerKey(broker_set.broker_name, broker_id))

    def clear(self) -> None:
        """Forget everything: another controller leads."""
        self._former.clear()
        self._looked_ms.clear()
        self._due.clear()
