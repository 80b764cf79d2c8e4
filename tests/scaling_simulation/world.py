"""A topic, its brokers, NameServers and clients, and one resize of it by the product, in virtual time.

What must hold (`judge.py`):
1. Every group consumes every message that was acknowledged to a producer after the group had begun.
2. Keys keep their order, for each group of which a controller could know in time that it consumes in order.
3. A resize ends once faults have: DONE, ABORTED, REJECTED, or where somebody has to act BLOCKED or in CONFLICT.
4. writeQueueNums never exceeds readQueueNums, and numbers of somebody else are not overwritten.
5. Masters, slaves and NameServers agree in the end. 6. A resize that was aborted leaves the numbers from before.
7. Queues are closed only after two checks, and opened again only for a reason. 8. No pause lasts longer than allowed,
or ends before. 9. Locks that have lapsed are recorded.

Left out, so no history shows it:
- Bytes of requests and answers, their number under way, and what clients of other releases answer.
- Two controllers at once, and a store that fails: documents are stored at once (`tests/simulation`).
- Logs that differ: a former master cuts what its successor lacks. Delayed, timed and half messages survive a failover.
- NameServers that are started anew, clients behind proxies, and clients that look for a master where it was.
- Static topics, sets with different numbers, message types, groups without a configuration, waits of other lengths.
- Offset files of broadcasting clients that are gone, and offsets that brokers store for them.
- Several topics at a time, and the autoscaler.
"""

import random
from asyncio import events
from heapq import heappop, heappush

from scaling_simulation import injection
from scaling_simulation.brokers import Brokers, NameServer, equal_counts
from scaling_simulation.clients import Group, Message, Producer
from scaling_simulation.controllers import Controller
from scaling_simulation.histories import HINDERS, LEAVES_MS, PLANNED_MS, START_MS
from scaling_simulation.judge import Judge, order_conf
from serving.shapes.scaling import ResizePhase

FAULTS_END_MS = 500_000
#: From the end of faults until a resize has to be over, or to wait for somebody.
OVER_WITHIN_MS = 1_500_000
#: How long a group may take for what is left.
CONSUMED_WITHIN_MS = 400_000
#: How long a resize has to stand still until an operator looks.
STANDS_MS = 40_000
_NOT_DONE = frozenset({ResizePhase.BLOCKED, ResizePhase.CONFLICT})


class Violation(AssertionError):
    """Something that must hold does not."""


class World:
    def __init__(self, settings, plan):
        self.settings, self.plan = settings, list(plan)
        self.random = random.Random(settings.seed)
        self.now_ms = 0
        self.story = None
        #: What did not hold; the product may have caught the exception that says so.
        self.violation = None
        #: The process whose event loop runs, or ran last.
        self.running = None
        self._events = []
        self._number = 0
        self.acked_ids, self.acked_ms = [], []
        self.messages = {}
        self.producers_run = True
        self.is_mended = self.is_deleted = False
        self.entered_ms = self.troubled_until_ms = 0
        self.judge = Judge(self)
        self.begin()

    def begin(self):
        settings = self.settings
        names = [f"broker-{letter}" for letter in "abc"[: settings.sets]]
        self.order_conf = order_conf(names, settings.before) if settings.has_order_conf else None
        self.name_servers = [NameServer(self, i) for i in range(settings.name_servers)]
        for each in self.name_servers:
            each.order_conf = self.order_conf
        self.sets = {name: Brokers(self, name, settings.slaves, equal_counts(settings.before)) for name in names}
        #: What the resize knows of; and a set that is down when it begins.
        self.covered, self.absent = dict(self.sets), None
        if settings.has_absent:
            self.absent = self.sets["broker-x"] = Brokers(self, "broker-x", 0, equal_counts(settings.before))
            self.later(LEAVES_MS, self.absent.stop)
        for brokers in self.sets.values():
            brokers.register()
        self.groups = [Group(self, f"group-{i}", each.kind, each.batch) for i, each in enumerate(settings.groups)]
        self.begin_messages()
        for group, each in zip(self.groups, settings.groups, strict=True):
            group.slow_until_ms = each.slow_until_ms
            for _ in range(0 if each.leaves_ms == 0 else each.clients):
                group.join()
            if each.leaves_ms:
                self.later(each.leaves_ms, group.leave)
        self.producers = [
            Producer(self, i, pause_ms, settings.late_shares[i]) for i, pause_ms in enumerate(settings.producers_ms)
        ]
        self.peers = {each.address: each for each in self.name_servers}
        self.peers |= {each.address: each for brokers in self.sets.values() for each in brokers.replicas}
        self.controller = Controller(self)
        if settings.was_planned:
            self.later(PLANNED_MS, self.controller.look_at_plan)
        self.later(START_MS, self.controller.begin_resize)

    def begin_messages(self):
        """Write some messages, and where groups are; an offline group may have consumed none of the kept queues."""
        for brokers in self.sets.values():
            for queue_id in range(self.settings.before):
                for _ in range(self.random.randrange(4)):
                    message = Message(self.next_id(), -1, 0, 0)
                    brokers.append(message, queue_id)
                    self.acknowledged(message)
        for group, each in zip(self.groups, self.settings.groups, strict=True):
            is_behind = each.leaves_ms == 0 and not group.is_broadcast and self.random.random() < 0.5
            group.exists_ms = 0 if is_behind else 1
            if not group.is_broadcast:
                self.begin_offsets(group, is_behind=is_behind)
        for brokers in self.sets.values():
            if self.settings.has_expired:
                brokers.expire(0)
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

    def at(self, at_ms, what):
        self._number += 1
        heappush(self._events, (at_ms, self._number, what, ()))

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
            if self.violation is not None:
                raise Violation(self.violation)
            if is_over is not None and is_over():
                return
        self.now_ms = end_ms

    def note(self, text, *args):
        if self.story is not None:
            self.story.append(f"{self.now_ms / 1000:9.3f} s  {text % args}")

    def fail(self, text, *args):
        if self.violation is None:
            self.note("VIOLATION: " + text, *args)
            self.violation = text % args
        raise Violation(self.violation)

    def note_failure(self, text):
        """Take note that a task of the product failed."""
        self.violation = self.violation or text

    # What happens

    def acknowledged(self, message):
        self.acked_ids.append(message.id)
        self.acked_ms.append(self.now_ms)
        self.messages[message.id] = message

    def entered(self, operation):
        phase = operation.phase
        self.entered_ms = self.now_ms
        evidence = operation.steps[-1].evidence if operation.steps else ()
        self.note("%s (reached %d): %s", phase.value, operation.reached, "; ".join(evidence[:3]) or operation.problem)
        first = phase not in self.judge.phases
        self.judge.entered(operation)
        start = len(self.judge.phases) == 1
        for fault in self.plan:
            if self.now_ms < FAULTS_END_MS and ((start and not fault.phase) or (first and fault.phase == phase.value)):
                self.later(fault.after_ms, self.suffer, fault)

    def suffer(self, fault):
        if not self.is_mended:
            self.note("FAULT %s", fault)
            if fault.kind in HINDERS:
                until_ms = self.now_ms + 2 * fault.for_ms + injection.STARTED_MS
                self.troubled_until_ms = max(self.troubled_until_ms, until_ms)
            injection.ACTS[fault.kind](self, fault)

    @property
    def group_names(self):
        return frozenset(each.name for each in self.groups)

    # The end

    def run(self):
        """Let everything happen, and check what holds."""
        control = self.controller
        try:
            self.run_until(FAULTS_END_MS, lambda: control.is_over)
            self.mend()
            self.end_operation()
            self.settle()
            self.judge.check_end()
        finally:
            control.process.kill()
            self.running = None
            events._set_running_loop(None)

    def mend(self):
        self.is_mended = True
        self.troubled_until_ms = min(self.troubled_until_ms, self.now_ms)
        self.note("all faults are over")
        injection.mend_everything(self)

    def end_operation(self):
        control = self.controller
        end_ms = self.now_ms + OVER_WITHIN_MS
        while not control.is_over:
            if self.now_ms >= end_ms:
                self.fail("%s %d s after the last fault", control.operation.phase.value, OVER_WITHIN_MS // 1000)
            self.run_until(self.now_ms + 10_000, lambda: control.is_over)
            self.operator_gives_up()
            if control.operation.phase in _NOT_DONE and self.now_ms > self.entered_ms + STANDS_MS:
                if self.operator_leaves(control.operation):
                    return
                self.entered_ms = self.now_ms

    def operator_gives_up(self):
        """Go on without a set that is gone; if no other one is left, start an empty one, or give it the topic again."""
        gone = [each for each in self.covered.values() if each.counts is None]
        if not self.is_deleted and len(gone) < len(self.covered):
            for each in gone:
                self.controller.command("give_up", each.name, "ann: it is gone")
        elif gone:
            for each in gone:
                each.is_gone = False
                each.mend()
                if self.absent is not None and self.absent.counts is not None:
                    # Elsewhere the topic goes on.
                    injection.make_topic(each, equal_counts(self.settings.before))

    def operator_leaves(self, operation):
        """Do what an operator does about a resize that stands; True: nothing more."""
        draw = self.random.random()
        if operation.phase is ResizePhase.CONFLICT:
            return self.operator_leaves_conflict(draw)
        if self.absent is not None and self.absent.name in operation.problem:
            self.absent.stop()
            return False
        offline = [each.name for each in self.groups if not each.members and not each.is_broadcast]
        if not any(each in operation.problem for each in offline):
            return False
        if draw < 0.3:
            return True
        if draw < 0.6:
            self.controller.command("abort", "not now")
        for name in offline:
            self.controller.command("waive", name)
        return False

    def operator_leaves_conflict(self, draw):
        if draw < 0.3 and self.judge.foreign:
            return True
        if draw < 0.6:
            self.controller.command("abort", "not now")
            return False
        for name, counts in self.judge.foreign.items():
            self.sets[name].set_counts(counts)
        self.controller.command("resume", "as it was")
        return False

    def settle(self):
        """Let groups consume what is left."""
        self.producers_run = False
        if self.absent is not None:
            self.absent.mend()
        end_ms = self.now_ms + CONSUMED_WITHIN_MS
        while self.now_ms < end_ms:
            self.run_until(self.now_ms + 20_000)
            is_quiet = not any(each.has_late for each in self.sets.values()) and self.judge.disagreement() is None
            if is_quiet and next(self.judge.unconsumed(), None) is None:
                return
