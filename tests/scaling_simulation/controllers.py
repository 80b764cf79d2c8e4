"""The runner of a resize, as the product's: observe, decide, commit, and only then act on brokers."""

from dataclasses import replace

from controller.scaling.resize.decision import ChangeCounts, GiveLocks, HoldLocks, PutOrderConf
from controller.scaling.resize.observation import ResizeObservation
from controller.scaling.resize.operation import ResizePhase
from controller.scaling.resize.request import ResizeOptions, ResizeRequest, TopicTraits
from controller.scaling.rules import commands, step
from controller.scaling.rules.needs import ResizeNeeds, needs_of, round_ms
from controller.scaling.rules.path import all_queues, path_of
from controller.scaling.rules.plan import checked, plan_resize, planned_operation
from scaling_simulation.clients import LOCK_MS
from scaling_simulation.histories import WAITS
from scaling_simulation.observing import UNIX_MS, Observer

#: Where the process is killed in a round.
BEFORE_COMMIT, BEFORE_ACTIONS, WITHIN_ACTIONS = range(3)


class ResizeController:
    def __init__(self, world):
        self.world = world
        self.observer = Observer(world)
        #: As it is in the store.
        self.operation = None
        self.progress = None
        #: Of the actions of the round before.
        self.failures = []
        self.runs = 0
        self.killed_at = None
        self.absent_ms = 0
        self.loses_until_ms = self.loses_answers_until_ms = self.delays_until_ms = self.slow_until_ms = 0

    def begin(self):
        """Plan and check the resize, and start with it."""
        world, settings = self.world, self.world.settings
        request = ResizeRequest(
            topic="Orders",
            queues=settings.target,
            ordered="gate" if settings.is_gated else "pause" if settings.is_ordered else "",
            waits=WAITS,
            options=ResizeOptions(accept_late=settings.accepts_late),
        )
        counts = {name: brokers.master.counts for name, brokers in world.sets.items()}
        traits = TopicTraits(counts=counts, is_ordered=settings.is_ordered, order_conf=world.order_conf)
        operation = planned_operation("op-1", request, traits, _nothing(world))
        needs = ResizeNeeds(ends=all_queues, groups=True, clients=True)
        observation = self.observer.whole(operation, needs, self.observer.early(needs))
        plan = plan_resize(request, traits, observation)
        self.operation = checked(operation.entered(ResizePhase.PRECHECK, observation.unix_ms), plan, observation)
        world.entered(self.operation)
        self.lead()

    def lead(self):
        self.runs += 1
        self.progress = step.begin_phase(self.operation)
        self.next_round(self.runs, 0)

    def next_round(self, run, after_ms):
        self.world.later(after_ms, self.round, run)

    def kill(self):
        """End the process; another one leads later."""
        self.runs += 1
        self.killed_at = None
        self.world.note("controller killed in %s", self.operation.phase.value)
        self.world.later(self.absent_ms, self.lead)

    def round(self, run):
        if run != self.runs or self.operation.is_finished:
            return
        needs = needs_of(self.operation, self.progress.waited_ms)
        early = self.observer.early(needs)
        if self.world.now_ms < self.slow_until_ms:
            self.world.later(1 + self.world.random.randrange(4_000), self.decide, run, self.operation, needs, early)
        else:
            self.decide(run, self.operation, needs, early)

    def decide(self, run, operation, needs, early):
        if run != self.runs or self.operation.is_finished:
            return
        if operation is not self.operation:
            # An operator's command came first: what was observed is of another phase.
            self.next_round(run, 0)
            return
        observation = replace(self.observer.whole(operation, needs, early), failures=tuple(self.failures))
        self.failures.clear()
        decision = step.decide_step(operation, self.progress, observation)
        if self.killed_at == BEFORE_COMMIT:
            self.kill()
            return
        if decision.operation != operation:
            self.commit(decision.operation)
        self.progress = decision.progress
        actions = {BEFORE_ACTIONS: (), WITHIN_ACTIONS: decision.actions[:1]}.get(self.killed_at, decision.actions)
        for action in actions:
            self.perform(action)
        if self.killed_at is not None:
            self.kill()
            return
        self.next_round(run, round_ms(self.operation))

    def commit(self, operation):
        before, self.operation = self.operation, operation
        if before.phase is not operation.phase or len(before.steps) != len(operation.steps):
            self.world.entered(operation)

    # Actions on brokers

    def perform(self, action):
        world = self.world
        world.act(self.operation, action)
        if world.now_ms < self.loses_until_ms:
            self.failures.append("no answer")
            return
        if isinstance(action, PutOrderConf):
            self.put_order_conf(action)
            return
        brokers = world.sets[action.broker_name]
        if brokers.master is None or brokers.master.address != action.address:
            self.failures.append(f"{action.broker_name} does not answer")
            return
        if isinstance(action, (HoldLocks, GiveLocks)):
            self.lock(brokers, action)
            return
        if not self.compares(brokers, action):
            return
        if world.now_ms < self.loses_answers_until_ms:
            self.observer.lost[brokers.name, "counts"] = world.now_ms + 3_000
        if world.now_ms < self.delays_until_ms:
            # The broker was asked; the write itself is under way for longer.
            world.later(1 + world.random.randrange(6_000), self.apply, brokers, brokers.identity, action)
        else:
            self.apply(brokers, brokers.identity, action)

    def compares(self, brokers, action):
        if isinstance(action, ChangeCounts):
            return brokers.master.counts == action.before
        return brokers.offset(action.group, action.queue_id) == action.before

    def apply(self, brokers, identity, action):
        if brokers.identity != identity:
            return
        if isinstance(action, ChangeCounts):
            self.world.note("%s: %s", brokers.name, action.after)
            self.world.changes_counts(brokers, action)
            brokers.set_counts(action.after)
        else:
            brokers.commit(action.group, action.queue_id, action.offset)

    def lock(self, brokers, action):
        """Lock queues for the operation, or unlock them."""
        now_ms = self.world.now_ms
        for queue_id in action.queue_ids:
            holder, until_ms = brokers.locks.get((action.group, queue_id), ("", 0))
            is_free = holder == action.client_id or until_ms <= now_ms
            if isinstance(action, GiveLocks):
                if holder == action.client_id:
                    del brokers.locks[action.group, queue_id]
            elif is_free:
                brokers.locks[action.group, queue_id] = action.client_id, now_ms + LOCK_MS
            else:
                self.failures.append(f"queue {queue_id} is locked by {holder}")

    def put_order_conf(self, action):
        for each in self.world.name_servers:
            if each.address == action.address and each.is_up:
                each.order_conf = action.value

    # Operators

    def command(self, what, *args):
        """Let an operator do something; what does not fit is refused."""
        try:
            operation = what(self.operation, *args, UNIX_MS + self.world.now_ms)
        except commands.ResizeCommandRefused:
            return
        self.take(operation)

    def abort(self):
        try:
            operation = commands.aborted(self.operation, UNIX_MS + self.world.now_ms, "not now")
        except commands.ResizeCommandRefused:
            return
        self.world.was_aborted_in = self.world.was_aborted_in or self.operation.phase
        self.take(operation)

    def take(self, operation):
        is_other_phase = operation.phase is not self.operation.phase
        self.commit(operation)
        if is_other_phase:
            self.progress = step.begin_phase(operation)


def _nothing(world):
    return ResizeObservation(now_ms=world.now_ms, unix_ms=UNIX_MS + world.now_ms, sets={}, name_servers=())


def on_path(operation, action):
    """Return whether what an action replaces are numbers of the resize itself."""
    return action.before in path_of(operation.kind, operation.set_of(action.broker_name))
