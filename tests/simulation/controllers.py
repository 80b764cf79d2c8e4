"""A simulated controller: the product's live table, detection, leadership and rules, and the steps of its edge.

The steps are those of `controller/store.py` and of the handlers, one after the other instead of awaited: decide on the
entry as it is known, commit what changed, and read again where nobody knows what has come of it.
"""

from typing import Final, NamedTuple

from msgspec.structs import replace

from controller.broker_set import BrokerSet
from controller.decisions.election import Call, Result
from controller.decisions.electorate import Electorate
from controller.detection import BEAT_OVERDUE_MS
from controller.entry import Decision
from controller.leadership import LEASE_TTL_S, Campaign, Grant, Look, Release, Renew, Rest
from controller.live_table import BrokerKey
from controller.log_ends import LogEnd, LogEnds
from controller.recovery import Recovery
from controller.refusals import NobodyElectable
from controller.store import Deposed, EntryMoved, Kept, Member, OutcomeUnknown
from remoting.errors import RequestRefused

SET: Final = "broker-a"
CLUSTER: Final = "DefaultCluster"
SUSPECT_TIMEOUT_MS: Final = 3_000
#: How often a controller looks round; the product does it more often.
ROUND_MS: Final = 500
#: A pause of its own that is longer makes it doubt itself, as does a store that takes longer.
STANDSTILL_MS: Final = 800
SLOW_STORE_MS: Final = 1_000
COMMIT_MS: Final = 2_000
TRIES: Final = 3


class Changed(NamedTuple):
    decision: Decision
    before: BrokerSet | None
    after: BrokerSet | None


class Answer(NamedTuple):
    """What a broker hears of its set."""

    is_known: bool = True
    master: int | None = None
    master_epoch: int = 0
    sync_state_set: frozenset[int] = frozenset()
    sync_state_set_epoch: int = 0


def answer_of(broker_set, *, names_master=True):
    return Answer(
        master=broker_set.master if names_master else None,
        master_epoch=broker_set.master_epoch,
        sync_state_set=broker_set.sync_state_set,
        sync_state_set_epoch=broker_set.sync_state_set_epoch,
    )


class Controller:
    def __init__(self, world, index):
        self.world = world
        self.core = world.core
        self.index = index
        self.me = Member(id=f"n{index}", address=f"n{index}:9878")
        self.runs = 0
        self.is_up = False
        self.is_frozen = False
        self.is_cut_from_store = False
        #: What has reached it while it stood still.
        self.inbox = []
        #: What becomes of the next commits: (what, ms).
        self.next_commits = []
        self.start()

    def start(self):
        if self.is_up:
            return
        now_ms = self.world.now_ms
        self.runs += 1
        self.is_up, self.is_frozen, self.inbox, self.next_commits = True, False, [], []
        self.live = self.core.live_table()
        self.detection = self.core.detection(self.live, now_ms)
        self.leadership = self.core.leadership(me=self.me, run=f"{self.index}.{self.runs}")
        self.loaded_token = 0
        self.kept = Kept()
        self.is_changing = False
        self.recovery = Recovery(self.live)
        self.fine_since_ms = now_ms

    def crash(self):
        self.is_up = False

    def freeze(self):
        self.is_frozen = True
        self.frozen_since_ms = self.world.now_ms

    def thaw(self):
        if not self.is_frozen:
            return
        self.is_frozen = False
        self.fine_since_ms = now_ms = self.world.now_ms
        if now_ms - self.frozen_since_ms > STANDSTILL_MS:
            self.detection.doubt_self(now_ms)
        inbox, self.inbox = self.inbox, []
        run = self.runs
        for act in inbox:
            if self.is_up and self.runs == run:
                act()

    def receive(self, act):
        """Do what a message asks for, once this controller runs."""
        if self.is_frozen:
            self.inbox.append(act)
        elif self.is_up:
            act()

    # Leadership

    @property
    def leads(self):
        """Tell whether it serves what only the leader may."""
        leadership = self.leadership.at(self.world.now_ms)
        return leadership.token != 0 and self.loaded_token == leadership.token

    def stand(self):
        now_ms = self.world.now_ms
        leadership = self.leadership.at(now_ms)
        for _ in range(6):
            step = leadership.next_step(now_ms)
            if type(step) is Rest:
                break
            try:
                self.world.store.check(self)
                leadership = self.performed(leadership, step, now_ms)
            except OutcomeUnknown:
                leadership = leadership.failed(now_ms)
                break
            if not leadership.token:
                self.loaded_token = 0
                self.recovery.forget_all()
        self.leadership = leadership
        if leadership.token and self.loaded_token != leadership.token:
            self.load(leadership.token)

    def performed(self, leadership, step, now_ms):
        store = self.world.store
        match step:
            case Look():
                return self.looked(leadership, now_ms)
            case Grant():
                return leadership.granted(store.grant(), ttl_s=LEASE_TTL_S, sent_ms=now_ms)
            case Campaign(lease_id):
                store.campaign(self.me, leadership.run, lease_id)
                return self.looked(leadership, now_ms)
            case Renew(lease_id):
                return leadership.renewed(lease_id, ttl_s=store.renew(lease_id), sent_ms=now_ms)
            case Release(token):
                store.release(token)
                return leadership.released()
        raise AssertionError(step)

    def looked(self, leadership, now_ms):
        store = self.world.store
        holder, known_before = store.leader(), leadership.known_revision
        if store.revision < known_before:
            self.loaded_token, self.kept = 0, Kept()
        return leadership.looked(holder, store.revision, now_ms, known_before=known_before)

    def load(self, token):
        try:
            self.world.store.check(self)
        except OutcomeUnknown:
            return
        self.kept, self.loaded_token = self.world.store.kept, token
        self.leadership = self.leadership.knowing(self.kept.revision)

    # Looking round

    def look_round(self):
        if not self.is_up or self.is_frozen:
            return
        now_ms = self.world.now_ms
        self.stand()
        self.watch()
        probes, dead = self.detection.look(now_ms, SUSPECT_TIMEOUT_MS)
        for probe in probes:
            self.world.probe(self, probe)
        for each in dead:
            self.bury(each)
        if self.leads:
            self.world.one_leads(self)
            self.scan()

    def watch(self):
        """Hear of what was stored meanwhile, also late commits of its own."""
        store = self.world.store
        is_heard = self.loaded_token and not store.is_down and not self.is_cut_from_store
        if is_heard and not self.is_changing and store.kept.revision > self.kept.revision:
            self.kept = store.kept

    def scan(self):
        """Elect where the set has no master, or one that is certainly not there."""
        broker_set, now_ms = self.kept.entry.broker_set, self.world.now_ms
        if broker_set is None or self.recovery.waits(broker_set, now_ms):
            return
        if self.recovery.is_behind(broker_set):
            self.elect(Call, None)
            return
        if not broker_set.is_elected:
            return
        master = broker_set.master
        is_lost = master is not None and self.detection.is_lost(BrokerKey(SET, master), now_ms)
        if master is not None and not is_lost:
            return
        judged = {i for i, heard in self.detection.trusted(SET, now_ms).items() if not heard.awaits_beat}
        members = judged & broker_set.replicas.keys()
        electable = members & broker_set.sync_state_set
        if is_lost and members:
            self.world.is_unwell(self, master)
        if electable or (is_lost and members):
            self.elect(Call, None)

    def probed(self, run, key, outcome):
        if self.runs != run or not self.is_up:
            return
        for each in self.detection.probed(key, outcome, self.world.now_ms):
            self.bury(each)

    def bury(self, dead):
        self.world.tell("%s judges broker %d dead: %s", self.me.id, dead.key.broker_id, dead.reason)
        self.world.is_unwell(self, dead.key.broker_id, dead)
        broker_set = self.kept.entry.broker_set
        if self.leads and broker_set is not None and broker_set.master == dead.key.broker_id:
            self.elect(Call, None)

    # Changing the set

    def change(self, decide, done):
        """Store what `decide` makes of the entry; `done` gets a Changed, or what has gone wrong."""
        if self.is_changing:
            # Its turn does not come before the broker has given up.
            done(None)
            return
        self.decide(decide, done, TRIES)

    def decide(self, decide, done, tries):  # noqa: C901  # as in the product, with what comes later
        kept = self.kept
        try:
            decision = decide(kept.entry)
        except RequestRefused as refusal:
            done(refusal)
            return
        before, wanted = kept.entry.broker_set, self.core.after(decision, kept.entry)
        if wanted == kept.entry:
            done(Changed(decision, before, before))
            return

        def settled(outcome):
            if isinstance(outcome, OutcomeUnknown):
                outcome = self.read_again(wanted, kept)
            if isinstance(outcome, EntryMoved):
                again = self.read_again(None, kept)
                if tries > 1 and isinstance(again, Kept):
                    self.decide(decide, done, tries - 1)
                    return
            if isinstance(outcome, Deposed):
                self.leadership = self.leadership.doubted()
            if isinstance(outcome, Kept):
                self.kept = outcome
                self.leadership = self.leadership.knowing(outcome.revision)
                done(Changed(decision, before, wanted.broker_set))
            else:
                done(None)

        self.commit(wanted, kept, settled)

    def read_again(self, wanted, basis):
        """Return what is stored; where something else than `wanted` was stored, nobody knows what will be."""
        try:
            self.world.store.check(self)
        except OutcomeUnknown as error:
            return error
        self.kept = kept = self.world.store.kept
        if wanted is None or (kept.entry == wanted and kept.revision > basis.revision):
            return kept
        return OutcomeUnknown("the store does not have it")

    def commit(self, wanted, basis, settled):
        token = self.leadership.token
        what, for_ms = self.next_commits.pop(0) if self.next_commits else ("", 0)
        if what == "delay":
            self.commit_late((wanted, basis, token), for_ms, settled)
        elif what == "fail":
            settled(OutcomeUnknown("failed"))
        else:
            outcome = self.committed(wanted, basis, token)
            settled(OutcomeUnknown("the answer was lost") if what == "lose" else outcome)

    def committed(self, wanted, basis, token):
        try:
            self.world.store.check(self)
            return self.world.store.commit(wanted, basis, token)
        except (EntryMoved, Deposed, OutcomeUnknown) as error:
            return error

    def commit_late(self, what, for_ms, settled):
        run, now_ms = self.runs, self.world.now_ms
        store, store_run = self.world.store, self.world.store.run
        self.is_changing = True
        waits = True

        def settle(outcome):
            nonlocal waits
            if waits and self.runs == run and self.is_up:
                waits = self.is_changing = False
                settled(outcome)
                if self.world.now_ms - now_ms > SLOW_STORE_MS:
                    self.detection.doubt_self(self.world.now_ms)

        def arrive():
            try:
                outcome = store.commit(*what) if store.run == store_run else OutcomeUnknown("its run ended")
            except (EntryMoved, Deposed) as error:
                outcome = error
            self.receive(lambda: settle(outcome))

        self.world.at(now_ms + for_ms, arrive)
        if for_ms > COMMIT_MS:
            late = OutcomeUnknown("no answer in time")
            self.world.at(now_ms + COMMIT_MS, lambda: self.receive(lambda: settle(late)))

    # Requests

    def elect(self, call_of, done, **wanted):
        """Elect; `done` may be None where nobody waits."""
        known = None

        def decide(entry):
            nonlocal known
            now_ms = self.world.now_ms
            # Nobody's messages are given up unasked.
            allows_unclean = self.world.is_unclean and "broker_id" in wanted
            call = call_of(**wanted, allows_unclean=allows_unclean, fresh_from_ms=now_ms - BEAT_OVERDUE_MS)
            broker_set = entry.broker_set
            if broker_set is not None and not call.is_designated and self.recovery.waits(broker_set, now_ms):
                raise NobodyElectable("waits for all brokers to come back")
            electorate = self.asked(self.electorate(entry, call), entry, call)
            known = dict(electorate.heard)
            decision = self.core.decide_election(SET, entry, electorate, call)
            self.world.decided(decision, entry)
            return decision

        def settled(changed):
            if not isinstance(changed, Changed):
                if done is not None:
                    done(None)
                return
            self.world.elected(self, changed, wanted, known)
            result = changed.decision.reply.result
            if result is Result.NEW_MASTER:
                self.recovery.forget(SET)
                self.notify(changed.after)
            if done is not None:
                done(None if result is Result.NOBODY else answer_of(changed.after))

        self.change(decide, settled)

    def electorate(self, entry, call):
        now_ms = self.world.now_ms
        trusted = self.detection.trusted(SET, now_ms)
        if call.broker_id is None:
            # Who has just started has not said how far its log is.
            trusted = {i: heard for i, heard in trusted.items() if not heard.awaits_beat}
        members = entry.broker_set.replicas if entry.broker_set is not None else {}
        knows_nothing = self.detection.hears_nobody(now_ms)
        return Electorate(
            trusted=trusted,
            heard=self.live.of_set(SET),
            may_live={i for i in members if knows_nothing or not self.detection.is_lost(BrokerKey(SET, i), now_ms)},
            reported=self.recovery.reported_epochs(SET),
        )

    def asked(self, electorate, entry, call):
        """Return what is known once those have answered that run and can be reached; who starts does not listen yet."""
        if call.is_designated or entry.broker_set is None:
            return electorate
        members = electorate.trusted.keys() & entry.broker_set.replicas.keys() & self.world.by_id.keys()
        brokers = {i: self.world.by_id[i] for i in members}
        ends = LogEnds(
            by_id={
                i: LogEnd(each.file_epoch, len(each.log), is_master=each.is_leading)
                for i, each in brokers.items()
                if each.is_running and each.reaches(self)
            }
        )
        return electorate.answered(ends, self.world.now_ms)

    def notify(self, broker_set):
        alive = self.live.alive(SET, self.world.now_ms)
        for broker_id in broker_set.replicas.keys() & alive.keys():
            self.world.notify(self, broker_id, answer_of(broker_set))

    def beat(self, broker_id, heard):
        self.detection.beat(
            BrokerKey(SET, broker_id), replace(heard, heard_ms=self.world.now_ms), self.address_of(broker_id)
        )

    def seen(self, broker_id, connection_id):
        if (address := self.address_of(broker_id)) is not None:
            self.detection.seen(BrokerKey(SET, broker_id), self.world.now_ms, connection_id, address)

    def address_of(self, broker_id):
        broker_set = self.kept.entry.broker_set
        replica = broker_set.replicas.get(broker_id) if broker_set is not None else None
        return None if replica is None else replica.address

    def closed(self, connection_id):
        self.detection.connection_lost(connection_id, self.world.now_ms)

    def leader_address(self):
        """Answer GET_METADATA_INFO (1005)."""
        now_ms = self.world.now_ms
        leadership = self.leadership.at(now_ms)
        if leadership.token:
            return self.index
        holder = leadership.holder
        known = holder is not None and leadership.seen_ms is not None and holder.member != self.me
        return int(holder.member.id[1:]) if known else None

    def next_id(self, done):
        if self.leads:
            broker_set = self.kept.entry.broker_set
            done(self.kept.entry.floor.next_broker_id if broker_set is None else broker_set.next_broker_id)

    def apply_id(self, applicant, done):
        if self.leads:
            self.change(lambda entry: self.core.decide_id(entry, applicant), lambda got: done(isinstance(got, Changed)))

    def register(self, registrant, connection_id, done):
        if not self.leads:
            return
        now_ms = self.world.now_ms
        self.detection.restarted(BrokerKey(SET, registrant.broker_id), now_ms, connection_id, registrant.address)

        def decide(entry):
            epoch = max((each.epoch for each in self.live.of_set(SET).values()), default=0)
            return self.core.decide_adoption(entry, registrant, max(epoch, 0))

        def settled(changed):
            if isinstance(changed, Changed):
                self.recovery.waits(changed.after, self.world.now_ms)
                done(answer_of(changed.after, names_master=self.may_live(changed.after.master)))

        self.change(decide, settled)

    def may_live(self, broker_id):
        now_ms = self.world.now_ms
        is_alive = broker_id in self.live.alive(SET, now_ms)
        return broker_id is not None and (is_alive or not self.detection.is_lost(BrokerKey(SET, broker_id), now_ms))

    def elect_for(self, broker_id, connection_id, done):
        if self.leads:
            self.seen(broker_id, connection_id)
            self.elect(Call, done, broker_id=broker_id)

    def replica_info(self, done):
        if self.leads:
            broker_set = self.kept.entry.broker_set
            # Who is not adopted yet has to register.
            is_known = broker_set is not None and not broker_set.is_rebuilding
            done(answer_of(broker_set) if is_known else Answer(is_known=False))

    def alter(self, wanted, connection_id, done):
        if not self.leads:
            return
        if (broker_set := self.kept.entry.broker_set) is not None:
            self.recovery.reported(broker_set, wanted, connection_id, self.world.now_ms)
        self.seen(wanted.master, connection_id)

        def decide(entry):
            return self.core.decide_alteration(entry, wanted, self.live.alive(SET, self.world.now_ms).keys())

        self.change(decide, lambda got: done(answer_of(got.after)) if isinstance(got, Changed) else None)

    def clean(self, wanted):
        if self.leads:

            def decide(entry):
                alive = self.live.alive(SET, self.world.now_ms).keys()
                members = entry.broker_set.replicas if entry.broker_set is not None else {}
                awaited = {i for i in members if self.may_live(i)} - alive
                return self.core.decide_cleaning(entry, wanted, alive, awaited)

            self.change(decide, lambda _: None)
