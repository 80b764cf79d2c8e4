"""Models of Java's brokers and NameServers, as far as a resize can see them (docs/protocol/queue-scaling.md 1)."""

from bisect import bisect_right

from controller.scaling.resize.operation import READ_PERM, WRITE_PERM, QueueCounts
from scaling_simulation.histories import WAITS

TOPIC = "Orders"
UNIX_MS = 1_800_000_000_000
#: Between two saves of offsets by a broker, and two registrations.
PERSIST_MS = 5_000
REGISTER_MS = 30_000
LOCK_MS = 60_000
#: Levels of delayed messages, and how late others come: timed ones, and decisions about transactional ones.
LEVELS_MS = {1: 10_000, 5: 60_000, 6: 120_000}
PENDING_MS = {"timed": 90_000, "half": 60_000}
#: For how long they are waited for.
PENDING_WAITS_MS = {"timed": WAITS.timed_ms, "half": WAITS.transaction_ms}


class Message:
    """A message that a producer has sent."""

    __slots__ = (
        "appended_ms", "at", "broker_name", "id", "is_excused", "is_stale", "key", "number", "queue_id", "sent_ms",
        "strays",
    )  # fmt: skip

    def __init__(self, message_id, key, number, sent_ms):
        self.id, self.key, self.number, self.sent_ms = message_id, key, number, sent_ms
        self.broker_name, self.queue_id, self.at, self.appended_ms = "", -1, -1, sent_ms
        #: Nobody has to consume it: a broker has lost or deleted it, or it takes the offset of one that was lost.
        self.is_excused = False
        #: Sent by a route that was too old.
        self.is_stale = False
        #: Its key may be anywhere: sent by such a route, or by one with what others than the resize have changed.
        self.strays = False


class Replica:
    """One broker of a set: what is its own, and not the same on all of them."""

    def __init__(self, brokers, index, counts):
        self.brokers = brokers
        self.name = brokers.name
        self.address = f"{brokers.name}-{index}:10911"
        self.index = index
        self.counts = counts
        self.is_up = True
        self.boot_ms = 0
        self.offsets = {}
        self.persisted = {}
        #: Since when it does not copy the master's log; None: it does.
        self.behind_since_ms = None
        #: Clients that have sent it heartbeats, by their ids.
        self.heard = {}

    def persist(self):
        self.persisted = {group: dict(offsets) for group, offsets in self.offsets.items()}

    def consumers(self):
        return [each for each in self.heard.values() if each.group is not None]

    def producers(self):
        return [each for each in self.heard.values() if each.group is None]


class Brokers:
    """A broker set. The log of each replica is the beginning of one and the same; settings and offsets are its own."""

    def __init__(self, world, name, slaves, counts):
        self.world = world
        self.name = name
        self.replicas = [Replica(self, i, counts) for i in range(slaves + 1)]
        self.master = self.last_master = self.replicas[0]
        self.led_ms = 0
        #: Messages in the order of the log, and how many of them are in their queues.
        self.log = []
        self.dispatched = 0
        self.dispatches_from_ms = 0
        self.queues = {}
        #: By queue: its first offset; and offsets up to which messages were lost, and others came in their places.
        self.first = {}
        self.lost_up_to = {}
        #: By level: (due, queue id, message), in the order of being sent; and how many were delivered.
        self.delayed = {level: [] for level in LEVELS_MS}
        self.delivered = dict.fromkeys(LEVELS_MS, 0)
        self.pending = dict.fromkeys(PENDING_MS, 0)
        #: Holders of the locks of orderly groups, and until when.
        self.locks = {}
        self.slow_until_ms = self.appends_ms = 0
        #: It never comes back; or the topic was made anew, and groups begin in its queues as they like.
        self.is_gone = self.is_remade = False
        world.every(PERSIST_MS, self.persist)
        world.every(REGISTER_MS, self.register)
        world.every(world.settings.copy_ms, self.copy)

    @property
    def slaves(self):
        return [each for each in self.replicas if each is not self.master]

    @property
    def counts(self):
        """As the master has stored them; None without a master, or without the topic."""
        return None if self.master is None else self.master.counts

    def queue(self, queue_id):
        return self.queues.setdefault(queue_id, [])

    # What producers and consumers do

    def accepts(self, queue_id):
        counts = self.counts
        return counts is not None and queue_id < max(counts.write, counts.read)

    def serves(self, queue_id):
        counts = self.counts
        return counts is not None and queue_id < counts.read and bool(counts.perm & READ_PERM)

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
        message.broker_name, message.queue_id, message.appended_ms = self.name, queue_id, self.world.now_ms
        # What is under way while the topic is deleted lands in no queue that anybody reads.
        message.is_excused |= self.is_remade or (self.master is not None and self.counts is None)
        self.log.append(message)
        self.dispatch()

    def dispatch(self):
        """Put what is in the log into queues, unless the thread that does so stands still."""
        if self.world.now_ms < self.dispatches_from_ms:
            return
        for message in self.log[self.dispatched :]:
            queue = self.queue(message.queue_id)
            message.at = len(queue)
            message.is_excused |= message.at < self.lost_up_to.get(message.queue_id, 0)
            queue.append(message)
        self.dispatched = len(self.log)

    def send_late(self, message, queue_id, how):
        """Check at once, and append much later: delayed, timed, or once the transaction is decided."""
        if not self.accepts(queue_id):
            return
        self.world.acknowledged(message)
        message.broker_name, message.queue_id = self.name, queue_id
        if how in LEVELS_MS:
            self.delayed[how].append((self.world.now_ms + LEVELS_MS[how], queue_id, message))
            self.world.later(LEVELS_MS[how], self.deliver, how)
        else:
            self.pending[how] += 1
            draw = self.world.random.random()
            self.world.later(
                int(1 + PENDING_MS[how] * (draw if draw < 0.9 else 1 + draw)), self.decide, how, message, queue_id
            )

    def decide(self, how, message, queue_id):
        if self.master is None:
            self.world.later(1_000, self.decide, how, message, queue_id)
            return
        self.pending[how] -= 1
        message.is_excused |= self.world.now_ms - message.sent_ms > PENDING_WAITS_MS[how]
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
        return (
            self.dispatched < len(self.log)
            or any(self.pending.values())
            or any(self.delivered[level] < len(waiting) for level, waiting in self.delayed.items())
        )

    def offset(self, group, queue_id):
        return self.master.offsets.get(group, {}).get(queue_id)

    def commit(self, group, queue_id, offset):
        if self.master is not None:
            self.master.offsets.setdefault(group, {})[queue_id] = offset

    def lock(self, group, queue_id, client_id):
        """Return whether a client has the lock of a queue from now on."""
        if self.master is None:
            return False
        former = self.locks.get((group, queue_id))
        holder, until_ms = former or (client_id, 0)
        if holder != client_id and until_ms > self.world.now_ms:
            return False
        if (former is None or holder != client_id) and not client_id.startswith("rmq-controller"):
            self.world.judge.locks(group, queue_id)
        self.locks[group, queue_id] = client_id, self.world.now_ms + LOCK_MS
        return True

    def unlock(self, group, queue_id, client_id):
        if self.locks.get((group, queue_id), ("", 0))[0] == client_id:
            del self.locks[group, queue_id]

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

    def copied(self, replica):
        """Return how many messages of the log a replica has."""
        if replica is self.last_master:
            return len(self.log)
        until_ms = self.world.now_ms - self.world.settings.log_lag_ms
        if replica.behind_since_ms is not None:
            until_ms = min(until_ms, replica.behind_since_ms)
        return bisect_right(self.log, until_ms, key=lambda each: each.appended_ms)

    def is_in_sync(self, replica):
        """Return whether a controller would elect a slave: not one that lacks what was acknowledged."""
        return replica.behind_since_ms is None or self.world.settings.log_lag_ms > 0

    def set_counts(self, counts):
        self.master.counts = counts
        for each in self.world.name_servers:
            self.world.later(self.world.random.randrange(500), self.register_at, each)

    def register(self):
        for each in self.world.name_servers:
            self.register_at(each)

    def register_at(self, name_server):
        if self.master is not None and name_server.takes_registrations:
            addresses = {each.index + 1: each.address for each in self.slaves if each.is_up}
            name_server.learn(self.name, self.master.counts, {0: self.master.address, **addresses})

    def stop(self):
        if self.master is None:
            return None
        stopped, self.master = self.master, None
        self.locks.clear()
        self.stop_replica(stopped)
        return stopped

    def stop_replica(self, replica):
        """Let a broker be gone, and NameServers notice that its connection has ended."""
        replica.is_up = False
        replica.heard.clear()
        if replica is not self.last_master:
            replica.behind_since_ms = self.world.now_ms
        for each in self.world.name_servers:
            each.forget(self.name, replica.address)

    def start(self, replica):
        """Start a broker anew: as the master that it was last, or as a slave."""
        if self.is_gone or replica.is_up:
            return
        replica.is_up = True
        replica.boot_ms = self.world.now_ms
        replica.offsets = {group: dict(offsets) for group, offsets in replica.persisted.items()}
        if self.master is None and replica is self.last_master:
            self.lead(replica)
        else:
            replica.behind_since_ms = None
            self.register()

    def lead(self, replica):
        """Let a replica lead: messages that it has not copied are lost."""
        self.lose_from(self.copied(replica))
        if not replica.is_up:
            replica.is_up, replica.boot_ms = True, self.world.now_ms
        replica.behind_since_ms = None
        self.master = self.last_master = replica
        self.led_ms = self.world.now_ms
        # All that is in the log is dispatched before it serves.
        self.dispatches_from_ms = 0
        self.dispatch()
        self.register()
        for level in LEVELS_MS:
            self.deliver(level)

    def expire(self, before_ms):
        """Delete the messages that were stored before, consumed or not."""
        for queue_id, queue in self.queues.items():
            first = bisect_right(queue, before_ms, key=lambda each: each.appended_ms)
            for message in queue[self.first.get(queue_id, 0) : first]:
                message.is_excused = True
            self.first[queue_id] = max(self.first.get(queue_id, 0), first)

    def forget_topic(self):
        """Let the topic be deleted: its queues and offsets go with it."""
        for replica in self.replicas:
            replica.counts, replica.offsets, replica.persisted = None, {}, {}
        for message in self.log:
            message.at = -1
        for each in (self.queues, self.first, self.lost_up_to):
            each.clear()
        for each in self.world.messages.values():
            each.is_excused |= each.broker_name == self.name
        self.world.judge.foreign_ms = self.world.now_ms
        self.register()

    def lose_from(self, many):
        for message in reversed(self.log[many:]):
            message.is_excused = True
            if message.at >= 0:
                queue = self.queues[message.queue_id]
                self.lost_up_to[message.queue_id] = max(self.lost_up_to.get(message.queue_id, 0), len(queue))
                queue.pop()
                self.first[message.queue_id] = min(self.first.get(message.queue_id, 0), len(queue))
                message.at = -1
        self.dispatched = min(self.dispatched, many)
        del self.log[many:]

    def mend(self):
        """Start what is down, and append at once."""
        if self.is_gone:
            return
        self.slow_until_ms = self.dispatches_from_ms = 0
        self.dispatch()
        for each in self.replicas:
            if not each.is_up:
                self.start(each)
            each.behind_since_ms = None
        if self.master is None:
            self.lead(self.last_master)


class NameServer:
    def __init__(self, world, index):
        self.world = world
        self.name = self.address = f"namesrv-{index}:9876"
        self.boot_ms = 0
        self.is_up = True
        self.loses_until_ms = 0
        #: By broker name: the topic there, and addresses by broker id.
        self.counts, self.addresses = {}, {}
        self.order_conf = None
        #: What producers read, and its number; and by producer the number that it has fetched, and when it left.
        self.present, self.number, self.present_ms = None, 0, 0
        self.fetches = {}
        self.watched_ms = None

    @property
    def takes_registrations(self):
        return self.is_up and self.world.now_ms >= self.loses_until_ms

    @property
    def is_current(self):
        """Whether it shows what brokers have, as far as it knows them."""
        return all(counts == self.world.sets[name].last_master.counts for name, counts in self.counts.items())

    def learn(self, name, counts, addresses):
        self.addresses[name] = addresses
        if counts is None:
            self.counts.pop(name, None)
        else:
            self.counts[name] = counts

    def fetched(self, producer):
        """Take note of who has fetched the present route, while that is watched."""
        if self.watched_ms is not None:
            self.look()
            self.fetches[producer.id] = self.number, None

    def left(self, producer):
        """Take note of a connection that has ended."""
        if producer.id in self.fetches:
            self.fetches[producer.id] = self.fetches[producer.id][0], self.world.now_ms

    def look(self):
        present = {name: each.write if each.perm & WRITE_PERM else 0 for name, each in self.counts.items()}
        if self.present != (present, self.order_conf):
            self.present, self.present_ms = (present, self.order_conf), self.world.now_ms
            self.number += 1

    def forget(self, name, address):
        if not self.is_up or name not in self.addresses:
            return
        left = {broker_id: each for broker_id, each in self.addresses[name].items() if each != address}
        if left:
            self.addresses[name] = left
        else:
            del self.addresses[name]
            self.counts.pop(name, None)


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
