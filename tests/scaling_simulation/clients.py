"""Models of Java's clients: producers, and members of groups of each kind."""

from remoting.admin.clients import HeldQueue, RunningConsumer
from remoting.admin.message_queues import MessageQueue
from scaling_simulation.brokers import LEVELS_MS, PENDING_MS, TOPIC, Message, Route
from scaling_simulation.histories import WAITS

POLL_MS = 30_000
REBALANCE_MS = 20_000
COMMIT_MS = 5_000
CONSUME_MS = 2_500
#: After it, a client without messages stores where it is.
IDLE_COMMIT_MS = 15_000
INVISIBLE_MS = 20_000
#: Processing of what is pulled takes no longer.
PROCESS_MS = 12_000


class Client:
    """Whoever polls routes, and sends heartbeats to all masters in them."""

    #: None of a producer.
    group = None

    def __init__(self, world, client_id):
        self.world = world
        self.id = client_id
        self.cut_until_ms = 0
        #: When it has last fetched a route that was the present one.
        self.current_ms = world.now_ms
        self.name_server = world.random.randrange(len(world.name_servers))
        self.route = None
        self.poll()

    def poll(self):
        self.fetch()
        for name in () if self.route is None else self.route.counts:
            if (master := self.world.sets[name].master) is not None:
                master.heard[self.id] = self

    def fetch(self):
        """Fetch the route of the NameServer that it uses; the old one stays if there is no answer."""
        world = self.world
        if world.now_ms < self.cut_until_ms:
            return
        for _ in world.name_servers:
            server = world.name_servers[self.name_server]
            if server.is_up:
                if server.counts:
                    if server.is_current:
                        self.current_ms = world.now_ms
                    conf = server.order_conf if world.settings.gives_order_conf else None
                    self.take_route(conf, server.counts)
                    if self.group is None:
                        server.fetched(self)
                return
            server.left(self)
            self.name_server = (self.name_server + 1) % len(world.name_servers)

    def take_route(self, order_conf, counts):
        if self.route is None or self.route.counts != counts or self.route.order_conf != order_conf:
            self.route = Route(dict(counts), order_conf)
            self.changed()

    def changed(self):
        """Do what a new route brings."""


class Producer(Client):
    """Sends keys of its own, each always to the same place of its list of queues."""

    KEYS = 5

    def __init__(self, world, index, pause_ms, late_share):
        self.index = index
        self.queues = []
        self.numbers = [0] * self.KEYS
        #: The route in use is nobody's fault: it has fewer queues than one before, of a NameServer that has missed the
        #: change, or other sets or numbers than those of the resize.
        self.has_odd_route = False
        self.queues_most = 0
        super().__init__(world, f"10.1.0.{index}")
        world.every(POLL_MS, self.poll)
        self.pause_ms, self.late_share = pause_ms, late_share
        #: How its late messages come.
        self.late_way = world.random.choice((*LEVELS_MS, *PENDING_MS))
        world.later(world.random.randrange(pause_ms), self.send)

    def changed(self):
        self.queues = self.route.written
        self.queues_most = max(self.queues_most, len(self.queues))
        went_back = self.world.settings.is_gated and len(self.queues) < self.queues_most
        self.has_odd_route = went_back or self.world.judge.is_odd(self.route)

    def send(self):
        world = self.world
        if not world.producers_run:
            return
        world.later(int(self.pause_ms * (0.5 + world.random.random())), self.send)
        if not self.queues:
            return
        place = int(world.random.random() * self.KEYS)
        self.numbers[place] += 1
        key = self.index * self.KEYS + place
        message = Message(world.next_id(), key, self.numbers[place], world.now_ms)
        message.is_stale = world.now_ms - self.current_ms > WAITS.producers_ms
        message.strays = message.is_stale or self.has_odd_route
        if world.random.random() < self.late_share:
            name, queue_id = self.queues[int(world.random.random() * len(self.queues))]
            message.strays = True
            world.judge.excuse_if_foreign(message, name, queue_id)
            world.sets[name].send_late(message, queue_id, self.late_way)
        else:
            name, queue_id = self.queues[(key * 7 + 3) % len(self.queues)]
            world.judge.excuse_if_foreign(message, name, queue_id)
            world.sets[name].send(message, queue_id)


class Held:
    """A queue that a client consumes."""

    __slots__ = ("cached", "is_locked", "is_moved", "position", "since_ms")

    def __init__(self, position, since_ms):
        self.position, self.since_ms = position, since_ms
        self.is_moved, self.is_locked = False, True
        #: Pulled and not processed: when it will be, and the message.
        self.cached = []


class Group:
    """A consumer group, and everything that its members have consumed."""

    def __init__(self, world, name, kind, batch):
        self.world = world
        self.name = name
        self.kind = kind
        self.batch = batch
        self.members = []
        self.seen = set()
        #: Last number of a key that was consumed.
        self.newest = {}
        #: Messages that were handed out and not acknowledged; due times and messages.
        self.slow_until_ms = 0
        #: From when on no message may be missed; None: not yet.
        self.exists_ms = 0
        self.returns_ms = 0
        #: When a controller has seen that it consumes in order, and when it began.
        self.shown_ms = None
        self.began_ms = world.now_ms
        #: Queues that its application has chosen, if it has no subscription.
        self.chosen = []
        self.chooses_again = world.random.random() < 0.5

    def is_shown(self, now_ms):
        if self.shown_ms is None:
            self.shown_ms = now_ms

    @property
    def is_broadcast(self):
        return self.kind == "broadcast"

    def leave(self):
        """Stop all members."""
        for each in list(self.members):
            each.crash()

    def join(self):
        """Start one more member."""
        member = CONSUMERS[self.kind](self.world, self)
        self.members.append(member)
        self.members.sort(key=lambda each: each.id)
        return member

    def consumed(self, messages):
        seen = self.seen
        if self.kind != "orderly":
            seen.update([each.id for each in messages])
            return
        for each in messages:
            if each.id in seen:
                continue
            seen.add(each.id)
            newest = self.newest.get(each.key)
            if newest is not None and each.number < newest.number:
                self.world.judge.inverted(self, each, newest)
            else:
                self.newest[each.key] = each


class Consumer(Client):
    """A member of a group: concurrent, and what is common to all."""

    #: As brokers tell it (203).
    CONSUME_TYPE, MESSAGE_MODEL, SUBSCRIBES = "CONSUME_PASSIVELY", "CLUSTERING", True

    def __init__(self, world, group):
        self.group = group
        self.held = {}
        self.is_alive = True
        self.ticks = world.random.randrange(8)
        super().__init__(world, f"{group.name}-{world.next_id():05d}")
        self.rounds_poll = world.random.randrange(12)
        world.later(world.random.randrange(CONSUME_MS), self.live)

    def live(self):
        if not self.is_alive:
            return
        world = self.world
        world.later(CONSUME_MS, self.live)
        self.ticks += 1
        if (self.ticks + self.rounds_poll) % (POLL_MS // CONSUME_MS) == 0:
            self.poll()
        if self.ticks % (REBALANCE_MS // CONSUME_MS) == 0 or not self.held:
            self.rebalance()
        if world.now_ms >= self.group.slow_until_ms:
            self.consume()
        if self.ticks % (COMMIT_MS // CONSUME_MS) == 0:
            self.commit()

    def crash(self):
        self.is_alive = False
        self.group.members.remove(self)
        for brokers in self.world.sets.values():
            for replica in brokers.replicas:
                replica.heard.pop(self.id, None)

    # Which queues it has

    def rebalance(self):
        if self.route is None:
            return
        wanted = self.allocated(self.route.read)
        for queue in [each for each in self.held if each not in wanted]:
            self.leave(queue)
        for queue in wanted:
            if queue not in self.held:
                self.take(queue)

    def allocated(self, queues):
        """Return its share of the queues, as AllocateMessageQueueAveragely does."""
        members = self.group.members
        if self not in members:
            return []
        index, many = members.index(self), len(members)
        more = len(queues) % many
        size = len(queues) // many + (1 if index < more else 0)
        start = index * size if index < more else index * size + more
        return queues[start : start + size]

    def leave(self, queue):
        held = self.held.pop(queue)
        if held.is_moved:
            self.world.sets[queue[0]].commit(self.group.name, queue[1], held.position)

    def take(self, queue):
        position = self.start(queue)
        if position is not None:
            self.held[queue] = Held(position, self.world.now_ms)

    def start(self, queue):
        """Return where it begins in a queue: where the group was, or else at the end (LAST_OFFSET)."""
        brokers = self.world.sets[queue[0]]
        if brokers.master is None:
            return None
        stored = brokers.offset(self.group.name, queue[1])
        return len(brokers.queue(queue[1])) if stored is None else stored

    # What it does with them

    def consume(self):
        sets = self.world.sets
        for queue, held in self.held.items():
            brokers = sets[queue[0]]
            messages = brokers.queues.get(queue[1], ())
            if held.position == len(messages) or not held.is_locked or not brokers.serves(queue[1]):
                continue
            # Brokers correct a position that is beyond the end, or before the first message.
            held.position = min(max(held.position, brokers.first.get(queue[1], 0)), len(messages))
            self.pulled(held, messages[held.position : held.position + self.group.batch])
            held.position = min(held.position + self.group.batch, len(messages))
            held.is_moved = True

    def pulled(self, _held, messages):
        self.group.consumed(messages)

    def commit(self):
        now_ms, sets, group = self.world.now_ms, self.world.sets, self.group.name
        for queue, held in self.held.items():
            if held.is_moved or now_ms - held.since_ms > IDLE_COMMIT_MS:
                held.is_moved = True
                sets[queue[0]].commit(group, queue[1], held.position)

    def running(self):
        """Return what it answers about itself (307)."""
        return RunningConsumer(
            queues={
                MessageQueue(topic=TOPIC, broker_name=name, queue_id=queue_id): _held(held)
                for (name, queue_id), held in self.held.items()
            },
            pop_queues={},
            topics=frozenset({TOPIC}),
            is_orderly=isinstance(self, OrderlyConsumer),
            consume_type=self.CONSUME_TYPE,
            client_version=None,
            started_unix_ms=None,
        )


def _held(held):
    return HeldQueue(
        commit_offset=held.position,
        cached_messages=sum(len(messages) for _, messages in held.cached),
        messages_in_work=None, is_locked=None, is_dropped=False,
        last_lock_unix_ms=None, last_pull_unix_ms=None, last_consume_unix_ms=None,
    )  # fmt: skip


class OrderlyConsumer(Consumer):
    """Consumes a queue only while it holds its lock."""

    def take(self, queue):
        if self.lock(queue):
            super().take(queue)

    def lock(self, queue):
        return self.world.sets[queue[0]].lock(self.group.name, queue[1], self.id)

    def leave(self, queue):
        super().leave(queue)
        self.world.sets[queue[0]].unlock(self.group.name, queue[1], self.id)

    def rebalance(self):
        super().rebalance()
        for queue, held in self.held.items():
            held.is_locked = self.lock(queue)


class PullConsumer(Consumer):
    """Stores what was handed to the application, which processes it later; if that dies, it has lost it by itself."""

    CONSUME_TYPE = "CONSUME_ACTIVELY"

    def pulled(self, held, messages):
        ready_ms = self.world.now_ms + self.world.random.randrange(PROCESS_MS)
        held.cached.append((ready_ms, messages))

    def consume(self):
        super().consume()
        now_ms = self.world.now_ms
        for held in self.held.values():
            while held.cached and held.cached[0][0] <= now_ms:
                self.group.consumed(held.cached.pop(0)[1])

    def leave(self, queue):
        for ready_ms, messages in self.held[queue].cached:
            self.world.later(max(ready_ms - self.world.now_ms, 0), self.group.consumed, messages)
        super().leave(queue)

    def crash(self):
        super().crash()
        for held in self.held.values():
            self.forgive(held)

    def forgive(self, held):
        for _, messages in held.cached:
            self.group.seen.update([each.id for each in messages])


class AssignedConsumer(PullConsumer):
    """Takes the queues that its application chooses, without a subscription: those of the first start, or all."""

    SUBSCRIBES = False

    def allocated(self, queues):
        if not self.group.chosen or self.group.chooses_again:
            self.group.chosen = queues
        return self.group.chosen


class PopConsumer(Consumer):
    """Gets messages of all queues from brokers, which move the offset and hand out again what is not acknowledged."""

    CONSUME_TYPE = "CONSUME_POP"

    def rebalance(self):
        """Nothing is assigned to it."""

    def consume(self):
        world, group = self.world, self.group
        if self.route is None:
            return
        for name, queue_id in self.route.read:
            brokers = world.sets[name]
            if not brokers.serves(queue_id):
                continue
            messages = brokers.queues.get(queue_id, ())
            at = brokers.offset(group.name, queue_id)
            at = len(messages) if at is None else min(max(at, brokers.first.get(queue_id, 0)), len(messages))
            handed = messages[at : at + group.batch]
            brokers.commit(group.name, queue_id, at + len(handed))
            if world.random.random() < 0.9:
                group.consumed(handed)
            else:
                # From its retry topic, which keeps its queues.
                world.later(INVISIBLE_MS, group.consumed, handed)

    def commit(self):
        """Brokers have done so."""


class BroadcastConsumer(Consumer):
    """Consumes everything, and keeps its offsets itself."""

    MESSAGE_MODEL = "BROADCASTING"

    def __init__(self, world, group):
        super().__init__(world, group)
        self.seen = set()
        self.kept = {}
        self.exists_ms = None

    def allocated(self, queues):
        return queues

    def rebalance(self):
        super().rebalance()
        is_first = self.exists_ms is None and self.route is not None
        if is_first and self.route.counts.keys() == self.world.sets.keys() and len(self.held) == len(self.route.read):
            self.exists_ms = self.world.now_ms

    def start(self, queue):
        brokers = self.world.sets[queue[0]]
        if brokers.master is None:
            return None
        return self.kept.get(queue, len(brokers.queue(queue[1])))

    def leave(self, queue):
        # Kinder than Java's, which keeps nothing of a queue from which no answer has come yet.
        self.kept[queue] = self.held.pop(queue).position

    def pulled(self, _held, messages):
        self.seen.update([each.id for each in messages])

    def commit(self):
        """Its file has them."""
        for queue, held in self.held.items():
            if held.is_moved or self.world.now_ms - held.since_ms > IDLE_COMMIT_MS:
                self.kept[queue] = held.position


CONSUMERS = {
    "concurrent": Consumer,
    "orderly": OrderlyConsumer,
    "pull": PullConsumer,
    "assigned": AssignedConsumer,
    "pop": PopConsumer,
    "broadcast": BroadcastConsumer,
}
