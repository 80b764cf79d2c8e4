"""A day in the life of a NameServer with 300 brokers, in seconds: whatever they do, nothing of it stays behind.

Requests go through the request table to the state, and time is the test's; sockets alone are missing. How many hours
the long run has is the environment variable CHURN_HOURS; a day if it is not set.
"""

import gc
import itertools
import os
import random
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes.clock import FakeClock
from peers.figures import print_figures
from peers.scripted import HEARTBEAT, registration_body
from peers.wire import DELETE_TOPIC, GET_CLUSTER_INFO, GET_ROUTE, REGISTER_BROKER, SUCCESS, VERSION, WIPE_WRITE_PERM
from route_states import expire, lose_connection

from namesrv.core.route_state import RouteState
from namesrv.core.values.effects import CloseConnection
from namesrv.refusals import TopicNotExist
from namesrv.settings.config import NameServerConfig
from namesrv.settings.durable_settings import DurableSettings
from namesrv.settings.kv_config import KvConfig
from namesrv.wire.broker_requests import BrokerRequestHandler
from namesrv.wire.cooperative_runner import CooperativeRunner
from namesrv.wire.operator_requests import OperatorRequestHandler
from namesrv.wire.request_table import RequestTable
from namesrv.wire.route_requests import RouteRequestHandler
from remoting.protocol.command import RemotingCommand
from remoting.server.response_cache import PreparedResponse

SETS = 100
MEMBERS = 3
SEED = 7
SOAK_HOURS = int(os.environ.get("CHURN_HOURS", "24"))

STEP_S = 5
REGISTRATION_S = 30
HEARTBEAT_S = 15
UNREGISTER_BROKER = 104
ADD_WRITE_PERM = 327

#: A broker is restarted, moved, silent or given another role about so often, each.
BROKER_EVENT_S = 1800
#: Objects may differ by what the interpreter keeps for itself. One lost with each registration would be 36,000 an hour.
GROWTH_BLOCKS_MAX = 3_000
#: Pages of the process fill up in larger steps; 64 bytes lost with each registration of a day would be 55 MB.
GROWTH_BYTES_MAX = 24_000_000


@dataclass
class Peer:
    """The other end of a connection."""

    id: int
    is_lost: bool = False
    audience: int = 0
    network: str = ""


@dataclass
class Broker:
    number: int
    cluster: str
    name: str
    broker_id: int
    address: str
    queues: dict
    counter: int = 1
    peer: Peer | None = None
    #: It says nothing before this moment, and has to connect again then if its connection was closed.
    absent_until_ms: int = 0
    #: What it sends as long as nothing changes: for the NameServer the same bytes again.
    body: bytes = b""

    @property
    def identity(self):
        return {"clusterName": self.cluster, "brokerName": self.name, "brokerAddr": self.address}


class Nobody:
    """Is told of changed settings and needs none of it."""

    def kv_changed(self, *_):
        pass

    kv_not_stored = config_changed = config_not_stored = kv_changed


class Cluster:
    """300 brokers and the NameServer that they talk to, driven by one clock."""

    def __init__(self, seed, **config):
        options = NameServerConfig(**config)
        self.clock = FakeClock()
        self.chance = random.Random(seed)
        self.state = RouteState(options)
        settings = DurableSettings(options, KvConfig(), Nobody(), self.state.configure, lambda _: None)
        runner = CooperativeRunner()
        self.requests = RequestTable(
            BrokerRequestHandler(self.state, settings, self.clock, runner, self._perform),
            RouteRequestHandler(self.state, settings, self.clock, runner),
            OperatorRequestHandler(self.state, settings, runner, self._perform),
        )
        self._connections = itertools.count(1)
        self._by_connection = {}
        self._closing = []
        self.happened = dict.fromkeys(("registrations", "beats", "expired", *(event.__name__ for event in EVENTS)), 0)
        self.brokers = [self._new(number) for number in range(SETS * MEMBERS)]

    def _new(self, number):
        set_number, broker_id = divmod(number, MEMBERS)
        name = f"broker-{set_number}"
        return Broker(
            number=number,
            cluster=f"cluster-{set_number % 4}",
            name=name,
            broker_id=broker_id,
            address=f"10.0.{set_number}.{broker_id}:10911",
            queues=first_queues(set_number),
        )

    # What brokers and operators send

    def request(self, code, fields, body=b"", peer=None):
        request = RemotingCommand(code, version=VERSION, ext_fields=fields, body=body)
        try:
            answer = self.requests.dispatch(request, peer or Peer(next(self._connections)))
        except TopicNotExist as refusal:
            return refusal.code
        return SUCCESS if isinstance(answer, PreparedResponse) else answer.code

    def connect(self, broker):
        broker.peer = Peer(next(self._connections))
        self._by_connection[broker.peer.id] = broker

    def disconnect(self, broker):
        if broker.peer is None:
            return
        peer, broker.peer = broker.peer, None
        peer.is_lost = True
        del self._by_connection[peer.id]
        self._perform(lose_connection(self.state, peer.id, self.clock.now_ms()))

    def register(self, broker):
        if broker.peer is None:
            self.connect(broker)
        fields = broker.identity | {"brokerId": str(broker.broker_id), "enableActingMaster": "true"}
        static = {broker.name: [topic for topic in broker.queues if topic.startswith("static-")]}
        broker.body = broker.body or registration_body(broker.queues, broker.counter, static=static)
        assert self.request(REGISTER_BROKER, fields, broker.body, broker.peer) == SUCCESS
        self.happened["registrations"] += 1

    def heartbeat(self, broker):
        if broker.peer is not None:
            self.request(HEARTBEAT, broker.identity, peer=broker.peer)
            self.happened["beats"] += 1

    def set_of(self, broker):
        first = broker.number - broker.number % MEMBERS
        return self.brokers[first : first + MEMBERS]

    # Time

    def run(self, hours):
        for step in range(round(hours * 3600 / STEP_S)):
            self.clock.pass_ms(STEP_S * 1000)
            now_ms = self.clock.now_ms()
            self._perform(expire(self.state, now_ms))
            self._close()
            for broker in self.brokers[step % (REGISTRATION_S // STEP_S) :: REGISTRATION_S // STEP_S]:
                if broker.absent_until_ms <= now_ms:
                    self.register(broker)
            for broker in self.brokers[step % (HEARTBEAT_S // STEP_S) :: HEARTBEAT_S // STEP_S]:
                if broker.absent_until_ms <= now_ms:
                    self.heartbeat(broker)
            for _ in range(self._events_now()):
                event = self.chance.choice(EVENTS)
                event(self, self.chance.choice(self.brokers))
                self.happened[event.__name__] += 1
            self.query_routes(self.chance.sample(range(SETS), 3))

    def _events_now(self):
        mean = len(self.brokers) * STEP_S / BROKER_EVENT_S
        return int(mean) + (self.chance.random() < mean % 1)

    def query_routes(self, sets):
        for number in sets:
            for topic in first_queues(number):
                self.request(GET_ROUTE, {"topic": topic})
        self.request(GET_CLUSTER_INFO, {})

    def settle(self):
        """Let every broker be what it was at the first moment."""
        for broker in self.brokers:
            self.disconnect(broker)
        for broker in self.brokers:
            first = self._new(broker.number)
            broker.broker_id, broker.queues, broker.address = first.broker_id, first.queues, first.address
            broker.counter += 1
            broker.body = b""
            broker.absent_until_ms = 0
        for _ in range(2):
            for broker in self.brokers:
                self.register(broker)
        self.query_routes(range(SETS))

    def leave(self):
        for broker in self.brokers:
            self.disconnect(broker)

    # What the service does with outcomes

    def _perform(self, outcome):
        for effect in outcome.effects:
            if isinstance(effect, CloseConnection):
                self._closing.append(effect.connection_id)
                self.happened["expired"] += 1

    def _close(self):
        closing, self._closing = self._closing, []
        for number in closing:
            if number in self._by_connection and not self.state.tables.live.of_connection(number):
                self.disconnect(self._by_connection[number])


def first_queues(set_number):
    """Return the topics of a set: its own, and some that it shares with a few others."""
    own = [f"{prefix}topic-{set_number}-{each}" for each in range(4) for prefix in ("", "%RETRY%")]
    return dict.fromkeys([*own, f"static-{set_number}", f"shared-{set_number % 10}", "everywhere"], 8)


# What happens to brokers


def restart(cluster, broker):
    cluster.disconnect(broker)
    broker.absent_until_ms = cluster.clock.now_ms() + cluster.chance.randrange(60_000)


def reconnect(cluster, broker):
    """Register over another connection before the end of the first is noticed."""
    if broker.peer is None:
        return
    former = broker.peer
    cluster.connect(broker)
    cluster.register(broker)
    former.is_lost = True
    del cluster._by_connection[former.id]
    cluster._perform(lose_connection(cluster.state, former.id, cluster.clock.now_ms()))


def vanish(cluster, broker):
    """Fall silent for minutes: with the default timeout of two some are expired, and some are not."""
    broker.absent_until_ms = cluster.clock.now_ms() + cluster.chance.randrange(30_000, 600_000)


def unregister(cluster, broker):
    if broker.peer is not None:
        fields = broker.identity | {"brokerId": str(broker.broker_id)}
        cluster.request(UNREGISTER_BROKER, fields, peer=broker.peer)
    broker.absent_until_ms = cluster.clock.now_ms() + cluster.chance.randrange(300_000)


def move(cluster, broker):
    """Come back at another address, as a pod does."""
    cluster.disconnect(broker)
    host = cluster.chance.randrange(250)
    broker.address = f"10.1.{host}.{broker.broker_id}:{10911 + broker.number}"


def change_roles(cluster, broker):
    """Master and slave take each other's broker id."""
    first, second, _ = cluster.set_of(broker)
    first.broker_id, second.broker_id = second.broker_id, first.broker_id
    for each in (first, second):
        cluster.disconnect(each)


def change_queues(cluster, broker):
    topic = cluster.chance.choice(list(broker.queues))
    say(cluster, broker, broker.queues | {topic: cluster.chance.randrange(1, 64)})


def add_topics(cluster, broker):
    number = cluster.chance.randrange(1_000_000)
    say(cluster, broker, broker.queues | {f"added-{number}-{each}": 4 for each in range(3)})


def drop_topics(cluster, broker):
    """Delete topics as mqadmin does: at the brokers, then at the NameServer."""
    added = [topic for topic in broker.queues if topic.startswith("added-")]
    say(cluster, broker, {topic: number for topic, number in broker.queues.items() if topic not in added})
    for topic in added:
        cluster.request(DELETE_TOPIC, {"topic": topic})


def wipe_write_permission(cluster, broker):
    cluster.request(WIPE_WRITE_PERM, {"brokerName": broker.name})
    if cluster.chance.random() < 0.5:
        cluster.request(ADD_WRITE_PERM, {"brokerName": broker.name})


def say(cluster, broker, queues):
    """Let all of a set have these topics from their next registration on."""
    for each in cluster.set_of(broker):
        each.queues = queues
        each.counter += 1
        each.body = b""


EVENTS = (
    restart,
    reconnect,
    vanish,
    unregister,
    move,
    change_roles,
    change_queues,
    add_topics,
    drop_topics,
    wipe_write_permission,
)


# What is there


def sizes(value, path="state", seen=None):
    """Return how many entries each table has, private ones and those inside of others too, summed up by path."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, str | bytes | int | float | None | type):
        return {}
    seen.add(id(value))
    found = {}
    if isinstance(value, dict | list | set | tuple | deque):
        found[path] = len(value)
        inner = [(f"{path}[]", item) for item in (value.values() if isinstance(value, dict) else value)]
    else:
        names = [*getattr(value, "__dict__", ()), *getattr(value, "__struct_fields__", ())]
        inner = [(f"{path}.{name}", getattr(value, name)) for name in names]
    for name, item in inner:
        for its_path, count in sizes(item, name, seen).items():
            found[its_path] = found.get(its_path, 0) + count
    return found


def objects_and_bytes():
    """Return how many blocks the interpreter has given out, and the resident memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return sys.getallocatedblocks(), pages * os.sysconf("SC_PAGE_SIZE")


def play(cluster, hours):
    """Let time pass until all are as at the start, and return by how many objects and bytes this process has grown."""
    objects, held_bytes = objects_and_bytes()
    cluster.run(hours)
    cluster.settle()
    objects_after, bytes_after = objects_and_bytes()
    return objects_after - objects, bytes_after - held_bytes


def check_that_all_is_as_before(cluster, before):
    assert len(cluster.state.tables.live) == SETS * MEMBERS
    assert sizes(cluster.state) == before
    assert all(cluster.happened.values()), f"not everything happened: {cluster.happened}"
    cluster.leave()
    assert sizes(cluster.state) == sizes(Cluster(SEED).state)


@pytest.fixture
def deletes():
    """Whether topics go with the registration that no longer has them."""
    return False


@pytest.fixture
def cluster(deletes):
    """A cluster that has warmed up: caches have their sizes."""
    cluster = Cluster(SEED, delete_topic_with_broker_registration=deletes)
    play(cluster, 0.2)
    return cluster


def test_hour_of_churn_leaks_no_entry_and_no_object(cluster):
    before = sizes(cluster.state)
    objects, _ = play(cluster, 1)
    assert objects < GROWTH_BLOCKS_MAX
    check_that_all_is_as_before(cluster, before)


@pytest.mark.soak
@pytest.mark.parametrize("deletes", [False, True], ids=["topics stay", "topics go with registrations"])
@pytest.mark.timeout(SOAK_HOURS * 300)
def test_day_of_churn_leaks_no_entry_and_no_memory(cluster, deletes, capsys):
    before = sizes(cluster.state)
    objects, held_bytes = play(cluster, SOAK_HOURS)
    what = f"{SETS * MEMBERS} brokers whose topics {'go' if deletes else 'stay'}, {cluster.happened}"
    grown = f"{objects} objects and {held_bytes / 1e6:.1f} MB of resident memory more"
    print_figures(capsys, f"churn: {SOAK_HOURS} h, {what}, {grown}")
    assert objects < GROWTH_BLOCKS_MAX
    assert held_bytes < GROWTH_BYTES_MAX
    check_that_all_is_as_before(cluster, before)
