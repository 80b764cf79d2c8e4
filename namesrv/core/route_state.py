"""RouteState: owns the tables of a NameServer and is the only place that changes them.

One method per event; each decides by asking a rule, applies its answer, and returns a `RouteOutcome`. A change is
applied in one step, so nobody sees half of it and no lock is needed. Long work prepares its change in steps,
yields in between, and begins again if another change was applied meanwhile. Answers to `RouteInfoManager`.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from namesrv.core import departure, routes
from namesrv.core.changes import (
    ChangeApplier,
    ComparedRegistration,
    LastRegistration,
    PreparedChange,
    compare,
    permission_change,
    prepare,
    topic_additions,
    topic_removals,
)
from namesrv.core.fitting import ROUTE_BYTES_PER_SET, ROUTE_HOST_BYTES_MIN
from namesrv.core.registration import registration
from namesrv.core.registration.accepted_topics import PreviousRegistration
from namesrv.core.registration.registration import MasterAddresses, Registration
from namesrv.core.route_fetches import RouteFetches
from namesrv.core.tables.away_sets import AwaySets
from namesrv.core.tables.change import RouteTables, SetChange, counted
from namesrv.core.tables.live_table import LiveKey, LiveRow, heartbeat_event, probes_of, registered, without
from namesrv.core.tables.topic_table import size_bytes
from namesrv.core.values.cooperative import CooperativeTask, run_to_completion
from namesrv.core.values.effects import (
    CloseConnection,
    DepartureReason,
    Effect,
    Event,
    HeartbeatKind,
    RegistrationConflicted,
    RouteOutcome,
    StaleRegistration,
    StaleUnregistration,
    TopicsChangedByAdmin,
)
from namesrv.refusals import TooManyBrokers, TooManyTopics
from namesrv.settings.config import NameServerConfig
from remoting.protocol.codes import RequestCode
from remoting.protocol.shapes.route import MASTER_ID, PERM_READ, PERM_WRITE, DataVersion, QueueData, TopicRouteData

#: How often a change is prepared in steps before it is made in one.
_TRIES: Final = 3
#: A connection, such as that of a BrokerContainer, has so many brokers whatever others have, within its own limit.
GUARANTEED_PER_CONNECTION: Final = 8


class RouteState(ChangeApplier):
    """The routes of a cluster as one NameServer sees them. `now_ms` is monotonic everywhere."""

    def __init__(self, config: NameServerConfig, tables: RouteTables | None = None) -> None:
        self._config = config
        #: Without a start, as in tests, 0: no limit.
        self._topic_bytes_max = config.topic_bytes_max or sys.maxsize
        super().__init__(tables or RouteTables())
        #: Who fetched the routes of the topics that are watched.
        self.route_fetches = RouteFetches()
        #: Broker sets that were registered before; told by who records the events.
        self.away_sets = AwaySets()

    def configure(self, config: NameServerConfig) -> None:
        self._config = config
        self.invalidate()

    # Brokers

    def previous_registration(self, request: Registration) -> PreviousRegistration | None:
        """Return the registrant's previous registration, if broker and tables are as they were after it.

        To apply the same again would change nothing, and to apply a difference is to apply the whole.
        """
        reported = self.last_registrations.get(request.broker_name, {}).get(request.key)
        if reported is None or reported.identity != request.identity:
            return None
        if self._config.delete_topic_with_broker_registration:
            return None
        # What an operator set for a topic ends with a change that carries it, so all that it carries must be known.
        if self.tables.permission_overrides.of(request.broker_name):
            return None
        return PreviousRegistration(reported.topics, self.tables.topics.of_broker(request.broker_name))

    def register_unchanged(self, request: Registration, now_ms: int) -> RouteOutcome[MasterAddresses]:
        """Take a registration that repeats what `previous_registration` returned; its topics need not be there."""
        reported = self.last_registrations[request.broker_name][request.key]
        row = self.tables.live.get(request.key)
        broker_set = self.tables.brokers.get(request.broker_name)
        assert row is not None, "a last registration is removed with its broker"
        assert broker_set is not None, "as above"
        if request.is_late:
            return self.ignore_stale(request)
        again = registered(row, request.connection_id, now_ms)
        self.tables.live.put(request.key, again)
        event = registration.unchanged_registration(request, reported.topics.topics, row.data_version)
        heartbeat = heartbeat_event(request.key, again, row, HeartbeatKind.REGISTER)
        master = registration.master_of(self.tables, request)
        return RouteOutcome(reply=master, events=(event, heartbeat), effects=probes_of(row, again))

    def ignore_stale(self, request: Registration) -> RouteOutcome[MasterAddresses]:
        """Change nothing for a registration whose connection is lost: the broker registers over another one."""
        stale = StaleRegistration(
            cluster=request.cluster,
            broker_name=request.broker_name,
            broker_id=request.broker_id,
            address=request.address,
        )
        return RouteOutcome(reply=registration.master_of(self.tables, request), events=(stale,))

    def registration_steps(
        self, request: Registration, now_ms: Callable[[], int], is_late: Callable[[], bool]
    ) -> CooperativeTask[RouteOutcome[MasterAddresses] | None]:
        """Take a registration; the reply has a slave's master address.

        Yields while its topics are compared, and compares them again if another change was applied meanwhile. All else
        is decided in the last step, which applies it and calls `now_ms` and `is_late`. None if the topics are the
        difference to a registration that holds no longer: then all topics are needed. Raises
        RegistrationRefused, TooManyMembers, TooManyBrokers or TooManyTopics. In all these cases nothing has
        changed, except that a known broker with too many topics stays for longer with those that it has.
        """
        self._check_limits(request)
        for _ in range(_TRIES):
            compared_at = self.version
            compared = yield from self._compare(request)
            if self.version == compared_at:
                break
        else:
            # Others change too much meanwhile: compare and apply in one step.
            compared = run_to_completion(self._compare(request))
        if request.base is not None and self.previous_registration(request) != request.base:
            return None
        if is_late():
            return self.ignore_stale(request)
        return self._register(request, compared, now_ms())

    def _compare(self, request: Registration) -> CooperativeTask[ComparedRegistration]:
        return compare(
            self.tables,
            request,
            delete_missing_topics=self._config.delete_topic_with_broker_registration,
            topic_sets_max=self._config.topic_sets_per_host_max,
        )

    def _check_limits(self, request: Registration) -> None:
        """Raise TooManyBrokers if a broker is new on a connection and there are too many; Java has no limit.

        Over a connection of its own a broker may always register again. Over another one it counts as new, or brokers
        that are handed on from one connection to the next would make room for more without end. Each connection may
        have a few brokers though others have reached brokersMax: it is not first come, first served.
        """
        live, config = self.tables.live, self._config
        row = live.get(request.key)
        if row is not None and request.connection_id in row.connections:
            return
        count = live.count_of_connection(request.connection_id)
        if count >= config.brokers_per_connection_max:
            raise TooManyBrokers(f"this connection has {count} brokers, which is the limit (brokersPerConnectionMax)")
        if count >= GUARANTEED_PER_CONNECTION and len(live) >= config.brokers_max:
            raise TooManyBrokers(
                f"there are {len(live)} brokers, and the limit is {config.brokers_max} (brokersMax); beyond it a "
                f"connection has {GUARANTEED_PER_CONNECTION} at most"
            )

    def _register(
        self, request: Registration, compared: ComparedRegistration, now_ms: int
    ) -> RouteOutcome[MasterAddresses]:
        # Others may have registered between its steps.
        self._check_limits(request)
        known = self.tables.live.get(request.key)
        decision = registration.decide(
            self.tables,
            request,
            compared.queues,
            compared.mappings,
            delete_missing_topics=self._config.delete_topic_with_broker_registration,
            now_ms=now_ms,
        )
        if isinstance(decision, RegistrationConflicted):
            # What it was in the set under another broker id, it is no longer.
            departures: list[departure.DepartureDecision] = []
            if known:
                departures.append(departure.decide(self.tables, [request.key], DepartureReason.CONFLICT, now_ms))
                self.apply(departures[0].change)
            left = self._departed(departures)
            return RouteOutcome(reply=MasterAddresses(), events=(decision, *left.events), effects=left.effects)
        if compared.prepared is not None:
            self._check_sizes(request, decision.change.broker_set.network, compared.prepared, now_ms)
        self.apply(decision.change, compared.prepared)
        # What was left out may have a place the next time.
        if request.reported is not None and not compared.queues.left_out:
            self.last_registrations.setdefault(request.broker_name, {})[request.key] = LastRegistration(
                request.identity, request.reported
            )
        elif reported := self.last_registrations.get(request.broker_name):
            # The row is another one now, so the next registration has to be decoded.
            reported.pop(request.key, None)
        self._find_lost_topics(request, decision, now_ms)
        events: list[Event] = [decision.event]
        if decision.superseded:
            events.append(decision.superseded)
        effects: list[Effect] = []
        if decision.notify and self._config.notify_min_broker_id_changed:
            effects.append(decision.notify)
        assert decision.change.registrant, "a registration has a registrant"
        effects += probes_of(known, decision.change.registrant[1])
        events.append(heartbeat_event(request.key, decision.change.registrant[1], known, HeartbeatKind.REGISTER))
        master = registration.master_of(self.tables, request)
        return RouteOutcome(reply=master, events=tuple(events), effects=tuple(effects))

    def _check_sizes(self, request: Registration, network: str, prepared: PreparedChange, now_ms: int) -> None:
        """Raise TooManyTopics if more topics of a registration would take too much memory of its host."""
        sizes, name = self.topic_sizes, request.broker_name
        more = prepared.queues.queue_sum.size_bytes + prepared.mappings.queue_sum.size_bytes - sizes.of_set(name)
        if more <= 0:
            return
        of_connection = {key.broker_name for key in self.tables.live.of_connection(request.connection_id)}
        if (excess := sizes.excess(more, network, of_connection, self._topic_bytes_max)) is not None:
            # It is alive: without this it would leave at the end of its timeout.
            if (row := self.tables.live.get(request.key)) is not None:
                self.tables.live.put(request.key, registered(row, request.connection_id, now_ms))
            raise TooManyTopics(name, excess)

    def _find_lost_topics(
        self, request: Registration, decision: registration.RegistrationDecision, now_ms: int
    ) -> None:
        """Compare what a new master has with the routes of its set: a topic that no slave had copied is lost."""
        name, topics = request.broker_name, request.topics
        if request.broker_id == MASTER_ID and decision.event.master_changed:
            self.lost_topics.put(name, self.tables.topics.of_broker(name).keys() - topics.keys(), now_ms)
        elif request.broker_id == MASTER_ID:
            self.lost_topics.remove(name, topics)

    def unregistration_steps(
        self, cluster: str, key: LiveKey, connection_id: int, now_ms: int
    ) -> CooperativeTask[RouteOutcome[None]]:
        """Remove a broker at its own request; a cooperative task.

        Ignored if the broker has registered over a younger connection since: then the request is a late one of a
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

    def connection_loss_steps(self, connection_id: int, now_ms: int) -> CooperativeTask[RouteOutcome[None]]:
        """Remove every broker that has no other connection over which it registers; a cooperative task."""
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
                if stays := without(row, connection_id, now_ms):
                    live.put(key, stays)
                    probes.extend(probes_of(row, stays))
                else:
                    alone.append(key)
            return alone

        outcome = yield from self._departure_steps(members, leaving, DepartureReason.CHANNEL_CLOSED, now_ms)
        return msgspec.structs.replace(outcome, effects=(*outcome.effects, *probes))

    def expiry_steps(self, now_ms: int) -> CooperativeTask[RouteOutcome[None]]:
        """Remove the brokers that were silent for longer than their timeout; a cooperative task."""
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
        """Record a heartbeat; the reply is the broker's row, None if it is not registered in that cluster."""
        row = self.tables.live.get(key)
        if row is None or row.cluster != cluster:
            return RouteOutcome(reply=None)
        self.tables.live.refresh(key, now_ms)
        renewed = self.tables.live.get(key)
        assert renewed is not None, "it was there a line ago"
        return RouteOutcome(reply=renewed, events=(heartbeat_event(key, renewed, row, kind),))

    def query_data_version(
        self, cluster: str, key: LiveKey, connection_id: int, now_ms: int
    ) -> RouteOutcome[DataVersion | None]:
        """Return the data version that a broker registered, None for an unknown one; counts as a heartbeat.

        Brokers query it instead of registering the same again, so their connection counts as if they had registered.
        """
        outcome = self.heartbeat(cluster, key, HeartbeatKind.DATA_VERSION, now_ms)
        row = outcome.reply
        if row is not None and connection_id in row.connections:
            self.tables.live.put(key, registered(row, connection_id, now_ms))
        return RouteOutcome(reply=row.data_version if row else None, events=outcome.events)

    # Topics

    def wipe_write_perm(self, broker_name: str) -> RouteOutcome[int]:
        """Take the write permission of every topic of a set; the reply is how many topics it has."""
        return self._set_perm(broker_name, RequestCode.WIPE_WRITE_PERM_OF_BROKER, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm(self, broker_name: str) -> RouteOutcome[int]:
        """Make every topic of a set readable and writable; the reply is how many topics it has."""
        return self._set_perm(broker_name, RequestCode.ADD_WRITE_PERM_OF_BROKER, lambda _: PERM_READ | PERM_WRITE)

    def delete_topic(self, topic: str, cluster: str | None) -> RouteOutcome[None]:
        """Remove a topic, in one cluster or (None or empty) everywhere; a broker that still has it brings it back."""
        changes = topic_removals(self.tables, topic, cluster)
        return self._command(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic, changes)

    def register_topic(self, topic: str, queue_datas: Iterable[QueueData]) -> RouteOutcome[None]:
        """Add a topic to broker sets that are known; see `topic_additions`. Raises TooManyTopics if none may get it."""
        sizes, sets_max = self.topic_sizes, self._config.topic_sets_per_host_max
        events: list[Event] = []
        refused: TooManyTopics | None = None
        for change in topic_additions(self.tables, topic, queue_datas, sets_max):
            excess, name = None, change.broker_set.broker_name
            if topic not in self.tables.topics.of_broker(name):
                excess = sizes.excess(size_bytes((topic,)), change.broker_set.network, (), self._topic_bytes_max)
                if not change.queue_changes.queues:
                    excess = f"its host has as many sets with {topic} as it may have (topicSetsPerHostMax)"
            if excess is None:
                events.append(self._by_admin(RequestCode.REGISTER_TOPIC_IN_NAMESRV, topic, change))
            else:
                refused = refused or TooManyTopics(name, excess)
        if refused and not events:
            raise refused
        return RouteOutcome(reply=None, events=tuple(events))

    def _set_perm(self, broker_name: str, code: RequestCode, perm_of: Callable[[int], int]) -> RouteOutcome[int]:
        change = permission_change(self.tables, broker_name, perm_of)
        if change is None:
            return RouteOutcome(reply=0)
        events = self._command(code, broker_name, (change,)).events
        return RouteOutcome(reply=len(change.permission_overrides), events=events)

    def _command(self, code: RequestCode, target: str, changes: Iterable[SetChange]) -> RouteOutcome[None]:
        """Apply changes of topics that no registration requested, each before the next is planned."""
        return RouteOutcome(reply=None, events=tuple(self._by_admin(code, target, change) for change in changes))

    def _by_admin(self, code: RequestCode, target: str, change: SetChange) -> TopicsChangedByAdmin:
        """Apply a change of topics that no registration requested, and return what happened."""
        name = change.broker_set.broker_name
        changes = counted(change.queue_changes, change.removed_topics)
        self.apply(change)
        return TopicsChangedByAdmin(
            request=code.name, target=target, broker_name=name, cluster=change.broker_set.cluster, changes=changes
        )

    # Queries

    def route_of(self, topic: str, order_topic_conf: str | None) -> TopicRouteData | None:
        """Return the route of a topic with the brokers' own addresses, None if no broker has it."""
        return routes.route_of(
            self.tables,
            topic,
            support_acting_master=self._config.support_acting_master,
            order_topic_conf=order_topic_conf,
            host_bytes_max=max(ROUTE_HOST_BYTES_MIN, self._config.topic_sets_per_host_max * ROUTE_BYTES_PER_SET),
        )

    # Departures

    def _departure_steps(
        self, broker_names: Iterable[str], leaving: Callable[[str], list[LiveKey]], reason: DepartureReason, now_ms: int
    ) -> CooperativeTask[RouteOutcome[None]]:
        """Remove the members that `leaving` names, one set after another; who comes back meanwhile stays."""
        departures: list[departure.DepartureDecision] = []
        for name in broker_names:
            tries = 0
            while keys := leaving(name):
                decision = departure.decide(self.tables, keys, reason, now_ms)
                decided_at = self.version
                tries += 1
                if tries > _TRIES:
                    prepared = run_to_completion(prepare(self.tables, decision.change))
                else:
                    prepared = yield from prepare(self.tables, decision.change)
                if self.version == decided_at and leaving(name) == keys:
                    self.apply(decision.change, prepared)
                    departures.append(decision)
        return self._departed(departures)

    def _departed(self, departures: list[departure.DepartureDecision]) -> RouteOutcome[None]:
        """Return the outcome of departures that were applied."""
        notify = self._config.notify_min_broker_id_changed
        return RouteOutcome(
            reply=None,
            events=tuple(event for decision in departures for event in decision.removed),
            effects=tuple(decision.notify for decision in departures if decision.notify and notify),
        )
