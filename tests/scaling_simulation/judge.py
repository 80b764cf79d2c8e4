"""What must hold in a history of a resize: see `world.py`. Each excuse is of a message, a group, a queue or a set."""

from bisect import bisect_left

from controller.scaling.resize.operation import WRITE_PERM
from controller.scaling.rules.path import path_of
from remoting.protocol.codes import BrokerRequestCode
from scaling_simulation.brokers import LOCK_MS, equal_counts
from scaling_simulation.histories import WAITS
from serving.shapes.scaling import NEEDS_OPERATOR, ResizeKind, ResizePhase

#: What changes is noticed by the next rounds.
UNNOTICED_MS = 10_000
#: With answers missing it may take longer.
NOTICED_MS = 120_000
#: An answer to a send is there by then; what comes later was delayed.
SENT_WITHIN_MS = 5_000
#: How much longer than allowed a pause may last, beside the time without a leader.
PAUSE_SLACK_MS = 60_000
#: Phases in which new queues of a gated resize are locked.
_LOCKED = frozenset({
    ResizePhase.GATE, ResizePhase.SEED, ResizePhase.READ_UP, ResizePhase.WRITE_UP, ResizePhase.RELEASE,
    ResizePhase.BLOCKED, ResizePhase.CONFLICT,
})  # fmt: skip
_PAUSE_ENDS = frozenset({ResizePhase.ROLLBACK, ResizePhase.RESIZE, ResizePhase.UNPAUSE})
#: Writes that only the phases of a resize make: locks are renewed as well while nobody has decided about a conflict.
_CHANGES = frozenset({BrokerRequestCode.UPDATE_AND_CREATE_TOPIC, BrokerRequestCode.UPDATE_CONSUMER_OFFSET})


class Judge:
    def __init__(self, world):
        self.world, self.settings = world, world.settings
        #: What an operator has changed: set -> the numbers before it; and numbers that change where keys go.
        self.foreign = {}
        self.foreign_counts = []
        self.foreign_ms = 0
        #: When a change of the resize has last reached a broker after a later phase had begun.
        self.late_ms = None
        #: Queues that a group has got although a gated resize held them back, and why.
        self.slips = {}
        self.has_lapsed = False
        self.phases = []
        #: When each phase was last entered, and first.
        self.began_ms, self.first_ms = {}, {}

    @property
    def operation(self):
        return self.world.controller.operation

    @property
    def waived(self):
        return () if self.operation is None else self.operation.options.waived_groups

    # Order

    def is_odd(self, route):
        """Return whether others than the resize have changed which queues producers see."""
        if any(counts is each for counts in route.counts.values() for each in self.foreign_counts):
            return True
        if self.world.order_conf is not None:
            return False
        return {name for name, _ in route.written} not in (set(), self.world.covered.keys())

    def excuse_if_foreign(self, message, name, queue_id):
        """Excuse what goes to a queue that an operator has added: no offset of any group is stored there."""
        former = self.foreign.get(name)
        if former is not None and queue_id >= former.write:
            message.is_excused = True

    def inverted(self, group, message, newest):
        world = self.world
        world.note("%s consumes %d of key %d after %d", group.name, message.number, message.key, newest.number)
        if message.strays or newest.strays or not self.keeps_order(group):
            return
        why = self.slips.get((group.name, newest.queue_id), "")
        if why:
            # The operation has to say so in the end, unless the group has come too late for any lock.
            self.has_lapsed |= why == "lapse"
            return
        world.fail("%s: order of key %d: %d after %d", group.name, message.key, message.number, newest.number)

    def keeps_order(self, group):
        """Return whether somebody could know in time that a group consumes in order."""
        if group.name in self.waived:
            return False
        if self.settings.is_ordered:
            return True
        changes = [
            self.first_ms[each] for each in (ResizePhase.WRITE_UP, ResizePhase.WRITE_DOWN) if each in self.first_ms
        ]
        return group.shown_ms is not None and bool(changes) and group.shown_ms < changes[0]

    def locks(self, group, queue_id):
        """Take note of a consumer that gets a queue that a gated resize holds back."""
        operation = self.operation
        if operation is None or operation.kind is not ResizeKind.GATED or operation.phase not in _LOCKED:
            return
        released = {each.queue_id for each in operation.released if each.group == group}
        if queue_id not in range(self.settings.before, self.settings.target) or queue_id in released:
            return
        now_ms, troubled_ms = self.world.now_ms, self.world.troubled_until_ms
        began_ms = next(each.began_ms for each in self.world.groups if each.name == group)
        is_new = group not in operation.gated_groups
        why = "race" if is_new and max(began_ms, troubled_ms) > now_ms - UNNOTICED_MS else ""
        if not is_new and troubled_ms > now_ms - LOCK_MS - 2 * UNNOTICED_MS:
            why = "lapse"
        self.world.note("%s gets queue %d: %s", group, queue_id, why or "nobody else has it")
        self.slips.setdefault((group, queue_id), why)

    # Phases

    def entered(self, operation):
        phase = operation.phase
        self.phases.append(phase)
        self.began_ms[phase] = self.world.now_ms
        self.first_ms.setdefault(phase, self.world.now_ms)
        self.check_masters(operation)
        if phase is ResizePhase.CONFLICT:
            self.check_conflict(operation)
        if phase in (ResizePhase.READ_DOWN, ResizePhase.RESIZE):
            self.check_confirmed(phase)
        if phase is ResizePhase.REOPEN:
            self.check_reopened(operation)
        if ResizePhase.PAUSE in self.first_ms and phase in _PAUSE_ENDS:
            self.check_pause(operation)
        # What an operator resumes looks again before it acts.
        is_resumed = any("resumed by the operator" in each for step in operation.steps[-1:] for each in step.evidence)
        is_ordered = operation.kind is ResizeKind.ORDERED and phase in (ResizePhase.RESIZE, ResizePhase.UNPAUSE)
        if is_ordered and not is_resumed:
            self.check_uncovered(phase)
        if phase in (ResizePhase.BLOCKED, ResizePhase.CONFLICT, ResizePhase.REJECTED) and not operation.problem:
            self.world.fail("%s does not say why", phase.value)

    def check_conflict(self, operation):
        is_late = self.late_ms is not None and self.world.now_ms - self.late_ms < NOTICED_MS
        if not self.foreign and not is_late:
            self.world.fail("a conflict with nobody: %s", operation.problem)

    def check_confirmed(self, phase):
        """Two checks, so far apart, come before queues are closed or keys move."""
        ago = self.phases[::-1]
        if ResizePhase.CONFIRM not in ago or ResizePhase.QUIESCE in ago[: ago.index(ResizePhase.CONFIRM)]:
            self.world.fail("%s without a second check", phase.value)
        after = ago[ago.index(ResizePhase.CONFIRM) - 1]
        lasted_ms = self.began_ms[after] - self.began_ms[ResizePhase.CONFIRM]
        if lasted_ms < WAITS.confirm_ms:
            self.world.fail("%s after checks %d ms apart", phase.value, lasted_ms)

    def check_masters(self, operation):
        """What a phase relies on was seen of the present masters."""
        relied_on = {ResizePhase.READ_DOWN: ResizePhase.QUIESCE, ResizePhase.WRITE_UP: ResizePhase.SEED}
        began_ms = self.began_ms.get(relied_on.get(operation.phase), self.world.now_ms)
        for brokers in self.present():
            if brokers.master is not None and began_ms < brokers.led_ms < self.world.now_ms - UNNOTICED_MS:
                self.world.fail(
                    "%s, and %s has another master since %d ms", operation.phase.value, brokers.name, began_ms
                )

    def check_reopened(self, operation):
        """Closed queues have got a message that nobody could wait for, or a master or an answer has failed."""
        world = self.world
        if operation.steps[-1].phase not in (ResizePhase.READ_DOWN, ResizePhase.WATCH):
            return
        began_ms = self.began_ms[ResizePhase.READ_DOWN]
        came = [
            message
            for each in operation.confirmed
            for message in world.sets[each.broker_name].queues.get(each.queue_id, ())[each.offset :]
        ]
        for message in came:
            is_accepted = self.settings.accepts_late and message.appended_ms - message.sent_ms > SENT_WITHIN_MS
            if not (message.is_stale or message.is_excused or is_accepted):
                world.fail("queues were closed too early for the message that was sent at %d ms", message.sent_ms)
        # A topic that was deleted just before the write is made anew by it, with empty queues.
        has_failed = world.is_deleted or any(each.led_ms > began_ms - UNNOTICED_MS for each in world.covered.values())
        if not came and not has_failed and world.now_ms - began_ms < WAITS.verify_ms:
            world.fail("queues are opened again although nobody is to blame")

    def check_uncovered(self, phase):
        """Keys do not move while a set that is not resized takes them; with the entry, producers send it none."""
        if self.settings.gives_order_conf:
            return
        if any(each.counts and each.counts.perm & WRITE_PERM for each in self.world.covered.values()):
            return
        for brokers in self.world.sets.values():
            is_new = brokers.master is None or self.world.now_ms - brokers.led_ms < 2 * UNNOTICED_MS
            is_seen = any(brokers.name in each.counts for each in self.world.name_servers if each.is_up)
            if brokers.name not in self.world.covered and is_seen and not is_new:
                self.world.fail("%s, and %s takes all keys", phase.value, brokers.name)

    def check_pause(self, operation):
        if not (_PAUSE_ENDS | {ResizePhase.CONFLICT}).isdisjoint(self.phases[:-1]):
            return
        lasted_ms = self.world.now_ms - self.first_ms[ResizePhase.PAUSE]
        longest_ms = self.settings.pause_ms + self.world.controller.absent_all_ms + PAUSE_SLACK_MS
        if lasted_ms > longest_ms and operation.reached <= 1:
            self.world.fail("no writes for %d ms", lasted_ms)
        if "no writes" in operation.problem and lasted_ms < self.settings.pause_ms:
            self.world.fail("undone after %d ms: %s", lasted_ms, operation.problem)

    # Writes

    def writes(self, peer, request):
        """Judge a write that is sent."""
        operation = self.operation
        is_change = request.code in _CHANGES
        if operation.is_finished or (is_change and operation.phase is ResizePhase.CONFLICT):
            self.world.fail("%d in %s", request.code, operation.phase.value)
        if request.code != BrokerRequestCode.UPDATE_AND_CREATE_TOPIC:
            return
        # Between the answer that it rests on and a write that is slow, numbers can change.
        is_slow = self.world.now_ms < self.world.controller.slow_until_ms + UNNOTICED_MS
        is_settled = not is_slow or self.world.now_ms - self.foreign_ms > UNNOTICED_MS
        if is_settled and peer.counts not in path_of(operation.kind, operation.set_of(peer.name)):
            self.world.fail("numbers of somebody else are overwritten: %s of %s", peer.counts, peer.name)

    def changes_counts(self, brokers, counts):
        self.world.note("%s: %s", brokers.name, counts)
        # A topic that was deleted just before the write is made anew by it.
        brokers.is_remade |= brokers.master.counts is None
        before = brokers.master.counts or counts
        if counts.write > counts.read:
            self.world.fail("%s gets more write queues than read queues: %s", brokers.name, counts)
        is_resized = (counts.read, counts.write) != (before.read, before.write)
        if self.operation.phase is ResizePhase.RESIZE and is_resized:
            self.check_all_consumed()

    def check_all_consumed(self):
        """While the numbers of an ordered topic change, no key has a message that is not consumed."""
        for group in self.world.groups:
            if group.name not in self.waived and group.exists_ms is not None:
                for message in self.missed(group.seen, group.exists_ms):
                    if not message.strays:
                        self.world.fail("numbers change, and %s", lost(group, message))

    def operator_changed(self, brokers, counts):
        before = brokers.master.counts
        former = self.foreign.setdefault(brokers.name, before)
        if {counts.write, before.write} != {former.write}:
            self.foreign_counts.append(counts)
        self.foreign_ms = self.world.now_ms

    # The end

    def missed(self, seen, exists_ms):
        """Return the messages that were acknowledged after a time, and not consumed."""
        world = self.world
        ids = (each for each in world.acked_ids[bisect_left(world.acked_ms, exists_ms) :] if each not in seen)
        return [message for each in ids if not (message := world.messages[each]).is_excused]

    def unconsumed(self):
        """Yield a sentence for each message that a group has not consumed, and cannot."""
        for group in self.world.groups:
            if group.name in self.waived or group.exists_ms is None:
                continue
            if group.is_broadcast:
                for member in group.members:
                    if member.exists_ms is not None:
                        missed = self.missed(member.seen, member.exists_ms + 1)
                        yield from (lost(group, each) for each in missed if not self.is_closed(each))
                continue
            for message in self.missed(group.seen, group.exists_ms):
                if self.is_lost(group, message):
                    yield lost(group, message)

    def is_closed(self, message):
        """Return whether an operator has closed the queue."""
        return message.broker_name in self.foreign and not self.world.sets[message.broker_name].serves(message.queue_id)

    def is_lost(self, group, message):
        if self.is_closed(message):
            return False
        operation = self.operation
        # Until an operator decides, new queues stay locked.
        is_locked = operation is not None and operation.kind is ResizeKind.GATED and operation.phase in NEEDS_OPERATOR
        if group.members and not is_locked:
            return True
        brokers = self.world.sets[message.broker_name]
        stored = brokers.offset(group.name, message.queue_id)
        return stored is None or stored > message.at or not brokers.serves(message.queue_id)

    def disagreement(self):
        for brokers in self.present():
            counts = brokers.master.counts
            for each in brokers.slaves:
                if each.counts != counts:
                    return f"slave {each.address} shows {each.counts}, its master {counts}"
            for server in self.world.name_servers:
                if server.counts.get(brokers.name) != counts:
                    return f"{server.address} shows {server.counts.get(brokers.name)} of {brokers.name}, not {counts}"
        return None

    def present(self):
        """Yield the sets that still have the topic."""
        return (each for each in self.world.covered.values() if each.last_master.counts is not None)

    def check_end(self):
        if (differs := self.disagreement()) is not None:
            self.world.fail("%s", differs)
        if (sentence := next(self.unconsumed(), None)) is not None:
            self.world.fail("%s", sentence)
        if self.operation is not None:
            self.check_numbers(self.operation)

    def check_numbers(self, operation):
        if self.has_lapsed and operation.is_finished and not operation.lapse:
            self.world.fail("locks have lapsed, and %s does not say so", operation.phase.value)
        expected = {ResizePhase.DONE: self.settings.target, ResizePhase.ABORTED: self.settings.before}
        wanted = expected.get(operation.phase)
        is_left = operation.phase is ResizePhase.ABORTED and ResizePhase.CONFLICT in self.phases
        if wanted is None or is_left or self.world.is_deleted:
            return
        for brokers in self.present():
            if brokers.master.counts != equal_counts(wanted):
                self.world.fail("%s, and %s shows %s", operation.phase.value, brokers.name, brokers.master.counts)
        if self.settings.has_order_conf and any(self.present()):
            # Of a set that was given up after the entry was written, its part stays.
            confs = [
                order_conf(names, wanted) for names in (self.world.covered, [each.name for each in self.present()])
            ]
            for each in self.world.name_servers:
                if each.order_conf not in confs:
                    self.world.fail("%s has orderTopicConf %s, not %s", each.address, each.order_conf, confs[0])


def order_conf(names, queues):
    return ";".join(f"{name}:{queues}" for name in names)


def lost(group, message):
    return (
        f"{group.name} ({group.kind}) has not consumed message {message.at} of "
        f"{message.broker_name}/{message.queue_id}, sent {message.sent_ms} ms"
    )
