"""RouteState: owns the tables of a NameServer and is the only place that changes them.

One method per event; each decides by asking a rule, applies its answer, and returns a `RouteOutcome`. A change is
applied in one step, so nobody sees half of it and no lock is needed. Long work prepares its change in steps,
yields in between, and begins again if another change was applied meanwhile. Answers to `RouteInfoManager`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from namesrv.core import broker_limits, departure, routes
from namesrv.core.cluster_info import ClusterInfoText
from namesrv.core.registration import registration
from namesrv.core.registration.body import PreviousRegistration
from namesrv.core.registration.incremental_body import ReportedTopics
from namesrv.core.registration.registration import Registration
from namesrv.core.route_cache import RouteCache
from namesrv.core.tables import broker_connections
from namesrv.core.tables.broker_table import RegisteredSet
from namesrv.core.tables.change import AppliedChange, RouteTables, SetChange, applied_change, counted, with_perms
from namesrv.core.tables.live_table import LiveKey, LiveRow
from namesrv.core.tables.mapping_table import PreparedMappingRemoval, PreparedMappings
from namesrv.core.tables.topic_counts import TopicCountTable, TopicKind, kinds_of
from namesrv.core.tables.topic_table import PreparedQueues, PreparedRemoval
from namesrv.core.values.cooperative import CooperativeTask, in_batches, run_to_completion
from namesrv.core.values.effects import (
    BrokerHeartbeat,
    CloseConnection,
    DepartureReason,
    Effect,
    Event,
    HeartbeatKind,
    ProbeConnection,
    RegistrationConflicted,
    RouteOutcome,
    StaleRegistration,
    StaleUnregistration,
    TopicsChangedByAdmin,
)
from namesrv.core.values.topic_changes import QueueChanges, compare_topics
from namesrv.settings.config import NameServerConfig
from remoting.protocol.codes import RequestCode
from remoting.protocol.shapes.route import (
    MASTER_ID,
    PERM_READ,
    PERM_WRITE,
    DataVersion,
    QueueData,
    TopicQueueMappingInfo,
    TopicRouteData,
)

#: So many times a registration is decided in slices before it is done at once.
_TRIES: Final = 3


class MasterAddresses(msgspec.Struct, frozen=True):
    """What a slave learns of its living master; both None if there is none."""

    master_addr: str | None = None
    ha_server_addr: str | None = None


class StoredVersion(msgspec.Struct, frozen=True):
    """What is known of a broker's topics; None if the broker is not."""

    data_version: DataVersion | None
    changed: bool


class _LastRegistration(NamedTuple):
    """What a member said in its last registration."""

    identity: tuple[object, ...]
    topics: ReportedTopics


class _Prepared(NamedTuple):
    """What it takes to store a change of topics."""

    queues: PreparedQueues
    #: How many of the topics are new to the set's cluster.
    new: Counter[TopicKind]
    removal: PreparedRemoval
    #: How many of the topics nobody in the set's cluster has any longer.
    gone: Counter[TopicKind]
    mappings: PreparedMappings
    unmapped: PreparedMappingRemoval


class _Compared(NamedTuple):
    """What a registration changes of topics and mappings, and what it takes to store that; None for nothing."""

    queues: QueueChanges
    mappings: Mapping[str, TopicQueueMappingInfo]
    prepared: _Prepared | None


class RouteState:
    """The routes of a cluster as one NameServer sees them. `now_ms` is monotonic everywhere."""

    def __init__(self, config: NameServerConfig) -> None:
        self._config = config
        self.tables = RouteTables()
        #: Topics per cluster and kind, for the metrics.
        self.topic_counts = TopicCountTable()
        #: Encoded answers that are still true.
        self.route_cache = RouteCache()
        #: The list of all clusters and sets, as peers are told it.
        self.cluster_info = ClusterInfoText(self.tables.brokers)
        #: Broker name -> what each member said last, as long as the tables hold just that.
        self._last_registrations: dict[str, dict[LiveKey, _LastRegistration]] = {}
        #: How many changes were applied.
        self._applied = 0
        #: Whether changes are kept for `take_changes`; and those that are.
        self.records_changes = False
        self._unread_changes: list[AppliedChange] = []

    def configure(self, config: NameServerConfig) -> None:
        """Follow another configuration from now on."""
        self._config = config
        self._applied += 1
        self.route_cache.clear()
        self._last_registrations.clear()

    # Brokers

    def previous_registration(self, request: Registration) -> PreviousRegistration | None:
        """Return what the registrant said last of its topics, if it is the same broker still and all of it holds.

        To apply the same again would change nothing, and to apply a difference is to apply the whole.
        """
        reported = self._last_registrations.get(request.broker_name, {}).get(request.key)
        if (
            reported is None
            or reported.identity != request.identity
            or self._config.delete_topic_with_broker_registration
        ):
            return None
        # What an operator set for a topic ends with a change that carries it, so all that it carries must be known.
        if self.tables.permission_overrides.of(request.broker_name):
            return None
        return PreviousRegistration(reported.topics, self.tables.topics.topics_of(request.broker_name))

    def register_unchanged(self, request: Registration, now_ms: int) -> RouteOutcome[MasterAddresses]:
        """Take a registration that repeats what `previous_registration` returned; its topics need not be there."""
        reported = self._last_registrations[request.broker_name][request.key]
        row = self.tables.live.get(request.key)
        broker_set = self.tables.brokers.get(request.broker_name)
        assert row is not None, "what was said is forgotten with the broker"
        assert broker_set is not None, "as above"
        if request.is_late:
            return self.ignore_stale(request)
        again = broker_connections.registered(row, request.connection_id, now_ms)
        self.tables.live.put(request.key, again)
        event = registration.unchanged_registration(request, reported.topics.topics, row.data_version)
        beat = _heartbeat_event(request.key, again, row, HeartbeatKind.REGISTER)
        return RouteOutcome(reply=self._master_of(request), events=(event, beat), effects=_probes(row, again))

    def ignore_stale(self, request: Registration) -> RouteOutcome[MasterAddresses]:
        """Change nothing for a registration whose connection is gone: what the broker says over another counts."""
        stale = StaleRegistration(
            cluster=request.cluster,
            broker_name=request.broker_name,
            broker_id=request.broker_id,
            address=request.address,
        )
        return RouteOutcome(reply=self._master_of(request), events=(stale,))

    def register_broker(self, request: Registration, now_ms: int) -> RouteOutcome[MasterAddresses] | None:
        """Take a registration; as `registration_steps`, at once."""
        return run_to_completion(self.registration_steps(request, lambda: now_ms, lambda: request.is_late))

    def registration_steps(
        self, request: Registration, now_ms: Callable[[], int], is_late: Callable[[], bool]
    ) -> CooperativeTask[RouteOutcome[MasterAddresses] | None]:
        """Take a registration; the reply tells a slave where its master is.

        Rests while its topics are compared, and compares them anew if something was applied meanwhile. All else is
        decided at the end, in the step that applies it, when `now_ms` and `is_late` are asked. None: the topics are the
        difference to something that holds no longer, and the whole is needed. Raises SingleTopicFromUnknownBroker,
        TooManyMembers or TooManyBrokers. In all these cases nothing has changed.
        """
        self._check_limits(request)
        for _ in range(_TRIES):
            compared_at = self._applied
            compared = yield from self._compare(request)
            if self._applied == compared_at:
                break
        else:
            # Others change too much meanwhile to rest between comparing and applying.
            compared = run_to_completion(self._compare(request))
        if request.base is not None and self.previous_registration(request) != request.base:
            return None
        if is_late():
            return self.ignore_stale(request)
        return self._register(request, compared, now_ms())

    def _check_limits(self, request: Registration) -> None:
        broker_limits.check_limits(
            self.tables.live,
            request.key,
            request.connection_id,
            of_a_connection_max=self._config.brokers_per_connection_max,
            brokers_max=self._config.brokers_max,
        )

    def _register(self, request: Registration, compared: _Compared, now_ms: int) -> RouteOutcome[MasterAddresses]:
        # Others may have registered while it rested.
        self._check_limits(request)
        known = self.tables.live.get(request.key)
        decision = self._decide(request, compared, now_ms)
        if isinstance(decision, RegistrationConflicted):
            # What it was in the set under another broker id, it is no longer.
            left = self._depart([request.key] if known else [], DepartureReason.CONFLICT, now_ms)
            return RouteOutcome(reply=MasterAddresses(), events=(decision, *left.events), effects=left.effects)
        self._apply(decision.change, compared.prepared)
        if request.reported is not None:
            self._last_registrations.setdefault(request.broker_name, {})[request.key] = _LastRegistration(
                request.identity, request.reported
            )
        elif reported := self._last_registrations.get(request.broker_name):
            # The row is another one now: who repeats what it said before has to be read.
            reported.pop(request.key, None)
        events: list[Event] = [decision.event]
        if decision.superseded:
            events.append(decision.superseded)
        effects: list[Effect] = []
        if decision.notify and self._config.notify_min_broker_id_changed:
            effects.append(decision.notify)
        assert decision.change.registrant, "who registers was heard"
        effects += _probes(known, decision.change.registrant[1])
        events.append(_heartbeat_event(request.key, decision.change.registrant[1], known, HeartbeatKind.REGISTER))
        return RouteOutcome(reply=self._master_of(request), events=tuple(events), effects=tuple(effects))

    def _compare(self, request: Registration) -> CooperativeTask[_Compared]:
        """Compare the topics of a registration, and work out what it takes to store what differs."""
        queues = yield from registration.compare_queues(self.tables, request)
        mappings = yield from registration.compare_mappings(self.tables, request)
        compared = _Compared(queues, mappings, None)
        decision = self._decide(request, compared, now_ms=0)
        if isinstance(decision, RegistrationConflicted):
            return compared
        return compared._replace(prepared=(yield from self._prepare(decision.change)))

    def _decide(
        self, request: Registration, compared: _Compared, now_ms: int
    ) -> registration.RegistrationDecision | RegistrationConflicted:
        return registration.decide(
            self.tables,
            request,
            compared.queues,
            compared.mappings,
            delete_missing_topics=self._config.delete_topic_with_broker_registration,
            now_ms=now_ms,
        )

    def unregister_broker(self, cluster: str, key: LiveKey, connection_id: int, now_ms: int) -> RouteOutcome[None]:
        """Remove a broker at its own request; as `unregistration_steps`, at once."""
        return run_to_completion(self.unregistration_steps(cluster, key, connection_id, now_ms))

    def unregistration_steps(
        self, cluster: str, key: LiveKey, connection_id: int, now_ms: int
    ) -> CooperativeTask[RouteOutcome[None]]:
        """Remove a broker at its own request; rests while that is prepared.

        Left aside if the broker has registered over a younger connection since: then the request is a late one of a
        process that has been replaced.
        """
        row = self.tables.live.get(key)
        if row is None:
            return RouteOutcome(reply=None)
        if max(row.connections) > connection_id:
            stale = StaleUnregistration(cluster=cluster, broker_name=key.broker_name, address=key.address)
            return RouteOutcome(reply=None, events=(stale,))

        def leaving(_: str) -> list[LiveKey]:
            row = self.tables.live.get(key)
            return [key] if row is not None and max(row.connections) <= connection_id else []

        return (yield from self._departure_steps([key.broker_name], leaving, DepartureReason.REQUEST, now_ms))

    def connection_lost(self, connection_id: int, now_ms: int) -> RouteOutcome[None]:
        """Remove every broker that registers over no other connection; as `connection_loss_steps`, at once."""
        return run_to_completion(self.connection_loss_steps(connection_id, now_ms))

    def connection_loss_steps(self, connection_id: int, now_ms: int) -> CooperativeTask[RouteOutcome[None]]:
        """Remove every broker that has no other connection over which it registers; rests while that is prepared."""
        live = self.tables.live
        #: Broker name -> those that have registered over it; nobody comes to it any more.
        members: dict[str, list[LiveKey]] = {}
        for key in live.of_connection(connection_id):
            members.setdefault(key.broker_name, []).append(key)
        probes: list[Effect] = []

        def leaving(broker_name: str) -> list[LiveKey]:
            alone = []
            for key in members[broker_name]:
                row = live.get(key)
                if row is None or connection_id not in row.connections:
                    continue
                if stays := broker_connections.without(row, connection_id, now_ms):
                    live.put(key, stays)
                    probes.extend(_probes(row, stays))
                else:
                    alone.append(key)
            return alone

        outcome = yield from self._departure_steps(members, leaving, DepartureReason.CHANNEL_CLOSED, now_ms)
        return msgspec.structs.replace(outcome, effects=(*outcome.effects, *probes))

    def scan(self, now_ms: int) -> RouteOutcome[None]:
        """Remove the brokers that were silent for longer than their timeout; as `expiry_steps`, at once."""
        return run_to_completion(self.expiry_steps(now_ms))

    def expiry_steps(self, now_ms: int) -> CooperativeTask[RouteOutcome[None]]:
        """Remove the brokers that were silent for longer than their timeout; rests while that is prepared."""
        live = self.tables.live
        silent: dict[str, list[LiveKey]] = {}
        connections: set[int] = set()
        for key in live.expired(now_ms):
            silent.setdefault(key.broker_name, []).append(key)
            row = live.get(key)
            assert row is not None, "who expires was there"
            connections.update(row.connections)
        outcome = yield from self._departure_steps(
            silent,
            lambda name: [key for key in silent[name] if live.is_expired(key, now_ms)],
            DepartureReason.TIMEOUT,
            now_ms,
        )
        # A connection that other, living brokers share stays open.
        closing = (CloseConnection(number) for number in sorted(connections) if not live.of_connection(number))
        return RouteOutcome(reply=None, events=outcome.events, effects=(*outcome.effects, *closing))

    def heartbeat(self, cluster: str, key: LiveKey, kind: HeartbeatKind, now_ms: int) -> RouteOutcome[LiveRow | None]:
        """Note a sign of life; the reply is the broker's row, None if it is not registered in that cluster."""
        row = self.tables.live.get(key)
        if row is None or row.cluster != cluster:
            return RouteOutcome(reply=None)
        self.tables.live.refresh(key, now_ms)
        heard = self.tables.live.get(key)
        assert heard is not None, "it was there a line ago"
        return RouteOutcome(reply=heard, events=(_heartbeat_event(key, heard, row, kind),))

    def query_data_version(
        self, cluster: str, key: LiveKey, data_version: DataVersion | None, connection_id: int, now_ms: int
    ) -> RouteOutcome[StoredVersion]:
        """Tell whether a broker's topics differ from what it registered; counts as a sign of life.

        Brokers ask it instead of registering the same again, so their connection counts as if they had registered.
        """
        outcome = self.heartbeat(cluster, key, HeartbeatKind.DATA_VERSION, now_ms)
        row = outcome.reply
        if row is not None and connection_id in row.connections:
            self.tables.live.put(key, broker_connections.registered(row, connection_id, now_ms))
        stored = row.data_version if row else None
        return RouteOutcome(
            reply=StoredVersion(stored, changed=stored is None or stored != data_version), events=outcome.events
        )

    # Topics

    def wipe_write_perm(self, broker_name: str) -> RouteOutcome[int]:
        """Take the write permission of every topic of a set; the reply is how many topics it has."""
        return self._set_perm(broker_name, RequestCode.WIPE_WRITE_PERM_OF_BROKER, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm(self, broker_name: str) -> RouteOutcome[int]:
        """Make every topic of a set readable and writable; the reply is how many topics it has."""
        return self._set_perm(broker_name, RequestCode.ADD_WRITE_PERM_OF_BROKER, lambda _: PERM_READ | PERM_WRITE)

    def delete_topic(self, topic: str, cluster: str | None) -> RouteOutcome[None]:
        """Forget a topic, in one cluster or (None or empty) everywhere; a broker that still has it brings it back."""
        holders = list(self.tables.topics.holders_of(topic))
        if cluster:
            mine = set(self.tables.brokers.names_in(cluster))
            holders = [name for name in holders if name in mine]
        events = [
            self._by_admin(
                RequestCode.DELETE_TOPIC_IN_NAMESRV,
                topic,
                SetChange(broker_set=self._known_set(name), removed_topics=(topic,)),
            )
            for name in holders
        ]
        return RouteOutcome(reply=None, events=tuple(events))

    def register_topic(self, topic: str, queue_datas: Iterable[QueueData]) -> RouteOutcome[None]:
        """Add a topic to broker sets that are known.

        As in Java, a new topic is taken only if all the sets are known, an existing one up to the first unknown.
        """
        offered = list(queue_datas)
        known = [self.tables.brokers.get(queue_data.broker_name) is not None for queue_data in offered]
        taken = offered[: known.index(False)] if False in known else offered
        if topic not in self.tables.topics and len(taken) < len(offered):
            taken = []
        events = [
            self._by_admin(
                RequestCode.REGISTER_TOPIC_IN_NAMESRV,
                topic,
                SetChange(
                    broker_set=self._known_set(data.broker_name),
                    queue_changes=self._changes(data.broker_name, {topic: data}),
                    lifted_overrides=(topic,),
                ),
            )
            for data in taken
        ]
        return RouteOutcome(reply=None, events=tuple(events))

    # Questions

    def route_of(self, topic: str, order_topic_conf: str | None) -> TopicRouteData | None:
        """Return the route of a topic, None if no broker has it."""
        return routes.route_of(
            self.tables,
            topic,
            support_acting_master=self._config.support_acting_master,
            order_topic_conf=order_topic_conf,
        )

    def take_changes(self) -> list[AppliedChange]:
        """Return what was applied since this was asked last, but for mere signs of life; none if none are kept."""
        changes, self._unread_changes = self._unread_changes, []
        return changes

    # Applying

    def _prepare(self, change: SetChange) -> CooperativeTask[_Prepared]:
        """Work out what it takes to store a change of topics; of no use once another was applied."""
        name, topics = change.broker_set.broker_name, self.tables.topics
        queues = yield from topics.prepare_put(name, change.queue_changes)
        removal = yield from topics.prepare_removal(name, change.removed_topics)
        # Nearly every change keeps to the topics that the set has, and who else has them does not matter.
        moves = queues.added or removal.holders.remaining
        others = self.tables.brokers.counted_in(change.broker_set.cluster) - {name} if moves else set()
        new: Counter[TopicKind] = Counter()
        for joined in in_batches(queues.added.items()):
            new += kinds_of([topic for topic, holders in joined if others.isdisjoint(holders)])
            yield
        gone: Counter[TopicKind] = Counter()
        for unheld in in_batches(removal.holders.unheld):
            gone += kinds_of(unheld)
            yield
        for left in in_batches(removal.holders.remaining.items()):
            gone += kinds_of([topic for topic, holders in left if others.isdisjoint(holders)])
            yield
        mappings = yield from self.tables.mappings.prepare_put(name, change.mappings)
        unmapped = yield from self.tables.mappings.prepare_removal(name, self._unmapped_topics(change))
        return _Prepared(queues, new, removal, gone, mappings, unmapped)

    def _unmapped_topics(self, change: SetChange) -> Iterable[str]:
        """Return the topics whose mappings go: with the last member those of topics that nobody registered, too."""
        if not change.broker_set.members:
            return list(self.tables.mappings.of_broker(change.broker_set.broker_name))
        return change.removed_topics

    def _apply(self, change: SetChange, prepared: _Prepared | None = None) -> None:
        """Carry one decided change into the tables; the only code that does.

        `prepared` is what `_prepare` has worked out for it, if that was done before.
        """
        tables, name = self.tables, change.broker_set.broker_name
        self._applied += 1
        before = tables.brokers.get(name)
        filters_move = self._filter_servers_move(change)
        if self.records_changes and (filters_move or not change.is_heartbeat_only(before)):
            self._unread_changes.append(applied_change(tables, change))
        if not change.is_heartbeat_only(before):
            self._last_registrations.pop(name, None)
        if before != change.broker_set or filters_move:
            self.route_cache.drop(tables.topics.topics_of(name).keys())
        self._apply_topics(change, before, prepared or run_to_completion(self._prepare(change)))
        tables.brokers.put(change.broker_set)
        if before != change.broker_set:
            self.cluster_info.put(change.broker_set)
        for key in change.removed_members:
            tables.live.remove(key)
        if change.registrant:
            tables.live.put(*change.registrant)

    def _filter_servers_move(self, change: SetChange) -> bool:
        """Tell whether the member that was heard has other filter servers than before."""
        if change.registrant is None:
            return False
        key, row = change.registrant
        stored = self.tables.live.get(key)
        return row.filter_servers != (stored.filter_servers if stored else ())

    def _apply_topics(self, change: SetChange, before: RegisteredSet | None, prepared: _Prepared) -> None:
        tables, name, cluster = self.tables, change.broker_set.broker_name, change.broker_set.cluster
        if before and before.cluster != cluster:
            topics = tables.topics.topics_of(name)
            self.topic_counts.remove(before.cluster, self._only_of(name, topics, before.cluster))
            self.topic_counts.add(cluster, self._only_of(name, topics, cluster))
        tables.permission_overrides.remove(name, (*change.lifted_overrides, *change.removed_topics))
        tables.permission_overrides.put(name, change.permission_overrides)
        tables.topics.store(prepared.queues)
        self.topic_counts.add(cluster, prepared.new)
        tables.topics.discard(prepared.removal)
        self.topic_counts.remove(cluster, prepared.gone)
        tables.mappings.store(prepared.mappings)
        tables.mappings.discard(prepared.unmapped)
        self.route_cache.drop(change.queue_changes.queues.keys())
        self.route_cache.drop(change.removed_topics)
        self.route_cache.drop(change.mappings.keys())
        self.route_cache.drop(prepared.unmapped.holders.topics)

    def _only_of(self, broker_name: str, topics: Collection[str], cluster: str) -> Counter[TopicKind]:
        """Count those of a set's topics that no other set of the cluster has."""
        others = self.tables.brokers.counted_in(cluster) - {broker_name}
        holders_of = self.tables.topics.holders_of
        return kinds_of([topic for topic in topics if others.isdisjoint(holders_of(topic))])

    def _departure_steps(
        self,
        broker_names: Iterable[str],
        leaving: Callable[[str], list[LiveKey]],
        reason: DepartureReason,
        now_ms: int,
    ) -> CooperativeTask[RouteOutcome[None]]:
        """Remove the members that `leaving` names, one set after another; who comes back meanwhile stays."""
        departures: list[departure.DepartureDecision] = []
        for name in broker_names:
            tries = 0
            while keys := leaving(name):
                (decision,) = departure.decide(self.tables, keys, reason, now_ms)
                decided_at = self._applied
                tries += 1
                if tries > _TRIES:
                    prepared = run_to_completion(self._prepare(decision.change))
                else:
                    prepared = yield from self._prepare(decision.change)
                if self._applied == decided_at and leaving(name) == keys:
                    self._apply(decision.change, prepared)
                    departures.append(decision)
        return self._departed(departures)

    def _depart(self, keys: list[LiveKey], reason: DepartureReason, now_ms: int) -> RouteOutcome[None]:
        departures: list[departure.DepartureDecision] = []
        for decision in departure.decide(self.tables, keys, reason, now_ms):
            self._apply(decision.change)
            departures.append(decision)
        return self._departed(departures)

    def _departed(self, departures: list[departure.DepartureDecision]) -> RouteOutcome[None]:
        """Return what has come of departures that were applied."""
        notify = self._config.notify_min_broker_id_changed
        return RouteOutcome(
            reply=None,
            events=tuple(event for decision in departures for event in decision.removed),
            effects=tuple(decision.notify for decision in departures if decision.notify and notify),
        )

    def _by_admin(self, code: RequestCode, target: str, change: SetChange) -> TopicsChangedByAdmin:
        """Apply a change of topics that no registration asked for, and return what happened."""
        name = change.broker_set.broker_name
        changes = counted(change.queue_changes, change.removed_topics)
        self._apply(change)
        return TopicsChangedByAdmin(
            request=code.name, target=target, broker_name=name, cluster=change.broker_set.cluster, changes=changes
        )

    def _known_set(self, broker_name: str) -> RegisteredSet:
        broker_set = self.tables.brokers.get(broker_name)
        assert broker_set is not None, "topics belong to sets that exist"
        return broker_set

    def _changes(self, broker_name: str, queues: Mapping[str, QueueData]) -> QueueChanges:
        return run_to_completion(compare_topics(self.tables.topics.topics_of(broker_name), queues.items()))

    def _set_perm(self, broker_name: str, code: RequestCode, perm_of: Callable[[int], int]) -> RouteOutcome[int]:
        has = self.tables.topics.topics_of(broker_name)
        broker_set = self.tables.brokers.get(broker_name)
        if not has or broker_set is None:
            return RouteOutcome(reply=0)
        queues = dict(with_perms(has.items(), lambda _, data: perm_of(data.perm)))
        perms = {topic: data.perm for topic, data in queues.items()}
        changes = self._changes(broker_name, queues)
        event = self._by_admin(
            code, broker_name, SetChange(broker_set=broker_set, queue_changes=changes, permission_overrides=perms)
        )
        return RouteOutcome(reply=len(queues), events=(event,))

    def _master_of(self, request: Registration) -> MasterAddresses:
        """Return where the registrant's master is, if it is another broker that lives in the same cluster."""
        broker_set = self.tables.brokers.get(request.broker_name)
        address = broker_set.master_address if broker_set else None
        if request.broker_id == MASTER_ID or address is None:
            return MasterAddresses()
        row = self.tables.live.get(LiveKey(request.broker_name, address))
        if row is None or row.cluster != request.cluster:
            return MasterAddresses()
        return MasterAddresses(master_addr=address, ha_server_addr=row.ha_server_addr)


def _probes(before: LiveRow | None, after: LiveRow) -> tuple[Effect, ...]:
    return tuple(ProbeConnection(number) for number in broker_connections.connections_to_probe(before, after))


def _heartbeat_event(key: LiveKey, row: LiveRow, before: LiveRow | None, kind: HeartbeatKind) -> BrokerHeartbeat:
    return BrokerHeartbeat(
        cluster=row.cluster,
        broker_name=key.broker_name,
        broker_id=row.broker_id,
        kind=kind,
        address=key.address,
        interval_ms=row.last_heartbeat_ms - before.last_heartbeat_ms if before else None,
        heartbeat_timeout_ms=row.timeout_ms,
        data_version=row.data_version,
    )
