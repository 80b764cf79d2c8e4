"""Random histories of one set: brokers that crash, hang and come back, messages, lost answers, operators.

The brokers are models of Java's: they follow the highest master epoch they have heard of, keep the union of the old and
the wanted SyncStateSet until the controller has confirmed, acknowledge what all of it has, and truncate what their
master does not have. The rules are the product's own. Whatever happens:

- a master epoch has one master, and epochs never go back;
- a new master has every message that was acknowledged, unless an operator allowed an unclean election;
- a set with a living member of the SyncStateSet gets a master.
"""

import random
from dataclasses import dataclass, field

import pytest
from controller_builders import CLUSTER, SET, an_address, electorate

from controller.broker_set import BrokerSet
from controller.decisions.election import Call, elect
from controller.decisions.membership import Applicant, apply_id, register
from controller.decisions.sync_state import WantedSyncStateSet, alter
from controller.events import MasterElected
from controller.live_table import BrokerKey, Heard, LiveTable
from remoting.errors import RequestRefused

HISTORIES = 400
STEPS = 120
TIMEOUT_MS = 3_000


@dataclass
class Broker:
    """A Java broker of the set, as far as it matters here."""

    broker_id: int
    #: Each message with the epoch it was written in.
    log: list[tuple[int, int]] = field(default_factory=list)
    is_up: bool = False
    #: It runs, but nobody hears it and it hears nobody.
    is_cut_off: bool = False
    master_epoch: int = 0
    master: int | None = None
    #: As confirmed by the controller, and what it has asked for since.
    sync_state_set: frozenset[int] = frozenset()
    wanted: frozenset[int] = frozenset()
    sync_state_set_epoch: int = 0

    @property
    def is_master(self):
        return self.is_up and self.master == self.broker_id

    @property
    def is_reached(self):
        return self.is_up and not self.is_cut_off


class History:
    """One set with three brokers and its controller."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now_ms = 0
        self.set = BrokerSet(broker_name=SET, cluster=CLUSTER)
        self.live = LiveTable()
        self.brokers = {i: Broker(i) for i in (1, 2, 3)}
        self.acknowledged = set()
        self.masters = {}
        self.messages = 0
        self.is_unclean = False
        self.steps = []
        for broker in self.brokers.values():
            self.apply(apply_id(self.set, applicant(broker.broker_id)))

    def run(self, steps):
        actions = [
            (self.start, 3),
            (self.crash, 2),
            (self.cut_off, 2),
            (self.reconnect, 3),
            (self.beat, 12),
            (self.poll, 8),
            (self.write, 12),
            (self.replicate, 16),
            (self.report, 8),
            (self.pass_time, 3),
            (self.designate, 1),
        ]
        for _ in range(steps):
            (action,) = self.random.choices([each for each, _ in actions], [weight for _, weight in actions])
            broker = self.random.choice(list(self.brokers.values()))
            self.steps.append((action.__name__, broker.broker_id))
            action(broker)
            self.check()

    # What brokers do

    def start(self, broker):
        if broker.is_up:
            return
        broker.is_up, broker.is_cut_off = True, False
        broker.master_epoch, broker.master = 0, None
        for event in register(self.set, broker.broker_id, an_address(broker.broker_id)):
            self.apply(event)
        self.live.restarted(BrokerKey(SET, broker.broker_id), self.now_ms, connection_id=0)
        if self.random.random() < 0.8:
            self.beat(broker)
        self.elect(Call(broker_id=broker.broker_id))
        self.poll(broker)

    def crash(self, broker):
        # Acknowledged messages are on the disks of all that were in sync; the end of a log may be torn.
        if broker.is_up and not broker.is_master and self.random.random() < 0.2:
            kept = [message for message in broker.log if message[1] in self.acknowledged]
            broker.log = broker.log[: max(len(kept), len(broker.log) - 1)]
        broker.is_up = False

    def cut_off(self, broker):
        broker.is_cut_off = True

    def reconnect(self, broker):
        broker.is_cut_off = False

    def beat(self, broker):
        if broker.is_reached:
            epoch = broker.log[-1][0] if broker.log else -1
            heard = Heard(self.now_ms, TIMEOUT_MS, epoch, len(broker.log), len(broker.log), broker.broker_id)
            self.live.beat(BrokerKey(SET, broker.broker_id), heard)

    def poll(self, broker):
        """Take over what the controller says, as answer to GET_REPLICA_INFO or as notification."""
        if not broker.is_reached:
            return
        if self.set.master_epoch > broker.master_epoch and self.set.master is not None:
            broker.master_epoch, broker.master = self.set.master_epoch, self.set.master
            if broker.is_master:
                broker.sync_state_set = broker.wanted = self.set.sync_state_set
                broker.sync_state_set_epoch = self.set.sync_state_set_epoch
        elif self.set.master_epoch > broker.master_epoch:
            self.elect(Call(broker_id=broker.broker_id))
        elif broker.is_master and self.set.sync_state_set_epoch > broker.sync_state_set_epoch:
            broker.sync_state_set = broker.wanted = self.set.sync_state_set
            broker.sync_state_set_epoch = self.set.sync_state_set_epoch

    def write(self, broker):
        if broker.is_master:
            self.messages += 1
            broker.log.append((broker.master_epoch, self.messages))
            self.acknowledge(broker)

    def replicate(self, broker):
        """Let a follower drop what its master does not have and take the next message."""
        master = self.brokers.get(broker.master)
        if master is None or broker.is_master or not (broker.is_reached and master.is_reached and master.is_master):
            return
        if master.master_epoch != broker.master_epoch:
            return
        same = 0
        while same < min(len(broker.log), len(master.log)) and broker.log[same] == master.log[same]:
            same += 1
        broker.log = master.log[: min(len(master.log), same + self.random.randint(1, 4))]
        self.acknowledge(master)

    def acknowledge(self, master):
        members = master.sync_state_set | master.wanted
        for message in master.log:
            if all(i == master.broker_id or self.follows(i, master, message) for i in members):
                self.acknowledged.add(message[1])

    def follows(self, broker_id, master, message):
        broker = self.brokers[broker_id]
        return (
            broker.is_reached
            and master.is_reached
            and broker.master_epoch == master.master_epoch
            and message in broker.log
        )

    def report(self, broker):
        """Tell the controller who is in sync; the answer may get lost."""
        if not broker.is_master:
            return
        confirmed = [message for message in broker.log if message[1] in self.acknowledged]
        in_sync = {broker.broker_id}
        for other in self.brokers.values():
            follows = other.is_reached and broker.is_reached and other.master_epoch == broker.master_epoch
            if follows and all(message in other.log for message in confirmed):
                in_sync.add(other.broker_id)
        wanted = frozenset(in_sync)
        if wanted == broker.sync_state_set or not broker.is_reached:
            return
        broker.wanted = wanted
        try:
            event = alter(
                self.set,
                WantedSyncStateSet(
                    broker_name=SET,
                    master=broker.broker_id,
                    master_epoch=broker.master_epoch,
                    members=wanted,
                    sync_state_set_epoch=broker.sync_state_set_epoch,
                ),
                self.live.alive(SET, self.now_ms),
            )
        except RequestRefused:
            return
        self.apply(event)
        if self.random.random() < 0.8:
            broker.sync_state_set, broker.sync_state_set_epoch = wanted, self.set.sync_state_set_epoch

    # What happens to the controller

    def pass_time(self, _):
        self.now_ms += self.random.choice([500, 1_000, 4_000])
        if self.set.master is not None and self.set.master not in self.live.alive(SET, self.now_ms):
            self.elect(Call(allows_unclean=self.is_unclean))

    def designate(self, broker):
        self.elect(Call(broker_id=broker.broker_id, is_designated=True))

    def elect(self, call):
        alive = self.live.alive(SET, self.now_ms)
        election = elect(self.set, electorate(alive), call)
        if election.event is not None:
            self.apply(election.event)
        electable = self.set.sync_state_set & alive.keys()
        assert self.set.master is not None or not electable or not self.set.is_elected or call.is_designated
        assert len(election.candidates) == len(self.set.replicas)

    def apply(self, event):
        before, self.set = self.set, self.set.apply(event)
        assert self.set.master_epoch >= before.master_epoch
        assert self.set.sync_state_set_epoch >= before.sync_state_set_epoch
        if isinstance(event, MasterElected):
            assert self.masters.setdefault(self.set.master_epoch, event.broker_id) == event.broker_id
            log = {message for _, message in self.brokers[event.broker_id].log}
            assert self.is_unclean or self.acknowledged <= log, f"lost {sorted(self.acknowledged - log)}"

    def check(self):
        leading = {}
        for broker in self.brokers.values():
            if broker.is_master:
                assert leading.setdefault(broker.master_epoch, broker.broker_id) == broker.broker_id


def applicant(broker_id):
    return Applicant(
        cluster=CLUSTER,
        broker_name=SET,
        broker_id=broker_id,
        address=an_address(broker_id),
        check_code=f"{an_address(broker_id)};1",
    )


def outcome(seed, steps):
    """Return what went wrong in a history, None if nothing did."""
    history = History(seed)
    try:
        history.run(steps)
    except AssertionError as error:
        return f"seed {seed}, {len(history.steps)} steps, {error}: {history.steps[-25:]}"
    return None


@pytest.mark.parametrize("part", range(4))
def test_no_history_has_two_masters_or_loses_what_was_acknowledged(part):
    seeds = range(part * HISTORIES // 4, (part + 1) * HISTORIES // 4)
    failed = [found for seed in seeds if (found := outcome(seed, STEPS)) is not None]
    assert failed == [], min(failed, key=len)


def test_histories_have_elections_and_messages():
    history = History(1)
    history.run(2000)
    assert len(history.masters) > 10
    assert len(history.acknowledged) > 50
