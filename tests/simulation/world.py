"""Three controllers, their store and the brokers of one set in one thread of virtual time, and what must always hold.

Everything is decided by the settings and the plan of faults, so that a history can be run again, and without some of
its faults. `Violation` says what did not hold.
"""

from heapq import heappop, heappush

from controller.broker_set import BrokerSet
from controller.decisions.election import Result, Verdict
from controller.detection import Outcome
from controller.elections import Cause, Elections, Held, Trigger
from simulation import injection
from simulation.brokers import Broker
from simulation.controllers import ROUND_MS, Controller
from simulation.core import Core
from simulation.faults import FAULTS_END_MS, Fault, Settings
from simulation.store import Store

#: Within so long after the last fault everything must be well again.
HEALED_WITHIN_MS = 40_000
#: A broker that was well for so long must not be called dead.
WELL_MS = 1_600
CONTROLLERS = 3


THE_RULES = Core()


class Violation(AssertionError):
    """Something does not hold that must."""


class World:
    def __init__(self, settings: Settings, plan: tuple[Fault, ...], core: Core = THE_RULES):
        self.settings = settings
        self.core = core
        self.now_ms = 0
        self.queue = []
        self.numbers = 0
        self.events = 0
        #: What happened, for people; None where nobody reads it.
        self.story = None
        self.is_unclean = settings.profile == "unclean"
        self.keeps_messages = settings.profile in ("safe", "calm", "liar")
        #: The store has whatever it said it had.
        self.is_kept = settings.profile not in ("lost", "late")
        #: No epoch is handed out twice: what is lost of the store shows, as brokers know higher ones.
        self.has_own_epochs = settings.profile != "lost"
        #: The master epochs of elections whose record says that messages may be lost.
        self.unclean_epochs = set()
        self.is_over = False
        #: By how much the next reports of a SyncStateSet come late.
        self.late_reports_ms = []
        #: When a master last reported a broker as in sync, by broker id.
        self.reported_ms = {}
        self.heal_from_ms = 0
        # What the world knows, and no controller
        self.acked = []
        self.masters = {}
        self.elected_epochs = {}
        self.highest_epoch = 0
        self.store = Store(self, core)
        self.controllers = []
        self.brokers = []
        self.by_id = {}
        self.reasons = Elections("n0:9878")
        self.elections = 0
        for i in range(CONTROLLERS):
            self.controllers.append(Controller(self, i))
            self.every(settings.controller_phases_ms[i], ROUND_MS, self.controllers[i].look_round)
        for i in range(settings.brokers):
            self.brokers.append(Broker(self, i))
            self.every(300 + settings.broker_phases_ms[i], 1_000, self.brokers[i].live)
        for fault in plan:
            self.at(fault.at_ms, lambda fault=fault: self.suffer(fault))
        self.at(FAULTS_END_MS + 9_000 if plan else 6_000, self.heal)

    # Time

    def at(self, at_ms, act):
        self.numbers += 1
        heappush(self.queue, (at_ms, self.numbers, act))

    def every(self, first_ms, pause_ms, act):
        queue = self.queue

        def again():
            act()
            self.numbers += 1
            heappush(queue, (self.now_ms + pause_ms, self.numbers, again))

        self.at(first_ms, again)

    def run(self):
        queue = self.queue
        while not self.is_over:
            self.now_ms, _, act = heappop(queue)
            self.events += 1
            act()

    def next_number(self):
        self.numbers += 1
        return self.numbers

    def tell(self, words, *values):
        if self.story is not None:
            self.story.append(f"{self.now_ms:>6} ms  {words % values}")

    # Between brokers and controllers

    def probe(self, controller, probe):
        broker = self.by_id[probe.key.broker_id]
        run = controller.runs

        def ended():
            if broker.reaches(controller):
                outcome = Outcome.ANSWERED
            elif broker.is_up or controller.index in broker.cut_controllers:
                outcome = Outcome.NO_ANSWER
            else:
                outcome = Outcome.REFUSED
            controller.receive(lambda: controller.probed(run, probe.key, outcome))

        is_silent = broker.is_frozen or controller.index in broker.cut_controllers
        self.at(self.now_ms + (probe.timeout_ms if is_silent else 5), ended)

    def notify(self, controller, broker_id, answer):
        broker = self.by_id.get(broker_id)
        if broker is None:
            return
        what, for_ms = broker.next_notices.pop(0) if broker.next_notices else ("", 10)
        starts = broker.starts

        def arrive():
            if broker.reaches(controller) and broker.starts == starts and broker.is_running:
                broker.adopt(answer)

        if what != "lose":
            self.at(self.now_ms + for_ms, arrive)

    # What must hold

    def fail(self, words, *values):
        if self.is_over:
            # What else comes of the moment that ended it is not judged.
            return
        self.tell("VIOLATION: " + words, *values)
        raise Violation(words % values)

    def stored(self, before, after, basis, token, leader):
        """Check an entry that has just been stored."""
        old, new = before.entry.broker_set, after.entry.broker_set
        if leader is None or leader.token != token:
            self.fail("stored under token %d, which is not the leader's %s", token, leader)
        if basis.revision != before.revision or basis.entry != before.entry:
            self.fail("decided on revision %d, stored over %d", basis.revision, before.revision)
        if old is None:
            floor = before.entry.floor
            if new is not None and new.master_epoch < floor.master_epoch:
                self.fail("begins at epoch %d below its floor %d", new.master_epoch, floor.master_epoch)
            return
        if new is None:
            if after.entry.floor.master_epoch < old.master_epoch:
                self.fail("forgets the epoch %d", old.master_epoch)
            self.tell("stored: the set is cleaned")
            # Who cleans a whole set gives up its messages.
            self.acked = []
            return
        self.moved(old, new)

    def moved(self, old: BrokerSet, new: BrokerSet):  # noqa: C901  # one condition after the other
        self.tell(
            "stored: master %s, epoch %d, in sync %s at %d",
            new.master,
            new.master_epoch,
            sorted(new.sync_state_set),
            new.sync_state_set_epoch,
        )
        if new.master_epoch < old.master_epoch or new.sync_state_set_epoch < old.sync_state_set_epoch:
            self.fail("epochs go back: %d to %d", old.master_epoch, new.master_epoch)
        if new.master != old.master and new.master_epoch == old.master_epoch:
            self.fail("master %s after %s in the same epoch %d", new.master, old.master, new.master_epoch)
        if new.sync_state_set != old.sync_state_set and new.sync_state_set_epoch == old.sync_state_set_epoch:
            self.fail("another SyncStateSet in the same epoch %d", new.sync_state_set_epoch)
        if new.next_broker_id < old.next_broker_id or (new.replicas and new.next_broker_id <= max(new.replicas)):
            self.fail("the next id %d was handed out already", new.next_broker_id)
        if new.master is not None and new.master not in new.sync_state_set:
            self.fail("master %d is not in its SyncStateSet %s", new.master, sorted(new.sync_state_set))
        if new.master is not None and new.master_epoch == old.master_epoch:
            if self.is_kept:
                self.is_waited_for(new)
        elif new.master is not None:
            self.new_master(new)
        if self.settings.profile == "calm" and old.is_elected and new.master_epoch != old.master_epoch:
            self.fail("master %s after %s without a reason", new.master, old.master)

    def is_waited_for(self, new):
        """Check that the master waits for everybody who may lead after it."""
        master = self.by_id[new.master]
        union = master.sync_state_set | master.pending
        if master.is_leading and master.epoch == new.master_epoch and not new.sync_state_set <= union:
            self.fail("in sync are %s, the master waits for %s", sorted(new.sync_state_set), sorted(union))

    def new_master(self, new):
        if self.has_own_epochs:
            known = self.elected_epochs.setdefault(new.master_epoch, new.master)
            if known != new.master:
                self.fail("epoch %d has the masters %d and %d", new.master_epoch, known, new.master)
        self.has_all(self.by_id[new.master], may_lose=new.master_epoch in self.unclean_epochs)

    def has_all(self, broker, *, may_lose):
        if self.is_unclean or may_lose:
            while self.acked != broker.log[: len(self.acked)]:
                self.acked.pop()
        elif self.keeps_messages and broker.log[: len(self.acked)] != self.acked:
            self.fail("master %s has %d messages, %d were acknowledged", broker.id, len(broker.log), len(self.acked))

    def promoted(self, broker):
        """Check a broker that has just become master."""
        if broker.epoch < broker.file_epoch:
            self.fail("broker %s leads in epoch %d, its log has seen %d", broker.id, broker.epoch, broker.file_epoch)
        if self.has_own_epochs:
            who = broker.id, broker.starts
            known = self.masters.setdefault(broker.epoch, who)
            if known != who:
                self.fail("two processes lead in epoch %d: %s and %s", broker.epoch, known, who)
        self.has_all(broker, may_lose=broker.epoch in self.unclean_epochs)

    def acknowledged(self, broker, end):
        """Take note of what a master has told a producer."""
        if not self.keeps_messages:
            if len(broker.log) > len(self.acked):
                self.acked = broker.log[:end]
            return
        same = min(end, len(self.acked))
        if broker.log[:same] != self.acked[:same]:
            self.fail("broker %d acknowledges another history than the one before", broker.id)
        self.acked += broker.log[same:end]

    def count_as_one(self, broker, master, end):
        """Check two logs that a broker takes for one and that differ."""
        if self.has_own_epochs:
            self.fail("the logs of %s and %s count as one up to %d, and differ", broker.id, master.id, end)

    def has_nothing_in_common(self, broker):
        """Let an operator empty a broker that can never follow, as where an empty one has led after it.

        That happens after a lost store, in an unclean election, and before the first message was confirmed
        (apache/rocketmq#9942). Confirmed messages that are lost by it are found where the other begins to lead.
        """
        if self.heal_from_ms:
            broker.epochs, broker.log = [], []

    def identified(self, broker):
        other = self.by_id.setdefault(broker.id, broker)
        if other is not broker:
            if self.is_kept:
                self.fail("two brokers have the id %d", broker.id)
            # A lost store gives ids again that running brokers have: nobody can follow a set with twins.
            self.is_over = True
        self.tell("broker at %s has the id %d", broker.address, broker.id)

    def is_unwell(self, controller, broker_id, dead=None):
        """Fail if a broker is judged dead that this controller could reach all the time."""
        broker = self.by_id[broker_id]
        fine_ms = min(self.now_ms - broker.fine_since_ms, self.now_ms - controller.fine_since_ms)
        if broker.reaches(controller) and broker.is_running and fine_ms > WELL_MS:
            why = dead.reason if dead else "not heard"
            self.fail("%s judges broker %d dead, well for %d ms: %s", controller.me.id, broker_id, fine_ms, why)

    def one_leads(self, controller):
        for other in self.controllers:
            if other is not controller and other.is_up and not other.is_frozen and other.leads and self.is_kept:
                self.fail("%s and %s lead at once", controller.me.id, other.me.id)

    def decided(self, decision, entry):
        """Take note of an election that says itself that messages may be lost."""
        if decision.reply.is_unclean:
            self.unclean_epochs.add(decision.after(entry).broker_set.master_epoch)

    def elected(self, controller, changed, wanted, known):
        """Check the reason of an election."""
        election, before, after = changed.decision.reply, changed.before, changed.after
        self.elections += 1
        if {each.broker_id for each in election.candidates} != before.replicas.keys():
            self.fail("an election without a verdict on some broker: %s", election.candidates)
        chosen = [each for each in election.candidates if each.verdict in (Verdict.ELECTED, Verdict.KEPT)]
        if len(chosen) != (election.result is not Result.NOBODY):
            self.fail("%s with the chosen %s", election.result, chosen)
        if election.result is Result.NEW_MASTER:
            if chosen[0].broker_id != after.master:
                self.fail("%s was chosen, %s is master", chosen, after.master)
            # Strangers do not count: anybody can send a heartbeat.
            heard = max((each.epoch for i, each in known.items() if self.is_honest(i, before)), default=0)
            if after.master_epoch <= heard:
                self.fail("epoch %d is handed out, %d was heard", after.master_epoch, heard)
            self.tell("%s elects %s (asked: %s)", controller.me.id, after.master, wanted)
        cause = Cause(trigger=Trigger.NO_MASTER, why="simulated")
        held = Held(before=before, after=after, cause=cause, election=election, last=known, commit_ms=0)
        record, _ = self.reasons.add(held, self.now_ms)
        if not record.reason:
            self.fail("an election without a reason")

    def is_honest(self, broker_id, broker_set):
        """Tell whether what is heard of a broker can be what its log has seen in this set."""
        broker = self.by_id.get(broker_id)
        is_lied_about = self.settings.profile in ("liar", "calm")
        return broker_id in broker_set.replicas and broker is not None and not is_lied_about

    # The end

    def suffer(self, fault):
        self.tell("FAULT %s", fault)
        injection.ACTS[fault.kind](self, fault)

    def heal(self):
        """Mend everything, and wait until all is well."""
        self.tell("all faults are over")
        injection.mend_everything(self)
        self.heal_from_ms = self.now_ms
        self.messages_before = len(self.acked)
        self.every(self.now_ms + 1_000, 1_000, self.look_whether_well)

    def look_whether_well(self):
        ill = self.what_is_ill()
        if ill is None:
            self.tell("all is well")
            self.is_over = True
        elif self.now_ms > self.heal_from_ms + HEALED_WITHIN_MS:
            self.fail("not well %d ms after the last fault: %s", self.now_ms - self.heal_from_ms, ill)

    def what_is_ill(self):
        broker_set = self.store.kept.entry.broker_set
        if broker_set is None or broker_set.master is None:
            return "there is no master"
        leading = [each for each in self.brokers if each.is_leading]
        master = self.by_id[broker_set.master]
        if leading != [master] or master.epoch != broker_set.master_epoch:
            return f"master is {master.id}, but {[each.id for each in leading]} lead"
        if any(each.master != master.id or each.epoch != master.epoch for each in self.brokers):
            return "not all follow the master"
        if broker_set.sync_state_set != {each.id for each in self.brokers}:
            return f"in sync are {sorted(broker_set.sync_state_set)}"
        if self.acked != master.log[: len(self.acked)] and self.keeps_messages:
            self.fail("acknowledged messages are lost")
        return None if len(self.acked) > self.messages_before else "nothing is acknowledged"
