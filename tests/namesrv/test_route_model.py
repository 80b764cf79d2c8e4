"""Random lives of brokers, played against the state with the simple model of `route_model.py` beside it.

After every step both must have answered, notified and noted the same, and whatever can be asked of the state must be
what the model says. The histories are the same in every run; one that fails is told without the steps that do not
matter. The many cases of one rule are here too, so the tests in `core/` have only what no history reaches: see
`route_model.py`.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest
from msgspec.structs import replace
from route_model import SYNC_TOPIC, WRITE, Broker, BrokerSet, Model
from route_states import expire

from namesrv.core import cluster_gaps, routes
from namesrv.core.changes import TopicCountTable, TopicSizes
from namesrv.core.cluster_summary import BrokerRole, ClusterSummary, SetLeadership, clusters
from namesrv.core.registration.accepted_topics import ReportedTopics
from namesrv.core.registration.registration import Registration
from namesrv.core.route_state import RouteState
from namesrv.core.tables.change import RouteTables
from namesrv.core.tables.live_table import LiveKey
from namesrv.core.tables.topic_table import QueueSum, TopicSettings
from namesrv.core.values import cooperative
from namesrv.core.values.cooperative import CooperativeTask, run_to_completion
from namesrv.core.values.effects import BrokerRemoved, CloseConnection, DepartureReason, HeartbeatKind, ProbeConnection
from namesrv.settings.config import NameServerConfig
from remoting.protocol.errors import RequestRefused
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.broker_sets import LostTopics, StaleReplica
from remoting.protocol.shapes.route import DataVersion, QueueData, TopicQueueMappingInfo
from remoting.protocol.topic_kinds import TopicKind, kind_of
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import Histogram

NAMES = ["broker-a", "broker-b", "broker-c"]
ADDRESSES = ["h1:1", "h2:1", "h3:1", "h4:1"]
TOPICS = ["T0", "T1", "T\u4e3b", "%RETRY%g", "%DLQ%g", "TBW102", "broker-a", "D_REPLY_TOPIC", SYNC_TOPIC]
WRITABLE, READ_ONLY, FEW, FLAGGED, INHERITED = (
    TopicSettings(perm, read, write, flag)
    for perm, read, write, flag in [(6, 8, 8, 0), (4, 8, 8, 0), (6, 4, 8, 0), (6, 8, 4, 1), (7, 8, 8, 0)]
)
#: What a registration says of topics; one topic alone is taken from known brokers only.
TOPIC_TABLES = [
    dict.fromkeys(TOPICS[:4], WRITABLE),
    dict.fromkeys(TOPICS, WRITABLE),
    dict.fromkeys(TOPICS[:2], FEW) | dict.fromkeys(TOPICS[2:6], READ_ONLY),
    dict.fromkeys(TOPICS[5:], FLAGGED) | {"T0": READ_ONLY},
    dict.fromkeys(TOPICS[:3], INHERITED) | {SYNC_TOPIC: WRITABLE},
    {"T1": WRITABLE},
    {"T0": FEW},
    {},
]
MAPPING_TABLES = [
    {},
    {},
    {"T0": TopicQueueMappingInfo(bname="broker-a", topic="T0", total_queues=2, curr_id_map={0: 0, 1: 1})},
    {"T0": TopicQueueMappingInfo(bname="broker-a", topic="T0", epoch=2), "Mapped": TopicQueueMappingInfo()},
]
VERSIONS = [DataVersion(counter=1), DataVersion(counter=1), DataVersion(counter=2), *[DataVersion(state_version=1)] * 2]
#: What a registration may say; what stands here more than once is said more often.
FIELDS = {
    "cluster": ["C", "C", "C", "D"],
    "broker_name": NAMES,
    "broker_id": [0, 0, 1, 2],
    "address": ADDRESSES,
    "ha_server_addr": ["ha1:2", "ha2:2"],
    "zone_name": [None, "z", "Z", "y", ""],
    "enable_acting_master": [True, True, False, None],
    "heartbeat_timeout_ms": [10_000, 120_000, 120_000],
    "data_version": VERSIONS,
    "topics": TOPIC_TABLES,
    "mappings": MAPPING_TABLES,
    "filter_servers": [None, None, (), ("f1:3",), ("f2:3", "f1:3")],
    "network": ["n1", "n1", "n2"],
    "version": [400, 513],
    "ignored_topics": [0, 0, 0, 1],
    "is_late": [False] * 9 + [True],
}
OPTIONS = {
    "delete_topic_with_broker_registration": [False, True],
    "notify_min_broker_id_changed": [True, False],
    "support_acting_master": [True, False],
    "topic_sets_per_host_max": [512, 512, 1],
}
#: What a period, a timeout or a grace is, and a moment more.
TIMES_MS = [1, 1, 10_000, 15_000, 20_000, 45_000, 60_000, 120_000]
TABLES = ["brokers", "topics", "mappings", "live", "permission_overrides"]
#: What counts on though nobody is left.
COUNTERS = ["names_version", "_earliest_ms"]
HISTORIES, BROAD_HISTORIES, SOAK_HISTORIES = 120, 600, 2_000
STEPS = 120
#: More than any registration or departure takes.
STEPS_MAX = 999


def reported(request, connection, *, is_known=True):
    """Return a registration with something by which its text is known again, unless it is compressed."""
    if not is_known:
        return replace(request, reported=None, connection_id=connection)
    text = request.data_version, request.topics, request.mappings, request.filter_servers, request.ignored_topics
    digests = ReportedTopics(
        head=repr(text).encode(),
        tail=b"",
        blocks=(),
        digest=b"",
        crc32=0,
        head_crc32=0,
        rest_bytes=0,
        topics=len(request.topics),
    )
    return replace(request, reported=digests, connection_id=connection)


def answer_of(ask):
    try:
        return ask()
    except RequestRefused as refusal:
        return type(refusal), str(refusal)


@dataclass
class Departure:
    """Members that leave together, those of one set after those of another."""

    #: Who may leave, as the state lists them.
    keys: list[LiveKey]
    reason: DepartureReason
    now_ms: int
    #: Tells whether a broker leaves, and takes away what it loses if it stays.
    leaves: Callable[[Broker], bool]
    events: list[object] = field(default_factory=list)
    notices: list[object] = field(default_factory=list)
    #: Connections to probe, and to close if nobody else is over them.
    probed: list[int] = field(default_factory=list)
    closing: list[int] = field(default_factory=list)


class Lives:
    """Brokers come, change and go, over connections that come and go, and operators change what they said."""

    def __init__(self, config):
        self.state, self.model = RouteState(config), Model(config)
        self.state.records_changes = True
        self.now_ms = 0
        self.open = [1, 2, 3]
        self.next_connection = 4
        #: Steps of registrations and departures that rest, and what follows an advance.
        self.resting: list[tuple[CooperativeTask[object], Callable[[object], None]]] = []
        #: Routes as they were sent last, and what they depend on.
        self.sent = {}
        self.names_version, self.names = self.state.tables.topics.names_version, set()
        #: What is made of the recorded changes alone.
        self.recorded_sets, self.recorded_topics = {}, {}
        #: The sets of the last list of clusters, and how many changes it knew.
        self.info = {}, 0
        #: What was listed after the previous step, in order of arrival.
        self.listed, self.came = [], []

    def at(self, where):
        """Return an open connection: 0 is the youngest."""
        return self.open[-1 - where % len(self.open)]

    def alike(self, ask, tell):
        """Have state and model do the same, and compare what came of it."""
        assert answer_of(ask) == answer_of(tell)

    # What happens

    def connect(self):
        self.open.append(self.next_connection)
        self.next_connection += 1

    def register(self, request, where, *, rests):
        self.take(reported(request, self.at(where)), rests=rests)

    def register_again(self, which, news, over, *, is_known, rests):
        """Register as before but for some news, over the latest connection or another."""
        if brokers := self.model.brokers():
            broker = brokers[which % len(brokers)]
            latest = [*broker.connections][-1]
            connection = latest if over is None and latest in self.open else self.at(over or 0)
            self.take(reported(replace(broker.request, **news), connection, is_known=is_known), rests=rests)

    def claim_id(self, which):
        """Have the first broker of a set claim the id of its last, which may have a newer state."""
        if large := [its for its in self.model.sets.values() if len(its.members) > 1]:
            members = large[which % len(large)].members
            first, last = members[min(members)], max(members)
            claim = replace(first.request, broker_id=last, data_version=VERSIONS[0])
            self.take(reported(claim, self.open[-1]), rests=False)

    def waver(self, which):
        """Have a broker say something else in a text that is not known again, and then the same as before."""
        if brokers := self.model.brokers():
            before = brokers[which % len(brokers)].request
            other = replace(before, data_version=DataVersion(counter=9))
            for request, is_known in ((before, True), (other, False), (before, True)):
                self.take(reported(request, self.at(0), is_known=is_known), rests=False)

    def take(self, request, *, rests):
        def follow(outcome):
            """It is as if it came with its last step."""
            if outcome is not None:
                late = replace(request, is_late=is_late())
                assert outcome == answer_of(lambda: self.model.register(late, self.now_ms))

        def is_late():
            return request.is_late or request.connection_id not in self.open

        self.begin(self.told(request, is_late), follow, rests=rests)

    def told(self, request, is_late):
        """Register as a broker does; of a text that is known nothing is decoded again but what differs."""
        previous = self.state.previous_registration(request)
        if previous is not None and previous.reported == request.reported:
            return self.state.register_unchanged(replace(request, topics={}, mappings={}), self.now_ms)
        if previous is not None and request.reported is not None:
            before = self.model.find(request.key).request.topics
            news = {topic: said for topic, said in request.topics.items() if said != before.get(topic)}
            difference = replace(request, topics=news, base=previous)
            if outcome := (yield from self.state.registration_steps(difference, lambda: self.now_ms, is_late)):
                return outcome
        return (yield from self.state.registration_steps(request, lambda: self.now_ms, is_late))

    def begin(self, steps, follow, *, rests):
        self.resting.append((steps, follow))
        self.go_on(0, 1 if rests else STEPS_MAX)

    def go_on(self, which, steps_max):
        """Take some steps of a registration or departure that rests."""
        if self.resting:
            steps, follow = self.resting.pop(-1 - which % len(self.resting))
            outcome = None
            try:
                for _ in range(steps_max):
                    next(steps)
                self.resting.append((steps, follow))
            except StopIteration as end:
                outcome = end.value
            except RequestRefused as refusal:
                outcome = type(refusal), str(refusal)
            follow(outcome)

    def depart(self, steps, departure, *, rests):
        def follow(outcome):
            """Have those leave in the model whom the state has come to; in the end that is everyone."""
            rows, model = self.state.tables.live, self.model
            for name in dict.fromkeys(key.broker_name for key in departure.keys):
                brokers = [b for key in departure.keys if key.broker_name == name and (b := model.find(key))]
                if outcome is None and all(rows.get(broker.key) == broker.row for broker in brokers):
                    continue
                leaving = [broker.key for broker in brokers if departure.leaves(broker)]
                if outcome is not None or any(rows.get(key) is None for key in leaving):
                    events, notices = model.depart(leaving, departure.reason, departure.now_ms)
                    departure.events += events
                    departure.notices += notices
            if outcome is not None:
                probes = map(ProbeConnection, departure.probed)
                closed = [CloseConnection(number) for number in departure.closing if not model.over(number)]
                events = [outcome.events, tuple(departure.events)]
                if rests:
                    # A heartbeat that comes between the steps may count or not.
                    events = [
                        [replace(event, silent_ms=0) if isinstance(event, BrokerRemoved) else event for event in found]
                        for found in events
                    ]
                assert events[0] == events[1]
                assert outcome.effects == (*model.asked(departure.notices), *probes, *closed)

        self.begin(steps, follow, rests=rests)

    def unregister(self, key, where, cluster, *, rests):
        connection = self.at(where)
        steps = self.state.unregistration_steps(cluster, key, connection, self.now_ms)
        stale = self.model.stale_unregistration(cluster, key, connection)
        leaving = Departure(
            keys=[] if stale else [key],
            reason=DepartureReason.REQUEST,
            now_ms=self.now_ms,
            leaves=lambda broker: max(broker.connections) <= connection,
            events=stale,
        )
        self.depart(steps, leaving, rests=rests)

    def lose_connection(self, where, of, *, rests):
        """Lose a connection, mostly the latest of a broker."""
        if len(self.open) > 1:
            latest = [[*broker.connections][-1] for broker in self.model.brokers()]
            latest = [number for number in latest if number in self.open]
            connection = self.at(where) if of is None or not latest else latest[of % len(latest)]
            self.open.remove(connection)
            now_ms, probed = self.now_ms, []
            leaving = Departure(
                keys=self.state.tables.live.of_connection(connection),
                reason=DepartureReason.CHANNEL_CLOSED,
                now_ms=now_ms,
                leaves=lambda broker: self.model.leaves_with(connection, broker, now_ms, probed),
                probed=probed,
            )
            self.depart(self.state.connection_loss_steps(connection, now_ms), leaving, rests=rests)

    def expire(self, *, rests=False):
        now_ms = self.now_ms
        expired = {broker.key: broker for broker in self.model.brokers() if broker.deadline_ms < now_ms}
        steps, keys = self.state.expiry_steps(now_ms), self.state.tables.live.expired(now_ms)
        assert sorted(keys) == sorted(expired)
        leaving = Departure(
            keys=keys,
            reason=DepartureReason.TIMEOUT,
            now_ms=now_ms,
            leaves=lambda broker: broker.deadline_ms < now_ms,
            closing=sorted({number for broker in expired.values() for number in broker.connections}),
        )
        self.depart(steps, leaving, rests=rests)

    def pass_time(self, ms, heard, *, rests):
        """Let time pass, after which some or all brokers are heard before a scan."""
        self.now_ms += ms
        for broker in self.model.brokers()[:heard]:
            self.heartbeat(broker.key, broker.request.cluster)
        self.expire(rests=rests)
        self.report_losses()

    def heartbeat(self, key, cluster):
        call = cluster, key, HeartbeatKind.HEARTBEAT, self.now_ms
        assert self.state.heartbeat(*call) == self.model.heartbeat(*call)

    def query_data_version(self, key, cluster, where):
        call = cluster, key, self.at(where), self.now_ms
        assert self.state.query_data_version(*call) == self.model.query_data_version(*call)

    def set_write_perm(self, name, *, gives):
        if gives:
            assert self.state.add_write_perm(name) == self.model.set_perm("ADD", name, lambda _: 6)
        else:
            assert self.state.wipe_write_perm(name) == self.model.set_perm("WIPE", name, lambda perm: perm & ~WRITE)

    def delete_topic(self, topic, cluster):
        assert self.state.delete_topic(topic, cluster) == self.model.delete_topic(topic, cluster)

    def register_topic(self, topic, names, perm):
        datas = [QueueData(broker_name=name, perm=perm, read_queue_nums=8, write_queue_nums=8) for name in names]
        self.alike(lambda: self.state.register_topic(topic, datas), lambda: self.model.register_topic(topic, datas))

    def report_losses(self):
        due = [
            its
            for its in self.model.sets.values()
            if its.lost and not its.lost_reported and self.now_ms - its.lost_since_ms >= 10_000
        ]
        reported = {name: losses.names for name, losses in self.state.lost_topics.report(self.now_ms)}
        assert reported == {its.name: sorted(its.lost) for its in due}
        for its in due:
            its.lost_reported = True

    def configure(self, config):
        self.model.config = config
        self.state.configure(config)
        assert not any(answer.is_valid for answer, _ in self.sent.values())
        self.sent.clear()

    def all_leave(self):
        """Once nobody is left nothing is left of anybody."""
        expire(self.state, self.now_ms + 10**9)
        for left, empty in (
            *((getattr(self.state.tables, name), getattr(RouteTables(), name)) for name in TABLES),
            (self.state.topic_sizes, TopicSizes()),
            (self.state.topic_counts, TopicCountTable()),
        ):
            counted = {name: value for name, value in vars(left).items() if name in COUNTERS}
            assert vars(left) == vars(empty) | counted

    # What must hold

    def check(self):
        self.exactly_the_living_are_known()
        self.exactly_their_sets_are_listed()
        self.queues_are_those_of_living_sets_seen_alike_from_both_sides()
        self.counts_are_recounts()
        self.gaps_are_what_masters_and_slaves_lack()
        self.recorded_changes_make_the_same_sets_and_topics()
        self.routes_are_true_and_kept_as_long_as_they_are()

    def exactly_the_living_are_known(self):
        live, brokers = self.state.tables.live, {broker.key: broker for broker in self.model.brokers()}
        assert dict(live.rows()) == {key: broker.row for key, broker in brokers.items()}
        for number in range(1, self.next_connection):
            over = {broker.key for broker in self.model.over(number)}
            assert set(live.of_connection(number)) == over
            assert (live.count_of_connection(number), live.has_registered_over(number)) == (len(over), bool(over))
        places = {(broker.request.cluster, key.address, key) for key, broker in brokers.items()}
        self.came = [*(place for place in self.came if place in places), *(places - {*self.came})]
        first = {place[:2]: place[2] for place in reversed(self.came)}
        assert {(c, a): key for c in "CD" for a in ADDRESSES if (key := live.at_address(c, a))} == first
        deadlines = [broker.deadline_ms for broker in brokers.values()]
        assert live.earliest_ms is None if not deadlines else live.earliest_ms <= min(deadlines)

    def exactly_their_sets_are_listed(self):
        table, sets = self.state.tables.brokers, self.model.sets
        assert {each.broker_name: each for each in table.sets()} == {name: its.registered for name, its in sets.items()}
        assert (len(table), table.get("unknown")) == (len(sets), None)
        pairs = {(cluster, its.name) for its in sets.values() for cluster in self.model.clusters_of(its)}
        self.listed = [*(pair for pair in self.listed if pair in pairs), *(pairs - {*self.listed})]
        listed = {cluster: [name for its, name in self.listed if its == cluster] for cluster, _ in self.listed}
        assert {cluster: list(names) for cluster, names in table.clusters().items()} == listed
        for cluster in "CD":
            assert table.counted_in(cluster) == {its.name for its in sets.values() if its.cluster == cluster}
            topics = [topic for name in listed.get(cluster, ()) for topic in sets[name].topics]
            assert routes.topics_of_cluster(self.state.tables, cluster) == list(dict.fromkeys(topics))
        for network in ("n1", "n2"):
            assert table.of_network(network) == {its.name for its in sets.values() if its.network == network}
        info = self.state.cluster_info
        text = run_to_completion(info.since(info.changes))
        data = {name: json.loads(encode(its.data(), Dialect.STANDARD)) for name, its in sets.items()}
        found = json.loads(re.sub(rb"([{,])(\d):", rb'\1"\2":', text))
        assert found == {"brokerAddrTable": data, "clusterAddrTable": listed}
        # It is made anew only when it has become another.
        registered, made = {name: its.registered for name, its in sets.items()}, info.changes
        assert (self.info[0] == registered) == (self.info[1] == made)
        self.info = registered, made

    def queues_are_those_of_living_sets_seen_alike_from_both_sides(self):
        tables, sets, holders = self.state.tables, self.model.sets, self.model.holders
        for name in NAMES:
            its = sets.get(name) or BrokerSet(name, "")
            assert list(tables.topics.of_broker(name).items()) == list(its.topics.items())
            assert tables.mappings.of_broker(name) == its.mappings
            assert tables.permission_overrides.of(name) == its.chosen
            size = sum(130 + len(topic) * (1 if topic.isascii() else 4) for topic in its.topics)
            mapping_bytes = sum(
                600 + 4 * len(t) + 160 * len(each.curr_id_map or ()) for t, each in its.mappings.items()
            )
            reads, writes = (
                sum(getattr(data, count) for data in its.topics.values())
                for count in ("read_queue_nums", "write_queue_nums")
            )
            assert tables.topics.queue_sum(name) == QueueSum(reads, writes, size)
            assert tables.mappings.queue_sum(name).size_bytes == mapping_bytes
            assert self.state.topic_sizes.of_set(name) == size + mapping_bytes
        assert self.state.topic_sizes.total_bytes == sum(map(self.state.topic_sizes.of_set, NAMES))
        assert {topic: list(tables.topics.holders_of(topic)) for topic in tables.topics.topics()} == holders
        assert (len(tables.topics), "T0" in tables.topics) == (len(holders), "T0" in holders)
        for topic in TOPICS:
            mapped = {its.name: its.mappings[topic] for its in sets.values() if topic in its.mappings}
            assert (tables.mappings.of_topic(topic) or {}) == mapped
        assert (self.names_version == tables.topics.names_version) == (self.names == set(holders))
        self.names_version, self.names = tables.topics.names_version, set(holders)

    def counts_are_recounts(self):
        sets, kinds = self.model.sets.values(), {}
        for its in sets:
            for topic in its.topics:
                kinds.setdefault((its.cluster, kind_of(topic, ())), set()).add(topic)
        counts = self.state.topic_counts.counts()
        assert {(c, kind): n for c, of_kind in counts.items() for kind, n in of_kind.items() if n} == {
            key: len(topics) for key, topics in kinds.items()
        }
        owners = {*self.model.sets, *(cluster for its in sets for cluster in self.model.clusters_of(its))}
        expected = {cluster: ClusterSummary() for cluster in owners - {*self.model.sets}}
        for its in sets:
            numbers = expected[its.cluster]
            acting = SetLeadership.ACTING_MASTER if its.acting else SetLeadership.NO_MASTER
            numbers.sets[SetLeadership.MASTER if its.master else acting] += 1
            for data in its.topics.values():
                numbers.read_queues += data.read_queue_nums
                numbers.write_queues += data.write_queue_nums
            for i, broker in its.members.items():
                role = BrokerRole.SLAVE if i else BrokerRole.MASTER
                expected[broker.request.cluster].brokers[role] += 1
        for cluster, numbers in expected.items():
            topics = {topic for its in sets if its.cluster == cluster for topic in its.topics}
            numbers.topics = dict.fromkeys(TopicKind, 0) | Counter(kind_of(topic, owners) for topic in topics)
        assert run_to_completion(clusters(self.state)) == expected

    def gaps_are_what_masters_and_slaves_lack(self):
        gaps = run_to_completion(cluster_gaps.gaps_of(self.state, 1_000))
        sets = sorted(self.model.sets.values(), key=lambda its: its.name)
        lost = {
            its.name: LostTopics(
                cluster=its.cluster,
                broker_name=its.name,
                since_unix_ms=its.lost_since_ms + 1_000,
                count=len(its.lost),
                topics=sorted(its.lost),
            )
            for its in sets
            if its.lost and its.lost_reported
        }
        assert gaps["lostTopics"] == list(lost.values())
        assert [name for name, _ in self.state.lost_topics.reported()] == list(lost)
        for name in NAMES:
            assert cluster_gaps.lost_topics(self.state, name, 1_000) == lost.get(name)
        assert gaps["staleReplicas"] == [
            StaleReplica(cluster=its.cluster, broker_name=its.name, broker_id=i, broker_addr=broker.key.address)
            for its in sets
            for i, broker in sorted(its.members.items())
            if self.model.lacks_topics(its, broker)
        ]

    def recorded_changes_make_the_same_sets_and_topics(self):
        for recorded in self.state.take_changes():
            change = recorded.change
            name, queues = change.broker_set.broker_name, change.queue_changes.queues
            topics = self.recorded_topics.setdefault(name, {})
            assert recorded.before == self.recorded_sets.get(name)
            assert recorded.old_queues == {t: topics[t] for t in (*queues, *change.removed_topics) if t in topics}
            topics |= queues
            for topic in change.removed_topics:
                del topics[topic]
            self.recorded_sets[name] = change.broker_set if change.broker_set.members else None
        assert {name: its for name, its in self.recorded_sets.items() if its} == {
            name: its.registered for name, its in self.model.sets.items()
        }
        assert {name: its for name, its in self.recorded_topics.items() if its} == {
            name: its.topics for name, its in self.model.sets.items() if its.topics
        }

    def routes_are_true_and_kept_as_long_as_they_are(self):
        for topic in TOPICS:
            route = self.model.route_of(topic, None)
            fresh = encode(route, Dialect.STANDARD) if route else None
            holders = [self.model.sets[name] for name in self.model.holders.get(topic, ())]
            filters = [broker.filter_servers for its in holders for broker in its.members.values()]
            mappings = {its.name: its.mappings[topic] for its in self.model.sets.values() if topic in its.mappings}
            depends_on = [fresh, [its.registered for its in holders], filters, mappings]
            answer, needs = self.sent.pop(topic, (None, None))
            if answer is not None:
                kept = self.state.route_cache.get(topic, Dialect.STANDARD)
                assert (answer.is_valid, kept is answer) == (needs == depends_on,) * 2
            if needs == depends_on:
                self.sent[topic] = answer, needs
                continue
            found = self.state.route_of(topic, None)
            assert found == route
            if route:
                ids = [[*data.broker_addrs] for data in route.broker_datas]
                assert [[*data.broker_addrs] for data in found.broker_datas] == ids
                for conf in ("", "conf"):
                    assert self.state.route_of(topic, conf) == replace(route, order_topic_conf=conf)
                self.check_zone(route)
                answer = PreparedResponse(fresh, Histogram(()))
                self.state.route_cache.keep(topic, Dialect.STANDARD, answer)
                self.sent[topic] = answer, depends_on

    def check_zone(self, route):
        """Compare what a requester in zone z gets: sets in it, and those that nobody leads."""
        seen = routes.in_zone(route, "Z")
        hidden = [data for data in route.broker_datas if 0 in data.broker_addrs and data.zone_name not in ("z", "Z")]
        names, hidden_addresses = (
            {data.broker_name for data in hidden},
            {address for data in hidden for address in data.broker_addrs.values()},
        )
        assert seen.broker_datas == [data for data in route.broker_datas if data.broker_name not in names]
        assert seen.queue_datas == [data for data in route.queue_datas if data.broker_name not in names]
        assert seen.filter_server_table == {
            address: servers
            for address, servers in route.filter_server_table.items()
            if address not in hidden_addresses
        }


def history(random):
    """Return random steps: the configuration, and what happens under it."""

    def request():
        return Registration(connection_id=0, body_bytes=7, **{name: random.choice(FIELDS[name]) for name in FIELDS})

    def news():
        return {name: random.choice(FIELDS[name]) for name in random.sample([*FIELDS], random.choice([0, 1, 1, 2]))}

    def again():
        over = random.choice([None, None, 0, 1, 2])
        is_known = random.random() < 0.9
        return {"which": random.randrange(9), "news": news(), "over": over, "is_known": is_known, "rests": rests()}

    def rests():
        return random.random() < 0.15

    def topic():
        return random.choice(TOPICS)

    def some_names():
        return random.sample(NAMES, random.randrange(4))

    def key():
        return LiveKey(random.choice(NAMES), random.choice(ADDRESSES))

    def config():
        return NameServerConfig(**{name: random.choice(OPTIONS[name]) for name in OPTIONS})

    def where():
        return random.choice([0, 0, 1, 2])

    def cluster():
        return random.choice(FIELDS["cluster"])

    happenings = {
        "register": (9, lambda: {"request": request(), "where": where(), "rests": rests()}),
        "register_again": (14, again),
        "claim_id": (2, lambda: {"which": where()}),
        "waver": (1, lambda: {"which": random.randrange(9)}),
        "go_on": (6, lambda: {"which": where(), "steps_max": random.choice([1, 3, 99])}),
        "unregister": (2, lambda: {"key": key(), "where": where(), "cluster": cluster(), "rests": rests()}),
        "connect": (3, dict),
        "lose_connection": (3, lambda: {"where": where(), "of": random.choice([None, 0, 1, 2]), "rests": rests()}),
        "expire": (1, lambda: {"rests": rests()}),
        "pass_time": (
            8,
            lambda: {"ms": random.choice(TIMES_MS), "heard": random.choice([0, 1, 2, 9, 9]), "rests": rests()},
        ),
        "heartbeat": (2, lambda: {"key": key(), "cluster": cluster()}),
        "query_data_version": (3, lambda: {"key": key(), "cluster": cluster(), "where": where()}),
        "set_write_perm": (3, lambda: {"name": random.choice(NAMES), "gives": random.random() < 0.5}),
        "delete_topic": (2, lambda: {"topic": topic(), "cluster": random.choice([None, "", "C", "D"])}),
        "register_topic": (2, lambda: {"topic": topic(), "names": some_names(), "perm": random.choice([6, 4])}),
        "configure": (1, lambda: {"config": config()}),
    }
    weights = [weight for weight, _ in happenings.values()]
    names = random.choices([*happenings], weights, k=STEPS)
    return config(), [(name, happenings[name][1]()) for name in names]


def failure_of(config, steps, lives_of):
    lives = lives_of(config)
    try:
        for name, values in steps:
            getattr(lives, name)(**values)
            lives.check()
        lives.all_leave()
    except Exception as failure:  # noqa: BLE001 - whatever goes wrong is what is looked for
        return failure
    return None


def play_histories(numbers, lives_of=Lives):
    for number in numbers:
        config, steps = history(Random(number))
        if failure := failure_of(config, steps, lives_of):
            for step in reversed(steps):
                fewer = [each for each in steps if each is not step]
                if shorter := failure_of(config, fewer, lives_of):
                    steps, failure = fewer, shorter
            story = "\n".join(f"{name}({values})" for name, values in steps)
            raise AssertionError(f"history {number} fails in these steps:\n{story}") from failure


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(range(HISTORIES), id="every run"),
        pytest.param(range(HISTORIES, BROAD_HISTORIES), id="broad", marks=pytest.mark.broad),
        pytest.param(
            range(BROAD_HISTORIES, SOAK_HISTORIES), id="soak", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]
        ),
    ],
)
def test_random_lives_of_brokers_leave_no_broker_topic_or_answer_out_of_place(monkeypatch, numbers):
    monkeypatch.setattr(cooperative, "BATCH_TOPICS", 3)
    play_histories(numbers)
