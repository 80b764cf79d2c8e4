"""Models of Java's brokers, as far as a controller can see them (docs/protocol/controller.md 4.2 to 4.8).

They follow the highest master epoch that they have heard of, and acknowledge what all of the SyncStateSet has, or what
a fixed number of connections has. Logs are compared as Java's are, by the epochs and where each begins: up to the end
of the last one that both have they count as the same, whatever is in them, and who has none in common never follows. A
second in their life is one step.
Two things are kinder than Java's, which no controller can mend. A SyncStateSet that was asked for stays in the union
until the controller has confirmed, also if another was asked for since (Java's keeps the last one only,
docs/protocol/controller.md 6.14). And whoever begins to lead drops what its epoch file says of a log that it lost
(Java's writes no epoch then, and two logs that differ can count as one).
"""

from typing import NamedTuple

import msgspec

from remoting.protocol.codec import decode_fields
from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.shapes.controller import BrokerHeartbeatHeader, MasterHeader
from simulation.controllers import CLUSTER
from simulation.links import LATENCY_MS, Peer

#: Seconds between polls, looks at the SyncStateSet, and searches for the leader.
POLL_EVERY = 5
DISCOVER_EVERY = 3
START_AGAIN_MS = 3_000
APPLIES_AFTER_MS = 200
CALL_MS = 3_000
#: Java's is 15 s; a shorter one makes short histories.
NOT_CAUGHT_UP_MS = 4_000
#: How long the first try to start takes at most; then its port is open, whatever came of it (`startBasicService`).
LISTENS_AFTER_MS = 3_000
#: Seconds between two flushes of the log to the disk.
FLUSH_EVERY = 3
#: What a master calls itself, and one that has no role yet.
AS_MASTER, AS_NOBODY = 0, -1

#: The progress of an empty log.
NOTHING = (-1, 0)
#: Where the brokers of each set listen, all of them on the same hosts.
PORTS = {"broker-a": 10911, "broker-b": 10921}

_read = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode


def host_of(place):
    return f"10.0.0.{place + 1}"


class Answer(NamedTuple):
    """What a broker hears of its set."""

    master: int | None
    master_epoch: int
    sync_state_set: frozenset[int]
    sync_state_set_epoch: int


def answer_of(command):
    """Return what a request or an answer about a set says."""
    header = decode_fields(MasterHeader, command.ext_fields)
    body = _read(command.body)
    return Answer(
        header.master_broker_id,
        header.master_epoch or 0,
        frozenset(body["syncStateSet"]),
        body.get("syncStateSetEpoch", header.sync_state_set_epoch or 0),
    )


class Broker:
    def __init__(self, of_set, index, place):
        """`index` is its own in its world, `place` that of its host."""
        self.set, self.world = of_set, of_set.world
        self.index, self.place = index, place
        self.host = host_of(place)
        self.port = PORTS[of_set.name]
        name = f"b{place}.set" if self.world.settings.are_named else self.host
        self.address = f"{name}:{self.port}"
        # On its disk
        self.id = None
        #: The epoch in which each message was written, and its number.
        self.log = []
        #: The epochs in it, with the offset where each begins.
        self.epochs = []
        #: How much of the log outlives a loss of power.
        self.flushed = 0
        #: The farthest that it told each controller, by its index: which run of that, the progress of the log.
        self.told = {}
        #: As far as a leader must have stored it, and may not forget.
        self.known = NOTHING
        #: What runs elsewhere with a copy of its disk; and of which broker this is one itself.
        self.copy = self.original = None
        #: It was moved here from another set, with all that is on its disk.
        self.is_foreign = False
        # Around it
        self.is_up = False
        self.is_frozen = False
        self.starts = 0
        self.cut_controllers = set()
        self.cut_brokers = set()
        #: Controllers that nothing comes to that it sends, though it answers them.
        self.unheard_by = set()
        #: Since when nothing is wrong with it, and since when it serves.
        self.fine_since_ms = self.running_since_ms = 0
        self.reset_ms = -10_000
        self.connections = {}
        #: Until then it answers nobody who asks how far its log is.
        self.mute_until_ms = 0
        #: Questions that came while it stood still.
        self.unanswered = []
        self.next_requests = []
        self.next_answers = 0
        self.next_notices = []
        self.lags_until_ms = 0

    def copied_to(self, index):
        """Return a broker with a copy of the disk of this one, which takes itself for it."""
        copy = self.copy = Broker(self.set, index, place=index)
        copy.original, copy.id = self, self.id
        copy.log, copy.epochs = list(self.log), list(self.epochs)
        return copy

    def end_copy(self):
        """Stop what runs with a copy of its disk: once this one is not there, nobody can tell which of them it is."""
        if self.copy is not None:
            self.copy.crash()
            self.copy = None

    def start(self):
        if self.is_up:
            return
        self.is_up, self.is_frozen = True, False
        self.starts += 1
        # Controllers that do not lead keep nothing of the process before.
        leading = self.set.leading_controller
        kept = {leading.index} if leading is not None else set()
        self.told = {i: told for i, told in self.told.items() if i in kept}
        if self.set.master is self:
            confirmed = self.set.told_confirmed
            self.set.told_confirmed = {i: told for i, told in confirmed.items() if i in kept}
        self.started_ms = self.fine_since_ms = self.world.now_ms
        self.leader = None
        self.is_running = self.is_registered = False
        self.start_again_ms = 0
        self.seconds = self.place
        self.epoch, self.master = 0, None
        self.followed = None
        self.roles = 0
        self.stop_leading()
        self.unanswered.clear()

    def connection(self, controller):
        """Return its connection to a controller, a new one to one that has started anew."""
        found = self.connections.get(controller.index)
        if found is None or found[0] != controller.runs:
            found = controller.runs, Peer(self.world.next_number(), self.host)
            self.connections[controller.index] = found
        return found[1]

    def crash(self):
        """Kill the process: what it has written is kept, its connections close."""
        if not self.is_up:
            return
        self.end_copy()
        self.is_up = self.is_frozen = False
        for controller in self.world.controllers:
            self.reset_connection(controller)
        for other in self.set.brokers:
            if other.is_leading and self.index not in other.cut_brokers:
                other.lose(self)

    def freeze(self):
        self.end_copy()
        self.is_frozen = self.is_up

    def thaw(self):
        self.is_frozen = False
        self.fine_since_ms = self.world.now_ms
        unanswered, self.unanswered = self.unanswered, []
        for each in unanswered:
            self.take_question(*each)

    def reset_connection(self, controller):
        runs, old = self.connections.pop(controller.index, (0, None))
        if runs == controller.runs and controller.index not in self.cut_controllers:
            controller.receive(controller.closed, old.id)

    def has_way_to(self, controller):
        return controller.index not in self.cut_controllers

    def reaches(self, controller):
        lost = self.cut_controllers | self.unheard_by if self.unheard_by else self.cut_controllers
        return self.is_up and not self.is_frozen and controller.index not in lost

    # What it is asked

    @property
    def listens(self):
        """Tell whether somebody is at its port."""
        is_late = self.world.now_ms - self.started_ms > LISTENS_AFTER_MS
        return self.is_up and (self.is_running or is_late)

    def take_question(self, request, answered):  # one case for each request
        """Answer what a controller asks; who stands still does so when it goes on."""
        if self.is_frozen:
            self.unanswered.append((request, answered))
            return
        match request.code:
            case RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
                if self.id is not None:
                    self.adopt(answer_of(request))
                answered(request.reply())
            case RequestCode.GET_BROKER_EPOCH_CACHE:
                if self.world.now_ms >= self.mute_until_ms:
                    self.set.reported_log_end(self)
                    answered(request.reply(body=self.epoch_cache()))
            case BrokerRequestCode.GET_BROKER_HA_STATUS:
                answered(request.reply(body=_write({"master": self.is_leading})))
            case BrokerRequestCode.GET_BROKER_RUNTIME_INFO:
                answered(request.reply(body=_write({"table": {"bootTimestamp": str(self.started_ms)}})))
            case RequestCode.GET_BROKER_CONFIG:
                if self.world.now_ms >= self.mute_until_ms:
                    self.set.leader_knows_properties = True
                    answered(request.reply(body=self.world.settings.broker_properties))

    def epoch_cache(self):
        role = AS_MASTER if self.is_leading else self.id if self.is_running else AS_NOBODY
        epochs = [{"epoch": epoch, "startOffset": start} for epoch, start in self.epochs]
        return _write({"brokerName": self.set.name, "brokerId": role, "epochList": epochs, "maxOffset": len(self.log)})

    # Its log

    @property
    def progress(self):
        """The epoch of its last message, and where the log ends: what logs are compared by."""
        return (self.log[-1][0], len(self.log)) if self.log else NOTHING

    def tell(self, controller):
        """Take note that a controller hears how far the log is."""
        run, told = self.told.get(controller.index, (0, NOTHING))
        if self.is_leading:
            told_run, confirmed = self.set.told_confirmed.get(controller.index, (0, 0))
            confirmed = max(self.confirmed, confirmed if told_run == controller.runs else 0)
            self.set.told_confirmed[controller.index] = controller.runs, confirmed
        self.told[controller.index] = controller.runs, max(self.progress, told if run == controller.runs else NOTHING)

    def known_to(self, controller):
        """Return how far a controller knows that the log was: by itself, or because one before has stored it."""
        run, told = self.told.get(controller.index, (0, NOTHING)) if controller is not None else (0, NOTHING)
        return max(self.known, told) if controller is not None and run == controller.runs else self.known

    def cut_log(self, end):
        """Drop what is beyond, as who follows a master does: nobody has to miss that."""
        if end < len(self.log):
            del self.log[end:]
            self.flushed = min(self.flushed, end)
            self.known = min(self.known, self.progress)
            self.told = {index: (run, min(told, self.progress)) for index, (run, told) in self.told.items()}
        self.epochs = [each for each in self.epochs if each[1] < end]

    def replace_disk(self, log, epochs):
        """Come back with another log than was written."""
        self.crash()
        self.log, self.epochs, self.flushed = log, epochs, len(log)
        self.set.disk_replaced(self)

    @property
    def file_epoch(self):
        return self.epochs[-1][0] if self.epochs else -1

    @property
    def file_start(self):
        return self.epochs[-1][1] if self.epochs else -1

    def begin_epoch(self, epoch):
        """Write an epoch into the file; it refuses one that begins where the one before does, or below it."""
        if self in self.set.shrunk:
            self.epochs = [each for each in self.epochs if each[1] < len(self.log)]
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
        #: By connection: whose it is, and up to where it has the log.
        self.followers = {}
        self.caught_up_ms, self.confirmed = {}, 0

    def lose(self, broker):
        """Lose the connection over which another one follows."""
        self.followers.pop(broker.index, None)
        if broker.id not in {i for i, _ in self.followers.values()}:
            self.caught_up_ms.pop(broker.id, None)

    def adopt(self, answer):
        """Follow what the controller says, if it is newer than what was heard before."""
        if answer.master is None:
            return
        if answer.master_epoch > self.epoch:
            self.change_role(answer)
        elif answer.master_epoch == self.epoch and self.is_leading:
            self.confirm(answer)

    def change_role(self, answer):
        if self.original is not None:
            self.set.copy_gets_role(self)
            return
        old = self.set.by_id.get(self.master)
        if old is not None and old is not self and self.index not in old.cut_brokers and answer.master != self.master:
            old.lose(self)
        if not (self.is_leading and answer.master == self.id):
            # Slaves have to connect anew; those of a master that leads in another epoch stay connected.
            self.roles += 1
        self.epoch, self.master = answer.master_epoch, answer.master
        if not self.is_running:
            self.is_running, self.running_since_ms = True, self.world.now_ms
        self.stop_leading()
        self.world.note("broker %s follows %d in epoch %d", self.id, self.master, self.epoch)
        if self.master == self.id:
            self.set.promoted(self)
            self.sync_state_set, self.sync_state_set_epoch = answer.sync_state_set, answer.sync_state_set_epoch
            self.begin_epoch(self.epoch)
            self.settle()

    def confirm(self, answer):
        if answer.sync_state_set_epoch > self.sync_state_set_epoch:
            self.sync_state_set, self.sync_state_set_epoch = answer.sync_state_set, answer.sync_state_set_epoch
            self.pending = frozenset()
            self.settle()

    def settle(self):
        """Acknowledge what every member of the SyncStateSet has, and of the one that was asked for.

        Or what so many connections have, whoever is at their other ends (docs/protocol/controller.md 4.8).
        """
        confirmed_on = self.world.settings.confirmed_on
        if confirmed_on:
            ends = sorted((end for _, end in self.followers.values()), reverse=True)
            end = ends[confirmed_on - 2] if len(ends) > confirmed_on - 2 else 0
        else:
            members = self.sync_state_set | self.pending
            ends = sorted((end for i, end in self.followers.values() if i in members), reverse=True)
            needed = len(members) - 1
            end = len(self.log) if not needed else ends[needed - 1] if len(ends) >= needed else 0
        end = min(end, len(self.log))
        if end > self.confirmed:
            self.confirmed = end
            self.set.acknowledged(self, end)

    # Each second

    def live(self):  # one thing after the other
        if not self.is_up or self.is_frozen:
            return
        self.seconds += 1
        if self.seconds % FLUSH_EVERY == 0:
            self.flushed = len(self.log)
        if self.seconds % DISCOVER_EVERY == 0 or self.leader is None:
            self.discover()
        if not self.is_running:
            self.start_up()
            return
        self.heartbeat()
        if self.seconds % POLL_EVERY == 0:
            self.poll()
        if self.is_leading:
            if self.set.proxy is None or self.id in self.set.proxy.up:
                self.log.append((self.epoch, self.world.next_number()))
            self.settle()
            self.check_sync_state_set()
        elif self.master is not None:
            self.replicate()

    def heartbeat(self):
        heartbeat_header = BrokerHeartbeatHeader(
            cluster_name=CLUSTER,
            broker_addr=self.address,
            broker_name=self.set.name,
            broker_id=self.id,
            epoch=self.file_epoch,
            max_offset=len(self.log),
            confirm_offset=self.confirmed,
            heartbeat_timeout_mills=self.world.settings.heartbeat_timeout_ms,
            election_priority=self.place,
        )
        for controller in self.world.controllers:
            if controller.is_up and self.reaches(controller):
                self.tell(controller)
                controller.receive(controller.heartbeat, heartbeat_header, self.connection(controller))

    def discover(self):
        """Ask one controller after the other who leads them."""
        controllers = self.world.controllers
        self.query_leader(controllers[self.seconds // DISCOVER_EVERY % len(controllers)], len(controllers) - 1)

    def query_leader(self, controller, more):
        def answered(command):
            address = command.ext_fields.get("controllerLeaderAddress")
            if address is not None:
                self.leader = next(each.index for each in self.world.controllers if each.me.address == address)
            elif more:
                self.query_leader(following(), more - 1)

        def following():
            controllers = self.world.controllers
            return controllers[(controller.index + 1) % len(controllers)]

        if controller.is_up and self.reaches(controller):
            self.send(controller, RemotingCommand(RequestCode.CONTROLLER_GET_METADATA_INFO), answered)
        elif more:
            self.query_leader(following(), more - 1)

    def request(self, code, fields, then, body=b""):
        """Send a request to the leader as this broker knows it; `then` gets the answer, if one comes in time."""
        if self.leader is None:
            return
        controller = self.world.controllers[self.leader]
        texts = {"clusterName": CLUSTER, "brokerName": self.set.name} | {
            key: str(value) for key, value in fields.items()
        }
        if controller.is_up and self.reaches(controller):
            self.send(controller, RemotingCommand(code, ext_fields=texts, body=body), then)

    def send(self, controller, request, then):  # noqa: C901  # a request, and all that becomes of it
        world, starts, sent_ms, peer = self.world, self.starts, self.world.now_ms, self.connection(controller)
        is_answered = False

        def answered(command):
            if controller.is_up:
                world.at(world.now_ms + LATENCY_MS, lambda: come(command))

        def come(command):
            nonlocal is_answered
            is_there = self.starts == starts and self.reaches(controller)
            if is_answered or not is_there or world.now_ms - sent_ms > CALL_MS:
                return
            if self.next_answers and request.code != RequestCode.CONTROLLER_GET_METADATA_INFO:
                self.next_answers -= 1
                return
            is_answered = True
            if command.code in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
                then(command)
            else:
                self.refused(request, command)

        def give_up():
            # The Java client closes the connection on which no answer came.
            if not is_answered and self.starts == starts and self.reaches(controller):
                found = self.connections.get(controller.index)
                if found is not None and found[1] is peer:
                    self.end_copy()
                    self.reset_connection(controller)

        def arrive():
            controller.receive(controller.take, request, peer, answered)

        is_of_set = request.code != RequestCode.CONTROLLER_GET_METADATA_INFO
        what, for_ms = self.next_requests.pop(0) if self.next_requests and is_of_set else ("", LATENCY_MS)
        if what in ("delay", "repeat"):
            world.at(sent_ms + for_ms, arrive)
        if what not in ("delay", "lose"):
            world.at(sent_ms + LATENCY_MS, arrive)
        world.at(sent_ms + CALL_MS, give_up)

    def refused(self, request, command):
        is_poll = request.code == RequestCode.CONTROLLER_GET_REPLICA_INFO
        if is_poll and command.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST:
            self.register(lambda _: None)

    # Starting

    def start_up(self):
        now_ms = self.world.now_ms
        if now_ms < self.start_again_ms or self.leader is None:
            return
        self.start_again_ms = now_ms + START_AGAIN_MS
        if self.id is None:
            # Others ask between the two.
            self.request(
                RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
                {},
                lambda command: self.world.at(
                    now_ms + APPLIES_AFTER_MS, lambda: self.apply_id(int(command.ext_fields["nextBrokerId"]))
                ),
            )
        elif self.is_registered:
            self.stand()
        else:
            self.register(self.registered)

    def apply_id(self, broker_id):
        # A refusal, as anything else but success, makes it begin anew with another check code.
        def applied(_):
            if self.id is None:
                self.id = broker_id
                self.set.identified(self)
                self.register(self.registered)

        fields = {"appliedBrokerId": broker_id, "registerCheckCode": f"{self.address};{self.world.next_number()}"}
        if self.is_up and not self.is_frozen:
            self.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, fields, applied)

    def register(self, then):
        self.request(
            RequestCode.CONTROLLER_REGISTER_BROKER,
            {"brokerId": self.id, "brokerAddress": self.address},
            lambda command: then(answer_of(command)),
        )

    def registered(self, answer):
        self.is_registered = True
        self.adopt(answer)
        if not self.is_running:
            self.stand()

    def stand(self):
        self.heartbeat()
        self.request(
            RequestCode.CONTROLLER_ELECT_MASTER,
            {"brokerId": self.id},
            lambda command: self.adopt(answer_of(command)),
        )

    # Running

    def poll(self):
        self.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, {}, lambda command: self.polled(answer_of(command)))

    def polled(self, answer):
        if answer.master is None and answer.master_epoch > self.epoch:
            self.stand()
        else:
            self.adopt(answer)

    def replicate(self):
        """Take the next messages from the master, and drop what it does not have."""
        master = self.set.leader_for(self)
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
        master.followed_by(self, len(mine))

    def shake_hands(self, master):
        """Drop what the master does not have; a broker without epochs takes all that the master has."""
        same = self.same_until(master) if self.epochs else len(self.log) and -1
        if same < 0:
            self.set.has_nothing_in_common(self)
            return False
        same_log = min(same, len(self.log))
        if self.log[:same_log] != master.log[:same_log]:
            self.set.count_as_one(self, master, same)
        self.cut_log(same)
        return True

    def followed_by(self, broker, end):
        self.followers[broker.index] = broker.id, end
        if end == len(self.log):
            self.caught_up_ms[broker.id] = self.world.now_ms
            self.set.caught_up(broker)
        self.settle()
        if broker.id not in self.sync_state_set and end >= max(self.confirmed, self.file_start):
            self.report(self.sync_state_set | {broker.id})

    def check_sync_state_set(self):
        oldest_ms = self.world.now_ms - NOT_CAUGHT_UP_MS
        following = {i for i, _ in self.followers.values()}
        out = {
            i
            for i in self.sync_state_set
            if i != self.id and (i not in following or self.caught_up_ms.get(i, 0) < oldest_ms)
        }
        if out:
            self.report(self.sync_state_set - out)

    def report(self, members):
        self.pending |= members
        if self.world.late_reports_ms:
            self.next_requests.insert(0, ("delay", self.world.late_reports_ms.pop()))
        epoch = self.epoch

        def altered(command):
            if self.epoch == epoch and self.is_leading:
                self.confirm(answer_of(command))

        self.request(
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
            {"masterBrokerId": self.id, "masterEpoch": self.epoch},
            altered,
            _write({"syncStateSet": sorted(members), "syncStateSetEpoch": self.sync_state_set_epoch}),
        )
