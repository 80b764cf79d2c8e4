"""Controllers, their store and broker sets in one thread of virtual time, and what must always hold.

The controllers are the product's, with switchovers, rolling restarts, holds and role checks. Everything is decided by
the settings and the plan of faults, so that a history can be run again, and without some of its faults. `Violation`
says what did not hold; `broker_sets.py` judges one set.

Left out, so no history shows it:
- Java's own faults: an epoch file that outlives its log (`Broker.begin_epoch` is kinder), a SyncStateSet report that
  overwrites another (6.14), the topics, offsets and consume queues beside a log, NameServers and their routes.
- Lost disks where a fixed number of replicas confirms, in lost or restored stores, and where a controller never reaches
  the port of a broker: nobody can know enough there.
- A disk of a controller: with etcd it has none. Faults of the members of etcd: it stops, loses or delays as a whole.
- More than two sets, three hosts and three controllers; clocks of brokers; messages larger than one offset.
- Loss within a second by a disk that nobody has reported: `SimulatedSet.is_unknowable`.
"""

from asyncio import events
from heapq import heappop, heappush

from simulation import etcd, injection
from simulation.broker_sets import SimulatedSet
from simulation.controllers import Controller, config_of
from simulation.faults import Fault, Settings
from simulation.role_proxies import RoleProxy

#: Within so long after the last fault everything must be well again.
HEALED_WITHIN_MS = 40_000
#: So long after the end of the last fault everything is mended that is not yet.
MENDED_AFTER_MS = 1_000
#: A world in which nothing goes wrong begins to be looked at then.
BEGUN_MS = 6_000
#: Within so long a healthy core has a master, whatever else is broken: where most hosts are silent 60 s are waited
#: (`SILENCE_MS_MAX`), beside the lease of a controller, the longest heartbeat timeout and the pause of a new leader.
CORE_WITHIN_MS = 100_000
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
        self.keeps_messages = settings.profile not in ("unclean", "lost", "late")
        #: The store has whatever it said it had.
        self.is_kept = settings.profile not in ("lost", "late")
        #: No epoch is handed out twice: what is lost of the store shows, as brokers know higher ones.
        self.has_own_epochs = settings.profile != "lost"
        #: What did not hold; the product may have caught the exception that says so.
        self.violation = None
        #: Pairs of controllers and hosts of which the first cannot reach the second: how it ends to try so.
        self.blocked = dict(settings.blocked)
        #: Those of them between which there was a way once: what is refused there counts as proof.
        self.was_blocked = set()
        self.is_over = False
        #: By how much the next reports of a SyncStateSet come late.
        self.late_reports_ms = []
        self.heal_from_ms = 0
        #: What goes wrong stays so, and ends no more.
        self.is_left_alone = False
        #: The process whose event loop runs, or ran last.
        self.running = None
        self.etcd = etcd.Etcd(self)
        self.controllers = []
        self.sets = [SimulatedSet(self, number) for number in range(settings.sets)]
        self.brokers = [broker for each in self.sets for broker in each.brokers]
        #: Brokers that run with a copy of the disk of another one.
        self.copies = []
        self.elections = 0
        for i in range(settings.controllers):
            self.at(settings.controller_phases_ms[i], lambda i=i: self.controllers[i].start())
            self.controllers.append(Controller(self, i))
        for broker in self.brokers:
            broker.start()
            self.every(300 + settings.broker_phases_ms[broker.place], 1_000, broker.live)
        for fault in plan:
            self.at(fault.at_ms, lambda fault=fault: self.suffer(fault))
        self.proxies = [RoleProxy(each) for each in self.sets if settings.is_planned]
        if settings.is_planned:
            self.every(1_000, 1_000, lambda: injection.restart_whom_controllers_name(self))
        if settings.core_ms:
            self.at(settings.core_ms, self.leave_a_core)
            return
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

    def set_of(self, name):
        return next(each for each in self.sets if each.name == name)

    def set_of_key(self, key):
        return self.set_of(key.rpartition(b"/")[2].decode())

    def at_address(self, address):
        return next(each for each in (*self.brokers, *self.copies) if each.address == address)

    def way_to(self, controller, broker):
        """Return what comes of an attempt of a controller to reach the port of a broker."""
        if controller.index in broker.cut_controllers:
            return "silent"
        return self.blocked.get((controller.index, broker.place), "open")

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

    def look_who_leads(self):
        leading = [each.me.id for each in self.controllers if each.is_up and not each.is_frozen and each.leads]
        if len(leading) > 1 and self.is_kept:
            self.fail("%s lead at once", " and ".join(leading))

    # The end

    def suffer(self, fault):
        if not self.is_left_alone:
            self.note("FAULT %s", fault)
            injection.ACTS[fault.kind](self, fault)

    def leave_a_core(self):
        """Let nothing more go wrong, and nothing be mended but one broker of each set and most controllers."""
        self.is_left_alone = True
        self.core = {each: each.core for each in self.sets if each.core is not None}
        self.note("left alone are %s", [broker.id for broker in self.core.values()])
        injection.mend_core(self, self.core.values())
        self.look_at_core()

    def look_at_core(self):
        # A report that was on its way may have taken it out of the SyncStateSet.
        in_sync = [each for each, broker in self.core.items() if each.has_in_sync(broker)]
        ill = [each.name for each in in_sync if not each.is_served]
        if not ill:
            self.heal()
        elif self.now_ms > self.settings.core_ms + CORE_WITHIN_MS:
            self.fail("a healthy core has no master of %s after %d ms", ", ".join(ill), CORE_WITHIN_MS)
        else:
            self.at(self.now_ms + LOOK_MS, self.look_at_core)

    def heal(self):
        """Mend everything, and wait until all is well."""
        self.note("all faults are over")
        self.is_left_alone = True
        injection.mend_everything(self)
        self.heal_from_ms = self.now_ms
        for each in self.sets:
            each.messages_before = len(each.acked)
        self.every(self.now_ms + LOOK_MS, LOOK_MS, self.look_whether_well)

    def look_whether_well(self):
        parts = (*self.sets, *self.proxies)
        ill = next((ill for ill in (each.what_is_ill() for each in parts) if ill is not None), None)
        if ill is not None and self.settings.confirmed_on:
            # Ids that no broker has count as replicas (OPERATIONS.md).
            injection.clean_unused_ids(self)
        if ill is None:
            self.note("all is well")
            self.is_over = True
        elif self.now_ms > self.heal_from_ms + HEALED_WITHIN_MS:
            self.fail("not well %d ms after the last fault: %s", self.now_ms - self.heal_from_ms, ill)
