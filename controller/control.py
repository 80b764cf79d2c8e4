"""What the leading controller does for its sets: each request and each loss is decided, stored, explained, and told.

Answers to `ControllerManager` and `ReplicasInfoManager`. Rules are in `decisions/` and `detection.py`; here they are
given what is stored and what was heard. Every controller listens to heartbeats, only the leader changes sets.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec

from controller.broker_set import BrokerSet
from controller.config import ControllerConfig
from controller.decisions.election import Call, Election, Electorate, Result, decide_election
from controller.decisions.membership import (
    Applicant,
    Cleaning,
    Registrant,
    check_cluster,
    decide_adoption,
    decide_cleaning,
    decide_id,
    decide_registration,
)
from controller.decisions.sync_state import WantedSyncStateSet, decide_alteration
from controller.detection import BEAT_OVERDUE_MS, Dead, Detection, Outcome
from controller.effects import AskBroker, Effect, NotifyRoleChanged, Recipient
from controller.elections import Cause, ElectionRecord, Elections, Held, Trigger
from controller.entry import Decision, Entry, Reply
from controller.group import Group
from controller.live_table import BrokerKey, Heard, LiveTable
from controller.recovery import Recovery
from controller.refusals import NobodyElectable, NotLeader, NotStoredNow
from controller.store import COMMIT_S, Changed, Deposed, SetStore, StoreError
from remoting.clock import Clock
from remoting.errors import RequestRefused

#: A broker that starts asks for a master and sends its first heartbeat at the same time; how long the first waits.
BEAT_AWAITED_S: Final = 1.0
#: After that long for one change, brokers may only seem silent.
_SLOW_STORE_MS: Final = 1_000
#: A store that stays slow must not keep the dead from being judged for ever.
_DOUBT_AGAIN_MS: Final = 10_000
#: How many brokers that belong to no set may be heard at a time: anybody can send a heartbeat.
STRANGERS_MAX: Final = 10_000
#: How often brokers are looked at, and for how long a standstill may hold that up.
LOOK_MS: Final = 50
_STANDSTILL_MS: Final = 700
#: How soon a set for which an election failed is looked at again.
_AGAIN_MS: Final = 1_000


class ControlObserver(Protocol):
    """Who is told what happened to sets and brokers; logs and counts are made there."""

    def id_applied(self, applicant: Applicant, changed: Changed[None]) -> None:
        """Learn that a broker has an id."""

    def broker_started(self, registrant: Registrant, changed: Changed[None]) -> None:
        """Learn that a broker started, and what that changed."""

    def sync_state_set_altered(self, wanted: WantedSyncStateSet, changed: Changed[None]) -> None:
        """Learn that a master reported another SyncStateSet."""

    def cleaned(self, wanted: Cleaning, changed: Changed[None]) -> None:
        """Learn that an operator removed brokers, or a set."""

    def election_held(self, record: ElectionRecord, *, is_news: bool, seconds: float) -> None:
        """Learn how an election ended; not news if it only ended as the one before."""

    def broker_dead(self, dead: Dead, broker_set: BrokerSet | None) -> None:
        """Learn that a broker is dead; None: of no set that is known here."""

    def broker_suspect(self, key: BrokerKey, broker_set: BrokerSet | None) -> None:
        """Learn that the connection of a broker closed."""

    def store_failed(self, broker_name: str, error: StoreError) -> None:
        """Learn that a change could not be stored."""

    def self_doubted(self, held_ms: int) -> None:
        """Learn that this process stood still."""


class ControlParts(NamedTuple):
    """What the control works with."""

    store: SetStore
    group: Group
    live: LiveTable
    detection: Detection
    elections: Elections
    clock: Clock
    #: The configuration in force.
    config: Callable[[], ControllerConfig]
    #: Carries out what follows from a decision.
    perform: Callable[[Effect], None]
    observer: ControlObserver
    #: Starts what nobody waits for.
    start: Callable[..., object]


class Elected(NamedTuple):
    """How an election ended."""

    broker_set: BrokerSet
    result: Result
    reason: str


class Control:
    """All that changes broker sets."""

    def __init__(self, parts: ControlParts) -> None:
        self.store = parts.store
        self.group = parts.group
        self.live = parts.live
        self.detection = parts.detection
        self.elections = parts.elections
        self.recovery = Recovery(parts.live)
        self._clock = parts.clock
        self._config = parts.config
        self._perform = parts.perform
        self._observer = parts.observer
        self._start = parts.start
        #: Who waits for the first heartbeat of a broker that has started.
        self._awaiting: dict[BrokerKey, asyncio.Event] = {}
        #: Sets for which an election is under way, or failed a moment ago: until when nothing is tried.
        self._busy: dict[str, int] = {}
        #: None before the first look.
        self._looked_ms: int | None = None
        self._doubted_ms = self._clock.now_ms() - _DOUBT_AGAIN_MS

    # Requests of brokers

    def heartbeat(self, cluster: str, key: BrokerKey, heard: Heard) -> None:
        """Take a heartbeat."""
        broker_set = self.store.get(key.broker_name)
        if broker_set is not None and cluster and cluster != broker_set.cluster:
            return
        # Members always have a place; who claims to be another broker of a known set is a stranger as well.
        is_member = broker_set is not None and key.broker_id in broker_set.replicas
        if not is_member and self.live.get(key) is None and self.live.brokers >= len(self.store) + STRANGERS_MAX:
            return
        self.detection.beat(key, heard)
        if self._awaiting and (waiting := self._awaiting.get(key)) is not None:
            waiting.set()

    async def apply_id(self, applicant: Applicant) -> BrokerSet:
        """Give a broker the id that it applies for."""
        changed = await self._change(applicant.broker_name, lambda entry: decide_id(entry, applicant))
        self._observer.id_applied(applicant, changed)
        return _present(changed.after)

    async def register(self, registrant: Registrant, connection_id: int) -> BrokerSet:
        """Take note that a broker has started."""
        key = BrokerKey(registrant.broker_name, registrant.broker_id)
        # What is refused says nothing about a broker of that name.
        self._check_cluster(registrant.broker_name, registrant.cluster)
        self._restarted(key, connection_id)
        adopts = self._config().adopt_unknown_brokers
        changed = await self._change(
            registrant.broker_name,
            lambda entry: (
                decide_adoption(entry, registrant, self._epoch_heard(registrant.broker_name))
                if adopts
                else decide_registration(entry, registrant)
            ),
        )
        after = _present(changed.after)
        if changed.before is None or key.broker_id not in changed.before.replicas:
            self._restarted(key, connection_id)
        self.recovery.waits(after, self._clock.now_ms())
        self._observer.broker_started(registrant, changed)
        return after

    async def elect_for_broker(self, cluster: str, key: BrokerKey, connection_id: int) -> Elected:
        """Find a master because a broker asks for one; it would lead itself."""
        self._check_cluster(key.broker_name, cluster)
        self._sign_of_life(key, connection_id)
        began_ms = self._clock.now_ms()
        await self._first_beat(key)
        waited_s = (self._clock.now_ms() - began_ms) / 1000
        cause = Cause(trigger=Trigger.BROKER, why=f"broker {key.broker_id} found no master", broker_id=key.broker_id)
        return await self._elect(key.broker_name, Call(broker_id=key.broker_id), cause, COMMIT_S - waited_s)

    async def alter_sync_state_set(self, wanted: WantedSyncStateSet, connection_id: int) -> BrokerSet:
        """Store who is in sync, as the master reports it."""
        name = wanted.broker_name
        if (broker_set := self.store.get(name)) is not None and self.group.is_leader:
            self.recovery.reported(broker_set, wanted, connection_id, self._clock.now_ms())
        self._sign_of_life(BrokerKey(name, wanted.master), connection_id)
        changed = await self._change(
            name, lambda entry: decide_alteration(entry, wanted, self.live.alive(name, self._clock.now_ms()))
        )
        self._observer.sync_state_set_altered(wanted, changed)
        return _present(changed.after)

    # Requests of operators

    async def designate(self, cluster: str, broker_name: str, broker_id: int | None, operator: str) -> Elected:
        """Make a broker master because an operator wants it; None: whoever is best, if nobody leads."""
        self._check_cluster(broker_name, cluster)
        call = Call(broker_id=broker_id, is_designated=broker_id is not None)
        wanted = f"wants broker {broker_id} as master" if broker_id is not None else "wants a master"
        cause = Cause(trigger=Trigger.OPERATOR, why=f"an operator at {operator} {wanted}", broker_id=broker_id)
        return await self._elect(broker_name, call, cause)

    async def clean(self, wanted: Cleaning) -> None:
        """Forget brokers, or a set."""
        name = wanted.broker_name
        changed = await self._change(
            name, lambda entry: decide_cleaning(entry, wanted, self.live.alive(name, self._clock.now_ms()))
        )
        before = _present(changed.before)
        for broker_id in before.replicas.keys() - (changed.after.replicas if changed.after else {}).keys():
            self.detection.forget(BrokerKey(name, broker_id))
        self._observer.cleaned(wanted, changed)

    # What is noticed

    def connection_lost(self, connection_id: int) -> None:
        """Suspect who was heard over a connection that is gone."""
        self._doubt_after_standstill()
        suspects = self.detection.connection_lost(connection_id, self._clock.now_ms())
        for key in suspects:
            # Strangers can be thousands over one connection, and a line for each holds everybody up.
            if self._replica_address(key) is not None:
                self._observer.broker_suspect(key, self.store.get(key.broker_name))
        if suspects:
            self.look_at_brokers()

    def take_over(self) -> None:
        """Begin to lead: masters that were not heard yet are asked, and not only waited for."""
        now_ms = self._clock.now_ms()
        for broker_set in self.store.sets():
            if broker_set.master is not None and broker_set.master_address is not None:
                key = BrokerKey(broker_set.broker_name, broker_set.master)
                self.detection.expect(key, broker_set.master_address, now_ms)

    def look_at_brokers(self) -> None:
        """Ask the suspect, and act on the dead; to be called each LOOK_MS."""
        self._doubt_after_standstill()
        self._looked_ms = self._clock.now_ms()
        probes, dead = self.detection.look(self._clock.now_ms(), self._config().suspect_timeout_ms)
        for probe in probes:
            replica = self._replica_address(probe.key)
            if replica is None:
                # Nobody is asked whom no set knows: anybody can name any address in a heartbeat.
                self.probed(probe.key, Outcome.NO_ANSWER)
            else:
                self._perform(AskBroker(probe=probe, address=probe.address or replica))
        self._mourn(dead)

    def probed(self, key: BrokerKey, outcome: Outcome) -> None:
        """Take what came of a question to a broker."""
        self._doubt_after_standstill()
        self._mourn(self.detection.probed(key, outcome, self._clock.now_ms()))

    def look_at_sets(self) -> None:
        """Find a master for every set that needs one and can have one; to be called some times a second."""
        if not self.group.is_leader:
            return
        now_ms = self._clock.now_ms()
        self._busy = {name: until_ms for name, until_ms in self._busy.items() if until_ms > now_ms}
        for broker_set in self.store.sets():
            if broker_set.broker_name not in self._busy and not self._is_well(broker_set):
                cause = self._need(broker_set, now_ms)
                if cause is not None:
                    self._begin_election(broker_set.broker_name, cause)

    def _is_well(self, broker_set: BrokerSet) -> bool:
        """Tell at a glance that a set needs nothing, as nearly all do: its master was heard, and no epoch above it."""
        heard = self.live.of_set(broker_set.broker_name)
        if broker_set.master not in heard or broker_set.is_rebuilding:
            return False
        if self.recovery.reported_epoch(broker_set) is not None:
            return False
        return all(each.epoch <= broker_set.master_epoch for each in heard.values())

    def _doubt_after_standstill(self) -> None:
        """Judge nobody for a while if this process stood still: nobody could be heard meanwhile."""
        if self._looked_ms is None:
            return
        now_ms = self._clock.now_ms()
        held_ms = now_ms - self._looked_ms - LOOK_MS
        if held_ms > _STANDSTILL_MS:
            self._looked_ms = now_ms
            self._doubt_self(now_ms, held_ms)

    def _doubt_self(self, now_ms: int, held_ms: int) -> None:
        self._doubted_ms = now_ms
        self.detection.doubt_self(now_ms)
        self._observer.self_doubted(held_ms)

    def _need(self, broker_set: BrokerSet, now_ms: int) -> Cause | None:
        """Return why a set has to get a master now, None if it has one or cannot have one."""
        if self.recovery.waits(broker_set, now_ms):
            return None
        if self.recovery.is_behind(broker_set):
            return Cause(trigger=Trigger.STORE_BEHIND, why="the brokers know a higher epoch than the store")
        # The first that asks leads a set that never had a master.
        if not broker_set.is_elected:
            return None
        trusted = self._judged(broker_set.broker_name, now_ms) & broker_set.replicas.keys()
        if broker_set.master is not None:
            return self._need_for(broker_set.broker_name, broker_set.master, now_ms) if trusted else None
        electable = trusted if self._config().enable_elect_unclean_master else trusted & broker_set.sync_state_set
        return Cause(trigger=Trigger.NO_MASTER, why="the set has no master, and one can lead") if electable else None

    def _need_for(self, broker_name: str, master: int, now_ms: int) -> Cause | None:
        """Return why this master has to be replaced, None if it may live."""
        key = BrokerKey(broker_name, master)
        if not self.detection.is_lost(key, now_ms):
            return None
        gone = self.detection.gone(key)
        if gone is None:
            why = f"master {master} was not heard since this controller runs"
            return Cause(trigger=Trigger.MASTER_NOT_HEARD, why=why)
        return Cause(
            trigger=Trigger.MASTER_DEAD,
            why=f"master {master} is dead",
            last_heard_ms=gone.last.heard_ms,
            judged_ms=gone.judged_ms,
        )

    def _mourn(self, dead: list[Dead]) -> None:
        for each in dead:
            broker_set = self.store.get(each.key.broker_name)
            if broker_set is None or each.key.broker_id not in broker_set.replicas:
                continue
            self._observer.broker_dead(each, broker_set)
            if broker_set.master == each.key.broker_id and self.group.is_leader:
                cause = Cause(
                    trigger=Trigger.MASTER_DEAD,
                    why=f"master {each.key.broker_id} is dead: {each.reason}",
                    last_heard_ms=each.last.heard_ms,
                    suspected_ms=each.suspected_ms,
                    judged_ms=each.judged_ms,
                    evidence=each.why.value,
                )
                self._begin_election(each.key.broker_name, cause)

    def _begin_election(self, broker_name: str, cause: Cause) -> None:
        self._busy[broker_name] = self._clock.now_ms() + _AGAIN_MS
        self._start(self._elect_unasked(broker_name, cause))

    async def _elect_unasked(self, broker_name: str, cause: Cause) -> None:
        try:
            await self._elect(broker_name, Call(), cause)
        except RequestRefused:
            # Another controller leads, the store failed, the set is gone: the next look tries again if it has to.
            return

    # Elections

    async def _elect(self, broker_name: str, call: Call, cause: Cause, within_s: float = COMMIT_S) -> Elected:
        began_ms = self._clock.now_ms()

        def decide(entry: Entry) -> Decision[Election]:
            now_ms = self._clock.now_ms()
            is_asked_by_broker = not call.is_designated
            if entry.broker_set is not None and is_asked_by_broker and self.recovery.waits(entry.broker_set, now_ms):
                raise NobodyElectable(f"{broker_name} waits some seconds for all of its brokers to come back")
            wanted = msgspec.structs.replace(
                call,
                allows_unclean=self._config().enable_elect_unclean_master,
                fresh_from_ms=now_ms - BEAT_OVERDUE_MS,
            )
            return decide_election(broker_name, entry, self._electorate(broker_name, entry, call, now_ms), wanted)

        changed = await self._change(broker_name, decide, within_s)
        record = self._explain(changed, cause, began_ms)
        return Elected(_present(changed.after), record.result, record.reason)

    def _electorate(self, broker_name: str, entry: Entry, call: Call, now_ms: int) -> Electorate:
        trusted = self.detection.trusted(broker_name, now_ms)
        if call.broker_id is None:
            # Who has just started has not said how far its log is; it asks for a master itself.
            trusted = {i: heard for i, heard in trusted.items() if not heard.awaits_beat}
        master = entry.broker_set.master if entry.broker_set is not None else None
        return Electorate(
            trusted=trusted,
            heard=self.live.of_set(broker_name),
            # Who hears nobody at all may be cut off, with every broker alive and well.
            master_may_live=master is not None
            and (not self.live.brokers or not self.detection.is_lost(BrokerKey(broker_name, master), now_ms)),
            reported_epoch=None if entry.broker_set is None else self.recovery.reported_epoch(entry.broker_set),
        )

    def _explain(self, changed: Changed[Election], cause: Cause, began_ms: int) -> ElectionRecord:
        now_ms = self._clock.now_ms()
        before, after = _present(changed.before), _present(changed.after)
        held = Held(
            before=before,
            after=after,
            cause=cause,
            election=changed.decision.reply,
            last=self._last_heard(before),
            commit_ms=now_ms - (began_ms if cause.judged_ms is None else min(began_ms, cause.judged_ms)),
        )
        record, is_news = self.elections.add(held, self._clock.unix_ms())
        self._observer.election_held(record, is_news=is_news, seconds=(now_ms - began_ms) / 1000)
        if changed.decision.reply.result is not Result.NEW_MASTER:
            return record
        self.recovery.elected(after.broker_name)
        if self._config().notify_broker_role_changed:
            self._perform(self._notification(after, record.number, now_ms))
        return record

    def _notification(self, broker_set: BrokerSet, election: int, now_ms: int) -> NotifyRoleChanged:
        assert broker_set.master is not None, "a master was elected"
        alive = self.live.alive(broker_set.broker_name, now_ms)
        return NotifyRoleChanged(
            broker_name=broker_set.broker_name,
            election=election,
            master=Recipient(broker_set.master, broker_set.replicas[broker_set.master].address),
            master_epoch=broker_set.master_epoch,
            sync_state_set=tuple(sorted(broker_set.sync_state_set)),
            sync_state_set_epoch=broker_set.sync_state_set_epoch,
            recipients=tuple(Recipient(i, replica.address) for i, replica in broker_set.replicas.items() if i in alive),
            since_ms=now_ms,
        )

    # What is known of brokers

    def may_live(self, key: BrokerKey) -> bool:
        """Tell whether a broker is alive, as far as this controller knows; one not heard since the start may be."""
        now_ms = self._clock.now_ms()
        alive = self.live.alive(key.broker_name, now_ms)
        return key.broker_id in alive or not self.detection.is_lost(key, now_ms)

    def _judged(self, broker_name: str, now_ms: int) -> frozenset[int]:
        trusted = self.detection.trusted(broker_name, now_ms)
        return frozenset(i for i, heard in trusted.items() if not heard.awaits_beat)

    def _last_heard(self, broker_set: BrokerSet) -> dict[int, Heard]:
        found: dict[int, Heard] = {}
        for broker_id in broker_set.replicas:
            key = BrokerKey(broker_set.broker_name, broker_id)
            gone = self.detection.gone(key)
            heard = self.live.get(key) or (gone.last if gone is not None else None)
            if heard is not None:
                found[broker_id] = heard
        return found

    def _epoch_heard(self, broker_name: str) -> int:
        return max((heard.epoch for heard in self.live.of_set(broker_name).values()), default=0)

    def _replica_address(self, key: BrokerKey) -> str | None:
        broker_set = self.store.get(key.broker_name)
        replica = broker_set.replicas.get(key.broker_id) if broker_set is not None else None
        return None if replica is None else replica.address

    def _sign_of_life(self, key: BrokerKey, connection_id: int) -> None:
        if self._replica_address(key) is not None:
            self.detection.seen(key, self._clock.now_ms(), connection_id)

    def _restarted(self, key: BrokerKey, connection_id: int) -> None:
        if self._replica_address(key) is not None:
            self.detection.restarted(key, self._clock.now_ms(), connection_id)

    async def _first_beat(self, key: BrokerKey) -> None:
        """Wait until a broker that has started has said how far its log is, but not for long."""
        heard = self.live.get(key)
        if heard is None or not heard.awaits_beat:
            return
        waiting = self._awaiting.setdefault(key, asyncio.Event())
        try:
            async with asyncio.timeout(BEAT_AWAITED_S):
                await waiting.wait()
        except TimeoutError:
            return
        finally:
            self._awaiting.pop(key, None)

    def _check_cluster(self, broker_name: str, cluster: str) -> None:
        self.group.check_leads()
        broker_set = self.store.get(broker_name)
        if broker_set is not None:
            check_cluster(broker_set, cluster)

    async def _change(
        self, broker_name: str, decide: Callable[[Entry], Decision[Reply]], within_s: float = COMMIT_S
    ) -> Changed[Reply]:
        self.group.check_leads()
        began_ms = self._clock.now_ms()
        try:
            return await self.store.change(broker_name, decide, within_s)
        except Deposed:
            raise NotLeader(None) from None
        except StoreError as error:
            self._observer.store_failed(broker_name, error)
            raise NotStoredNow(broker_name, str(error)) from error
        finally:
            ended_ms = self._clock.now_ms()
            if ended_ms - began_ms > _SLOW_STORE_MS and ended_ms - self._doubted_ms > _DOUBT_AGAIN_MS:
                self._doubt_self(ended_ms, ended_ms - began_ms)


def _present(broker_set: BrokerSet | None) -> BrokerSet:
    assert broker_set is not None, "the decision was made on a set, or began one"
    return broker_set
