"""Models of Java's brokers, as far as a controller can see them (controller.md sections 4.2 to 4.8).

They follow the highest master epoch that they have heard of, and acknowledge what all of the SyncStateSet has. Logs
are compared as Java's are, by the epochs and where each begins: up to the end of the last one that both have they
count as the same, whatever is in them, and who has none in common never follows. A second in their life is one step.
One thing is kinder than Java's: a SyncStateSet that was asked for stays in the union until the controller has
confirmed, also if another was asked for since (Java's keeps the last one only, controller.md 6.14: no controller can
mend that).
"""

from msgspec.structs import replace

from controller.decisions.membership import Applicant, Registrant
from controller.decisions.sync_state import WantedSyncStateSet
from controller.live_table import Heard
from simulation.controllers import CLUSTER, SET

#: Seconds between polls, looks at the SyncStateSet, and searches for the leader.
POLL_EVERY = 5
DISCOVER_EVERY = 3
START_AGAIN_MS = 3_000
APPLIES_AFTER_MS = 200
CALL_MS = 3_000
#: Java's is 15 s; a shorter one makes short histories.
NOT_CAUGHT_UP_MS = 4_000


class Broker:
    def __init__(self, world, index):
        self.world = world
        self.index = index
        self.address = f"b{index}:10911"
        # On its disk
        self.id = None
        self.temporary_id = None
        #: The epoch in which each message was written, and its number.
        self.log = []
        #: The epochs in it, with the offset where each begins.
        self.epochs = []
        #: It was moved here from another set, with all that is on its disk.
        self.is_foreign = False
        # Around it
        self.is_up = False
        self.is_frozen = False
        self.starts = 0
        self.cut_controllers = set()
        self.cut_brokers = set()
        self.fine_since_ms = 0
        self.reset_ms = -10_000
        self.connections = {}
        self.next_requests = []
        self.next_answers = 0
        self.next_notices = []
        self.lags_until_ms = 0
        self.start()

    def start(self):
        if self.is_up:
            return
        self.is_up, self.is_frozen = True, False
        self.starts += 1
        self.fine_since_ms = self.world.now_ms
        self.leader = None
        self.is_running = self.is_registered = False
        self.start_again_ms = 0
        self.seconds = self.index
        self.epoch, self.master = 0, None
        self.followed = None
        self.roles = 0
        self.stop_leading()
        for controller in self.world.controllers:
            self.connect(controller)

    def connect(self, controller):
        self.connections[controller.index] = self.world.next_number()

    def crash(self):
        """Kill the process: what it has written is kept, its connections close."""
        if not self.is_up:
            return
        self.is_up = self.is_frozen = False
        for controller in self.world.controllers:
            self.reset_connection(controller)
        for other in self.world.brokers:
            if other.is_leading and self.index not in other.cut_brokers:
                other.lose(self.id)

    def reset_connection(self, controller):
        old = self.connections[controller.index]
        self.connect(controller)
        if controller.index not in self.cut_controllers:
            controller.receive(lambda: controller.closed(old))

    def reaches(self, controller):
        return self.is_up and not self.is_frozen and controller.index not in self.cut_controllers

    # Its log

    @property
    def file_epoch(self):
        return self.epochs[-1][0] if self.epochs else -1

    @property
    def file_start(self):
        return self.epochs[-1][1] if self.epochs else -1

    def begin_epoch(self, epoch):
        """Write an epoch into the file; it refuses one that begins where the one before does, or below it."""
        self.epochs = [each for each in self.epochs if each[0] != epoch]
        if epoch > self.file_epoch and len(self.log) > self.file_start:
            self.epochs.append((epoch, len(self.log)))

    def same_until(self, other):
        """Return up to where two logs count as the same; -1 if they have no epoch in common."""
        theirs = dict(other.epochs)
        for epoch, start in reversed(self.epochs):
            if theirs.get(epoch) == start:
                return min(self.end_of(epoch), other.end_of(epoch))
        return -1

    def end_of(self, epoch):
        return next((start for later, start in self.epochs if later > epoch), len(self.log))

    # Leading

    @property
    def is_leading(self):
        return self.is_up and self.master is not None and self.master == self.id

    def stop_leading(self):
        self.sync_state_set, self.pending, self.sync_state_set_epoch = frozenset(), frozenset(), 0
        self.acknowledged, self.caught_up_ms, self.confirmed = {}, {}, 0

    def lose(self, broker_id):
        self.acknowledged.pop(broker_id, None)
        self.caught_up_ms.pop(broker_id, None)

    def adopt(self, answer):
        """Follow what the controller says, if it is newer than what was heard before."""
        if answer.master is None:
            return
        if answer.master_epoch > self.epoch:
            self.change_role(answer)
        elif answer.master_epoch == self.epoch and self.is_leading:
            self.confirm(answer)

    def change_role(self, answer):
        old = self.world.by_id.get(self.master)
        if old is not None and old is not self and self.index not in old.cut_brokers and answer.master != self.master:
            old.lose(self.id)
        if not (self.is_leading and answer.master == self.id):
            # Slaves have to connect anew; those of a master that leads in another epoch stay connected.
            self.roles += 1
        self.epoch, self.master = answer.master_epoch, answer.master
        if not self.is_running:
            # Its heartbeats begin with its role.
            self.is_running, self.fine_since_ms = True, self.world.now_ms
        self.stop_leading()
        self.world.tell("broker %s follows %d in epoch %d", self.id, self.master, self.epoch)
        if self.master == self.id:
            self.world.promoted(self)
            self.sync_state_set, self.sync_state_set_epoch = answer.sync_state_set, answer.sync_state_set_epoch
            self.begin_epoch(self.epoch)
            self.settle()

    def confirm(self, answer):
        if answer.sync_state_set_epoch > self.sync_state_set_epoch:
            self.sync_state_set, self.sync_state_set_epoch = answer.sync_state_set, answer.sync_state_set_epoch
            self.pending = frozenset()
            self.settle()

    def settle(self):
        """Acknowledge what every member of the SyncStateSet has, and of the one that was asked for."""
        end = len(self.log)
        for i in self.sync_state_set | self.pending:
            if i != self.id:
                end = min(end, self.acknowledged.get(i, 0))
        if end > self.confirmed:
            self.confirmed = end
            self.world.acknowledged(self, end)

    # Each second

    def live(self):
        if not self.is_up or self.is_frozen:
            return
        self.seconds += 1
        if self.seconds % DISCOVER_EVERY == 0 or self.leader is None:
            self.discover()
        if not self.is_running:
            self.start_up()
            return
        self.beat()
        if self.seconds % POLL_EVERY == 0:
            self.poll()
        if self.is_leading:
            self.log.append((self.epoch, self.world.next_number()))
            self.settle()
            self.check_sync_state_set()
        elif self.master is not None:
            self.replicate()

    def beat(self):
        heard = Heard(
            0,
            self.world.settings.heartbeat_timeout_ms,
            self.file_epoch,
            len(self.log),
            self.confirmed,
            address=self.address,
            priority=self.index,
        )
        cut = self.cut_controllers
        for controller in self.world.controllers:
            if controller.is_up and controller.index not in cut:
                mine = replace(heard, connection_id=self.connections[controller.index])
                if controller.is_frozen:
                    controller.receive(lambda controller=controller, mine=mine: controller.beat(self.id, mine))
                else:
                    controller.beat(self.id, mine)

    def discover(self):
        for i in range(3):
            controller = self.world.controllers[(self.seconds + i) % 3]
            if controller.is_up and not controller.is_frozen and self.reaches(controller):
                leader = controller.leader_address()
                if leader is not None:
                    self.leader = leader
                    return

    def ask(self, request, then):  # noqa: C901  # a request, and all that becomes of it
        """Send a request to the leader as this broker knows it; `then` gets the answer, if one comes in time."""
        if self.leader is None:
            return
        controller = self.world.controllers[self.leader]
        if not self.reaches(controller):
            return
        starts, sent_ms = self.starts, self.world.now_ms
        connection_id = self.connections[controller.index]

        def answered(answer):
            is_there = self.starts == starts and self.reaches(controller)
            if answer is None or not is_there or self.world.now_ms - sent_ms > CALL_MS:
                return
            if self.next_answers:
                self.next_answers -= 1
                return
            then(answer)

        def arrive():
            controller.receive(lambda: request(controller, connection_id, answered))

        what, for_ms = self.next_requests.pop(0) if self.next_requests else ("", 0)
        if what in ("delay", "repeat"):
            self.world.at(sent_ms + for_ms, arrive)
        if what not in ("delay", "lose"):
            arrive()

    # Starting

    def start_up(self):
        now_ms = self.world.now_ms
        if now_ms < self.start_again_ms:
            return
        self.start_again_ms = now_ms + START_AGAIN_MS
        if self.id is None:
            # Others ask between the two.
            self.ask(
                lambda controller, _, done: controller.next_id(done),
                lambda broker_id: self.world.at(now_ms + APPLIES_AFTER_MS, lambda: self.apply_id(broker_id)),
            )
        elif self.is_registered:
            self.stand()
        else:
            self.register(self.registered)

    def apply_id(self, broker_id):
        # A refusal, as anything else but success, makes it begin anew with another check code.
        check_code = f"{self.address};{self.world.next_number()}"
        applicant = Applicant(
            cluster=CLUSTER,
            broker_name=SET,
            broker_id=broker_id,
            address=self.address,
            check_code=check_code,
        )

        def applied(is_mine):
            if is_mine and self.id is None:
                self.id = broker_id
                self.world.identified(self)
                self.register(self.registered)

        self.ask(lambda controller, _, done: controller.apply_id(applicant, done), applied)

    def register(self, then):
        registrant = Registrant(cluster=CLUSTER, broker_name=SET, broker_id=self.id, address=self.address)
        self.ask(lambda controller, connection, done: controller.register(registrant, connection, done), then)

    def registered(self, answer):
        self.is_registered = True
        self.adopt(answer)
        if not self.is_running:
            self.stand()

    def stand(self):
        self.beat()
        self.ask(lambda controller, connection, done: controller.elect_for(self.id, connection, done), self.adopt)

    # Running

    def poll(self):
        self.ask(lambda controller, _, done: controller.replica_info(done), self.polled)

    def polled(self, answer):
        if not answer.is_known:
            self.register(lambda _: None)
        elif answer.master is None and answer.master_epoch > self.epoch:
            self.stand()
        else:
            self.adopt(answer)

    def replicate(self):
        """Take the next messages from the master, and drop what it does not have."""
        master = self.world.by_id.get(self.master)
        if master is None or not master.is_leading or master.is_frozen or master.index in self.cut_brokers:
            return
        connection = master.index, master.starts, master.roles, self.epoch
        if self.followed != connection:
            if not self.shake_hands(master):
                return
            self.followed = connection
        mine = self.log
        mine += master.log[len(mine) : len(mine) + (0 if self.world.now_ms < self.lags_until_ms else 4)]
        self.epochs = [each for each in master.epochs if each[1] < len(mine) or each in self.epochs]
        master.followed_by(self.id, len(mine))

    def shake_hands(self, master):
        """Drop what the master does not have; a broker without epochs takes all that the master has."""
        same = self.same_until(master) if self.epochs else len(self.log) and -1
        if same < 0:
            self.world.has_nothing_in_common(self)
            return False
        if self.log[:same] != master.log[:same]:
            self.world.count_as_one(self, master, same)
        del self.log[same:]
        self.epochs = [each for each in self.epochs if each[1] < same]
        return True

    def followed_by(self, broker_id, end):
        self.acknowledged[broker_id] = end
        if end == len(self.log):
            self.caught_up_ms[broker_id] = self.world.now_ms
        self.settle()
        if broker_id not in self.sync_state_set and end >= max(self.confirmed, self.file_start):
            self.report(self.sync_state_set | {broker_id})

    def check_sync_state_set(self):
        oldest_ms = self.world.now_ms - NOT_CAUGHT_UP_MS
        out = {
            i
            for i in self.sync_state_set
            if i != self.id and (i not in self.acknowledged or self.caught_up_ms.get(i, 0) < oldest_ms)
        }
        if out:
            self.report(self.sync_state_set - out)

    def report(self, members):
        self.pending |= members
        self.world.reported_ms.update(dict.fromkeys(members, self.world.now_ms))
        wanted = WantedSyncStateSet(
            broker_name=SET,
            master=self.id,
            master_epoch=self.epoch,
            members=members,
            sync_state_set_epoch=self.sync_state_set_epoch,
        )
        if self.world.late_reports_ms:
            self.next_requests.insert(0, ("delay", self.world.late_reports_ms.pop()))
        epoch = self.epoch

        def altered(answer):
            if self.epoch == epoch and self.is_leading:
                self.confirm(answer)

        self.ask(lambda controller, connection, done: controller.alter(wanted, connection, done), altered)
