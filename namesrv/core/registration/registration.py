"""What one registration changes: address conflicts, prime slave, topics, the smallest broker id.

Answers to `RouteInfoManager.registerBroker` (docs/protocol/namesrv.md 3.2). Pure: reads the tables, returns the change.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from namesrv.core.registration.accepted_topics import PreviousRegistration, ReportedTopics
from namesrv.core.tables.broker_table import Member, RegisteredSet
from namesrv.core.tables.change import RouteTables, SetChange, counted, with_perms
from namesrv.core.tables.live_table import PERIOD_MS_DEFAULT, LiveKey, LiveRow, registered, removal_event
from namesrv.core.tables.topic_table import QueueChanges, TopicSettings, compare_topics
from namesrv.core.values.cooperative import CooperativeTask, in_batches
from namesrv.core.values.effects import (
    BrokerRegistered,
    BrokerRemoved,
    DepartureReason,
    NotifyMinBrokerIdChange,
    RegistrationConflicted,
    RegistrationResult,
    RouteChanges,
)
from namesrv.refusals import RegistrationRefused, TooManyMembers
from remoting.protocol.shapes.namesrv import RegisterBrokerResponseHeader
from remoting.protocol.shapes.route import MASTER_ID, PERM_WRITE, DataVersion, QueueData, TopicQueueMappingInfo

#: The heartbeat timeout of a broker that requests none, in ms.
HEARTBEAT_TIMEOUT_MS_DEFAULT: Final = 120_000
#: The longest heartbeat timeout, in ms: with a longer one a broker could stay in the routes for good.
HEARTBEAT_TIMEOUT_MS_MAX: Final = 24 * 3600 * 1000

#: The version of a registration without a body.
NO_VERSION: Final = DataVersion()


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """Which broker registers, where, and with which topics."""

    cluster: str
    broker_name: str
    broker_id: int
    #: `host:port` that the broker advertises; with the name it identifies the process.
    address: str
    ha_server_addr: str = ""
    zone_name: str | None = None
    #: None from a 4.x broker, which does not know the field.
    enable_acting_master: bool | None = None
    heartbeat_timeout_ms: int = HEARTBEAT_TIMEOUT_MS_DEFAULT
    data_version: DataVersion = NO_VERSION
    #: All topics, one part of a split registration, or the changed ones only: they cannot be distinguished. Of topics
    #: that are known to be as before, none need to be here.
    topics: Mapping[str, TopicSettings] = msgspec.field(default_factory=dict)
    mappings: Mapping[str, TopicQueueMappingInfo] = msgspec.field(default_factory=dict)
    #: None keeps what is stored.
    filter_servers: tuple[str, ...] | None = None
    connection_id: int
    #: Whence the registration came, as `network_of`.
    network: str = ""
    #: The connection is gone already.
    is_late: bool = False
    #: Ordinal of the broker's release.
    version: int = 0
    #: Topics that were left out because their names cannot be topics.
    ignored_topics: int = 0
    body_bytes: int = 0
    #: The text in digests, to recognise the same or a similar one.
    reported: ReportedTopics | None = None
    #: What `topics` are the difference to; None if they are all that was reported.
    base: PreviousRegistration | None = None

    @property
    def key(self) -> LiveKey:
        return LiveKey(self.broker_name, self.address)

    @property
    def identity(self) -> tuple[object, ...]:
        """All that a broker reports of itself beside its topics."""
        return (
            self.cluster,
            self.broker_id,
            self.ha_server_addr,
            self.zone_name,
            self.enable_acting_master,
            self.heartbeat_timeout_ms,
            self.version,
        )

    @property
    def reported_topics(self) -> int:
        """How many topics the broker reported, with those that are not in `topics`."""
        return self.reported.topics if self.reported else len(self.topics)


#: Brokers of one set; all of them are in each route of its topics.
MEMBERS_MAX: Final = 100
#: Those of one host: strangers must not take the places of a set's slaves.
MEMBERS_OF_HOST_MAX: Final = 32
#: In a topic with so many times the sets that a host may have, it has such a part of them, and less the more there are:
#: who has a network of IPv6 has many hosts, and a route is made in one step.
_CROWD: Final = 8
_SHARE_IN_CROWD: Final = 16

Value = TypeVar("Value")

#: The living master's addresses, for a slave; both None if there is none, one if another has superseded it.
MasterAddresses = RegisterBrokerResponseHeader


class RegistrationDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What a registration that is taken comes to: the change, and whom to notify of what."""

    change: SetChange
    event: BrokerRegistered
    #: Another process at another address that held the broker id until now.
    superseded: BrokerRemoved | None = None
    notify: NotifyMinBrokerIdChange | None = None


class TopicPlaces:
    """Chooses the topics that a set may get: a host has `sets_max` sets in each, and those that came later stay out.

    A stranger could else register so many sets with a topic that clients do not find the real ones among them.
    """

    def __init__(self, tables: RouteTables, broker_set: RegisteredSet, sets_max: int) -> None:
        self._of_host = tables.brokers.of_network(broker_set.network)
        self._has = tables.topics.of_broker(broker_set.broker_name)
        self._holders_of = tables.topics.holders_of
        self._sets_max = sets_max
        self._crowd = _CROWD * sets_max
        self._has_place = len(self._of_host) < (sets_max if len(tables.brokers) < self._crowd else 1)
        #: By the identity of the holders, which topics share.
        self._is_full: dict[int, bool] = {}
        self.left_out = 0

    def admitted(self, topics: Iterable[tuple[str, Value]]) -> Iterable[tuple[str, Value]]:
        """Return those topics that the set has, or may get; all where the host has not that many sets."""
        return topics if self._has_place else self._with_place(topics)

    def _with_place(self, topics: Iterable[tuple[str, Value]]) -> Iterator[tuple[str, Value]]:
        for topic, value in topics:
            holders = self._holders_of(topic)
            if (is_full := self._is_full.get(id(holders))) is None:
                sets_max = self._sets_max
                if len(holders) >= self._crowd:
                    sets_max = max(1, sets_max * self._crowd**2 // (_SHARE_IN_CROWD * len(holders) ** 2))
                is_full = len(holders) >= sets_max and len(self._of_host.intersection(holders)) >= sets_max
                self._is_full[id(holders)] = is_full
            if is_full and topic not in self._has:
                self.left_out += 1
            else:
                yield topic, value


def compare(
    tables: RouteTables, registration: Registration, topic_sets_max: int
) -> CooperativeTask[tuple[QueueChanges, Mapping[str, TopicQueueMappingInfo]]]:
    """Work out which queues and mappings a registration changes; a cooperative task.

    The result holds as long as no topic, permission or member of the set changes. Raises RegistrationRefused for one
    topic of an unknown broker.
    """
    transition = _transition_of(tables, registration)
    mappings: dict[str, TopicQueueMappingInfo] = {}
    if isinstance(transition, RegistrationConflicted) or not _is_authoritative(registration, transition):
        return QueueChanges(), mappings
    queues = yield from _queue_changes(tables, registration, transition, topic_sets_max)
    before = tables.mappings.of_broker(registration.broker_name)
    for part in in_batches(registration.mappings.items()):
        mappings |= {topic: mapping for topic, mapping in part if before.get(topic) != mapping}
        yield
    return queues, mappings


def decide(
    tables: RouteTables,
    registration: Registration,
    queues: QueueChanges,
    mappings: Mapping[str, TopicQueueMappingInfo],
    *,
    delete_missing_topics: bool,
    now_ms: int,
) -> RegistrationDecision | RegistrationConflicted:
    """Return what `registration` changes beside the `queues` and `mappings` it changes, or by whom it is turned away.

    Raises RegistrationRefused as `compare`. With `delete_missing_topics` (deleteTopicWithBrokerRegistration) topics
    that a changed registration does not carry leave the set.
    """
    transition = _transition_of(tables, registration)
    if isinstance(transition, RegistrationConflicted):
        return transition
    row = transition.row
    removed: tuple[str, ...] = ()
    lifted: tuple[str, ...] = ()
    if _is_authoritative(registration, transition):
        lifted = _lifted(tables, registration, transition)
        if delete_missing_topics and transition.is_changed and not registration.mappings:
            has = tables.topics.of_broker(registration.broker_name)
            removed = tuple(topic for topic in has if topic not in registration.topics)
    removed_members, superseded = _superseded(tables, registration, transition, now_ms)
    return RegistrationDecision(
        change=SetChange(
            broker_set=transition.after,
            removed_members=removed_members,
            registrant=(registration.key, _row(registration, row, now_ms)),
            queue_changes=queues,
            removed_topics=removed,
            mappings=mappings,
            lifted_overrides=lifted,
        ),
        event=_registered(registration, transition, counted(queues, removed), queues.left_out),
        superseded=superseded,
        notify=_notification(registration, transition),
    )


class _SetTransition(msgspec.Struct, frozen=True):
    """A set before and after one registration."""

    before: RegisteredSet | None
    after: RegisteredSet
    #: Who had the broker id.
    holder: Member | None
    #: What is known of the registrant.
    row: LiveRow | None
    #: The registrant says something else of its topics than before, or nobody had its broker id.
    is_changed: bool


def _transition_of(tables: RouteTables, registration: Registration) -> _SetTransition | RegistrationConflicted:
    """Return the set before and after the registration, or the conflict that refuses it."""
    present = tables.brokers.get(registration.broker_name)
    # An address is one process: a slave that became master drops its former id.
    others = {
        broker_id: member
        for broker_id, member in (present.members if present else {}).items()
        if member.address != registration.address or broker_id == registration.broker_id
    }
    holder = others.get(registration.broker_id)
    if holder and holder.address != registration.address:
        conflict = _conflict(tables, registration, holder)
        if conflict is not None:
            return conflict
    # A difference to a registration that holds no longer is not the only topic: all of it is needed.
    is_whole = registration.base is None
    if holder is None and is_whole and len(registration.topics) + registration.ignored_topics == 1:
        # Java's text, and it leaves an empty set behind. The next full registration repairs it.
        raise RegistrationRefused("register broker failed")
    if holder is None and len(others) >= MEMBERS_MAX:
        raise TooManyMembers(registration.broker_name, MEMBERS_MAX)
    if holder is None and [each.network for each in others.values()].count(registration.network) >= MEMBERS_OF_HOST_MAX:
        raise TooManyMembers(registration.broker_name, MEMBERS_OF_HOST_MAX, " of this host")
    row = tables.live.get(registration.key)
    return _SetTransition(
        present,
        _with_registrant(present, registration, others),
        holder,
        row,
        holder is None or row is None or row.data_version != registration.data_version,
    )


def _is_authoritative(registration: Registration, transition: _SetTransition) -> bool:
    return _is_master(registration) or _is_prime_slave(registration, transition.after)


def _lifted(tables: RouteTables, registration: Registration, transition: _SetTransition) -> tuple[str, ...]:
    """Return the topics whose permission is no longer that of an operator.

    It ends with the next change of the broker's topics that carries the topic.
    """
    overridden = tables.permission_overrides.of(registration.broker_name)
    return tuple(topic for topic in overridden if topic in registration.topics) if transition.is_changed else ()


def _conflict(tables: RouteTables, registration: Registration, holder: Member) -> RegistrationConflicted | None:
    """Return how a registrant is turned away if a live holder of its broker id has a newer state."""
    row = tables.live.get(LiveKey(registration.broker_name, holder.address))
    mine = registration.data_version.state_version
    if row is None or row.cluster != registration.cluster or row.data_version.state_version <= mine:
        return None
    return RegistrationConflicted(
        cluster=registration.cluster,
        broker_name=registration.broker_name,
        broker_id=registration.broker_id,
        address=registration.address,
        state_version=mine,
        holder_address=holder.address,
        holder_state_version=row.data_version.state_version,
    )


def _with_registrant(
    present: RegisteredSet | None, registration: Registration, others: Mapping[int, Member]
) -> RegisteredSet:
    """Return the set with the registrant in its place; whoever registers last sets acting master and zone."""
    holder = others.get(registration.broker_id)
    is_known = holder is not None and holder.address == registration.address
    network = holder.network if holder and is_known else registration.network
    members = {**others, registration.broker_id: Member(registration.address, registration.cluster, network)}
    base = present or RegisteredSet(broker_name=registration.broker_name, cluster=registration.cluster, members={})
    return msgspec.structs.replace(
        base.with_members(members),
        enable_acting_master=bool(registration.enable_acting_master),
        zone_name=registration.zone_name,
    )


def _is_master(registration: Registration) -> bool:
    return registration.broker_id == MASTER_ID


def _is_prime_slave(registration: Registration, broker_set: RegisteredSet) -> bool:
    """Return whether a 5.x broker is authoritative for its set because nobody has a smaller broker id."""
    return registration.enable_acting_master is not None and registration.broker_id == broker_set.min_broker_id


def _queue_changes(
    tables: RouteTables, registration: Registration, transition: _SetTransition, topic_sets_max: int
) -> CooperativeTask[QueueChanges]:
    """Return the topics whose queues differ from what is stored.

    Compared topic by topic even if the data version is the stored one: the later parts of a split registration carry
    the version of the first.
    """
    name = registration.broker_name
    ended = set(_lifted(tables, registration, transition))
    kept = {topic: perm for topic, perm in tables.permission_overrides.of(name).items() if topic not in ended}
    # While a slave acts for the master the set is read only: two writers would split the order of messages.
    mask = ~PERM_WRITE if transition.after.has_acting_master else ~0
    values = _QueueValues(name, mask)
    places = TopicPlaces(tables, transition.after, topic_sets_max)
    has, admitted = tables.topics.of_broker(name), places.admitted(registration.topics.items())
    if kept:
        wanted = with_perms(
            ((topic, values[settings]) for topic, settings in admitted), lambda topic, data: kept.get(topic, data.perm)
        )
        changes = yield from compare_topics(has, wanted, lambda queues: queues)
    else:
        changes = yield from compare_topics(has, admitted, values.__getitem__)
    return changes._replace(left_out=places.left_out)


class _QueueValues(dict[TopicSettings, QueueData]):
    """What is stored of topics, one value for all that are set alike."""

    def __init__(self, broker_name: str, mask: int) -> None:
        super().__init__()
        self._broker_name = broker_name
        #: The permissions that the set may have.
        self._mask = mask

    def __missing__(self, settings: TopicSettings) -> QueueData:
        value = self[settings] = QueueData(
            broker_name=self._broker_name,
            perm=settings.perm & self._mask,
            read_queue_nums=settings.read_queue_nums,
            topic_sys_flag=settings.topic_sys_flag,
            write_queue_nums=settings.write_queue_nums,
        )
        return value


def _row(registration: Registration, row: LiveRow | None, now_ms: int) -> LiveRow:
    renewed = registered(row, registration.connection_id, now_ms) if row else None
    stored = row.filter_servers if row else ()
    return LiveRow(
        cluster=registration.cluster,
        broker_id=registration.broker_id,
        last_heartbeat_ms=now_ms,
        timeout_ms=registration.heartbeat_timeout_ms,
        data_version=registration.data_version,
        connection_id=registration.connection_id,
        registered_ms=now_ms,
        version_since_ms=row.version_since_ms if row and row.data_version == registration.data_version else now_ms,
        period_ms=renewed.period_ms if renewed else PERIOD_MS_DEFAULT,
        older_connections=renewed.older_connections if renewed else (),
        ha_server_addr=registration.ha_server_addr,
        version=registration.version,
        filter_servers=stored if registration.filter_servers is None else registration.filter_servers,
    )


def _superseded(
    tables: RouteTables, registration: Registration, transition: _SetTransition, now_ms: int
) -> tuple[tuple[LiveKey, ...], BrokerRemoved | None]:
    """Return the row of the process that held the broker id at another address; Java leaves it behind for ever."""
    holder = transition.holder
    if holder is None or holder.address == registration.address:
        return (), None
    key = LiveKey(registration.broker_name, holder.address)
    row = tables.live.get(key)
    assert row is not None, "every member has a live row"
    return (key,), removal_event(key, row, DepartureReason.SUPERSEDED, now_ms)


def _registered(
    registration: Registration, transition: _SetTransition, changes: RouteChanges, left_out: int
) -> BrokerRegistered:
    if transition.row is None:
        result = RegistrationResult.FIRST
    else:
        is_changed = transition.is_changed or changes
        result = RegistrationResult.CHANGED if is_changed else RegistrationResult.UNCHANGED
    before = transition.before
    return msgspec.structs.replace(
        unchanged_registration(registration, registration.reported_topics, registration.data_version),
        result=result,
        changes=changes,
        master_changed=(before.master_address if before else None) != transition.after.master_address,
        set_added=before is None,
        ignored_topics=registration.ignored_topics + left_out,
    )


def unchanged_registration(registration: Registration, topics: int, data_version: DataVersion) -> BrokerRegistered:
    """Return the event of a registration that reports the same as the previous one."""
    return BrokerRegistered(
        cluster=registration.cluster,
        broker_name=registration.broker_name,
        broker_id=registration.broker_id,
        address=registration.address,
        result=RegistrationResult.UNCHANGED,
        heartbeat_timeout_ms=registration.heartbeat_timeout_ms,
        data_version=data_version,
        topics=topics,
        ignored_topics=registration.ignored_topics,
        body_bytes=registration.body_bytes,
        changes=RouteChanges(),
        master_changed=False,
        set_added=False,
    )


def master_of(tables: RouteTables, registration: Registration) -> MasterAddresses:
    """Return where the registrant's master is, if it is another broker that lives in the same cluster.

    Where the registrant knows of a newer state, that of the next master epoch, the broker has been superseded and may
    live on as a slave. Its HA address is left out: a broker of 5.5.0 that connects to it stays there for good, out of
    the SyncStateSet. Without one it waits until its next registration, by when the new master has registered.
    """
    broker_set = tables.brokers.get(registration.broker_name)
    address = broker_set.master_address if broker_set else None
    if _is_master(registration) or address is None:
        return MasterAddresses()
    row = tables.live.get(LiveKey(registration.broker_name, address))
    if row is None or row.cluster != registration.cluster:
        return MasterAddresses()
    # A registration that is unchanged was not decoded: its state is that of the registrant's row.
    mine = tables.live.get(registration.key)
    is_superseded = mine is not None and row.data_version.state_version < mine.data_version.state_version
    return MasterAddresses(master_addr=address, ha_server_addr=None if is_superseded else row.ha_server_addr)


def _notification(registration: Registration, transition: _SetTransition) -> NotifyMinBrokerIdChange | None:
    """Return whom to notify that the smallest broker id fell; the registrant knows it by itself."""
    before, after = transition.before, transition.after
    if before is None or registration.broker_id >= before.min_broker_id:
        return None
    others = tuple(member.address for broker_id, member in after.members.items() if broker_id != after.min_broker_id)
    return NotifyMinBrokerIdChange(
        broker_name=registration.broker_name,
        min_broker_id=registration.broker_id,
        min_broker_addr=registration.address,
        offline_broker_addr=None,
        ha_broker_addr=registration.ha_server_addr,
        recipients=others or (registration.address,),
    )
