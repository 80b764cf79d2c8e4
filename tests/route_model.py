"""What a NameServer has to know and to answer, as simply as it can be said.

One plain record for each living broker and each broker set; every answer is worked out anew. Nothing here knows of
tables, changes, sums or caches. Played against the state in `namesrv/test_route_model.py`.

The model leaves out, and tests in `namesrv/core/` have:

- limits: of brokers and members, bytes of topics and how long a refused broker stays, the rule for crowds of sets;
- the fitting of routes by bytes, away sets, route fetches, role addresses;
- the text of a registration, which `namesrv/core/registration/` reads; here a difference is worked out from topics;
- which member of a joint departure comes first, and at which of its steps each set leaves: both are the state's choice.
"""

from dataclasses import dataclass, field
from itertools import groupby

from msgspec import UNSET
from msgspec.structs import replace

from namesrv.core.registration.registration import MasterAddresses, Registration
from namesrv.core.tables.broker_table import Member, RegisteredSet
from namesrv.core.tables.live_table import LiveRow
from namesrv.core.values import effects
from namesrv.refusals import RegistrationRefused, TooManyTopics
from remoting.protocol.shapes.route import BrokerData, QueueData, TopicQueueMappingInfo, TopicRouteData

#: Slaves ask for it to learn who is really in their set.
SYNC_TOPIC = "rmq_sys_SYNC_BROKER_MEMBER_broker-a"
WRITE = 2
NOTHING = effects.RouteChanges()


@dataclass
class Broker:
    """A broker that the NameServer has to know."""

    #: The last one that was taken.
    request: Registration
    network: str
    filter_servers: tuple[str, ...]
    heard_ms: int
    version_since_ms: int
    #: Those over which it registered, the latest last, and when it did last.
    connections: dict[int, int]
    #: The period in which it registers, as far as is known.
    period_ms: int = 30_000
    #: When it leaves though it is not overdue.
    grace_ends_ms: int | None = None

    @property
    def key(self):
        return self.request.key

    @property
    def deadline_ms(self):
        overdue_ms = self.heard_ms + self.request.heartbeat_timeout_ms
        return overdue_ms if self.grace_ends_ms is None else min(overdue_ms, self.grace_ends_ms)

    @property
    def row(self):
        request, (*older, latest) = self.request, self.connections.items()
        return LiveRow(
            cluster=request.cluster,
            broker_id=request.broker_id,
            last_heartbeat_ms=self.heard_ms,
            timeout_ms=request.heartbeat_timeout_ms,
            data_version=request.data_version,
            connection_id=latest[0],
            ha_server_addr=request.ha_server_addr,
            version=request.version,
            filter_servers=self.filter_servers,
            registered_ms=latest[1],
            version_since_ms=self.version_since_ms,
            period_ms=self.period_ms,
            older_connections=tuple(older),
            grace_ends_ms=self.grace_ends_ms,
        )

    def uses(self, connection, now_ms):
        """Register, or ask for the version, over a connection."""
        gap_ms = now_ms - self.connections.pop(connection, now_ms)
        if gap_ms >= 10_000:
            self.period_ms = min(60_000, max(gap_ms, self.period_ms * 3 // 4))
        self.connections = dict([*self.connections.items()][-3:]) | {connection: now_ms}
        self.heard_ms, self.grace_ends_ms = now_ms, None


@dataclass
class BrokerSet:
    name: str
    cluster: str
    acting: bool = False
    zone: str | None = None
    members: dict[int, Broker] = field(default_factory=dict)
    topics: dict[str, QueueData] = field(default_factory=dict)
    mappings: dict[str, TopicQueueMappingInfo] = field(default_factory=dict)
    #: Permissions that an operator set.
    chosen: dict[str, int] = field(default_factory=dict)
    #: Topics that the master lacks, since when, and whether that was reported.
    lost: set[str] = field(default_factory=set)
    lost_since_ms: int = 0
    lost_reported: bool = False

    @property
    def master(self):
        return self.members.get(0)

    @property
    def network(self):
        return self.members[min(self.members)].network

    @property
    def has_acting_master(self):
        return self.acting and 0 not in self.members

    @property
    def registered(self):
        members = {i: Member(each.key.address, each.request.cluster, each.network) for i, each in self.members.items()}
        return RegisteredSet(
            broker_name=self.name,
            cluster=self.cluster,
            enable_acting_master=self.acting,
            zone_name=self.zone,
            members=members,
        )

    def data(self, *, acting=False):
        """Return the set as peers see it; with `acting` its first slave stands in for the master."""
        addresses = [(i, self.members[i].key.address) for i in sorted(self.members)]
        if acting:
            addresses[0] = (0, addresses[0][1])
        return BrokerData(
            broker_addrs=dict(addresses),
            broker_name=self.name,
            cluster=self.cluster,
            enable_acting_master=self.acting,
            zone_name=UNSET if self.zone is None else self.zone,
        )


def changes_of(before, queues, removed=()):
    """Return how many of some topics are other than before."""
    changed = {topic: data for topic, data in queues.items() if data != before.get(topic)}
    former = [(before[topic], data) for topic, data in changed.items() if topic in before]
    return effects.RouteChanges(
        topics_added=len(changed) - len(former),
        topics_removed=len(removed),
        queues=sum(replace(old, perm=0) != replace(new, perm=0) for old, new in former),
        perm=sum(old.perm != new.perm for old, new in former),
        sample=tuple([*changed, *removed][:5]),
    )


def who(request):
    return {name: getattr(request, name) for name in ("cluster", "broker_name", "broker_id", "address")}


def removal(broker, reason, now_ms, changes=NOTHING, *, set_removed=False):
    return effects.BrokerRemoved(
        **who(broker.request),
        reason=reason,
        silent_ms=now_ms - broker.heard_ms,
        heartbeat_timeout_ms=broker.request.heartbeat_timeout_ms,
        was_master=broker.request.broker_id == 0,
        set_removed=set_removed,
        changes=changes,
    )


class Model:
    """What a NameServer has to know, and to answer."""

    def __init__(self, config):
        self.config = config
        self.sets = {}
        #: Topic -> the sets that have it, in the order they got it.
        self.holders = {}

    def brokers(self):
        return [broker for its in self.sets.values() for broker in its.members.values()]

    def find(self, key):
        return next((broker for broker in self.brokers() if broker.key == key), None)

    def over(self, connection):
        return [broker for broker in self.brokers() if connection in broker.connections]

    def put_topics(self, its, queues):
        its.topics |= queues
        for topic in queues:
            if its.name not in self.holders.setdefault(topic, []):
                self.holders[topic].append(its.name)

    def remove_topics(self, its, topics):
        for topic in topics:
            for table in (its.topics, its.mappings, its.chosen):
                table.pop(topic, None)
            its.lost.discard(topic)
            self.holders[topic].remove(its.name)
            if not self.holders[topic]:
                del self.holders[topic]

    def is_full(self, its, topic):
        """Return whether a set does not get a topic because its host has enough sets in it."""
        of_host = [name for name in self.holders.get(topic, ()) if self.sets[name].network == its.network]
        return topic not in its.topics and len(of_host) >= self.config.topic_sets_per_host_max

    # What happens

    def register(self, request, now_ms):
        name, address, broker_id = request.broker_name, request.address, request.broker_id
        its, known = self.sets.get(name), self.find(request.key)
        # An address is one process, which may have had another id.
        members = (
            {i: each for i, each in its.members.items() if each.key != request.key or i == broker_id} if its else {}
        )
        holder = members.get(broker_id)
        if holder is None and len(request.topics) + request.ignored_topics == 1:
            raise RegistrationRefused("register broker failed")
        if request.is_late:
            stale = effects.StaleRegistration(**who(request))
            return effects.RouteOutcome(reply=self.master_of(request), events=(stale,))
        superseded = holder if holder and holder.key != request.key else None
        if superseded and superseded.request.cluster == request.cluster:
            mine, theirs = (each.data_version.state_version for each in (request, superseded.request))
            if theirs > mine:
                return self.turn_away(request, known, superseded, now_ms)
        is_new_set, former_first = its is None, min(its.members) if its else None
        former_master = its.master.key if its and its.master else None
        version_changed = known is None or known.request.data_version != request.data_version
        events = () if superseded is None else (removal(superseded, effects.DepartureReason.SUPERSEDED, now_ms),)
        probed = known.connections if known and request.connection_id not in known.connections else ()
        interval_ms = now_ms - known.heard_ms if known else None
        broker = Broker(
            request=request,
            network=holder.network if holder and not superseded else request.network,
            filter_servers=known.filter_servers if known else (),
            heard_ms=now_ms,
            version_since_ms=now_ms if version_changed else known.version_since_ms,
            connections=dict(known.connections) if known else {},
        )
        if known:
            broker.period_ms = known.period_ms
        broker.uses(request.connection_id, now_ms)
        if request.filter_servers is not None:
            broker.filter_servers = request.filter_servers
        if is_new_set:
            its = self.sets[name] = BrokerSet(name, request.cluster)
        its.members = {**members, broker_id: broker}
        its.acting, its.zone = bool(request.enable_acting_master), request.zone_name
        self.follow_members(its)
        master_changed = former_master != (its.master.key if its.master else None)
        changed = holder is None or version_changed
        changes, left_out = self.take_topics(its, request, changed=changed)
        if broker_id == 0 and master_changed:
            lost = its.topics.keys() - request.topics.keys()
            if not its.lost or lost - its.lost:
                its.lost_since_ms, its.lost_reported = now_ms, False
            its.lost = lost
        elif broker_id == 0:
            its.lost -= request.topics.keys()
        result = effects.RegistrationResult.CHANGED if changed or changes else effects.RegistrationResult.UNCHANGED
        registered = effects.BrokerRegistered(
            **who(request),
            result=result if known else effects.RegistrationResult.FIRST,
            heartbeat_timeout_ms=request.heartbeat_timeout_ms,
            data_version=request.data_version,
            topics=len(request.topics),
            ignored_topics=request.ignored_topics + left_out,
            body_bytes=7,
            changes=changes,
            master_changed=master_changed,
            set_added=is_new_set,
        )
        heard = self.heard(broker, effects.HeartbeatKind.REGISTER, interval_ms)
        asked = [effects.ProbeConnection(number) for number in probed if number in broker.connections]
        if former_first is not None and broker_id < former_first and self.config.notify_min_broker_id_changed:
            others = tuple(each.key.address for i, each in its.members.items() if i != broker_id)
            asked.insert(0, self.notice(its, others or (address,), ha=request.ha_server_addr))
        return effects.RouteOutcome(
            reply=self.master_of(request), events=(registered, *events, heard), effects=tuple(asked)
        )

    def turn_away(self, request, known, holder, now_ms):
        """Refuse an older state than that of the holder of a broker id; the registrant is nothing else in the set."""
        conflict = effects.RegistrationConflicted(
            **who(request),
            state_version=request.data_version.state_version,
            holder_address=holder.key.address,
            holder_state_version=holder.request.data_version.state_version,
        )
        events, notices = self.depart([known.key] if known else [], effects.DepartureReason.CONFLICT, now_ms)
        return effects.RouteOutcome(reply=MasterAddresses(), events=(conflict, *events), effects=self.asked(notices))

    def take_topics(self, its, request, *, changed):
        """Take what the master or the first slave of a set says of topics."""
        acting = request.enable_acting_master
        if request.broker_id != 0 and (acting is None or request.broker_id != min(its.members)):
            return NOTHING, 0
        if changed:
            its.chosen = {topic: perm for topic, perm in its.chosen.items() if topic not in request.topics}
        queues = {}
        for topic, said in request.topics.items():
            if not self.is_full(its, topic):
                perm = its.chosen.get(topic, said.perm & ~WRITE if its.has_acting_master else said.perm)
                queues[topic] = QueueData(
                    broker_name=its.name,
                    perm=perm,
                    read_queue_nums=said.read_queue_nums,
                    write_queue_nums=said.write_queue_nums,
                    topic_sys_flag=said.topic_sys_flag,
                )
        removed = []
        if changed and self.config.delete_topic_with_broker_registration and not request.mappings:
            removed = [topic for topic in its.topics if topic not in request.topics]
        changes = changes_of(its.topics, queues, removed)
        self.put_topics(its, queues)
        self.remove_topics(its, removed)
        its.mappings |= request.mappings
        return changes, len(request.topics) - len(queues)

    def follow_members(self, its):
        """Keep a set in its cluster while anybody of that is left."""
        clusters = [broker.request.cluster for broker in its.members.values()]
        if its.cluster not in clusters:
            its.cluster = clusters[0]

    def depart(self, keys, reason, now_ms):
        """Take members away, those of each set together; return what happened, and notices for the others."""
        events, notices = [], []
        for name, leaving in groupby(keys, lambda key: key.broker_name):
            its, gone = self.sets[name], [self.find(key) for key in leaving]
            first = its.members[min(its.members)]
            its.members = {i: broker for i, broker in its.members.items() if broker not in gone}
            changes = NOTHING
            if not its.members:
                changes = changes_of({}, {}, list(its.topics))
                self.remove_topics(its, list(its.topics))
                del self.sets[name]
            else:
                self.follow_members(its)
                queues = {
                    t: replace(data, perm=data.perm & ~WRITE) for t, data in its.topics.items() if data.perm & WRITE
                }
                if its.has_acting_master and queues:
                    changes = changes_of(its.topics, queues)
                    its.topics |= queues
                    its.chosen = {}
                if its.acting and first in gone:
                    notices.append(self.notice(its, [each.key.address for each in its.members.values()], gone=first))
            for broker in gone:
                is_overdue = broker.heard_ms + broker.request.heartbeat_timeout_ms < now_ms
                waited_for = reason is effects.DepartureReason.TIMEOUT and not is_overdue
                events.append(
                    removal(
                        broker,
                        effects.DepartureReason.CHANNEL_CLOSED if waited_for else reason,
                        now_ms,
                        set_removed=not its.members,
                        changes=changes if broker is gone[-1] else NOTHING,
                    )
                )
        return events, notices

    def asked(self, notices):
        """Return those notices that the configuration wants."""
        return tuple(notices) if self.config.notify_min_broker_id_changed else ()

    def notice(self, its, recipients, *, gone=None, ha=None):
        first = min(its.members)
        return effects.NotifyMinBrokerIdChange(
            broker_name=its.name,
            min_broker_id=first,
            min_broker_addr=its.members[first].key.address,
            offline_broker_addr=gone.key.address if gone else None,
            ha_broker_addr=ha,
            recipients=tuple(recipients),
        )

    def heard(self, broker, kind, interval_ms):
        request = broker.request
        return effects.BrokerHeartbeat(
            **who(request),
            kind=kind,
            interval_ms=interval_ms,
            heartbeat_timeout_ms=request.heartbeat_timeout_ms,
            data_version=request.data_version,
        )

    def stale_unregistration(self, cluster, key, connection):
        """Return what happens if a broker wants to leave that has registered over a younger connection since."""
        broker = self.find(key)
        if broker is None or max(broker.connections) <= connection:
            return []
        return [effects.StaleUnregistration(cluster=cluster, broker_name=key.broker_name, address=key.address)]

    def leaves_with(self, connection, broker, now_ms, probed):
        """Return whether a broker leaves with a connection; else take it away and add those to probe."""
        if connection not in broker.connections:
            return False
        latest = [*broker.connections][-1]
        rest = {number: ms for number, ms in broker.connections.items() if number != connection}
        grace_ends_ms = max(rest.values(), default=now_ms) + broker.period_ms * 3 // 2
        if latest == connection:
            if not rest or grace_ends_ms < now_ms:
                return True
            broker.grace_ends_ms = grace_ends_ms
            probed += rest
        broker.connections = rest
        return False

    def heartbeat(self, cluster, key, kind, now_ms):
        broker = self.find(key)
        if broker is None or broker.request.cluster != cluster:
            return effects.RouteOutcome(reply=None)
        event = self.heard(broker, kind, now_ms - broker.heard_ms)
        broker.heard_ms, broker.grace_ends_ms = now_ms, None
        return effects.RouteOutcome(reply=broker.row, events=(event,))

    def query_data_version(self, cluster, key, connection, now_ms):
        outcome = self.heartbeat(cluster, key, effects.HeartbeatKind.DATA_VERSION, now_ms)
        if outcome.reply is None:
            return outcome
        broker = self.find(key)
        if connection in broker.connections:
            broker.uses(connection, now_ms)
        return effects.RouteOutcome(reply=broker.request.data_version, events=outcome.events)

    def by_admin(self, request, target, its, changes):
        return effects.TopicsChangedByAdmin(
            request=request, target=target, cluster=its.cluster, broker_name=its.name, changes=changes
        )

    def set_perm(self, what, name, perm_of):
        its = self.sets.get(name)
        if its is None or not its.topics:
            return effects.RouteOutcome(reply=0)
        queues = {topic: replace(data, perm=perm_of(data.perm)) for topic, data in its.topics.items()}
        event = self.by_admin(f"{what}_WRITE_PERM_OF_BROKER", name, its, changes_of(its.topics, queues))
        its.topics |= queues
        its.chosen |= {topic: data.perm for topic, data in queues.items()}
        return effects.RouteOutcome(reply=len(queues), events=(event,))

    def delete_topic(self, topic, cluster):
        events = []
        for name in list(self.holders.get(topic, ())):
            its = self.sets[name]
            if not cluster or cluster in self.clusters_of(its):
                self.remove_topics(its, [topic])
                changes = effects.RouteChanges(topics_removed=1, sample=(topic,))
                events.append(self.by_admin("DELETE_TOPIC_IN_NAMESRV", topic, its, changes))
        return effects.RouteOutcome(reply=None, events=tuple(events))

    def register_topic(self, topic, queue_datas):
        events, full = [], []
        known = [data.broker_name in self.sets for data in queue_datas]
        if topic not in self.holders and not all(known):
            return effects.RouteOutcome(reply=None)
        for data in queue_datas[: [*known, False].index(False)]:
            its = self.sets[data.broker_name]
            if self.is_full(its, topic):
                full.append(its.name)
                continue
            changes = changes_of(its.topics, {topic: data})
            self.put_topics(its, {topic: data})
            its.chosen.pop(topic, None)
            events.append(self.by_admin("REGISTER_TOPIC_IN_NAMESRV", topic, its, changes))
        if full and not events:
            why = f"its host has as many sets with {topic} as it may have (topicSetsPerHostMax)"
            raise TooManyTopics(full[0], why)
        return effects.RouteOutcome(reply=None, events=tuple(events))

    # What it answers

    def master_of(self, request):
        its, mine = self.sets.get(request.broker_name), self.find(request.key)
        master = its.master if its else None
        if request.broker_id == 0 or master is None or master.request.cluster != request.cluster:
            return MasterAddresses()
        ha_server_addr = master.request.ha_server_addr
        if mine and master.request.data_version.state_version < mine.request.data_version.state_version:
            ha_server_addr = None
        return MasterAddresses(master_addr=master.key.address, ha_server_addr=ha_server_addr)

    def route_of(self, topic, conf):
        if topic not in self.holders:
            return None
        holders = [self.sets[name] for name in self.holders[topic]]
        may_act = self.config.support_acting_master and topic != SYNC_TOPIC
        mappings = {its.name: its.mappings[topic] for its in holders if topic in its.mappings}
        return TopicRouteData(
            broker_datas=[
                its.data(acting=may_act and its.has_acting_master and not its.topics[topic].perm & WRITE)
                for its in holders
            ],
            filter_server_table={
                broker.key.address: list(broker.filter_servers)
                for its in holders
                for broker in its.members.values()
                if broker.filter_servers
            },
            order_topic_conf=UNSET if conf is None else conf,
            queue_datas=[its.topics[topic] for its in holders],
            topic_queue_mapping_by_broker=mappings or UNSET,
        )

    def clusters_of(self, its):
        return {broker.request.cluster for broker in its.members.values()}

    def lacks_topics(self, its, broker):
        """Return whether a slave has other topics than its master though it had the time to copy them."""
        master = its.master
        if master is None or broker.request.data_version == master.request.data_version:
            return False
        return broker.row.registered_ms - master.version_since_ms >= 20_000
