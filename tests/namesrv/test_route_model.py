"""Random lives of brokers, played against the state with a simple model beside it.

The model keeps one plain record for each living broker and one permission for each topic of a set; it knows nothing of
tables, changes or caches. After every step both must tell the same, and the tables must fit each other.
"""

import math
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace
from route_states import expire, lose_connection, register_broker, unregister_broker

from namesrv.core.registration.registration import Registration
from namesrv.core.route_state import RouteState
from namesrv.core.tables.live_table import LiveKey
from namesrv.core.tables.topic_table import TopicSettings
from namesrv.core.values.cooperative import run_to_completion
from namesrv.core.values.effects import CloseConnection, HeartbeatKind, StaleRegistration
from namesrv.refusals import RegistrationRefused
from namesrv.settings.config import NameServerConfig
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.route import DataVersion, QueueData
from remoting.protocol.topic_kinds import kind_of
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import Histogram

NAMES = st.sampled_from(["broker-a", "broker-b"])
ADDRESSES = st.sampled_from(["h1:1", "h2:1", "h3:1"])
IDS = st.integers(0, 2)
CLUSTERS = st.sampled_from(["C", "C", "C", "D"])
TOPICS = st.sampled_from(["T0", "T1", "T2", "%RETRY%g"])
TIMEOUTS_MS = st.sampled_from([10_000, 120_000])
#: Positions among the open connections, the youngest last: mostly a young one, at times a late old one.
CONNECTIONS = st.integers(0, 2)

REQUESTS = st.builds(
    Registration,
    cluster=CLUSTERS,
    broker_name=NAMES,
    broker_id=IDS,
    address=ADDRESSES,
    enable_acting_master=st.sampled_from([None, False, True]),
    heartbeat_timeout_ms=TIMEOUTS_MS,
    data_version=st.builds(DataVersion, counter=st.integers(0, 2), state_version=st.integers(0, 1)),
    topics=st.dictionaries(
        TOPICS, st.builds(TopicSettings, st.sampled_from([6, 4]), *map(st.just, (16, 16, 0))), max_size=4
    ),
    connection_id=st.just(0),
)

WRITE = 2
STEPS = 40
SOAK_STEPS = 1_000
SOAK_EXAMPLES = 100


@dataclass
class Living:
    """A broker that the NameServer has to know."""

    broker_id: int
    cluster: str
    #: Those over which it registered, the latest last, and when it did last.
    connections: dict[int, int]
    last_heartbeat_ms: int
    timeout_ms: int
    version: DataVersion
    #: The period in which it registers, as far as is known.
    period_ms: int
    #: When it leaves though it is not overdue.
    grace_ends_ms: float = math.inf

    @property
    def deadline_ms(self):
        return min(self.last_heartbeat_ms + self.timeout_ms, self.grace_ends_ms)


class BrokerLives(RuleBasedStateMachine):
    @initialize(delete_missing=st.booleans(), notify=st.booleans(), acting=st.booleans())
    def start(self, delete_missing, notify, acting):
        self.config = NameServerConfig(
            delete_topic_with_broker_registration=delete_missing,
            notify_min_broker_id_changed=notify,
            support_acting_master=acting,
        )
        self.now_ms = 0
        self.next_connection = 0
        self.restart()

    # The model

    def members(self, name):
        return {address: living for (its_name, address), living in self.living.items() if its_name == name}

    def ids(self, name):
        return {living.broker_id: address for address, living in self.members(name).items()}

    def gone(self, keys):
        """Take brokers that left together out of the model."""
        for key in keys:
            del self.living[key]
        for name in {name for name, _ in keys}:
            if not self.members(name):
                self.acting.pop(name)
                self.perms.pop(name, None)
                self.chosen.pop(name, None)
            elif self.acting[name] and 0 not in self.ids(name):
                perms = self.perms.get(name, {})
                if any(perm & WRITE for perm in perms.values()):
                    self.chosen.pop(name, None)
                self.perms[name] = {topic: perm & ~WRITE for topic, perm in perms.items()}

    # What happens

    @rule()
    def restart(self):
        """A NameServer that was restarted knows nobody, and nobody is connected."""
        self.state = RouteState(self.config)
        self.sent = []
        self.living = {}
        self.acting = {}
        self.perms = {}
        self.chosen = {}
        self.open = []
        #: A registration that rests, and its steps.
        self.begun = None
        for _ in range(3):
            self.connect()

    @rule()
    def connect(self):
        self.next_connection += 1
        self.open.append(self.next_connection)

    @rule(request=REQUESTS, where=CONNECTIONS)
    def register(self, request, where):
        request = replace(request, connection_id=self.open[-1 - where % len(self.open)])
        self.take(request, lambda: register_broker(self.state, request, self.now_ms))

    @precondition(lambda self: self.begun is None)
    @rule(request=REQUESTS, where=CONNECTIONS)
    def begin_to_register(self, request, where):
        """Let a registration rest while its topics are compared: it is as if it came when it ends."""
        request = replace(request, connection_id=self.open[-1 - where % len(self.open)])
        steps = self.state.registration_steps(request, lambda: self.now_ms, lambda: False)
        try:
            next(steps)
        except StopIteration:
            # It had nothing to compare.
            self.take(request, lambda: None)
        except RegistrationRefused:
            assert self.ids(request.broker_name).get(request.broker_id) is None
        else:
            self.begun = request, steps

    @precondition(lambda self: self.begun is not None)
    @rule()
    def end_registration(self):
        (request, steps), self.begun = self.begun, None
        if request.connection_id in self.open:
            self.take(request, lambda: run_to_completion(steps))

    def take(self, request, do):
        name, address, cluster, version = (request.broker_name, request.address, request.cluster, request.data_version)
        broker_id, connection = request.broker_id, request.connection_id
        before = self.living.get((name, address))
        holder = self.ids(name).get(broker_id)
        rival = self.living[name, holder] if holder not in (None, address) else None
        if rival and rival.cluster == cluster and rival.version.state_version > version.state_version:
            do()
            self.gone([(name, address)] if before else [])
            return
        if holder is None and len(request.topics) == 1:
            with pytest.raises(RegistrationRefused):
                do()
            return
        do()
        if rival:
            del self.living[name, holder]
        connections = dict(before.connections) if before else {}
        gap_ms = self.now_ms - connections.pop(connection, self.now_ms)
        period_ms = before.period_ms if before else 30_000
        if gap_ms >= 10_000:
            period_ms = min(60_000, max(gap_ms, period_ms * 3 // 4))
        connections = dict(list(connections.items())[-3:]) | {connection: self.now_ms}
        timeout_ms, acting = request.heartbeat_timeout_ms, request.enable_acting_master
        living = Living(broker_id, cluster, connections, self.now_ms, timeout_ms, version, period_ms)
        self.living[name, address] = living
        self.acting[name] = bool(acting)
        changed = holder is None or before is None or before.version != version
        if broker_id == 0 or (acting is not None and broker_id == min(self.ids(name))):
            topics = {topic: settings.perm for topic, settings in request.topics.items()}
            self.take_topics(name, topics, changed=changed, writable=broker_id == 0 or not acting)

    def take_topics(self, name, topics, *, changed, writable):
        perms, chosen = self.perms.setdefault(name, {}), self.chosen.setdefault(name, {})
        if changed and self.config.delete_topic_with_broker_registration:
            for topic in set(perms) - set(topics):
                perms.pop(topic)
                chosen.pop(topic, None)
        for topic, perm in topics.items():
            if changed:
                chosen.pop(topic, None)
            perms[topic] = chosen.get(topic, perm if writable else perm & ~WRITE)

    @rule(name=NAMES, address=ADDRESSES, where=CONNECTIONS)
    def unregister(self, name, address, where):
        connection = self.open[-1 - where % len(self.open)]
        unregister_broker(self.state, "C", LiveKey(name, address), connection, self.now_ms)
        living = self.living.get((name, address))
        if living and max(living.connections) <= connection:
            self.gone([(name, address)])

    @precondition(lambda self: len(self.open) > 1)
    @rule(where=CONNECTIONS)
    def lose_connection(self, where):
        connection = self.open.pop(-1 - where % len(self.open))
        lose_connection(self.state, connection, self.now_ms)
        gone = []
        for key, living in self.living.items():
            was_latest = list(living.connections)[-1] == connection
            living.connections.pop(connection, None)
            if not was_latest:
                continue
            living.grace_ends_ms = max(living.connections.values(), default=-math.inf) + living.period_ms * 1.5
            if living.grace_ends_ms < self.now_ms:
                gone.append(key)
        self.gone(gone)

    @rule(name=NAMES, address=ADDRESSES)
    def register_late(self, name, address):
        """Carry out what came over a connection that is gone already."""
        self.next_connection += 1
        request = Registration(
            cluster="C",
            broker_name=name,
            broker_id=0,
            address=address,
            connection_id=self.next_connection,
            is_late=True,
        )
        (event,) = register_broker(self.state, request, self.now_ms).events
        assert isinstance(event, StaleRegistration)

    @rule(name=NAMES, address=ADDRESSES, cluster=CLUSTERS)
    def heartbeat(self, name, address, cluster):
        self.state.heartbeat(cluster, LiveKey(name, address), HeartbeatKind.HEARTBEAT, self.now_ms)
        living = self.living.get((name, address))
        if living and living.cluster == cluster:
            living.last_heartbeat_ms = self.now_ms
            living.grace_ends_ms = math.inf

    @rule(ms=st.sampled_from([1, 5_000, 10_001, 60_000, 120_001]))
    def pass_time_and_scan(self, ms):
        self.now_ms += ms
        outcome = expire(self.state, self.now_ms)
        expired = [key for key, each in self.living.items() if each.deadline_ms < self.now_ms]
        connections = {number for key in expired for number in self.living[key].connections}
        self.gone(expired)
        shared = {number for each in self.living.values() for number in each.connections}
        closed = {effect.connection_id for effect in outcome.effects if isinstance(effect, CloseConnection)}
        assert closed == connections - shared

    @rule(name=NAMES, gives=st.booleans())
    def set_write_permission(self, name, gives):
        perms = self.perms.get(name, {})
        outcome = self.state.add_write_perm(name) if gives else self.state.wipe_write_perm(name)
        assert outcome.reply == len(perms)
        if perms:
            self.perms[name] = {topic: 6 if gives else perm & ~WRITE for topic, perm in perms.items()}
            self.chosen[name] = dict(self.perms[name])

    @rule(topic=TOPICS, cluster=st.none() | CLUSTERS)
    def delete_topic(self, topic, cluster):
        self.state.delete_topic(topic, cluster)
        for name, perms in self.perms.items():
            if cluster is None or cluster in {each.cluster for each in self.members(name).values()}:
                perms.pop(topic, None)
                self.chosen.get(name, {}).pop(topic, None)

    @rule(topic=TOPICS, name=NAMES)
    def register_topic(self, topic, name):
        self.state.register_topic(topic, [QueueData(broker_name=name, perm=6)])
        if self.members(name):
            self.perms.setdefault(name, {})[topic] = 6
            self.chosen.get(name, {}).pop(topic, None)

    # What must hold

    @invariant()
    def exactly_the_living_are_known(self):
        tables = self.state.tables
        rows = {tuple(key): row for key, row in tables.live.rows()}
        assert rows.keys() == self.living.keys()
        for key, row in rows.items():
            living = self.living[key]
            assert (row.broker_id, row.cluster, list(row.connections)) == (
                living.broker_id,
                living.cluster,
                list(living.connections),
            )
        sets = {each.broker_name: each for each in tables.brokers.sets()}
        assert sets.keys() == {name for name, _ in self.living}
        for name, broker_set in sets.items():
            assert {i: member.address for i, member in broker_set.members.items()} == self.ids(name)

    @invariant()
    def clusters_list_the_sets_that_have_members_in_them(self):
        listed = {(cluster, name) for cluster, names in self.state.tables.brokers.clusters().items() for name in names}
        assert listed == {(living.cluster, name) for (name, _), living in self.living.items()}
        for broker_set in self.state.tables.brokers.sets():
            assert broker_set.cluster in {member.cluster for member in broker_set.members.values()}

    @invariant()
    def queues_are_those_of_living_sets_seen_alike_from_both_sides(self):
        topics = self.state.tables.topics
        by_topic = {(t, name): data for t in topics.topics() for name, data in topics.of_topic(t).items()}
        by_broker = {(t, name): data for name in self.acting for t, data in topics.of_broker(name).items()}
        assert by_topic == by_broker
        expected = {(t, name): perm for name, perms in self.perms.items() for t, perm in perms.items()}
        assert {key: data.perm for key, data in by_topic.items()} == expected
        assert all(topics.of_topic(topic) for topic in topics.topics())

    @invariant()
    def the_census_is_a_recount(self):
        recount = {}
        for broker_set in self.state.tables.brokers.sets():
            for topic in self.state.tables.topics.of_broker(broker_set.broker_name):
                recount.setdefault((broker_set.cluster, kind_of(topic, ())), set()).add(topic)
        counted = {
            (cluster, kind): count
            for cluster, counts in self.state.topic_counts.counts().items()
            for kind, count in counts.items()
            if count
        }
        assert counted == {key: len(topics) for key, topics in recount.items()}

    @invariant()
    def no_kept_answer_is_old(self):
        for topic in ["T0", "T1", "T2", "%RETRY%g"]:
            route = self.state.route_of(topic, None)
            fresh = encode(route, Dialect.STANDARD) if route else None
            kept = self.state.route_cache.get(topic, Dialect.STANDARD)
            assert kept is None or (kept.is_valid and kept.body == fresh)
            if fresh and not kept:
                self.sent.append((topic, PreparedResponse(fresh, Histogram(()))))
                self.state.route_cache.keep(topic, Dialect.STANDARD, self.sent[-1][1])
            # Whoever asked before is answered with what was ready then, as long as it says that it is true.
            assert all(each.body == fresh for of, each in self.sent if of == topic and each.is_valid)
        self.sent = [(of, each) for of, each in self.sent if each.is_valid]


def test_random_lives_of_brokers_leave_no_broker_topic_or_answer_out_of_place():
    run_state_machine_as_test(
        BrokerLives, settings=settings(max_examples=200, stateful_step_count=STEPS, deadline=None)
    )


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_steps_leave_no_broker_topic_or_answer_out_of_place():
    run_state_machine_as_test(
        BrokerLives, settings=settings(max_examples=SOAK_EXAMPLES, stateful_step_count=SOAK_STEPS, deadline=None)
    )
