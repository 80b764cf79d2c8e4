"""The brokers of one set, what they have acknowledged, and what must always hold for it.

An acknowledged message that is still in the log of a member is never given up unless an operator gives it up: whoever
is elected has all of them. Nobody can have what the disks of all members have lost; what no controller could know of
the loss of one disk is not held against it (`is_unknowable`).
"""

from controller.decisions.election import ElectionResult, Verdict
from controller.sets.broker_set import BrokerSet
from controller.sets.stored_set import StoredSet
from simulation.brokers import Broker

#: A broker that was well for so long must not be called dead.
WELL_MS = 1_600
#: A controller that runs for so long has heard everybody that is well.
CONTACT_MS = 4_000
#: So long after an operator wanted a master it is elected, or never.
WISHED_MS = 3_000
#: Nobody is elected by what brokers answered longer ago.
ANSWERS_KEPT_MS = 3_000


def shared(one, other):
    """Return how many messages two histories have in common."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class SimulatedSet:
    def __init__(self, world, number):
        self.world, self.settings = world, world.settings
        self.fail, self.note = world.fail, world.note
        self.name = f"broker-{'ab'[number]}"
        #: As it is stored.
        self.entry = StoredSet()
        #: The master epochs of elections that may lose messages.
        self.unclean_epochs = set()
        # What the world knows, and no controller
        self.acked = []
        #: How much of it at least while a controller reached the master that did.
        self.acked_in_reach = 0
        #: When each broker told last how far its log is, and how much was acknowledged by then.
        self.reported_log_ends = {}
        #: Whether the leader may know on how many replicas messages are confirmed.
        self.leader_knows_properties = False
        self.masters, self.elected_epochs = {}, {}
        self.by_id = {}
        #: Brokers whose disk lost messages, until they have all that their master has.
        self.shrunk = {}
        #: Whom an operator wanted as master last, and when: what it lost is given up with that.
        self.wished = None, 0
        #: A disk has lost messages: elections may say that some may have been acknowledged.
        self.has_lost = False
        #: The most that a master told each controller to be confirmed: (which run of that, how much).
        self.told_confirmed = {}
        #: What leads clients to the master; None where they find it by themselves.
        self.proxy = None
        first = number * self.settings.brokers
        self.brokers = [Broker(self, first + i, place=i) for i in range(self.settings.brokers)]

    @property
    def master(self):
        """The broker that is stored as master; None while nobody is, or it is not known by its id yet."""
        return self.by_id.get(self.entry.broker_set.master) if self.entry.broker_set is not None else None

    @property
    def core(self):
        """A broker in sync that has all that was acknowledged, on a disk that lost nothing; None if there is none."""
        broker_set = self.entry.broker_set
        in_sync = broker_set.sync_state_set if broker_set is not None and broker_set.is_elected else ()
        whole = (each for each in self.brokers if each.id in in_sync and each not in self.shrunk)
        return next((each for each in whole if each.log[: len(self.acked)] == self.acked), None)

    def has_in_sync(self, broker):
        broker_set = self.entry.broker_set
        return broker_set is not None and broker.id in broker_set.sync_state_set

    @property
    def is_served(self):
        """Whether the stored master leads, and the controller that leads can ask it.

        Whether it acknowledges is its own affair: it waits for whom it asked to have in sync, cut off or not.
        """
        master, leader = self.master, self.leading_controller
        is_there = master is not None and leader is not None and master.is_leading and not master.is_frozen
        return is_there and master.has_way_to(leader) and master.epoch == self.entry.broker_set.master_epoch

    def leader_for(self, broker):
        """Return the master that a broker follows."""
        return self.by_id.get(broker.master)

    def stored(self, after, process):
        """Check an entry that has just been stored."""
        before, self.entry = self.entry, after
        old, new = before.broker_set, after.broker_set
        if self.world.etcd.leading_process is not process:
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
            self.shrunk.clear()
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
        if removed := old.replicas.keys() - new.replicas.keys():
            self.given_up(removed)
        if new.sync_state_set != old.sync_state_set:
            leader = self.leading_controller
            for each in self.brokers:
                each.known = each.known_to(leader)
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
            if self.world.is_kept and not self.settings.confirmed_on:
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
        if self.world.has_own_epochs:
            known = self.elected_epochs.setdefault(new.master_epoch, new.master)
            if known != new.master:
                self.fail("epoch %d has the masters %d and %d", new.master_epoch, known, new.master)
        self.has_all(self.by_id[new.master], may_lose=new.master_epoch in self.unclean_epochs)

    def is_certainly_unclean(self, old, new):
        """Tell whether an election is one that says itself that messages may be lost: somebody lied about epochs."""
        is_known = old.is_elected and not old.is_rebuilding
        return self.settings.profile == "liar" and is_known and new.master not in old.sync_state_set

    def has_all(self, broker, *, may_lose):
        is_excused = self.world.is_unclean or may_lose or self.is_beyond_reach(broker)
        if is_excused:
            self.acked = self.acked[: shared(self.acked, broker.log)]
            self.acked_in_reach = min(self.acked_in_reach, len(self.acked))
        elif self.world.keeps_messages and broker.log[: len(self.acked)] != self.acked:
            if broker in self.shrunk and not broker.is_up:
                # It ended before it was elected: it has to register before it leads, and loses the role by that.
                return
            if self.is_unknowable(broker):
                self.acked = self.acked[: shared(self.acked, broker.log)]
                return
            self.fail("master %s has %d messages, %d were acknowledged", broker.id, len(broker.log), len(self.acked))

    # Disks

    @property
    def leading_controller(self):
        leading = self.world.etcd.leading_process
        return next((each for each in self.world.controllers if each.process is leading), None)

    def disk_replaced(self, broker):
        """Count as lost what was acknowledged and is in no log of a member any more."""
        self.shrunk[broker] = self.world.now_ms
        self.has_lost = True
        self.keep_what_is_left()

    def keep_what_is_left(self):
        broker_set = self.entry.broker_set
        members = broker_set.replicas if broker_set is not None else self.by_id
        left = max((shared(self.acked, each.log) for each in self.brokers if each.id in members), default=0)
        if left < len(self.acked):
            self.note("%d acknowledged messages are on no disk any more", len(self.acked) - left)
            del self.acked[left:]

    def given_up(self, removed):
        """Let an operator who takes out a broker, while others have lost messages, give up what only that one has.

        Its disk is emptied before it comes back.
        """
        if self.shrunk:
            for broker in self.brokers:
                if broker.id in removed:
                    broker.replace_disk([], [])
                    if self.world.heal_from_ms:
                        broker.start()
            self.keep_what_is_left()

    def caught_up(self, broker):
        self.shrunk.pop(broker, None)

    def is_unknowable(self, broker):
        """Tell whether no leader can know what a broker that was elected has lost, or an operator wanted this one.

        It has all that it told this leader, or one before that has stored it with a SyncStateSet since, and all that
        a master told to be confirmed: a disk lost what came after, in the last second. Or the election was on its way
        to the store before.
        """
        if broker not in self.shrunk:
            return False
        wished, wished_ms = self.wished
        is_wished = wished is broker and self.world.now_ms - wished_ms < WISHED_MS
        if is_wished or self.shrunk[broker] >= self.world.etcd.sent_ms:
            return True
        leader = self.leading_controller
        run, confirmed = self.told_confirmed.get(leader.index, (0, 0)) if leader is not None else (0, 0)
        known = min(confirmed, len(self.acked)) if leader is not None and run == leader.runs else 0
        return broker.progress >= broker.known_to(leader) and len(broker.log) >= known

    def is_beyond_reach(self, broker):
        """Tell whether no controller can know what a broker lacks, where a fixed number of replicas confirms.

        Either no broker has told the leader that it does. Or a master that no controller reached acknowledged it after
        so many had told how far their logs are that one of them had all that was confirmed by then (OPERATIONS.md).
        """
        confirmed_on, broker_set = self.settings.confirmed_on, self.entry.broker_set
        if not confirmed_on:
            return False
        if not self.leader_knows_properties:
            return True
        log_ends = [
            acked
            for answered_ms, acked in self.reported_log_ends.values()
            if answered_ms >= self.world.now_ms - ANSWERS_KEPT_MS
        ]
        if len(log_ends) < len(broker_set.replicas) - confirmed_on + 1:
            return False
        known = max(min(log_ends), self.acked_in_reach)
        return self.acked[:known] == broker.log[:known]

    def reported_log_end(self, broker):
        self.reported_log_ends[broker.index] = self.world.now_ms, len(self.acked)

    def promoted(self, broker):
        """Check a broker that has just become master."""
        if broker.epoch < broker.file_epoch:
            self.fail("broker %s leads in epoch %d, its log has seen %d", broker.id, broker.epoch, broker.file_epoch)
        if self.world.has_own_epochs:
            who = broker.id, broker.starts
            known = self.masters.setdefault(broker.epoch, who)
            if known != who:
                self.fail("two processes lead in epoch %d: %s and %s", broker.epoch, known, who)
        self.has_all(broker, may_lose=broker.epoch in self.unclean_epochs)

    def acknowledged(self, broker, end):
        """Take note of what a master has told a producer."""
        current = self.entry.broker_set
        if self.settings.confirmed_on and current is not None and broker.epoch < current.master_epoch:
            # No controller can fence a master of Java that it cannot reach: without allAckInSyncStateSet it may go on
            # with a slave that has not heard of the next one either (docs/protocol/controller.md 6.12).
            return
        if not self.world.keeps_messages:
            if len(broker.log) > len(self.acked):
                self.acked = broker.log[:end]
            return
        same = min(end, len(self.acked))
        if broker.log[:same] != self.acked[:same]:
            self.fail("broker %d acknowledges another history than the one before", broker.id)
        self.acked += broker.log[same:end]
        if any(each.is_up and broker.reaches(each) for each in self.world.controllers):
            self.acked_in_reach = len(self.acked)

    def count_as_one(self, broker, master, end):
        """Check two logs that a broker takes for one and that differ."""
        if self.world.has_own_epochs:
            self.fail("the logs of %s and %s count as one up to %d, and differ", broker.id, master.id, end)

    def has_nothing_in_common(self, broker):
        """Let an operator empty a broker that can never follow, as where an empty one has led after it.

        That happens after a lost store, in an unclean election, and before the first message was confirmed
        (apache/rocketmq#9942). Confirmed messages that are lost by it are found where the other begins to lead.
        """
        if self.world.heal_from_ms:
            broker.epochs, broker.log = [], []

    def copy_gets_role(self, copy):
        """Fail if a copy takes the place of a living broker: both would be the master that their id names.

        After a loss of the store whoever comes first with an id has it: nobody knows where its broker was.
        """
        if not self.world.is_kept:
            return
        world = self.world
        last_contact_ms = min(
            (world.now_ms - each.fine_since_ms for each in world.controllers if each.is_up), default=0
        )
        if last_contact_ms > CONTACT_MS and world.now_ms - copy.original.running_since_ms > CONTACT_MS:
            self.fail("a copy of broker %d takes its place, which is well", copy.id)
        # A controller that has just started has not heard the other yet.
        self.world.is_over = True

    def identified(self, broker):
        other = self.by_id.setdefault(broker.id, broker)
        if other is not broker:
            if self.world.is_kept:
                self.fail("two brokers have the id %d", broker.id)
            # A lost store gives ids again that running brokers have: nobody can follow a set with twins.
            self.world.is_over = True
        self.note("broker at %s has the id %d", broker.address, broker.id)

    def judged_failed(self, controller, dead):
        """Fail if a broker is judged dead that this controller could reach all the time."""
        broker_id = dead.key.broker_id
        self.note("%s judges broker %d dead: %s", controller.me.id, broker_id, dead.reason)
        broker = self.by_id.get(broker_id)
        if broker is None or (controller.index, broker.place) in self.world.was_blocked:
            return
        if controller.engine.control.store.address_of(dead.key) not in (None, broker.address):
            # A copy of it has registered at another address, and is meant.
            return
        # While it starts nobody is at its port.
        fine_since_ms = max(broker.fine_since_ms, broker.running_since_ms, controller.fine_since_ms)
        if (controller.index, broker.place) in self.world.blocked:
            # Only its heartbeats tell, each second.
            fine_since_ms += 1_000
        fine_ms = self.world.now_ms - fine_since_ms
        if broker.reaches(controller) and broker.is_running and fine_ms > WELL_MS:
            self.fail("%s judges broker %d dead, well for %d ms: %s", controller.me.id, broker_id, fine_ms, dead.reason)

    def elected(self, controller, record, *, is_new):
        """Check the reason of an election."""
        if is_new:
            self.world.elections += 1
        if not record.reason:
            self.fail("an election without a reason")
        chosen = [each for each in record.reports if each.verdict in (Verdict.ELECTED, Verdict.KEPT)]
        if len(chosen) != (record.result is not ElectionResult.NOBODY):
            self.fail("%s with the chosen %s", record.result, chosen)
        if record.result is ElectionResult.NEW_MASTER:
            if chosen[0].broker_id != record.new_master:
                self.fail("%s was chosen, %s is master", chosen, record.new_master)
            if (
                record.is_unclean
                and not (self.world.is_unclean or self.has_lost)
                and record.master_epoch not in self.unclean_epochs
            ):
                self.losses_allowed(record)
            # Strangers do not count: anybody can send a heartbeat. Nor does who is dead, however much it had.
            passed_over = (Verdict.NOT_ALIVE, Verdict.NO_CONTACT_YET)
            living = [each for each in record.reports if each.verdict not in passed_over]
            highest = max((each.epoch or 0 for each in living if self.is_honest(each.broker_id)), default=0)
            if record.master_epoch <= highest:
                self.fail("epoch %d is handed out, %d was heard", record.master_epoch, highest)
        self.note("%s: %s (%s)", controller.me.id, record.reason, record.cause.why)

    def named_for_restart(self, broker_id):
        """Fail if a rolling restart takes a broker that others need."""
        broker_set = self.entry.broker_set
        if broker_id == broker_set.master or broker_set.sync_state_set != broker_set.replicas.keys():
            self.fail("broker %d is to restart, in sync are %s", broker_id, sorted(broker_set.sync_state_set))

    def losses_allowed(self, record):
        if self.world.keeps_messages:
            self.fail("an election that nobody asked for may lose messages: %s", record.reason)

    def is_honest(self, broker_id):
        """Tell whether what is heard of a member can be what its log has seen in this set."""
        return broker_id in self.by_id and self.settings.profile not in ("liar", "calm")

    def what_is_ill(self):
        broker_set = self.entry.broker_set
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
        if self.acked != master.log[: len(self.acked)] and self.world.keeps_messages:
            self.fail("acknowledged messages are lost")
        return None if len(self.acked) > self.messages_before else "nothing is acknowledged"
