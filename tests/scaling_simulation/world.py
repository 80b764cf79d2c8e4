"""A topic, its brokers, NameServers and clients, and one resize of it, in virtual time; and what must hold.

1. Every group consumes every message that was acknowledged to a producer after the group had begun.
2. An ordered resize keeps the order of each key.
3. A resize ends once faults have: DONE, ABORTED, REJECTED, or BLOCKED or in CONFLICT with a sentence who has to act.
4. writeQueueNums never exceeds readQueueNums, and numbers of somebody else are not overwritten.
5. Masters, slaves and NameServers agree in the end. 6. A resize that was aborted leaves the numbers from before.
7. Queues are closed only after two checks; they are opened again only for a reason.
"""

import random
from heapq import heappop, heappush

from controller.scaling.resize.decision import ChangeCounts, HoldLocks
from controller.scaling.resize.observation import GroupKind
from controller.scaling.resize.operation import ResizePhase
from controller.scaling.rules import commands
from scaling_simulation import injection
from scaling_simulation.brokers import Brokers, NameServer, equal_counts
from scaling_simulation.clients import Group, Message, Producer, missed
from scaling_simulation.controllers import ResizeController, on_path
from scaling_simulation.histories import WAITS

START_MS = 40_000
FAULTS_END_MS = 500_000
#: From the end of faults until a resize has to be over, or to wait for somebody.
OVER_WITHIN_MS = 1_500_000
#: How long a group may take for what is left.
CONSUMED_WITHIN_MS = 400_000
#: How long a resize has to stand still until an operator looks.
STANDS_MS = 40_000
#: A change of masters is noticed by the next rounds.
UNNOTICED_MS = 10_000
_NOT_DONE = frozenset({ResizePhase.BLOCKED, ResizePhase.CONFLICT})


class Violation(AssertionError):
    """Something that must hold does not."""


class World:
    def __init__(self, settings, plan):
        self.settings, self.plan = settings, list(plan)
        self.random = random.Random(settings.seed)
        self.now_ms = 0
        self.story = None
        self._events = []
        self._number = 0
        self.acked_ids, self.acked_ms = [], []
        self.messages = {}
        self.producers_run = True
        self.has_late_actions = self.is_mended = False
        self.was_aborted_in = None
        self.waived = set()
        #: What an operator has changed: set -> the numbers before it.
        self.foreign = {}
        self.loses_by_operator = False
        self.inversions = []
        #: For measurements: inversions are counted, and do not fail.
        self.tolerates_inversions = False
        self.phases = []
        self.began_ms = {}
        self.entered_ms = 0
        self.begin()

    def begin(self):
        settings = self.settings
        names = [f"broker-{letter}" for letter in "abc"[: settings.sets]]
        self.order_conf = ";".join(f"{name}:{settings.before}" for name in names) if settings.has_order_conf else None
        self.name_servers = [NameServer(self, i) for i in range(settings.name_servers)]
        for each in self.name_servers:
            each.order_conf = self.order_conf
        self.sets = {name: Brokers(self, name, settings.slaves, equal_counts(settings.before)) for name in names}
        for brokers in self.sets.values():
            brokers.register()
        self.groups = [
            Group(self, f"group-{i}", GroupKind.CONCURRENT if each.kind is GroupKind.OFFLINE else each.kind, each.batch)
            for i, each in enumerate(settings.groups)
        ]
        self.begin_messages()
        for group, each in zip(self.groups, settings.groups, strict=True):
            group.slow_until_ms = each.slow_until_ms
            for _ in range(0 if each.kind is GroupKind.OFFLINE else each.clients):
                group.join()
        self.producers = [
            Producer(self, i, pause_ms, settings.late_shares[i]) for i, pause_ms in enumerate(settings.producers_ms)
        ]
        self.controller = ResizeController(self)
        self.later(START_MS, self.controller.begin)

    def begin_messages(self):
        """Write some messages, and where groups are; an offline group may have consumed none of the kept queues."""
        for brokers in self.sets.values():
            for queue_id in range(self.settings.before):
                for _ in range(self.random.randrange(4)):
                    message = Message(self.next_id(), -1, 0, 0)
                    brokers.append(message, queue_id)
                    self.acknowledged(message)
        for group, each in zip(self.groups, self.settings.groups, strict=True):
            is_behind = each.kind is GroupKind.OFFLINE and self.random.random() < 0.5
            group.exists_ms = 0 if is_behind else 1
            if group.kind is not GroupKind.BROADCAST:
                self.begin_offsets(group, is_behind=is_behind)
        for brokers in self.sets.values():
            brokers.persist()
            brokers.copy()

    def begin_offsets(self, group, *, is_behind):
        for brokers in self.sets.values():
            for queue_id in range(self.settings.before):
                lags = is_behind and queue_id < self.settings.target
                brokers.commit(group.name, queue_id, 0 if lags else len(brokers.queue(queue_id)))
                if is_behind and not lags:
                    group.seen.update(each.id for each in brokers.queue(queue_id))

    # Time

    def next_id(self):
        self._number += 1
        return self._number

    def later(self, after_ms, what, *args):
        self._number += 1
        heappush(self._events, (self.now_ms + after_ms, self._number, what, args))

    def every(self, pause_ms, what):
        def again():
            what()
            self.later(pause_ms, again)

        self.later(self.random.randrange(pause_ms), again)

    def run_until(self, end_ms, is_over=None):
        events = self._events
        while events[0][0] < end_ms:
            self.now_ms, _, what, args = heappop(events)
            what(*args)
            if is_over is not None and is_over():
                return
        self.now_ms = end_ms

    def note(self, text, *args):
        if self.story is not None:
            self.story.append(f"{self.now_ms / 1000:9.3f} s  {text % args}")

    def fail(self, text, *args):
        self.note("VIOLATION: " + text, *args)
        raise Violation(text % args)

    # What happens

    def acknowledged(self, message):
        self.acked_ids.append(message.id)
        self.acked_ms.append(self.now_ms)
        self.messages[message.id] = message

    def inverted(self, group, message):
        self.note(
            "%s consumes %d of key %d after %d", group.name, message.number, message.key, group.newest[message.key]
        )
        producer = self.producers[message.key // Producer.KEYS]
        self.inversions.append(message)
        is_wrong = self.settings.is_ordered and not self.tolerates_inversions and not self.has_no_locks
        # Locks of new queues order what comes into old ones before, and not after.
        is_wrong &= not (self.settings.is_gated and producer.went_back)
        if is_wrong and not producer.was_cut and not self.foreign and not self.waived:
            self.fail("order of key %d: %d after %d", message.key, message.number, group.newest[message.key])

    def entered(self, operation):
        phase = operation.phase
        self.entered_ms = self.now_ms
        evidence = operation.steps[-1].evidence if operation.steps else ()
        self.note("%s (reached %d): %s", phase.value, operation.reached, "; ".join(evidence[:3]) or operation.problem)
        first = phase not in self.phases
        self.phases.append(phase)
        self.began_ms[phase] = self.now_ms
        self.check_entry(operation)
        start = len(self.phases) == 1
        for fault in self.plan:
            if self.now_ms < FAULTS_END_MS and ((start and not fault.phase) or (first and fault.phase == phase.value)):
                self.later(fault.after_ms, self.suffer, fault)

    def suffer(self, fault):
        if not self.is_mended:
            self.note("FAULT %s", fault)
            injection.ACTS[fault.kind](self, fault)

    def check_entry(self, operation):
        phase = operation.phase
        self.check_masters(operation)
        if phase is ResizePhase.CONFLICT and not self.foreign and not self.has_late_actions:
            self.fail("a conflict with nobody: %s", operation.problem)
        if phase in (ResizePhase.READ_DOWN, ResizePhase.RESIZE):
            self.check_confirmed(operation)
        if phase is ResizePhase.REOPEN and self.is_calm:
            self.fail("queues are opened again although nobody is to blame")
        if phase in _NOT_DONE | {ResizePhase.REJECTED} and not operation.problem:
            self.fail("%s does not say why", phase.value)

    def check_confirmed(self, operation):
        for each in reversed(operation.steps):
            if each.phase is ResizePhase.QUIESCE:
                self.fail("%s without a second check", operation.phase.value)
            if each.phase is ResizePhase.CONFIRM:
                if each.ended_unix_ms - each.began_unix_ms < WAITS.confirm_ms:
                    self.fail(
                        "%s after checks %d ms apart", operation.phase.value, each.ended_unix_ms - each.began_unix_ms
                    )
                return

    @property
    def has_no_locks(self):
        """True if brokers may forget the locks of a gated resize, or a leader is absent for longer than they last."""
        loud = {"restart_master", "fail_over", "kill_controller", "lose_actions", "lose_answers", "slow_rounds"}
        loud |= {"join_group", "delay_actions"}
        return self.settings.is_gated and any(each.kind in loud for each in self.plan)

    @property
    def is_calm(self):
        """True if nothing happens that makes late messages, or another master."""
        loud = {"restart_master", "fail_over", "set_counts", "resume", "slow_appends", "abort", "waive"}
        loud |= {"delay_actions", "lose_registrations", "stop_name_server", "lose_actions"}
        is_quiet = not any(each.was_cut for each in self.producers) and not self.settings.accepts_late
        return is_quiet and not any(each.kind in loud for each in self.plan)

    def act(self, operation, action):
        is_idle = operation.phase is ResizePhase.CONFLICT and not isinstance(action, HoldLocks)
        if is_idle or operation.is_finished:
            self.fail("%s in %s", action, operation.phase.value)
        if isinstance(action, ChangeCounts) and not on_path(operation, action):
            self.fail("numbers of somebody else are overwritten: %s", action)

    def changes_counts(self, brokers, action):
        if action.after.write > action.after.read:
            self.fail("%s gets more write queues than read queues: %s", brokers.name, action.after)
        is_resized = (action.after.read, action.after.write) != (action.before.read, action.before.write)
        if self.controller.operation.phase is ResizePhase.RESIZE and is_resized and not self.foreign:
            self.check_all_consumed()

    def check_all_consumed(self):
        """While the numbers of an ordered topic change, no key has a message that is not consumed."""
        for group in self.groups:
            if group.name in self.waived or group.exists_ms is None:
                continue
            for each in missed(self.acked_ids, self.acked_ms, group.seen, group.exists_ms):
                key = self.messages[each].key
                if key < 0 or not self.producers[key // Producer.KEYS].was_cut:
                    self.fail("numbers change, and %s", self.lost(group, each))

    def check_masters(self, operation):
        """What a phase relies on was seen of the present masters."""
        relied_on = {ResizePhase.READ_DOWN: ResizePhase.QUIESCE, ResizePhase.WRITE_UP: ResizePhase.SEED}
        began_ms = self.began_ms.get(relied_on.get(operation.phase), self.now_ms)
        for brokers in self.sets.values():
            if brokers.master is not None and began_ms < brokers.master.boot_ms < self.now_ms - UNNOTICED_MS:
                self.fail("%s, and %s has another master since %d ms", operation.phase.value, brokers.name, began_ms)

    def operator_changed(self, brokers, counts):
        self.foreign.setdefault(brokers.name, brokers.master.counts)
        if counts.read < brokers.master.counts.read or counts.write > brokers.master.counts.write:
            self.loses_by_operator = True

    # The end

    def run(self):
        """Let everything happen, and check what holds."""
        self.run_until(START_MS + 1)
        control = self.controller
        self.run_until(FAULTS_END_MS, lambda: control.operation.is_finished)
        self.mend()
        self.end_operation()
        self.settle()
        self.check_end()

    def mend(self):
        self.is_mended = True
        self.note("all faults are over")
        injection.mend_everything(self)
        if self.controller.killed_at is not None:
            self.controller.killed_at = None

    def end_operation(self):
        control = self.controller
        end_ms = self.now_ms + OVER_WITHIN_MS
        while not control.operation.is_finished:
            if self.now_ms >= end_ms:
                self.fail("%s %d s after the last fault", control.operation.phase.value, OVER_WITHIN_MS // 1000)
            self.run_until(self.now_ms + 10_000, lambda: control.operation.is_finished)
            if control.operation.phase in _NOT_DONE and self.now_ms > self.entered_ms + STANDS_MS:
                if self.operator_leaves(control.operation):
                    return
                self.entered_ms = self.now_ms

    def operator_leaves(self, operation):
        """Do what an operator does about a resize that stands; True: nothing more."""
        draw = self.random.random()
        if operation.phase is ResizePhase.CONFLICT:
            return self.operator_leaves_conflict(draw)
        offline = [each.name for each in self.groups if not each.members and each.kind is not GroupKind.BROADCAST]
        if not offline:
            return False
        if draw < 0.3:
            return True
        if draw < 0.6:
            self.controller.abort()
        for name in offline:
            self.waived.add(name)
            self.controller.command(commands.waived, name, [name])
        return False

    def operator_leaves_conflict(self, draw):
        # Until somebody decides, a gated resize keeps its locks, and nobody consumes the new queues.
        if draw < 0.3 and not self.settings.is_gated:
            return True
        if draw < 0.6:
            self.controller.abort()
            return False
        for name, counts in self.foreign.items():
            self.sets[name].set_counts(counts)
        self.controller.command(commands.resumed)
        return False

    def settle(self):
        """Let groups consume what is left."""
        self.producers_run = False
        end_ms = self.now_ms + CONSUMED_WITHIN_MS
        while self.now_ms < end_ms:
            self.run_until(self.now_ms + 20_000)
            is_quiet = not any(each.has_late for each in self.sets.values()) and self.disagreement() is None
            if is_quiet and next(self.unconsumed(), None) is None:
                return

    def unconsumed(self):
        """Yield a sentence for each message that a group has not consumed, and cannot."""
        for group in self.groups:
            if group.name in self.waived or group.exists_ms is None:
                continue
            if group.kind is GroupKind.BROADCAST:
                for member in group.members:
                    if member.exists_ms is not None:
                        lost = missed(self.acked_ids, self.acked_ms, member.seen, member.exists_ms + 1)
                        yield from (self.lost(group, each) for each in lost)
                continue
            for each in missed(self.acked_ids, self.acked_ms, group.seen, group.exists_ms):
                if group.members or not self.is_consumable(group, self.messages[each]):
                    yield self.lost(group, each)

    def is_consumable(self, group, message):
        brokers = self.sets[message.broker_name]
        stored = brokers.offset(group.name, message.queue_id)
        return stored is not None and stored <= message.at and brokers.serves(message.queue_id)

    def lost(self, group, message_id):
        message = self.messages[message_id]
        return (
            f"{group.name} ({group.observed_kind.value}) has not consumed message {message.at} of "
            f"{message.broker_name}/{message.queue_id}, sent {message.sent_ms} ms"
        )

    def disagreement(self):
        for brokers in self.sets.values():
            counts = brokers.master.counts
            for each in brokers.slaves:
                if each.counts != counts:
                    return f"slave {each.address} shows {each.counts}, its master {counts}"
            for server in self.name_servers:
                if server.counts.get(brokers.name) != counts:
                    return f"{server.address} shows {server.counts.get(brokers.name)} of {brokers.name}, not {counts}"
        return None

    def check_end(self):
        operation = self.controller.operation
        if (differs := self.disagreement()) is not None:
            self.fail("%s", differs)
        if not self.loses_by_operator and (lost := next(self.unconsumed(), None)) is not None:
            self.fail("%s", lost)
        is_from_conflict = ResizePhase.CONFLICT in self.phases
        expected = {ResizePhase.DONE: self.settings.target, ResizePhase.ABORTED: self.settings.before}
        if operation.phase in expected and not is_from_conflict and not self.foreign:
            wanted = expected[operation.phase]
            for brokers in self.sets.values():
                if brokers.master.counts != equal_counts(wanted):
                    self.fail("%s, and %s shows %s", operation.phase.value, brokers.name, brokers.master.counts)
            if self.settings.has_order_conf:
                self.check_order_conf(wanted)

    def check_order_conf(self, wanted):
        conf = ";".join(f"{name}:{wanted}" for name in self.sets)
        for each in self.name_servers:
            if each.order_conf != conf:
                self.fail("%s has orderTopicConf %s, not %s", each.address, each.order_conf, conf)
