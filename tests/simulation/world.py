"""Controllers, their store and the brokers of one set in one thread of virtual time, and what must always hold.

The controllers are the product's. Everything is decided by the settings and the plan of faults, so that a history can
be run again, and without some of its faults. `Violation` says what did not hold.
"""

from asyncio import events
from contextlib import contextmanager
from heapq import heappop, heappush
from unittest import mock

from controller.decisions.election import ElectionResult, Verdict
from controller.sets.broker_set import BrokerSet
from controller.storage.etcd import calls
from simulation import etcd, injection
from simulation.brokers import Broker
from simulation.controllers import Controller, config_of
from simulation.faults import Fault, Settings

#: Within so long after the last fault everything must be well again.
HEALED_WITHIN_MS = 40_000
#: So long after the end of the last fault everything is mended that is not yet.
MENDED_AFTER_MS = 1_000
#: A world in which nothing goes wrong begins to be looked at then.
BEGUN_MS = 6_000
#: A broker that was well for so long must not be called dead.
WELL_MS = 1_600
#: A controller that runs for so long has heard everybody that is well.
CONTACT_MS = 4_000
#: Nobody is elected by what brokers answered longer ago.
ANSWERS_KEPT_MS = 3_000
#: How often it is looked whether all is well.
LOOK_MS = 500


class Violation(AssertionError):
    """Something does not hold that must."""


class World:
    def __init__(self, settings: Settings, plan: tuple[Fault, ...]):
        self.settings = settings
        self.config = config_of(settings)
        self.now_ms = 0
        self.queue = []
        self.numbers = 0
        self.events = 0
        #: What happened, for people; None where nobody reads it.
        self.story = None
        self.is_unclean = settings.profile == "unclean"
        self.keeps_messages = settings.profile in ("safe", "fixed", "calm", "liar")
        #: The master epochs of elections that may lose messages.
        self.unclean_epochs = set()
        #: The store has whatever it said it had.
        self.is_kept = settings.profile not in ("lost", "late")
        #: No epoch is handed out twice: what is lost of the store shows, as brokers know higher ones.
        self.has_own_epochs = settings.profile != "lost"
        #: What did not hold; the product may have caught the exception that says so.
        self.violation = None
        #: Pairs of controllers and brokers of which the first cannot reach the second: how it ends to try so.
        self.blocked = dict(settings.blocked)
        #: Those of them between which there was a way once: what is refused there counts as proof.
        self.was_blocked = set()
        self.is_over = False
        #: By how much the next reports of a SyncStateSet come late.
        self.late_reports_ms = []
        #: When a master last reported a broker as in sync, by broker id.
        self.reported_ms = {}
        self.heal_from_ms = 0
        # What the world knows, and no controller
        self.acked = []
        #: How much of it at least while a controller reached the master that did.
        self.acked_in_reach = 0
        #: When each broker told last how far its log is, and how much was acknowledged by then.
        self.reported_log_ends = {}
        #: Whether the leader may know on how many replicas messages are confirmed.
        self.leader_knows_properties = False
        self.masters, self.elected_epochs = {}, {}
        self.highest_epoch = 0
        #: The process whose event loop runs, or ran last.
        self.running = None
        self.etcd = etcd.Etcd(self)
        self.controllers = []
        self.brokers = []
        #: Brokers that run with a copy of the disk of another one.
        self.copies = []
        self.by_id = {}
        self.elections = 0
        for i in range(settings.controllers):
            self.at(settings.controller_phases_ms[i], lambda i=i: self.controllers[i].start())
            self.controllers.append(Controller(self, i))
        for i in range(settings.brokers):
            self.brokers.append(Broker(self, i))
            self.brokers[i].start()
            self.every(300 + settings.broker_phases_ms[i], 1_000, self.brokers[i].live)
        for fault in plan:
            self.at(fault.at_ms, lambda fault=fault: self.suffer(fault))
        ends_ms = max((fault.at_ms + fault.for_ms + MENDED_AFTER_MS for fault in plan), default=BEGUN_MS)
        self.at(max(ends_ms, BEGUN_MS), self.heal)

    # Time

    def at(self, at_ms, act):
        self.numbers += 1
        heappush(self.queue, (at_ms, self.numbers, act))

    def every(self, first_ms, pause_ms, act):
        def again():
            act()
            self.at(self.now_ms + pause_ms, again)

        self.at(first_ms, again)

    def run(self):
        queue = self.queue
        try:
            while not self.is_over:
                self.now_ms, _, act = heappop(queue)
                self.events += 1
                act()
        finally:
            for each in self.controllers:
                each.crash()
            self.running = None
            events._set_running_loop(None)
        if self.violation is not None:
            raise Violation(self.violation)

    def next_number(self):
        self.numbers += 1
        return self.numbers

    def note(self, words, *values):
        if self.story is not None:
            self.story.append(f"{self.now_ms:>6} ms  {words % values}")

    # Between brokers and controllers

    def at_address(self, address):
        return next(each for each in (*self.brokers, *self.copies) if each.address == address)

    def way_to(self, controller, broker):
        """Return what comes of an attempt of a controller to reach the port of a broker."""
        if controller.index in broker.cut_controllers:
            return "silent"
        return self.blocked.get((controller.index, broker.index), "open")

    def leader_for(self, broker):
        """Return the master that a broker follows."""
        return self.by_id.get(broker.master)

    # What must hold

    def fail(self, words, *values):
        if self.is_over and self.violation is None:
            # What else comes of the moment that ended it is not judged.
            return
        if self.violation is None:
            self.note("VIOLATION: " + words, *values)
            self.violation = words % values
        self.is_over = True
        raise Violation(self.violation)

    def note_failure(self, words, error=None):
        """Take note that something in the product failed that must not."""
        if not isinstance(error, Violation) and self.violation is None:
            self.note("VIOLATION: %s", words)
            self.violation, self.is_over = words, True

    def stored(self, before, after, process):
        """Check an entry that has just been stored."""
        old, new = before.broker_set, after.broker_set
        if self.etcd.leading_process is not process:
            self.fail("stored by a controller that does not lead")
        if old is None:
            floor = before.floor
            if new is not None and new.master_epoch < floor.master_epoch:
                self.fail("begins at epoch %d below its floor %d", new.master_epoch, floor.master_epoch)
            return
        if new is None:
            if after.floor.master_epoch < old.master_epoch:
                self.fail("forgets the epoch %d", old.master_epoch)
            self.note("stored: the set is cleaned")
            # Who cleans a whole set gives up its messages.
            self.acked = []
            self.acked_in_reach = 0
            return
        self.moved(old, new)

    def moved(self, old: BrokerSet, new: BrokerSet):  # noqa: C901  # one condition after the other
        self.note(
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
            if self.is_kept and not self.settings.confirmed_on:
                self.is_waited_for(new)
        elif new.master is not None:
            self.new_master(old, new)
        if self.settings.profile == "calm" and old.is_elected and new.master_epoch != old.master_epoch:
            self.fail("master %s after %s without a reason", new.master, old.master)

    def is_waited_for(self, new):
        """Check that the master waits for everybody who may lead after it."""
        master = self.by_id[new.master]
        union = master.sync_state_set | master.pending
        if master.is_leading and master.epoch == new.master_epoch and not new.sync_state_set <= union:
            self.fail("in sync are %s, the master waits for %s", sorted(new.sync_state_set), sorted(union))

    def new_master(self, old, new):
        if new.sync_state_set != {new.master}:
            self.fail("master %d begins with %s in sync", new.master, sorted(new.sync_state_set))
        if self.is_certainly_unclean(old, new):
            self.unclean_epochs.add(new.master_epoch)
        if self.has_own_epochs:
            known = self.elected_epochs.setdefault(new.master_epoch, new.master)
            if known != new.master:
                self.fail("epoch %d has the masters %d and %d", new.master_epoch, known, new.master)
        self.has_all(self.by_id[new.master], may_lose=new.master_epoch in self.unclean_epochs)

    def is_certainly_unclean(self, old, new):
        """Tell whether an election is one that says itself that messages may be lost: somebody lied about epochs."""
        is_known = old.is_elected and not old.is_rebuilding
        return self.settings.profile == "liar" and is_known and new.master not in old.sync_state_set

    def has_all(self, broker, *, may_lose):
        is_excused = self.is_unclean or may_lose or self.is_beyond_reach(broker)
        if is_excused:
            while self.acked != broker.log[: len(self.acked)]:
                self.acked.pop()
            self.acked_in_reach = min(self.acked_in_reach, len(self.acked))
        elif self.keeps_messages and broker.log[: len(self.acked)] != self.acked:
            self.fail("master %s has %d messages, %d were acknowledged", broker.id, len(broker.log), len(self.acked))

    def is_beyond_reach(self, broker):
        """Tell whether no controller can know what a broker lacks, where a fixed number of replicas confirms.

        Either no broker has told the leader that it does. Or a master that no controller reached acknowledged it after
        so many had told how far their logs are that one of them had all that was confirmed by then (OPERATIONS.md).
        """
        confirmed_on, broker_set = self.settings.confirmed_on, self.etcd.entry.broker_set
        if not confirmed_on:
            return False
        if not self.leader_knows_properties:
            return True
        log_ends = [
            acked
            for answered_ms, acked in self.reported_log_ends.values()
            if answered_ms >= self.now_ms - ANSWERS_KEPT_MS
        ]
        if len(log_ends) < len(broker_set.replicas) - confirmed_on + 1:
            return False
        known = max(min(log_ends), self.acked_in_reach)
        return self.acked[:known] == broker.log[:known]

    def reported_log_end(self, broker):
        self.reported_log_ends[broker.index] = self.now_ms, len(self.acked)

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
        current = self.etcd.entry.broker_set
        if self.settings.confirmed_on and current is not None and broker.epoch < current.master_epoch:
            # No controller can fence a master of Java that it cannot reach: without allAckInSyncStateSet it may go on
            # with a slave that has not heard of the next one either (docs/protocol/controller.md 6.12).
            return
        if not self.keeps_messages:
            if len(broker.log) > len(self.acked):
                self.acked = broker.log[:end]
            return
        same = min(end, len(self.acked))
        if broker.log[:same] != self.acked[:same]:
            self.fail("broker %d acknowledges another history than the one before", broker.id)
        self.acked += broker.log[same:end]
        if any(each.is_up and broker.reaches(each) for each in self.controllers):
            self.acked_in_reach = len(self.acked)

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

    def copy_gets_role(self, copy):
        """Fail if a copy takes the place of a living broker: both would be the master that their id names.

        After a loss of the store whoever comes first with an id has it: nobody knows where its broker was.
        """
        if not self.is_kept:
            return
        last_contact_ms = min((self.now_ms - each.fine_since_ms for each in self.controllers if each.is_up), default=0)
        if last_contact_ms > CONTACT_MS and self.now_ms - copy.original.running_since_ms > CONTACT_MS:
            self.fail("a copy of broker %d takes its place, which is well", copy.id)
        # A controller that has just started has not heard the other yet.
        self.is_over = True

    def identified(self, broker):
        other = self.by_id.setdefault(broker.id, broker)
        if other is not broker:
            if self.is_kept:
                self.fail("two brokers have the id %d", broker.id)
            # A lost store gives ids again that running brokers have: nobody can follow a set with twins.
            self.is_over = True
        self.note("broker at %s has the id %d", broker.address, broker.id)

    def judged_failed(self, controller, dead):
        """Fail if a broker is judged dead that this controller could reach all the time."""
        broker_id = dead.key.broker_id
        self.note("%s judges broker %d dead: %s", controller.me.id, broker_id, dead.reason)
        broker = self.by_id.get(broker_id)
        if broker is None or (controller.index, broker.index) in self.was_blocked:
            return
        if controller.engine.control.store.address_of(dead.key) not in (None, broker.address):
            # A copy of it has registered at another address, and is meant.
            return
        # While it starts nobody is at its port.
        fine_since_ms = max(broker.fine_since_ms, broker.running_since_ms, controller.fine_since_ms)
        if (controller.index, broker.index) in self.blocked:
            # Only its heartbeats tell, each second.
            fine_since_ms += 1_000
        fine_ms = self.now_ms - fine_since_ms
        if broker.reaches(controller) and broker.is_running and fine_ms > WELL_MS:
            self.fail("%s judges broker %d dead, well for %d ms: %s", controller.me.id, broker_id, fine_ms, dead.reason)

    def look_who_leads(self):
        leading = [each.me.id for each in self.controllers if each.is_up and not each.is_frozen and each.leads]
        if len(leading) > 1 and self.is_kept:
            self.fail("%s lead at once", " and ".join(leading))

    def elected(self, controller, record, *, is_new):
        """Check the reason of an election."""
        if is_new:
            self.elections += 1
        if not record.reason:
            self.fail("an election without a reason")
        chosen = [each for each in record.reports if each.verdict in (Verdict.ELECTED, Verdict.KEPT)]
        if len(chosen) != (record.result is not ElectionResult.NOBODY):
            self.fail("%s with the chosen %s", record.result, chosen)
        if record.result is ElectionResult.NEW_MASTER:
            if chosen[0].broker_id != record.new_master:
                self.fail("%s was chosen, %s is master", chosen, record.new_master)
            if record.is_unclean and not self.is_unclean and record.master_epoch not in self.unclean_epochs:
                self.losses_allowed(record)
            # Strangers do not count: anybody can send a heartbeat. Nor does who is dead, however much it had.
            passed_over = (Verdict.NOT_ALIVE, Verdict.NO_CONTACT_YET)
            living = [each for each in record.reports if each.verdict not in passed_over]
            highest = max((each.epoch or 0 for each in living if self.is_honest(each.broker_id)), default=0)
            if record.master_epoch <= highest:
                self.fail("epoch %d is handed out, %d was heard", record.master_epoch, highest)
        self.note("%s: %s (%s)", controller.me.id, record.reason, record.cause.why)

    def losses_allowed(self, record):
        if self.keeps_messages:
            self.fail("an election that nobody asked for may lose messages: %s", record.reason)

    def is_honest(self, broker_id):
        """Tell whether what is heard of a member can be what its log has seen in this set."""
        return broker_id in self.by_id and self.settings.profile not in ("liar", "calm")

    # The end

    def suffer(self, fault):
        self.note("FAULT %s", fault)
        injection.ACTS[fault.kind](self, fault)

    def heal(self):
        """Mend everything, and wait until all is well."""
        self.note("all faults are over")
        injection.mend_everything(self)
        self.heal_from_ms = self.now_ms
        self.messages_before = len(self.acked)
        self.every(self.now_ms + LOOK_MS, LOOK_MS, self.look_whether_well)

    def look_whether_well(self):
        ill = self.what_is_ill()
        if ill is not None and self.settings.confirmed_on:
            # Ids that no broker has count as replicas (OPERATIONS.md).
            injection.clean_unused_ids(self)
        if ill is None:
            self.note("all is well")
            self.is_over = True
        elif self.now_ms > self.heal_from_ms + HEALED_WITHIN_MS:
            self.fail("not well %d ms after the last fault: %s", self.now_ms - self.heal_from_ms, ill)

    def what_is_ill(self):
        broker_set = self.etcd.entry.broker_set
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


@contextmanager
def light_messages():
    """Let requests to etcd be made of light messages: the etcd of a world reads no others."""
    with mock.patch.object(calls, "messages", etcd.MESSAGES):
        yield
