"""What is done once a decision is stored; log lines, metrics and rows of the history about sets, brokers, elections.

Heartbeats and polls are only counted. Every election is one line, and those that end as the one before are none.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import add
from typing import ClassVar, Final, NamedTuple

import msgspec
from msgspec.structs import asdict

from controller.decisions.election import ElectionResult
from controller.decisions.membership import Registrant
from controller.failover.election_log import LOSSES, CandidateReport, ElectionRecord, NotificationResult, Phases
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import (
    PROOFS,
    BrokerFailure,
    HostsChange,
    HostsChangeKind,
    Probe,
    ProbeOutcome,
    SuspicionReason,
)
from controller.sets.broker_set import BrokerSet, MasterLost, ReplicaAdopted, SetHealth
from history.rows import BrokerRef, HistoryRow, Moment, Record, RowMaker
from history.schemas import CONTROLLER
from history.server_rows import lifecycle
from serving.logging.events import Level
from serving.metrics.counters import BROKERS_MAX, CLUSTERS_MAX
from serving.telemetry.events import Count, Counter, Event, Gauge, Observation, Timer, Total
from store import events as store_events
from store.store import Changed, ControllerMember


class Recipient(NamedTuple):
    """A broker to notify."""

    broker_id: int
    address: str


class NotifyRoleChanged(msgspec.Struct, frozen=True, kw_only=True):
    """Notify living brokers of their master; a later one for the same broker takes its place."""

    broker_name: str
    #: The number of the election in the log of elections.
    election: int
    master: Recipient
    master_epoch: int
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    recipients: tuple[Recipient, ...]
    #: The id of the former master if it is known to lead still: it is notified before the others.
    former_master: int | None = None
    #: When the election was stored; monotonic ms.
    since_ms: int


class ProbeBroker(msgspec.Struct, frozen=True, kw_only=True):
    """Probe a suspect broker."""

    probe: Probe
    #: Where it is by the store: whoever sends heartbeats under its id may be another process.
    address: str
    #: Takes the result, and the other end of the connection; blank without an answer.
    report: Callable[[BrokerKey, ProbeOutcome, str], None]


class CheckReachability(msgspec.Struct, frozen=True, kw_only=True):
    """Probe whether a broker that sends heartbeats is reachable; nothing follows if it is not."""

    key: BrokerKey
    address: str


Effect = NotifyRoleChanged | ProbeBroker | CheckReachability


#: Upper bounds in seconds for the parts of a failover, the shortest of which take milliseconds.
PHASE_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60)
#: The first are those of an election, as `Phases` has them.
_PHASES: Final = ("detect", "judge", "fence", "commit", "notify", "total", "serve")
_RESULTS: Final = tuple(result.value for result in ElectionResult)
#: How a failover ended that brought a new master; otherwise it is the result of its election.
_FAILED_OVER: Final = "failed_over"

# The group and its store

ROLE: Final = Gauge("role", "0 unknown, 1 candidate, 2 follower, 3 leader, as with the Java controller.")
LEADER_CHANGES: Final = Total("leader_changes", "Changes of the leading controller, seen from this one.")
STORE_CALLS, STORE_DURATION = store_events.STORE_CALLS, store_events.STORE_DURATION
SUSPENSIONS: Final = Counter(
    "failure_detection_suspensions",
    "Process pauses and delays of the store, after which no broker was declared failed for a round of heartbeats.",
)
SILENT_HOSTS: Final = Gauge(
    "silent_hosts",
    "Hosts that fell silent together, if they are most; above 0 no master is replaced that may be alive.",
)


def _per_set(name: str, meaning: str, *others: str, combine: Callable[[float, float], float] = add) -> Gauge:
    return Gauge(name, meaning, ("cluster", "broker", *others), None, 2 + len(others), BROKERS_MAX, combine)


# Sets and brokers; only of the leader

ACTIVE_BROKERS: Final = _per_set("active_brokers", "Living brokers of a set.")
BROKER_SETS: Final = Gauge(
    "broker_sets",
    "Broker sets by state.",
    ("cluster", "state"),
    peer_labels=1,
    label_sets_max=CLUSTERS_MAX * len(SetHealth),
    combine=add,
)
REPLICAS: Final = _per_set("replicas", "Brokers of a set, failed ones included.")
SYNC_STATE_SET_SIZE: Final = _per_set("sync_state_set_size", "Brokers in the SyncStateSet of a set.")
MASTER_EPOCH: Final = _per_set("master_epoch", "Master epoch of a set.")
DISPUTED_EPOCHS: Final = Gauge(
    "disputed_epochs", "Sets with brokers that claim a higher master epoch than the stored one without proof."
)
LAST_HEARTBEAT: Final = _per_set(
    "broker_last_heartbeat_timestamp_seconds",
    "Time of the last heartbeat or request of a broker.",
    "broker_id",
    combine=min,
)

# Brokers as this controller judges them. Each controller judges for itself: do not add the numbers of several

SUSPECT_BROKERS: Final = Gauge("suspect_brokers", "Suspect brokers, which this controller is probing.")
PROBES: Final = Counter(
    "probes",
    "Probes of brokers' ports by this controller, by outcome; a closed port, or another broker's, is `no_answer` too.",
    ("outcome",),
    known=tuple((outcome.value,) for outcome in ProbeOutcome if outcome not in PROOFS),
)
BROKERS_FAILED: Final = Counter(
    "brokers_failed",
    "Brokers that this controller declared failed, by first evidence; each controller judges for itself.",
    ("cluster", "reason"),
    peer_labels=1,
    label_sets_max=CLUSTERS_MAX * 2,
)

# Elections

ELECTIONS: Final = Counter(
    "election",
    "Elections by result.",
    ("cluster", "broker", "election_result"),
    peer_labels=2,
    label_sets_max=BROKERS_MAX * len(_RESULTS),
    each=_RESULTS,
)
LOGS_SHRUNK: Final = Counter(
    "log_shrank",
    "Brokers in sync with less of their log in an election than they were known to have.",
    ("cluster",),
    peer_labels=1,
    label_sets_max=CLUSTERS_MAX,
)
ELECTION_DURATION: Final = Timer(
    "election_duration_seconds",
    "From the request, or the loss of the master, until the result was stored.",
    ("election_result",),
    known=tuple((result,) for result in _RESULTS),
)
FAILOVERS: Final = Counter(
    "failovers",
    "Elections after the loss of a master, by evidence and outcome.",
    ("cluster", "cause", "outcome"),
    peer_labels=1,
    label_sets_max=CLUSTERS_MAX * 16,
)
FAILOVER_PHASES: Final = Timer(
    "failover_phase_duration_seconds",
    "Phases of a failover: detect, judge, fence (until no host that checks roles led clients to a silent master), "
    "commit, notify (until the new master confirmed), total; serve: from the stored result until the new master was "
    "seen to take messages.",
    ("phase",),
    known=tuple((phase,) for phase in _PHASES),
    bounds=PHASE_S,
)
NOTIFICATIONS: Final = Counter(
    "role_notifications",
    "Notifications of a broker about its role, by result.",
    ("result",),
    known=(("ok",), ("refused",), ("failed",), ("superseded",)),
)


class SetRow(NamedTuple):
    """A row `controller` of the history, about a set or a broker."""

    event_type: str
    broker: BrokerRef
    columns: Mapping[str, object]
    #: How long before it was told.
    ago_ms: int = 0

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        ago_us = self.ago_ms * 1000
        then = Moment(moment.unix_us - ago_us, moment.mono_us - ago_us)
        columns = dict(self.columns)
        if isinstance(silent_ms := columns.get("silent_ms"), int):
            columns["last_heartbeat_time"] = then.unix_us - silent_ms * 1000
        yield maker.row(CONTROLLER, self.event_type, then, self.broker, **columns)


class LeadershipGained(Event, frozen=True, kw_only=True):
    """This controller leads: it has loaded all sets and answers for them."""

    group: str
    duration_ms: int
    broker_sets: int

    def rows(self) -> tuple[Record]:
        return (lifecycle("leader_gained", reason=self.group),)


class LeadershipLost(Event, frozen=True, kw_only=True):
    """This controller no longer leads and answers CONTROLLER_NOT_LEADER. Brokers keep their roles."""

    level = Level.WARNING
    advice = "None if another controller leads; otherwise check the store."
    group: str
    leader: ControllerMember | None

    def line(self) -> Mapping[str, object]:
        leader = None if self.leader is None else f"{self.leader.id} at {self.leader.address}"
        return {"group": self.group, "leader": leader}

    def rows(self) -> tuple[Record]:
        return (lifecycle("leader_lost", reason=self.group),)


class StoreFailed(Event, frozen=True, kw_only=True):
    """A change was not stored, or its outcome is unknown. The request is refused; the next one is decided again."""

    level = Level.ERROR
    advice = "Check the disk, or etcd: see controller/OPERATIONS.md."
    broker: str
    error: str


# As the page has them: those of the store itself.
StoreFileRemoved, StoreFileUnseen = store_events.StoreFileRemoved, store_events.StoreFileUnseen
StoreCallsFailing, StoreCallsAnswered = store_events.StoreCallsFailing, store_events.StoreCallsAnswered
StoreCalled = store_events.StoreCalled


class FailureDetectionSuspended(Event, frozen=True, kw_only=True):
    """This process paused, or the store took more than 1 s for a change, so brokers may only seem silent. No broker is
    declared failed for one round of heartbeats."""

    level = Level.WARNING
    advice = (
        "Check rocketmq_controller_store_txn_duration_seconds: a slow store or its disk. If it is low, find what "
        "paused the process: no CPU time, swapping, a paused machine."
    )
    counter = SUSPENSIONS
    held_ms: int


class HostsSilent(Event, frozen=True, kw_only=True):
    """More than half of the other hosts with brokers fell silent together, so this controller may be cut off. Until
    they send heartbeats again it replaces only masters whose port refuses connections."""

    level = Level.ERROR
    advice = (
        "Check the network of this controller. If the hosts are really down, elect masters with `mqadmin "
        'electMaster`: see controller/OPERATIONS.md, section "Most hosts are silent".'
    )
    silent_hosts: int
    other_hosts: int
    silent_ms: int


class SilentHostsGivenUp(Event, frozen=True, kw_only=True):
    """Most hosts were silent for a minute while another one sent heartbeats. From now on their brokers are judged like
    any others, and their masters are replaced."""

    level = Level.ERROR
    advice = "Start the hosts or repair the network. Brokers that return follow the new masters."
    silent_hosts: int
    other_hosts: int
    silent_ms: int


class HeartbeatsResumed(Event, frozen=True, kw_only=True):
    """Most hosts of brokers were silent for `gap_ms` and send heartbeats again. Meanwhile only masters whose port
    refused connections were replaced; brokers have as long to send a heartbeat as after a start of the controller."""

    level = Level.WARNING
    advice = "If the hosts did not all stop at once, check the network between this controller and them."
    gap_ms: int


def hosts_changed(news: HostsChange) -> Event:
    if news.event is HostsChangeKind.BACK:
        return HeartbeatsResumed(gap_ms=news.silent_ms)
    event = HostsSilent if news.event is HostsChangeKind.SILENT else SilentHostsGivenUp
    silence = news.silence
    return event(silent_hosts=silence.silent, other_hosts=silence.hosts, silent_ms=news.silent_ms)


class _OfBroker(Event, frozen=True, kw_only=True):
    keys: ClassVar[tuple[str, ...]] = ("cluster", "broker", "broker_id", "addr", "was_master")
    key: BrokerKey
    #: None if there is none that is known here.
    broker_set: BrokerSet | None

    @property
    def address(self) -> str | None:
        replica = self.broker_set.replicas.get(self.key.broker_id) if self.broker_set is not None else None
        return replica.address if replica is not None else None

    def line(self) -> dict[str, object]:
        broker_set = self.broker_set
        return {
            "cluster": broker_set.cluster if broker_set is not None else None,
            "broker": self.key.broker_name,
            "broker_id": self.key.broker_id,
            "addr": self.address,
            "was_master": broker_set is not None and broker_set.master == self.key.broker_id,
        }


class BrokersUnreachable(_OfBroker, frozen=True, kw_only=True):
    """`brokers` brokers, this one among them, send heartbeats but never answered a probe of their port. A refused
    connection does not prove the failure of such a broker; its failover takes some seconds longer."""

    level = Level.WARNING
    advice = "Let controllers reach the listenPort of the brokers: see controller/OPERATIONS.md."
    keys = (*_OfBroker.keys, "brokers")
    brokers: int

    def line(self) -> dict[str, object]:
        return super().line() | {"brokers": self.brokers}


class BrokerIdApplied(Event, frozen=True, kw_only=True):
    """A broker obtained its id, permanently."""

    cluster: str
    broker: str
    broker_id: int
    addr: str
    set_added: bool


class BrokerStarted(Event, frozen=True, kw_only=True):
    """A broker started, or was adopted, and registered with its id. `adopted` is true at each start of a broker that
    was taken in with an id of its own: from another controller, or one that had since gone to another broker."""

    keys = ("cluster", "broker", "broker_id", "addr", "old_addr", "adopted")
    registrant: Registrant
    old_addr: str | None
    adopted: bool

    def line(self) -> Mapping[str, object]:
        return {**_started(self.registrant), "old_addr": self.old_addr, "adopted": self.adopted}

    def rows(self) -> tuple[SetRow]:
        broker = self.registrant
        ref = BrokerRef(broker.cluster, broker.broker_name, broker.broker_id, broker.address)
        return (SetRow("registered", ref, {}),)


class MasterRestarted(Event, frozen=True, kw_only=True):
    """The recorded master has restarted, so it no longer leads. The next election begins a new epoch."""

    level = Level.WARNING
    keys = ("cluster", "broker", "broker_id", "addr", "master_epoch", "sync_state_set_epoch")
    registrant: Registrant
    broker_set: BrokerSet

    def line(self) -> Mapping[str, object]:
        return {**_started(self.registrant), **_epochs(self.broker_set)}


def broker_started(registrant: Registrant, changed: Changed[None]) -> Iterator[Event]:
    before, after = changed.before, changed.after
    assert after is not None, "only members start"
    if before is not None and before.differs_only_in_log_ends(after) and after.is_rebuilding:
        # It has not started: while its set is put together its polls are answered so that it registers again.
        return
    old = before.replicas.get(registrant.broker_id) if before is not None else None
    yield BrokerStarted(
        registrant=registrant,
        old_addr=old.address if old is not None and old.address != registrant.address else None,
        adopted=after.replicas[registrant.broker_id].is_adopted,
    )
    events = changed.decision.events
    is_new = any(isinstance(event, ReplicaAdopted) for event in events)
    if not is_new and any(isinstance(event, MasterLost) for event in events):
        yield MasterRestarted(registrant=registrant, broker_set=after)


class BrokerSuspected(_OfBroker, frozen=True, kw_only=True):
    """The connection of a broker closed; the controller probes its port."""


class BrokerFailed(_OfBroker, frozen=True, kw_only=True):
    """A broker has failed; `reason` says why the controller decided so. A failed master is replaced."""

    level = Level.WARNING
    advice = "Start the broker again."
    keys = (*_OfBroker.keys, "reason", "evidence", "silent_ms", "suspected_ms")
    failure: BrokerFailure
    #: How long ago it was judged: an election is timed from then, and would seem to begin before the failure.
    ago_ms: int

    def line(self) -> dict[str, object]:
        failure = self.failure
        return super().line() | {
            "reason": failure.reason,
            "evidence": failure.why.value,
            "silent_ms": failure.silent_ms,
            "suspected_ms": failure.judged_ms - failure.suspected_ms,
        }

    def counted(self) -> tuple[Count]:
        cluster = self.broker_set.cluster if self.broker_set is not None else ""
        return (Count(BROKERS_FAILED, (cluster, self.failure.why.value)),)

    def rows(self) -> Iterator[SetRow]:
        failure, broker_set = self.failure, self.broker_set
        if broker_set is not None:
            broker = BrokerRef(broker_set.cluster, self.key.broker_name, self.key.broker_id, self.address)
            columns = {
                "reason": failure.reason,
                "cause": failure.why.value,
                "silent_ms": failure.silent_ms,
                "duration_ms": failure.judged_ms - failure.suspected_ms,
                "timeout_ms": failure.timeout_ms,
                "master_epoch": broker_set.master_epoch,
            }
            yield SetRow("failure_detected", broker, columns, self.ago_ms)


class BrokerProbed(Event, frozen=True, kw_only=True):
    """A probe of a broker; anybody may read metrics, so a closed port counts as one without an answer."""

    level = None
    outcome: ProbeOutcome

    def counted(self) -> tuple[Count]:
        return (Count(PROBES, ((ProbeOutcome.NO_ANSWER if self.outcome in PROOFS else self.outcome).value,)),)


class SyncStateSetAltered(Event, frozen=True, kw_only=True):
    """The master reported a new SyncStateSet."""

    advice = "If it shrank, check the broker that left it."
    keys = ("cluster", "broker", "master", "old", "new", "master_epoch", "sync_state_set_epoch")
    #: Who reported it.
    master: int
    before: BrokerSet
    after: BrokerSet

    def line(self) -> Mapping[str, object]:
        return {
            "cluster": self.after.cluster,
            "broker": self.after.broker_name,
            "master": self.master,
            "old": sorted(self.before.sync_state_set),
            "new": sorted(self.after.sync_state_set),
            **_epochs(self.after),
        }

    def rows(self) -> tuple[SetRow]:
        after = self.after
        columns = {
            **_epochs(after),
            "sync_state_set": sorted(after.sync_state_set),
            "new_master": after.master,
        }
        return (SetRow("sync_set_changed", BrokerRef(after.cluster, after.broker_name), columns),)


class BrokersCleaned(Event, frozen=True, kw_only=True):
    """An operator removed brokers, or a whole set."""

    level = Level.WARNING
    audit = True
    keys = ("cluster", "broker", "broker_ids", "set_removed", "was_master")
    before: BrokerSet
    after: BrokerSet | None

    @property
    def gone(self) -> frozenset[int]:
        return frozenset(self.before.replicas) - frozenset(self.after.replicas if self.after is not None else ())

    def line(self) -> Mapping[str, object]:
        return {
            "cluster": self.before.cluster,
            "broker": self.before.broker_name,
            "broker_ids": sorted(self.gone),
            "set_removed": self.after is None,
            "was_master": self.before.master in self.gone,
        }


class BrokerSetExpired(Event, frozen=True, kw_only=True):
    """There are more than 10,000 sets. This one never had a master and none of its brokers sent a heartbeat for six
    hours, so it was removed and its name is free."""

    advice = (
        "If the set was real: its brokers are answered 2010 until their brokerIdentity is deleted, see "
        "controller/OPERATIONS.md."
    )
    keys = ("cluster", "broker", "broker_ids")
    broker_set: BrokerSet

    def line(self) -> Mapping[str, object]:
        broker_set = self.broker_set
        ids = sorted(broker_set.replicas)
        return {"cluster": broker_set.cluster, "broker": broker_set.broker_name, "broker_ids": ids}


class ClusterSeen(Event, frozen=True, kw_only=True):
    """A cluster has sets: what can happen in it stands at 0, as a rate misses a counter that is born at 1."""

    level = None
    cluster: str

    def counted(self) -> Iterator[Count]:
        for why in (SuspicionReason.CLOSED.value, SuspicionReason.SILENT.value):
            yield Count(FAILOVERS, (self.cluster, why, _FAILED_OVER), 0)
            yield Count(BROKERS_FAILED, (self.cluster, why), 0)
        yield Count(LOGS_SHRUNK, (self.cluster,), 0)


class ElectionHeld(Event, frozen=True, kw_only=True):
    """An election, also one that ended as the one before."""

    level = None
    record: ElectionRecord
    is_new: bool
    seconds: float

    def counted(self) -> tuple[Count]:
        record = self.record
        return (Count(ELECTIONS, (record.cluster, record.broker_name, record.reported_result.value)),)

    def observed(self) -> tuple[Observation]:
        return (Observation(ELECTION_DURATION, self.seconds, (self.record.reported_result.value,)),)


class _Election(Event, frozen=True, kw_only=True):
    keys: ClassVar[tuple[str, ...]] = (
        "election",
        "cluster",
        "broker",
        "trigger",
        "cause",
        "reason",
        "old_master",
        "new_master",
        "master_epoch",
        "sync_state_set_epoch",
        "candidates",
        *Phases.__struct_fields__,
    )
    record: ElectionRecord

    def counted(self) -> Iterator[Count]:
        record, cause = self.record, self.record.cause
        if cause.trigger in LOSSES:
            is_over = record.result is ElectionResult.NEW_MASTER
            outcome = _FAILED_OVER if is_over else record.result.value
            yield Count(FAILOVERS, (record.cluster, cause.evidence or cause.trigger.value, outcome))

    def observed(self) -> Iterator[Observation]:
        for phase, lasted_ms in zip(_PHASES, asdict(self.record.phases).values(), strict=False):
            if lasted_ms is not None:
                yield Observation(FAILOVER_PHASES, lasted_ms / 1000, (phase,))

    def line(self) -> dict[str, object]:
        record = self.record
        return {
            "election": record.number,
            "cluster": record.cluster,
            "broker": record.broker_name,
            "trigger": record.cause.trigger.value,
            "cause": record.cause.why,
            "reason": record.reason,
            "old_master": record.old_master,
            "new_master": record.new_master,
            **_epochs(record),
            "candidates": [
                {
                    "broker_id": report.broker_id,
                    "in_sync": report.in_sync,
                    "epoch": report.epoch,
                    "max_offset": report.max_offset,
                    "verdict": report.verdict.value,
                }
                for report in record.reports
            ],
            **asdict(record.phases),
        }

    def rows(self) -> Iterator[SetRow]:
        record, master = self.record, self.record.new_master
        address = next((report.address for report in record.reports if report.broker_id == master), None)
        is_new = record.result is ElectionResult.NEW_MASTER
        common = {
            "failover_id": _failover_id(record) if is_new else None,
            "cause": record.cause.trigger.value,
            "old_master": record.old_master,
        }
        began, commit_ms = {**common, "reason": record.cause.why}, record.phases.commit_ms
        yield SetRow("election_started", BrokerRef(record.cluster, record.broker_name), began, commit_ms)
        columns = {
            **common,
            "result": record.reported_result.value,
            "reason": record.reason,
            "new_master": master,
            **_epochs(record),
            "duration_ms": commit_ms,
            "bytes_at_stake": record.bytes_at_stake,
        }
        yield SetRow("elected", BrokerRef(record.cluster, record.broker_name, master, address), columns)


class MasterElected(_Election, frozen=True, kw_only=True):
    """A set has a new master. `candidates` shows the log of each broker and why it was not elected."""


class UncleanMasterElected(_Election, frozen=True, kw_only=True):
    """The new master may lack acknowledged messages: it is outside the SyncStateSet, as enableElectUncleanMaster
    allows, or every log has lost data that it was known to have (`log_shrank`)."""

    level = Level.ERROR
    advice = "Set enableElectUncleanMaster to false again. Compare the logs with `mqadmin getBrokerEpoch`."
    keys = (*_Election.keys, "bytes_at_stake")

    def line(self) -> dict[str, object]:
        return super().line() | {"bytes_at_stake": self.record.bytes_at_stake}


class LogShrank(Event, frozen=True, kw_only=True):
    """A broker in sync reports `lost_bytes` less of its log than it was known to have: its disk is empty or not
    mounted, an older copy was restored, or a power failure took the end. It is not elected while an absent broker may
    have the rest; `new_master` leads nevertheless."""

    level = Level.ERROR
    advice = (
        "Without a `new_master`, start the brokers that are away, the former master first. See "
        'controller/OPERATIONS.md, section "A log that is shorter than it was".'
    )
    keys = ("election", "cluster", "broker", "broker_id", "addr", "max_offset", "lost_bytes", "new_master")
    record: ElectionRecord
    report: CandidateReport

    def counted(self) -> tuple[Count]:
        return (Count(LOGS_SHRUNK, (self.record.cluster,)),)

    def line(self) -> Mapping[str, object]:
        record, report = self.record, self.report
        return {
            "election": record.number,
            "cluster": record.cluster,
            "broker": record.broker_name,
            "broker_id": report.broker_id,
            "addr": report.address,
            "max_offset": report.max_offset,
            "lost_bytes": report.lost_bytes,
            "new_master": record.new_master,
        }


class MasterKept(_Election, frozen=True, kw_only=True):
    """An election was requested and the present master stays. `reason` says why no other broker was elected."""


class ElectionFailed(_Election, frozen=True, kw_only=True):
    """A set has no master and accepts no messages; `reason` says why no living broker is certain to have all."""

    level = Level.ERROR
    advice = (
        "Start a broker that `advice` names, or the brokers that have not answered. The command in `force` appoints a "
        "master and loses `bytes_at_stake`."
    )
    keys = (*_Election.keys, "bytes_at_stake", "advice", "force")

    def line(self) -> dict[str, object]:
        record = self.record
        to_do = {name: text for name, text in (("advice", record.advice), ("force", record.force)) if text}
        return super().line() | {"bytes_at_stake": record.bytes_at_stake} | to_do


def election_held(record: ElectionRecord, *, is_new: bool, seconds: float) -> Iterator[Event]:
    """Yield the events of an election; not `is_new` if it only ended as the one before."""
    yield ElectionHeld(record=record, is_new=is_new, seconds=seconds)
    if not is_new:
        return
    yield _event_of(record)(record=record)
    for report in record.reports:
        if report.lost_bytes and report.in_sync:
            yield LogShrank(record=record, report=report)


class MasterEpochDisputed(Event, frozen=True, kw_only=True):
    """The brokers in `claims` have claimed higher master epochs than the stored one for 8 s, without proof: none of
    them is in sync, or the master of the stored epoch sends heartbeats, or the epoch is too high. The controller
    ignores the claims."""

    level = Level.ERROR
    advice = (
        "See dashboards/runbooks/MasterEpochDisputed.md. Stop the broker if it does not belong to this set. If the "
        "store was restored from an old backup, designate a master."
    )
    keys = ("cluster", "broker", "master", "sync_state_set", "claims", "master_epoch", "sync_state_set_epoch")
    broker_set: BrokerSet
    #: The epochs that brokers claim, by id.
    claims: Mapping[int, int]

    def line(self) -> Mapping[str, object]:
        broker_set, claims = self.broker_set, self.claims
        return {
            "cluster": broker_set.cluster,
            "broker": broker_set.broker_name,
            "master": broker_set.master,
            "sync_state_set": sorted(broker_set.sync_state_set),
            "claims": [
                {"broker_id": i, "addr": broker_set.replicas[i].address, "epoch": claims[i]} for i in sorted(claims)
            ],
            **_epochs(broker_set),
        }


class RoleNotificationResent(Event, frozen=True, kw_only=True):
    """The master has not confirmed its epoch, so the brokers of the set are notified of it again. The leader is new,
    and either nothing was written between the last two elections, or the former leader ended before it notified any
    broker."""

    cluster: str
    broker: str
    master: int | None
    master_epoch: int
    sync_state_set_epoch: int


class RoleNotified(Event, frozen=True, kw_only=True):
    """Whether a broker confirmed its role."""

    level = None
    effect: NotifyRoleChanged
    recipient: Recipient
    notified: NotificationResult
    #: None if its election is not the last one that is known of the set.
    record: ElectionRecord | None

    def counted(self) -> tuple[Count]:
        return (Count(NOTIFICATIONS, (self.notified.result,)),)

    def observed(self) -> Iterator[Observation]:
        after_ms, record = self.notified.after_ms, self.record
        if self.notified.result == "ok" and self.recipient.broker_id == self.effect.master.broker_id:
            yield Observation(FAILOVER_PHASES, after_ms / 1000, ("notify",))
            if record is not None and record.phases.suspect_ms is not None:
                yield Observation(FAILOVER_PHASES, (record.phases.total_ms + after_ms) / 1000, ("total",))

    def rows(self) -> tuple[SetRow]:
        effect, recipient, record = self.effect, self.recipient, self.record
        cluster = record.cluster if record is not None else None
        columns = {
            "failover_id": _failover_id(record) if record is not None else None,
            "result": self.notified.result,
            "duration_ms": self.notified.after_ms,
            "master_epoch": effect.master_epoch,
            "new_master": effect.master.broker_id,
        }
        broker = BrokerRef(cluster, effect.broker_name, recipient.broker_id, recipient.address)
        return (SetRow("role_notified", broker, columns),)


class RoleNotificationFailed(Event, frozen=True, kw_only=True):
    """A broker did not confirm its new role after `tries` tries. It learns of the master by its own poll within 5 s."""

    level = Level.WARNING
    broker: str
    broker_id: int
    addr: str
    master_epoch: int
    sync_state_set_epoch: int
    tries: int
    error: str


def _started(registrant: Registrant) -> dict[str, object]:
    return {
        "cluster": registrant.cluster,
        "broker": registrant.broker_name,
        "broker_id": registrant.broker_id,
        "addr": registrant.address,
    }


def _epochs(of: BrokerSet | ElectionRecord) -> dict[str, object]:
    return {"master_epoch": of.master_epoch, "sync_state_set_epoch": of.sync_state_set_epoch}


def _event_of(record: ElectionRecord) -> type[_Election]:
    result = record.reported_result
    if result is ElectionResult.NOBODY:
        return ElectionFailed
    if result is ElectionResult.KEPT:
        return MasterKept
    return UncleanMasterElected if record.is_unclean else MasterElected


def _failover_id(record: ElectionRecord) -> str:
    return f"{record.cluster}/{record.broker_name}/{record.master_epoch}"
