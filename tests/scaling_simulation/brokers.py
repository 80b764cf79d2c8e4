"""Models of Java's brokers and NameServers, as far as a resize can see them (docs/protocol/queue-scaling.md 1)."""

from controller.scaling.resize.operation import READ_PERM, WRITE_PERM, MasterIdentity, QueueCounts

#: Between two saves of offsets by a broker, and two registrations.
PERSIST_MS = 5_000
REGISTER_MS = 30_000
#: Levels of delayed messages, and how late others come: timed ones, and decisions about transactional ones.
LEVELS_MS = {1: 10_000, 5: 60_000, 6: 120_000}
PENDING_MS = {"timed": 90_000, "half": 60_000}


class Message:
    """A message that a producer has sent."""

    __slots__ = ("at", "broker_name", "id", "key", "number", "queue_id", "sent_ms")

    def __init__(self, message_id, key, number, sent_ms):
        self.id, self.key, self.number, self.sent_ms = message_id, key, number, sent_ms
        self.broker_name, self.queue_id, self.at = "", -1, -1


class Replica:
    """One broker of a set: what is its own, and not the same on all of them."""

    def __init__(self, address, counts):
        self.address = address
        self.counts = counts
        self.is_up = True
        self.boot_ms = 0
        self.offsets = {}
        self.persisted = {}

    def persist(self):
        self.persisted = {group: dict(offsets) for group, offsets in self.offsets.items()}


class Brokers:
    """A broker set. All of its brokers have all messages; numbers of queues and offsets are copied later."""

    def __init__(self, world, name, slaves, counts):
        self.world = world
        self.name = name
        self.replicas = [Replica(f"{name}-{i}:10911", counts) for i in range(slaves + 1)]
        self.master = self.replicas[0]
        self.queues = {}
        #: By level: (due, queue id, message), in the order of being sent; and how many were delivered.
        self.delayed = {level: [] for level in LEVELS_MS}
        self.delivered = dict.fromkeys(LEVELS_MS, 0)
        self.pending = dict.fromkeys(PENDING_MS, 0)
        #: Holders of the locks of orderly groups, and until when.
        self.locks = {}
        self.slow_until_ms = self.appends_ms = 0
        world.every(PERSIST_MS, self.persist)
        world.every(REGISTER_MS, self.register)
        world.every(world.settings.copy_ms, self.copy)

    @property
    def identity(self):
        return None if self.master is None else MasterIdentity(self.master.address, self.master.boot_ms)

    @property
    def slaves(self):
        return [each for each in self.replicas if each is not self.master]

    def queue(self, queue_id):
        return self.queues.setdefault(queue_id, [])

    # What producers and consumers do

    def accepts(self, queue_id):
        master = self.master
        return master is not None and queue_id < max(master.counts.write, master.counts.read)

    def serves(self, queue_id):
        master = self.master
        return master is not None and queue_id < master.counts.read and bool(master.counts.perm & READ_PERM)

    def send(self, message, queue_id):
        """Check at once, append somewhat later if the broker is slow."""
        if not self.accepts(queue_id):
            return False
        if self.world.now_ms < max(self.slow_until_ms, self.appends_ms):
            # In the order in which they came: a producer of keys waits for each answer.
            self.appends_ms = max(self.appends_ms, self.world.now_ms + self.world.random.randrange(3_000))
            self.world.later(self.appends_ms - self.world.now_ms, self.append_if_up, message, queue_id)
        else:
            self.append(message, queue_id)
            self.world.acknowledged(message)
        return True

    def append_if_up(self, message, queue_id):
        if self.master is not None:
            self.append(message, queue_id)
            self.world.acknowledged(message)

    def append(self, message, queue_id):
        queue = self.queue(queue_id)
        message.broker_name, message.queue_id, message.at = self.name, queue_id, len(queue)
        queue.append(message)

    def send_late(self, message, queue_id, how):
        """Check at once, and append much later: delayed, timed, or once the transaction is decided."""
        if not self.accepts(queue_id):
            return
        self.world.acknowledged(message)
        if how in LEVELS_MS:
            self.delayed[how].append((self.world.now_ms + LEVELS_MS[how], queue_id, message))
            self.world.later(LEVELS_MS[how], self.deliver, how)
        else:
            self.pending[how] += 1
            self.world.later(1 + self.world.random.randrange(PENDING_MS[how]), self.decide, how, message, queue_id)

    def decide(self, how, message, queue_id):
        if self.master is None:
            self.world.later(1_000, self.decide, how, message, queue_id)
            return
        self.pending[how] -= 1
        self.append(message, queue_id)

    def deliver(self, level):
        """Put delayed messages into their queues, without a look at the numbers."""
        if self.master is None:
            return
        waiting = self.delayed[level]
        while self.delivered[level] < len(waiting):
            due_ms, queue_id, message = waiting[self.delivered[level]]
            if due_ms > self.world.now_ms:
                break
            self.delivered[level] += 1
            self.append(message, queue_id)

    @property
    def has_late(self):
        return any(self.pending.values()) or any(
            self.delivered[level] < len(waiting) for level, waiting in self.delayed.items()
        )

    def offset(self, group, queue_id):
        return self.master.offsets.get(group, {}).get(queue_id)

    def commit(self, group, queue_id, offset):
        if self.master is not None:
            self.master.offsets.setdefault(group, {})[queue_id] = offset

    # What happens to it

    def persist(self):
        if self.master is not None:
            self.master.persist()

    def copy(self):
        """Let slaves copy the master's topics and offsets."""
        if self.master is None:
            return
        for slave in self.slaves:
            if slave.is_up:
                slave.counts = self.master.counts
                slave.offsets = {group: dict(offsets) for group, offsets in self.master.offsets.items()}
                slave.persist()

    def set_counts(self, counts):
        self.master.counts = counts
        for each in self.world.name_servers:
            self.world.later(self.world.random.randrange(500), self.register_at, each)

    def register(self):
        for each in self.world.name_servers:
            self.register_at(each)

    def register_at(self, name_server):
        if self.master is not None and name_server.takes_registrations:
            name_server.counts[self.name] = self.master.counts

    def stop(self):
        if self.master is None:
            return None
        stopped, self.master = self.master, None
        stopped.is_up = False
        self.locks.clear()
        return stopped

    def start(self, replica):
        """Start a broker anew: as the master, or as a slave of the one that leads now."""
        replica.is_up = True
        replica.offsets = {group: dict(offsets) for group, offsets in replica.persisted.items()}
        if self.master is None:
            self.lead(replica)

    def lead(self, replica):
        replica.boot_ms = self.world.now_ms
        self.master = replica
        self.register()
        for level in LEVELS_MS:
            self.deliver(level)

    def mend(self):
        """Start what is down, and append at once."""
        self.slow_until_ms = 0
        for each in self.replicas:
            if not each.is_up:
                self.start(each)
        if self.master is None:
            self.lead(self.replicas[0])


class NameServer:
    def __init__(self, world, index):
        self.world = world
        self.address = f"namesrv-{index}:9876"
        self.is_up = True
        self.loses_until_ms = 0
        self.counts = {}
        self.order_conf = None

    @property
    def takes_registrations(self):
        return self.is_up and self.world.now_ms >= self.loses_until_ms


class Route:
    """What a client knows of the topic."""

    def __init__(self, counts, order_conf):
        self.counts, self.order_conf = counts, order_conf

    @property
    def written(self):
        """The queues that a producer uses, in its order."""
        if self.order_conf is not None:
            parts = (part.split(":") for part in self.order_conf.split(";"))
            return [(name, i) for name, count in parts for i in range(int(count))]
        listed = ((name, self.counts[name]) for name in sorted(self.counts))
        return [(name, i) for name, each in listed if each.perm & WRITE_PERM for i in range(each.write)]

    @property
    def read(self):
        listed = ((name, self.counts[name]) for name in sorted(self.counts))
        return [(name, i) for name, each in listed if each.perm & READ_PERM for i in range(each.read)]


def equal_counts(queues):
    return QueueCounts(queues, queues)
