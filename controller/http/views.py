"""What a controller answers over HTTP: the views of all paths, and here those of sets and elections."""

from collections.abc import Awaitable, Callable, Iterator
from collections.abc import Set as AbstractSet
from itertools import islice

from controller.callbacks.service import RoleCallbacks
from controller.config import CONTROLLER, ControllerConfig
from controller.failover.election_log import ElectionLog, ElectionRecord
from controller.failover.requests import BrokerRequests
from controller.failover.stored_elections import StoredElections
from controller.failure_detection.heartbeats import UNKNOWN, BrokerKey
from controller.failure_detection.suspicion import hide_probes
from controller.http.analysis_views import AnalysisViews
from controller.http.cluster_watch import ChangedLists, ControllerStream
from controller.http.master_views import MasterViews
from controller.http.scaling_views import AutoscalerViews, ScalingViews, check_leads
from controller.http.switchover_views import PREFIX, CallbackViews, SwitchoverViews
from controller.roles.broker_roles import BrokerRoles, SetRoles
from controller.scaling.watching.service import Autoscaler
from controller.sets.broker_set import BrokerSet, health_of
from controller.switchover.rolling_restarts import RollingRestarts
from controller.switchover.service import Switchovers
from remoting.clock import Clock
from serving.config.stored_config import StoredConfig
from serving.http.history_views import HistoryReader, PastLifeViews
from serving.http.pages import ListPage, with_prefix
from serving.http.paths import EVENT_STREAM_TYPE, LIMIT, Parameter, get
from serving.http.server_views import ConfigViews, ProbeViews, check_serving
from serving.http.views import NotFound, Unavailable, ViewRequest, requested_page, view_of
from serving.metrics.health import Health, Serving
from serving.shapes import controller as shapes


def views_of(
    health: Health,
    metrics: Callable[[], Awaitable[bytes]],
    settings: StoredConfig[ControllerConfig],
    clock: Clock,
    control: BrokerRequests,
    roles: BrokerRoles,
    elections: StoredElections,
    autoscaler: Autoscaler,
    switchovers: Switchovers,
    restarts: RollingRestarts,
    callbacks: RoleCallbacks | None,
) -> tuple[object, ...]:
    """Return what answers all paths, in the order in which they are described.

    `callbacks` is None if nothing is called.
    """
    scaling = autoscaler.scaling

    def config() -> ControllerConfig:
        return settings.config

    def check_ready() -> None:
        check_serving(CONTROLLER.name, health)
        # Brokers can be sent on from here.
        if control.group.known_leader is None:
            raise Unavailable("No controller leads at present.")

    return (
        ProbeViews(check_ready, metrics),
        SetViews(control, roles, elections, autoscaler, settings, clock, lambda: health.serving is Serving.DRAINING),
        MasterViews(control.store, control.group, control.elections),
        SwitchoverViews(switchovers, restarts),
        ElectionViews(control.elections, elections),
        CallbackViews(callbacks, settings, clock, lambda: check_leads(scaling)),
        ScalingViews(scaling, settings),
        AutoscalerViews(autoscaler),
        PastLifeViews(HistoryReader(), config),
        AnalysisViews(settings.config.analytics_dir),
        ConfigViews(CONTROLLER, config),
    )


class SetViews:
    """The group, its broker sets, and the roles of their brokers."""

    def __init__(
        self,
        control: BrokerRequests,
        roles: BrokerRoles,
        elections: StoredElections,
        autoscaler: Autoscaler,
        settings: StoredConfig[ControllerConfig],
        clock: Clock,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._control, self._roles, self._elections = control, roles, elections
        self._autoscaler, self._settings, self._clock = autoscaler, settings, clock
        self._watch = ChangedLists(self._watched, is_stopping)

    @get("/v1/controllers", refusals=(400,))
    def controllers(self) -> shapes.ControllerListing:
        """The controllers, and which of them leads."""
        group = self._control.group
        leader = group.known_leader
        pause_ms = self._control.detector.pause_ends_ms - self._clock.now_ms()
        return shapes.ControllerListing(
            group=group.name,
            role=group.role.name.lower(),
            leader_id=leader.id if leader else None,
            leader_address=leader.address if leader else None,
            leader_changes=group.leader_changes,
            store=self._settings.config.controller_store,
            pause_ms=max(0, pause_ms),
            members=[
                shapes.MemberView(
                    id=each.id, address=each.address, is_leader=each == leader, is_self=each.id == group.me.id
                )
                for each in group.members
            ],
        )

    @get(
        "/v1/cluster/watch",
        content_type=EVENT_STREAM_TYPE,
        parameters=(Parameter("after", "Id of the last event read; same as Last-Event-ID."),),
        refusals=(400, 503),
        streams=True,
    )
    def watch_cluster(self, request: ViewRequest) -> ControllerStream:
        """Server-sent events: names of changed lists (leader, brokerSets, elections, scaling), to be read again."""
        return self._watch.watch(request.last_event_id or request.query.get("after", ""), request.client)

    def _watched(self) -> dict[str, object]:
        """Return a value for each list that is watched, which is another one whenever the list is."""
        control, autoscaler = self._control, self._autoscaler
        group, leader = control.group, control.group.known_leader
        proposals = [each.id for each in autoscaler.proposals()]
        return {
            "leader": (group.role, leader and leader.id, group.members),
            "brokerSets": (control.store.changes.revision, control.live.brokers, frozenset(control.detector.suspects)),
            "elections": control.elections.changes,
            "scaling": (autoscaler.scaling.documents.changes, proposals),
        }

    @get("/v1/broker-sets", parameters=(PREFIX,), paged=True, refusals=(400,))
    async def broker_sets(self, request: ViewRequest) -> shapes.BrokerSetListing:
        """Broker sets with their masters and SyncStateSets."""
        await self._elections.refresh()
        page, found = self._page_of_sets(request)
        suspects = self._control.detector.suspects
        return shapes.BrokerSetListing(
            broker_sets=[self._broker_set(each, suspects) for each in found],
            total=page.total,
            next_cursor=page.next_cursor,
        )

    def _page_of_sets(self, request: ViewRequest) -> tuple[ListPage[str], list[BrokerSet]]:
        names = with_prefix(sorted(each.broker_name for each in self._control.store.sets()), request.prefix)
        page = requested_page(names, request, str)
        found = (self._control.store.get(name) for name in page.keys)
        return page, [each for each in found if each is not None]

    @get("/v1/broker-sets/{name}", parts=(Parameter("name", "The brokerName."),), refusals=(400, 404))
    async def broker_set(self, request: ViewRequest) -> shapes.StoredSetView:
        """One broker set."""
        await self._elections.refresh()
        name = request.path["name"]
        broker_set = self._control.store.get(name)
        if broker_set is None:
            raise NotFound(f"There is no broker set {name}.")
        return self._broker_set(broker_set, self._control.detector.suspects)

    @get("/v1/roles", parameters=(PREFIX,), paged=True, refusals=(400,))
    def roles(self, request: ViewRequest) -> shapes.RoleListing:
        """The roles of brokers, as the role check port reports them."""
        page, found = self._page_of_sets(request)
        to_unix_ms = self._clock.unix_ms() - self._clock.now_ms()
        return shapes.RoleListing(
            is_leader=self._control.group.is_leader,
            broker_sets=[_set_roles(self._roles.of_set(each), to_unix_ms) for each in found],
            total=page.total,
            next_cursor=page.next_cursor,
        )

    def _broker_set(self, broker_set: BrokerSet, suspects: AbstractSet[BrokerKey]) -> shapes.StoredSetView:
        name = broker_set.broker_name
        replicas = list(self._replicas(broker_set, suspects))
        last = self._control.elections.of_set(name)
        return view_of(
            shapes.StoredSetView,
            broker_set,
            state=health_of(broker_set, {each.broker_id for each in replicas if each.alive}),
            master_broker_id=broker_set.master,
            sync_state_set=sorted(broker_set.sync_state_set),
            replicas=replicas,
            last_election=last.number if last else None,
            last_election_reason=last.reason if last else None,
        )

    def _replicas(self, broker_set: BrokerSet, suspects: AbstractSet[BrokerKey]) -> Iterator[shapes.ReplicaView]:
        name, now_ms = broker_set.broker_name, self._clock.now_ms()
        to_unix_ms = self._clock.unix_ms() - now_ms
        alive = self._control.live.alive(name, now_ms)
        heartbeats = self._control.live.of_set(name)
        for broker_id, replica in sorted(broker_set.replicas.items()):
            last = heartbeats.get(broker_id) or self._control.detector.last_of_failed(BrokerKey(name, broker_id))
            if last is not None and not last.made_contact:
                last = None
            reported = last if last is not None and last.max_offset != UNKNOWN else None
            yield shapes.ReplicaView(
                broker_id=broker_id,
                address=replica.address,
                is_master=broker_id == broker_set.master,
                in_sync=broker_id in broker_set.sync_state_set,
                alive=broker_id in alive,
                suspect=BrokerKey(name, broker_id) in suspects,
                last_contact_unix_ms=last.last_contact_ms + to_unix_ms if last else None,
                epoch=reported.epoch if reported else None,
                max_offset=reported.max_offset if reported else None,
                confirm_offset=reported.confirm_offset if reported else None,
                election_priority=last.priority if last else None,
            )


class ElectionViews:
    """The last elections."""

    def __init__(self, log: ElectionLog, stored: StoredElections) -> None:
        self._log, self._stored = log, stored

    @get("/v1/elections", parameters=(PREFIX, LIMIT), refusals=(400,), has_details=True)
    async def elections(self, request: ViewRequest) -> shapes.ElectionListing:
        """The last elections of all controllers with their reasons, the newest first."""
        await self._stored.refresh()
        records = (each for each in reversed(self._log) if each.broker_name.startswith(request.prefix))
        found = [_election(each, request) for each in islice(records, request.page.limit)]
        return shapes.ElectionListing(elections=found)


def _set_roles(roles: SetRoles, to_unix_ms: int) -> shapes.SetRolesView:
    broker_set, held_until_ms = roles.broker_set, roles.held_until_ms
    return view_of(
        shapes.SetRolesView,
        broker_set,
        master_broker_id=broker_set.master,
        confirmed=roles.is_confirmed,
        held_until_unix_ms=held_until_ms + to_unix_ms if held_until_ms is not None else None,
        roles=[
            shapes.RoleView(
                broker_id=broker_id,
                address=broker_set.replicas[broker_id].address,
                verdict=answer.verdict.value,
                doubt=answer.doubt,
            )
            for broker_id, answer in sorted(roles.answers.items())
        ],
    )


def _election(record: ElectionRecord, request: ViewRequest) -> shapes.ElectionView:
    phases = record.phases
    return view_of(
        shapes.ElectionView,
        record,
        trigger=record.cause.trigger,
        cause=record.cause.why if request.sees_details else hide_probes(record.cause.why),
        result=record.reported_result,
        candidates=[view_of(shapes.CandidateView, each, election_priority=each.priority) for each in record.reports],
        unclean=record.is_unclean,
        # A port that refuses is judged at once.
        phases=view_of(shapes.PhasesView, phases, judge_ms=phases.judge_ms if request.sees_details else None),
        notified=[
            shapes.NotifiedView(broker_id=broker_id, result=each.result, after_ms=each.after_ms, tries=each.tries)
            for broker_id, each in sorted(record.notified.items())
        ],
    )
